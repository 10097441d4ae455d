//! The "Pools" and "Nodes" sections: counts per pool, a grid with a cell per node, and a table of nodes.
//!
//! Each cell is a link with a label to its table row, so the grid works without colors and scripts.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::elements::table;
use super::page::{Node, Page, Pool, class};
use super::text::{Prose, Text};
use crate::report::count;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::state::State;

/// Maximum number of nodes for which the tables are initially expanded.
const MAX_EXPANDED: usize = 30;
/// The width of a bar in SVG units.
const WIDTH: usize = 1000;

/// The number of each node on the page. The table row of node 3 has the ID `n3`.
pub(super) struct Anchors<'a>(BTreeMap<(Option<&'a PoolName>, &'a NodeName), usize>);

impl<'a> Anchors<'a> {
    pub(super) fn of(page: &'a Page) -> Self {
        let all = page.pools.iter().flat_map(|pool| pool.nodes.iter().map(move |node| (pool, node)));
        let numbered = all.enumerate().map(|(number, (pool, node))| ((pool.name.as_ref(), &node.name), number));
        Self(numbered.collect())
    }

    pub(super) fn node(&self, pool: Option<&PoolName>, node: &NodeName) -> Option<usize> {
        self.0.get(&(pool, node)).copied()
    }

    /// The first cell of a table row about a node: its name, with a link to the node if the page lists it.
    pub(super) fn row_header(&self, pool: &PoolName, node: &NodeName) -> Markup {
        html! {
            th scope="row" {
                @match self.node(Some(pool), node) {
                    Some(number) => a href={ "#n" (number) } { (node.as_str()) },
                    None => (node.as_str()),
                }
            }
        }
    }
}

/// The number of nodes per state, in the order of states.
fn counts<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<(State, usize)> {
    let mut counts: BTreeMap<State, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.state).or_default() += 1;
    }
    counts.into_iter().collect()
}

fn state_counts(counts: &[(State, usize)]) -> String {
    let parts: Vec<String> =
        counts.iter().map(|(state, number)| format!("{number} {}", state.word()).replace(' ', "\u{a0}")).collect();
    parts.join(", ")
}

/// The displayed name of a pool.
fn display_name(pool: &Pool) -> String {
    match (&pool.name, &pool.fleet) {
        (Some(name), Some(fleet)) => format!("{name} of fleet {fleet}"),
        (Some(name), None) => name.to_string(),
        (None, _) => "in no pool".to_owned(),
    }
}

/// The sections. Empty without pools.
pub(super) fn sections(page: &Page) -> Markup {
    let total: usize = page.pools.iter().map(|pool| pool.nodes.len()).sum();
    let mut first = 0;
    html! {
        @if page.pools.len() > 1 { (pools(page)) "\n" }
        @if !page.pools.is_empty() {
            section #nodes {
                h2 { "Nodes (" (total) ")" }
                (legend(page))
                @for (index, pool) in page.pools.iter().enumerate() {
                    section.pool id={ "p" (index) } { (pool_section(page, pool, first, total <= MAX_EXPANDED)) }
                    @let () = first += pool.nodes.len();
                }
            }
            "\n"
        }
    }
}

/// The table of pools.
fn pools(page: &Page) -> Markup {
    let rows = html! {
        @for (index, pool) in page.pools.iter().enumerate() {
            @let counts = counts(&pool.nodes);
            tr {
                th scope="row" { a href={ "#p" (index) } { (display_name(pool)) } }
                td.number { (pool.nodes.len()) }
                td.bar { (bar(&counts)) }
                td {
                    (state_counts(&counts))
                    @for remark in &pool.remarks { p.remark { (Text(remark)) } }
                }
            }
        }
    };
    html! {
        section #pools {
            h2 { "Pools (" (page.pools.len()) ")" }
            (table("pools", None, &["pool", "nodes", "", "states"], &rows))
        }
    }
}

/// A bar with the share of each state. The numbers stand beside it.
fn bar(counts: &[(State, usize)]) -> Markup {
    let total: usize = counts.iter().map(|(_, number)| number).sum();
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
fn legend(page: &Page) -> Markup {
    html! {
        div #filters.filters {
            ul.legend aria-label="States and how many nodes have each" {
                @for (state, number) in counts(page.pools.iter().flat_map(|pool| &pool.nodes)) {
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

fn pool_section(page: &Page, pool: &Pool, first: usize, open: bool) -> Markup {
    let (name, counts) = (display_name(pool), counts(&pool.nodes));
    let title = format!("Nodes: {name}");
    let with_message = pool.nodes.iter().any(|node| !node.message.is_empty());
    let columns = ["node", "state"].into_iter().chain(page.columns.iter().copied());
    let columns: Vec<&str> = columns.chain(with_message.then_some("message")).collect();
    html! {
        h3 { (name) }
        p.quiet {
            (count(pool.nodes.len(), "node"))
            @if !counts.is_empty() { ": " (state_counts(&counts)) }
        }
        @for remark in &pool.remarks { p.remark { (Prose(remark)) } }
        @if !pool.nodes.is_empty() {
            ul.grid aria-label=(title) {
                @for (index, node) in pool.nodes.iter().enumerate() {
                    // The Tab key stops once per grid: at the first cell, until the script moves the stop.
                    @let tabindex = (index > 0).then_some("-1");
                    @let label = format!("{}, {}", node.name, node.state_text);
                    li { a class=(class(node.state)) href={ "#n" (first + index) } aria-label=(Text(&label)) tabindex=[tabindex] {} }
                }
            }
            "\n"
            details open[open] {
                summary { "Table of " (count(pool.nodes.len(), "node")) }
                (table("nodes", Some(&title), &columns, &rows(pool, first, with_message)))
            }
            "\n"
        }
    }
}

fn rows(pool: &Pool, first: usize, with_message: bool) -> Markup {
    html! {
        @for (index, node) in pool.nodes.iter().enumerate() {
            tr class=(class(node.state)) id={ "n" (first + index) } tabindex="-1" {
                th scope="row" { (node.name.as_str()) }
                td { (Text(&node.state_text)) }
                @for cell in &node.cells {
                    td { @if cell.is_empty() { "–" } @else { (Text(cell)) } }
                }
                @if with_message { td.says { (Text(&node.message)) } }
            }
            "\n"
        }
    }
}
