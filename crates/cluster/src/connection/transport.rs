//! Transport of all requests: sends one request at a time per call and retries it by the retry policy, until the
//! caller's deadline. Logs an outage once, regardless of the number of requests that wait.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, DATE, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde::de::{DeserializeOwned, Error as _};

use super::error::ClusterError;
use super::failure::{AttemptError, Status};
use super::operation::Operation;
use super::retry::{Decision, RetryContext, RetryPolicy, retry_after};

/// User agent of nodecfg.
const AGENT: &str = concat!("nodecfg/", env!("CARGO_PKG_VERSION"));
/// Limit of the bytes read from an error response.
const ERROR_BODY_LIMIT: usize = 64 * 1024;
/// Clock differences up to this limit are latency and the rounding of the Date header to seconds.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(2);

/// Time limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For one attempt, to the last byte of the response.
    pub attempt: Duration,
    /// For a request with all its attempts.
    pub total: Duration,
}

/// Request that can be sent repeatedly.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    uri: String,
    accept: &'static str,
    content: Option<(&'static str, Bytes)>,
    /// Whether a kubelet answers, through the API server.
    is_proxied: bool,
}

impl Call {
    /// Request without a body, for JSON.
    #[must_use]
    pub fn new(method: Method, uri: String) -> Self {
        Self { method, uri, accept: "application/json", content: None, is_proxied: false }
    }

    /// Marks a request that a kubelet answers, through the API server's proxy. Its clock says nothing about that of the API
    /// server.
    #[must_use]
    pub(crate) fn proxied(mut self) -> Self {
        self.is_proxied = true;
        self
    }

    /// Sets the accepted media type.
    #[must_use]
    pub fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// Sets the body and its media type.
    #[must_use]
    pub fn content(mut self, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.content = Some((media_type, body.into()));
        self
    }

    fn request(&self) -> Result<Request<Body>, http::Error> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.uri)
            .header(ACCEPT, self.accept)
            .header(USER_AGENT, AGENT);
        if let Some((media_type, _)) = &self.content {
            request = request.header(CONTENT_TYPE, *media_type);
        }
        request.body(self.content.as_ref().map_or_else(Body::empty, |(_, body)| Body::from(body.clone())))
    }
}

/// Limit of the bytes of one object in a response. etcd stores up to 1.5 MiB by default, as Protobuf.
pub(crate) const LARGEST_OBJECT: usize = 16 << 20;
/// Limit of the objects of a list. Kubernetes supports 5,000 nodes and 150,000 pods.
pub(crate) const MOST_OBJECTS: usize = 500_000;

/// Appends the next bytes of an object.
///
/// # Errors
/// The object is larger than `limit`.
pub fn append(object: &mut Vec<u8>, bytes: &[u8], limit: usize) -> Result<(), serde_json::Error> {
    within(object.len() + bytes.len(), limit)?;
    object.extend_from_slice(bytes);
    Ok(())
}

/// Checks the size of an object, or the number of objects.
///
/// # Errors
/// It is larger than `limit`.
pub fn within(size: usize, limit: usize) -> Result<(), serde_json::Error> {
    if size > limit { Err(serde_json::Error::custom("larger than the limit")) } else { Ok(()) }
}

/// Incremental decoder of a response.
pub trait Decode {
    /// The decoded value.
    type Out;
    /// Accepts the next bytes.
    fn chunk(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error>;
    /// Accepts the end of the response.
    fn finish(self) -> Result<Self::Out, serde_json::Error>;
}

/// Decoder of one object from a whole response, by a function of its JSON.
#[derive(Debug)]
pub struct One<F> {
    bytes: Vec<u8>,
    read: F,
}

impl<F> One<F> {
    /// Decoder that passes the response to `read`.
    pub fn new(read: F) -> Self {
        Self { bytes: Vec::new(), read }
    }
}

/// Function that reads an object from its JSON.
type ReadJson<T> = fn(&[u8]) -> serde_json::Result<T>;

/// Decoder of one object from a whole response.
#[must_use]
pub fn whole<T: DeserializeOwned>() -> One<ReadJson<T>> {
    One::new(|bytes| serde_json::from_slice(bytes))
}

impl<T, F: Fn(&[u8]) -> serde_json::Result<T>> Decode for One<F> {
    type Out = T;

    fn chunk(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        append(&mut self.bytes, bytes, LARGEST_OBJECT)
    }

