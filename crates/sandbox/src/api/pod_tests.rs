//! Tests of pods: selectors, status, graceful deletion and terminating namespaces.

use ::http::Request;
use axum::body::Body;
use futures::StreamExt;
use tower::ServiceExt;

use super::tests::{JSON, MERGE, Reply, api, send};
use super::*;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod on a node; unbound with an empty `node`.
pub(super) fn pod(name: &str, node: &str) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// Creates a running pod.
pub(super) async fn run(api: &Api, name: &str, ready: bool) {
    api.create("", "pods", "default", pod(name, "n1"), "t").unwrap();
    let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
    let status = json!({"status": {"phase": "Running", "conditions": [condition]}});
    assert_eq!(send(api, "PATCH", &format!("{PODS}/{name}/status"), MERGE, &status).await.status, 200);
}

async fn get(api: &Api, uri: &str) -> Reply {
    send(api, "GET", uri, JSON, &Value::Null).await
}

async fn names(api: &Api, selector: &str) -> Vec<String> {
    let list = get(api, &format!("/api/v1/pods?fieldSelector={selector}")).await;
    assert_eq!(list.status, 200, "{}", list.body);
    let items = list.body["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn selects_pods_by_fields() {
    let api = api(ServerProfile::V1_36);
    run(&api, "a", true).await;
    api.create("", "pods", "default", pod("b", ""), "t").unwrap();
    api.create("", "pods", "kube-system", pod("c", "n1"), "t").unwrap();
    assert_eq!(names(&api, "spec.nodeName%3Dn1").await, ["a", "c"]);
    assert_eq!(names(&api, "spec.nodeName%3Dn1,status.phase%3DRunning").await, ["a"]);
    assert_eq!(names(&api, "spec.nodeName!%3Dn1").await, ["b"]);
    assert_eq!(names(&api, "metadata.namespace%3Dkube-system").await, ["c"]);
    assert_eq!(names(&api, "status.phase%3DPending,metadata.name%3Db").await, ["b"]);
    let unknown = get(&api, "/api/v1/pods?fieldSelector=spec.hostname%3Da").await;
    assert_eq!(
        (unknown.status, unknown.body["message"].as_str()),
        (400, Some("field label not supported: spec.hostname"))
    );
}

#[tokio::test]
async fn watch_reports_a_pod_that_leaves_the_selection_as_deleted() {
    let api = api(ServerProfile::V1_36);
    run(&api, "a", true).await;
    let uri = format!(
        "/api/v1/pods?watch=1&resourceVersion={}&fieldSelector=spec.nodeName%3Dn1,status.phase%3DRunning",
        api.revision()
    );
    let mut request = Request::builder().uri(uri).body(Body::empty()).unwrap();
    request.extensions_mut().insert(User::admin("admin"));
    let mut lines = api.router().oneshot(request).await.unwrap().into_body().into_data_stream();
    let end = json!({"status": {"phase": "Succeeded"}});
    send(&api, "PATCH", &format!("{PODS}/a/status"), MERGE, &end).await;
    let line: Value = serde_json::from_slice(&lines.next().await.unwrap().unwrap()).unwrap();
    assert_eq!((&line["type"], &line["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("a")));
}

#[tokio::test]
async fn status_and_spec_are_separate() {
    let api = api(ServerProfile::V1_36);
    let created = api.create("", "pods", "default", pod("a", "n1"), "t").unwrap();
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(created["spec"]["terminationGracePeriodSeconds"], 30);
    let both = json!({"spec": {"nodeName": "n2"}, "status": {"phase": "Running"}});
    let changed = send(&api, "PATCH", &format!("{PODS}/a/status"), MERGE, &both).await;
    assert_eq!(
        (&changed.body["status"]["phase"], &changed.body["spec"]["nodeName"]),
        (&json!("Running"), &json!("n1"))
    );
}

#[tokio::test]
async fn pod_on_a_node_ends_gracefully() {
    let api = api(ServerProfile::V1_36);
    run(&api, "a", true).await;
    let before = api.now();
    let deleted = send(&api, "DELETE", &format!("{PODS}/a"), JSON, &Value::Null).await;
    let metadata = &deleted.body["metadata"];
    assert_eq!((deleted.status, &metadata["deletionGracePeriodSeconds"]), (200, &json!(30)));
    assert_eq!(metadata["generation"], 2, "the time of the end is a change of the pod");
    let ends: Timestamp = metadata["deletionTimestamp"].as_str().unwrap().parse().unwrap();
    let left = ends.duration_since(before).as_secs();
    assert!((29..=31).contains(&left), "the time is that of the end: {left}");
    // Writes by the kubelet do not remove the pod, and a longer time changes nothing.
    let status = json!({"status": {"message": "stopping"}});
    assert_eq!(send(&api, "PATCH", &format!("{PODS}/a/status"), MERGE, &status).await.status, 200);
    let again = send(&api, "DELETE", &format!("{PODS}/a"), JSON, &json!({"gracePeriodSeconds": 60})).await;
    assert_eq!(again.body["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = send(&api, "DELETE", &format!("{PODS}/a"), JSON, &json!({"gracePeriodSeconds": 5})).await;
    assert_eq!(shorter.body["metadata"]["deletionGracePeriodSeconds"], 5);
    let sooner: Timestamp = shorter.body["metadata"]["deletionTimestamp"].as_str().unwrap().parse().unwrap();
    assert_eq!(ends.duration_since(sooner).as_secs(), 25);
    let forced = send(&api, "DELETE", &format!("{PODS}/a?gracePeriodSeconds=0"), JSON, &Value::Null).await;
    assert_eq!((forced.status, &forced.body["kind"]), (200, &json!("Pod")));
    assert_eq!(get(&api, &format!("{PODS}/a")).await.status, 404);
    // A pod without a node ends at once.
    api.create("", "pods", "default", pod("b", ""), "t").unwrap();
    send(&api, "DELETE", &format!("{PODS}/b"), JSON, &Value::Null).await;
    assert_eq!(get(&api, &format!("{PODS}/b")).await.status, 404);
}

#[tokio::test]
async fn deletion_checks_preconditions() {
    let api = api(ServerProfile::V1_36);
    run(&api, "a", true).await;
    let uid = api.get("", "pods", "default", "a").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let delete = |preconditions: Value| {
        let options = json!({"preconditions": preconditions});
        let api = api.clone();
        async move { send(&api, "DELETE", &format!("{PODS}/a"), JSON, &options).await }
    };
    let other = delete(json!({"uid": "other"})).await;
    let why = format!(
        "Operation cannot be fulfilled on Pod \"a\": the UID in the precondition (other) does not match the UID in record \
         ({uid}). The object might have been deleted and then recreated"
    );
    assert_eq!((other.status, other.body["message"].as_str()), (409, Some(why.as_str())));
    let stale = delete(json!({"uid": uid, "resourceVersion": "1"})).await;
    assert_eq!((stale.status, &stale.body["reason"]), (409, &json!("Conflict")));
    assert_eq!(delete(json!({"uid": uid})).await.status, 200);
}

#[tokio::test]
async fn namespace_stays_until_its_pods_have_ended() {
    let api = api(ServerProfile::V1_36);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    api.create("", "namespaces", "", namespace, "t").unwrap();
    api.create("", "pods", "shop", pod("a", "n1"), "t").unwrap();
    send(&api, "DELETE", "/api/v1/namespaces/shop", JSON, &Value::Null).await;
    let pod_at = "/api/v1/namespaces/shop/pods/a";
    assert_eq!(get(&api, pod_at).await.body["metadata"]["deletionGracePeriodSeconds"], 30);
    let refused = send(&api, "POST", "/api/v1/namespaces/shop/pods", JSON, &pod("b", "")).await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.body["message"],
        "pods \"b\" is forbidden: unable to create new content in namespace shop because it is being terminated"
    );
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    send(&api, "DELETE", &format!("{pod_at}?gracePeriodSeconds=0"), JSON, &Value::Null).await;
    assert_eq!(get(&api, "/api/v1/namespaces/shop").await.status, 404);
}

#[tokio::test]
async fn owner_takes_its_pods_along() {
    let api = api(ServerProfile::V1_36);
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    let set = api.create("apps", "replicasets", "default", set, "t").unwrap();
    assert_eq!(set["metadata"]["generation"], 1);
    let mut owned = pod("a", "n1");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
        "uid": set["metadata"]["uid"], "controller": true}]);
    api.create("", "pods", "default", owned, "t").unwrap();
    send(&api, "DELETE", "/apis/apps/v1/namespaces/default/replicasets/web", JSON, &Value::Null).await;
    assert_eq!(get(&api, &format!("{PODS}/a")).await.body["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[tokio::test]
async fn budget_has_status_and_generation() {
    for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
        let api = api(profile);
        let at = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        let budget = |spec: Value| json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec});
        let spec = json!({"minAvailable": "50%", "selector": {}, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
        let created = send(&api, "POST", at, JSON, &budget(spec)).await;
        assert_eq!((created.status, &created.body["status"]["disruptionsAllowed"]), (201, &json!(0)));
        let status = json!({"status": {"disruptionsAllowed": 2, "observedGeneration": 1}, "spec": {"minAvailable": 9}});
        let written = send(&api, "PATCH", &format!("{at}/b/status"), MERGE, &status).await;
        assert_eq!(
            (&written.body["spec"]["minAvailable"], &written.body["metadata"]["generation"]),
            (&json!("50%"), &json!(1))
        );
        let changed = send(&api, "PATCH", &format!("{at}/b"), MERGE, &json!({"spec": {"minAvailable": 1}})).await;
        assert_eq!(
            (&changed.body["metadata"]["generation"], &changed.body["status"]["disruptionsAllowed"]),
            (&json!(2), &json!(2))
        );
    }
}
