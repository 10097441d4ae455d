//! The cluster part of a review as text: ConfigMaps, pauses, the nodes in order, awaited and unchanged nodes, moves
//! between pools, and nodes without a pool.

use std::collections::BTreeMap;
use std::io;

use super::group::limit;
use super::page::Page;
use super::pointers::changes_beside_assignments;
use super::sentences::Fact;
use super::{drains, outlook};
use crate::report::progress::message;
use crate::report::style::{added, quiet, warning};
use crate::report::{count, names};
use crate::review::{Group, LeftAlone, PoolReview, Review, Rollout};
use nodecfg_plan::{Action, Step, Wave, WaveKind, Why};
use nodecfg_rollout::PoolStart;

/// The maximum node names per line.
const MAX_NAMES: usize = 8;

fn plain(text: &str) -> String {
    text.to_owned()
}

/// Reports whether a pool needs no details: all nodes are up to date and the pool is not paused, or the plan excludes
/// all nodes.
pub(super) fn needs_no_details(rollout: &Rollout) -> bool {
    rollout.waves.iter().all(|wave| wave.steps.is_empty())
        && (rollout.left_alone.iter().all(|left| left.why == Why::Converged) || is_out_of_scope(rollout))
        && (rollout.pause.is_none() || is_out_of_scope(rollout))
}

/// Reports whether the plan excludes all nodes of the pool.
pub(super) fn is_out_of_scope(rollout: &Rollout) -> bool {
    rollout.left_alone.iter().any(|left| left.why == Why::OutOfScope)
        && rollout.waves.is_empty()
        && rollout.left_alone.iter().all(|left| left.why == Why::OutOfScope)
}

/// The number of nodes, of changes and a pause, for the heading of the pool.
pub(super) fn header_parts(rollout: &Rollout, group: &Group<'_>) -> Vec<String> {
    let mut parts = vec![count(rollout.nodes, "node")];
    if rollout.assign > 0 {
        parts.push(match rollout.start {
            PoolStart::Stops { .. } => format!("{} not assigned", rollout.assign),
            PoolStart::Held { .. } => format!("{} held", rollout.assign),
            _ => format!("{} to assign, {}", rollout.assign, limit(group).unwrap_or_default()),
        });
    }
    if rollout.paused {
        parts.push("paused".to_owned());
    }
    parts
}

/// Writes the drain of the pools, and with `all` the pods of each node.
pub(super) fn write_drain(page: &mut Page<'_>, group: &Group<'_>, all: bool) -> io::Result<()> {
    let Some((summary, drain)) = drains::summary(group).zip(group.merged.drain()) else { return Ok(()) };
    page.prose(2, &summary, plain)?;
    for fact in drains::pod_facts(drain) {
        match fact.label {
            Some(label) => page.prose(4, &format!("{} {}", warning(label), fact.text), plain)?,
            None => page.prose(4, &fact.text, plain)?,
        }
    }
    for node in drain.forecast().into_iter().filter(|_| all).flat_map(|forecast| &forecast.nodes) {
        page.prose(6, &drains::node_line(node), |line| quiet(line))?;
    }
    Ok(())
}

/// Writes the pool's ConfigMap, its pause, its nodes in order, and the unchanged nodes.
pub(super) fn write_rollout(page: &mut Page<'_>, review: &Review, pool: &PoolReview) -> io::Result<()> {
    match (&review.cluster, &pool.config_map.after, pool.config_map.create) {
        (Some(cluster), Some(name), Some(create)) => {
            let state = if create { added("to be created") } else { quiet("exists") };
            page.prose(2, &format!("ConfigMap {}/{name} {state}", cluster.namespace), plain)?;
        }
        (None, Some(after), _) if pool.changes_nodes() => match &pool.config_map.before {
            Some(before) => page.prose(2, &format!("ConfigMap {before} → {after}"), plain)?,
            None => page.prose(2, &format!("ConfigMap {after}"), plain)?,
        },
        _ => {}
    }
    let Some(rollout) = &pool.rollout else { return Ok(()) };
    for Fact { label, text } in outlook::conditions(rollout) {
        let label = label.map_or_else(String::new, |label| format!("{} ", warning(label)));
        page.prose(2, &format!("{label}{text}"), plain)?;
    }
    for wave in rollout.waves.iter().take(outlook::MAX_WAVES) {
        write_wave(page, wave)?;
    }
    if let Some(more) = outlook::more_waves(rollout) {
        page.prose(2, &more, plain)?;
    }
    write_left_alone(page, rollout)
}

