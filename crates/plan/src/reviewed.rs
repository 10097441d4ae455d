//! What a review of a plan covers: the serialized form of a [`Plan`], and its id.
//!
//! It omits what may change between review and sync: readiness and order of nodes, nodes that are only awaited or left
//! unchanged, answers of sampled kubelets, and findings. It contains no content of a configuration, and so no secret.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufWriter;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Plan, PoolPlan};
use crate::convergence::Target;
use crate::target::SizeTarget;
use kubelet_config::risk::Class;
use nodecfg_contract::config_map::PoolConfigMap;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{Assignment, ContentHash, Placement};
use nodecfg_fleet::settings::{PAUSED, POLICY_SETTINGS};

/// The reviewed part of a plan. Two plans with equal ones make the same nodes run the same configurations, under the
/// same policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewedPlan {
    /// The fleet.
    pub fleet: FleetName,
    /// Planned commit; null for files without a commit.
    pub commit: Option<CommitId>,
    /// Namespace of the ConfigMaps and the lock.
    pub namespace: NamespaceName,
    /// Limit of unavailable nodes of all pools together, such as `3` or `5%`; null without a limit.
    pub max_unavailable: Option<String>,
    /// Every pool of the repository, by name.
    pub pools: BTreeMap<PoolName, ReviewedPool>,
    /// ConfigMaps to create, by name.
    pub config_maps: BTreeMap<String, ReviewedConfigMap>,
    /// Nodes to assign, by name.
    pub nodes: BTreeMap<NodeName, ReviewedNode>,
}

/// What a plan does with a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewedPool {
    /// Hash of the configuration; null for the local configuration of each node, and if it follows from the size of a
    /// node.
    #[schemars(with = "Option<String>")]
    pub configuration: Option<ContentHash>,
    /// Hash of the configuration for each size of the nodes, such as `4 CPU, 16Gi`, if it follows from the size.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub sizes: BTreeMap<String, ContentHash>,
    /// How nodes must combine the configuration with their own: `overlay` or `replace`; null for the local
    /// configuration.
    #[schemars(with = "Option<String>")]
    pub placement: Option<Placement>,
    /// Whether the pool is paused, by its policy or by `nodecfg pause`.
    pub paused: bool,
    /// Settings of the rollout by path, with the defaults of the fleet, in the notation of `pool.yaml`.
    pub policy: BTreeMap<String, String>,
    /// Number of nodes that may be unavailable at once.
    pub budget: usize,
    /// Risk of the change for running pods.
    pub risk: Risk,
}

/// Risk of a change for running pods, without answers of sampled kubelets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Risk {
    /// Highest class: `none`, `restart`, `drain`, `replace`, `never`; null if nothing changes or the class is unknown.
    #[schemars(with = "Option<String>")]
    pub class: Option<Class>,
    /// Number of nodes for which the class is unknown, because their current or new content is unknown.
    pub unknown: usize,
}

impl Risk {
    /// Reports whether a change of this risk may disrupt more than one of the other. An unknown risk may be any.
    #[must_use]
    pub fn exceeds(self, other: Self) -> bool {
        let lost = other.class.is_some() && self.class.is_none() && self.unknown > 0;
        self.class > other.class || self.unknown > other.unknown || lost
    }
}

/// A ConfigMap to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewedConfigMap {
    /// Pool of the ConfigMap.
    pub pool: PoolName,
    /// Hash of the content.
    #[schemars(with = "String")]
    pub hash: ContentHash,
}

/// A node to assign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewedNode {
    /// Pool of the node.
    pub pool: PoolName,
    /// Uid of the Node. A recreated Node has another uid.
    pub uid: String,
    /// Size of the node, such as `4 CPU, 16Gi`, if its configuration follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Current source as `NAMESPACE/NAME`, with `:KEY` unless the key is `kubelet`; null for the local configuration.
    pub from: Option<String>,
    /// Current placement; null if it is unset.
    #[schemars(with = "Option<String>")]
    pub from_placement: Option<Placement>,
}

