//! Header of all JSON documents: format version and kind. The schemas under `schemas/output/` are derived from the
//! same types as the documents.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};

/// Version of the JSON documents. It changes when a field is removed or changes its meaning; new fields do not change
/// it.
pub const FORMAT_VERSION: u32 = 1;

/// Kind of a document.
pub trait Kind {
    /// Value of the field `kind`.
    const KIND: &'static str;
}

impl<T: Kind> Kind for &T {
    const KIND: &'static str = T::KIND;
}

/// A document: `{formatVersion, kind, …}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<T> {
    format_version: u32,
    kind: &'static str,
    /// Fields of the kind.
    #[serde(flatten)]
    pub body: T,
}

impl<T: Kind> Document<T> {
    /// Creates a document with this body.
    pub fn new(body: T) -> Self {
        Self { format_version: FORMAT_VERSION, kind: T::KIND, body }
    }
}

impl<T: Kind + Serialize> Document<T> {
    /// Serializes a document.
    ///
    /// # Errors
    /// Serialization fails, which would be a bug.
    pub fn value(body: T) -> serde_json::Result<Value> {
        serde_json::to_value(Self::new(body))
    }
}

impl<T: Kind + JsonSchema> JsonSchema for Document<T> {
    fn schema_name() -> Cow<'static, str> {
        T::KIND.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        let head = [
            ("formatVersion", format_version()),
            ("kind", json_schema!({"description": "Kind of this document.", "const": T::KIND})),
        ];
        prepend(&mut schema, head);
        schema
    }
}

/// Schema of `formatVersion`.
#[must_use]
pub fn format_version() -> Schema {
    json_schema!({
        "description": "Changes when a field is removed or changes its meaning; new fields do not change it.",
        "const": FORMAT_VERSION,
    })
}

/// Inserts required properties before the existing ones of an object.
pub fn prepend<const N: usize>(schema: &mut Schema, head: [(&str, Schema); N]) {
    let names: Vec<Value> = head.iter().map(|(name, _)| Value::from(*name)).collect();
    let mut properties: Map<String, Value> =
        head.into_iter().map(|(name, schema)| (name.to_owned(), schema.to_value())).collect();
    if let Some(Value::Object(own)) = schema.remove("properties") {
        properties.extend(own);
    }
    let own = match schema.remove("required") {
        Some(Value::Array(own)) => own,
        _ => Vec::new(),
    };
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), Value::Array(names.into_iter().chain(own).collect()));
}
