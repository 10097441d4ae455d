//! The page of `status`: how every pool and every node of a cluster is.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::failures::{Case, grouped};
use super::page::{FailureGroup, Node, Notice, Page, Pool};
use crate::report::error::ErrorMessage;
use crate::report::status::{explanation, of_fleet, pause, words};
use crate::report::{count, source};
use crate::review::Review;
use crate::status::{FleetStatus, Grade, NodeStatus, PoolStatus, State};
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_planning::plan::Problem;

/// The page of one look at a cluster. `review` is what a sync would do, or why none could, where a repository was named.
#[must_use]
pub fn of_status(status: &FleetStatus, server: &str, review: Option<Result<Review, Vec<Problem>>>) -> Page {
    let (review, problems) = match review {
        None => (None, Vec::new()),
        Some(Ok(review)) => (Some(review), Vec::new()),
        Some(Err(problems)) => (None, problems),
    };
    let problem = |problem: Problem| ErrorMessage {
        code: problem.code().to_owned(),
        message: format!("no sync could run: {problem}"),
        help: problem.help(),
    };
    let states: Vec<String> = status.states.iter().map(|(state, number)| format!("{number} {state}")).collect();
    let nodes = count(status.nodes.len(), "node");
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
        verdict: if states.is_empty() { nodes } else { format!("{nodes}: {}", states.join(", ")) },
        facts: facts(status, server),
        made: status.at,
        errors: problems.into_iter().map(problem).collect(),
        notices: status
            .fleets
            .iter()
            .flat_map(of_fleet)
            .map(|told| Notice { label: told.word, text: told.text })
            .collect(),
        pools: status
            .pools
            .iter()
            .map(|of| pool(of, by_pool.remove(&(of.fleet.as_ref(), of.pool.as_ref())).unwrap_or_default(), single))
            .collect(),
        columns: &["ready", "kubelet", "assigned", "active", "last known good", "since"],
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

fn moment(at: Timestamp) -> String {
    format!("{at:.0}")
}

fn pool(of: &PoolStatus, mut nodes: Vec<&NodeStatus>, single: Option<&FleetName>) -> Pool {
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    let mut remarks: Vec<String> =
        of.paused.as_ref().map(|paused| format!("paused: {}", pause(paused))).into_iter().collect();
    if of.configurations > 1 {
        remarks.push(format!("its nodes run {} different configurations", of.configurations));
    }
    Pool {
        name: of.pool.clone(),
        fleet: of.fleet.clone().filter(|fleet| single != Some(fleet)),
        remarks,
        nodes: nodes.into_iter().map(node).collect(),
    }
}

fn node(status: &NodeStatus) -> Node {
    Node {
        name: status.node.clone(),
        state: status.state,
        word: status.state.to_string(),
        cells: vec![
            status.ready.to_string(),
            status.kubelet.map(|version| version.to_string()).unwrap_or_default(),
            source::short(status.assigned.as_ref()),
            source::short(status.active.as_ref()),
            source::short(status.last_known_good.as_ref()),
            status.since.map(moment).unwrap_or_default(),
        ],
        says: words(status).unwrap_or_default(),
    }
}

/// What somebody has to look at, each kind once: what is bad, and what was changed behind nodecfg's back.
fn failures(status: &FleetStatus) -> Vec<FailureGroup> {
    let told = |node: &&NodeStatus| node.state.grade() == Grade::Bad || node.state == State::Drifted;
    grouped(status.nodes.iter().filter(told).map(|node| Case {
        weight: node.state as u8,
        label: node.state.word(),
        words: words(node).unwrap_or_default(),
        explanation: explanation(node),
        pool: node.pool.as_ref(),
        node: &node.node,
    }))
}
