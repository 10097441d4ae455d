//! The tree of a document.

use std::collections::BTreeMap;

use crate::{Reading, Scalar};

/// A range in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte, counted from 0.
    pub offset: usize,
    /// The length in bytes; 0 is a position between two characters.
    pub len: usize,
    /// The line of the first byte, counted from 1.
    pub line: usize,
    /// The column of the first byte in characters, counted from 1.
    pub column: usize,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The place, without anchor and tag. A list or map has the place of its first token. The value of an alias has
    /// the place of the anchored value.
    pub span: Span,
}

/// The content of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A scalar.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// A map. Go ignores the order of its keys.
    Mapping(BTreeMap<String, Entry>),
}

/// One entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The place of the key.
    pub key: Span,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Returns the reading of a scalar; `None` for other values.
    #[must_use]
    pub fn read(&self) -> Option<Reading<'_>> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar.read()),
            _ => None,
        }
    }

    /// Returns the value of a key; `None` if the key is missing or the value is not a map.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Mapping(map) => map.get(key).map(|entry| &entry.value),
            _ => None,
        }
    }
}
