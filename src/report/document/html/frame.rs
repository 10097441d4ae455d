//! The frame of a page: head, header and footer.

use std::io;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};

use super::blocks;
use super::blocks::Links;
use super::text::{Plain, Prose};
use crate::report::document::{Conclusion, Report};
use crate::status::Grade;

/// The style sheet.
const STYLE: &str = include_str!("page.css");
/// Keyboard navigation in the grid, and filters. The page is complete without scripts.
const SCRIPT: &str = include_str!("page.js");

/// Writes a report that was made at `made`.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut dyn Write, report: &Report, made: Timestamp) -> io::Result<()> {
    out.write_all(page(report, made).into_string().as_bytes())
}

fn page(report: &Report, made: Timestamp) -> Markup {
    let links = Links::of(report);
    let verdict = verdict(report);
    html! {
        (DOCTYPE) "\n"
        html lang="en" {
            "\n" (head(report, &verdict)) "\n"
            body {
                @if report.nodes().any(|nodes| !nodes.pools.is_empty()) {
                    a.skip href="#nodes" { "Skip to the nodes" }
                }
                (header(report, &verdict, &links)) "\n"
                main #content { (blocks::sections(report, &links)) }
                footer {
                    p { "Made " (time(made)) " by nodecfg " (env!("CARGO_PKG_VERSION")) "." }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
        "\n"
    }
}

/// The effect of a change, or else the result.
fn verdict(report: &Report) -> String {
    let conclusion = report.lead.as_ref().or(report.result.as_ref());
    let sentence = |of: &Conclusion| format!("{} {}", of.label, of.text.plain()).trim_end().to_owned();
    conclusion.map(sentence).unwrap_or_default()
}

fn head(report: &Report, verdict: &str) -> Markup {
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
            title { "nodecfg " (report.command) ": " (Plain(verdict)) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn header(report: &Report, verdict: &str, links: &Links<'_>) -> Markup {
    let grades = report.lead.iter().chain(&report.result).map(|conclusion| conclusion.grade);
    let (class, mark) = match grades.min() {
        Some(Grade::Bad | Grade::Warning) => ("bad", "\u{2715}"),
        _ => ("good", "\u{2713}"),
    };
    let rest = report.result.as_ref().filter(|_| report.lead.is_some());
    html! {
        header class=(class) {
            p.command { "nodecfg " (report.command) }
            h1 { span.verdict aria-hidden="true" { (mark) } (Plain(verdict)) }
            @if let Some(rest) = rest { p { (Prose(&rest.label)) " " (links.words(&rest.text)) } }
            dl.facts {
                @for (label, text) in &report.facts {
                    div { dt { (label) } dd { (links.words(text)) } }
                }
            }
        }
    }
}

/// Formats a time.
pub(super) fn time(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
