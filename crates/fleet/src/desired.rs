//! Desired state of one revision: pools, their node selectors, rollout policies and configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;

use crate::drain::{DrainMode, DrainPolicy};
use crate::fields::map;
use crate::gates::Gate;
use crate::schedule::Schedule;
use crate::sizes::Sizes;
use kubelet_config::Minor;
use kubelet_config::capacity::Capacity;
use kubelet_config::document::Document;
use kubelet_config::finding::Place;
use kubelet_config::risk::Class;
use kubelet_config::values::duration;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY, Placement};

/// Desired state of one revision.
#[derive(Debug, Clone)]
pub struct Desired {
    /// Name of the fleet.
    pub fleet: FleetName,
    /// Namespace of the ConfigMaps; `None`: the default of the binding.
    pub namespace: Option<NamespaceName>,
    /// Commit of the files; `None` for files without a commit.
    pub commit: Option<CommitId>,
    /// Number of changed files that the commit lacks: those that git reports as uncommitted beside the checked-out
    /// commit.
    pub uncommitted: usize,
    /// Limit of unavailable nodes of all pools together. `None`: no limit beside those of the pools.
    pub max_unavailable: Option<NodeShare>,
    /// Whether the configuration of each pool is published for new nodes (`spec.poolPointers`).
    pub pool_pointers: bool,
    /// Whether every pool is paused (`spec.paused`).
    pub paused: bool,
    /// Pools by name.
    pub pools: BTreeMap<PoolName, Pool>,
}

impl Desired {
    /// Reports whether labels alone decide which nodes a pool selects.
    #[must_use]
    pub fn selects_by_labels(&self) -> bool {
        self.pools.values().all(|pool| pool.named.is_none())
    }
}

/// Desired state of one pool.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Name of the pool.
    pub name: PoolName,
    /// Selector of its nodes.
    pub selector: LabelSelector,
    /// Nodes by name, regardless of labels. Only a reset without a repository sets this field.
    pub named: Option<BTreeSet<NodeName>>,
    /// Priority: a node belongs to the selecting pool of the highest priority.
    pub priority: i64,
    /// Rollout policy.
    pub policy: RolloutPolicy,
    /// What its nodes should run.
    pub targets: PoolTargets,
    /// How its nodes combine the target with their own configuration (`spec.kubelet.placement`). `None`: the default of
    /// what carries the assignments.
    pub placement: Option<Placement>,
    /// The own configuration of its nodes, as the repository has it (`spec.kubelet.own`).
    pub own: Option<OwnConfig>,
    /// Whether the pool must have nodes (`spec.requireNodes`). `None`: a plan warns about a pool without nodes.
    pub require_nodes: Option<bool>,
    /// Declared kubelet versions; empty if undeclared.
    pub kubelets: Vec<Minor>,
    /// Declaration of the pool: `pool.yaml`, or `kubelet.yaml` without one.
    pub place: Place,
    /// Files of the pool, by path from the root: fleet and pool files, base, own configuration and patches.
    pub files: BTreeSet<String>,
}

impl Pool {
    /// Reports whether the pool selects this node with these labels.
    #[must_use]
    pub fn selects(&self, node: &NodeName, labels: &BTreeMap<String, String>) -> bool {
        self.named.as_ref().map_or_else(|| self.selector.matches(labels), |named| named.contains(node))
    }

    /// The configuration of the nodes, or that of a typical machine if it follows from the size of a node. `None`: the nodes
    /// run their local configuration.
    #[must_use]
    pub fn rendered(&self) -> Option<&Rendered> {
        self.targets.typical().rendered()
    }

    /// The pool as a node of this capacity has it. `None` if its target depends on a capacity that is unknown.
    #[must_use]
    pub fn for_node(&self, capacity: Capacity) -> Option<SizedPool<'_>> {
        let (size, target) = match &self.targets {
            PoolTargets::Same(target) => (None, Arc::clone(target)),
            PoolTargets::BySize(sizes) => {
                let (size, target) = sizes.of(capacity)?;
                (Some(size), target)
            }
        };
        Some(SizedPool { pool: self, size, target })
    }
}

/// A pool as its nodes of one size have it.
#[derive(Debug, Clone)]
pub struct SizedPool<'a> {
    pool: &'a Pool,
    /// The size. `None`: all nodes of the pool have the same target.
    pub size: Option<Capacity>,
    /// What the nodes should run.
    pub target: Arc<PoolTarget>,
}

