//! A report without layout: what a command shows, as a few kinds of blocks.
//!
//! A command builds one [`Report`] from its result. Three backends draw it: [`terminal`] wraps, aligns and colors;
//! [`markdown`] folds and keeps within a length; [`html`] is a page. A backend knows the kinds of blocks and no
//! command, so that a fact that one format shows stands in all of them. JSON is the result itself, with the report's notices
//! ([`json`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::timeline::Timeline;
use crate::status::{Grade, State};
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};

pub mod html;
pub mod json;
pub mod markdown;
pub mod terminal;
#[cfg(test)]
pub(super) mod tests;

/// The maximum number of names in a list.
pub(super) const MAX_NAMES: usize = 12;
/// The maximum number of nodes of a result that all are rows of a table. Of more, only those with a problem are.
pub(super) const FEW_NODES: usize = 20;

/// What a command shows.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The command.
    pub command: &'static str,
    /// The effect of a change in a sentence. Only reviews have one.
    pub lead: Option<Conclusion>,
    /// The result: the last line on a terminal, and the first elsewhere.
    pub result: Option<Conclusion>,
    /// Labeled facts: fleet, revision, cluster and others. On a terminal, the command prints them before it starts.
    pub facts: Vec<(&'static str, Text)>,
    /// The content.
    pub blocks: Vec<Block>,
    /// Whether no item is left out, because the items are the result.
    pub complete: bool,
    /// What a reader needs who does not know nodecfg. For a pull request only.
    pub about: Option<Text>,
    /// The command that shows what a limit of length omits.
    pub whole: Option<String>,
    /// The listed things by the names that kubectl or this program accepts, for `-o name`.
    pub names: Vec<String>,
    /// The listed things with all columns, for `-o wide`. Unset: the nodes.
    pub wide: Option<Table>,
}

/// The result of a command in a line.
#[derive(Debug, Clone)]
pub struct Conclusion {
    /// The result in a word or two, with its punctuation: `Converged:`, `Done in 12s.`. Or all of it.
    pub label: String,
    /// Whether it is good.
    pub grade: Grade,
    /// What follows the label.
    pub text: Text,
}

/// A part of a report.
#[derive(Debug, Clone)]
pub enum Block {
    /// A fact, a notice or a next step.
    Item(Item),
    /// A title with blocks.
    Section(Section),
    /// A table.
    Table(Table),
    /// Changes of fields or settings.
    Fields(Fields),
    /// Nodes by pool, with their states.
    Nodes(Nodes),
    /// The course of a rollout. A terminal omits it.
    Timeline(Timeline),
    /// Blocks that a terminal shows with `-v` only. Markdown and pages show them within sections.
    Detail(Vec<Block>),
    /// Another report, with a title. Its facts are not shown. A terminal omits it.
    Report(&'static str, Box<Report>),
}

/// A text with an optional label, and what belongs to it.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The kind of text in a word or two, if it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<&'static str>,
    /// The grade of what is labeled. Unset: no attention is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// The text.
    pub text: Text,
    /// Whether the text matters less than others.
    #[serde(skip)]
    pub quiet: bool,
    /// Texts about this one, such as its fix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Item>,
}

/// A title, with facts behind it, and the blocks below it.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// The title.
    pub title: Text,
    /// Facts that stand behind the title.
    pub facts: Vec<Text>,
    /// Whether markdown shows the blocks only on demand.
    pub folded: bool,
    /// Whether a terminal prints the content as messages instead. Markdown omits it first, if the length is limited.
    pub messages: bool,
    /// How many things of the title's kind the section is about.
    pub number: usize,
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// A table. Columns without any content are not drawn.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The name of the table, for readers who cannot see its place.
    pub caption: String,
    /// The titles of the columns, in lower case.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// Whether the table sums up the following sections. Only formats that fold sections draw it.
    pub overview: bool,
    /// Whether no row is left out, because the rows are the result.
    pub complete: bool,
}

/// A value in a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing, or nothing known.
    Empty,
    /// Words.
    Words(String),
    /// Words with a grade.
    Graded(Grade, String),
    /// The name of a pool, a gate or an object.
    Name(String),
    /// A node with its pool.
    Node(Option<PoolName>, NodeName),
    /// A configuration that a node has or should have. Without a source, its local one.
    Source(Option<ConfigSource>),
    /// A number.
    Number(usize),
    /// A share in percent.
    Percent(usize),
    /// When something began.
    Since(Timestamp),
    /// A duration in seconds.
    Seconds(f64),
}

