//! The verdict of a review: the effect of the whole change in one sentence.

use super::outlook::{remarks, suffix};
use super::{drains, outlook};
use crate::report::count;
use crate::review::{FileChangeKind, Review};

/// The effect of the whole change, after "this": `changes 2 of 5 pools and 37 nodes; worst risk: drain (…)`.
pub(super) fn verdict(review: &Review) -> String {
    let counts = review.counts();
    let cluster = review.cluster.as_ref();
    let remarks = suffix(&remarks(review));
    if !review.is_changed() {
        return no_change(review) + &remarks;
    }
    let touching = counts.changed - counts.settings_only;
    let nodes = cluster.map_or_else(String::new, |cluster| {
        let outlook = cluster.outlook;
        let nodes = if outlook.refused { cluster.counts.assign } else { outlook.assign };
        format!(", {}", count(nodes, "node"))
    });
    let pools = count(counts.pools, "pool");
    let released = cluster.map_or(0, |cluster| cluster.releases.len());
    let mut text = match (touching, counts.settings_only) {
        (0, 0) if released > 0 && review.settings.is_empty() => {
            format!("releases {} of an earlier drain", count(released, "node"))
        }
        (0, 0) if review.settings.is_empty() && cluster.is_some_and(|cluster| !cluster.pointers.is_empty()) => {
            "publishes configurations for new nodes".to_owned()
        }
        (0, 0) => "changes settings of the fleet".to_owned(),
        (0, only) => format!("changes settings of {only} of {pools}, without effect on nodes"),
        (some, 0) => format!("changes {some} of {pools}{nodes}"),
        (some, only) => format!("changes {some} of {pools}{nodes}, and only settings of {only} more"),
    };
    let unknown = review.pools.iter().filter(|pool| pool.risk.unknown).count();
    match review.worst() {
        Some(class) if unknown > 0 => {
            let means = class.means();
            text.push_str(&format!("; worst known risk: {class} ({means}); unknown for {unknown} of {pools}"));
        }
        Some(class) => text.push_str(&format!("; worst risk: {class} ({})", class.means())),
        None if unknown > 0 => text.push_str("; risk unknown"),
        None => {}
    }
    if let Some(drained) = Some(review.drains()).filter(|nodes| *nodes > 0) {
        text.push_str(&format!("; drains {}", count(drained, "node")));
    }
    if let Some(refused) = drains::refused_nodes(review) {
        text.push_str(&format!("; {refused}"));
    }
    text.push_str(&outlook::verdict_suffix(review));
    text.push_str(&blocked(review));
    text.push_str(&remarks);
    if counts.refused > 0 {
        text.push_str(&format!(". nodecfg sync will refuse it: {}", not_allowing(counts.refused)));
    }
    text
}

/// The number of blocked nodes, as a continuation of the sentence.
fn blocked(review: &Review) -> String {
    match review.cluster.as_ref().map_or(0, |cluster| cluster.counts.blocked) {
        0 => String::new(),
        1 => "; 1 node is blocked".to_owned(),
        nodes => format!("; {nodes} nodes are blocked"),
    }
}

fn not_allowing(pools: usize) -> String {
    match pools {
        1 => "1 pool does not allow this risk".to_owned(),
        pools => format!("{pools} pools do not allow this risk"),
    }
}

/// The text of a review without changes, with file differences that have no effect.
fn no_change(review: &Review) -> String {
    let nodes = match &review.cluster {
        Some(cluster) if cluster.counts.settled > 0 => {
            format!("changes nothing on {}{}", count(cluster.counts.settled, "node"), blocked(review))
        }
        _ => format!("changes nothing on any node{}", blocked(review)),
    };
    let files = review.files();
    match files.len() {
        0 => nodes,
        number if files.values().all(|kind| *kind == FileChangeKind::Formatting) => {
            format!("{nodes}: {} only in formatting", differ(number))
        }
        number => format!("{nodes}: {} without effect", differ(number)),
    }
}

fn differ(files: usize) -> String {
    if files == 1 { "1 file differs".to_owned() } else { format!("{files} files differ") }
}