impl Deref for SizedPool<'_> {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        self.pool
    }
}

/// The own configuration of nodes, as the repository has it.
#[derive(Debug, Clone)]
pub struct OwnConfig {
    /// Path from the root.
    pub path: String,
    /// The document.
    pub document: Arc<Document>,
}

/// What the nodes of a pool should run.
#[derive(Debug, Clone)]
pub enum PoolTargets {
    /// All nodes the same.
    Same(Arc<PoolTarget>),
    /// What follows from the size of each node (`spec.kubelet.reserve`).
    BySize(Arc<Sizes>),
}

impl From<Sizes> for PoolTargets {
    /// Formulas of fixed amounts give all nodes the same.
    fn from(sizes: Sizes) -> Self {
        match sizes.steps() == Capacity::default() {
            true => Self::Same(Arc::clone(sizes.reference())),
            false => Self::BySize(Arc::new(sizes)),
        }
    }
}

impl PoolTargets {
    /// The only target, or that of a typical machine.
    #[must_use]
    pub fn typical(&self) -> &Arc<PoolTarget> {
        match self {
            Self::Same(target) => target,
            Self::BySize(sizes) => sizes.reference(),
        }
    }

    /// The sizes, if the target follows from the size of each node.
    #[must_use]
    pub fn sizes(&self) -> Option<&Sizes> {
        match self {
            Self::Same(_) => None,
            Self::BySize(sizes) => Some(sizes),
        }
    }

    /// Reports whether nodes run the same configurations by both.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Same(target), Self::Same(other)) => target.hash() == other.hash(),
            (Self::BySize(sizes), Self::BySize(other)) => sizes.is_same(other),
            _ => false,
        }
    }

    /// The same configurations in a fleet of another name.
    #[must_use]
    pub fn in_fleet(&self, fleet: &FleetName, pool: &PoolName) -> Self {
        match self {
            Self::Same(target) => target.in_fleet(fleet, pool).into(),
            Self::BySize(sizes) => Self::BySize(Arc::new(sizes.in_fleet(fleet))),
        }
    }
}

impl From<PoolTarget> for PoolTargets {
    fn from(target: PoolTarget) -> Self {
        Self::Same(Arc::new(target))
    }
}

/// What a node should run.
#[derive(Debug, Clone)]
pub enum PoolTarget {
    /// The local configuration of each node (`spec.kubelet.local: true`).
    Local,
    /// A rendered configuration.
    Config(Box<Rendered>),
}

impl PoolTarget {
    /// The same configuration in a fleet of another name.
    #[must_use]
    pub(crate) fn in_fleet(&self, fleet: &FleetName, pool: &PoolName) -> Self {
        match self {
            Self::Local => Self::Local,
            Self::Config(rendered) => {
                let config_map = rendered.hash.config_map(fleet, pool);
                Self::Config(Box::new(Rendered { config_map, ..Rendered::clone(rendered) }))
            }
        }
    }

    /// Hash of the rendered configuration. `None` for the local one.
    #[must_use]
    pub fn hash(&self) -> Option<ContentHash> {
        self.rendered().map(|rendered| rendered.hash)
    }

    /// The rendered configuration, if it is one.
    #[must_use]
    pub fn rendered(&self) -> Option<&Rendered> {
        match self {
            Self::Local => None,
            Self::Config(rendered) => Some(rendered),
        }
    }
}

/// A complete KubeletConfiguration, rendered from base, own file and patches.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The merged tree. Every value refers to the file and position that set it.
    pub document: Document,
    /// Canonical YAML, which is the content of the ConfigMap.
    pub canonical: String,
    /// Hash of the content.
    pub hash: ContentHash,
    /// Name of the ConfigMap: `<fleet>-<pool>-<hash>`.
    pub config_map: String,
    /// Path of the pool's `kubelet.yaml` from the root of the snapshot, or of its `pool.yaml` if it has no own file.
    pub path: String,
}

impl Rendered {
    /// Source that makes a node run this configuration from `namespace`.
    #[must_use]
    pub fn source(&self, namespace: &NamespaceName) -> ConfigSource {
        ConfigSource::config_map(namespace.as_str(), &self.config_map, KUBELET_KEY)
    }
}

