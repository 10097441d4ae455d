//! The status as text: the pools, the nodes with problems, and the totals.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use jiff::Timestamp;
use textwrap::fill;

use super::super::source::short;
use super::super::style::{bad, good, heading, quiet, warning};
use super::super::table::{Cell, Column, MAX_ALIKE, Table};
use super::super::{count, uncommitted};
use super::sentences::FleetNote;
use super::{POOL_NOTES, explanation, fleet_notes, pool_note, problem};
use crate::layout::{shorten_middle, within};
use crate::status::{FleetStatus, Grade, NodeStatus, PoolStatus, State};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::printable::one_line;
use nodecfg_observed::{Age, DrainMark, Readiness};
use nodecfg_plan::convergence::Target;

/// The maximum nodes of a cluster whose nodes are all listed.
const SMALL_CLUSTER: usize = 20;
/// The maximum rows of a larger cluster.
const MAX_NODES: usize = 20;
/// The maximum listed pools.
const MAX_POOLS: usize = 20;
/// The maximum width of a ConfigMap name in a narrow table, in columns.
const MAX_NAME_WIDTH: usize = 22;

/// Options of the status text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// The maximum line width, in columns.
    pub width: usize,
    /// Whether all pools and nodes are listed.
    pub all: bool,
}

impl TextOptions {
    /// Wraps a sentence. Breaks overlong words.
    fn fill(self, text: &str) -> String {
        fill(text, within(self.width).break_words(true))
    }
}

/// Writes notes about fleets, the pools, the nodes that have not converged, and the totals. Lists all nodes of a
/// small cluster.
pub fn text(out: &mut dyn Write, status: &FleetStatus, options: TextOptions) -> io::Result<()> {
    if status.nodes.is_empty() && status.pools.is_empty() {
        return writeln!(out, "No nodes.");
    }
    let orders: Vec<FleetNote> = status.fleets.iter().flat_map(fleet_notes).collect();
    for FleetNote { label, text, is_warning, .. } in &orders {
        let label = if *is_warning { warning(label) } else { heading(label) };
        writeln!(out, "{}", options.fill(&format!("{label} {}", one_line(text))))?;
    }
    if !orders.is_empty() {
        writeln!(out)?;
    }
    write_pools(out, status, options)?;
    writeln!(out)?;
    write_nodes(out, status, options)?;
    let (label, text) = totals(status);
    let worst = status.states.keys().next().map_or(Grade::Good, |worst| worst.grade());
    let label = match worst {
        Grade::Bad => bad(label),
        Grade::Warning => warning(label),
        Grade::Neutral | Grade::Good => good(label),
    };
    writeln!(out, "{}", options.fill(&format!("{label} {text}")))
}

