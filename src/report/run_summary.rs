//! Markdown summary of a `sync` or `verify` run for a CI job page: result, error, stop reasons, next steps, pauses,
//! nodes with problems, explanations, counts per pool, and the plan (collapsed). Also the summary of a command that
//! failed.
//!
//! Facts and texts come from [`summary`]. Tables, lists of names, messages and the plan have a maximum length,
//! because job pages have one.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use jiff::Timestamp;

use super::drained::{drained, totals};
use super::error::ErrorMessage;
use super::explain::Explanation;
use super::markdown::{code, prose};
use super::progress::RunHeader;
use super::review::clipped;
use super::{count, duration, explain, names, recovery, review, source, stops, summary};
use crate::review::Review;
use nodecfg_contract::names::PoolName;
use nodecfg_rollout::{End, NodeOutcome, Outcome};

/// Maximum number of rows of a table, and of items of a list.
const MAX_ROWS: usize = 50;
/// Maximum number of names in a list.
const MAX_NAMES: usize = 8;
/// Maximum length of a message from a node or the API server, in characters.
const MAX_MESSAGE: usize = 400;
/// Maximum length of the plan, in UTF-16 units. The summary page of a GitHub Actions step holds 1 MiB.
const MAX_PLAN: usize = 60_000;

/// A run before its start: its header and its plan.
#[derive(Debug, Clone)]
pub struct PlannedRun {
    command: &'static str,
    header: RunHeader,
    /// The name of the plan.
    plan: Option<String>,
    /// The plan as markdown. Empty if there is nothing to do.
    planned: String,
    /// What the result leaves out.
    remarks: Vec<String>,
}

impl PlannedRun {
    /// The plan of `command` as shown in `review`.
    ///
    /// # Errors
    /// When the plan cannot be rendered.
    pub fn of(command: &'static str, header: &RunHeader, review: &Review) -> io::Result<Self> {
        let mut planned = Vec::new();
        if review.is_changed() {
            review::markdown(&mut planned, review, Some(MAX_PLAN))?;
        }
        Ok(Self {
            command,
            header: header.clone(),
            plan: review.cluster.as_ref().map(|cluster| cluster.plan.to_string()),
            planned: String::from_utf8(planned).map_err(io::Error::other)?,
            remarks: review::remarks(review),
        })
    }
}

/// Writes the summary of a run that ended at `at` after `seconds`. `error` is the error that ended it early.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(
    out: &mut dyn Write,
    before: &PlannedRun,
    outcome: &Outcome,
    (seconds, at): (f64, Timestamp),
    exit_code: u8,
    error: Option<&ErrorMessage>,
) -> io::Result<()> {
    write_verdict(out, before, outcome, (seconds, at), exit_code)?;
    if let Some(error) = error {
        writeln!(out, "- **error:** {}", quoted(&error.message))?;
        writeln!(out, "- **help:** {}\n", quoted(&error.help))?;
    }
    write_stops(out, outcome, at)?;
    write_nodes(out, outcome)?;
    write_explanations(out, outcome)?;
    write_pools(out, outcome)?;
    write_drains(out, outcome)?;
    write_recovery(out, outcome)?;
    if !before.planned.is_empty() {
        let title = if carries_out(before.command) { "Plan" } else { "What a sync would do" };
        writeln!(out, "<details><summary>{title}</summary>\n\n{}\n</details>\n", before.planned)?;
    }
    Ok(())
}

/// Reports whether a run of this command carries its plan out. Other commands only show what a sync would do.
pub(super) fn carries_out(command: &str) -> bool {
    matches!(command, "sync" | "rollback" | "reset")
}

/// Writes the summary of a command that failed.
///
/// # Errors
/// When `out` cannot be written.
pub fn failed(out: &mut dyn Write, command: &str, exit_code: u8, errors: &[ErrorMessage]) -> io::Result<()> {
    writeln!(out, "### nodecfg {command}: failed, exit code {exit_code}\n")?;
    for error in errors.iter().take(MAX_ROWS) {
        writeln!(out, "- **error:** {}", quoted(&error.message))?;
        if !error.help.is_empty() {
            writeln!(out, "- **help:** {}", quoted(&error.help))?;
        }
    }
    if errors.len() > MAX_ROWS {
        writeln!(out, "- {} more; see the JSON report", count(errors.len() - MAX_ROWS, "error"))?;
    }
    writeln!(out)
}

/// Escapes and shortens a quoted message.
fn quoted(text: &str) -> String {
    prose(&clipped(text, MAX_MESSAGE))
}

fn code_list<'a>(all: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<String> = all.into_iter().map(code).collect();
    names(all.iter().map(String::as_str), MAX_NAMES)
}

