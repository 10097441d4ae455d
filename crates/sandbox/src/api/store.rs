//! Object store: one ordered map and one bounded event log per resource, and one revision counter.
//!
//! The store is independent of HTTP, users and validation. It serializes each object once. Lists, watches and history
//! share that buffer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::object::{Change, StoredObject, set_revision};
use super::object_watches::ObjectWatches;

/// One change of one object.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Revision of the change.
    pub(crate) revision: u64,
    /// Type of the change.
    pub(crate) change: Change,
    /// Object after the change; for a deletion, its last state.
    pub(crate) object: Arc<StoredObject>,
    /// Object before the change.
    pub(crate) previous: Option<Arc<StoredObject>>,
}

impl Event {
    fn key(&self) -> String {
        key(&self.object.namespace, &self.object.name)
    }
}

/// Returns the number of bytes that only this event keeps in memory.
fn retained_bytes(event: &Event) -> usize {
    let last = if event.change == Change::Deleted { event.object.size() } else { 0 };
    last + event.previous.as_ref().map_or(0, |previous| previous.size())
}

/// Limits of the history of a resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Events per resource.
    pub(crate) events: usize,
    /// Bytes of superseded states per resource.
    pub(crate) bytes: usize,
}

/// History for watches and for consistent continuation of lists.
pub(crate) const HISTORY: Limits = Limits { events: 20_000, bytes: 64 * 1024 * 1024 };

struct Collection {
    objects: BTreeMap<String, Arc<StoredObject>>,
    log: VecDeque<Event>,
    log_bytes: usize,
    /// Events up to this revision are removed.
    floor: u64,
    signal: watch::Sender<u64>,
    object_watches: ObjectWatches,
}

impl Collection {
    fn new(floor: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            log_bytes: 0,
            floor,
            signal: watch::Sender::new(floor),
            object_watches: ObjectWatches::default(),
        }
    }

    fn record(&mut self, event: Event, limits: Limits) {
        let revision = event.revision;
        self.log_bytes += retained_bytes(&event);
        if !self.object_watches.is_empty() {
            self.object_watches.record(&event.key(), revision);
        }
        self.log.push_back(event);
        while self.log.len() > limits.events || (self.log_bytes > limits.bytes && self.log.len() > 1) {
            if let Some(removed) = self.log.pop_front() {
                self.log_bytes = self.log_bytes.saturating_sub(retained_bytes(&removed));
                self.floor = removed.revision;
                if !self.object_watches.is_empty() {
                    self.object_watches.forget(&removed.key(), removed.revision);
                }
            }
        }
        self.signal.send_replace(revision);
    }
}

/// Returns the key of an object within its resource.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Reason why a past revision is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevisionError {
    /// The history of the revision is removed. Contains the oldest available revision.
    Compacted(u64),
    /// The revision is in the future. Contains the current revision.
    Future(u64),
}

/// Next events of a watch.
pub(crate) struct Batch {
    /// Events in order of revision.
    pub(crate) events: Vec<Event>,
    /// Revision up to which the watch is complete after these events.
    pub(crate) up_to: u64,
}

/// All objects of a cluster.
pub(crate) struct Store {
    revision: u64,
    limits: Limits,
    collections: BTreeMap<String, Collection>,
    /// Objects with owners, as (resource, key) by the uid of the owner.
    owned: BTreeMap<String, BTreeSet<(String, String)>>,
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    references.into_iter().flatten().filter_map(|reference| reference.get("uid").and_then(Value::as_str))
}

