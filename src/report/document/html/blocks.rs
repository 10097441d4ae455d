//! The blocks of a report as elements of a page.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::text::{Plain, Prose};
use super::{nodes, timeline};
use crate::report::document::{
    ANOTHER_DEFAULT, Block, Cell, Fields, Item, Listed, Nodes, Piece, Report, Run, Section, Table, Text, listed, runs,
};
use crate::report::{clipped, clipped_values, count};
use crate::status::Grade;
use nodecfg_contract::names::{NodeName, PoolName};

/// The maximum number of items, of rows and of sections.
const MAX_ITEMS: usize = 50;
/// The maximum number of fields of a current configuration.
const MAX_FIELDS: usize = 200;
/// The maximum length of a value, in characters.
const MAX_VALUE: usize = 500;
/// The maximum number of sections, and of rows of a table, that are initially open.
const MAX_OPEN: (usize, usize) = (3, 30);

/// The nodes that the page lists. The table row of node 3 has the ID `n3`.
pub(super) struct Links<'a>(BTreeMap<(Option<&'a PoolName>, &'a NodeName), usize>);

impl<'a> Links<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let all = report.nodes().flat_map(Nodes::all).enumerate();
        Self(all.map(|(number, (pool, node))| ((pool.name.as_ref(), &node.name), number)).collect())
    }

    /// The name of a node, with a link to its row if the page has it.
    fn node(&self, pool: Option<&PoolName>, node: &NodeName) -> Markup {
        html! {
            @match self.0.get(&(pool, node)) {
                Some(number) => a href={ "#n" (number) } { (node.as_str()) },
                None => (node.as_str()),
            }
        }
    }

    /// A text, with links to nodes.
    pub(super) fn words(&self, text: &Text) -> Markup {
        html! {
            @for piece in &text.0 {
                @match piece {
                    Piece::Words(words) => (Prose(words)),
                    Piece::Name(name) => (Plain(name)),
                    Piece::Node(pool, node) => (self.node(pool.as_ref(), node)),
                    Piece::Graded(_, words) => strong { (Prose(words)) },
                }
            }
        }
    }
}

/// The content of a page.
pub(super) fn sections(report: &Report, links: &Links<'_>) -> Markup {
    let most = if report.complete { usize::MAX } else { MAX_ITEMS };
    let mut pools = 0;
    let mut section = |run| match run {
        Run::Items(items) => notices(&items, most, links),
        Run::Block(Block::Section(section)) => {
            pools += usize::from(section.number > 0);
            if pools <= MAX_ITEMS || section.number == 0 {
                top_section(section, links)
            } else {
                html! {}
            }
        }
        Run::Block(Block::Detail(_)) => html! {},
        Run::Block(block) => self::block(block, links),
    };
    let shown: Vec<Markup> = runs(&report.blocks).into_iter().map(&mut section).collect();
    html! {
        @for section in &shown { (section) "\n" }
        (more(pools, "pools"))
    }
}

fn notices(items: &[&Item], most: usize, links: &Links<'_>) -> Markup {
    html! {
        section.notices aria-label="Notices" {
            (list(items, most, |item| {
                let class = match item.grade {
                    Some(Grade::Bad) => "error",
                    Some(Grade::Warning) => "other",
                    Some(Grade::Neutral | Grade::Good) | None => "plain",
                };
                html! { div.notice.(class) { (self::item(item, links)) } }
            }))
        }
    }
}

/// Items, of which those with the same label have a maximum number.
fn list(items: &[&Item], most: usize, each: impl Fn(&Item) -> Markup) -> Markup {
    html! {
        @for listed in listed(items, most) {
            @match listed {
                Listed::Item(item) => (each(item)),
                Listed::More(label, more) => p.quiet { (label) ": " (more) " more; see the JSON output." },
            }
        }
    }
}

fn top_section(section: &Section, links: &Links<'_>) -> Markup {
    html! {
        section {
            h2 { (links.words(&section.title)) }
            @if !section.facts.is_empty() { p { (joined(&section.facts, links)) "." } }
            (all(&section.blocks, links))
        }
    }
}

/// A report within a page.
fn within(title: &str, report: &Report, links: &Links<'_>) -> Markup {
    html! {
        section #changes {
            h2 { (title) }
            @if let Some(lead) = &report.lead { p { (Prose(&lead.label)) } }
            @if let Some(result) = &report.result { p { (Prose(&result.label)) " " (links.words(&result.text)) } }
            (all(&report.blocks, links))
        }
    }
}

/// Blocks below each other.
fn all(blocks: &[Block], links: &Links<'_>) -> Markup {
    let sections = blocks.iter().filter(|block| matches!(block, Block::Section(section) if section.number > 0)).count();
    let mut before = 0;
    let block = |run| match run {
        Run::Items(items) => list(&items, MAX_ITEMS, |item| block_item(item, links)),
        Run::Block(Block::Section(section)) => {
            before += usize::from(section.number > 0);
            let is_shown = before <= MAX_ITEMS || section.number == 0;
            if is_shown {
                folded(section, sections <= MAX_OPEN.0, links)
            } else {
                html! {}
            }
        }
        Run::Block(block) => self::block(block, links),
    };
    let shown: Vec<Markup> = runs(blocks).into_iter().map(block).collect();
    html! {
        @for block in &shown { (block) }
        (more(sections, "pools"))
    }
}

