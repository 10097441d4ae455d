//! What a reviewer needs to know of a change: which pools it touches, field by field, what that does to pods that run, and,
//! when there is a cluster, on which nodes and in which order.
//!
//! One model for everybody who shows a change: two revisions of a repository compared ([`compare`]), a [`Plan`](nodecfg_planning::plan::Plan) for a
//! cluster ([`of_plan`]), or both ([`Review::with_plan`]). It is also, as it stands, the document that programs read; how it
//! looks to people is [`report`](crate::report)'s business. Pure: knows no client, no terminal and no file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use kubelet_config::risk::{Class, StateFile};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::observed::Pause;
use nodecfg_planning::plan::{self, ChangedField, PlanId, Unpooled, Why};
use nodecfg_planning::snapshot::Signer;

mod compare;
mod files;
mod planned;
mod setting_changes;
#[cfg(test)]
pub(crate) mod tests;

pub use compare::{Base, Head, compare};
pub use planned::{moves, of_plan};

/// A change, as it is reviewed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// What it is compared with.
    pub from: Side,
    /// What is wanted.
    pub to: Side,
    /// The fleet that is wanted.
    pub fleet: FleetName,
    /// What changes for the fleet as a whole: its name, its namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// Every pool of either side, worst risk first, then by name.
    pub pools: Vec<PoolReview>,
    /// Whether nodes may come to another pool than before, which takes a cluster to know.
    pub nodes_may_move: bool,
    /// What makes the base revision invalid, where it is; it is compared as far as it can be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub base_findings: Vec<Finding>,
    /// Warnings about what is wanted, for the kubelets that the nodes have or that the pools declare.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The version of kubelets that pools were checked for that do not say which they have; unset where all say it, or a
    /// cluster did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed_version: Option<Minor>,
    /// What a sync would do to a cluster; unset when none was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterReview>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Side {
    /// A commit of the repository.
    Revision {
        /// As it was asked for: a branch, a tag, `HEAD^1`. Unset for the commit that is checked out.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The commit.
        commit: CommitId,
        /// Who signed it, where that was asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        signer: Option<Signer>,
    },
    /// The files as they lie in the folder.
    WorkingTree,
    /// The configuration that nodes were provisioned with, whatever a repository says.
    Local,
    /// What the nodes of the cluster run.
    Cluster,
}

/// What happens to one pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolReview {
    /// The pool.
    pub name: PoolName,
    /// What kind of change it is.
    pub change: PoolChange,
    /// Which nodes it is about, and how they are changed.
    pub scope: Scope,
    /// What it does to pods that run.
    pub risk: PoolRisk,
    /// The ConfigMap of its nodes.
    pub config_map: ConfigMapChange,
    /// Which fields change, for each configuration that nodes leave.
    pub changes: Vec<Changes>,
    /// What else changes: which nodes belong to it and how it is rolled out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// The files that it is made from and that differ between two revisions, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// Its nodes and what is done to them; unset without a cluster, and for a pool that is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

/// Which nodes a pool has and how they are changed, as the revision under review says; for a pool that is gone, as the base
/// said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// The labels of its nodes, as kubectl's `--selector` takes them; `<everything>` for all nodes. Unset where they are
    /// known by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// How many nodes may be unavailable at once: a number, or a percentage of the pool.
    pub max_unavailable: String,
    /// The nodes that go first, and how long they are watched; unset without canaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// What kind of change it is for a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PoolChange {
    /// It is new.
    Added,
    /// It is gone. Its nodes keep what they have, unless another pool selects them.
    Removed,
    /// Its nodes shall run something else.
    Changed,
    /// Its nodes shall run what they were provisioned with again.
    ToLocal,
    /// Its nodes shall no longer run what they were provisioned with.
    FromLocal,
    /// Its nodes run the same; which nodes belong to it changes (`nodeSelector`, `priority`).
    Selection,
    /// Its nodes run the same; how a change would be rolled out or checked differs.
    PolicyOnly,
    /// It is there, and what it was cannot be read: the base revision is invalid.
    Unknown,
    /// Nothing between the revisions, but nodes of the cluster do not run it.
    Drift,
    /// Nothing.
    Unchanged,
}

/// What the changes of a pool do to pods that run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRisk {
    /// The worst class of a field that changes; unset when no such change is known.
    pub worst: Option<Class>,
    /// State files that must be gone when the kubelet starts again.
    pub state_files: Vec<StateFile>,
    /// Whether there are nodes whose present or future configuration is not known, and so neither is their risk.
    pub unknown: bool,
    /// How many nodes these are; unset without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_nodes: Option<usize>,
    /// Set when a sync refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
}

/// Why a sync refuses the changes of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The worst class that the pool allows (`spec.rollout.allowDisruption`).
    pub allowed: Class,
    /// The way out.
    pub help: String,
}

/// The names of a pool's ConfigMap. Its name holds a hash of its content: another name is another content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapChange {
    /// In the base revision; unset where there is none: a comparison with a cluster, a new pool, the local configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// As wanted; unset for the local configuration and for a pool that is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether a sync creates it; unset when it is not needed, or without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
}

