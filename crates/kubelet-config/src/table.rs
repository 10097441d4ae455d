//! The reader of the tables in `crates/kubelet-config/data/`: rows, and cells whose value depends on the version.
//!
//! The reader skips malformed lines; a test of each table asserts that none exists.

pub(crate) use crate::values::csv::rows;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

use crate::Minor;

/// A value that depends on the version.
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
    /// Parses `value`, for all versions, or `value@1.a-1.b;value@1.c-1.d`. An empty cell has no value. `None` for a
    /// malformed cell.
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

    /// Returns the value in a version.
    #[must_use]
    pub fn at(&self, minor: Minor) -> Option<&T> {
        self.spans.iter().find(|(from, to, _)| (*from..=*to).contains(&minor)).map(|(_, _, value)| value)
    }

    /// Returns the values, oldest first, each with its first and last version.
    pub fn iter(&self) -> impl Iterator<Item = (Minor, Minor, &T)> {
        self.spans.iter().map(|(from, to, value)| (*from, *to, value))
    }
}

/// Parses a word that names a variant of an enumeration.
pub(super) fn word<'t, T: Deserialize<'t>>(text: &'t str) -> Option<T> {
    let deserializer: serde::de::value::StrDeserializer<'t, Error> = text.into_deserializer();
    T::deserialize(deserializer).ok()
}

/// Parses `1.36`. `None` for an empty cell or any other text.
pub(super) fn minor(text: &str) -> Option<Minor> {
    text.strip_prefix("1.")?.parse().ok().map(Minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_values_by_version() {
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
