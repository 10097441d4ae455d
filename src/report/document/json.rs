//! The notices of a report in JSON, beside the result itself.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Item, Report, Text};
use nodecfg_contract::json_document::Kind;

/// A result with the notices of its report.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Noticed<'a, B> {
    /// The result.
    #[serde(flatten)]
    pub body: B,
    /// What the report says beside tables: warnings, reasons and next steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<&'a Item>,
}

impl<'a, B> Noticed<'a, B> {
    /// A result with the notices of its report.
    pub fn of(body: B, report: &'a Report) -> Self {
        Self { body, notices: report.notices().collect() }
    }
}

impl<B: Kind> Kind for Noticed<'_, B> {
    const KIND: &'static str = B::KIND;
}

impl<B: JsonSchema> JsonSchema for Noticed<'_, B> {
    fn schema_name() -> Cow<'static, str> {
        B::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = B::json_schema(generator);
        let notices = json_schema!({
            "type": "array",
            "items": generator.subschema_for::<Item>(),
            "description": "What the text output says beside its tables: warnings, reasons and next steps. Words may change at \
                            any time.",
        });
        if let Some(properties) = schema.ensure_object().get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("notices".to_owned(), notices.to_value());
        }
        schema
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.plain())
    }
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}
