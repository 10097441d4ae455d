//! What a sync would do, decided beforehand and in full.
//!
//! [`make`] turns what is [desired](crate::desired) and what is [observed](nodecfg_contract::observed) into a [`Plan`]: the ConfigMaps
//! to create, each node's assignment with its precondition, in waves, and for every other node the
//! reason why it is left alone. A plan is pure data: deterministic, named by a hash. Carrying it out decides
//! nothing that could have been decided here; new behaviour belongs here first. [`check`] asserts the invariants of every
//! plan before it runs.
//!
//! Nothing in this folder knows a client, a clock or a terminal.

use std::fmt;

use serde::Serialize;

use crate::desired::RolloutPolicy;
use crate::judge::{Target, Waiting};
use crate::state::State;
use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use kubelet_config::risk::Class;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::observed::{KubeletVersion, Pause};
use nodecfg_contract::{Assignment, ConfigSource, ContentHash};

mod addresses;
mod check;
mod config_maps;
mod decide;
mod disruption;
mod make;
mod membership;
mod problem;
mod prune;
mod questions;
mod reset;
pub mod saved;
mod scope;
mod standing;
mod verdicts;
mod waves;
mod why;

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod verdicts_tests;

pub use check::{Violation, check};
pub use decide::{Decision, Holder, PoolPause, Standing, is_adopted, is_available, present_state, unreached};
pub use disruption::{ChangeSet, ChangedField, Disruption, changed_fields, way_out};
pub use make::{Options, make, redecide};
pub use membership::{Membership, belongs, membership};
pub use problem::Problem;
pub use prune::{KEEP, Kept, KeptConfigMap, PruneOptions, PrunePlan, check_prune, prune};
pub use questions::questions;
pub use reset::{NodeSelection, NodeSelectionError, down_in_any_pool, pools_of_nodes, select_nodes};
pub use scope::Scope;
pub use standing::{Standings, pool_target};

/// Everything that a sync would do. It has no serial form of its own: reviewers see waves and nodes as they are here, within a
/// review, and a [saved plan](saved) is what must not change between a review and a sync.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Hash of everything below.
    pub id: PlanId,
    /// The fleet.
    pub fleet: FleetName,
    /// The commit that is wanted; unset for a working tree.
    pub commit: Option<CommitId>,
    /// Where the ConfigMaps are.
    pub namespace: NamespaceName,
    /// The ConfigMaps that the transitions below need, by name.
    pub config_maps: Vec<ConfigMapPlan>,
    /// The pools by name.
    pub pools: Vec<PoolPlan>,
    /// Nodes that no pool selects, by name. They are left as they are.
    pub unpooled: Vec<Unpooled>,
    /// The names of this fleet's ConfigMaps that `nodecfg prune` with default options deletes.
    pub prunable: Vec<String>,
    /// What there is to say of the pools' configurations for the kubelets that their nodes have. No errors: those forbid
    /// the plan.
    pub findings: Vec<Finding>,
}

/// The hash of a plan: `p1:<32 hexadecimal digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct PlanId(String);

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A ConfigMap that some node of the plan will be pointed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapPlan {
    /// Its name: `<fleet>-<pool>-<hash>`.
    pub name: String,
    /// The pool it belongs to.
    pub pool: PoolName,
    /// Hash of its content.
    pub hash: ContentHash,
    /// Its content under the key `kubelet`: canonical YAML. Never shown, as it may hold secrets; `hash` stands for it.
    pub kubelet: String,
    /// The pool's `kubelet.yaml` in the repository.
    pub path: String,
    /// Whether it is to be created; otherwise it is there, with this very content.
    pub create: bool,
}

