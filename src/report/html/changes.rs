//! What was to be done: for each pool the fields that change, from what to what, by which file and line, and what that does to pods that
//! run. Facts and words are those of the other reports of a review; values that may be secrets are gone from it already.

use maud::{Markup, html};

use super::document::{MOST, capital, more, table};
use super::page::Page;
use super::text::{Prose, Text};
use crate::report::count;
use crate::report::review::{clipped, words};
use crate::review::{Changes, PoolReview, Review, Setting, Side};
use nodecfg_planning::plan::ChangedField;

/// How many fields of a pool are shown.
const FIELDS: usize = 200;
/// How long a value may be, in characters.
const VALUE: usize = 500;
/// Up to how many pools that change are open from the start.
const OPEN: usize = 3;

/// The section, where something changes.
pub(super) fn section(page: &Page, review: &Review) -> Markup {
    let changed: Vec<&PoolReview> = review.pools.iter().filter(|pool| pool.is_changed()).collect();
    let settled = review.pools.len() - changed.len();
    let compared = format!("Compared with {}, this {}.", words::side(&review.from), words::verdict(review));
    html! {
        @if review.is_changed() {
            section #changes {
                h2 { @if page.command == "sync" { "What was to be done" } @else { "What a sync would do" } }
                p { (Prose(&compared)) }
                (settings("fleet", &review.settings))
                @for pool in changed.iter().take(MOST) {
                    details open[changed.len() <= OPEN] { (one(review, pool)) }
                    "\n"
                }
                (more(changed.len(), "pools that change"))
                @if settled > 0 { p.quiet { "Nothing changes for " (count(settled, "other pool")) "." } }
            }
            "\n"
        }
    }
}

fn one(review: &Review, pool: &PoolReview) -> Markup {
    let meaning = words::explained(pool, review.cluster.is_some()).filter(|_| review.from != Side::Cluster);
    html! {
        summary {
            b { (pool.name.as_str()) } ": " (Text(&words::headline(pool)))
            @if let Some(rollout) = &pool.rollout { ", " (rollout.assign) " of " (count(rollout.nodes, "node")) }
        }
        @if let Some(meaning) = meaning { p { (Prose(&capital(meaning))) "." } }
        @if let Some(risk) = words::risk(pool) { p { strong { "Risk" } " " (Prose(&risk)) } }
        @if let (Some(refused), Some(refusal)) = (words::refused(pool), &pool.risk.refused) {
            p.remark { (Prose(&format!("Refused by sync: {refused}. {}.", capital(&refusal.help)))) }
        }
        @for set in &pool.changes {
            @if let Some(line) = words::leaving(review, pool, set) { p { (Prose(&format!("{}:", capital(&line)))) } }
            (fields(pool, set))
        }
        (settings(pool.name.as_str(), &pool.settings))
        @if let Some(name) = &pool.config_map.after {
            p.quiet {
                "ConfigMap " code { (Text(name)) }
                @match pool.config_map.create {
                    Some(true) => ", created by this",
                    Some(false) => ", which exists",
                    None => "",
                }
            }
        }
        @for file in pool.files.iter().take(MOST) {
            p.quiet { code { (Text(&file.path)) } " " (words::file(file.change)) }
        }
    }
}

fn fields(pool: &PoolReview, set: &Changes) -> Markup {
    let rows = html! {
        @for ChangedField { change, risk } in set.fields.iter().take(FIELDS) {
            tr {
                th scope="row" { code { (Text(&clipped(&change.path, VALUE))) } }
                (values(change.old.as_deref(), change.new.as_deref()))
                td {
                    @if let Some(risk) = risk {
                        b { (risk.class.as_str()) } " " span.quiet { (Prose(&words::why_and_source(risk))) }
                    } @else { "not known" }
                }
                td {
                    @if let Some(place) = &change.place { code { (Text(&clipped(&place.to_string(), VALUE))) } } @else { "–" }
                }
            }
            "\n"
        }
    };
    html! {
        @if !set.fields.is_empty() { (changes(pool.name.as_str(), &["field", "now", "new", "risk", "set by"], &rows)) }
        @if set.fields.len() > FIELDS {
            p.quiet { (count(set.fields.len() - FIELDS, "field")) " more; `nodecfg diff` has them." }
        }
    }
}

/// The cells of the value that is there and of the one that comes.
fn values(old: Option<&str>, new: Option<&str>) -> Markup {
    let code = |value: &str| html! { code { (Text(&clipped(value, VALUE))) } };
    html! {
        td { @if let Some(old) = old { del { (code(old)) } } @else { "–" } }
        td { @if let Some(new) = new { ins { (code(new)) } } @else { "–" } }
    }
}

fn settings(name: &str, settings: &[Setting]) -> Markup {
    let rows = html! {
        @for setting in settings {
            tr {
                th scope="row" { code { (setting.path) } }
                (values(setting.old.as_deref(), setting.new.as_deref()))
                td { (setting.meaning) }
            }
        }
    };
    html! { @if !settings.is_empty() { (changes(name, &["setting", "now", "new", "what it is"], &rows)) } }
}

fn changes(name: &str, columns: &[&str], rows: &Markup) -> Markup {
    table("changes", Some(&format!("Changes: {name}")), columns, rows)
}
