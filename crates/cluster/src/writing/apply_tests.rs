//! Tests of server-side apply over a fake connection.

use serde_json::json;

use super::*;
use crate::connection::fake::{Log, Reply, options, replying, status};
use crate::reading::reader::ReaderOptions;

fn applier(replies: Vec<Reply>) -> (Applier, Log) {
    let (client, log) = replying(replies);
    (Applier::new(&ClusterReader::new(client, "https://fake", options())), log)
}

fn role() -> (Target, Value) {
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r", "namespace": "n"}, "rules": [],
    });
    (Target::of(&object).expect("a known kind"), object)
}

fn definition() -> Target {
    Target::of(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"},
    }))
    .expect("a known kind")
}

fn established(condition: &str, holds: &str, message: &str) -> Reply {
    Reply::Json(200, json!({"status": {"conditions": [{"type": condition, "status": holds, "message": message}]}}))
}

#[tokio::test]
async fn apply_is_strict_and_forces_only_on_request() {
    let (applier, log) = applier(vec![Reply::Json(201, json!({})), Reply::Json(200, json!({}))]);
    let (target, object) = role();
    assert_eq!((target.resource().as_str(), target.namespace()), ("role.rbac.authorization.k8s.io", Some("n")));
    for force in [false, true] {
        applier.apply(&target, &object, force).await.expect("applied");
    }
    let path =
        "PATCH /apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/r?fieldManager=nodecfg&fieldValidation=Strict";
    assert_eq!(log.lines(), [format!("{path}&force=false"), format!("{path}&force=true")]);
    let requests = log.all();
    assert_eq!(requests[0].headers["content-type"], "application/apply-patch+yaml");
    assert_eq!(requests[0].body, object);
}

#[tokio::test]
async fn reports_field_conflict_with_its_fix() {
    let message = "Apply failed with 1 conflict: conflict with \"kubectl\": .rules";
    let (applier, _) = applier(vec![status(409, "Conflict", message, json!({"causes": []}))]);
    let (target, object) = role();
    let error = applier.apply(&target, &object, false).await.expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        format!("cannot patch role n/r: another client manages some of its fields: {message}")
    );
    assert!(error.help().contains("--force-conflicts"));
}

#[tokio::test]
async fn waits_until_a_definition_is_established() {
    let (applier, log) = applier(vec![
        Reply::Json(200, json!({})),
        established("NamesAccepted", "True", ""),
        established("Established", "False", "not yet"),
        established("Established", "True", ""),
    ]);
    applier.await_established(&definition()).await.expect("established");
    let path = "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/d";
    assert_eq!(log.lines(), [path; 4]);
}

#[tokio::test]
async fn reports_why_a_definition_is_not_served() {
    let (client, _) =
        crate::connection::fake::serving(|_| established("NamesAccepted", "False", "\"NodeConfig\" is in use"));
    let options = ReaderOptions { patience: Duration::from_millis(50), ..options() };
    let applier = Applier::new(&ClusterReader::new(client, "https://fake", options));
    let error = applier.await_established(&definition()).await.expect_err("never");
    assert_eq!(
        error.to_string(),
        "cannot get customresourcedefinition d: the API server stores the definition but does not serve it: \"NodeConfig\" is in use"
    );
}

#[tokio::test]
async fn old_server_does_not_serve_a_newer_kind() {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
    });
    let target = Target::of(&policy).expect("a known kind");
    let resources = |names: &[&str]| {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        Reply::Json(200, json!({"kind": "APIResourceList", "resources": all}))
    };
    let (applier, log) = applier(vec![
        resources(&["validatingwebhookconfigurations", "validatingadmissionpolicies"]),
        resources(&["validatingwebhookconfigurations"]),
        status(404, "NotFound", "the server could not find the requested resource", json!({})),
    ]);
    assert!(applier.serves(&target).await.expect("an answer"));
    for _ in 0..2 {
        assert!(!applier.serves(&target).await.expect("an answer"));
    }
    assert_eq!(log.lines(), ["GET /apis/admissionregistration.k8s.io/v1"; 3]);
}

#[test]
fn only_installed_kinds_have_a_target() {
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
        json!({"apiVersion": "apps/v1beta1", "kind": "DaemonSet", "metadata": {"name": "d"}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {}}),
    ] {
        assert_eq!(Target::of(&object), None, "{object}");
    }
}
