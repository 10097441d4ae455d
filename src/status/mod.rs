//! Status of a fleet: every node and every pool, the worst first, compared with a repository if one is given.
//!
//! [`build`] builds the status from one observation of a cluster, [`changes`] compares two statuses.
//! [`report`](crate::report) renders them. Pure: must not use a client, the clock or a terminal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::names::{CommitId, FleetName, NodeName, PoolName};
use nodecfg_contract::{ConfigSource, Placement};

use nodecfg_contract::KubeletVersion;
use nodecfg_contract::kubelet_values::OverriddenValue;
use nodecfg_fleet::hold::Hold;
use nodecfg_observed::{DrainMark, Orders, Pause, Readiness};
use nodecfg_plan::convergence::{Convergence, Target, Trial};
use nodecfg_plan::{Owner, Why};

mod build;
mod changes;
mod domains;
mod new_nodes;
mod steps;
#[cfg(test)]
pub(crate) mod tests;
mod unproven;

pub use build::{DesiredFleet, Selection, build};
pub use changes::{Change, changes};
pub use domains::DomainStatus;
pub use new_nodes::NewNodes;
pub use nodecfg_plan::state::{Grade, State};
pub use steps::StepStatus;
pub use unproven::UnprovenNodes;

/// Status of the fleets of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetStatus {
    /// Time of the observation.
    pub at: Timestamp,
    /// Revision that the nodes are compared with. Unset without a repository: each node is then compared with its own
    /// assignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// Fleets with ConfigMaps in the cluster, by name, and the fleet of the repository, with their rollouts and
    /// pauses.
    pub fleets: Vec<FleetOrders>,
    /// Pools, the worst first.
    pub pools: Vec<PoolStatus>,
    /// Number of nodes per state, the worst first.
    pub states: BTreeMap<State, usize>,
    /// Nodes, the worst first.
    pub nodes: Vec<NodeStatus>,
}

/// Revision of a repository that nodes are compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// Fleet of the repository.
    pub fleet: FleetName,
    /// The commit; unset for a working tree.
    pub commit: Option<CommitId>,
    /// The number of files with uncommitted changes, which are not part of the checked-out commit. Unset without such
    /// files, and for a requested revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncommitted: Option<usize>,
    /// Whether the revision pauses the whole fleet (`spec.paused`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Rollout and orders of a fleet, from its Lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetOrders {
    /// The fleet.
    pub fleet: FleetName,
    /// Namespace of its Lease.
    pub namespace: String,
    /// Running rollout, which holds the lock. Unset: none runs, or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Running>,
    /// Pauses, and an order to stop that rollout.
    #[serde(flatten)]
    pub orders: Orders,
    /// Reason why these fields are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Running rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Holder of the lock.
    pub holder: String,
    /// Start time, if known.
    pub since: Option<Timestamp>,
}

/// Status of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The pool; unset for nodes without a pool.
    pub pool: Option<PoolName>,
    /// Fleet of the pool.
    pub fleet: Option<FleetName>,
    /// Target of its nodes according to the repository. Unset if it follows from the size of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<Target>,
    /// Its nodes by size, if their target follows from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub sizes: Vec<SizeStatus>,
    /// How its nodes must combine that with their own configuration. Unset if the pool requires nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of converged nodes, including those on trial.
    pub converged: usize,
    /// Number of converged nodes whose agents have proven that the kubelet runs every reviewed value that the pool does not
    /// accept as overridden.
    pub proven: usize,
    /// Worst state of its nodes; converged without nodes.
    pub worst: State,
    /// Number of nodes per state, the worst first.
    pub states: BTreeMap<State, usize>,
    /// Number of different configurations that its nodes run, including the local one.
    pub configurations: usize,
    /// Pause of the pool, with its origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Why no node of the pool may start now, and when one may. Unset if no node waits for its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Hold>,
    /// The domain that a rollout changes now, or next. Unset without an order, and if all nodes run their target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<DomainStatus>,
    /// The step that a rollout is at. Unset without steps, after the last one, and if no node waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepStatus>,
    /// Nodes that never had the configuration of the pool. Unset without such nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_nodes: Option<NewNodes>,
    /// Nodes whose agents cannot tell whether the kubelet runs the reviewed values. Unset without such nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unproven: Option<UnprovenNodes>,
}

