//! Discovery documents: one per group version and, from 1.26 on, an aggregated one (`apidiscovery.k8s.io`). They list
//! exactly the content of `resources`.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::resources::{self, Resource, Subresource};
use crate::api::{RenderedDocument, ServerProfile};

/// Discovery document at `path` in the format that `accept` requests; `None` for an unknown path.
#[must_use]
pub fn document(profile: ServerProfile, path: &str, accept: &str, crds: &[Value]) -> Option<RenderedDocument> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if !matches!(parts.first(), Some(&("api" | "apis"))) {
        return None;
    }
    let resources = resources::all(profile, crds);
    let aggregated = match profile {
        ServerProfile::V1_21 => None,
        ServerProfile::V1_36 => aggregated_version(accept),
    };
    match (parts.as_slice(), aggregated) {
        (["api"], None) => Some(json_document(&json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
        }))),
        (["apis"], None) => {
            let groups: Vec<Value> = groups(&resources).into_iter().map(|group| api_group(group, &resources)).collect();
            Some(json_document(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})))
        }
        (["api"], Some(version)) => Some(group_list(version, &[""], &resources)),
        (["apis"], Some(version)) => Some(group_list(version, &groups(&resources), &resources)),
        (["api", version], _) => resource_list("", version, &resources),
        (["apis", group], _) if groups(&resources).contains(group) => {
            let mut response = json!({"kind": "APIGroup", "apiVersion": "v1"});
            if let (Some(response), Value::Object(fields)) = (response.as_object_mut(), api_group(group, &resources)) {
                response.extend(fields);
            }
            Some(json_document(&response))
        }
        (["apis", group, version], _) if !group.is_empty() => resource_list(group, version, &resources),
        _ => None,
    }
}

fn json_document(document: &Value) -> RenderedDocument {
    RenderedDocument { content_type: "application/json".to_owned(), body: Bytes::from(document.to_string()) }
}

/// Version of aggregated discovery that a client prefers, if it accepts any. Clients list accepted formats in order
/// of preference.
fn aggregated_version(accept: &str) -> Option<&'static str> {
    accept.split(',').find_map(|range| {
        let mut parameters = range.split(';').map(str::trim);
        if !matches!(parameters.next(), Some("application/json")) {
            return None;
        }
        let (mut group, mut kind, mut version) = (false, false, None);
        for parameter in parameters {
            match parameter {
                "g=apidiscovery.k8s.io" => group = true,
                "as=APIGroupDiscoveryList" => kind = true,
                "v=v2" => version = Some("v2"),
                "v=v2beta1" => version = Some("v2beta1"),
                _ => {}
            }
        }
        version.filter(|_| group && kind)
    })
}

/// Named groups, in order.
fn groups(resources: &[Resource]) -> Vec<&str> {
    let mut groups: Vec<&str> =
        resources.iter().map(|resource| &*resource.group).filter(|name| !name.is_empty()).collect();
    groups.dedup();
    groups
}

/// Versions of a group, the preferred one first.
fn versions<'a>(group: &str, resources: &'a [Resource]) -> Vec<&'a str> {
    let mut versions: Vec<&str> =
        resources.iter().filter(|resource| resource.group == group).map(|resource| &*resource.version).collect();
    versions.dedup();
    versions
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn api_group(group: &str, resources: &[Resource]) -> Value {
    let versions: Vec<Value> = versions(group, resources)
        .into_iter()
        .map(|version| json!({"groupVersion": group_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

fn resource_list(group: &str, version: &str, resources: &[Resource]) -> Option<RenderedDocument> {
    let here: Vec<Value> = resources
        .iter()
        .filter(|resource| resource.group == group && resource.version == version)
        .flat_map(|resource| {
            std::iter::once(api_resource(resource))
                .chain(resource.subresources.iter().map(|below| api_subresource(resource, below)))
        })
        .collect();
    if here.is_empty() {
        return None;
    }
    // The core list has no apiVersion in the recordings; the lists of groups have one.
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version(group, version), "resources": here});
    if let (false, Some(list)) = (group.is_empty(), list.as_object_mut()) {
        list.insert("apiVersion".to_owned(), "v1".into());
    }
    Some(json_document(&list))
}

fn api_resource(resource: &Resource) -> Value {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), json!(resource.plural));
    entry.insert("singularName".to_owned(), json!(resource.singular));
    entry.insert("namespaced".to_owned(), json!(resource.namespaced));
    entry.insert("kind".to_owned(), json!(resource.kind));
    entry.insert("verbs".to_owned(), json!(resource.verbs));
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".to_owned(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".to_owned(), json!(resource.categories));
    }
    if let Some(hash) = resource.hash {
        entry.insert("storageVersionHash".to_owned(), json!(hash));
    }
    Value::Object(entry)
}