/// The fields that change for nodes that leave one configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// What they leave.
    pub from: Start,
    /// How many nodes; unset without a cluster. One that is on its way from one configuration to another counts for both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Whether its content is known. If not, every field of the new configuration is listed as set.
    pub from_known: bool,
    /// Field by field, by path.
    pub fields: Vec<ChangedField>,
}

impl Changes {
    /// Whether both sides are known, so that the risk is.
    #[must_use]
    pub fn has_risk(&self) -> bool {
        self.from_known && self.fields.iter().all(|field| field.risk.is_some())
    }
}

/// A configuration that nodes leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Start {
    /// What the base revision gives them.
    Base,
    /// The base revision has nothing for them: the pool is new.
    Nothing,
    /// The pool cannot be read in the base revision, which is invalid.
    Unreadable,
    /// What they were provisioned with, which nodecfg does not know.
    Local,
    /// A ConfigMap of the cluster.
    ConfigMap {
        /// Which.
        source: ConfigSource,
    },
}

/// Something that a repository says of a pool or a fleet beside the configuration of its kubelets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// Its path in `pool.yaml` or `nodecfg.yaml`.
    pub path: &'static str,
    /// What it was, defaults applied; unset when nothing is said and there is no default.
    pub old: Option<String>,
    /// What it becomes.
    pub new: Option<String>,
    /// What it is, in a few words.
    pub meaning: &'static str,
}

/// A file that differs between two revisions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// Its path from the root of the configuration.
    pub path: String,
    /// What happened to it.
    pub change: FileChangeKind,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileChangeKind {
    /// It is new.
    Added,
    /// It says something else.
    Modified,
    /// It says the same in another way: comments, order, quotes. This has no effect on any node.
    Formatting,
    /// It is gone.
    Removed,
}

/// The nodes of a pool, and what a sync would do to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How many nodes belong to the pool.
    pub nodes: usize,
    /// How many of them may be unavailable at once.
    pub budget: usize,
    /// Whether the pool is paused, by its policy or by an order.
    pub paused: bool,
    /// Who has paused it from a command line, since when and why; unset when nobody has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Whether it is changed despite that order.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub despite_pause: bool,
    /// How many are pointed at the new configuration.
    pub assign: usize,
    /// The nodes that do or shall change, in the order in which they start.
    pub waves: Vec<plan::Wave>,
    /// Every other node, and why it is left alone.
    pub left_alone: Vec<LeftAlone>,
}

/// A node that is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftAlone {
    /// The node.
    pub node: NodeName,
    /// Why.
    pub why: Why,
    /// Why, in words, with the way out where there is one.
    pub reason: String,
    /// Whether it cannot be brought to its target, and somebody should know.
    pub blocked: bool,
}

/// What a sync would do to a cluster beside its pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReview {
    /// The plan that this tells.
    pub plan: PlanId,
    /// Whether a sync would change anything.
    pub changed: bool,
    /// Where the ConfigMaps are.
    pub namespace: NamespaceName,
    /// Nodes and ConfigMaps in numbers.
    pub counts: plan::Counts,
    /// Nodes that come to another pool than in the base revision, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    /// Nodes that no pool selects, by name. They are left as they are.
    pub unpooled: Vec<Unpooled>,
    /// ConfigMaps of this fleet that `nodecfg prune` deletes unless it is told otherwise, by name.
    pub prunable: Vec<String>,
}

/// A node that comes to another pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The node.
    pub node: NodeName,
    /// The pool that it was in.
    pub from: Option<PoolName>,
    /// The pool that it is in.
    pub to: Option<PoolName>,
}

/// The pools in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Of either side.
    pub pools: usize,
    /// Those that change in any way.
    pub changed: usize,
    /// Of these, those that are new.
    pub added: usize,
    /// Of these, those that are gone.
    pub removed: usize,
    /// Of these, those whose nodes go on with the same configuration.
    pub settings_only: usize,
    /// Those that a sync refuses.
    pub refused: usize,
}

impl PoolReview {
    /// Whether anything changes for the pool.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.change != PoolChange::Unchanged
    }

    /// Whether its nodes are to run something else.
    #[must_use]
    pub fn changes_nodes(&self) -> bool {
        !matches!(self.change, PoolChange::Unchanged | PoolChange::PolicyOnly | PoolChange::Selection)
            || self.rollout.as_ref().is_some_and(|rollout| rollout.assign > 0)
    }

    /// How bad it is, for sorting: what is not known ranks between what running pods survive and what they do not.
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
    /// Whether anything changes: in the repository, between two revisions of it; and in the cluster, when one was asked.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        !self.settings.is_empty()
            || self.pools.iter().any(PoolReview::is_changed)
            || self.cluster.as_ref().is_some_and(|cluster| cluster.changed)
    }

    /// The worst class of all pools.
    #[must_use]
    pub fn worst(&self) -> Option<Class> {
        self.pools.iter().filter_map(|pool| pool.risk.worst).max()
    }

    /// The pools in numbers.
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

    /// The files that differ, of all pools, by path.
    #[must_use]
    pub fn files(&self) -> BTreeMap<&str, FileChangeKind> {
        self.pools.iter().flat_map(|pool| &pool.files).map(|file| (file.path.as_str(), file.change)).collect()
    }

    fn sort(&mut self) {
        self.pools.sort_by(|a, b| b.rank().cmp(&a.rank()).then_with(|| a.name.cmp(&b.name)));
    }
}
