//! A YAML 1.1 parser: a port of yaml.v2's libyaml, which differs from the specification. It accepts
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

pub(crate) use grammar::Events;

/// A position in the text: the offset in bytes from 0, the line and the column in characters from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) offset: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// The optional properties before a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// The anchor, without `&`.
    pub(crate) anchor: Option<String>,
    /// The tag with its handle expanded; `!` alone for a tag without a name.
    pub(crate) tag: Option<String>,
}

/// A parser event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(String),
    Scalar {
        text: String,
        /// True without quotes, `|` and `>`.
        plain: bool,
        properties: Properties,
    },
    SequenceStart(Properties),
    SequenceEnd,
    MappingStart(Properties),
    MappingEnd,
}

/// An event and its range in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spanned {
    pub(crate) event: Event,
    pub(crate) start: Mark,
    pub(crate) end: Mark,
}

/// A syntax error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// libyaml's message.
    pub(crate) problem: String,
    /// The position where libyaml stops.
    pub(crate) mark: Mark,
    /// Start positions of the affected quote, key, list or map, and of the list or map inside that has just ended.
    pub(crate) began: Vec<Mark>,
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
