//! What is known of the ConfigMaps that nodes point at instead of their target, for those who plan nothing.

use super::config_maps::ConfigMapIndex;
use super::decide::Standing;
use super::make::hash_of;
use super::questions::target_of;
use crate::desired::{Desired, Pool};
use crate::judge::Target;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::NamespaceName;
use nodecfg_contract::observed::Observed;

/// Answers whose a ConfigMap is and whether it holds what is wanted, as planning sees it.
pub struct Standings<'a>(ConfigMapIndex<'a>);

impl<'a> Standings<'a> {
    /// From what was observed; of [`questions`](super::questions), as far as they were answered.
    #[must_use]
    pub fn new(desired: &'a Desired, observed: &'a Observed) -> Self {
        Self(ConfigMapIndex::new(desired, observed))
    }

    /// Whose the ConfigMap is that a node of the pool points at, and whether it holds what the pool wants.
    #[must_use]
    pub fn of(&self, pool: &Pool, source: &ConfigSource) -> Standing {
        self.0.standing(source, hash_of(&pool.target))
    }
}

/// What the nodes of a pool shall run when ConfigMaps are in `namespace`.
#[must_use]
pub fn pool_target(pool: &Pool, namespace: &NamespaceName) -> Target {
    target_of(&pool.target, namespace)
}
