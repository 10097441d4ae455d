//! Text summary of a finished rollout: a table of nodes, problems with explanations, stops, pauses, and next steps.
//! Also the facts for [`run_summary`](super::run_summary).

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::explain;
use super::source;
use super::style::{bad, good, heading, quiet, warning};
use super::table::Table;
use super::{count, duration, names};
use nodecfg_contract::names::PoolName;
use nodecfg_contract::observed::Pause;
use nodecfg_planning::convergence::ConvergenceFailure;
use nodecfg_planning::plan::Why;
use nodecfg_planning::rollout::{End, NodeOutcome, Outcome, PoolOutcome, StopReason};
use nodecfg_planning::state::State;

/// The maximum rows of the table. A longer table omits converged nodes, and the least urgent of the others.
const MAX_ROWS: usize = 50;

/// Writes the table of nodes, the explanations, stops and pauses with next steps, and the totals. `seconds` is the
/// duration.
pub fn write(out: &mut dyn Write, outcome: &Outcome, seconds: f64) -> io::Result<()> {
    write_table(out, outcome)?;
    write_explanations(out, outcome)?;
    write_stops(out, outcome)?;
    write_pauses(out, outcome)?;
    writeln!(out, "{}", totals(outcome, seconds))
}

/// A node that changed or should have changed.
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
    if rows.len() > MAX_ROWS {
        // Nodes with problems come first, so that the limit omits them last. The sort is stable: pools and nodes keep
        // their order.
        rows.sort_by_key(|row| priority(&row.node.end));
        let problems = rows.iter().take_while(|row| row.node.end != End::Converged).count();
        rest = rows.split_off(problems.min(MAX_ROWS));
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
        let states = state_counts(rest.iter().map(|row| &row.node.end));
        let more = if shown > 0 { "more nodes" } else { "nodes" };
        writeln!(out, "{}", quiet(format!("{} {more}: {states}; -o json lists them", rest.len())))?;
    }
    writeln!(out)
}

/// The number of nodes per state: `50 not started, 900 converged`.
pub(super) fn state_counts<'a>(ends: impl Iterator<Item = &'a End>) -> String {
    let mut states: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    for end in ends {
        *states.entry((priority(end), state(end))).or_default() += 1;
    }
    let states: Vec<String> = states.iter().map(|((_, state), number)| format!("{number} {state}")).collect();
    states.join(", ")
}

/// The display priority of a result; 0 is the most urgent. Coarser than the order of states: groups results by the
/// action that they need.
pub(super) fn priority(end: &End) -> u8 {
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

/// The result of a node in one or two words. More specific than its state for some results.
#[must_use]
pub fn state(end: &End) -> &'static str {
    match end {
        End::LeftAlone { why: Why::Conflict { .. } } => "conflict",
        End::LeftAlone { why: Why::Unsupported { .. } | Why::NoDynamicConfig | Why::WouldRefuse { .. } } => {
            "unsupported"
        }
        End::LeftAlone { why: Why::AgentSilent } => "no agent",
        End::LeftAlone { why: Why::Unreadable(_) } => "unreadable",
        End::LeftAlone { why: Why::Contested { .. } } => "contested",
        End::LeftAlone { why: Why::Maintained { .. } } => "maintained",
        End::LeftAlone { .. } => "unchanged",
        End::Failed { rolled_back: true, .. } => "failed, rolled back",
        End::Failed { failure: ConvergenceFailure::TimedOut { .. }, .. } => "timed out",
        End::Refused { .. } => "refused",
        _ => end.state().word(),
    }
}

