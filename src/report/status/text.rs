//! The status as text: the pools, the nodes that somebody has to know of, and a last line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use textwrap::fill;

use super::super::count;
use super::super::source::short;
use super::super::style::{bad, good, heading, quiet, warning};
use super::super::table::{Cell, Column, Table};
use super::words::Told;
use super::{explanation, of_fleet, pause, words};
use crate::layout::{shorten_middle, within};
use crate::status::{FleetStatus, Grade, NodeStatus, PoolStatus, State};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::observed::Readiness;
use nodecfg_contract::printable::one_line;
use nodecfg_planning::judge::Target;

/// A cluster of no more nodes shows all of them.
const SMALL: usize = 20;
/// How many nodes that have not converged are shown where there are more.
const NODES: usize = 20;
/// How many pools are shown where there are more.
const POOLS: usize = 20;
/// How long the name of a ConfigMap may be in a narrow table.
const NAME: usize = 22;

/// How the status is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// How wide lines may be, in columns.
    pub width: usize,
    /// Every pool and every node, however many.
    pub all: bool,
}

impl Look {
    /// A sentence in lines that fit; a word that is longer goes on in the next.
    fn fill(self, text: &str) -> String {
        fill(text, within(self.width).break_words(true))
    }
}

/// Writes who rolls out, the pools, the nodes that are not as they shall be, or all nodes of a small cluster, and a last
/// line.
///
/// # Errors
/// When the writer does.
pub fn text(out: &mut dyn Write, status: &FleetStatus, look: Look) -> io::Result<()> {
    if status.nodes.is_empty() && status.pools.is_empty() {
        return writeln!(out, "The cluster has no nodes.");
    }
    let orders: Vec<Told> = status.fleets.iter().flat_map(of_fleet).collect();
    for Told { label, text, is_warning, .. } in &orders {
        let label = if *is_warning { warning(label) } else { heading(label) };
        writeln!(out, "{}", look.fill(&format!("{label} {}", one_line(text))))?;
    }
    if !orders.is_empty() {
        writeln!(out)?;
    }
    write_pools(out, status, look)?;
    writeln!(out)?;
    write_nodes(out, status, look)?;
    let (label, text) = closing(status);
    let worst = status.states.keys().next().map_or(Grade::Good, |worst| worst.grade());
    let label = match worst {
        Grade::Bad => bad(label),
        Grade::Warning => warning(label),
        Grade::Neutral | Grade::Good => good(label),
    };
    writeln!(out, "{}", look.fill(&format!("{label} {text}")))
}

/// States and how many are in each: `1 failed, 20 converged`.
pub(super) fn in_numbers(states: &BTreeMap<State, usize>) -> String {
    let states: Vec<String> = states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    states.join(", ")
}

fn write_pools(out: &mut dyn Write, status: &FleetStatus, look: Look) -> io::Result<()> {
    let shown = if look.all || status.pools.len() <= POOLS { status.pools.len() } else { POOLS };
    let (pools, rest) = status.pools.split_at_checked(shown).unwrap_or((&status.pools, &[]));
    let each = |cell: fn(&PoolStatus) -> Cell| pools.iter().map(cell).collect::<Vec<Cell>>();
    let mut columns = vec![Column::new("POOL", each(|pool| name_or_dash(pool.pool.as_ref()))).cut()];
    if status.fleets.len() > 1 {
        columns.push(Column::new("FLEET", each(|pool| name_or_dash(pool.fleet.as_ref()))).cut());
    }
    columns.push(Column::new("NODES", each(|pool| pool.nodes.into())).right());
    columns.push(Column::new("CONVERGED", each(|pool| format!("{}%", pool.percent()).into())).right());
    columns.push(Column::new("CONFIGS", each(|pool| pool.configurations.into())).right());
    let states = |pool: &PoolStatus| {
        let text = if pool.nodes == 0 { "no nodes".to_owned() } else { in_numbers(&pool.states) };
        Cell::graded(text, if pool.nodes == 0 { Grade::Neutral } else { pool.worst.grade() })
    };
    columns.push(Column::new("STATES", each(states)));
    for line in Table::new(columns).lines(look.width) {
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
            format!("the worst of their nodes: {}", in_numbers(&worst))
        };
        let text = format!("and {} more; {what}; --all shows them", count(rest.len(), "pool"));
        writeln!(out, "{}", look.fill(&quiet(text)))?;
    }
    let paused = status.pools.iter().filter_map(|pool| Some((pool.pool.as_ref()?, pool.paused.as_ref()?)));
    let paused: Vec<_> = paused.collect();
    if !paused.is_empty() {
        writeln!(out)?;
    }
    let most = if look.all { paused.len() } else { POOLS };
    for (pool, why) in paused.iter().take(most) {
        let text = one_line(&format!("{pool} {}", pause(why)));
        writeln!(out, "{}", look.fill(&format!("{} {text}", warning("Paused:"))))?;
    }
    if paused.len() > most {
        writeln!(out, "{}", quiet(format!("and {} more paused", count(paused.len() - most, "pool"))))?;
    }
    Ok(())
}

