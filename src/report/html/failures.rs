//! What failed, in the nodes' own words, and what that means.

use super::document::{MOST, more};
use super::markup::{Anchor, Attribute, Markup, class};
use super::page::{Failure, Page, Said};
use crate::report::count;

/// How many nodes are named.
const NODES: usize = 12;

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
            match anchors.node(pool, node) {
                Some(anchor) => line.leaf("a", &[Attribute::Href(anchor)], node.as_str()),
                None => line.text(node.as_str()),
            }
        }
        if let Some(rest) = said.nodes.len().checked_sub(NODES).filter(|rest| *rest > 0) {
            line.text(&format!(" and {} more", rest));
        }
    });
}
