//! Readable pools of an invalid revision, for a rollback while HEAD is invalid, and the nodes that certainly belong
//! to one of them.

use std::collections::BTreeSet;

use super::{ConfigMapKey, Desired, Node, NodeName, Observed, Pool, PoolName, Snapshot, Strictness, draft};
use nodecfg_contract::names::FleetName;
use nodecfg_fleet::snapshot::SnapshotFile;
use nodecfg_fleet::{FLEET_FILE, POOLS_FOLDER};

/// Pools of a revision, possibly invalid, with the nodes that they select.
#[derive(Debug, Clone)]
pub struct ReadablePools {
    /// Pools with a readable selector. The target of an invalid pool is a placeholder: only the pool that gets
    /// another target may be in the scope of a plan.
    pub desired: Desired,
    /// Folders under `pools/` without a readable selector.
    pub unread: BTreeSet<String>,
    /// Number of errors of the revision.
    pub errors: usize,
}

/// Readable pools of a snapshot. `None` when an error concerns all pools: it is in the fleet file, in no file, or in
/// the folder `pools`.
#[must_use]
pub fn readable_pools(snapshot: &Snapshot, gate: Strictness) -> Option<ReadablePools> {
    let draft = draft(snapshot, gate);
    let concerns_all_pools = |place: Option<&str>| place.is_none_or(|file| file == FLEET_FILE);
    if draft.errors.iter().any(|error| concerns_all_pools(error.place.as_ref().map(|place| &*place.file))) {
        return None;
    }
    if matches!(snapshot.files.get(POOLS_FOLDER), Some(SnapshotFile::Unusable(_))) {
        return None;
    }
    let mut desired = draft.desired?;
    desired.pools.extend(draft.claims);
    let folders = snapshot.files.iter().filter_map(|(path, file)| {
        let rest = path.strip_prefix("pools/")?;
        match rest.split_once('/') {
            Some((folder, _)) => Some(folder),
            // Unreadable folder.
            None => matches!(file, SnapshotFile::Unusable(_)).then_some(rest),
        }
    });
    let unread = folders
        .filter(|folder| !desired.pools.keys().any(|pool| pool.as_str() == *folder))
        .map(str::to_owned)
        .collect();
    Some(ReadablePools { desired, unread, errors: draft.errors.len() })
}

/// Nodes that belong to a pool regardless of unreadable pools: the pool selects them, and they already refer to one
/// of its ConfigMaps.
#[must_use]
pub fn certain_nodes(fleet: &FleetName, pool: &Pool, observed: &Observed) -> BTreeSet<NodeName> {
    let holds = |node: &Node| {
        let key = node.source.as_ref().and_then(ConfigMapKey::of);
        let map = key.and_then(|key| observed.config_maps.get(&key));
        map.is_some_and(|map| map.fleet.as_ref() == Some(fleet) && map.pool.as_ref() == Some::<&PoolName>(&pool.name))
    };
    let mine = observed.nodes.values().filter(|node| pool.selects(&node.name, &node.labels) && holds(node));
    mine.map(|node| node.name.clone()).collect()
}
