//! Reads for `doctor` beyond those that planning needs: the server clock, heartbeats of the nodes, and installed
//! objects. Must not change the cluster.

use std::collections::BTreeMap;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::apply::Target;
use super::error::ClusterError;
use super::list::{Collection, list};
use super::node_join::join_listed;
use super::operation::{Operation, Resource, Verb};
use super::reader::{ClusterReader, found};
use super::transport::{Call, Whole};
use super::wire::WireNode;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{AgentActivity, Node, NodeActivity};

/// Object that `nodecfg install` creates and `doctor` checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstalledObject {
    /// Definition of NodeConfigs.
    Definition,
    /// Policy that limits each agent to the status of its own node.
    Policy,
    /// DaemonSet of the agents.
    DaemonSet,
}

impl InstalledObject {
    fn object(self) -> Value {
        match self {
            Self::Definition => json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "nodeconfigs.nodecfg.dev"},
            }),
            Self::Policy => json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": nodecfg_contract::installation::OWN_STATUS_POLICY},
            }),
            Self::DaemonSet => json!({
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": nodecfg_contract::installation::AGENT_DAEMON_SET, "namespace": nodecfg_contract::installation::AGENT_NAMESPACE},
            }),
        }
    }
}

impl ClusterReader {
    /// The server's time according to its last response, and its offset from the clock of this machine.
    #[must_use]
    pub fn server_clock(&self) -> (Timestamp, SignedDuration) {
        let now = self.transport.server_time();
        // Whole seconds: the two clocks are not read at the same moment.
        (now, SignedDuration::from_secs(now.duration_since(nodecfg_clock::now()).as_secs_f64().round() as i64))
    }

    /// Object that `nodecfg install` creates; `None` when the object is missing or the server does not serve its
    /// kind.
    pub async fn installed_object(&self, installed: InstalledObject) -> Result<Option<Value>, ClusterError> {
        let Some(target) = Target::of(&installed.object()) else { return Ok(None) };
        let operation = target.operation(Verb::Get);
        let call = Call::new(Method::GET, operation.path());
        found(self.transport.call(&operation, &call, Whole::<Value>::new).await)
    }

    /// Like [`list_nodes`](Self::list_nodes), with the last heartbeat of each node and the state of its agent.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
    pub async fn list_nodes_with_signs(&self) -> Result<(Vec<Node>, BTreeMap<NodeName, NodeActivity>), ClusterError> {
        let nodes = Collection::all(Operation::on_all(Verb::List, Resource::Nodes, None));
        let keys = &*self.label_keys;
        let keep = |item: &[u8]| {
            let wire = WireNode::read(item)?;
            let heartbeat = wire.heartbeat();
            Ok(wire.into_node(keys).map(|node| (node, NodeActivity { heartbeat, agent: None })))
        };
        let (listed, _) = list(&self.transport, &nodes, "application/json", keep).await?;
        let node_configs = self.list_node_configs().await?;
        let now = self.transport.server_time();
        let (mut nodes, mut signs) = (Vec::with_capacity(listed.len()), BTreeMap::new());
        for (node, sign) in listed {
            let config = node_configs.as_ref().and_then(|listed| listed.items.get(&node.name));
            let agent = config.and_then(|config| config.status.agent.as_ref()).map(AgentActivity::from);
            signs.insert(node.name.clone(), NodeActivity { agent, ..sign });
            nodes.push(join_listed(node, node_configs.as_ref(), now));
        }
        Ok((nodes, signs))
    }
}
