//! Description of a field, from which its JSON Schema and its documentation follow.

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

/// A field as its declaration describes it.
#[derive(Debug)]
pub struct FieldInfo {
    /// Key in the file.
    pub key: &'static str,
    /// Description, with the default.
    pub doc: String,
    /// Default as a file writes it. `None`: the field has no default, or the description states it in words.
    pub default: Option<String>,
    /// Whether the field must be set.
    pub is_required: bool,
    /// Whether the field is a list.
    pub is_list: bool,
    /// Fields of the map, or of the maps in the list, that the field contains.
    pub fields: Vec<FieldInfo>,
    /// Whether the field is an `Option`.
    pub(super) is_optional: bool,
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
    /// Further entries of the schema.
    pub(super) limits: Option<Value>,
}