/// Changed fields of a configuration, or changed settings.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// What changes: the pools, or the fleet.
    pub subject: String,
    /// Whether these are settings of nodecfg instead of fields of the kubelet.
    pub are_settings: bool,
    /// Whether the old values are known. Otherwise, every field is listed as set.
    pub from_known: bool,
    /// The fields, by path.
    pub fields: Vec<Field>,
}

/// A changed field or setting.
#[derive(Debug, Clone, Default)]
pub struct Field {
    /// The path.
    pub path: String,
    /// The old value, if there was one.
    pub old: Option<String>,
    /// The new value, if there is one.
    pub new: Option<String>,
    /// Whether the value in effect stays the same.
    pub no_effect: bool,
    /// The risk of the change. Unset if unknown, and for settings.
    pub risk: Option<FieldRisk>,
    /// Where the new value is set: file, line and column.
    pub place: Option<String>,
    /// What a setting means. Empty for a field.
    pub meaning: &'static str,
}

/// The risk of a changed field.
#[derive(Debug, Clone)]
pub struct FieldRisk {
    /// The class.
    pub class: Class,
    /// Whether a sync refuses the change.
    pub refused: bool,
    /// The reason.
    pub why: String,
    /// The upstream source of the reason. Empty if none is known.
    pub source: String,
}

/// Nodes by pool.
#[derive(Debug, Clone)]
pub struct Nodes {
    /// When the states were known.
    pub at: Timestamp,
    /// The columns of a pool behind its name and its number of nodes.
    pub pool_columns: Vec<&'static str>,
    /// The columns of a node between its state and its message.
    pub columns: Vec<NodeColumn>,
    /// The pools, most urgent first.
    pub pools: Vec<NodePool>,
}

/// A column of a table of nodes.
#[derive(Debug, Clone, Copy)]
pub struct NodeColumn {
    /// The title, in lower case.
    pub title: &'static str,
    /// When a narrow terminal leaves the column out: a lower number before a higher one, and 0 never.
    pub omitted: u8,
    /// Whether `-o wide` leaves the column out without any value. Other formats always do.
    pub optional: bool,
}

/// A pool with its nodes, or all nodes without a pool.
#[derive(Debug, Clone)]
pub struct NodePool {
    /// The name. Unset for nodes without a pool.
    pub name: Option<PoolName>,
    /// The fleet.
    pub fleet: Option<FleetName>,
    /// The values of the columns of the pool.
    pub cells: Vec<Cell>,
    /// Remarks about the pool, such as a pause.
    pub remarks: Vec<String>,
    /// The nodes by name.
    pub nodes: Vec<NodeEntry>,
}

/// A node with its state.
#[derive(Debug, Clone)]
pub struct NodeEntry {
    /// The name.
    pub name: NodeName,
    /// The state.
    pub state: State,
    /// The state in the terms of the command.
    pub words: String,
    /// When lists that are not complete show the node.
    pub weight: Weight,
    /// The values of the columns.
    pub cells: Vec<Cell>,
    /// The message of or about the node. Empty without one.
    pub message: String,
}

/// When a list that is not complete shows a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Before others.
    Problem,
    /// If there are few nodes.
    Listed,
    /// Never: the node counts.
    Counted,
}

/// A text of pieces that formats mark differently.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text(pub Vec<Piece>);

/// A piece of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Words. What stands between backticks is code.
    Words(String),
    /// A name or a value.
    Name(String),
    /// A node with its pool.
    Node(Option<PoolName>, NodeName),
    /// Words that need attention.
    Graded(Grade, String),
}

impl Report {
    /// The items outside of sections, in order.
    pub fn notices(&self) -> impl Iterator<Item = &Item> {
        self.blocks.iter().filter_map(|block| if let Block::Item(item) = block { Some(item) } else { None })
    }

    /// The nodes outside of sections.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Nodes> {
        self.blocks.iter().filter_map(|block| if let Block::Nodes(nodes) = block { Some(nodes) } else { None })
    }
}

impl Section {
    /// A section whose blocks are shown on demand only.
    pub(super) fn on_demand(title: &'static str, facts: impl IntoIterator<Item = String>, blocks: Vec<Block>) -> Self {
        Self {
            title: title.into(),
            facts: facts.into_iter().map(Text::from).collect(),
            folded: true,
            blocks: vec![Block::Detail(blocks)],
            ..Self::default()
        }
    }
}

impl Table {
    /// The columns with any value.
    pub(super) fn filled(&self) -> Vec<usize> {
        let is_filled =
            |index: &usize| self.rows.iter().any(|row| row.get(*index).is_some_and(|cell| *cell != Cell::Empty));
        (0..self.columns.len()).filter(is_filled).collect()
    }
}

