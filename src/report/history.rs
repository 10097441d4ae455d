//! Report of `history`: the revisions of a pool, other ConfigMaps, and the nodes on each.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::count;
use super::markdown::{code, prose};
use super::style::{bad, good, heading, quiet, warning};
use super::table::Table;
use crate::history::{Content, Nodes, OtherConfigMap, Revision, Whereabouts};
use crate::layout::{hanging, shorten};
use crate::repository::history::WalkEnd;
use nodecfg_contract::json_document::{Document, Kind};
use nodecfg_contract::names::{FleetName, PoolName};

/// The revisions of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The fleet.
    pub fleet: FleetName,
    /// The pool.
    pub pool: PoolName,
    /// The revisions that changed the configuration of the pool's nodes, newest first.
    pub revisions: Vec<Revision>,
    /// Whether the list is complete.
    pub whole: bool,
    /// Why the list is incomplete, and how to see more. Unset for a complete list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Nodes on other configurations. Unset without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whereabouts: Option<Whereabouts>,
}

impl Kind for History {
    const KIND: &'static str = "History";
}

/// Explains why a history is incomplete.
#[must_use]
pub fn note(end: WalkEnd) -> Option<String> {
    match end {
        WalkEnd::Root => None,
        WalkEnd::Enough => Some("there may be older revisions; --limit shows more".to_owned()),
        WalkEnd::Shallow => {
            Some("the clone is shallow, so that older commits are missing; run: git fetch --unshallow".to_owned())
        }
        WalkEnd::TooMany => Some(
            "the search stopped at the maximum number of commits; start from an older commit with --rev".to_owned(),
        ),
    }
}

