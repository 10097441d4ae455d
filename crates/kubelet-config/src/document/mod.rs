//! A YAML or JSON document as a tree that keeps raw scalars and the position of every key and value.
//!
//! Every file passes through this tree, so that a finding points at the line, a
//! merged value still knows which file set it, and a document is what the kubelet makes of the text. Where other readers
//! would make something else of it, that is a finding. What the tree must not do: know a format, a field or a cluster.

use std::collections::BTreeMap;

use serde_json::Number;

use crate::finding::{Finding, Place};

mod canonical;
mod changes;
mod json;
mod malformed;
mod merge;
mod parse;
mod patch;
#[cfg(test)]
mod properties;
mod resolve;
mod scalar;
mod tree;
mod yaml;

pub use canonical::{scalar_text, text as canonical_text};
pub use changes::{FieldChange, changes, path_of};
pub use merge::{lay_over, without_nulls};
pub use patch::{PatchKind, apply_json_patch, kind_of_patch};
pub use scalar::{Ambiguity, Reading, Scalar, ScalarStyle};

/// The deepest nesting of a document, before and after merging. The deepest field of a KubeletConfiguration is at 5.
pub const MAX_DEPTH: usize = 64;
/// The most values a document may have, with every alias counted as the copy that it is.
pub const MAX_NODES: usize = 100_000;
/// The most bytes of scalar text a document may have, with every alias counted.
pub const MAX_TEXT: usize = 8 << 20;
/// The largest text that is parsed, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// The longest key in its canonical spelling. YAML limits a key on one line to 1024 characters.
pub const MAX_KEY: usize = 1000;

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its outermost value.
    pub root: Node,
    /// What it was read as.
    pub syntax: Syntax,
}

/// What a text is read as. The kubelet takes a text that starts with `{` for JSON and any other for YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// YAML 1.1 as yaml.v2 has it, turned into JSON before it is decoded: `5.0` becomes `5`.
    Yaml,
    /// JSON, decoded as it stands.
    Json,
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it was written. A value that came in by an alias is placed where it was written out.
    pub place: Place,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A scalar, as written.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// A map by key. Source order means nothing to the kubelet and is not kept.
    Mapping(Mapping),
}

/// The entries of a map, by key.
pub type Mapping = BTreeMap<String, Entry>;

/// One entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where the key was written.
    pub key_place: Place,
    /// The value.
    pub value: Node,
    /// The values that a JSON text gave the key before, which count for nothing; but the kubelet decodes them all, and one
    /// of a wrong type is refused. In YAML there are none.
    pub earlier: Vec<Node>,
}

/// What came of reading a text.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The tree that the kubelet ends up with, also where findings say that something else may have been meant. `None`
    /// when there is none; then one of the findings says why.
    pub document: Option<Document>,
    /// What is wrong with the text.
    pub findings: Vec<Finding>,
    /// Whose reason it is that there is no tree; set exactly when there is none.
    pub unread: Option<Unread>,
}

/// Why a text has no tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// The kubelet cannot read it either, whatever its version.
    Malformed,
    /// It passes a bound of this crate's own, and what the kubelet makes of it is not known.
    Bounds,
}

impl Document {
    /// Reads a text. `file` names it in places and findings.
    ///
    /// Never panics, and is bounded in time and memory whatever the text holds: see [`MAX_BYTES`], [`MAX_DEPTH`],
    /// [`MAX_NODES`] and [`MAX_TEXT`]. What is nested deeper than [`MAX_DEPTH`] is an error and left out of the tree: no
    /// field of a kubelet is that deep.
    #[must_use]
    pub fn parse(file: &str, text: &str) -> Parsed {
        parse::parse(file, text)
    }

    /// The canonical YAML of the content: the same bytes for the same content, whatever its formatting was.
    #[must_use]
    pub fn canonical(&self) -> String {
        canonical::document(&self.root)
    }

    /// The content as JSON, keys sorted.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        self.root.to_json()
    }

    /// Checks the bounds that parsing keeps, which merging may have left.
    #[must_use]
    pub fn check_bounds(&self) -> Option<Finding> {
        let mut count = 0;
        let mut todo = vec![(&self.root, 1)];
        while let Some((node, depth)) = todo.pop() {
            count += 1;
            if depth > MAX_DEPTH {
                return Some(Finding::error("too-deep", too_deep()).at(node.place.clone()));
            }
            if count > MAX_NODES {
                return Some(Finding::error("too-many-values", too_many()).at(self.root.place.clone()));
            }
            match &node.value {
                Value::Scalar(_) => {}
                Value::Sequence(items) => todo.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Mapping(map) => {
                    for (key, entry) in map {
                        if canonical_text(key).len() > MAX_KEY {
                            return Some(Finding::error("key-too-long", key_too_long()).at(entry.key_place.clone()));
                        }
                        todo.push((&entry.value, depth + 1));
                    }
                }
            }
        }
        None
    }
}

pub(crate) fn too_deep() -> String {
    format!("the document is nested deeper than {MAX_DEPTH} levels")
}

pub(crate) fn too_many() -> String {
    format!("the document has more than {MAX_NODES} values once aliases and copies are written out")
}

pub(crate) fn key_too_long() -> String {
    format!("a key is longer than {MAX_KEY} characters")
}

impl Node {
    /// A map, empty, at a place.
    #[must_use]
    pub fn empty_mapping(place: Place) -> Self {
        Self { value: Value::Mapping(Mapping::new()), place }
    }

    /// The map, when this is one.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.value {
            Value::Mapping(map) => Some(map),
            _ => None,
        }
    }

    /// The list, when this is one.
    #[must_use]
    pub fn sequence(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// The scalar's reading, when this is one.
    #[must_use]
    pub fn reading(&self) -> Option<Reading<'_>> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar.read()),
            _ => None,
        }
    }

    /// The text, when this is a scalar that reads as text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self.reading() {
            Some(Reading::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether this is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.reading(), Some(Reading::Null))
    }

    /// The value under a key, when this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.mapping()?.get(key).map(|entry| &entry.value)
    }

    /// What it is, for a sentence: `a map`, `the number 5`, `the text "x"`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Scalar(scalar) => scalar.read().describe(),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(_) => "a map".to_owned(),
        }
    }

    /// The content as JSON, keys sorted. A number that is not finite appears as null.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Sequence(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Mapping(map) => {
                Json::Object(map.iter().map(|(key, entry)| (key.clone(), entry.value.to_json())).collect())
            }
            Value::Scalar(scalar) => match scalar.read() {
                Reading::Null => Json::Null,
                Reading::Bool(value) => Json::Bool(value),
                Reading::Int(value) => Number::from_i128(value).map_or(Json::Null, Json::Number),
                Reading::Float(value) => Number::from_f64(value).map_or(Json::Null, Json::Number),
                Reading::Text(text) => Json::String(text.to_owned()),
            },
        }
    }

    /// Whether both hold the same content, whatever its formatting and places.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Scalar(a), Value::Scalar(b)) => scalar_text(a) == scalar_text(b),
            (Value::Sequence(a), Value::Sequence(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_content(b))
            }
            (Value::Mapping(a), Value::Mapping(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b).all(|((ka, a), (kb, b))| ka == kb && a.value.same_content(&b.value))
            }
            _ => false,
        }
    }

    /// How many values it holds, itself among them.
    #[must_use]
    pub fn count(&self) -> usize {
        1 + match &self.value {
            Value::Scalar(_) => 0,
            Value::Sequence(items) => items.iter().map(Self::count).sum(),
            Value::Mapping(map) => map.values().map(|entry| entry.value.count()).sum(),
        }
    }
}
