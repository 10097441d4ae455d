//! Schemas: for built-in kinds from the shapes that the API server decodes by, with words for people; for custom kinds
//! from their definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::served::Resource;
use super::words;
use crate::api::shape::{ListKind, Presence, Scalar, Shape};
use crate::api::{ServerProfile, builtin, event_view};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The one built-in kind that two groups share.
const EVENT: &str = "io.k8s.api.events.v1.Event";
const API_VERSION: &str = "The group and version of this object's schema.";
const KIND: &str = "The kind of this object, in CamelCase.";

/// The schemas of a document, by name.
pub(super) struct Schemas {
    character: ServerProfile,
    reference: &'static str,
    definitions: BTreeMap<String, Value>,
}

impl Schemas {
    /// No schemas yet; `reference` begins every reference to one.
    pub(super) fn new(character: ServerProfile, reference: &'static str) -> Self {
        Self { character, reference, definitions: BTreeMap::new() }
    }

    /// All of them, as the document holds them.
    pub(super) fn into_value(self) -> Value {
        self.definitions.into_iter().collect::<Map<_, _>>().into()
    }

    /// Adds the kind of a resource and what it refers to.
    pub(super) fn add(&mut self, resource: &Resource) {
        let mut schema = match built_in(self.character, resource) {
            Some(shape) => self.of_shape(&resource.kind, &shape, true),
            None => self.of_custom(resource),
        };
        if let Some(fields) = schema.as_object_mut() {
            let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
            fields.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind]));
        }
        let name = match resource.schema {
            None if resource.group == "events.k8s.io" => Some(EVENT.to_owned()),
            None => words::type_name(&resource.kind).map(str::to_owned),
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
            // Version 3 ignores what stands beside a reference.
            Some(words) if self.reference.contains("components") => {
                json!({"description": words, "allOf": [{"$ref": target}]})
            }
            Some(words) => json!({"description": words, "$ref": target}),
        }
    }

    fn object_meta(&mut self) -> Value {
        if !self.definitions.contains_key(OBJECT_META) {
            let schema = self.of_shape("ObjectMeta", &builtin::object_meta(), true);
            self.definitions.insert(OBJECT_META.to_owned(), schema);
        }
        self.refer(OBJECT_META, Some("What every object has: its name, labels, annotations and history."))
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

    /// The schema of a shape. `path` is the kind and the fields that lead to it, joined by dots; `definition` says that
    /// the schema is wanted itself and not a reference to it.
    fn of_shape(&mut self, path: &str, shape: &Shape, definition: bool) -> Value {
        if !definition && let Some(name) = words::type_name(path) {
            if !self.definitions.contains_key(name) {
                let schema = self.of_shape(words::canonical(path), shape, true);
                self.definitions.insert(name.to_owned(), schema);
            }
            return self.refer(name, words::of(self.character, path));
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
                    // An Event's always present texts are the exception: API servers fill them in.
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
            Shape::Whole(inner) => {
                let mut schema = self.of_shape(path, inner, true);
                if let Some(schema) = schema.as_object_mut() {
                    schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
                }
                schema
            }
            Shape::Free => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        if let (Some(words), Some(schema)) = (words::of(self.character, path), schema.as_object_mut()) {
            schema.insert("description".to_owned(), words.into());
        }
        schema
    }
}

/// How clients merge a list.
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

fn built_in(character: ServerProfile, resource: &Resource) -> Option<Shape> {
    if resource.schema.is_some() {
        return None;
    }
    Some(match resource.kind.as_str() {
        "Node" => builtin::node(),
        "ConfigMap" => builtin::config_map(),
        "Namespace" => builtin::namespace(),
        "Pod" => Shape::Free,
        "SelfSubjectReview" => Shape::Free,
        // Merely kept.
        "ServiceAccount" | "DaemonSet" | "CronJob" => Shape::Free,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => Shape::Free,
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => Shape::Free,
        "Event" if resource.group == "events.k8s.io" => renamed(builtin::event(character)),
        "Event" => builtin::event(character),
        "Lease" => builtin::lease(),
        "CustomResourceDefinition" => builtin::custom_resource_definition(),
        "SelfSubjectAccessReview" => builtin::self_subject_access_review(),
        _ => return None,
    })
}

/// The shape of an Event under the names that events.k8s.io gives its fields.
fn renamed(event: Shape) -> Shape {
    let Shape::Struct(fields) = event else { return event };
    let new = |name: &str| event_view::NAMES.iter().find(|(old, _)| *old == name).map(|(_, new)| *new);
    let renamed = fields.iter().map(|(name, field)| (new(name).unwrap_or(name).to_owned(), field.clone()));
    Shape::Struct(Arc::new(renamed.collect()))
}
