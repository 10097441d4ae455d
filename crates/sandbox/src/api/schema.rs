//! Structural OpenAPI v3 schemas of custom resources: pruning of unknown fields, and validation.
//!
//! Knows what definitions of nodecfg use: types, required fields, enums, patterns, lengths and minimums. Rules in CEL
//! are not evaluated: tests of the definition and real API servers do that.

use regex::Regex;
use serde_json::Value;

use super::object::text;
use super::status::FieldError;

/// Schema of a field of a value with this schema.
fn child<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(key));
    named.or_else(|| schema.get("additionalProperties").filter(|values| values.is_object()))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Drops nulls, and fields that are missing in the schema. Records the paths of the latter.
pub(crate) fn prune(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let at = join(path, key);
            match child(schema, key) {
                Some(below) => {
                    prune(below, value, &at, unknown);
                    !value.is_null()
                }
                None if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) => true,
                None => {
                    unknown.push(at);
                    false
                }
            }
        }),
        Value::Array(list) => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            for (index, item) in list.iter_mut().enumerate() {
                prune(items, item, &format!("{path}[{index}]"), unknown);
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

/// Validates a value, after apiextensions-apiserver.
pub(crate) fn check(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (wanted, found) = (text(schema, "/type"), type_name(value));
    if !wanted.is_empty() && wanted != found && (wanted, found) != ("number", "integer") {
        let why = format!("{path} in body must be of type {wanted}: {found:?}");
        errors.push(FieldError::invalid(path, found, &why));
        return;
    }
    let invalid = |why: String| FieldError::invalid_shown(path, &value.to_string(), &format!("{path} in body {why}"));
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let supported: Vec<String> = allowed.iter().map(Value::to_string).collect();
        errors.push(FieldError::not_supported(path, &value.to_string(), &supported));
    }
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let length = match value {
        Value::String(text) => text.chars().count(),
        Value::Array(list) => list.len(),
        _ => 0,
    } as u64;
    if let Some(least) = limit("minLength").filter(|least| length < *least) {
        errors.push(invalid(format!("should be at least {least} chars long")));
    }
    if let Some(most) = limit("maxLength").or_else(|| limit("maxItems")).filter(|most| length > *most) {
        errors.push(FieldError::too_long(path, &format!("may not be more than {most}")));
    }
    if let (Some(least), Some(number)) = (schema.get("minimum").and_then(Value::as_f64), value.as_f64())
        && number < least
    {
        errors.push(invalid(format!("should be greater than or equal to {least}")));
    }
    match value {
        Value::String(text) => {
            let pattern = schema.get("pattern").and_then(Value::as_str);
            if let Some(pattern) =
                pattern.filter(|pattern| Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text)))
            {
                errors.push(invalid(format!("should match '{pattern}'")));
            }
        }
        Value::Object(map) => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let missing = required.filter_map(Value::as_str).filter(|key| !map.contains_key(*key));
            errors.extend(missing.map(|key| FieldError::required(join(path, key), "")));
            for (key, value) in map {
                if let Some(below) = child(schema, key) {
                    check(below, value, &join(path, key), errors);
                }
            }
        }
        Value::Array(list) => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            for (index, item) in list.iter().enumerate() {
                check(items, item, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prunes_and_validates() {
        let schema = json!({"type": "object", "properties": {
            "mode": {"type": "string", "enum": ["A", "B"]},
            "count": {"type": "integer", "minimum": 1},
            "names": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
            "free": {"type": "object", "additionalProperties": {"type": "string"}},
            "inner": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
        }});
        let mut value =
            json!({"bogus": 1, "free": {"x": "1"}, "inner": {"b": 1, "a": null}, "count": 0, "names": [1, "a"]});
        let mut unknown = Vec::new();
        prune(&schema, &mut value, "spec", &mut unknown);
        assert_eq!(unknown, ["spec.bogus", "spec.inner.b"]);
        assert_eq!(value, json!({"free": {"x": "1"}, "inner": {}, "count": 0, "names": [1, "a"]}));
        let mut errors = Vec::new();
        check(&schema, &value, "spec", &mut errors);
        let message = super::super::status::ApiError::invalid("K", "g", "n", &errors).message;
        for part in [
            "spec.inner.a: Required value",
            "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1",
            "spec.names[0]: Invalid value: \"integer\": spec.names[0] in body must be of type string: \"integer\"",
            "spec.names: Too long: may not be more than 1",
        ] {
            assert!(message.contains(part), "{message}");
        }
        let mut errors = Vec::new();
        check(&schema, &json!({"mode": "C"}), "spec", &mut errors);
        assert_eq!(
            errors,
            [FieldError::not_supported("spec.mode", "\"C\"", &["\"A\"".to_owned(), "\"B\"".to_owned()])]
        );
    }
}
