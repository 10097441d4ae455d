//! The YAML 1.1 parser of the kubelet: a port of yaml.v2's libyaml, which differs from the specification. It accepts
//! and refuses the same texts, with the same messages. For example, control characters and `%YAML 1.2` are errors,
//! and a tab cannot indent. A key without `?` fits on one line and in 1024 characters.
//!
//! The parser makes one pass, stores at most one line of tokens, and never recurses.

mod cursor;
mod grammar;
mod names;
mod scalars;
mod scanner;
#[cfg(test)]
mod tests;

pub(super) use grammar::Events;

use super::ScalarStyle;

/// A position in the text: the offset in bytes from 0, the line and the column in characters from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) offset: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The optional properties before a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Properties {
    /// The anchor, without `&`.
    pub(super) anchor: Option<String>,
    /// The tag with its handle expanded; `!` alone for a tag without a name.
    pub(super) tag: Option<String>,
}

/// A parser event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(String),
    Scalar { text: String, style: ScalarStyle, properties: Properties },
    SequenceStart(Properties),
    SequenceEnd,
    MappingStart(Properties),
    MappingEnd,
}

/// An event and its range in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spanned {
    pub(super) event: Event,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

/// A syntax error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed {
    /// libyaml's message.
    pub(super) problem: String,
    /// The position where libyaml stops.
    pub(super) mark: Mark,
    /// Start positions of the affected quote, key, list or map, and of the list or map inside that has just ended.
    pub(super) began: Vec<Mark>,
}

impl Malformed {
    fn new(problem: impl Into<String>, mark: Mark) -> Self {
        Self { problem: problem.into(), mark, began: Vec::new() }
    }

    fn began(mut self, marks: impl IntoIterator<Item = Mark>) -> Self {
        self.began.extend(marks);
        self
    }
}
