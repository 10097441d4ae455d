//! Requests of a node that joins: reads its Node and the pointer of its pool, creates its NodeConfig, and removes the
//! startup taint.
//!
//! The patch of the Node tests the uid and the whole list of taints. So it never overwrites a change of another
//! client.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AgentClient, COMPONENT};
use crate::joining::{JoinAnswer, JoinConfig, JoinError, JoinRequest, OwnNode};
use kubelet_config::capacity::Capacity;
use nodecfg_cluster::connection::error::ClusterError;
use nodecfg_cluster::connection::operation::{Operation, Resource, Verb};
use nodecfg_cluster::connection::transport::{Call, whole};
use nodecfg_cluster::{IgnoredContent, WireConfigMap};
use nodecfg_contract::labels::{MANAGED_BY_LABEL, MANAGER, POOL_LABEL};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigSpec};
use nodecfg_contract::pool_pointer::{PoolPointer, STARTUP_TAINT, STARTUP_TAINT_EFFECT};
use nodecfg_contract::{ConfigSource, KUBELET_KEY};

/// Place of the pool pointers that new nodes join by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerPlace {
    /// The fleet of the node.
    pub fleet: FleetName,
    /// Namespace of the ConfigMaps.
    pub namespace: NamespaceName,
}

impl AgentClient {
    /// Sends a request of a node that joins.
    pub async fn join(&self, request: &JoinRequest) -> JoinAnswer {
        match request {
            JoinRequest::ReadNode => JoinAnswer::Node(self.own_node().await.map(|node| node.described())),
            JoinRequest::ReadPointer(pool) => JoinAnswer::Pointer(self.pointer(pool).await),
            JoinRequest::Create { node_uid, spec } => {
                JoinAnswer::Created(self.create_node_config(node_uid, spec).await)
            }
            JoinRequest::RemoveTaint(uid) => JoinAnswer::TaintRemoved(self.remove_startup_taint(uid).await),
        }
    }

    async fn own_node(&self) -> Result<TaintedNode, JoinError> {
        let operation = Operation::on(Verb::Get, Resource::Nodes, None, self.node.as_str());
        self.get(&operation, self.retry_limit).await.map_err(refused_or_failed)
    }

    async fn pointer(&self, pool: &str) -> Result<Option<JoinConfig>, JoinError> {
        let Some(PointerPlace { fleet, namespace }) = &self.pointers else {
            return Err(JoinError::NoPointer("the agent has no fleet".to_owned()));
        };
        let pool = PoolName::new(pool).map_err(|error| {
            JoinError::NoPointer(format!("the label {POOL_LABEL} of the Node is no name of a pool: {error}"))
        })?;
        let name = PoolPointer::name(fleet, &pool);
        let operation = Operation::on(Verb::Get, Resource::ConfigMaps, Some(namespace.as_str()), &name);
        let map: WireConfigMap = self.get(&operation, self.retry_limit).await.map_err(|error| match error {
            ClusterError::NotFound { .. } | ClusterError::NamespaceMissing { .. } => {
                JoinError::NoPointer(error.to_string())
            }
            error => refused_or_failed(error),
        })?;
        let pointer = PoolPointer::read(&map.into_fetched(), fleet, &pool).map_err(|error| {
            JoinError::NoPointer(format!("the ConfigMap {namespace}/{name} is no pool pointer: {error}"))
        })?;
        // Only the configuration of a pool with sizes needs the capacity.
        let capacity = match pointer.only() {
            None if !pointer.is_local() => self.own_node().await?.capacity(),
            _ => Capacity::default(),
        };
        let config = pointer.for_node(capacity).map_err(|error| {
            JoinError::NoPointer(format!("the pool pointer {namespace}/{name} fits no such node: {error}"))
        })?;
        Ok(config.map(|config| JoinConfig {
            source: ConfigSource::config_map(namespace.as_str(), &config.config_map, KUBELET_KEY),
            hash: config.hash,
            placement: config.placement,
        }))
    }

