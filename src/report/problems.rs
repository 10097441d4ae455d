//! Nodes with problems, by kind: their messages, and the explanation of each kind.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::document::{Item, Section, Text};
use super::explain;
use super::explain::Explanation;
use super::progress::message;
use crate::status::Grade;
use nodecfg_contract::names::{NodeName, PoolName};

/// A node with a problem.
pub(super) struct Case<'a> {
    /// The order of its kind. Lower is more urgent.
    pub(super) priority: u8,
    /// The kind in a word or two.
    pub(super) label: &'static str,
    pub(super) grade: Grade,
    pub(super) message: String,
    pub(super) explanation: Option<Explanation>,
    pub(super) pool: Option<&'a PoolName>,
    pub(super) node: &'a NodeName,
}

/// The kinds of problems, most urgent first. Each has its messages, the most frequent one first. `None` without problems.
pub(super) fn section<'a>(title: &str, cases: impl Iterator<Item = Case<'a>>) -> Option<Section> {
    type Kind = (u8, &'static str, Option<explain::Kind>);
    let mut kinds: BTreeMap<Kind, BTreeMap<String, Vec<Case<'_>>>> = BTreeMap::new();
    for case in cases {
        let explained = case.explanation.as_ref().map(|explanation| explanation.kind(&case.message));
        let kind = kinds.entry((case.priority, case.label, explained)).or_default();
        kind.entry(case.message.clone()).or_default().push(case);
    }
    let blocks: Vec<_> = kinds.into_values().flat_map(items).map(Into::into).collect();
    (!blocks.is_empty()).then(|| Section { title: title.into(), blocks, ..Section::default() })
}

fn items(messages: BTreeMap<String, Vec<Case<'_>>>) -> Vec<Item> {
    let mut messages: Vec<(String, Vec<Case<'_>>)> = messages.into_iter().collect();
    // The sort is stable: equal numbers keep the order of the messages.
    messages.sort_by_key(|(_, cases)| Reverse(cases.len()));
    let Some(first) = messages.first_mut().and_then(|(_, cases)| cases.first_mut()) else { return Vec::new() };
    let (label, grade, explanation) = (first.label, first.grade, first.explanation.take());
    let labeled = |text: Text| Item { grade: Some(grade), ..Item::labeled(label, text) };
    let item = |(text, cases): &(String, Vec<Case<'_>>)| {
        let nodes = Text::nodes(cases.iter().map(|case| (case.pool, case.node)));
        labeled(nodes.then(format!(": {}", message(text))))
    };
    let mut items: Vec<Item> = messages.iter().map(item).collect();
    if let (Some(first), Some(explanation)) = (items.first_mut(), explanation) {
        first.below = explained(explanation);
    }
    items
}

fn explained(explanation: Explanation) -> Vec<Item> {
    let meaning = Item::labeled("meaning", explanation.meaning);
    let causes = explanation.causes.iter().map(|cause| Item::labeled("likely", *cause));
    let see = Item::labeled("see", explanation.look_at);
    [meaning].into_iter().chain(causes).chain([see]).collect()
}
