//! The "Drains" section of a run: what was evicted from each node, and whether the node is released.

use maud::{Markup, html};

use super::elements::{capital, table};
use super::nodes::Anchors;
use super::page::Page;
use super::text::{Prose, Text};
use crate::report::count;
use crate::report::drained::totals;

/// Maximum number of nodes for which the table is initially expanded.
const MAX_EXPANDED: usize = 30;

/// The section. Empty without drains.
pub(super) fn section(page: &Page) -> Markup {
    let drains = &page.drains;
    let anchors = Anchors::of(page);
    let has_blocked = drains.iter().any(|node| !node.blocked.is_empty());
    let columns = ["node", "pool", "drain", "evicted", "took", "mark"];
    let columns: Vec<&str> = columns.into_iter().chain(has_blocked.then_some("last blocked by")).collect();
    let rows = html! {
        @for drained in drains {
            tr {
                (anchors.row_header(&drained.pool, &drained.node))
                td { (drained.pool.as_str()) }
                td { (drained.result) }
                td { (count(drained.evicted, "pod")) }
                td { @if drained.took.is_empty() { "–" } @else { (drained.took) } }
                td { (drained.mark) }
                @if has_blocked {
                    td.says { @if drained.blocked.is_empty() { "–" } @else { (Text(&drained.blocked)) } }
                }
            }
            "\n"
        }
    };
    html! {
        @if let Some(totals) = totals(drains) {
            section #drains {
                h2 { "Drains (" (drains.len()) ")" }
                p { (Prose(&capital(&totals))) "." }
                details open[drains.len() <= MAX_EXPANDED] {
                    summary { "Table of " (count(drains.len(), "node")) }
                    (table("drains", Some("Drains"), &columns, &rows))
                }
            }
            "\n"
        }
    }
}
