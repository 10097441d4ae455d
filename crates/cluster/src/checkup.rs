//! What a check-up reads of a cluster beyond what planning needs: the clock, signs of life of the nodes, and what is
//! installed. Nothing here changes the cluster.

use std::collections::BTreeMap;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::apply::Target;
use super::carrier::join_listed;
use super::error::ClusterError;
use super::list::{Collection, list};
use super::operation::{Operation, Resource, Verb};
use super::reader::{ClusterReader, found};
use super::transport::{Call, Whole};
use super::wire::WireNode;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{AgentSign, Node, Signs};

/// Something that `nodecfg install` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landmark {
    /// The definition of NodeConfigs.
    Definition,
    /// The policy that lets an agent write the status of its own node alone.
    Policy,
    /// The agents' DaemonSet.
    DaemonSet,
}

impl Landmark {
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
    /// The present moment by the server's clock, as its last answer told, and how far that is ahead of this machine's.
    #[must_use]
    pub fn server_clock(&self) -> (Timestamp, SignedDuration) {
        let now = self.transport.server_time();
        // Whole seconds: the two are not read at the same moment.
        (now, SignedDuration::from_secs(now.duration_since(nodecfg_clock::now()).as_secs_f64().round() as i64))
    }

    /// An object that `nodecfg install` makes, as it is; `None` when it is not there, or of a kind that the server does not
    /// know.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request but `NotFound`.
    pub async fn landmark(&self, landmark: Landmark) -> Result<Option<Value>, ClusterError> {
        let Some(target) = Target::of(&landmark.object()) else { return Ok(None) };
        let operation = target.operation(Verb::Get);
        let call = Call::new(Method::GET, operation.path());
        found(self.transport.call(&operation, &call, Whole::<Value>::new).await)
    }

    /// As [`list_nodes`](Self::list_nodes), with what was last heard of each.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire again and again.
    pub async fn list_nodes_with_signs(&self) -> Result<(Vec<Node>, BTreeMap<NodeName, Signs>), ClusterError> {
        let nodes = Collection::all(Operation::on_all(Verb::List, Resource::Nodes, None));
        let keys = &*self.label_keys;
        let keep = |wire: WireNode| {
            let heartbeat = wire.heartbeat();
            wire.into_node(keys).map(|node| (node, Signs { heartbeat, agent: None }))
        };
        let (listed, _) = list(&self.transport, &nodes, "application/json", keep).await?;
        let carriers = self.list_node_configs().await?;
        let now = self.transport.server_time();
        let (mut nodes, mut signs) = (Vec::with_capacity(listed.len()), BTreeMap::new());
        for (node, sign) in listed {
            let config = carriers.as_ref().and_then(|listed| listed.items.get(&node.name));
            let agent = config.and_then(|config| config.status.agent.as_ref()).map(AgentSign::from);
            signs.insert(node.name.clone(), Signs { agent, ..sign });
            nodes.push(join_listed(node, carriers.as_ref(), now));
        }
        Ok((nodes, signs))
    }
}