/// Rollout policy of a pool, with the defaults of the fleet applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPolicy {
    /// Limit of unavailable nodes. Default 10%.
    pub max_unavailable: NodeShare,
    /// Canaries, which start before all other nodes. `None`: one of each size, if the pool has sizes.
    pub canary: Option<Canary>,
    /// Number of failed nodes that the rollout tolerates. Default 0: the first failure stops it.
    pub max_failures: u32,
    /// Time limit per node from assignment to convergence. Default 5 minutes.
    pub convergence_timeout: Duration,
    /// Whether the pool is paused: planned and reported, but not changed.
    pub paused: bool,
    /// Whether its fleet is paused (`spec.paused` of the Fleet), and with it the pool.
    pub fleet_paused: bool,
    /// Highest allowed risk class for running pods. Default: a restart of the kubelet.
    pub allow_disruption: Class,
    /// Fields of the table of removals that nodes may lose (`spec.kubelet.acceptRemoved`). Default: none.
    pub accept_removed: BTreeSet<String>,
    /// Fields that nodes may run with another value than the configuration has (`spec.kubelet.acceptOverridden`).
    /// Default: none.
    pub accept_overridden: BTreeSet<String>,
    /// Drain of nodes for changes that need it.
    pub drain: DrainPolicy,
    /// When nodes may start. Default: always.
    pub schedule: Schedule,
    /// Order of the nodes by a label. `None`: they are one domain.
    pub order: Option<NodeOrder>,
    /// Order of the nodes within a domain.
    pub start_order: StartOrder,
    /// Steps. Default: none.
    pub steps: Steps,
    /// Least time between the starts of two nodes. Default: none.
    pub interval: Duration,
    /// Pools that must have converged before a node of this pool starts.
    pub after: BTreeSet<PoolName>,
    /// Conditions that must hold before the next step, by name.
    pub gates: Vec<Gate>,
    /// Whether all nodes that a run assigned are rolled back if a gate stops it. Default: they stay.
    pub rollback_on_gate_failure: bool,
    /// Whether a node converges only when its pods are back. Default: yes.
    pub check_pods: bool,
}

impl RolloutPolicy {
    /// Number of canaries; 0 without any.
    #[must_use]
    pub fn canaries(&self) -> usize {
        self.canary.map_or(0, |canary| usize::try_from(canary.nodes).unwrap_or(usize::MAX))
    }

    /// Reports whether the repository pauses the pool, alone or with its fleet.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused || self.fleet_paused
    }

    /// Soak time of the canaries; zero without any.
    #[must_use]
    pub fn canary_soak(&self) -> Duration {
        self.canary.filter(|canary| canary.nodes > 0).map_or(Duration::ZERO, |canary| canary.soak)
    }

    /// The longest soak time within a rollout.
    #[must_use]
    pub fn longest_soak(&self) -> Duration {
        let of_order = self.order.as_ref().map_or(Duration::ZERO, |order| order.soak);
        self.canary_soak().max(of_order).max(self.steps.soak)
    }

    /// Reports whether nodes are drained for changes that need it.
    #[must_use]
    pub fn drains_nodes(&self) -> bool {
        self.allow_disruption >= Class::Drain && self.drain.mode == DrainMode::Evict
    }

    /// The longest time from the start of a node to its end, without a rollback.
    #[must_use]
    pub fn node_time(&self, is_drained: bool) -> Duration {
        self.convergence_timeout.saturating_add(self.time_around(is_drained, self.check_pods))
    }

    /// The longest time that the drain of a node, or the check of its pods, adds to its convergence.
    #[must_use]
    pub fn time_around(&self, is_drained: bool, checks_pods: bool) -> Duration {
        match is_drained {
            true => self.drain.time(),
            false if checks_pods => self.drain.settle,
            false => Duration::ZERO,
        }
    }

    /// Highest disruption class that a node of the pool is prepared for when it is assigned.
    #[must_use]
    pub fn max_disruption(&self, is_drained: bool) -> Class {
        if self.drains_nodes() && !is_drained { Class::Restart } else { self.allow_disruption }
    }
}

/// A number of nodes, or a percentage of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeShare {
    /// Number of nodes, at least 1.
    Count(u32),
    /// Percentage of the pool's nodes, 1 to 100, rounded down to at least one node.
    Percent(u8),
}

