//! Watch of a collection of any kind. Starts at the version of a list and survives closed connections, outages and
//! expired versions. Must not depend on a kind.

use std::borrow::Cow;
use std::time::Duration;

use futures::Stream;
use http::Method;
use http_body_util::BodyExt;
use kube::client::Body;
use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::list::{Collection, list};
use super::wire::ListMeta;
use crate::connection::error::ClusterError;
use crate::connection::failure::{AttemptError, Status};
use crate::connection::operation::{Verb, escape};
use crate::connection::retry::Decision;
use crate::connection::transport::{Call, LARGEST_OBJECT, RetryGuard, Transport, within};

/// Duration requested for a watch. Up to a quarter is added so that many clients do not reconnect together. Short,
/// because a silently dead connection is noticed only at the end; reopening costs one request.
pub const WATCH: Duration = Duration::from_secs(60);
/// An open watch counts as dead once this part of the requested duration has passed after its end.
pub(crate) const GRACE: u32 = 6;
/// A watch that ends sooner without an event counts as a failure. Otherwise it would be reopened at once forever.
const TOO_SHORT: Duration = Duration::from_secs(1);

/// Change of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// An object appeared or changed. Known objects may be sent again.
    Upsert(T),
    /// An object was deleted; this is its last state.
    Deleted(T),
    /// All objects of the collection: at the start when no version was given, and after the watch lost its version.
    Relisted(Vec<T>),
}

/// Collection to follow, with its start version and watch duration.
#[derive(Debug)]
pub struct Following {
    /// The collection; its verb is `watch`.
    pub collection: Collection,
    /// Version of the list to continue from. `None`: list first.
    pub version: Option<String>,
    /// Duration requested for each watch; see [`WATCH`].
    pub watch: Duration,
}

/// Follows a collection. `keep` decodes the JSON of each object. The stream ends after its first error: an outage longer than the transport's patience, or a refusal by the server.
pub fn follow<T, F>(
    transport: &Transport,
    following: Following,
    keep: F,
) -> impl Stream<Item = Result<Change<T>, ClusterError>> + Send + use<T, F>
where
    T: Send,
    F: Fn(&[u8]) -> serde_json::Result<Option<T>> + Send + Sync,
{
    let follower = Follower {
        transport: transport.clone(),
        collection: following.collection,
        watch: following.watch,
        version: following.version,
        keep,
        open: None,
        relists: 0,
        retry: None,
        ended: false,
    };
    futures::stream::unfold(follower, |mut follower| async move {
        if follower.ended {
            return None;
        }
        let item = follower.next().await;
        follower.ended = item.is_err();
        Some((item, follower))
    })
}

/// A watch in progress.
struct Follower<F> {
    transport: Transport,
    collection: Collection,
    watch: Duration,
    version: Option<String>,
    keep: F,
    open: Option<OpenWatch>,
    /// Relists since the last event. Slows down the requests to a server that expires every version.
    relists: u32,
    retry: Option<RetryState>,
    ended: bool,
}

/// One connection of a watch.
struct OpenWatch {
    body: Body,
    lines: Lines,
    opened: Instant,
    until: Instant,
    received: bool,
}

/// Failures in a row.
struct RetryState {
    attempts: u32,
    since: Instant,
    guard: Option<RetryGuard>,
}

impl<F> Follower<F> {
    async fn next<T>(&mut self) -> Result<Change<T>, ClusterError>
    where
        F: Fn(&[u8]) -> serde_json::Result<Option<T>>,
    {
        loop {
            let Some(version) = self.version.clone() else { return self.relist().await };
            match self.next_line(&version).await {
                Ok(Some(line)) => match read_line(&line, &self.keep) {
                    Ok(WatchLine { change, version }) => {
                        self.note_event();
                        if version.is_some() {
                            self.version = version;
                        }
                        if let Some(change) = change {
                            return Ok(change);
                        }
                    }
                    Err(AttemptError::Status { code: 410, .. }) => return self.relist().await,
                    Err(failure) => self.wait_after_failure(failure).await?,
                },
                // Closed in order, as requested: continue from here.
                Ok(None) => {}
                Err(AttemptError::Status { code: 410, .. }) => return self.relist().await,
                Err(failure) => self.wait_after_failure(failure).await?,
            }
        }
    }