/// Writes a line for each node with all columns and full names, worst first, at any terminal width.
///
/// # Errors
/// When `out` cannot be written.
pub fn wide(out: &mut dyn Write, status: &FleetStatus) -> io::Result<()> {
    let rows: Vec<Row<'_>> = status.nodes.iter().map(Row::of).collect();
    let table = all_columns(&rows, status.at, |_, source| short(source));
    table.lines(table.natural_width()).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Writes the name of each node as kubectl accepts it, worst first.
///
/// # Errors
/// When `out` cannot be written.
pub fn node_names(out: &mut dyn Write, status: &FleetStatus) -> io::Result<()> {
    status.nodes.iter().try_for_each(|node| writeln!(out, "node/{}", node.node))
}

/// The percentage of converged nodes of a pool. `None` without nodes.
pub(super) fn percent(pool: &PoolStatus) -> Option<String> {
    Some(format!("{}%", pool.percent()?))
}

/// The number of nodes per state: `1 failed, 20 converged`.
pub(super) fn state_counts(states: &BTreeMap<State, usize>) -> String {
    let states: Vec<String> = states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    states.join(", ")
}

fn write_pools(out: &mut dyn Write, status: &FleetStatus, options: TextOptions) -> io::Result<()> {
    let shown = if options.all || status.pools.len() <= MAX_POOLS { status.pools.len() } else { MAX_POOLS };
    let (pools, rest) = status.pools.split_at_checked(shown).unwrap_or((&status.pools, &[]));
    let each = |cell: fn(&PoolStatus) -> Cell| pools.iter().map(cell).collect::<Vec<Cell>>();
    let mut columns = vec![Column::new("POOL", each(|pool| name_or_dash(pool.pool.as_ref()))).cut()];
    if status.fleets.len() > 1 {
        columns.push(Column::new("FLEET", each(|pool| name_or_dash(pool.fleet.as_ref()))).cut());
    }
    columns.push(Column::new("NODES", each(|pool| pool.nodes.into())).right());
    columns.push(Column::new("CONVERGED", each(|pool| percent(pool).unwrap_or_else(|| "-".to_owned()).into())).right());
    columns.push(Column::new("CONFIGS", each(|pool| pool.configurations.into())).right());
    let states = |pool: &PoolStatus| {
        let text = if pool.nodes == 0 { "no nodes".to_owned() } else { state_counts(&pool.states) };
        Cell::graded(text, if pool.nodes == 0 { Grade::Neutral } else { pool.worst.grade() })
    };
    columns.push(Column::new("STATES", each(states)));
    for line in Table::new(columns).lines(options.width) {
        writeln!(out, "{line}")?;
    }
    if !rest.is_empty() {
        let mut worst: BTreeMap<State, usize> = BTreeMap::new();
        for pool in rest {
            *worst.entry(pool.worst).or_default() += 1;
        }
        let what = if worst.len() == 1 && worst.contains_key(&State::Converged) {
            "converged".to_owned()
        } else {
            format!("worst states: {}", state_counts(&worst))
        };
        let text = format!("and {} more; {what}; list them with --all", count(rest.len(), "pool"));
        writeln!(out, "{}", options.fill(&quiet(text)))?;
    }
    let lists = POOL_NOTES.map(|kind| {
        let notes = status.pools.iter().filter_map(|of| Some((of.pool.as_ref()?, pool_note(of, kind, status.at)?)));
        let (label, more) = match kind {
            "paused" => (warning("Paused:"), "paused"),
            "held" => (warning("Held:"), "held"),
            "order" => (heading("Order:"), "in an order"),
            "new" => (warning("New:"), "with new nodes"),
            _ => (warning("Unproven:"), "with unproven nodes"),
        };
        (label, more, notes.collect::<Vec<_>>())
    });
    if lists.iter().any(|(.., pools)| !pools.is_empty()) {
        writeln!(out)?;
    }
    for (label, more, pools) in lists {
        let most = if options.all { pools.len() } else { MAX_POOLS };
        for (pool, why) in pools.iter().take(most) {
            let text = one_line(&format!("{pool} {why}"));
            writeln!(out, "{}", options.fill(&format!("{label} {text}")))?;
        }
        if pools.len() > most {
            writeln!(out, "{}", quiet(format!("and {} more {more}", count(pools.len() - most, "pool"))))?;
        }
    }
    Ok(())
}

fn name_or_dash<T: ToString>(name: Option<&T>) -> Cell {
    name.map_or_else(|| "-".to_owned(), ToString::to_string).into()
}

fn write_nodes(out: &mut dyn Write, status: &FleetStatus, options: TextOptions) -> io::Result<()> {
    let everything = options.all || status.nodes.len() <= SMALL_CLUSTER;
    let listed = status.nodes.iter().filter(|node| !node.state.is_settled() || node.drain_mark.is_some());
    let mut shown: Vec<Row<'_>> =
        if everything { status.nodes.iter().map(Row::of).collect() } else { folded(listed.collect()) };
    let rest = if everything { Vec::new() } else { shown.split_off(shown.len().min(MAX_NODES)) };
    if shown.is_empty() {
        return Ok(());
    }
    let mut lines = columns(&shown, status.at, options.width).lines(options.width).into_iter();
    for line in lines.by_ref().take(1) {
        writeln!(out, "{line}")?;
    }
    for (index, (row, line)) in shown.iter().zip(lines).enumerate() {
        writeln!(out, "{line}")?;
        // Equal reasons of consecutive rows appear once, below the last row.
        let next = shown.get(index + 1);
        let row_reason = reason(row.node);
        if row_reason.is_some() && next.and_then(|next| reason(next.node)) != row_reason {
            write_reason(out, row.node, options.width)?;
        }
    }
    if !rest.is_empty() {
        let mut states: BTreeMap<State, usize> = BTreeMap::new();
        for row in &rest {
            *states.entry(row.node.state).or_default() += row.nodes;
        }
        let more = count(states.values().sum(), "node");
        let what =
            if states.keys().any(|state| state.is_settled()) { "not converged or draining" } else { "not converged" };
        let text = format!("and {more} more {what}: {}; list them with --all", state_counts(&states));
        writeln!(out, "{}", options.fill(&quiet(text)))?;
    }
    writeln!(out)
}

/// One row: a node, or several nodes alike.
struct Row<'a> {
    /// The node, or the first one.
    node: &'a NodeStatus,
    nodes: usize,
    /// The start of the state, of the node that has been in it longest.
    since: Option<Timestamp>,
}