fn date(revision: &Revision) -> String {
    revision.time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// The number of nodes per relation to a revision. Empty without nodes.
fn node_counts(nodes: &Nodes) -> String {
    let parts = [
        (nodes.wanted, "pointed at it"),
        (nodes.assigned, "assigned"),
        (nodes.active, "running it"),
        (nodes.last_known_good, "would fall back to it"),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    parts.join(", ")
}

fn configuration(revision: &Revision) -> String {
    match (&revision.content, revision.exists) {
        (Content::Config { config_map, .. }, Some(false)) => format!("ConfigMap {config_map}, not in the cluster"),
        (Content::Config { config_map, .. }, _) => format!("ConfigMap {config_map}"),
        (Content::Local, _) => "the local configuration".to_owned(),
        (Content::Absent, _) => "no such pool".to_owned(),
        (Content::Invalid { problem }, _) => format!("invalid: {problem}"),
    }
}

fn nodes_of(revision: &Revision) -> Option<String> {
    match (&revision.same_as, &revision.nodes) {
        (Some(same), _) => Some(format!("same as {}", same.short())),
        (None, Some(nodes)) => {
            let counts = if nodes.is_none() { "no nodes".to_owned() } else { node_counts(nodes) };
            Some(if revision.new_nodes { counts + "; new nodes start with it" } else { counts })
        }
        (None, None) => None,
    }
}

/// Writes the revisions as text, three or four lines each, then other ConfigMaps, the totals, and why the list is
/// incomplete.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, history: &History, width: usize) -> io::Result<()> {
    for revision in &history.revisions {
        let mark = if revision.current { good("*") } else { " ".to_owned() };
        let or_before = if revision.or_before { " or before" } else { "" };
        let author = shorten(&revision.author, width.saturating_sub(32 + or_before.len()));
        let commit = heading(revision.commit.short());
        writeln!(out, "{mark} {commit}  {}{or_before}  {author}", date(revision))?;
        writeln!(out, "    {}", shorten(&revision.subject, width.saturating_sub(4)))?;
        let line = shorten(&configuration(revision), width.saturating_sub(4));
        let line = if matches!(revision.content, Content::Invalid { .. }) { bad(line) } else { quiet(line) };
        writeln!(out, "    {line}")?;
        if let Some(nodes) = nodes_of(revision) {
            writeln!(out, "{}", hanging(&format!("    {nodes}"), 4, width))?;
        }
        writeln!(out)?;
    }
    if let Some(rest) = &history.whereabouts {
        for other in &rest.others {
            writeln!(out, "{}", hanging(&format!("  {} {}", warning("other:"), other.name), 4, width))?;
            writeln!(out, "{}", hanging(&format!("    {}", source_text(other)), 4, width))?;
            if !other.nodes.is_none() {
                writeln!(out, "{}", hanging(&format!("    {}", node_counts(&other.nodes)), 4, width))?;
            }
            writeln!(out)?;
        }
    }
    writeln!(out, "{}", hanging(&totals(history), 2, width))?;
    if let Some(note) = &history.note {
        writeln!(out, "{}", hanging(&quiet(note), 2, width))?;
    }
    Ok(())
}

fn source_text(other: &OtherConfigMap) -> String {
    match (&other.commit, other.known) {
        (Some(commit), Some(true)) => format!("made from {}, which is not in this list", short(commit)),
        (Some(commit), _) => format!("made from {}, which is missing in this repository", short(commit)),
        (None, _) => "source commit unknown".to_owned(),
    }
}

/// The first ten characters of a ConfigMap's commit annotation, which may hold any text.
fn short(commit: &str) -> String {
    commit.chars().take(10).collect()
}

fn totals(history: &History) -> String {
    let revisions = format!("{}: {}", heading(&history.pool), count(history.revisions.len(), "revision"));
    let Some(rest) = &history.whereabouts else { return format!("{revisions}.") };
    let mut parts = vec![count(rest.nodes, "node")];
    for (number, what) in [(rest.local, "on local configuration"), (rest.elsewhere, "on other configuration")] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    format!("{revisions}, {}.", parts.join(", "))
}

/// Writes a line for each revision and each other ConfigMap, with all columns at any terminal width.
///
/// # Errors
/// When `out` cannot be written.
pub fn wide(out: &mut dyn Write, history: &History) -> io::Result<()> {
    let revision = |revision: &Revision| {
        let mark = if revision.current { "*" } else { "" };
        let config_map = revision.content.config_map().unwrap_or("–");
        let nodes = nodes_of(revision).unwrap_or_else(|| "–".to_owned());
        let commit = format!("{}{mark}", revision.commit.short());
        [commit, date(revision), config_map.to_owned(), nodes, revision.author.clone(), revision.subject.clone()]
    };
    let other = |other: &OtherConfigMap| {
        let commit = other.commit.as_deref().map_or_else(|| "–".to_owned(), short);
        [commit, "–".to_owned(), other.name.clone(), node_counts(&other.nodes), "–".to_owned(), "–".to_owned()]
    };
    let others = history.whereabouts.iter().flat_map(|rest| &rest.others);
    let titles = ["REVISION", "DATE", "CONFIGMAP", "NODES", "AUTHOR", "SUBJECT"];
    writeln!(out, "{}", Table::plain(titles, history.revisions.iter().map(revision).chain(others.map(other))))
}

/// Writes the ConfigMaps as kubectl accepts them, newest first, each once. With a cluster, only those that exist.
///
/// # Errors
/// When `out` cannot be written.
pub fn names(out: &mut dyn Write, history: &History) -> io::Result<()> {
    let revisions = history.revisions.iter().filter(|it| it.same_as.is_none() && it.exists != Some(false));
    let listed = revisions.filter_map(|revision| revision.content.config_map());
    let others = history.whereabouts.iter().flat_map(|rest| &rest.others).map(|other| other.name.as_str());
    listed.chain(others).try_for_each(|name| writeln!(out, "configmap/{name}"))
}

/// Writes the revisions and other ConfigMaps as a markdown table, and why the list is incomplete.
///
/// # Errors
/// When `out` cannot be written.
pub fn markdown(out: &mut dyn Write, history: &History) -> io::Result<()> {
    writeln!(out, "| revision | date (UTC) | author | subject | configuration | nodes |\n|---|---|---|---|---|---|")?;
    for revision in &history.revisions {
        let mark = if revision.current { " (current)" } else { "" };
        writeln!(
            out,
            "| {}{mark} | {} | {} | {} | {} | {} |",
            code(revision.commit.short()),
            date(revision),
            prose(&revision.author),
            prose(&revision.subject),
            prose(&configuration(revision)),
            prose(&nodes_of(revision).unwrap_or_else(|| "–".to_owned())),
        )?;
    }
    for other in history.whereabouts.iter().flat_map(|rest| &rest.others) {
        writeln!(
            out,
            "| – | – | – | {} | {} | {} |",
            prose(&source_text(other)),
            code(&other.name),
            node_counts(&other.nodes)
        )?;
    }
    if let Some(note) = &history.note {
        writeln!(out, "\n{}", prose(note))?;
    }
    Ok(())
}

/// The JSON document: `{formatVersion, kind, fleet, pool, revisions, …}`.
///
/// # Errors
/// When serialization fails, which is a bug.
pub fn document(history: &History) -> serde_json::Result<Value> {
    Document::value(history.clone())
}
