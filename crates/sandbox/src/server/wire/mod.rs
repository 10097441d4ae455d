//! Request log and injected faults between clients and the API server.
//!
//! Wraps any router, in-process and over TLS. Does not read objects, and responds in place of the server only for an
//! injected fault.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;

use crate::api::{Api, User};
use crate::in_process::{self, ConnectionReset, ResetConnection};

mod fault;
mod log;
mod refusal;
mod request;
pub(crate) mod stream;

pub use fault::{Fault, FaultKind, Faults, InjectedFault, Matcher};
pub use log::{Entry, RequestLog};
pub use request::ApiRequest;

#[cfg(test)]
mod tests;

/// Request log and faults of one server; clones share both.
#[derive(Debug, Clone, Default)]
pub struct Wire {
    /// Log of the requests.
    pub log: RequestLog,
    /// Injected faults.
    pub faults: Faults,
}

impl Wire {
    /// Creates an empty log without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wraps a router with the log and the faults.
    pub fn wrap(&self, router: Router) -> Router {
        // A layer of the router itself would see only paths with routes.
        Router::new().fallback_service(router).layer(middleware::from_fn_with_state(self.clone(), log_and_inject))
    }

    /// Creates an in-process client of `user` behind this log and these faults. Needs a Tokio runtime.
    #[must_use]
    pub fn client(&self, api: &Api, user: User) -> kube::Client {
        in_process::client(self.wrap(api.router()), user)
    }
}

/// Logs a request and applies its faults.
async fn log_and_inject(State(wire): State<Wire>, request: Request, next: Next) -> Response {
    let api = ApiRequest::of(request.method(), request.uri(), request.headers());
    let sequence = wire.log.begin(&api);
    let mut effect: Option<FaultKind> = None;
    for kind in wire.faults.effects_on(&api) {
        match kind {
            FaultKind::Latency(delay) => tokio::time::sleep(delay).await,
            other => effect = Some(other),
        }
    }
    let response = match effect {
        None | Some(FaultKind::Latency(_)) => next.run(request).await,
        Some(FaultKind::Hang) => std::future::pending().await,
        Some(FaultKind::Reset) => reset(),
        Some(FaultKind::LoseAnswer) => {
            next.run(request).await;
            reset()
        }
        Some(FaultKind::Status { code, retry_after }) => refusal::status_response(code, retry_after),
        Some(FaultKind::Denied(message)) => refusal::denied(&message),
        Some(FaultKind::ContinueExpired) => refusal::continue_expired(request.uri()),
        Some(FaultKind::CutBody { after_bytes }) => stream::cut(next.run(request).await, after_bytes),
        Some(FaultKind::CloseWatch { after_events }) => stream::close(next.run(request).await, after_events),
        Some(FaultKind::ExpireWatch { after_events }) => stream::expire(next.run(request).await, after_events),
    };
    let status = response.extensions().get::<ResetConnection>().is_none().then(|| response.status());
    wire.log.end(sequence, status);
    response
}

fn reset() -> Response {
    // The body fails too, for connection owners that do not check the extension.
    let broken = futures::stream::once(async { Err::<bytes::Bytes, _>(ConnectionReset) });
    let mut response = Response::new(Body::from_stream(broken));
    response.extensions_mut().insert(ResetConnection);
    response
}
