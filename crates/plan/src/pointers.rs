//! Moves of pool pointers, which name the configuration that new nodes start with.
//!
//! A pointer moves only to a configuration that nodes of its pool have run: at once if the observation proves that, or
//! else during the rollout once the canaries have held. A node that assigned itself proves nothing: a compromised one can
//! choose its own configuration and report success on it.

use std::collections::BTreeMap;

use super::problem::Problem;
use super::{Action, LeftAlone, Options, Plan, PoolPlan, Step, WaveKind, Why};
use crate::present::proves;
use crate::problem::PointerChange;
use crate::target::{SizeGroups, pool_config};
use crate::waves::Canaries;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::pool_pointer::{PointerError, PoolPointer};
use nodecfg_fleet::{Desired, MAX_SIZES, Pool, PoolTarget, Sizes};
use nodecfg_observed::{ConfigMapKey, Node, Observed};

/// Move of a pool pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerMove {
    /// Content before the move. `None`: the pointer is missing, or another client changed it.
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

/// Pointer of a pool, by its content. Its metadata proves nothing: another client may have changed the data alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointerState {
    /// The ConfigMap is missing.
    Missing,
    /// The reconciler wrote the content.
    Written(PoolPointer),
    /// Another client changed it, for this reason.
    Changed(PointerError),
}

impl PointerState {
    /// State of the pointer of a pool whose content was read.
    #[must_use]
    pub fn of(fleet: &FleetName, pool: &PoolName, namespace: &NamespaceName, observed: &Observed) -> Self {
        match observed.contents.get(&key(fleet, pool, namespace)).and_then(Option::as_ref) {
            None => Self::Missing,
            Some(map) => match PoolPointer::read_as_written(map, fleet, pool) {
                Ok(pointer) => Self::Written(pointer),
                Err(error) => Self::Changed(error),
            },
        }
    }

    /// Reports whether the reconciler wrote the targets of the nodes of a pool.
    #[must_use]
    pub fn names_targets(&self, pool: &Pool, nodes: &[&Node], observed: &Observed) -> bool {
        self.has_configs_of(&self.wanted(pool, &SizeGroups::of(pool, nodes), observed))
    }

    /// Reports whether the reconciler wrote these configurations, at any commit.
    fn has_configs_of(&self, wanted: &PoolPointer) -> bool {
        matches!(self, Self::Written(pointer) if (pointer.steps, &pointer.configs) == (wanted.steps, &wanted.configs))
    }

    /// What the pointer of a pool should have, without a commit. It keeps sizes that no node has any more: a new node may
    /// have them again.
    fn wanted(&self, pool: &Pool, sizes: &SizeGroups<'_>, observed: &Observed) -> PoolPointer {
        let steps = pool.targets.sizes().map(Sizes::steps).unwrap_or_default();
        let kept = match self {
            Self::Written(pointer) if pointer.steps == steps => pointer.configs.keys().copied().collect(),
            _ => Vec::new(),
        };
        let present = sizes.groups.iter().map(|group| group.pool.size.unwrap_or_default());
        let mut configs = BTreeMap::new();
        for size in present.chain(kept) {
            if configs.len() < MAX_SIZES
                && let Some(of_size) = pool.for_node(size)
                && let PoolTarget::Config(rendered) = &*of_size.target
            {
                configs.insert(size, pool_config(pool, rendered, observed));
            }
        }
        PoolPointer { steps, configs, commit: None }
    }
}

/// Namespace and name of the pointer of a pool.
fn key(fleet: &FleetName, pool: &PoolName, namespace: &NamespaceName) -> ConfigMapKey {
    ConfigMapKey { namespace: namespace.to_string(), name: PoolPointer::name(fleet, pool) }
}

/// The pointer of a published pool, whose content must be read. One request for each pool, because a list of all
/// ConfigMaps of the fleet has up to a thousand times the size.
pub(super) fn required_pointer(desired: &Desired, pool: &Pool, namespace: &NamespaceName) -> Option<ConfigMapKey> {
    desired.pool_pointers.then(|| key(&desired.fleet, &pool.name, namespace))
}

/// Pointer of a pool as it was read, for a plan. Its content is parsed once: it holds a whole configuration.
pub(super) struct PublishedPointer<'a> {
    key: ConfigMapKey,
    map: Option<&'a FetchedConfigMap>,
    state: PointerState,
    /// Whether the pointer is missing, was changed by another client, or names another configuration than the
    /// repository.
    pub(super) is_due: bool,
    /// What it should have.
    wanted: PoolPointer,
}

impl<'a> PublishedPointer<'a> {
    /// Pointer of a pool that a sync of this scope publishes.
    pub(super) fn of(
        desired: &Desired,
        sizes: &SizeGroups<'_>,
        pool: &Pool,
        observed: &'a Observed,
        options: &Options,
    ) -> Option<Self> {
        let key =
            required_pointer(desired, pool, &options.namespace).filter(|_| options.scope.includes_pool(&pool.name))?;
        let map = observed.contents.get(&key).and_then(Option::as_ref);
        let state = PointerState::of(&desired.fleet, &pool.name, &options.namespace, observed);
        let mut wanted = state.wanted(pool, sizes, observed);
        let is_due = !state.has_configs_of(&wanted);
        wanted.commit = desired.commit.as_ref().map(ToString::to_string);
        Some(Self { key, map, state, is_due, wanted })
    }

