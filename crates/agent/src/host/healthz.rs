//! Asks the kubelet whether it is healthy, over the plain HTTP of its healthz port.

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

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How much of a bad answer is quoted, in characters.
const QUOTED: usize = 200;
/// How much of a bad answer is read, in bytes.
const READ: usize = 4096;

/// Asks once, over a connection of its own: one that was kept would tell of the kubelet before the restart.
///
/// # Errors
/// Why the kubelet does not count as healthy.
pub async fn ask(at: &Healthz) -> Result<(), String> {
    if at.port == 0 {
        return Err("its healthz port is switched off (healthzPort: 0)".to_owned());
    }
    let uri = uri(at)?;
    match tokio::time::timeout(LIMIT, get(&uri)).await {
        Ok(result) => result.map_err(|reason| format!("{uri}: {reason}")),
        Err(_) => Err(format!("{uri}: no answer within {} s", LIMIT.as_secs())),
    }
}

/// An address that stands for all is asked on loopback; so is one that is not set, which is the kubelet's default.
fn uri(at: &Healthz) -> Result<Uri, String> {
    let host = match at.address.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V4(address)) => address.to_string(),
        Ok(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".to_owned(),
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        Err(_) if at.address.is_empty() => "127.0.0.1".to_owned(),
        Err(_) => return Err(format!("healthzBindAddress {:?} is no IP address", at.address)),
    };
    let text = format!("http://{host}:{}/healthz", at.port);
    text.parse().map_err(|_| format!("{text} is no URL"))
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
    while bytes.len() < READ
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
    }
    let text = String::from_utf8_lossy(&bytes).replace(char::is_control, " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let quoted: String = words.join(" ").chars().take(QUOTED).collect();
    Err(if quoted.is_empty() { format!("answers {status}") } else { format!("answers {status}: {quoted}") })
}

/// The end of the chain, which is the cause.
fn cause(error: &(dyn StdError + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error).to_string()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn at(address: &str, port: u16) -> Healthz {
        Healthz { address: address.to_owned(), port }
    }

    #[test]
    fn addresses_as_a_kubelet_takes_them() {
        let uri = |address: &str| uri(&at(address, 10248)).map(|uri| uri.to_string());
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

    /// Answers one request with these bytes and gives the port.
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
    async fn what_counts_as_healthy() {
        let port = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        assert_eq!(ask(&at("127.0.0.1", port)).await, Ok(()));
        let port =
            answering("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 21\r\n\r\n[-]syncloop\nfailed\n\x1b\n\n")
                .await;
        let error = ask(&at("127.0.0.1", port)).await.expect_err("is not healthy");
        assert!(error.ends_with("answers 500 Internal Server Error: [-]syncloop failed"), "{error}");
        let port = answering("").await;
        assert!(ask(&at("127.0.0.1", port)).await.is_err());
        assert!(ask(&at("127.0.0.1", 0)).await.expect_err("cannot be asked").contains("switched off"));
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port();
        let error = ask(&at("127.0.0.1", free)).await.expect_err("nobody listens");
        assert!(error.contains("refused"), "{error}");
    }
}
