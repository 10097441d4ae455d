//! Outcome of a rollout: the end of each node, and why a pool stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{GateName, NodeName, PoolName};
use nodecfg_contract::printable::one_line;
use nodecfg_fleet::hold::Hold;
use nodecfg_observed::Pause;
use nodecfg_plan::Why;
use nodecfg_plan::convergence::{ConvergenceFailure, Target, Trial};
use nodecfg_plan::state::State;

/// Result of a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Results by pool name.
    pub pools: BTreeMap<PoolName, PoolOutcome>,
}

impl Outcome {
    /// Reports whether no pool stopped early and no work is left for any node.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.pools.values().all(|pool| pool.stopped.is_none() && pool.nodes.iter().all(NodeOutcome::is_good))
    }

    /// Number of nodes in each state, the most severe first.
    #[must_use]
    pub fn states(&self) -> BTreeMap<State, usize> {
        let mut states = BTreeMap::new();
        for node in self.pools.values().flat_map(|pool| &pool.nodes) {
            *states.entry(node.end.state()).or_default() += 1;
        }
        states
    }

    /// Nodes that run their target and are on trial, with the trial of each.
    pub fn trials(&self) -> impl Iterator<Item = (&NodeName, Trial)> {
        self.pools.values().flat_map(|pool| &pool.nodes).filter_map(|node| Some((&node.node, node.trial?)))
    }
}

/// Result of a rollout for one pool.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolOutcome {
    /// Reason why the pool stopped early, if it did.
    pub stopped: Option<StopReason>,
    /// Why the remaining nodes did not start, and when they may. Unset if the run held no node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Hold>,
    /// Results of the nodes, by name.
    pub nodes: Vec<NodeOutcome>,
}

/// Result of a rollout for one node.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOutcome {
    /// The node.
    pub node: NodeName,
    /// Source of the node when the plan was made.
    pub from: Option<ConfigSource>,
    /// Target of the node.
    pub to: Target,
    /// Final state of the node.
    pub end: End,
    /// Seconds from assignment to the end. For a node that was assigned before, from the start of the run.
    pub seconds: Option<f64>,
    /// Trial of a converged node that has not ended. Unset: the trial was passed, or none is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Drain of the node in this run. Unset if the run began none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainRecord>,
    /// What the node had before its assignment in this run, and has since. Unset if that is unknown, or if it had
    /// neither pods nor extended resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Whether the node still has the mark of its drain, so that no new pods start on it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub marked: bool,
}

/// Course of the drain of one node, for reports. A node that is drained again before a rollback has the sums of both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainRecord {
    /// Number of pods whose eviction the API server accepted.
    pub evicted: usize,
    /// Seconds from the request of the mark to the end of the evictions. Unset while they last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The last pod that a PodDisruptionBudget protected, and the answer of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
}

impl DrainRecord {
    /// Records the end of the evictions.
    pub(crate) fn end(&mut self, took: Duration) {
        self.seconds = Some(self.seconds.unwrap_or_default() + took.as_secs_f64());
    }
}

/// What a node had before its assignment, and has since.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// Number of Ready pods. Unset if the pods were not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods: Option<BeforeAfter>,
    /// Allocatable amounts of extended resources by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, BeforeAfter>,
}

/// A number before the assignment of a node, and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAfter {
    /// The number right before the assignment.
    pub before: u64,
    /// The latest number since the node runs its target. Unset if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

impl NodeOutcome {
    /// Reports whether no work is left for the node.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.end.is_good() && !self.marked
    }
}

/// Final state of one node in a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum End {
    /// The node made its transition and converged.
    Converged,
    /// The plan left the node unchanged.
    LeftAlone {
        /// The reason.
        why: Why,
    },
    /// The node failed.
    #[serde(rename_all = "camelCase")]
    Failed {
        /// The failure.
        failure: ConvergenceFailure,
        /// Whether the node was rolled back to its previous source.
        rolled_back: bool,
    },
    /// The API server refused the assignment.
    Refused {
        /// Error of the API server.
        error: String,
    },
    /// Another client changed the source of the node during the rollout.
    Changed {
        /// The present source.
        to: Option<ConfigSource>,
    },
    /// The node left the cluster.
    Gone,
    /// The rollout ended before it started the node.
    NotStarted,
    /// The rollout did not start the node, because its pool was held.
    Held,
    /// A gate of the node itself did not pass for the whole of its patience, so that the rollout did not start the node.
    NotPermitted {
        /// The gate.
        gate: GateName,
        /// Why it does not pass.
        why: String,
    },
    /// The node was in transition when the run was interrupted.
    InFlight,
    /// The node had not converged when an operator aborted the rollout, and was rolled back.
    RolledBack,
}

