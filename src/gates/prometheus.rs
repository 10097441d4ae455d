//! Client of Prometheus' HTTP API. Sends queries only, follows no redirect and retries nothing: the caller asks again
//! after its interval. The token goes only to the configured address, over TLS or to this machine.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::wire;
use crate::https::{Authorities, connector, with_causes};
use nodecfg_contract::printable::remark;
use nodecfg_rollout::judge::Series;

/// Limit of the bytes read from a response.
const RESPONSE_LIMIT: usize = 1 << 20;
/// Limit of a token's length.
const TOKEN_LIMIT: usize = 64 * 1024;
/// Time limit of one query, to the last byte of the response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Address of a Prometheus server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusAddress {
    query: Uri,
    host: String,
    is_local: bool,
}

impl PrometheusAddress {
    /// Reads a URL such as `https://prometheus.example.com/prefix`.
    ///
    /// # Errors
    /// The problem, as a sentence without a subject. Never quotes the URL, which may contain a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| "is not a URL".to_owned())?;
        let Some(host) = uri.host() else { return Err("has no host".to_owned()) };
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("must start with https:// or http://".to_owned());
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("must not contain a user or password; use --prometheus-token-file".to_owned());
        }
        if uri.query().is_some() || url.contains('#') {
            return Err("must not contain a query or fragment".to_owned());
        }
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        let is_local = host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback());
        let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
        let shown = format!("{host}{port}");
        let path = format!("{}/api/v1/query", uri.path().trim_end_matches('/'));
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(path).map_err(|_| "is not a URL".to_owned())?);
        let query = Uri::from_parts(parts).map_err(|_| "is not a URL".to_owned())?;
        Ok(Self { query, host: shown, is_local })
    }

    fn uses_tls(&self) -> bool {
        self.query.scheme_str() == Some("https")
    }
}

/// Source of the token. Never printed.
#[derive(Clone)]
pub enum Token {
    /// No token.
    None,
    /// This token.
    Text(String),
    /// A file that is read before each query, because tokens of service accounts change.
    File(PathBuf),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Text(_) => "Text(…)",
            Self::File(_) => "File(…)",
        })
    }
}

/// Client of one Prometheus server. Cheap to clone.
#[derive(Clone)]
pub struct Prometheus {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    address: Arc<PrometheusAddress>,
    token: Token,
    timeout: Duration,
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").field("host", &self.address.host).finish_non_exhaustive()
    }
}

impl Prometheus {
    /// Client of the server at this address. `authorities` are PEM certificates that replace those of the machine.
    ///
    /// # Errors
    /// The token would be sent in clear text, or the certificates cannot be used. Sends no request.
    pub fn new(address: PrometheusAddress, token: Token, authorities: Option<&[u8]>) -> Result<Self, String> {
        if !matches!(token, Token::None) && !address.uses_tls() && !address.is_local {
            return Err("a token is sent only over https://, or to this machine".to_owned());
        }
        let authorities = match authorities {
            _ if !address.uses_tls() => Authorities::None,
            Some(pem) => Authorities::Pem(pem),
            None => Authorities::Native,
        };
        let client = Client::builder(TokioExecutor::new()).build(connector(authorities)?);
        Ok(Self { client, address: Arc::new(address), token, timeout: TIMEOUT })
    }

    /// Series of an instant query, now.
    ///
    /// # Errors
    /// Why there is no reliable result, on one line and without the token.
    pub async fn query(&self, expression: &str) -> Result<Vec<Series>, String> {
        let token = self.token().await?;
        let exchange = async {
            let answer = self.client.request(self.request(expression, token.as_deref())?).await;
            let response = answer.map_err(|error| self.unreached(&error))?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), RESPONSE_LIMIT).collect().await;
            let body = body.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    format!("the answer is larger than {} MiB; aggregate the series", RESPONSE_LIMIT >> 20)
                } else {
                    format!("the answer of {} broke off: {error}", self.address.host)
                }
            })?;
            wire::read(status, &body.to_bytes())
        };
        let answer = tokio::time::timeout(self.timeout, exchange).await;
        let answer =
            answer.unwrap_or_else(|_| Err(format!("no answer of {} in {:?}", self.address.host, self.timeout)));
        // A server may repeat headers of the request.
        answer.map_err(|why| remark(&token.as_deref().map_or(why.clone(), |token| why.replace(token, "<token>"))))
    }

    fn request(&self, expression: &str, token: Option<&str>) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.address.query)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("nodecfg/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| "the token has characters that a header cannot have".to_owned())?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let form = wire::form(expression, TIMEOUT.as_secs());
        request.body(Full::new(Bytes::from(form))).map_err(|error| format!("the request is invalid: {error}"))
    }

    async fn token(&self) -> Result<Option<String>, String> {
        let text = match &self.token {
            Token::None => return Ok(None),
            Token::Text(text) => text.clone(),
            Token::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(|| std::fs::read_to_string(path)).await;
                let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
                read.map_err(|error| format!("the file of --prometheus-token-file cannot be read: {error}"))?
            }
        };
        let token = text.trim();
        if token.is_empty() || token.len() > TOKEN_LIMIT {
            return Err("the token of Prometheus is empty or too long".to_owned());
        }
        Ok(Some(token.to_owned()))
    }

    fn unreached(&self, error: &hyper_util::client::legacy::Error) -> String {
        format!("{} cannot be reached: {}", self.address.host, with_causes(error))
    }
}

#[cfg(test)]
#[cfg(feature = "sandbox")]
#[path = "prometheus_tests.rs"]
mod tests;
