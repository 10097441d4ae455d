//! HTTP server of the agent: `/metrics`, and `/healthz` with its alias `/livez`. Read-only.
//!
//! `/healthz` reports only that the process is alive. It covers neither the kubelet nor the API server, because a
//! restart of the agent would fix neither.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::metrics::{MEDIA_TYPE, Metrics};

/// Maximum number of connections. One more ends the oldest, so that idle connections never delay a probe.
const MAX_CONNECTIONS: usize = 32;
/// Time limit of a connection, which serves one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Listening HTTP endpoint.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// Listens on this address.
    ///
    /// # Errors
    /// The address cannot be bound: for example, the port is in use, or the address does not belong to this host.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Listening address, with the port chosen by the system if port 0 was requested.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the future is dropped, which also ends every connection.
    pub async fn serve(self, metrics: Metrics) {
        let mut connections = JoinSet::new();
        let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    while connections.try_join_next().is_some() {}
                    by_age.retain(|connection| !connection.is_finished());
                    if by_age.len() >= MAX_CONNECTIONS
                        && let Some(oldest) = by_age.pop_front()
                    {
                        oldest.abort();
                    }
                    let served = serve_connection(stream, metrics.clone());
                    by_age.push_back(connections.spawn(async move {
                        let _ = tokio::time::timeout(CONNECTION_TIMEOUT, served).await;
                    }));
                }
                // Usually out of file descriptors; retrying at once would not help.
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, metrics: Metrics) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = respond(&request, &metrics);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    // CONNECTION_TIMEOUT covers the headers.
    server.keep_alive(false).header_read_timeout(None);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("a connection failed: {error}");
    }
}

fn respond<B>(request: &Request<B>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, media_type, body) = match request.uri().path() {
        "/healthz" | "/livez" | "/metrics" if !is_read => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET and HEAD\n".to_owned())
        }
        "/healthz" | "/livez" => (StatusCode::OK, "text/plain", "ok".to_owned()),
        "/metrics" => (StatusCode::OK, MEDIA_TYPE, metrics.text()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "not found; available: /metrics, /healthz\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::ledger::Ledger;

    /// Sends a request, given as method and path, and returns the response.
    async fn send(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        stream
            .write_all(format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        text
    }

    #[tokio::test]
    async fn serves_metrics_and_healthz() {
        let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        let (address, metrics) = (endpoint.address(), Metrics::default());
        metrics.update(&Ledger::default(), true);
        let requests = async {
            let text = send(address, "GET /metrics").await;
            assert!(text.starts_with("HTTP/1.1 200 OK\r\ncontent-type: application/openmetrics-text"), "{text}");
            assert!(text.contains("kubelet_node_config_error 1\n"), "{text}");
            assert!(send(address, "GET /healthz").await.ends_with("\r\n\r\nok"));
            assert!(send(address, "POST /healthz").await.starts_with("HTTP/1.1 405"));
            assert!(send(address, "GET /").await.starts_with("HTTP/1.1 404"));
            // An idle connection does not block others.
            let idle = TcpStream::connect(address).await.expect("connects");
            assert!(send(address, "HEAD /healthz").await.starts_with("HTTP/1.1 200"));
            drop(idle);
        };
        tokio::select! {
            () = endpoint.serve(metrics) => panic!("ended"),
            () = requests => {}
        }
    }

    /// A kubelet's probe fails after a second by default.
    #[tokio::test]
    async fn answers_probes_beside_idle_connections() {
        for count in [100, 1000] {
            let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
            let address = endpoint.address();
            let requests = async {
                let mut idle = Vec::new();
                for index in 0..count {
                    let mut stream = TcpStream::connect(address).await.expect("connects");
                    // Half of them began a request.
                    if index % 2 == 0 {
                        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await;
                    }
                    idle.push(stream);
                }
                for _ in 0..3 {
                    let answer = tokio::time::timeout(Duration::from_secs(2), send(address, "GET /healthz")).await;
                    assert!(answer.expect("in time").ends_with("\r\n\r\nok"), "{count}");
                }
            };
            tokio::select! {
                () = endpoint.serve(Metrics::default()) => panic!("ended"),
                () = requests => {}
            }
        }
    }

    #[tokio::test]
    async fn one_idle_connection_ends_without_others() {
        let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        let address = endpoint.address();
        let idle = async {
            let mut stream = TcpStream::connect(address).await.expect("connects");
            let limit = CONNECTION_TIMEOUT + Duration::from_secs(10);
            tokio::time::timeout(limit, stream.read(&mut [0; 1])).await.expect("ends").expect("an orderly end")
        };
        tokio::select! {
            () = endpoint.serve(Metrics::default()) => panic!("ended"),
            read = idle => assert_eq!(read, 0),
        }
    }

    #[tokio::test]
    async fn rejects_port_in_use() {
        let first = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        Endpoint::bind(first.address()).await.expect_err("port is in use");
    }
}
