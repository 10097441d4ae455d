//! What a sync would do in a line: the result of a review, its part of the verdict, and remarks.

use super::drains;
use crate::report::document::{Conclusion, Text};
use crate::report::{count, names, next_opening, uncommitted};
use crate::review::{ClusterReview, PoolReview, Review, Rollout, Side};
use crate::status::Grade;
use nodecfg_plan::{Action, Why, lost_paths};
use nodecfg_rollout::PoolStart;

/// Maximum number of names in a line.
pub(super) const MAX_NAMES: usize = 3;

/// The result of a review with a cluster: what a sync would do, the other nodes, remarks, and the plan's name.
pub(super) fn result(review: &Review, cluster: &ClusterReview) -> Conclusion {
    let (label, grade, parts) = match (refusal(review, cluster), cluster.changed, review.is_changed()) {
        (Some(why), ..) => {
            ("Refused:", Grade::Warning, [why.into()].into_iter().chain(others(review, cluster)).collect())
        }
        (None, true, _) => ("Plan:", Grade::Good, parts(review, cluster)),
        (None, false, true) => ("No changes to nodes:", Grade::Good, parts(review, cluster)),
        (None, false, false) => ("No changes:", Grade::Good, parts(review, cluster)),
    };
    // A prefix of the plan's name that is long enough to distinguish plans.
    let id: String = cluster.plan.to_string().chars().take("p1:0123456789ab".len()).collect();
    let text = Text::joined(parts).then(format!("{} ({id})", suffix(&remarks(review))));
    Conclusion { label: label.to_owned(), grade, text }
}

/// Why a sync changes nothing, if it refuses the plan.
fn refusal(review: &Review, cluster: &ClusterReview) -> Option<String> {
    if !cluster.outlook.refused {
        return None;
    }
    let refused: Vec<&PoolReview> = review.pools.iter().filter(|pool| pool.risk.refused.is_some()).collect();
    let why = match refused.as_slice() {
        [pool] => {
            let refusal = pool.risk.refused.as_ref();
            let lost = refusal.map(|refusal| lost_paths(&refusal.lost)).filter(|lost| !lost.is_empty());
            let allowed = refusal.map(|refusal| refusal.allowed.to_string()).unwrap_or_default();
            match lost {
                Some(lost) => format!("nodes of pool {} would lose {lost}", pool.name),
                None => format!("pool {} allows no more than {allowed}", pool.name),
            }
        }
        pools => format!("{} do not allow their disruption", count(pools.len(), "pool")),
    };
    Some(format!("{why}, so sync changes none of {}", count(cluster.counts.assign, "node")))
}

/// Words that need attention.
fn warning(words: String) -> Text {
    Text::graded(Grade::Warning, words)
}

/// What a sync does.
fn parts(review: &Review, cluster: &ClusterReview) -> Vec<Text> {
    let (counts, outlook) = (cluster.counts, &cluster.outlook);
    let mut parts = Vec::new();
    if review.from != Side::Cluster {
        let pools = review.counts();
        parts.push(format!("{} of {} changed", pools.changed, count(pools.pools, "pool")).into());
    }
    if counts.create > 0 {
        parts.push(format!("{} to create", count(counts.create, "ConfigMap")).into());
    }
    if counts.complete > 0 {
        parts.push(format!("{} to complete, without restarts", count(counts.complete, "NodeConfig")).into());
    }
    if outlook.assign > 0 {
        let nodes = count(outlook.assign, "node");
        parts.push(Text::from(match review.drains() {
            0 => format!("{nodes} to assign"),
            drained if drained == outlook.assign => format!("{nodes} to drain and assign"),
            drained => format!("{nodes} to assign ({drained} drained first)"),
        }));
    }
    if let Some(budget) = cluster.budget.filter(|_| outlook.assign > 1) {
        parts.push(format!("at most {budget} unavailable in all pools").into());
    }
    parts.extend(drains::refused_nodes(review).map(warning));
    if !cluster.releases.is_empty() {
        parts.push(format!("{} to release", count(cluster.releases.len(), "node")).into());
    }
    if !cluster.pointers.is_empty() {
        parts.push(format!("{} to move", count(cluster.pointers.len(), "pool pointer")).into());
    }
    parts.extend(stopped(review, cluster).map(warning));
    parts.extend(held(review, cluster).map(warning));
    if outlook.waiting > 0 {
        parts.push(warning(format!("{} waiting for unavailable nodes", outlook.waiting)));
    }
    let others = others(review, cluster);
    if parts.is_empty() && others.is_empty() {
        return vec!["0 nodes up to date".into()];
    }
    parts.into_iter().chain(others).collect()
}

