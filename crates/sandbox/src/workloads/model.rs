//! State of all workloads, without IO: changes of objects and the time in, actions out.
//!
//! The model sees only what the API server reports, and assumes its own new pods until they are reported. Time is
//! simulated; the only randomness is a seeded generator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use super::budget;
use super::facts::{BudgetStatus, Node, Pod, PodBudget, Set};
use super::objects;
use crate::kubelets::Moment;

/// Delay before a controller repeats a failed creation.
const RETRY: Duration = Duration::from_secs(5);
/// Time after which a budget forgets an eviction, and a margin.
const FORGET: Duration = Duration::from_secs(121);

/// Request of the model to its driver.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Create a pod. A failure is reported by [`Model::not_created`].
    Create {
        namespace: String,
        object: Value,
        /// True if the pod runs at once.
        run: bool,
    },
    /// Bind a pod to a node.
    Bind { key: String, uid: String, node: String },
    /// Report a pod as running and ready.
    Start { key: String, uid: String },
    /// Remove a pod that has ended.
    End { key: String, uid: String },
    /// Delete a surplus pod gracefully.
    Delete { key: String, uid: String },
    /// Write the status of a ReplicaSet.
    Set { key: String, uid: String, replicas: usize, ready: usize, generation: i64 },
    /// Write the status of a budget, if it still has this revision.
    Budget { key: String, revision: u64, status: BudgetStatus },
    /// Attach a volume to a node.
    Attach { name: String, node: String, claim: String },
    /// Detach a volume.
    Detach { name: String },
}

/// Work at a later time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Start { key: String, uid: String },
    End { key: String, uid: String },
    Detach { name: String },
    Set { uid: String },
    Budget { key: String },
}

/// Volume on a node.
#[derive(Debug, Clone)]
pub(super) struct Attachment {
    pub node: String,
    pub namespace: String,
    pub claim: String,
    /// Set if the volume stays attached.
    pub stuck: bool,
}

/// All workloads.
pub(super) struct Model {
    pub(super) rng: fastrand::Rng,
    /// Set while pods start at once, to create the first workloads.
    pub(super) instant: bool,
    pub(super) nodes: BTreeMap<String, Node>,
    /// Pods by namespace and name.
    pub(super) pods: BTreeMap<String, Pod>,
    /// ReplicaSets and DaemonSets by uid.
    pub(super) sets: BTreeMap<String, Set>,
    pub(super) budgets: BTreeMap<String, PodBudget>,
    /// Keys of pods by the uid of their controller.
    pub(super) by_owner: BTreeMap<String, BTreeSet<String>>,
    /// Keys of pods by node.
    pub(super) by_node: BTreeMap<String, BTreeSet<String>>,
    /// Nodes by number of pods.
    pub(super) load: BTreeSet<(usize, String)>,
    /// Last states of pods that are created again.
    pub(super) returning: BTreeMap<String, Bytes>,
    /// Attached volumes by name of the VolumeAttachment.
    pub(super) attached: BTreeMap<String, Attachment>,
    pub(super) timers: BTreeSet<(Moment, Timer)>,
    pub(super) dirty_sets: BTreeSet<String>,
    /// DaemonSets and nodes to compare.
    pub(super) dirty_daemons: BTreeSet<(String, String)>,
    dirty_budgets: BTreeSet<String>,
    pub(super) unbound: BTreeSet<String>,
    /// Set if unbound pods may fit now.
    pub(super) schedule: bool,
    pub(super) actions: Vec<Action>,
}

