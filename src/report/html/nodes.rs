//! Pools and nodes: the numbers of each pool, a cell for each node, and a table with what is known of it.
//!
//! A cell is a link to its row, named and with its state for those who do not see colours; so the picture works without scripts.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::document::table;
use super::page::{Node, Page, Pool, class};
use super::text::{Prose, Text};
use crate::report::count;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_planning::state::State;

/// Up to how many nodes the tables are open from the start.
const OPEN: usize = 30;
/// How wide a bar is, in its own units.
const WIDTH: usize = 1000;

/// Where the nodes of a page are.
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
}

/// How many nodes are in each state, in the order of states.
fn counts<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<(State, usize)> {
    let mut counts: BTreeMap<State, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.state).or_default() += 1;
    }
    counts.into_iter().collect()
}

fn in_numbers(counts: &[(State, usize)]) -> String {
    let parts: Vec<String> =
        counts.iter().map(|(state, number)| format!("{number} {}", state.word()).replace(' ', "\u{a0}")).collect();
    parts.join(", ")
}

/// The name of a pool to people.
fn name(pool: &Pool) -> String {
    match (&pool.name, &pool.fleet) {
        (Some(name), Some(fleet)) => format!("{name} of fleet {fleet}"),
        (Some(name), None) => name.to_string(),
        (None, _) => "in no pool".to_owned(),
    }
}

/// The sections, where there are pools.
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
                    section.pool id={ "p" (index) } { (one(page, pool, first, total <= OPEN)) }
                    @let () = first += pool.nodes.len();
                }
            }
            "\n"
        }
    }
}

/// All pools in numbers.
fn pools(page: &Page) -> Markup {
    let rows = html! {
        @for (index, pool) in page.pools.iter().enumerate() {
            @let counts = counts(&pool.nodes);
            tr {
                th scope="row" { a href={ "#p" (index) } { (name(pool)) } }
                td.number { (pool.nodes.len()) }
                td.bar { (bar(&counts)) }
                td {
                    (in_numbers(&counts))
                    @for remark in &pool.remarks { p.remark { (Text(remark)) } }
                }
            }
        }
    };
    html! {
        section #pools {
            h2 { "Pools (" (page.pools.len()) ")" }
            (table("pools", None, &["pool", "nodes", "", "how they are"], &rows))
        }
    }
}

/// The states of a pool's nodes as lengths. Numbers stand beside it.
fn bar(counts: &[(State, usize)]) -> Markup {
    let total: usize = counts.iter().map(|(_, number)| number).sum();
    let mut before = 0;
    html! {
        svg.bar viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            @for (state, number) in counts {
                @let from = (before * WIDTH).checked_div(total).unwrap_or(0);
                @let () = before += number;
                // A state with few nodes is visible.
                @let to = (before * WIDTH).checked_div(total).unwrap_or(0).max(from + 8).min(WIDTH);
                @let from = from.min(WIDTH - 8);
                path class=(class(*state)) d={ "M" (from) " 0L" (to) " 0L" (to) " 10L" (from) " 10Z" } {}
            }
        }
    }
}

/// What each shape means, and how many nodes have it. The script makes switches of it.
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
            "In the grid: arrow keys, Home and End go from node to node, Enter goes to its row in the table."
        }
    }
}

fn one(page: &Page, pool: &Pool, first: usize, open: bool) -> Markup {
    let (name, counts) = (name(pool), counts(&pool.nodes));
    let title = format!("Nodes: {name}");
    let says = pool.nodes.iter().any(|node| !node.says.is_empty());
    let columns = ["node", "state"].into_iter().chain(page.columns.iter().copied());
    let columns: Vec<&str> = columns.chain(says.then_some("says")).collect();
    html! {
        h3 { (name) }
        p.quiet {
            (count(pool.nodes.len(), "node"))
            @if !counts.is_empty() { ": " (in_numbers(&counts)) }
        }
        @for remark in &pool.remarks { p.remark { (Prose(remark)) } }
        @if !pool.nodes.is_empty() {
            ul.grid aria-label=(title) {
                @for (index, node) in pool.nodes.iter().enumerate() {
                    // One stop for the key Tab in each grid; the script moves it. The table needs none.
                    @let tabindex = (index > 0).then_some("-1");
                    @let label = format!("{}, {}", node.name, node.word);
                    li { a class=(class(node.state)) href={ "#n" (first + index) } aria-label=(Text(&label)) tabindex=[tabindex] {} }
                }
            }
            "\n"
            details open[open] {
                summary { "Table of " (count(pool.nodes.len(), "node")) }
                (table("nodes", Some(&title), &columns, &rows(pool, first, says)))
            }
            "\n"
        }
    }
}

fn rows(pool: &Pool, first: usize, says: bool) -> Markup {
    html! {
        @for (index, node) in pool.nodes.iter().enumerate() {
            tr class=(class(node.state)) id={ "n" (first + index) } tabindex="-1" {
                th scope="row" { (node.name.as_str()) }
                td { (Text(&node.word)) }
                @for cell in &node.cells {
                    td { @if cell.is_empty() { "–" } @else { (Text(cell)) } }
                }
                @if says { td.says { (Text(&node.says)) } }
            }
            "\n"
        }
    }
}
