//! Policy of drains: what happens to the pods of a node before a change that needs a drained node.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use kubelet_config::duration;
use nodecfg_contract::label_selector::LabelSelector;

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
