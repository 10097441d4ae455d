//! The notices of a report in JSON, beside the result itself.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use super::{Item, Report, Text};
use nodecfg_contract::json_document::Kind;

/// A result with the notices of its report.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Noticed<'a, B> {
    /// The result.
    #[serde(flatten)]
    pub body: B,
    /// What the report says beside tables: warnings, reasons and next steps, in the words of the text output. Words may
    /// change at any time.
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

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.plain())
    }
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}
