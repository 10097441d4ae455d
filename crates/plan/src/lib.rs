//! Plan of a sync: data types, and the functions that make and check a plan.
//!
//! [`make`] combines [desired](nodecfg_fleet) and [observed](nodecfg_observed) state into a [`Plan`]. A
//! plan contains the ConfigMaps to create and the assignment of each node with its precondition, in waves. For every
//! other node it contains the reason why the node is left unchanged.
//!
//! A plan is deterministic data, named by a hash. A rollout makes no decisions of its own: for a node that another
//! client changed, it calls [`decide_again`]. [`check`] asserts the invariants of every plan before it runs.
//!
//! - [`make()`] creates the plan of all pools, `decide` decides on one node, `waves` orders them.
//! - `scope` and `membership`: which nodes a plan may change, and which pool has a node.
//! - `disruption`, `losses`, `drains`, [`sample`]: effects of changes on nodes and pods.
//! - `reservations`, `selection`, `verdicts`, `overrides`: checks of configurations against the nodes of the cluster.
//! - `pointers`: moves of pool pointers. `reset`, `prune`: the plans of these commands.
//! - [`convergence`]: whether a node runs its target. [`state`]: the state of a node in a word.
//! - [`drain`]: which pods are evicted. [`saved`]: saved plans.
//! - [`check()`] shares no code with the functions that it checks.
//!
//! This crate must not use a client, a clock or a terminal.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use kubelet_config::finding::Finding;
use nodecfg_contract::Assignment;
use nodecfg_contract::config_map::PoolConfigMap;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_fleet::schedule::Schedule;
use nodecfg_fleet::{NodeShare, RolloutPolicy, Steps};
use nodecfg_observed::{Node, Pause};

mod changes;
mod check;
mod config_maps;
pub mod convergence;
mod counts;
mod decide;
mod disruption;
pub mod drain;
mod drains;
mod losses;
mod make;
mod membership;
mod options;
mod pointers;
mod present;
mod problem;
mod prune;
mod required_config_maps;
mod reset;
mod returning;
mod reviewed;
pub mod sample;
pub mod saved;
mod selection;
pub mod state;
mod steps;
mod target;
mod verdicts;
mod waves;
mod why;

#[cfg(any(test, feature = "fixtures"))]
pub mod change_fixtures;
#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod content_tests;
#[cfg(test)]
mod disruption_tests;
#[cfg(test)]
mod drain_tests;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
#[cfg(test)]
mod pointer_tests;
#[cfg(test)]
mod returning_tests;
#[cfg(test)]
mod sample_tests;
#[cfg(test)]
mod size_tests;
#[cfg(test)]
mod skipped_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod verdicts_tests;

pub use changes::{
    ChangeSet, ChangedField, LostField, OmittedField, Sample, changed_fields, paths as lost_paths, placed_fields,
    sentence as lost_sentence,
};
pub use check::{Violation, check, check_returning};
pub use config_maps::{ConfigMapIndex, CurrentSource};
pub use counts::Counts;
pub use decide::{Decision, PoolPause, blocked_reason, hold_reason, is_adopted, outdated_agent};
pub use disruption::Disruption;
pub use losses::loss_warnings;
pub use make::{decide_again, make};
pub use membership::{Membership, belongs, membership};
pub use options::{Options, Scope};
pub use pointers::{PointerMove, PointerState, PointerTime};
pub use present::{is_available, present_state};
pub use problem::{NearLabel, PointerChange, Problem};
pub use problem::{fix, loss_fix, rollback_fix};
pub use prune::{KEEP, Kept, KeptConfigMap, PruneOptions, PrunePlan, check_prune, prune};
pub use required_config_maps::{required_config_maps, wanted_config_maps};
pub use reset::{NodeSelection, NodeSelectionError, pools_of_nodes, select_nodes, unavailable_without_pool};
pub use reviewed::{PlanId, ReviewedPlan};
pub use sample::nodes_to_sample;
pub use selection::DoubtfulSelection;
pub use steps::{Action, Domain, Step, Wave, WaveDomain, WaveKind};
pub use target::{SizeGroup, SizeGroups, SizeTarget, Targets, pool_target};
pub use verdicts::CLUSTER_FINDINGS;
pub use why::{Owner, Why};