impl Conclusion {
    /// A result that is one sentence.
    pub fn sentence(grade: Grade, sentence: impl Into<String>) -> Self {
        Self { label: sentence.into(), grade, text: Text::default() }
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(words: T) -> Self {
        Self(vec![Piece::Words(words.into())])
    }
}

impl Text {
    /// A name or a value.
    pub fn name(name: impl Into<String>) -> Self {
        Self(vec![Piece::Name(name.into())])
    }

    /// Words that need attention.
    pub fn graded(grade: Grade, words: impl Into<String>) -> Self {
        Self(vec![Piece::Graded(grade, words.into())])
    }

    /// The first names, and how many more there are.
    pub fn names(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::list(names.into_iter().map(|name| Piece::Name(name.into())))
    }

    /// The first nodes, and how many more there are.
    pub fn nodes<'a>(nodes: impl IntoIterator<Item = (Option<&'a PoolName>, &'a NodeName)>) -> Self {
        Self::list(nodes.into_iter().map(|(pool, node)| Piece::Node(pool.cloned(), node.clone())))
    }

    fn list(pieces: impl Iterator<Item = Piece>) -> Self {
        let mut pieces = pieces;
        let mut text = Self::default();
        for piece in pieces.by_ref().take(MAX_NAMES) {
            text = text.comma();
            text.0.push(piece);
        }
        match pieces.count() {
            0 => text,
            more => text.then(format!(" and {more} more")),
        }
    }

    fn comma(self) -> Self {
        if self.0.is_empty() { self } else { self.then(", ") }
    }

    /// The text, followed by another one.
    #[must_use]
    pub fn then(mut self, other: impl Into<Self>) -> Self {
        self.0.extend(other.into().0);
        self
    }

    /// The texts, with commas between them.
    pub fn joined(texts: impl IntoIterator<Item = Self>) -> Self {
        texts.into_iter().fold(Self::default(), |joined, text| joined.comma().then(text))
    }

    /// The text without marks.
    pub(super) fn plain(&self) -> String {
        self.0.iter().map(Piece::as_str).collect()
    }
}

impl Piece {
    /// The words of the piece.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Words(text) | Self::Name(text) | Self::Graded(_, text) => text,
            Self::Node(_, node) => node.as_str(),
        }
    }
}

impl Item {
    /// A text without a label.
    pub fn new(text: impl Into<Text>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A text with a label.
    pub fn labeled(label: &'static str, text: impl Into<Text>) -> Self {
        Self { label: Some(label), ..Self::new(text) }
    }

    /// A labeled text that needs attention.
    pub fn warning(label: &'static str, text: impl Into<Text>) -> Self {
        Self { grade: Some(Grade::Warning), ..Self::labeled(label, text) }
    }

    /// A labeled text that an operator must act on.
    pub fn bad(label: &'static str, text: impl Into<Text>) -> Self {
        Self { grade: Some(Grade::Bad), ..Self::labeled(label, text) }
    }

    /// A text that matters less than others.
    pub fn quiet(text: impl Into<Text>) -> Self {
        Self { quiet: true, ..Self::new(text) }
    }

    /// The item, with texts about it.
    #[must_use]
    pub fn with(mut self, below: impl IntoIterator<Item = Self>) -> Self {
        self.below.extend(below);
        self
    }
}

impl From<Item> for Block {
    fn from(item: Item) -> Self {
        Self::Item(item)
    }
}

impl Cell {
    /// A name, or nothing.
    pub fn name(name: Option<&impl ToString>) -> Self {
        name.map_or(Self::Empty, |name| Self::Name(name.to_string()))
    }

    /// Words, or nothing without any.
    pub fn words(words: impl Into<String>) -> Self {
        let words = words.into();
        if words.is_empty() { Self::Empty } else { Self::Words(words) }
    }

    /// The text of a value as every format shows it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Words(text) | Self::Graded(_, text) | Self::Name(text) => text.clone(),
            Self::Node(_, node) => node.to_string(),
            Self::Source(source) => super::source::short(source.as_ref()),
            Self::Number(number) => number.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
            Self::Since(since) => format!("{since:.0}"),
            Self::Seconds(seconds) => super::duration(*seconds),
        }
    }
}

/// A node and its pool.
type PoolNode<'a> = (&'a NodePool, &'a NodeEntry);

impl Nodes {
    /// Reports whether pools are of more than one fleet.
    pub(super) fn are_of_several_fleets(&self) -> bool {
        let mut fleets = self.pools.iter().filter_map(|pool| pool.fleet.as_ref());
        let first = fleets.next();
        fleets.any(|fleet| Some(fleet) != first)
    }

