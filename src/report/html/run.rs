//! The page of a run: of `sync` and `verify` that came to an end, and of a command that never began its work.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::failures::{Case, grouped};
use super::page::{FailureGroup, Node, Notice, Page, Pool};
use super::run_timeline::RunTimeline;
use crate::report::error::ErrorMessage;
use crate::report::progress::RunHeader;
use crate::report::{duration, names, source, summary};
use crate::review::Review;
use nodecfg_contract::names::PoolName;
use nodecfg_planning::rollout::{End, NodeOutcome, Outcome, PoolOutcome};
use nodecfg_planning::state::State;

/// What is known of a run before it begins, and what is seen of it while it goes on.
#[derive(Debug, Clone)]
pub struct Run {
    /// The command.
    pub command: &'static str,
    /// What it works on.
    pub scene: RunHeader,
    /// What is to be done.
    pub review: Review,
    /// What has happened.
    pub chronicle: RunTimeline,
}

/// The page of a run that has come to its end, at `now`. `error` is what cut it short.
#[must_use]
pub fn of_run(
    run: Run,
    outcome: &Outcome,
    now: Timestamp,
    seconds: f64,
    exit_code: u8,
    error: Option<&ErrorMessage>,
) -> Page {
    let verdict = if outcome.is_complete() { "done in" } else { "not done after" };
    let (nodes, parts) = summary::numbers(outcome);
    let mut facts = scene(&run.scene);
    facts.extend(run.review.cluster.as_ref().map(|cluster| ("plan", cluster.plan.to_string())));
    facts.push(("exit code", exit_code.to_string()));
    let moving =
        |ended: &PoolOutcome| ended.nodes.iter().filter(|node| !matches!(node.end, End::LeftAlone { .. })).count();
    let totals: BTreeMap<PoolName, usize> =
        outcome.pools.iter().map(|(name, ended)| (name.clone(), moving(ended))).collect();
    let timeline = Some(run.chronicle.timeline(now, &totals)).filter(|timeline| !timeline.tracks.is_empty());
    Page {
        command: run.command,
        good: outcome.is_complete() && error.is_none(),
        verdict: format!("{verdict} {}. {nodes}{parts}", duration(seconds)),
        facts,
        made: now,
        errors: error.into_iter().cloned().collect(),
        notices: notices(outcome),
        pools: pools(outcome),
        columns: &["from", "to", "took"],
        failures: failures(outcome),
        timeline,
        review: Some(run.review),
    }
}

/// The page of a command that could not do its work.
#[must_use]
pub fn failed(command: &'static str, now: Timestamp, exit_code: u8, errors: Vec<ErrorMessage>) -> Page {
    Page {
        command,
        good: false,
        verdict: "could not do its work".to_owned(),
        facts: vec![("exit code", exit_code.to_string())],
        made: now,
        errors,
        notices: Vec::new(),
        pools: Vec::new(),
        columns: &[],
        failures: Vec::new(),
        timeline: None,
        review: None,
    }
}

fn scene(scene: &RunHeader) -> Vec<(&'static str, String)> {
    let RunHeader { fleet, commit, signer, namespace, server } = scene;
    let revision = commit.as_ref().map_or_else(|| "the working tree".to_owned(), |commit| format!("{commit}"));
    let mut facts = vec![("fleet", fleet.to_string()), ("commit", revision)];
    facts.extend(signer.as_ref().map(|signer| ("signed by", signer.to_string())));
    facts.extend([("namespace", namespace.to_string()), ("cluster", server.clone())]);
    facts
}

/// Why pools stopped, and how to go on.
fn notices(outcome: &Outcome) -> Vec<Notice> {
    let stops = summary::stops(outcome);
    let stopped = stops.iter().map(|(pools, reason)| {
        let label = if pools.len() == 1 { "pool" } else { "pools" };
        let listed = names(pools.iter().map(|pool| pool.as_str()), 8);
        Notice { label: "stopped", text: format!("{label} {listed}: {reason}") }
    });
    let ways = summary::ways_on(&stops);
    stopped.chain(ways.into_iter().map(|way| Notice { label: "next", text: way.to_owned() })).collect()
}

/// The pools that stopped or have nodes amiss first, then by name.
fn pools(outcome: &Outcome) -> Vec<Pool> {
    let mut pools: Vec<(&PoolName, &PoolOutcome)> = outcome.pools.iter().collect();
    pools.sort_by_key(|(_, ended)| ended.stopped.is_none() && ended.nodes.iter().all(|node| node.end.is_good()));
    let pool = |(name, ended): (&PoolName, &PoolOutcome)| Pool {
        name: Some(name.clone()),
        fleet: None,
        remarks: ended.stopped.iter().map(|reason| format!("stopped: {reason}")).collect(),
        nodes: ended.nodes.iter().map(node).collect(),
    };
    pools.into_iter().map(pool).collect()
}

fn node(outcome: &NodeOutcome) -> Node {
    let state = outcome.end.state();
    let word = match state {
        State::Settled | State::Skipped => state.word(),
        _ => summary::state(&outcome.end),
    };
    let says = match (&outcome.end, summary::words(&outcome.end)) {
        (_, Some((_, words))) => words,
        (End::LeftAlone { why }, None) => why.to_string(),
        _ => String::new(),
    };
    Node {
        name: outcome.node.clone(),
        state,
        word: word.to_owned(),
        cells: vec![
            source::short(outcome.from.as_ref()),
            source::short(outcome.to.source()),
            outcome.seconds.map(duration).unwrap_or_default(),
        ],
        says,
    }
}

/// Each kind of failure once, the worst first, with what was said.
fn failures(outcome: &Outcome) -> Vec<FailureGroup> {
    let all = outcome.pools.iter().flat_map(|(pool, ended)| ended.nodes.iter().map(move |node| (pool, node)));
    let all = all.filter_map(|(pool, node)| {
        let (label, words) = summary::words(&node.end)?;
        let weight = summary::weight(&node.end);
        Some(Case { weight, label, words, explanation: summary::explanation(node), pool: Some(pool), node: &node.node })
    });
    grouped(all)
}
