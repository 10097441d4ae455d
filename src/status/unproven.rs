//! Nodes of a pool whose agents cannot tell whether their kubelets run the reviewed values.

use schemars::JsonSchema;
use serde::Serialize;

use super::NodeStatus;
use nodecfg_contract::names::NodeName;

/// Nodes whose agents cannot tell whether the kubelet runs the reviewed values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnprovenNodes {
    /// Number of these nodes.
    pub nodes: usize,
    /// The first of them by name.
    pub example: NodeName,
    /// Why its agent cannot tell.
    pub reason: String,
}

impl UnprovenNodes {
    /// The unproven ones of these nodes. `None` without any.
    pub(super) fn of(nodes: &[&NodeStatus]) -> Option<Self> {
        let unproven = || nodes.iter().filter_map(|node| Some((&node.node, node.unproven.as_ref()?)));
        let (example, reason) = unproven().min()?;
        Some(Self { nodes: unproven().count(), example: example.clone(), reason: reason.clone() })
    }

    /// The nodes in words: `2 nodes may run other values, such as gpu-7: no process named kubelet runs on the host`.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { nodes, example, reason } = self;
        match nodes {
            1 => format!("1 node may run other values than the reviewed ones, {example}: {reason}"),
            nodes => format!("{nodes} nodes may run other values than the reviewed ones, such as {example}: {reason}"),
        }
    }
}
