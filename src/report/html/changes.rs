//! The "Plan" or "What a sync would do" section: changed pools with their fields, risk and nodes.
//!
//! Facts and texts come from the review, in which secret values are redacted.

use maud::{Markup, html};

use super::elements::{MAX_ITEMS, capital, more, table};
use super::page::Page;
use super::text::{Prose, Text};
use crate::report::review::sentences::Fact;
use crate::report::review::{
    changes_beside_assignments, clipped, conditions, drain_summary, pod_facts, sentences, title, verdict,
};
use crate::report::run_summary::carries_out;
use crate::report::{count, names};
use crate::review::{Changes, Group, Review, Setting, Side, groups};
use nodecfg_plan::ChangedField;
use nodecfg_plan::drain::forecast::PodForecast;

/// Maximum number of fields per current configuration of a pool.
const MAX_FIELDS: usize = 200;
/// Maximum number of drained nodes, the same as of other lists of a page.
const MAX_NODES: usize = MAX_ITEMS;
/// Maximum number of named pods per node and reason.
const MAX_PODS: usize = 4;
/// The maximum length of a value, in characters.
const MAX_VALUE: usize = 500;
/// Maximum number of changed pools for which all are initially expanded.
const MAX_EXPANDED: usize = 3;

/// The section. Empty without changes.
pub(super) fn section(page: &Page, review: &Review) -> Markup {
    let changed = groups(review.pools.iter().filter(|pool| pool.is_changed()));
    let unchanged = review.pools.iter().filter(|pool| !pool.is_changed()).count();
    let compared = format!("Compared with {}, this {}.", sentences::side(&review.from), verdict(review));
    html! {
        @if review.is_changed() {
            section #changes {
                h2 { @if carries_out(page.command) { "Plan" } @else { "What a sync would do" } }
                p { (Prose(&compared)) }
                (settings("fleet", &review.settings))
                @for change in review.cluster.iter().flat_map(changes_beside_assignments) { p { "A sync " (Prose(&change)) "." } }
                @for group in changed.iter().take(MAX_ITEMS) {
                    details open[changed.len() <= MAX_EXPANDED] { (pool_details(page, review, group)) }
                    "\n"
                }
                (more(changed.len(), "changed pools"))
                @if let Some(restarts) = sentences::restarts(review) { p { (Prose(&restarts)) "." } }
                @if unchanged > 0 { p.quiet { (count(unchanged, "other pool")) " unchanged." } }
            }
            "\n"
        }
    }
}

fn pool_details(page: &Page, review: &Review, group: &Group<'_>) -> Markup {
    let (pool, title) = (&*group.merged, title(group.names()));
    let meaning = sentences::explanation(pool, review.cluster.is_some()).filter(|_| review.from != Side::Cluster);
    html! {
        summary {
            b { (title) } ": " @if group.is_several() { (count(group.pools.len(), "pool")) ", " } (Text(&sentences::headline(pool)))
            @if let Some(rollout) = &pool.rollout { ", " (rollout.assign) " of " (count(rollout.nodes, "node")) }
        }
        @if let Some(meaning) = meaning { p { (Prose(&capital(meaning))) "." } }
        @if let Some(risk) = sentences::risk(pool) { p { strong { "Risk" } " " (Prose(&risk)) } }
        @for fact in pool.rollout.as_ref().map(conditions).unwrap_or_default() { p.remark { (Prose(&sentence(&fact))) } }
        @if let (Some(refused), Some(refusal)) = (sentences::refused(pool), &pool.risk.refused) {
            p.remark { (Prose(&format!("Refused by sync: {refused}. {}.", capital(&refusal.help)))) }
        }
        (drain(&title, group))
        @for set in &pool.changes {
            @if let Some(line) = sentences::origin(review, pool, set) { p { (Prose(&format!("{}:", capital(&line)))) } }
            (fields(&title, set))
        }
        (settings(&title, &pool.settings))
        @if let Some(name) = &pool.config_map.after {
            p.quiet {
                "ConfigMap " code { (Text(name)) }
                @match pool.config_map.create {
                    Some(true) if carries_out(page.command) => ", created by this run",
                    Some(true) => ", to be created",
                    Some(false) => ", which exists",
                    None => "",
                }
            }
        }
        @for file in pool.files.iter().take(MAX_ITEMS) {
            p.quiet { code { (Text(&file.path)) } " " (sentences::file_change(file.change)) }
        }
    }
}