    /// All nodes with their pools.
    pub(super) fn all(&self) -> impl Iterator<Item = PoolNode<'_>> {
        self.pools.iter().flat_map(|pool| pool.nodes.iter().map(move |node| (pool, node)))
    }

    /// The nodes that a list shows which is not complete, most urgent first, and the others.
    pub(super) fn listed(&self) -> (Vec<PoolNode<'_>>, Vec<PoolNode<'_>>) {
        let changed = self.all().filter(|(_, node)| node.weight != Weight::Counted);
        let most = if changed.count() > FEW_NODES { Weight::Problem } else { Weight::Listed };
        let (mut listed, others): (Vec<PoolNode<'_>>, Vec<PoolNode<'_>>) =
            self.all().partition(|(_, node)| node.weight <= most);
        // The sort is stable: nodes of one state keep the order of their pools and names.
        listed.sort_by_key(|(_, node)| node.state);
        (listed, others.into_iter().filter(|(_, node)| node.weight != Weight::Counted).collect())
    }
}

/// Items that follow each other, or another block.
pub(super) enum Run<'a> {
    Items(Vec<&'a Item>),
    Block(&'a Block),
}

/// The blocks, with items that follow each other together.
pub(super) fn runs<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for block in blocks {
        match (block, runs.last_mut()) {
            (Block::Item(item), Some(Run::Items(items))) => items.push(item),
            (Block::Item(item), _) => runs.push(Run::Items(vec![item])),
            (block, _) => runs.push(Run::Block(block)),
        }
    }
    runs
}

/// An item of a list, or the number of those with a label that are left out.
pub(super) enum Listed<'a> {
    Item(&'a Item),
    More(&'static str, usize),
}

/// Items of which no more than `most` have the same label. The number of the others stands behind them.
pub(super) fn listed<'a>(items: &[&'a Item], most: usize) -> Vec<Listed<'a>> {
    let mut totals: BTreeMap<&'static str, usize> = BTreeMap::new();
    for label in items.iter().filter_map(|item| item.label) {
        *totals.entry(label).or_default() += 1;
    }
    let mut numbers: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut listed = Vec::new();
    for item in items {
        let Some(label) = item.label else {
            listed.push(Listed::Item(item));
            continue;
        };
        let (number, total) = (numbers.entry(label).or_default(), totals.get(label).copied().unwrap_or_default());
        *number += 1;
        if *number <= most {
            listed.push(Listed::Item(item));
        } else if *number == total {
            listed.push(Listed::More(label, total - most));
        }
    }
    listed
}

/// The number of nodes in each state, worst first.
pub(super) fn counts<'a>(nodes: impl IntoIterator<Item = &'a NodeEntry>) -> BTreeMap<State, usize> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.state).or_default() += 1;
    }
    counts
}

/// The number of nodes in each state: `1 failed, 20 converged`.
pub(super) fn counts_in_words(counts: &BTreeMap<State, usize>) -> String {
    let counts: Vec<String> = counts.iter().map(|(state, number)| format!("{number} {state}")).collect();
    counts.join(", ")
}

/// The number of nodes per state, worst first: `1 failed, 20 converged`.
pub(super) fn state_counts<'a>(nodes: impl IntoIterator<Item = &'a NodeEntry>) -> String {
    counts_in_words(&counts(nodes))
}

/// The new value of a field of which only the default changes: it differs between the versions of kubelets.
pub(super) const ANOTHER_DEFAULT: &str = "another default";

impl Field {
    /// The change in a line: `~ path: old → new`.
    pub(super) fn line(&self) -> String {
        let Self { path, old, new, no_effect, .. } = self;
        let is_default = |value: &String, other: &String| value.strip_suffix(" (default)") == Some(other);
        match (old, new) {
            (Some(old), Some(new)) if *no_effect && is_default(old, new) => format!("= {path}: {old}"),
            (Some(old), Some(new)) if *no_effect && is_default(new, old) => format!("= {path}: {new}"),
            (Some(old), Some(new)) if *no_effect => format!("= {path}: {old} → {new}"),
            (Some(value), None) | (None, Some(value)) if *no_effect => format!("= {path}: {value}"),
            (None, Some(new)) => format!("+ {path}: {new}"),
            (Some(old), None) => format!("- {path}: {old}"),
            (Some(old), Some(new)) => format!("~ {path}: {old} → {new}"),
            (None, None) => format!("~ {path}: {ANOTHER_DEFAULT}"),
        }
    }
}

impl FieldRisk {
    /// The reason and its source.
    pub(super) fn reason_and_source(&self) -> String {
        if self.source.is_empty() { self.why.clone() } else { format!("{} [{}]", self.why, self.source) }
    }
}

impl Fields {
    /// How many fields keep their value in effect.
    pub(super) fn without_effect(&self) -> usize {
        self.fields.iter().filter(|field| field.no_effect).count()
    }
}
