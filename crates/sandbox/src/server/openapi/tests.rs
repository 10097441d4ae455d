//! Tests of the OpenAPI documents with kubectl's requests.

use std::collections::BTreeSet;

use super::super::resources::tests::definition;
use super::*;

fn read(profile: ServerProfile, path: &str) -> Value {
    let response = document(profile, path, "application/json", &[definition()]).expect(path);
    serde_json::from_slice(&response.body).expect("is JSON")
}

#[test]
fn index_lists_documents_with_hashes_independent_of_other_documents() {
    let index = read(ServerProfile::V1_36, "/openapi/v3");
    let paths = index["paths"].as_object().expect("is a map");
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/example.dev/v1alpha1"));
    for (path, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().expect("is text");
        let (at, hash) = url.split_once("?hash=").expect("is stamped");
        assert_eq!((at, hash.len()), (format!("/openapi/v3/{path}").as_str(), 64));
        assert_eq!(read(ServerProfile::V1_36, at)["openapi"], "3.0.0");
    }
    let other = document(ServerProfile::V1_36, "/openapi/v3", "", &[]).expect("is there");
    let other: Value = serde_json::from_slice(&other.body).expect("is JSON");
    assert_eq!(other["paths"]["api/v1"], index["paths"]["api/v1"]);
    assert!(other["paths"].get("apis/example.dev/v1").is_none());
}

#[test]
fn version_3_is_missing_in_1_21() {
    assert!(document(ServerProfile::V1_21, "/openapi/v3", "", &[]).is_none());
    assert!(document(ServerProfile::V1_21, "/openapi/v2", "", &[]).is_some());
    assert!(document(ServerProfile::V1_36, "/openapi/v3/apis/policy/v2", "", &[]).is_none());
    assert!(document(ServerProfile::V1_36, "/openapi/v4", "", &[]).is_none());
}

#[test]
fn patch_parameters_show_field_validation() {
    for (profile, validates) in [(ServerProfile::V1_21, false), (ServerProfile::V1_36, true)] {
        let paths = read(profile, "/openapi/v2")["paths"].clone();
        for path in ["/api/v1/nodes/{name}", "/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}"] {
            let patch = &paths[path]["patch"];
            let names: Vec<_> =
                patch["parameters"].as_array().expect("is a list").iter().map(|p| p["name"].clone()).collect();
            assert_eq!(names.contains(&"fieldValidation".into()), validates, "{path}");
            assert!(names.contains(&"dryRun".into()), "{path}");
        }
    }
}

/// Collects all references of a document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn all_references_resolve() {
    for (path, prefix, at) in [
        ("/openapi/v3/api/v1", "#/components/schemas/", "/components/schemas"),
        ("/openapi/v3/apis/example.dev/v1", "#/components/schemas/", "/components/schemas"),
        ("/openapi/v2", "#/definitions/", "/definitions"),
    ] {
        let document = read(ServerProfile::V1_36, path);
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let name = reference.strip_prefix(prefix).expect("is of this document");
            assert!(document.pointer(at).expect("has schemas").get(name).is_some(), "{path}: {reference}");
        }
    }
}

#[test]
fn config_source_description_depends_on_version() {
    let description = |profile| {
        let document = read(profile, "/openapi/v2");
        let spec = &document["definitions"]["io.k8s.api.core.v1.NodeSpec"]["properties"];
        spec["configSource"]["description"].as_str().expect("is described").to_owned()
    };
    assert!(description(ServerProfile::V1_21).contains("--dynamic-config-dir"));
    assert!(description(ServerProfile::V1_36).contains("dropped on write"));
}

#[test]
fn every_described_field_exists() {
    let document = read(ServerProfile::V1_36, "/openapi/v2");
    let definitions = &document["definitions"];
    for field in descriptions::tests::paths() {
        let mut steps = field.split('.');
        let kind = steps.next().expect("begins with a kind");
        let found =
            definitions.as_object().expect("is a map").iter().filter(|(name, _)| name.ends_with(&format!(".{kind}")));
        // Event exists in two groups with different fields.
        let first = steps.clone().next().map(|step| step.trim_end_matches("[]"));
        let mut schema = found
            .map(|(_, schema)| schema)
            .find(|schema| first.is_none_or(|step| schema["properties"].get(step).is_some()))
            .unwrap_or_else(|| panic!("{field}: no such kind or field"));
        for step in steps {
            let (name, item) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
            schema = &schema["properties"][name];
            if item {
                schema = &schema["items"];
            }
            if let Some(reference) = schema["$ref"].as_str() {
                schema = &definitions[reference.rsplit('/').next().expect("has a name")];
            }
            assert!(schema.is_object(), "{field}: no {step}");
        }
    }
}

#[test]
fn lists_have_merge_rules() {
    let document = read(ServerProfile::V1_36, "/openapi/v3/api/v1");
    let conditions = &document["components"]["schemas"]["io.k8s.api.core.v1.NodeStatus"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-patch-merge-key"], "type");
    assert_eq!(conditions["x-kubernetes-patch-strategy"], "merge");
}
