//! Where objects live: one ordered map and one bounded log of events per resource, under one revision counter.
//!
//! The store knows nothing of HTTP, users or validation. It serialises what it is given once; lists, watches and history
//! share that buffer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::named::Index;
use super::object::{Change, Stored, set_revision};

/// One change of one object.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// The revision of the change.
    pub(crate) revision: u64,
    /// What happened.
    pub(crate) change: Change,
    /// The object after it; for a deletion, its last state.
    pub(crate) object: Arc<Stored>,
    /// The object before it.
    pub(crate) previous: Option<Arc<Stored>>,
}

impl Event {
    fn key(&self) -> String {
        key(&self.object.namespace, &self.object.name)
    }
}

/// Bytes that an event keeps alive and the present does not.
fn held(event: &Event) -> usize {
    let last = if event.change == Change::Deleted { event.object.size() } else { 0 };
    last + event.previous.as_ref().map_or(0, |previous| previous.size())
}

/// How much history a resource keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Events per resource.
    pub(crate) events: usize,
    /// Bytes of superseded states per resource.
    pub(crate) bytes: usize,
}

struct Collection {
    objects: BTreeMap<String, Arc<Stored>>,
    log: VecDeque<Event>,
    log_bytes: usize,
    /// Events up to here are gone.
    floor: u64,
    signal: watch::Sender<u64>,
    named: Index,
}

impl Collection {
    fn new(floor: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            log_bytes: 0,
            floor,
            signal: watch::Sender::new(floor),
            named: Index::default(),
        }
    }

    fn record(&mut self, event: Event, limits: Limits) {
        let revision = event.revision;
        self.log_bytes += held(&event);
        if !self.named.is_empty() {
            self.named.record(&event.key(), revision);
        }
        self.log.push_back(event);
        while self.log.len() > limits.events || (self.log_bytes > limits.bytes && self.log.len() > 1) {
            if let Some(gone) = self.log.pop_front() {
                self.log_bytes = self.log_bytes.saturating_sub(held(&gone));
                self.floor = gone.revision;
                if !self.named.is_empty() {
                    self.named.forget(&gone.key(), gone.revision);
                }
            }
        }
        self.signal.send_replace(revision);
    }
}

/// The key of an object within its resource.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Why a revision cannot be looked back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    /// Its history is gone; the oldest revision that is left.
    Compacted(u64),
    /// It has not happened yet; the present revision.
    Future(u64),
}

/// The next events of a watch.
pub(crate) struct Batch {
    /// In order of revision.
    pub(crate) events: Vec<Event>,
    /// Everything up to here has been seen once these events are.
    pub(crate) upto: u64,
}

/// All objects of a cluster.
pub(crate) struct Store {
    revision: u64,
    limits: Limits,
    collections: BTreeMap<String, Collection>,
    owned: BTreeMap<String, BTreeSet<(String, String)>>,
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    references.into_iter().flatten().filter_map(|reference| reference.get("uid").and_then(Value::as_str))
}