/// What happens to one pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolPlan {
    /// The pool.
    pub name: PoolName,
    /// What its nodes shall run.
    pub target: Target,
    /// Hash of what they shall run; unset for the local configuration.
    pub hash: Option<ContentHash>,
    /// How many nodes belong to the pool.
    pub nodes: usize,
    /// How many of them may be unavailable at once.
    pub budget: usize,
    /// The policy that the budget and the waves come from.
    pub policy: RolloutPolicy,
    /// Who has paused the pool from a command line (`nodecfg pause`), and why. Unset: nobody has. The policy may say that it
    /// is paused as well.
    pub paused: Option<Pause>,
    /// Whether the plan was asked for despite that.
    pub despite_pause: bool,
    /// Which fields change, for each configuration that nodes of the pool are to leave.
    pub changes: Vec<ChangeSet>,
    /// What these changes do to pods that run.
    pub disruption: Disruption,
    /// The transitions, in the order in which they start.
    pub waves: Vec<Wave>,
    /// Every other node of the pool, by name, and why it is left alone.
    pub left_alone: Vec<LeftAlone>,
}

impl PoolPlan {
    /// Whether its nodes are held as they are.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.policy.paused || (self.paused.is_some() && !self.despite_pause)
    }

    /// All steps of all waves.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.waves.iter().flat_map(|wave| &wave.steps)
    }

    /// How many nodes are to be pointed at the target.
    #[must_use]
    pub fn assignments(&self) -> usize {
        self.steps().filter(|step| step.action == Action::Assign).count()
    }
}

/// Nodes that may start under the same condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// Which nodes these are and what they wait for.
    #[serde(flatten)]
    pub kind: WaveKind,
    /// By name.
    #[serde(rename = "nodes")]
    pub steps: Vec<Step>,
}

/// What the nodes of a wave have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum WaveKind {
    /// Broken already, being not Ready or having refused what they point at: they cost nothing more and start at once.
    Unavailable,
    /// The canaries: they start as the budget allows, and are then watched while they soak.
    #[serde(rename_all = "camelCase")]
    Canary {
        /// How long they must stay converged before the next wave starts, in seconds.
        soak_seconds: u64,
    },
    /// All others: they start as the budget allows, after the canaries have soaked.
    Rest,
}

/// What happens to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Turn")]
pub struct Step {
    /// The node.
    pub node: NodeName,
    /// Its current and its wanted `configSource`.
    #[serde(rename = "from", serialize_with = "serialize_from")]
    #[schemars(
        with = "Option<ConfigSource>",
        description = "What its spec names now; unset for the local configuration."
    )]
    pub assignment: Assignment,
    /// What is done.
    #[serde(flatten)]
    pub action: Action,
    /// Whether it is Ready now, and so must be Ready again to count as converged.
    #[serde(skip)]
    pub was_ready: bool,
    /// Whether it is available now: if so, its start costs budget.
    pub available: bool,
    /// Whether it could be pointed back at what it has now: that is still there, and the node has not refused it.
    #[serde(skip)]
    pub can_return: bool,
    /// What it would take to point it back once it runs the target, when that is known and more than the pool's policy
    /// allows. The way back is not as risky as the way there: what restarts a kubelet one way may need a drain the other.
    #[serde(skip)]
    pub back_needs: Option<Class>,
}

fn serialize_from<S: serde::Serializer>(assignment: &Assignment, serializer: S) -> Result<S::Ok, S::Error> {
    assignment.from.serialize(serializer)
}

/// What is done to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "action")]
pub enum Action {
    /// It is pointed at the target.
    Assign,
    /// It points there already, and is watched.
    // So is one that has converged, as a canary that soaks.
    Await {
        /// What it is still waited for; unset when it has failed, or has converged.
        waiting: Option<Waiting>,
        /// The error that it reports against the target.
        error: Option<String>,
    },
}

/// A node of a pool that the plan does not touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    /// The node.
    pub node: NodeName,
    /// Whether it counts against the budget: it is not Ready, in transition, or failed.
    pub unavailable: bool,
    /// Why it is left alone.
    pub why: Why,
}