fn write_verdict(
    out: &mut dyn Write,
    before: &PlannedRun,
    outcome: &Outcome,
    (seconds, at): (f64, Timestamp),
    exit_code: u8,
) -> io::Result<()> {
    let verdict = if outcome.is_complete() { "done in" } else { "not done after" };
    let (nodes, parts) = summary::node_counts(outcome, at);
    let remarks = prose(&review::suffix(&before.remarks));
    writeln!(out, "### nodecfg {}: {verdict} {}. {nodes}{parts}{remarks}.\n", before.command, duration(seconds))?;
    let RunHeader { fleet, commit, signer, namespace, server, ignored_windows } = &before.header;
    let revision = match commit {
        Some(commit) => format!("at commit `{}`", commit.short()),
        None => "from the working tree".to_owned(),
    };
    let signed = signer.as_ref().map(|signer| format!(" signed by {}", code(&signer.to_string()))).unwrap_or_default();
    let plan = before.plan.as_ref().map(|plan| format!(", plan {}", code(plan))).unwrap_or_default();
    let server = code(server);
    let ignored = ignored_windows.as_ref().map(|reason| format!(", windows ignored: {}", quoted(reason)));
    writeln!(
        out,
        "fleet `{fleet}` {revision}{signed}, namespace `{namespace}`, on {server}{plan}, exit code {exit_code}{}\n",
        ignored.unwrap_or_default()
    )
}

/// Writes why pools stopped, the next steps, the held and the paused pools, and accepted new nodes.
fn write_stops(out: &mut dyn Write, outcome: &Outcome, at: Timestamp) -> io::Result<()> {
    let stops = stops::stops(outcome);
    for (pools, reason) in stops.iter().take(MAX_ROWS) {
        let label = if pools.len() == 1 { "pool" } else { "pools" };
        let pools = code_list(pools.iter().map(|pool| pool.as_str()));
        writeln!(out, "- **stopped:** {label} {pools}: {}", quoted(&reason.to_string()))?;
    }
    if stops.len() > MAX_ROWS {
        writeln!(out, "- **stopped:** other pools for {} more reasons", stops.len() - MAX_ROWS)?;
    }
    for step in stops::next_steps(outcome, &stops) {
        writeln!(out, "- **next:** {}", prose(&step))?;
    }
    let holds = stops::hold_texts(outcome);
    for text in &holds {
        writeln!(out, "- **held:** {}", prose(text))?;
    }
    let pauses = stops::pauses(outcome);
    for (pool, nodes, pause) in pauses.iter().take(MAX_ROWS) {
        let (pool, nodes) = (code(pool.as_str()), count(*nodes, "node"));
        writeln!(out, "- **paused:** pool {pool}, {nodes} unchanged: {}", quoted(&pause.to_string()))?;
    }
    if pauses.len() > MAX_ROWS {
        writeln!(out, "- **paused:** {} more", count(pauses.len() - MAX_ROWS, "pool"))?;
    }
    if let Some(step) = stops::next_step_after_pauses(&pauses) {
        writeln!(out, "- **next:** {}", prose(&step))?;
    }
    let new_nodes = stops::new_node_texts(outcome, at);
    for text in &new_nodes {
        writeln!(out, "- **new:** {}", prose(text))?;
    }
    let steps = summary::next_steps_of_nodes(outcome);
    for step in &steps {
        writeln!(out, "- **next:** {}", prose(step))?;
    }
    let lists = [&holds, &new_nodes, &steps];
    let is_empty = stops.is_empty() && pauses.is_empty() && lists.into_iter().all(Vec::is_empty);
    if is_empty { Ok(()) } else { writeln!(out) }
}

/// Writes the nodes with problems and their messages, failed ones first.
fn write_nodes(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut problems: Vec<(&PoolName, &NodeOutcome)> = outcome
        .pools
        .iter()
        .flat_map(|(pool, ended)| ended.nodes.iter().map(move |node| (pool, node)))
        .filter(|(_, node)| !node.is_good())
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    // The sort is stable: pools and nodes keep their order.
    problems.sort_by_key(|(_, node)| summary::priority(&node.end));
    let rest = problems.split_off(problems.len().min(MAX_ROWS));
    writeln!(out, "| node | pool | from | to | state | why |\n|---|---|---|---|---|---|")?;
    for (pool, node) in problems {
        let message = summary::problem(&node.end).map(|(_, text)| quoted(&text)).unwrap_or_default();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {message} |",
            code(node.node.as_str()),
            code(pool.as_str()),
            code(&source::short(node.from.as_ref())),
            code(&source::short(node.to.source())),
            summary::state(&node.end),
        )?;
    }
    if !rest.is_empty() {
        let states = summary::state_counts(rest.iter().map(|(_, node)| &node.end));
        writeln!(out, "\n{} more: {states}; see the JSON report", count(rest.len(), "node"))?;
    }
    writeln!(out)
}

