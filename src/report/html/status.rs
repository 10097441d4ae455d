//! HTML report of `status`.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::failures::{FailedNode, grouped};
use super::page::{FailureGroup, Node, Notice, Page, Pool};
use crate::report::error::ErrorMessage;
use crate::report::status::{POOL_NOTES, explanation, fleet_notes, pool_note, problem, state};
use crate::report::{count, source, uncommitted};
use crate::review::Review;
use crate::status::{FleetStatus, Grade, NodeStatus, PoolStatus, State};
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_plan::Problem;

/// The report of a status. `review` is the result of planning a sync, if a repository is given.
#[must_use]
pub fn of_status(status: &FleetStatus, server: &str, review: Option<Result<Review, Vec<Problem>>>) -> Page {
    let (review, problems) = match review {
        None => (None, Vec::new()),
        Some(Ok(review)) => (Some(review), Vec::new()),
        Some(Err(problems)) => (None, problems),
    };
    let problem = |problem: Problem| ErrorMessage {
        code: problem.code().to_owned(),
        message: format!("sync is not possible: {problem}"),
        help: problem.help(),
    };
    let states: Vec<String> = status.states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    let nodes = count(status.nodes.len(), "node");
    let files = status.compared.as_ref().and_then(|compared| compared.uncommitted);
    let suffix = files.map_or_else(String::new, |files| format!("; {}", uncommitted(files)));
    let good = problems.is_empty() && status.nodes.iter().all(|node| node.state.grade() > Grade::Warning);
    let single = match status.fleets.as_slice() {
        [orders] => Some(&orders.fleet),
        _ => None,
    };
    let mut by_pool: BTreeMap<(Option<&FleetName>, Option<&PoolName>), Vec<&NodeStatus>> = BTreeMap::new();
    for node in &status.nodes {
        by_pool.entry((node.fleet.as_ref(), node.pool.as_ref())).or_default().push(node);
    }
    Page {
        command: "status",
        good,
        verdict: if states.is_empty() { nodes + &suffix } else { format!("{nodes}: {}{suffix}", states.join(", ")) },
        facts: facts(status, server),
        made: status.at,
        errors: problems.into_iter().map(problem).collect(),
        notices: notices(status),
        pools: status
            .pools
            .iter()
            .map(|of| {
                let nodes = by_pool.remove(&(of.fleet.as_ref(), of.pool.as_ref())).unwrap_or_default();
                pool(of, nodes, single, status.at)
            })
            .collect(),
        columns: &["ready", "kubelet", "assigned", "active", "last known good", "since"],
        drains: Vec::new(),
        recovery: Vec::new(),
        failures: failures(status),
        timeline: None,
        review,
    }
}

fn facts(status: &FleetStatus, server: &str) -> Vec<(&'static str, String)> {
    let fleets: Vec<&str> = status.fleets.iter().map(|orders| orders.fleet.as_str()).collect();
    let mut facts = Vec::new();
    match fleets.as_slice() {
        [] => {}
        [fleet] => facts.push(("fleet", (*fleet).to_owned())),
        _ => facts.push(("fleets", fleets.join(", "))),
    }
    if let Some(compared) = &status.compared {
        let commit = compared.commit.as_ref().map_or_else(|| "the working tree".to_owned(), ToString::to_string);
        facts.push(("compared with commit", commit));
    }
    facts.push(("cluster", server.to_owned()));
    facts
}

/// Notes about fleets, and why the nodes of pools wait or are new.
fn notices(status: &FleetStatus) -> Vec<Notice> {
    let of_fleets = status.fleets.iter().flat_map(fleet_notes).map(|note| Notice { label: note.kind, text: note.text });
    let of_pools = POOL_NOTES.into_iter().flat_map(|kind| {
        let notes =
            status.pools.iter().filter_map(move |of| Some((of.pool.as_ref()?, pool_note(of, kind, status.at)?)));
        notes.map(move |(pool, text)| Notice { label: kind, text: format!("{pool} {text}") })
    });
    of_fleets.chain(of_pools).collect()
}

fn moment(at: Timestamp) -> String {
    format!("{at:.0}")
}

fn pool(of: &PoolStatus, mut nodes: Vec<&NodeStatus>, single: Option<&FleetName>, at: Timestamp) -> Pool {
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    let note = |kind: &str| Some(format!("{kind}: {}", pool_note(of, kind, at)?));
    let mut remarks: Vec<String> = POOL_NOTES.into_iter().filter_map(note).collect();
    if of.configurations > 1 {
        remarks.push(format!("nodes run {} different configurations", of.configurations));
    }
    Pool {
        name: of.pool.clone(),
        fleet: of.fleet.clone().filter(|fleet| single != Some(fleet)),
        remarks,
        nodes: nodes.into_iter().map(|status| node(status, at)).collect(),
    }
}

fn node(status: &NodeStatus, at: Timestamp) -> Node {
    Node {
        name: status.node.clone(),
        state: status.state,
        state_text: state(status, at),
        cells: vec![
            status.ready.to_string(),
            status.kubelet.map(|version| version.to_string()).unwrap_or_default(),
            source::short(status.assigned.as_ref()),
            source::short(status.active.as_ref()),
            source::short(status.last_known_good.as_ref()),
            status.since.map(moment).unwrap_or_default(),
        ],
        message: problem(status).unwrap_or_default(),
    }
}

/// Nodes with problems by kind: bad states and drift.
fn failures(status: &FleetStatus) -> Vec<FailureGroup> {
    let has_problem = |node: &&NodeStatus| node.state.grade() == Grade::Bad || node.state == State::Drifted;
    grouped(status.nodes.iter().filter(has_problem).map(|node| FailedNode {
        priority: node.state as u8,
        label: node.state.word(),
        message: problem(node).unwrap_or_default(),
        explanation: explanation(node),
        pool: node.pool.as_ref(),
        node: &node.node,
    }))
}
