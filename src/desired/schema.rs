//! The JSON Schemas of the files that users write, made from their types.

use schemars::JsonSchema;
use serde_json::Value;

use super::formats::{FleetFile, NodePoolFile};

/// The JSON Schema (2020-12) of `nodecfg.yaml`.
#[must_use]
pub fn fleet_schema() -> Value {
    schema::<FleetFile>("fleet")
}

/// The JSON Schema (2020-12) of `pool.yaml`.
#[must_use]
pub fn nodepool_schema() -> Value {
    schema::<NodePoolFile>("nodepool")
}

/// A schema as the text of a file: indented, with a line end.
#[must_use]
pub fn pretty(schema: &Value) -> String {
    format!("{schema:#}\n")
}

fn schema<T: JsonSchema>(name: &str) -> Value {
    let mut schema = schemars::schema_for!(T);
    schema.insert("$id".to_owned(), format!("https://nodecfg.dev/schemas/{name}.v1alpha1.json").into());
    schema.to_value()
}