/// Writes the explanation of each kind of failure once.
pub(super) fn write_explanations(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    type Kind<'a> = (u8, &'a str, explain::Kind);
    let mut kinds: BTreeMap<Kind<'_>, (Explanation, Vec<&str>)> = BTreeMap::new();
    for node in outcome.pools.values().flat_map(|pool| &pool.nodes) {
        let (Some((label, text)), Some(explanation)) = (summary::problem(&node.end), summary::explanation(node)) else {
            continue;
        };
        let kind = (summary::priority(&node.end), label, explanation.kind(&text));
        kinds.entry(kind).or_insert_with(|| (explanation, Vec::new())).1.push(node.node.as_str());
    }
    for ((_, label, _), (explanation, nodes)) in kinds {
        writeln!(out, "**{label}:** {}\n", code_list(nodes))?;
        writeln!(out, "- meaning: {}", prose(explanation.meaning))?;
        for cause in explanation.causes {
            writeln!(out, "- likely: {}", prose(cause))?;
        }
        writeln!(out, "- see: {}\n", prose(&explanation.look_at))?;
    }
    Ok(())
}

/// Writes the drains, collapsed: what was evicted from each node, and whether the node is released.
fn write_drains(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let drained = drained(outcome);
    let Some(totals) = totals(&drained) else { return Ok(()) };
    writeln!(out, "<details><summary>Drains: {totals}</summary>\n")?;
    writeln!(out, "| node | pool | drain | evicted | took | mark | last blocked by |\n|---|---|---|--:|--:|---|---|")?;
    for node in drained.iter().take(MAX_ROWS) {
        let (name, pool) = (code(node.node.as_str()), code(node.pool.as_str()));
        let (took, blocked) = (&node.took, quoted(&node.blocked));
        writeln!(out, "| {name} | {pool} | {} | {} | {took} | {} | {blocked} |", node.result, node.evicted, node.mark)?;
    }
    if drained.len() > MAX_ROWS {
        writeln!(out, "\n{} more; see the JSON report", count(drained.len() - MAX_ROWS, "node"))?;
    }
    writeln!(out, "\n</details>\n")
}

/// Writes what changed nodes had before and have since, collapsed.
fn write_recovery(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let changed = recovery::changed(outcome);
    let Some(totals) = recovery::totals(&changed) else { return Ok(()) };
    writeln!(out, "<details><summary>{totals}</summary>\n")?;
    writeln!(out, "| node | pool | Ready pods | extended resources |\n|---|---|---|---|")?;
    for node in changed.iter().take(MAX_ROWS) {
        let (name, pool) = (code(node.node.as_str()), code(node.pool.as_str()));
        writeln!(out, "| {name} | {pool} | {} | {} |", node.pods, quoted(&node.resources))?;
    }
    if changed.len() > MAX_ROWS {
        writeln!(out, "\n{} more; see the JSON report", count(changed.len() - MAX_ROWS, "node"))?;
    }
    writeln!(out, "\n</details>\n")
}

