//! Reading fields of objects whose shape nobody has checked: what is not there reads as null, empty or none.

use serde_json::Value;

/// The value at a JSON pointer; null when there is none.
pub(super) fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

/// The text at a JSON pointer; empty when there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}

/// The items of the list at a JSON pointer; none when there is no list.
pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).as_array().map(Vec::as_slice).unwrap_or_default()
}
