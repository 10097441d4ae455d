//! The report of a status: notes about fleets and pools, the nodes, and why nodes have not converged.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::sentences::{fleet_notes, pool_notes, problem};
use super::{State, explanation};
use crate::report::document::{
    Block, Cell, Conclusion, Item, NodeColumn, NodeEntry, NodePool, Nodes, Report, Text, Weight, counts_in_words,
};
use crate::report::problems::Case;
use crate::report::{count, paused, problems, review, source, uncommitted};
use crate::review::Review;
use crate::status::{FleetStatus, Grade, NodeStatus};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_observed::{Age, DrainMark, Readiness};
use nodecfg_plan::Problem;
use nodecfg_plan::convergence::Target;

/// The report of a status.
#[must_use]
pub fn report(status: &FleetStatus) -> Report {
    let pauses = status.fleets.iter().filter_map(|orders| status.pause_of(&orders.fleet));
    let pauses = pauses.flat_map(|pause| paused::items(Some(&pause)).collect::<Vec<_>>());
    let notes = pauses.chain(status.fleets.iter().flat_map(fleet_notes));
    let mut blocks: Vec<Block> = notes.chain(notes_of_pools(status)).map(Block::Item).collect();
    if !status.pools.is_empty() {
        blocks.push(Block::Nodes(nodes(status)));
    }
    blocks.extend(problems::section("Nodes that have not converged", cases(status)).map(Block::Section));
    Report { command: "status", result: Some(result(status)), blocks, ..Report::default() }
}

/// The report of a status with its facts, and with the result of planning a sync if a repository is given.
#[must_use]
pub fn whole(status: &FleetStatus, server: &str, planned: Option<Result<Review, Vec<Problem>>>) -> Report {
    let mut report = report(status);
    report.facts = facts(status, server);
    report.names = status.nodes.iter().map(|node| format!("node/{}", node.node)).collect();
    match planned {
        None => {}
        Some(Ok(planned)) if planned.is_changed() => {
            report.blocks.push(Block::Report("What a sync would do", Box::new(review::report("status", &planned))));
        }
        Some(Ok(_)) => {}
        Some(Err(problems)) => {
            let error = |problem: &Problem| -> Block {
                let help = Item::labeled("help", problem.help());
                Item::bad("error", problem.to_string()).with([help]).into()
            };
            let plan = Report {
                result: Some(Conclusion::sentence(Grade::Bad, "A sync is not possible.")),
                blocks: problems.iter().map(error).collect(),
                ..Report::default()
            };
            report.blocks.push(Block::Report("What a sync would do", Box::new(plan)));
        }
    }
    report
}

/// The nodes of a status with all their columns.
fn nodes(status: &FleetStatus) -> Nodes {
    let mut by_pool: BTreeMap<(Option<&FleetName>, Option<&PoolName>), Vec<&NodeStatus>> = BTreeMap::new();
    for node in &status.nodes {
        by_pool.entry((node.fleet.as_ref(), node.pool.as_ref())).or_default().push(node);
    }
    let mut pools = Vec::new();
    for of in &status.pools {
        let mut nodes = by_pool.remove(&(of.fleet.as_ref(), of.pool.as_ref())).unwrap_or_default();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        pools.push(NodePool {
            name: of.pool.clone(),
            fleet: of.fleet.clone(),
            cells: vec![of.percent().map_or(Cell::Empty, Cell::Percent), Cell::Number(of.configurations)],
            remarks: pool_notes(of, status).into_iter().map(|(label, text)| format!("{label}: {text}")).collect(),
            nodes: nodes.into_iter().map(|node| entry(node, status.at)).collect(),
        });
    }
    // The desired configuration needs a repository, and marks are rare.
    let column = |(title, omitted)| NodeColumn { title, omitted, optional: matches!(title, "draining" | "desired") };
    let columns = [
        ("since", 0),
        ("draining", 0),
        ("ready", 4),
        ("kubelet", 3),
        ("desired", 0),
        ("wanted", 1),
        ("assigned", 5),
        ("active", 0),
        ("last known good", 2),
    ];
    Nodes {
        at: status.at,
        pool_columns: vec!["converged", "configs"],
        columns: columns.into_iter().map(column).collect(),
        pools,
    }
}

