//! What failed, in the nodes' own words, and what that means.

use std::collections::BTreeMap;

use super::document::{MOST, more};
use super::markup::{Anchor, Attribute, Markup, class};
use super::page::{Failure, Page, Said};
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
pub(super) fn grouped<'a>(cases: impl Iterator<Item = Case<'a>>) -> Vec<Failure> {
    type Kind = (u8, &'static str, Option<&'static str>);
    let mut kinds: BTreeMap<Kind, (Failure, BTreeMap<String, usize>)> = BTreeMap::new();
    for Case { weight, label, words, explanation, pool, node } in cases {
        let key = (weight, label, explanation.as_ref().map(|explanation| explanation.meaning));
        let new = || (Failure { label, explanation, said: Vec::new() }, BTreeMap::new());
        let (failure, places) = kinds.entry(key).or_insert_with(new);
        let place = *places.entry(words.clone()).or_insert_with(|| {
            failure.said.push(Said { words, nodes: Vec::new() });
            failure.said.len() - 1
        });
        if let Some(said) = failure.said.get_mut(place) {
            said.nodes.push((pool.cloned(), node.clone()));
        }
    }
    let mut failures: Vec<Failure> = kinds.into_values().map(|(failure, _)| failure).collect();
    for failure in &mut failures {
        // The sort keeps their order otherwise.
        failure.said.sort_by_key(|said| std::cmp::Reverse(said.nodes.len()));
    }
    failures
}

/// Writes the section, where there is something to say.
pub(super) fn write(main: &mut Markup, page: &Page) {
    if page.failures.is_empty() {
        return;
    }
    let anchors = super::nodes::Anchors::of(page);
    main.element("section", &[Attribute::Id(Anchor::Section("failures"))], |section| {
        section.leaf("h2", &[], "What went wrong");
        for failure in page.failures.iter().take(MOST) {
            section.element("article", &[class("failure")], |article| write_one(article, failure, &anchors));
        }
        more(section, page.failures.len(), "kinds of failure");
    });
    main.line();
}

fn write_one(article: &mut Markup, failure: &Failure, anchors: &super::nodes::Anchors<'_>) {
    let nodes: usize = failure.said.iter().map(|said| said.nodes.len()).sum();
    article.leaf("h3", &[], &format!("{}: {}", super::document::capital(failure.label), count(nodes, "node")));
    for said in failure.said.iter().take(MOST) {
        article.leaf("blockquote", &[class("words")], &said.words);
        write_nodes(article, said, anchors);
    }
    more(article, failure.said.len(), "answers");
    if let Some(explanation) = &failure.explanation {
        article.element("dl", &[class("explanation")], |list| {
            list.leaf("dt", &[], "Meaning");
            list.element("dd", &[], |text| text.prose(explanation.meaning));
            list.leaf("dt", &[], "Likely");
            for cause in explanation.causes {
                list.element("dd", &[], |text| text.prose(cause));
            }
            list.leaf("dt", &[], "Look at");
            list.element("dd", &[], |text| text.prose(&explanation.look_at));
        });
    }
}

fn write_nodes(article: &mut Markup, said: &Said, anchors: &super::nodes::Anchors<'_>) {
    article.element("p", &[class("names")], |line| {
        for (number, (pool, node)) in said.nodes.iter().take(NODES).enumerate() {
            if number > 0 {
                line.text(", ");
            }
            match anchors.node(pool.as_ref(), node) {
                Some(anchor) => line.leaf("a", &[Attribute::Href(anchor)], node.as_str()),
                None => line.text(node.as_str()),
            }
        }
        if let Some(rest) = said.nodes.len().checked_sub(NODES).filter(|rest| *rest > 0) {
            line.text(&format!(" and {} more", rest));
        }
    });
}
