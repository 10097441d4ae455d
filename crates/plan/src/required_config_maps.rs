//! ConfigMaps whose content planning needs.
//!
//! Planning lists ConfigMaps by metadata only. It needs the content of ConfigMaps that nodes leave, to show the
//! changes and to adopt equal content. It also needs the content of a pool's ConfigMap if nodes will be assigned to
//! it, or if the metadata cannot prove its content. A converged cluster needs no content but that of pool pointers, which
//! other clients can change.

use std::collections::BTreeSet;

use super::membership::membership;
use super::pointers::required_pointer;
use crate::target::{SizeGroup, SizeGroups, pool_target};
use nodecfg_contract::names::NamespaceName;
use nodecfg_fleet::{Desired, PoolTarget, SizedPool};
use nodecfg_observed::{ConfigMapKey, Node, Observed};

/// Names of the ConfigMaps that the pools need for the nodes that they have.
#[must_use]
pub fn wanted_config_maps(desired: &Desired, observed: &Observed) -> BTreeSet<String> {
    let members = membership(desired, &observed.nodes).pools;
    let pools = members.into_iter().filter_map(|(name, nodes)| Some((desired.pools.get(name)?, nodes)));
    pools.flat_map(|(pool, nodes)| SizeGroups::of(pool, &nodes).config_maps().collect::<Vec<_>>()).collect()
}

/// Keys of the ConfigMaps whose content planning needs.
#[must_use]
pub fn required_config_maps(
    desired: &Desired,
    observed: &Observed,
    namespace: &NamespaceName,
) -> BTreeSet<ConfigMapKey> {
    let mut wanted = BTreeSet::new();
    for (name, nodes) in membership(desired, &observed.nodes).pools {
        let Some(pool) = desired.pools.get(name) else { continue };
        wanted.extend(required_pointer(desired, pool, namespace));
        for SizeGroup { pool, nodes, .. } in SizeGroups::of(pool, &nodes).groups {
            let target = pool_target(&pool, namespace, observed);
            let mut any = false;
            for node in nodes.iter().filter(|node| !target.is_assigned_to(node)) {
                any = true;
                wanted.extend([&node.source, &node.status.active].into_iter().flatten().filter_map(ConfigMapKey::of));
            }
            let target_map = target.source().and_then(ConfigMapKey::of);
            let is_doubtful = |key: &ConfigMapKey| is_doubtful(key, &pool, &nodes, observed);
            if any || (!nodes.is_empty() && target_map.as_ref().is_some_and(is_doubtful)) {
                wanted.extend(target_map);
            }
        }
    }
    wanted
}

/// Reports whether the metadata cannot prove the pool's ConfigMap: it is missing, being deleted, records another
/// hash, or has another uid than the one that nodes accepted.
fn is_doubtful(key: &ConfigMapKey, pool: &SizedPool<'_>, nodes: &[&Node], observed: &Observed) -> bool {
    let (Some(map), PoolTarget::Config(rendered)) = (observed.config_maps.get(key), &*pool.target) else { return true };
    let accepted_another = |node: &&Node| {
        let accepted = node.status.assigned.as_ref().and_then(|source| source.config_map.as_ref());
        accepted.is_some_and(|accepted| {
            let named = accepted.namespace == key.namespace && accepted.name == key.name;
            named && accepted.uid.as_ref().is_some_and(|uid| *uid != map.uid)
        })
    };
    map.deleting
        || map.content_hash.as_deref() != Some(rendered.hash.to_string().as_str())
        || nodes.iter().any(accepted_another)
}
