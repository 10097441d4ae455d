//! The status for a ticket or a job's page.

use std::io::{self, Write};

use super::super::count;
use super::super::markdown::{code, prose};
use super::super::source::short;
use super::text::{closing, in_numbers};
use super::words::Told;
use super::{explanation, of_fleet, pause, words};
use crate::status::FleetStatus;

/// A cluster of no more nodes shows all of them.
const SMALL: usize = 20;
/// How many nodes that have not converged are shown where there are more.
const NODES: usize = 50;

/// Writes the pools, the nodes that are not as they shall be, or all of a small cluster, and a last line.
///
/// # Errors
/// When the writer does.
pub fn markdown(out: &mut dyn Write, status: &FleetStatus, all: bool) -> io::Result<()> {
    let shown = |name: Option<String>| name.map_or_else(|| "–".to_owned(), |name| code(&name));
    for Told { label, text, .. } in status.fleets.iter().flat_map(of_fleet) {
        writeln!(out, "**{label}** {}\n", prose(&text))?;
    }
    writeln!(out, "| pool | nodes | converged | configurations | states |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for pool in &status.pools {
        let paused =
            pool.paused.as_ref().map(|paused| format!("; paused {}", prose(&pause(paused)))).unwrap_or_default();
        writeln!(
            out,
            "| {} | {} | {}% | {} | {}{paused} |",
            shown(pool.pool.as_ref().map(ToString::to_string)),
            pool.nodes,
            pool.percent(),
            pool.configurations,
            prose(&in_numbers(&pool.states)),
        )?;
    }
    writeln!(out)?;
    let amiss = status.nodes.iter().filter(|node| !node.state.is_settled()).count();
    let most = if all || status.nodes.len() <= SMALL { status.nodes.len() } else { amiss.min(NODES) };
    if most > 0 {
        writeln!(
            out,
            "| node | pool | ready | kubelet | desired | assigned | active | last known good | since | state |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    }
    for node in status.nodes.iter().take(most) {
        let meaning = explanation(node).map(|explanation| format!("; {}", explanation.meaning)).unwrap_or_default();
        let said = words(node).map(|words| format!(": {words}{meaning}")).unwrap_or_default();
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
            prose(&format!("{}{said}", node.state)),
        )?;
    }
    if most > 0 {
        writeln!(out)?;
    }
    if amiss > most {
        writeln!(out, "And {} more not converged.\n", count(amiss - most, "node"))?;
    }
    let (label, text) = closing(status);
    writeln!(out, "**{label}** {text}")
}
