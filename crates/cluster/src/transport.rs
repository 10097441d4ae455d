//! Sends requests: one at a time per call, again when the retry policy says so, never past the caller's deadline. Every
//! request of nodecfg goes through here, so an outage is logged once however many requests it holds up.

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
use serde::de::DeserializeOwned;

use super::error::ClusterError;
use super::failure::{AttemptError, Status};
use super::operation::Operation;
use super::retry::{Decision, RetryPolicy, Standing, retry_after};

/// How nodecfg names itself to the server.
const AGENT: &str = concat!("nodecfg/", env!("CARGO_PKG_VERSION"));
/// An error answer is read no further than this.
const ERROR_BODY_LIMIT: usize = 64 * 1024;
/// A difference of the clocks up to this is latency and the whole seconds of the Date header.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(2);

/// The time limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For one attempt, to the last byte of its answer.
    pub attempt: Duration,
    /// For a request with all its attempts.
    pub total: Duration,
}

/// A request that can be sent again.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    uri: String,
    accept: &'static str,
    content: Option<(&'static str, Bytes)>,
}

impl Call {
    /// A request without a body, for JSON.
    #[must_use]
    pub fn new(method: Method, uri: String) -> Self {
        Self { method, uri, accept: "application/json", content: None }
    }

    /// The same request for another media type.
    #[must_use]
    pub fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// The same request with a body of this media type.
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

/// Makes a value of an answer's bytes as they come.
pub trait Decode {
    /// What comes out.
    type Out;
    /// Takes the next bytes.
    fn chunk(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error>;
    /// The end of the answer.
    fn finish(self) -> Result<Self::Out, serde_json::Error>;
}

/// Decodes one object from the whole answer.
#[derive(Debug)]
pub struct Whole<T> {
    bytes: Vec<u8>,
    out: std::marker::PhantomData<fn() -> T>,
}

impl<T> Default for Whole<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Whole<T> {
    /// Nothing received yet.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: Vec::new(), out: std::marker::PhantomData }
    }
}

impl<T: DeserializeOwned> Decode for Whole<T> {
    type Out = T;

