//! Documents with which kubectl finds resources: discovery, and the part of OpenAPI v3 that it needs.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::object::set_field;
use super::resource::{Resource, ResourceType};

/// Returns the discovery or OpenAPI document of a path. `resources` are all served ones, sorted by group.
pub(super) fn document(path: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] => {
            let mut names: Vec<&str> = resources.iter().map(|resource| &*resource.group).collect();
            names.dedup();
            let groups = names.into_iter().filter(|name| !name.is_empty()).map(|name| group(name, resources));
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>()}))
        }
        ["apis", name] if resources.iter().any(|resource| resource.group == *name) => {
            let mut document = group(name, resources);
            set_field(&mut document, "kind", "APIGroup");
            set_field(&mut document, "apiVersion", "v1");
            Some(document)
        }
        ["api", "v1"] => resource_list("v1", resources),
        ["apis", group, version] => resource_list(&format!("{group}/{version}"), resources),
        ["openapi", "v3"] => {
            let address = |resource: &Arc<Resource>| {
                let path = openapi_path(resource);
                let url = format!("/openapi/v3/{path}");
                (path, json!({"serverRelativeURL": url}))
            };
            Some(json!({"paths": resources.iter().map(address).collect::<Map<String, Value>>()}))
        }
        ["openapi", "v3", rest @ ..] => openapi(&rest.join("/"), resources),
        _ => None,
    }
}

/// Entry of a group. The first version is the preferred one.
fn group(name: &str, resources: &[Arc<Resource>]) -> Value {
    let mut versions: Vec<&str> =
        resources.iter().filter(|resource| resource.group == name).map(|resource| &*resource.version).collect();
    versions.dedup();
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn resource_list(group_version: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let here = resources.iter().filter(|resource| resource.api_version() == group_version);
    let entries: Vec<Value> = here.flat_map(|resource| entries(resource)).collect();
    let list =
        || json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries});
    (!entries.is_empty()).then(list)
}

/// Entries of a resource and its subresources.
fn entries(resource: &Resource) -> Vec<Value> {
    let mut all = vec![json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "shortNames": resource.short_names,
        "verbs": resource.verbs(),
    })];
    let mut below = |subresource: &str, group: &str, version: &str, kind: &str, verbs: &[&str]| {
        all.push(json!({
            "name": format!("{}/{subresource}", resource.plural),
            "singularName": "",
            "namespaced": resource.namespaced,
            "group": group,
            "version": version,
            "kind": kind,
            "verbs": verbs,
        }));
    };
    if resource.resource_type == ResourceType::Pod {
        below("eviction", "policy", "v1", "Eviction", &["create"]);
    }
    if resource.status {
        below("status", &resource.group, &resource.version, &resource.kind, &["get", "patch", "update"]);
    }
    all
}

fn openapi_path(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", resource.api_version())
}

/// OpenAPI document of a group version. kubectl looks for the parameter `fieldValidation` of PATCH, without which it
/// validates objects itself. Only custom resources have schemas; `kubectl explain` knows no others.
fn openapi(path: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let here: Vec<&Arc<Resource>> = resources.iter().filter(|resource| openapi_path(resource) == path).collect();
    if here.is_empty() {
        return None;
    }
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in here {
        let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let namespace = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let operation = json!({
            "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
            "responses": {},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind,
        });
        paths.insert(format!("/{path}{namespace}/{}/{{name}}", resource.plural), json!({"patch": operation}));
        if let Some(mut schema) = resource.schema().cloned() {
            set_field(&mut schema, "x-kubernetes-group-version-kind", json!([kind]));
            schemas.insert(format!("{}.{}", resource.kind, resource.version), schema);
        }
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "nodecfg sandbox"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}
