//! Validation of `ObjectMeta`, after apimachinery `pkg/api/validation/objectmeta.go`.

use serde_json::Value;

use super::names;
use super::text;
use crate::api::status::FieldError;

/// Syntax of an object's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// A DNS subdomain.
    Subdomain,
    /// A DNS label.
    Label,
}

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Validates the metadata of an object.
pub(crate) fn check(object: &Value, naming: Naming, errors: &mut Vec<FieldError>) {
    let name = text(object, "/metadata/name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let reasons = match naming {
            Naming::Subdomain => names::subdomain(name),
            Naming::Label => names::label(name),
        };
        errors.extend(reasons.iter().map(|why| FieldError::invalid("metadata.name", name, why)));
    }
    let pairs = |pointer: &str| object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in pairs("/metadata/labels") {
        let of_key = names::qualified_name(key);
        errors.extend(of_key.iter().map(|why| FieldError::invalid("metadata.labels", key, why)));
        let value = value.as_str().unwrap_or_default();
        let of_value = names::label_value(value);
        errors.extend(of_value.iter().map(|why| FieldError::invalid("metadata.labels", value, why)));
    }
    let mut size = 0;
    for (key, value) in pairs("/metadata/annotations") {
        let of_key = names::qualified_name(&key.to_lowercase());
        errors.extend(of_key.iter().map(|why| FieldError::invalid("metadata.annotations", key, why)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        let why = format!("must have at most {ANNOTATIONS_LIMIT} bytes");
        errors.push(FieldError::too_long("metadata.annotations", &why));
    }
    let list = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    for (index, owner) in list("/metadata/ownerReferences").enumerate() {
        for (key, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "kind must not be empty"),
            ("name", "name must not be empty"),
            ("uid", "uid must not be empty"),
        ] {
            if owner.get(key).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let field = format!("metadata.ownerReferences[{index}].{key}");
                errors.push(FieldError::invalid(field, "", why));
            }
        }
    }
    for finalizer in list("/metadata/finalizers").filter_map(Value::as_str) {
        let reasons = names::qualified_name(finalizer);
        errors.extend(reasons.iter().map(|why| FieldError::invalid("metadata.finalizers", finalizer, why)));
        if reasons.is_empty()
            && !finalizer.contains('/')
            && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes")
        {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid("metadata.finalizers", finalizer, why));
        }
    }
}

/// Validates an update of the metadata of an object.
pub(crate) fn check_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    for key in ["name", "namespace", "uid"] {
        let pointer = format!("/metadata/{key}");
        let value = text(new, &pointer);
        if text(old, &pointer) != value {
            errors.push(FieldError::invalid(format!("metadata.{key}"), value, "field is immutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_all_violations() {
        let object = json!({"metadata": {"name": "Rec_A", "labels": {"a/b/c": "-x"}, "finalizers": ["plain"]}});
        let mut errors = Vec::new();
        check(&object, Naming::Subdomain, &mut errors);
        assert_eq!(errors.len(), 4, "{errors:?}");
        let mut none = Vec::new();
        check(&json!({"metadata": {"name": "a", "labels": {"nodecfg.dev/pool": "x"}}}), Naming::Label, &mut none);
        assert!(none.is_empty());
    }
}
