//! Tests of Tables, column by column.

use serde_json::json;

use super::super::resources::tests::definition;
use super::*;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().expect("is a time")
}

fn request<'a>(group: &'a str, resource: &'a str, objects: &'a [Value], meta: &'a Value) -> TableRequest<'a> {
    TableRequest {
        group,
        version: "v1",
        resource,
        objects,
        include_object: "Metadata",
        crd: None,
        list_meta: meta,
        now: now(),
        is_watch_event: false,
    }
}

fn cells(group: &str, resource: &str, object: Value) -> Value {
    render(request(group, resource, &[object], &json!({})))["rows"][0]["cells"].clone()
}

#[test]
fn prints_nodes() {
    let node = json!({
        "metadata": {"name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {
            "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "node"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.21.1", "osImage": "Linux", "kernelVersion": "6.1", "containerRuntimeVersion": ""}}
    });
    assert_eq!(
        cells("", "nodes", node),
        json!([
            "n1",
            "Ready,SchedulingDisabled",
            "gpu,node,worker",
            "60m",
            "v1.21.1",
            "10.0.0.1",
            "<none>",
            "Linux",
            "6.1",
            "<unknown>"
        ])
    );
    assert_eq!(cells("", "nodes", json!({"metadata": {"name": "n"}}))[1], "Unknown");
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(cells("", "nodes", unready)[1], "NotReady");
}

#[test]
fn prints_other_built_in_kinds() {
    let created = "2026-01-01T00:59:00Z";
    let map = json!({"metadata": {"name": "m", "creationTimestamp": created}, "data": {"a": "", "b": ""}, "binaryData": {"c": ""}});
    assert_eq!(cells("", "configmaps", map), json!(["m", 3, "60s"]));
    let lease = json!({"metadata": {"name": "l", "creationTimestamp": null}, "spec": {"holderIdentity": "h"}});
    assert_eq!(cells("coordination.k8s.io", "leases", lease), json!(["l", "h", "<unknown>"]));
    let namespace = json!({"metadata": {"name": "x", "creationTimestamp": created}, "status": {"phase": "Active"}});
    assert_eq!(cells("", "namespaces", namespace), json!(["x", "Active", "60s"]));
    let crd = json!({"metadata": {"name": "a.b", "creationTimestamp": created}});
    assert_eq!(cells("apiextensions.k8s.io", "customresourcedefinitions", crd), json!(["a.b", created]));
}

#[test]
fn prints_events() {
    let old = json!({
        "metadata": {"name": "e1"}, "type": "Normal", "reason": "R", "message": " m\n", "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:59:30Z", "eventTime": null,
        "involvedObject": {"kind": "Node", "name": "n1"}, "source": {"component": "kubelet", "host": "n1"},
        "reportingComponent": "", "reportingInstance": ""
    });
    assert_eq!(
        cells("", "events", old),
        json!(["30s", "Normal", "R", "node/n1", "", "kubelet, n1", "m", "60m", 3, "e1"])
    );
    let new = json!({
        "metadata": {"name": "e2"}, "type": "Warning", "reason": "R", "message": "m",
        "firstTimestamp": null, "lastTimestamp": null, "eventTime": "2026-01-01T00:59:00.000000Z",
        "involvedObject": {"kind": "Node"}, "source": {}, "reportingComponent": "nodecfg", "reportingInstance": "nodecfg-1"
    });
    assert_eq!(
        cells("", "events", new),
        json!(["60s", "Warning", "R", "node", "", "nodecfg, nodecfg-1", "m", "60s", 1, "e2"])
    );
}

#[test]
fn prints_custom_kinds_by_definition() {
    let crd = definition();
    let object = json!({
        "metadata": {"name": "w", "creationTimestamp": "2026-01-01T00:59:00Z"}, "spec": {"size": 3},
        "status": {"since": "2026-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True"}]}
    });
    let (objects, meta) = ([object], json!({}));
    let asked = TableRequest { crd: Some(&crd), ..request("example.dev", "widgets", &objects, &meta) };
    let table = render(asked);
    assert_eq!(table["rows"][0]["cells"], json!(["w", 3, "True", "60m"]));
    assert_eq!(
        table["columnDefinitions"][3],
        json!({
            "name": "Since", "type": "date", "format": "", "priority": 1,
            "description": "Custom resource definition column (in JSONPath format): .status.since",
        })
    );
    let plain = render(TableRequest { version: "v1alpha1", ..asked });
    assert_eq!(plain["rows"][0]["cells"], json!(["w", "60s"]));
    let empty = [json!({"metadata": {"name": "w"}, "spec": {"size": "three"}, "status": {"since": "never"}})];
    let odd = render(TableRequest { objects: &empty, ..asked });
    assert_eq!(odd["rows"][0]["cells"], json!(["w", null, null, "<invalid>"]));
}

#[test]
fn rows_contain_requested_object_form() {
    let objects = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "resourceVersion": "7"}, "data": {}}),
    ];
    let meta = json!({"resourceVersion": "9", "continue": "x"});
    let asked = request("", "configmaps", &objects, &meta);
    let row = |include| render(TableRequest { include_object: include, ..asked })["rows"][0].clone();
    assert_eq!(row("None").get("object"), None);
    assert_eq!(row("Object")["object"], objects[0]);
    assert_eq!(
        row("Metadata")["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": objects[0]["metadata"]})
    );
    assert_eq!(render(asked)["metadata"], meta);
    let single = render(TableRequest { list_meta: &json!({}), is_watch_event: true, ..asked });
    assert_eq!(single["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(single["columnDefinitions"], Value::Null);
}
