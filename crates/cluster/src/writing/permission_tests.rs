//! Tests of dry runs: what admission refuses before the first write.

use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{Assignment, ConfigSource};

use super::*;
use crate::connection::fake::{RecordedRequest, Reply, options, reader, serving, status};

const CONFIG_MAPS: &str = "POST /api/v1/namespaces/fleet/configmaps?dryRun=All&fieldManager=nodecfg";

/// Refusal of a ValidatingAdmissionPolicy with the reason Forbidden, as `dispatcher.go` in
/// k8s.io/apiserver/pkg/admission/plugin/policy/validating composes it.
fn denied(policy: &str, message: &str) -> Reply {
    let text = format!(
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: \
         {message}"
    );
    status(403, "Forbidden", &text, json!({"name": "a", "kind": "configmaps"}))
}

#[tokio::test]
async fn refusal_by_the_own_policy_names_user_and_command() {
    let message = "only the reconciler of nodecfg and the users that nodecfg install names (--config-map-writer) may write \
                   ConfigMaps of nodecfg, not oidc:ada lovelace";
    let (reader, log) = reader(vec![
        denied("nodecfg-configmaps-fleet", message),
        denied("nodecfg-configmaps", message),
        denied("other", message),
    ]);
    let error = reader.try_config_map("fleet", None).await.expect_err("refused");
    assert_eq!(
        error.to_string(),
        "cannot create configmap fleet/nodecfg-admission-check: the ValidatingAdmissionPolicy nodecfg-configmaps-fleet \
         of this cluster does not list oidc:ada lovelace among the users who may write ConfigMaps of nodecfg"
    );
    assert_eq!(
        error.help(),
        "as an administrator, repeat the `nodecfg install` of the namespace fleet with all its options and \
         `--config-map-writer 'oidc:ada lovelace'`"
    );
    let error = reader.try_config_map("fleet", None).await.expect_err("refused");
    assert!(
        error.to_string().contains("ValidatingAdmissionPolicy nodecfg-configmaps of"),
        "an earlier version: {error}"
    );
    let error = reader.try_config_map("fleet", None).await.expect_err("refused");
    assert!(matches!(&error, ClusterError::Invalid { message, .. } if message.contains("'other'")), "{error}");
    assert_eq!(log.lines(), [CONFIG_MAPS; 3]);
    let labels = &log.all()[0].body["metadata"]["labels"];
    assert_eq!(labels, &json!({"app.kubernetes.io/managed-by": "nodecfg"}), "the policy selects by this label");
}

#[tokio::test]
async fn dry_run_that_proves_nothing_is_no_refusal() {
    let exists = || status(409, "AlreadyExists", "already exists", json!({"kind": "configmaps", "name": "a"}));
    let webhook = "admission webhook \"a.example.com\" does not support dry run";
    let (reader, _log) = reader(vec![
        exists(),
        status(400, "BadRequest", webhook, json!({})),
        status(400, "BadRequest", "wrong", json!({})),
    ]);
    assert_eq!(reader.try_config_map("fleet", None).await, Ok(()));
    assert_eq!(reader.try_config_map("fleet", None).await, Ok(()));
    let error = reader.try_config_map("fleet", None).await.expect_err("refused");
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
}

/// Rights that a rollout with these needs reviews, without those of its assignments.
async fn reviewed(needs: Needs<'_>) -> Vec<String> {
    let (client, log) = serving(|_| Reply::Json(201, json!({"status": {"allowed": true}})));
    let reader = ClusterReader::new(client, "https://fake", options());
    assert_eq!(reader.check_all_allowed(needs).await, Ok(()));
    let right = |request: RecordedRequest| {
        let attributes = &request.body["spec"]["resourceAttributes"];
        let text = |name: &str| attributes[name].as_str().unwrap_or_default().to_owned();
        let resource = [text("group"), text("resource"), text("subresource")].join("/");
        format!("{} {} {}", text("verb"), resource.trim_matches('/'), text("namespace"))
    };
    let mut rights: Vec<String> = log.all().into_iter().map(right).collect();
    rights.sort();
    rights
}

/// A right that is not reviewed may be missed half-way.
#[tokio::test]
async fn every_right_of_drains_marks_and_pointers_is_reviewed() {
    let drain = Needs { drain: true, ..Needs::default() };
    assert_eq!(
        reviewed(drain).await,
        [
            "create pods/eviction ",
            "delete pods ",
            "get nodes ",
            "list pods ",
            "list policy/poddisruptionbudgets ",
            "list storage.k8s.io/volumeattachments ",
            "patch nodes ",
            "watch pods ",
        ]
    );
    let pointers = Needs { pointers_in: Some("fleet"), ..Needs::default() };
    let on_config_maps = ["create configmaps fleet", "get configmaps fleet", "update configmaps fleet"];
    assert_eq!(reviewed(pointers).await, on_config_maps);
}

#[tokio::test]
async fn server_that_refuses_reviews_is_asked_by_the_write_itself() {
    let refused =
        || status(403, "Forbidden", "User \"ci\" cannot create resource \"selfsubjectaccessreviews\"", json!({}));
    let nodes = "nodes \"n1\" is forbidden: User \"ci\" cannot patch resource \"nodes\"";
    let (reader, _log) =
        reader(vec![refused(), status(403, "Forbidden", nodes, json!({"kind": "nodes", "name": "n1"}))]);
    assert_eq!(reader.may_list_pods().await, Ok(()));
    let error = reader.try_assignment(&NodeName::new("n1").expect("a name"), &assignment()).await.expect_err("refused");
    assert!(matches!(error, ClusterError::Forbidden { .. }), "{error}");
}

fn assignment() -> Assignment {
    Assignment {
        uid: "u".to_owned(),
        from: None,
        to: Some(ConfigSource::config_map("fleet", "a", "kubelet")),
        from_hash: None,
        to_hash: None,
        from_placement: None,
        to_placement: None,
        present_placement: None,
        max_disruption: Class::Restart,
    }
}

#[tokio::test]
async fn tries_out_the_assignment_that_would_be_sent() {
    let missing = || status(404, "NotFound", "not found", json!({"kind": "nodeconfigs", "name": "n1"}));
    let changed = || status(422, "Invalid", "the server rejected our request", json!({}));
    let (reader, log) = reader(vec![missing(), denied("strict", "no"), changed()]);
    let reader = ClusterReader { binding: Binding::NodeConfig, ..reader };
    let assignment = assignment();
    let node = NodeName::new("n1").expect("a name");
    let error = reader.try_assignment(&node, &assignment).await.expect_err("refused");
    assert!(
        error.to_string().starts_with("cannot create nodeconfig n1: the API server rejects the request"),
        "{error}"
    );
    assert_eq!(reader.try_assignment(&node, &assignment).await, Ok(()), "another client changed the node");
    let of = |method: &str, name: &str| {
        format!("{method} /apis/nodecfg.dev/v1alpha1/nodeconfigs{name}?dryRun=All&fieldManager=nodecfg")
    };
    assert_eq!(log.lines(), [of("PATCH", "/n1"), of("POST", ""), of("PATCH", "/n1")]);
}
