//! The sandbox's API server over plain HTTP on loopback, and a client for it. Encryption is not under test.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Uri};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tower::ServiceExt as _;

/// Token of the agents.
pub const TOKEN: &str = "agent-token";

/// Serves until the runtime ends. Returns the address.
pub async fn serve(router: Router) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            let router = router.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let router = router.clone();
                    async move { Ok::<_, Infallible>(router.oneshot(request.map(Body::new)).await.unwrap_or_default()) }
                });
                // Killed clients close connections at any point.
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// Client of the server.
pub fn client(server: &str) -> kube::Client {
    let server = server.to_owned();
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http::<kube::client::Body>();
    let service = tower::ServiceBuilder::new()
        .map_request(move |mut request: Request<kube::client::Body>| {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let whole = format!("{server}{path}").parse::<Uri>();
            if let Ok(whole) = whole {
                *request.uri_mut() = whole;
            }
            request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer agent-token"));
            request
        })
        .service(http);
    kube::Client::new(service, "default")
}
