//! Applying, on the wire.

use serde_json::json;

use super::*;
use crate::fake::{Log, Reply, options, replying, status};
use crate::reader::ReaderOptions;

fn applier(replies: Vec<Reply>) -> (Applier, Log) {
    let (client, log) = replying(replies);
    (Applier::new(&ClusterReader::new(client, "https://fake", options())), log)
}

fn role() -> (Target, Value) {
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r", "namespace": "n"}, "rules": [],
    });
    (Target::of(&object).expect("a kind that is known"), object)
}

fn definition() -> Target {
    Target::of(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"},
    }))
    .expect("a kind that is known")
}

fn established(condition: &str, holds: &str, message: &str) -> Reply {
    Reply::Json(200, json!({"status": {"conditions": [{"type": condition, "status": holds, "message": message}]}}))
}

#[tokio::test]
async fn an_apply_is_server_side_strict_and_takes_over_only_when_told() {
    let (applier, log) = applier(vec![Reply::Json(201, json!({})), Reply::Json(200, json!({}))]);
    let (target, object) = role();
    assert_eq!((target.resource().as_str(), target.namespace()), ("role.rbac.authorization.k8s.io", Some("n")));
    for force in [false, true] {
        applier.apply(&target, &object, force).await.expect("is taken");
    }
    let path =
        "PATCH /apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/r?fieldManager=nodecfg&fieldValidation=Strict";
    assert_eq!(log.lines(), [format!("{path}&force=false"), format!("{path}&force=true")]);
    let asked = log.all();
    assert_eq!(asked[0].headers["content-type"], "application/apply-patch+yaml");
    assert_eq!(asked[0].body, object);
}

#[tokio::test]
async fn others_fields_are_told_with_the_way_out() {
    let words = "Apply failed with 1 conflict: conflict with \"kubectl\": .rules";
    let (applier, _) = applier(vec![status(409, "Conflict", words, json!({"causes": []}))]);
    let (target, object) = role();
    let error = applier.apply(&target, &object, false).await.expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        format!("cannot patch role n/r: somebody else has set some of its fields otherwise: {words}")
    );
    assert!(error.help().contains("--force-conflicts"));
}

#[tokio::test]
async fn a_definition_is_waited_for() {
    let (applier, log) = applier(vec![
        Reply::Json(200, json!({})),
        established("NamesAccepted", "True", ""),
        established("Established", "False", "not yet"),
        established("Established", "True", ""),
    ]);
    applier.await_established(&definition()).await.expect("in the end");
    let path = "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/d";
    assert_eq!(log.lines(), [path; 4]);
}

#[tokio::test]
async fn a_definition_that_is_never_served_says_why() {
    let (client, _) = crate::fake::serving(|_| established("NamesAccepted", "False", "\"NodeConfig\" is in use"));
    let options = ReaderOptions { patience: Duration::from_millis(50), ..options() };
    let applier = Applier::new(&ClusterReader::new(client, "https://fake", options));
    let error = applier.await_established(&definition()).await.expect_err("never");
    assert_eq!(
        error.to_string(),
        "cannot get customresourcedefinition d: it is stored, but what it describes is not served: \"NodeConfig\" is in use"
    );
}

#[tokio::test]
async fn what_a_server_is_too_old_for_is_not_served() {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
    });
    let target = Target::of(&policy).expect("a kind that is known");
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
fn what_is_not_installed_has_no_target() {
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
        json!({"apiVersion": "apps/v1beta1", "kind": "DaemonSet", "metadata": {"name": "d"}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {}}),
    ] {
        assert_eq!(Target::of(&object), None, "{object}");
    }
}
