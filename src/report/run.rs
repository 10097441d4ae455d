//! The report of a run, and of a command that failed.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::document::{Block, Cell, Conclusion, Item, NodeColumn, NodeEntry, NodePool, Nodes, Report, Text, Weight};
use super::error::ErrorMessage;
use super::problems::Case;
use super::progress::RunHeader;
use super::review::{remarks, suffix};
use super::timeline::RunTimeline;
use super::{drained, duration, paused, problems, recovery, review, stops, summary};
use crate::review::Review;
use crate::status::Grade;
use nodecfg_contract::names::PoolName;
use nodecfg_plan::state::State;
use nodecfg_rollout::{End, NodeOutcome, Outcome, PoolOutcome};

/// A run: what it works on, and its plan.
#[derive(Debug, Clone)]
pub struct Run {
    /// The command.
    pub command: &'static str,
    /// The header.
    pub header: RunHeader,
    /// The plan.
    pub review: Review,
}

/// The end of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunEnd<'a> {
    /// The result.
    pub outcome: &'a Outcome,
    /// When the run ended.
    pub at: Timestamp,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// What a run reached.
#[must_use]
pub fn report(run: &Run, end: RunEnd<'_>) -> Report {
    let RunEnd { outcome, at, .. } = end;
    let paused = paused::items(run.review.paused.as_ref());
    let mut blocks: Vec<Block> = paused.chain(stops::items(outcome, at)).map(Block::Item).collect();
    blocks.push(Block::Nodes(nodes(run, outcome, at)));
    let sections =
        [problems::section("What went wrong", cases(outcome)), drained::section(outcome), recovery::section(outcome)];
    blocks.extend(sections.into_iter().flatten().map(Block::Section));
    Report { command: run.command, result: Some(result(run, end)), blocks, ..Report::default() }
}

/// What a run reached, with its header, the error that ended it, its course and its plan.
#[must_use]
pub fn whole(run: &Run, end: RunEnd<'_>, exit_code: u8, error: Option<&ErrorMessage>, timeline: RunTimeline) -> Report {
    let mut report = report(run, end);
    report.facts = facts(run, exit_code);
    if let Some(error) = error {
        report.blocks.insert(0, item(error).into());
        report.result.iter_mut().for_each(|result| result.grade = Grade::Bad);
    }
    let timeline = timeline.timeline(end.at, &moving(end.outcome));
    if !timeline.tracks.is_empty() {
        report.blocks.push(Block::Timeline(timeline));
    }
    if run.review.is_changed() {
        // Other commands only show what a sync would do.
        let carries_out = matches!(run.command, "sync" | "rollback" | "reset");
        let title = if carries_out { "Plan" } else { "What a sync would do" };
        report.blocks.push(Block::Report(title, Box::new(review::report(run.command, &run.review))));
    } else {
        report.blocks.extend(review::aside(&run.review));
    }
    report
}

/// The number of nodes of each pool that a run should change.
fn moving(outcome: &Outcome) -> BTreeMap<PoolName, usize> {
    let moving =
        |ended: &PoolOutcome| ended.nodes.iter().filter(|node| !matches!(node.end, End::LeftAlone { .. })).count();
    outcome.pools.iter().map(|(name, ended)| (name.clone(), moving(ended))).collect()
}

/// A command that failed before it had a result.
#[must_use]
pub fn failed(command: &'static str, exit_code: u8, errors: &[ErrorMessage]) -> Report {
    Report {
        command,
        result: Some(Conclusion {
            label: "Failed,".to_owned(),
            grade: Grade::Bad,
            text: format!("exit code {exit_code}").into(),
        }),
        blocks: errors.iter().map(item).map(Block::Item).collect(),
        ..Report::default()
    }
}

fn item(error: &ErrorMessage) -> Item {
    let help = (!error.help.is_empty()).then(|| Item::labeled("help", error.help.clone()));
    Item::bad("error", error.message.clone()).with(help)
}

/// The result, the duration, the number of nodes per state, and remarks.
fn result(run: &Run, RunEnd { outcome, at, seconds }: RunEnd<'_>) -> Conclusion {
    let took = duration(seconds);
    let (label, grade) = match outcome.is_complete() {
        true => (format!("Done in {took}."), Grade::Good),
        false => (format!("Not done after {took}."), Grade::Bad),
    };
    let text = format!("{}{}.", summary::node_counts(outcome, at), suffix(&remarks(&run.review)));
    Conclusion { label, grade, text: text.into() }
}