    /// Next line of the watch; opens the watch when necessary. `None`: the server closed it in order.
    async fn next_line(&mut self, version: &str) -> Result<Option<Vec<u8>>, AttemptError> {
        let open = match &mut self.open {
            Some(open) => open,
            closed => {
                let watch = open(&self.transport, &self.collection, version, self.watch).await?;
                closed.insert(watch)
            }
        };
        loop {
            if let Some(line) = open.lines.take() {
                return Ok(Some(line.to_vec()));
            }
            match tokio::time::timeout_at(open.until, open.body.frame()).await {
                Ok(Some(Ok(frame))) => open.lines.push(frame.data_ref().map(AsRef::as_ref).unwrap_or_default())?,
                Ok(Some(Err(error))) => return Err(AttemptError::of_client(error)),
                Ok(None) if !open.received && open.opened.elapsed() < TOO_SHORT => {
                    return Err(AttemptError::Lost("the watch was closed at once".to_owned()));
                }
                Ok(None) => {
                    (self.open, self.retry) = (None, None);
                    return Ok(None);
                }
                Err(_) => return Err(AttemptError::TooSlow(open.opened.elapsed())),
            }
        }
    }

    fn note_event(&mut self) {
        self.retry = None;
        self.relists = 0;
        if let Some(open) = &mut self.open {
            open.received = true;
        }
    }

    /// Records a failure, then waits as the retry policy demands.
    async fn wait_after_failure(&mut self, failure: AttemptError) -> Result<(), ClusterError> {
        // A watch that stood for a while, even without events, ended the previous outage.
        if self.open.take().is_some_and(|open| open.opened.elapsed() >= TOO_SHORT) {
            self.retry = None;
        }
        let (transport, operation) = (&self.transport, &self.collection.operation);
        let retry =
            self.retry.get_or_insert_with(|| RetryState { attempts: 0, since: nodecfg_clock::instant(), guard: None });
        retry.attempts += 1;
        match transport.decide(&failure, retry.attempts, retry.since) {
            Decision::RetryAfter(delay) => {
                retry.guard.get_or_insert_with(|| transport.retry_guard(operation, &failure));
                tracing::debug!(attempts = retry.attempts, ?delay, "watching again: {}", failure.summary());
                tokio::time::sleep(delay).await;
                Ok(())
            }
            Decision::OutOfTime => Err(ClusterError::TimedOut {
                operation: Box::new(operation.clone()),
                attempts: retry.attempts,
                waited: retry.since.elapsed(),
                last: failure.summary(),
            }),
            Decision::Final => Err(failure.into_error(operation, transport.server())),
        }
    }

    /// Lists all objects: at the start, or when the version to continue from expired.
    async fn relist<T>(&mut self) -> Result<Change<T>, ClusterError>
    where
        F: Fn(&[u8]) -> serde_json::Result<Option<T>>,
    {
        self.open = None;
        if self.relists > 0 {
            tokio::time::sleep(self.transport.backoff(self.relists)).await;
        }
        self.relists += 1;
        let mut collection = self.collection.clone();
        collection.operation.verb = Verb::List;
        tracing::debug!(version = self.version, "no version to watch from, listing: {}", collection.operation);
        let (all, version) = list(&self.transport, &collection, "application/json", &self.keep).await?;
        self.version = Some(version);
        self.retry = None;
        Ok(Change::Relisted(all))
    }
}

async fn open(
    transport: &Transport,
    collection: &Collection,
    version: &str,
    watch: Duration,
) -> Result<OpenWatch, AttemptError> {
    let seconds = watch.mul_f64(1.0 + 0.25 * transport.jitter());
    let uri = collection.uri(&format!(
        "watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
        escape(version),
        seconds.as_secs()
    ));
    let limit = transport.limits.attempt;
    let call = Call::new(Method::GET, uri);
    let response =
        tokio::time::timeout(limit, transport.open(&call)).await.unwrap_or(Err(AttemptError::TooSlow(limit)))?;
    let opened = nodecfg_clock::instant();
    Ok(OpenWatch {
        body: response.into_body(),
        lines: Lines::default(),
        opened,
        until: opened + seconds + seconds / GRACE,
        received: false,
    })
}

/// Content of one line of a watch.
#[derive(Debug)]
struct WatchLine<T> {
    change: Option<Change<T>>,
    version: Option<String>,
}

/// Event of a watch whose object is not decoded yet. The object of an error is a Status, which shares field names with
/// other objects, and the object of a bookmark has only a version.
#[derive(Deserialize)]
pub(crate) struct RawEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) object: &'a RawValue,
}

