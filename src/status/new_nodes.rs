//! Nodes of a pool that never had its configuration.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::NodeStatus;
use nodecfg_contract::names::NodeName;
use nodecfg_observed::Age;

/// Nodes of a pool that never had its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewNodes {
    /// Number of these nodes.
    pub nodes: usize,
    /// The oldest of them.
    pub oldest: NodeName,
    /// Creation time of the oldest.
    pub since: Timestamp,
}

impl NewNodes {
    /// The new ones of these nodes. `None` without any.
    pub(super) fn of(nodes: &[&NodeStatus]) -> Option<Self> {
        let new = || nodes.iter().filter_map(|node| Some((node.new_since?, &node.node)));
        let (since, oldest) = new().min()?;
        Some(Self { nodes: new().count(), oldest: oldest.clone(), since })
    }

    /// The nodes in words, at a time: `3 nodes never had its configuration, the oldest for 2h: gpu-7`.
    #[must_use]
    pub fn text(&self, at: Timestamp) -> String {
        let (oldest, age) = (&self.oldest, Age::between(self.since, at));
        match self.nodes {
            1 => format!("1 node never had its configuration, for {age}: {oldest}"),
            nodes => format!("{nodes} nodes never had its configuration, the oldest for {age}: {oldest}"),
        }
    }
}
