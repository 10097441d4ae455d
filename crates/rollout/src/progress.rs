//! Progress events of a rollout, each with the state of its pool. Reports format these values.

use jiff::Timestamp;
use serde::Serialize;

use super::StopReason;
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{GateName, NodeName, PoolName};
use nodecfg_fleet::hold::Hold;
use nodecfg_plan::convergence::{ConvergenceFailure, Target, Trial, Waiting};
use nodecfg_plan::{Domain, Why};

/// What happened to a node, a pool or the run, with the state of the pool right after it.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What happened.
    #[serde(flatten)]
    pub progress: Progress,
    /// The pool. Unset for an event of no pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub pool: Option<PoolName>,
    /// The node. Unset for an event of no single node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub node: Option<NodeName>,
    /// State of the pool. `None` for an event of no pool.
    #[serde(skip)]
    pub state: Option<PoolState>,
}

impl From<Progress> for Event {
    /// An event of no pool and no node.
    fn from(progress: Progress) -> Self {
        Self { progress, pool: None, node: None, state: None }
    }
}

impl Event {
    /// The event as one of this pool.
    #[must_use]
    pub fn of(self, pool: PoolName) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// The event as one of this node.
    #[must_use]
    pub fn about(self, node: NodeName) -> Self {
        Self { node: Some(node), ..self }
    }
}

/// State of a pool during its rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolState {
    /// Number of nodes per stage.
    pub counts: NodeCounts,
    /// The gate that blocks the start of nodes.
    pub gate: StartGate,
    /// Number of canaries that have not converged while the gate waits for them.
    pub canaries: usize,
    /// The node that failed last.
    pub last_failed: Option<NodeName>,
    /// Latest known end of a trial, while the pool waits for trials only.
    pub trials_end: Option<Timestamp>,
}

/// Nodes of a pool that the plan has a step for, counted by stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes whose assignment was not sent or not answered yet.
    pub pending: usize,
    /// Nodes in transition to the target or back.
    pub in_flight: usize,
    /// Nodes that have converged.
    pub done: usize,
    /// Nodes that failed or whose assignment the API server refused.
    pub failed: usize,
    /// Nodes that left the cluster, were changed by another client, were left unchanged by a new decision, or were
    /// rolled back.
    pub left: usize,
    /// Converged nodes on trial, also counted elsewhere. Includes nodes that the plan leaves unchanged.
    pub on_trial: usize,
}

impl NodeCounts {
    /// Total number of nodes that the plan has a step for.
    #[must_use]
    pub fn total(&self) -> usize {
        self.pending + self.in_flight + self.done + self.failed + self.left
    }

    /// These counts after a part of them has changed.
    pub(crate) fn replace(mut self, before: &Self, after: &Self) -> Self {
        self.add(after);
        Self {
            pending: self.pending - before.pending,
            in_flight: self.in_flight - before.in_flight,
            done: self.done - before.done,
            failed: self.failed - before.failed,
            left: self.left - before.left,
            on_trial: self.on_trial - before.on_trial,
        }
    }

    /// Adds the nodes of another pool.
    pub fn add(&mut self, other: &Self) {
        self.pending += other.pending;
        self.in_flight += other.in_flight;
        self.done += other.done;
        self.failed += other.failed;
        self.left += other.left;
        self.on_trial += other.on_trial;
    }
}

/// Condition that blocks the start of further nodes of a pool, apart from its budget. `T` is the clock of the ends of
/// soaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartGate<T = Timestamp> {
    /// The gate waits for canaries to converge.
    Canaries,
    /// The canaries converged and are watched for the soak time.
    Soaking {
        /// End of the soak time.
        until: T,
    },
    /// All nodes of a domain or of a step have ended, and are watched for the soak time before the next one begins.
    SoakingStage {
        /// End of the soak time.
        until: T,
    },
    /// The gate blocks no node.
    Open,
}

impl<T> StartGate<T> {
    /// The same gate by another clock.
    pub(super) fn by<U>(self, time: impl FnOnce(T) -> U) -> StartGate<U> {
        match self {
            Self::Canaries => StartGate::Canaries,
            Self::Soaking { until } => StartGate::Soaking { until: time(until) },
            Self::SoakingStage { until } => StartGate::SoakingStage { until: time(until) },
            Self::Open => StartGate::Open,
        }
    }

    /// End of the present soak time.
    #[must_use]
    pub fn soaks_until(self) -> Option<T> {
        match self {
            Self::Soaking { until } | Self::SoakingStage { until } => Some(until),
            Self::Canaries | Self::Open => None,
        }
    }

    /// Reports whether the canaries have passed, or there are none.
    #[must_use]
    pub(crate) fn has_passed_canaries(self) -> bool {
        matches!(self, Self::SoakingStage { .. } | Self::Open)
    }
}