fn write_wave(page: &mut Page<'_>, wave: &Wave) -> io::Result<()> {
    let (assign, awaited): (Vec<&Step>, Vec<&Step>) = wave.steps.iter().partition(|step| step.action == Action::Assign);
    if !assign.is_empty() || matches!(wave.kind, WaveKind::Canary { .. }) {
        let label = outlook::wave(wave, "as the budget allows");
        let listed = if wave.steps.is_empty() {
            "already converged".to_owned()
        } else {
            names(wave.steps.iter().map(|step| step.node.as_str()), MAX_NAMES)
        };
        page.prose(2, &format!("{label}: {listed}"), plain)?;
    }
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for step in awaited {
        if let Action::Await { waiting, failure } = &step.action {
            let state = match (waiting, failure) {
                (_, Some(failure)) => warning(message(failure)),
                (Some(waiting), None) => message(waiting),
                (None, None) => "converged, watched as a canary".to_owned(),
            };
            groups.entry(state).or_default().push(step.node.as_str());
        }
    }
    for (state, nodes) in groups {
        page.prose(2, &format!("assigned earlier: {}: {state}", names(nodes, MAX_NAMES)), plain)?;
    }
    Ok(())
}

fn write_left_alone(page: &mut Page<'_>, rollout: &Rollout) -> io::Result<()> {
    let converged = rollout.left_alone.iter().filter(|left| left.why == Why::Converged).count();
    if converged > 0 {
        writeln!(page.out, "  {}", quiet(format!("{} already converged", count(converged, "node"))))?;
    }
    let mut groups: BTreeMap<&str, Vec<&LeftAlone>> = BTreeMap::new();
    for left in rollout.left_alone.iter().filter(|left| left.why != Why::Converged) {
        // The author and the reason of the pause stand above.
        let ordered = matches!(left.why, Why::Paused { order: Some(_) });
        groups.entry(if ordered { "the pool is paused" } else { &left.reason }).or_default().push(left);
    }
    for (reason, group) in groups {
        let blocked = group.iter().any(|left| left.blocked);
        let listed = names(group.iter().map(|left| left.node.as_str()), MAX_NAMES);
        let line = format!("{listed}: {reason}");
        let line = if blocked { format!("{} {line}", warning("blocked:")) } else { format!("unchanged: {line}") };
        page.prose(2, &line, plain)?;
    }
    Ok(())
}

/// Writes nodes to release, nodes that move between pools, nodes without a pool, and unused ConfigMaps.
pub(super) fn write_cluster(page: &mut Page<'_>, review: &Review) -> io::Result<()> {
    let Some(cluster) = &review.cluster else { return Ok(()) };
    for change in changes_beside_assignments(cluster) {
        page.prose(0, &change, plain)?;
        writeln!(page.out)?;
    }
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in &cluster.moves {
        let pool = |pool: &Option<nodecfg_contract::names::PoolName>| {
            pool.as_ref().map_or_else(|| "no pool".to_owned(), |pool| format!("pool {pool}"))
        };
        let direction = format!("from {} to {}", pool(&one.from), pool(&one.to));
        groups.entry(direction).or_default().push(one.node.as_str());
    }
    for (direction, nodes) in &groups {
        page.prose(0, &format!("nodes moving {direction}: {}", names(nodes.iter().copied(), MAX_NAMES)), plain)?;
    }
    if !groups.is_empty() {
        writeln!(page.out)?;
    }
    let (orphans, others): (Vec<_>, Vec<_>) = cluster.unpooled.iter().partition(|node| node.still_on.is_some());
    if !orphans.is_empty() {
        let listed = names(orphans.iter().map(|node| node.node.as_str()), MAX_NAMES);
        let line = format!("{} {listed}: no longer in any pool; configuration unchanged", warning("note:"));
        page.prose(0, &line, plain)?;
    }
    if !others.is_empty() {
        let listed = names(others.iter().map(|node| node.node.as_str()), MAX_NAMES);
        page.prose(0, &format!("in no pool: {listed}"), |line| quiet(line))?;
    }
    if !cluster.unpooled.is_empty() {
        writeln!(page.out)?;
    }
    if !cluster.prunable.is_empty() {
        let names = names(cluster.prunable.iter().map(String::as_str), 3);
        let unused = count(cluster.prunable.len(), "ConfigMap");
        page.prose(0, &format!("{unused} unused: {names}"), |line| quiet(line))?;
        writeln!(page.out)?;
    }
    Ok(())
}
