//! Join of Nodes with their NodeConfigs, for lists and for watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::follow::Change;
use super::watch::NodeEvent;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{ACTIVE, NodeConfig, NodeConfigStatus, SYNCED};
use nodecfg_contract::observed::{Node, NodeConfigList, NodeContent, NodeSupport};
use nodecfg_contract::{ConfigStatus, ContentHash, error_text};

/// Time limit for an agent's first report on a new NodeConfig. A running agent reports within a second. An agent that
/// is being installed, or that reopens its watch, needs a little longer.
const AGENT_START: Duration = Duration::from_secs(120);

/// Maximum remaining time of a trial that is believed. A node with a wrong clock, or a compromised one, may report any
/// time.
const MAX_TRIAL: SignedDuration = SignedDuration::from_hours(24);

/// NodeConfig by its name, without the long messages of its conditions. `None` when the name is not a valid Node
/// name.
pub(super) fn named(mut config: NodeConfig) -> Option<(NodeName, Arc<NodeConfig>)> {
    config.status.conditions.iter_mut().for_each(|condition| condition.message = String::new());
    Some((NodeName::new(config.metadata.name.as_str()).ok()?, Arc::new(config)))
}

/// Time of the last change of what runs: `Synced` reports that the agent accepted the assignment, `Active` that the
/// kubelet runs it. `None` without these conditions. Becoming the last known good does not change what runs.
fn last_change(status: &NodeConfigStatus) -> Option<Timestamp> {
    let relevant = status.conditions.iter().filter(|condition| matches!(condition.kind.as_str(), SYNCED | ACTIVE));
    relevant.filter_map(|condition| condition.last_transition_time.parse().ok()).max()
}

/// End of the trial that the agent reports, unless it is too far in the future.
fn trial_end(status: &NodeConfigStatus, now: Timestamp) -> Option<Timestamp> {
    let end: Timestamp = status.agent.as_ref()?.trial_ends_at.as_ref()?.parse().ok()?;
    (end.duration_since(now) <= MAX_TRIAL).then_some(end)
}

/// Node with the state of its NodeConfig. Ignores the Node's own configuration fields, which do not apply with
/// NodeConfigs.
pub(super) fn join(node: Node, config: Option<&NodeConfig>, now: Timestamp) -> Node {
    let own = config.filter(|config| config.represents(&node.uid));
    let unreadable = own.and_then(|own| own.unreadable.clone()).map(NodeSupport::Unreadable);
    let support = match (config, own) {
        _ if node.is_unreadable() => node.support.clone(),
        // The NodeConfig is created with the first assignment.
        (None, _) => NodeSupport::Follows,
        (Some(_), None) => NodeSupport::Outlived,
        (_, Some(NodeConfig { metadata, status, .. })) => unreadable.unwrap_or_else(|| {
            let grace = SignedDuration::try_from(AGENT_START).unwrap_or_default();
            let young = metadata.creation_timestamp.is_some_and(|created| now.duration_since(created) < grace);
            if status.config.is_some() || young { NodeSupport::Follows } else { NodeSupport::AgentSilent }
        }),
    };
    let source = own.and_then(|own| own.spec.config_source.clone());
    let status = own.map(current_status).unwrap_or_default();
    let status_since = own.and_then(|own| last_change(&own.status));
    let trial_ends = own.and_then(|own| trial_end(&own.status, now));
    let content = Some(own.map(content).unwrap_or_default());
    let assigned_before = own.is_some();
    Node { source, status, support, status_since, trial_ends, content, assigned_before, ..node }
}

/// Status without the sync error of an earlier spec: the present spec may have removed its cause, for example by a
/// higher `maxDisruption` for the same ConfigMap.
fn current_status(config: &NodeConfig) -> ConfigStatus {
    let mut status = config.status.config.clone().unwrap_or_default();
    let outdated = config.status.observed_generation.is_some_and(|seen| seen < config.metadata.generation);
    if outdated && status.error().is_some_and(|error| error.starts_with(error_text::SYNC_PREFIX)) {
        status.error = None;
    }
    status
}

fn content(config: &NodeConfig) -> NodeContent {
    let hash = |text: &Option<String>| text.as_deref().and_then(ContentHash::parse);
    NodeContent {
        assigned: hash(&config.spec.content_hash),
        max_disruption: config.spec.max_disruption,
        active: hash(&config.status.content_hash),
        self_assigned: config.spec.self_assigned,
    }
}

/// Node joined with its entry in a list of NodeConfigs; unchanged with the Node binding.
pub(super) fn join_listed(node: Node, listed: Option<&NodeConfigList>, now: Timestamp) -> Node {
    let Some(listed) = listed else { return node };
    let config = listed.items.get(&node.name).map(Arc::as_ref);
    join(node, config, now)
}

/// State of a watch of Nodes and a watch of NodeConfigs. Each change of either yields the joined Node.
#[derive(Debug, Default)]
pub(super) struct JoinedWatch {
    nodes: BTreeMap<NodeName, Node>,
    configs: BTreeMap<NodeName, Arc<NodeConfig>>,
}

impl JoinedWatch {
    /// State that continues from two lists.
    pub(super) fn of(nodes: &BTreeMap<NodeName, Node>, configs: Option<&NodeConfigList>) -> Self {
        let configs = configs.map(|listed| listed.items.clone()).unwrap_or_default();
        Self { nodes: nodes.clone(), configs }
    }

    /// Applies a change of the Node watch.
    pub(super) fn node(&mut self, change: Change<Node>, now: Timestamp) -> Option<NodeEvent> {
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
    pub(super) fn config(&mut self, change: Change<(NodeName, Arc<NodeConfig>)>, now: Timestamp) -> Option<NodeEvent> {
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
        let node = self.nodes.get(name)?;
        Some(NodeEvent::Upsert(Box::new(join(node.clone(), self.configs.get(name).map(Arc::as_ref), now))))
    }

    fn relisted(&self, now: Timestamp) -> NodeEvent {
        let joined = |node: &Node| join(node.clone(), self.configs.get(&node.name).map(Arc::as_ref), now);
        NodeEvent::Relisted(self.nodes.values().map(joined).collect())
    }
}

#[cfg(test)]
#[path = "node_join_tests.rs"]
mod tests;