fn name_or_dash<T: ToString>(name: Option<&T>) -> Cell {
    name.map_or_else(|| "-".to_owned(), ToString::to_string).into()
}

fn write_nodes(out: &mut dyn Write, status: &FleetStatus, look: Look) -> io::Result<()> {
    let everything = look.all || status.nodes.len() <= SMALL;
    let amiss = status.nodes.iter().take_while(|node| !node.state.is_settled()).count();
    let shown = if everything { status.nodes.len() } else { amiss.min(NODES) };
    let (shown, rest) = status.nodes.split_at_checked(shown).unwrap_or((&status.nodes, &[]));
    if shown.is_empty() {
        return Ok(());
    }
    let mut lines = columns(shown, status.at, look.width).lines(look.width).into_iter();
    for line in lines.by_ref().take(1) {
        writeln!(out, "{line}")?;
    }
    for (index, (node, line)) in shown.iter().zip(lines).enumerate() {
        writeln!(out, "{line}")?;
        // What is the same for several nodes in a row is said once, below the last of them.
        let next = shown.get(index + 1);
        let said = reason(node);
        if said.is_some() && next.and_then(reason) != said {
            write_reason(out, node, look.width)?;
        }
    }
    let more = amiss.saturating_sub(shown.len());
    if more > 0 {
        let mut states: BTreeMap<State, usize> = BTreeMap::new();
        for node in rest.iter().take(more) {
            *states.entry(node.state).or_default() += 1;
        }
        let text = format!(
            "and {} more that {} not converged: {}; --all shows them",
            count(more, "node"),
            if more == 1 { "has" } else { "have" },
            in_numbers(&states)
        );
        writeln!(out, "{}", look.fill(&quiet(text)))?;
    }
    writeln!(out)
}

/// What is said of a node below it; the same for all that have the same to say.
fn reason(node: &NodeStatus) -> Option<(State, String, Option<String>)> {
    Some((node.state, words(node)?, fallback(node)))
}

/// What a node falls back to, where it fails and that is not what it runs.
fn fallback(node: &NodeStatus) -> Option<String> {
    let (good, active) = (short(node.last_known_good.as_ref()), short(node.active.as_ref()));
    (matches!(node.state, State::Failed | State::CannotFetch) && good != active).then_some(good)
}

fn write_reason(out: &mut dyn Write, node: &NodeStatus, width: usize) -> io::Result<()> {
    let indented = |out: &mut dyn Write, label: &str, text: &str| -> io::Result<()> {
        let (first, rest) = (format!("    {label}"), " ".repeat(4 + label.len()));
        let columns = within(width.max(rest.len() + 20)).initial_indent(&first).subsequent_indent(&rest);
        writeln!(out, "{}", fill(&one_line(text), columns.break_words(true)))
    };
    if let Some(words) = words(node) {
        indented(out, "", &words)?;
    }
    if let Some(good) = fallback(node) {
        indented(out, "last known good: ", &good)?;
    }
    if let Some(explanation) = explanation(node) {
        indented(out, "meaning: ", explanation.meaning)?;
        indented(out, "look at: ", &explanation.look_at)?;
    }
    Ok(())
}

/// The columns of the nodes, as many as fit.
fn columns(nodes: &[NodeStatus], at: Timestamp, width: usize) -> Table {
    let whole = wide(nodes, at, |_, source| short(source));
    if whole.natural() <= width {
        return whole;
    }
    let hashes = wide(nodes, at, brief);
    if hashes.natural() <= width {
        return hashes;
    }
    let assigned = narrow(nodes, at, true);
    if assigned.can_fit(width) { assigned } else { narrow(nodes, at, false) }
}

/// Whether nodes are compared with a repository.
fn are_compared(nodes: &[NodeStatus]) -> bool {
    nodes.iter().any(|node| node.desired.is_some())
}

fn each(nodes: &[NodeStatus], cell: impl Fn(&NodeStatus) -> Cell) -> Vec<Cell> {
    nodes.iter().map(cell).collect()
}

/// How a ConfigMap is called beside a node.
type Name = fn(&NodeStatus, Option<&ConfigSource>) -> String;

/// Everything.
fn wide(nodes: &[NodeStatus], at: Timestamp, name: Name) -> Table {
    let mut columns = vec![
        Column::new("NODE", each(nodes, |node| (&node.node).into())).cut(),
        Column::new("POOL", each(nodes, |node| name_or_dash(node.pool.as_ref()))).cut(),
        Column::new("STATE", each(nodes, |node| Cell::graded(node.state, node.state.grade()))),
        Column::new("SINCE", each(nodes, |node| age(node.since, at).into())),
        Column::new("READY", each(nodes, |node| ready(node.ready))),
        Column::new("KUBELET", each(nodes, |node| name_or_dash(node.kubelet.as_ref()))),
    ];
    if are_compared(nodes) {
        columns
            .push(Column::new("DESIRED", each(nodes, |node| desired(node, |source| name(node, source)).into())).cut());
    }
    let source = |of: fn(&NodeStatus) -> Option<&ConfigSource>| each(nodes, move |node| name(node, of(node)).into());
    columns.push(Column::new("WANTED", source(|node| node.wanted.as_ref())).cut());
    columns.push(Column::new("ASSIGNED", source(|node| node.assigned.as_ref())).cut());
    columns.push(Column::new("ACTIVE", source(|node| node.active.as_ref())).cut());
    columns.push(Column::new("LAST KNOWN GOOD", source(|node| node.last_known_good.as_ref())).cut());
    Table::new(columns)
}

