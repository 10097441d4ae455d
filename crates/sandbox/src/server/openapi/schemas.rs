//! OpenAPI schemas: of built-in kinds from the decoder's shapes with descriptions, of custom kinds from their
//! definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::resources::Resource;
use super::descriptions;
use crate::api::shape::{ListKind, Presence, Scalar, Shape};
use crate::api::{ServerProfile, builtin, event_view, workload_shapes};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// Schema name of Event in events.k8s.io. Event is the only built-in kind in two groups.
const EVENT: &str = "io.k8s.api.events.v1.Event";
const API_VERSION: &str = "The group and version of this object's schema.";
const KIND: &str = "The kind of this object, in CamelCase.";

/// Schemas of a document by name.
pub(super) struct Schemas {
    profile: ServerProfile,
    reference: &'static str,
    definitions: BTreeMap<String, Value>,
}

impl Schemas {
    /// Creates an empty set; `reference` is the prefix of references to its schemas.
    pub(super) fn new(profile: ServerProfile, reference: &'static str) -> Self {
        Self { profile, reference, definitions: BTreeMap::new() }
    }

    /// Returns all schemas as a document's object.
    pub(super) fn into_value(self) -> Value {
        self.definitions.into_iter().collect::<Map<_, _>>().into()
    }

    /// Adds the kind of a resource and the types that it references.
    pub(super) fn add(&mut self, resource: &Resource) {
        let mut schema = match built_in(self.profile, resource) {
            Some(shape) => self.of_shape(&resource.kind, &shape, true),
            None => self.of_custom(resource),
        };
        if let Some(fields) = schema.as_object_mut() {
            let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
            fields.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind]));
        }
        let name = match resource.schema {
            None if resource.group == "events.k8s.io" => Some(EVENT.to_owned()),
            None => descriptions::type_name(&resource.kind).map(str::to_owned),
            Some(_) => {
                let group: Vec<&str> = resource.group.rsplit('.').collect();
                Some(format!("{}.{}.{}", group.join("."), resource.version, resource.kind))
            }
        };
        self.definitions.insert(name.unwrap_or_else(|| resource.kind.clone()), schema);
    }

    fn refer(&self, name: &str, description: Option<&str>) -> Value {
        let target = format!("{}{name}", self.reference);
        match description {
            None => json!({"$ref": target}),
            // Version 3 ignores fields beside a reference.
            Some(description) if self.reference.contains("components") => {
                json!({"description": description, "allOf": [{"$ref": target}]})
            }
            Some(description) => json!({"description": description, "$ref": target}),
        }
    }

    fn object_meta(&mut self) -> Value {
        if !self.definitions.contains_key(OBJECT_META) {
            let schema = self.of_shape("ObjectMeta", &builtin::object_meta(), true);
            self.definitions.insert(OBJECT_META.to_owned(), schema);
        }
        self.refer(OBJECT_META, Some(descriptions::OBJECT_META))
    }

    fn of_custom(&mut self, resource: &Resource) -> Value {
        let mut schema = resource.schema.clone().filter(Value::is_object).unwrap_or_else(|| json!({"type": "object"}));
        if let Some(fields) = schema.as_object_mut() {
            let properties = fields.entry("properties").or_insert_with(|| json!({}));
            if let Some(properties) = properties.as_object_mut() {
                properties.insert("apiVersion".to_owned(), json!({"type": "string", "description": API_VERSION}));
                properties.insert("kind".to_owned(), json!({"type": "string", "description": KIND}));
                properties.insert("metadata".to_owned(), self.object_meta());
            }
        }
        schema
    }

    /// Schema of a shape. `path` is the kind and the fields that lead to the shape, joined by dots. With
    /// `definition`, returns the schema itself instead of a reference.
    fn of_shape(&mut self, path: &str, shape: &Shape, definition: bool) -> Value {
        if !definition && let Some(name) = descriptions::type_name(path) {
            if !self.definitions.contains_key(name) {
                let schema = self.of_shape(descriptions::canonical(path), shape, true);
                self.definitions.insert(name.to_owned(), schema);
            }
            return self.refer(name, descriptions::of(self.profile, path));
        }
        let mut schema = match shape {
            Shape::Scalar(Scalar::Text | Scalar::Any) => json!({"type": "string"}),
            Shape::Scalar(Scalar::Integer) => json!({"type": "integer", "format": "int32"}),
            Shape::Scalar(Scalar::Boolean) => json!({"type": "boolean"}),
            Shape::Struct(fields) => {
                let mut properties = Map::new();
                let mut required = Vec::new();
                for (name, field) in fields.iter() {
                    let property = match name.as_str() {
                        "metadata" => self.object_meta(),
                        "apiVersion" if !path.contains('.') => json!({"type": "string", "description": API_VERSION}),
                        "kind" if !path.contains('.') => json!({"type": "string", "description": KIND}),
                        _ => self.of_shape(&format!("{path}.{name}"), &field.shape, false),
                    };
                    properties.insert(name.clone(), property);
                    // The texts of an Event are always present but not required: API servers set them.
                    if field.presence == Presence::Always("".into()) && path != "Event" {
                        required.push(name.clone());
                    }
                }
                let mut schema = json!({"type": "object", "properties": properties});
                if let (false, Some(schema)) = (required.is_empty(), schema.as_object_mut()) {
                    schema.insert("required".to_owned(), json!(required));
                }
                schema
            }
            Shape::Map(values) => {
                json!({"type": "object", "additionalProperties": self.of_shape(&format!("{path}.*"), values, false)})
            }
            Shape::List(items, kind) => {
                let mut schema = json!({"type": "array", "items": self.of_shape(&format!("{path}[]"), items, false)});
                if let (Some(schema), Value::Object(merging)) = (schema.as_object_mut(), merging(kind)) {
                    schema.extend(merging);
                }
                schema
            }
            Shape::AtomicMap(inner) => {
                let mut schema = self.of_shape(path, inner, true);
                if let Some(schema) = schema.as_object_mut() {
                    schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
                }
                schema
            }
            Shape::Untyped => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        if let (Some(description), Some(schema)) = (descriptions::of(self.profile, path), schema.as_object_mut()) {
            schema.insert("description".to_owned(), description.into());
        }
        schema
    }
}

