//! In-process clients of a router, and requests whose connection is reset.

use axum::Router;
use axum::body::Body;
use http::Request;
use kube::Client;
use tower::ServiceExt;

use crate::api::User;

/// Response extension that makes the connection's owner reset the connection instead of sending the response. The
/// server and in-process clients apply it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResetConnection;

/// Error of an in-process client in place of a connection reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer")]
pub(crate) struct ConnectionReset;

/// Creates a client of a router, which acts as `user`. The client needs a Tokio runtime and no sockets.
pub(crate) fn client(router: Router, user: User) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(user.clone());
        let answer = router.clone().oneshot(request);
        async {
            let Ok(response) = answer.await;
            match response.extensions().get::<ResetConnection>() {
                Some(_) => Err(ConnectionReset),
                None => Ok(response),
            }
        }
    });
    Client::new(service, "default")
}