    fn finish(self) -> Result<T, serde_json::Error> {
        (self.read)(&self.bytes)
    }
}

/// State shared by all requests to one server.
#[derive(Debug, Default)]
struct Shared {
    reached: AtomicBool,
    /// Requests that are being retried now.
    retrying: AtomicUsize,
    /// Offset of the server's clock from the clock of this machine, in milliseconds.
    skew: AtomicI64,
    random: Mutex<fastrand::Rng>,
}

/// Connection to one API server. Cheap to clone.
#[derive(Clone)]
pub struct Transport {
    client: kube::Client,
    server: Arc<str>,
    policy: Arc<RetryPolicy>,
    /// Time limits of its requests.
    pub limits: Limits,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("server", &self.server).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Transport {
    /// Connection by `client` to the server of this address. `seed` seeds the jitter of the waits.
    #[must_use]
    pub fn new(client: kube::Client, server: &str, policy: RetryPolicy, limits: Limits, seed: u64) -> Self {
        let shared = Shared { random: Mutex::new(fastrand::Rng::with_seed(seed)), ..Shared::default() };
        Self { client, server: server.into(), policy: Arc::new(policy), limits, shared: Arc::new(shared) }
    }

    /// Copy with another total time limit.
    pub fn within(&self, total: Duration) -> Self {
        Self { limits: Limits { total, ..self.limits }, ..self.clone() }
    }

    /// Address of the server, for messages.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Random number from 0 to 1.
    pub fn jitter(&self) -> f64 {
        self.shared.random.lock().map_or(0.5, |mut random| random.f64())
    }

    /// The server's current time, so that machines with different clocks agree about a lock.
    pub fn server_time(&self) -> Timestamp {
        let skew = SignedDuration::from_millis(self.shared.skew.load(Ordering::Relaxed));
        let now = nodecfg_clock::now();
        now.checked_add(skew).unwrap_or(now)
    }

    /// Sends a request until it succeeds or a retry makes no sense, and decodes the response.
    ///
    /// # Errors
    /// A refusal by the server, at once; a temporary failure, when it lasts longer than the total time limit.
    pub async fn call<D: Decode>(
        &self,
        operation: &Operation,
        call: &Call,
        decoder: impl Fn() -> D,
    ) -> Result<D::Out, ClusterError> {
        self.call_while(operation, call, decoder, || Ok(())).await
    }

    /// As [`call`](Self::call), but asks `permit` before each attempt.
    ///
    /// # Errors
    /// The error of `permit`, and those of [`call`](Self::call).
    pub(crate) async fn call_while<D: Decode>(
        &self,
        operation: &Operation,
        call: &Call,
        decoder: impl Fn() -> D,
        permit: impl Fn() -> Result<(), ClusterError>,
    ) -> Result<D::Out, ClusterError> {
        self.call_unless(operation, call, decoder, permit, |_| None).await
    }

    /// As [`call_while`](Self::call_while), but a failure for which `answer` returns a value is the result, and is not
    /// retried.
    ///
    /// # Errors
    /// The error of `permit`, and those of [`call`](Self::call).
    pub(crate) async fn call_unless<D: Decode>(
        &self,
        operation: &Operation,
        call: &Call,
        decoder: impl Fn() -> D,
        permit: impl Fn() -> Result<(), ClusterError>,
        answer: impl Fn(&AttemptError) -> Option<D::Out>,
    ) -> Result<D::Out, ClusterError> {
        let began = nodecfg_clock::instant();
        let mut attempts = 0;
        let mut guard = None;
        loop {
            permit()?;
            attempts += 1;
            let left = self.limits.total.saturating_sub(began.elapsed());
            let limit = self.limits.attempt.min(left).max(Duration::from_millis(1));
            let attempt = tokio::time::timeout(limit, self.attempt(call, decoder()));
            let failure = match attempt.await.unwrap_or(Err(AttemptError::TooSlow(limit))) {
                Ok(out) => return Ok(out),
                Err(failure) => failure,
            };
            if let Some(answer) = answer(&failure) {
                return Ok(answer);
            }
            match self.decide(&failure, attempts, began) {
                Decision::Final => return Err(failure.into_error(operation, &self.server)),
                Decision::OutOfTime => {
                    let (operation, last) = (Box::new(operation.clone()), failure.summary());
                    return Err(ClusterError::TimedOut { operation, attempts, waited: began.elapsed(), last });
                }
                Decision::RetryAfter(delay) => {
                    guard.get_or_insert_with(|| self.retry_guard(operation, &failure));
                    tracing::debug!(%operation, attempts, ?delay, "trying again: {}", failure.summary());
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    /// Sends a request once and decodes the response. For requests that are not worth a retry.
    pub async fn call_once<D: Decode>(
        &self,
        operation: &Operation,
        call: &Call,
        decoder: D,
    ) -> Result<D::Out, ClusterError> {
        let limit = self.limits.attempt;
        let attempt = tokio::time::timeout(limit, self.attempt(call, decoder)).await;
        attempt
            .unwrap_or(Err(AttemptError::TooSlow(limit)))
            .map_err(|failure| failure.into_error(operation, &self.server))
    }

    /// Applies the retry policy to a failure of a request that started at `began`.
    pub fn decide(&self, failure: &AttemptError, attempts: u32, began: tokio::time::Instant) -> Decision {
        let context = RetryContext {
            attempts,
            remaining: self.limits.total.saturating_sub(began.elapsed()),
            reached_before: self.shared.reached.load(Ordering::Relaxed),
            jitter: self.jitter(),
        };
        self.policy.decide(&failure.class(), context)
    }

    /// Wait after this many failures in a row.
    pub fn backoff(&self, attempts: u32) -> Duration {
        self.policy.backoff(attempts, self.jitter())
    }

    /// Sends a request and converts an error status to a failure. The caller reads the body.
    pub async fn open(&self, call: &Call) -> Result<Response<Body>, AttemptError> {
        let request = call
            .request()
            .map_err(|error| AttemptError::Unreadable(format!("the request is not valid HTTP: {error}")))?;
        let response = self.client.send(request).await.map_err(|error| {
            let failure = AttemptError::of_client(error);
            tracing::debug!("{} {}: {}", call.method, call.uri, failure.summary());
            failure
        })?;
        tracing::debug!("{} {} {}", call.method, call.uri, response.status().as_u16());
        self.shared.reached.store(true, Ordering::Relaxed);
        if !call.is_proxied {
            self.note_date(response.headers());
        }
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = retry_after(response.headers());
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        while bytes.len() < ERROR_BODY_LIMIT {
            match body.frame().await {
                Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default()),
                // The status is enough.
                Some(Err(_)) | None => break,
            }
        }
        Err(AttemptError::Status { code: status.as_u16(), retry_after, status: Box::new(Status::read(&bytes)) })
    }

    async fn attempt<D: Decode>(&self, call: &Call, mut decoder: D) -> Result<D::Out, AttemptError> {
        let unreadable =
            |error: serde_json::Error| AttemptError::Unreadable(format!("not readable as JSON ({})", place(&error)));
        let mut body = self.open(call).await?.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(AttemptError::of_client)?;
            if let Some(bytes) = frame.data_ref() {
                decoder.chunk(bytes).map_err(unreadable)?;
            }
        }
        decoder.finish().map_err(unreadable)
    }

    /// Marks a request as being retried. Logs the first such request, and the end of the last one.
    pub(crate) fn retry_guard(&self, operation: &Operation, failure: &AttemptError) -> RetryGuard {
        if self.shared.retrying.fetch_add(1, Ordering::AcqRel) == 0 {
            tracing::warn!("cannot {operation} yet: {}; trying again", failure.summary());
        }
        RetryGuard { shared: Arc::clone(&self.shared) }
    }

    fn note_date(&self, headers: &http::HeaderMap) {
        let Some(date) = headers.get(DATE).and_then(|date| date.to_str().ok()) else { return };
        let Ok(date) = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date) else { return };
        let ahead = date.duration_since(nodecfg_clock::now());
        let ahead = if ahead.abs() <= CLOCK_TOLERANCE { SignedDuration::ZERO } else { ahead };
        self.shared.skew.store(i64::try_from(ahead.as_millis()).unwrap_or_default(), Ordering::Relaxed);
    }
}

/// Position of a JSON error, without the content: a response may contain secrets.
fn place(error: &serde_json::Error) -> String {
    format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()).to_lowercase()
}

/// Guard of a request that is being retried.
#[derive(Debug)]
pub struct RetryGuard {
    shared: Arc<Shared>,
}

impl Drop for RetryGuard {
    fn drop(&mut self) {
        if self.shared.retrying.fetch_sub(1, Ordering::AcqRel) == 1 {
            tracing::info!("no request to the API server is being retried any longer");
        }
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
