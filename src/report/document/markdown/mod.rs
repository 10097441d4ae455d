//! A report as GitHub-flavoured markdown, for a pull request, a job page or a ticket. Sections fold.
//!
//! Texts stand in code spans or are escaped: they create no markup and no notification.

use std::io;
use std::io::Write;

use super::{
    ANOTHER_DEFAULT, Block, Cell, Field, Fields, Item, Listed, Nodes, Piece, Report, Run, Section, Table, Text, listed,
    runs, state_counts,
};
use crate::report::markdown::{code, html, prose, row};
use crate::report::{clipped, clipped_values, count, timeline};
use crate::status::Grade;
use fit::{Part, Parts};
use kubelet_config::risk::Class;

mod fit;
#[cfg(test)]
pub(in crate::report) use fit::length;

/// The smallest supported length limit, in UTF-16 units.
pub const LEAST_CHARS: i64 = 2000;
/// The maximum length of a report within another one, in UTF-16 units. The summary page of a GitHub Actions step holds
/// 1 MiB.
const MAX_WITHIN: usize = 60_000;
/// The maximum number of rows of a table, and of items with the same label.
const MAX_ROWS: usize = 50;
/// The maximum length of words from a node, the API server or a file, in characters.
const MAX_WORDS: usize = 600;
/// The maximum number of fields in brief form, worst risk first, and of reasons.
const MAX_BRIEF: usize = 10;
/// The maximum length of a value in brief form, in characters.
const BRIEF_VALUE: usize = 80;

/// Writes a report within `most` UTF-16 units, so that the limit holds for characters too. With `all`, lists all nodes.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut dyn Write, report: &Report, all: bool, most: Option<usize>) -> io::Result<()> {
    out.write_all(render(report, all, most).as_bytes())
}

/// The report as a string.
pub(in crate::report) fn render(report: &Report, all: bool, most: Option<usize>) -> String {
    whole(report, true, all).within(most)
}

/// A report of any length, with its facts if they do not stand elsewhere.
fn whole(report: &Report, with_facts: bool, all: bool) -> Parts {
    let about = report.about.as_ref().map(|about| format!("<sub>{}</sub>\n", prose(&about.plain())));
    let whole = report.whole.as_ref().map(|command| code(command)).unwrap_or_default();
    let head = head(report, with_facts);
    Parts { head, parts: parts(report, all), about: about.unwrap_or_default(), whole }
}

fn head(report: &Report, with_facts: bool) -> String {
    let result = report
        .result
        .as_ref()
        .map(|result| format!("{} {}", prose(&result.label), words(&result.text)).trim_end().to_owned());
    let mut head = match (&report.lead, &result) {
        (Some(lead), _) => format!("**{}**\n\n", prose(&lead.label)),
        (None, Some(result)) => format!("### nodecfg {}: {result}\n\n", report.command),
        (None, None) => String::new(),
    };
    let facts: Vec<String> = report.facts.iter().map(|(label, text)| format!("{label} {}", words(text))).collect();
    if with_facts && !facts.is_empty() {
        head.push_str(&format!("{}\n\n", facts.join(", ")));
    }
    if let Some(result) = result.filter(|_| report.lead.is_some()) {
        head.push_str(&format!("{result}\n\n"));
    }
    head
}

/// The parts that a limit of length may omit.
fn parts(report: &Report, all: bool) -> Vec<Part> {
    let most = if report.complete { usize::MAX } else { MAX_ROWS };
    let part = |run| match run {
        Run::Items(items) => Some(Part::Note(list(&items, most))),
        Run::Block(Block::Section(section)) if section.messages => {
            Some(Part::Minor(title(section), self::section(section, false)))
        }
        Run::Block(Block::Section(section)) if section.folded => {
            let (full, brief) = (self::section(section, false), self::section(section, true));
            // Falls back to the full form if the brief one is not shorter.
            let brief = if brief.len() < full.len() { brief } else { full.clone() };
            Some(Part::Section { title: title(section), number: section.number, full, brief })
        }
        Run::Block(Block::Detail(_)) => None,
        Run::Block(Block::Table(table)) if table.overview => {
            let rows = table.rows.iter().map(|cells| row(cells.iter().map(cell))).collect();
            Some(Part::Rows { head: table_head(table), rows })
        }
        Run::Block(Block::Nodes(nodes)) => Some(Part::Fixed(self::nodes(nodes, all))),
        Run::Block(other) => Some(Part::Fixed(drawn(other, false))),
    };
    runs(&report.blocks).into_iter().filter_map(part).collect()
}

fn title(section: &Section) -> String {
    words(&section.title)
}