impl Store {
    /// An empty store.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { revision: 1, limits, collections: BTreeMap::new(), owned: BTreeMap::new() }
    }

    /// The latest revision.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    fn collection(&mut self, resource: &str) -> &mut Collection {
        // A resource that is written for the first time has had no history since the beginning.
        self.collections.entry(resource.to_owned()).or_insert_with(|| Collection::new(0))
    }

    /// An object.
    pub(crate) fn get(&self, resource: &str, key: &str) -> Option<Arc<Stored>> {
        self.collections.get(resource)?.objects.get(key).cloned()
    }

    /// Writes an object unless another write came first: `expected` is the revision it replaces, none for a new one.
    /// Gives back the object with its new resourceVersion, or the object unwritten.
    pub(crate) fn put(
        &mut self,
        resource: &str,
        key: &str,
        expected: Option<u64>,
        mut object: Value,
    ) -> Result<(Arc<Stored>, Value), Value> {
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
        let stored = Arc::new(Stored::new(&object, revision, change));
        let collection = self.collection(resource);
        collection.objects.insert(key.to_owned(), stored.clone());
        collection.record(Event { revision, change, object: stored.clone(), previous }, limits);
        Ok((stored, object))
    }

    fn forget_owners(&mut self, resource: &str, key: &str, before: &Stored) {
        if !before.has_owners() {
            return;
        }
        let entry = (resource.to_owned(), key.to_owned());
        for uid in owners(&before.value()) {
            if let Some(dependants) = self.owned.get_mut(uid) {
                dependants.remove(&entry);
                if dependants.is_empty() {
                    self.owned.remove(uid);
                }
            }
        }
    }

    /// Deletes an object unless another write came first. False when one did.
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
        let object = Arc::new(previous.at(revision, Change::Deleted));
        collection.record(Event { revision, change: Change::Deleted, object, previous: Some(previous) }, limits);
        true
    }

    /// Objects that name this uid as an owner, as (resource, key).
    pub(crate) fn dependants(&self, uid: &str) -> Vec<(String, String)> {
        self.owned.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Every object of a namespace, as (resource, key).
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<(String, String)> {
        let (from, to) = (format!("{namespace}/"), format!("{namespace}0"));
        let found = |(resource, collection): (&String, &Collection)| {
            let keys = collection.objects.range(from.clone()..to.clone()).map(|(key, _)| key.clone());
            keys.map(|key| (resource.clone(), key)).collect::<Vec<_>>()
        };
        self.collections.iter().flat_map(found).collect()
    }

    /// Every key of a resource.
    pub(crate) fn keys(&self, resource: &str) -> Vec<String> {
        self.collections.get(resource).map(|c| c.objects.keys().cloned().collect()).unwrap_or_default()
    }

    /// Ends the watches of a resource that is no longer served, once they have seen its last events.
    pub(crate) fn end_watches(&mut self, resource: &str) {
        if let Some(collection) = self.collections.get_mut(resource) {
            collection.signal = watch::Sender::new(self.revision);
            collection.named = Index::default();
        }
    }

    /// Objects of a namespace (all when empty) from `start` on, in order, as they were at a past revision, or now.
    pub(crate) fn scan(
        &self,
        resource: &str,
        namespace: &str,
        start: &str,
        at: Option<u64>,
    ) -> Result<Vec<Arc<Stored>>, Past> {
        if at.is_some_and(|revision| revision > self.revision) {
            return Err(Past::Future(self.revision));
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
            return Err(Past::Compacted(collection.floor));
        }
        let since = collection.log.partition_point(|event| event.revision <= revision);
        let mut undone: BTreeMap<String, Option<Arc<Stored>>> = BTreeMap::new();
        for event in collection.log.range(since..) {
            undone.entry(event.key()).or_insert_with(|| event.previous.clone());
        }
        let mut past: BTreeMap<String, Arc<Stored>> = present
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

    /// A signal that changes with every event of a resource, and closes when the resource goes.
    pub(crate) fn subscribe(&mut self, resource: &str) -> watch::Receiver<u64> {
        self.collection(resource).signal.subscribe()
    }

    /// A signal that changes with every event of one object after a revision, and closes when the resource goes.
    pub(crate) fn subscribe_to(&mut self, resource: &str, key: &str, since: u64) -> Result<watch::Receiver<u64>, Past> {
        let present = self.revision;
        let collection = self.collection(resource);
        if since < collection.floor {
            return Err(Past::Compacted(collection.floor));
        }
        let log = &collection.log;
        let earlier = |after: u64, upto: u64| {
            let (from, to) =
                (log.partition_point(|e| e.revision <= after), log.partition_point(|e| e.revision <= upto));
            log.range(from..to).filter(|event| event.key() == key).map(|event| event.revision).collect()
        };
        Ok(collection.named.subscribe(key, since, present, earlier))
    }

    /// The next events of one object after a revision. Only for who has [subscribed](Self::subscribe_to) to it.
    pub(crate) fn after_of(&self, resource: &str, key: &str, revision: u64, limit: usize) -> Result<Batch, Past> {
        let Some(collection) = self.collections.get(resource) else {
            return Ok(Batch { events: Vec::new(), upto: self.revision });
        };
        let mut revisions = collection.named.after(key, revision).map_err(Past::Compacted)?;
        let log = &collection.log;
        let at = |revision: u64| log.get(log.partition_point(|event| event.revision < revision)).cloned();
        let events: Vec<Event> = revisions.by_ref().take(limit).filter_map(at).collect();
        let upto = match (revisions.next(), events.last()) {
            (Some(_), Some(last)) => last.revision,
            _ => self.revision,
        };
        Ok(Batch { events, upto: upto.max(revision) })
    }

    /// The next events of a resource after a revision, a bounded number at a time.
    pub(crate) fn after(&self, resource: &str, revision: u64, limit: usize) -> Result<Batch, Past> {
        let Some(collection) = self.collections.get(resource) else {
            return Ok(Batch { events: Vec::new(), upto: self.revision });
        };
        if revision < collection.floor {
            return Err(Past::Compacted(collection.floor));
        }
        let since = collection.log.partition_point(|event| event.revision <= revision);
        let events: Vec<Event> = collection.log.range(since..).take(limit).cloned().collect();
        let all = since + events.len() == collection.log.len();
        let upto = if all { self.revision } else { events.last().map_or(revision, |event| event.revision) };
        Ok(Batch { events, upto: upto.max(revision) })
    }

    /// Forgets all history: what is older than now can neither be listed nor watched from.
    pub(crate) fn compact(&mut self) {
        let revision = self.revision;
        for collection in self.collections.values_mut() {
            collection.log.clear();
            collection.log_bytes = 0;
            collection.floor = revision;
            collection.named.forget_all();
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

    fn names(list: &[Arc<Stored>]) -> Vec<String> {
        list.iter().map(|stored| format!("{}={}", stored.name, stored.value()["value"])).collect()
    }

    #[test]
    fn the_past_is_reconstructed() {
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
        assert!(matches!(store.scan("nodes", "", "", Some(99)), Err(Past::Future(_))));
        store.compact();
        assert!(matches!(store.scan("nodes", "", "", Some(then)), Err(Past::Compacted(_))));
    }

    #[test]
    fn a_write_that_comes_second_is_refused() {
        let mut store = store(100);
        let (a, _) = store.put("nodes", "a", None, object("a", 1)).unwrap();
        assert!(store.put("nodes", "a", None, object("a", 2)).is_err());
        store.put("nodes", "a", Some(a.revision), object("a", 2)).unwrap();
        assert!(store.put("nodes", "a", Some(a.revision), object("a", 3)).is_err());
        assert!(!store.remove("nodes", "a", a.revision));
    }

    #[test]
    fn history_is_bounded() {
        let mut store = store(2);
        let start = store.revision();
        for name in ["a", "b", "c"] {
            store.put("nodes", name, None, object(name, 1)).unwrap();
        }
        assert!(matches!(store.after("nodes", start, 10), Err(Past::Compacted(_))));
        let batch = store.after("nodes", start + 1, 10).unwrap();
        assert_eq!(batch.events.len(), 2);
        assert_eq!(batch.upto, store.revision());
    }

    #[test]
    fn who_watches_one_object_is_not_told_of_others_and_outlives_their_history() {
        let mut store = store(4);
        let (a, _) = store.put("nodes", "a", None, object("a", 1)).unwrap();
        let begin = a.revision - 1;
        assert!(store.subscribe_to("nodes", "a", 0).is_ok(), "nothing of it is gone");
        let mut late = store.subscribe_to("nodes", "a", a.revision).unwrap();
        let mut early = store.subscribe_to("nodes", "a", begin).unwrap();
        let revisions = |store: &Store, since| -> Vec<u64> {
            store.after_of("nodes", "a", since, 10).unwrap().events.iter().map(|event| event.revision).collect()
        };
        assert_eq!((revisions(&store, begin), revisions(&store, a.revision)), (vec![a.revision], vec![]));
        late.borrow_and_update();
        early.borrow_and_update();
        for value in 0..10 {
            let (other, _) =
                store.put("nodes", &format!("b{value}"), None, object(&format!("b{value}"), value)).unwrap();
            assert!(!late.has_changed().unwrap() && other.revision > a.revision);
        }
        // Of the watched object an event is gone that one of the two has not seen.
        assert!(matches!(store.after_of("nodes", "a", begin, 10), Err(Past::Compacted(_))));
        let batch = store.after_of("nodes", "a", a.revision, 10).unwrap();
        assert!(batch.events.is_empty() && batch.upto == store.revision());
        assert!(store.subscribe_to("nodes", "a", begin).is_err());
        let (again, _) = store.put("nodes", "a", Some(a.revision), object("a", 2)).unwrap();
        assert!(late.has_changed().unwrap());
        assert_eq!(revisions(&store, a.revision), [again.revision]);
        store.compact();
        assert!(revisions(&store, again.revision).is_empty());
        store.end_watches("nodes");
        assert!(late.has_changed().is_err());
    }

    #[test]
    fn dependants_are_indexed() {
        let mut store = store(10);
        let mut lease = object("l", 1);
        lease["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
        let (stored, _) = store.put("leases", "l", None, lease).unwrap();
        assert_eq!(store.dependants("u"), [("leases".to_owned(), "l".to_owned())]);
        store.put("leases", "l", Some(stored.revision), object("l", 2)).unwrap();
        assert!(store.dependants("u").is_empty());
    }
}
