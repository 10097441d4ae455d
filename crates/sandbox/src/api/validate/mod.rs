//! Validation of objects by kind, with the messages of the recorded servers.

pub(crate) mod config_map;
pub(crate) mod event;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod node;
pub(crate) mod workload;

use serde_json::Value;

/// Returns the string at a JSON pointer; empty if missing.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
