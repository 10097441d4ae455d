//! Tests of the CustomResourceDefinition: its YAML, and that it refuses what API servers up to 1.25 refused of a
//! Node. The reference is recordings and the sandbox's API server 1.21, which is tested against the recordings.

use cel::{Context, Program};
use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};
use proptest::{option, sample};
use serde_json::{Value, json};

use crate::nodeconfig::definition;
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

fn schema() -> Value {
    definition().pointer("/spec/versions/0/schema/openAPIV3Schema").expect("a schema").clone()
}

/// Refusals of an object by path: those of the schema, or else those of the CEL rules.
fn refusals(object: &Value) -> Vec<String> {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).expect("a JSON schema");
    let mut refused: Vec<String> = validator
        .iter_errors(object)
        .map(|error| {
            format!("{}: {error}", error.instance_path().to_string().trim_start_matches('/').replace('/', "."))
        })
        .collect();
    if refused.is_empty() {
        evaluate(&schema, object, "", &mut refused);
    }
    refused.sort();
    refused
}

fn evaluate(schema: &Value, value: &Value, path: &str, refused: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let text = rule["rule"].as_str().expect("a rule");
        // A transition rule does not apply to a new object.
        if text.contains("oldSelf") {
            continue;
        }
        let program = Program::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut context = Context::default();
        context.add_variable("self", value).expect("a value");
        match program.execute(&context) {
            Ok(cel::Value::Bool(true)) => {}
            Ok(cel::Value::Bool(false)) => refused.push(format!("{path}: {}", rule["message"].as_str().expect("text"))),
            other => panic!("{text} of {value}: {other:?}"),
        }
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            evaluate(below, value, &path, refused);
        }
    }
}

/// A NodeConfig with this source.
fn with_source(source: &Value) -> Value {
    json!({"spec": {"configSource": source}})
}

/// A source with one change.
fn source_with(change: &Value) -> Value {
    let mut source = json!({"configMap": {"name": "a", "namespace": "kube-system", "kubeletConfigKey": "kubelet"}});
    json_patch::merge(&mut source, &json!({"configMap": change}));
    source
}

#[test]
fn the_definition_as_yaml() {
    insta::assert_snapshot!(serde_saphyr::to_string(&definition()).expect("YAML"));
}

/// The rules of structural schemas that these types could violate, and nodecfg's own.
#[test]
fn schema_is_structural_with_bounded_texts() {
    fn walk(schema: &Value, path: &str) {
        let kind = schema["type"].as_str().unwrap_or_else(|| panic!("{path} has no type"));
        for forbidden in
            ["$ref", "nullable", "default", "oneOf", "anyOf", "allOf", "not", "title", "definitions", "$defs"]
        {
            assert!(schema.get(forbidden).is_none(), "{path}: {forbidden}");
        }
        if let Some(format) = schema.get("format") {
            assert!(["int64", "date-time"].contains(&format.as_str().expect("text")), "{path}: {format}");
        }
        if kind == "string" {
            let bounded = ["maxLength", "format", "enum"].iter().any(|bound| schema.get(bound).is_some());
            assert!(bounded, "{path} is unbounded");
        }
        if let Some(text) = schema.get("description").and_then(Value::as_str) {
            assert!(!text.contains(['\n', '[']), "{path}: {text}");
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(schema["properties"].get(required.as_str().expect("text")).is_some(), "{path}: {required}");
        }
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            walk(below, &format!("{path}.{name}"));
        }
        if kind == "array" {
            assert!(schema.get("maxItems").is_some(), "{path} is unbounded");
            walk(&schema["items"], &format!("{path}[]"));
        }
    }
    walk(&schema(), "");
}

