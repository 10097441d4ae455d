//! Server-side apply: merges a configuration into a live object, and removes fields that it no longer contains.

use serde_json::{Map, Value};

use crate::api::fields::set::{FieldSet, field, item};
use crate::api::shape::{ListKind, Shape};

/// Merges a configuration into a value.
pub(crate) fn merge(shape: &Shape, target: &mut Value, config: &Value) {
    match (shape, config) {
        (_, Value::Object(wanted)) if shape.is_granular_map() => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            if let Value::Object(map) = target {
                for (key, value) in wanted {
                    merge(shape.child(key), map.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (Shape::List(items, kind), Value::Array(wanted)) if *kind != ListKind::Atomic => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            if let Value::Array(list) = target {
                for value in wanted {
                    let element = item(kind, value);
                    match list.iter_mut().find(|existing| element.is_some() && item(kind, existing) == element) {
                        Some(existing) => merge(items, existing, value),
                        None => list.push(value.clone()),
                    }
                }
            }
        }
        _ => *target = config.clone(),
    }
}

/// Removes fields, and entries of maps that become empty; emptied items of lists stay. Returns true if the value
/// became empty.
pub(crate) fn remove(shape: &Shape, target: &mut Value, removed: &FieldSet) -> bool {
    match (shape, &mut *target) {
        (_, Value::Object(map)) if shape.is_granular_map() => {
            let before = map.len();
            map.retain(|key, value| {
                let element = field(key);
                !removed.contains(std::slice::from_ref(&element))
                    && !removed
                        .below(&element)
                        .is_some_and(|below| !below.is_empty() && remove(shape.child(key), value, below))
            });
            map.is_empty() && before > 0
        }
        (Shape::List(items, kind), Value::Array(list)) if *kind != ListKind::Atomic => {
            let before = list.len();
            list.retain_mut(|value| {
                let Some(element) = item(kind, value) else { return true };
                if removed.contains(std::slice::from_ref(&element)) {
                    return false;
                }
                if let Some(below) = removed.below(&element).filter(|below| !below.is_empty()) {
                    remove(items, value, below);
                }
                true
            });
            list.is_empty() && before > 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::builtin;

    #[test]
    fn replaces_and_removes_atomic_fields() {
        let shape = builtin::node();
        let mut node = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"taints": [{"key": "x"}]}});
        merge(&shape, &mut node, &json!({"metadata": {"labels": {"b": "2"}}, "spec": {"taints": [{"key": "y"}]}}));
        assert_eq!(node, json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"taints": [{"key": "y"}]}}));
        let removed =
            FieldSet::from_value(&json!({"f:metadata": {"f:labels": {"f:b": {}}}, "f:spec": {"f:taints": {}}}));
        remove(&shape, &mut node, &removed);
        assert_eq!(node, json!({"metadata": {"labels": {"a": "1"}}}));
    }
}
