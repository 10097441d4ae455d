//! Comparison of two states of an object, field by field.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::set::{FieldSet, field, item};
use crate::api::shape::{ListKind, Shape};

/// Fields that differ between two states.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Fields only in the new state.
    pub(crate) added: FieldSet,
    /// Fields in both states, with different values.
    pub(crate) modified: FieldSet,
    /// Fields only in the old state.
    pub(crate) removed: FieldSet,
}

/// Compares two states. An added or removed field, key or item counts with everything below it.
pub(crate) fn compare(shape: &Shape, old: &Value, new: &Value) -> Comparison {
    let mut comparison = Comparison::default();
    walk(shape, Some(old), Some(new), &mut Vec::new(), &mut comparison);
    comparison
}

fn as_map(value: Option<&Value>) -> Option<Option<&Map<String, Value>>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(Value::Object(map)) => Some(Some(map)),
        Some(_) => None,
    }
}

fn as_list(value: Option<&Value>) -> Option<Option<&Vec<Value>>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(Value::Array(list)) => Some(Some(list)),
        Some(_) => None,
    }
}

fn record_value(old: Option<&Value>, new: Option<&Value>, path: &[String], comparison: &mut Comparison) {
    match (old, new) {
        (None, None) => {}
        (None, Some(_)) => comparison.added.insert(path),
        (Some(_), None) => comparison.removed.insert(path),
        (Some(a), Some(b)) if a != b => comparison.modified.insert(path),
        _ => {}
    }
}

fn walk(shape: &Shape, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<String>, comparison: &mut Comparison) {
    if let (Some(a), Some(b)) = (old, new)
        && a == b
    {
        return;
    }
    match shape {
        Shape::Struct(_) | Shape::Map(_) | Shape::Untyped => {
            if let (Some(a), Some(b)) = (as_map(old), as_map(new))
                && (a.is_some_and(|map| !map.is_empty()) || b.is_some_and(|map| !map.is_empty()))
            {
                let keys: BTreeSet<&String> = a.into_iter().chain(b).flat_map(Map::keys).collect();
                for key in keys {
                    path.push(field(key));
                    let (x, y) = (a.and_then(|map| map.get(key)), b.and_then(|map| map.get(key)));
                    walk(shape.child(key), x, y, path, comparison);
                    path.pop();
                }
                return record_container(old, new, path, comparison);
            }
            record_value(old, new, path, comparison);
        }
        Shape::List(items, kind) if *kind != ListKind::Atomic => {
            if let (Some(a), Some(b)) = (as_list(old), as_list(new))
                && (a.is_some_and(|list| !list.is_empty()) || b.is_some_and(|list| !list.is_empty()))
            {
                let empty = Vec::new();
                let (a, b) = (a.unwrap_or(&empty), b.unwrap_or(&empty));
                let find = |list: &'_ [Value], wanted: &str| {
                    list.iter().position(|value| item(kind, value).as_deref() == Some(wanted))
                };
                let elements: BTreeSet<String> = a.iter().chain(b).filter_map(|value| item(kind, value)).collect();
                for element in elements {
                    let x = find(a, &element).and_then(|index| a.get(index));
                    let y = find(b, &element).and_then(|index| b.get(index));
                    path.push(element);
                    walk(items, x, y, path, comparison);
                    record_container(x, y, path, comparison);
                    path.pop();
                }
                return record_container(old, new, path, comparison);
            }
            record_value(old, new, path, comparison);
        }
        _ => record_value(old, new, path, comparison),
    }
}

/// Records a container that was added or removed.
fn record_container(old: Option<&Value>, new: Option<&Value>, path: &[String], comparison: &mut Comparison) {
    match (old, new) {
        (None, Some(_)) => comparison.added.insert(path),
        (Some(_), None) => comparison.removed.insert(path),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::builtin;

    #[test]
    fn records_new_container_with_everything_below_it() {
        let old = json!({"spec": {}});
        let new = json!({"spec": {"configSource": {"configMap": {"name": "a"}}}, "metadata": {"labels": {"x": "y"}}});
        let comparison = compare(&builtin::node(), &old, &new);
        assert_eq!(
            comparison.added.to_value(),
            json!({
                "f:metadata": {".": {}, "f:labels": {".": {}, "f:x": {}}},
                "f:spec": {"f:configSource": {".": {}, "f:configMap": {".": {}, "f:name": {}}}}
            })
        );
        assert!(comparison.removed.is_empty() && comparison.modified.is_empty());
    }

    #[test]
    fn compares_keyed_items_by_key() {
        let old = json!({"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}});
        let new =
            json!({"status": {"conditions": [{"type": "B", "status": "True"}, {"type": "A", "status": "False"}]}});
        let comparison = compare(&builtin::node(), &old, &new);
        assert_eq!(
            comparison.modified.to_value(),
            json!({"f:status": {"f:conditions": {"k:{\"type\":\"A\"}": {"f:status": {}}}}})
        );
    }
}
