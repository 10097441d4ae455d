//! What every JSON document has in common: it begins with the version of the format and its kind. The types here are what is
//! written and what the schemas under `schemas/output/` are made from, so that the two cannot drift apart.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};

/// Version of the JSON documents. It changes when a field changes its meaning or goes away; new fields may appear without a
/// change.
pub const FORMAT_VERSION: u32 = 1;

/// A kind of document.
pub trait Kind {
    /// Its name, as the field `kind` has it.
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
    /// What is in it.
    #[serde(flatten)]
    pub body: T,
}

impl<T: Kind> Document<T> {
    /// A document with this in it.
    pub fn new(body: T) -> Self {
        Self { format_version: FORMAT_VERSION, kind: T::KIND, body }
    }
}

impl<T: Kind + Serialize> Document<T> {
    /// As a value.
    ///
    /// # Errors
    /// When it cannot be serialised, which would be a bug.
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
            ("kind", json_schema!({"description": "What kind of document this is.", "const": T::KIND})),
        ];
        prepend(&mut schema, head);
        schema
    }
}

/// The schema of `formatVersion`.
#[must_use]
pub fn format_version() -> Schema {
    json_schema!({
        "description": "Changes when a field changes its meaning or goes away; new fields may appear without a change.",
        "const": FORMAT_VERSION,
    })
}

/// Puts required properties before those that an object has.
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
