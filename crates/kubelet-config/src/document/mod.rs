//! The document tree of a YAML or JSON file, with raw scalars and the position of every key and value.
//!
//! Findings use the positions, and merged values keep the file that set them. The tree equals the document that the
//! kubelet reads; where other readers would differ, parsing adds a finding. This module must not depend on formats,
//! fields or clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Number;

use crate::finding::{Finding, Place};

mod ambiguity;
mod canonical;
mod changes;
mod context;
mod json;
mod malformed;
mod merge;
mod patch;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod yaml;

use context::ParseContext;

pub use canonical::text as canonical_text;
pub use changes::{FieldChange, changes, path_of};
pub use go_yaml::{Reading, Scalar};
pub use merge::{apply_merge_patch, without_nulls};
pub use patch::{PatchKind, apply_json_patch, json_patch_additions, json_patch_problems, kind_of_patch};

/// The maximum nesting of a document, before and after merging. The deepest field of a KubeletConfiguration is at
/// level 5.
pub(crate) const MAX_DEPTH: usize = 64;
/// The maximum number of values, with every alias expanded.
pub(crate) const MAX_NODES: usize = 100_000;
/// The maximum bytes of scalar text, with every alias expanded.
pub(crate) const MAX_TEXT: usize = 8 << 20;
/// The maximum size of a parsed text in bytes.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// The maximum length in bytes of a key in canonical form. YAML limits a key on one line to 1024 characters.
pub(crate) const MAX_KEY: usize = 1000;

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The root value.
    pub root: Node,
    /// The syntax of the text.
    pub syntax: Syntax,
}

/// The syntax of a text. The kubelet reads a text whose first nonblank character is `{` as JSON, and any other as
/// YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// YAML 1.1 as yaml.v2 implements it, converted to JSON before decoding: `5.0` becomes `5`.
    Yaml,
    /// JSON, decoded directly.
    Json,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The place of the value. The value of an alias has the place of its anchor's value.
    pub place: Place,
}

/// The content of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A scalar, as written.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// A map by key. Source order is dropped, because the kubelet ignores it.
    Mapping(Mapping),
}

/// The entries of a map, by key.
pub type Mapping = BTreeMap<String, Entry>;

/// One entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The place of the key.
    pub key_place: Place,
    /// The value.
    pub value: Node,
    /// The overridden values of a duplicate key in JSON. The kubelet decodes them all, and refuses one of a wrong
    /// type. Always empty for YAML.
    pub earlier: Vec<Node>,
}

/// The result of parsing a text.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The tree that the kubelet reads, even if findings report another possible meaning. `None` if parsing failed; a
    /// finding then has the reason.
    pub document: Option<Document>,
    /// Findings about the text.
    pub findings: Vec<Finding>,
    /// The reason for a missing tree; set only if `document` is `None`.
    pub unread: Option<Unread>,
}

/// The reason for a missing tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// No kubelet version can read the text.
    Malformed,
    /// The text exceeds a limit of this crate; the kubelet's result is unknown.
    Bounds,
}

impl Document {
    /// Parses a text. `file` is its name in places and findings. As in the kubelet's decoder, a text whose first
    /// nonblank character is `{` is JSON, and any other is YAML (apimachinery `yaml.IsJSONBuffer`). A doubtful text
    /// still yields a tree, with a finding at the place of the doubt.
    ///
    /// Parsing never panics, and limits on bytes, nesting, values and text bound time and memory.
    /// Nesting deeper than 64 levels is an error, and the tree omits it: no field of a kubelet is that deep.
    #[must_use]
    pub fn parse(file: &str, text: &str) -> Parsed {
        let file: Arc<str> = file.into();
        let mut context = ParseContext { file: file.clone(), findings: Vec::new(), unread: None };
        if text.len() > MAX_BYTES {
            let message = format!("the file has {} bytes; the limit is {MAX_BYTES}", text.len());
            context.refuse(Finding::error("file-too-large", message).at(Place::whole_file(file)), Unread::Bounds);
            return Parsed { document: None, findings: context.findings, unread: context.unread };
        }
        let syntax = if text.trim_start().starts_with('{') { Syntax::Json } else { Syntax::Yaml };
        let root = match syntax {
            Syntax::Json => json::read(text, &mut context),
            Syntax::Yaml => yaml::read(text, &mut context),
        };
        if root.is_err() && context.unread.is_none() {
            context.unread = Some(Unread::Malformed);
        }
        let document = root.ok().filter(|_| context.unread.is_none()).map(|root| Document { root, syntax });
        Parsed { document, findings: context.findings, unread: context.unread }
    }

