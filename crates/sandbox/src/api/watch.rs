//! Watches: a stream of events from the resource's log, woken by every write.
//!
//! A watcher keeps no queue: it remembers the revision it has sent and reads on from there. One that is slower than the
//! history is long is told so (410) and has to list again, as with a real server. Whoever watches a single object by its name
//! is woken by that object's changes alone, so that a write costs the same however many agents watch.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::Api;
use super::character::ServerProfile;
use super::list::{check_options, select, selector};
use super::object::{Change, Stored, set_metadata};
use super::request::{Form, Query};
use super::resource::{Nature, Resource};
use super::selectors::Selector;
use super::status::{ApiError, ApiResult};
use super::store::{Event, Past, key};
use super::view::View;

/// Events that are read from the log, and sent, at once.
const BATCH: usize = 256;
/// How long before its end a watch sends a last bookmark.
const FAREWELL: Duration = Duration::from_secs(2);

/// What to watch.
pub(crate) struct Watch {
    api: Api,
    resource: Arc<Resource>,
    namespace: String,
    selector: Selector,
    form: Form,
    include: String,
    bookmarks: bool,
    revision: u64,
    initial: Vec<Arc<Stored>>,
    /// The key of the object, when it is a single one that is watched.
    single: Option<String>,
    signal: Receiver<u64>,
    deadline: Instant,
    next_bookmark: Instant,
    farewell: Option<Instant>,
    first: bool,
    over: Option<Bytes>,
    done: bool,
}

fn error_line(error: &ApiError) -> Bytes {
    format!("{}\n", json!({"type": "ERROR", "object": error.to_value()})).into()
}

impl Watch {
    /// Begins a watch.
    ///
    /// # Errors
    /// 400 and 422 for bad options. A revision that is gone is no error here: the stream tells of it.
    pub(crate) fn begin(
        api: &Api,
        resource: &Arc<Resource>,
        namespace: &str,
        query: &Query,
        form: Form,
    ) -> ApiResult<Self> {
        let streaming = query.flag("sendInitialEvents") && api.character() == ServerProfile::V1_36;
        if !streaming {
            check_options(query, true)?;
        }
        let selector = selector(resource, query)?;
        let version = query.number("resourceVersion")?;
        let timeout = query.number("timeoutSeconds")?.map_or(Duration::from_secs(45 * 60), Duration::from_secs);
        let now = nodecfg_clock::instant();
        let mut store = api.lock();
        let since = version.unwrap_or_else(|| store.revision());
        let mut over = None;
        let mut initial = Vec::new();
        let mut single = selector
            .fields
            .name()
            .filter(|_| resource.namespaced != namespace.is_empty())
            .map(|name| key(namespace, name));
        let subscribed = single.as_ref().map(|key| store.subscribe_to(&resource.collection, key, since));
        let signal = match subscribed {
            Some(Ok(signal)) => signal,
            // The stream tells of a revision that is gone.
            _ => {
                single = None;
                store.subscribe(&resource.collection)
            }
        };
        if streaming {
            // As recorded: the server was started on a storage that cannot report progress.
            over = Some(error_line(&ApiError::internal(
                "a watch stream was requested by the client but the required storage feature RequestWatchProgress is \
                 disabled",
            )));
        } else if version.is_none() {
            initial = select(&store, resource, namespace, "", None, &selector).unwrap_or_default();
        }
        let current = store.revision();
        if let Some(version) = version.filter(|version| *version > current) {
            over = Some(error_line(&ApiError::too_new(version, current)));
        }
        drop(store);
        Ok(Self {
            api: api.clone(),
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            selector,
            form,
            include: query.text("includeObject").to_owned(),
            bookmarks: query.flag("allowWatchBookmarks"),
            revision: version.unwrap_or(current),
            initial,
            single,
            signal,
            deadline: now + timeout,
            next_bookmark: now + api.bookmark_interval(),
            farewell: (timeout > 2 * FAREWELL).then(|| now + timeout - FAREWELL),
            first: true,
            over,
            done: false,
        })
    }