impl<'a> Row<'a> {
    fn of(node: &'a NodeStatus) -> Self {
        Self { node, nodes: 1, since: node.since }
    }
}

/// The rows of a large cluster, in the order of the nodes. Nodes of a pool with the same values are one row, if there
/// are more than a few.
fn folded(nodes: Vec<&NodeStatus>) -> Vec<Row<'_>> {
    let mut groups: BTreeMap<_, Vec<&NodeStatus>> = BTreeMap::new();
    for node in &nodes {
        groups.entry(values(node)).or_default().push(node);
    }
    let row = |node| match groups.get(&values(node)).map(Vec::as_slice) {
        Some([first, rest @ ..]) if rest.len() >= MAX_ALIKE => (first.node == node.node).then(|| {
            let since = rest.iter().chain([first]).filter_map(|node| node.since).min();
            Row { node, nodes: 1 + rest.len(), since }
        }),
        _ => Some(Row::of(node)),
    };
    nodes.into_iter().filter_map(row).collect()
}

/// What the table and the text below it show of a node, apart from name and age.
fn values(node: &NodeStatus) -> impl Ord + use<> {
    let sources = [&node.wanted, &node.assigned, &node.active, &node.last_known_good];
    let desired = node.desired.as_ref().map(|target| short(target.source()));
    let texts = [problem(node), node.kubelet.map(|version| version.to_string()), desired];
    let names = (node.fleet.clone(), node.pool.clone(), node.drain_mark.as_ref().map(|mark| mark.tainted));
    (node.state, names, node.ready.to_string(), texts, sources.map(|source| short(source.as_ref())))
}

/// The state, the problem and the last known good configuration of a node, to compare nodes.
fn reason(node: &NodeStatus) -> Option<(State, String, Option<String>)> {
    Some((node.state, problem(node)?, other_last_known_good(node)))
}

/// The last known good configuration of a failed node, if it differs from the active one.
fn other_last_known_good(node: &NodeStatus) -> Option<String> {
    let (good, active) = (short(node.last_known_good.as_ref()), short(node.active.as_ref()));
    (matches!(node.state, State::Failed | State::CannotFetch) && good != active).then_some(good)
}

fn write_reason(out: &mut dyn Write, node: &NodeStatus, width: usize) -> io::Result<()> {
    let indented = |out: &mut dyn Write, label: &str, text: &str| -> io::Result<()> {
        let (first, rest) = (format!("    {label}"), " ".repeat(4 + label.len()));
        let columns = within(width.max(rest.len() + 20)).initial_indent(&first).subsequent_indent(&rest);
        writeln!(out, "{}", fill(&one_line(text), columns.break_words(true)))
    };
    if let Some(words) = problem(node) {
        indented(out, "", &words)?;
    }
    if let Some(good) = other_last_known_good(node) {
        indented(out, "last known good: ", &good)?;
    }
    if let Some(explanation) = explanation(node) {
        indented(out, "meaning: ", explanation.meaning)?;
        indented(out, "see: ", &explanation.look_at)?;
    }
    Ok(())
}

/// The columns that a terminal too narrow for all omits, the first one first.
const OMITTED: [&str; 5] = ["WANTED", "LAST KNOWN GOOD", "KUBELET", "READY", "ASSIGNED"];

/// The table with the most columns that fit without shortened hashes. If none fits, one that shrinks.
fn columns(rows: &[Row<'_>], at: Timestamp, width: usize) -> Table {
    let all = all_columns(rows, at, |_, source| short(source));
    if all.natural_width() <= width {
        return all;
    }
    let hashes = all_columns(rows, at, brief);
    if hashes.natural_width() <= width {
        return hashes;
    }
    let without = |number: usize| {
        let omitted = OMITTED.get(..number).unwrap_or(&OMITTED);
        narrow_columns(rows, at).without(omitted)
    };
    // Next to a mark, the name of its node is worth more than the acknowledged source.
    let kept = if is_any_marked(rows) { 0 } else { 1 };
    let fitting = (0..=OMITTED.len() - kept).map(without).find(|table| table.natural_width() <= width);
    let with_assigned = || Some(without(OMITTED.len() - 1)).filter(|table| table.can_fit(width));
    fitting.or_else(with_assigned).unwrap_or_else(|| without(OMITTED.len()))
}

/// Reports whether nodes are compared with a repository.
fn are_compared(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| row.node.desired.is_some())
}

fn is_any_marked(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|row| row.node.drain_mark.is_some())
}

