//! Saved plan: the file that a reviewer approves and that a later sync must match.
//!
//! The file contains the reviewed part of a [`Plan`]: node assignments, policy and cluster, but no contents and no
//! secrets. A sync with a saved plan makes a new plan and runs it only if that part is equal. So a saved plan can
//! only restrict a sync. [`differences`](SavedPlan::differences) lists what changed.
//!
//! The file omits what may change without invalidating the review: readiness and order of nodes, nodes that are only
//! watched or left unchanged, and findings.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Plan, PoolPlan, Step};
use kubelet_config::duration;
use kubelet_config::finding::Strictness;
use kubelet_config::risk::Class;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{Assignment, ConfigSource, ContentHash, Placement};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::Pause;

mod differences;
#[cfg(test)]
mod properties;
mod read;
#[cfg(test)]
mod scenarios;
pub mod schema;

pub use differences::{Code, Difference, FreshPlan};
pub use read::{LIMIT, SavedPlanError, read};

/// Version of the format. It changes when a field is removed or changes its meaning.
pub const FORMAT_VERSION: u32 = 1;

/// A reviewed plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "SavedPlan")]
pub struct SavedPlan {
    /// Version of this format: 1.
    pub format_version: u32,
    /// Kind of this document.
    pub kind: Kind,
    /// `blake3:` and the hash of all other fields, as compact JSON in the order of this schema. It detects accidental
    /// changes but is no signature.
    pub digest: String,
    /// Version of nodecfg that created the file.
    pub nodecfg_version: String,
    /// Id of the plan as `diff` shows it. It is not compared, because it depends on the readiness of nodes.
    pub plan_id: String,
    /// Cluster of the plan.
    pub cluster: ClusterIdentity,
    /// The fleet.
    #[schemars(with = "String")]
    pub fleet: FleetName,
    /// Planned commit; null for files without a commit.
    #[schemars(with = "Option<String>")]
    pub commit: Option<CommitId>,
    /// Namespace of the ConfigMaps and the lock.
    #[schemars(with = "String")]
    pub namespace: NamespaceName,
    /// Where assignments are written: `node` (Nodes) or `nodeconfig` (NodeConfigs).
    pub binding: String,
    /// Options of the plan. `sync --plan` requires the same ones.
    pub options: SavedOptions,
    /// Version and algorithm of the content hashes.
    pub hash_version: String,
    /// ConfigMaps to create, by name.
    pub config_maps: Vec<SavedConfigMap>,
    /// Limit of unavailable nodes of all pools together, such as `3` or `5%`. Missing: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<String>,
    /// Every pool of the repository, by name.
    pub pools: Vec<SavedPool>,
}

/// Kind of the document: `SavedPlan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    /// The only kind.
    SavedPlan,
}

/// Identity of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterIdentity {
    /// Uid of the namespace kube-system.
    pub uid: String,
    /// Address of the API server, for readers. It is not compared, because a cluster may have several addresses.
    pub server: String,
}

/// Options of `diff` that affect the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedOptions {
    /// `--take-over`.
    pub take_over: bool,
    /// `--allow-empty`.
    pub allow_empty: bool,
    /// `--lenient`.
    pub lenient: bool,
    /// `--namespace`; null if unset.
    #[schemars(with = "Option<String>")]
    pub namespace: Option<NamespaceName>,
    /// `--binding`; absent if unset or `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

impl SavedOptions {
    /// The arguments that give these options.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let flags = [("--take-over", self.take_over), ("--allow-empty", self.allow_empty), ("--lenient", self.lenient)];
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned());
        let namespace = self.namespace.iter().map(|name| format!("--namespace={name}"));
        flags.chain(namespace).chain(self.binding.iter().map(|name| format!("--binding={name}"))).collect()
    }
}

/// A ConfigMap to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedConfigMap {
    /// Name of the ConfigMap.
    pub name: String,
    /// Pool of the ConfigMap.
    #[schemars(with = "String")]
    pub pool: PoolName,
    /// Hash of the content.
    pub hash: String,
}

