//! Moves of pool pointers, which name the configuration that new nodes start with.
//!
//! A pointer moves only to a configuration that nodes of its pool have run: at once if the observation proves that, or
//! else during the rollout once the canaries have held.

use super::problem::Problem;
use super::{Options, Plan, PoolPlan, WaveKind, Why};
use crate::desired::{Desired, Pool, PoolTarget};
use nodecfg_contract::names::{NamespaceName, PoolName};
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
    if !desired.pool_pointers || plan.is_paused() || !options.scope.includes_pool(&pool.name) {
        return Ok(None);
    }
    let key = key(desired, &pool.name, &options.namespace);
    let existing = observed.pointers.get(&key);
    if let Some(other) = existing.filter(|found| found.fleet.as_ref() != Some(&desired.fleet)) {
        let (namespace, fleet) = (options.namespace.clone(), other.fleet.clone());
        return Err(Problem::NameTaken { namespace, name: key.name, fleet });
    }
    if existing.is_some_and(|pointer| names_target(pointer, pool)) {
        return Ok(None);
    }
    let Some(when) = time(plan) else { return Ok(None) };
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
fn time(plan: &PoolPlan) -> Option<PointerTime> {
    let has_canaries = plan.waves.iter().any(|wave| matches!(wave.kind, WaveKind::Canary { .. }));
    let runs_target = plan
        .left_alone
        .iter()
        .any(|left| !left.unavailable && matches!(left.why, Why::Converged | Why::Adopted { .. }));
    match (has_canaries, runs_target) {
        (false, true) => Some(PointerTime::AtOnce),
        _ if plan.waves.is_empty() => None,
        _ => Some(PointerTime::AfterCanaries),
    }
}

impl Plan {
    /// The same plan for a rollback: pointers move before the first node to a configuration that a node of the cluster
    /// has as its last known good or active one.
    #[must_use]
    pub fn returning_pointers(mut self, observed: &Observed) -> Self {
        for pool in &mut self.pools {
            let target = pool.target.clone();
            let has_run = observed.nodes.values().any(|node| {
                let status = &node.status;
                [&status.last_known_good, &status.active].into_iter().any(|ran| target.is_named_by(ran.as_ref()))
            });
            if let Some(pointer) = pool.pointer.as_mut().filter(|_| has_run && target.source().is_some()) {
                pointer.when = PointerTime::AtOnce;
            }
        }
        self
    }
}
