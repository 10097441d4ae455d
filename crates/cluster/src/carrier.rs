//! NodeConfigs as the carriers of assignments: the few fields that are read of them, and how they are joined with the Nodes
//! that they stand for.
//!
//! A NodeConfig stands for the Node of its name that owns it. One that an earlier Node of that name owned does not count:
//! the garbage collector is about to remove it. One that no Node owns was made by hand and counts, since the agent of that
//! node follows it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::follow::Change;
use super::watch::NodeEvent;
use super::wire::WireOwner;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::ReportingAgent;
use nodecfg_contract::observed::{AgentSign, Node, NodeHalf};
use nodecfg_contract::{ConfigSource, ConfigStatus};

/// How long an agent may take until it reports on a NodeConfig that is new. It reports within a second of seeing one; one
/// that is just being installed, or whose watch is just being made anew, takes a little longer.
const AGENT_START: Duration = Duration::from_secs(120);

/// Conditions of a NodeConfig that tell since when it is as it is.
const SYNCED: &str = "Synced";
const ACTIVE: &str = "Active";

/// nodecfg.dev/v1alpha1 NodeConfig.
#[derive(Debug, Deserialize)]
pub(super) struct WireNodeConfig {
    metadata: WireMeta,
    #[serde(default)]
    spec: Option<WireSpec>,
    #[serde(default)]
    status: Option<WireStatus>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    owner_references: Option<Vec<WireOwner>>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    #[serde(default)]
    config_source: Option<ConfigSource>,
}

#[derive(Debug, Default, Deserialize)]
struct WireStatus {
    #[serde(default)]
    config: Option<ConfigStatus>,
    #[serde(default)]
    agent: Option<ReportingAgent>,
    #[serde(default)]
    conditions: Option<Vec<WireCondition>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCondition {
    #[serde(default, rename = "type")]
    kind: String,
    /// A text: what cannot be read is not known, and no reason to read nothing else.
    #[serde(default)]
    last_transition_time: Option<String>,
}

impl WireStatus {
    /// Since when the agent has been where it is: `Synced` says that it took what it was told to, `Active` that the kubelet
    /// runs it. That it became the last known good is no change of what runs.
    fn since(&self) -> Option<Timestamp> {
        let conditions = self.conditions.iter().flatten();
        let telling = conditions.filter(|condition| matches!(condition.kind.as_str(), SYNCED | ACTIVE));
        telling.filter_map(|condition| condition.last_transition_time.as_ref()?.parse().ok()).max()
    }
}

/// What is kept of a NodeConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Carrier {
    /// Its name, and its Node's.
    pub(super) name: NodeName,
    /// Its own uid.
    pub(super) uid: String,
    /// What owns it: its Node, as a rule.
    owners: Vec<Owner>,
    /// `spec.configSource`.
    pub(super) source: Option<ConfigSource>,
    /// `status.config`; unset while no agent has reported.
    status: Option<ConfigStatus>,
    /// Since when it is as `status` says.
    since: Option<Timestamp>,
    created: Option<Timestamp>,
    deleting: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    is_node: bool,
    uid: String,
}

impl WireNodeConfig {
    /// What its agent says of itself.
    pub(super) fn agent(&self) -> Option<AgentSign> {
        let agent = self.status.as_ref()?.agent.as_ref()?;
        Some(AgentSign { version: agent.version.clone(), heard: agent.heard_at.parse().ok() })
    }

    /// What is kept of it. `None`: its name is none of a Node.
    pub(super) fn into_carrier(self) -> Option<Carrier> {
        let status = self.status.unwrap_or_default();
        let owners = self.metadata.owner_references.unwrap_or_default().into_iter();
        Some(Carrier {
            name: NodeName::new(self.metadata.name).ok()?,
            uid: self.metadata.uid,
            owners: owners.map(|owner| Owner { is_node: owner.kind == "Node", uid: owner.uid }).collect(),
            source: self.spec.unwrap_or_default().config_source,
            since: status.since(),
            status: status.config,
            created: self.metadata.creation_timestamp,
            deleting: self.metadata.deletion_timestamp.is_some(),
        })
    }
}

impl Carrier {
    /// Every source that its spec or its status names.
    pub(super) fn sources(&self) -> impl Iterator<Item = &ConfigSource> {
        self.source.iter().chain(self.status.iter().flat_map(ConfigStatus::sources))
    }