/// The state of a node, with the remaining time of a trial, and with the mark of a drain: `converged, draining 5m`.
pub fn state(node: &NodeStatus, at: Timestamp) -> String {
    let state = state_alone(node, at);
    match node.drain_mark.as_deref().map(|mark| draining(mark, at)) {
        Some(draining) => format!("{state}, {draining}"),
        None => state,
    }
}

fn state_alone(node: &NodeStatus, at: Timestamp) -> String {
    node.trial.map_or_else(|| node.state.to_string(), |trial| super::super::trial(&trial, at))
}

/// The mark of a drain. Without the taint, new pods are still scheduled on the node.
pub(super) fn draining(mark: &DrainMark, at: Timestamp) -> String {
    let since = drain_age(mark, at).map(|age| format!(" {age}")).unwrap_or_default();
    let taint = if mark.tainted { "" } else { " (no taint)" };
    format!("draining{since}{taint}")
}

/// The age of a mark, if known.
fn drain_age(mark: &DrainMark, at: Timestamp) -> Option<String> {
    mark.drain.as_ref().map(|drain| age(Some(drain.since), at)).filter(|age| age != "-")
}

/// The mark of a node in a column of its own, which leaves more room for names.
fn mark_cell(node: &NodeStatus, at: Timestamp) -> Cell {
    let Some(mark) = node.drain_mark.as_deref() else { return "-".into() };
    let since = drain_age(mark, at).unwrap_or_else(|| "yes".to_owned());
    let text = if mark.tainted { since } else { format!("{since}, no taint") };
    Cell::graded(text, Grade::Warning)
}

