//! Policy of drains: what happens to the pods of a node before a change that needs a drained node.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::fields::{At, choices, map};
use kubelet_config::values::duration;
use nodecfg_contract::label_selector::LabelSelector;

map! {
    /// Drain of a node before its change: its pods are evicted within their PodDisruptionBudgets.
    #[derive(PartialEq, Eq)]
    #[name("DrainSpec")]
    pub struct DrainPolicy: Default {
        /// Evict the pods (evict), or make the change with running pods (accept), for example after a drain by hand.
        /// Default {default}.
        #[default(DrainMode::Evict)]
        "mode" => mode: DrainMode,
        /// Time limit per node from its mark to its assignment. Default {default}.
        #[default(Duration::from_secs(15 * 60))]
        #[check(some_time)]
        "timeout" => timeout: Duration,
        /// Time that a converged node must stay Ready before new pods may start on it. Default {default}.
        #[default(Duration::from_secs(30))]
        "settle" => settle: Duration,
        /// Refuse to drain a node with pods that have emptyDir volumes (refuse), or lose these volumes (delete).
        /// Default {default}.
        #[default(PodLoss::Refuse)]
        "emptyDir" => empty_dir: PodLoss,
        /// Refuse to drain a node with pods that have no controller (refuse), or delete these pods (delete). Default
        /// {default}.
        #[default(PodLoss::Refuse)]
        "unmanaged" => unmanaged: PodLoss,
        /// Pods that stay on the node. Pods with exclusive CPUs cannot stay. Default: none.
        "skip" => skip: Option<LabelSelector>,
        /// Release a node that was not drained in time (release), or keep new pods away from it (hold). Default
        /// {default}.
        #[default(OnTimeout::Release)]
        "onTimeout" => on_timeout: OnTimeout,
    }
}

choices! {
    DrainMode: "value", [("evict", DrainMode::Evict), ("accept", DrainMode::Accept)];
    PodLoss: "value", [("refuse", PodLoss::Refuse), ("delete", PodLoss::Delete)];
    OnTimeout: "value", [("release", OnTimeout::Release), ("hold", OnTimeout::Hold)];
}

fn some_time(timeout: Duration, at: &mut At<'_>) -> Option<Duration> {
    if timeout.is_zero() {
        let help = format!("write {}, the default", duration::format(DrainPolicy::default().timeout));
        at.refuse("it must be greater than 0", help);
    }
    Some(timeout)
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
            // Pods of a node that is not drained are checked for this time.
            return write!(f, "accept, settle {}", duration::format(self.settle));
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
