//! Text summary of a finished rollout: a table of nodes, problems with explanations, stops, pauses, and next steps.
//! Also the facts for [`run_summary`](super::run_summary).

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use jiff::Timestamp;

use super::progress::message;
use super::review::suffix;
use super::steps::SMALL_ROLLOUT;
use super::style::{bad, good, heading, quiet, warning};
use super::table::{Column, MAX_ALIKE, Table};
use super::{count, duration, explain, names, next_opening, recovery, source, stops};
use crate::layout::hanging;
use nodecfg_contract::names::PoolName;
use nodecfg_plan::Why;
use nodecfg_plan::convergence::ConvergenceFailure;
use nodecfg_plan::state::State;
use nodecfg_rollout::{End, NodeOutcome, Outcome};

/// The maximum rows of a folded table.
const MAX_ROWS: usize = 50;
/// The maximum number of stop reasons, and of messages per explanation.
const MAX_REASONS: usize = 8;
/// The maximum number of names in a list.
const MAX_NAMES: usize = 8;

/// The indent of later lines of an explanation, in columns.
const EXPLANATION: usize = 11;

/// Options of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryOptions {
    /// The maximum line width, in columns.
    pub width: usize,
    /// Whether all nodes of a large rollout are listed.
    pub all: bool,
    /// The end of the run.
    pub at: Timestamp,
}

/// Writes the table of nodes, the explanations, stops and pauses with next steps, and the totals. `seconds` is the
/// duration, `remarks` what the result leaves out. Folds nodes alike of a large rollout.
pub fn write(
    out: &mut dyn Write,
    outcome: &Outcome,
    seconds: f64,
    remarks: &[String],
    options: SummaryOptions,
) -> io::Result<()> {
    let mut page = Page { out, width: options.width };
    write_table(&mut page, outcome, options)?;
    if options.all {
        recovery::write(page.out, outcome, options.width)?;
    }
    write_explanations(&mut page, outcome)?;
    write_stops(&mut page, outcome)?;
    write_holds(&mut page, outcome)?;
    write_pauses(&mut page, outcome)?;
    let new_nodes = stops::new_node_texts(outcome, options.at);
    for text in &new_nodes {
        page.line(&format!("{} {text}", warning("new:")), 2)?;
    }
    if !new_nodes.is_empty() {
        writeln!(page.out)?;
    }
    for step in next_steps_of_nodes(outcome) {
        page.line(&format!("{} {step}", warning("next:")), 2)?;
        writeln!(page.out)?;
    }
    page.line(&totals(outcome, seconds, remarks, options.at), 2)
}

/// An output with its width.
struct Page<'a> {
    out: &'a mut dyn Write,
    width: usize,
}

impl Page<'_> {
    /// Writes a line, and what does not fit with this indent.
    fn line(&mut self, text: &str, indent: usize) -> io::Result<()> {
        writeln!(self.out, "{}", hanging(text, indent, self.width))
    }
}

/// Nodes of a pool that changed or should have changed. Nodes of one row are alike.
struct Row<'a> {
    pool: &'a PoolName,
    nodes: Vec<&'a NodeOutcome>,
}

impl Row<'_> {
    fn name(&self, node: &NodeOutcome) -> String {
        if self.nodes.len() == 1 { node.node.to_string() } else { count(self.nodes.len(), "node") }
    }

    fn seconds(&self, node: &NodeOutcome) -> String {
        let seconds = node.seconds.filter(|_| self.nodes.len() == 1);
        seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}"))
    }
}

fn write_table(page: &mut Page<'_>, outcome: &Outcome, options: SummaryOptions) -> io::Result<()> {
    let mut rows: Vec<Row<'_>> = outcome
        .pools
        .iter()
        .flat_map(|(pool, ended)| ended.nodes.iter().map(move |node| Row { pool, nodes: vec![node] }))
        .filter(|row| row.nodes.iter().any(|node| !matches!(&node.end, End::LeftAlone { why } if !why.is_blocked())))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut rest = Vec::new();
    if rows.len() > SMALL_ROLLOUT && !options.all {
        (rows, rest) = folded(rows);
    }
    if !rows.is_empty() {
        let whole = table(&rows, options.at, false);
        let table = if whole.can_fit(page.width) { whole } else { table(&rows, options.at, true) };
        for line in table.lines(page.width) {
            writeln!(page.out, "{line}")?;
        }
    }
    let nodes: Vec<&NodeOutcome> = rest.iter().flat_map(|row| row.nodes.iter().copied()).collect();
    if !nodes.is_empty() {
        let states = state_counts(nodes.iter().map(|node| &node.end));
        let more = if rows.is_empty() { "nodes" } else { "more nodes" };
        page.line(&quiet(format!("{} {more}: {states}; -v lists them", nodes.len())), 2)?;
    }
    writeln!(page.out)
}