/// Why a node is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Why {
    /// It runs what it shall run.
    Converged,
    /// It runs the wanted content from a ConfigMap of another name: nothing to gain from a restart.
    Adopted {
        /// What it points at.
        source: ConfigSource,
    },
    /// The pool is paused.
    Paused {
        /// Who has paused it from a command line, and why; unset when only its policy says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<Pause>,
    },
    /// It points at a ConfigMap that this fleet does not manage. `--take-over` says that it may.
    Conflict {
        /// What it points at.
        source: ConfigSource,
        /// Who manages that.
        owner: Owner,
    },
    /// Its kubelet cannot do it.
    Unsupported {
        /// What it reports.
        version: KubeletVersion,
    },
    /// Its kubelet could do it by its version, but does not report `status.config`: it runs without
    /// `--dynamic-config-dir`, or has only just started.
    NoDynamicConfig,
    /// No node agent has ever reported on what is assigned to it: none runs there.
    AgentSilent,
    /// What its assignment would be written to belongs to an earlier Node of its name, and is about to be removed.
    Outlived,
    /// Its kubelet, which is another than when the plan was made, would refuse the configuration.
    WouldRefuse {
        /// The version of the kubelet.
        kubelet: Minor,
        /// The first reason.
        reason: String,
    },
    /// It is being deleted.
    Deleting,
    /// The plan was asked for other nodes.
    OutOfScope,
}

impl Why {
    /// The state of the node.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Converged | Self::Adopted { .. } => State::Settled,
            Self::Paused { .. } | Self::Deleting | Self::OutOfScope => State::Skipped,
            Self::Conflict { .. }
            | Self::Unsupported { .. }
            | Self::NoDynamicConfig
            | Self::AgentSilent
            | Self::Outlived
            | Self::WouldRefuse { .. } => State::Blocked,
        }
    }

    /// Whether the node cannot be brought to its target, and somebody should know.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.state() == State::Blocked
    }
}

/// Who manages a ConfigMap that is not ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Owner {
    /// Another fleet of nodecfg.
    Fleet {
        /// Its name.
        fleet: FleetName,
    },
    /// Somebody else: it carries no labels of nodecfg, or cannot be seen.
    Unknown,
}

/// A node that no pool selects; or that several contest, none of which the plan was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unpooled {
    /// The node.
    pub node: NodeName,
    /// The pool of this fleet whose ConfigMap it still points at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_on: Option<String>,
}

/// The counts that every report begins or ends with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Nodes to be pointed at their target.
    pub assign: usize,
    /// Nodes that point at their target and have not converged.
    #[serde(rename = "await")]
    pub await_: usize,
    /// Nodes that need nothing.
    pub settled: usize,
    /// Nodes left alone because of a conflict or an unsuitable kubelet.
    pub blocked: usize,
    /// Nodes left alone because their pool is paused, they are being deleted, or the plan was asked
    /// for others.
    pub skipped: usize,
    /// ConfigMaps to create.
    pub create: usize,
    /// Nodes in no pool.
    pub unpooled: usize,
}

impl Plan {
    /// Whether the cluster is to be changed at all.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.config_maps.iter().any(|map| map.create) || self.pools.iter().any(|pool| pool.assignments() > 0)
    }

    /// Counts what the plan says of nodes and ConfigMaps.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            create: self.config_maps.iter().filter(|map| map.create).count(),
            unpooled: self.unpooled.len(),
            ..Counts::default()
        };
        for pool in &self.pools {
            counts.assign += pool.assignments();
            counts.await_ += pool.steps().count() - pool.assignments();
            for left in &pool.left_alone {
                match left.why.state() {
                    State::Settled => counts.settled += 1,
                    State::Blocked => counts.blocked += 1,
                    _ => counts.skipped += 1,
                }
            }
        }
        counts
    }

    /// Names the plan by its content: all of it, also what reviewers are not shown.
    fn identified(mut self) -> Self {
        self.id = PlanId(String::new());
        let digits: String = blake3::hash(format!("{self:?}").as_bytes()).to_hex().chars().take(32).collect();
        self.id = PlanId(format!("p1:{digits}"));
        self
    }
}
