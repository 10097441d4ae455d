//! HTML report of a `sync` or `verify` run, and of a command that failed early.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::failures::{FailedNode, grouped};
use super::page::{FailureGroup, Node, Notice, Page, Pool};
use super::run_timeline::RunTimeline;
use crate::report::drained::drained;
use crate::report::error::ErrorMessage;
use crate::report::progress::RunHeader;
use crate::report::recovery::changed;
use crate::report::review::{remarks, sentences, suffix};
use crate::report::{duration, source, stops, summary};
use crate::review::Review;
use kubelet_config::finding::Severity;
use nodecfg_contract::names::PoolName;
use nodecfg_plan::state::State;
use nodecfg_rollout::{End, NodeOutcome, Outcome, PoolOutcome};

/// Data of a run for its HTML report.
#[derive(Debug, Clone)]
pub struct Run {
    /// The command.
    pub command: &'static str,
    /// The header.
    pub header: RunHeader,
    /// The plan.
    pub review: Review,
    /// The timeline so far.
    pub timeline: RunTimeline,
}

/// The report of a run that ended at `now`. `error` is the error that ended it early.
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
    let (nodes, parts) = summary::node_counts(outcome, now);
    let mut facts = header_facts(&run.header);
    facts.extend(run.review.cluster.as_ref().map(|cluster| ("plan", cluster.plan.to_string())));
    facts.push(("exit code", exit_code.to_string()));
    let moving =
        |ended: &PoolOutcome| ended.nodes.iter().filter(|node| !matches!(node.end, End::LeftAlone { .. })).count();
    let totals: BTreeMap<PoolName, usize> =
        outcome.pools.iter().map(|(name, ended)| (name.clone(), moving(ended))).collect();
    let timeline = Some(run.timeline.timeline(now, &totals)).filter(|timeline| !timeline.tracks.is_empty());
    Page {
        command: run.command,
        good: outcome.is_complete() && error.is_none(),
        verdict: format!("{verdict} {}. {nodes}{parts}{}", duration(seconds), suffix(&remarks(&run.review))),
        facts,
        made: now,
        errors: error.into_iter().cloned().collect(),
        notices: notices(outcome, now).into_iter().chain(review_notices(&run.review)).collect(),
        pools: pools(outcome, now),
        columns: &["from", "to", "took"],
        drains: drained(outcome),
        recovery: changed(outcome),
        failures: failures(outcome),
        timeline,
        review: Some(run.review),
    }
}

/// The report of a command that failed.
#[must_use]
pub fn failed(command: &'static str, now: Timestamp, exit_code: u8, errors: Vec<ErrorMessage>) -> Page {
    Page {
        command,
        good: false,
        verdict: "failed".to_owned(),
        facts: vec![("exit code", exit_code.to_string())],
        made: now,
        errors,
        notices: Vec::new(),
        pools: Vec::new(),
        columns: &[],
        drains: Vec::new(),
        recovery: Vec::new(),
        failures: Vec::new(),
        timeline: None,
        review: None,
    }
}

fn header_facts(header: &RunHeader) -> Vec<(&'static str, String)> {
    let RunHeader { fleet, commit, signer, namespace, server, ignored_windows } = header;
    let revision = commit.as_ref().map_or_else(|| "the working tree".to_owned(), |commit| format!("{commit}"));
    let mut facts = vec![("fleet", fleet.to_string()), ("commit", revision)];
    facts.extend(signer.as_ref().map(|signer| ("signed by", signer.to_string())));
    facts.extend([("namespace", namespace.to_string()), ("cluster", server.clone())]);
    facts.extend(ignored_windows.as_ref().map(|reason| ("windows ignored", reason.clone())));
    facts
}

/// Stop reasons, holds, pauses and accepted new nodes, with their next steps.
fn notices(outcome: &Outcome, at: Timestamp) -> Vec<Notice> {
    let (stops, pauses) = (stops::stops(outcome), stops::pauses(outcome));
    [
        ("stopped", stops::stop_texts(&stops)),
        ("next", stops::next_steps(outcome, &stops)),
        ("held", stops::hold_texts(outcome)),
        ("paused", stops::pause_texts(&pauses)),
        ("next", stops::next_step_after_pauses(&pauses).into_iter().collect()),
        ("new", stops::new_node_texts(outcome, at)),
        ("next", summary::next_steps_of_nodes(outcome)),
    ]
    .into_iter()
    .flat_map(|(label, texts)| texts.into_iter().map(move |text| Notice { label, text }))
    .collect()
}

/// Warnings about the configuration, and nodes without a pool.
fn review_notices(review: &Review) -> Vec<Notice> {
    let warnings = review.findings.iter().filter(|finding| finding.severity != Severity::Note).map(|finding| {
        let place = finding.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
        let help = finding.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
        Notice { label: "warning", text: format!("{place}{}{help}", finding.message) }
    });
    let unpooled = review.cluster.iter().flat_map(|cluster| sentences::unpooled(cluster, |node| node.to_string()));
    warnings.chain(unpooled.map(|text| Notice { label: "note", text })).collect()
}

/// The pools: those with problems first, then by name.
fn pools(outcome: &Outcome, at: Timestamp) -> Vec<Pool> {
    let mut pools: Vec<(&PoolName, &PoolOutcome)> = outcome.pools.iter().collect();
    pools.sort_by_key(|(_, ended)| ended.stopped.is_none() && ended.nodes.iter().all(NodeOutcome::is_good));
    let pool = |(name, ended): (&PoolName, &PoolOutcome)| Pool {
        name: Some(name.clone()),
        fleet: None,
        remarks: (ended.stopped.iter().map(|reason| format!("stopped: {reason}")))
            .chain(ended.held.iter().map(|hold| format!("held: {hold}")))
            .chain(stops::pause_of(ended).map(|pause| format!("paused: {pause}")))
            .collect(),
        nodes: ended.nodes.iter().map(|outcome| node(outcome, at)).collect(),
    };
    pools.into_iter().map(pool).collect()
}

fn node(outcome: &NodeOutcome, at: Timestamp) -> Node {
    let (end, trial) = (outcome.end.state(), outcome.trial);
    let state_text = match end {
        State::Settled | State::Skipped => end.to_string(),
        _ => summary::state(&outcome.end).to_owned(),
    };
    let state_text =
        trial.map_or(state_text.clone(), |trial| format!("{state_text}, {}", super::super::trial(&trial, at)));
    let message = match (&outcome.end, summary::problem(&outcome.end)) {
        (_, Some((_, text))) => text,
        (End::LeftAlone { why }, None) => why.to_string(),
        _ => String::new(),
    };
    Node {
        name: outcome.node.clone(),
        state: trial.map_or(end, |_| State::OnTrial),
        state_text,
        cells: vec![
            source::short(outcome.from.as_ref()),
            source::short(outcome.to.source()),
            outcome.seconds.map(duration).unwrap_or_default(),
        ],
        message,
    }
}

/// The failures by kind.
fn failures(outcome: &Outcome) -> Vec<FailureGroup> {
    let all = outcome.pools.iter().flat_map(|(pool, ended)| ended.nodes.iter().map(move |node| (pool, node)));
    let all = all.filter_map(|(pool, node)| {
        let (label, message) = summary::problem(&node.end)?;
        let priority = summary::priority(&node.end);
        Some(FailedNode {
            priority,
            label,
            message,
            explanation: summary::explanation(node),
            pool: Some(pool),
            node: &node.node,
        })
    });
    grouped(all)
}
