//! What a sync would do: the last line of a review as text, its part of the verdict, and the remarks that every last
//! line repeats.

use super::drains;
use super::sentences::Fact;
use crate::report::style::{heading, quiet, warning};
use crate::report::{count, names, next_opening, uncommitted, whole_duration};
use crate::review::{ClusterReview, PoolReview, Review, Rollout, Side};
use nodecfg_plan::{Action, Wave, WaveDomain, WaveKind, Why, lost_paths};
use nodecfg_rollout::PoolStart;

/// Maximum number of names in a line.
const MAX_NAMES: usize = 3;

/// The last line of a review with a cluster: what a sync would do, the other nodes, remarks, and the plan's name.
pub(super) fn last_line(review: &Review, cluster: &ClusterReview) -> String {
    let (label, parts) = match refusal(review, cluster) {
        Some(refusal) => (warning("Refused:"), [refusal].into_iter().chain(others(review, cluster)).collect()),
        None => (heading(label(review, cluster)), parts(review, cluster)),
    };
    // A prefix of the plan's name that is long enough to distinguish plans.
    let id: String = cluster.plan.to_string().chars().take("p1:0123456789ab".len()).collect();
    format!("{label} {}{} {}", parts.join(", "), suffix(&remarks(review)), quiet(format!("({id})")))
}

fn label(review: &Review, cluster: &ClusterReview) -> &'static str {
    match (cluster.changed, review.is_changed()) {
        (true, _) => "Plan:",
        (false, true) => "No changes to nodes:",
        (false, false) => "No changes:",
    }
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

/// What a sync does.
fn parts(review: &Review, cluster: &ClusterReview) -> Vec<String> {
    let (counts, outlook) = (cluster.counts, &cluster.outlook);
    let mut parts = Vec::new();
    if review.from != Side::Cluster {
        let pools = review.counts();
        parts.push(format!("{} of {} changed", pools.changed, count(pools.pools, "pool")));
    }
    if counts.create > 0 {
        parts.push(format!("{} to create", count(counts.create, "ConfigMap")));
    }
    if counts.complete > 0 {
        parts.push(format!("{} to complete, without restarts", count(counts.complete, "NodeConfig")));
    }
    if outlook.assign > 0 {
        let nodes = count(outlook.assign, "node");
        parts.push(match review.drains() {
            0 => format!("{nodes} to assign"),
            drained if drained == outlook.assign => format!("{nodes} to drain and assign"),
            drained => format!("{nodes} to assign ({drained} drained first)"),
        });
    }
    if let Some(budget) = cluster.budget.filter(|_| outlook.assign > 1) {
        parts.push(format!("at most {budget} unavailable in all pools"));
    }
    parts.extend(drains::refused_nodes(review).map(warning));
    if !cluster.releases.is_empty() {
        parts.push(format!("{} to release", count(cluster.releases.len(), "node")));
    }
    if !cluster.pointers.is_empty() {
        parts.push(format!("{} to move", count(cluster.pointers.len(), "pool pointer")));
    }
    parts.extend(stopped(review, cluster).map(warning));
    parts.extend(held(review, cluster).map(warning));
    if outlook.waiting > 0 {
        parts.push(warning(format!("{} waiting for unavailable nodes", outlook.waiting)));
    }
    let others = others(review, cluster);
    if parts.is_empty() && others.is_empty() {
        return vec![format!("{} up to date", count(0, "node"))];
    }
    parts.into_iter().chain(others).collect()
}

/// The maximum number of listed waves. A label that orders the nodes may have many values.
pub(super) const MAX_WAVES: usize = 12;

/// The waves beyond the listed ones.
pub(super) fn more_waves(rollout: &Rollout) -> Option<String> {
    let more = rollout.waves.len().checked_sub(MAX_WAVES).filter(|more| *more > 0)?;
    Some(format!("then {}", count(more, "more value")))
}

