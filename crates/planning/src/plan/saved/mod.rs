//! A plan as a file: what a reviewer approves, and a later sync must find unchanged.
//!
//! It is not a serialised [`Plan`], but its essence: who is moved from what to what, under which policy, in which cluster. No
//! contents and no secrets. A sync that is given one plans afresh and carries that out, and only when its essence is the same; so
//! a saved plan can make a sync do less, never more or other. What has changed is told by [`differences`](SavedPlan::differences).
//!
//! Not in it, because it may change without the plan being another: whether nodes are Ready, and with it their order; nodes that
//! are only waited for or left alone; what there is to remark.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Plan, PoolPlan, Step};
use crate::desired::RolloutPolicy;
use kubelet_config::duration;
use kubelet_config::finding::Strictness;
use kubelet_config::risk::Class;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::observed::Pause;
use nodecfg_contract::{Assignment, ConfigSource, ContentHash};

mod differences;
#[cfg(test)]
mod properties;
mod read;
pub mod schema;
#[cfg(test)]
mod stories;

pub use differences::{Code, Difference, Now};
pub use read::{LIMIT, Unreadable, read};

/// The version of the format. It changes when a field changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// What was reviewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "SavedPlan")]
pub struct SavedPlan {
    /// Version of this format: 1.
    pub format_version: u32,
    /// What this file is.
    pub kind: Kind,
    /// `blake3:` and the hash of everything else, as compact JSON in the order of this schema. It notices accidents; it is no
    /// signature.
    pub digest: String,
    /// The nodecfg that made it.
    pub nodecfg_version: String,
    /// The name of the plan as `diff` shows it. It is not compared: readiness of nodes is part of it.
    pub plan_id: String,
    /// The cluster that it is for.
    pub cluster: ClusterIdentity,
    /// The fleet.
    #[schemars(with = "String")]
    pub fleet: FleetName,
    /// The commit that was planned; null for files that are no commit's.
    #[schemars(with = "Option<String>")]
    pub commit: Option<CommitId>,
    /// Where the ConfigMaps and the lock are.
    #[schemars(with = "String")]
    pub namespace: NamespaceName,
    /// Where assignments are written: `node` (Nodes) or `nodeconfig` (NodeConfigs).
    pub binding: String,
    /// The options that it was planned with. `sync --plan` takes them from here.
    pub options: SavedOptions,
    /// Version and algorithm of the content hashes.
    pub hash_version: String,
    /// ConfigMaps to create, by name.
    pub config_maps: Vec<SavedConfigMap>,
    /// Every pool of the repository, by name.
    pub pools: Vec<SavedPool>,
}

/// `SavedPlan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    /// The only one.
    SavedPlan,
}

/// What tells a cluster from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterIdentity {
    /// The uid of its namespace kube-system.
    pub uid: String,
    /// Address of its API server, for people: it is not compared, since one cluster may have many.
    pub server: String,
}

/// Options of `diff` that change what is planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedOptions {
    /// `--take-over`.
    pub take_over: bool,
    /// `--allow-empty`.
    pub allow_empty: bool,
    /// `--lenient`.
    pub lenient: bool,
    /// `--namespace`; null when it was not given.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<NamespaceName>,
}

/// A ConfigMap to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedConfigMap {
    /// Its name.
    pub name: String,
    /// The pool it is for.
    #[schemars(with = "String")]
    pub pool: PoolName,
    /// Hash of its content.
    pub hash: String,
}

/// What happens to one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedPool {
    /// The pool.
    #[schemars(with = "String")]
    pub name: PoolName,
    /// What its nodes shall point at, as core/v1 NodeConfigSource; null for the local configuration.
    pub target: Option<ConfigSource>,
    /// Hash of what they shall run; null for the local configuration.
    pub hash: Option<String>,
    /// How many of its nodes may be unavailable at once.
    pub budget: usize,
    /// How it is rolled out.
    pub policy: SavedPolicy,
    /// Who had paused it from a command line, since when and why; absent when nobody had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// The worst that a change does to running pods (`none`, `restart`, `drain`, `replace`, `never`); null when nothing changes
    /// or it is not known.
    #[schemars(with = "Option<String>")]
    pub risk: Option<Class>,
    /// For how many of the nodes it is not known, since what they run or shall run is not.
    pub risk_unknown: usize,
    /// Whether `risk` is more than the pool allows: such a plan is shown, and never carried out.
    pub refused: bool,
    /// The nodes to be pointed at the target, by name.
    pub assignments: Vec<SavedAssignment>,
}

/// The rollout policy of a pool, with the fleet's defaults applied, as it is written in `pool.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedPolicy {
    /// A number of nodes or a percentage: `3`, `25%`.
    pub max_unavailable: String,
    /// How many nodes go first; null for no canaries.
    pub canary_nodes: Option<u32>,
    /// How long they soak: `10m`; null for no canaries.
    pub canary_soak: Option<String>,
    /// Failed nodes before the rollout stops.
    pub max_failures: u32,
    /// How long a node may take: `5m`.
    pub convergence_timeout: String,
    /// Whether nothing is changed at all.
    pub paused: bool,
    /// The worst class of risk that is allowed.
    #[schemars(with = "String")]
    pub allow_disruption: Class,
}

