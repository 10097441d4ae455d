//! Model of a change under review: changed pools and fields, effects on running pods, and with a cluster the affected
//! nodes and their order.
//!
//! Created from two revisions ([`compare`]), from a [`Plan`](nodecfg_plan::Plan) ([`of_plan`]), or from
//! both ([`Review::with_plan`]). Its serialization is the JSON output; [`report`](crate::report) renders the other
//! formats. Must not access a cluster, a terminal or files.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::status::Paused;
use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use kubelet_config::risk::{Class, StateFile};
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{ConfigSource, Placement};
use nodecfg_fleet::snapshot::Signer;
use nodecfg_observed::Pause;
use nodecfg_plan::{ChangedField, DoubtfulSelection, PlanId, Sample, Unpooled, Why};
use nodecfg_rollout::PoolStart;

mod compare;
mod drains;
mod files;
mod groups;
mod planned;
mod refusal;
mod setting_changes;
mod sizes;
#[cfg(test)]
pub(crate) mod tests;

pub use compare::{Base, Head, compare};
pub use drains::{DrainedPods, PlannedDrain, UnreadPods};
pub use groups::{Group, groups};
pub use planned::{PlannedPointer, moves, of_plan};
pub use refusal::Refusal;
pub use sizes::{ReservedAmount, SizeReview};

/// A change under review.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// The base of the comparison.
    pub from: Side,
    /// The revision under review.
    pub to: Side,
    /// The fleet of the revision under review.
    pub fleet: FleetName,
    /// The pause of the whole fleet. Unset: it is not paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Changed settings of the fleet: its name, its namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// All pools of both sides, worst risk first, then by name.
    pub pools: Vec<PoolReview>,
    /// Whether nodes may move between pools. Set only without a cluster.
    pub nodes_may_move: bool,
    /// The errors of the base revision. The comparison covers its readable parts only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub base_findings: Vec<Finding>,
    /// Warnings about the revision under review, for the kubelets of the nodes or the declared versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The kubelet version assumed for pools without a declared version. Unset if all pools declare versions or a
    /// cluster reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed_version: Option<Minor>,
    /// The effect of a sync on the cluster. Unset without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterReview>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Side {
    /// A commit of the repository.
    Revision {
        /// The requested name: a branch, a tag, `HEAD^1`. Unset for the checked-out commit.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The commit.
        commit: CommitId,
        /// The signer of the commit, if signatures are verified.
        #[serde(skip_serializing_if = "Option::is_none")]
        signer: Option<Signer>,
        /// The number of files with uncommitted changes, which are not part of the checked-out commit. Unset without
        /// such files, and for a requested revision.
        #[serde(skip_serializing_if = "Option::is_none")]
        uncommitted: Option<usize>,
    },
    /// The files of the folder, committed or not.
    WorkingTree,
    /// The local configuration of nodes.
    Local,
    /// What the nodes of the cluster run.
    Cluster,
}

/// The change of one pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolReview {
    /// The pool.
    pub name: PoolName,
    /// The kind of change.
    pub change: PoolChange,
    /// The nodes of the pool and its rollout limits.
    pub scope: Scope,
    /// The effect on running pods.
    pub risk: PoolRisk,
    /// The ConfigMap of the pool.
    pub config_map: ConfigMapChange,
    /// How nodes must combine the configuration with their own. Unset if the pool requires nothing, for the local
    /// configuration and for a removed pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The changed fields, per configuration that nodes currently have.
    pub changes: Vec<Changes>,
    /// The reservations by size, if they follow from it: of the nodes, or of typical machines without a cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub sizes: Vec<SizeReview>,
    /// The formulas of the reservations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<String>,
    /// Other changed settings of the pool: node selection and rollout policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// The changed files of the pool, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// The nodes and their changes. Unset without a cluster, and for a removed pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

/// The nodes of a pool and its rollout limits, in the revision under review. For a removed pool, those of the base.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// The label selector in kubectl's syntax. `<everything>` for all nodes. Unset if nodes are selected by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// How many nodes may be unavailable at once: a number, or a percentage of the pool.
    pub max_unavailable: String,
    /// The canary nodes and their soak time. Unset without canaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// Kind of change of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PoolChange {
    /// The pool is new.
    Added,
    /// The pool is removed. Its nodes keep their configuration, unless another pool selects them.
    Removed,
    /// The configuration changes.
    Changed,
    /// The nodes return to their local configuration.
    ToLocal,
    /// The nodes leave their local configuration.
    FromLocal,
    /// Only the selection of nodes changes (`nodeSelector`, `priority`).
    Selection,
    /// Only the rollout or validation settings change.
    PolicyOnly,
    /// The pool is unreadable in the base revision, which is invalid.
    Unknown,
    /// The revisions are equal, but nodes of the cluster do not run the configuration.
    Drift,
    /// No change.
    Unchanged,
}