    /// Creates the NodeConfig. `None` if one exists already.
    async fn create_node_config(
        &self,
        node_uid: &str,
        spec: &NodeConfigSpec,
    ) -> Result<Option<Box<NodeConfig>>, JoinError> {
        let operation = Operation::on(Verb::Create, Resource::NodeConfigs, None, self.node.as_str());
        // As the reconciler creates it, see `crates/cluster/src/writing/assignment_writer.rs`.
        let body = json!({
            "apiVersion": "nodecfg.dev/v1alpha1",
            "kind": "NodeConfig",
            "metadata": {
                "name": self.node,
                "labels": {MANAGED_BY_LABEL: MANAGER},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": node_uid}],
            },
            "spec": spec,
        });
        let uri = format!("{}?fieldManager={COMPONENT}", operation.path());
        let call = Call::new(Method::POST, uri).content("application/json", body.to_string());
        match self.transport.call(&operation, &call, whole::<NodeConfig>).await {
            Ok(created) => Ok(Some(Box::new(created))),
            Err(ClusterError::AlreadyExists { .. }) => Ok(None),
            Err(error) => Err(refused_or_failed(error)),
        }
    }

    /// Removes the startup taint from the Node with this uid, if it has the taint.
    async fn remove_startup_taint(&self, uid: &str) -> Result<(), JoinError> {
        let node = self.own_node().await?;
        if node.metadata.uid != uid {
            return Err(JoinError::Failed(format!("the Node {} is another one now", self.node)));
        }
        let Some(patch) = removal(&node) else { return Ok(()) };
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, self.node.as_str());
        let uri = format!("{}?fieldManager={COMPONENT}", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/json-patch+json", patch.to_string());
        let sent = self.transport.call(&operation, &call, whole::<IgnoredContent>).await;
        sent.map_err(refused_or_failed)?;
        tracing::info!("removed the taint {STARTUP_TAINT} from the Node");
        Ok(())
    }
}

fn refused_or_failed(error: ClusterError) -> JoinError {
    let text = error.to_string();
    match error {
        // RBAC, or an admission policy.
        ClusterError::Forbidden { .. } | ClusterError::Invalid { .. } => JoinError::Refused(text),
        _ => {
            tracing::warn!("{text}; retrying");
            JoinError::Failed(text)
        }
    }
}

/// JSON Patch that removes the startup taint and nothing else. `None` without the taint.
fn removal(node: &TaintedNode) -> Option<Value> {
    let taints = node.spec.taints.as_ref().filter(|_| node.is_tainted())?;
    let others: Vec<&Value> = taints.iter().filter(|taint| !is_startup_taint(taint)).collect();
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": node.metadata.uid},
        {"op": "test", "path": "/spec/taints", "value": taints},
        {"op": "replace", "path": "/spec/taints", "value": others},
    ]))
}

fn is_startup_taint(taint: &Value) -> bool {
    let is = |field: &str, value: &str| taint.get(field).and_then(Value::as_str) == Some(value);
    is("key", STARTUP_TAINT) && is("effect", STARTUP_TAINT_EFFECT)
}

/// The parts of the own Node that joining reads.
#[derive(Debug, Deserialize)]
struct TaintedNode {
    metadata: TaintedMeta,
    #[serde(default)]
    spec: TaintedSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    capacity: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
struct TaintedMeta {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
struct TaintedSpec {
    /// As they are, because the patch writes the whole list and must keep unknown fields.
    #[serde(default)]
    taints: Option<Vec<Value>>,
}

impl TaintedNode {
    fn is_tainted(&self) -> bool {
        self.spec.taints.iter().flatten().any(is_startup_taint)
    }

    fn capacity(&self) -> Capacity {
        let amount = |resource: &str| self.status.capacity.as_ref()?.get(resource).map(String::as_str);
        Capacity::parse(amount("cpu"), amount("memory"), amount("ephemeral-storage"))
    }

    fn described(self) -> OwnNode {
        let tainted = self.is_tainted();
        let pool = self.metadata.labels.and_then(|mut labels| labels.remove(POOL_LABEL));
        OwnNode { uid: self.metadata.uid, pool, tainted }
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
