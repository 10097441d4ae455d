//! The status as markdown, for a ticket or a CI job page.

use std::io::{self, Write};

use super::super::count;
use super::super::markdown::{code, prose};
use super::super::source::short;
use super::sentences::FleetNote;
use super::text::{percent, state, state_counts, totals};
use super::{POOL_NOTES, explanation, fleet_notes, pool_note, problem};
use crate::status::{FleetStatus, NodeStatus};

/// The maximum nodes of a cluster whose nodes are all listed.
const SMALL_CLUSTER: usize = 20;
/// The maximum listed nodes of a larger cluster.
const MAX_NODES: usize = 50;

/// Writes notes about fleets, the pools, the nodes that have not converged, and the totals. With `all` and for a
/// small cluster, lists all nodes.
pub fn markdown(out: &mut dyn Write, status: &FleetStatus, all: bool) -> io::Result<()> {
    let shown = |name: Option<String>| name.map_or_else(|| "–".to_owned(), |name| code(&name));
    for FleetNote { label, text, .. } in status.fleets.iter().flat_map(fleet_notes) {
        writeln!(out, "**{label}** {}\n", prose(&text))?;
    }
    writeln!(out, "| pool | nodes | converged | configurations | states |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for pool in &status.pools {
        let note = |kind| Some(format!("; {kind}: {}", prose(&pool_note(pool, kind, status.at)?)));
        let notes: String = POOL_NOTES.into_iter().filter_map(note).collect();
        writeln!(
            out,
            "| {} | {} | {} | {} | {}{notes} |",
            shown(pool.pool.as_ref().map(ToString::to_string)),
            pool.nodes,
            percent(pool).unwrap_or_else(|| "–".to_owned()),
            pool.configurations,
            prose(&state_counts(&pool.states)),
        )?;
    }
    writeln!(out)?;
    let listed: Vec<&NodeStatus> = match all || status.nodes.len() <= SMALL_CLUSTER {
        true => status.nodes.iter().collect(),
        false => status.nodes.iter().filter(|node| !node.state.is_settled() || node.drain_mark.is_some()).collect(),
    };
    let most = if all { listed.len() } else { listed.len().min(MAX_NODES) };
    if most > 0 {
        writeln!(
            out,
            "| node | pool | ready | kubelet | desired | assigned | active | last known good | since | state |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    }
    for node in listed.iter().take(most) {
        let meaning = explanation(node).map(|explanation| format!("; {}", explanation.meaning)).unwrap_or_default();
        let problem_text = problem(node).map(|words| format!(": {words}{meaning}")).unwrap_or_default();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            code(node.node.as_str()),
            shown(node.pool.as_ref().map(ToString::to_string)),
            node.ready,
            shown(node.kubelet.map(|version| version.to_string())),
            shown(node.desired.as_ref().map(|target| short(target.source()))),
            code(&short(node.assigned.as_ref())),
            code(&short(node.active.as_ref())),
            code(&short(node.last_known_good.as_ref())),
            node.since.map_or_else(|| "–".to_owned(), |since| format!("{since:.0}")),
            prose(&format!("{}{problem_text}", state(node, status.at))),
        )?;
    }
    if most > 0 {
        writeln!(out)?;
    }
    if listed.len() > most {
        let what = if listed.iter().skip(most).any(|node| node.state.is_settled()) { " or draining" } else { "" };
        writeln!(out, "And {} more not converged{what}.\n", count(listed.len() - most, "node"))?;
    }
    let (label, text) = totals(status);
    writeln!(out, "**{label}** {text}")
}
