//! Health probe of the kubelet over the plain HTTP of its healthz port.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::CONNECTION;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::Healthz;
use super::problem::{HealthzError, OsError, named_checks};

/// Time limit of a probe.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes read from an error response.
const MAX_READ: usize = 4096;

/// Probes once, over a new connection: a reused one could still lead to the kubelet before the restart.
///
/// # Errors
/// Reason why the kubelet counts as unhealthy.
pub async fn probe(endpoint: &Healthz) -> Result<(), HealthzError> {
    if endpoint.port == 0 {
        return Err(HealthzError::Disabled);
    }
    let at = address(endpoint).ok_or(HealthzError::NoAddress)?;
    let timed_out = |_| Err(HealthzError::TimedOut { at, limit: TIMEOUT });
    tokio::time::timeout(TIMEOUT, get(at)).await.unwrap_or_else(timed_out)
}

/// Address of the probe. An unspecified or empty address, the latter being the kubelet's default, is probed on loopback.
/// `None` if it is no IP address.
fn address(endpoint: &Healthz) -> Option<SocketAddr> {
    let ip = match endpoint.address.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        Ok(IpAddr::V6(address)) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        Ok(address) => address,
        Err(_) if endpoint.address.is_empty() => Ipv4Addr::LOCALHOST.into(),
        Err(_) => return None,
    };
    Some(SocketAddr::new(ip, endpoint.port))
}

async fn get(at: SocketAddr) -> Result<(), HealthzError> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
    let request = Request::get(format!("http://{at}/healthz")).header(CONNECTION, "close").body(Empty::new());
    let request = request.map_err(|_| HealthzError::NoAddress)?;
    let response = client.request(request).await.map_err(|error| problem(at, &error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while bytes.len() < MAX_READ
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
    }
    Err(HealthzError::Status { at, status, checks: named_checks(&String::from_utf8_lossy(&bytes)) })
}

/// Reason for an error of the client: an error of the system, or else an answer that is not HTTP.
fn problem(at: SocketAddr, error: &(dyn StdError + 'static)) -> HealthzError {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let system = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).find(|io| io.raw_os_error().is_some());
    match system {
        Some(error) => HealthzError::NoConnection { at, cause: OsError::from(error) },
        None => HealthzError::NotHttp { at },
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn endpoint(address: &str, port: u16) -> Healthz {
        Healthz { address: address.to_owned(), port }
    }

    #[test]
    fn resolves_bind_addresses() {
        let found = |text: &str| address(&endpoint(text, 10248)).map(|at| at.to_string());
        for (text, at) in [
            ("127.0.0.1", "127.0.0.1:10248"),
            ("0.0.0.0", "127.0.0.1:10248"),
            ("", "127.0.0.1:10248"),
            ("::", "[::1]:10248"),
            ("fd00::1", "[fd00::1]:10248"),
        ] {
            assert_eq!(found(text).as_deref(), Some(at));
        }
        assert_eq!(found("evil.example/x?"), None);
    }

    /// Answers one request with these bytes. Returns the port.
    async fn answering(answer: &'static str) -> u16 {
        answering_endlessly(answer, "").await
    }

    /// Answers one request with these bytes, and repeats the last ones, if any, until the client closes. Returns the port.
    async fn answering_endlessly(head: &'static str, rest: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(head.as_bytes()).await;
            while !rest.is_empty() && stream.write_all(rest.as_bytes()).await.is_ok() {}
        });
        port
    }

    /// Any pod on the host's network may listen on the port while the kubelet is down.
    #[tokio::test]
    async fn sends_nothing_but_the_path() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let request = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.expect("a whole request"));
            }
            String::from_utf8(request).expect("a text").to_ascii_lowercase()
        });
        let _ = probe(&endpoint("127.0.0.1", address.port())).await;
        let request = request.await.expect("a request");
        let mut lines = request.trim_end().lines();
        assert_eq!(lines.next(), Some("get /healthz http/1.1"));
        let names: Vec<&str> = lines.filter_map(|line| line.split(':').next()).collect();
        assert_eq!(names, ["connection", "host"], "{request}");
    }

    /// A body without an end would otherwise fill the agent's memory until the probe's time limit.
    #[tokio::test]
    async fn reads_a_limited_part_of_an_endless_body() {
        let port = answering_endlessly("HTTP/1.1 500 x\r\n\r\n[-]log failed\n", "[+]ping ok\n").await;
        let error = probe(&endpoint("127.0.0.1", port)).await.expect_err("it is unhealthy");
        let end = "answers 500 Internal Server Error: failed checks: log";
        assert_eq!(error.to_string(), format!("http://127.0.0.1:{port}/healthz: {end}"));
    }

    #[tokio::test]
    async fn reports_health_and_failure_reasons() {
        let port = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        assert_eq!(probe(&endpoint("127.0.0.1", port)).await, Ok(()));
        for (answer, end) in [
            (
                "HTTP/1.1 500 hunter2\r\nhunter2: hunter2\r\nContent-Length: 7\r\n\r\nhunter2",
                "answers 500 Internal Server Error",
            ),
            ("HTTP/1.1 599 hunter2\r\nContent-Length: 0\r\n\r\n", "answers 599"),
            (
                "HTTP/1.1 500 x\r\nContent-Length: 87\r\n\r\n[+]ping ok\n[-]syncloop failed: hunter2\n[-]hunter2 failed\n\
                 [-]log hunter2\nhunter2 [-]ping failed",
                "answers 500 Internal Server Error: failed checks: syncloop",
            ),
            ("HTTP/1.1 302 Found\r\nLocation: http://hunter2/\r\n\r\n", "answers 302 Found"),
            ("hunter2", "its answer is not HTTP"),
            ("HTTP/1.1 hunter2\r\n\r\n", "its answer is not HTTP"),
            ("HTTP/1.1 200 OK\r\nhunter2\r\n\r\n", "its answer is not HTTP"),
        ] {
            let port = answering(answer).await;
            let error = probe(&endpoint("127.0.0.1", port)).await.expect_err(answer);
            assert_eq!(error.to_string(), format!("http://127.0.0.1:{port}/healthz: {end}"), "{answer}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        let port = answering("").await;
        assert!(probe(&endpoint("127.0.0.1", port)).await.is_err());
        assert_eq!(probe(&endpoint("127.0.0.1", 0)).await, Err(HealthzError::Disabled));
        assert_eq!(probe(&endpoint("hunter2", 1)).await, Err(HealthzError::NoAddress));
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port();
        let error = probe(&endpoint("127.0.0.1", free)).await.expect_err("no server listens");
        assert!(error.to_string().contains("refused"), "{error}");
    }
}
