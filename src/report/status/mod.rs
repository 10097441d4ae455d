//! How a fleet is, for people and programs: the pools, the nodes that somebody has to know of, and what is the matter with
//! them in words.

use serde::Serialize;
use serde_json::Value;

use super::explain::{self, Explanation};
use crate::status::{Compared, FleetOrders, FleetStatus, NodeStatus, PoolStatus, State};
use nodecfg_contract::json_document::{Document, Kind};
use nodecfg_planning::judge::{Failure, Waiting};

mod lines;
mod markdown;
mod text;
mod words;

pub use lines::{Line, headline, line, line_of};
pub use markdown::markdown;
pub use text::{Look, text};
pub use words::{drift, of_fleet, pause, words};

/// How a fleet is.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status<'a> {
    /// When the cluster was looked at.
    pub at: jiff::Timestamp,
    /// What the nodes are compared with; unset when no repository was named: then each is compared with what it points at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<&'a Compared>,
    /// The fleets, by name: who rolls out, and what is paused.
    pub fleets: &'a [FleetOrders],
    /// The pools, the worst first.
    pub pools: &'a [PoolStatus],
    /// How many nodes are in each state, the worst first.
    pub states: &'a std::collections::BTreeMap<State, usize>,
    /// The nodes by pool and name; those that are in no pool come last.
    pub nodes: Vec<Row<'a>>,
}

impl Kind for Status<'_> {
    const KIND: &'static str = "Status";
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row<'a> {
    /// How it is.
    #[serde(flatten)]
    pub status: &'a NodeStatus,
    /// What that means and where to look, where it is bad.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

impl<'a> Row<'a> {
    /// Of this node.
    #[must_use]
    pub fn of(status: &'a NodeStatus) -> Self {
        Self { status, explanation: explanation(status) }
    }
}

/// What it means that a node is as it is, and where to look; where it is bad and there is more to say than the state.
#[must_use]
pub fn explanation(node: &NodeStatus) -> Option<Explanation> {
    let error = || node.error.clone().unwrap_or_default();
    match node.state {
        State::Failed => Some(explain::failure(&node.node, &Failure::Refused { error: error() })),
        State::CannotFetch => {
            Some(explain::failure(&node.node, &Failure::TimedOut { waiting: Waiting::Syncing { error: error() } }))
        }
        State::Blocked => node.blocked.as_ref().and_then(|why| explain::blocked(&node.node, why)),
        _ => None,
    }
}

/// `{formatVersion, kind, …}`.
///
/// # Errors
/// When it cannot be serialised, which would be a bug.
pub fn document(status: &FleetStatus) -> Result<Value, serde_json::Error> {
    Document::value(body(status))
}

fn body(status: &FleetStatus) -> Status<'_> {
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
