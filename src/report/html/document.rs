//! The page as a whole: what a browser must know, what a reader must know first, and the order of the parts.

use std::io::{self, Write};

use jiff::Timestamp;
use ring::digest::{SHA256, digest};

use super::markup::{Anchor, Attribute, Markup, class};
use super::page::Page;
use super::{changes, failures, nodes, timeline};

/// How it looks.
const STYLE: &str = include_str!("page.css");
/// What it does beyond what a page without scripts does: keys in the grid, and filters.
const SCRIPT: &str = include_str!("page.js");

/// Writes the page.
///
/// # Errors
/// When the writer does.
pub fn write(out: &mut dyn Write, page: &Page) -> io::Result<()> {
    out.write_all(markup(page).as_bytes())
}

fn markup(page: &Page) -> String {
    let mut markup = Markup::default();
    markup.own("<!DOCTYPE html>\n");
    markup.element("html", &[Attribute::Fixed("lang", "en")], |html| {
        html.line();
        head(html, page);
        html.line();
        html.element("body", &[], |body| {
            if !page.pools.is_empty() {
                let link = [class("skip"), Attribute::Href(Anchor::Section("nodes"))];
                body.leaf("a", &link, "Skip to the nodes");
            }
            header(body, page);
            let main = [Attribute::Id(Anchor::Section("content"))];
            body.element("main", &main, |main| {
                errors(main, page);
                failures::write(main, page);
                nodes::write(main, page);
                if let Some(timeline) = &page.timeline {
                    timeline::write(main, timeline);
                }
                if let Some(review) = &page.review {
                    changes::write(main, page, review);
                }
            });
            footer(body, page);
            body.element("script", &[], |script| script.own(SCRIPT));
        });
    });
    markup.line();
    markup.finish()
}

fn head(html: &mut Markup, page: &Page) {
    html.element("head", &[], |head| {
        head.open("meta", &[Attribute::Fixed("charset", "utf-8")]);
        // Before anything that it is about.
        head.own("\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'sha256-");
        head.digest(digest(&SHA256, STYLE.as_bytes()).as_ref());
        head.own("'; script-src 'sha256-");
        head.digest(digest(&SHA256, SCRIPT.as_bytes()).as_ref());
        head.own("'; base-uri 'none'; form-action 'none'\">\n");
        head.own("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        head.own(
            "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n",
        );
        // Without one, browsers ask the server for it.
        head.own("<link rel=\"icon\" href=\"data:,\">\n");
        head.leaf("title", &[], &format!("nodecfg {}: {}", page.command, page.verdict));
        head.element("style", &[], |style| style.own(STYLE));
    });
}

fn header(body: &mut Markup, page: &Page) {
    body.element("header", &[class(if page.good { "good" } else { "bad" })], |header| {
        header.leaf("p", &[class("command")], &format!("nodecfg {}", page.command));
        header.element("h1", &[], |title| {
            let mark = if page.good { "\u{2713}" } else { "\u{2715}" };
            title.element("span", &[class("verdict"), Attribute::Fixed("aria-hidden", "true")], |span| span.text(mark));
            title.text(&capital(&page.verdict));
        });
        header.element("dl", &[class("facts")], |list| {
            for (label, text) in page.facts.iter().map(|(label, text)| (*label, text.as_str())) {
                list.element("div", &[], |pair| {
                    pair.leaf("dt", &[], label);
                    pair.leaf("dd", &[], text);
                });
            }
        });
    });
    body.line();
}

/// What cut the command short, why pools stopped, and how to go on.
fn errors(main: &mut Markup, page: &Page) {
    if page.errors.is_empty() && page.notices.is_empty() {
        return;
    }
    main.element("section", &[class("notices"), Attribute::Label("What to know first")], |section| {
        for error in page.errors.iter().take(MOST) {
            section.element("div", &[class("notice error")], |notice| {
                notice.element("p", &[class("words")], |line| {
                    line.leaf("strong", &[], "error");
                    line.text(" ");
                    line.prose(&error.message);
                });
                if !error.help.is_empty() {
                    notice.element("p", &[class("words help")], |line| {
                        line.leaf("strong", &[], "help");
                        line.text(" ");
                        line.prose(&error.help);
                    });
                }
            });
        }
        more(section, page.errors.len(), "errors");
        section.element("ul", &[class("plain")], |list| {
            for notice in page.notices.iter().take(MOST) {
                list.element("li", &[class("notice")], |line| {
                    line.leaf("strong", &[], notice.label);
                    line.text(" ");
                    line.prose(&notice.text);
                });
            }
        });
        more(section, page.notices.len(), "remarks");
    });
    main.line();
}

/// How many of a kind are shown where each is a paragraph.
pub(super) const MOST: usize = 50;

/// Says that there are more than are shown.
pub(super) fn more(markup: &mut Markup, number: usize, what: &str) {
    if let Some(rest) = number.checked_sub(MOST).filter(|rest| *rest > 0) {
        markup.leaf("p", &[class("quiet")], &format!("{} more {what}; the JSON output has them.", rest));
    }
}

fn footer(body: &mut Markup, page: &Page) {
    body.element("footer", &[], |footer| {
        footer.leaf("p", &[], &format!("Made {} by nodecfg {}.", time(page.made), env!("CARGO_PKG_VERSION")));
    });
}

/// A moment as people read it.
pub(super) fn time(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A sentence from its beginning.
pub(super) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
