//! Index of events by object, for watches of a single object.
//!
//! A write wakes only the watchers of the written object, and they read only its events. The index holds only objects
//! that are watched by name.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;

/// One object that is watched by name.
#[derive(Debug)]
struct WatchedObject {
    signal: watch::Sender<u64>,
    /// Revisions of the object's events in the log, later than `from`.
    revisions: VecDeque<u64>,
    from: u64,
    /// Last event of the object that was removed from the log.
    removed: u64,
}

/// Objects of a resource that are watched by name, by key.
#[derive(Debug, Default)]
pub(super) struct ObjectWatches(HashMap<String, WatchedObject>);

impl ObjectWatches {
    /// Reports whether no object is watched by name.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records an event and wakes the watchers of its object. An object without watchers leaves the index.
    pub(super) fn record(&mut self, key: &str, revision: u64) {
        let Some(object) = self.0.get_mut(key) else { return };
        if object.signal.receiver_count() == 0 {
            self.0.remove(key);
            return;
        }
        object.revisions.push_back(revision);
        object.signal.send_replace(revision);
    }

    /// Ends all watches. Each may still read the events until now.
    pub(super) fn end(&mut self, revision: u64) {
        for object in self.0.values_mut() {
            object.signal = watch::Sender::new(revision);
        }
    }

    /// Records that an event was removed from the log.
    pub(super) fn forget(&mut self, key: &str, revision: u64) {
        if let Some(object) = self.0.get_mut(key) {
            object.forget(revision);
        }
    }

    /// Records that the whole log was cleared.
    pub(super) fn forget_all(&mut self) {
        for object in self.0.values_mut() {
            object.forget(u64::MAX);
        }
    }

    /// Returns a signal that changes with every event of an object. `present` is the current revision. `earlier`
    /// returns the object's revisions in the log after one revision and up to another.
    pub(super) fn subscribe(
        &mut self,
        key: &str,
        since: u64,
        present: u64,
        earlier: impl Fn(u64, u64) -> Vec<u64>,
    ) -> watch::Receiver<u64> {
        let object = self.0.entry(key.to_owned()).or_insert_with(|| WatchedObject {
            signal: watch::Sender::new(present),
            revisions: VecDeque::new(),
            from: present,
            removed: 0,
        });
        if since < object.from {
            for revision in earlier(since, object.from).into_iter().rev() {
                object.revisions.push_front(revision);
            }
            object.from = since;
        }
        object.signal.subscribe()
    }

    /// Returns the revisions of an object's events after `revision`. The error is a later revision that was removed
    /// from the log.
    pub(super) fn revisions_after(&self, key: &str, revision: u64) -> Result<impl Iterator<Item = u64>, u64> {
        let object = self.0.get(key);
        if let Some(removed) = object.map(|object| object.removed).filter(|removed| revision < *removed) {
            return Err(removed);
        }
        let since = object.map_or(0, |object| object.revisions.partition_point(|at| *at <= revision));
        Ok(object.into_iter().flat_map(move |object| object.revisions.range(since..).copied()))
    }
}

impl WatchedObject {
    fn forget(&mut self, up_to: u64) {
        while let Some(revision) = self.revisions.pop_front_if(|revision| *revision <= up_to) {
            self.removed = revision;
        }
    }
}