/// Merge rules of a list.
fn merging(kind: &ListKind) -> Value {
    match kind {
        ListKind::Atomic => json!({"x-kubernetes-list-type": "atomic"}),
        ListKind::Set => json!({"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}),
        ListKind::Map(keys) => json!({
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys,
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": keys.first(),
        }),
    }
}

fn built_in(profile: ServerProfile, resource: &Resource) -> Option<Shape> {
    if resource.schema.is_some() {
        return None;
    }
    Some(match resource.kind.as_str() {
        "Node" => builtin::node(),
        "ConfigMap" => builtin::config_map(),
        "Namespace" => builtin::namespace(),
        "Pod" => workload_shapes::pod(),
        "ReplicaSet" => workload_shapes::replica_set(),
        "PodDisruptionBudget" => workload_shapes::pod_disruption_budget(profile),
        "VolumeAttachment" => workload_shapes::volume_attachment(),
        "SelfSubjectReview" => Shape::Untyped,
        // Stored without a known schema.
        "ServiceAccount" | "DaemonSet" | "CronJob" => Shape::Untyped,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => Shape::Untyped,
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => Shape::Untyped,
        "Event" if resource.group == "events.k8s.io" => renamed(builtin::event(profile)),
        "Event" => builtin::event(profile),
        "Lease" => builtin::lease(),
        "CustomResourceDefinition" => builtin::custom_resource_definition(),
        "SelfSubjectAccessReview" => builtin::self_subject_access_review(),
        _ => return None,
    })
}

/// Shape of an Event with the field names of events.k8s.io.
fn renamed(event: Shape) -> Shape {
    let Shape::Struct(fields) = event else { return event };
    let new = |name: &str| event_view::NAMES.iter().find(|(old, _)| *old == name).map(|(_, new)| *new);
    let renamed = fields.iter().map(|(name, field)| (new(name).unwrap_or(name).to_owned(), field.clone()));
    Shape::Struct(Arc::new(renamed.collect()))
}
