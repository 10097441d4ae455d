//! Tables for terminals. Wide columns shrink first if the terminal is narrow.

use std::fmt::Display;

use textwrap::wrap;

use super::style::{bad, good, quiet, warning};
use crate::layout::{pad, shorten_middle, width, within};
use crate::status::Grade;
use nodecfg_contract::printable::one_line;

/// The minimum width of a shortened column, in terminal columns.
const NARROWEST: usize = 8;
/// The preferred width of a wrapped column, in terminal columns.
const WRAPPED: usize = 28;

/// The maximum number of things alike that have a row each in a folded table. More are one row with their number.
pub(super) const MAX_ALIKE: usize = 4;

/// A table: its columns, and the space between them.
pub(super) struct TextTable {
    columns: Vec<TextColumn>,
    gap: usize,
}

/// One column of a table.
pub(super) struct TextColumn {
    title: String,
    right: bool,
    /// Whether and when the column may be shortened.
    cut: Cut,
    cells: Vec<TextCell>,
}

/// When a column may be shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Never,
    /// Before all columns with [`Cut::Last`].
    First,
    /// After all other columns.
    Last,
}

/// One cell: its text and its grade.
pub(super) struct TextCell {
    text: String,
    grade: Option<Grade>,
}

impl TextCell {
    pub(super) fn graded(text: impl Display, grade: Grade) -> Self {
        Self { text: one_line(&text.to_string()), grade: Some(grade) }
    }
}

impl<T: Display> From<T> for TextCell {
    fn from(text: T) -> Self {
        Self { text: one_line(&text.to_string()), grade: None }
    }
}

impl TextColumn {
    /// A left-aligned text column.
    pub(super) fn new(title: &str, cells: impl IntoIterator<Item = impl Into<TextCell>>) -> Self {
        Self {
            title: title.to_owned(),
            right: false,
            cut: Cut::Never,
            cells: cells.into_iter().map(Into::into).collect(),
        }
    }

    /// Aligns the column to the right.
    pub(super) fn right(self) -> Self {
        Self { right: true, ..self }
    }

    /// Allows the column to be shortened.
    pub(super) fn cut(self) -> Self {
        Self { cut: Cut::First, ..self }
    }

    /// Allows the column to be shortened after all others.
    pub(super) fn cut_last(self) -> Self {
        Self { cut: Cut::Last, ..self }
    }

    /// Reports whether the column wraps. Applies to the last column only.
    fn wraps(&self) -> bool {
        !self.right && self.cut == Cut::Never
    }

    fn natural_width(&self) -> usize {
        self.cells.iter().map(|cell| width(&cell.text)).fold(self.title.len(), usize::max)
    }
}

impl TextTable {
    /// A table that adapts to the terminal width, with two spaces between columns.
    pub(super) fn new(columns: Vec<TextColumn>) -> Self {
        Self { columns, gap: 2 }
    }

    /// The table with three spaces between columns, as kubectl prints it.
    pub(super) fn spaced(self) -> Self {
        Self { gap: 3, ..self }
    }

    fn sum(&self, widths: &[usize]) -> usize {
        widths.iter().sum::<usize>() + self.gap * widths.len().saturating_sub(1)
    }

    /// The full width without shortening.
    pub(super) fn natural_width(&self) -> usize {
        self.sum(&self.columns.iter().map(TextColumn::natural_width).collect::<Vec<_>>())
    }

    /// Reports whether the table fits into `width` columns with the columns that are shortened last in full.
    pub(super) fn can_fit(&self, width: usize) -> bool {
        let widths = self.widths(width);
        let is_whole =
            |(column, width): (&TextColumn, &usize)| column.cut != Cut::Last || *width >= column.natural_width();
        self.sum(&widths) <= width && self.columns.iter().zip(&widths).all(is_whole)
    }

    /// The lines of the table, header first. Shortens or wraps text that does not fit.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        self.rows(width).into_iter().flatten().collect()
    }

    /// The lines of each row, header first. Shortens or wraps text that does not fit.
    pub(super) fn rows(&self, width: usize) -> Vec<Vec<String>> {
        let widths = self.widths(width);
        let gap = " ".repeat(self.gap);
        let joined = |cells: Vec<String>| cells.join(&gap).trim_end().to_owned();
        let header = self.columns.iter().zip(&widths).map(|(column, width)| pad(&column.title, *width, column.right));
        let mut lines = vec![vec![joined(header.collect())]];
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
            let first = joined(cells.collect());
            lines.push([first].into_iter().chain(rest.into_iter().map(|text| format!("{before}{text}"))).collect());
        }
        lines
    }

    /// The width of each column. The widest one that may be shortened shrinks first. A last column that wraps takes
    /// the rest.
    fn widths(&self, width: usize) -> Vec<usize> {
        let columns = &self.columns;
        let mut widths: Vec<usize> = columns.iter().map(TextColumn::natural_width).collect();
        let wraps = columns.last().is_some_and(TextColumn::wraps);
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
        // The wrapped column shrinks below [`WRAPPED`] only if no other column can shrink further.
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

/// Styles a text by its grade.
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
    fn fits_by_shrinking_the_widest_column() {
        let table = TextTable::new(vec![
            TextColumn::new("NODE", ["a-very-long-name-of-a-node-in-some-cloud", "short"]).cut(),
            TextColumn::new("POOL", ["general-purpose", "x"]).cut(),
            TextColumn::new("N", [1, 20]).right(),
            TextColumn::new("STATES", ["1 failed, 20 converged, 3 behind", "x"]),
        ]);
        for columns in [60, 80, 200] {
            let lines = table.lines(columns);
            assert!(lines.iter().all(|line| width(line) <= columns), "{columns}\n{}", plain(&lines));
        }
        let at_80 = "NODE                           POOL              N  STATES\n\
                     a-very-long-na…-in-some-cloud  general-purpose   1  1 failed, 20 converged, 3\n";
        assert!(plain(&table.lines(80)).starts_with(at_80), "{}", plain(&table.lines(80)));
    }

    #[test]
    fn fits_by_wrapping_the_last_column() {
        let table = TextTable::new(vec![
            TextColumn::new("POOL", ["general-purpose"]).cut(),
            TextColumn::new("FLEET", ["production"]).cut(),
            TextColumn::new("NODES", [15_000]).right(),
            TextColumn::new("CONVERGED", ["100%"]).right(),
            TextColumn::new("CONFIGS", [12]).right(),
            TextColumn::new("STATES", ["1 failed, 20 converged, 3 behind"]),
        ]);
        assert!(table.can_fit(60));
        let lines = table.lines(60);
        assert!(lines.iter().all(|line| width(line) <= 60), "{}", plain(&lines));
    }

    #[test]
    fn aligns_wide_characters() {
        let table = TextTable::new(vec![TextColumn::new("NODE", ["节点", "n"]), TextColumn::new("STATE", ["a", "b"])]);
        assert_eq!(table.lines(80), ["NODE  STATE", "节点  a", "n     b"]);
    }

    #[test]
    fn removes_control_characters_from_cells() {
        let table = TextTable::new(vec![TextColumn::new("A", ["a\u{1b}[31m\n b\t"])]);
        assert_eq!(plain(&table.lines(80)), "A\na [31m b");
    }
}
