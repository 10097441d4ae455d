//! Target of the nodes of a pool.

use crate::convergence::{Target, WantedSource};
use nodecfg_contract::Placement;
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::names::NamespaceName;
use nodecfg_fleet::{Pool, PoolTarget, Rendered};
use nodecfg_observed::{ConfigMapKey, Observed};

/// How the nodes of a pool must combine its configuration with their own.
#[must_use]
pub(crate) fn pool_placement(pool: &Pool, observed: &Observed) -> Placement {
    pool.placement.unwrap_or_else(|| observed.default_placement())
}

/// The rendered configuration of a pool, as a ConfigMap contains it.
pub(super) fn pool_config(pool: &Pool, rendered: &Rendered, observed: &Observed) -> PoolConfig {
    PoolConfig {
        config_map: rendered.config_map.clone(),
        hash: rendered.hash,
        kubelet: rendered.canonical.clone(),
        placement: Some(pool_placement(pool, observed)),
    }
}

/// Target of the nodes of a pool when ConfigMaps are in `namespace`, with the uid of its ConfigMap if that exists.
#[must_use]
pub fn pool_target(pool: &Pool, namespace: &NamespaceName, observed: &Observed) -> Target {
    let PoolTarget::Config(rendered) = &pool.target else { return Target::Local };
    let source = rendered.source(namespace);
    let uid = ConfigMapKey::of(&source).and_then(|key| observed.uid_of(&key)).map(str::to_owned);
    let placement = Some(pool_placement(pool, observed));
    let may_override = Some(pool.policy.accept_overridden.clone());
    Target::Source(WantedSource { source, hash: Some(rendered.hash), uid, placement, may_override })
}