fn each(rows: &[Row<'_>], cell: impl Fn(&NodeStatus) -> Cell) -> Vec<Cell> {
    rows.iter().map(|row| cell(row.node)).collect()
}

/// The names of nodes, changed together, and the numbers of nodes alike.
fn names(rows: &[Row<'_>], change: fn(Vec<String>) -> Vec<String>) -> Vec<Cell> {
    let single = rows.iter().filter(|row| row.nodes == 1);
    let mut names = change(single.map(|row| row.node.node.to_string()).collect()).into_iter();
    let name = |row: &Row<'_>| match row.nodes {
        1 => names.next().unwrap_or_default().into(),
        nodes => count(nodes, "node").into(),
    };
    rows.iter().map(name).collect()
}

fn ages(rows: &[Row<'_>], at: Timestamp) -> Vec<Cell> {
    rows.iter().map(|row| age(row.since, at).into()).collect()
}

/// Formats the name of a node's ConfigMap.
type Name = fn(&NodeStatus, Option<&ConfigSource>) -> String;

/// The table with all columns.
fn all_columns(rows: &[Row<'_>], at: Timestamp, name: Name) -> Table {
    table(Column::new("NODE", names(rows, |names| names)).cut(), rows, at, name)
}

/// The table with all columns. Shows ConfigMaps of the node's pool by the hash in their names, and shortens others.
fn narrow_columns(rows: &[Row<'_>], at: Timestamp) -> Table {
    // Administrators need the node name to inspect the node.
    let nodes = Column::new("NODE", names(rows, without_domain)).cut_last();
    table(nodes, rows, at, |node, source| shorten_middle(&brief(node, source), MAX_NAME_WIDTH))
}

fn table(nodes: Column, rows: &[Row<'_>], at: Timestamp, name: Name) -> Table {
    let mut columns = vec![
        nodes,
        Column::new("POOL", each(rows, |node| name_or_dash(node.pool.as_ref()))).cut(),
        Column::new("STATE", each(rows, |node| Cell::graded(state_alone(node, at), node.state.grade()))),
        Column::new("SINCE", ages(rows, at)),
    ];
    if is_any_marked(rows) {
        columns.push(Column::new("DRAINING", each(rows, |node| mark_cell(node, at))));
    }
    columns.push(Column::new("READY", each(rows, |node| ready(node.ready))));
    columns.push(Column::new("KUBELET", each(rows, |node| name_or_dash(node.kubelet.as_ref()))));
    if are_compared(rows) {
        let desired = each(rows, |node| desired(node, |source| name(node, source)).into());
        columns.push(Column::new("DESIRED", desired).cut());
    }
    let source = |of: fn(&NodeStatus) -> Option<&ConfigSource>| each(rows, move |node| name(node, of(node)).into());
    columns.push(Column::new("WANTED", source(|node| node.wanted.as_ref())).cut());
    columns.push(Column::new("ASSIGNED", source(|node| node.assigned.as_ref())).cut());
    columns.push(Column::new("ACTIVE", source(|node| node.active.as_ref())).cut());
    columns.push(Column::new("LAST KNOWN GOOD", source(|node| node.last_known_good.as_ref())).cut());
    Table::new(columns)
}

/// Replaces a common domain of all names with `…`.
fn without_domain(names: Vec<String>) -> Vec<String> {
    let domain = |name: &str| name.split_once('.').map(|(_, domain)| domain.to_owned());
    let Some(common) = names.first().and_then(|name| domain(name)) else { return names };
    if names.len() < 2 || !names.iter().all(|name| domain(name).as_ref() == Some(&common)) {
        return names;
    }
    names.iter().map(|name| format!("{}.…", name.split('.').next().unwrap_or(name))).collect()
}

fn ready(ready: Readiness) -> Cell {
    match ready {
        Readiness::Ready => ready.into(),
        _ => Cell::graded(ready, Grade::Bad),
    }
}

fn desired(node: &NodeStatus, name: impl Fn(Option<&ConfigSource>) -> String) -> String {
    node.desired.as_ref().map_or_else(|| "-".to_owned(), |target| name(Target::source(target)))
}

/// The hash of a ConfigMap name that otherwise holds only the node's fleet and pool.
fn brief(node: &NodeStatus, source: Option<&ConfigSource>) -> String {
    let name = short(source);
    let (Some(fleet), Some(pool)) = (&node.fleet, &node.pool) else { return name };
    match name.strip_prefix(&format!("{fleet}-{pool}-")) {
        Some(hash) if !hash.contains('-') => hash.to_owned(),
        _ => name,
    }
}

/// The age: `40s`, `12m`, `5h`, `3d`. `-` if unknown or in the future.
fn age(since: Option<Timestamp>, at: Timestamp) -> String {
    let Some(since) = since.filter(|since| *since <= at) else { return "-".to_owned() };
    Age::between(since, at).to_string()
}

/// The last line: the result, the number of nodes per state, problems first, and uncommitted files.
pub(super) fn totals(status: &FleetStatus) -> (&'static str, String) {
    let (label, text) = result(status);
    let files = status.compared.as_ref().and_then(|compared| compared.uncommitted);
    let suffix = files.map_or_else(String::new, |files| format!("; {}", uncommitted(files)));
    let marked = match status.nodes.iter().filter(|node| node.drain_mark.is_some()).count() {
        0 => String::new(),
        number => format!("; {number} draining"),
    };
    (label, format!("{text}{marked}{suffix}."))
}

fn result(status: &FleetStatus) -> (&'static str, String) {
    let total = count(status.nodes.len(), "node");
    let of = match status.compared {
        Some(_) => "the configuration in the repository",
        None => "its assigned configuration",
    };
    let worst = status.states.keys().next().copied().unwrap_or(State::Converged);
    match worst {
        _ if status.nodes.is_empty() => ("Converged:", "no nodes".to_owned()),
        State::Converged => ("Converged:", format!("{total}, each runs {of}")),
        State::OnTrial => {
            let on_trial = status.states.get(&State::OnTrial).copied().unwrap_or_default();
            ("Converged:", format!("{total}, each runs {of}; {on_trial} on trial"))
        }
        _ if worst.is_settled() => ("Converged:", format!("{total}: {}", state_counts(&status.states))),
        _ => {
            let (rest, not_converged): (BTreeMap<_, _>, BTreeMap<_, _>) = status
                .states
                .iter()
                .map(|(state, number)| (*state, *number))
                .partition(|(state, _)| state.is_settled());
            let rest_in_numbers = if rest.is_empty() { String::new() } else { format!("; {}", state_counts(&rest)) };
            let number: usize = not_converged.values().sum();
            ("Not converged:", format!("{number} of {total}: {}{rest_in_numbers}", state_counts(&not_converged)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_ages() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let ago = |seconds| age(Some(at - jiff::SignedDuration::from_secs(seconds)), at);
        assert_eq!([0, 59, 60, 7200, 200_000].map(ago), ["0s", "59s", "1m", "2h", "2d"]);
        assert_eq!((ago(-5), age(None, at)), ("-".to_owned(), "-".to_owned()));
    }

    #[test]
    fn omits_common_domain() {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        assert_eq!(without_domain(names(["a.x.y", "b.x.y"])), names(["a.…", "b.…"]));
        assert_eq!(without_domain(names(["a.x.y", "b.x.z"])), names(["a.x.y", "b.x.z"]));
        assert_eq!(without_domain(names(["a", "b"])), names(["a", "b"]));
    }
}