    /// What another client changed. `None` if the reconciler wrote the pointer, or it is missing.
    pub(super) fn change(&self) -> Option<PointerChange> {
        let immutable = self.map?.immutable;
        let fault = match &self.state {
            PointerState::Changed(error) => error.to_string(),
            _ if immutable => "it is immutable, so that it cannot move".to_owned(),
            _ => return None,
        };
        Some(PointerChange { name: self.key.name.clone(), fault, immutable })
    }
}

/// The move of the pointer of a planned pool. `None` if it stays.
///
/// # Errors
/// A ConfigMap of another fleet has the name of the pointer, or the pointer is immutable.
pub(super) fn pointer_move(
    pointer: PublishedPointer<'_>,
    desired: &Desired,
    plan: &PoolPlan,
    observed: &Observed,
    options: &Options,
) -> Result<Option<PointerMove>, Problem> {
    if plan.is_paused() || !pointer.is_due {
        return Ok(None);
    }
    let PublishedPointer { key, map: existing, state, wanted, .. } = pointer;
    let namespace = options.namespace.clone();
    if let Some(fleet) = existing.and_then(FetchedConfigMap::fleet).filter(|fleet| *fleet != desired.fleet) {
        return Err(Problem::NameTaken { namespace, name: key.name, fleet: Some(fleet) });
    }
    if existing.is_some_and(|map| map.immutable) {
        return Err(Problem::PointerImmutable { namespace, name: key.name });
    }
    let Some(when) = time(plan, observed) else { return Ok(None) };
    // A ConfigMap without labels of nodecfg belongs to another client: its creation fails, and it is not overwritten.
    let ours = existing.filter(|map| map.is_managed());
    Ok(Some(PointerMove {
        from: if let PointerState::Written(pointer) = state { Some(pointer) } else { None },
        resource_version: ours.map(|pointer| pointer.resource_version.clone()),
        to: wanted,
        when,
    }))
}

/// Time of the move to the target of a pool. `None` if no node proves the target in this run.
///
/// A pool with canaries needs more nodes on the target than canaries, or a wave of canaries. A node that was not Ready
/// before is no canary: the next run watches it as one.
fn time(plan: &PoolPlan, observed: &Observed) -> Option<PointerTime> {
    let has_canaries = plan.waves.iter().any(|wave| matches!(wave.kind, WaveKind::Canary { .. }));
    let canaries = Canaries::of(&plan.policy, &plan.targets);
    let wanted = canaries.each;
    let runs_target = |left: &&LeftAlone| {
        let proves = observed.nodes.get(&left.node).is_some_and(proves);
        !left.unavailable && left.why.runs_target() && proves
    };
    let running = plan.left_alone.iter().filter(runs_target).map(|left| &left.node);
    let any_may_prove = || plan.steps().any(|step| may_prove(step, observed));
    match has_canaries {
        true => Some(PointerTime::AfterCanaries),
        false if canaries.have_more_than(wanted, running) => Some(PointerTime::AtOnce),
        false if wanted > 0 || !any_may_prove() => None,
        false => Some(PointerTime::AfterCanaries),
    }
}

impl Plan {
    /// The same plan for a rollback: a pointer moves before the first node to a configuration that as many nodes of its
    /// pool as canaries have as their last known good one.
    #[must_use]
    pub fn returning_pointers(mut self, observed: &Observed) -> Self {
        for pool in &mut self.pools {
            let is_proven = has_run_targets(pool, observed);
            if let Some(pointer) = pool.pointer.as_mut().filter(|_| is_proven) {
                pointer.when = PointerTime::AtOnce;
            }
        }
        self
    }
}

/// Reports whether as many nodes of a pool as canaries have their target as their last known good configuration.
fn has_run_targets(pool: &PoolPlan, observed: &Observed) -> bool {
    let has_run = |node: &&Node| {
        let target = pool.targets.of(&node.name);
        target.is_some_and(|target| target.is_named_by(node.status.last_known_good.as_ref()))
    };
    let canaries = Canaries::of(&pool.policy, &pool.targets);
    let proving = proving_nodes(pool, observed).filter(has_run).map(|node| &node.name);
    !pool.targets.is_local() && canaries.have_more_than(canaries.each.max(1) - 1, proving)
}

/// Reports whether a step makes its node prove the target: the reconciler assigns it, or has assigned it before.
fn may_prove(step: &Step, observed: &Observed) -> bool {
    step.action == Action::Assign || observed.nodes.get(&step.node).is_some_and(proves)
}

/// Nodes of a pool that can prove its target. Contested nodes are not of the pool.
fn proving_nodes<'a>(pool: &'a PoolPlan, observed: &'a Observed) -> impl Iterator<Item = &'a Node> {
    let left = pool.left_alone.iter().filter(|left| !matches!(left.why, Why::Contested { .. }));
    let names = pool.steps().map(|step| &step.node).chain(left.map(|left| &left.node));
    names.filter_map(|name: &NodeName| observed.nodes.get(name)).filter(|node| proves(node))
}