impl Model {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            instant: true,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            sets: BTreeMap::new(),
            budgets: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_node: BTreeMap::new(),
            load: BTreeSet::new(),
            returning: BTreeMap::new(),
            attached: BTreeMap::new(),
            timers: BTreeSet::new(),
            dirty_sets: BTreeSet::new(),
            dirty_daemons: BTreeSet::new(),
            dirty_budgets: BTreeSet::new(),
            unbound: BTreeSet::new(),
            schedule: false,
            actions: Vec::new(),
        }
    }

    /// Time of the next timer.
    pub(super) fn next_timer(&self) -> Option<Moment> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Reacts to all changes and due timers. Evictions until `expired` without a deletion are forgotten.
    pub(super) fn step(&mut self, now: Moment, expired: Timestamp) -> Vec<Action> {
        while let Some(timer) = self.due(now) {
            match timer {
                Timer::Start { key, uid } => self.start(&key, &uid),
                Timer::End { key, uid } => self.end(&key, &uid),
                Timer::Detach { name } => self.detach(&name),
                Timer::Set { uid } => {
                    self.dirty_set(&uid);
                }
                Timer::Budget { key } => {
                    self.dirty_budgets.insert(key);
                }
            }
        }
        for uid in std::mem::take(&mut self.dirty_sets) {
            self.reconcile_replicas(&uid);
        }
        for (uid, node) in std::mem::take(&mut self.dirty_daemons) {
            self.reconcile_daemon(&uid, &node);
        }
        if std::mem::take(&mut self.schedule) {
            self.schedule_unbound();
        }
        for key in std::mem::take(&mut self.dirty_budgets) {
            self.reconcile_budget(&key, now, expired);
        }
        std::mem::take(&mut self.actions)
    }

    fn due(&mut self, now: Moment) -> Option<Timer> {
        self.timers.first().filter(|(at, _)| *at <= now)?;
        self.timers.pop_first().map(|(_, timer)| timer)
    }

    pub(super) fn arm(&mut self, at: Moment, timer: Timer) {
        self.timers.insert((at, timer));
    }

    /// A pod was not created: the namespace is being deleted, for example.
    pub(super) fn not_created(&mut self, key: &str, now: Moment) {
        if let Some(pod) = self.pods.get(key).filter(|pod| pod.meta.uid.is_empty()) {
            if let Some(uid) = pod.owner().map(str::to_owned) {
                self.arm(now + RETRY, Timer::Set { uid });
            }
            self.forget(key);
        }
    }

    /// Marks a controller for reconciliation.
    pub(super) fn dirty_set(&mut self, uid: &str) {
        match self.sets.get(uid).map(|set| set.replicas) {
            Some(Some(_)) => {
                self.dirty_sets.insert(uid.to_owned());
            }
            Some(None) => {
                let pairs = self.nodes.keys().map(|node| (uid.to_owned(), node.clone()));
                self.dirty_daemons.extend(pairs);
            }
            None => {}
        }
    }

    /// Marks the controller and the budgets of a pod for reconciliation.
    fn dirty_around(&mut self, pod: &Pod) {
        if let Some(owner) = pod.owner() {
            match self.sets.get(owner).map(|set| set.replicas) {
                Some(Some(_)) => {
                    self.dirty_sets.insert(owner.to_owned());
                }
                Some(None) => {
                    self.dirty_daemons.insert((owner.to_owned(), pod.node.clone()));
                }
                None => {}
            }
        }
        let covering = in_namespace(&self.budgets, &pod.meta.namespace).filter(|(_, budget)| budget.covers(pod));
        let covering: Vec<String> = covering.map(|(key, _)| key.clone()).collect();
        self.dirty_budgets.extend(covering);
    }

    /// A pod was created or changed.
    pub(super) fn pod_seen(&mut self, pod: Pod, json: &Bytes, now: Moment) {
        let key = pod.key.clone();
        if self.pods.get(&key).is_some_and(|old| !old.meta.uid.is_empty() && old.meta.uid != pod.meta.uid) {
            self.pod_gone(&key, now);
        }
        if pod.returns() {
            self.returning.insert(key.clone(), json.clone());
        }
        let reported = self.pods.get(&key).filter(|old| !old.meta.uid.is_empty());
        let was_bound = reported.is_some_and(|old| !old.node.is_empty());
        let was_deleting = reported.is_some_and(Pod::deleting);
        if let Some(old) = self.remember(pod.clone()) {
            self.dirty_around(&old);
        }
        self.dirty_around(&pod);
        self.pod_on_node(&pod, was_bound, was_deleting, now);
    }

    /// A pod was removed.
    pub(super) fn pod_gone(&mut self, key: &str, now: Moment) {
        let Some(pod) = self.forget(key) else { return };
        self.dirty_around(&pod);
        self.schedule = true;
        self.volumes_unused(&pod, now);
        if let Some(object) = self.returning.remove(key).and_then(|json| objects::again(&json, pod.mirror()))
            && (!pod.mirror() || self.nodes.contains_key(&pod.node))
        {
            self.actions.push(Action::Create { namespace: pod.meta.namespace, object, run: false });
        }
    }

    /// Adds or replaces a pod in all indexes. Returns the replaced one.
    pub(super) fn remember(&mut self, pod: Pod) -> Option<Pod> {
        let key = pod.key.clone();
        let old = self.forget(&key);
        if let Some(owner) = pod.owner() {
            self.by_owner.entry(owner.to_owned()).or_default().insert(key.clone());
        }
        if !pod.node.is_empty() {
            self.count(&pod.node, |keys| keys.insert(key.clone()));
        } else if pod.active() {
            self.unbound.insert(key.clone());
            self.schedule = true;
        }
        self.pods.insert(key, pod);
        old
    }

    fn forget(&mut self, key: &str) -> Option<Pod> {
        let pod = self.pods.remove(key)?;
        self.unbound.remove(key);
        if let Some(keys) = pod.owner().and_then(|owner| self.by_owner.get_mut(owner)) {
            keys.remove(key);
        }
        if !pod.node.is_empty() {
            self.count(&pod.node, |keys| keys.remove(key));
        }
        Some(pod)
    }

    fn count(&mut self, node: &str, change: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let keys = self.by_node.entry(node.to_owned()).or_default();
        let before = keys.len();
        change(keys);
        let after = keys.len();
        if self.load.remove(&(before, node.to_owned())) {
            self.load.insert((after, node.to_owned()));
        }
    }

    /// A Node was created or changed.
    pub(super) fn node_seen(&mut self, node: Node, now: Moment) {
        if self.nodes.get(&node.name) == Some(&node) {
            return;
        }
        let name = node.name.clone();
        let started = node.ready;
        if self.nodes.insert(name.clone(), node).is_none() {
            self.load.insert((self.by_node.get(&name).map_or(0, BTreeSet::len), name.clone()));
        }
        self.schedule = true;
        let daemons = self.sets.iter().filter(|(_, set)| set.replicas.is_none());
        self.dirty_daemons.extend(daemons.map(|(uid, _)| (uid.clone(), name.clone())));
        if started {
            self.kubelet_started(&name, now);
        }
    }

    /// A Node was removed. Its pods go with it (pod garbage collector).
    pub(super) fn node_gone(&mut self, name: &str) {
        let keys = self.by_node.get(name).cloned().unwrap_or_default();
        self.load.remove(&(keys.len(), name.to_owned()));
        if self.nodes.remove(name).is_some() {
            let gone = keys.iter().filter_map(|key| self.pods.get(key));
            let ends = gone.map(|pod| Action::End { key: pod.key.clone(), uid: pod.meta.uid.clone() });
            self.actions.extend(ends);
        }
    }

    /// A ReplicaSet or DaemonSet was created or changed.
    pub(super) fn set_seen(&mut self, set: Set) {
        let uid = set.meta.uid.clone();
        let changed = self.sets.get(&uid).is_none_or(|old| old.meta.generation != set.meta.generation);
        let is_daemon = set.replicas.is_none();
        self.sets.insert(uid.clone(), set);
        if changed || is_daemon {
            self.dirty_set(&uid);
        }
        if changed {
            // Budgets depend on the number of replicas.
            let keys: Vec<String> = self.by_owner.get(&uid).into_iter().flatten().cloned().collect();
            for pod in keys.iter().filter_map(|key| self.pods.get(key).cloned()).collect::<Vec<_>>() {
                self.dirty_around(&pod);
            }
        }
    }

    /// A ReplicaSet or DaemonSet was removed. The garbage collector deletes its pods.
    pub(super) fn set_gone(&mut self, uid: &str) {
        self.sets.remove(uid);
    }

    /// A budget was created or changed.
    pub(super) fn budget_seen(&mut self, budget: PodBudget) {
        let key = budget.meta.key();
        self.budgets.insert(key.clone(), budget);
        self.dirty_budgets.insert(key);
    }

    /// A budget was removed.
    pub(super) fn budget_gone(&mut self, key: &str) {
        self.budgets.remove(key);
    }

    fn reconcile_budget(&mut self, key: &str, now: Moment, expired: Timestamp) {
        let Some(budget) = self.budgets.get(key) else { return };
        let pods = in_namespace(&self.pods, &budget.meta.namespace).map(|(_, pod)| pod);
        let scale = |owner: &str| self.sets.get(owner).and_then(|set| set.replicas);
        let status = budget::status(budget, pods, scale, expired);
        let waits = !status.disrupted_pods.is_empty();
        if status != budget.status {
            let revision = budget.revision;
            self.actions.push(Action::Budget { key: key.to_owned(), revision, status });
        }
        if waits {
            self.arm(now + FORGET, Timer::Budget { key: key.to_owned() });
        }
    }
}

/// Entries of a namespace, by keys of namespace and name.
pub(super) fn in_namespace<'a, V>(
    all: &'a BTreeMap<String, V>,
    namespace: &str,
) -> impl Iterator<Item = (&'a String, &'a V)> + use<'a, V> {
    // '0' follows '/'.
    all.range(format!("{namespace}/")..format!("{namespace}0"))
}