/// One node that is to be pointed at its pool's target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedAssignment {
    /// The Node.
    #[schemars(with = "String")]
    pub node: NodeName,
    /// Its uid: a Node made anew under the old name is another.
    pub uid: String,
    /// What it points at, as core/v1 NodeConfigSource; null for the local configuration.
    pub from: Option<ConfigSource>,
}

/// What a plan is made under, apart from repository and nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circumstances {
    /// The cluster.
    pub cluster: ClusterIdentity,
    /// Where its assignments are, in the words of the command line.
    pub binding: String,
    /// The options.
    pub options: SavedOptions,
}

impl Circumstances {
    /// How strict the plan was made.
    #[must_use]
    pub fn gate(&self) -> Strictness {
        if self.options.lenient { Strictness::Lenient } else { Strictness::Strict }
    }
}

impl SavedPlan {
    /// The essence of a plan.
    #[must_use]
    pub fn of(plan: &Plan, circumstances: &Circumstances) -> Self {
        let created = plan.config_maps.iter().filter(|map| map.create);
        let config_map = |map: &super::ConfigMapPlan| SavedConfigMap {
            name: map.name.clone(),
            pool: map.pool.clone(),
            hash: map.hash.to_string(),
        };
        let saved = Self {
            format_version: FORMAT_VERSION,
            kind: Kind::SavedPlan,
            digest: String::new(),
            nodecfg_version: env!("CARGO_PKG_VERSION").to_owned(),
            plan_id: plan.id.to_string(),
            cluster: circumstances.cluster.clone(),
            fleet: plan.fleet.clone(),
            commit: plan.commit.clone(),
            namespace: plan.namespace.clone(),
            binding: circumstances.binding.clone(),
            options: circumstances.options.clone(),
            hash_version: ContentHash::PREFIX.trim_end_matches(':').to_owned(),
            config_maps: created.map(config_map).collect(),
            pools: plan.pools.iter().map(SavedPool::of).collect(),
        };
        saved.sealed()
    }

    /// With the digest that belongs to its content.
    #[must_use]
    pub fn sealed(self) -> Self {
        Self { digest: self.expected_digest(), ..self }
    }

    /// The digest that belongs to the other fields.
    fn expected_digest(&self) -> String {
        let blank = Self { digest: String::new(), ..self.clone() };
        // Strings, numbers and lists of them always serialise.
        let bytes = serde_json::to_vec(&blank).unwrap_or_default();
        format!("blake3:{}", blake3::hash(&bytes).to_hex())
    }

    /// The file: JSON, indented, with a line end.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The pool of this name.
    fn pool(&self, name: &PoolName) -> Option<&SavedPool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }

    /// How many nodes are to be assigned.
    #[must_use]
    pub fn assignments(&self) -> usize {
        self.pools.iter().map(|pool| pool.assignments.len()).sum()
    }
}

impl SavedPool {
    fn of(plan: &PoolPlan) -> Self {
        let assigned = plan.steps().filter(|step| step.action == Action::Assign);
        let one = |step: &Step| {
            let Assignment { uid, from, .. } = step.assignment.clone();
            SavedAssignment { node: step.node.clone(), uid, from }
        };
        let mut assignments: Vec<SavedAssignment> = assigned.map(one).collect();
        assignments.sort_by(|a, b| a.node.cmp(&b.node));
        Self {
            name: plan.name.clone(),
            target: plan.target.source().cloned(),
            hash: plan.hash.map(|hash| hash.to_string()),
            budget: plan.budget,
            policy: SavedPolicy::of(&plan.policy),
            paused: plan.paused.clone(),
            risk: plan.disruption.worst,
            risk_unknown: plan.disruption.unknown,
            refused: plan.disruption.refused,
            assignments,
        }
    }
}

impl SavedPolicy {
    fn of(policy: &RolloutPolicy) -> Self {
        Self {
            max_unavailable: policy.max_unavailable.to_string(),
            canary_nodes: policy.canary.map(|canary| canary.nodes),
            canary_soak: policy.canary.map(|canary| duration::written(canary.soak)),
            max_failures: policy.max_failures,
            convergence_timeout: duration::written(policy.convergence_timeout),
            paused: policy.paused,
            allow_disruption: policy.allow_disruption,
        }
    }

    /// Each field by the name that it has in `pool.yaml`, with its value.
    fn fields(&self) -> [(&'static str, String); 7] {
        let none = || "none".to_owned();
        [
            ("maxUnavailable", self.max_unavailable.clone()),
            ("canary.nodes", self.canary_nodes.map_or_else(none, |nodes| nodes.to_string())),
            ("canary.soak", self.canary_soak.clone().unwrap_or_else(none)),
            ("maxFailures", self.max_failures.to_string()),
            ("convergenceTimeout", self.convergence_timeout.clone()),
            ("paused", self.paused.to_string()),
            ("allowDisruption", self.allow_disruption.to_string()),
        ]
    }
}
