//! Tests of the HTTPS server with real clients.

use std::time::Instant;

use axum::routing::get;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;

use super::*;

/// Result of one request over a new connection: status, headers and body, or the connection error.
pub(crate) type Fetched = Result<(StatusCode, http::HeaderMap, bytes::Bytes), Box<dyn std::error::Error + Send + Sync>>;

/// Address of a server and its trusted authority.
#[derive(Clone)]
pub(crate) struct ServerAddress {
    address: SocketAddr,
    ca: CertificateDer<'static>,
}

impl ServerAddress {
    pub(crate) fn of(serving: &Serving) -> Self {
        let ca = CertificateDer::from_pem_slice(serving.ca_pem().as_bytes()).expect("is PEM");
        Self { address: serving.address(), ca }
    }
}

/// Sends a request over a new TLS connection that trusts the server's authority and offers one protocol.
pub(crate) async fn fetch(at: ServerAddress, host: &'static str, alpn: &'static [u8], path: &'static str) -> Fetched {
    let mut roots = RootCertStore::empty();
    roots.add(at.ca)?;
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    let stream = TcpStream::connect(at.address).await?;
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(rustls::pki_types::ServerName::try_from(host)?, stream)
        .await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn));
    let io = TokioIo::new(stream);
    let request =
        Request::get(format!("https://{host}{path}")).header("host", host).body(Empty::<bytes::Bytes>::new())?;
    let response = if alpn == b"h2" {
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
        tokio::spawn(connection);
        sender.send_request(request).await?
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
        tokio::spawn(connection);
        sender.send_request(request).await?
    };
    let (parts, body) = response.into_parts();
    Ok((parts.status, parts.headers, body.collect().await?.to_bytes()))
}

fn router() -> Router {
    Router::new()
        .route("/hello", get(|| async { "hello" }))
        .route(
            "/slow",
            get(|| async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                "slow"
            }),
        )
        .route("/never", get(|| async { std::future::pending::<()>().await }))
}

#[tokio::test]
async fn serves_both_protocols_by_address_and_name() {
    let serving = serve(router(), Options::default()).await.expect("serves");
    assert!(serving.address().ip().is_loopback());
    for alpn in [&b"h2"[..], b"http/1.1"] {
        for host in ["127.0.0.1", "localhost"] {
            let (status, _, body) = fetch(ServerAddress::of(&serving), host, alpn, "/hello").await.expect(host);
            assert_eq!((status, &body[..]), (StatusCode::OK, &b"hello"[..]), "{host}");
        }
    }
}

#[tokio::test]
async fn kube_client_connects_with_kubeconfig() {
    let serving = serve(router(), Options::default()).await.expect("serves");
    let kubeconfig = super::super::kubeconfig::Kubeconfig {
        server: serving.url(),
        ca_pem: serving.ca_pem().to_owned(),
        token: "t".to_owned(),
    };
    let read = kube::config::Kubeconfig::from_yaml(&kubeconfig.to_yaml()).expect("is a kubeconfig");
    let choice = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &choice).await.expect("is complete");
    let client = kube::Client::try_from(config).expect("is a client");
    let response = client.request_text(Request::get("/hello").body(Vec::new()).expect("is a request")).await;
    assert_eq!(response.expect("answers"), "hello");
}

#[tokio::test]
async fn stopped_server_frees_port_and_restarts() {
    for abrupt in [false, true] {
        let serving = serve(router(), Options::default()).await.expect("serves");
        let address = serving.address();
        let identity = serving.identity().clone();
        assert!(matches!(
            serve(router(), Options { port: Some(address.port()), identity: None }).await,
            Err(ServeError::Listen { address: refused, .. }) if refused == address
        ));
        fetch(ServerAddress::of(&serving), "localhost", b"http/1.1", "/hello").await.expect("answers");
        if abrupt {
            serving.abort().await
        } else {
            serving.stop(Duration::from_secs(1)).await
        }
        assert!(TcpStream::connect(address).await.is_err(), "still listens");
        let again = serve(router(), Options { port: Some(address.port()), identity: Some(identity.clone()) }).await;
        let again = again.expect("serves again");
        assert_eq!(again.ca_pem(), identity.ca_pem());
        fetch(ServerAddress::of(&again), "localhost", b"h2", "/hello").await.expect("answers again");
    }
}

#[tokio::test]
async fn stop_waits_for_open_requests_within_grace() {
    let serving = serve(router(), Options::default()).await.expect("serves");
    let at = ServerAddress::of(&serving);
    let slow = tokio::spawn(fetch(at.clone(), "localhost", b"http/1.1", "/slow"));
    let never = tokio::spawn(fetch(at, "localhost", b"h2", "/never"));
    tokio::time::sleep(Duration::from_millis(150)).await;
    let begun = Instant::now();
    serving.stop(Duration::from_millis(600)).await;
    assert!(begun.elapsed() >= Duration::from_millis(500), "stopped before the grace ended: {:?}", begun.elapsed());
    let (_, _, body) = slow.await.expect("ran").expect("the open request succeeds");
    assert_eq!(&body[..], b"slow");
    assert!(never.await.expect("ran").is_err(), "the connection stayed open");
}