impl End {
    /// State of the node.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Converged => State::Converged,
            Self::LeftAlone { why } => why.state(),
            Self::Failed { .. } | Self::Refused { .. } => State::Failed,
            Self::Changed { .. } => State::ChangedByOthers,
            Self::Gone => State::Gone,
            Self::NotStarted => State::NotStarted,
            Self::Held | Self::NotPermitted { .. } => State::Held,
            Self::InFlight => State::InFlight,
            Self::RolledBack => State::RolledBack,
        }
    }

    /// Reports whether the node runs its target, by its own transition or since before the rollout.
    #[must_use]
    pub fn runs_target(&self) -> bool {
        match self {
            Self::Converged => true,
            Self::LeftAlone { why } => why.runs_target(),
            _ => false,
        }
    }

    /// Reports whether no work is left for the node. A skipped node, for example of a paused pool, counts as
    /// good, and so does a held one.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self.state(), State::Converged | State::Settled | State::Skipped | State::Held | State::Gone)
    }
}

/// Reason why a pool starts no further node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum StopReason {
    /// A canary failed.
    CanaryFailed {
        /// The canary.
        node: NodeName,
    },
    /// More nodes failed than `maxFailures` allows.
    #[serde(rename_all = "camelCase")]
    TooManyFailures {
        /// Number of failed nodes.
        failures: u32,
        /// Number of allowed failures.
        max_failures: u32,
    },
    /// Unavailable nodes that do not recover use up the budget.
    BudgetExhausted {
        /// The pool's budget.
        budget: usize,
        /// Number of unavailable nodes.
        unavailable: usize,
        /// Some of these nodes.
        examples: Vec<NodeName>,
    },
    /// Unavailable nodes that do not recover use up the limit of all pools.
    #[serde(rename_all = "camelCase")]
    FleetBudgetExhausted {
        /// The limit.
        budget: usize,
        /// Number of unavailable nodes of all pools.
        unavailable: usize,
    },
    /// A gate did not pass for the whole of its patience, or blocked during a soak.
    GateClosed {
        /// The gate.
        gate: GateName,
        /// Why it does not pass.
        why: String,
        /// Whether it guarded the soak of the canaries.
        canaries: bool,
    },
    /// A signal interrupted the run.
    Interrupted,
    /// An operator aborted the rollout.
    Aborted {
        /// Name of the operator.
        by: String,
        /// The given reason, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An operator paused the pool or the whole fleet during the rollout.
    Paused(Pause),
    /// The run lost the lock of the fleet.
    LockLost,
    /// The API server was unreachable or refused to continue.
    ClusterFailed {
        /// The error.
        error: String,
    },
}

impl StopReason {
    /// Reports whether an operator or a signal requested the stop. The outcome omits such a stop if it prevented
    /// nothing.
    pub(crate) fn is_requested(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Aborted { .. } | Self::Paused(_))
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
            Self::FleetBudgetExhausted { budget, unavailable } => write!(
                f,
                "no budget left, {unavailable} unavailable in all pools of at most {budget} (maxUnavailable of the fleet)"
            ),
            Self::GateClosed { gate, why, canaries: true } => write!(f, "gate {gate} failed the canaries: {why}"),
            Self::GateClosed { gate, why, canaries: false } => write!(f, "gate {gate} does not pass: {why}"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Aborted { by, reason: None } => write!(f, "aborted by {}", one_line(by)),
            Self::Aborted { by, reason: Some(reason) } => {
                write!(f, "aborted by {}: {}", one_line(by), one_line(reason))
            }
            Self::Paused(Pause { by, reason, whole_fleet, .. }) => {
                let scope = if *whole_fleet { "with the whole fleet " } else { "" };
                write!(f, "paused {scope}by {}: {}", one_line(by), one_line(reason))
            }
            Self::LockLost => f.write_str("the lock of the fleet was lost"),
            Self::ClusterFailed { error } => write!(f, "the cluster failed: {error}"),
        }
    }
}

/// Start of the rollout of one pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum PoolStart {
    /// The pool starts nodes as its canaries and its budget allow, or has nothing to start.
    #[default]
    Starts,
    /// No node of the pool starts, because unavailable nodes use up its budget. The pool waits for them.
    Waits,
    /// No node of the pool starts now, because the pool is held.
    Held {
        /// The reason, and the next opening.
        hold: Hold,
    },
    /// The pool stops at once: nodes failed on this configuration before.
    Stops {
        /// The reason.
        reason: StopReason,
    },
}
