//! JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386).
//!
//! One deviation from RFC 6902, as in the servers: `test` of null passes if the path is missing.

use json_patch::PatchOperation;
use serde_json::Value;

use crate::api::status::{ApiError, ApiResult};

/// Applies a JSON Patch.
///
/// # Errors
/// 400 for a malformed body, 422 for a patch that does not apply.
pub(crate) fn patch(target: &mut Value, body: &[u8]) -> ApiResult<()> {
    let patch: json_patch::Patch = serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    for operation in patch.0 {
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

/// Applies a merge patch.
///
/// # Errors
/// 400 for a body that is not a JSON object.
pub(crate) fn merge(target: &mut Value, body: &[u8]) -> ApiResult<()> {
    json_patch::merge(target, &object(body)?);
    Ok(())
}

/// Parses the body of a patch that is an object.
///
/// # Errors
/// 400 for a body that is not a JSON object.
pub(crate) fn object(body: &[u8]) -> ApiResult<Value> {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(ApiError::bad_request("error decoding patch: the patch is not an object")),
        Err(error) => Err(ApiError::bad_request(format!("error decoding patch: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(target: Value, operations: &Value) -> Result<Value, u16> {
        let mut target = target;
        patch(&mut target, operations.to_string().as_bytes()).map_err(|error| error.code).map(|()| target)
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
}
