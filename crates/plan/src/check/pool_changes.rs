//! What the changes of a pool mean for its nodes, decided once for each configuration that they have.

use super::super::{ChangeSet, PoolPlan};
use super::drains_nodes;
use crate::changes::ChangedField;
use crate::convergence::Target;
use kubelet_config::effective::ValueChange;
use kubelet_config::risk;
use kubelet_config::risk::Class;
use nodecfg_contract::{ConfigSource, Placement};

/// A configuration with its placement.
type Placed<'a> = (&'a ConfigSource, Option<Placement>);

/// What the changes of a pool mean for its nodes, by the configuration that a node has. Thousands of nodes have the same.
pub(super) struct PoolChanges<'a> {
    /// Configurations from which a field of the change has a class that needs a drain, each with its placement. Empty if the
    /// pool drains no nodes. A sample does not tell what the change needs on other nodes.
    pub(super) needing_drain: Vec<Placed<'a>>,
    /// Configurations whose changes are known, each with the highest class of the reverted changes. A sample does not tell
    /// what a rollback does to other nodes.
    pub(super) reverted: Vec<(Placed<'a>, Option<Class>)>,
}

impl<'a> PoolChanges<'a> {
    /// `same_version`: whether the kubelets of all nodes have the same version.
    pub(super) fn of(pool: &'a PoolPlan, same_version: bool) -> Self {
        Self { needing_drain: needing_drain(pool, same_version), reverted: reverted(pool) }
    }
}

/// See [`PoolChanges::needing_drain`].
fn needing_drain(pool: &PoolPlan, same_version: bool) -> Vec<Placed<'_>> {
    // The defaults of a node's own version may differ from those of other nodes in the set.
    if !same_version || !drains_nodes(pool) {
        return Vec::new();
    }
    let needs = |pair: &ValueChange, path: &str| {
        risk::of_change(path, pair.old.as_deref(), pair.new.as_deref()).class >= Class::Drain
    };
    let known: Vec<&ChangeSet> = pool.changes.iter().filter(|set| !set.is_sampled()).collect();
    let any_needs = |set: &&ChangeSet| {
        set.fields.iter().any(|field| field.in_effect.iter().any(|pair| needs(pair, &field.change.path)))
    };
    // Nodes with different own values leave one overlay by different changes.
    let all_need = |set: &&&ChangeSet| {
        let is_same = |other: &&&ChangeSet| (&other.from, other.placement) == (&set.from, set.placement);
        known.iter().filter(is_same).all(any_needs)
    };
    known.iter().filter(all_need).filter_map(|set| Some((set.from.as_ref()?, set.placement))).collect()
}

/// See [`PoolChanges::reverted`].
fn reverted(pool: &PoolPlan) -> Vec<(Placed<'_>, Option<Class>)> {
    let known = pool.changes.iter().filter(|set| set.from_known && !set.is_sampled() && pool.target != Target::Local);
    let reverted = known.filter_map(|set| {
        let back = |field: &ChangedField| {
            let path = &field.change.path;
            let class = |pair: &ValueChange| risk::of_change(path, pair.new.as_deref(), pair.old.as_deref()).class;
            field.in_effect.iter().map(class).max().unwrap_or(Class::None)
        };
        Some(((set.from.as_ref()?, set.placement), set.fields.iter().map(back).max()))
    });
    reverted.collect()
}
