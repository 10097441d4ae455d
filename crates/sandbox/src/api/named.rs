//! Which events of a resource concern which object, for watches of a single one: a write wakes nobody who watches another
//! object, and whoever is woken reads nothing else.
//!
//! Kept for objects that somebody watches by name, and no others.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;

/// One object that is watched by name.
#[derive(Debug)]
struct Named {
    signal: watch::Sender<u64>,
    /// Revisions of its events in the log, later than `from`.
    revisions: VecDeque<u64>,
    from: u64,
    /// The last of its events that has left the log.
    lost: u64,
}

/// All objects of a resource that are watched by name, by key.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<String, Named>);

impl Index {
    /// Whether nobody watches by name.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes note of an event and wakes who waits for it.
    pub(super) fn record(&mut self, key: &str, revision: u64) {
        let Some(named) = self.0.get_mut(key) else { return };
        if named.signal.receiver_count() == 0 {
            self.0.remove(key);
            return;
        }
        named.revisions.push_back(revision);
        named.signal.send_replace(revision);
    }

    /// Takes note that an event has left the log.
    pub(super) fn forget(&mut self, key: &str, revision: u64) {
        if let Some(named) = self.0.get_mut(key) {
            named.forget(revision);
        }
    }

    /// Takes note that the whole log is gone.
    pub(super) fn forget_all(&mut self) {
        for named in self.0.values_mut() {
            named.forget(u64::MAX);
        }
    }

    /// A signal that changes with every event of an object. `earlier` finds its revisions in the log after one revision and
    /// up to another.
    pub(super) fn subscribe(
        &mut self,
        key: &str,
        since: u64,
        present: u64,
        earlier: impl Fn(u64, u64) -> Vec<u64>,
    ) -> watch::Receiver<u64> {
        let named = self.0.entry(key.to_owned()).or_insert_with(|| Named {
            signal: watch::Sender::new(present),
            revisions: VecDeque::new(),
            from: present,
            lost: 0,
        });
        if since < named.from {
            for revision in earlier(since, named.from).into_iter().rev() {
                named.revisions.push_front(revision);
            }
            named.from = since;
        }
        named.signal.subscribe()
    }

    /// Revisions of an object's events after one revision; the last one that is lost when it was later than that.
    pub(super) fn after(&self, key: &str, revision: u64) -> Result<impl Iterator<Item = u64>, u64> {
        let named = self.0.get(key);
        if let Some(lost) = named.map(|named| named.lost).filter(|lost| revision < *lost) {
            return Err(lost);
        }
        let since = named.map_or(0, |named| named.revisions.partition_point(|at| *at <= revision));
        Ok(named.into_iter().flat_map(move |named| named.revisions.range(since..).copied()))
    }
}

impl Named {
    fn forget(&mut self, upto: u64) {
        while let Some(revision) = self.revisions.pop_front_if(|revision| *revision <= upto) {
            self.lost = revision;
        }
    }
}
