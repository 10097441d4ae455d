//! CustomResourceDefinitions: defaults, conditions, validation, and the resources that they add.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cel_rules::CelRules;
use super::object::time_text;
use super::resource::{Resource, ResourceType};
use super::schema;
use super::server_profile::ServerProfile;
use super::status::FieldError;
use super::validate::text;

/// Finalizer of a definition whose objects are being deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in missing names and a missing conversion.
pub(crate) fn set_defaults(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    if let Some(names) = definition.pointer_mut("/spec/names").and_then(Value::as_object_mut) {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    }
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

/// Returns the status of a definition before it is established.
pub(crate) fn initial_status(definition: &Value) -> Value {
    let stored: Vec<&Value> = versions(definition)
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name"))
        .collect();
    json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored})
}

fn condition(kind: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "type": kind,
        "status": "True",
        "lastTransitionTime": time_text(now),
        "reason": reason,
        "message": message,
    })
}

/// Accepts the names and establishes the definition.
pub(crate) fn establish(definition: &mut Value, now: Timestamp) {
    let names = definition.pointer("/spec/names").cloned().unwrap_or_default();
    if let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("acceptedNames".to_owned(), names);
        let accepted = condition("NamesAccepted", "NoConflicts", "no conflicts found", now);
        let message = "the initial names have been accepted";
        let established = condition("Established", "InitialNamesAccepted", message, now);
        status.insert("conditions".to_owned(), json!([accepted, established]));
    }
}

/// Adds the condition `Terminating`, before the objects of the definition are deleted.
pub(crate) fn terminate(definition: &mut Value, now: Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    if let Some(Value::Array(conditions)) = definition.pointer_mut("/status/conditions") {
        conditions.push(condition("Terminating", "InstanceDeletionPending", message, now));
    }
}

/// Validates a definition: checks the rules that decide whether it can be served.
pub(crate) fn check(definition: &Value, profile: ServerProfile, errors: &mut Vec<FieldError>) {
    let (plural, group) = (text(definition, "/spec/names/plural"), text(definition, "/spec/group"));
    let (name, wanted) = (text(definition, "/metadata/name"), format!("{plural}.{group}"));
    if name != wanted {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    for (field, value) in [
        ("spec.group", group),
        ("spec.names.plural", plural),
        ("spec.names.kind", text(definition, "/spec/names/kind")),
    ] {
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    }
    let scope = text(definition, "/spec/scope");
    if !matches!(scope, "Cluster" | "Namespaced") {
        let supported = ["\"Cluster\"".to_owned(), "\"Namespaced\"".to_owned()];
        errors.push(FieldError::not_supported("spec.scope", &format!("{scope:?}"), &supported));
    }
    let storage = versions(definition).filter(|version| version.get("storage") == Some(&Value::Bool(true))).count();
    if storage != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid_shown("spec.versions", "[]", why));
    }
    for (index, version) in versions(definition).enumerate() {
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            None => errors.push(FieldError::required(field, "schemas are required")),
            Some(schema) => {
                if profile.evaluates_rules() {
                    CelRules::compile(schema, &field, errors);
                }
                schema::check_patterns(schema, &field, errors);
            }
        }
    }
}

/// Reports whether the resources of a definition are served.
pub(crate) fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    let established =
        |condition: &Value| text(condition, "/type") == "Established" && text(condition, "/status") == "True";
    conditions.into_iter().flatten().any(established)
}

/// Returns the resources that a definition adds, one for each served version.
pub(crate) fn resources(definition: &Value, profile: ServerProfile) -> Vec<Resource> {
    let of = |pointer: &str| text(definition, pointer).to_owned();
    let shared = Arc::new(definition.clone());
    let served = versions(definition).filter(|version| version.get("served") == Some(&Value::Bool(true)));
    served
        .map(|version| {
            let schema = version.pointer("/schema/openAPIV3Schema");
            Resource {
                resource_type: ResourceType::Custom,
                group: of("/spec/group"),
                version: text(version, "/name").to_owned(),
                plural: of("/spec/names/plural"),
                kind: of("/spec/names/kind"),
                list_kind: of("/spec/names/listKind"),
                namespaced: text(definition, "/spec/scope") == "Namespaced",
                status: version.pointer("/subresources/status").is_some(),
                shape: schema::object_shape(schema),
                collection: of("/metadata/name"),
                rules: schema
                    .filter(|_| profile.evaluates_rules())
                    .map(|schema| CelRules::compile(schema, "", &mut Vec::new()))
                    .unwrap_or_default(),
                schema: schema.cloned().map(Arc::new),
                definition: Some(shared.clone()),
                blank: OnceLock::new(),
            }
        })
        .collect()
}
