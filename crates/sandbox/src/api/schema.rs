//! Structural OpenAPI v3 schemas of custom resources: pruning, defaults, validation, and shapes for merging.
//!
//! Supports a subset of apiextensions-apiserver: types, required, enum, bounds, lengths and patterns. Formats are
//! ignored. `cel_rules` contains the CEL rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use super::builtin;
use super::shape::{Field, ListKind, Presence, Scalar, Shape};
use super::status::FieldError;

fn string_value<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_true(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Returns the schema of the values of a map.
fn values(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|values| **values != Value::Bool(false))
}

/// Returns the shape that a schema describes.
pub(crate) fn shape(schema: &Value) -> Shape {
    match string_value(schema, "type") {
        "object" if string_value(schema, "x-kubernetes-map-type") == "atomic" => {
            Shape::AtomicMap(Arc::new(Shape::Untyped))
        }
        "object" if schema.get("properties").is_some() => {
            let field = |(name, below): (&String, &Value)| {
                (name.clone(), Field { shape: shape(below), presence: Presence::OmitAbsent })
            };
            Shape::Struct(Arc::new(properties(schema).map(field).collect()))
        }
        "object" => match values(schema) {
            Some(values) if values.is_object() => Shape::Map(Arc::new(shape(values))),
            _ => Shape::Untyped,
        },
        "array" => {
            let items = Arc::new(schema.get("items").map_or(Shape::Untyped, shape));
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            let kind = match string_value(schema, "x-kubernetes-list-type") {
                "map" => ListKind::Map(keys),
                "set" => ListKind::Set,
                _ => ListKind::Atomic,
            };
            Shape::List(items, kind)
        }
        "string" | "integer" | "number" | "boolean" => Shape::Scalar(Scalar::Any),
        _ => Shape::Untyped,
    }
}

/// Returns the shape of a custom object: its schema, with the standard apiVersion, kind and metadata.
pub(crate) fn object_shape(schema: Option<&Value>) -> Shape {
    let field = |shape: Shape| Field { shape, presence: Presence::OmitAbsent };
    let mut fields: BTreeMap<String, Field> = match schema.map(shape) {
        Some(Shape::Struct(fields)) => (*fields).clone(),
        _ => BTreeMap::new(),
    };
    fields.insert("apiVersion".to_owned(), field(Shape::Scalar(Scalar::Text)));
    fields.insert("kind".to_owned(), field(Shape::Scalar(Scalar::Text)));
    fields.insert("metadata".to_owned(), field(builtin::object_meta()));
    Shape::Struct(Arc::new(fields))
}