/// Plan for one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedPool {
    /// The pool.
    #[schemars(with = "String")]
    pub name: PoolName,
    /// Target as core/v1 NodeConfigSource; null for the local configuration.
    pub target: Option<ConfigSource>,
    /// Hash of the target content; null for the local configuration.
    pub hash: Option<String>,
    /// How nodes must combine the target with their own configuration: `overlay` or `replace`; absent if the pool requires none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub placement: Option<Placement>,
    /// Number of nodes that may be unavailable at once.
    pub budget: usize,
    /// Rollout policy.
    pub policy: SavedPolicy,
    /// Pause by an operator when the plan was saved; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// Highest risk class for running pods (`none`, `restart`, `drain`, `replace`, `never`); null if nothing changes
    /// or the risk is unknown.
    #[schemars(with = "Option<String>")]
    pub risk: Option<Class>,
    /// Number of nodes whose risk is unknown, because their current or new content is unknown.
    pub risk_unknown: usize,
    /// Whether `risk` exceeds the policy of the pool. Such a plan is shown but never carried out.
    pub refused: bool,
    /// Nodes to assign, by name.
    pub assignments: Vec<SavedAssignment>,
}

/// Rollout policy of a pool with the defaults of the fleet, in the notation of `pool.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedPolicy {
    /// Number of nodes or percentage: `3`, `25%`.
    pub max_unavailable: String,
    /// Number of canaries; null without canaries.
    pub canary_nodes: Option<u32>,
    /// Soak time: `10m`; null without canaries.
    pub canary_soak: Option<String>,
    /// Number of failed nodes that the rollout tolerates.
    pub max_failures: u32,
    /// Time limit per node: `5m`.
    pub convergence_timeout: String,
    /// Whether the policy pauses the pool.
    pub paused: bool,
    /// Highest allowed risk class.
    #[schemars(with = "String")]
    pub allow_disruption: Class,
    /// Fields whose removal the pool accepts, if any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub accept_removed: BTreeSet<String>,
    /// Fields that something else may set, if any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub accept_overridden: BTreeSet<String>,
    /// Drain of nodes, if `allowDisruption` permits one: `evict, timeout 15m, …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// When nodes may start, if not always: `Sat 22:00 for 6h Europe/Berlin, …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Order of the nodes by a label, if any: `by topology.kubernetes.io/zone, soak 10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Pools that go first, if any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub after: BTreeSet<PoolName>,
    /// Gates, if any: `error-rate (…; present …), …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<String>,
    /// Whether assigned nodes are rolled back if a gate stops the rollout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback_on_gate_failure: bool,
    /// Whether a node converges only when its pods are back. Unset: yes.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub check_pods: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// A node to assign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedAssignment {
    /// The Node.
    #[schemars(with = "String")]
    pub node: NodeName,
    /// Uid of the Node. A recreated Node has another uid.
    pub uid: String,
    /// Current source as core/v1 NodeConfigSource; null for the local configuration.
    pub from: Option<ConfigSource>,
    /// Current placement; absent if it is unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub from_placement: Option<Placement>,
}

/// Inputs of a plan apart from repository and nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanContext {
    /// The cluster.
    pub cluster: ClusterIdentity,
    /// Binding in the notation of the command line.
    pub binding: String,
    /// The options.
    pub options: SavedOptions,
}

impl PlanContext {
    /// Strictness of the plan.
    #[must_use]
    pub fn gate(&self) -> Strictness {
        if self.options.lenient { Strictness::Lenient } else { Strictness::Strict }
    }
}

impl SavedPlan {
    /// Extracts the reviewed part of a plan.
    #[must_use]
    pub fn of(plan: &Plan, context: &PlanContext) -> Self {
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
            cluster: context.cluster.clone(),
            fleet: plan.fleet.clone(),
            commit: plan.commit.clone(),
            namespace: plan.namespace.clone(),
            binding: context.binding.clone(),
            options: context.options.clone(),
            hash_version: ContentHash::PREFIX.trim_end_matches(':').to_owned(),
            config_maps: created.map(config_map).collect(),
            max_unavailable: plan.max_unavailable.map(|limit| limit.to_string()),
            pools: plan.pools.iter().map(SavedPool::of).collect(),
        };
        saved.with_digest()
    }

    /// Sets the digest that matches the content.
    #[must_use]
    pub fn with_digest(self) -> Self {
        Self { digest: self.expected_digest(), ..self }
    }

    /// Digest of all other fields.
    fn expected_digest(&self) -> String {
        let blank = Self { digest: String::new(), ..self.clone() };
        // Strings, numbers and lists of them always serialize.
        let bytes = serde_json::to_vec(&blank).unwrap_or_default();
        format!("blake3:{}", blake3::hash(&bytes).to_hex())
    }

    /// File content: indented JSON with a final newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The pool with this name.
    fn pool(&self, name: &PoolName) -> Option<&SavedPool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }

    /// Reports whether a sync refuses the plan, because a change exceeds the policy of its pool.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.pools.iter().any(|pool| pool.refused)
    }

    /// Number of nodes to assign.
    #[must_use]
    pub fn assignments(&self) -> usize {
        self.pools.iter().map(|pool| pool.assignments.len()).sum()
    }
}

