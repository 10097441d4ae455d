//! Join of Nodes with their NodeConfigs, for lists and for watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::follow::Change;
use nodecfg_contract::UnreadableField;
use nodecfg_contract::names::NodeName;
use nodecfg_observed::{Node, NodeConfigList, NodeConfigState, Obstacle};

/// Change of the Nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// A Node appeared or changed. Known Nodes may be sent again.
    Upsert(Box<Node>),
    /// A Node was deleted.
    Deleted(NodeName),
    /// All existing Nodes, after the watch lost its version. Other Nodes were deleted.
    Relisted(Vec<Node>),
}

/// Time limit for an agent's first report on a new NodeConfig. A running agent reports within a second. An agent that
/// is being installed, or that reopens its watch, needs a little longer.
const AGENT_START: Duration = Duration::from_secs(120);

/// Time in which the garbage collector deletes the NodeConfig of an earlier Node of the same name. After it, the present
/// Node gets a new one.
const COLLECTION: Duration = Duration::from_secs(120);

/// Maximum remaining time of a trial that is believed. A node with a wrong clock, or a compromised one, may report any
/// time.
const MAX_TRIAL: SignedDuration = SignedDuration::from_hours(24);

/// End of the trial that the agent reports, unless it is too far in the future.
fn trial_end(config: &NodeConfigState, now: Timestamp) -> Option<Timestamp> {
    config.trial_ends.filter(|end| end.duration_since(now) <= MAX_TRIAL)
}

/// Sets the state of a Node to that of its NodeConfig. Ignores the Node's own configuration fields, which do not apply with
/// NodeConfigs.
pub(crate) fn join(node: &mut Node, config: Option<&NodeConfigState>, now: Timestamp) {
    let own = config.filter(|config| config.represents(&node.uid));
    match (config, own) {
        _ if node.is_unreadable() => {}
        // The NodeConfig is created with the first assignment.
        (None, _) => node.obstacle = None,
        (Some(other), None) if is_leftover(node, other, now) => node.obstacle = None,
        (Some(_), None) => node.obstacle = Some(Obstacle::Outlived),
        (_, Some(NodeConfigState { unreadable: Some(field), .. })) => {
            node.obstacle = Some(Obstacle::Unreadable((**field).clone()));
        }
        (_, Some(NodeConfigState { status, created, .. })) => {
            let grace = SignedDuration::try_from(AGENT_START).unwrap_or_default();
            let young = created.is_some_and(|created| now.duration_since(created.timestamp()) < grace);
            node.obstacle = if status.is_some() || young { None } else { Some(Obstacle::AgentSilent) };
        }
    }
    node.source = own.and_then(|own| own.source.clone());
    node.status = own.and_then(|own| own.status.clone()).unwrap_or_default();
    node.status_since = own.and_then(|own| own.status_since);
    node.trial_ends = own.and_then(|own| trial_end(own, now));
    node.own_values = own.and_then(|own| own.own_values.clone());
    node.proof = own.and_then(|own| own.proof.clone());
    node.content = Some(own.map(|own| own.content).unwrap_or_default());
    node.assigned_before = own.is_some();
}

/// Reports whether a NodeConfig that does not represent the Node stays unless its assignment replaces it: its deletion
/// waits for finalizers, or it names other Nodes as owners, and the garbage collector does not delete it.
fn is_leftover(node: &Node, config: &NodeConfigState, now: Timestamp) -> bool {
    let grace = SignedDuration::try_from(COLLECTION).unwrap_or_default();
    let is_old = node.created.is_some_and(|created| now.duration_since(created.timestamp()) >= grace);
    config.stuck_in_deletion || (!config.deleting && !config.discarded && is_old)
}

/// Reports whether a Node is unreadable because of this field.
fn is_unreadable_for(node: &Node, field: &UnreadableField) -> bool {
    matches!(&node.obstacle, Some(Obstacle::Unreadable(other)) if other == field)
}

/// Joins a Node with its entry in a list of NodeConfigs. Changes nothing with the Node binding.
pub(crate) fn join_listed(node: &mut Node, listed: Option<&NodeConfigList>, now: Timestamp) {
    if let Some(listed) = listed {
        join(node, listed.items.get(&node.name).map(Arc::as_ref), now);
    }
}

/// State of a watch of Nodes and a watch of NodeConfigs. Each change of either yields the joined Node.
#[derive(Debug, Default)]
pub(crate) struct JoinedWatch {
    nodes: BTreeMap<NodeName, Node>,
    configs: BTreeMap<NodeName, Arc<NodeConfigState>>,
}

impl JoinedWatch {
    /// State that continues from two lists.
    pub(crate) fn of(nodes: &BTreeMap<NodeName, Node>, configs: Option<&NodeConfigList>) -> Self {
        let configs = configs.map(|listed| listed.items.clone()).unwrap_or_default();
        let mut nodes = nodes.clone();
        for (name, config) in &configs {
            // The lists are joined already. The Node itself is readable, if only its NodeConfig was not.
            let Some(field) = &config.unreadable else { continue };
            if let Some(node) = nodes.get_mut(name).filter(|node| is_unreadable_for(node, field)) {
                node.obstacle = None;
            }
        }
        Self { nodes, configs }
    }

    /// Applies a change of the Node watch.
    pub(crate) fn node(&mut self, change: Change<Node>, now: Timestamp) -> Option<NodeEvent> {
        match change {
            Change::Upsert(node) => {
                let name = node.name.clone();
                self.nodes.insert(name.clone(), node);
                self.joined(&name, now)
            }
            Change::Deleted(node) => {
                self.nodes.remove(&node.name);
                Some(NodeEvent::Deleted(node.name))
            }
            Change::Relisted(nodes) => {
                self.nodes = nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
                Some(self.relisted(now))
            }
        }
    }

    /// Applies a change of the NodeConfig watch. Keeps a NodeConfig of an unknown Node until the Node appears.
    pub(crate) fn config(
        &mut self,
        change: Change<(NodeName, Arc<NodeConfigState>)>,
        now: Timestamp,
    ) -> Option<NodeEvent> {
        match change {
            Change::Upsert((name, config)) => {
                self.configs.insert(name.clone(), config);
                self.joined(&name, now)
            }
            Change::Deleted((name, _)) => {
                self.configs.remove(&name);
                self.joined(&name, now)
            }
            Change::Relisted(configs) => {
                self.configs = configs.into_iter().collect();
                Some(self.relisted(now))
            }
        }
    }

    fn joined(&self, name: &NodeName, now: Timestamp) -> Option<NodeEvent> {
        Some(NodeEvent::Upsert(Box::new(self.joined_node(self.nodes.get(name)?, now))))
    }

    fn relisted(&self, now: Timestamp) -> NodeEvent {
        NodeEvent::Relisted(self.nodes.values().map(|node| self.joined_node(node, now)).collect())
    }

    fn joined_node(&self, node: &Node, now: Timestamp) -> Node {
        let mut joined = node.clone();
        join(&mut joined, self.configs.get(&node.name).map(Arc::as_ref), now);
        joined
    }
}

#[cfg(test)]
#[path = "node_join_tests.rs"]
mod tests;
