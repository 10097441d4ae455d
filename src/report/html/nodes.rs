//! Pools and nodes: the numbers of each pool, a cell for each node, and a table with what is known of it.
//!
//! A cell is a link to its row, named and with its state for those who do not see colours; so the picture works without scripts.

use std::collections::BTreeMap;

use super::markup::{Anchor, Attribute, Drawing, Markup, class};
use super::page::{Node, Page, Pool, State};
use crate::report::count;
use nodecfg_contract::names::{NodeName, PoolName};

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

    pub(super) fn node(&self, pool: Option<&PoolName>, node: &NodeName) -> Option<Anchor> {
        self.0.get(&(pool, node)).map(|number| Anchor::Node(*number))
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

/// Writes the sections, where there are pools.
pub(super) fn write(main: &mut Markup, page: &Page) {
    if page.pools.is_empty() {
        return;
    }
    if page.pools.len() > 1 {
        write_pools(main, page);
    }
    let total: usize = page.pools.iter().map(|pool| pool.nodes.len()).sum();
    main.element("section", &[Attribute::Id(Anchor::Section("nodes"))], |section| {
        section.leaf("h2", &[], &format!("Nodes ({})", total));
        write_legend(section, page);
        let mut number = 0;
        for (index, pool) in page.pools.iter().enumerate() {
            section.element("section", &[class("pool"), Attribute::Id(Anchor::Pool(index))], |inner| {
                write_pool(inner, page, pool, number, total <= OPEN);
            });
            number += pool.nodes.len();
        }
    });
    main.line();
}

/// All pools in numbers.
fn write_pools(main: &mut Markup, page: &Page) {
    main.element("section", &[Attribute::Id(Anchor::Section("pools"))], |section| {
        section.leaf("h2", &[], &format!("Pools ({})", page.pools.len()));
        section.element("div", &[class("scroll")], |scroll| {
            scroll.element("table", &[class("pools")], |table| {
                head(table, &["pool", "nodes", "", "how they are"]);
                table.element("tbody", &[], |body| {
                    for (index, pool) in page.pools.iter().enumerate() {
                        body.element("tr", &[], |row| write_pool_row(row, index, pool));
                    }
                });
            });
        });
    });
    main.line();
}

fn write_pool_row(row: &mut Markup, index: usize, pool: &Pool) {
    row.element("th", &[Attribute::Fixed("scope", "row")], |cell| {
        cell.leaf("a", &[Attribute::Href(Anchor::Pool(index))], &name(pool));
    });
    let counts = counts(&pool.nodes);
    row.leaf("td", &[class("number")], &pool.nodes.len().to_string());
    row.element("td", &[class("bar")], |cell| write_bar(cell, &counts));
    row.element("td", &[], |cell| {
        cell.text(&in_numbers(&counts));
        for remark in &pool.remarks {
            cell.leaf("p", &[class("remark")], remark);
        }
    });
}

/// The states of a pool's nodes as lengths. Numbers stand beside it.
fn write_bar(cell: &mut Markup, counts: &[(State, usize)]) {
    let total: usize = counts.iter().map(|(_, number)| number).sum();
    let around = [
        class("bar"),
        Attribute::Fixed("viewBox", "0 0 1000 10"),
        Attribute::Fixed("preserveAspectRatio", "none"),
        Attribute::Fixed("aria-hidden", "true"),
    ];
    cell.element("svg", &around, |svg| {
        let mut before = 0;
        for (state, number) in counts {
            let from = (before * WIDTH).checked_div(total).unwrap_or(0);
            before += number;
            // What there is, is seen.
            let to = (before * WIDTH).checked_div(total).unwrap_or(0).max(from + 8).min(WIDTH);
            let mut shape = Drawing::default();
            let (from, to) = (units(from.min(WIDTH - 8)), units(to));
            shape.begin(from, 0);
            shape.line(to, 0);
            shape.line(to, 10);
            shape.line(from, 10);
            shape.close();
            svg.element("path", &[class(state.class()), Attribute::Shape(&shape)], |_| {});
        }
    });
}

fn units(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// What each shape means, and how many nodes have it. The script makes switches of it.
fn write_legend(section: &mut Markup, page: &Page) {
    let counts = counts(page.pools.iter().flat_map(|pool| &pool.nodes));
    section.element("div", &[class("filters"), Attribute::Id(Anchor::Section("filters"))], |filters| {
        filters.element("ul", &[class("legend"), Attribute::Label("States and how many nodes have each")], |list| {
            for (state, number) in counts {
                list.element("li", &[], |item| {
                    item.element("span", &[class("chip")], |chip| {
                        let mark = [class(state.class()), Attribute::Fixed("aria-hidden", "true")];
                        chip.element("i", &mark, |_| {});
                        chip.leaf("b", &[], &number.to_string());
                        chip.text(" ");
                        chip.text(state.word());
                    });
                });
            }
        });
        filters.element("label", &[class("search"), Attribute::Fixed("hidden", "")], |label| {
            label.leaf("span", &[], "Find");
            label.open(
                "input",
                &[
                    Attribute::Fixed("type", "search"),
                    Attribute::Fixed("placeholder", "node or pool"),
                    Attribute::Fixed("autocomplete", "off"),
                    Attribute::Fixed("spellcheck", "false"),
                ],
            );
        });
        filters.element("p", &[class("quiet found"), Attribute::Fixed("role", "status")], |_| {});
    });
    let hint = [Attribute::Id(Anchor::Section("keys")), class("quiet keys"), Attribute::Fixed("hidden", "")];
    section.leaf(
        "p",
        &hint,
        "In the grid: arrow keys, Home and End go from node to node, Enter goes to its row in the table.",
    );
}

fn write_pool(section: &mut Markup, page: &Page, pool: &Pool, first: usize, open: bool) {
    let name = name(pool);
    section.leaf("h3", &[], &name);
    let counts = counts(&pool.nodes);
    section.element("p", &[class("quiet")], |line| {
        line.text(&count(pool.nodes.len(), "node"));
        if !counts.is_empty() {
            line.text(&format!(": {}", in_numbers(&counts)));
        }
    });
    for remark in &pool.remarks {
        section.element("p", &[class("remark")], |line| line.prose(remark));
    }
    if pool.nodes.is_empty() {
        return;
    }
    let title = format!("Nodes: {name}");
    section.element("ul", &[class("grid"), Attribute::Label(&title)], |grid| {
        for (index, node) in pool.nodes.iter().enumerate() {
            grid.element("li", &[], |item| write_cell(item, node, first + index, index == 0));
        }
    });
    section.line();
    let details: &[Attribute<'_>] = if open { &[Attribute::Fixed("open", "")] } else { &[] };
    section.element("details", details, |details| {
        details.leaf("summary", &[], &format!("Table of {}", count(pool.nodes.len(), "node")));
        details.element("div", &[class("scroll")], |scroll| {
            scroll.element("table", &[class("nodes"), Attribute::Label(&title)], |table| {
                let says = pool.nodes.iter().any(|node| !node.says.is_empty());
                let mut columns: Vec<&str> =
                    ["node", "state"].into_iter().chain(page.columns.iter().copied()).collect();
                columns.extend(says.then_some("says"));
                head(table, &columns);
                table.element("tbody", &[], |body| {
                    for (index, node) in pool.nodes.iter().enumerate() {
                        write_row(body, node, first + index, says);
                    }
                });
            });
        });
    });
    section.line();
}

fn head(table: &mut Markup, columns: &[&str]) {
    table.element("thead", &[], |head| {
        head.element("tr", &[], |row| {
            for column in columns {
                if column.is_empty() {
                    row.element("td", &[], |_| {});
                } else {
                    row.leaf("th", &[Attribute::Fixed("scope", "col")], column);
                }
            }
        });
    });
}

fn write_cell(item: &mut Markup, node: &Node, number: usize, entry: bool) {
    let label = format!("{}, {}", node.name, node.word);
    let kind = class(node.state.class());
    let (link, label) = (Attribute::Href(Anchor::Node(number)), Attribute::Label(&label));
    // One stop for the key Tab in each grid; the script moves it. The table has no need of it.
    if entry {
        item.element("a", &[kind, link, label], |_| {});
    } else {
        item.element("a", &[kind, link, label, Attribute::Fixed("tabindex", "-1")], |_| {});
    }
}

fn write_row(body: &mut Markup, node: &Node, number: usize, says: bool) {
    let kind = [class(node.state.class()), Attribute::Id(Anchor::Node(number)), Attribute::Fixed("tabindex", "-1")];
    body.element("tr", &kind, |row| {
        row.leaf("th", &[Attribute::Fixed("scope", "row")], node.name.as_str());
        row.leaf("td", &[], &node.word);
        for cell in &node.cells {
            row.leaf("td", &[], if cell.is_empty() { "–" } else { cell });
        }
        if says {
            row.leaf("td", &[class("says")], &node.says);
        }
    });
    body.line();
}
