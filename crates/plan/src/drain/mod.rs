//! Drain of a node: which pods are evicted until a change that needs a drained node may start.
//!
//! [`pods`] decides about single pods. The rollout of the node's pool marks the node, evicts the pods, and releases it.
//! [`forecast`] shows reviewers what the evictions would do.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::printable::one_line;

pub mod forecast;
pub mod pods;

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;

/// Reason why a drain ended without a change of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "reason")]
pub enum DrainFailure {
    /// The policy does not allow the eviction of a pod. No pod was evicted.
    Refused {
        /// Namespace and name of the pod.
        pod: String,
        /// Reason of the refusal.
        why: pods::Refusal,
        /// Number of refused pods.
        pods: usize,
    },
    /// A PodDisruptionBudget allowed no eviction until the time limit.
    Blocked {
        /// Namespace and name of the pod.
        pod: String,
        /// Answer of the API server, which names the budget.
        budget: String,
        /// Number of pods that were left.
        pods: usize,
    },
    /// Pods or volumes were left at the time limit.
    TimedOut {
        /// Number of pods that were left.
        pods: usize,
        /// Namespace and name of one of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pod: Option<String>,
        /// Number of volumes that were still attached.
        volumes: usize,
    },
    /// Another client removed the mark of the node.
    MarkLost,
    /// Another program maintains or deletes the node, or its state is unknown.
    Claimed,
    /// Unavailable nodes used up the budget of the pool for too long.
    NoBudget,
    /// A DaemonSet pod was not deleted after the change of the node. It uses exclusive CPUs that the new configuration
    /// may give to another pod.
    PodKept {
        /// Error of the API server, which names the pod.
        error: String,
    },
    /// The API server refused a request of the drain.
    Request {
        /// Error of the API server.
        error: String,
    },
}

impl DrainFailure {
    /// Reports whether the failure prevented the change, or its end, so that the drain must be repeated.
    #[must_use]
    pub fn prevented_change(&self) -> bool {
        !matches!(self, Self::PodKept { .. })
    }
}

impl fmt::Display for DrainFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = |f: &mut fmt::Formatter<'_>, pods: usize| match pods.saturating_sub(1) {
            0 => Ok(()),
            1 => f.write_str(", and 1 more pod"),
            more => write!(f, ", and {more} more pods"),
        };
        match self {
            Self::Refused { pod, why, pods } => {
                write!(f, "drain refused: pod {} {why}", one_line(pod))?;
                others(f, *pods)
            }
            Self::Blocked { pod, budget, pods } => {
                write!(f, "drain blocked: pod {}: {}", one_line(pod), one_line(budget))?;
                others(f, *pods)
            }
            Self::TimedOut { pod: Some(pod), pods, .. } => {
                write!(f, "drain timed out: pod {} is still there", one_line(pod))?;
                others(f, *pods)
            }
            Self::TimedOut { pod: None, volumes, .. } => {
                let attached = if *volumes == 1 { "volume is" } else { "volumes are" };
                write!(f, "drain timed out: {volumes} {attached} still attached")
            }
            Self::MarkLost => f.write_str("mark lost: another client removed the taint of the drain"),
            Self::Claimed => f.write_str("not drained: another program maintains or deletes the node"),
            Self::NoBudget => f.write_str("not drained: unavailable nodes use up the budget (maxUnavailable)"),
            Self::PodKept { error } => {
                write!(f, "DaemonSet pod with exclusive CPUs not deleted: {}", one_line(error))
            }
            Self::Request { error } => write!(f, "drain failed: {}", one_line(error)),
        }
    }
}
