//! The "What went wrong" section: failures by kind, with the messages of nodes and explanations.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::elements::{MAX_ITEMS, capital, more};
use super::nodes::Anchors;
use super::page::{FailureGroup, NodeMessage, Page};
use super::text::{Prose, Text};
use crate::report::count;
use crate::report::explain::{self, Explanation};
use nodecfg_contract::names::{NodeName, PoolName};

/// Maximum number of named nodes per message.
const MAX_NODES: usize = 12;

/// A failed node.
pub(super) struct FailedNode<'a> {
    /// The display priority. Lower is more urgent.
    pub(super) priority: u8,
    /// The kind of failure.
    pub(super) label: &'static str,
    /// The message.
    pub(super) message: String,
    /// The explanation.
    pub(super) explanation: Option<Explanation>,
    pub(super) pool: Option<&'a PoolName>,
    pub(super) node: &'a NodeName,
}

/// Groups failures by kind, most urgent first, and by message, most frequent first.
pub(super) fn grouped<'a>(cases: impl Iterator<Item = FailedNode<'a>>) -> Vec<FailureGroup> {
    type Kind = (u8, &'static str, Option<explain::Kind>);
    let mut kinds: BTreeMap<Kind, (FailureGroup, BTreeMap<String, usize>)> = BTreeMap::new();
    for FailedNode { priority, label, message, explanation, pool, node } in cases {
        let key = (priority, label, explanation.as_ref().map(|explanation| explanation.kind(&message)));
        let new = || (FailureGroup { label, explanation, messages: Vec::new() }, BTreeMap::new());
        let (failure, indexes) = kinds.entry(key).or_insert_with(new);
        let index = *indexes.entry(message.clone()).or_insert_with(|| {
            failure.messages.push(NodeMessage { text: message, nodes: Vec::new() });
            failure.messages.len() - 1
        });
        if let Some(message) = failure.messages.get_mut(index) {
            message.nodes.push((pool.cloned(), node.clone()));
        }
    }
    let mut failures: Vec<FailureGroup> = kinds.into_values().map(|(failure, _)| failure).collect();
    for failure in &mut failures {
        // The sort is stable: equal counts keep their order.
        failure.messages.sort_by_key(|message| std::cmp::Reverse(message.nodes.len()));
    }
    failures
}

/// The section. Empty without failures.
pub(super) fn section(page: &Page) -> Markup {
    html! {
        @if !page.failures.is_empty() {
            @let anchors = Anchors::of(page);
            section #failures {
                h2 { "What went wrong" }
                @for failure in page.failures.iter().take(MAX_ITEMS) {
                    article.failure { (failure_article(failure, &anchors)) }
                }
                (more(page.failures.len(), "kinds of failure"))
            }
            "\n"
        }
    }
}

fn failure_article(failure: &FailureGroup, anchors: &Anchors<'_>) -> Markup {
    let nodes: usize = failure.messages.iter().map(|message| message.nodes.len()).sum();
    html! {
        h3 { (capital(failure.label)) ": " (count(nodes, "node")) }
        @for message in failure.messages.iter().take(MAX_ITEMS) {
            blockquote.words { (Text(&message.text)) }
            p.names {
                @for (number, (pool, node)) in message.nodes.iter().take(MAX_NODES).enumerate() {
                    @if number > 0 { ", " }
                    @if let Some(number) = anchors.node(pool.as_ref(), node) {
                        a href={ "#n" (number) } { (node.as_str()) }
                    } @else {
                        (node.as_str())
                    }
                }
                @if message.nodes.len() > MAX_NODES { " and " (message.nodes.len() - MAX_NODES) " more" }
            }
        }
        (more(failure.messages.len(), "messages"))
        @if let Some(explanation) = &failure.explanation {
            dl.explanation {
                dt { "Meaning" } dd { (Prose(explanation.meaning)) }
                dt { "Likely" } @for cause in explanation.causes { dd { (Prose(cause)) } }
                dt { "See" } dd { (Prose(&explanation.look_at)) }
            }
        }
    }
}
