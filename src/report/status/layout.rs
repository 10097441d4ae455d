//! Fits tables and sentences into a width: what is too long loses its middle, since names differ at either end.

use std::fmt::Display;

use super::super::style::{bad, good, quiet, warning};
use crate::status::Grade;
use nodecfg_contract::printable::one_line;

/// Space between columns.
const GAP: usize = 2;
/// No column is cut further down than this.
const NARROWEST: usize = 8;

/// A column that goes on below itself gets at least this much, or what it needs.
const WRAPPED: usize = 28;

/// One column of a table.
pub(super) struct Column {
    title: &'static str,
    right: bool,
    /// Whether it may be cut to fit, and when.
    cut: Cut,
    cells: Vec<Cell>,
}

/// When a column is cut to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Never,
    First,
    /// When nothing else can be cut any more.
    Last,
}

/// One cell: its text, and how good or bad that is.
pub(super) struct Cell {
    text: String,
    grade: Option<Grade>,
}

impl Cell {
    pub(super) fn graded(text: impl Display, grade: Grade) -> Self {
        Self { text: one_line(&text.to_string()), grade: Some(grade) }
    }
}

impl<T: Display> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: one_line(&text.to_string()), grade: None }
    }
}

impl Column {
    /// Text, at the left.
    pub(super) fn new(title: &'static str, cells: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        Self { title, right: false, cut: Cut::Never, cells: cells.into_iter().map(Into::into).collect() }
    }

    /// Numbers, at the right.
    pub(super) fn right(self) -> Self {
        Self { right: true, ..self }
    }

    /// May be cut to fit.
    pub(super) fn cut(self) -> Self {
        Self { cut: Cut::First, ..self }
    }

    /// May be cut to fit where cutting the others is not enough.
    pub(super) fn cut_last(self) -> Self {
        Self { cut: Cut::Last, ..self }
    }

    /// Whether it goes on below itself, being the last.
    fn wraps(&self) -> bool {
        !self.right && self.cut == Cut::Never
    }

    fn natural(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.text.chars().count());
        cells.max().unwrap_or_default().max(self.title.len())
    }
}

/// How wide a table would like to be.
pub(super) fn natural(columns: &[Column]) -> usize {
    columns.iter().map(Column::natural).sum::<usize>() + GAP * columns.len().saturating_sub(1)
}

/// Whether a table can be cut to this width.
pub(super) fn can_fit(columns: &[Column], width: usize) -> bool {
    widths(columns, width).iter().sum::<usize>() + GAP * columns.len().saturating_sub(1) <= width
}

/// The lines of a table, its header first. What does not fit is cut; the last column goes on below itself.
pub(super) fn table(columns: &[Column], width: usize) -> Vec<String> {
    let widths = widths(columns, width);
    let before: usize = widths.iter().rev().skip(1).map(|width| width + GAP).sum();
    let mut lines = Vec::new();
    let header = columns.iter().zip(&widths).map(|(column, width)| pad(column.title, *width, column.right));
    lines.push(header.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned());
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or_default();
    for row in 0..rows {
        let mut line = String::new();
        let mut rest = Vec::new();
        for (index, (column, width)) in columns.iter().zip(&widths).enumerate() {
            let Some(cell) = column.cells.get(row) else { continue };
            let is_last = index + 1 == columns.len();
            let text = if is_last && column.wraps() {
                let mut wrapped = wrap(&cell.text, *width).into_iter();
                let first = wrapped.next().unwrap_or_default();
                rest = wrapped.collect();
                first
            } else {
                pad(&middle(&cell.text, *width), *width, column.right)
            };
            let trailing = text.len() - text.trim_end().len();
            let (text, spaces) = text.split_at(text.len() - trailing);
            line.push_str(&styled(text, cell.grade));
            if !is_last {
                line.push_str(spaces);
                line.push_str(&" ".repeat(GAP));
            }
        }
        lines.push(line.trim_end().to_owned());
        lines.extend(rest.into_iter().map(|text| format!("{}{text}", " ".repeat(before))));
    }
    lines
}

/// How wide each column becomes: the widest of those that may be cut gives first, and the last takes what is left.
fn widths(columns: &[Column], width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(Column::natural).collect();
    let gaps = GAP * columns.len().saturating_sub(1);
    let wraps = columns.last().is_some_and(Column::wraps);
    let natural = widths.last().copied().unwrap_or_default();
    if let Some(last) = widths.last_mut().filter(|_| wraps) {
        *last = natural.min(WRAPPED);
    }
    for turn in [Cut::First, Cut::Last] {
        while widths.iter().sum::<usize>() + gaps > width {
            let cuttable = columns.iter().zip(&mut widths).rev();
            let cuttable =
                cuttable.filter(|(column, width)| column.cut == turn && **width > NARROWEST.max(column.title.len()));
            let Some((_, widest)) = cuttable.max_by_key(|(_, width)| **width) else { break };
            *widest -= 1;
        }
    }
    // What goes on below itself gets less only where nothing else can give any more.
    let over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
    if let Some(last) = widths.last_mut().filter(|_| wraps) {
        *last = last.saturating_sub(over).max(NARROWEST.min(*last));
    }
    let left = width.saturating_sub(widths.iter().sum::<usize>() + gaps);
    if let Some(last) = widths.last_mut().filter(|_| wraps) {
        *last = natural.min(*last + left);
    }
    widths
}

