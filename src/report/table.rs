//! Tables in the columns of a terminal: the widest columns give first where there is little room.

use std::fmt::Display;

use textwrap::wrap;

use super::style::{bad, good, quiet, warning};
use crate::layout::{pad, shorten_middle, width, within};
use crate::status::Grade;
use nodecfg_contract::printable::one_line;

/// No column is cut further down than this.
const NARROWEST: usize = 8;
/// A column that goes on below itself gets at least this much, or what it needs.
const WRAPPED: usize = 28;

/// A table: its columns, and the space between them.
pub(super) struct Table {
    columns: Vec<Column>,
    gap: usize,
}

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
        self.cells.iter().map(|cell| width(&cell.text)).fold(self.title.len(), usize::max)
    }
}

impl Table {
    /// A table that is cut to fit, with two spaces between its columns.
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self { columns, gap: 2 }
    }

    /// A table as kubectl shows it: as wide as it is, with three spaces between its columns.
    pub(super) fn plain<const N: usize>(titles: [&'static str; N], rows: impl Iterator<Item = [String; N]>) -> String {
        let mut columns = titles.map(|title| Column::new(title, [""; 0]));
        for row in rows {
            columns.iter_mut().zip(row).for_each(|(column, text)| column.cells.push(text.into()));
        }
        Self { columns: columns.into(), gap: 3 }.lines(usize::MAX).join("\n")
    }

    fn sum(&self, widths: &[usize]) -> usize {
        widths.iter().sum::<usize>() + self.gap * widths.len().saturating_sub(1)
    }

    /// How wide it would like to be.
    pub(super) fn natural(&self) -> usize {
        self.sum(&self.columns.iter().map(Column::natural).collect::<Vec<_>>())
    }

    /// Whether it can be cut to this width.
    pub(super) fn can_fit(&self, width: usize) -> bool {
        self.sum(&self.widths(width)) <= width
    }

    /// Its lines, the header first. What does not fit is cut; the last column goes on below itself.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        let widths = self.widths(width);
        let gap = " ".repeat(self.gap);
        let joined = |cells: Vec<String>| cells.join(&gap).trim_end().to_owned();
        let header = self.columns.iter().zip(&widths).map(|(column, width)| pad(column.title, *width, column.right));
        let mut lines = vec![joined(header.collect())];
        let before = " ".repeat(self.sum(&widths).saturating_sub(widths.last().copied().unwrap_or_default()));
        let rows = self.columns.iter().map(|column| column.cells.len()).max().unwrap_or_default();
        for row in 0..rows {
            let mut rest = Vec::new();
            let cells = self.columns.iter().zip(&widths).enumerate().filter_map(|(index, (column, width))| {
                let cell = column.cells.get(row)?;
                let text = if index + 1 == self.columns.len() && column.wraps() {
                    let mut lines = wrap(&cell.text, within(*width).break_words(true)).into_iter();
                    let first = lines.next().unwrap_or_default();
                    rest = lines.collect();
                    first
                } else {
                    shorten_middle(&cell.text, *width).into()
                };
                Some(pad(&styled(&text, cell.grade), *width, column.right))
            });
            lines.push(joined(cells.collect()));
            lines.extend(rest.into_iter().map(|text| format!("{before}{text}")));
        }
        lines
    }

    /// How wide each column becomes: the widest of those that may be cut gives first, and the last takes what is left.
    fn widths(&self, width: usize) -> Vec<usize> {
        let columns = &self.columns;
        let mut widths: Vec<usize> = columns.iter().map(Column::natural).collect();
        let wraps = columns.last().is_some_and(Column::wraps);
        let natural = widths.last().copied().unwrap_or_default();
        if let Some(last) = widths.last_mut().filter(|_| wraps) {
            *last = natural.min(WRAPPED);
        }
        for turn in [Cut::First, Cut::Last] {
            while self.sum(&widths) > width {
                let cuttable = columns.iter().zip(&mut widths).rev();
                let cuttable = cuttable
                    .filter(|(column, width)| column.cut == turn && **width > NARROWEST.max(column.title.len()));
                let Some((_, widest)) = cuttable.max_by_key(|(_, width)| **width) else { break };
                *widest -= 1;
            }
        }
        // What goes on below itself gets less only where nothing else can give any more.
        let sum = self.sum(&widths);
        if let Some(last) = widths.last_mut().filter(|_| wraps) {
            *last = match sum.checked_sub(width) {
                Some(over) => last.saturating_sub(over).max(NARROWEST.min(*last)),
                None => natural.min(*last + (width - sum)),
            };
        }
        widths
    }
}

/// A text that looks as good or bad as it is.
pub(super) fn styled(text: &str, grade: Option<Grade>) -> String {
    match grade {
        Some(Grade::Bad) => bad(text),
        Some(Grade::Warning) => warning(text),
        Some(Grade::Good) => good(text),
        Some(Grade::Neutral) => quiet(text),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(lines: &[String]) -> String {
        anstream::adapter::strip_str(&lines.join("\n")).to_string()
    }

    #[test]
    fn a_table_fits_and_the_widest_column_gives_first() {
        let table = Table::new(vec![
            Column::new("NODE", ["a-very-long-name-of-a-node-in-some-cloud", "short"]).cut(),
            Column::new("POOL", ["general-purpose", "x"]).cut(),
            Column::new("N", [1, 20]).right(),
            Column::new("STATES", ["1 failed, 20 converged, 3 on the way", "x"]),
        ]);
        for columns in [60, 80, 200] {
            let lines = table.lines(columns);
            assert!(lines.iter().all(|line| width(line) <= columns), "{columns}\n{}", plain(&lines));
        }
        let at_80 = "NODE                           POOL              N  STATES\n\
                     a-very-long-na…-in-some-cloud  general-purpose   1  1 failed, 20 converged, 3 on\n";
        assert!(plain(&table.lines(80)).starts_with(at_80), "{}", plain(&table.lines(80)));
    }

    #[test]
    fn what_goes_on_below_itself_gives_last() {
        let table = Table::new(vec![
            Column::new("POOL", ["general-purpose"]).cut(),
            Column::new("FLEET", ["production"]).cut(),
            Column::new("NODES", [15_000]).right(),
            Column::new("CONVERGED", ["100%"]).right(),
            Column::new("CONFIGS", [12]).right(),
            Column::new("STATES", ["1 failed, 20 converged, 3 on the way"]),
        ]);
        assert!(table.can_fit(60));
        let lines = table.lines(60);
        assert!(lines.iter().all(|line| width(line) <= 60), "{}", plain(&lines));
    }

    #[test]
    fn wide_characters_do_not_shift_the_next_column() {
        let table = Table::new(vec![Column::new("NODE", ["节点", "n"]), Column::new("STATE", ["a", "b"])]);
        assert_eq!(table.lines(80), ["NODE  STATE", "节点  a", "n     b"]);
    }

    #[test]
    fn nothing_in_a_cell_steers_the_terminal() {
        let table = Table::plain(["A"], ["a\u{1b}[31m\n b\t".to_owned()].map(|cell| [cell]).into_iter());
        assert_eq!(table, "A\na [31m b");
    }
}