    /// Returns the canonical YAML: identical bytes for identical content, independent of formatting.
    #[must_use]
    pub fn canonical(&self) -> String {
        canonical::document(&self.root)
    }

    /// Returns the content as JSON with sorted keys.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        self.root.to_json()
    }

    /// Checks the limits on nesting, number of values and length of keys, which merging may exceed. Returns a finding
    /// for the first violation.
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
    format!("the document has more than {MAX_NODES} values, or too much text, after aliases and copies are expanded")
}

pub(crate) fn key_too_long() -> String {
    format!("a key is longer than {MAX_KEY} characters")
}

impl Node {
    /// Creates an empty map at a place.
    #[must_use]
    pub fn empty_mapping(place: Place) -> Self {
        Self { value: Value::Mapping(Mapping::new()), place }
    }

    /// Returns the map; `None` for other values.
    #[must_use]
    pub fn mapping(&self) -> Option<&Mapping> {
        match &self.value {
            Value::Mapping(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the list; `None` for other values.
    #[must_use]
    pub fn sequence(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the reading of a scalar; `None` for other values.
    #[must_use]
    pub fn reading(&self) -> Option<Reading<'_>> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar.read()),
            _ => None,
        }
    }

    /// Returns the text of a scalar that reads as text; `None` for other values.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self.reading() {
            Some(Reading::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Reports whether the value is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.reading(), Some(Reading::Null))
    }

    /// Returns the value of a key; `None` if the key is missing or the value is not a map.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.mapping()?.get(key).map(|entry| &entry.value)
    }

    /// Returns the value at a path of fields, whose dots separate keys.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, key| node.get(key))
    }

    /// Returns a phrase for messages: `a map`, `the number 5`, `the text "x"`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Scalar(scalar) => scalar.read().describe(),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(_) => "a map".to_owned(),
        }
    }

    /// Returns the content as JSON with sorted keys. A number that is not finite becomes null. A whole number is an
    /// integer in every notation, as for the kubelet: `1e4` in YAML becomes 10000 before decoding. In a JSON file the
    /// kubelet refuses that notation for an integer.
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
                reading @ (Reading::Int(_) | Reading::Float(_)) => number(&reading).map_or(Json::Null, Json::Number),
                Reading::Text(text) => Json::String(text.to_owned()),
            },
        }
    }

    /// Reports whether both values have the same content, independent of formatting and places.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Scalar(a), Value::Scalar(b)) => a.read().to_string() == b.read().to_string(),
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

    /// Returns the number of values, including this one. A long text counts as several, because its copies take memory, too:
    /// the limits of values and of text are reached together.
    #[must_use]
    pub fn count(&self) -> usize {
        let of_text = |text: &str| text.len() / (MAX_TEXT / MAX_NODES);
        1 + match &self.value {
            Value::Scalar(scalar) => of_text(&scalar.text),
            Value::Sequence(items) => items.iter().map(Self::count).sum(),
            Value::Mapping(map) => map.iter().map(|(key, entry)| of_text(key) + entry.value.count()).sum(),
        }
    }
}

/// Returns a reading as a number of JSON. `None` for one that is no number, or not finite. A whole number beyond 64 bits
/// stays a float: no field of the kubelet is so large.
fn number(reading: &Reading<'_>) -> Option<Number> {
    let float = || match reading {
        Reading::Float(value) => Number::from_f64(*value),
        _ => None,
    };
    reading.whole().and_then(Number::from_i128).or_else(float)
}
