//! Moves of pool pointers, which name the configuration that new nodes start with.
//!
//! A pointer moves only to a configuration that nodes of its pool have run: at once if the observation proves that, or
//! else during the rollout once the canaries have held.

use super::problem::Problem;
use super::{LeftAlone, Options, Plan, PoolPlan, WaveKind, Why};
use crate::desired::{Desired, Pool, PoolTarget};
use nodecfg_contract::names::{NamespaceName, NodeName, PoolName};
use nodecfg_contract::observed::{ConfigMapKey, ManagedConfigMap, Observed};
use nodecfg_contract::pool_pointer::{PointedConfig, PoolPointer};

/// Move of a pool pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerMove {
    /// Content before the move. `None`: the pointer is missing, or its content is not valid.
    pub from: Option<PoolPointer>,
    /// Resource version before the move, its precondition. `None`: the pointer is missing.
    pub resource_version: Option<String>,
    /// Content after the move.
    pub to: PoolPointer,
    /// Time of the move.
    pub when: PointerTime,
}

/// Time of the move of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PointerTime {
    /// Before the first assignment: nodes run the configuration already.
    AtOnce,
    /// Once the canaries have held, or without canaries once a node has converged.
    AfterCanaries,
}

/// Namespace and name of the pointer of a pool.
fn key(desired: &Desired, pool: &PoolName, namespace: &NamespaceName) -> ConfigMapKey {
    ConfigMapKey { namespace: namespace.to_string(), name: PoolPointer::name(&desired.fleet, pool) }
}

/// The pointer of a pool that exists and names another configuration than the repository: its content must be known, so
/// that a rollout that rolls back can restore it.
pub(super) fn required_pointer(
    desired: &Desired,
    pool: &Pool,
    observed: &Observed,
    namespace: &NamespaceName,
) -> Option<ConfigMapKey> {
    let key = key(desired, &pool.name, namespace);
    let existing = observed.pointers.get(&key).filter(|_| desired.pool_pointers)?;
    (!names_target(existing, pool)).then_some(key)
}

/// Reports whether the metadata of a pointer names the target of its pool.
#[must_use]
pub fn names_target(pointer: &ManagedConfigMap, pool: &Pool) -> bool {
    match (&pool.target, &pointer.content_hash) {
        (PoolTarget::Config(rendered), Some(recorded)) => *recorded == rendered.hash.to_string(),
        (PoolTarget::Local, None) => true,
        _ => false,
    }
}

/// Reports whether the pointer of a pool in scope is missing or names another configuration than the repository.
pub(super) fn is_due(desired: &Desired, pool: &Pool, observed: &Observed, options: &Options) -> bool {
    let is_moved =
        |pointer: &ManagedConfigMap| pointer.fleet.as_ref() == Some(&desired.fleet) && names_target(pointer, pool);
    let key = || key(desired, &pool.name, &options.namespace);
    desired.pool_pointers
        && options.scope.includes_pool(&pool.name)
        && !observed.pointers.get(&key()).is_some_and(is_moved)
}

/// The move of the pointer of a planned pool. `None` if it stays.
///
/// # Errors
/// A ConfigMap of another fleet has the name of the pointer.
pub(super) fn pointer_move(
    desired: &Desired,
    pool: &Pool,
    plan: &PoolPlan,
    observed: &Observed,
    options: &Options,
) -> Result<Option<PointerMove>, Problem> {
    if plan.is_paused() || !is_due(desired, pool, observed, options) {
        return Ok(None);
    }
    let key = key(desired, &pool.name, &options.namespace);
    let existing = observed.pointers.get(&key);
    if let Some(other) = existing.filter(|found| found.fleet.as_ref() != Some(&desired.fleet)) {
        let (namespace, fleet) = (options.namespace.clone(), other.fleet.clone());
        return Err(Problem::NameTaken { namespace, name: key.name, fleet });
    }
    let Some(when) = time(plan, observed) else { return Ok(None) };
    let config = match &pool.target {
        PoolTarget::Local => None,
        PoolTarget::Config(rendered) => Some(PointedConfig {
            config_map: rendered.config_map.clone(),
            hash: rendered.hash,
            kubelet: rendered.canonical.clone(),
        }),
    };
    let content = observed.contents.get(&key).and_then(Option::as_ref);
    Ok(Some(PointerMove {
        from: content.and_then(|map| PoolPointer::read(map, &desired.fleet, &pool.name).ok()),
        resource_version: existing.map(|pointer| pointer.resource_version.clone()),
        to: PoolPointer { config, commit: desired.commit.as_ref().map(ToString::to_string) },
        when,
    }))
}

/// Time of the move to the target of a pool. `None` if no node proves the target in this run.
///
/// A pool with canaries needs more nodes on the target than canaries, or a wave of canaries. A node that was not Ready
/// before is no canary: the next run watches it as one.
fn time(plan: &PoolPlan, observed: &Observed) -> Option<PointerTime> {
    let has_canaries = plan.waves.iter().any(|wave| matches!(wave.kind, WaveKind::Canary { .. }));
    let wanted = plan.policy.canaries();
    let proves = |name: &NodeName| observed.nodes.get(name).is_some_and(|node| !node.is_self_assigned());
    let runs_target = |left: &&LeftAlone| {
        !left.unavailable && matches!(left.why, Why::Converged | Why::Adopted { .. }) && proves(&left.node)
    };
    match has_canaries {
        true => Some(PointerTime::AfterCanaries),
        false if plan.left_alone.iter().filter(runs_target).count() > wanted => Some(PointerTime::AtOnce),
        false if wanted > 0 || plan.waves.is_empty() => None,
        false => Some(PointerTime::AfterCanaries),
    }
}

impl Plan {
    /// The same plan for a rollback: pointers move before the first node to a configuration that a node of the cluster
    /// has as its last known good one.
    #[must_use]
    pub fn returning_pointers(mut self, observed: &Observed) -> Self {
        for pool in &mut self.pools {
            let target = pool.target.clone();
            let has_run = observed.nodes.values().any(|node| target.is_named_by(node.status.last_known_good.as_ref()));
            if let Some(pointer) = pool.pointer.as_mut().filter(|_| has_run && target.source().is_some()) {
                pointer.when = PointerTime::AtOnce;
            }
        }
        self
    }
}
