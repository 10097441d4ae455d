//! Shapes of kinds: their fields, and how their maps and lists merge.
//!
//! Decoding, field ownership, server-side apply and strategic merge share this description, so that they stay
//! consistent. `builtin` defines the shapes of built-in kinds. The schemas of custom kinds define theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// JSON type of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// A string.
    Text,
    /// An integer.
    Integer,
    /// A boolean.
    Boolean,
    /// Any scalar, such as a quantity.
    Any,
}

/// Merge strategy of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// The list is one value, replaced as a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// Items are identified by these keys.
    Map(Vec<String>),
}

/// Encoding of a missing or empty field of a built-in object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Presence {
    /// Go's `omitempty` on a value: an empty field is omitted.
    OmitEmpty,
    /// A pointer: only a missing field is omitted.
    OmitAbsent,
    /// Always written, with this value if missing.
    Always(Value),
}

/// A field of a struct.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// Shape of the value.
    pub(crate) shape: Shape,
    /// Encoding of a missing or empty field.
    pub(crate) presence: Presence,
}

/// The shape of a value.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// A scalar.
    Scalar(Scalar),
    /// A struct with known fields. Unknown fields are pruned.
    Struct(Arc<BTreeMap<String, Field>>),
    /// A map with arbitrary keys, each of which is owned separately.
    Map(Arc<Shape>),
    /// A map or struct that is owned as one value.
    AtomicMap(Arc<Shape>),
    /// A list.
    List(Arc<Shape>, ListKind),
    /// A value without a schema: maps are merged, lists are atomic.
    Untyped,
}

impl Shape {
    /// Returns the shape of a field or key.
    pub(crate) fn child(&self, key: &str) -> &Self {
        match self {
            Self::Struct(fields) => fields.get(key).map_or(&Self::Untyped, |field| &field.shape),
            Self::Map(values) => values,
            Self::AtomicMap(inner) => inner.child(key),
            _ => &Self::Untyped,
        }
    }

    /// Reports whether a key is a field of a struct, rather than a key of a map.
    pub(crate) fn has_field(&self, key: &str) -> bool {
        matches!(self, Self::Struct(fields) if fields.contains_key(key))
    }

    /// Reports whether maps of this shape are owned key by key.
    pub(crate) fn is_granular_map(&self) -> bool {
        matches!(self, Self::Struct(_) | Self::Map(_) | Self::Untyped)
    }
}

/// A string.
pub(crate) fn string() -> Shape {
    Shape::Scalar(Scalar::Text)
}

/// An integer.
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

/// A map from strings to values of one shape.
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

/// A list whose items are identified by one key.
pub(crate) fn keyed(key: &str, items: Shape) -> Shape {
    Shape::List(Arc::new(items), ListKind::Map(vec![key.to_owned()]))
}

/// A value that is owned as one.
pub(crate) fn atomic_map(inner: Shape) -> Shape {
    Shape::AtomicMap(Arc::new(inner))
}

/// A struct.
pub(crate) fn structure<const N: usize>(fields: [(&str, Field); N]) -> Shape {
    Shape::Struct(Arc::new(fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect()))
}

/// A field that is omitted if empty.
pub(crate) fn opt(shape: Shape) -> Field {
    Field { shape, presence: Presence::OmitEmpty }
}

/// A field that is omitted only if missing.
pub(crate) fn ptr(shape: Shape) -> Field {
    Field { shape, presence: Presence::OmitAbsent }
}

/// A field that is always written, with `zero` if missing.
pub(crate) fn always(shape: Shape, zero: impl Into<Value>) -> Field {
    Field { shape, presence: Presence::Always(zero.into()) }
}