    /// The events, as lines.
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
        if let Some(line) = self.over.take() {
            self.done = true;
            return Some(line);
        }
        if !self.initial.is_empty() {
            let chunk = self.next_initial();
            if !chunk.is_empty() {
                return Some(chunk);
            }
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
                wake = wake.min(self.next_bookmark).min(self.farewell.unwrap_or(wake));
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
                    // A bookmark says how far it has come, events of other objects included.
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

    fn view<'a>(api: &'a Api, resource: &'a Resource, form: Form, include: &'a str) -> View<'a> {
        View { api, resource, form, include }
    }

    fn next_initial(&mut self) -> Bytes {
        let rest = self.initial.split_off(self.initial.len().min(BATCH));
        let batch = std::mem::replace(&mut self.initial, rest);
        let view = Self::view(&self.api, &self.resource, self.form, &self.include);
        let mut chunk = Vec::new();
        for stored in batch.iter().filter(|stored| self.selector.matches(stored)) {
            chunk.extend_from_slice(&view.event(stored, Change::Added, self.first));
            self.first = false;
        }
        chunk.into()
    }

    /// The next events that this watcher is to see; empty when there are none yet.
    fn next_events(&mut self) -> Result<Bytes, Bytes> {
        loop {
            let store = self.api.lock();
            let batch = match &self.single {
                Some(key) => store.after_of(&self.resource.collection, key, self.revision, BATCH),
                None => store.after(&self.resource.collection, self.revision, BATCH),
            };
            drop(store);
            let batch = match batch {
                Ok(batch) => batch,
                Err(Past::Compacted(floor) | Past::Future(floor)) => {
                    let why = format!("too old resource version: {} ({floor})", self.revision);
                    return Err(error_line(&ApiError::expired(why)));
                }
            };
            let mut lines = Vec::with_capacity(batch.events.len());
            for event in &batch.events {
                lines.extend(self.line(event));
            }
            self.revision = batch.upto;
            match lines.as_slice() {
                [] if batch.events.is_empty() => return Ok(Bytes::new()),
                [] => {}
                [one] => return Ok(one.clone()),
                many => return Ok(many.concat().into()),
            }
        }
    }

    /// What this watcher sees of an event. An object that its change moves into or out of the selection comes or goes.
    fn line(&mut self, event: &Event) -> Option<Bytes> {
        if !self.namespace.is_empty() && *self.namespace != *event.object.namespace {
            return None;
        }
        let is = event.change != Change::Deleted && self.selector.matches(&event.object);
        let was = event.previous.as_ref().is_some_and(|previous| self.selector.matches(previous));
        let view = Self::view(&self.api, &self.resource, self.form, &self.include);
        let line = match (was, is) {
            (false, false) => return None,
            (false, true) => view.event(&event.object, Change::Added, self.first),
            (true, true) => view.event(&event.object, Change::Modified, self.first),
            (true, false) if event.change == Change::Deleted => view.event(&event.object, Change::Deleted, self.first),
            (true, false) => {
                let last = event.previous.as_ref()?.at(event.revision, Change::Deleted);
                view.event(&last, Change::Deleted, self.first)
            }
        };
        self.first = false;
        Some(line)
    }

    fn bookmark(&mut self, now: Instant) -> Bytes {
        if self.farewell.is_some_and(|farewell| now >= farewell) {
            self.farewell = None;
        }
        self.next_bookmark = now + self.api.bookmark_interval();
        let metadata = json!({"resourceVersion": self.revision.to_string()});
        let (kind, version) = match self.form {
            Form::Metadata => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
            Form::Table if self.api.face().is_some() => ("Table".to_owned(), "meta.k8s.io/v1".to_owned()),
            _ => (self.resource.kind.clone(), self.resource.api_version()),
        };
        let mut object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        if self.form == Form::Plain && self.resource.nature != Nature::Custom {
            super::decode::decode(&self.resource.shape, &mut object, &kind);
        }
        if self.api.character().writes_null_times() {
            set_metadata(&mut object, "creationTimestamp", Value::Null);
        }
        format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
    }
}
