//! A report as text for terminals: wrapped at a width, aligned and colored. Nothing in a text can control the terminal.

use std::io;
use std::io::Write;

use textwrap::{fill, wrap};

use super::{Block, Cell, Conclusion, Item, Listed, Piece, Report, Run, Section, Table, Text, listed, runs};
use crate::layout::within;
use crate::report::style::{heading, quiet};
use crate::report::table::{TextCell, TextColumn, TextTable, styled};
use crate::status::Grade;
use nodecfg_contract::printable::one_line;

mod fields;
mod nodes;

/// The maximum number of rows, and of items with the same label.
const MAX_ROWS: usize = 20;

/// How a report is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The maximum width of a line, in columns.
    pub width: usize,
    /// Whether everything is listed, including details.
    pub all: bool,
    /// The option that lists everything.
    pub all_option: &'static str,
}

/// Writes a report.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut dyn Write, report: &Report, layout: Layout) -> io::Result<()> {
    out.write_all(layout.report(report).as_bytes())
}

/// Writes what the report lists with all columns and full names, at any width.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_wide(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let table = match &report.wide {
        Some(wide) => text_table(wide, &wide.rows, true).spaced(),
        None => report.nodes().next().map_or_else(|| TextTable::new(Vec::new()), nodes::wide),
    };
    table.lines(table.natural_width()).iter().try_for_each(|line| writeln!(out, "{line}"))
}

impl Layout {
    fn report(self, report: &Report) -> String {
        let most = if report.complete { usize::MAX } else { self.most() };
        let mut text = self.blocks(&report.blocks, most);
        let conclusion = report.result.as_ref().or(report.lead.as_ref());
        match conclusion {
            Some(Conclusion { label, grade, text: rest }) => {
                let label = match grade {
                    Grade::Neutral => heading(one_line(label)),
                    grade => styled(&one_line(label), Some(*grade)),
                };
                text.push_str(&self.wrapped(&format!("{label} {}", words(rest)), 0, 2));
            }
            None if text.ends_with("\n\n") => text.truncate(text.len() - 1),
            None => {}
        }
        text
    }

    /// The maximum number of rows, and of items with the same label.
    fn most(self) -> usize {
        if self.all { usize::MAX } else { MAX_ROWS }
    }

    /// Blocks with an empty line after each, and after items that follow each other.
    fn blocks(self, blocks: &[Block], most: usize) -> String {
        let (mut text, mut is_open) = (String::new(), false);
        for (is_line, shown) in self.drawn(blocks, 0, most) {
            if is_open && !is_line {
                text.push('\n');
            }
            text.push_str(&shown);
            is_open = is_line;
            if !is_line {
                text.push('\n');
            }
        }
        if is_open {
            text.push('\n');
        }
        text
    }

    /// The text of each block, without empty ones, and whether it is an item without others below it.
    fn drawn(self, blocks: &[Block], indent: usize, most: usize) -> Vec<(bool, String)> {
        let mut drawn = Vec::new();
        for run in runs(self.flat(blocks)) {
            match run {
                Run::Items(items) => drawn.extend(listed(&items, most).into_iter().map(|listed| match listed {
                    Listed::Item(item) => (item.below.is_empty(), self.item(item, indent, 0)),
                    Listed::More(label, more) => {
                        let note = format!("{label}: {more} more; {} lists them", self.all_option);
                        (true, self.quiet(&note, indent))
                    }
                })),
                Run::Block(block) => drawn.push((false, self.block(block, indent))),
            }
        }
        drawn.retain(|(_, text)| !text.is_empty());
        drawn
    }