impl From<&Plan> for ReviewedPlan {
    fn from(plan: &Plan) -> Self {
        // Names each field, so that each is decided on.
        let Plan {
            id: _,
            fleet,
            commit,
            namespace,
            config_maps: _,
            max_unavailable,
            pools,
            unpooled: _,
            releases: _,
            doubtful: _,
            prunable: _,
            pointer_changes: _,
            findings: _,
        } = plan;
        Self {
            fleet: fleet.clone(),
            commit: commit.clone(),
            namespace: namespace.clone(),
            max_unavailable: max_unavailable.map(|limit| limit.to_string()),
            pools: pools.iter().map(|pool| (pool.name.clone(), pool.into())).collect(),
            config_maps: plan.created().map(|map| (map.config.config_map.clone(), map.into())).collect(),
            nodes: pools.iter().flat_map(assigned).collect(),
        }
    }
}

impl From<&PoolPlan> for ReviewedPool {
    fn from(pool: &PoolPlan) -> Self {
        let of_size = |found: &SizeTarget| Some((found.size?.to_string(), found.target.hash()?));
        // Without samples, whose results depend on the rights of the user.
        let known = pool.disruption_without_samples();
        let settings = POLICY_SETTINGS.iter().filter(|setting| setting.path != PAUSED);
        let policy = settings.map(|setting| (setting.path.to_owned(), (setting.read)(&pool.policy)));
        Self {
            configuration: pool.targets.only().and_then(Target::hash),
            sizes: pool.targets.by_size().iter().filter_map(of_size).collect(),
            placement: pool.targets.placement(),
            paused: pool.is_paused(),
            policy: policy.filter(|(_, value)| !value.is_empty()).collect(),
            budget: pool.budget,
            risk: Risk { class: known.worst, unknown: known.unknown },
        }
    }
}

impl From<&PoolConfigMap> for ReviewedConfigMap {
    fn from(map: &PoolConfigMap) -> Self {
        Self { pool: map.pool.clone(), hash: map.config.hash }
    }
}

/// The nodes of a pool that the plan assigns.
fn assigned(pool: &PoolPlan) -> impl Iterator<Item = (NodeName, ReviewedNode)> {
    pool.steps().filter(|step| step.action == Action::Assign).map(|step| {
        let Assignment { uid, from, from_placement, .. } = &step.assignment;
        let (uid, from) = (uid.clone(), from.as_ref().map(ToString::to_string));
        let size = pool.targets.size_of(&step.node).map(|size| size.to_string());
        let node = ReviewedNode { pool: pool.name.clone(), uid, size, from, from_placement: *from_placement };
        (step.node.clone(), node)
    })
}

/// Hash of the reviewed part of a plan: `p1:<32 hexadecimal digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PlanId(String);

impl PlanId {
    /// Id of a plan that has none yet.
    pub(super) fn unset() -> Self {
        Self(String::new())
    }

    /// Id of a plan with this reviewed part.
    #[must_use]
    pub fn of(reviewed: &ReviewedPlan) -> Self {
        Self(format!("p1:{}", &digest(reviewed)[..32]))
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// BLAKE3 hash of a value as compact JSON, in 64 hexadecimal digits.
pub(super) fn digest(value: &impl Serialize) -> String {
    // The JSON of 65,000 nodes has 10 MB, which is never held as a whole.
    let mut writer = BufWriter::with_capacity(16 << 10, blake3::Hasher::new());
    // Names, texts and numbers always serialize, and a hasher accepts every byte.
    let _ = serde_json::to_writer(&mut writer, value);
    writer.into_inner().map(|hasher| hasher.finalize().to_hex().to_string()).unwrap_or_default()
}

impl Plan {
    /// Id of this content, whatever id the plan has.
    pub(super) fn content_id(&self) -> PlanId {
        PlanId::of(&self.into())
    }

    /// The plan with the id of its content.
    pub(super) fn identified(self) -> Self {
        Self { id: self.content_id(), ..self }
    }
}