/// The effect of a pool's changes on running pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRisk {
    /// The worst risk of a changed field. Unset if no risk is known.
    pub worst: Option<Class>,
    /// State files that must be removed before the kubelet starts.
    pub state_files: Vec<StateFile>,
    /// Whether the risk is unknown for some nodes, because their current or future configuration is unknown.
    pub unknown: bool,
    /// The number of nodes with unknown risk. Unset without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_nodes: Option<usize>,
    /// Set if a sync refuses the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// The number of nodes whose kubelet sets running containers with probes to not ready when it restarts: before
    /// 1.35, of unknown version, or with the gate `ChangeContainerStatusOnKubeletRestart`. Unset without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready_nodes: Option<usize>,
}

/// The ConfigMap names of a pool. A name contains a hash of the content, so it changes with the content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapChange {
    /// The name in the base revision. Unset for a comparison with a cluster, a new pool, and the local configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The name in the revision under review. Unset for the local configuration and a removed pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether a sync creates the ConfigMap. Unset if not needed, and without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
}

/// The changed fields for nodes with the same current configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// The current configuration.
    pub from: Origin,
    /// The number of nodes. Unset without a cluster. A node between two configurations counts for both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Whether agents merge the configuration over each node's own. A field that one side omits has the node's value there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
    /// The placement of the current configuration, if it becomes another one. Fields that no configuration names may change,
    /// too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_placement: Option<Placement>,
    /// Whether the content of the current configuration is known, if only of sampled nodes. Otherwise all fields of the
    /// new one are listed as set.
    pub from_known: bool,
    /// What kubelets answered, if the content of the current configuration is unknown and some were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// The changed fields, by path.
    pub fields: Vec<ChangedField>,
}

/// The current configuration of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[schemars(rename = "Start")]
pub enum Origin {
    /// The configuration in the base revision.
    Base,
    /// None: the pool is new.
    Nothing,
    /// Unknown: the base revision of the pool is invalid.
    Unreadable,
    /// The local configuration, which the repository does not have.
    Local,
    /// A ConfigMap of the cluster.
    ConfigMap {
        /// The ConfigMap.
        source: ConfigSource,
    },
    /// ConfigMaps of the cluster for several sizes of nodes.
    BySize,
}

/// A setting of a pool or a fleet besides the kubelet configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// The path in `pool.yaml` or `nodecfg.yaml`.
    pub path: &'static str,
    /// The old value or default. Unset without both.
    pub old: Option<String>,
    /// The new value or default.
    pub new: Option<String>,
    /// The meaning in a few words.
    pub meaning: &'static str,
}

/// A file that differs between two revisions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// The path from the root of the configuration.
    pub path: String,
    /// The kind of change.
    pub change: FileChangeKind,
}

/// Kind of change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileChangeKind {
    /// Added.
    Added,
    /// Modified.
    Modified,
    /// Reformatted: comments, order or quotes. Has no effect on nodes.
    Formatting,
    /// Removed.
    Removed,
}

/// The steps of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedSteps {
    /// The steps in the notation of `pool.yaml`: `1, 5%, 25%`.
    pub shares: String,
    /// The largest number of nodes that have or get the configuration in each step that earlier runs have not passed.
    pub limits: Vec<usize>,
    /// How long each step soaks before the next one, or before all other nodes, in seconds, rounded up.
    pub soak_seconds: u64,
}

/// The nodes of a pool, and the effect of a sync on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The number of nodes in the pool.
    pub nodes: usize,
    /// How many nodes may be unavailable at once.
    pub budget: usize,
    /// Whether the pool is paused, by its policy or by an order.
    pub paused: bool,
    /// The pause by `nodecfg pause`, with its author, time and reason. Unset without a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Whether the pool changes despite the pause.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub despite_pause: bool,
    /// The number of nodes to assign.
    pub assign: usize,
    /// Whether a sync starts nodes of the pool. Unset if it does, or has none to start.
    #[serde(skip_serializing_if = "is_start")]
    pub start: PoolStart,
    /// The steps before all other nodes. Unset without steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<PlannedSteps>,
    /// The least time between the starts of two nodes, in seconds, rounded up. Unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u64>,
    /// The pools that must have converged before a node of this pool starts.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub after: BTreeSet<PoolName>,
    /// The nodes that a sync drains. Unset if it drains none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<PlannedDrain>,
    /// The nodes to change or await, in start order.
    pub waves: Vec<nodecfg_plan::Wave>,
    /// The unchanged nodes with the reason.
    pub left_alone: Vec<LeftAlone>,
}

fn is_start(start: &PoolStart) -> bool {
    *start == PoolStart::Starts
}

/// A node that a sync does not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftAlone {
    /// The node.
    pub node: NodeName,
    /// The reason.
    pub why: Why,
    /// The reason as text, with a fix if one exists.
    pub reason: String,
    /// Whether the node cannot reach its target. Needs attention.
    pub blocked: bool,
}