fn sentence(fact: &Fact) -> String {
    let label = fact.label.map_or_else(String::new, |label| format!("{label} "));
    capital(&format!("{label}{}.", fact.text))
}

/// The drain of the pools, and what it does to the pods that are on the nodes now.
fn drain(title: &str, group: &Group<'_>) -> Markup {
    let Some((summary, drain)) = drain_summary(group).zip(group.merged.drain()) else { return html! {} };
    let facts = pod_facts(drain);
    html! {
        p { (Prose(&capital(&summary))) "." }
        @if !facts.is_empty() {
            ul.plain.drain {
                @for fact in &facts {
                    li {
                        @if let Some(label) = fact.label { strong { (capital(label)) } " " (Prose(&fact.text)) "." }
                        @else { (Prose(&capital(&fact.text))) "." }
                    }
                }
            }
        }
        @if let Some(forecast) = drain.forecast() { (drained_nodes(title, forecast)) }
    }
}

/// The pods of each drained node.
fn drained_nodes(title: &str, forecast: &PodForecast) -> Markup {
    let pods = |pods: Vec<&str>| {
        html! {
            td.says {
                @if pods.is_empty() { "–" } @else { (Text(&names(pods.iter().copied(), MAX_PODS))) }
            }
        }
    };
    let rows = html! {
        @for node in forecast.nodes.iter().take(MAX_NODES) {
            tr {
                th scope="row" { (node.node.as_str()) }
                td { (node.evict) }
                (pods(node.refused.iter().map(|pod| pod.pod.as_str()).collect()))
                (pods(node.blocked.iter().map(|pod| pod.pod.as_str()).collect()))
                td { @if node.tolerant == 0 { "–" } @else { (node.tolerant) } }
            }
            "\n"
        }
    };
    let columns = ["node", "pods to evict", "drain refused for", "blocked now", "tolerate the taint"];
    html! {
        details {
            summary { "Pods of " (count(forecast.nodes.len(), "node")) }
            (table("drains", Some(&format!("Pods to evict: {title}")), &columns, &rows))
            (more(forecast.nodes.len(), "nodes"))
        }
    }
}

fn fields(title: &str, set: &Changes) -> Markup {
    let rows = html! {
        @for field @ ChangedField { change, risk, .. } in set.fields.iter().take(MAX_FIELDS) {
            @let (old, new) = sentences::values(field);
            tr {
                th scope="row" { code { (Text(&clipped(&change.path, MAX_VALUE))) } }
                (values(old.as_deref(), new.as_deref()))
                td {
                    @if let Some(risk) = risk {
                        b { (risk.class.as_str()) } " " span.quiet { (Prose(&sentences::reason_and_source(risk))) }
                    } @else { "unknown" }
                }
                td {
                    @if let Some(place) = &change.place { code { (Text(&clipped(&place.to_string(), MAX_VALUE))) } } @else { "–" }
                }
            }
            "\n"
        }
    };
    html! {
        @if !set.fields.is_empty() { (changes(title, &["field", "now", "new", "risk", "set by"], &rows)) }
        @if set.fields.len() > MAX_FIELDS {
            p.quiet { (count(set.fields.len() - MAX_FIELDS, "field")) " more; see `nodecfg diff`." }
        }
    }
}

/// The cells of the old and the new value.
fn values(old: Option<&str>, new: Option<&str>) -> Markup {
    let code = |value: &str| html! { code { (Text(&clipped(value, MAX_VALUE))) } };
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
    html! { @if !settings.is_empty() { (changes(name, &["setting", "now", "new", "meaning"], &rows)) } }
}

fn changes(name: &str, columns: &[&str], rows: &Markup) -> Markup {
    table("changes", Some(&format!("Changes: {name}")), columns, rows)
}
