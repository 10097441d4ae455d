//! What makes an object invalid, kind by kind, with the texts of the recorded servers.

pub(crate) mod config_map;
pub(crate) mod event;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod node;

use serde_json::Value;

/// A text at a JSON pointer; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