/// Drops fields that are missing in the schema, and records their paths.
pub(crate) fn prune(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    let keeps = is_true(schema, "x-kubernetes-preserve-unknown-fields");
    let embedded = is_true(schema, "x-kubernetes-embedded-resource");
    match value {
        Value::Object(map) => {
            let known = schema.get("properties").and_then(Value::as_object);
            let others = values(schema);
            let mut kept = Map::new();
            for (key, mut child) in std::mem::take(map) {
                let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if let Some(below) = known.and_then(|known| known.get(&key)) {
                    prune(below, &mut child, &at, unknown);
                } else if let Some(below) = others {
                    prune(below, &mut child, &at, unknown);
                } else if !(keeps || embedded && matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
                    unknown.push(at);
                    continue;
                }
                kept.insert(key, child);
            }
            *map = kept;
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for (index, item) in list.iter_mut().enumerate() {
                    prune(items, item, &format!("{path}[{index}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

/// Sets the defaults of a schema, and drops nulls in fields that are not nullable.
pub(crate) fn set_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, child| {
                let below = schema.get("properties").and_then(|known| known.get(key));
                !(child.is_null() && below.is_some_and(|below| !is_true(below, "nullable")))
            });
            for (key, below) in properties(schema) {
                if let (None, Some(default)) = (map.get(key), below.get("default")) {
                    map.insert(key.clone(), default.clone());
                }
                if let Some(child) = map.get_mut(key) {
                    set_defaults(below, child);
                }
            }
            if let (Some(below), true) = (values(schema), schema.get("properties").is_none()) {
                map.values_mut().for_each(|child| set_defaults(below, child));
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                list.iter_mut().for_each(|item| set_defaults(items, item));
            }
        }
        _ => {}
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Validates a value.
pub(crate) fn check(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if value.is_null() && is_true(schema, "nullable") {
        return;
    }
    let wanted = string_value(schema, "type");
    let found = type_name(value);
    let fits = match wanted {
        "" => true,
        "number" => matches!(found, "number" | "integer"),
        other => other == found,
    };
    let either = is_true(schema, "x-kubernetes-int-or-string") && matches!(found, "integer" | "string");
    if !(fits || either) {
        let why = format!("{path} in body must be of type {wanted}: {found:?}");
        errors.push(FieldError::type_invalid(path, &format!("{found:?}"), &why));
        return;
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let supported: Vec<String> = allowed.iter().map(Value::to_string).collect();
        errors.push(FieldError::not_supported(path, &value.to_string(), &supported));
    }
    check_bounds(schema, value, path, errors);
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(map) => {
            let required = schema.get("required").and_then(Value::as_array);
            for key in required.into_iter().flatten().filter_map(Value::as_str) {
                if map.get(key).is_none_or(Value::is_null) {
                    errors.push(FieldError::required(at(key), ""));
                }
            }
            for (key, child) in map {
                let known = schema.get("properties").and_then(|known| known.get(key));
                if let Some(below) = known.or_else(|| values(schema).filter(|values| values.is_object())) {
                    check(below, child, &at(key), errors);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for (index, item) in list.iter().enumerate() {
                    check(items, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_bounds(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let mut fault = |key: &str, measured: f64, below: bool, text: &str| {
        let Some(limit) = bound(key) else { return };
        if (below && measured < limit) || (!below && measured > limit) {
            let why = format!("{path} in body should {}", text.replace("{}", &limit.to_string()));
            errors.push(FieldError::invalid_shown(path, &value.to_string(), &why));
        }
    };
    // Counts are far below 2^52 and therefore exact.
    match value {
        Value::Number(number) => {
            let measured = number.as_f64().unwrap_or_default();
            fault("minimum", measured, true, "be greater than or equal to {}");
            fault("maximum", measured, false, "be less than or equal to {}");
        }
        Value::String(text) => {
            let measured = text.chars().count() as f64;
            fault("minLength", measured, true, "be at least {} chars long");
            if bound("maxLength").is_some_and(|limit| measured > limit) {
                let limit = bound("maxLength").unwrap_or_default();
                errors.push(FieldError::too_long(path, &format!("may not be more than {limit} bytes")));
            }
            check_pattern(schema, text, path, errors);
        }
        Value::Array(list) => {
            let measured = list.len() as f64;
            fault("minItems", measured, true, "have at least {} items");
            if let Some(limit) = bound("maxItems").filter(|limit| measured > *limit) {
                errors.push(FieldError::too_many(path, list.len(), limit));
            }
        }
        _ => {}
    }
}

/// Rejects invalid patterns. Other parts of the schema are not validated.
pub(crate) fn check_patterns(schema: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(error) = Regex::new(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(format!("{at}.pattern"), pattern, &why));
    }
    for (name, below) in properties(schema) {
        check_patterns(below, &format!("{at}.properties[{name}]"), errors);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(key) {
            check_patterns(below, &format!("{at}.{key}"), errors);
        }
    }
}

fn check_pattern(schema: &Value, text: &str, path: &str, errors: &mut Vec<FieldError>) {
    let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return };
    // The server refuses definitions with invalid patterns.
    if Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text)) {
        let why = format!("{path} in body should match '{pattern}'");
        errors.push(FieldError::invalid(path, text, &why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "properties": {
            "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
            "count": {"type": "integer", "minimum": 1},
            "names": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "inner": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
        }})
    }

    #[test]
    fn prunes_sets_defaults_and_validates() {
        let mut value = json!({"bogus": 1, "free": {"x": 1}, "inner": {"b": 1, "a": null}, "count": 0, "names": [1]});
        let mut unknown = Vec::new();
        prune(&schema(), &mut value, "spec", &mut unknown);
        set_defaults(&schema(), &mut value);
        assert_eq!(unknown, ["spec.bogus", "spec.inner.b"]);
        assert_eq!(value, json!({"free": {"x": 1}, "inner": {}, "count": 0, "names": [1], "mode": "A"}));
        let mut errors = Vec::new();
        check(&schema(), &value, "spec", &mut errors);
        let message = super::super::status::ApiError::invalid("K", "g", "n", &errors).message;
        for part in [
            "spec.inner.a: Required value",
            "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1",
            "spec.names[0]: Invalid value: \"integer\": spec.names[0] in body must be of type string: \"integer\"",
        ] {
            assert!(message.contains(part), "{message}");
        }
        let mut errors = Vec::new();
        check(&schema(), &json!({"mode": "C"}), "spec", &mut errors);
        assert_eq!(
            errors,
            [FieldError::not_supported("spec.mode", "\"C\"", &["\"A\"".to_owned(), "\"B\"".to_owned()])]
        );
    }
}
