//! Server-side changes to objects before storage, after the `strategy.go` of each kind: dropped fields, defaults, the
//! split between object and status, and generations.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::definition;
use super::object::{set_field, set_metadata, text, time_text};
use super::pod;
use super::resource::{Resource, ResourceType};
use super::schema;
use super::server_profile::ServerProfile;
use super::status::{ApiError, ApiResult, FieldError};
use super::validate;

/// Drops what the server does not keep: fields that are missing in the schema of a custom resource, whose paths it
/// returns; nulls, and empty lists and maps of the metadata. Go omits the latter from built-in kinds.
pub(crate) fn drop_fields(resource: &Resource, profile: ServerProfile, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let Some(map) = object.as_object_mut() else { return unknown };
    if let Some(schema) = resource.schema() {
        let mut rest = Value::Object(std::mem::take(map));
        for key in ["apiVersion", "kind", "metadata"] {
            map.extend(rest.as_object_mut().and_then(|rest| rest.shift_remove_entry(key)));
        }
        schema::prune(schema, &mut rest, "", &mut unknown);
        map.extend(rest.as_object_mut().into_iter().flat_map(std::mem::take));
    } else {
        map.values_mut().for_each(drop_nulls);
    }
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        metadata.retain(|_, value| match value {
            Value::Object(map) => !map.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::String(text) => !text.is_empty(),
            other => !other.is_null(),
        });
    }
    if resource.resource_type == ResourceType::Node {
        let removed = [("spec", "configSource"), ("status", "config")];
        for (part, key) in removed.into_iter().filter(|_| !profile.keeps_config_source()) {
            map.get_mut(part).and_then(Value::as_object_mut).and_then(|part| part.shift_remove(key));
        }
    }
    unknown
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, value| {
            drop_nulls(value);
            !value.is_null()
        }),
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Prepares a new object: sets its defaults, uid, creation time and initial status.
pub(crate) fn create(resource: &Resource, object: &mut Value, uid: String, now: Timestamp) {
    match resource.resource_type {
        ResourceType::Node => {
            complete_node(object);
            add_not_ready_taint(object);
        }
        ResourceType::Namespace => {
            set_field(object, "status", json!({"phase": "Active"}));
            set_field(object, "spec", json!({"finalizers": ["kubernetes"]}));
        }
        ResourceType::Definition => definition::complete(object, now),
        ResourceType::Pod => pod::complete(object),
        ResourceType::PodDisruptionBudget => {
            let none = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
            set_field(object, "status", none);
        }
        _ if resource.status => {
            object.as_object_mut().and_then(|object| object.shift_remove("status"));
        }
        _ => {}
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"] {
            metadata.shift_remove(key);
        }
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), time_text(now).into());
        if resource.counts_generations() {
            metadata.insert("generation".to_owned(), 1.into());
        }
    }
}

/// Adds the parts of a Node that Go always writes.
fn complete_node(node: &mut Value) {
    for part in ["spec", "status"] {
        if node.get(part).is_none() {
            set_field(node, part, json!({}));
        }
    }
}

/// Adds the label with the name of a namespace, by which policies select namespaces.
pub(crate) fn label_namespace(namespace: &mut Value) {
    let name = text(namespace, "/metadata/name").to_owned();
    let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    set_field(metadata.entry("labels").or_insert_with(|| json!({})), "kubernetes.io/metadata.name", name);
}

fn add_not_ready_taint(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let Some(taints) = spec.entry("taints").or_insert_with(|| json!([])).as_array_mut() else { return };
    if !taints.iter().any(|taint| text(taint, "/key") == KEY && text(taint, "/effect") == "NoSchedule") {
        taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
    }
}

fn copy_field(from: &Value, to: &mut Value, key: &str) {
    let Some(map) = to.as_object_mut() else { return };
    match from.get(key) {
        Some(value) => {
            map.insert(key.to_owned(), value.clone());
        }
        None => {
            map.shift_remove(key);
        }
    }
}

/// Prepares a changed object: restores the fields that this write may not change, and counts generations.
pub(crate) fn update(resource: &Resource, old: &Value, new: &mut Value, status: bool) {
    if status && resource.is_custom() {
        let reported = std::mem::replace(new, old.clone());
        copy_field(&reported, new, "status");
        for key in ["managedFields", "resourceVersion"] {
            if let Some(value) = reported.pointer(&format!("/metadata/{key}")) {
                set_metadata(new, key, value.clone());
            }
        }
    } else if status || resource.resource_type == ResourceType::Namespace {
        copy_field(old, new, "spec");
    }
    if !status && resource.status {
        copy_field(old, new, "status");
    }
    if resource.resource_type == ResourceType::Node {
        complete_node(new);
    }
    let (Some(from), Some(to)) = (old.get("metadata"), new.get_mut("metadata")) else { return };
    for key in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        copy_field(from, to, key);
    }
    let generation = from.get("generation").and_then(Value::as_u64);
    if let (Some(generation), true) = (generation, old.get("spec") != new.get("spec")) {
        set_metadata(new, "generation", generation + 1);
    }
}

/// Validates an object before storage.
///
/// # Errors
/// 422 with every violation.
pub(crate) fn check(
    resource: &Resource,
    profile: ServerProfile,
    old: Option<&Value>,
    new: &Value,
    status: bool,
) -> ApiResult<()> {
    let mut errors: Vec<FieldError> = Vec::new();
    validate::metadata(new, resource.resource_type == ResourceType::Namespace, &mut errors);
    if let Some(old) = old {
        validate::same_identity(old, new, &mut errors);
    }
    match resource.resource_type {
        ResourceType::Node if status => validate::config_status(new, &mut errors),
        ResourceType::Node => validate::config_source(new, &mut errors),
        ResourceType::ConfigMap => validate::config_map(old, new, profile, &mut errors),
        ResourceType::Event => validate::event(new, &mut errors),
        ResourceType::Definition => definition::check(new, &mut errors),
        _ => {}
    }
    if let Some(schema) = resource.schema() {
        schema::check(schema, new, "", &mut errors);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&resource.kind, &resource.group, text(new, "/metadata/name"), &errors))
}
