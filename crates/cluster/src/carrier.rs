//! NodeConfigs as the carriers of assignments: how they are joined with the Nodes that they stand for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::follow::Change;
use super::watch::NodeEvent;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{ACTIVE, NodeConfig, NodeConfigStatus, SYNCED};
use nodecfg_contract::observed::{Node, NodeConfigList, NodeSupport};

/// How long an agent may take until it reports on a NodeConfig that is new. It reports within a second of seeing one; one
/// that is just being installed, or whose watch is just being made anew, takes a little longer.
const AGENT_START: Duration = Duration::from_secs(120);

/// A NodeConfig by its name, without the long texts of its conditions. `None`: its name is none of a Node.
pub(super) fn named(mut config: NodeConfig) -> Option<(NodeName, Arc<NodeConfig>)> {
    config.status.conditions.iter_mut().for_each(|condition| condition.message = String::new());
    Some((NodeName::new(config.metadata.name.as_str()).ok()?, Arc::new(config)))
}

/// Since when the agent has been where it is: `Synced` says that it took what it was told to, `Active` that the kubelet runs
/// it. That it became the last known good is no change of what runs.
fn since(status: &NodeConfigStatus) -> Option<Timestamp> {
    let telling = status.conditions.iter().filter(|condition| matches!(condition.kind.as_str(), SYNCED | ACTIVE));
    telling.filter_map(|condition| condition.last_transition_time.parse().ok()).max()
}

/// The Node with what its NodeConfig says. What the Node itself says of its configuration is nobody's business any more.
pub(super) fn join(node: Node, config: Option<&NodeConfig>, now: Timestamp) -> Node {
    let own = config.filter(|config| config.stands_for(&node.uid));
    let half = match (config, own) {
        // It is made when something is assigned.
        (None, _) => NodeSupport::Follows,
        (Some(_), None) => NodeSupport::Outlived,
        (_, Some(NodeConfig { metadata, status, .. })) => {
            let grace = SignedDuration::try_from(AGENT_START).unwrap_or_default();
            let young = metadata.creation_timestamp.is_some_and(|created| now.duration_since(created) < grace);
            if status.config.is_some() || young { NodeSupport::Follows } else { NodeSupport::AgentSilent }
        }
    };
    let source = own.and_then(|own| own.spec.config_source.clone());
    let status = own.and_then(|own| own.status.config.clone()).unwrap_or_default();
    let status_since = own.and_then(|own| since(&own.status));
    Node { source, status, half, status_since, ..node }
}

/// The Node with what a list of NodeConfigs says, where the Nodes do not carry the assignments themselves.
pub(super) fn join_listed(node: Node, listed: Option<&NodeConfigList>, now: Timestamp) -> Node {
    let Some(listed) = listed else { return node };
    let config = listed.items.get(&node.name).map(Arc::as_ref);
    join(node, config, now)
}

/// Both halves of all Nodes, as far as two watches have told: each change of either makes the whole anew.
#[derive(Debug, Default)]
pub(super) struct JoinedWatch {
    nodes: BTreeMap<NodeName, Node>,
    configs: BTreeMap<NodeName, Arc<NodeConfig>>,
}

impl JoinedWatch {
    /// The halves as they were listed.
    pub(super) fn of(nodes: &BTreeMap<NodeName, Node>, configs: Option<&NodeConfigList>) -> Self {
        let configs = configs.map(|listed| listed.items.clone()).unwrap_or_default();
        Self { nodes: nodes.clone(), configs }
    }

    /// Takes in what a watch says of Nodes.
    pub(super) fn node(&mut self, change: Change<Node>, now: Timestamp) -> Option<NodeEvent> {
        match change {
            Change::Upsert(node) => {
                let name = node.name.clone();
                self.nodes.insert(name.clone(), node);
                self.whole(&name, now)
            }
            Change::Deleted(node) => {
                self.nodes.remove(&node.name);
                Some(NodeEvent::Deleted(node.name))
            }
            Change::Relisted(nodes) => {
                self.nodes = nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
                Some(self.all(now))
            }
        }
    }

    /// Takes in what a watch says of NodeConfigs. One whose Node is not known (yet) is kept and told with it.
    pub(super) fn config(&mut self, change: Change<(NodeName, Arc<NodeConfig>)>, now: Timestamp) -> Option<NodeEvent> {
        match change {
            Change::Upsert((name, config)) => {
                self.configs.insert(name.clone(), config);
                self.whole(&name, now)
            }
            Change::Deleted((name, _)) => {
                self.configs.remove(&name);
                self.whole(&name, now)
            }
            Change::Relisted(configs) => {
                self.configs = configs.into_iter().collect();
                Some(self.all(now))
            }
        }
    }

    fn whole(&self, name: &NodeName, now: Timestamp) -> Option<NodeEvent> {
        let node = self.nodes.get(name)?;
        Some(NodeEvent::Upsert(Box::new(join(node.clone(), self.configs.get(name).map(Arc::as_ref), now))))
    }

    fn all(&self, now: Timestamp) -> NodeEvent {
        let whole = |node: &Node| join(node.clone(), self.configs.get(&node.name).map(Arc::as_ref), now);
        NodeEvent::Relisted(self.nodes.values().map(whole).collect())
    }
}

#[cfg(test)]
#[path = "carrier_tests.rs"]
mod tests;
