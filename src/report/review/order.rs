//! In what order a sync changes the nodes of a pool, and which it leaves alone.

use std::collections::BTreeMap;

use super::outlook::{MAX_NAMES, stop};
use crate::report::document::{Item, Text};
use crate::report::progress::message;
use crate::report::{count, names, whole_duration};
use crate::review::{LeftAlone, PlannedSteps, Rollout};
use nodecfg_plan::{Action, Step, Wave, WaveDomain, WaveKind, Why};
use nodecfg_rollout::PoolStart;

/// The maximum number of listed waves. A label that orders the nodes may have many values.
const MAX_WAVES: usize = 12;

/// When the nodes of a pool start, which were assigned earlier, and which stay unchanged. `fleet_paused`: the pause of the
/// whole fleet stands above. `is_several`: the rollout stands for those of several pools.
pub(super) fn items(rollout: &Rollout, is_several: bool, fleet_paused: bool) -> Vec<Item> {
    let waves = rollout.waves.iter().take(MAX_WAVES).flat_map(wave_items);
    let more = rollout.waves.len().checked_sub(MAX_WAVES).filter(|more| *more > 0);
    let more = more.map(|more| Item::new(format!("then {}", count(more, "more value"))));
    conditions(rollout, is_several, fleet_paused)
        .into_iter()
        .chain(waves)
        .chain(more)
        .chain(left_alone(rollout))
        .collect()
}

/// Whether and when a sync starts the nodes of a pool: its pause, a stop, the pools before it, a hold, and unavailable
/// nodes.
fn conditions(rollout: &Rollout, is_several: bool, fleet_paused: bool) -> Vec<Item> {
    let pause = rollout.pause.as_ref().filter(|_| !fleet_paused || rollout.despite_pause).map(|pause| {
        let despite = if rollout.despite_pause { "; changed despite the pause" } else { "" };
        Item::warning("paused", format!("{pause}{despite}"))
    });
    let in_repository = (rollout.paused && !fleet_paused && (rollout.pause.is_none() || rollout.despite_pause))
        .then(|| Item::warning("paused", "in the repository (spec.rollout.paused)"));
    let pace = pace(rollout, is_several).map(Item::new);
    let stop = stop(rollout).map(|why| Item::warning("stops at once", why));
    let after = after(rollout).map(Item::new);
    let start = match &rollout.start {
        PoolStart::Held { hold } => Some(Item::warning("held", hold.to_string())),
        PoolStart::Waits => Some(Item::new("waits until unavailable nodes recover: they use up maxUnavailable")),
        PoolStart::Starts | PoolStart::Stops { .. } => None,
    };
    [pause, in_repository, stop, after, start, pace].into_iter().flatten().collect()
}

/// The steps of a pool with nodes to assign, and the time between two starts. `is_several`: the pools have different numbers
/// of nodes.
fn pace(rollout: &Rollout, is_several: bool) -> Option<String> {
    let steps = rollout.steps.as_ref().map(|PlannedSteps { shares, limits, soak_seconds }| {
        let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
        let most = match is_several {
            true => format!("{shares} of the nodes"),
            false => format!("at most {} of {}", limits.join(", then "), count(rollout.nodes, "node")),
        };
        let soak = Some(*soak_seconds).filter(|soak| *soak > 0);
        let soak = soak.map_or_else(String::new, |soak| format!(", each with {} soak", whole_duration(soak)));
        format!("in steps: {most}{soak}, then the rest")
    });
    let interval = rollout.interval_seconds.map(|seconds| format!("one start each {}", whole_duration(seconds)));
    let parts: Vec<String> = steps.into_iter().chain(interval).collect();
    (rollout.assign > 0 && !parts.is_empty()).then(|| parts.join("; "))
}

/// The pools that a pool with nodes to assign waits for.
fn after(rollout: &Rollout) -> Option<String> {
    let names = names(rollout.after.iter().map(|pool| pool.as_str()), MAX_NAMES);
    let (pools, have) = if rollout.after.len() == 1 { ("pool", "has") } else { ("pools", "have") };
    (rollout.assign > 0 && !rollout.after.is_empty()).then(|| format!("starts after {pools} {names} {have} converged"))
}

/// The nodes of a wave to assign, and those that an earlier run assigned, by what they wait for.
fn wave_items(wave: &Wave) -> Vec<Item> {
    let (assign, awaited): (Vec<&Step>, Vec<&Step>) = wave.steps.iter().partition(|step| step.action == Action::Assign);
    let mut items = Vec::new();
    if !assign.is_empty() || matches!(wave.kind, WaveKind::Canary { .. }) {
        let nodes = match wave.steps.is_empty() {
            true => Text::from("already converged"),
            false => Text::nodes(wave.steps.iter().map(|step| (None, &step.node))),
        };
        items.push(Item::new(Text::from(format!("{}: ", when(wave))).then(nodes)));
    }
    let mut groups: BTreeMap<(String, bool), Vec<&Step>> = BTreeMap::new();
    for step in awaited {
        if let Action::Await { waiting, failure } = &step.action {
            let state = match (waiting, failure) {
                (_, Some(failure)) => message(failure),
                (Some(waiting), None) => message(waiting),
                (None, None) => "converged, watched as a canary".to_owned(),
            };
            groups.entry((state, failure.is_some())).or_default().push(step);
        }
    }
    items.extend(groups.into_iter().map(|((state, failed), steps)| {
        let text = Text::nodes(steps.iter().map(|step| (None, &step.node))).then(format!(": {state}"));
        if failed { Item::warning("assigned earlier", text) } else { Item::labeled("assigned earlier", text) }
    }));
    items
}

/// When the nodes of a wave start.
fn when(wave: &Wave) -> String {
    const PACE: &str = "as the budget allows";
    match (wave.kind, &wave.domain) {
        (WaveKind::Unavailable, _) => "first, already unavailable".to_owned(),
        (WaveKind::Canary { soak_seconds: 0 }, _) => "canary".to_owned(),
        (WaveKind::Canary { soak_seconds }, _) => format!("canary, then {} soak", whole_duration(soak_seconds)),
        (WaveKind::Rest, None) => format!("then, {PACE}"),
        (WaveKind::Rest, Some(WaveDomain { domain, soak_seconds: Some(soak @ 1..) })) => {
            format!("then, after {} soak, {domain}, {PACE}", whole_duration(*soak))
        }
        (WaveKind::Rest, Some(WaveDomain { domain, .. })) => format!("then {domain}, {PACE}"),
    }
}

/// The nodes that stay unchanged, by the reason.
fn left_alone(rollout: &Rollout) -> Vec<Item> {
    let converged = rollout.left_alone.iter().filter(|left| left.why == Why::Converged).count();
    let converged = (converged > 0).then(|| Item::quiet(format!("{} already converged", count(converged, "node"))));
    let mut groups: BTreeMap<&str, Vec<&LeftAlone>> = BTreeMap::new();
    for left in rollout.left_alone.iter().filter(|left| left.why != Why::Converged) {
        // The author and the reason of the pause stand above.
        let ordered = matches!(left.why, Why::Paused { order: Some(_) });
        groups.entry(if ordered { "the pool is paused" } else { &left.reason }).or_default().push(left);
    }
    let item = |(reason, group): (&str, Vec<&LeftAlone>)| {
        let text = Text::nodes(group.iter().map(|left| (None, &left.node))).then(format!(": {reason}"));
        match group.iter().any(|left| left.blocked) {
            true => Item::warning("blocked", text),
            false => Item::labeled("unchanged", text),
        }
    };
    converged.into_iter().chain(groups.into_iter().map(item)).collect()
}