impl SavedPool {
    fn of(plan: &PoolPlan) -> Self {
        let assigned = plan.steps().filter(|step| step.action == Action::Assign);
        let one = |step: &Step| {
            let Assignment { uid, from, from_placement, .. } = step.assignment.clone();
            SavedAssignment { node: step.node.clone(), uid, from, from_placement }
        };
        let mut assignments: Vec<SavedAssignment> = assigned.map(one).collect();
        assignments.sort_by(|a, b| a.node.cmp(&b.node));
        // A sample may have other results in the sync, whose user may have other rights.
        let known = plan.disruption_without_samples();
        Self {
            name: plan.name.clone(),
            target: plan.target.source().cloned(),
            hash: plan.hash.map(|hash| hash.to_string()),
            placement: plan.target.placement(),
            budget: plan.budget,
            policy: SavedPolicy::of(&plan.policy),
            paused: plan.paused.clone(),
            risk: known.worst,
            risk_unknown: known.unknown,
            refused: plan.disruption.is_refused(),
            assignments,
        }
    }
}

impl SavedPolicy {
    // Names each field, so that a new one is not forgotten.
    fn of(policy: &RolloutPolicy) -> Self {
        let RolloutPolicy {
            max_unavailable,
            canary,
            max_failures,
            convergence_timeout,
            paused,
            allow_disruption,
            accept_removed,
            accept_overridden,
            drain,
            schedule,
            order,
            after,
            gates,
            rollback_on_gate_failure,
            check_pods,
        } = policy;
        Self {
            max_unavailable: max_unavailable.to_string(),
            canary_nodes: canary.map(|canary| canary.nodes),
            canary_soak: canary.map(|canary| duration::format(canary.soak)),
            max_failures: *max_failures,
            convergence_timeout: duration::format(*convergence_timeout),
            paused: *paused,
            allow_disruption: *allow_disruption,
            accept_removed: accept_removed.clone(),
            accept_overridden: accept_overridden.clone(),
            drain: (*allow_disruption >= Class::Drain).then(|| drain.to_string()),
            schedule: (!schedule.is_always_open()).then(|| schedule.to_string()),
            order: order.as_ref().map(ToString::to_string),
            after: after.clone(),
            gates: Some(gates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
                .filter(|gates| !gates.is_empty()),
            rollback_on_gate_failure: *rollback_on_gate_failure,
            check_pods: *check_pods,
        }
    }

    /// Fields and values in the notation of `pool.yaml`. A field that is missing here would be an unexplained difference.
    fn fields(&self) -> [(&'static str, String); 16] {
        let Self {
            max_unavailable,
            canary_nodes,
            canary_soak,
            max_failures,
            convergence_timeout,
            paused,
            allow_disruption,
            accept_removed,
            accept_overridden,
            drain,
            schedule,
            order,
            after,
            gates,
            rollback_on_gate_failure,
            check_pods,
        } = self;
        let none = || "none".to_owned();
        let listed = |fields: &BTreeSet<String>| fields.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        [
            ("maxUnavailable", max_unavailable.clone()),
            ("canary.nodes", canary_nodes.map_or_else(none, |nodes| nodes.to_string())),
            ("canary.soak", canary_soak.clone().unwrap_or_else(none)),
            ("maxFailures", max_failures.to_string()),
            ("convergenceTimeout", convergence_timeout.clone()),
            ("paused", paused.to_string()),
            ("allowDisruption", allow_disruption.to_string()),
            ("acceptRemoved", listed(accept_removed)),
            ("acceptOverridden", listed(accept_overridden)),
            ("drain", drain.clone().unwrap_or_else(none)),
            ("schedule", schedule.clone().unwrap_or_else(|| "always".to_owned())),
            ("order", order.clone().unwrap_or_else(|| "by name".to_owned())),
            ("after", after.iter().map(PoolName::as_str).collect::<Vec<_>>().join(", ")),
            ("gates", gates.clone().unwrap_or_else(none)),
            ("rollbackOnGateFailure", rollback_on_gate_failure.to_string()),
            ("checkPods", check_pods.to_string()),
        ]
    }
}