fn pad(text: &str, width: usize, right: bool) -> String {
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

pub(super) fn styled(text: &str, grade: Option<Grade>) -> String {
    match grade {
        Some(Grade::Bad) => bad(text),
        Some(Grade::Warning) => warning(text),
        Some(Grade::Good) => good(text),
        Some(Grade::Neutral) => quiet(text),
        None => text.to_owned(),
    }
}

/// A text with its middle left out where it is longer than `width`.
pub(super) fn middle(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let head: String = text.chars().take(head).collect();
    let tail: String = text.chars().skip(length - tail).collect();
    format!("{head}…{tail}")
}

/// A styled line cut to this many columns of a terminal, so that it does not go on in the next. Styles stay whole.
#[must_use]
pub fn cut(line: &str, columns: usize) -> String {
    let mut kept = String::new();
    let (mut used, mut is_style, mut is_full) = (0, false, false);
    for c in line.chars() {
        if is_style || c == '\u{1b}' {
            is_style = !c.is_ascii_alphabetic();
            kept.push(c);
            continue;
        }
        used += if is_wide(c) { 2 } else { 1 };
        is_full |= used > columns;
        if !is_full {
            kept.push(c);
        }
    }
    kept
}

/// Whether a terminal takes two columns for a character: the blocks that Unicode calls East Asian wide, and pictures.
fn is_wide(c: char) -> bool {
    matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f
        | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd)
}

/// A sentence in lines of this width; a word that is longer goes on in the next line.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        if column > 0 && column + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            column = 0;
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if column > 0 {
            line.push(' ');
            column += 1;
        }
        column += word.len();
        line.extend(word);
    }
    lines.push(line);
    lines
}

/// Names without the end that they have in common, if that is a domain: `…` stands for it.
pub(super) fn without_domain(names: Vec<String>) -> Vec<String> {
    let domain = |name: &str| name.split_once('.').map(|(_, domain)| domain.to_owned());
    let Some(common) = names.first().and_then(|name| domain(name)) else { return names };
    if names.len() < 2 || !names.iter().all(|name| domain(name).as_ref() == Some(&common)) {
        return names;
    }
    names.iter().map(|name| format!("{}.…", name.split('.').next().unwrap_or(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(lines: Vec<String>) -> String {
        anstream::adapter::strip_str(&lines.join("\n")).to_string()
    }

    #[test]
    fn what_is_too_long_loses_its_middle() {
        assert_eq!(middle("abcdefgh", 8), "abcdefgh");
        assert_eq!(middle("abcdefghi", 8), "abcd…ghi");
        assert_eq!(middle("äöüäöü", 3), "ä…ü");
        assert_eq!(middle("abc", 1), "…");
    }

    #[test]
    fn a_table_fits_and_the_widest_column_gives_first() {
        let columns = || {
            [
                Column::new("NODE", ["a-very-long-name-of-a-node-in-some-cloud", "short"]).cut(),
                Column::new("POOL", ["general-purpose", "x"]).cut(),
                Column::new("N", [1, 20]).right(),
                Column::new("STATES", ["1 failed, 20 converged, 3 on the way", "x"]),
            ]
        };
        for width in [60, 80, 200] {
            let lines = table(&columns(), width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}\n{}", plain(lines));
        }
        let at_80 = "NODE                           POOL              N  STATES\n\
                     a-very-long-na…-in-some-cloud  general-purpose   1  1 failed, 20 converged, 3 on\n";
        assert!(plain(table(&columns(), 80)).starts_with(at_80), "{}", plain(table(&columns(), 80)));
    }

    #[test]
    fn what_goes_on_below_itself_gives_last() {
        let columns = [
            Column::new("POOL", ["general-purpose"]).cut(),
            Column::new("FLEET", ["production"]).cut(),
            Column::new("NODES", [15_000]).right(),
            Column::new("CONVERGED", ["100%"]).right(),
            Column::new("CONFIGS", [12]).right(),
            Column::new("STATES", ["1 failed, 20 converged, 3 on the way"]),
        ];
        assert!(can_fit(&columns, 60));
        let lines = table(&columns, 60);
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{}", plain(lines));
    }

    #[test]
    fn a_line_is_cut_to_columns_and_its_style_ends() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("\u{1b}[31mabcdef\u{1b}[0m", 3), "\u{1b}[31mabc\u{1b}[0m");
        assert_eq!(cut("a\u{754c}b", 2), "a");
    }

    #[test]
    fn long_words_are_broken_and_nothing_is_lost() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(one_line("a\u{1b}[31m\n b\t"), "a [31m b");
    }

    #[test]
    fn a_common_domain_is_left_out() {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        assert_eq!(without_domain(names(["a.x.y", "b.x.y"])), names(["a.…", "b.…"]));
        assert_eq!(without_domain(names(["a.x.y", "b.x.z"])), names(["a.x.y", "b.x.z"]));
        assert_eq!(without_domain(names(["a", "b"])), names(["a", "b"]));
    }
}
