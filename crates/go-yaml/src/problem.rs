//! What is wrong or doubtful about a text.

use std::fmt;

use crate::scalar::CORE;
use crate::{Ambiguity, Scalar, Span, Value};

/// Something that is wrong or doubtful about a text, with its place. The [`Display`](fmt::Display) form is the message.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The kind, with its details.
    pub kind: ProblemKind,
    /// The place.
    pub span: Span,
}

/// The kind of a problem.
///
/// The first kinds are reasons for a missing tree ([`Problem::is_fatal`]). The others are values that another reader
/// reads differently, and contents that Go ignores.
#[derive(Debug, Clone, PartialEq)]
pub enum ProblemKind {
    /// The text is not YAML. The place is the position where libyaml stops, often after the mistake.
    Syntax {
        /// libyaml's message.
        message: String,
        /// The starts of the affected quote, key, list or map, and of the list or map inside that has just ended.
        began: Vec<Span>,
    },
    /// The text has no document, or an empty one.
    Empty,
    /// No anchor of this name precedes the alias.
    UnknownAnchor(String),
    /// The alias refers to a value that contains the alias.
    RecursiveAlias,
    /// Nearly all values come from aliases. yaml.v2 refuses such documents.
    ExcessiveAliases,
    /// The value of a merge key is neither a map nor a list of maps.
    BadMerge,
    /// A scalar does not fit its tag.
    BadTag {
        /// The tag with its handle expanded, such as `tag:yaml.org,2002:int`.
        tag: String,
        /// The text of the scalar.
        text: String,
    },
    /// The document has more values than [`Limits::values`](crate::Limits::values).
    TooManyValues,
    /// The document has more bytes of text than [`Limits::text`](crate::Limits::text).
    TooMuchText,
    /// A key that is not text. This is fatal without a name.
    KeyNotText {
        /// The key.
        key: Value,
        /// The text into which sigs.k8s.io/yaml converts the key. `None` if it refuses the document.
        name: Option<String>,
    },
    /// The value is deeper than [`Limits::depth`](crate::Limits::depth). The tree has null instead. Reported once.
    TooDeep,
    /// A scalar that other readers read differently, or a number that is not finite ([`Scalar::ambiguity`]).
    AmbiguousScalar(Scalar),
    /// A key appears again in its map. Go takes the last value.
    DuplicateKey {
        /// The key.
        key: String,
        /// The place of its first occurrence.
        first: Span,
    },
    /// A key is longer than [`Limits::key`](crate::Limits::key).
    LongKey,
    /// A tag without the same effect on all readers.
    UnsupportedTag(String),
    /// A merge key changes a value that the map sets above. Other readers keep the value of the map.
    MergeOverrides {
        /// The key with the changed value.
        key: String,
        /// The place of the key above.
        first: Span,
    },
    /// The start of a second document, or of an error there. Go reads only the first.
    SecondDocument,
}

impl Problem {
    /// Reports whether the problem is a reason for a missing tree.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        use ProblemKind as Kind;
        match &self.kind {
            Kind::Syntax { .. } | Kind::Empty | Kind::UnknownAnchor(_) | Kind::RecursiveAlias => true,
            Kind::ExcessiveAliases | Kind::BadMerge | Kind::BadTag { .. } => true,
            Kind::TooManyValues | Kind::TooMuchText => true,
            Kind::KeyNotText { name, .. } => name.is_none(),
            _ => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ProblemKind as Kind;
        match &self.kind {
            Kind::Syntax { message, .. } => f.write_str(message),
            Kind::Empty => f.write_str("the text has no document"),
            Kind::UnknownAnchor(name) => write!(f, "no anchor `{name}` precedes this alias"),
            Kind::RecursiveAlias => f.write_str("an alias refers to a value that contains the alias"),
            Kind::ExcessiveAliases => f.write_str("nearly the whole document comes from aliases"),
            Kind::BadMerge => f.write_str("`<<` requires a map or a list of maps"),
            Kind::BadTag { tag, .. } if tag.strip_prefix(CORE) == Some("binary") => {
                f.write_str("`!!binary` requires base64")
            }
            Kind::BadTag { tag, text } => write!(f, "{text:?} is not a valid `{}`", Tag(tag)),
            Kind::TooManyValues => f.write_str("the document has too many values"),
            Kind::TooMuchText => f.write_str("the document has too much text"),
            Kind::KeyNotText { key: Value::Scalar(key), .. } => write!(f, "a key must be text: {}", meaning(key)),
            Kind::KeyNotText { key: Value::Sequence(_), .. } => f.write_str("a key must be text, not a list"),
            Kind::KeyNotText { key: Value::Mapping(_), .. } => f.write_str("a key must be text, not a map"),
            Kind::TooDeep => f.write_str("the document is nested too deeply"),
            Kind::AmbiguousScalar(scalar) => f.write_str(&meaning(scalar)),
            Kind::DuplicateKey { key, .. } => write!(f, "the key {key:?} appears twice in one map"),
            Kind::LongKey => f.write_str("a key is too long"),
            Kind::UnsupportedTag(tag) => write!(f, "the tag `{}` is not supported", Tag(tag)),
            Kind::MergeOverrides { key, .. } => write!(f, "`<<` merges {key:?}, which the map sets above"),
            Kind::SecondDocument => f.write_str("the text has more than one document"),
        }
    }
}

/// Returns the meaning of a scalar to Go, and to other readers if it differs.
fn meaning(scalar: &Scalar) -> String {
    let go = format!("`{}` is {}", scalar.text, scalar.read().describe());
    match scalar.ambiguity() {
        None => go,
        Some(Ambiguity::NotFinite) => format!("{go} to Go, and JSON has no such number"),
        Some(Ambiguity::Yaml12(other)) => format!("{go} to Go and {} to YAML 1.2 readers", other.describe()),
        Some(Ambiguity::Yaml11(text)) => format!("{go} to Go and the text {text:?} to strict YAML 1.1 readers"),
    }
}

/// Writes a tag of YAML in its short form, such as `!!int`.
struct Tag<'a>(&'a str);

impl fmt::Display for Tag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.strip_prefix(CORE) {
            Some(name) => write!(f, "!!{name}"),
            None => f.write_str(self.0),
        }
    }
}
