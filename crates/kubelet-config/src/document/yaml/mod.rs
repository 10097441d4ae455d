//! YAML 1.1 as the kubelet's reader has it: yaml.v2's port of libyaml, whose grammar is neither all of the specification
//! nor only that. What it refuses is refused here, with its words, and what it lets through is let through: a control
//! character ends a file, `%YAML 1.2` does, a tab may not indent, a key fits on one line and in 1024 characters, and
//! nothing after the first document is looked at.
//!
//! The reader takes one pass, keeps no more than a line's worth of tokens, and never recurses.

mod cursor;
mod grammar;
mod scalars;
mod scanner;
#[cfg(test)]
mod tests;
mod words;

pub(super) use grammar::Events;

use super::ScalarStyle;

/// A position in the text: the offset in bytes from 0, the line and the column in characters from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) offset: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// What may stand before a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Properties {
    /// The name that aliases refer to.
    pub(super) anchor: Option<String>,
    /// The tag with its handle written out; `!` alone for the tag without a name.
    pub(super) tag: Option<String>,
}

/// What a text is made of.
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

/// An event and the stretch of text that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spanned {
    pub(super) event: Event,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

/// Why a text is no YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed {
    /// libyaml's words.
    pub(super) problem: String,
    /// Where it gave up.
    pub(super) mark: Mark,
    /// Where what it gave up on began: the quote, the key, the list or map and the one within that just ended.
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