/// Whether and when a sync starts the nodes of a pool: its pause, a stop, the pools before it, a hold, and unavailable
/// nodes.
pub(in crate::report) fn conditions(rollout: &Rollout) -> Vec<Fact> {
    let labeled = |label, text| Fact { label: Some(label), text };
    let pause = rollout.pause.as_ref().map(|pause| {
        let despite = if rollout.despite_pause { "; changed despite the pause" } else { "" };
        labeled("paused:", format!("{pause}{despite}"))
    });
    let stop = stop(rollout).map(|why| labeled("stops at once:", why));
    let after = after(rollout).map(|text| Fact { label: None, text });
    let start = match &rollout.start {
        PoolStart::Held { hold } => Some(labeled("held:", hold.to_string())),
        PoolStart::Waits => {
            let text = "waits until unavailable nodes recover: they use up maxUnavailable".to_owned();
            Some(Fact { label: None, text })
        }
        PoolStart::Starts | PoolStart::Stops { .. } => None,
    };
    [pause, stop, after, start].into_iter().flatten().collect()
}

/// When the nodes of a wave start. `pace` says how many at once.
pub(super) fn wave(wave: &Wave, pace: &str) -> String {
    match (wave.kind, &wave.domain) {
        (WaveKind::Unavailable, _) => "first, already unavailable".to_owned(),
        (WaveKind::Canary { soak_seconds: 0 }, _) => "canary".to_owned(),
        (WaveKind::Canary { soak_seconds }, _) => format!("canary, then {} soak", whole_duration(soak_seconds)),
        (WaveKind::Rest, None) => format!("then, {pace}"),
        (WaveKind::Rest, Some(WaveDomain { domain, soak_seconds: Some(soak @ 1..) })) => {
            format!("then, after {} soak, {domain}, {pace}", whole_duration(*soak))
        }
        (WaveKind::Rest, Some(WaveDomain { domain, .. })) => format!("then {domain}, {pace}"),
    }
}

/// The pools that a pool with nodes to assign waits for.
fn after(rollout: &Rollout) -> Option<String> {
    let names = names(rollout.after.iter().map(|pool| pool.as_str()), MAX_NAMES);
    let (pools, have) = if rollout.after.len() == 1 { ("pool", "has") } else { ("pools", "have") };
    (rollout.assign > 0 && !rollout.after.is_empty()).then(|| format!("starts after {pools} {names} {have} converged"))
}

/// The nodes that a sync does not assign now, because their pools are held.
pub(super) fn held(review: &Review, cluster: &ClusterReview) -> Option<String> {
    let nodes = Some(cluster.outlook.held).filter(|nodes| *nodes > 0)?;
    let next = next_opening(review.pools.iter().map(|pool| match &pool.rollout.as_ref()?.start {
        PoolStart::Held { hold } => hold.next,
        _ => None,
    }));
    Some(format!("{} held{next}", count(nodes, "node")))
}

/// The nodes that a sync does not assign, because their pools stop at once.
pub(super) fn stopped(review: &Review, cluster: &ClusterReview) -> Option<String> {
    let nodes = Some(cluster.outlook.stopped).filter(|nodes| *nodes > 0)?;
    let stops: Vec<String> = review.pools.iter().filter_map(|pool| stop(pool.rollout.as_ref()?)).collect();
    let why = match stops.as_slice() {
        [stop] => stop.clone(),
        stops => format!("{} stop at once", count(stops.len(), "pool")),
    };
    Some(format!("{} not assigned ({why})", count(nodes, "node")))
}

/// Why a sync stops a pool at once, if it does.
fn stop(rollout: &Rollout) -> Option<String> {
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
fn others(review: &Review, cluster: &ClusterReview) -> Vec<String> {
    let counts = cluster.counts;
    let left = review.pools.iter().filter_map(|pool| pool.rollout.as_ref()).flat_map(|rollout| &rollout.left_alone);
    let paused = left.filter(|left| matches!(left.why, Why::Paused { .. })).count();
    let mut parts = Vec::new();
    if counts.await_ > 0 {
        parts.push(format!("{} assigned earlier", count(counts.await_, "node")));
    }
    if counts.settled > 0 {
        parts.push(format!("{} up to date", count(counts.settled, "node")));
    }
    if paused > 0 {
        parts.push(format!("{paused} paused"));
    }
    if counts.skipped > paused {
        parts.push(format!("{} skipped", counts.skipped - paused));
    }
    if counts.not_requested > 0 {
        parts.push(format!("{} not requested", counts.not_requested));
    }
    if counts.blocked > 0 {
        parts.push(warning(format!("{} blocked", counts.blocked)));
    }
    if counts.unpooled > 0 && cluster.doubtful.is_empty() {
        parts.push(format!("{} in no pool", counts.unpooled));
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
