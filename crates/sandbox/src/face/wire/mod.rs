//! What happens between a client and the API server: every request is logged, and faults are put in its way.
//!
//! Wraps any router, and so works in-process and over TLS alike. Never looks into objects, and never answers in place of
//! the server except where a fault tells it to.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use tower::ServiceExt;

use crate::api::{Api, User};

mod fault;
mod log;
mod refusal;
mod request;
mod stream;

pub use fault::{Fault, FaultKind, Faults, Injected, Matcher};
pub use log::{Entry, RequestLog};
pub use request::{ApiRequest, Form};

#[cfg(test)]
mod tests;

/// Marks an answer that must not reach the client: whoever owns the connection cuts it instead. It lies in the
/// response's extensions. [`serve`](super::serve::serve) heeds it; in-process, see [`Wire::service`].
#[derive(Debug, Clone, Copy)]
pub struct ResetConnection;

/// The error that a client without a connection sees where another would see its connection reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer")]
pub struct ConnectionReset;

/// The request log and the faults of one server. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct Wire {
    /// What was asked.
    pub log: RequestLog,
    /// What goes wrong.
    pub faults: Faults,
}

impl Wire {
    /// No requests yet, and no faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts the wire in front of a router.
    pub fn wrap(&self, router: Router) -> Router {
        // A layer of the router itself would see only the paths that it has routes for.
        Router::new().fallback_service(router).layer(middleware::from_fn_with_state(self.clone(), pass))
    }

    /// Puts the wire in front of a router, for clients in the same process: a reset is an error here.
    pub fn service(
        &self,
        router: Router,
    ) -> impl tower::Service<Request<Body>, Response = Response, Error = ConnectionReset, Future: Send>
    + Clone
    + Send
    + 'static {
        let router = self.wrap(router);
        tower::service_fn(move |request: Request<Body>| {
            let router = router.clone();
            async move {
                let Ok(response) = router.oneshot(request).await;
                match response.extensions().get::<ResetConnection>() {
                    Some(_) => Err(ConnectionReset),
                    None => Ok(response),
                }
            }
        })
    }

    /// A client in the same process, whose requests pass the wire and are `user`'s. Needs a Tokio runtime.
    #[must_use]
    pub fn client(&self, api: &Api, user: User) -> kube::Client {
        let service = self.service(api.router()).map_request(move |request: http::Request<kube::client::Body>| {
            let (mut parts, body) = request.into_parts();
            parts.extensions.insert(user.clone());
            Request::from_parts(parts, Body::new(body))
        });
        kube::Client::new(service, "default")
    }
}

/// Logs a request, then lets it through or does to it what the faults say.
async fn pass(State(wire): State<Wire>, request: Request, next: Next) -> Response {
    let api = ApiRequest::of(request.method(), request.uri(), request.headers());
    let seen = wire.log.begin(&api);
    let mut answer: Option<FaultKind> = None;
    for kind in wire.faults.strike(&api) {
        match kind {
            FaultKind::Latency(delay) => tokio::time::sleep(delay).await,
            other => answer = Some(other),
        }
    }
    let response = match answer {
        None | Some(FaultKind::Latency(_)) => next.run(request).await,
        Some(FaultKind::Hang) => std::future::pending().await,
        Some(FaultKind::Reset) => reset(),
        Some(FaultKind::LoseAnswer) => {
            next.run(request).await;
            reset()
        }
        Some(FaultKind::Status { code, retry_after }) => refusal::of(code, retry_after),
        Some(FaultKind::ContinueExpired) => refusal::continue_expired(request.uri()),
        Some(FaultKind::CutBody { after_bytes }) => stream::cut(next.run(request).await, after_bytes),
        Some(FaultKind::CloseWatch { after_events }) => stream::close(next.run(request).await, after_events),
        Some(FaultKind::ExpireWatch { after_events }) => stream::expire(next.run(request).await, after_events),
    };
    let status = response.extensions().get::<ResetConnection>().is_none().then(|| response.status());
    wire.log.end(seen, status);
    response
}

fn reset() -> Response {
    // The body breaks too, for an owner of the connection that does not know the mark.
    let broken = futures::stream::once(async { Err::<bytes::Bytes, _>(ConnectionReset) });
    let mut response = Response::new(Body::from_stream(broken));
    response.extensions_mut().insert(ResetConnection);
    response
}