/// A block with an empty line after it. A brief one is without details and long values.
fn drawn(block: &Block, brief: bool) -> String {
    match block {
        Block::Item(item) => list(&[item], MAX_ROWS),
        Block::Section(section) => self::section(section, brief),
        Block::Table(table) => self::table(table),
        Block::Fields(fields) if fields.are_settings => settings(fields),
        Block::Fields(fields) => self::fields(fields, brief),
        Block::Nodes(nodes) => self::nodes(nodes, false),
        Block::Timeline(timeline) => {
            let tracks: Vec<Item> = timeline
                .tracks
                .iter()
                .map(|track| Item::new(Text::name(track.pool.as_str()).then(format!(": {}", timeline::summary(track)))))
                .collect();
            format!("**Timeline**\n\n{}", list(&tracks.iter().collect::<Vec<_>>(), MAX_ROWS))
        }
        Block::Detail(_) if brief => String::new(),
        Block::Detail(inner) => all(inner, brief),
        Block::Report(title, report) => {
            let text = whole(report, false, false).within(Some(MAX_WITHIN));
            format!("<details><summary>{title}</summary>\n\n{text}\n</details>\n\n")
        }
    }
}

/// Blocks, with items that follow each other in one list.
fn all(blocks: &[Block], brief: bool) -> String {
    let text = |run| match run {
        Run::Items(items) => list(&items, MAX_ROWS),
        Run::Block(block) => drawn(block, brief),
    };
    runs(blocks).into_iter().map(text).collect()
}

fn section(section: &Section, brief: bool) -> String {
    let behind = |words: fn(&Text) -> String| {
        let facts: Vec<String> = section.facts.iter().map(words).collect();
        if facts.is_empty() { String::new() } else { format!(": {}", facts.join(", ")) }
    };
    let blocks = all(&section.blocks, brief);
    if section.folded && !blocks.is_empty() {
        let html = |text: &Text| html(&text.plain());
        let (title, facts) = (html(&section.title), behind(html));
        return format!("<details><summary><b>{title}</b>{facts}</summary>\n\n{blocks}</details>\n\n");
    }
    format!("**{}**{}\n\n{blocks}", prose(&section.title.plain()), behind(words))
}

/// Items as a list. Those with the same label have a maximum number.
fn list(items: &[&Item], most: usize) -> String {
    let line = |listed| match listed {
        Listed::Item(item) => self::item(item, 0),
        Listed::More(label, more) => format!("- {label}: {more} more; see the JSON output\n"),
    };
    listed(items, most).into_iter().map(line).collect::<String>() + "\n"
}

fn item(item: &Item, indent: usize) -> String {
    let text = match (item.label, item.grade) {
        (Some(label), Some(_)) => format!("**{label}:** {}", words(&item.text)),
        (Some(label), None) => format!("{label}: {}", words(&item.text)),
        (None, _) => without_block(&words(&item.text)),
    };
    let line = format!("{}- {text}\n", " ".repeat(indent));
    item.below.iter().fold(line, |text, below| text + &self::item(below, indent + 2))
}

/// A text that begins no list, heading, quote or code block.
fn without_block(text: &str) -> String {
    let text = text.trim_start();
    let after_number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = after_number.len() < text.len() && after_number.starts_with(['.', ')']);
    // Emphasis and code are markup of this program.
    let begins = text.starts_with(['>', '-', '+', '#']) || is_number;
    if begins { format!("\u{200b}{text}") } else { text.to_owned() }
}

/// A text with names as code.
fn words(text: &Text) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Words(words) => prose(&clipped(words, MAX_WORDS)),
        Piece::Name(_) | Piece::Node(..) => code(&clipped(piece.as_str(), MAX_WORDS)),
        Piece::Graded(_, words) => format!("**{}**", prose(&clipped(words, MAX_WORDS))),
    };
    text.0.iter().map(piece).collect()
}

fn table_head(table: &Table) -> String {
    let is_number =
        |index: usize| table.rows.iter().any(|row| matches!(row.get(index), Some(Cell::Number(_) | Cell::Percent(_))));
    let rules = table.columns.iter().enumerate().map(|(index, _)| if is_number(index) { "--:|" } else { "---|" });
    format!("| {} |\n|{}\n", table.columns.join(" | "), rules.collect::<String>())
}

fn table(table: &Table) -> String {
    if table.rows.is_empty() {
        return String::new();
    }
    let mut text = table_head(table);
    let most = if table.complete { usize::MAX } else { MAX_ROWS };
    text.extend(table.rows.iter().take(most).map(|cells| row(cells.iter().map(cell))));
    if table.rows.len() > most {
        text.push_str(&format!("\n{} more; see the JSON output\n", table.rows.len() - most));
    }
    text + "\n"
}

fn cell(cell: &Cell) -> String {
    let text = clipped(&cell.text(), MAX_WORDS);
    match cell {
        Cell::Empty => "–".to_owned(),
        Cell::Name(_) | Cell::Node(..) | Cell::Source(_) => code(&text),
        Cell::Graded(Grade::Bad | Grade::Warning, _) => format!("**{}**", prose(&text)),
        _ => prose(&text),
    }
}

/// Both values of a field. Cut ones show where they differ.
fn values(field: &Field, most: usize) -> [String; 2] {
    let (old, new) = clipped_values(field.old.as_deref(), field.new.as_deref(), most);
    [old, new].map(|value| value.map_or_else(|| "–".to_owned(), |value| code(&value)))
}

