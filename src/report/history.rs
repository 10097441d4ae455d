//! Report of `history`: the revisions of a pool, other ConfigMaps, and the nodes on each.

use serde::Serialize;

use super::document::{Block, Cell, Conclusion, Item, Report, Table, Text};
use super::{count, paused};
use crate::history::{Content, Nodes, OtherConfigMap, Revision, Whereabouts};
use crate::repository::history::WalkEnd;
use crate::status::{Grade, Paused};
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{FleetName, PoolName};

/// The revisions of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The fleet.
    pub fleet: FleetName,
    /// The pause of the whole fleet. Unset: it is not paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
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
        (Content::BySize { reserve, .. }, Some(false)) => {
            format!("a ConfigMap for each size of the nodes ({reserve}), none in the cluster")
        }
        (Content::BySize { reserve, .. }, _) => format!("a ConfigMap for each size of the nodes ({reserve})"),
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

/// The revisions with their nodes, then other ConfigMaps, and why the list is incomplete.
#[must_use]
pub fn report(history: &History) -> Report {
    let others = history.whereabouts.iter().flat_map(|rest| &rest.others);
    let first = paused::items(history.paused.as_ref());
    let blocks = first.chain(history.revisions.iter().map(revision)).chain(others.map(other));
    let note = history.note.as_ref().map(|note| Item::quiet(note.as_str()));
    Report {
        command: "history",
        result: Some(Conclusion {
            label: format!("{}:", history.pool),
            grade: Grade::Neutral,
            text: totals(history).into(),
        }),
        blocks: blocks.chain(note).map(Block::Item).collect(),
        names: names(history),
        wide: Some(wide(history)),
        complete: true,
        ..Report::default()
    }
}

fn revision(revision: &Revision) -> Item {
    let commit = Text::name(revision.commit.short());
    let current =
        if revision.current { Text::from(" ").then(Text::graded(Grade::Good, "current")) } else { Text::default() };
    let or_before = if revision.or_before { " or before" } else { "" };
    let text = commit.then(current).then(format!(" {}{or_before}, {}", date(revision), revision.author));
    let configuration = match &revision.content {
        Content::Invalid { .. } => Item::new(Text::graded(Grade::Bad, configuration(revision))),
        _ => Item::quiet(configuration(revision)),
    };
    let below = [Item::new(revision.subject.as_str()), configuration];
    Item::new(text).with(below.into_iter().chain(nodes_of(revision).map(Item::new)))
}

fn other(other: &OtherConfigMap) -> Item {
    let nodes = (!other.nodes.is_none()).then(|| Item::new(node_counts(&other.nodes)));
    Item::warning("other", Text::name(other.name.as_str()))
        .with([Item::new(source_text(other))].into_iter().chain(nodes))
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
    let revisions = count(history.revisions.len(), "revision");
    let Some(rest) = &history.whereabouts else { return format!("{revisions}.") };
    let mut parts = vec![count(rest.nodes, "node")];
    for (number, what) in [(rest.local, "on local configuration"), (rest.elsewhere, "on other configuration")] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    format!("{revisions}, {}.", parts.join(", "))
}

/// A row for each revision and each other ConfigMap.
fn wide(history: &History) -> Table {
    let revision = |revision: &Revision| {
        let mark = if revision.current { "*" } else { "" };
        vec![
            Cell::Name(format!("{}{mark}", revision.commit.short())),
            Cell::Words(date(revision)),
            Cell::name(revision.content.config_map().as_ref()),
            Cell::words(nodes_of(revision).unwrap_or_default()),
            Cell::words(revision.author.as_str()),
            Cell::words(revision.subject.as_str()),
        ]
    };
    let other = |other: &OtherConfigMap| {
        let commit = other.commit.as_deref().map_or(Cell::Empty, |commit| Cell::Name(short(commit)));
        vec![
            commit,
            Cell::Empty,
            Cell::Name(other.name.clone()),
            Cell::words(node_counts(&other.nodes)),
            Cell::Empty,
            Cell::Empty,
        ]
    };
    let others = history.whereabouts.iter().flat_map(|rest| &rest.others);
    Table {
        caption: "Revisions".to_owned(),
        columns: vec!["revision", "date", "configmap", "nodes", "author", "subject"],
        rows: history.revisions.iter().map(revision).chain(others.map(other)).collect(),
        ..Table::default()
    }
}

/// The ConfigMaps as kubectl accepts them, newest first, each once. With a cluster, only those that exist.
fn names(history: &History) -> Vec<String> {
    let revisions = history.revisions.iter().filter(|it| it.same_as.is_none() && it.exists != Some(false));
    let listed = revisions.filter_map(|revision| revision.content.config_map());
    let others = history.whereabouts.iter().flat_map(|rest| &rest.others).map(|other| other.name.as_str());
    listed.chain(others).map(|name| format!("configmap/{name}")).collect()
}