/// The table of nodes. A narrow one has the most important columns.
fn table(rows: &[Row<'_>], at: Timestamp, narrow: bool) -> Table {
    let each = |cell: &dyn Fn(&Row<'_>, &NodeOutcome) -> String| {
        rows.iter().filter_map(|row| Some(cell(row, row.nodes.first()?))).collect::<Vec<String>>()
    };
    let mut columns = vec![
        Column::new("NODE", each(&|row, node| row.name(node))).cut_last(),
        Column::new("POOL", each(&|row, _| row.pool.to_string())).cut(),
    ];
    if !narrow {
        columns.push(Column::new("FROM", each(&|_, node| source::short(node.from.as_ref()))).cut());
    }
    columns.push(Column::new("TO", each(&|_, node| source::short(node.to.source()))).cut());
    columns.push(Column::new("STATE", each(&|_, node| state_of(node, at))));
    if !narrow {
        columns.push(Column::new("SECONDS", each(&|row, node| row.seconds(node))));
    }
    Table::new(columns).spaced()
}

/// The rows of a large rollout, most urgent first, and the omitted ones. Nodes alike are one row. Converged nodes are
/// omitted.
fn folded(rows: Vec<Row<'_>>) -> (Vec<Row<'_>>, Vec<Row<'_>>) {
    type Alike<'a> = (u8, &'a PoolName, &'static str, String);
    let mut groups: BTreeMap<Alike<'_>, Row<'_>> = BTreeMap::new();
    for Row { pool, nodes } in rows {
        let Some(node) = nodes.first() else { continue };
        // The target is the same for all nodes of a pool.
        let alike = (priority(&node.end), pool, state(&node.end), source::short(node.from.as_ref()));
        groups.entry(alike).or_insert_with(|| Row { pool, nodes: Vec::new() }).nodes.extend(nodes);
    }
    let (mut shown, mut omitted) = (Vec::new(), Vec::new());
    for row in groups.into_values() {
        let is_converged = row.nodes.iter().all(|node| node.end == End::Converged);
        if is_converged || shown.len() >= MAX_ROWS {
            omitted.push(row);
        } else if row.nodes.len() <= MAX_ALIKE {
            shown.extend(row.nodes.into_iter().map(|node| Row { pool: row.pool, nodes: vec![node] }));
        } else {
            shown.push(row);
        }
    }
    (shown, omitted)
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
        End::NotStarted | End::Held => 5,
        End::Gone => 6,
        End::Converged => 7,
    }
}

/// The result of a node in one or two words. More specific than its state for some results.
#[must_use]
pub fn state(end: &End) -> &'static str {
    match end {
        End::LeftAlone { why } => why.word(),
        End::Failed { rolled_back: true, .. } => "failed, rolled back",
        End::Failed { failure: ConvergenceFailure::TimedOut { .. }, .. } => "timed out",
        End::Failed { failure: ConvergenceFailure::Drain { failure }, .. } if failure.prevented_change() => {
            "not drained"
        }
        End::Refused { .. } => "refused",
        _ => end.state().word(),
    }
}

/// The result of a node in words, with its trial: `converged, on trial, 8m left`.
pub(super) fn state_of(node: &NodeOutcome, at: Timestamp) -> String {
    let state = state(&node.end);
    node.trial.map_or_else(|| state.to_owned(), |trial| format!("{state}, {}", super::trial(&trial, at)))
}