/// The nodes that a sync does not assign now, because their pools are held.
fn held(review: &Review, cluster: &ClusterReview) -> Option<String> {
    let nodes = Some(cluster.outlook.held).filter(|nodes| *nodes > 0)?;
    let next = next_opening(review.pools.iter().map(|pool| match &pool.rollout.as_ref()?.start {
        PoolStart::Held { hold } => hold.next,
        _ => None,
    }));
    Some(format!("{} held{next}", count(nodes, "node")))
}

/// The nodes that a sync does not assign, because their pools stop at once.
fn stopped(review: &Review, cluster: &ClusterReview) -> Option<String> {
    let nodes = Some(cluster.outlook.stopped).filter(|nodes| *nodes > 0)?;
    let stops: Vec<String> = review.pools.iter().filter_map(|pool| stop(pool.rollout.as_ref()?)).collect();
    let why = match stops.as_slice() {
        [stop] => stop.clone(),
        stops => format!("{} stop at once", count(stops.len(), "pool")),
    };
    Some(format!("{} not assigned ({why})", count(nodes, "node")))
}

/// Why a sync stops a pool at once, if it does.
pub(super) fn stop(rollout: &Rollout) -> Option<String> {
    let PoolStart::Stops { reason } = &rollout.start else { return None };
    let failed = |action: &Action| matches!(action, Action::Await { failure: Some(_), .. });
    let steps = rollout.waves.iter().flat_map(|wave| &wave.steps).filter(|step| failed(&step.action));
    let failed: Vec<&str> = steps.map(|step| step.node.as_str()).collect();
    if failed.is_empty() {
        return Some(reason.to_string());
    }
    Some(format!("{} failed this already", names(failed, MAX_NAMES)))
}

/// The nodes that a sync does not change.
fn others(review: &Review, cluster: &ClusterReview) -> Vec<Text> {
    let counts = cluster.counts;
    let left = review.pools.iter().filter_map(|pool| pool.rollout.as_ref()).flat_map(|rollout| &rollout.left_alone);
    let paused = left.filter(|left| matches!(left.why, Why::Paused { .. })).count();
    let mut parts = Vec::new();
    if counts.await_ > 0 {
        parts.push(format!("{} assigned earlier", count(counts.await_, "node")).into());
    }
    if counts.settled > 0 {
        parts.push(format!("{} up to date", count(counts.settled, "node")).into());
    }
    if paused > 0 {
        parts.push(format!("{paused} paused").into());
    }
    if counts.skipped > paused {
        parts.push(format!("{} skipped", counts.skipped - paused).into());
    }
    if counts.not_requested > 0 {
        parts.push(format!("{} not requested", counts.not_requested).into());
    }
    if counts.blocked > 0 {
        parts.push(warning(format!("{} blocked", counts.blocked)));
    }
    if counts.unpooled > 0 && cluster.doubtful.is_empty() {
        parts.push(format!("{} in no pool", counts.unpooled).into());
    }
    parts
}

/// What the result leaves out, for the last line: pools without nodes, with the nodes in no pool, and uncommitted
/// files.
#[must_use]
pub fn remarks(review: &Review) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(cluster) = review.cluster.as_ref().filter(|cluster| !cluster.doubtful.is_empty()) {
        let empty: Vec<&str> =
            cluster.doubtful.iter().filter(|doubt| doubt.empty).map(|doubt| doubt.pool.as_str()).collect();
        match empty.as_slice() {
            [] => {}
            [pool] => remarks.push(format!("pool {pool} selects no node")),
            pools => remarks.push(format!("pools {} select no node", names(pools.iter().copied(), MAX_NAMES))),
        }
        match cluster.unpooled.len() {
            0 => {}
            1 => remarks.push("1 node is in no pool".to_owned()),
            nodes => remarks.push(format!("{nodes} nodes are in no pool")),
        }
    }
    if let Side::Revision { uncommitted: Some(files), .. } = &review.to {
        remarks.push(uncommitted(*files));
    }
    remarks
}

/// Remarks as the end of a sentence. Empty without remarks.
pub(in crate::report) fn suffix(remarks: &[String]) -> String {
    if remarks.is_empty() { String::new() } else { format!("; {}", remarks.join(", ")) }
}

/// The part of the verdict about nodes that a sync does not assign, as the end of a sentence.
pub(super) fn verdict_suffix(review: &Review) -> String {
    let Some(cluster) = review.cluster.as_ref().filter(|cluster| !cluster.outlook.refused) else {
        return String::new();
    };
    let waiting = (cluster.outlook.waiting > 0).then(|| {
        let nodes = count(cluster.outlook.waiting, "node");
        format!("{nodes} waiting for unavailable nodes")
    });
    let parts: Vec<String> = stopped(review, cluster).into_iter().chain(held(review, cluster)).chain(waiting).collect();
    if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) }
}
