//! Server-side changes to objects before storage, after the `strategy.go` of each kind: defaults, the split between
//! object and status, dropped fields, and generations.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::definition;
use super::object::{set_field, time_text};
use super::pod;
use super::resource::{Resource, ResourceType};
use super::schema;
use super::server_profile::ServerProfile;
use super::status::{ApiError, ApiResult, FieldError};
use super::validate::meta::Naming;
use super::validate::{self, text};
use super::workload_shapes;

/// Sets defaults. They count as written by the client.
pub(crate) fn set_defaults(resource: &Resource, object: &mut Value) {
    match resource.resource_type {
        ResourceType::Definition => definition::set_defaults(object),
        ResourceType::Pod => pod::set_defaults(object),
        ResourceType::Namespace => {
            let name = text(object, "/metadata/name").to_owned();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                let labels = metadata.entry("labels").or_insert_with(|| json!({}));
                if let Some(labels) = labels.as_object_mut() {
                    labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
                }
            }
        }
        ResourceType::Custom => {
            if let Some(schema) = &resource.schema {
                schema::set_defaults(schema, object);
            }
        }
        _ => {}
    }
}

/// Returns the top-level fields that a write does not change, for field ownership. `only:status` means all fields
/// except `status`.
pub(crate) fn reset_fields(resource: &Resource, status: bool) -> &'static [&'static str] {
    match (resource.resource_type, status) {
        (
            ResourceType::Node
            | ResourceType::Namespace
            | ResourceType::Pod
            | ResourceType::ReplicaSet
            | ResourceType::PodDisruptionBudget
            | ResourceType::VolumeAttachment,
            true,
        ) => &["spec"],
        (ResourceType::Definition | ResourceType::Custom, true) => &["only:status"],
        _ if resource.status => &["status"],
        _ => &[],
    }
}

fn drop_config_source(profile: ServerProfile, object: &mut Value) {
    if profile.keeps_config_source() {
        return;
    }
    for (part, key) in [("spec", "configSource"), ("status", "config")] {
        if let Some(map) = object.get_mut(part).and_then(Value::as_object_mut) {
            map.shift_remove(key);
        }
    }
}

fn add_not_ready_taint(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let Some(taints) = spec.entry("taints").or_insert_with(|| json!([])).as_array_mut() else { return };
    if !taints.iter().any(|taint| text(taint, "/key") == KEY && text(taint, "/effect") == "NoSchedule") {
        taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
    }
}

/// Prepares a new object: sets its uid, creation time and initial status, and drops fields that a client may not set.
pub(crate) fn create(resource: &Resource, profile: ServerProfile, object: &mut Value, uid: String, now: Timestamp) {
    match resource.resource_type {
        ResourceType::Node => {
            drop_config_source(profile, object);
            add_not_ready_taint(object);
        }
        ResourceType::Namespace => {
            set_field(object, "status", json!({"phase": "Active"}));
            set_field(object, "spec", json!({"finalizers": ["kubernetes"]}));
        }
        ResourceType::Definition => {
            let status = definition::initial_status(object);
            set_field(object, "status", status);
        }
        ResourceType::Pod => {
            let status = pod::initial_status(object);
            set_field(object, "status", status);
        }
        ResourceType::ReplicaSet => set_field(object, "status", json!({"replicas": 0})),
        ResourceType::PodDisruptionBudget => set_field(object, "status", workload_shapes::empty_budget_status()),
        _ if resource.status => {
            if let Some(map) = object.as_object_mut() {
                map.shift_remove("status");
            }
        }
        _ => {}
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"] {
            metadata.shift_remove(key);
        }
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), time_text(now).into());
        if resource.counts_generations(profile) {
            metadata.insert("generation".to_owned(), 1.into());
        }
    }
}

fn copy_field(from: &Value, to: &mut Value, key: &str) {
    if let Some(map) = to.as_object_mut() {
        match from.get(key) {
            Some(value) => {
                map.insert(key.to_owned(), value.clone());
            }
            None => {
                map.shift_remove(key);
            }
        }
    }
}

/// Reports whether any field except apiVersion, kind and metadata differs. If `status` is set, the status does not
/// count.
fn spec_differs(old: &Value, new: &Value, status: bool) -> bool {
    let counts =
        |key: &&String| !(matches!(key.as_str(), "apiVersion" | "kind" | "metadata") || status && *key == "status");
    let empty = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    old.keys().chain(new.keys()).filter(counts).any(|key| old.get(key) != new.get(key))
}

