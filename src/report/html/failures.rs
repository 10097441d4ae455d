//! What failed, in the nodes' own words, and what that means.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::document::{MOST, capital, more};
use super::nodes::Anchors;
use super::page::{FailureGroup, Page, Said};
use super::text::{Prose, Text};
use crate::report::count;
use crate::report::explain::Explanation;
use nodecfg_contract::names::{NodeName, PoolName};

/// How many nodes are named.
const NODES: usize = 12;

/// A node that failed.
pub(super) struct Case<'a> {
    /// How bad it is: less is worse.
    pub(super) weight: u8,
    /// What happened, in a word or two.
    pub(super) label: &'static str,
    /// What was said.
    pub(super) words: String,
    /// What it means.
    pub(super) explanation: Option<Explanation>,
    pub(super) pool: Option<&'a PoolName>,
    pub(super) node: &'a NodeName,
}

/// Each kind of failure once, the worst first, and of each what most nodes say first.
pub(super) fn grouped<'a>(cases: impl Iterator<Item = Case<'a>>) -> Vec<FailureGroup> {
    type Kind = (u8, &'static str, Option<&'static str>);
    let mut kinds: BTreeMap<Kind, (FailureGroup, BTreeMap<String, usize>)> = BTreeMap::new();
    for Case { weight, label, words, explanation, pool, node } in cases {
        let key = (weight, label, explanation.as_ref().map(|explanation| explanation.meaning));
        let new = || (FailureGroup { label, explanation, said: Vec::new() }, BTreeMap::new());
        let (failure, places) = kinds.entry(key).or_insert_with(new);
        let place = *places.entry(words.clone()).or_insert_with(|| {
            failure.said.push(Said { words, nodes: Vec::new() });
            failure.said.len() - 1
        });
        if let Some(said) = failure.said.get_mut(place) {
            said.nodes.push((pool.cloned(), node.clone()));
        }
    }
    let mut failures: Vec<FailureGroup> = kinds.into_values().map(|(failure, _)| failure).collect();
    for failure in &mut failures {
        // The sort keeps their order otherwise.
        failure.said.sort_by_key(|said| std::cmp::Reverse(said.nodes.len()));
    }
    failures
}

/// The section, where something failed.
pub(super) fn section(page: &Page) -> Markup {
    html! {
        @if !page.failures.is_empty() {
            @let anchors = Anchors::of(page);
            section #failures {
                h2 { "What went wrong" }
                @for failure in page.failures.iter().take(MOST) {
                    article.failure { (one(failure, &anchors)) }
                }
                (more(page.failures.len(), "kinds of failure"))
            }
            "\n"
        }
    }
}

fn one(failure: &FailureGroup, anchors: &Anchors<'_>) -> Markup {
    let nodes: usize = failure.said.iter().map(|said| said.nodes.len()).sum();
    html! {
        h3 { (capital(failure.label)) ": " (count(nodes, "node")) }
        @for said in failure.said.iter().take(MOST) {
            blockquote.words { (Text(&said.words)) }
            p.names {
                @for (number, (pool, node)) in said.nodes.iter().take(NODES).enumerate() {
                    @if number > 0 { ", " }
                    @if let Some(number) = anchors.node(pool.as_ref(), node) {
                        a href={ "#n" (number) } { (node.as_str()) }
                    } @else {
                        (node.as_str())
                    }
                }
                @if said.nodes.len() > NODES { " and " (said.nodes.len() - NODES) " more" }
            }
        }
        (more(failure.said.len(), "answers"))
        @if let Some(explanation) = &failure.explanation {
            dl.explanation {
                dt { "Meaning" } dd { (Prose(explanation.meaning)) }
                dt { "Likely" } @for cause in explanation.causes { dd { (Prose(cause)) } }
                dt { "Look at" } dd { (Prose(&explanation.look_at)) }
            }
        }
    }
}
