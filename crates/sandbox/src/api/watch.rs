//! Watches: streams of events from the log of a resource. Every write to the resource wakes them.
//!
//! A watch has no queue: it stores the last revision that it sent, and continues to read from there. A watch that
//! falls behind the history gets 410 and the client must list again, as with a real server. A watch of a single
//! object by name wakes only for changes of that object. The cost of a write is therefore independent of the number
//! of agents.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::Api;
use super::list::select;
use super::object::{Change, StoredObject};
use super::request::{Query, ResponseFormat};
use super::resource::Resource;
use super::selectors::Selector;
use super::server_profile::ServerProfile;
use super::status::{ApiError, ApiResult};
use super::store::{Event, RevisionError, key};
use super::view::View;

/// Maximum number of events that are read and sent at once.
const BATCH: usize = 256;
/// Interval of bookmarks, for watches that request them.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Time between the last bookmark and the end of a watch.
const FINAL_BOOKMARK: Duration = Duration::from_secs(2);

/// An open watch.
pub(crate) struct Watch {
    api: Api,
    resource: Arc<Resource>,
    namespace: String,
    selector: Selector,
    format: ResponseFormat,
    include: String,
    bookmarks: bool,
    revision: u64,
    initial: Vec<Arc<StoredObject>>,
    /// Whether a bookmark follows the initial objects.
    marks_initial_end: bool,
    /// Key of the object, for a watch of a single object.
    object_key: Option<String>,
    signal: Receiver<u64>,
    deadline: Instant,
    next_bookmark: Instant,
    final_bookmark: Option<Instant>,
    first: bool,
    terminal_line: Option<Bytes>,
    done: bool,
}

fn error_line(error: &ApiError) -> Bytes {
    format!("{}\n", json!({"type": "ERROR", "object": error.to_value()})).into()
}

impl Watch {
    /// Opens a watch.
    ///
    /// # Errors
    /// 400 for invalid options. The stream reports a compacted or future revision.
    pub(crate) fn begin(
        api: &Api,
        resource: &Arc<Resource>,
        namespace: &str,
        query: &Query,
        format: ResponseFormat,
    ) -> ApiResult<Self> {
        let streaming = query.flag("sendInitialEvents") && api.profile() == ServerProfile::V1_36;
        let bookmarks = query.flag("allowWatchBookmarks");
        let selector = Selector::of(query, resource.resource_type)?;
        let wanted = query.number("resourceVersion")?;
        // The initial objects of a stream are the present ones.
        let version = wanted.filter(|_| !streaming);
        let timeout = query.number("timeoutSeconds")?.map_or(Duration::from_secs(45 * 60), Duration::from_secs);
        let now = nodecfg_clock::instant();
        let mut store = api.lock();
        let since = version.unwrap_or_else(|| store.revision());
        let mut terminal_line = None;
        let mut initial = Vec::new();
        let mut object_key = selector
            .fields
            .name()
            .filter(|_| resource.namespaced != namespace.is_empty())
            .map(|name| key(namespace, name));
        let subscribed = object_key.as_ref().map(|key| store.subscribe_object(&resource.collection, key, since));
        let signal = match subscribed {
            Some(Ok(signal)) => signal,
            // The stream reports a compacted revision.
            _ => {
                object_key = None;
                store.subscribe(&resource.collection)
            }
        };
        if version.is_none() {
            initial = select(&store, resource, namespace, "", None, &selector).unwrap_or_default();
        }
        let current = store.revision();
        if let Some(version) = wanted.filter(|version| *version > current) {
            terminal_line = Some(error_line(&ApiError::too_new(version, current)));
        }
        drop(store);
        Ok(Self {
            api: api.clone(),
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            selector,
            format,
            include: query.text("includeObject").to_owned(),
            bookmarks,
            revision: version.unwrap_or(current),
            initial,
            marks_initial_end: streaming && bookmarks,
            object_key,
            signal,
            deadline: now + timeout,
            next_bookmark: now + BOOKMARK_INTERVAL,
            final_bookmark: (timeout > 2 * FINAL_BOOKMARK).then(|| now + timeout - FINAL_BOOKMARK),
            first: true,
            terminal_line,
            done: false,
        })
    }

