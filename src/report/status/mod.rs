//! Report of `status`: notes about fleets and pools, the nodes, and why nodes have not converged.

use serde::Serialize;

use super::explain;
use super::explain::Explanation;
use crate::status::{Compared, FleetOrders, FleetStatus, NodeStatus, PoolStatus, State};
use nodecfg_contract::json_document::Kind;
use nodecfg_plan::convergence::{Convergence, ConvergenceFailure, Waiting};

mod build;
mod changes;
mod sentences;

pub use build::{report, whole};
pub use changes::{Line, change_event, change_line, screen_header};

/// Status of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status<'a> {
    /// When the cluster was read.
    pub at: jiff::Timestamp,
    /// The repository that nodes are compared with. Without one, each node is compared with its assigned
    /// configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<&'a Compared>,
    /// The fleets by name, with rollouts and pauses.
    pub fleets: &'a [FleetOrders],
    /// The pools, worst first.
    pub pools: &'a [PoolStatus],
    /// The number of nodes per state, worst first.
    pub states: &'a std::collections::BTreeMap<State, usize>,
    /// The nodes by pool and name. Nodes without a pool come last.
    pub nodes: Vec<Row<'a>>,
}

impl Kind for Status<'_> {
    const KIND: &'static str = "Status";
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row<'a> {
    /// The status of the node.
    #[serde(flatten)]
    pub status: &'a NodeStatus,
    /// Meaning, likely causes and where to look next, for a node with a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

impl<'a> Row<'a> {
    /// The row of a node.
    #[must_use]
    pub fn of(status: &'a NodeStatus) -> Self {
        Self { status, explanation: explanation(status) }
    }
}

/// Explains a problem of a node. `None` if the state needs no explanation.
#[must_use]
pub fn explanation(node: &NodeStatus) -> Option<Explanation> {
    let error = || node.error.clone().unwrap_or_default();
    match node.state {
        State::Failed => Some(match &node.verdict {
            Convergence::Failed(failure) => explain::failure(&node.node, failure),
            _ => explain::failure(&node.node, &ConvergenceFailure::Refused { error: error() }),
        }),
        State::CannotFetch => Some(explain::failure(
            &node.node,
            &ConvergenceFailure::TimedOut { waiting: Waiting::Syncing { error: error() } },
        )),
        State::Blocked => node.blocked.as_ref().and_then(|why| explain::blocked(&node.node, why)),
        _ => None,
    }
}

/// The body of the JSON document.
#[must_use]
pub fn body(status: &FleetStatus) -> Status<'_> {
    let mut nodes: Vec<Row<'_>> = status.nodes.iter().map(Row::of).collect();
    let place = |row: &Row<'_>| (row.status.pool.is_none(), row.status.pool.clone(), row.status.node.clone());
    nodes.sort_by_cached_key(place);
    Status {
        at: status.at,
        compared: status.compared.as_ref(),
        fleets: &status.fleets,
        pools: &status.pools,
        states: &status.states,
        nodes,
    }
}

#[cfg(test)]
mod tests;