fn settings(fields: &Fields) -> String {
    let mut text = "| setting | now | new | meaning |\n|---|---|---|---|\n".to_owned();
    for field in &fields.fields {
        let [old, new] = values(field, MAX_WORDS);
        text.push_str(&row([code(&field.path), old, new, field.meaning.to_owned()]));
    }
    text + "\n"
}

/// The fields, and the reasons of risks from restart on. In brief form: the fields with the worst risks, and the reasons
/// from drain on.
fn fields(fields: &Fields, brief: bool) -> String {
    let mut text = "| field | now | new | risk | set by |\n|---|---|---|---|---|\n".to_owned();
    let mut listed: Vec<&Field> = fields.fields.iter().collect();
    if listed.is_empty() {
        return String::new();
    }
    if brief && listed.len() > MAX_BRIEF {
        // The sort is stable: equal risks keep the order of paths.
        listed.sort_by_key(|field| std::cmp::Reverse(field.risk.as_ref().map(|risk| risk.class)));
        listed.truncate(MAX_BRIEF);
    }
    let most = if brief { BRIEF_VALUE } else { usize::MAX };
    for field in &listed {
        let risk = match &field.risk {
            _ if field.no_effect => "no effect",
            Some(risk) => risk.class.as_str(),
            None => "unknown",
        };
        let place = field.place.as_ref().map_or_else(String::new, |place| code(&clipped(place, most)));
        let [old, mut new] = values(field, most);
        if field.old.is_none() && field.new.is_none() {
            ANOTHER_DEFAULT.clone_into(&mut new);
        }
        text.push_str(&row([code(&clipped(&field.path, most)), old, new, risk.to_owned(), place]));
    }
    if listed.len() < fields.fields.len() {
        text.push_str(&format!("\n… and {} more.\n", count(fields.fields.len() - listed.len(), "field")));
    }
    text.push('\n');
    let least = if brief { Class::Drain } else { Class::Restart };
    let reason = |field: &&&Field| field.risk.as_ref().is_some_and(|risk| risk.class >= least && !field.no_effect);
    let reasons: Vec<&&Field> = listed.iter().filter(reason).take(if brief { MAX_BRIEF } else { usize::MAX }).collect();
    for field in &reasons {
        let Some(risk) = &field.risk else { continue };
        text.push_str(&format!(
            "- {}, {}: {}\n",
            code(&clipped(&field.path, most)),
            risk.class,
            prose(&risk.reason_and_source())
        ));
    }
    if !reasons.is_empty() {
        text.push('\n');
    }
    text
}

/// The pools with the numbers of their nodes, and the nodes that need attention, or few nodes.
fn nodes(nodes: &Nodes, all: bool) -> String {
    let pool_columns = ["pool", "nodes"].into_iter().chain(nodes.pool_columns.iter().copied()).chain(["states"]);
    let mut pools = Table { columns: pool_columns.collect(), ..Table::default() };
    for pool in &nodes.pools {
        let remarks: String = pool.remarks.iter().map(|remark| format!("; {remark}")).collect();
        let first = [Cell::name(pool.name.as_ref()), Cell::Number(pool.nodes.len())];
        let states = if pool.nodes.is_empty() { "no nodes".to_owned() } else { state_counts(&pool.nodes) };
        let states = Cell::Words(states + &remarks);
        pools.rows.push(first.into_iter().chain(pool.cells.iter().cloned()).chain([states]).collect());
    }
    let (mut listed, mut rest) = nodes.listed();
    if all {
        listed.append(&mut rest);
    }
    let columns = ["node", "pool", "state"].into_iter().chain(nodes.columns.iter().map(|column| column.title));
    let columns = columns.chain(["message"]).collect();
    let mut table = Table { columns, complete: true, ..Table::default() };
    for (index, (pool, node)) in listed.into_iter().enumerate() {
        if index >= MAX_ROWS && !all {
            rest.push((pool, node));
            continue;
        }
        let first = [
            Cell::Node(pool.name.clone(), node.name.clone()),
            Cell::name(pool.name.as_ref()),
            Cell::words(node.words.clone()),
        ];
        let message = Cell::words(node.message.clone());
        table.rows.push(first.into_iter().chain(node.cells.iter().cloned()).chain([message]).collect());
    }
    let mut text = self::table(&pools) + &self::table(&without_empty_columns(table));
    if !rest.is_empty() {
        let (number, states) = (rest.len(), state_counts(rest.into_iter().map(|(_, node)| node)));
        text.push_str(&format!("{}: {states}; see the JSON output\n\n", count(number, "more node")));
    }
    text
}

fn without_empty_columns(table: Table) -> Table {
    let filled = table.filled();
    let kept = |row: &Vec<Cell>| filled.iter().filter_map(|index| row.get(*index).cloned()).collect();
    let columns = filled.iter().filter_map(|index| table.columns.get(*index).copied()).collect();
    Table { columns, rows: table.rows.iter().map(kept).collect(), ..table }
}
