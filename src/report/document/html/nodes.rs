//! The "Pools" and "Nodes" sections: counts per pool, a grid with a cell per node, and a table of nodes.
//!
//! Each cell is a link with a label to its table row, so the grid works without colors and scripts.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::blocks::scrolling;
use super::text::{Plain, Prose};
use crate::report::count;
use crate::report::document::{Cell, NodePool, Nodes, counts};
use nodecfg_plan::state::State;

/// Maximum number of nodes for which the tables are initially expanded.
const MAX_EXPANDED: usize = 30;
/// The width of a bar in SVG units.
const WIDTH: usize = 1000;

/// The number of nodes per state in words that stay on one line.
fn unbroken_counts(counts: &BTreeMap<State, usize>) -> String {
    let parts: Vec<String> =
        counts.iter().map(|(state, number)| format!("{number} {}", state.word()).replace(' ', "\u{a0}")).collect();
    parts.join(", ")
}

/// The displayed name of a pool, with its fleet if there are several.
fn display_name(pool: &NodePool, with_fleet: bool) -> String {
    match (&pool.name, &pool.fleet) {
        (Some(name), Some(fleet)) if with_fleet => format!("{name} of fleet {fleet}"),
        (Some(name), _) => name.to_string(),
        (None, _) => "in no pool".to_owned(),
    }
}

/// The sections. Empty without pools.
pub(super) fn sections(nodes: &Nodes) -> Markup {
    let total: usize = nodes.pools.iter().map(|pool| pool.nodes.len()).sum();
    let (filled, with_fleet) = (filled(nodes), nodes.are_of_several_fleets());
    let mut first = 0;
    html! {
        @if nodes.pools.len() > 1 || !nodes.pool_columns.is_empty() { (pools(nodes)) "\n" }
        @if !nodes.pools.is_empty() {
            section #nodes {
                h2 { "Nodes (" (total) ")" }
                (legend(nodes))
                @for (index, pool) in nodes.pools.iter().enumerate() {
                    @let name = display_name(pool, with_fleet);
                    section.pool id={ "p" (index) } {
                        (pool_section(nodes, &filled, pool, &name, first, total <= MAX_EXPANDED))
                    }
                    @let () = first += pool.nodes.len();
                }
            }
            "\n"
        }
    }
}

/// The table of pools.
fn pools(nodes: &Nodes) -> Markup {
    let with_fleet = nodes.are_of_several_fleets();
    let rows = html! {
        @for (index, pool) in nodes.pools.iter().enumerate() {
            @let counts = counts(&pool.nodes);
            tr {
                th scope="row" { a href={ "#p" (index) } { (display_name(pool, with_fleet)) } }
                td.number { (pool.nodes.len()) }
                @for value in &pool.cells { td { (value.text()) } }
                td.bar { (bar(&counts)) }
                td {
                    (unbroken_counts(&counts))
                    @for remark in &pool.remarks { p.remark { (Prose(remark)) } }
                }
            }
        }
    };
    let columns = ["pool", "nodes"].into_iter().chain(nodes.pool_columns.iter().copied()).chain(["", "states"]);
    html! {
        section #pools {
            h2 { "Pools (" (nodes.pools.len()) ")" }
            (scrolling("pools", None, &columns.collect::<Vec<_>>(), &rows))
        }
    }
}

/// A bar with the share of each state. The numbers stand beside it.
fn bar(counts: &BTreeMap<State, usize>) -> Markup {
    let total: usize = counts.values().sum();
    let mut before = 0;
    html! {
        svg.bar viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            @for (state, number) in counts {
                @let from = (before * WIDTH).checked_div(total).unwrap_or(0);
                @let () = before += number;
                // A state with few nodes gets a minimum width, so that it stays visible.
                @let to = (before * WIDTH).checked_div(total).unwrap_or(0).max(from + 8).min(WIDTH);
                @let from = from.min(WIDTH - 8);
                path class=(class(*state)) d={ "M" (from) " 0L" (to) " 0L" (to) " 10L" (from) " 10Z" } {}
            }
        }
    }
}