impl<'a> RawEvent<'a> {
    /// Reads one line of a watch. The event of an error becomes the failure that its Status describes.
    pub(crate) fn read(line: &'a [u8]) -> Result<Self, AttemptError> {
        let event: Self = serde_json::from_slice(line).map_err(unreadable)?;
        if event.kind != "ERROR" {
            return Ok(event);
        }
        let status = event.decode::<Status>()?.sanitized();
        Err(AttemptError::Status { code: status.code.unwrap_or(500), retry_after: None, status: Box::new(status) })
    }

    /// Decodes the object.
    pub(crate) fn decode<T: Deserialize<'a>>(&self) -> Result<T, AttemptError> {
        serde_json::from_str(self.object.get()).map_err(unreadable)
    }

    /// What `keep` returns for the JSON of the object.
    pub(crate) fn keep<T>(
        &self,
        keep: impl Fn(&[u8]) -> serde_json::Result<Option<T>>,
    ) -> Result<Option<T>, AttemptError> {
        keep(self.object.get().as_bytes()).map_err(unreadable)
    }
}

/// No quotation: the content of an object must not appear in a log.
fn unreadable(_: serde_json::Error) -> AttemptError {
    AttemptError::Lost("a line of the watch is unreadable".to_owned())
}

/// Reads one line of a watch.
fn read_line<T>(
    line: &[u8],
    keep: impl Fn(&[u8]) -> serde_json::Result<Option<T>>,
) -> Result<WatchLine<T>, AttemptError> {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(default)]
        metadata: ListMeta,
    }
    let event = RawEvent::read(line)?;
    let Versioned { metadata } = event.decode()?;
    let change = match &*event.kind {
        "ADDED" | "MODIFIED" => event.keep(keep)?.map(Change::Upsert),
        "DELETED" => event.keep(keep)?.map(Change::Deleted),
        // Bookmarks, and unknown types of later servers.
        _ => None,
    };
    Ok(WatchLine { change, version: metadata.resource_version })
}

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// End of the bytes of `buffer` that were returned.
    start: usize,
    /// End of the bytes of `buffer` that contain no further line end.
    scanned: usize,
}

impl Lines {
    /// Accepts the next bytes, after all lines were taken.
    ///
    /// # Errors
    /// The begun line is larger than any object.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), AttemptError> {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        within(self.buffer.len(), LARGEST_OBJECT).map_err(|_| {
            AttemptError::Unreadable(format!("a line of the watch is larger than {} MiB", LARGEST_OBJECT >> 20))
        })?;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn take(&mut self) -> Option<&[u8]> {
        let line = loop {
            let rest = self.buffer.get(self.scanned..)?;
            let Some(at) = memchr(b'\n', rest) else {
                self.scanned = self.buffer.len();
                return None;
            };
            let line = self.start..self.scanned + at;
            self.start = line.end + 1;
            self.scanned = self.start;
            if !self.buffer.get(line.clone())?.trim_ascii().is_empty() {
                break line;
            }
        };
        self.buffer.get(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::wire::{LabelKeys, WireNode};

    #[test]
    fn cuts_lines_across_chunks() {
        let text = b"one\n\ntwo\nthree";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut all = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(chunk).expect("a short line");
                while let Some(line) = lines.take() {
                    all.push(String::from_utf8(line.to_vec()).expect("text"));
                }
            }
            assert_eq!(all, ["one", "two"], "{size}");
        }
    }

    #[test]
    fn reads_recorded_watch_lines() {
        let read = |text: &str| read_line(text.as_bytes(), |item| Ok(WireNode::read(item)?.into_node(&LabelKeys::All)));
        let line = read(
            r#"{"type":"MODIFIED","object":{"kind":"Node","metadata":{"name":"n1","resourceVersion":"7"},"status":{}}}"#,
        )
        .expect("an event");
        assert!(matches!(line.change, Some(Change::Upsert(node)) if node.name.as_str() == "n1"));
        assert_eq!(line.version.as_deref(), Some("7"));
        let line = read(r#"{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"9"},"spec":{}}}"#)
            .expect("a bookmark");
        assert!(line.change.is_none());
        assert_eq!(line.version.as_deref(), Some("9"));
        let expired = read(
            r#"{"object":{"apiVersion":"v1","code":410,"kind":"Status","message":"too old resource version: 2 (351)","metadata":{},"reason":"Expired","status":"Failure"},"type":"ERROR"}"#,
        );
        assert!(matches!(expired, Err(AttemptError::Status { code: 410, .. })), "{expired:?}");
        assert!(matches!(read("{\"type\":"), Err(AttemptError::Lost(_))));
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod wire_tests;
