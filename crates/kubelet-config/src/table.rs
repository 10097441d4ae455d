//! How the tables under `crates/kubelet-config/data/` are read: CSV with a header line, and cells whose content changed between versions.
//!
//! A line that does not read is left out; each table's own test holds that there is none.

use super::minor::Minor;

/// The lines of a table after its header, as cells. No cell holds a line break; a cell in double quotes may hold
/// commas, and doubled quotes for quotes (RFC 4180).
pub fn rows(text: &'static str) -> impl Iterator<Item = Vec<String>> {
    text.lines().skip(1).map(|line| cells(line).into_iter().map(unquote).collect())
}

/// The cells of a line, quoted cells still in their quotes.
fn cells(line: &str) -> Vec<&str> {
    let (mut cells, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                cells.extend(line.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.extend(line.get(start..));
    cells
}

fn unquote(cell: &str) -> String {
    match cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => cell.to_owned(),
    }
}

/// A value that changed between versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans<T> {
    spans: Vec<(Minor, Minor, T)>,
}

impl<T> Default for Spans<T> {
    fn default() -> Self {
        Self { spans: Vec::new() }
    }
}

impl<T> Spans<T> {
    /// Reads `value`, for all versions, or `value@1.a-1.b;value@1.c-1.d`; an empty cell has no value at all. `None` when
    /// a span or a value does not read.
    pub(super) fn read(cell: &str, value: impl Fn(&str) -> Option<T>) -> Option<Self> {
        if cell.is_empty() {
            return Some(Self::default());
        }
        let mut spans = Vec::new();
        for part in cell.split(';') {
            let (text, from, to) =
                match part.rsplit_once("@1.").and_then(|(text, span)| Some((text, span.split_once("-1.")?))) {
                    Some((text, (from, to))) => (text, Minor(from.parse().ok()?), Minor(to.parse().ok()?)),
                    None => (part, Minor(0), Minor(u32::MAX)),
                };
            spans.push((from, to, value(text)?));
        }
        Some(Self { spans })
    }

    /// The value at a version.
    #[must_use]
    pub fn at(&self, minor: Minor) -> Option<&T> {
        self.spans.iter().find(|(from, to, _)| (*from..=*to).contains(&minor)).map(|(_, _, value)| value)
    }

    /// The values, oldest first, each with its first and last version.
    pub fn iter(&self) -> impl Iterator<Item = (Minor, Minor, &T)> {
        self.spans.iter().map(|(from, to, value)| (*from, *to, value))
    }
}

/// Reads `1.36`; `None` when the cell is empty.
pub(super) fn minor(text: &str) -> Option<Minor> {
    text.strip_prefix("1.")?.parse().ok().map(Minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_may_be_quoted() {
        assert_eq!(rows("head\na,\"b,\"\"c\"\"\",,d").collect::<Vec<_>>(), [["a", "b,\"c\"", "", "d"]]);
    }

    #[test]
    fn values_change_between_versions() {
        let text = |text: &str| Some(text.to_owned());
        let spans = Spans::read("5@1.12-1.26;50@1.27-1.37", text).unwrap();
        assert_eq!(spans.at(Minor(26)).map(String::as_str), Some("5"));
        assert_eq!(spans.at(Minor(27)).map(String::as_str), Some("50"));
        assert_eq!(spans.at(Minor(38)), None);
        assert_eq!(Spans::read("x", text).unwrap().at(Minor(3)).map(String::as_str), Some("x"));
        assert_eq!(Spans::read("", text).unwrap().at(Minor(3)), None);
        assert!(Spans::read("5@1.x-1.2", text).is_none());
        assert_eq!(Spans::read("a@b", text).unwrap().at(Minor(3)).map(String::as_str), Some("a@b"));
    }
}
