//! CustomResourceDefinitions: defaults, validation, and the conditions of an established definition.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{set_field, text, time_text};
use super::status::FieldError;

/// Fills in missing names, and the status of a definition that is served from now on. API servers establish a
/// definition a moment later.
pub(crate) fn complete(definition: &mut Value, now: Timestamp) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    if let Some(names) = definition.pointer_mut("/spec/names").and_then(Value::as_object_mut) {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time_text(now), "reason": reason, "message": ""});
    let stored: Vec<&Value> = stored_versions(definition).filter_map(|version| version.get("name")).collect();
    let status = json!({
        "conditions": [condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")],
        "acceptedNames": definition.pointer("/spec/names"),
        "storedVersions": stored,
    });
    set_field(definition, "status", status);
}

fn stored_versions(definition: &Value) -> impl Iterator<Item = &Value> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    versions.filter(|version| version.get("storage") == Some(&Value::Bool(true)))
}

/// Validates a definition.
pub(crate) fn check(definition: &Value, errors: &mut Vec<FieldError>) {
    let (plural, group) = (text(definition, "/spec/names/plural"), text(definition, "/spec/group"));
    let (name, wanted) = (text(definition, "/metadata/name"), format!("{plural}.{group}"));
    if name != wanted {
        errors.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    if stored_versions(definition).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", "", why));
    }
}