/// All changes of one sync. Its serialized form is its [reviewed part](ReviewedPlan), which a [saved plan](saved)
/// contains.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Hash of the reviewed part.
    pub id: PlanId,
    /// The fleet.
    pub fleet: FleetName,
    /// Desired commit; `None` for files without a commit.
    pub commit: Option<CommitId>,
    /// Namespace of the ConfigMaps.
    pub namespace: NamespaceName,
    /// ConfigMaps that the steps need, by name.
    pub config_maps: Vec<ConfigMapPlan>,
    /// Limit of unavailable nodes of all pools together. `None`: no limit beside those of the pools.
    pub max_unavailable: Option<NodeShare>,
    /// Pools by name.
    pub pools: Vec<PoolPlan>,
    /// Nodes in no pool, by name. The plan leaves them unchanged.
    pub unpooled: Vec<Unpooled>,
    /// Nodes that have the mark of a drain by this fleet and get no step, or have only its annotation, by name. The mark
    /// is removed.
    pub releases: Vec<Release>,
    /// Pools whose selector probably has a spelling error, by name.
    pub doubtful: Vec<DoubtfulSelection>,
    /// Names of the ConfigMaps of this fleet that `nodecfg prune` with default options deletes.
    pub prunable: Vec<String>,
    /// What other clients changed in pool pointers.
    pub pointer_changes: BTreeMap<PoolName, PointerChange>,
    /// Warnings about the pools' configurations for the kubelet versions of their nodes. Errors prevent a plan.
    pub findings: Vec<Finding>,
}

/// A ConfigMap that the plan assigns to nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapPlan {
    /// The ConfigMap.
    pub map: PoolConfigMap,
    /// Whether it must be created. Otherwise it exists with exactly this content.
    pub create: bool,
}

/// Plan for one pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolPlan {
    /// The pool.
    pub name: PoolName,
    /// Targets of the nodes.
    pub targets: Targets,
    /// Number of nodes in the pool, including contested nodes that are reported here.
    pub nodes: usize,
    /// Number of nodes that may be unavailable at once.
    pub budget: usize,
    /// Policy that determines the budget and the waves.
    pub policy: RolloutPolicy,
    /// Pause of the pool or of the whole fleet by an operator (`nodecfg pause`), if any. The policy may pause the pool as
    /// well.
    pub paused: Option<Pause>,
    /// Whether the request overrides this pause.
    pub despite_pause: bool,
    /// Changed fields per current configuration.
    pub changes: Vec<ChangeSet>,
    /// Effect of these changes on running pods.
    pub disruption: Disruption,
    /// Domains of the nodes in start order. Empty if the policy orders the nodes by name.
    pub domains: Vec<Domain>,
    /// Steps in start order.
    pub waves: Vec<Wave>,
    /// All other nodes of the pool by name, with the reason why each is left unchanged.
    pub left_alone: Vec<LeftAlone>,
    /// Move of the pool's pointer. `None` if it stays.
    pub pointer: Option<PointerMove>,
}

impl PoolPlan {
    /// Reports whether the pool is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.policy.is_paused() || (self.paused.is_some() && !self.despite_pause)
    }

    /// The largest number of nodes that may have or get the target in each step of the rollout, in rising order. Empty
    /// without steps.
    #[must_use]
    pub fn step_limits(&self) -> Vec<usize> {
        self.policy.steps.limits(self.nodes)
    }

    /// Number of nodes that have or get the configuration already, not by their own agents, which count for the [steps](Self::step_limits).
    #[must_use]
    pub fn begun(&self) -> usize {
        let awaited = self.steps().filter(|step| step.action != Action::Assign && !step.self_assigned).count();
        awaited + self.left_alone.iter().filter(|left| left.why.runs_target()).count()
    }

    /// Steps of all waves.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.waves.iter().flat_map(|wave| &wave.steps)
    }

    /// Writes that complete the NodeConfigs of nodes that are otherwise left unchanged.
    pub fn completions(&self) -> impl Iterator<Item = (&NodeName, &Assignment)> {
        self.left_alone.iter().filter_map(|left| Some((&left.node, left.completion.as_deref()?)))
    }

    /// Number of nodes that the plan drains.
    #[must_use]
    pub fn drains(&self) -> usize {
        self.steps().filter(|step| step.drain).count()
    }

    /// Number of nodes that the plan assigns.
    #[must_use]
    pub fn assignments(&self) -> usize {
        self.steps().filter(|step| step.action == Action::Assign).count()
    }
}

