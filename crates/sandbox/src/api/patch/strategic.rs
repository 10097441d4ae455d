//! Strategic merge patch, after apimachinery `pkg/util/strategicpatch`. Maps merge, keyed lists merge by key, and
//! sets unite. `$` directives express all other changes.

use serde_json::{Map, Value};

use crate::api::shape::{ListKind, Shape};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

fn directive(value: &Value) -> Option<&str> {
    value.get(DIRECTIVE).and_then(Value::as_str)
}

/// Merges a patch into a value.
pub(crate) fn merge(shape: &Shape, target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if directive(patch) == Some("replace") {
        let kept = changes.iter().filter(|(key, _)| *key != DIRECTIVE);
        *target = Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect());
        return;
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    if let Some(Value::Array(retained)) = changes.get(RETAIN) {
        map.retain(|key, _| retained.iter().any(|name| name == key));
    }
    for (key, change) in changes.iter().filter(|(key, _)| !key.starts_with('$')) {
        let shape = shape.child(key);
        if change.is_null() || directive(change) == Some("delete") {
            map.shift_remove(key);
            continue;
        }
        match (shape, change) {
            (Shape::List(items, kind @ (ListKind::Map(_) | ListKind::Set)), Value::Array(list)) => {
                let current = map.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(current) = current {
                    merge_list(items, kind, current, list);
                }
            }
            (_, Value::Object(_)) => {
                merge(shape, map.entry(key.clone()).or_insert(Value::Null), change);
            }
            _ => {
                map.insert(key.clone(), change.clone());
            }
        }
    }
    for (key, value) in changes {
        let Value::Array(named) = value else { continue };
        if let Some(Value::Array(list)) = key.strip_prefix(DELETE).and_then(|key| map.get_mut(key)) {
            list.retain(|item| !named.contains(item));
        }
        if let Some(key) = key.strip_prefix(ORDER)
            && let (Shape::List(_, kind), Some(Value::Array(list))) = (shape.child(key), map.get_mut(key))
        {
            reorder(kind, list, named);
        }
    }
}

fn is_same_item(kind: &ListKind, a: &Value, b: &Value) -> bool {
    match kind {
        ListKind::Map(keys) => keys.iter().all(|key| a.get(key).is_some() && a.get(key) == b.get(key)),
        _ => a == b,
    }
}

fn merge_list(items: &Shape, kind: &ListKind, current: &mut Vec<Value>, changes: &[Value]) {
    if changes.iter().any(|change| directive(change) == Some("replace")) {
        *current = changes.iter().filter(|change| directive(change).is_none()).cloned().collect();
        return;
    }
    for change in changes {
        let found = current.iter().position(|item| is_same_item(kind, item, change));
        match (found, directive(change)) {
            (_, Some("delete")) => current.retain(|item| !is_same_item(kind, item, change)),
            (Some(index), _) => {
                if let (Some(item), ListKind::Map(_)) = (current.get_mut(index), kind) {
                    merge(items, item, change);
                }
            }
            (None, _) => {
                let mut item = Value::Null;
                if change.is_object() {
                    merge(items, &mut item, change)
                } else {
                    item = change.clone()
                }
                current.push(item);
            }
        }
    }
}

/// Sorts the named items into the given order, within their positions. Other items keep their positions.
fn reorder(kind: &ListKind, list: &mut [Value], order: &[Value]) {
    let rank = |item: &Value| order.iter().position(|named| is_same_item(kind, item, named));
    let places: Vec<usize> = list.iter().enumerate().filter(|(_, item)| rank(item).is_some()).map(|(i, _)| i).collect();
    let mut named: Vec<Value> = places.iter().filter_map(|place| list.get(*place).cloned()).collect();
    named.sort_by_key(rank);
    for (place, item) in places.into_iter().zip(named) {
        if let Some(slot) = list.get_mut(place) {
            *slot = item;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::builtin;

    fn merged(mut target: Value, patch: &Value) -> Value {
        merge(&builtin::node(), &mut target, patch);
        target
    }

    #[test]
    fn merges_conditions_by_type_and_replaces_taints() {
        let node = json!({
            "spec": {"taints": [{"key": "a"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}, {"type": "Disk"}]}
        });
        let patch = json!({
            "spec": {"taints": [{"key": "b"}]},
            "status": {
                "$setElementOrder/conditions": [{"type": "Disk"}, {"type": "Ready"}],
                "conditions": [{"type": "Ready", "status": "False"}]
            }
        });
        assert_eq!(
            merged(node, &patch),
            json!({
                "spec": {"taints": [{"key": "b"}]},
                "status": {"conditions": [{"type": "Disk"}, {"type": "Ready", "status": "False", "reason": "x"}]}
            })
        );
    }

    #[test]
    fn applies_directives() {
        let node = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x/y", "z/w"]},
            "status": {"conditions": [{"type": "A"}, {"type": "B"}]}
        });
        let patch = json!({
            "metadata": {"labels": {"$patch": "replace", "c": "3"}, "$deleteFromPrimitiveList/finalizers": ["x/y"]},
            "status": {"conditions": [{"$patch": "delete", "type": "A"}]}
        });
        assert_eq!(
            merged(node.clone(), &patch),
            json!({
                "metadata": {"labels": {"c": "3"}, "finalizers": ["z/w"]},
                "status": {"conditions": [{"type": "B"}]}
            })
        );
        let retain =
            json!({"metadata": {"$retainKeys": ["labels"], "labels": {"a": null}}, "status": {"$patch": "delete"}});
        assert_eq!(merged(node, &retain), json!({"metadata": {"labels": {"b": "2"}}}));
    }
}
