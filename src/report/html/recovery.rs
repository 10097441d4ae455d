//! The section of a run about what changed nodes had before and have since: Ready pods and extended resources.

use maud::{Markup, html};

use super::elements::table;
use super::nodes::Anchors;
use super::page::Page;
use super::text::{Prose, Text};
use crate::report::count;
use crate::report::recovery::totals;

/// Maximum number of nodes for which the table is initially expanded.
const MAX_EXPANDED: usize = 30;

/// The section. Empty without nodes.
pub(super) fn section(page: &Page) -> Markup {
    let changed = &page.recovery;
    let anchors = Anchors::of(page);
    let columns = ["node", "pool", "Ready pods", "extended resources", "result"];
    let rows = html! {
        @for node in changed {
            tr {
                (anchors.row_header(&node.pool, &node.node))
                td { (node.pool.as_str()) }
                td { @if node.pods.is_empty() { "–" } @else { (node.pods) } }
                td { @if node.resources.is_empty() { "–" } @else { (Text(&node.resources)) } }
                td { @if node.has_less { "less than before" } @else { "–" } }
            }
            "\n"
        }
    };
    html! {
        @if let Some(totals) = totals(changed) {
            section #recovery {
                h2 { "Before and after (" (changed.len()) ")" }
                p { (Prose(&totals)) "." }
                details open[changed.len() <= MAX_EXPANDED] {
                    summary { "Table of " (count(changed.len(), "node")) }
                    (table("recovery", Some("Before and after"), &columns, &rows))
                }
            }
            "\n"
        }
    }
}