impl PoolStatus {
    /// Percentage of converged nodes, rounded down: 100 means all nodes. `None` without nodes.
    #[must_use]
    pub fn percent(&self) -> Option<usize> {
        (self.converged * 100).checked_div(self.nodes)
    }
}

/// Nodes of a pool of one size.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizeStatus {
    /// The size, such as `4 CPU, 16Gi`.
    pub size: String,
    /// Target of the nodes.
    pub desired: Target,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of converged nodes, including those on trial.
    pub converged: usize,
}

/// Pause of a pool or of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// True if the repository pauses it (`spec.rollout.paused`, or `spec.paused` of the Fleet).
    pub in_repository: bool,
    /// Order that pauses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Pause>,
}

impl FleetStatus {
    /// Pause of a whole fleet, if it is paused.
    #[must_use]
    pub fn pause_of(&self, fleet: &FleetName) -> Option<Paused> {
        let in_repository = self.compared.as_ref().is_some_and(|compared| compared.paused && compared.fleet == *fleet);
        let of_fleet = self.fleets.iter().find(|orders| orders.fleet == *fleet);
        Paused::of(in_repository, of_fleet.and_then(|orders| orders.orders.paused.as_ref()))
    }
}

impl Paused {
    /// A pause by the repository, by an order, or by both. `None` for neither.
    #[must_use]
    pub fn of(in_repository: bool, order: Option<&Pause>) -> Option<Self> {
        (in_repository || order.is_some()).then(|| Self { in_repository, order: order.cloned() })
    }
}

/// Status of one node.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The node.
    pub node: NodeName,
    /// Pool that selects the node in the repository, otherwise the pool of its ConfigMap; unset without either.
    pub pool: Option<PoolName>,
    /// The fleet of that pool.
    pub fleet: Option<FleetName>,
    /// Ready condition.
    pub ready: Readiness,
    /// Version of its kubelet.
    pub kubelet: Option<KubeletVersion>,
    /// Target according to the repository; unset without a repository, and for nodes without a pool.
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
    /// Convergence to the target of the repository, or without a repository to the node's own assignment.
    pub verdict: Convergence,
    /// Summary of all fields.
    pub state: State,
    /// Start of the state, if recorded: by the Ready condition of a node that is not Ready, or by the node agent in
    /// its NodeConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Creation time of the Node, if it never had the configuration of its pool: it has no assignment, and reports no
    /// assigned, active or last known good ConfigMap. Unset for other nodes, and without a repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_since: Option<Timestamp>,
    /// Change by another client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Mark of a drain, if the node has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_mark: Option<Box<DrainMark>>,
    /// Trial of a converged node, if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Reason why no sync can bring the node to its target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Why>,
    /// Values of its configuration that something else overrides, as the agent reports them, at most 20. Some may be
    /// accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<OverriddenValue>,
    /// Whether the kubelet is proven to run every reviewed value, except for those that the pool accepts as overridden.
    pub proven: bool,
    /// Why the agent cannot compare them. Unset if it did, for the local configuration, and without an agent that looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unproven: Option<String>,
}

/// Change of a node's assignment by another client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Drift {
    /// The node is assigned a ConfigMap that its fleet does not manage.
    Elsewhere {
        /// The assignment.
        source: ConfigSource,
        /// Owner of the ConfigMap.
        owner: Owner,
    },
    /// The node is assigned the ConfigMap of another pool of its fleet.
    OtherPool {
        /// The assignment.
        source: ConfigSource,
        /// Pool of the ConfigMap.
        pool: PoolName,
    },
    /// No pool of the repository selects the node, but it is assigned a ConfigMap of the fleet.
    Unselected {
        /// The assignment.
        source: ConfigSource,
    },
    /// The node runs a ConfigMap that was deleted and recreated under its name since.
    OtherContent {
        /// The assignment.
        source: ConfigSource,
    },
}