/// Writes the node counts of every pool, pools with problems first.
fn write_pools(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut pools: Vec<_> = outcome.pools.iter().collect();
    if pools.is_empty() {
        return Ok(());
    }
    pools.sort_by_key(|(_, ended)| ended.stopped.is_none() && ended.nodes.iter().all(NodeOutcome::is_good));
    writeln!(out, "| pool | nodes | result |\n|---|--:|---|")?;
    for (pool, ended) in pools.iter().take(MAX_ROWS) {
        let ends: Vec<&End> = ended.nodes.iter().map(|node| &node.end).collect();
        writeln!(out, "| {} | {} | {} |", code(pool.as_str()), ends.len(), summary::state_counts(ends.into_iter()))?;
    }
    if pools.len() > MAX_ROWS {
        writeln!(out, "\n{} more; see the JSON report", count(pools.len() - MAX_ROWS, "pool"))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::names::{FleetName, NamespaceName};
    use nodecfg_plan::Why;
    use nodecfg_plan::convergence::{ConvergenceFailure, Target, Waiting};
    use nodecfg_plan::fixtures::{node_name, pool_name, source as config_map};
    use nodecfg_rollout::{PoolOutcome, StopReason};

    fn before(command: &'static str) -> PlannedRun {
        let header = RunHeader {
            fleet: FleetName::new("prod").unwrap(),
            commit: None,
            signer: None,
            namespace: NamespaceName::new("kube-system").unwrap(),
            server: "https://cluster.example".to_owned(),
            ignored_windows: None,
        };
        PlannedRun { command, header, plan: Some("p1:0123".to_owned()), planned: String::new(), remarks: Vec::new() }
    }

    fn pool(stopped: Option<StopReason>, ends: impl IntoIterator<Item = End>) -> PoolOutcome {
        let node = |(index, end)| NodeOutcome {
            node: node_name(&format!("n{index:03}")),
            from: None,
            to: Target::Source(config_map("prod-gpu-x").into()),
            end,
            seconds: Some(1.0),
            trial: None,
            drain: None,
            recovery: None,
            marked: false,
        };
        PoolOutcome { stopped, held: None, nodes: ends.into_iter().enumerate().map(node).collect() }
    }

    fn text(outcome: &Outcome, exit_code: u8, error: Option<&ErrorMessage>) -> String {
        let mut out = Vec::new();
        write(&mut out, &before("sync"), outcome, (61.0, Timestamp::UNIX_EPOCH), exit_code, error).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn failed(error: &str) -> End {
        End::Failed { failure: ConvergenceFailure::Refused { error: error.to_owned() }, rolled_back: false }
    }

    #[test]
    fn success_is_short() {
        let outcome = Outcome { pools: [(pool_name("gpu"), pool(None, [End::Converged, End::Gone]))].into() };
        insta::assert_snapshot!("ending-done", text(&outcome, 0, None));
    }

    #[test]
    fn lists_accepted_new_nodes() {
        let joined = Timestamp::from_second(-3600).unwrap();
        let outcome =
            Outcome { pools: [(pool_name("gpu"), pool(None, [End::LeftAlone { why: Why::New { joined } }]))].into() };
        let text = text(&outcome, 0, None);
        let new = "- **new:** pool gpu: n000 joined 1h ago, and never had its configuration\n\n";
        assert!(text.contains(new), "{text}");
    }

    #[test]
    fn drains_are_a_table_with_problems_first() {
        let text = text(&crate::report::drained::tests::outcome(), 5, None);
        insta::assert_snapshot!("ending-drains", text);
    }

    #[test]
    fn stopped_pool_has_reason_and_next_step() {
        let timed_out = |waiting| End::Failed { failure: ConvergenceFailure::TimedOut { waiting }, rolled_back: false };
        let gpu = pool(
            Some(StopReason::TooManyFailures { failures: 2, max_failures: 1 }),
            [End::NotStarted, timed_out(Waiting::NotAcknowledged), timed_out(Waiting::NotAcknowledged), End::Converged],
        );
        let web = pool(None, [End::Converged, End::Refused { error: "admission <b>@octocat</b> | no".to_owned() }]);
        let outcome = Outcome { pools: [(pool_name("gpu"), gpu), (pool_name("web"), web)].into() };
        insta::assert_snapshot!("ending-stopped", text(&outcome, 5, None));
    }

    #[test]
    fn reports_error_with_help() {
        let reason = StopReason::ClusterFailed { error: "no route".to_owned() };
        let outcome = Outcome { pools: [(pool_name("gpu"), pool(Some(reason), [End::InFlight]))].into() };
        let error = ErrorMessage {
            code: "unreachable".to_owned(),
            message: "cannot reach *it*".to_owned(),
            help: "see #1".to_owned(),
        };
        let text = text(&outcome, 4, Some(&error));
        assert!(text.contains("- **error:** cannot reach \\*it\\*\n- **help:** see #\u{200b}1\n"), "{text}");
        assert!(text.contains("- **stopped:** pool `gpu`: the cluster failed: no route\n"), "{text}");
    }

    #[test]
    fn large_failure_fits_on_a_page() {
        let ends = (0..5000).map(|index| failed(&format!("{index} {}", "x|".repeat(5000))));
        let pools = (0..200).map(|index| (pool_name(&format!("p{index}")), pool(None, [End::NotStarted])));
        let mut outcome = Outcome { pools: pools.collect() };
        outcome.pools.insert(pool_name("gpu"), pool(None, ends));
        for index in 0..200 {
            let pause = StopReason::Paused { by: "ada".to_owned(), reason: format!("{index}") };
            let canary = StopReason::CanaryFailed { node: node_name(&format!("n{index}")) };
            outcome.pools.insert(pool_name(&format!("s{index}")), pool(Some(pause), [End::NotStarted]));
            outcome.pools.insert(pool_name(&format!("t{index}")), pool(Some(canary), [End::NotStarted]));
        }
        let text = text(&outcome, 5, None);
        assert!(text.len() < 200_000, "{}", text.len());
        assert_eq!(text.matches("**next:**").count(), 2, "one per kind of stop");
        assert!(text.contains("\n5550 nodes more: 4950 failed, 600 not started; see the JSON report\n"), "{text}");
        assert!(text.contains("\n551 pools more; see the JSON report\n"), "{text}");
        assert_eq!(text.matches("- meaning:").count(), 1);
    }
}
