//! Attacks with the credentials of one node: each value that a kubelet or an agent may write becomes hostile, and the
//! other nodes must still be read.

use serde_json::{Value, json};

use super::*;
use crate::connection::fake::{Reply, reader};
use crate::reading::binding::Binding;
use crate::reading::reader::ClusterReader;
use futures::StreamExt as _;
use nodecfg_observed::{ListVersions, Node, Obstacle, Readiness};

/// Placeholder of the hostile value.
const HERE: &str = "replaced by the attack";

/// Hostile values as JSON.
fn hostile() -> Vec<String> {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(5_000), close.repeat(5_000));
    let mut values: Vec<String> =
        ["\"9999-12-31T23:59:59Z\"", "\"\"", "null", "1e999", "-1e999", "18446744073709551616", "true", "{}", "[]"]
            .map(str::to_owned)
            .into();
    values.extend([r#"["x", 1]"#, r#"{"x": [1]}"#, r#""\ud800""#, r#""a\u0000b; rm -rf /""#].map(str::to_owned));
    values.extend([deep("[", "]"), deep("{\"a\":[", "]}"), format!("\"{}\"", "x".repeat(1 << 20))]);
    values
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
            "labels": {"nodecfg.dev/pool": "a", "kubernetes.io/hostname": name},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            "creationTimestamp": "2026-11-20T13:53:24Z",
        },
        "spec": {"podCIDR": "10.4.2.0/24", "configSource": {"configMap": {"name": "c", "namespace": "kube-system", "kubeletConfigKey": "kubelet"}}},
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "2026-11-20T13:53:24Z", "lastTransitionTime": "2026-11-20T13:53:24Z"},
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok", "lastHeartbeatTime": "2026-11-20T13:53:24Z", "lastTransitionTime": "2026-11-20T13:53:24Z"},
            ],
            "config": {
                "assigned": {"configMap": {"name": "c", "namespace": "kube-system", "kubeletConfigKey": "kubelet", "uid": "u", "resourceVersion": "1"}},
                "active": {"configMap": {"name": "c", "namespace": "kube-system", "kubeletConfigKey": "kubelet", "uid": "u", "resourceVersion": "1"}},
                "error": "",
            },
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": [{"names": ["x"], "sizeBytes": 1}],
            "nodeInfo": {"kubeletVersion": "v1.21.14", "machineID": "m"},
        },
    })
}

fn node_config(name: &str) -> Value {
    let assigned = json!({"configMap": {"name": "c", "namespace": "nodecfg-system", "kubeletConfigKey": "kubelet", "uid": "u", "resourceVersion": "1"}});
    json!({
        "metadata": {
            "name": name, "uid": format!("config-{name}"), "generation": 1, "creationTimestamp": "2026-11-20T13:53:24Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("uid-{name}")}],
        },
        "spec": {"configSource": {"configMap": {"name": "c", "namespace": "nodecfg-system", "kubeletConfigKey": "kubelet"}}},
        "status": {
            "config": {"assigned": assigned, "active": assigned, "lastKnownGood": assigned, "error": ""},
            "observedGeneration": 1, "contentHash": "v1:blake3:0", "pool": "a",
            "conditions": [{"type": "Synced", "status": "True", "reason": "Synced", "message": "m", "lastTransitionTime": "2026-11-20T13:53:24Z"}],
            "agent": {"version": "0.1.0", "heardAt": "2026-11-20T13:53:24Z"},
        },
    })
}

/// Pointers to a value and everything below it.
fn below(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            below(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), all);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| below(value, &format!("{at}/{index}"), all));
        }
        _ => {}
    }
}

/// The object with a hostile value at each of these places and everything below, as JSON.
fn attacks(object: &Value, places: &[&str]) -> Vec<(String, String)> {
    let mut pointers = Vec::new();
    for place in places {
        below(object.pointer(place).unwrap_or(&Value::Null), place, &mut pointers);
    }
    let mut attacks = Vec::new();
    for pointer in pointers {
        let mut object = object.clone();
        match object.pointer_mut(&pointer) {
            Some(value) => *value = json!(HERE),
            None => object["metadata"]["deletionTimestamp"] = json!(HERE),
        }
        for value in hostile() {
            let text = object.to_string().replace(&format!("\"{HERE}\""), &value);
            attacks.push((format!("{pointer}: {}", value.get(..40).unwrap_or(&value)), text));
        }
    }
    assert!(attacks.len() > 400, "{}", attacks.len());
    attacks
}

