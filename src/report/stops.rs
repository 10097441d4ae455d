//! Why nodes of a pool were not started: stops, holds and pauses, each once with its pools, and the next steps.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::progress::message;
use super::{count, explain, names};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::hold::Hold;
use nodecfg_observed::{Age, Pause};
use nodecfg_plan::Why;
use nodecfg_plan::convergence::ConvergenceFailure;
use nodecfg_rollout::{End, NodeOutcome, Outcome, PoolOutcome, StopReason};

/// The maximum number of reasons of each kind.
const MAX_REASONS: usize = 8;
/// The maximum number of names in a list.
const MAX_NAMES: usize = 8;

/// The pools of each stop reason: `pool gpu: canary gpu-1 failed`. Counts those beyond a limit.
pub(super) fn stop_texts(stops: &[(Vec<&PoolName>, &StopReason)]) -> Vec<String> {
    let text = |(pools, reason): &(Vec<&PoolName>, &StopReason)| {
        let label = if pools.len() == 1 { "pool" } else { "pools" };
        format!("{label} {}: {}", names(pools.iter().map(|pool| pool.as_str()), MAX_NAMES), message(reason))
    };
    let more = stops.iter().skip(MAX_REASONS).map(|(pools, _)| pools.len()).sum();
    stops.iter().take(MAX_REASONS).map(text).chain(more_pools(more)).collect()
}

fn more_pools(number: usize) -> Option<String> {
    (number > 0).then(|| format!("{}; -o json lists them", count(number, "more pool")))
}

/// The stop reasons, each once with its pools.
pub(super) fn stops(outcome: &Outcome) -> Vec<(Vec<&PoolName>, &StopReason)> {
    let mut stops: Vec<(Vec<&PoolName>, &StopReason)> = Vec::new();
    for (pool, ended) in &outcome.pools {
        let Some(reason) = &ended.stopped else { continue };
        match stops.iter_mut().find(|(_, other)| *other == reason) {
            Some((pools, _)) => pools.push(pool),
            None => stops.push((vec![pool], reason)),
        }
    }
    stops
}

/// The held pools of each reason: `pool gpu, 12 nodes: outside of the windows; next opening …`. Counts those beyond a
/// limit.
pub(super) fn hold_texts(outcome: &Outcome) -> Vec<String> {
    let mut holds: Vec<(Vec<&PoolName>, usize, &Hold)> = Vec::new();
    for (pool, ended) in &outcome.pools {
        let Some(hold) = &ended.held else { continue };
        let nodes = ended.nodes.iter().filter(|node| node.end == End::Held).count();
        match holds.iter_mut().find(|(.., other)| *other == hold) {
            Some((pools, total, _)) => {
                pools.push(pool);
                *total += nodes;
            }
            None => holds.push((vec![pool], nodes, hold)),
        }
    }
    let text = |(pools, nodes, hold): &(Vec<&PoolName>, usize, &Hold)| {
        let label = if pools.len() == 1 { "pool" } else { "pools" };
        let pools = names(pools.iter().map(|pool| pool.as_str()), MAX_NAMES);
        format!("{label} {pools}, {}: {hold}", count(*nodes, "node"))
    };
    let more = holds.iter().skip(MAX_REASONS).map(|(pools, ..)| pools.len()).sum();
    holds.iter().take(MAX_REASONS).map(text).chain(more_pools(more)).collect()
}

/// The paused pools: `pool gpu, 3 nodes unchanged: by ada …`. Counts those beyond a limit.
pub(super) fn pause_texts(pauses: &[(&PoolName, usize, &Pause)]) -> Vec<String> {
    let text = |(pool, nodes, pause): &(&PoolName, usize, &Pause)| {
        format!("pool {pool}, {} unchanged: {pause}", count(*nodes, "node"))
    };
    pauses.iter().take(MAX_REASONS).map(text).chain(more_pools(pauses.len().saturating_sub(MAX_REASONS))).collect()
}

/// The pools paused by `nodecfg pause`, the number of their unchanged nodes, and the pause.
pub(super) fn pauses(outcome: &Outcome) -> Vec<(&PoolName, usize, &Pause)> {
    let of_pool = |(pool, ended)| {
        let mut paused = paused(ended).flatten();
        paused.next().map(|pause| (pool, 1 + paused.count(), pause))
    };
    outcome.pools.iter().filter_map(of_pool).collect()
}

