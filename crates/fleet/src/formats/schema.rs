//! JSON Schemas of the files that users write, derived from their types.

use schemars::JsonSchema;
use serde_json::Value;

use crate::formats::{FleetFile, NodePoolFile};

/// JSON Schema (2020-12) of `nodecfg.yaml`.
#[must_use]
pub fn fleet_schema() -> Value {
    of::<FleetFile>("fleet.v1alpha1")
}

/// JSON Schema (2020-12) of `pool.yaml`.
#[must_use]
pub fn nodepool_schema() -> Value {
    of::<NodePoolFile>("nodepool.v1alpha1")
}

/// Formats a schema as a file: indented, with a final newline.
#[must_use]
pub fn pretty(schema: &Value) -> String {
    format!("{schema:#}\n")
}

/// Schema of a type, published under this name.
pub fn of<T: JsonSchema>(name: &str) -> Value {
    let mut schema = schemars::schema_for!(T);
    schema.insert("$id".to_owned(), format!("https://nodecfg.dev/schemas/{name}.json").into());
    let mut schema = schema.to_value();
    tidy(&mut schema);
    schema
}

/// Removes defaults that only follow from the Rust types (null, empty lists, objects), and line breaks in
/// descriptions. The descriptions state the actual defaults.
pub fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let nothing = |default: &Value| match default {
                Value::Null | Value::Object(_) => true,
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if map.get("default").is_some_and(nothing) {
                map.shift_remove("default");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            for (key, value) in map.iter_mut() {
                match (key.as_str(), value) {
                    // Maps of field names, one of which may be `default`.
                    ("properties" | "$defs", Value::Object(schemas)) => schemas.values_mut().for_each(tidy),
                    (_, value) => tidy(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use kubelet_config::document::Document;

    /// The schema and the reader accept the same files.
    #[test]
    fn schema_and_reader_agree() {
        let head = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: gpu}\n";
        let validator = jsonschema::validator_for(&nodepool_schema()).expect("a schema");
        for (spec, good) in [
            ("", true),
            ("spec: {}", true),
            ("spec: {nodeSelector: {}}", true),
            ("spec: {nodeSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: Exists}]}}", true),
            ("spec: {nodeSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}, priority: -5}", true),
            ("spec: {kubelet: {base: ../x.yaml, patches: [a.yaml], local: false}}", true),
            ("spec: {kubelet: {placement: overlay}}", true),
            ("spec: {kubelet: {placement: replace}}", true),
            ("spec: {kubelet: {placement: Overlay}}", false),
            ("spec: {kubelet: {own: ../own.yaml}}", true),
            ("spec: {kubelet: {own: true}}", false),
            ("spec: {kubelet: {placement: true}}", false),
            ("spec: {kubelet: {acceptRemoved: [clusterDNS, kubeReserved]}}", true),
            ("spec: {kubelet: {acceptRemoved: [maxPods]}}", false),
            ("spec: {kubelet: {acceptRemoved: clusterDNS}}", false),
            (
                "spec: {rollout: {maxUnavailable: 3, canary: {nodes: 0, soak: 1h30m}, maxFailures: 2, paused: true}}",
                true,
            ),
            ("spec: {rollout: {maxUnavailable: 100%, convergenceTimeout: 1.5m}}", true),
            ("spec: {rollout: {allowDisruption: drain}}", true),
            ("spec: {rollout: {allowDisruption: none}}", true),
            ("spec: {rollout: {allowDisruption: Drain}}", false),
            ("spec: {rollout: {allowDisruption: true}}", false),
            ("spec: {rollout: {order: {}}}", true),
            ("spec: {rollout: {order: {by: rack, soak: 10m}}}", true),
            ("spec: {rollout: {order: {soak: 10m}}}", false),
            ("spec: {rollout: {order: rack}}", false),
            ("spec: {rollout: {drain: {}}}", true),
            (
                "spec: {rollout: {drain: {mode: accept, timeout: 20m, settle: 0s, emptyDir: delete, unmanaged: delete, \
                 skip: {matchLabels: {a: b}}, onTimeout: hold}}}",
                true,
            ),
            ("spec: {rollout: {drain: {mode: Evict}}}", false),
            ("spec: {rollout: {drain: {emptyDir: true}}}", false),
            ("spec: {rollout: {drain: {timeout: 15}}}", false),
            ("spec: {rollout: {drain: {order: priority}}}", false),
            (
                "spec: {rollout: {windows: [{start: Sat 22:00, length: 6h, timeZone: Europe/Berlin}], \
                 exclusions: [{from: 2026-12-18T00:00:00Z, to: 2027-01-04T00:00:00Z, reason: freeze}], \
                 outsideWindows: restart}}",
                true,
            ),
            ("spec: {rollout: {windows: []}}", true),
            ("spec: {rollout: {after: [general, edge]}}", true),
            ("spec: {rollout: {after: general}}", false),
            ("spec: {rollout: {windows: [{start: Mon-Fri 22:00, length: 1h, timeZone: UTC}]}}", true),
            ("spec: {rollout: {windows: [{start: '22:00', length: 1h, timeZone: UTC}]}}", true),
            ("spec: {rollout: {windows: [{start: Sat 24:00, length: 1h, timeZone: UTC}]}}", false),
            ("spec: {rollout: {windows: [{start: sat 22:00, length: 1h, timeZone: UTC}]}}", false),
            ("spec: {rollout: {windows: [{start: Sat 22:00, length: 1h}]}}", false),
            ("spec: {rollout: {windows: [{start: Sat 22:00, length: 6, timeZone: UTC}]}}", false),
            ("spec: {rollout: {windows: {start: Sat 22:00, length: 6h, timeZone: UTC}}}", false),
            ("spec: {rollout: {exclusions: [{from: 2026-12-18T00:00:00Z, to: 2027-01-04T00:00:00Z}]}}", false),
            ("spec: {rollout: {outsideWindows: Drain}}", false),
            ("spec: {rollout: {rollbackOnGateFailure: true}}", true),
            ("spec: {rollout: {rollbackOnGateFailure: 1}}", false),
            ("spec: {rollout: {gates: []}}", true),
            ("spec: {rollout: {gates: [{name: a, prometheus: {query: up == 0, present: up}}]}}", true),
            (
                "spec: {rollout: {gates: [{name: a, at: [], patience: 1h, prometheus: {query: a, present: b, baseline: ignore}}]}}",
                true,
            ),
            ("spec: {rollout: {gates: [{name: a, at: [start, soak], prometheus: {query: a, present: b}}]}}", true),
            (
                "spec: {rollout: {gates: [{name: a, object: {apiVersion: apps/v1, kind: Deployment, namespace: b, name: c, \
                 condition: Available=True}}]}}",
                true,
            ),
            (
                "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: 'a:B', jsonPath: \
                 '{.status.phase}=Running'}}]}}",
                true,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{.status.conditions[0][-1].a-b}=c'}}]}}"#,
                true,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{.metadata.labels["a.b/c"]}=c'}}]}}"#,
                true,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{$.metadata.labels.a\.b/c}=c'}}]}}"#,
                true,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{["it\"s"]}=c'}}]}}"#,
                true,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{.a[*]}=c'}}]}}"#,
                false,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{.a..b}=c'}}]}}"#,
                false,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{.*}=c'}}]}}"#,
                false,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{.a[0:1]}=c'}}]}}"#,
                false,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{.a[?(@.b=="c")].d}=c'}}]}}"#,
                false,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{.a.length()}=c'}}]}}"#,
                false,
            ),
            (
                r#"spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: b, jsonPath: '{}=c'}}]}}"#,
                false,
            ),
            ("spec: {rollout: {gates: {}}}", false),
            ("spec: {rollout: {gates: [{name: a, on: [start], prometheus: {query: a, present: b}}]}}", false),
            ("spec: {rollout: {gates: [{name: a}]}}", false),
            ("spec: {rollout: {gates: [{prometheus: {query: a, present: b}}]}}", false),
            ("spec: {rollout: {gates: [{name: a b, prometheus: {query: a, present: b}}]}}", false),
            ("spec: {rollout: {gates: [{name: a, prometheus: {query: a}}]}}", false),
            ("spec: {rollout: {gates: [{name: a, prometheus: {present: a}}]}}", false),
            ("spec: {rollout: {gates: [{name: a, prometheus: {query: a, present: b, url: c}}]}}", false),
            ("spec: {rollout: {gates: [{name: a, prometheus: {query: a, present: b, baseline: none}}]}}", false),
            ("spec: {rollout: {gates: [{name: a, at: [end], prometheus: {query: a, present: b}}]}}", false),
            ("spec: {rollout: {gates: [{name: a, patience: 5, prometheus: {query: a, present: b}}]}}", false),
            (
                "spec: {rollout: {gates: [{name: a, prometheus: {query: a, present: b}, object: {apiVersion: v1, kind: A, \
                 name: b, condition: A=True}}]}}",
                false,
            ),
            ("spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: A, name: b}}]}}", false),
            (
                "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: A, name: b, condition: A=True, jsonPath: \
                 '{.a}=b'}}]}}",
                false,
            ),
            (
                "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Secret, name: b, jsonPath: '{.a}=b'}}]}}",
                false,
            ),
            (
                "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: A, name: b/c, condition: A=True}}]}}",
                false,
            ),
            (
                "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: A, name: b, condition: A=true}}]}}",
                false,
            ),
            (
                "spec: {rollout: {gates: [{name: a, object: {apiVersion: 1/v1, kind: A, name: b, condition: A=True}}]}}",
                true,
            ),
            (
                "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: a, name: b, condition: A=True}}]}}",
                false,
            ),
            ("spec: {rollout: {maxUnavailable: 101%}}", false),
            ("spec: {rollout: {maxUnavailable: 0%}}", false),
            ("spec: {rollout: {maxUnavailable: 0}}", false),
            ("spec: {rollout: {maxUnavailable: '3'}}", false),
            ("spec: {rollout: {maxUnavailable: 1.5}}", false),
            ("spec: {rollout: {maxFailures: -1}}", false),
            ("spec: {rollout: {convergenceTimeout: 1d}}", false),
            ("spec: {rollout: {canary: {soak: 10}}}", false),
            ("spec: {rollout: {pause: true}}", false),
            ("spec: {nodeSelector: {matchExpressions: [{key: a, operator: in}]}}", false),
            ("spec: {nodeSelector: {matchExpressions: [{operator: Exists}]}}", false),
            ("spec: {nodeSelector: {matchLabels: {a: 1}}}", false),
            ("spec: {kubernetesVersion: '1.30'}", true),
            ("spec: {kubernetesVersion: [v1.21.14-eks-1, '1.37']}", true),
            ("spec: {kubernetesVersion: 1.30}", false),
            ("spec: {kubernetesVersion: '1.99'}", false),
            ("spec: {kubernetesVersion: '1.36x'}", false),
            ("spec: {kubernetesVersion: []}", false),
            ("spec: {kubernetesVersion: ['1.36', 1]}", false),
            ("spec: {priority: 1.5}", false),
            ("spec: {kubelet: {patches: a.yaml}}", false),
            ("spec: []", false),
            ("extra: 1", false),
        ] {
            let document = Document::parse("pool.yaml", &format!("{head}{spec}\n")).document.expect("a document");
            let mut findings = Vec::new();
            let _ =
                read::node_pool(&document, nodecfg_contract::names::PoolName::new("gpu").ok().as_ref(), &mut findings);
            assert_eq!(!kubelet_config::finding::any_error(&findings), good, "reader: {spec}: {findings:?}");
            assert_eq!(validator.is_valid(&document.to_json()), good, "schema: {spec}");
        }
    }
}
