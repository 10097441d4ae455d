//! The shape of a kind: which fields it has, and how its maps and lists merge.
//!
//! One description serves decoding, field ownership, server-side apply and strategic merge, so that they cannot
//! disagree. Shapes of built-in kinds are written down in `builtin`; those of custom kinds come from their schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The JSON type that a scalar must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// A string.
    Text,
    /// A whole number.
    Integer,
    /// A boolean.
    Boolean,
    /// Whatever is not a map or a list, such as a quantity.
    Any,
}

/// How items of a list belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// The list is one value; it is replaced whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// Items are told apart by these keys.
    Map(Vec<String>),
}

/// What becomes of a field that is not there, or empty, when a built-in object is encoded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Presence {
    /// Go's `omitempty` on a value: an empty one is left out.
    OmitEmpty,
    /// A pointer: only an absent one is left out.
    OmitAbsent,
    /// Written even when it was not given.
    Always(Value),
}

/// A field of a struct.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// Its shape.
    pub(crate) shape: Shape,
    /// What becomes of it when it is empty.
    pub(crate) presence: Presence,
}

/// The shape of a value.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// A scalar.
    Scalar(Scalar),
    /// A struct with known fields; unknown ones are pruned.
    Struct(Arc<BTreeMap<String, Field>>),
    /// A map with arbitrary keys, each of which can be owned by itself.
    Map(Arc<Shape>),
    /// A map or struct that is one value to owners, whatever its fields.
    Whole(Arc<Shape>),
    /// A list.
    List(Arc<Shape>, ListKind),
    /// A value without a schema: maps are merged, lists are atomic.
    Free,
}

impl Shape {
    /// The shape of a field or key.
    pub(crate) fn child(&self, key: &str) -> &Self {
        match self {
            Self::Struct(fields) => fields.get(key).map_or(&Self::Free, |field| &field.shape),
            Self::Map(values) => values,
            Self::Whole(inner) => inner.child(key),
            _ => &Self::Free,
        }
    }

    /// Whether a key is a field of a struct, rather than a key of a map.
    pub(crate) fn has_field(&self, key: &str) -> bool {
        matches!(self, Self::Struct(fields) if fields.contains_key(key))
    }

    /// Whether maps of this shape are owned key by key.
    pub(crate) fn is_granular_map(&self) -> bool {
        matches!(self, Self::Struct(_) | Self::Map(_) | Self::Free)
    }
}

/// A text.
pub(crate) fn text() -> Shape {
    Shape::Scalar(Scalar::Text)
}

/// A whole number.
pub(crate) fn integer() -> Shape {
    Shape::Scalar(Scalar::Integer)
}

/// A boolean.
pub(crate) fn boolean() -> Shape {
    Shape::Scalar(Scalar::Boolean)
}

/// Any scalar.
pub(crate) fn scalar() -> Shape {
    Shape::Scalar(Scalar::Any)
}

/// A map from text to values of one shape.
pub(crate) fn map(values: Shape) -> Shape {
    Shape::Map(Arc::new(values))
}

/// A list that is one value.
pub(crate) fn atomic(items: Shape) -> Shape {
    Shape::List(Arc::new(items), ListKind::Atomic)
}

/// A set of scalars.
pub(crate) fn set(items: Shape) -> Shape {
    Shape::List(Arc::new(items), ListKind::Set)
}

/// A list whose items are told apart by one key.
pub(crate) fn keyed(key: &str, items: Shape) -> Shape {
    Shape::List(Arc::new(items), ListKind::Map(vec![key.to_owned()]))
}

/// A value that is owned as one.
pub(crate) fn whole(inner: Shape) -> Shape {
    Shape::Whole(Arc::new(inner))
}

/// A struct.
pub(crate) fn structure<const N: usize>(fields: [(&str, Field); N]) -> Shape {
    Shape::Struct(Arc::new(fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect()))
}

/// A field that is left out when empty.
pub(crate) fn opt(shape: Shape) -> Field {
    Field { shape, presence: Presence::OmitEmpty }
}

/// A field that is left out only when absent.
pub(crate) fn ptr(shape: Shape) -> Field {
    Field { shape, presence: Presence::OmitAbsent }
}

/// A field that is always written, as `zero` when it was not given.
pub(crate) fn always(shape: Shape, zero: impl Into<Value>) -> Field {
    Field { shape, presence: Presence::Always(zero.into()) }
}