    /// Whether it stands for the Node of this uid.
    pub(super) fn stands_for(&self, node_uid: &str) -> bool {
        let mut nodes = self.owners.iter().filter(|owner| owner.is_node).peekable();
        !self.deleting && (nodes.peek().is_none() || nodes.any(|owner| owner.uid == node_uid))
    }

    /// Whether the first of its owners is the Node of this uid.
    pub(super) fn is_owned_first_by(&self, node_uid: &str) -> bool {
        self.owners.first().is_some_and(|owner| owner.uid == node_uid)
    }

    /// As it must have been for `node` to come out of [`join`], as far as joining depends on it.
    fn of(node: &Node) -> Option<Self> {
        let nobody = node.source.is_none() && node.status == ConfigStatus::default() && node.half == NodeHalf::Follows;
        let owner = if node.half == NodeHalf::Outlived { String::new() } else { node.uid.clone() };
        (!nobody).then(|| Self {
            name: node.name.clone(),
            uid: String::new(),
            owners: vec![Owner { is_node: true, uid: owner }],
            source: node.source.clone(),
            status: (node.half != NodeHalf::AgentSilent).then(|| node.status.clone()),
            since: node.status_since,
            created: None,
            deleting: false,
        })
    }
}

/// The Node with what its NodeConfig says. What the Node itself says of its configuration is nobody's business any more.
pub(super) fn join(node: Node, carrier: Option<&Carrier>, now: Timestamp) -> Node {
    let (source, status, half) = match carrier {
        // It is made when something is assigned.
        None => (None, ConfigStatus::default(), NodeHalf::Follows),
        Some(carrier) if !carrier.stands_for(&node.uid) => (None, ConfigStatus::default(), NodeHalf::Outlived),
        Some(carrier) => {
            let grace = SignedDuration::try_from(AGENT_START).unwrap_or_default();
            let young = carrier.created.is_some_and(|created| now.duration_since(created) < grace);
            let half = if carrier.status.is_some() || young { NodeHalf::Follows } else { NodeHalf::AgentSilent };
            (carrier.source.clone(), carrier.status.clone().unwrap_or_default(), half)
        }
    };
    let status_since = carrier.filter(|carrier| carrier.stands_for(&node.uid)).and_then(|carrier| carrier.since);
    Node { source, status, half, status_since, ..node }
}

/// Both halves of all Nodes, as far as two watches have told: each change of either makes the whole anew.
#[derive(Debug, Default)]
pub(super) struct Halves {
    nodes: BTreeMap<NodeName, Node>,
    carriers: BTreeMap<NodeName, Carrier>,
}

impl Halves {
    /// The halves of Nodes that were listed.
    pub(super) fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut halves = Self::default();
        for node in nodes {
            halves.carriers.extend(Carrier::of(node).map(|carrier| (node.name.clone(), carrier)));
            halves.nodes.insert(node.name.clone(), node.clone());
        }
        halves
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
    pub(super) fn carrier(&mut self, change: Change<Carrier>, now: Timestamp) -> Option<NodeEvent> {
        match change {
            Change::Upsert(carrier) => {
                let name = carrier.name.clone();
                self.carriers.insert(name.clone(), carrier);
                self.whole(&name, now)
            }
            Change::Deleted(carrier) => {
                self.carriers.remove(&carrier.name);
                self.whole(&carrier.name, now)
            }
            Change::Relisted(carriers) => {
                self.carriers = carriers.into_iter().map(|carrier| (carrier.name.clone(), carrier)).collect();
                Some(self.all(now))
            }
        }
    }

    fn whole(&self, name: &NodeName, now: Timestamp) -> Option<NodeEvent> {
        let node = self.nodes.get(name)?;
        Some(NodeEvent::Upsert(Box::new(join(node.clone(), self.carriers.get(name), now))))
    }

    fn all(&self, now: Timestamp) -> NodeEvent {
        let whole = |node: &Node| join(node.clone(), self.carriers.get(&node.name), now);
        NodeEvent::Relisted(self.nodes.values().map(whole).collect())
    }
}

#[cfg(test)]
#[path = "carrier_tests.rs"]
mod tests;