/// The effect of a sync on a cluster outside of pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReview {
    /// The ID of the plan.
    pub plan: PlanId,
    /// Whether a sync would change anything.
    pub changed: bool,
    /// The namespace of the ConfigMaps.
    pub namespace: NamespaceName,
    /// The number of nodes and ConfigMaps.
    pub counts: nodecfg_plan::Counts,
    /// How many nodes of all pools may be unavailable at once. Unset: as many as the pools allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<usize>,
    /// What a sync does with the nodes to assign.
    pub outlook: Outlook,
    /// Nodes that an earlier run marked for a drain and did not release, by name. A sync releases them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<nodecfg_plan::Release>,
    /// Pool pointers that a sync moves, by pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pointers: Vec<PlannedPointer>,
    /// Nodes that move to another pool, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    /// Nodes without a pool, by name. A sync does not change them.
    pub unpooled: Vec<Unpooled>,
    /// Pools whose selector probably has a spelling error, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<DoubtfulSelection>,
    /// ConfigMaps of this fleet that `nodecfg prune` would delete with default options, by name.
    pub prunable: Vec<String>,
}

/// What a sync does with the nodes to assign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Whether a sync refuses the plan and changes nothing, because a pool does not allow the disruption.
    pub refused: bool,
    /// The number of nodes that a sync assigns.
    pub assign: usize,
    /// The number of nodes that it does not assign, because their pools stop at once.
    pub stopped: usize,
    /// The number of nodes that it does not assign until unavailable nodes of their pools recover.
    pub waiting: usize,
    /// The number of nodes that it does not assign now, because their pools are held.
    pub held: usize,
}

/// A node that moves to another pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The node.
    pub node: NodeName,
    /// The pool in the base revision.
    pub from: Option<PoolName>,
    /// The pool in the revision under review.
    pub to: Option<PoolName>,
}

/// Numbers of pools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All pools of both sides.
    pub pools: usize,
    /// Changed pools.
    pub changed: usize,
    /// New pools, included in `changed`.
    pub added: usize,
    /// Removed pools, included in `changed`.
    pub removed: usize,
    /// Pools whose nodes keep their configuration, included in `changed`.
    pub settings_only: usize,
    /// Pools that a sync refuses.
    pub refused: usize,
}

impl PoolReview {
    /// Reports whether anything changes for the pool.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.change != PoolChange::Unchanged
    }

    /// Reports whether the configuration of nodes may change. Also true for a removed pool, whose nodes may move to
    /// another pool.
    #[must_use]
    pub fn changes_nodes(&self) -> bool {
        !matches!(self.change, PoolChange::Unchanged | PoolChange::PolicyOnly | PoolChange::Selection)
            || self.rollout.as_ref().is_some_and(|rollout| rollout.assign > 0)
    }

    /// The sort order by risk; higher is worse. Unknown risks rank between restart and drain, changes without risk
    /// just above no change.
    #[must_use]
    pub fn rank(&self) -> u8 {
        let class = match self.risk.worst {
            Some(Class::Never) => 7,
            Some(Class::Replace) => 6,
            Some(Class::Drain) => 5,
            _ if self.risk.unknown => 4,
            Some(Class::Restart) => 3,
            Some(Class::None) => 2,
            None => 0,
        };
        if class == 0 && self.is_changed() { 1 } else { class }
    }
}

impl Review {
    /// Reports whether anything changes: between the revisions, or in the cluster.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.settings.is_empty()
            || self.pools.iter().any(PoolReview::is_changed)
            || self.cluster.as_ref().is_some_and(|cluster| cluster.changed)
    }

    /// The worst known risk of all pools.
    #[must_use]
    pub fn worst(&self) -> Option<Class> {
        self.pools.iter().filter_map(|pool| pool.risk.worst).max()
    }

    /// The numbers of pools.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let number = |is: &dyn Fn(&PoolReview) -> bool| self.pools.iter().filter(|pool| is(pool)).count();
        Counts {
            pools: self.pools.len(),
            changed: number(&PoolReview::is_changed),
            added: number(&|pool| pool.change == PoolChange::Added),
            removed: number(&|pool| pool.change == PoolChange::Removed),
            settings_only: number(&|pool| pool.is_changed() && !pool.changes_nodes()),
            refused: number(&|pool| pool.risk.refused.is_some()),
        }
    }

    /// The changed files of all pools, by path.
    #[must_use]
    pub fn files(&self) -> BTreeMap<&str, FileChangeKind> {
        self.pools.iter().flat_map(|pool| &pool.files).map(|file| (file.path.as_str(), file.change)).collect()
    }

    fn sort(&mut self) {
        self.pools.sort_by(|a, b| b.rank().cmp(&a.rank()).then_with(|| a.name.cmp(&b.name)));
    }
}
