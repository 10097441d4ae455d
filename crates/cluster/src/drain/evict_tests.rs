//! Tests of evictions over a fake connection.

use std::collections::VecDeque;

use serde_json::Value;

use super::*;
use crate::ClusterReader;
use crate::connection::fake::{Log, Reply, options, serving, status};
use crate::lock;
use crate::lock::{HeldLock, LockOptions};
use nodecfg_contract::names::{FleetName, NodeName};

const NOT_FOUND: &str = "pods \"a-0\" not found";

/// A writer with its lock, over a fake server of this minor version. Returns these replies to requests about pods.
async fn writer(minor: &'static str, replies: Vec<Reply>) -> (ClusterWriter, HeldLock, Log) {
    let mut replies = VecDeque::from(replies);
    let (client, log) = serving(move |request| match (request.uri.as_str(), request.method.as_str()) {
        ("/version", _) => Reply::Json(200, json!({"major": "1", "minor": minor, "gitVersion": "v1"})),
        (uri, "GET") if uri.contains("/leases") => status(404, "NotFound", "not found", json!({"kind": "leases"})),
        (uri, _) if uri.contains("/leases") => Reply::Json(200, request.body.clone()),
        _ => replies.pop_front().unwrap_or(Reply::Reset),
    });
    let reader = ClusterReader::new(client, "https://fake", options());
    let lock = LockOptions::new("kube-system", FleetName::new("prod").expect("a name"), "me".to_owned());
    let held = lock::acquire(&reader, lock).await.expect("free");
    (ClusterWriter::new(reader, &held), held, log)
}

fn pod() -> Pod {
    Pod {
        namespace: "web".to_owned(),
        name: "a-0".to_owned(),
        uid: "u".to_owned(),
        node: NodeName::new("n1").expect("a name"),
        labels: Default::default(),
        controller: None,
        mirror: false,
        finished: false,
        deleting: false,
        pending: false,
        ready: true,
        priority: 0,
        empty_dir: false,
        claims: 0,
        tolerates_drain: false,
        exclusive_cpus: false,
        rejection: None,
    }
}

fn about_pods(log: &Log) -> Vec<crate::connection::fake::RecordedRequest> {
    log.all().into_iter().filter(|request| request.uri.contains("/pods/")).collect()
}

fn success() -> Reply {
    Reply::Json(201, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}))
}

/// Refusal by a budget, as the API server sends it.
fn refused_by_budget(cause: &str) -> Reply {
    let details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", details)
}

/// Several budgets: a Status without a reason.
fn several_budgets() -> Value {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500})
}

#[tokio::test]
async fn answers_are_not_retried() {
    let needs = "The disruption budget web needs 3 healthy pods and has 3 currently";
    let terminating = json!({"name": "a-0", "kind": "pods", "causes": [{"reason": "NamespaceTerminating",
        "message": "namespace web is being terminated", "field": "metadata.namespace"}]});
    let other_uid = "Operation cannot be fulfilled on pods \"a-0\": the UID in the precondition (u) does not match the \
                     UID in record (v). The object might have been deleted and then recreated";
    let negative = "poddisruptionbudget.policy \"web\" is forbidden: pdb disruptions allowed is negative";
    let modified = "Operation cannot be fulfilled on pods \"a-0\": the object has been modified";
    let blocked = |reason: &str| EvictionAnswer::Blocked { reason: reason.to_owned() };
    for (reply, expected) in [
        (success(), EvictionAnswer::Evicted),
        (refused_by_budget(needs), blocked(needs)),
        (Reply::Json(500, several_budgets()), EvictionAnswer::SeveralBudgets),
        (status(404, "NotFound", NOT_FOUND, json!({"name": "a-0", "kind": "pods"})), EvictionAnswer::Gone),
        (status(409, "Conflict", other_uid, json!({"name": "a-0", "kind": "pods"})), EvictionAnswer::Gone),
        (status(409, "Conflict", modified, json!({"name": "a-0", "kind": "pods"})), blocked(modified)),
        (
            status(403, "Forbidden", "pods \"a-0\" is forbidden: it is being terminated", terminating),
            EvictionAnswer::NamespaceTerminating,
        ),
        (
            status(
                403,
                "Forbidden",
                negative,
                json!({"name": "web", "group": "policy", "kind": "poddisruptionbudget"}),
            ),
            blocked(negative),
        ),
    ] {
        let (writer, _held, log) = writer("36", vec![reply]).await;
        assert_eq!(writer.evict(&pod()).await, Ok(expected));
        assert_eq!(about_pods(&log).len(), 1);
    }
}

