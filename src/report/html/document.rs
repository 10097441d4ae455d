//! The HTML document: head, header, notices, the order of the sections, and the footer.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};

use super::elements::{MAX_ITEMS, capital, more, time};
use super::page::Page;
use super::text::{Prose, Text};
use super::{changes, drains, failures, nodes, recovery, timeline};

/// The style sheet.
const STYLE: &str = include_str!("page.css");
/// Keyboard navigation in the grid, and filters. The page is complete without scripts.
const SCRIPT: &str = include_str!("page.js");

/// Writes the page.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut dyn Write, page: &Page) -> io::Result<()> {
    out.write_all(document(page).into_string().as_bytes())
}

fn document(page: &Page) -> Markup {
    html! {
        (DOCTYPE) "\n"
        html lang="en" {
            "\n" (head(page)) "\n"
            body {
                @if !page.pools.is_empty() {
                    a.skip href="#nodes" { "Skip to the nodes" }
                }
                (header(page)) "\n"
                main #content {
                    (notices(page))
                    (failures::section(page))
                    (nodes::sections(page))
                    (drains::section(page))
                    (recovery::section(page))
                    @if let Some(timeline) = &page.timeline { (timeline::section(timeline)) }
                    @if let Some(review) = &page.review { (changes::section(page, review)) }
                }
                footer {
                    p { "Made " (time(page.made)) " by nodecfg " (env!("CARGO_PKG_VERSION")) "." }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
        "\n"
    }
}

fn head(page: &Page) -> Markup {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    html! {
        head {
            meta charset="utf-8"; "\n"
            // First in the head, because it applies to what follows.
            meta http-equiv="Content-Security-Policy" content={
                "default-src 'none'; img-src data:; style-src 'sha256-" (hash(STYLE)) "'; script-src 'sha256-" (hash(SCRIPT))
                "'; base-uri 'none'; form-action 'none'"
            }; "\n"
            meta name="viewport" content="width=device-width, initial-scale=1"; "\n"
            meta name="color-scheme" content="light dark"; "\n"
            meta name="referrer" content="no-referrer"; "\n"
            // Without an icon, browsers request one from the server.
            link rel="icon" href="data:,"; "\n"
            title { "nodecfg " (page.command) ": " (Text(&page.verdict)) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn header(page: &Page) -> Markup {
    let (class, mark) = if page.good { ("good", "\u{2713}") } else { ("bad", "\u{2715}") };
    html! {
        header class=(class) {
            p.command { "nodecfg " (page.command) }
            h1 { span.verdict aria-hidden="true" { (mark) } (Text(&capital(&page.verdict))) }
            dl.facts {
                @for (label, text) in &page.facts {
                    div { dt { (label) } dd { (Text(text)) } }
                }
            }
        }
    }
}

/// Errors, and notices such as stop reasons and next steps.
fn notices(page: &Page) -> Markup {
    html! {
        @if !page.errors.is_empty() || !page.notices.is_empty() {
            section.notices aria-label="Notices" {
                @for error in page.errors.iter().take(MAX_ITEMS) {
                    div.notice.error {
                        p.words { strong { "error" } " " (Prose(&error.message)) }
                        @if !error.help.is_empty() {
                            p.words.help { strong { "help" } " " (Prose(&error.help)) }
                        }
                    }
                }
                (more(page.errors.len(), "errors"))
                ul.plain {
                    @for notice in page.notices.iter().take(MAX_ITEMS) {
                        li.notice { strong { (notice.label) } " " (Prose(&notice.text)) }
                    }
                }
                (more(page.notices.len(), "notices"))
            }
            "\n"
        }
    }
}