impl Store {
    /// Returns an empty store.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { revision: 1, limits, collections: BTreeMap::new(), owned: BTreeMap::new() }
    }

    /// Returns the latest revision.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    fn collection(&mut self, resource: &str) -> &mut Collection {
        // A resource without earlier writes has a complete history.
        self.collections.entry(resource.to_owned()).or_insert_with(|| Collection::new(0))
    }

    /// Returns an object.
    pub(crate) fn get(&self, resource: &str, key: &str) -> Option<Arc<StoredObject>> {
        self.collections.get(resource)?.objects.get(key).cloned()
    }

    /// Writes an object if its stored revision is `expected`, which is `None` for a new object. Returns the object
    /// with its new resourceVersion; the error is the unwritten object.
    pub(crate) fn put(
        &mut self,
        resource: &str,
        key: &str,
        expected: Option<u64>,
        mut object: Value,
    ) -> Result<(Arc<StoredObject>, Value), Value> {
        let previous = self.get(resource, key);
        if previous.as_ref().map(|stored| stored.revision) != expected {
            return Err(object);
        }
        self.revision += 1;
        let (revision, limits) = (self.revision, self.limits);
        set_revision(&mut object, revision);
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        if let Some(before) = previous.as_ref().filter(|_| !self.owned.is_empty()) {
            self.forget_owners(resource, key, before);
        }
        for uid in owners(&object) {
            self.owned.entry(uid.to_owned()).or_default().insert((resource.to_owned(), key.to_owned()));
        }
        let stored = Arc::new(StoredObject::new(&object, revision, change));
        let collection = self.collection(resource);
        collection.objects.insert(key.to_owned(), stored.clone());
        collection.record(Event { revision, change, object: stored.clone(), previous }, limits);
        Ok((stored, object))
    }

    fn forget_owners(&mut self, resource: &str, key: &str, before: &StoredObject) {
        if !before.has_owners() {
            return;
        }
        let entry = (resource.to_owned(), key.to_owned());
        for uid in owners(&before.value()) {
            if let Some(dependents) = self.owned.get_mut(uid) {
                dependents.remove(&entry);
                if dependents.is_empty() {
                    self.owned.remove(uid);
                }
            }
        }
    }

    /// Deletes an object if its stored revision is `expected`. Returns false otherwise.
    pub(crate) fn remove(&mut self, resource: &str, key: &str, expected: u64) -> bool {
        let Some(previous) = self.get(resource, key).filter(|stored| stored.revision == expected) else {
            return false;
        };
        self.revision += 1;
        let (revision, limits) = (self.revision, self.limits);
        if !self.owned.is_empty() {
            self.forget_owners(resource, key, &previous);
        }
        let collection = self.collection(resource);
        collection.objects.remove(key);
        let object = Arc::new(previous.with_revision(revision, Change::Deleted));
        collection.record(Event { revision, change: Change::Deleted, object, previous: Some(previous) }, limits);
        true
    }

    /// Returns the objects whose owners include this uid, as (resource, key).
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(String, String)> {
        self.owned.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Returns every object of a namespace, as (resource, key).
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<(String, String)> {
        let (from, to) = (format!("{namespace}/"), format!("{namespace}0"));
        let found = |(resource, collection): (&String, &Collection)| {
            let keys = collection.objects.range(from.clone()..to.clone()).map(|(key, _)| key.clone());
            keys.map(|key| (resource.clone(), key)).collect::<Vec<_>>()
        };
        self.collections.iter().flat_map(found).collect()
    }

    /// Returns every key of a resource.
    pub(crate) fn keys(&self, resource: &str) -> Vec<String> {
        self.collections.get(resource).map(|c| c.objects.keys().cloned().collect()).unwrap_or_default()
    }

    /// Ends the watches of a removed resource, after they have received its last events.
    pub(crate) fn end_watches(&mut self, resource: &str) {
        if let Some(collection) = self.collections.get_mut(resource) {
            collection.signal = watch::Sender::new(self.revision);
            collection.object_watches.end(self.revision);
        }
    }

    /// Returns objects of a namespace (of all namespaces if empty) from `start` on, in order, at a past revision or
    /// now.
    pub(crate) fn scan(
        &self,
        resource: &str,
        namespace: &str,
        start: &str,
        at: Option<u64>,
    ) -> Result<Vec<Arc<StoredObject>>, RevisionError> {
        if at.is_some_and(|revision| revision > self.revision) {
            return Err(RevisionError::Future(self.revision));
        }
        let Some(collection) = self.collections.get(resource) else {
            return Ok(Vec::new());
        };
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let from = if start > prefix.as_str() { start.to_owned() } else { prefix.clone() };
        let present = collection.objects.range(from.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        let Some(revision) = at.filter(|revision| *revision < self.revision) else {
            return Ok(present.map(|(_, stored)| stored.clone()).collect());
        };
        if revision < collection.floor {
            return Err(RevisionError::Compacted(collection.floor));
        }
        let since = collection.log.partition_point(|event| event.revision <= revision);
        let mut undone: BTreeMap<String, Option<Arc<StoredObject>>> = BTreeMap::new();
        for event in collection.log.range(since..) {
            undone.entry(event.key()).or_insert_with(|| event.previous.clone());
        }
        let mut past: BTreeMap<String, Arc<StoredObject>> = present
            .filter(|(key, _)| !undone.contains_key(*key))
            .map(|(key, stored)| (key.clone(), stored.clone()))
            .collect();
        for (key, previous) in undone.into_iter().filter(|(key, _)| key.starts_with(&prefix) && *key >= from) {
            if let Some(stored) = previous {
                past.insert(key, stored);
            }
        }
        Ok(past.into_values().collect())
    }

    /// Returns a signal that changes with every event of a resource and closes when the resource is removed.
    pub(crate) fn subscribe(&mut self, resource: &str) -> watch::Receiver<u64> {
        self.collection(resource).signal.subscribe()
    }

    /// Returns a signal that changes with every event of an object after a revision and closes when the resource is
    /// removed.
    pub(crate) fn subscribe_object(
        &mut self,
        resource: &str,
        key: &str,
        since: u64,
    ) -> Result<watch::Receiver<u64>, RevisionError> {
        let present = self.revision;
        let collection = self.collection(resource);
        if since < collection.floor {
            return Err(RevisionError::Compacted(collection.floor));
        }
        let log = &collection.log;
        let earlier = |after: u64, up_to: u64| {
            let (from, to) =
                (log.partition_point(|e| e.revision <= after), log.partition_point(|e| e.revision <= up_to));
            log.range(from..to).filter(|event| event.key() == key).map(|event| event.revision).collect()
        };
        Ok(collection.object_watches.subscribe(key, since, present, earlier))
    }

    /// Returns the next events of one object after a revision. Requires [`Self::subscribe_object`] for the object.
    pub(crate) fn object_events_after(
        &self,
        resource: &str,
        key: &str,
        revision: u64,
        limit: usize,
    ) -> Result<Batch, RevisionError> {
        let Some(collection) = self.collections.get(resource) else {
            return Ok(Batch { events: Vec::new(), up_to: self.revision });
        };
        let mut revisions =
            collection.object_watches.revisions_after(key, revision).map_err(RevisionError::Compacted)?;
        let log = &collection.log;
        let at = |revision: u64| log.get(log.partition_point(|event| event.revision < revision)).cloned();
        let events: Vec<Event> = revisions.by_ref().take(limit).filter_map(at).collect();
        let up_to = match (revisions.next(), events.last()) {
            (Some(_), Some(last)) => last.revision,
            _ => self.revision,
        };
        Ok(Batch { events, up_to: up_to.max(revision) })
    }

    /// Returns at most `limit` next events of a resource after a revision.
    pub(crate) fn events_after(&self, resource: &str, revision: u64, limit: usize) -> Result<Batch, RevisionError> {
        let Some(collection) = self.collections.get(resource) else {
            return Ok(Batch { events: Vec::new(), up_to: self.revision });
        };
        if revision < collection.floor {
            return Err(RevisionError::Compacted(collection.floor));
        }
        let since = collection.log.partition_point(|event| event.revision <= revision);
        let events: Vec<Event> = collection.log.range(since..).take(limit).cloned().collect();
        let all = since + events.len() == collection.log.len();
        let up_to = if all { self.revision } else { events.last().map_or(revision, |event| event.revision) };
        Ok(Batch { events, up_to: up_to.max(revision) })
    }

    /// Removes all history. Older revisions can then be neither listed nor watched.
    pub(crate) fn compact(&mut self) {
        let revision = self.revision;
        for collection in self.collections.values_mut() {
            collection.log.clear();
            collection.log_bytes = 0;
            collection.floor = revision;
            collection.object_watches.forget_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn store(events: usize) -> Store {
        Store::new(Limits { events, bytes: usize::MAX })
    }

    fn object(name: &str, value: u64) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "value": value})
    }

    fn names(list: &[Arc<StoredObject>]) -> Vec<String> {
        list.iter().map(|stored| format!("{}={}", stored.name, stored.value()["value"])).collect()
    }

    #[test]
    fn scan_reconstructs_past_revisions() {
        let mut store = store(100);
        let (a, _) = store.put("nodes", "a", None, object("a", 1)).unwrap();
        let (b, _) = store.put("nodes", "b", None, object("b", 1)).unwrap();
        let then = store.revision();
        store.put("nodes", "a", Some(a.revision), object("a", 2)).unwrap();
        assert!(store.remove("nodes", "b", b.revision));
        store.put("nodes", "c", None, object("c", 1)).unwrap();
        assert_eq!(names(&store.scan("nodes", "", "", Some(then)).unwrap()), ["a=1", "b=1"]);
        assert_eq!(names(&store.scan("nodes", "", "", None).unwrap()), ["a=2", "c=1"]);
        assert_eq!(names(&store.scan("nodes", "", "a\0", Some(then)).unwrap()), ["b=1"]);
        assert!(matches!(store.scan("nodes", "", "", Some(99)), Err(RevisionError::Future(_))));
        store.compact();
        assert!(matches!(store.scan("nodes", "", "", Some(then)), Err(RevisionError::Compacted(_))));
    }

    #[test]
    fn refuses_write_with_outdated_revision() {
        let mut store = store(100);
        let (a, _) = store.put("nodes", "a", None, object("a", 1)).unwrap();
        assert!(store.put("nodes", "a", None, object("a", 2)).is_err());
        store.put("nodes", "a", Some(a.revision), object("a", 2)).unwrap();
        assert!(store.put("nodes", "a", Some(a.revision), object("a", 3)).is_err());
        assert!(!store.remove("nodes", "a", a.revision));
    }

    #[test]
    fn keeps_bounded_history() {
        let mut store = store(2);
        let start = store.revision();
        for name in ["a", "b", "c"] {
            store.put("nodes", name, None, object(name, 1)).unwrap();
        }
        assert!(matches!(store.events_after("nodes", start, 10), Err(RevisionError::Compacted(_))));
        let batch = store.events_after("nodes", start + 1, 10).unwrap();
        assert_eq!(batch.events.len(), 2);
        assert_eq!(batch.up_to, store.revision());
    }

    #[test]
    fn object_watch_ignores_other_objects_and_their_history() {
        let mut store = store(4);
        let (a, _) = store.put("nodes", "a", None, object("a", 1)).unwrap();
        let begin = a.revision - 1;
        assert!(store.subscribe_object("nodes", "a", 0).is_ok(), "all its events are in the log");
        let mut late = store.subscribe_object("nodes", "a", a.revision).unwrap();
        let mut early = store.subscribe_object("nodes", "a", begin).unwrap();
        let revisions = |store: &Store, since| -> Vec<u64> {
            store
                .object_events_after("nodes", "a", since, 10)
                .unwrap()
                .events
                .iter()
                .map(|event| event.revision)
                .collect()
        };
        assert_eq!((revisions(&store, begin), revisions(&store, a.revision)), (vec![a.revision], vec![]));
        late.borrow_and_update();
        early.borrow_and_update();
        for value in 0..10 {
            let (other, _) =
                store.put("nodes", &format!("b{value}"), None, object(&format!("b{value}"), value)).unwrap();
            assert!(!late.has_changed().unwrap() && other.revision > a.revision);
        }
        // One of the two watchers has missed an event of the object, which was removed from the log.
        assert!(matches!(store.object_events_after("nodes", "a", begin, 10), Err(RevisionError::Compacted(_))));
        let batch = store.object_events_after("nodes", "a", a.revision, 10).unwrap();
        assert!(batch.events.is_empty() && batch.up_to == store.revision());
        assert!(store.subscribe_object("nodes", "a", begin).is_err());
        let (again, _) = store.put("nodes", "a", Some(a.revision), object("a", 2)).unwrap();
        assert!(late.has_changed().unwrap());
        assert_eq!(revisions(&store, a.revision), [again.revision]);
        store.compact();
        assert!(revisions(&store, again.revision).is_empty());
        store.end_watches("nodes");
        assert!(late.has_changed().is_err());
    }

    #[test]
    fn indexes_dependents_by_owner() {
        let mut store = store(10);
        let mut lease = object("l", 1);
        lease["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
        let (stored, _) = store.put("leases", "l", None, lease).unwrap();
        assert_eq!(store.dependents("u"), [("leases".to_owned(), "l".to_owned())]);
        store.put("leases", "l", Some(stored.revision), object("l", 2)).unwrap();
        assert!(store.dependents("u").is_empty());
    }
}
