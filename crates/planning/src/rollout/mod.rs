//! The state machine of a rollout: assigns a plan's nodes within each pool's budget, and goes on or stops.
//!
//! [`machine`] decides when a node starts, from the events that it receives and their times. What happens to a node is in the
//! plan. The reconciler's `src/rollout` carries its commands to the cluster.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::judge::{Failure, Target};
use crate::plan::Why;
use crate::state::State;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::printable::one_line;

pub mod machine;
pub mod orders;
mod pool;
pub mod progress;
mod signals;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scenarios;

/// How a rollout ended.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// By pool name.
    pub pools: BTreeMap<PoolName, PoolOutcome>,
}

impl Outcome {
    /// Whether every node of every pool that is not paused is where the repository wants it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.pools.values().all(|pool| pool.stopped.is_none() && pool.nodes.iter().all(|node| node.end.is_good()))
    }

    /// How many nodes ended in each state, the worst first.
    #[must_use]
    pub fn states(&self) -> BTreeMap<State, usize> {
        let mut states = BTreeMap::new();
        for node in self.pools.values().flat_map(|pool| &pool.nodes) {
            *states.entry(node.end.state()).or_default() += 1;
        }
        states
    }
}

/// How one pool ended.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolOutcome {
    /// Why it stopped before its end, if it did.
    pub stopped: Option<StopReason>,
    /// Its nodes, by name.
    pub nodes: Vec<NodeOutcome>,
}

/// How one node ended.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOutcome {
    /// The node.
    pub node: NodeName,
    /// What it pointed at when the plan was made.
    pub from: Option<ConfigSource>,
    /// What it was to run.
    pub to: Target,
    /// How it ended.
    pub end: End,
    /// From assignment (or from the start, for a node that was assigned before) to the end, in seconds.
    pub seconds: Option<f64>,
}

/// How one node ended.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum End {
    /// It made its transition and converged.
    Converged,
    /// The plan left it alone.
    LeftAlone {
        /// Why.
        why: Why,
    },
    /// It failed.
    #[serde(rename_all = "camelCase")]
    Failed {
        /// How.
        failure: Failure,
        /// Whether it was pointed back at what it had before.
        rolled_back: bool,
    },
    /// The API server refused the assignment.
    Refused {
        /// Its words.
        error: String,
    },
    /// Somebody else pointed it elsewhere meanwhile.
    Changed {
        /// Where it points now.
        to: Option<ConfigSource>,
    },
    /// It left the cluster.
    Gone,
    /// Its turn never came.
    NotStarted,
    /// It was still on its way when the run was cut short.
    InFlight,
    /// It had not converged when somebody aborted the rollout, and was pointed back at what it had before.
    RolledBack,
}

impl End {
    /// The state of the node.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Converged => State::Converged,
            Self::LeftAlone { why } => why.state(),
            Self::Failed { .. } | Self::Refused { .. } => State::Failed,
            Self::Changed { .. } => State::Astray,
            Self::Gone => State::Gone,
            Self::NotStarted => State::NotStarted,
            Self::InFlight => State::InFlight,
            Self::RolledBack => State::RolledBack,
        }
    }

    /// Whether nothing is left to do for the node. A node of a paused pool is where its pool wants it to stay.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self.state(), State::Converged | State::Settled | State::Skipped | State::Gone)
    }
}

/// Why no further node of a pool was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum StopReason {
    /// A canary failed.
    CanaryFailed {
        /// The canary.
        node: NodeName,
    },
    /// More nodes failed than the pool allows.
    #[serde(rename_all = "camelCase")]
    TooManyFailures {
        /// How many failed.
        failures: u32,
        /// How many may.
        max_failures: u32,
    },
    /// Nodes that are unavailable, and do not recover, leave no budget.
    BudgetExhausted {
        /// The pool's budget.
        budget: usize,
        /// How many of its nodes are unavailable.
        unavailable: usize,
        /// Some of them.
        examples: Vec<NodeName>,
    },
    /// Somebody asked for it, by a signal.
    Interrupted,
    /// Somebody aborted the rollout from a command line.
    Aborted {
        /// Who.
        by: String,
        /// Why, if they said.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Somebody paused the pool from a command line while it was rolled out.
    Paused {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// The lock of the fleet was lost.
    LockLost,
    /// The cluster could not be reached any more, or refused to go on.
    ClusterFailed {
        /// What happened.
        error: String,
    },
}

impl StopReason {
    /// Whether people asked for it: then it has stopped nothing if nothing was left to start.
    fn is_asked_for(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Aborted { .. } | Self::Paused { .. })
    }
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CanaryFailed { node } => write!(f, "canary {node} failed"),
            Self::TooManyFailures { failures, max_failures } => {
                write!(f, "{failures} failed, {max_failures} allowed (maxFailures)")
            }
            Self::BudgetExhausted { budget, unavailable, examples } => {
                let examples: Vec<&str> = examples.iter().map(NodeName::as_str).collect();
                write!(
                    f,
                    "no budget left, {unavailable} unavailable of at most {budget} (maxUnavailable): {}",
                    examples.join(", ")
                )
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::Aborted { by, reason: None } => write!(f, "aborted by {}", one_line(by)),
            Self::Aborted { by, reason: Some(reason) } => {
                write!(f, "aborted by {}: {}", one_line(by), one_line(reason))
            }
            Self::Paused { by, reason } => write!(f, "paused by {}: {}", one_line(by), one_line(reason)),
            Self::LockLost => f.write_str("the lock of the fleet was lost"),
            Self::ClusterFailed { error } => write!(f, "the cluster failed: {error}"),
        }
    }
}
