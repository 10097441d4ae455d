//! Tests of custom resources: schemas, watches by name, and garbage collection.

use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};

use super::tests::{JSON, MERGE, api, node, send};
use super::*;

/// Returns a definition with a status.
fn definition() -> Value {
    let spec = json!({"type": "object", "properties": {"mode": {"type": "string", "pattern": "^[AB]$"}}});
    let status = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.x.dev"},
        "spec": {"group": "x.dev", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": spec, "status": status}}}}]}})
}

fn thing(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn enforces_schemas_and_counts_generations() {
    let api = api(ServerProfile::V1_36);
    let things = "/apis/x.dev/v1/things";
    api.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition(), "t").unwrap();

    let refused = send(&api, "POST", things, JSON, &thing("a", &json!({"mode": "C"}))).await;
    assert!(
        refused.body["message"].as_str().unwrap().ends_with("spec.mode in body should match '^[AB]$'"),
        "{}",
        refused.body
    );
    let created = send(&api, "POST", things, JSON, &thing("a", &json!({"mode": "A"}))).await;
    assert_eq!(
        (created.status, &created.body["spec"], &created.body["metadata"]["generation"]),
        (201, &json!({"mode": "A"}), &json!(1))
    );
    let at = format!("{things}/a");
    let reported = send(
        &api,
        "PATCH",
        &format!("{at}/status"),
        MERGE,
        &json!({"status": {"n": 1, "x": 2}, "spec": {"mode": "B"}}),
    )
    .await;
    assert_eq!(reported.body["status"], json!({"n": 1}), "unknown fields are dropped");
    assert_eq!((&reported.body["spec"]["mode"], &reported.body["metadata"]["generation"]), (&json!("A"), &json!(1)));
    let changed =
        send(&api, "PATCH", &at, MERGE, &json!({"metadata": {"labels": {"x": "y"}}, "status": {"n": 5}})).await;
    assert_eq!((&changed.body["status"]["n"], &changed.body["metadata"]["generation"]), (&json!(1), &json!(1)));
    let changed = send(&api, "PATCH", &at, MERGE, &json!({"spec": {"mode": "B"}})).await;
    assert_eq!(changed.body["metadata"]["generation"], 2);
}

#[tokio::test]
async fn watch_by_name_reports_only_its_object() {
    let api = api(ServerProfile::V1_36);
    api.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition(), "t").unwrap();
    api.create("x.dev", "things", "", thing("a", &json!({})), "t").unwrap();
    api.create("x.dev", "things", "", thing("b", &json!({})), "t").unwrap();
    let kind = kube::core::ApiResource::from_gvk_with_plural(
        &kube::core::GroupVersionKind::gvk("x.dev", "v1", "Thing"),
        "things",
    );
    let things: kube::Api<kube::core::DynamicObject> = kube::Api::all_with(api.client(), &kind);
    let listed = things.list(&ListParams::default().fields("metadata.name=b")).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    let by_name = WatchParams::default().fields("metadata.name=b");
    let mut watch = things.watch(&by_name, &api.revision().to_string()).await.unwrap().boxed();
    for (name, mode) in [("a", "B"), ("b", "B"), ("a", "A")] {
        let patch = Patch::Merge(json!({"spec": {"mode": mode}}));
        things.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    things.delete("b", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match watch.try_next().await.unwrap().unwrap() {
            WatchEvent::Modified(object) => seen.push(format!("modified {}", object.metadata.name.unwrap())),
            WatchEvent::Deleted(object) => seen.push(format!("deleted {}", object.metadata.name.unwrap())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, ["modified b", "deleted b"]);
    api.create("x.dev", "things", "", thing("b", &json!({})), "t").unwrap();
    assert!(matches!(watch.try_next().await.unwrap(), Some(WatchEvent::Added(_))), "a new object of the same name");
}

#[tokio::test]
async fn deletes_object_with_its_last_owner() {
    let api = api(ServerProfile::V1_36);
    api.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition(), "t").unwrap();
    let owner = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
    let uid_of = |name: &str| {
        let created = api.create("", "nodes", "", node(name), "t").unwrap();
        text(&created, "/metadata/uid").to_owned()
    };
    let uids = [uid_of("n1"), uid_of("n2")];
    let mut owned = thing("n1", &json!({}));
    owned["metadata"]["ownerReferences"] = json!([owner("n1", &uids[0])]);
    api.create("x.dev", "things", "", owned.clone(), "t").unwrap();
    owned["metadata"]["name"] = "both".into();
    owned["metadata"]["ownerReferences"] = json!([owner("n1", &uids[0]), owner("n2", &uids[1])]);
    api.create("x.dev", "things", "", owned.clone(), "t").unwrap();
    let exists = |name: &str| api.get("x.dev", "things", "", name).is_some();
    assert_eq!(send(&api, "DELETE", "/api/v1/nodes/n1", JSON, &Value::Null).await.status, 200);
    assert!(!exists("n1") && exists("both"));
    assert_eq!(send(&api, "DELETE", "/api/v1/nodes/n2", JSON, &Value::Null).await.status, 200);
    assert!(!exists("both"));
    // An object whose owner is missing, or replaced by another object of the same name, is deleted at once.
    uid_of("n1");
    owned["metadata"]["ownerReferences"] = json!([owner("n1", &uids[0])]);
    api.create("x.dev", "things", "", owned, "t").unwrap();
    assert!(!exists("both"));
}
