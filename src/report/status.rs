//! What every node runs, per pool.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::count;
use super::document::{Document, Kind};
use super::markdown::{code, prose};
use super::source::short;
use super::style::{bad, good};
use super::summary::{plain_table, trim_lines};
use crate::contract::ConfigSource;
use crate::judge::Verdict;
use crate::names::NodeName;
use crate::observed::{KubeletVersion, Readiness};

/// One node's line.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The node.
    pub node: NodeName,
    /// The pool whose ConfigMap it points at, with its fleet; unset when it points at none that nodecfg manages.
    pub pool: Option<String>,
    /// The fleet of that ConfigMap.
    pub fleet: Option<String>,
    /// Its Ready condition.
    pub ready: Readiness,
    /// Its kubelet.
    pub kubelet: Option<KubeletVersion>,
    /// `spec.configSource`.
    pub wanted: Option<ConfigSource>,
    /// `status.config.assigned`.
    pub assigned: Option<ConfigSource>,
    /// `status.config.active`.
    pub active: Option<ConfigSource>,
    /// `status.config.lastKnownGood`.
    pub last_known_good: Option<ConfigSource>,
    /// How far it is on its way to what it points at.
    pub verdict: Verdict,
}

/// What every node runs.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status<'a> {
    /// The nodes by pool and name; those that point at nothing that nodecfg manages come last.
    pub nodes: &'a [Row],
}

impl Kind for Status<'_> {
    const KIND: &'static str = "Status";
}

/// Writes a table, and how many nodes there are.
///
/// # Errors
/// When the writer does.
pub fn text(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let mut table = plain_table(["NODE", "POOL", "READY", "KUBELET", "ASSIGNED", "ACTIVE", "LAST KNOWN GOOD", "STATE"]);
    for row in rows {
        table.add_row([
            row.node.to_string(),
            row.pool.clone().unwrap_or_else(|| "-".to_owned()),
            row.ready.to_string(),
            row.kubelet.map_or_else(|| "-".to_owned(), |version| version.to_string()),
            short(row.assigned.as_ref()),
            short(row.active.as_ref()),
            short(row.last_known_good.as_ref()),
            state(&row.verdict),
        ]);
    }
    if rows.is_empty() {
        return writeln!(out, "The cluster has no nodes.");
    }
    writeln!(out, "{}\n", trim_lines(&table.to_string()))?;
    let total = count(rows.len(), "node");
    let number = |is: fn(&Verdict) -> bool| rows.iter().filter(|row| is(&row.verdict)).count();
    let failed = number(|verdict| matches!(verdict, Verdict::Failed(_)));
    let waiting = number(|verdict| matches!(verdict, Verdict::Waiting(_)));
    if failed + waiting == 0 {
        return writeln!(out, "{} {total}, each runs what it points at.", good("Converged:"));
    }
    let mut parts = vec![format!("{} converged", rows.len() - failed - waiting)];
    for (number, what) in [(waiting, "on the way"), (failed, "failed")] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    writeln!(out, "{} {total}: {}.", bad("Not converged:"), parts.join(", "))
}

/// The table for a pull request or a ticket.
///
/// # Errors
/// When the writer does.
pub fn markdown(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    writeln!(out, "| node | pool | ready | kubelet | assigned | active | last known good | state |")?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for row in rows {
        let shown = |text: Option<String>| text.map_or_else(|| "–".to_owned(), |text| code(&text));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            code(row.node.as_str()),
            shown(row.pool.clone()),
            row.ready,
            shown(row.kubelet.map(|version| version.to_string())),
            code(&short(row.assigned.as_ref())),
            code(&short(row.active.as_ref())),
            code(&short(row.last_known_good.as_ref())),
            prose(&state(&row.verdict)),
        )?;
    }
    Ok(())
}

fn state(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Converged => "converged".to_owned(),
        Verdict::Waiting(waiting) => waiting.to_string(),
        Verdict::Failed(failure) => failure.to_string(),
    }
}

/// `{formatVersion, kind, nodes}`.
///
/// # Errors
/// When it cannot be serialised, which would be a bug.
pub fn document(rows: &[Row]) -> Result<Value, serde_json::Error> {
    Document::value(Status { nodes: rows })
}
