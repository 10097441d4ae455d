//! Part of the ReplicaSet and DaemonSet controllers and of the scheduler.

use std::collections::BTreeMap;

use super::facts::{Pod, Set, Toleration};
use super::model::{Action, Model};
use super::objects;

/// Characters of generated names (apimachinery `pkg/util/rand`).
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Model {
    /// Creates missing pods of a ReplicaSet, deletes surplus ones, and reports their number.
    pub(super) fn reconcile_replicas(&mut self, uid: &str) {
        let Some((set, replicas)) = self.sets.get(uid).and_then(|set| Some((set.clone(), set.replicas?))) else {
            return;
        };
        let owned = self.by_owner.get(uid).into_iter().flatten().filter_map(|key| self.pods.get(key));
        let mut active: Vec<&Pod> = owned.filter(|pod| pod.active()).collect();
        // Unbound and unready pods are deleted first.
        active.sort_by_key(|pod| (!pod.node.is_empty(), pod.ready));
        let surplus = active.iter().take(active.len().saturating_sub(replicas));
        let deletions: Vec<Action> = surplus
            .filter(|pod| !pod.meta.uid.is_empty())
            .map(|pod| Action::Delete { key: pod.key.clone(), uid: pod.meta.uid.clone() })
            .collect();
        let counts = (active.len(), active.iter().filter(|pod| pod.ready).count());
        let missing = replicas.saturating_sub(active.len());
        self.actions.extend(deletions);
        for _ in 0..missing {
            let node = self.choose(&set.pod.selector, &set.pod.tolerations);
            self.create_pod(&set, node.as_deref());
        }
        if counts != set.reported || set.observed != set.meta.generation {
            self.actions.push(Action::Set {
                key: set.meta.key(),
                uid: uid.to_owned(),
                replicas: counts.0,
                ready: counts.1,
                generation: set.meta.generation,
            });
        }
    }

    /// Creates the pod of a DaemonSet on a node, after an earlier one has ended.
    pub(super) fn reconcile_daemon(&mut self, uid: &str, node: &str) {
        let (Some(set), Some(present)) = (self.sets.get(uid), self.nodes.get(node)) else { return };
        let mut here = self.by_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key));
        if here.any(|pod| pod.owner() == Some(uid)) || !present.admits(&set.pod.selector, &set.pod.tolerations) {
            return;
        }
        let set = set.clone();
        self.create_pod(&set, Some(node));
    }

    /// Requests a pod of a controller and assumes that it exists.
    fn create_pod(&mut self, set: &Set, node: Option<&str>) {
        let mut name = String::new();
        while name.is_empty() || self.pods.contains_key(&format!("{}/{name}", set.meta.namespace)) {
            let suffix = (0..5).filter_map(|_| self.rng.choice(ALPHABET)).map(|byte| char::from(*byte));
            name = format!("{}-{}", set.meta.name, suffix.collect::<String>());
        }
        let object = objects::pod_of(set, &name, node);
        let mut pod = set.pod.clone();
        pod.key = format!("{}/{name}", set.meta.namespace);
        pod.meta.name = name;
        pod.node = node.unwrap_or_default().to_owned();
        self.remember(pod);
        let run = self.instant && node.is_some_and(|node| self.nodes.get(node).is_some_and(|node| node.ready));
        self.actions.push(Action::Create { namespace: set.meta.namespace.clone(), object, run });
    }

    /// The least loaded node that admits a pod and has room. Nodes with the same load are in order of their names.
    fn choose(&self, selector: &BTreeMap<String, String>, tolerations: &[Toleration]) -> Option<String> {
        let fits = |(count, name): &&(usize, String)| {
            self.nodes.get(name).is_some_and(|node| *count < node.capacity && node.admits(selector, tolerations))
        };
        self.load.iter().find(fits).map(|(_, name)| name.clone())
    }

    /// Binds the pods that fit on a node.
    pub(super) fn schedule_unbound(&mut self) {
        for key in self.unbound.clone() {
            let Some(pod) = self.pods.get(&key).filter(|pod| !pod.meta.uid.is_empty()) else { continue };
            let Some(node) = self.choose(&pod.selector, &pod.tolerations) else { continue };
            self.actions.push(Action::Bind { key, uid: pod.meta.uid.clone(), node: node.clone() });
            // The assumed pod has no uid, so that the report of the binding is the first one on a node.
            let mut bound = pod.clone();
            bound.node = node;
            bound.meta.uid = String::new();
            self.remember(bound);
        }
    }
}