/// Writes each kind of problem once: its messages with their nodes, and its explanation.
fn write_explanations(page: &mut Page<'_>, outcome: &Outcome) -> io::Result<()> {
    type Kind = (u8, &'static str, Option<explain::Kind>);
    type Messages<'a> = BTreeMap<String, Vec<&'a NodeOutcome>>;
    let mut kinds: BTreeMap<Kind, (Option<explain::Explanation>, Messages<'_>)> = BTreeMap::new();
    for node in outcome.pools.values().flat_map(|pool| &pool.nodes) {
        let Some((label, text)) = problem(&node.end) else { continue };
        let explanation = explanation(node);
        let kind = (priority(&node.end), label, explanation.as_ref().map(|explanation| explanation.kind(&text)));
        kinds.entry(kind).or_insert_with(|| (explanation, BTreeMap::new())).1.entry(text).or_default().push(node);
    }
    for ((priority, label, _), (explanation, messages)) in kinds {
        let label = if priority == 0 { bad(format!("{label}:")) } else { warning(format!("{label}:")) };
        for (text, nodes) in messages.iter().take(MAX_REASONS) {
            let nodes = names(nodes.iter().map(|node| node.node.as_str()), MAX_NAMES);
            page.line(&format!("{label} {nodes}: {}", message(text)), 2)?;
        }
        let more = messages.len().saturating_sub(MAX_REASONS);
        if more > 0 {
            let nodes = messages.values().skip(MAX_REASONS).map(Vec::len).sum();
            let nodes = count(nodes, "more node");
            page.line(&format!("{label} {nodes}: {more} other messages; -o json lists them"), 2)?;
        }
        if let Some(explanation) = explanation {
            page.line(&format!("  meaning: {}", explanation.meaning), EXPLANATION)?;
            for cause in explanation.causes {
                page.line(&format!("  likely:  {cause}"), EXPLANATION)?;
            }
            page.line(&format!("  see:     {}", explanation.look_at), EXPLANATION)?;
        }
        writeln!(page.out)?;
    }
    Ok(())
}

/// The kind of problem of a node and its message. `None` for results without a problem.
pub(super) fn problem(end: &End) -> Option<(&'static str, String)> {
    Some(match end {
        End::Failed { failure: ConvergenceFailure::TimedOut { waiting }, .. } => ("timed out", waiting.to_string()),
        End::Failed { failure: ConvergenceFailure::Drain { failure }, .. } if failure.prevented_change() => {
            ("not drained", failure.to_string())
        }
        End::Failed { failure, .. } => ("failed", failure.to_string()),
        End::Refused { error } => ("refused", error.clone()),
        End::LeftAlone { why } if why.is_blocked() => ("blocked", why.to_string()),
        End::Changed { to } => {
            ("changed", format!("changed by another client to {}; left unchanged", source::full(to.as_ref())))
        }
        _ => return None,
    })
}

/// Writes why pools stopped, and each next step once.
fn write_stops(page: &mut Page<'_>, outcome: &Outcome) -> io::Result<()> {
    let stops = stops::stops(outcome);
    for text in stops::stop_texts(&stops) {
        page.line(&format!("{} {text}", bad("stopped:")), 2)?;
    }
    for step in stops::next_steps(outcome, &stops) {
        page.line(&format!("{} {step}", warning("next:")), 2)?;
    }
    if stops.is_empty() { Ok(()) } else { writeln!(page.out) }
}

/// Writes the pools that are held, and until when.
fn write_holds(page: &mut Page<'_>, outcome: &Outcome) -> io::Result<()> {
    let holds = stops::hold_texts(outcome);
    for text in &holds {
        page.line(&format!("{} {text}", warning("held:")), 2)?;
    }
    if holds.is_empty() { Ok(()) } else { writeln!(page.out) }
}

/// Writes the pools paused by `nodecfg pause` with the number of their unchanged nodes, and the next step.
fn write_pauses(page: &mut Page<'_>, outcome: &Outcome) -> io::Result<()> {
    let pauses = stops::pauses(outcome);
    for text in stops::pause_texts(&pauses) {
        page.line(&format!("{} {text}", warning("paused:")), 2)?;
    }
    match stops::next_step_after_pauses(&pauses) {
        Some(step) => page.line(&format!("{} {step}", warning("next:")), 2)?,
        None => return Ok(()),
    }
    writeln!(page.out)
}

/// The next steps that follow from nodes: those that keep the mark of a drain, and in a complete run those on trial.
pub(super) fn next_steps_of_nodes(outcome: &Outcome) -> Vec<String> {
    let nodes = outcome.pools.values().flat_map(|pool| &pool.nodes);
    let marked: Vec<&str> = nodes.filter(|node| node.marked).map(|node| node.node.as_str()).collect();
    let marks = (!marked.is_empty()).then(|| {
        let names = names(marked.iter().copied(), MAX_NAMES);
        let (what, it) = match marked.len() {
            1 => ("which keeps the mark of its drain", "it"),
            _ => ("which keep the mark of their drain", "them"),
        };
        format!(
            "no new pods start on {names}, {what}: the next sync continues or releases {it}, or `nodecfg release NODE`"
        )
    });
    let on_trial = (outcome.is_complete() && outcome.trials().next().is_some()).then(|| {
        "pass --wait-trial to wait for the end of the trials; a node that fails its trial rolls back by itself"
            .to_owned()
    });
    marks.into_iter().chain(on_trial).collect()
}

/// The last line: the result, the duration, the node counts at `at` and the remarks.
#[must_use]
pub fn totals(outcome: &Outcome, seconds: f64, remarks: &[String], at: Timestamp) -> String {
    let took = duration(seconds);
    let verdict = if outcome.is_complete() {
        format!("{} in {took}.", good("Done"))
    } else {
        format!("{} after {took}.", bad("Not done"))
    };
    let (nodes, parts) = node_counts(outcome, at);
    format!("{verdict} {}{parts}{}.", heading(nodes), suffix(remarks))
}

/// The number of nodes, and the number per state: `3 nodes` and `: 2 converged, 1 failed`. Good states come first,
/// then the number of these nodes that are on trial, then the worst.
pub(super) fn node_counts(outcome: &Outcome, at: Timestamp) -> (String, String) {
    const GOOD: [State; 2] = [State::Converged, State::Settled];
    let mut states = outcome.states();
    let is_requested = |node: &&NodeOutcome| !matches!(node.end, End::LeftAlone { why: Why::OutOfScope });
    let nodes = || outcome.pools.values().flat_map(|pool| &pool.nodes);
    let not_requested = nodes().count() - nodes().filter(is_requested).count();
    let new = nodes().filter(|node| matches!(node.end, End::LeftAlone { why: Why::New { .. } })).count();
    if let Some(skipped) = states.get_mut(&State::Skipped) {
        *skipped -= not_requested + new;
    }
    states.retain(|_, number| *number > 0);
    let others = states.keys().copied().filter(|state| !GOOD.contains(state));
    let part = |state: State| {
        let number = states.get(&state)?;
        Some(match state {
            State::Settled => format!("{number} already up to date"),
            State::Held => {
                format!("{number} held{}", next_opening(outcome.pools.values().map(|pool| pool.held.as_ref()?.next)))
            }
            _ => format!("{number} {}", state.word()),
        })
    };
    let good = GOOD.into_iter().filter_map(part);
    let mut parts: Vec<String> = good.chain(trial_count(outcome, at)).chain(others.filter_map(part)).collect();
    let nodes = count(states.values().sum::<usize>() + not_requested + new, "node");
    if new > 0 {
        parts.push(format!("{new} new"));
    }
    if not_requested > 0 {
        parts.push(format!("{not_requested} not requested"));
    }
    (nodes, if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) })
}

/// The number of nodes on trial, with the time until the last trial ends if every end is known: `3 on trial (up to 8m
/// left)`. `None` without such nodes.
fn trial_count(outcome: &Outcome, at: Timestamp) -> Option<String> {
    let ends: Vec<Option<Timestamp>> = outcome.trials().map(|(_, trial)| trial.ends_at).collect();
    // An unknown end sorts first.
    let last = ends.iter().min().copied().flatten().and(ends.iter().max().copied().flatten());
    let left = last.and_then(|last| super::time_left(at, last));
    let left = left.map(|left| format!(" (up to {left} left)")).unwrap_or_default();
    (!ends.is_empty()).then(|| format!("{} {}{left}", ends.len(), State::OnTrial))
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
#[path = "summary_tests.rs"]
mod tests;
