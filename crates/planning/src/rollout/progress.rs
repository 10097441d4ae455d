//! What a rollout tells while it runs. Plain data; how it looks is the report's business.

use jiff::Timestamp;
use serde::Serialize;

use super::StopReason;
use crate::judge::{Failure, Target, Waiting};
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{NodeName, PoolName};

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
