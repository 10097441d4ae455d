//! What a sync changes beside its assignments, in words: marks of earlier drains and pool pointers.

use super::drains::{MAX_NAMES, releases};
use crate::report::names;
use crate::review::ClusterReview;
use nodecfg_plan::PointerTime;

/// What a sync does beside its assignments, one text each.
pub(super) fn changes_beside_assignments(cluster: &ClusterReview) -> impl Iterator<Item = String> {
    releases(cluster).into_iter().chain(pointers(cluster))
}

/// What a sync publishes for new nodes. `None` if all pool pointers stay.
fn pointers(cluster: &ClusterReview) -> Option<String> {
    let of = |when: PointerTime| {
        let pools: Vec<&str> = cluster
            .pointers
            .iter()
            .filter(|pointer| pointer.when == when)
            .map(|pointer| pointer.pool.as_str())
            .collect();
        let kind = if pools.len() == 1 { "pool" } else { "pools" };
        (!pools.is_empty()).then(|| format!("{kind} {}", names(pools.iter().copied(), MAX_NAMES)))
    };
    let at_once = of(PointerTime::AtOnce);
    let later = of(PointerTime::AfterCanaries);
    let at_once = at_once.map(|pools| format!("publishes the configuration of {pools} for new nodes"));
    let later =
        later.map(|pools| format!("publishes the configuration of {pools} for new nodes once nodes have proved it"));
    let texts: Vec<String> = at_once.into_iter().chain(later).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}
