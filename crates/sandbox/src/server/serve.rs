//! HTTPS server for a router on loopback, with HTTP/1.1 and HTTP/2 by ALPN.
//!
//! The server is independent of the router's content. It listens on 127.0.0.1 only, because the sandbox must not be
//! reachable from a network.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::in_process::ResetConnection;

/// Time limit of a TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Error that prevents serving.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is in use or not permitted.
    #[error("cannot listen on {address}: {source}; choose another port, or omit it to use a free one")]
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Generation of a key or certificate failed.
    #[error("cannot create the certificates of the sandbox: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificates are unusable for TLS.
    #[error("cannot set up TLS for the sandbox: {0}")]
    Tls(#[from] rustls::Error),
}

/// Server certificate for `127.0.0.1`, `localhost` and `::1`, with the authority that signed it. A caller keeps it
/// over a restart of the server, so that clients still trust the server.
#[derive(Debug, Clone)]
pub struct Identity {
    ca_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivatePkcs8KeyDer<'static>>,
}

impl Identity {
    /// Generates an authority and a certificate signed by it. The authority's key is discarded.
    ///
    /// # Errors
    /// Fails if a key or a certificate cannot be generated.
    pub fn generate() -> Result<Self, rcgen::Error> {
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::default();
        ca.distinguished_name.push(DnType::CommonName, "nodecfg-sandbox-ca");
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_certificate = ca.self_signed(&ca_key)?;
        let issuer = Issuer::new(ca, ca_key);

        let key = KeyPair::generate()?;
        let names = ["127.0.0.1", "localhost", "::1"].map(str::to_owned);
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "nodecfg-sandbox");
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.insert_extended_key_usage(ExtendedKeyUsagePurpose::ServerAuth);
        server.use_authority_key_identifier_extension = true;
        let certificate = server.signed_by(&key, &issuer)?;

        Ok(Self {
            ca_pem: ca_certificate.pem(),
            chain: vec![certificate.der().clone()],
            key: Arc::new(PrivatePkcs8KeyDer::from(key.serialize_der())),
        })
    }

    /// Certificate of the authority that clients trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    fn tls(&self) -> Result<TlsAcceptor, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), PrivateKeyDer::Pkcs8(self.key.clone_key()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Options of the server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Port on 127.0.0.1; `None` selects a free one.
    pub port: Option<u16>,
    /// Certificates to use; `None` generates new ones.
    pub identity: Option<Identity>,
}

/// A running server, which stops abruptly when dropped.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    identity: Identity,
    stop: Option<oneshot::Sender<Duration>>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Certificates of the server, for a restart.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Certificate of the authority that clients trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.identity.ca_pem()
    }

    /// Stops accepting connections, lets open requests finish within `grace`, then closes the rest; watches never
    /// finish by themselves. The port is free when this returns.
    pub async fn stop(mut self, grace: Duration) {
        if let Some(stop) = self.stop.take() {
            // An error means that the task has already ended.
            let _ = stop.send(grace);
        }
        let _ = (&mut self.task).await;
    }

    /// Closes every connection immediately, like a crash. The port is free when this returns.
    pub async fn abort(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves `router` over HTTPS on 127.0.0.1 until stopped.
///
/// # Errors
/// Fails if the port is not available, or if the certificates cannot be generated or used.
pub async fn serve(router: Router, options: Options) -> Result<Serving, ServeError> {
    let identity = match options.identity {
        Some(identity) => identity,
        None => Identity::generate()?,
    };
    let tls = identity.tls()?;
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port.unwrap_or(0)));
    let listening = |source| ServeError::Listen { address: wanted, source };
    let listener = TcpListener::bind(wanted).await.map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(accept(listener, tls, router, stopped));
    Ok(Serving { address, identity, stop: Some(stop), task })
}

/// Owns the listener and every connection: the end of this task frees the port and closes them.
async fn accept(listener: TcpListener, tls: TlsAcceptor, router: Router, mut stop: oneshot::Receiver<Duration>) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let grace = loop {
        tokio::select! {
            grace = &mut stop => break grace.unwrap_or_default(),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, tls.clone(), router.clone(), graceful.watcher()));
                }
                // Usually no free file descriptors; the pause prevents a busy loop.
                Err(error) => {
                    tracing::warn!(%error, "the sandbox could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    };
    drop(listener);
    let _ = tokio::time::timeout(grace, graceful.shutdown()).await;
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, router: Router, watcher: Watcher) {
    // Small writes (watch events) must not be delayed by Nagle's algorithm.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake with the sandbox failed"),
        Err(_) => return tracing::debug!("a TLS handshake with the sandbox took too long"),
    };
    let reset = Arc::new(Notify::new());
    let cut = Arc::clone(&reset);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (router, cut) = (router.clone(), Arc::clone(&cut));
        async move {
            let Ok(response) = router.oneshot(request.map(Body::new)).await;
            if response.extensions().get::<ResetConnection>().is_some() {
                cut.notify_one();
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut server = Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new());
    server.http2().timer(TokioTimer::new()).max_concurrent_streams(250);
    let served = watcher.watch(server.serve_connection(TokioIo::new(stream), service).into_owned());
    tokio::select! {
        // Errors here are interrupted clients.
        result = served => if let Err(error) = result { tracing::debug!(%error, "a connection to the sandbox broke") },
        () = reset.notified() => {}
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
pub(super) mod tests;
