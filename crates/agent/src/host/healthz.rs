//! Health probe of the kubelet over the plain HTTP of its healthz port.

use std::error::Error as StdError;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::Healthz;

/// Time limit of a probe.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of characters quoted from an error response.
const MAX_QUOTED: usize = 200;
/// Maximum number of bytes read from an error response.
const MAX_READ: usize = 4096;

/// Probes once, over a new connection: a reused one could still lead to the kubelet before the restart.
///
/// # Errors
/// Reason why the kubelet counts as unhealthy.
pub async fn probe(endpoint: &Healthz) -> Result<(), String> {
    if endpoint.port == 0 {
        return Err("its healthz port is disabled (healthzPort: 0)".to_owned());
    }
    let uri = uri(endpoint)?;
    match tokio::time::timeout(TIMEOUT, get(&uri)).await {
        Ok(result) => result.map_err(|reason| format!("{uri}: {reason}")),
        Err(_) => Err(format!("{uri}: no answer within {} s", TIMEOUT.as_secs())),
    }
}

/// URL of the probe. An unspecified or empty address, the latter being the kubelet's default, is probed on loopback.
fn uri(endpoint: &Healthz) -> Result<Uri, String> {
    let host = match endpoint.address.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V4(address)) => address.to_string(),
        Ok(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".to_owned(),
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        Err(_) if endpoint.address.is_empty() => "127.0.0.1".to_owned(),
        Err(_) => return Err(format!("healthzBindAddress {:?} is not an IP address", endpoint.address)),
    };
    let text = format!("http://{host}:{}/healthz", endpoint.port);
    text.parse().map_err(|_| format!("{text} is not a URL"))
}

async fn get(uri: &Uri) -> Result<(), String> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
    let request = Request::get(uri).header(CONNECTION, "close").body(Empty::new());
    let response = client.request(request.map_err(|error| error.to_string())?).await.map_err(|error| cause(&error))?;
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
    let text = String::from_utf8_lossy(&bytes).replace(char::is_control, " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let quoted: String = words.join(" ").chars().take(MAX_QUOTED).collect();
    Err(if quoted.is_empty() { format!("answers {status}") } else { format!("answers {status}: {quoted}") })
}

/// Root cause of an error.
fn cause(error: &(dyn StdError + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error).to_string()
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
        let uri = |address: &str| uri(&endpoint(address, 10248)).map(|uri| uri.to_string());
        for (address, url) in [
            ("127.0.0.1", "http://127.0.0.1:10248/healthz"),
            ("0.0.0.0", "http://127.0.0.1:10248/healthz"),
            ("", "http://127.0.0.1:10248/healthz"),
            ("::", "http://[::1]:10248/healthz"),
            ("fd00::1", "http://[fd00::1]:10248/healthz"),
        ] {
            assert_eq!(uri(address).as_deref(), Ok(url));
        }
        assert!(uri("evil.example/x?").is_err());
    }

    /// Answers one request with these bytes. Returns the port.
    async fn answering(answer: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        });
        port
    }

    #[tokio::test]
    async fn reports_health_and_failure_reasons() {
        let port = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        assert_eq!(probe(&endpoint("127.0.0.1", port)).await, Ok(()));
        let port =
            answering("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 21\r\n\r\n[-]syncloop\nfailed\n\x1b\n\n")
                .await;
        let error = probe(&endpoint("127.0.0.1", port)).await.expect_err("is not healthy");
        assert!(error.ends_with("answers 500 Internal Server Error: [-]syncloop failed"), "{error}");
        let port = answering("").await;
        assert!(probe(&endpoint("127.0.0.1", port)).await.is_err());
        assert!(probe(&endpoint("127.0.0.1", 0)).await.expect_err("is disabled").contains("disabled"));
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port();
        let error = probe(&endpoint("127.0.0.1", free)).await.expect_err("no server listens");
        assert!(error.contains("refused"), "{error}");
    }
}