impl NodeShare {
    /// Number of nodes of a pool with `nodes` nodes, at least 1.
    #[must_use]
    pub fn of(self, nodes: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX).max(1),
            Self::Percent(percent) => (nodes.saturating_mul(usize::from(percent)) / 100).max(1),
        }
    }
}

impl fmt::Display for NodeShare {
    /// Notation of `pool.yaml`: `3`, `25%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Steps of a rollout: shares of a pool. The nodes that have or get the target may not be more than a step before it has
/// soaked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// The shares, in order. Without any, the rollout has no steps.
    pub shares: Vec<NodeShare>,
    /// Time from the end of the last node of a step to the start of the next node.
    pub soak: Duration,
}

impl Steps {
    /// The largest number of nodes of each step, in rising order, in a pool with `nodes` nodes. Without steps that change
    /// nothing: those that are no larger than the one before, and that of all nodes.
    #[must_use]
    pub fn limits(&self, nodes: usize) -> Vec<usize> {
        let mut limits: Vec<usize> = Vec::new();
        for limit in self.shares.iter().map(|share| share.of(nodes)).filter(|limit| *limit < nodes) {
            if limits.last().is_none_or(|last| *last < limit) {
                limits.push(limit);
            }
        }
        limits
    }
}

impl fmt::Display for Steps {
    /// Notation of `pool.yaml`, with the soak: `1, 5%, soak 10m`. Empty without steps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shares.iter().try_for_each(|share| write!(f, "{share}, "))?;
        if self.shares.is_empty() { Ok(()) } else { write!(f, "soak {}", duration::format(self.soak)) }
    }
}

/// Order in which the nodes of a pool start, or those of a domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub enum StartOrder {
    /// By name.
    #[default]
    Name,
    /// By the age of the Node, the newest first.
    Newest,
    /// By the age of the Node, the oldest first.
    Oldest,
}

impl StartOrder {
    /// All orders.
    pub const ALL: [Self; 3] = [Self::Name, Self::Newest, Self::Oldest];

    /// Notation of `pool.yaml`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Newest => "newest",
            Self::Oldest => "oldest",
        }
    }
}

/// Order of a pool's nodes: one domain after the other. A domain is the nodes with the same value of the label, as in
/// the topology spread constraints of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOrder {
    /// Key of the label.
    pub by: String,
    /// Time from the end of the last node of a domain to the start of the next domain.
    pub soak: Duration,
}

impl fmt::Display for NodeOrder {
    /// Notation of `pool.yaml`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {}, soak {}", self.by, duration::format(self.soak))
    }
}

map! {
    /// Canaries of a pool, and their soak time.
    #[derive(Copy, PartialEq, Eq)]
    #[name("CanarySpec")]
    pub struct Canary {
        /// Number of canaries. Default {default}; 0 disables the canaries of the fleet, and those of sizes.
        #[default(1)]
        "nodes" => nodes: u32,
        /// Time that canaries must stay converged before the next node starts. Default {default}.
        #[default(Duration::ZERO)]
        "soak" => soak: Duration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_rise_and_end_below_the_pool() {
        let steps = |shares: &[NodeShare], nodes| Steps { shares: shares.to_vec(), soak: Duration::ZERO }.limits(nodes);
        let usual = [NodeShare::Count(1), NodeShare::Percent(5), NodeShare::Percent(25)];
        assert_eq!(steps(&usual, 1000), [1, 50, 250]);
        assert_eq!(steps(&usual, 20), [1, 5], "5% is the step before");
        assert_eq!(steps(&usual, 2), [1]);
        assert_eq!(steps(&usual, 1), [0; 0]);
        assert_eq!(steps(&usual, 0), [0; 0]);
        assert_eq!(steps(&[NodeShare::Count(10), NodeShare::Percent(5), NodeShare::Percent(100)], 100), [10]);
    }

    #[test]
    fn rounds_budget_down_to_at_least_one() {
        assert_eq!(NodeShare::Percent(25).of(7), 1);
        assert_eq!(NodeShare::Percent(25).of(8), 2);
        assert_eq!(NodeShare::Percent(10).of(0), 1);
        assert_eq!(NodeShare::Percent(100).of(15_000), 15_000);
        assert_eq!(NodeShare::Count(0).of(5), 1);
        assert_eq!(NodeShare::Count(9).of(5), 9);
    }
}
