//! How a rollout ended: a table of nodes, then what went wrong and where to look.

use std::collections::BTreeMap;
use std::io::{self, Write};

use comfy_table::{Table, presets};
use serde_json::{Value, json};

use super::explain;
use super::plan_text::{reason, source};
use super::style::{bad, good, heading, warning};
use super::{FORMAT_VERSION, count, duration, names};
use crate::judge::{Failure, Target};
use crate::names::{NodeName, PoolName};
use crate::plan::Why;
use crate::rollout::{End, NodeOutcome, Outcome};

/// Writes the table of every node that did or should have changed, the explanations, and a last line.
///
/// # Errors
/// When the writer does.
pub fn write(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    write_table(out, outcome)?;
    write_explanations(out, outcome)?;
    for (pool, ended) in &outcome.pools {
        if let Some(reason) = &ended.stopped {
            writeln!(out, "{} pool {pool}: {reason}", bad("stopped"))?;
        }
    }
    writeln!(out, "{}", totals(outcome))
}

fn write_table(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut table = plain_table(["NODE", "POOL", "FROM", "TO", "STATE", "SECONDS"]);
    let mut rows = 0;
    for (pool, ended) in &outcome.pools {
        for node in &ended.nodes {
            if matches!(&node.end, End::LeftAlone { why } if !why.is_blocked()) {
                continue;
            }
            rows += 1;
            table.add_row([
                node.node.to_string(),
                pool.to_string(),
                config_map_name(source(node.from.as_ref())),
                config_map_name(target(&node.to)),
                state(&node.end),
                node.seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}")),
            ]);
        }
    }
    if rows > 0 {
        writeln!(out, "{}\n", trim_lines(&table.to_string()))?;
    }
    Ok(())
}

/// A table as kubectl shows it: no lines, columns apart by spaces.
pub(super) fn plain_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table
}

/// Trailing spaces are nobody's friend.
pub(super) fn trim_lines(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Namespaces are the same for all nearly always, and take the room of the hash.
fn config_map_name(source: String) -> String {
    source.split_once('/').map_or(source.clone(), |(_, name)| name.to_owned())
}

fn target(target: &Target) -> String {
    source(target.source())
}

/// A node's end in a word or two.
#[must_use]
pub fn state(end: &End) -> String {
    match end {
        End::Converged => "converged".to_owned(),
        End::LeftAlone { why: Why::Conflict { .. } } => "conflict".to_owned(),
        End::LeftAlone { why: Why::Unsupported { .. } | Why::NoDynamicConfig } => "unsupported".to_owned(),
        End::LeftAlone { .. } => "unchanged".to_owned(),
        End::Failed { rolled_back: true, .. } => "failed, rolled back".to_owned(),
        End::Failed { failure: Failure::TimedOut { .. }, .. } => "timed out".to_owned(),
        End::Failed { .. } => "failed".to_owned(),
        End::Refused { .. } => "refused".to_owned(),
        End::Changed { .. } => "changed by others".to_owned(),
        End::Gone => "gone".to_owned(),
        End::NotStarted => "not started".to_owned(),
        End::InFlight => "in flight".to_owned(),
    }
}

/// Says once for each kind of failure what it means, with the nodes that have it.
fn write_explanations(out: &mut dyn Write, outcome: &Outcome) -> io::Result<()> {
    let mut groups: BTreeMap<String, Vec<(&PoolName, &NodeOutcome)>> = BTreeMap::new();
    for (pool, ended) in &outcome.pools {
        for node in &ended.nodes {
            let text = match &node.end {
                End::Failed { failure, .. } => failure.to_string(),
                End::Refused { error } => format!("the API server refused the assignment: {error}"),
                End::LeftAlone { why } if why.is_blocked() => reason(why),
                _ => continue,
            };
            groups.entry(text).or_default().push((pool, node));
        }
    }
    for (text, nodes) in groups {
        let Some((_, first)) = nodes.first() else { continue };
        let listed = names(nodes.iter().map(|(_, node)| node.node.as_str()), 8);
        let blocked = matches!(first.end, End::LeftAlone { .. });
        let label = if blocked { warning("blocked") } else { bad("failed") };
        writeln!(out, "{label} {listed}: {text}")?;
        if let End::Failed { failure, .. } = &first.end {
            let explanation = explain::failure(&first.node, failure);
            writeln!(out, "  meaning: {}", explanation.meaning)?;
            for cause in explanation.causes {
                writeln!(out, "  likely:  {cause}")?;
            }
            writeln!(out, "  look at: {}", explanation.look_at)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The last line: the outcome in numbers.
#[must_use]
pub fn totals(outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    let mut add = |number: usize, what: &str| {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    };
    add(outcome.count(|end| *end == End::Converged), "converged");
    add(outcome.count(|end| matches!(end, End::LeftAlone { why } if why.is_settled())), "as wanted before");
    add(outcome.count(|end| matches!(end, End::Failed { .. } | End::Refused { .. })), "failed");
    add(outcome.count(|end| matches!(end, End::LeftAlone { why } if why.is_blocked())), "blocked");
    add(outcome.count(|end| matches!(end, End::Changed { .. })), "changed by others");
    add(outcome.count(|end| matches!(end, End::InFlight)), "in flight");
    add(outcome.count(|end| matches!(end, End::NotStarted)), "not started");
    add(
        outcome.count(|end| matches!(end, End::LeftAlone { why } if !why.is_settled() && !why.is_blocked())),
        "skipped",
    );
    add(outcome.count(|end| matches!(end, End::Gone)), "gone");
    let nodes = count(outcome.count(|_| true), "node");
    let verdict = if outcome.is_complete() { good("Done:") } else { bad("Not done:") };
    if parts.is_empty() {
        return format!("{verdict} no nodes");
    }
    format!("{verdict} {} {}", heading(nodes), parts.join(", "))
}

/// The outcome for programs: `{formatVersion, kind, complete, pools}`, with an explanation beside each failure.
///
/// # Errors
/// When it cannot be serialised, which would be a bug.
pub fn document(outcome: &Outcome) -> Result<Value, serde_json::Error> {
    let mut pools = serde_json::to_value(&outcome.pools)?;
    for (name, ended) in &outcome.pools {
        let Some(nodes) = pools.pointer_mut(&format!("/{name}/nodes")).and_then(Value::as_array_mut) else { continue };
        for (node, value) in ended.nodes.iter().zip(nodes) {
            if let (End::Failed { failure, .. }, Some(fields)) = (&node.end, value.as_object_mut()) {
                fields.insert("explanation".to_owned(), explained(&node.node, failure)?);
            }
        }
    }
    Ok(json!({"formatVersion": FORMAT_VERSION, "kind": "Outcome", "complete": outcome.is_complete(), "pools": pools}))
}

fn explained(node: &NodeName, failure: &Failure) -> Result<Value, serde_json::Error> {
    serde_json::to_value(explain::failure(node, failure))
}

/// How long a run took, as its last words.
#[must_use]
pub fn took(seconds: f64) -> String {
    format!("in {}", duration(seconds))
}
