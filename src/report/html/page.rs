//! Data of an HTML report, without layout.

use jiff::Timestamp;

use crate::report::drained::DrainedNode;
use crate::report::error::ErrorMessage;
use crate::report::explain::Explanation;
use crate::report::recovery::ChangedNode;
use crate::review::Review;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_plan::state::State;

/// An HTML report.
#[derive(Debug, Clone)]
pub struct Page {
    /// The command.
    pub command: &'static str,
    /// Whether the result is good.
    pub good: bool,
    /// The result in a sentence.
    pub verdict: String,
    /// Labeled facts: fleet, revision, cluster and others.
    pub facts: Vec<(&'static str, String)>,
    /// When the page was created.
    pub made: Timestamp,
    /// The errors that ended or prevented the command.
    pub errors: Vec<ErrorMessage>,
    /// Other important messages.
    pub notices: Vec<Notice>,
    /// The pools with their nodes, in display order.
    pub pools: Vec<Pool>,
    /// The titles of the node columns between state and message.
    pub columns: &'static [&'static str],
    /// The nodes that the run drained, or began to drain.
    pub drains: Vec<DrainedNode>,
    /// What the changed nodes had before, and have since.
    pub recovery: Vec<ChangedNode>,
    /// The failures by kind.
    pub failures: Vec<FailureGroup>,
    /// The timeline of the rollout. Unset if nothing was watched.
    pub timeline: Option<Timeline>,
    /// The plan. Unset if unknown or empty.
    pub review: Option<Review>,
}

/// An important message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The kind of message.
    pub label: &'static str,
    /// The message.
    pub text: String,
}

/// A pool, or all nodes without a pool.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The name. Unset for nodes without a pool.
    pub name: Option<PoolName>,
    /// The fleet, if it differs from the page's fleet.
    pub fleet: Option<FleetName>,
    /// Remarks about the pool, for example that it is paused.
    pub remarks: Vec<String>,
    /// The nodes by name.
    pub nodes: Vec<Node>,
}

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// The name.
    pub name: NodeName,
    /// The state.
    pub state: State,
    /// The state in the terms of the command.
    pub state_text: String,
    /// The values of the page's columns. An unknown value is empty.
    pub cells: Vec<String>,
    /// The message of or about the node.
    pub message: String,
}

/// The CSS class of a state. States that never share a page may share a class.
pub(super) fn class(state: State) -> &'static str {
    match state {
        State::Failed => "failed",
        State::NotReady => "notready",
        State::Blocked => "blocked",
        State::CannotFetch => "unfetched",
        State::ChangedByOthers | State::Drifted => "drifted",
        State::InFlight | State::InTransition => "flight",
        State::RolledBack => "back",
        State::NotStarted | State::Held => "unstarted",
        State::Behind => "behind",
        State::Paused => "paused",
        State::Skipped => "skipped",
        State::Gone | State::Deleting => "gone",
        State::Unpooled => "unpooled",
        State::OnTrial => "on-trial",
        State::Settled => "settled",
        State::Converged => "converged",
    }
}

/// A kind of failure.
#[derive(Debug, Clone)]
pub struct FailureGroup {
    /// The kind in a word or two.
    pub label: &'static str,
    /// Meaning, likely causes and where to look next.
    pub explanation: Option<Explanation>,
    /// The messages with their nodes.
    pub messages: Vec<NodeMessage>,
}

/// A message about one or more nodes, from the nodes, the API server or nodecfg.
#[derive(Debug, Clone)]
pub struct NodeMessage {
    /// The message.
    pub text: String,
    /// The nodes with their pools.
    pub nodes: Vec<(Option<PoolName>, NodeName)>,
}

/// The course of a rollout.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// The start.
    pub start: Timestamp,
    /// The duration of the observation, in seconds.
    pub seconds: f64,
    /// The pools with events, by name.
    pub tracks: Vec<Track>,
}

/// The course of one pool.
#[derive(Debug, Clone)]
pub struct Track {
    /// The pool.
    pub pool: PoolName,
    /// The number of nodes to change.
    pub total: usize,
    /// The changed nodes, by start and name.
    pub spans: Vec<Span>,
    /// Events of the whole pool, in order.
    pub marks: Vec<Mark>,
}

/// The time span in which a node changed.
#[derive(Debug, Clone)]
pub struct Span {
    /// The node.
    pub node: NodeName,
    /// The assignment, in seconds since the start. 0 if earlier.
    pub from: f64,
    /// The time of the final state, or the end of the observation, in seconds since the start.
    pub to: f64,
    /// The final state.
    pub end: State,
}

/// An event of a whole pool.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The time in seconds since the start.
    pub at: f64,
    /// The event.
    pub text: String,
}
