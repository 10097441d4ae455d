//! How a rollout ended: a table of nodes, then what went wrong and where to look.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::explain;
use super::source;
use super::style::{bad, good, heading, quiet, warning};
use super::table::Table;
use super::{count, duration, names};
use nodecfg_contract::names::PoolName;
use nodecfg_contract::observed::Pause;
use nodecfg_planning::judge::Failure;
use nodecfg_planning::plan::Why;
use nodecfg_planning::rollout::{End, NodeOutcome, Outcome, PoolOutcome, StopReason};
use nodecfg_planning::state::State;

/// How many nodes the table shows. Where there are more, it leaves out those that converged.
const ROWS: usize = 50;

/// Writes the table of nodes that did or should have changed, the explanations, the way on, and a last line. `seconds` is
/// how long it took.
///
/// # Errors
/// When the writer does.
pub fn write(out: &mut dyn Write, outcome: &Outcome, seconds: f64) -> io::Result<()> {
    write_table(out, outcome)?;
    write_explanations(out, outcome)?;
    write_stops(out, outcome)?;
    write_pauses(out, outcome)?;
    writeln!(out, "{}", totals(outcome, seconds))
}

/// A node that did or should have changed.
struct Row<'a> {
    pool: &'a PoolName,
    node: &'a NodeOutcome,
}

fn write_table(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut rows: Vec<Row<'_>> = outcome
        .pools
        .iter()
        .flat_map(|(pool, ended)| ended.nodes.iter().map(move |node| Row { pool, node }))
        .filter(|row| !matches!(&row.node.end, End::LeftAlone { why } if !why.is_blocked()))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut rest = Vec::new();
    if rows.len() > ROWS {
        // What somebody has to look at must not be what is cut. The sort keeps pools and nodes in order otherwise.
        rows.sort_by_key(|row| weight(&row.node.end));
        let amiss = rows.iter().take_while(|row| row.node.end != End::Converged).count();
        rest = rows.split_off(amiss.min(ROWS));
    }
    let shown = rows.len();
    let cells = rows.into_iter().map(|row| {
        [
            row.node.node.to_string(),
            row.pool.to_string(),
            source::short(row.node.from.as_ref()),
            source::short(row.node.to.source()),
            state(&row.node.end).to_owned(),
            row.node.seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}")),
        ]
    });
    if shown > 0 {
        writeln!(out, "{}", Table::plain(["NODE", "POOL", "FROM", "TO", "STATE", "SECONDS"], cells))?;
    }
    if !rest.is_empty() {
        let states = in_numbers(rest.iter().map(|row| &row.node.end));
        let more = if shown > 0 { "more nodes" } else { "nodes" };
        writeln!(out, "{}", quiet(format!("{} {more}: {states}; -o json lists them", rest.len())))?;
    }
    writeln!(out)
}

/// States and how many nodes have each: `50 not started, 900 converged`.
pub(super) fn in_numbers<'a>(ends: impl Iterator<Item = &'a End>) -> String {
    let mut states: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    for end in ends {
        *states.entry((weight(end), state(end))).or_default() += 1;
    }
    let states: Vec<String> = states.iter().map(|((_, state), number)| format!("{number} {state}")).collect();
    states.join(", ")
}

/// What is shown first where not everything is: what went wrong, then what is left to do, then the rest. Coarser than the
/// order of states: it groups ends by what somebody has to do about them.
pub(super) fn weight(end: &End) -> u8 {
    match end {
        End::Failed { .. } | End::Refused { .. } => 0,
        End::Changed { .. } => 1,
        End::LeftAlone { .. } => 2,
        End::InFlight => 3,
        End::RolledBack => 4,
        End::NotStarted => 5,
        End::Gone => 6,
        End::Converged => 7,
    }
}

/// A node's end in a word or two: that of its state, or a more exact one.
#[must_use]
pub fn state(end: &End) -> &'static str {
    match end {
        End::LeftAlone { why: Why::Conflict { .. } } => "conflict",
        End::LeftAlone { why: Why::Unsupported { .. } | Why::NoDynamicConfig | Why::WouldRefuse { .. } } => {
            "unsupported"
        }
        End::LeftAlone { why: Why::AgentSilent } => "no agent",
        End::LeftAlone { .. } => "unchanged",
        End::Failed { rolled_back: true, .. } => "failed, rolled back",
        End::Failed { failure: Failure::TimedOut { .. }, .. } => "timed out",
        End::Refused { .. } => "refused",
        _ => end.state().word(),
    }
}

