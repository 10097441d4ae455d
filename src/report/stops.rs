//! Why nodes of a pool were not started: stops, holds and pauses, each once with its pools, and the next steps.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::document::{Item, Text};
use super::progress::message;
use super::summary::next_steps_of_nodes;
use super::{count, explain};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::hold::Hold;
use nodecfg_observed::{Age, Pause};
use nodecfg_plan::Why;
use nodecfg_plan::convergence::ConvergenceFailure;
use nodecfg_rollout::{End, NodeOutcome, Outcome, PoolOutcome, StopReason};

/// The maximum number of names in a list.
const MAX_NAMES: usize = 8;

/// Why pools stopped, were held or paused, which new nodes were accepted, and the next steps.
pub(super) fn items(outcome: &Outcome, at: Timestamp) -> Vec<Item> {
    let (stops, pauses) = (stops(outcome), pauses(outcome));
    let next = |steps: Vec<String>| steps.into_iter().map(|step| Item::warning("next", step));
    let stopped = stops
        .iter()
        .map(|(pools, reason)| Item::bad("stopped", of_pools(pools).then(format!(": {}", message(reason)))));
    let paused = pauses.iter().map(|(pool, nodes, pause)| {
        let pool = of_pools(&[*pool]);
        Item::warning("paused", pool.then(format!(", {} unchanged: {pause}", count(*nodes, "node"))))
    });
    stopped
        .chain(next(next_steps(outcome, &stops)))
        .chain(held(outcome))
        .chain(paused)
        .chain(next(next_step_after_pauses(&pauses).into_iter().collect()))
        .chain(new(outcome, at))
        .chain(next(next_steps_of_nodes(outcome)))
        .collect()
}

/// `pool gpu`, `pools a, b`.
fn of_pools(pools: &[&PoolName]) -> Text {
    let label = if pools.len() == 1 { "pool " } else { "pools " };
    Text::from(label).then(Text::names(pools.iter().map(|pool| pool.as_str())))
}

/// The stop reasons, each once with its pools.
fn stops(outcome: &Outcome) -> Vec<(Vec<&PoolName>, &StopReason)> {
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

/// The held pools of each reason: `pool gpu, 12 nodes: outside of the windows; next opening …`.
fn held(outcome: &Outcome) -> Vec<Item> {
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
    let item = |(pools, nodes, hold): (Vec<&PoolName>, usize, &Hold)| {
        Item::warning("held", of_pools(&pools).then(format!(", {}: {hold}", count(nodes, "node"))))
    };
    holds.into_iter().map(item).collect()
}

/// The pools paused by `nodecfg pause`, the number of their unchanged nodes, and the pause. Without that of the whole
/// fleet, which stands above.
fn pauses(outcome: &Outcome) -> Vec<(&PoolName, usize, &Pause)> {
    let of_pool = |(pool, ended)| {
        let mut paused = paused(ended).flatten().filter(|pause| !pause.whole_fleet);
        paused.next().map(|pause| (pool, 1 + paused.count(), pause))
    };
    outcome.pools.iter().filter_map(of_pool).collect()
}

/// Why the nodes of a pool are paused, if any is.
pub(super) fn pause_of(pool: &PoolOutcome) -> Option<String> {
    let in_repository = || "in the repository".to_owned();
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

/// The pools with new nodes that a `verify` accepts: `pool gpu: gpu-7 joined …`.
fn new(outcome: &Outcome, at: Timestamp) -> Vec<Item> {
    let item = |(pool, ended): (&PoolName, &PoolOutcome)| {
        let nodes = new_nodes(ended);
        let age = Age::between(nodes.first()?.0, at);
        let listed = Text::nodes(nodes.iter().map(|(_, node)| (Some(pool), *node)));
        let rest = match nodes.len() {
            1 => format!(" joined {age} ago, and never had its configuration"),
            _ => format!(" never had its configuration, the oldest joined {age} ago"),
        };
        Some(Item::warning("new", of_pools(&[pool]).then(": ").then(listed).then(rest)))
    };
    outcome.pools.iter().filter_map(item).collect()
}

/// The next step after pauses. `None` without pauses.
fn next_step_after_pauses(pauses: &[(&PoolName, usize, &Pause)]) -> Option<String> {
    let pools: Vec<&str> = pauses.iter().map(|(pool, ..)| pool.as_str()).collect();
    let resume = match pools.as_slice() {
        [] => return None,
        few if few.len() <= MAX_NAMES => format!("`nodecfg resume {}`", few.join(" ")),
        _ => "`nodecfg resume` with the names of these pools".to_owned(),
    };
    Some(format!("when the reason no longer applies: {resume}, and sync again"))
}

/// The next steps after stops: one for all pools that need the same.
fn next_steps(outcome: &Outcome, stops: &[(Vec<&PoolName>, &StopReason)]) -> Vec<String> {
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