/// A node of a pool that the plan leaves unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    /// The node.
    pub node: NodeName,
    /// Whether the node counts against the budget, because it is not [available](is_available).
    pub unavailable: bool,
    /// The reason.
    pub why: Why,
    /// Write that adds what `spec` of the node's NodeConfig lacks, `contentHash` or `placement`, and that the node does
    /// already: no kubelet restarts.
    pub completion: Option<Box<Assignment>>,
}

impl LeftAlone {
    /// Leaves a node unchanged.
    #[must_use]
    pub fn new(node: &Node, why: Why) -> Self {
        Self { node: node.name.clone(), unavailable: !is_available(node), why, completion: None }
    }
}

/// A node that no pool selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unpooled {
    /// The node.
    pub node: NodeName,
    /// Pool of this fleet whose ConfigMap the node still points at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_on: Option<String>,
}

/// Removal of the mark of a drain that an earlier run did not finish, or of what another client left of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// The node.
    pub node: NodeName,
    /// Uid of the Node.
    #[serde(skip)]
    pub uid: String,
    /// Time of the mark.
    pub since: Timestamp,
    /// Whether the node has the taint. Without it, the mark keeps no pods away, and only annotations are removed.
    pub tainted: bool,
}

impl Plan {
    /// ConfigMaps to create.
    pub fn created(&self) -> impl Iterator<Item = &PoolConfigMap> {
        self.config_maps.iter().filter(|planned| planned.create).map(|planned| &planned.map)
    }

    /// Number of nodes of all pools that may be unavailable at once. `None`: no limit beside those of the pools.
    #[must_use]
    pub fn budget(&self) -> Option<usize> {
        Some(self.max_unavailable?.of(self.pools.iter().map(|pool| pool.nodes).sum()))
    }

    /// The same plan without what delays the nodes of a sync: the order of its pools, steps, and the time between two starts.
    #[must_use]
    pub fn without_delays(mut self) -> Self {
        for policy in self.pools.iter_mut().map(|pool| &mut pool.policy) {
            policy.after.clear();
            (policy.steps, policy.interval) = (Steps::default(), Duration::ZERO);
        }
        self
    }

    /// The same plan without the windows and exclusions of its pools: nodes start at any time.
    #[must_use]
    pub fn ignoring_windows(mut self) -> Self {
        self.pools.iter_mut().for_each(|pool| pool.policy.schedule = Schedule::default());
        self
    }

    /// Pointers that another client changed, as problems of a verification.
    #[must_use]
    pub fn changed_pointers(&self) -> Vec<Problem> {
        let problem = |(pool, change): (&PoolName, &PointerChange)| Problem::PointerChanged {
            namespace: self.namespace.clone(),
            pool: pool.clone(),
            change: change.clone(),
        };
        self.pointer_changes.iter().map(problem).collect()
    }

    /// Reports whether the plan changes the cluster.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.created().next().is_some()
            || !self.releases.is_empty()
            || self.pools.iter().any(|pool| pool.pointer.is_some())
            || self.pools.iter().any(|pool| pool.assignments() > 0 || pool.completions().next().is_some())
    }

    /// Reports whether the plan drains nodes, or may do so in a rollback. A mark that a node has does not count: a kubelet can
    /// register with one, and must not make a plan need more rights.
    #[must_use]
    pub fn drains_nodes(&self) -> bool {
        let drains = |step: &Step| step.drain || step.rollback_drain;
        self.pools.iter().flat_map(PoolPlan::steps).any(drains)
    }
}