/// What matters most, with what nodes are assigned where there is room for that. ConfigMaps of the node's own pool are named by the hash at the end of their names.
fn narrow(nodes: &[NodeStatus], at: Timestamp, with_assigned: bool) -> Table {
    let names = without_domain(nodes.iter().map(|node| node.node.to_string()).collect());
    let mut columns = vec![
        // Its name is what one needs to look at a node.
        Column::new("NODE", names).cut_last(),
        Column::new("POOL", each(nodes, |node| name_or_dash(node.pool.as_ref()))).cut(),
        Column::new("STATE", each(nodes, |node| Cell::graded(node.state, node.state.grade()))),
        Column::new("SINCE", each(nodes, |node| age(node.since, at).into())),
    ];
    let brief = |node: &NodeStatus, source: Option<&ConfigSource>| shorten_middle(&brief(node, source), NAME);
    if are_compared(nodes) {
        let wants = each(nodes, |node| desired(node, |source| brief(node, source)).into());
        columns.push(Column::new("DESIRED", wants).cut());
    }
    let active = each(nodes, |node| brief(node, node.active.as_ref()).into());
    if with_assigned {
        let assigned = each(nodes, |node| brief(node, node.assigned.as_ref()).into());
        columns.push(Column::new("ASSIGNED", assigned).cut());
    }
    columns.push(Column::new("ACTIVE", active).cut());
    Table::new(columns)
}

/// Names without the end that they have in common, if that is a domain: `…` stands for it.
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

/// The hash alone where the name says nothing more than pool and fleet, which are known.
fn brief(node: &NodeStatus, source: Option<&ConfigSource>) -> String {
    let name = short(source);
    let (Some(fleet), Some(pool)) = (&node.fleet, &node.pool) else { return name };
    match name.strip_prefix(&format!("{fleet}-{pool}-")) {
        Some(hash) if !hash.contains('-') => hash.to_owned(),
        _ => name,
    }
}

/// How long ago something was: `40s`, `12m`, `5h`, `3d`. `-` where that is not known, or the clock that says it is ahead.
fn age(since: Option<Timestamp>, at: Timestamp) -> String {
    let Some(since) = since.filter(|since| *since <= at) else { return "-".to_owned() };
    let seconds = at.duration_since(since).as_secs();
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, _) => format!("{hours}h"),
        (days, ..) => format!("{days}d"),
    }
}

/// The last line: whether all is well, and all nodes in numbers: first those that are not as they shall be, then the rest.
pub(super) fn closing(status: &FleetStatus) -> (&'static str, String) {
    let total = count(status.nodes.len(), "node");
    let of = if status.compared.is_some() { "the repository says" } else { "it points at" };
    let worst = status.states.keys().next().copied().unwrap_or(State::Converged);
    match worst {
        _ if status.nodes.is_empty() => ("Converged:", "no nodes.".to_owned()),
        State::Converged => ("Converged:", format!("{total}, each runs what {of}.")),
        _ if worst.is_settled() => ("Converged:", format!("{total}: {}.", in_numbers(&status.states))),
        _ => {
            let (rest, amiss): (BTreeMap<_, _>, BTreeMap<_, _>) = status
                .states
                .iter()
                .map(|(state, number)| (*state, *number))
                .partition(|(state, _)| state.is_settled());
            let rest_in_numbers = if rest.is_empty() { String::new() } else { format!("; {}", in_numbers(&rest)) };
            let number: usize = amiss.values().sum();
            ("Not converged:", format!("{number} of {total}: {}{rest_in_numbers}.", in_numbers(&amiss)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_known_or_not() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let ago = |seconds| age(Some(at - jiff::SignedDuration::from_secs(seconds)), at);
        assert_eq!([0, 59, 60, 7200, 200_000].map(ago), ["0s", "59s", "1m", "2h", "2d"]);
        assert_eq!((ago(-5), age(None, at)), ("-".to_owned(), "-".to_owned()));
    }

    #[test]
    fn a_common_domain_is_left_out() {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        assert_eq!(without_domain(names(["a.x.y", "b.x.y"])), names(["a.…", "b.…"]));
        assert_eq!(without_domain(names(["a.x.y", "b.x.z"])), names(["a.x.y", "b.x.z"]));
        assert_eq!(without_domain(names(["a", "b"])), names(["a", "b"]));
    }
}