/// Prepares a changed object: restores the fields that this write may not change, and counts generations.
pub(crate) fn update(resource: &Resource, profile: ServerProfile, old: &Value, new: &mut Value, status: bool) {
    match (resource.resource_type, status) {
        (ResourceType::Node, _) => {
            copy_field(old, new, if status { "spec" } else { "status" });
            drop_config_source(profile, new);
        }
        (ResourceType::Namespace, true) => copy_field(old, new, "spec"),
        (ResourceType::Namespace, false) => {
            copy_field(old, new, "spec");
            copy_field(old, new, "status");
        }
        (ResourceType::Definition | ResourceType::Custom, true) => {
            let reported = new.get("status").cloned();
            let managed = new.pointer("/metadata/managedFields").cloned();
            let version = new.pointer("/metadata/resourceVersion").cloned();
            let api_version = new.get("apiVersion").cloned();
            *new = old.clone();
            let Some(map) = new.as_object_mut() else { return };
            map.shift_remove("status");
            map.extend(reported.map(|value| ("status".to_owned(), value)));
            map.extend(api_version.map(|value| ("apiVersion".to_owned(), value)));
            if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.extend(managed.map(|value| ("managedFields".to_owned(), value)));
                metadata.extend(version.map(|value| ("resourceVersion".to_owned(), value)));
            }
        }
        _ if resource.status => copy_field(old, new, if status { "spec" } else { "status" }),
        _ => {}
    }
    let generation = old.pointer("/metadata/generation").and_then(Value::as_u64);
    let bump = resource.counts_generations(profile) && !status && spec_differs(old, new, resource.status);
    let (from, to) = (old.get("metadata"), new.get_mut("metadata"));
    if let (Some(from), Some(to)) = (from, to) {
        for key in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"]
        {
            copy_field(from, to, key);
        }
        if let (Some(generation), true, Some(metadata)) = (generation, bump, to.as_object_mut()) {
            metadata.insert("generation".to_owned(), (generation + 1).into());
        }
    }
}

fn naming(resource: &Resource) -> Naming {
    if resource.resource_type == ResourceType::Namespace { Naming::Label } else { Naming::Subdomain }
}

/// Evaluates CEL rules, unless other errors block them.
fn check_rules(resource: &Resource, old: Option<&Value>, new: &Value, errors: &mut Vec<FieldError>) {
    if resource.rules.is_empty() {
        return;
    }
    if errors.iter().any(FieldError::blocks_rules) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                   complete validation";
        return errors.push(FieldError::invalid_shown("<nil>", "null", why));
    }
    resource.rules.check(new, old, "", errors);
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
    validate::meta::check(new, naming(resource), &mut errors);
    if let Some(old) = old {
        validate::meta::check_update(old, new, &mut errors);
    }
    match resource.resource_type {
        ResourceType::Node if status => validate::node::check_status(new, &mut errors),
        ResourceType::Node => validate::node::check_spec(new, &mut errors),
        ResourceType::ConfigMap => {
            if let Some(old) = old {
                validate::config_map::check_update(old, new, &mut errors);
            }
            validate::config_map::check(new, profile, &mut errors);
        }
        ResourceType::Event | ResourceType::EventsV1 => validate::event::check(new, &mut errors),
        ResourceType::Definition => definition::check(new, profile, &mut errors),
        ResourceType::Pod if !status => validate::workload::check_pod(old, new, &mut errors),
        ResourceType::PodDisruptionBudget => validate::workload::check_budget(new, &mut errors),
        ResourceType::Custom => {
            if let Some(schema) = &resource.schema {
                for (key, below) in new.as_object().into_iter().flatten() {
                    let known = schema.get("properties").and_then(|known| known.get(key));
                    if let Some(known) = known.filter(|_| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
                        schema::check(known, below, key, &mut errors);
                    }
                }
                let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
                for key in required.filter_map(Value::as_str).filter(|key| new.get(key).is_none()) {
                    errors.push(FieldError::required(key, ""));
                }
                check_rules(resource, old, new, &mut errors);
            }
        }
        _ => {}
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&resource.kind, &resource.group, text(new, "/metadata/name"), &errors))
}
