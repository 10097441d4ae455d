//! Access to fields of unvalidated objects. Missing fields read as null or empty.

use serde_json::Value;

/// Value at a JSON pointer, or null.
pub(super) fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

/// Text at a JSON pointer, or an empty text.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}

/// Items of the list at a JSON pointer, or an empty slice.
pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).as_array().map(Vec::as_slice).unwrap_or_default()
}