/// Why the nodes of a pool are paused, if any is.
pub(super) fn pause_of(pool: &PoolOutcome) -> Option<String> {
    let in_repository = || "in the repository (spec.rollout.paused)".to_owned();
    paused(pool).next().map(|order| order.map_or_else(in_repository, ToString::to_string))
}

/// The order that pauses each paused node of a pool. `None` for a node whose pool is paused in the repository.
fn paused(pool: &PoolOutcome) -> impl Iterator<Item = Option<&Pause>> {
    pool.nodes.iter().filter_map(|node| match &node.end {
        End::LeftAlone { why: Why::Paused { order } } => Some(order.as_deref()),
        _ => None,
    })
}

/// The new nodes of a pool that a `verify` accepts, the oldest first.
pub(super) fn new_nodes(pool: &PoolOutcome) -> BTreeSet<(Timestamp, &NodeName)> {
    let joined = |node: &NodeOutcome| match node.end {
        End::LeftAlone { why: Why::New { joined } } => Some(joined),
        _ => None,
    };
    pool.nodes.iter().filter_map(|node| Some((joined(node)?, &node.node))).collect()
}

/// The pools with new nodes that a `verify` accepts: `pool gpu: gpu-7 joined …`. Counts those beyond a limit.
pub(super) fn new_node_texts(outcome: &Outcome, at: Timestamp) -> Vec<String> {
    let mut texts = Vec::new();
    for (pool, ended) in &outcome.pools {
        let nodes = new_nodes(ended);
        let Some((oldest, _)) = nodes.first() else { continue };
        let listed = names(nodes.iter().map(|(_, node)| node.as_str()), MAX_NAMES);
        let age = Age::between(*oldest, at);
        texts.push(match nodes.len() {
            1 => format!("pool {pool}: {listed} joined {age} ago, and never had its configuration"),
            _ => format!("pool {pool}: {listed} never had its configuration, the oldest joined {age} ago"),
        });
    }
    let more = texts.len().saturating_sub(MAX_REASONS);
    texts.truncate(MAX_REASONS);
    texts.extend(more_pools(more));
    texts
}

/// The next step after pauses. `None` without pauses.
pub(super) fn next_step_after_pauses(pauses: &[(&PoolName, usize, &Pause)]) -> Option<String> {
    let pools: Vec<&str> = pauses.iter().map(|(pool, ..)| pool.as_str()).collect();
    let resume = match pools.as_slice() {
        [] => return None,
        few if few.len() <= MAX_NAMES => format!("`nodecfg resume {}`", few.join(" ")),
        _ => "`nodecfg resume` with the names of these pools".to_owned(),
    };
    Some(format!("when the reason no longer applies: {resume}, and sync again"))
}

/// The next steps after stops: one for all pools that need the same.
pub(super) fn next_steps(outcome: &Outcome, stops: &[(Vec<&PoolName>, &StopReason)]) -> Vec<String> {
    let mut alike: Vec<(Vec<&PoolName>, &StopReason, bool)> = Vec::new();
    for (pools, reason) in stops {
        for pool in pools.iter().copied() {
            let only_drains = outcome.pools.get(pool).is_some_and(only_drains_failed);
            let is_alike =
                |other: &StopReason, drains| drains == only_drains && explain::has_same_next_step(reason, other);
            match alike.iter_mut().find(|(_, other, drains)| is_alike(other, *drains)) {
                Some((all, ..)) => all.push(pool),
                None => alike.push((vec![pool], reason, only_drains)),
            }
        }
    }
    alike.iter().filter_map(|(pools, reason, only_drains)| explain::next_step(pools, reason, *only_drains)).collect()
}

/// Reports whether nodes failed, and all of them because they were not drained. Their configuration may be correct.
pub(super) fn only_drains_failed(pool: &PoolOutcome) -> bool {
    let ends = pool.nodes.iter().map(|node| &node.end);
    let mut failed = ends.filter(|end| matches!(end, End::Failed { .. } | End::Refused { .. })).peekable();
    let only_drain = |end: &End| match end {
        End::Failed { failure: ConvergenceFailure::Drain { failure }, .. } => failure.prevented_change(),
        _ => false,
    };
    failed.peek().is_some() && failed.all(only_drain)
}