    /// Returns the events, as lines.
    pub(crate) fn stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        futures::stream::unfold(self, |mut watch| async move {
            let chunk = watch.next().await?;
            Some((Ok(chunk), watch))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        if let Some(line) = self.terminal_line.take() {
            self.done = true;
            return Some(line);
        }
        // A batch without a selected object is not the end.
        while !self.initial.is_empty() {
            let chunk = self.next_initial();
            if !chunk.is_empty() {
                return Some(chunk);
            }
        }
        if std::mem::take(&mut self.marks_initial_end) {
            return Some(self.bookmark_line(&json!({"k8s.io/initial-events-end": "true"})));
        }
        loop {
            self.signal.borrow_and_update();
            match self.next_events() {
                Ok(chunk) if chunk.is_empty() => {}
                Ok(chunk) => return Some(chunk),
                Err(line) => {
                    self.done = true;
                    return Some(line);
                }
            }
            let mut wake = self.deadline;
            if self.bookmarks {
                wake = wake.min(self.next_bookmark).min(self.final_bookmark.unwrap_or(wake));
            }
            tokio::select! {
                changed = self.signal.changed() => {
                    if changed.is_err() {
                        return self.next_events().ok().filter(|chunk| !chunk.is_empty());
                    }
                }
                () = tokio::time::sleep_until(wake) => {
                    let now = nodecfg_clock::instant();
                    if now >= self.deadline {
                        return None;
                    }
                    // A bookmark covers all events up to its revision, including those of other objects.
                    match self.next_events() {
                        Ok(chunk) if chunk.is_empty() => {}
                        Ok(chunk) => return Some(chunk),
                        Err(line) => {
                            self.done = true;
                            return Some(line);
                        }
                    }
                    return Some(self.bookmark(now));
                }
            }
        }
    }

    fn view<'a>(api: &'a Api, resource: &'a Resource, format: ResponseFormat, include: &'a str) -> View<'a> {
        View { api, resource, format, include }
    }

    fn next_initial(&mut self) -> Bytes {
        let rest = self.initial.split_off(self.initial.len().min(BATCH));
        let batch = std::mem::replace(&mut self.initial, rest);
        let view = Self::view(&self.api, &self.resource, self.format, &self.include);
        let mut chunk = Vec::new();
        for stored in batch.iter().filter(|stored| self.selector.matches(stored)) {
            chunk.extend_from_slice(&view.event(stored, Change::Added, self.first));
            self.first = false;
        }
        chunk.into()
    }

    /// Returns the next events of the selection; empty if there are none yet.
    fn next_events(&mut self) -> Result<Bytes, Bytes> {
        loop {
            let store = self.api.lock();
            let batch = match &self.object_key {
                Some(key) => store.object_events_after(&self.resource.collection, key, self.revision, BATCH),
                None => store.events_after(&self.resource.collection, self.revision, BATCH),
            };
            drop(store);
            let batch = match batch {
                Ok(batch) => batch,
                Err(RevisionError::Compacted(floor) | RevisionError::Future(floor)) => {
                    let why = format!("too old resource version: {} ({floor})", self.revision);
                    return Err(error_line(&ApiError::expired(why)));
                }
            };
            let mut lines = Vec::with_capacity(batch.events.len());
            for event in &batch.events {
                lines.extend(self.line(event));
            }
            self.revision = batch.up_to;
            match lines.as_slice() {
                [] if batch.events.is_empty() => return Ok(Bytes::new()),
                [] => {}
                [one] => return Ok(one.clone()),
                many => return Ok(many.concat().into()),
            }
        }
    }

    /// Returns the line of an event. An object that enters or leaves the selection is reported as added or deleted.
    fn line(&mut self, event: &Event) -> Option<Bytes> {
        if !self.namespace.is_empty() && *self.namespace != *event.object.namespace {
            return None;
        }
        let is = event.change != Change::Deleted && self.selector.matches(&event.object);
        let was = event.previous.as_ref().is_some_and(|previous| self.selector.matches(previous));
        let view = Self::view(&self.api, &self.resource, self.format, &self.include);
        let line = match (was, is) {
            (false, false) => return None,
            (false, true) => view.event(&event.object, Change::Added, self.first),
            (true, true) => view.event(&event.object, Change::Modified, self.first),
            (true, false) if event.change == Change::Deleted => view.event(&event.object, Change::Deleted, self.first),
            (true, false) => {
                let last = event.previous.as_ref()?.with_revision(event.revision, Change::Deleted);
                view.event(&last, Change::Deleted, self.first)
            }
        };
        self.first = false;
        Some(line)
    }

    fn bookmark(&mut self, now: Instant) -> Bytes {
        if self.final_bookmark.is_some_and(|final_bookmark| now >= final_bookmark) {
            self.final_bookmark = None;
        }
        self.next_bookmark = now + BOOKMARK_INTERVAL;
        self.bookmark_line(&Value::Null)
    }

    fn bookmark_line(&self, annotations: &Value) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if !annotations.is_null() {
            super::object::set_field(&mut metadata, "annotations", annotations.clone());
        }
        let (kind, version) = match self.format {
            ResponseFormat::Metadata => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
            ResponseFormat::Table => ("Table".to_owned(), "meta.k8s.io/v1".to_owned()),
            ResponseFormat::Plain => (self.resource.kind.clone(), self.resource.api_version()),
        };
        let object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
    }
}