/// The legend of states with their counts. The script turns the entries into filters.
fn legend(nodes: &Nodes) -> Markup {
    html! {
        div #filters.filters {
            ul.legend aria-label="States and how many nodes have each" {
                @for (state, number) in counts(nodes.pools.iter().flat_map(|pool| &pool.nodes)) {
                    li { span.chip { i class=(class(state)) aria-hidden="true" {} b { (number) } " " (state.word()) } }
                }
            }
            label.search hidden {
                span { "Find" }
                input type="search" placeholder="node or pool" autocomplete="off" spellcheck="false";
            }
            p.quiet.found role="status" {}
        }
        p #keys.quiet.keys hidden {
            "In the grid: arrow keys, Home and End move between nodes, Enter opens the node's row in the table."
        }
    }
}

fn pool_section(
    nodes: &Nodes,
    filled: &BTreeSet<usize>,
    pool: &NodePool,
    name: &str,
    first: usize,
    open: bool,
) -> Markup {
    let counts = counts(&pool.nodes);
    let title = format!("Nodes: {name}");
    let with_message = pool.nodes.iter().any(|node| !node.message.is_empty());
    let titles = nodes.columns.iter().enumerate().filter(|(index, _)| filled.contains(index));
    let columns = ["node", "state"].into_iter().chain(titles.map(|(_, column)| column.title));
    let columns: Vec<&str> = columns.chain(with_message.then_some("message")).collect();
    html! {
        h3 { (name) }
        p.quiet {
            (count(pool.nodes.len(), "node"))
            @if !counts.is_empty() { ": " (unbroken_counts(&counts)) }
        }
        @for remark in &pool.remarks { p.remark { (Prose(remark)) } }
        @if !pool.nodes.is_empty() {
            ul.grid aria-label=(title) {
                @for (index, node) in pool.nodes.iter().enumerate() {
                    // The Tab key stops once per grid: at the first cell, until the script moves the stop.
                    @let tabindex = (index > 0).then_some("-1");
                    @let label = format!("{}, {}", node.name, node.words);
                    li { a class=(class(node.state)) href={ "#n" (first + index) } aria-label=(Plain(&label)) tabindex=[tabindex] {} }
                }
            }
            "\n"
            details open[open] {
                summary { "Table of " (count(pool.nodes.len(), "node")) }
                (scrolling("nodes", Some(&title), &columns, &rows(pool, filled, first, with_message)))
            }
            "\n"
        }
    }
}

/// The columns with any value.
fn filled(nodes: &Nodes) -> BTreeSet<usize> {
    let has_value =
        |index: &usize| nodes.all().any(|(_, node)| node.cells.get(*index).is_some_and(|cell| *cell != Cell::Empty));
    (0..nodes.columns.len()).filter(has_value).collect()
}

fn rows(pool: &NodePool, filled: &BTreeSet<usize>, first: usize, with_message: bool) -> Markup {
    html! {
        @for (index, node) in pool.nodes.iter().enumerate() {
            tr class=(class(node.state)) id={ "n" (first + index) } tabindex="-1" {
                th scope="row" { (node.name.as_str()) }
                td { (Plain(&node.words)) }
                @for cell in filled.iter().filter_map(|index| node.cells.get(*index)) {
                    td { @if *cell == Cell::Empty { "–" } @else { (Plain(&cell.text())) } }
                }
                @if with_message { td.says { (Plain(&node.message)) } }
            }
            "\n"
        }
    }
}

/// The CSS class of a state. States that never share a page may share a class.
pub(super) fn class(state: State) -> &'static str {
    match state {
        State::Failed => "failed",
        State::NotReady => "notready",
        State::Blocked => "blocked",
        State::CannotFetch => "unfetched",
        State::ChangedByOthers | State::Drifted => "drifted",
        State::InFlight | State::InTransition => "flight",
        State::RolledBack => "back",
        State::NotStarted | State::Held => "unstarted",
        State::Behind => "behind",
        State::Paused => "paused",
        State::Skipped => "skipped",
        State::Gone | State::Deleting => "gone",
        State::Unpooled => "unpooled",
        State::OnTrial => "on-trial",
        State::Settled => "settled",
        State::Converged => "converged",
    }
}