fn facts(run: &Run, exit_code: u8) -> Vec<(&'static str, Text)> {
    let RunHeader { fleet, commit, signer, namespace, server, ignored_windows } = &run.header;
    let mut facts = vec![("fleet", Text::name(fleet.as_str()))];
    facts.push(match commit {
        Some(commit) => ("commit", Text::name(commit.as_str())),
        None => ("from", "the working tree".into()),
    });
    facts.extend(signer.as_ref().map(|signer| ("signed by", Text::name(signer.to_string()))));
    facts.push(("namespace", Text::name(namespace.as_str())));
    facts.push(("cluster", Text::name(server.as_str())));
    facts.extend(ignored_windows.as_ref().map(|reason| ("windows ignored", Text::from(reason.as_str()))));
    facts.extend(run.review.cluster.as_ref().map(|cluster| ("plan", Text::name(cluster.plan.to_string()))));
    facts.push(("exit code", exit_code.to_string().into()));
    facts
}

/// The pools, those with problems first, with their nodes.
fn nodes(run: &Run, outcome: &Outcome, at: Timestamp) -> Nodes {
    let mut pools: Vec<(&PoolName, &PoolOutcome)> = outcome.pools.iter().collect();
    pools.sort_by_key(|(_, ended)| ended.stopped.is_none() && ended.nodes.iter().all(NodeOutcome::is_good));
    let pool = |(name, ended): (&PoolName, &PoolOutcome)| NodePool {
        name: Some(name.clone()),
        fleet: Some(run.header.fleet.clone()),
        cells: Vec::new(),
        remarks: (ended.stopped.iter().map(|reason| format!("stopped: {reason}")))
            .chain(ended.held.iter().map(|hold| format!("held: {hold}")))
            .chain(stops::pause_of(ended).map(|pause| format!("paused: {pause}")))
            .collect(),
        nodes: ended.nodes.iter().map(|node| entry(node, at)).collect(),
    };
    let column = |title, omitted| NodeColumn { title, omitted, optional: false };
    Nodes {
        at,
        pool_columns: Vec::new(),
        columns: vec![column("from", 1), column("to", 0), column("took", 2)],
        pools: pools.into_iter().map(pool).collect(),
    }
}

fn entry(outcome: &NodeOutcome, at: Timestamp) -> NodeEntry {
    let end = outcome.end.state();
    let words = match end {
        State::Settled | State::Skipped => end.to_string(),
        _ => summary::state(&outcome.end).to_owned(),
    };
    let message = match (&outcome.end, summary::problem(&outcome.end)) {
        (_, Some((_, text))) => text,
        (End::LeftAlone { why }, None) => why.to_string(),
        _ => String::new(),
    };
    NodeEntry {
        name: outcome.node.clone(),
        state: outcome.trial.map_or(end, |_| State::OnTrial),
        words: outcome.trial.map_or(words.clone(), |trial| format!("{words}, {}", super::trial(&trial, at))),
        weight: match &outcome.end {
            End::LeftAlone { why } if !why.is_blocked() => Weight::Counted,
            End::Converged => Weight::Listed,
            _ => Weight::Problem,
        },
        cells: vec![
            Cell::Source(outcome.from.clone()),
            Cell::Source(outcome.to.source().cloned()),
            outcome.seconds.map_or(Cell::Empty, Cell::Seconds),
        ],
        message,
    }
}

fn cases(outcome: &Outcome) -> impl Iterator<Item = Case<'_>> {
    let all = outcome.pools.iter().flat_map(|(pool, ended)| ended.nodes.iter().map(move |node| (pool, node)));
    all.filter_map(|(pool, node)| {
        let (label, message) = summary::problem(&node.end)?;
        let priority = summary::priority(&node.end);
        Some(Case {
            priority,
            label,
            grade: if priority == 0 { Grade::Bad } else { Grade::Warning },
            message,
            explanation: summary::explanation(node),
            pool: Some(pool),
            node: &node.node,
        })
    })
}

#[cfg(test)]
#[path = "run_tests.rs"]
pub(super) mod tests;
