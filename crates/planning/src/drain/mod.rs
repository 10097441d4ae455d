//! Drain of a node: which pods are evicted until a change that needs a drained node may start.
//!
//! [`pods`] decides about single pods. The rollout of the node's pool marks the node, evicts the pods, and releases it.
//! [`forecast`] shows reviewers what the evictions would do.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use kubelet_config::duration;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::printable::one_line;

pub mod forecast;
pub mod pods;

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;

/// Policy of a pool for changes of class `drain` and above (`spec.rollout.drain`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainPolicy {
    /// Whether nodes are drained.
    pub mode: DrainMode,
    /// Time limit per node from its mark to its assignment. Default 15 minutes.
    pub timeout: Duration,
    /// Time that a converged node must stay Ready before it is released. Default 30 seconds.
    pub settle: Duration,
    /// What happens to pods whose `emptyDir` volumes would be lost. Default: the drain is refused.
    pub empty_dir: PodLoss,
    /// What happens to pods that nothing recreates. Default: the drain is refused.
    pub unmanaged: PodLoss,
    /// Pods that stay on the node. Pods with exclusive CPUs cannot stay.
    pub skip: Option<LabelSelector>,
    /// What happens to the mark of a node that was not drained in time. Default: the node is released.
    pub on_timeout: OnTimeout,
}

impl Default for DrainPolicy {
    fn default() -> Self {
        Self {
            mode: DrainMode::Evict,
            timeout: Duration::from_secs(15 * 60),
            settle: Duration::from_secs(30),
            empty_dir: PodLoss::Refuse,
            unmanaged: PodLoss::Refuse,
            skip: None,
            on_timeout: OnTimeout::Release,
        }
    }
}

impl DrainPolicy {
    /// The longest time that a drain adds to the change of a node.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.timeout.saturating_add(self.settle)
    }
}

impl fmt::Display for DrainPolicy {
    /// Settings in the notation of `pool.yaml`: `evict, timeout 15m, settle 30s, emptyDir refuse, …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode: DrainMode::Evict, timeout, settle, empty_dir, unmanaged, skip, on_timeout } = self else {
            return f.write_str("accept");
        };
        let loss = |loss: &PodLoss| match loss {
            PodLoss::Refuse => "refuse",
            PodLoss::Delete => "delete",
        };
        write!(f, "evict, timeout {}, settle {}", duration::format(*timeout), duration::format(*settle))?;
        write!(f, ", emptyDir {}, unmanaged {}", loss(empty_dir), loss(unmanaged))?;
        if let Some(skip) = skip {
            write!(f, ", skip {skip}")?;
        }
        f.write_str(match on_timeout {
            OnTimeout::Release => ", onTimeout release",
            OnTimeout::Hold => ", onTimeout hold",
        })
    }
}

/// Whether a change that needs a drained node drains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DrainMode {
    /// The pods are evicted before the change.
    Evict,
    /// The change is made with running pods, for example because somebody else has drained the nodes.
    Accept,
}

/// What a drain does to pods that lose data or do not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PodLoss {
    /// The drain of the node is refused.
    Refuse,
    /// The pods are evicted.
    Delete,
}

/// What happens to the mark of a node that was not drained in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnTimeout {
    /// The node is released: new pods may start on it.
    Release,
    /// The node keeps its mark, and the next run continues.
    Hold,
}

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