fn block_item(item: &Item, links: &Links<'_>) -> Markup {
    let class = match item.grade {
        _ if item.quiet => "quiet",
        Some(Grade::Bad) if !item.below.is_empty() => "failure",
        Some(Grade::Bad | Grade::Warning) => "remark",
        _ => "item",
    };
    html! { div class=(class) { (self::item(item, links)) } }
}

fn folded(section: &Section, open: bool, links: &Links<'_>) -> Markup {
    html! {
        details open[open] {
            summary {
                b { (links.words(&section.title)) }
                @if !section.facts.is_empty() { ": " (joined(&section.facts, links)) }
            }
            (all(&section.blocks, links))
        }
        "\n"
    }
}

fn block(block: &Block, links: &Links<'_>) -> Markup {
    match block {
        Block::Item(item) => block_item(item, links),
        Block::Section(section) => folded(section, true, links),
        Block::Table(table) => self::table(table, links),
        Block::Fields(fields) => self::fields(fields),
        Block::Nodes(nodes) => nodes::sections(nodes),
        Block::Timeline(timeline) => timeline::section(timeline),
        Block::Detail(inner) => all(inner, links),
        Block::Report(title, report) => within(title, report, links),
    }
}

/// A text with its label and what belongs to it.
fn item(item: &Item, links: &Links<'_>) -> Markup {
    let are_labeled = item.below.len() > 1 && item.below.iter().all(|below| below.label.is_some());
    html! {
        p.words { (line(item, links)) }
        @if are_labeled {
            dl.explanation {
                @for below in &item.below {
                    dt { (below.label.unwrap_or_default()) } dd { (links.words(&below.text)) }
                }
            }
        } @else if !item.below.is_empty() {
            ul.plain.below { @for below in &item.below { li { (self::item(below, links)) } } }
        }
    }
}

fn line(item: &Item, links: &Links<'_>) -> Markup {
    html! {
        @if let Some(label) = item.label { strong { (label) } " " }
        (links.words(&item.text))
    }
}

fn joined(texts: &[Text], links: &Links<'_>) -> Markup {
    html! {
        @for (index, text) in texts.iter().enumerate() { @if index > 0 { ", " } (links.words(text)) }
    }
}

fn table(table: &Table, links: &Links<'_>) -> Markup {
    let columns = table.filled();
    let rows = html! {
        @for row in &table.rows {
            tr {
                @for (place, cell) in columns.iter().filter_map(|index| row.get(*index)).enumerate() {
                    @if place == 0 { th scope="row" { (self::cell(cell, links)) } } @else { td.says { (self::cell(cell, links)) } }
                }
            }
            "\n"
        }
    };
    let titles: Vec<&str> = columns.iter().filter_map(|index| table.columns.get(*index).copied()).collect();
    let drawn = scrolling("table", Some(&table.caption), &titles, &rows);
    html! {
        @if table.rows.len() > MAX_OPEN.1 {
            details { summary { (table.caption) " (" (table.rows.len()) ")" } (drawn) }
        } @else if !table.rows.is_empty() { (drawn) }
    }
}

/// A value. Unknown ones are a dash.
pub(super) fn cell(cell: &Cell, links: &Links<'_>) -> Markup {
    html! {
        @match cell {
            Cell::Empty => "–",
            Cell::Node(pool, node) => (links.node(pool.as_ref(), node)),
            other => (Plain(&other.text())),
        }
    }
}

fn fields(fields: &Fields) -> Markup {
    let columns: &[&str] = match fields.are_settings {
        true => &["setting", "now", "new", "meaning"],
        false => &["field", "now", "new", "risk", "set by"],
    };
    let code = |value: &str| html! { code { (Plain(&clipped(value, MAX_VALUE))) } };
    let rows = html! {
        @for field in fields.fields.iter().take(MAX_FIELDS) {
            tr {
                th scope="row" { (code(&field.path)) }
                @let (old, new) = clipped_values(field.old.as_deref(), field.new.as_deref(), MAX_VALUE);
                td { @if let Some(old) = &old { del { (code(old)) } } @else { "–" } }
                td {
                    @match (&old, &new) {
                        (None, None) if !fields.are_settings => (ANOTHER_DEFAULT),
                        (_, Some(new)) => ins { (code(new)) },
                        (_, None) => "–",
                    }
                }
                @if fields.are_settings { td { (field.meaning) } } @else {
                    td {
                        @match &field.risk {
                            _ if field.no_effect => "no effect",
                            Some(risk) => { b { (risk.class.as_str()) } " " span.quiet { (Prose(&risk.reason_and_source())) } },
                            None => "unknown",
                        }
                    }
                    td { @if let Some(place) = &field.place { (code(place)) } @else { "–" } }
                }
            }
            "\n"
        }
    };
    html! {
        @if !fields.fields.is_empty() {
            (scrolling("changes", Some(&format!("Changes: {}", fields.subject)), columns, &rows))
        }
        @if fields.fields.len() > MAX_FIELDS {
            p.quiet { (count(fields.fields.len() - MAX_FIELDS, "more field")) "; see the JSON output." }
        }
    }
}

/// A note about omitted things.
pub(super) fn more(number: usize, what: &str) -> Markup {
    html! {
        @if number > MAX_ITEMS {
            p.quiet { (number - MAX_ITEMS) " more " (what) "; see the JSON output." }
        }
    }
}

/// A table that scrolls horizontally. A column without a name has no heading.
pub(super) fn scrolling(class: &str, label: Option<&str>, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll {
            table class=(class) aria-label=[label.map(Plain)] {
                thead {
                    tr {
                        @for column in columns {
                            @if column.is_empty() { td {} } @else { th scope="col" { (column) } }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}