#[tokio::test]
async fn overload_and_lost_responses_are_retried() {
    let overloaded = || {
        let body = json!({"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "The server has received too many requests"});
        Reply::Header(429, ("Retry-After", "0"), body)
    };
    let timeout = || {
        let message = "Timeout: couldn't update PodDisruptionBudget \"web\" due to conflicts";
        status(504, "Timeout", message, json!({}))
    };
    let gone = status(404, "NotFound", NOT_FOUND, json!({"name": "a-0", "kind": "pods"}));
    let internal = status(500, "InternalError", "etcdserver: leader changed", json!({}));
    let (writer, _held, log) = writer("36", vec![overloaded(), timeout(), internal, Reply::Reset, gone]).await;
    assert_eq!(writer.evict(&pod()).await, Ok(EvictionAnswer::Gone));
    assert_eq!(about_pods(&log).len(), 5);
}

#[tokio::test]
async fn eviction_has_the_version_of_the_server_and_the_uid_of_the_pod() {
    for (minor, version) in [("21", "policy/v1beta1"), ("22", "policy/v1"), ("36+", "policy/v1")] {
        let (writer, _held, log) = writer(minor, vec![success(), success()]).await;
        for _ in 0..2 {
            writer.evict(&pod()).await.expect("evicted");
        }
        let sent = about_pods(&log).remove(0);
        assert_eq!((sent.method.as_str(), sent.uri.as_str()), ("POST", "/api/v1/namespaces/web/pods/a-0/eviction"));
        let body = json!({"apiVersion": version, "kind": "Eviction", "metadata": {"name": "a-0", "namespace": "web"},
            "deleteOptions": {"preconditions": {"uid": "u"}}});
        assert_eq!(sent.body, body);
        assert_eq!(log.lines().iter().filter(|line| *line == "GET /version").count(), 1);
    }
}

#[tokio::test]
async fn failures_without_an_answer_are_errors() {
    let message = "pods \"a-0\" is forbidden: User \"ci\" cannot create resource \"pods/eviction\" in API group \"\" in \
                   the namespace \"web\"";
    let forbidden = status(403, "Forbidden", message, json!({"name": "a-0", "kind": "pods"}));
    let webhook = "admission webhook \"w.example\" denied the request: no";
    let denied = status(403, "Forbidden", webhook, json!({}));
    let unserved = Reply::Header(404, ("content-type", "text/plain"), json!("404 page not found"));
    let (writer, held, log) = writer("36", vec![forbidden, denied, unserved]).await;
    let error = writer.evict(&pod()).await.expect_err("forbidden");
    assert_eq!(error.to_string(), "cannot evict pod web/a-0: ci may not create pods/eviction in namespace web");
    let error = writer.evict(&pod()).await.expect_err("denied");
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
    let error = writer.evict(&pod()).await.expect_err("an API server without evictions");
    assert!(matches!(error, ClusterError::Unexpected { .. }), "{error}");
    held.release().await;
    let sent = log.all().len();
    for error in
        [writer.evict(&pod()).await.expect_err("no lock"), writer.delete_daemon_pod(&pod()).await.expect_err("no lock")]
    {
        assert!(matches!(error, ClusterError::LockLost { .. }), "{error}");
    }
    assert_eq!(log.all().len(), sent);
}

#[tokio::test]
async fn daemon_pod_is_deleted_by_uid() {
    let conflict = status(409, "Conflict", "the UID in the precondition does not match", json!({"kind": "pods"}));
    let gone = status(404, "NotFound", NOT_FOUND, json!({"name": "a-0", "kind": "pods"}));
    let (writer, _held, log) = writer("36", vec![Reply::Json(200, json!({"kind": "Pod"})), conflict, gone]).await;
    for _ in 0..3 {
        assert_eq!(writer.delete_daemon_pod(&pod()).await, Ok(()));
    }
    let sent = about_pods(&log).remove(0);
    assert_eq!((sent.method.as_str(), sent.uri.as_str()), ("DELETE", "/api/v1/namespaces/web/pods/a-0"));
    assert_eq!(sent.body["preconditions"], json!({"uid": "u"}));
}
