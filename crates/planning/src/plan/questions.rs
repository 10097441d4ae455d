//! Which ConfigMaps must be read in full before a plan can be made.
//!
//! Planning lists ConfigMaps by their metadata only. Their content matters where a node is to leave one (what changes, and
//! is it perhaps the wanted content already?) and where nodes are to be pointed at one (is it what its name says?). A
//! cluster where nothing is to be done raises no question.

use std::collections::BTreeSet;

use super::membership::membership;
use crate::desired::{Desired, Pool, PoolTarget};
use crate::judge::Target;
use nodecfg_contract::names::{NamespaceName, NodeName};
use nodecfg_contract::observed::{ConfigMapKey, Observed};

/// The ConfigMaps to read, none of them twice.
#[must_use]
pub fn questions(desired: &Desired, observed: &Observed, namespace: &NamespaceName) -> BTreeSet<ConfigMapKey> {
    let mut wanted = BTreeSet::new();
    for (name, nodes) in membership(desired, &observed.nodes).pools {
        let Some(pool) = desired.pools.get(name) else { continue };
        let target = target_of(&pool.target, namespace);
        let leaving = nodes
            .iter()
            .filter_map(|node| observed.nodes.get(*node))
            .filter(|node| !target.is_named_by(node.source.as_ref()));
        let mut any = false;
        for node in leaving {
            any = true;
            wanted.extend([&node.source, &node.status.active].into_iter().flatten().filter_map(ConfigMapKey::of));
        }
        let target_map = target.source().and_then(ConfigMapKey::of);
        if any || (!nodes.is_empty() && target_map.as_ref().is_some_and(|key| is_doubtful(key, pool, &nodes, observed)))
        {
            wanted.extend(target_map);
        }
    }
    wanted
}

/// Whether the list of ConfigMaps leaves open that a pool's ConfigMap is there with the right content: it is missing, on its
/// way out, marked with another hash, or not the one that its nodes took.
fn is_doubtful(key: &ConfigMapKey, pool: &Pool, nodes: &[&NodeName], observed: &Observed) -> bool {
    let (Some(map), PoolTarget::Config(rendered)) = (observed.config_maps.get(key), &pool.target) else { return true };
    let taken = |node: &&NodeName| {
        let assigned = observed.nodes.get(*node)?.status.assigned.as_ref()?;
        let uid = assigned.config_map.as_ref()?.uid.clone()?;
        (ConfigMapKey::of(assigned).as_ref() == Some(key)).then_some(uid)
    };
    map.deleting
        || map.content_hash.as_deref() != Some(rendered.hash.to_string().as_str())
        || nodes.iter().filter_map(taken).any(|uid| uid != map.uid)
}

/// What a pool's nodes shall point at when ConfigMaps are in `namespace`.
pub(super) fn target_of(target: &PoolTarget, namespace: &NamespaceName) -> Target {
    match target {
        PoolTarget::Local => Target::Local,
        PoolTarget::Config(rendered) => Target::Source(rendered.source(namespace)),
    }
}