    fn chunk(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }
}

/// The state that all requests to one server share.
#[derive(Debug, Default)]
struct Shared {
    reached: AtomicBool,
    /// Requests that are being retried right now.
    struggling: AtomicUsize,
    /// How far the server's clock is ahead of this machine's, in milliseconds.
    skew: AtomicI64,
    random: Mutex<fastrand::Rng>,
}

/// A connection to one API server, cheap to clone.
#[derive(Clone)]
pub struct Transport {
    client: kube::Client,
    server: Arc<str>,
    policy: Arc<RetryPolicy>,
    /// The time limits of its requests.
    pub limits: Limits,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("server", &self.server).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Transport {
    /// A connection by `client` to the server of this address; `seed` seeds the jitter of its waits.
    #[must_use]
    pub fn new(client: kube::Client, server: &str, policy: RetryPolicy, limits: Limits, seed: u64) -> Self {
        let shared = Shared { random: Mutex::new(fastrand::Rng::with_seed(seed)), ..Shared::default() };
        Self { client, server: server.into(), policy: Arc::new(policy), limits, shared: Arc::new(shared) }
    }

    /// The same connection with another total time limit.
    pub fn within(&self, total: Duration) -> Self {
        Self { limits: Limits { total, ..self.limits }, ..self.clone() }
    }

    /// The server's address, for messages.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// A random number from 0 to 1.
    pub fn jitter(&self) -> f64 {
        self.shared.random.lock().map_or(0.5, |mut random| random.f64())
    }

    /// The time of day as the server has it, so that machines whose clocks differ agree about a lock.
    pub fn server_time(&self) -> Timestamp {
        let skew = SignedDuration::from_millis(self.shared.skew.load(Ordering::Relaxed));
        let now = nodecfg_clock::now();
        now.checked_add(skew).unwrap_or(now)
    }

    /// Sends a request until it is answered, and decodes the answer.
    ///
    /// # Errors
    /// What the server refuses, at once; what passes by itself, when it has not within the total time limit.
    pub async fn call<D: Decode>(
        &self,
        operation: &Operation,
        call: &Call,
        decoder: impl Fn() -> D,
    ) -> Result<D::Out, ClusterError> {
        let began = nodecfg_clock::instant();
        let mut attempts = 0;
        let mut struggle = None;
        loop {
            attempts += 1;
            let left = self.limits.total.saturating_sub(began.elapsed());
            let limit = self.limits.attempt.min(left).max(Duration::from_millis(1));
            let attempt = tokio::time::timeout(limit, self.attempt(call, decoder()));
            let failure = match attempt.await.unwrap_or(Err(AttemptError::TooSlow(limit))) {
                Ok(out) => return Ok(out),
                Err(failure) => failure,
            };
            match self.decide(&failure, attempts, began) {
                Decision::Final => return Err(failure.into_error(operation, &self.server)),
                Decision::OutOfTime => {
                    let (operation, last) = (Box::new(operation.clone()), failure.summary());
                    return Err(ClusterError::TimedOut { operation, attempts, waited: began.elapsed(), last });
                }
                Decision::RetryAfter(delay) => {
                    struggle.get_or_insert_with(|| self.struggle(operation, &failure));
                    tracing::debug!(%operation, attempts, ?delay, "trying again: {}", failure.summary());
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    /// Sends a request once and decodes the answer. For what is not worth waiting for.
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

    /// Applies the retry policy to a failure of a request that began then.
    pub fn decide(&self, failure: &AttemptError, attempts: u32, began: tokio::time::Instant) -> Decision {
        let standing = Standing {
            attempts,
            remaining: self.limits.total.saturating_sub(began.elapsed()),
            reached_before: self.shared.reached.load(Ordering::Relaxed),
            jitter: self.jitter(),
        };
        self.policy.decide(&failure.setback(), standing)
    }

    /// The wait after this many failures in a row.
    pub fn backoff(&self, attempts: u32) -> Duration {
        self.policy.backoff(attempts, self.jitter())
    }

    /// Opens an answer: sends, and turns an error status into a failure. The body is left to the caller.
    pub async fn open(&self, call: &Call) -> Result<Response<Body>, AttemptError> {
        let request =
            call.request().map_err(|error| AttemptError::Unreadable(format!("the request is no HTTP: {error}")))?;
        let response = self.client.send(request).await.map_err(|error| {
            let failure = AttemptError::of_client(error);
            tracing::debug!("{} {}: {}", call.method, call.uri, failure.summary());
            failure
        })?;
        tracing::debug!("{} {} {}", call.method, call.uri, response.status().as_u16());
        self.shared.reached.store(true, Ordering::Relaxed);
        self.note_date(response.headers());
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
                // The status says enough.
                Some(Err(_)) | None => break,
            }
        }
        Err(AttemptError::Status { code: status.as_u16(), retry_after, status: Box::new(Status::read(&bytes)) })
    }

    async fn attempt<D: Decode>(&self, call: &Call, mut decoder: D) -> Result<D::Out, AttemptError> {
        let unreadable =
            |error: serde_json::Error| AttemptError::Unreadable(format!("no readable JSON ({})", place(&error)));
        let mut body = self.open(call).await?.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(AttemptError::of_client)?;
            if let Some(bytes) = frame.data_ref() {
                decoder.chunk(bytes).map_err(unreadable)?;
            }
        }
        decoder.finish().map_err(unreadable)
    }

    /// Marks a request as held up. Logs when it is the first; when the last one is through, that is logged too.
    pub fn struggle(&self, operation: &Operation, failure: &AttemptError) -> RetryGuard {
        if self.shared.struggling.fetch_add(1, Ordering::AcqRel) == 0 {
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

/// Where JSON broke, without its content: an answer may hold what must not be logged.
fn place(error: &serde_json::Error) -> String {
    format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()).to_lowercase()
}

/// A request that is being retried; ends with it.
#[derive(Debug)]
pub struct RetryGuard {
    shared: Arc<Shared>,
}

impl Drop for RetryGuard {
    fn drop(&mut self) {
        if self.shared.struggling.fetch_sub(1, Ordering::AcqRel) == 1 {
            tracing::info!("no request to the API server is held up any more");
        }
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
