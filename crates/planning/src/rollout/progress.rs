//! What a rollout reports while it runs: events, each with the state of its pool. Plain data; the report lays it out.

use jiff::Timestamp;
use serde::Serialize;

use super::StopReason;
use crate::judge::{Failure, Target, Waiting};
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{NodeName, PoolName};

/// Something that happened, and the state of its pool right after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What happened.
    pub progress: Progress,
    /// The pool; `None` for an event of no pool.
    pub pool: Option<PoolState>,
}

/// The state of a pool while it is rolled out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolState {
    /// Its nodes.
    pub counts: NodeCounts,
    /// What holds nodes back.
    pub gate: Gate,
    /// How many canaries have not converged, while they hold the others back.
    pub canaries: usize,
    /// The node that failed last.
    pub last_failed: Option<NodeName>,
}

/// The nodes of a pool that the plan has a step for, counted by where they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes that have not been assigned.
    pub pending: usize,
    /// Nodes in transition, to the target or back.
    pub in_flight: usize,
    /// Nodes that have converged.
    pub done: usize,
    /// Nodes that failed, or whose assignment the API server refused.
    pub failed: usize,
    /// Nodes that left the cluster, were changed by another client, or were rolled back.
    pub left: usize,
}

impl NodeCounts {
    /// The number of nodes.
    #[must_use]
    pub fn total(&self) -> usize {
        self.pending + self.in_flight + self.done + self.failed + self.left
    }

    /// Adds the nodes of another pool.
    pub fn add(&mut self, other: &Self) {
        self.pending += other.pending;
        self.in_flight += other.in_flight;
        self.done += other.done;
        self.failed += other.failed;
        self.left += other.left;
    }
}

/// What holds the nodes of a pool back, apart from its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Canaries that have not converged.
    Canaries,
    /// Canaries that have converged and are watched until then.
    Soaking {
        /// Until when.
        until: Timestamp,
    },
    /// Nothing.
    Open,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "event")]
pub enum Progress {
    /// A ConfigMap was created.
    ConfigMapCreated {
        /// Its name.
        name: String,
    },
    /// A node was pointed at its target.
    Assigned {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// What it pointed at.
        from: Option<ConfigSource>,
        /// What it points at now.
        to: Target,
    },
    /// A node is on its way, and what it is waited for has changed.
    Waiting {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// What it is waited for.
        waiting: Waiting,
    },
    /// A node converged.
    Converged {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// From assignment to convergence.
        seconds: f64,
    },
    /// A node failed.
    Failed {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// How.
        failure: Failure,
    },
    /// The API server refused to assign a node.
    Refused {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// Its words.
        error: String,
    },
    /// A node that failed, or had not converged when somebody aborted the rollout, was pointed back at what it had before, and
    /// runs that again.
    RolledBack {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// What it points at again.
        to: Option<ConfigSource>,
    },
    /// A node was to be pointed back and is not: it runs its target, and the way back does more to running pods than its pool
    /// allows.
    NotRolledBack {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// What the way back needs.
        needs: Class,
    },
    /// A node was pointed back at what it had before, and has not come back to it.
    NotBack {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// Why it does not run that.
        failure: Failure,
    },
    /// Somebody else changed a node; it is left as it is now.
    Changed {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
        /// Where it points now.
        to: Option<ConfigSource>,
    },
    /// A node left the cluster.
    Gone {
        /// The pool.
        pool: PoolName,
        /// The node.
        node: NodeName,
    },
    /// The canaries converged and are watched before the others follow.
    Soaking {
        /// The pool.
        pool: PoolName,
        /// Until when.
        until: Timestamp,
    },
    /// The canaries held; the others follow.
    Soaked {
        /// The pool.
        pool: PoolName,
    },
    /// No further node of the pool is started.
    Stopped {
        /// The pool.
        pool: PoolName,
        /// Why.
        reason: StopReason,
    },
}

impl Progress {
    /// The pool that it concerns, when it concerns one.
    #[must_use]
    pub fn pool(&self) -> Option<&PoolName> {
        match self {
            Self::ConfigMapCreated { .. } => None,
            Self::Assigned { pool, .. }
            | Self::Waiting { pool, .. }
            | Self::Converged { pool, .. }
            | Self::Failed { pool, .. }
            | Self::Refused { pool, .. }
            | Self::RolledBack { pool, .. }
            | Self::NotBack { pool, .. }
            | Self::NotRolledBack { pool, .. }
            | Self::Changed { pool, .. }
            | Self::Gone { pool, .. }
            | Self::Soaking { pool, .. }
            | Self::Soaked { pool }
            | Self::Stopped { pool, .. } => Some(pool),
        }
    }
}

impl Kind for Progress {
    const KIND: &'static str = "Progress";
}