fn list_of(items: &[String]) -> Reply {
    Reply::Text(format!(r#"{{"items": [{}], "metadata": {{"resourceVersion": "9"}}}}"#, items.join(",")))
}

async fn listed(replies: Vec<Reply>, binding: Binding) -> Vec<Node> {
    let (reader, _) = reader(replies);
    let reader = ClusterReader { binding, ..reader };
    reader.list_nodes().await.expect("the list is readable").0.into_values().collect()
}

const BY_KUBELET: [&str; 5] = [
    "/status",
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/creationTimestamp",
    "/metadata/deletionTimestamp",
];

#[tokio::test]
async fn hostile_value_in_a_node_leaves_the_other_nodes_readable() {
    let [first, last] = ["n1", "n3"].map(|name| node(name).to_string());
    let (mut unreadable, good) = (0, listed(vec![list_of(&[first.clone(), last.clone()])], Binding::Node).await);
    assert!(good.iter().all(|node| node.obstacle.is_none() && node.ready == Readiness::Ready), "{good:?}");
    for (attack, text) in attacks(&node("n2"), &BY_KUBELET) {
        let nodes = listed(vec![list_of(&[first.clone(), text, last.clone()])], Binding::Node).await;
        let [before, attacked, after] = nodes.as_slice() else { panic!("{attack}: {nodes:?}") };
        assert_eq!([before, after], [&good[0], &good[1]], "{attack}");
        assert_eq!((attacked.name.as_str(), attacked.uid.as_str()), ("n2", "uid-n2"), "{attack}");
        // The labels decide the pool, and the node must not leave its pool by an unreadable status.
        assert!(!attack.starts_with("/status") || *attacked.labels == node_labels("n2"), "{attack}: {attacked:?}");
        if let Some(Obstacle::Unreadable(UnreadableField { field, reason })) = &attacked.obstacle {
            unreadable += 1;
            let place = attack.split_once(':').map_or("", |(pointer, _)| pointer).replace('/', ".");
            assert!(
                place.trim_start_matches('.').starts_with(field.as_str()) || field.starts_with("status"),
                "{attack}: {field}"
            );
            assert!(
                reason.chars().count() <= MAX_REASON + 1 && !reason.contains([';', '\n', '\0']),
                "{attack}: {reason}"
            );
        }
    }
    assert!(unreadable > 100, "{unreadable}");
}

fn node_labels(name: &str) -> BTreeMap<String, String> {
    [("nodecfg.dev/pool", "a"), ("kubernetes.io/hostname", name)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

#[tokio::test]
async fn hostile_value_in_a_node_config_leaves_the_other_nodes_readable() {
    let nodes = ["n1", "n2", "n3"].map(|name| node(name).to_string());
    let [first, last] = ["n1", "n3"].map(|name| node_config(name).to_string());
    let mut unreadable = 0;
    for (attack, text) in attacks(&node_config("n2"), &["/status", "/spec"]) {
        let replies = vec![list_of(&nodes), list_of(&[first.clone(), text, last.clone()])];
        let found = listed(replies, Binding::NodeConfig).await;
        let [before, attacked, after] = found.as_slice() else { panic!("{attack}: {found:?}") };
        for good in [before, after] {
            assert_eq!(
                (&good.obstacle, good.source.is_some(), good.status.active.is_some()),
                (&None, true, true),
                "{attack}"
            );
        }
        assert_eq!(attacked.name.as_str(), "n2", "{attack}");
        unreadable += usize::from(attacked.is_unreadable());
    }
    assert!(unreadable > 100, "{unreadable}");
}

#[tokio::test]
async fn hostile_value_does_not_end_a_watch() {
    for value in hostile() {
        let event = |name: &str| json!({"type": "MODIFIED", "object": node(name)});
        let mut attack = event("n2");
        attack["object"]["status"]["conditions"][1]["lastHeartbeatTime"] = json!(HERE);
        let attack = attack.to_string().replace(&format!("\"{HERE}\""), &value);
        let (reader, _) = reader(vec![Reply::Text(format!("{attack}\n{}\n", event("n3")))]);
        let versions = ListVersions { nodes: "7".to_owned(), node_configs: None };
        let events: Vec<_> = reader.watch_nodes(&Default::default(), &versions).take(2).collect().await;
        let names: Vec<_> = events
            .into_iter()
            .map(|event| match event {
                Ok(crate::NodeEvent::Upsert(node)) => node.name.to_string(),
                other => panic!("{}: {other:?}", value.get(..40).unwrap_or(&value)),
            })
            .collect();
        assert_eq!(names, ["n2", "n3"]);
    }
}

#[tokio::test]
async fn unreadable_node_names_its_field_and_reason() {
    let mut late = node("n1");
    late["status"]["conditions"][1]["lastHeartbeatTime"] = json!("9999-12-31T23:59:59Z");
    let nodes = listed(vec![list_of(&[late.to_string()])], Binding::Node).await;
    let Some(Obstacle::Unreadable(field)) = &nodes[0].obstacle else { panic!("{nodes:?}") };
    assert_eq!(
        field.to_string(),
        "status.conditions is unreadable: \"9999-12-31T23:59:59Z\" is not a time in the supported range"
    );
    assert_eq!(nodes[0].source.as_ref().map(ToString::to_string).as_deref(), Some("kube-system/c"));
}

#[test]
fn object_without_a_readable_name_is_an_error() {
    for text in [r#"{"metadata": {"name": 1}}"#, r#"{"status": 1}"#, "7", "{"] {
        assert!(WireNode::read(text.as_bytes()).is_err() && read_node_config(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn unreadable_creation_time_is_unknown() {
    for (written, known) in
        [(json!("2026-11-20T13:53:24Z"), true), (json!("9999-12-31T23:59:59Z"), false), (json!(null), false)]
    {
        // As a whole, and field by field.
        for broken in [false, true] {
            let mut object = node("n1");
            object["metadata"]["creationTimestamp"] = written.clone();
            if broken {
                object["spec"]["unschedulable"] = json!("x");
            }
            let read = WireNode::read(object.to_string().as_bytes()).expect("a node");
            let node = read.into_node(&crate::reading::wire::LabelKeys::All).expect("named");
            assert_eq!((node.created.is_some(), node.is_unreadable()), (known, broken), "{written}");
        }
    }
}
