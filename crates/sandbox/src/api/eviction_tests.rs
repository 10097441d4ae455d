//! Tests of the answers to evictions, one by one.

use super::pod_tests::{pod, run};
use super::tests::{JSON, MERGE, Reply, api, send};
use super::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}})
}

async fn evict_with(api: &Api, name: &str, delete_options: Value) -> Reply {
    let mut body = eviction(name);
    body["deleteOptions"] = delete_options;
    send(api, "POST", &format!("/api/v1/namespaces/default/pods/{name}/eviction"), JSON, &body).await
}

async fn evict(api: &Api, name: &str) -> Reply {
    evict_with(api, name, Value::Null).await
}

/// Creates a budget of the pods of [`pod`] with this status.
async fn budget(api: &Api, name: &str, spec: Value, status: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget =
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec});
    api.create("policy", "poddisruptionbudgets", "default", budget, "t").unwrap();
    let written = send(api, "PATCH", &format!("{BUDGETS}/{name}/status"), MERGE, &json!({"status": status})).await;
    assert_eq!(written.status, 200, "{}", written.body);
}

fn status(allowed: i64) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 2 + allowed})
}

fn read_budget(api: &Api, name: &str) -> Value {
    api.get("policy", "poddisruptionbudgets", "default", name).unwrap()["status"].clone()
}

fn is_terminating(api: &Api, name: &str) -> bool {
    !api.get("", "pods", "default", name).unwrap()["metadata"]["deletionTimestamp"].is_null()
}

#[tokio::test]
async fn pod_without_a_budget_is_evicted() {
    let api = api(ServerProfile::V1_36);
    run(&api, "a", true).await;
    let done = evict(&api, "a").await;
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    assert_eq!((done.status, done.body), (201, success));
    assert_eq!(api.get("", "pods", "default", "a").unwrap()["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[tokio::test]
async fn budget_counts_down_and_then_refuses() {
    let api = api(ServerProfile::V1_36);
    budget(&api, "b", json!({"minAvailable": 2}), status(1)).await;
    run(&api, "a", true).await;
    run(&api, "c", true).await;
    assert_eq!(evict(&api, "a").await.status, 201);
    let left = read_budget(&api, "b");
    assert_eq!(left["disruptionsAllowed"], 0);
    assert!(left["disruptedPods"]["a"].is_string());
    let refused = evict(&api, "c").await;
    assert_eq!(refused.status, 429);
    let wanted = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests",
        "details": {"causes": [{"reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 3 currently"}]},
        "code": 429,
    });
    assert_eq!((refused.body, refused.retry_after), (wanted, None));
    assert!(!is_terminating(&api, "c"));
}

#[tokio::test]
async fn several_budgets_are_an_error() {
    let api = api(ServerProfile::V1_36);
    budget(&api, "b1", json!({"minAvailable": 2}), status(1)).await;
    budget(&api, "b2", json!({"minAvailable": 2}), status(1)).await;
    run(&api, "a", true).await;
    let refused = evict(&api, "a").await;
    assert_eq!(refused.status, 500);
    let wanted = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        "code": 500,
    });
    assert_eq!(refused.body, wanted);
    assert_eq!((is_terminating(&api, "a"), &read_budget(&api, "b1")["disruptionsAllowed"]), (false, &json!(1)));
}

#[tokio::test]
async fn unprocessed_budget_asks_for_a_later_attempt() {
    let api = api(ServerProfile::V1_36);
    budget(&api, "b", json!({"minAvailable": 2}), json!({"disruptionsAllowed": 5})).await;
    run(&api, "a", true).await;
    let refused = evict(&api, "a").await;
    assert_eq!((refused.status, &refused.body["details"]["retryAfterSeconds"]), (429, &json!(10)));
    assert_eq!(refused.retry_after.as_deref(), Some("10"));
    let cause = &refused.body["details"]["causes"][0]["message"];
    assert_eq!(cause, "The disruption budget b is still being processed by the server.");
}