fn api_subresource(resource: &Resource, subresource: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": subresource.verbs,
    });
    if let (Some([group, version, kind]), Some(entry)) = (subresource.kind, entry.as_object_mut()) {
        for (key, value) in [("group", group), ("version", version), ("kind", kind)] {
            entry.insert(key.to_owned(), value.into());
        }
    }
    entry
}

fn group_list(version: &str, groups: &[&str], resources: &[Resource]) -> RenderedDocument {
    let items: Vec<Value> = groups.iter().map(|group| group_discovery(group, resources)).collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    });
    RenderedDocument {
        content_type: format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"),
        body: Bytes::from(list.to_string()),
    }
}

fn group_discovery(group: &str, resources: &[Resource]) -> Value {
    let versions: Vec<Value> = versions(group, resources)
        .into_iter()
        .map(|version| {
            let here: Vec<Value> = resources
                .iter()
                .filter(|resource| resource.group == group && resource.version == version)
                .map(resource_discovery)
                .collect();
            json!({"version": version, "resources": here, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({"creationTimestamp": null})
    } else {
        json!({"name": group, "creationTimestamp": null})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn resource_discovery(resource: &Resource) -> Value {
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if let Some(entry) = entry.as_object_mut() {
        for (key, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
            if !names.is_empty() {
                entry.insert(key.to_owned(), json!(names));
            }
        }
        let below: Vec<Value> = resource
            .subresources
            .iter()
            .map(|below| {
                let own =
                    below.kind.map(|[group, version, kind]| json!({"group": group, "version": version, "kind": kind}));
                json!({"subresource": below.name, "responseKind": own.as_ref().unwrap_or(&kind), "verbs": below.verbs})
            })
            .collect();
        if !below.is_empty() {
            entry.insert("subresources".to_owned(), json!(below));
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::super::resources::tests::definition;
    use super::*;

    fn read(profile: ServerProfile, path: &str, accept: &str) -> Value {
        let response = document(profile, path, accept, &[definition()]).expect(path);
        serde_json::from_slice(&response.body).expect("is JSON")
    }

    #[test]
    fn aggregated_discovery_is_negotiated() {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let older = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(read(ServerProfile::V1_36, "/apis", accept)["apiVersion"], "apidiscovery.k8s.io/v2");
        assert_eq!(read(ServerProfile::V1_36, "/apis", older)["apiVersion"], "apidiscovery.k8s.io/v2beta1");
        assert_eq!(read(ServerProfile::V1_36, "/apis", "application/json")["kind"], "APIGroupList");
        assert_eq!(read(ServerProfile::V1_21, "/apis", accept)["kind"], "APIGroupList");
        let core = read(ServerProfile::V1_36, "/api", accept);
        assert_eq!(core["items"][0]["versions"][0]["resources"][3]["subresources"][0]["subresource"], "status");
        assert_eq!(read(ServerProfile::V1_36, "/api", "*/*")["versions"], json!(["v1"]));
    }

    #[test]
    fn group_versions_match_their_documents() {
        for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
            for group in read(profile, "/apis", "")["groups"].as_array().expect("is a list") {
                let path = format!("/apis/{}", group["name"].as_str().expect("is text"));
                let document = read(profile, &path, "");
                assert_eq!((&document["kind"], &document["versions"]), (&"APIGroup".into(), &group["versions"]));
                assert_eq!(group["preferredVersion"], group["versions"][0]);
                for version in group["versions"].as_array().expect("is a list") {
                    let path = format!("/apis/{}", version["groupVersion"].as_str().expect("is text"));
                    assert_eq!(read(profile, &path, "")["groupVersion"], version["groupVersion"]);
                }
            }
        }
    }

    #[test]
    fn unserved_path_has_no_document() {
        for path in [
            "/apis/autoscaling",
            "/apis/policy/v2",
            "/api/v2",
            "/apis/example.dev/v0",
            "/api/v1/nodes",
            "/version",
            "/",
        ] {
            assert!(document(ServerProfile::V1_36, path, "", &[definition()]).is_none(), "{path}");
        }
        assert!(document(ServerProfile::V1_36, "/apis/example.dev/v1", "", &[]).is_none());
    }

    #[test]
    fn discovery_lists_custom_names_and_subresources() {
        let list = read(ServerProfile::V1_21, "/apis/example.dev/v1", "");
        assert_eq!(list["resources"][0]["shortNames"], json!(["wg"]));
        assert_eq!(
            (&list["resources"][0]["singularName"], &list["resources"][1]["name"]),
            (&"widget".into(), &"widgets/status".into())
        );
    }
}