/// Kind of a progress event, with its data.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "event")]
pub enum Progress {
    /// A ConfigMap was created.
    ConfigMapCreated {
        /// Its name.
        name: String,
    },
    /// NodeConfigs of converged nodes got the content hash of their assignment. Their kubelets did not restart.
    ContentHashesAdded {
        /// Their number.
        nodes: usize,
    },
    /// The pointer of a pool was moved: new nodes start with this configuration.
    PointerMoved {
        /// ConfigMap of the configuration, or `3 sizes` if the nodes of each size have one. Unset: new nodes run their local
        /// configuration.
        #[serde(skip_serializing_if = "Option::is_none")]
        config_map: Option<String>,
    },
    /// The pointer of a pool could not be moved.
    PointerNotMoved {
        /// ConfigMap of the configuration that it should name. Unset: the local configuration.
        #[serde(skip_serializing_if = "Option::is_none")]
        config_map: Option<String>,
        /// Error of the API server.
        error: String,
    },
    /// The mark of a drain that an earlier run did not finish was removed from a node.
    MarkReleased,
    /// The pods that a drain evicts from a node are known. Not reported without any.
    DrainStarted {
        /// Number of pods.
        pods: usize,
    },
    /// The API server refused an eviction, for a reason that is new in this drain.
    DrainBlocked {
        /// Namespace and name of the pod.
        pod: String,
        /// The reason, which names the PodDisruptionBudget.
        reason: String,
    },
    /// The pods that a drain evicts are gone, and their volumes detached. The assignment or the rollback of the node
    /// follows.
    Drained {
        /// Seconds since the mark of the node.
        seconds: f64,
    },
    /// A node was assigned its target.
    Assigned {
        /// Previous source.
        from: Option<ConfigSource>,
        /// New target.
        to: Target,
    },
    /// A Ready node has not acknowledged its assignment for an unusually long time: perhaps no agent runs there. Reported
    /// for the first such node of a pool.
    Unacknowledged {
        /// Seconds since the assignment.
        seconds: f64,
    },
    /// A node is in transition, and its reason for waiting changed.
    Waiting {
        /// The reason.
        waiting: Waiting,
    },
    /// A node converged.
    Converged {
        /// Seconds from assignment to convergence.
        seconds: f64,
        /// Its trial, unless it was passed or none is needed.
        #[serde(skip_serializing_if = "Option::is_none")]
        trial: Option<Trial>,
    },
    /// The configuration of a converged node passed its trial.
    TrialPassed,
    /// The pool has finished but for trials, and the run waits for them.
    AwaitingTrials {
        /// Number of nodes on trial.
        nodes: usize,
        /// Latest known end of a trial.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// A node failed.
    Failed {
        /// The failure.
        failure: ConvergenceFailure,
    },
    /// The API server refused to assign a node.
    Refused {
        /// Error of the API server.
        error: String,
    },
    /// A node was rolled back and runs its previous configuration. The node failed, or had not converged when an
    /// operator aborted the rollout.
    RolledBack {
        /// Restored source.
        to: Option<ConfigSource>,
    },
    /// A node stays on its target: rolling it back would disrupt running pods more than the pool allows.
    NotRolledBack {
        /// Disruption that the rollback needs.
        needs: Class,
    },
    /// A node was rolled back but does not run its previous configuration.
    RollbackFailed {
        /// The failure of the rollback.
        failure: ConvergenceFailure,
    },
    /// Another client changed a node, which is left unchanged.
    Changed {
        /// Present source.
        to: Option<ConfigSource>,
    },
    /// A node does not start as long as the reason lasts, for example because another program maintains it.
    Held {
        /// The reason.
        why: Why,
    },
    /// No further node of the pool starts in this run, because the pool is held. Nodes in transition go on.
    PoolHeld {
        /// Number of nodes that have not started.
        nodes: usize,
        /// The reason, and the next opening.
        hold: Hold,
    },
    /// A gate delays the pool: no further node starts, or its soak does not end, until the gate passes.
    GateClosed {
        /// The gate.
        gate: GateName,
        /// Why it does not pass.
        why: String,
    },
    /// A gate that delayed the pool delays it no longer.
    GateOpened {
        /// The gate.
        gate: GateName,
    },
    /// A node does not start as long as one of its own gates does not pass. Others start.
    NotPermitted {
        /// The gate.
        gate: GateName,
        /// Why it does not pass.
        why: String,
        /// End of the patience, after which the node is held for the rest of the run.
        until: Timestamp,
    },
    /// The gates of a node that was not permitted to start pass now.
    Permitted,
    /// A node left the cluster.
    Gone,
    /// A node keeps the mark of its drain, because the API server refused to remove it.
    NotReleased {
        /// Error of the API server.
        error: String,
    },
    /// The canaries converged and are watched before the other nodes start.
    Soaking {
        /// End of the soak time.
        until: Timestamp,
    },
    /// The canaries passed the soak time, and the other nodes start.
    Soaked,
    /// All nodes of a domain have ended, and are watched before the next domain begins.
    DomainSoaking {
        /// End of the soak time.
        until: Timestamp,
        /// The domain that begins then.
        next: Domain,
    },
    /// The nodes of a domain may start.
    DomainStarted {
        /// The domain.
        domain: Domain,
        /// Number of nodes that have not started.
        nodes: usize,
    },
    /// All nodes of a step have ended, and are watched before further nodes start.
    StepSoaking {
        /// End of the soak time.
        until: Timestamp,
        /// Number of nodes that have the target.
        begun: usize,
    },
    /// The nodes up to the next step may start.
    StepStarted {
        /// The largest number of nodes that may have or get the target. Unset: all nodes.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<usize>,
    },
    /// The pool starts no further node.
    Stopped {
        /// The reason.
        reason: StopReason,
    },
}

impl Kind for Event {
    const KIND: &'static str = "Progress";
}