#[test]
fn refuses_invalid_spec_with_reason() {
    assert_eq!(refusals(&with_source(&source_with(&json!({})))), [""; 0]);
    assert_eq!(refusals(&json!({"spec": {}})), [""; 0]);
    let cases = [
        (json!({}), ": \"configMap\" is a required property"),
        (source_with(&json!({"name": null})), ".configMap: \"name\" is a required property"),
        (source_with(&json!({"namespace": ""})), ".configMap.namespace: \"\" is shorter than 1 character"),
        (
            source_with(&json!({"namespace": "a.b"})),
            ".configMap.namespace: must be an RFC 1123 label: a-z, 0-9 and '-', with a letter or digit at both ends",
        ),
        (
            source_with(&json!({"name": "A"})),
            ".configMap.name: must be an RFC 1123 subdomain: RFC 1123 labels with '.' between them",
        ),
        (
            source_with(&json!({"kubeletConfigKey": "a/b"})),
            ".configMap.kubeletConfigKey: must consist of letters, digits, '-', '_' and '.'",
        ),
        (
            source_with(&json!({"kubeletConfigKey": "..x"})),
            ".configMap.kubeletConfigKey: must not be '.' nor start with '..'",
        ),
        (
            source_with(&json!({"uid": "u"})),
            ".configMap.uid: must not be set in spec: the node takes whichever version it finds, and names it in status",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(refusals(&with_source(&source)), [format!("spec.configSource{expected}")], "{source}");
    }
}

#[test]
fn status_requires_uid_and_version() {
    let status = |source: Value| json!({"spec": {}, "status": {"config": {"active": source}}});
    assert_eq!(refusals(&status(source_with(&json!({"uid": "u", "resourceVersion": "1"})))), [""; 0]);
    for (source, expected) in [
        (source_with(&json!({"uid": "u"})), ".configMap: \"resourceVersion\" is a required property"),
        (source_with(&json!({"uid": "", "resourceVersion": "1"})), ".configMap.uid: \"\" is shorter than 1 character"),
        (json!({}), ": \"configMap\" is a required property"),
    ] {
        assert_eq!(refusals(&status(source.clone())), [format!("status.config.active{expected}")], "{source}");
    }
    assert_eq!(refusals(&json!({"spec": {}, "status": {"config": {}}})), [""; 0]);
}

/// Every recorded write of a configSource is accepted or refused here as well, and refused for the same fields.
#[test]
fn matches_recordings_of_api_server_1_21() {
    let recordings = include_str!("../../../../tests/data/recordings/apiserver-1.21.jsonl");
    let mut seen = (0, 0);
    for line in recordings.lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let Some(source) = case.pointer("/request/body/spec/configSource") else { continue };
        let refused = refusals(&with_source(source));
        match case["response"]["status"].as_u64() {
            Some(200 | 201) => {
                assert_eq!(refused, [""; 0], "{}", case["case"]);
                seen.0 += 1;
            }
            Some(422) => {
                let causes = case["response"]["body"]["details"]["causes"].as_array().expect("causes");
                for field in causes.iter().map(|cause| cause["field"].as_str().expect("a field")) {
                    // The schema reports a missing field at its parent.
                    let parent = field.rsplit_once('.').map_or(field, |(parent, _)| parent);
                    let named =
                        |refusal: &String| refusal.starts_with(field) || refusal.starts_with(&format!("{parent}: "));
                    assert!(refused.iter().any(named), "{}: {field} in {refused:?}", case["case"]);
                }
                seen.1 += 1;
            }
            _ => {}
        }
    }
    assert!(seen.0 >= 3 && seen.1 >= 4, "{seen:?}");
}

fn words() -> impl Strategy<Value = Option<String>> {
    let odd = sample::select(vec![
        "", ".", "..", "..a", "a..b", "-a", "a-", "a.b", "A", "a_b", "a/b", "ä", "a\n", "a.-b", ".a",
    ]);
    option::weighted(
        0.95,
        prop_oneof![
            3 => Just("kubelet".to_owned()),
            3 => odd.prop_map(str::to_owned),
            2 => "[-._a-zA-Z0-9]{1,4}",
            1 => "[a-z]{62,64}",
            1 => "[a-z]{252,254}",
        ],
    )
}

proptest! {
    #[test]
    fn refuses_like_api_server_1_21(
        name in words(),
        namespace in words(),
        key in words(),
        uid in option::weighted(0.1, sample::select(vec!["", "u"])),
        version in option::weighted(0.1, sample::select(vec!["", "1"])),
    ) {
        let api = Api::new(ApiOptions { profile: ServerProfile::V1_21, ..ApiOptions::default() });
        let fields = [
            ("name", name.as_deref()),
            ("namespace", namespace.as_deref()),
            ("kubeletConfigKey", key.as_deref()),
            ("uid", uid),
            ("resourceVersion", version),
        ];
        let map: serde_json::Map<String, Value> =
            fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?.into()))).collect();
        let source = json!({"configMap": map});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"configSource": source}});
        let accepted = api.create("", "nodes", "", node, "test").is_ok();
        let refused = refusals(&with_source(&source));
        prop_assert_eq!(accepted, refused.is_empty(), "{:?}", refused);
    }
}