/// Writes each problem once, with its nodes and its explanation.
fn write_explanations(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut groups: BTreeMap<(u8, &str, String), Vec<&NodeOutcome>> = BTreeMap::new();
    for node in outcome.pools.values().flat_map(|pool| &pool.nodes) {
        let Some((label, text)) = problem(&node.end) else { continue };
        groups.entry((priority(&node.end), label, text)).or_default().push(node);
    }
    for ((priority, label, text), nodes) in groups {
        let Some(first) = nodes.first() else { continue };
        let listed = names(nodes.iter().map(|node| node.node.as_str()), 8);
        let label = if priority == 0 { bad(format!("{label}:")) } else { warning(format!("{label}:")) };
        writeln!(out, "{label} {listed}: {text}")?;
        if let Some(explanation) = explanation(first) {
            writeln!(out, "  meaning: {}", explanation.meaning)?;
            for cause in explanation.causes {
                writeln!(out, "  likely:  {cause}")?;
            }
            writeln!(out, "  see:     {}", explanation.look_at)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The kind of problem of a node and its message. `None` for results without a problem.
pub(super) fn problem(end: &End) -> Option<(&'static str, String)> {
    Some(match end {
        End::Failed { failure: ConvergenceFailure::TimedOut { waiting }, .. } => ("timed out", waiting.to_string()),
        End::Failed { failure: ConvergenceFailure::Refused { error }, .. } => ("failed", error.clone()),
        End::Refused { error } => ("refused", error.clone()),
        End::LeftAlone { why } if why.is_blocked() => ("blocked", why.to_string()),
        End::Changed { to } => {
            ("changed", format!("changed by another client to {}; left unchanged", source::full(to.as_ref())))
        }
        _ => return None,
    })
}

/// Writes why pools stopped, and each next step once.
fn write_stops(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let stops = stops(outcome);
    for (pools, reason) in &stops {
        let label = if pools.len() == 1 { "pool" } else { "pools" };
        writeln!(out, "{} {label} {}: {reason}", bad("stopped:"), names(pools.iter().map(|pool| pool.as_str()), 8))?;
    }
    for step in next_steps(&stops) {
        writeln!(out, "{} {step}", warning("next:"))?;
    }
    if stops.is_empty() { Ok(()) } else { writeln!(out) }
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

/// Writes the pools paused by `nodecfg pause` with the number of their unchanged nodes, and the next step.
fn write_pauses(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let pauses = pauses(outcome);
    for (pool, nodes, pause) in &pauses {
        let nodes = count(*nodes, "node");
        writeln!(out, "{} pool {pool}, {nodes} unchanged: {pause}", warning("paused:"))?;
    }
    if pauses.is_empty() {
        return Ok(());
    }
    writeln!(out, "{} {}\n", warning("next:"), next_step_after_pauses(&pauses))
}

/// The pools paused by `nodecfg pause`, the number of their unchanged nodes, and the pause.
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

/// The next step after pauses.
pub(super) fn next_step_after_pauses(pauses: &[(&PoolName, usize, &Pause)]) -> String {
    let pools: Vec<&str> = pauses.iter().map(|(pool, ..)| pool.as_str()).collect();
    format!("when the reason no longer applies: nodecfg resume {}, and sync again", pools.join(" "))
}

/// The next steps after stops, each once.
pub(super) fn next_steps(stops: &[(Vec<&PoolName>, &StopReason)]) -> Vec<String> {
    let mut steps = Vec::new();
    for step in stops.iter().filter_map(|(pools, reason)| explain::next_step(pools, reason)) {
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

/// The last line: the result, the duration and the node counts.
#[must_use]
pub fn totals(outcome: &Outcome, seconds: f64) -> String {
    let took = duration(seconds);
    let verdict = if outcome.is_complete() {
        format!("{} in {took}.", good("Done"))
    } else {
        format!("{} after {took}.", bad("Not done"))
    };
    let (nodes, parts) = node_counts(outcome);
    format!("{verdict} {}{parts}.", heading(nodes))
}

/// The number of nodes, and the number per state: `3 nodes` and `: 2 converged, 1 failed`. Good states come first,
/// then the worst.
pub(super) fn node_counts(outcome: &Outcome) -> (String, String) {
    const GOOD: [State; 2] = [State::Converged, State::Settled];
    let states = outcome.states();
    let others = states.keys().copied().filter(|state| !GOOD.contains(state));
    let parts: Vec<String> = GOOD
        .into_iter()
        .chain(others)
        .filter_map(|state| Some((state, states.get(&state)?)))
        .map(|(state, number)| match state {
            State::Settled => format!("{number} already up to date"),
            _ => format!("{number} {}", state.word()),
        })
        .collect();
    let nodes = count(states.values().sum(), "node");
    (nodes, if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) })
}

/// The explanation of a node's result, if one exists.
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
    use nodecfg_planning::convergence::Target;
    use nodecfg_planning::plan::fixtures::{node_name, pool_name, source as config_map};
    use nodecfg_planning::rollout::PoolOutcome;

    fn outcome(ends: impl IntoIterator<Item = End>) -> Outcome {
        let node = |(index, end)| NodeOutcome {
            node: node_name(&format!("n{index:03}")),
            from: None,
            to: Target::Source(config_map("prod-gpu-x").into()),
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
        End::Failed { failure: ConvergenceFailure::Refused { error: error.to_owned() }, rolled_back: false }
    }

    #[test]
    fn small_rollout_lists_every_node_in_order() {
        let text = text(&outcome([End::Converged, failed("no"), End::NotStarted]));
        let nodes: Vec<&str> = text.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
        assert_eq!(nodes, ["n000", "n001", "n002"]);
        assert!(text.ends_with("Not done after 1m01s. 3 nodes: 1 converged, 1 failed, 1 not started.\n"), "{text}");
    }

    #[test]
    fn big_rollout_lists_problems_and_counts_the_rest() {
        let converged = std::iter::repeat_n(End::Converged, 900);
        let waiting = std::iter::repeat_n(End::NotStarted, 99);
        let text = text(&outcome(converged.chain(waiting).chain([failed("no")])));
        let rows: Vec<&str> = text.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
        assert_eq!((rows[0], rows[1], rows.len()), ("n999", "n900", MAX_ROWS + 1), "{text}");
        assert!(text.contains("950 more nodes: 50 not started, 900 converged; -o json lists them\n"), "{text}");
    }

    #[test]
    fn big_successful_rollout_has_no_table() {
        let text = text(&outcome(std::iter::repeat_n(End::Converged, 60)));
        assert_eq!(text, "60 nodes: 60 converged; -o json lists them\n\nDone in 1m01s. 60 nodes: 60 converged.\n");
    }

    #[test]
    fn explains_each_failure_once() {
        let text = text(&outcome([failed("no"), failed("no"), failed("never")]));
        assert_eq!(text.matches("meaning:").count(), 2, "{text}");
        assert!(text.contains("failed: n000, n001: no\n"), "{text}");
    }

    #[test]
    fn no_changes_are_one_line() {
        let settled = outcome([End::LeftAlone { why: Why::Converged }]);
        assert_eq!(text(&settled), "Done in 1m01s. 1 node: 1 already up to date.\n");
        assert_eq!(text(&outcome([])), "Done in 1m01s. 0 nodes.\n");
    }
}