/// Says once for each kind of failure what it means, with the nodes that have it.
fn write_explanations(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut groups: BTreeMap<(u8, &str, String), Vec<&NodeOutcome>> = BTreeMap::new();
    for node in outcome.pools.values().flat_map(|pool| &pool.nodes) {
        let Some((label, text)) = words(&node.end) else { continue };
        groups.entry((weight(&node.end), label, text)).or_default().push(node);
    }
    for ((weight, label, text), nodes) in groups {
        let Some(first) = nodes.first() else { continue };
        let listed = names(nodes.iter().map(|node| node.node.as_str()), 8);
        let label = if weight == 0 { bad(format!("{label}:")) } else { warning(format!("{label}:")) };
        writeln!(out, "{label} {listed}: {text}")?;
        if let Some(explanation) = explanation(first) {
            writeln!(out, "  meaning: {}", explanation.meaning)?;
            for cause in explanation.causes {
                writeln!(out, "  likely:  {cause}")?;
            }
            writeln!(out, "  look at: {}", explanation.look_at)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What kind of end it is that somebody has to look at, and the words for it: the node's own, or the API server's.
pub(super) fn words(end: &End) -> Option<(&'static str, String)> {
    Some(match end {
        End::Failed { failure: Failure::TimedOut { waiting }, .. } => ("timed out", waiting.to_string()),
        End::Failed { failure: Failure::Refused { error }, .. } => ("failed", error.clone()),
        End::Refused { error } => ("refused", error.clone()),
        End::LeftAlone { why } if why.is_blocked() => ("blocked", why.to_string()),
        End::Changed { to } => {
            ("changed", format!("somebody else points it at {} now; it was left so", source::full(to.as_ref())))
        }
        _ => return None,
    })
}

/// Says why pools stopped, and once for each kind of reason how to go on.
fn write_stops(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let stops = stops(outcome);
    for (pools, reason) in &stops {
        let label = if pools.len() == 1 { "pool" } else { "pools" };
        writeln!(out, "{} {label} {}: {reason}", bad("stopped:"), names(pools.iter().map(|pool| pool.as_str()), 8))?;
    }
    for way in ways_on(&stops) {
        writeln!(out, "{} {way}", warning("next:"))?;
    }
    if stops.is_empty() { Ok(()) } else { writeln!(out) }
}

/// Why pools stopped, each reason once with the pools that have it.
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

/// Says which pools somebody has paused, with how many nodes that are left as they are for that, and how to go on.
fn write_pauses(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let pauses = pauses(outcome);
    for (pool, nodes, pause) in &pauses {
        let nodes = count(*nodes, "node");
        writeln!(out, "{} pool {pool}, {nodes} left as they are: {pause}", warning("paused:"))?;
    }
    if pauses.is_empty() {
        return Ok(());
    }
    writeln!(out, "{} {}\n", warning("next:"), way_after(&pauses))
}

/// The pools of which nodes were left as they are because somebody has paused them, how many, and by whom.
pub(super) fn pauses(outcome: &Outcome) -> Vec<(&PoolName, usize, &Pause)> {
    fn of_pool<'a>((pool, ended): (&'a PoolName, &'a PoolOutcome)) -> Option<(&'a PoolName, usize, &'a Pause)> {
        let mut paused = ended.nodes.iter().filter_map(|node| match &node.end {
            End::LeftAlone { why: Why::Paused { order } } => order.as_ref(),
            _ => None,
        });
        paused.next().map(|pause| (pool, 1 + paused.count(), pause))
    }
    outcome.pools.iter().filter_map(of_pool).collect()
}

/// How to go on after pauses.
pub(super) fn way_after(pauses: &[(&PoolName, usize, &Pause)]) -> String {
    let pools: Vec<&str> = pauses.iter().map(|(pool, ..)| pool.as_str()).collect();
    format!("once the reason is gone: nodecfg resume {}, and sync again", pools.join(" "))
}

/// How to go on after these stops, each way once.
pub(super) fn ways_on(stops: &[(Vec<&PoolName>, &StopReason)]) -> Vec<String> {
    let mut ways = Vec::new();
    for way in stops.iter().filter_map(|(pools, reason)| explain::way_on(pools, reason)) {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways
}

/// The last line: the outcome in numbers, and how long it took.
#[must_use]
pub fn totals(outcome: &Outcome, seconds: f64) -> String {
    let took = duration(seconds);
    let verdict = if outcome.is_complete() {
        format!("{} in {took}.", good("Done"))
    } else {
        format!("{} after {took}.", bad("Not done"))
    };
    let (nodes, parts) = numbers(outcome);
    format!("{verdict} {}{parts}.", heading(nodes))
}

/// The number of nodes, and how many ended in each state: `3 nodes` and `: 2 converged, 1 failed`. What is as wanted comes
/// first, then the worst.
pub(super) fn numbers(outcome: &Outcome) -> (String, String) {
    const WANTED: [State; 2] = [State::Converged, State::Settled];
    let states = outcome.states();
    let others = states.keys().copied().filter(|state| !WANTED.contains(state));
    let parts: Vec<String> = WANTED
        .into_iter()
        .chain(others)
        .filter_map(|state| Some((state, states.get(&state)?)))
        .map(|(state, number)| match state {
            State::Settled => format!("{number} as wanted already"),
            _ => format!("{number} {}", state.word()),
        })
        .collect();
    let nodes = count(states.values().sum(), "node");
    (nodes, if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) })
}

/// What there is to explain about how a node ended.
pub(super) fn explanation(node: &NodeOutcome) -> Option<explain::Explanation> {
    match &node.end {
        End::Failed { failure, .. } => Some(explain::failure(&node.node, failure)),
        End::LeftAlone { why } => explain::blocked(&node.node, why),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_planning::judge::Target;
    use nodecfg_planning::plan::fixtures::{node_name, pool_name, source as config_map};
    use nodecfg_planning::rollout::PoolOutcome;

    fn outcome(ends: impl IntoIterator<Item = End>) -> Outcome {
        let node = |(index, end)| NodeOutcome {
            node: node_name(&format!("n{index:03}")),
            from: None,
            to: Target::Source(config_map("prod-gpu-x")),
            end,
            seconds: Some(1.0),
        };
        let nodes = ends.into_iter().enumerate().map(node).collect();
        Outcome { pools: [(pool_name("gpu"), PoolOutcome { stopped: None, nodes })].into() }
    }

    fn text(outcome: &Outcome) -> String {
        let mut out = Vec::new();
        write(&mut out, outcome, 61.0).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    fn failed(error: &str) -> End {
        End::Failed { failure: Failure::Refused { error: error.to_owned() }, rolled_back: false }
    }

    #[test]
    fn a_small_rollout_shows_every_node_in_order() {
        let text = text(&outcome([End::Converged, failed("no"), End::NotStarted]));
        let nodes: Vec<&str> = text.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
        assert_eq!(nodes, ["n000", "n001", "n002"]);
        assert!(text.ends_with("Not done after 1m01s. 3 nodes: 1 converged, 1 failed, 1 not started.\n"), "{text}");
    }

    #[test]
    fn a_big_rollout_shows_what_is_amiss_and_counts_the_rest() {
        let converged = std::iter::repeat_n(End::Converged, 900);
        let waiting = std::iter::repeat_n(End::NotStarted, 99);
        let text = text(&outcome(converged.chain(waiting).chain([failed("no")])));
        let rows: Vec<&str> = text.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
        assert_eq!((rows[0], rows[1], rows.len()), ("n999", "n900", ROWS + 1), "{text}");
        assert!(text.contains("950 more nodes: 50 not started, 900 converged; -o json lists them\n"), "{text}");
    }

    #[test]
    fn a_big_rollout_that_went_well_needs_no_table() {
        let text = text(&outcome(std::iter::repeat_n(End::Converged, 60)));
        assert_eq!(text, "60 nodes: 60 converged; -o json lists them\n\nDone in 1m01s. 60 nodes: 60 converged.\n");
    }

    #[test]
    fn the_same_failure_is_explained_once() {
        let text = text(&outcome([failed("no"), failed("no"), failed("never")]));
        assert_eq!(text.matches("meaning:").count(), 2, "{text}");
        assert!(text.contains("failed: n000, n001: no\n"), "{text}");
    }

    #[test]
    fn nothing_to_do_is_one_line() {
        let settled = outcome([End::LeftAlone { why: Why::Converged }]);
        assert_eq!(text(&settled), "Done in 1m01s. 1 node: 1 as wanted already.\n");
        assert_eq!(text(&outcome([])), "Done in 1m01s. 0 nodes.\n");
    }
}
