//! Changes of objects as the model takes them in.

use std::collections::BTreeSet;

use super::facts::{Meta, Node, Pod, PodBudget, Set};
use super::model::Model;
use crate::api::Changes;
use crate::kubelets::Moment;

/// Watched resources.
pub(super) const RESOURCES: [&str; 5] = ["nodes", "replicasets", "daemonsets", "pods", "poddisruptionbudgets"];

/// Object of which only the metadata is read.
#[derive(serde::Deserialize)]
struct Named {
    metadata: Meta,
}

impl Model {
    /// Takes over the changes of a resource.
    pub(super) fn absorb(&mut self, resource: &str, changes: &Changes, now: Moment) {
        let mut listed = BTreeSet::new();
        for change in &changes.seen {
            let json = &change.object[..];
            if changes.complete || change.deleted {
                let Ok(Named { metadata }) = serde_json::from_slice(json) else { continue };
                if change.deleted {
                    self.gone(resource, &metadata.key(), &metadata.uid, now);
                    continue;
                }
                let by_uid = matches!(resource, "replicasets" | "daemonsets");
                listed.insert(if by_uid { metadata.uid.clone() } else { metadata.key() });
            }
            match resource {
                "nodes" => drop(Node::read(json).map(|node| self.node_seen(node, now))),
                "pods" => drop(Pod::read(json).map(|pod| self.pod_seen(pod, &change.object, now))),
                "poddisruptionbudgets" => drop(PodBudget::read(json).map(|budget| self.budget_seen(budget))),
                _ => drop(Set::read(json, resource == "daemonsets").map(|set| self.set_seen(set))),
            }
        }
        if changes.complete {
            self.remove_unlisted(resource, &listed, now);
        }
    }

    fn gone(&mut self, resource: &str, key: &str, uid: &str, now: Moment) {
        match resource {
            "nodes" => self.node_gone(key),
            "pods" => self.pod_gone(key, now),
            "poddisruptionbudgets" => self.budget_gone(key),
            _ => self.set_gone(uid),
        }
    }

    /// Removes what a complete list lacks.
    fn remove_unlisted(&mut self, resource: &str, listed: &BTreeSet<String>, now: Moment) {
        let known: Vec<String> = match resource {
            "nodes" => self.nodes.keys().cloned().collect(),
            "pods" => {
                self.pods.iter().filter(|(_, pod)| !pod.meta.uid.is_empty()).map(|(key, _)| key.clone()).collect()
            }
            "poddisruptionbudgets" => self.budgets.keys().cloned().collect(),
            _ => {
                let daemons = resource == "daemonsets";
                let sets = self.sets.iter().filter(|(_, set)| set.replicas.is_none() == daemons);
                sets.map(|(uid, _)| uid.clone()).collect()
            }
        };
        for key in known.into_iter().filter(|key| !listed.contains(key)) {
            self.gone(resource, &key, &key, now);
        }
    }
}
