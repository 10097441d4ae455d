//! Reads for a drain: pods, their disruption budgets, and the volumes that are attached to nodes.

use std::collections::{BTreeMap, BTreeSet};

use futures::{Stream, StreamExt as _};
use serde::Deserialize;

use super::wire_pod::{read_pod, read_pod_budget};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::reading::follow::{Change, Following, WATCH, follow};
use crate::reading::list::{Collection, cached, list};
use crate::reading::reader::ClusterReader;
use nodecfg_contract::names::NodeName;
use nodecfg_observed::{Pod, PodBudget};

/// Change of the pods of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodEvent {
    /// A pod appeared or changed. Known pods may be sent again.
    Upsert(Box<Pod>),
    /// A pod is gone.
    Gone {
        /// Uid of the pod.
        uid: String,
    },
    /// All pods of the node: at the start, and after the watch lost its version. Other pods are gone.
    Relisted(Vec<Pod>),
}

impl ClusterReader {
    /// Follows the pods of a node, from a list on. The stream ends with its first error: an outage longer than the
    /// reader's patience, or a refusal by the server.
    pub fn watch_pods(&self, node: &NodeName) -> impl Stream<Item = Result<PodEvent, ClusterError>> + Send + use<> {
        let operation = Operation::on_all(Verb::Watch, Resource::Pods, None);
        let following = Following { collection: Collection::on_node(operation, node), version: None, watch: WATCH };
        follow(&self.transport, following, read_pod).map(|change| {
            Ok(match change? {
                Change::Upsert(pod) => PodEvent::Upsert(Box::new(pod)),
                Change::Deleted(pod) => PodEvent::Gone { uid: pod.uid },
                Change::Relisted(pods) => PodEvent::Relisted(pods),
            })
        })
    }

    /// Pods that are bound to a node.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
    pub async fn list_pods_on(&self, node: &NodeName) -> Result<Vec<Pod>, ClusterError> {
        let operation = Operation::on_all(Verb::List, Resource::Pods, None);
        Ok(list(&self.transport, &Collection::on_node(operation, node), "application/json", read_pod).await?.0)
    }

    /// Pods that are bound to a node, as the API server has them in its cache. The cache has an index of the nodes of
    /// pods (kubernetes, `pkg/registry/core/pod/strategy.go`: `NodeNameIndexFunc`), while API servers before 1.31 read
    /// all pods of the cluster for a list that must not be old. A rollout sends two of these lists for each node.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request.
    pub async fn cached_pods_on(&self, node: &NodeName) -> Result<Vec<Pod>, ClusterError> {
        let operation = Operation::on_all(Verb::List, Resource::Pods, None);
        cached(&self.transport, &Collection::on_node(operation, node), read_pod).await
    }

    /// What `keep` returns for each pod that is bound to a node. A cluster may have 450,000 pods, so `keep` sees each
    /// pod while it arrives, and should keep little. After an expired continuation it sees all pods again, and the
    /// earlier results are dropped.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
    pub async fn list_pods<T>(&self, keep: impl Fn(Pod) -> Option<T>) -> Result<Vec<T>, ClusterError> {
        let all = Collection::all(Operation::on_all(Verb::List, Resource::Pods, None));
        let keep = |item: &[u8]| Ok(read_pod(item)?.and_then(&keep));
        Ok(list(&self.transport, &all, "application/json", keep).await?.0)
    }

    /// All PodDisruptionBudgets. API servers from 1.21 serve them as policy/v1.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
    pub async fn list_pod_budgets(&self) -> Result<Vec<PodBudget>, ClusterError> {
        let all = Collection::all(Operation::on_all(Verb::List, Resource::PodDisruptionBudgets, None));
        let keep = |item: &[u8]| read_pod_budget(item).map(Some);
        Ok(list(&self.transport, &all, "application/json", keep).await?.0)
    }

    /// Number of volumes that are attached to each of these nodes; nodes without any are missing. VolumeAttachments have
    /// no field selector, so one list serves all nodes.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
    pub async fn attached_volumes(
        &self,
        nodes: &BTreeSet<NodeName>,
    ) -> Result<BTreeMap<NodeName, usize>, ClusterError> {
        let all = Collection::all(Operation::on_all(Verb::List, Resource::VolumeAttachments, None));
        let keep = |item: &[u8]| Ok(attached_to(item)?.filter(|node| nodes.contains(node)));
        let (attached, _) = list(&self.transport, &all, "application/json", keep).await?;
        let mut counts = BTreeMap::new();
        for node in attached {
            *counts.entry(node).or_insert(0) += 1;
        }
        Ok(counts)
    }
}

/// Node that a VolumeAttachment (storage.k8s.io/v1) attaches a volume to. `None` once the volume is detached. An
/// attacher writes the status, so an unreadable one counts as attached.
fn attached_to(item: &[u8]) -> serde_json::Result<Option<NodeName>> {
    #[derive(Deserialize)]
    struct Placed {
        spec: Placement,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Placement {
        node_name: String,
    }
    #[derive(Deserialize)]
    struct Reported {
        #[serde(default)]
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        attached: bool,
    }
    let node = serde_json::from_slice::<Placed>(item)?.spec.node_name;
    let attached = serde_json::from_slice::<Reported>(item).map_or(true, |reported| reported.status.attached);
    Ok(NodeName::new(node).ok().filter(|_| attached))
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
