//! Patches: JSON Patch (RFC 6902), JSON Merge Patch (RFC 7386), and strategic merge patches of built-in kinds.

use json_patch::PatchOperation;
use serde_json::{Map, Value, json};

use super::status::{ApiError, ApiResult};

/// Type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes strategic merge, which uses the keys of lists.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// Returns the patch type of a content type.
    ///
    /// # Errors
    /// 415 for an unknown content type, and for strategic merge on custom resources.
    pub(crate) fn of(content_type: &str, is_custom: bool) -> ApiResult<Self> {
        match content_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !is_custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(ApiError::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }
}

/// Applies a JSON Patch.
///
/// # Errors
/// 400 for a malformed body, 422 for a patch that does not apply.
pub(crate) fn json(target: &mut Value, body: &[u8]) -> ApiResult<()> {
    let patch: json_patch::Patch = serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    for operation in patch.0 {
        // A test for null passes where the path is missing, as in the library of API servers.
        if let PatchOperation::Test(test) = &operation
            && test.value.is_null()
            && test.path.resolve(target).is_err()
        {
            continue;
        }
        // `target` is a working copy, discarded on errors. Changes therefore need no rollback.
        json_patch::patch_unsafe(target, &[operation]).map_err(|_| ApiError::unpatchable())?;
    }
    Ok(())
}

/// Applies a JSON Merge Patch.
///
/// # Errors
/// 400 for a body that is no object.
pub(crate) fn merge(target: &mut Value, body: &[u8]) -> ApiResult<()> {
    json_patch::merge(target, &object(body)?);
    Ok(())
}

/// Applies a strategic merge patch, after apimachinery `pkg/util/strategicpatch`: maps merge, some lists merge by the
/// keys of their items, and directives delete and replace. The order of merged lists is not kept.
///
/// # Errors
/// 400 for a body that is no object.
pub(crate) fn strategic(target: &mut Value, body: &[u8]) -> ApiResult<()> {
    merge_maps(target, &object(body)?);
    Ok(())
}

/// Decodes the body of a patch.
///
/// # Errors
/// 400 for a body that is no object.
pub(crate) fn object(body: &[u8]) -> ApiResult<Value> {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(ApiError::bad_request("error decoding patch: the patch is not an object")),
        Err(error) => Err(ApiError::bad_request(format!("error decoding patch: {error}"))),
    }
}

const DIRECTIVE: &str = "$patch";
const DELETE: &str = "$deleteFromPrimitiveList/";

fn directive(value: &Value) -> Option<&str> {
    value.get(DIRECTIVE).and_then(Value::as_str)
}

/// Returns the key by which the items of a list merge (`patchMergeKey` in k8s.io/api); empty for lists of texts that
/// unite. Other lists are replaced.
fn merge_key(field: &str) -> Option<&'static str> {
    match field {
        "conditions" | "addresses" => Some("type"),
        "containers" | "initContainers" | "volumes" | "env" => Some("name"),
        "ownerReferences" => Some("uid"),
        "finalizers" | "podCIDRs" => Some(""),
        _ => None,
    }
}

fn merge_maps(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if directive(patch) == Some("replace") || !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, change) in changes.iter().filter(|(key, _)| !key.starts_with('$')) {
        if change.is_null() || directive(change) == Some("delete") {
            map.shift_remove(key);
            continue;
        }
        match (merge_key(key), change) {
            (Some(item_key), Value::Array(changes)) => {
                if let Value::Array(current) = map.entry(key.clone()).or_insert_with(|| json!([])) {
                    merge_lists(item_key, current, changes);
                }
            }
            _ => merge_maps(map.entry(key.clone()).or_insert(Value::Null), change),
        }
    }
    for (key, value) in changes {
        if let (Some(key), Value::Array(deleted)) = (key.strip_prefix(DELETE), value)
            && let Some(Value::Array(list)) = map.get_mut(key)
        {
            list.retain(|item| !deleted.contains(item));
        }
    }
}

fn merge_lists(key: &str, current: &mut Vec<Value>, changes: &[Value]) {
    if changes.iter().any(|change| directive(change) == Some("replace")) {
        *current = changes.iter().filter(|change| directive(change).is_none()).cloned().collect();
        return;
    }
    let is_same = |a: &Value, b: &Value| if key.is_empty() { a == b } else { a.get(key) == b.get(key) };
    for change in changes {
        if directive(change) == Some("delete") {
            current.retain(|item| !is_same(item, change));
        } else if let Some(item) = current.iter_mut().find(|item| is_same(item, change)) {
            merge_maps(item, change);
        } else {
            current.push(change.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(target: Value, operations: &Value) -> Result<Value, u16> {
        let mut target = target;
        json(&mut target, operations.to_string().as_bytes()).map_err(|error| error.code).map(|()| target)
    }

    #[test]
    fn test_of_null_passes_only_if_the_path_is_missing() {
        let test = json!([{"op": "test", "path": "/spec/configSource", "value": null}]);
        assert!(patched(json!({"spec": {}}), &test).is_ok());
        assert!(patched(json!({}), &test).is_ok());
        assert_eq!(patched(json!({"spec": {"configSource": 1}}), &test), Err(422));
    }

    #[test]
    fn returns_422_for_inapplicable_and_400_for_malformed_patches() {
        assert_eq!(patched(json!({}), &json!([{"op": "remove", "path": "/a"}])), Err(422));
        assert_eq!(patched(json!({}), &json!([{"op": "test", "path": "/a", "value": 1}])), Err(422));
        assert_eq!(patched(json!({}), &json!({"a": 1})), Err(400));
        assert_eq!(merge(&mut json!({}), b"[1]").map_err(|error| error.code), Err(400));
    }

    fn merged(mut target: Value, patch: &Value) -> Value {
        strategic(&mut target, patch.to_string().as_bytes()).unwrap();
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
                "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}, {"type": "Disk"}]}
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
            merged(node, &patch),
            json!({
                "metadata": {"labels": {"c": "3"}, "finalizers": ["z/w"]},
                "status": {"conditions": [{"type": "B"}]}
            })
        );
    }
}
