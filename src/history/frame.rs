//! What a rollback keeps of HEAD when HEAD is invalid: the pools as far as they can be read.

use std::collections::BTreeSet;

use super::{ConfigMapKey, Desired, Node, NodeName, Observed, Pool, PoolName, Snapshot, Strictness, draft};
use nodecfg_contract::names::FleetName;
use nodecfg_planning::desired::FLEET_FILE;
use nodecfg_planning::snapshot::SnapshotFile;

/// The pools of a revision that may be invalid, as far as they say which nodes they select.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The pools that say which nodes they select. The target of one that cannot be put together stands in for it: nothing but
    /// the pool that is given another may be in the scope of a plan.
    pub desired: Desired,
    /// The folders under `pools/` that do not say which nodes they select.
    pub unread: BTreeSet<String>,
    /// How many errors the revision has.
    pub errors: usize,
}

/// Reads it. `None` when what is wrong is wrong with all pools: with the file of the fleet, or with no file.
#[must_use]
pub fn frame(snapshot: &Snapshot, gate: Strictness) -> Option<Frame> {
    let draft = draft(snapshot, gate);
    let of_all = |place: Option<&str>| place.is_none_or(|file| file == FLEET_FILE);
    if draft.errors.iter().any(|error| of_all(error.place.as_ref().map(|place| &*place.file))) {
        return None;
    }
    if matches!(snapshot.files.get("pools"), Some(SnapshotFile::Unusable(_))) {
        return None;
    }
    let mut desired = draft.desired?;
    desired.pools.extend(draft.claims);
    let folders = snapshot.files.iter().filter_map(|(path, file)| {
        let rest = path.strip_prefix("pools/")?;
        match rest.split_once('/') {
            Some((folder, _)) => Some(folder),
            // A folder that could not be entered.
            None => matches!(file, SnapshotFile::Unusable(_)).then_some(rest),
        }
    });
    let unread = folders
        .filter(|folder| !desired.pools.keys().any(|pool| pool.as_str() == *folder))
        .map(str::to_owned)
        .collect();
    Some(Frame { desired, unread, errors: draft.errors.len() })
}

/// The nodes that are a pool's whatever pools that cannot be read may say: those that it selects, and that are pointed at one of
/// its ConfigMaps already.
#[must_use]
pub fn held(fleet: &FleetName, pool: &Pool, observed: &Observed) -> BTreeSet<NodeName> {
    let holds = |node: &Node| {
        let key = node.source.as_ref().and_then(ConfigMapKey::of);
        let map = key.and_then(|key| observed.config_maps.get(&key));
        map.is_some_and(|map| map.fleet.as_ref() == Some(fleet) && map.pool.as_ref() == Some::<&PoolName>(&pool.name))
    };
    let mine = observed.nodes.values().filter(|node| pool.selects(&node.name, &node.labels) && holds(node));
    mine.map(|node| node.name.clone()).collect()
}