/// Why the nodes of pools wait or are new.
fn notes_of_pools(status: &FleetStatus) -> impl Iterator<Item = Item> {
    let mut notes: Vec<(&'static str, &PoolName, String)> = Vec::new();
    for of in &status.pools {
        let Some(pool) = &of.pool else { continue };
        notes.extend(pool_notes(of, status).into_iter().map(|(label, text)| (label, pool, text)));
    }
    let order = ["paused", "held", "order", "step", "new", "unproven"];
    // The sort is stable: pools keep their order.
    notes.sort_by_key(|(label, ..)| order.iter().position(|other| other == label));
    notes.into_iter().map(|(label, pool, text)| {
        let text = Text::name(pool.as_str()).then(format!(" {text}"));
        if matches!(label, "order" | "step") { Item::labeled(label, text) } else { Item::warning(label, text) }
    })
}

fn facts(status: &FleetStatus, server: &str) -> Vec<(&'static str, Text)> {
    let label = if status.fleets.len() == 1 { "fleet" } else { "fleets" };
    let fleets = Text::names(status.fleets.iter().map(|orders| orders.fleet.as_str()));
    let fleets = (!status.fleets.is_empty()).then_some((label, fleets));
    let commit = status.compared.as_ref().map(|compared| match &compared.commit {
        Some(commit) => ("compared with commit", Text::name(commit.as_str())),
        None => ("compared with", "the working tree".into()),
    });
    fleets.into_iter().chain(commit).chain([("cluster", Text::name(server))]).collect()
}

fn entry(node: &NodeStatus, at: Timestamp) -> NodeEntry {
    let source = |source: &Option<ConfigSource>| Cell::Source(source.clone());
    let ready = match node.ready {
        Readiness::Ready => Cell::Words(node.ready.to_string()),
        _ => Cell::Graded(Grade::Bad, node.ready.to_string()),
    };
    let is_settled = node.state.is_settled() && node.drain_mark.is_none();
    NodeEntry {
        name: node.node.clone(),
        state: node.state,
        words: node.trial.map_or_else(|| node.state.to_string(), |trial| super::super::trial(&trial, at)),
        weight: if is_settled { Weight::Listed } else { Weight::Problem },
        cells: vec![
            node.since.map_or(Cell::Empty, Cell::Since),
            node.drain_mark.as_deref().map_or(Cell::Empty, |mark| Cell::Graded(Grade::Warning, mark_since(mark, at))),
            ready,
            Cell::name(node.kubelet.as_ref()),
            node.desired.as_ref().map_or(Cell::Empty, |desired| Cell::Source(Target::source(desired).cloned())),
            source(&node.wanted),
            source(&node.assigned),
            source(&node.active),
            source(&node.last_known_good),
        ],
        message: message(node).unwrap_or_default(),
    }
}

/// The problem of a node, with the configuration that it falls back to if it runs another one.
fn message(node: &NodeStatus) -> Option<String> {
    let (good, active) = (source::short(node.last_known_good.as_ref()), source::short(node.active.as_ref()));
    let falls_back = matches!(node.state, State::Failed | State::CannotFetch) && good != active;
    let good = if falls_back { format!("; last known good: {good}") } else { String::new() };
    Some(format!("{}{good}", problem(node)?))
}

/// How long a node has had the mark of a drain. Without the taint, new pods are still scheduled on the node.
fn mark_since(mark: &DrainMark, at: Timestamp) -> String {
    let since = drain_age(mark, at).unwrap_or_else(|| "yes".to_owned());
    if mark.tainted { since } else { format!("{since}, no taint") }
}

/// The mark of a drain in words: `draining 5m (no taint)`.
pub(super) fn draining(mark: &DrainMark, at: Timestamp) -> String {
    let since = drain_age(mark, at).map(|age| format!(" {age}")).unwrap_or_default();
    let taint = if mark.tainted { "" } else { " (no taint)" };
    format!("draining{since}{taint}")
}

/// The age of a mark, if known.
fn drain_age(mark: &DrainMark, at: Timestamp) -> Option<String> {
    let since = mark.drain.as_ref()?.since;
    (since <= at).then(|| Age::between(since, at).to_string())
}

fn cases(status: &FleetStatus) -> impl Iterator<Item = Case<'_>> {
    status.nodes.iter().filter_map(|node| {
        Some(Case {
            priority: node.state as u8,
            label: node.state.word(),
            grade: node.state.grade(),
            message: message(node)?,
            explanation: explanation(node),
            pool: node.pool.as_ref(),
            node: &node.node,
        })
    })
}

/// The result, the number of nodes per state, problems first, and uncommitted files.
fn result(status: &FleetStatus) -> Conclusion {
    let (label, text) = convergence(status);
    let files = status.compared.as_ref().and_then(|compared| compared.uncommitted);
    let suffix = files.map_or_else(String::new, |files| format!("; {}", uncommitted(files)));
    let counted = |number: usize, what: &str| match number {
        0 => String::new(),
        number => format!("; {number} {what}"),
    };
    let nodes = || status.nodes.iter();
    let unproven = counted(nodes().filter(|node| node.unproven.is_some()).count(), "may run other values");
    let marked = counted(nodes().filter(|node| node.drain_mark.is_some()).count(), "draining");
    if status.pools.is_empty() {
        return Conclusion::sentence(Grade::Neutral, "No nodes.");
    }
    let grade = status.states.keys().next().map_or(Grade::Good, |worst| worst.grade());
    Conclusion { label: label.to_owned(), grade, text: format!("{text}{unproven}{marked}{suffix}.").into() }
}

fn convergence(status: &FleetStatus) -> (&'static str, String) {
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
        _ if worst.is_settled() => ("Converged:", format!("{total}: {}", counts_in_words(&status.states))),
        _ => {
            let (rest, not_converged): (BTreeMap<_, _>, BTreeMap<_, _>) = status
                .states
                .iter()
                .map(|(state, number)| (*state, *number))
                .partition(|(state, _)| state.is_settled());
            let rest_in_numbers = if rest.is_empty() { String::new() } else { format!("; {}", counts_in_words(&rest)) };
            let number: usize = not_converged.values().sum();
            ("Not converged:", format!("{number} of {total}: {}{rest_in_numbers}", counts_in_words(&not_converged)))
        }
    }
}