#[tokio::test]
async fn pods_that_serve_nothing_need_no_budget() {
    let api = api(ServerProfile::V1_36);
    budget(&api, "b", json!({"minAvailable": 2}), status(0)).await;
    api.create("", "pods", "default", pod("pending", "n1"), "t").unwrap();
    assert_eq!(evict(&api, "pending").await.status, 201);
    for phase in ["Succeeded", "Failed"] {
        run(&api, "done", true).await;
        let ended = json!({"status": {"phase": phase}});
        send(&api, "PATCH", "/api/v1/namespaces/default/pods/done/status", MERGE, &ended).await;
        assert_eq!(evict(&api, "done").await.status, 201);
        assert_eq!(api.get("", "pods", "default", "done"), None, "a finished pod is removed at once");
    }
    run(&api, "leaving", true).await;
    send(&api, "DELETE", "/api/v1/namespaces/default/pods/leaving", JSON, &Value::Null).await;
    assert_eq!(evict(&api, "leaving").await.status, 201);
    assert_eq!(read_budget(&api, "b").get("disruptedPods"), None);
}

#[tokio::test]
async fn unready_pod_costs_a_healthy_budget_nothing() {
    for (profile, spec, status, code) in [
        (ServerProfile::V1_21, json!({"minAvailable": 2}), status(0), 201),
        (ServerProfile::V1_36, json!({"minAvailable": 2}), status(0), 201),
        (ServerProfile::V1_36, json!({"minAvailable": 2}), json!({"observedGeneration": 1, "desiredHealthy": 2}), 429),
        (
            ServerProfile::V1_36,
            json!({"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}),
            json!({"observedGeneration": 1, "desiredHealthy": 2}),
            201,
        ),
    ] {
        let api = api(profile);
        budget(&api, "b", spec, status).await;
        run(&api, "a", false).await;
        assert_eq!(evict(&api, "a").await.status, code, "{profile:?}");
        assert_eq!(read_budget(&api, "b").get("disruptedPods"), None);
    }
}

#[tokio::test]
async fn preconditions_apply_to_the_pod() {
    for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
        let api = api(profile);
        run(&api, "a", true).await;
        let refused = evict_with(&api, "a", json!({"preconditions": {"uid": "other"}})).await;
        assert_eq!((refused.status, &refused.body["reason"]), (409, &json!("Conflict")));
        let begins = "Operation cannot be fulfilled on Pod \"a\": the UID in the precondition (other)";
        assert!(refused.body["message"].as_str().unwrap().starts_with(begins), "{}", refused.body);
        assert!(!is_terminating(&api, "a"));
        let version = api.get("", "pods", "default", "a").unwrap()["metadata"]["resourceVersion"].clone();
        let fits = evict_with(&api, "a", json!({"preconditions": {"resourceVersion": version}})).await;
        assert_eq!(fits.status, 201, "{}", fits.body);
        let gone = evict(&api, "b").await;
        assert_eq!((gone.status, gone.body["message"].as_str()), (404, Some("pods \"b\" not found")));
    }
}

#[tokio::test]
async fn terminating_namespace_refuses_evictions() {
    let api = api(ServerProfile::V1_36);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    api.create("", "namespaces", "", namespace, "t").unwrap();
    api.create("", "pods", "shop", pod("a", "n1"), "t").unwrap();
    send(&api, "DELETE", "/api/v1/namespaces/shop", JSON, &Value::Null).await;
    let mut body = eviction("a");
    body["metadata"]["namespace"] = "shop".into();
    let refused = send(&api, "POST", "/api/v1/namespaces/shop/pods/a/eviction", JSON, &body).await;
    assert_eq!(
        (refused.status, &refused.body["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
}

#[tokio::test]
async fn dry_run_changes_nothing() {
    let api = api(ServerProfile::V1_36);
    budget(&api, "b", json!({"minAvailable": 2}), status(1)).await;
    run(&api, "a", true).await;
    let before = api.revision();
    let at = "/api/v1/namespaces/default/pods/a/eviction?dryRun=All";
    assert_eq!(send(&api, "POST", at, JSON, &eviction("a")).await.status, 201);
    assert_eq!(evict_with(&api, "a", json!({"dryRun": ["All"]})).await.status, 201);
    assert_eq!(api.revision(), before);
}

#[tokio::test]
async fn empty_selector_covers_all_and_a_missing_one_nothing() {
    for (selector, code) in [(json!({}), 429), (Value::Null, 201)] {
        let api = api(ServerProfile::V1_36);
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": selector}});
        api.create("policy", "poddisruptionbudgets", "default", budget, "t").unwrap();
        run(&api, "a", true).await;
        assert_eq!(evict(&api, "a").await.status, code);
    }
}
