//! Decoding of request bodies into stored objects, equal to decoding into a Go type and encoding again.
//!
//! Prunes unknown fields, checks types, drops empty fields and fills in fixed fields.

use serde_json::{Map, Value};

use super::shape::{Presence, Scalar, Shape};

/// Unknown fields and type errors of a decoded value.
#[derive(Debug, Default)]
pub(crate) struct Decoding {
    /// Paths of unknown fields, such as `spec.bogus`.
    pub(crate) unknown: Vec<String>,
    /// First type error, as `json: cannot unmarshal …`.
    pub(crate) mismatch: Option<String>,
}

/// Converts a value of a built-in kind to canonical form.
pub(crate) fn decode(shape: &Shape, value: &mut Value, kind: &str) -> Decoding {
    let mut decoding = Decoding::default();
    let mut path = String::new();
    walk(shape, value, &mut path, kind, &mut decoding);
    decoding
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn mismatch(value: &Value, path: &str, kind: &str, wanted: &str, decoding: &mut Decoding) {
    if decoding.mismatch.is_none() {
        let found = type_name(value);
        decoding.mismatch =
            Some(format!("json: cannot unmarshal {found} into Go struct field {kind}.{path} of type {wanted}"));
    }
}

fn walk(shape: &Shape, value: &mut Value, path: &mut String, kind: &str, decoding: &mut Decoding) {
    if value.is_null() {
        return;
    }
    match shape {
        Shape::Scalar(scalar) => {
            let (fits, wanted) = match scalar {
                Scalar::Text => (value.is_string(), "string"),
                Scalar::Integer => (value.is_i64() || value.is_u64(), "int32"),
                Scalar::Boolean => (value.is_boolean(), "bool"),
                Scalar::Any => (!value.is_object() && !value.is_array(), "string"),
            };
            if !fits {
                mismatch(value, path, kind, wanted, decoding);
            }
        }
        Shape::Struct(fields) => {
            let Value::Object(map) = value else {
                return mismatch(value, path, kind, "object", decoding);
            };
            map.retain(|key, _| {
                let known = fields.contains_key(key);
                if !known {
                    decoding.unknown.push(join(path, key));
                }
                known
            });
            for (key, field) in fields.iter() {
                if let Some(child) = map.get_mut(key) {
                    descend(path, key, |path| walk(&field.shape, child, path, kind, decoding));
                }
                apply_presence(map, key, &field.presence, &field.shape);
            }
        }
        Shape::Map(values) => {
            let Value::Object(map) = value else {
                return mismatch(value, path, kind, "map", decoding);
            };
            for (key, child) in map.iter_mut() {
                if child.is_null() && matches!(**values, Shape::Scalar(Scalar::Text)) {
                    *child = Value::String(String::new());
                }
                descend(path, key, |path| walk(values, child, path, kind, decoding));
            }
        }
        Shape::List(items, _) => {
            let Value::Array(list) = value else {
                return mismatch(value, path, kind, "slice", decoding);
            };
            for (index, item) in list.iter_mut().enumerate() {
                let length = path.len();
                path.push_str(&format!("[{index}]"));
                walk(items, item, path, kind, decoding);
                path.truncate(length);
            }
        }
        Shape::AtomicMap(inner) => walk(inner, value, path, kind, decoding),
        Shape::Untyped => {}
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn descend(path: &mut String, key: &str, step: impl FnOnce(&mut String)) {
    let length = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
    step(path);
    path.truncate(length);
}

/// Omits or fills in one field as Go's encoder does.
fn apply_presence(map: &mut Map<String, Value>, key: &str, presence: &Presence, shape: &Shape) {
    let current = map.get(key);
    match presence {
        Presence::OmitEmpty => {
            if current.is_some_and(is_empty) {
                map.shift_remove(key);
            }
        }
        Presence::OmitAbsent => {
            if current.is_some_and(Value::is_null) {
                map.shift_remove(key);
            }
        }
        Presence::Always(zero) => {
            if current.is_none_or(Value::is_null) {
                let mut filled = zero.clone();
                let mut ignored = Decoding::default();
                walk(shape, &mut filled, &mut String::new(), "", &mut ignored);
                map.insert(key.to_owned(), filled);
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::builtin;

    #[test]
    fn fills_in_fields_that_go_always_writes() {
        let mut node = json!({"metadata": {"name": "a", "labels": {}}, "bogus": 1, "spec": {"taints": [], "x": {}}});
        let decoding = decode(&builtin::node(), &mut node, "Node");
        assert_eq!(decoding.unknown, ["bogus", "spec.x"]);
        assert_eq!(node["metadata"], json!({"name": "a"}));
        assert_eq!(node["spec"], json!({}));
        assert_eq!(node["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "");
    }

    #[test]
    fn keeps_empty_pointers_and_drops_empty_values() {
        let mut node = json!({"spec": {"configSource": {}, "unschedulable": false}});
        decode(&builtin::node(), &mut node, "Node");
        assert_eq!(node["spec"], json!({"configSource": {}}));
    }

    #[test]
    fn reports_type_mismatch() {
        let mut map = json!({"data": {"a": 1}});
        let found = decode(&builtin::config_map(), &mut map, "ConfigMap").mismatch;
        assert_eq!(
            found.as_deref(),
            Some("json: cannot unmarshal number into Go struct field ConfigMap.data.a of type string")
        );
    }
}