    /// The blocks, without details or with what they contain.
    fn flat<'a>(self, blocks: &'a [Block]) -> Vec<&'a Block> {
        let each = |block: &'a Block| match block {
            Block::Detail(inner) if self.all => self.flat(inner),
            Block::Detail(_) => Vec::new(),
            block => vec![block],
        };
        blocks.iter().flat_map(each).collect()
    }

    fn block(self, block: &Block, indent: usize) -> String {
        match block {
            Block::Item(item) => self.item(item, indent, 0),
            Block::Section(section) if section.messages => String::new(),
            Block::Section(section) => self.section(section, indent),
            Block::Table(table) if table.overview => String::new(),
            Block::Table(table) => self.table(table, indent),
            Block::Fields(fields) if fields.are_settings => self.settings(fields, indent),
            Block::Fields(fields) => self.fields(fields, indent + 2),
            Block::Nodes(nodes) => self.nodes(nodes),
            Block::Detail(inner) => self.drawn(inner, indent, self.most()).into_iter().map(|(_, text)| text).collect(),
            // A terminal shows these while the rollout runs, and before it.
            Block::Timeline(_) | Block::Report(..) => String::new(),
        }
    }

    /// A text with its label and what belongs to it. `pad` is the width of the labels beside it.
    fn item(self, item: &Item, indent: usize, pad: usize) -> String {
        let label = item.label.map(|label| format!("{label}:"));
        let hang = indent + if pad > 0 { pad + 1 } else { 2 };
        let line = match label {
            Some(label) => {
                let gap = " ".repeat(pad.saturating_sub(label.len()) + 1);
                format!("{}{gap}{}", styled(&label, item.grade), words(&item.text))
            }
            None => words(&item.text),
        };
        let mut text = self.wrapped(&line, indent, hang);
        if item.quiet {
            let dim = |line: &str| format!("{}\n", quiet_line(line));
            text = text.lines().map(dim).collect();
        }
        let labels: Vec<&str> = item.below.iter().filter_map(|below| below.label).collect();
        let are_labeled = labels.len() > 1 && labels.len() == item.below.len();
        let pad = if are_labeled { labels.iter().map(|label| label.len() + 1).max().unwrap_or(0) } else { 0 };
        text.extend(item.below.iter().map(|below| self.item(below, indent + 2, pad)));
        text
    }

    fn section(self, section: &Section, indent: usize) -> String {
        let facts: Vec<String> = section.facts.iter().map(words).collect();
        let title = heading(words(&section.title));
        let blocks: String =
            self.drawn(&section.blocks, indent + 2, self.most()).into_iter().map(|(_, text)| text).collect();
        let is_hidden = blocks.is_empty() && !section.blocks.is_empty();
        let hidden = if is_hidden { format!("; {} lists them", self.all_option) } else { String::new() };
        let line = if facts.is_empty() { title } else { format!("{title}  {}{hidden}", facts.join(", ")) };
        self.wrapped(&line, indent, indent + 2) + &blocks
    }

    fn table(self, table: &Table, indent: usize) -> String {
        let shown = if table.complete { table.rows.len() } else { table.rows.len().min(self.most()) };
        let rows = table.rows.get(..shown).unwrap_or_default();
        let lines = text_table(table, rows, false).lines(self.width.saturating_sub(indent));
        let mut text: String = lines.iter().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect();
        let more = table.rows.len() - shown;
        if more > 0 {
            text.push_str(&self.quiet(&format!("and {more} more; {} lists them", self.all_option), indent));
        }
        text
    }

    /// A line, wrapped between words.
    fn wrapped(self, line: &str, indent: usize, hang: usize) -> String {
        let (first, rest) = (" ".repeat(indent), " ".repeat(hang));
        let columns = self.width.max(hang.saturating_add(20));
        fill(line, within(columns).initial_indent(&first).subsequent_indent(&rest)) + "\n"
    }

    fn quiet(self, line: &str, indent: usize) -> String {
        self.wrapped(&one_line(line), indent, indent + 2).lines().map(|line| quiet_line(line) + "\n").collect()
    }

    /// A line that is wrapped within words too, because a value may have no spaces.
    fn broken(self, line: &str, indent: usize, style: fn(&str) -> String) -> String {
        let columns = within(self.width.saturating_sub(indent + 2)).break_words(true);
        let lines = wrap(line, columns).into_iter().enumerate();
        let margin = |index| " ".repeat(if index == 0 { indent } else { indent + 2 });
        lines.map(|(index, line)| format!("{}{}\n", margin(index), style(&line))).collect()
    }
}

/// A line without color, except for what needs attention.
fn words(text: &Text) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Graded(grade, words) => styled(&spaced(words), Some(*grade)),
        other => spaced(other.as_str()),
    };
    text.0.iter().map(piece).collect()
}

/// A piece on one line. Keeps the spaces between it and its neighbors.
fn spaced(piece: &str) -> String {
    let line = one_line(piece);
    let before = if piece.starts_with(' ') { " " } else { "" };
    let after = if piece.ends_with(' ') && !line.is_empty() { " " } else { "" };
    format!("{before}{line}{after}")
}

/// An indented line in a quiet style.
fn quiet_line(line: &str) -> String {
    let text = line.trim_start();
    format!("{}{}", " ".repeat(line.len() - text.len()), quiet(text))
}

/// Rows of a table, without columns that have no value unless `with_empty`.
fn text_table(table: &Table, rows: &[Vec<Cell>], with_empty: bool) -> TextTable {
    let columns = table.columns.iter().enumerate();
    let column = |(index, title): (usize, &&str)| column(title, rows, index, with_empty);
    TextTable::new(columns.filter_map(column).collect())
}

/// A column of a table. `None` if it has no value and is not drawn then.
fn column(title: &str, rows: &[Vec<Cell>], index: usize, with_empty: bool) -> Option<TextColumn> {
    let cells = || rows.iter().filter_map(|row| row.get(index));
    let first = cells().find(|cell| **cell != Cell::Empty).or(with_empty.then_some(&Cell::Empty))?;
    let shown = cells().map(|cell| text_cell(cell, &cell.text()));
    let column = TextColumn::new(&title.to_uppercase(), shown);
    Some(match first {
        Cell::Node(..) => column.cut_last(),
        Cell::Name(_) | Cell::Source(_) => column.cut(),
        Cell::Number(_) | Cell::Percent(_) => column.right(),
        // The last column wraps.
        Cell::Words(_) if rows.iter().any(|row| row.len() > index + 1) => column.cut_last(),
        _ => column,
    })
}

fn text_cell(cell: &Cell, text: &str) -> TextCell {
    match cell {
        Cell::Empty => "-".into(),
        Cell::Graded(grade, _) => TextCell::graded(text, *grade),
        _ => text.into(),
    }
}
