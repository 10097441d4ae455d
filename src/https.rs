//! Connector of the HTTP clients for servers other than API servers: OpenTelemetry collectors and Prometheus.

use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Authorities that sign the certificate of the server.
#[derive(Debug, Clone, Copy)]
pub enum Authorities<'a> {
    /// The server is reached without TLS.
    None,
    /// Those of the machine. An image may contain none.
    Native,
    /// Only these, as PEM.
    Pem(&'a [u8]),
}

/// Connector for a server. With authorities, it refuses addresses without TLS.
///
/// # Errors
/// The certificates of the authorities cannot be loaded.
pub fn connector(authorities: Authorities<'_>) -> Result<HttpsConnector<HttpConnector>, String> {
    let provider = rustls::crypto::ring::default_provider();
    let builder = HttpsConnectorBuilder::new();
    let roots = match authorities {
        Authorities::Native => {
            let native = builder.with_provider_and_native_roots(provider);
            let native = native.map_err(|error| format!("cannot load the certificates of authorities: {error}"))?;
            return Ok(native.https_only().enable_http1().build());
        }
        Authorities::Pem(pem) => roots(pem)?,
        Authorities::None => RootCertStore::empty(),
    };
    let with_tls = !roots.is_empty();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = builder.with_tls_config(config);
    let builder = if with_tls { builder.https_only() } else { builder.https_or_http() };
    Ok(builder.enable_http1().build())
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| "it is not PEM".to_owned())?;
        roots.add(certificate).map_err(|error| format!("a certificate is invalid: {error}"))?;
    }
    if roots.is_empty() { Err("it has no certificate".to_owned()) } else { Ok(roots) }
}

/// Error with its causes: the client's own text names no cause.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
