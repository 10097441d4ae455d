//! OpenAPI operations of a resource. kubectl reads the resource's kind and the PATCH parameters from them.

use serde_json::{Map, Value, json};

use super::super::resources::Resource;
use super::schema_path;
use crate::api::ServerProfile;

/// Paths of a resource with their operations. `parameter` renders a query parameter from its name and JSON type.
pub(super) fn of(
    profile: ServerProfile,
    resource: &Resource,
    parameter: impl Fn(&str, &str) -> Value,
) -> Map<String, Value> {
    let base = format!("/{}", schema_path(resource));
    let all = format!("{base}/{}", resource.plural);
    let collection = match resource.namespaced {
        true => format!("{base}/namespaces/{{namespace}}/{}", resource.plural),
        false => all.clone(),
    };
    let single = format!("{collection}/{{name}}");
    let mut paths = Map::new();
    let mut add = |path: &str, method: &str, action: &str| {
        let entry = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        if let Some(entry) = entry.as_object_mut() {
            entry.insert(method.to_owned(), operation(profile, resource, method, action, &parameter));
        }
    };
    for verb in resource.verbs {
        match *verb {
            "create" => add(&collection, "post", "post"),
            "deletecollection" => add(&collection, "delete", "deletecollection"),
            "list" => {
                add(&collection, "get", "list");
                add(&all, "get", "list");
            }
            "get" => add(&single, "get", "get"),
            "update" => add(&single, "put", "put"),
            "patch" => add(&single, "patch", "patch"),
            "delete" => add(&single, "delete", "delete"),
            _ => {}
        }
    }
    for subresource in &resource.subresources {
        let path = format!("{single}/{}", subresource.name);
        for (verb, method) in [("create", "post"), ("get", "get"), ("update", "put"), ("patch", "patch")] {
            if subresource.verbs.contains(&verb) {
                add(&path, method, method);
            }
        }
    }
    paths
}

fn operation(
    profile: ServerProfile,
    resource: &Resource,
    method: &str,
    action: &str,
    parameter: &impl Fn(&str, &str) -> Value,
) -> Value {
    let mut parameters = Vec::new();
    if method != "get" {
        parameters.push(parameter("dryRun", "string"));
    }
    if matches!(method, "post" | "put" | "patch") {
        parameters.push(parameter("fieldManager", "string"));
        // With this parameter, kubectl leaves field validation to the server. Without it, kubectl validates itself.
        if profile.validates_fields() {
            parameters.push(parameter("fieldValidation", "string"));
        }
    }
    if method == "patch" {
        parameters.push(parameter("force", "boolean"));
    }
    json!({
        "description": format!("{action} {}", resource.kind),
        "operationId": format!("{action}{}{}", capitalised(&resource.version), resource.kind),
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": resource.group, "version": resource.version, "kind": resource.kind,
        },
    })
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
