//! How a fleet is: every node and every pool of it, the worst first, with what a repository wants of them where one is
//! named.
//!
//! One model for everybody who shows it: [`make`] makes it of one look at a cluster, [`changes`] tells two of them apart.
//! How it looks to people is [`report`](crate::report)'s business. Pure: knows no client, no clock and no terminal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{CommitId, FleetName, NodeName, PoolName};
use nodecfg_contract::observed::{Abort, KubeletVersion, Pause, Readiness};
use nodecfg_planning::judge::{Convergence, Target};
use nodecfg_planning::plan::{Owner, Why};

mod changes;
mod make;
#[cfg(test)]
pub(crate) mod tests;

pub use changes::{Change, changes};
pub use make::{Selection, Wanted, make};
pub use nodecfg_planning::state::{Grade, State};

/// How a fleet is, or several in one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetStatus {
    /// When the cluster was looked at.
    pub at: Timestamp,
    /// What the nodes are compared with; unset when no repository was named: then each is compared with what it points at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// The fleets that have ConfigMaps in the cluster, by name, and the one of the repository: who rolls out, and what is
    /// paused.
    pub fleets: Vec<FleetOrders>,
    /// The pools, the worst first.
    pub pools: Vec<PoolStatus>,
    /// How many nodes are in each state, the worst first.
    pub states: BTreeMap<State, usize>,
    /// The nodes, the worst first.
    pub nodes: Vec<NodeStatus>,
}

/// The revision of a repository that nodes are compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// Its fleet.
    pub fleet: FleetName,
    /// The commit; unset for a working tree.
    pub commit: Option<CommitId>,
}

/// Who rolls out a fleet, and what people have ordered of it: what its Lease says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetOrders {
    /// The fleet.
    pub fleet: FleetName,
    /// Where its Lease is.
    pub namespace: String,
    /// Who holds the lock: a rollout runs. Unset: nobody does, or it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Running>,
    /// The order to stop that rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
    /// The pools that are paused from a command line.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pauses: BTreeMap<PoolName, Pause>,
    /// Why none of this is known, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// A rollout that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Who holds the lock.
    pub holder: String,
    /// Since when, if they said.
    pub since: Option<Timestamp>,
}

/// How one pool is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The pool; unset for the nodes that are in none.
    pub pool: Option<PoolName>,
    /// Its fleet.
    pub fleet: Option<FleetName>,
    /// What its nodes shall run, as the repository says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<Target>,
    /// How many nodes it has.
    pub nodes: usize,
    /// How many of them have converged.
    pub converged: usize,
    /// The worst state that a node of it is in; that it has converged, where there are no nodes.
    pub worst: State,
    /// How many nodes are in each state, the worst first.
    pub states: BTreeMap<State, usize>,
    /// How many different configurations its nodes run, the local one among them.
    pub configurations: usize,
    /// That it is paused, and by whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

impl PoolStatus {
    /// How many in a hundred of its nodes have converged, rounded down: 100 means all. Of no nodes, all have.
    #[must_use]
    pub fn percent(&self) -> usize {
        (self.converged * 100).checked_div(self.nodes).unwrap_or(100)
    }
}

/// That a pool is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// The repository says so (`spec.rollout.paused`).
    pub in_repository: bool,
    /// Somebody has paused it from a command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Pause>,
}

/// How one node is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The node.
    pub node: NodeName,
    /// The pool that selects it in the repository, or else whose ConfigMap it points at; unset when there is none.
    pub pool: Option<PoolName>,
    /// The fleet of that pool.
    pub fleet: Option<FleetName>,
    /// Its Ready condition.
    pub ready: Readiness,
    /// Its kubelet.
    pub kubelet: Option<KubeletVersion>,
    /// What the repository wants it to run; unset where no repository was named, or it is in none of its pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<Target>,
    /// `spec.configSource`.
    pub wanted: Option<ConfigSource>,
    /// `status.config.assigned`.
    pub assigned: Option<ConfigSource>,
    /// `status.config.active`.
    pub active: Option<ConfigSource>,
    /// `status.config.lastKnownGood`.
    pub last_known_good: Option<ConfigSource>,
    /// `status.config.error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How far it is on its way: to what the repository wants where one was named, otherwise to what it points at.
    pub verdict: Convergence,
    /// All of it in a word.
    pub state: State,
    /// Since when it is in that state, where somebody has noted that down: the Ready condition of a node that is not
    /// Ready, the node agent in its NodeConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What somebody has changed behind nodecfg's back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Why no sync can bring it where it shall be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Why>,
}

/// What somebody has changed behind nodecfg's back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Drift {
    /// It points at a ConfigMap that its fleet does not manage.
    Elsewhere {
        /// What it points at.
        source: ConfigSource,
        /// Who manages that.
        owner: Owner,
    },
    /// It points at the ConfigMap of another pool of its fleet.
    OtherPool {
        /// What it points at.
        source: ConfigSource,
        /// Whose that is.
        pool: PoolName,
    },
    /// No pool of the repository selects it, and it points at a ConfigMap of the fleet all the same.
    Unselected {
        /// What it points at.
        source: ConfigSource,
    },
    /// Several pools of the repository select it.
    Contested {
        /// These.
        pools: Vec<PoolName>,
    },
    /// It runs the content of a ConfigMap that has been deleted and made again under its name since.
    OtherContent {
        /// What it points at.
        source: ConfigSource,
    },
}
