//! Tests of lists, pages, expired continuations, retries and refusals over a fake connection.

use std::collections::BTreeMap;

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::connection::fake::{Reply, node, nodes, options, reader, replying, serving, status};
use crate::reading::binding::{Binding, BindingEvidence};
use nodecfg_observed::ConfigMapKey;

fn names(nodes: &BTreeMap<NodeName, Node>) -> Vec<&str> {
    nodes.keys().map(NodeName::as_str).collect()
}

#[tokio::test]
async fn reads_all_pages() {
    let (reader, log) =
        reader(vec![Reply::Json(200, nodes(&["a", "b"], 7, "to/ken=")), Reply::Json(200, nodes(&["c"], 7, ""))]);
    let (all, version) = reader.list_nodes().await.expect("a list");
    assert_eq!((names(&all), version.nodes.as_str()), (vec!["a", "b", "c"], "7"));
    assert_eq!(log.lines(), ["GET /api/v1/nodes?limit=250", "GET /api/v1/nodes?limit=500&continue=to%2Fken%3D"]);
    let agent = log.all()[0].headers[http::header::USER_AGENT].to_str().expect("text").to_owned();
    assert!(agent.starts_with("nodecfg/"), "{agent}");
}

#[tokio::test]
async fn restarts_list_after_expired_continuation() {
    let expired = || status(410, "Expired", "The provided continue parameter is too old", json!(null));
    let (reader, log) =
        reader(vec![Reply::Json(200, nodes(&["a", "b"], 7, "t")), expired(), Reply::Json(200, nodes(&["a"], 9, ""))]);
    let (all, version) = reader.list_nodes().await.expect("a list");
    assert_eq!((names(&all), version.nodes.as_str()), (vec!["a"], "9"));
    let continues: Vec<bool> = log.lines().iter().map(|line| line.contains("continue=")).collect();
    assert_eq!(continues, [false, true, false]);

    let mut page = false;
    let (client, log) = serving(move |_| {
        page = !page;
        if page { Reply::Json(200, nodes(&["a"], 7, "t")) } else { expired() }
    });
    let error = ClusterReader::new(client, "https://fake", options()).list_nodes().await.expect_err("expired");
    assert!(matches!(error, ClusterError::Expired { .. }), "{error}");
    assert_eq!(log.all().len(), 8);
}

#[tokio::test]
async fn rereads_truncated_page_and_counts_it_once() {
    let text = nodes(&["a", "b"], 7, "").to_string();
    let half = text[..text.len() - 60].to_owned();
    let (reader, log) = reader(vec![
        Reply::Pieces(vec![half], false),
        Reply::Pieces(vec![text[..20].into()], true),
        Reply::Json(200, nodes(&["a", "b"], 7, "")),
    ]);
    let (all, _) = reader.list_nodes().await.expect("a list");
    assert_eq!(names(&all), ["a", "b"]);
    assert_eq!(log.all().len(), 3);
}

#[tokio::test]
async fn retries_temporary_failures() {
    let (reader, log) = reader(vec![
        Reply::Header(429, ("retry-after", "0"), json!({})),
        status(503, "ServiceUnavailable", "starting", json!(null)),
        Reply::Json(502, json!("bad gateway")),
        Reply::Reset,
        Reply::Silence,
        Reply::Json(200, node("a", 3)),
    ]);
    let found = reader.node(&NodeName::new("a").expect("a name")).await.expect("an answer");
    assert_eq!(found.map(|node| node.uid).as_deref(), Some("uid-a"));
    assert_eq!(log.all().len(), 6);
}

#[tokio::test]
async fn waits_for_retry_after() {
    let (reader, _) = reader(vec![Reply::Header(429, ("retry-after", "1"), json!({})), Reply::Json(200, node("a", 3))]);
    let began = std::time::Instant::now();
    reader.node(&NodeName::new("a").expect("a name")).await.expect("an answer");
    assert!(began.elapsed() >= Duration::from_secs(1));
    // Longer than the time limit: no wait.
    let (client, log) = replying(vec![Reply::Header(429, ("retry-after", "60"), json!({}))]);
    let reader = ClusterReader::new(client, "https://fake", options());
    let error = reader.server_version().await.expect_err("out of time");
    assert!(error.to_string().contains("gave up after 1 attempts") && error.to_string().contains("429"), "{error}");
    assert_eq!(log.all().len(), 1);
}

#[tokio::test]
async fn gives_up_at_the_deadline() {
    let (client, log) = serving(|_| status(503, "ServiceUnavailable", "etcd is away", json!(null)));
    let reader = ClusterReader::new(client, "https://fake", options()).within(Duration::from_millis(100));
    let error = reader.server_version().await.expect_err("out of time");
    let ClusterError::TimedOut { attempts, waited, last, .. } = &error else { panic!("{error}") };
    assert_eq!(usize::try_from(*attempts).expect("small"), log.all().len());
    assert!(*attempts > 3 && *waited < Duration::from_secs(2), "{error}");
    assert_eq!(last, "the API server returns 503: etcd is away");
}

#[tokio::test]
async fn returns_refusals_at_once_with_their_cause() {
    let refusal = async |reply: Reply| {
        let (reader, log) = reader(vec![reply]);
        let error = reader.list_config_maps("kube-system").await.expect_err("refused");
        assert_eq!(log.all().len(), 1);
        error
    };
    let error = refusal(status(401, "Unauthorized", "Unauthorized", json!(null))).await;
    assert_eq!(
        error.to_string(),
        "cannot list configmaps in namespace kube-system: the API server at https://fake does not accept the credentials: \
         Unauthorized"
    );
    let message = "configmaps is forbidden: User \"system:serviceaccount:ci:bot\" cannot list resource \"configmaps\" in API \
        group \"\" in the namespace \"kube-system\"";
    let error = refusal(status(403, "Forbidden", message, json!({"kind": "configmaps"}))).await;
    assert_eq!(
        error.to_string(),
        "cannot list configmaps in namespace kube-system: system:serviceaccount:ci:bot may not list configmaps in namespace \
         kube-system"
    );
    let error = refusal(Reply::Json(403, json!("<html>go away</html>"))).await;
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
    let error = refusal(Reply::Json(404, json!("404 page not found"))).await;
    assert!(matches!(error, ClusterError::Unexpected { .. }), "{error}");
    let error = refusal(Reply::Json(200, json!("<html>welcome</html>"))).await;
    assert!(matches!(error, ClusterError::Unexpected { .. }), "{error}");
}

#[tokio::test]
async fn missing_objects_are_none() {
    let missing = |kind: &str| status(404, "NotFound", "not found", json!({"kind": kind, "name": "x"}));
    let (reader, _) = reader(vec![missing("nodes"), missing("configmaps"), missing("namespaces")]);
    assert_eq!(reader.node(&NodeName::new("x").expect("a name")).await, Ok(None));
    assert_eq!(reader.config_map("kube-system", "x").await, Ok(None));
    assert_eq!(reader.config_map("x", "x").await, Ok(None));
}

#[tokio::test]
async fn lists_config_maps_as_metadata() {
    let list = json!({"kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "6"}, "items": [{"metadata": {
        "name": "prod-gpu-x", "namespace": "kube-system", "uid": "u", "creationTimestamp": "2026-11-20T13:53:24Z",
        "labels": {"nodecfg.dev/fleet": "prod", "nodecfg.dev/pool": "Not A Name"},
        "annotations": {"nodecfg.dev/content-hash": "v1:blake3:00"}}}]});
    let (reader, log) = reader(vec![Reply::Json(200, list)]);
    let maps = reader.list_config_maps("kube-system").await.expect("a list");
    assert_eq!(maps[0].fleet.as_ref().map(ToString::to_string).as_deref(), Some("prod"));
    assert_eq!((&maps[0].pool, maps[0].content_hash.as_deref()), (&None, Some("v1:blake3:00")));
    assert_eq!(maps[0].created.map(|created| created.to_string()).as_deref(), Some("2026-11-20T13:53:24Z"));
    let request = &log.all()[0];
    assert!(request.uri.ends_with("&labelSelector=app.kubernetes.io%2Fmanaged-by%3Dnodecfg"), "{}", request.uri);
    assert!(request.headers[http::header::ACCEPT].to_str().expect("text").contains("PartialObjectMetadataList"));
}

#[tokio::test]
async fn dry_run_determines_the_binding() {
    let name = NodeName::new("a").expect("a name");
    let version = ServerVersion::read("v1.25.1", "1", "25");
    let mut kept = node("a", 3);
    kept["spec"] = json!({"configSource": {"configMap": {"kubeletConfigKey": "kubelet", "name": "nodecfg-binding-check",
        "namespace": "kube-system"}}});
    let message = "nodes \"a\" is forbidden: User \"ci\" cannot patch resource \"nodes\" in API group \"\"";
    let (reader, log) = reader(vec![
        Reply::Json(200, kept),
        Reply::Json(200, node("a", 3)),
        status(403, "Forbidden", message, json!({})),
    ]);
    let check = reader.check_binding(&name, &version).await.expect("an answer");
    assert_eq!((check.binding, check.evidence), (Binding::Node, BindingEvidence::DryRun(name.clone())));
    assert_eq!(reader.check_binding(&name, &version).await.expect("an answer").binding, Binding::NodeConfig);
    let check = reader.check_binding(&name, &version).await.expect("an answer");
    assert_eq!(check.binding, Binding::Node);
    assert_eq!(check.evidence, BindingEvidence::ServerVersion("v1.25.1".to_owned()));
    assert!(log.lines().iter().all(|line| line == "PATCH /api/v1/nodes/a?dryRun=All&fieldManager=nodecfg"));
}

#[tokio::test]
async fn status_of_one_node_cannot_stop_an_observation() {
    let source = json!({"configMap": {"namespace": "theirs", "name": "x", "kubeletConfigKey": "kubelet"}});
    let observed = async |field: &str| {
        let mut object = node("n1", 1);
        match field {
            "/spec" => object["spec"] = json!({"configSource": source}),
            _ => object["status"] = json!({"config": {"active": source}}),
        }
        let list = |items: Value| Reply::Json(200, json!({"items": items, "metadata": {"resourceVersion": "7"}}));
        let refused =
            "configmaps \"x\" is forbidden: User \"sync\" cannot get resource \"configmaps\" in namespace \"theirs\"";
        let replies = vec![list(json!([object])), list(json!([])), status(403, "Forbidden", refused, json!({}))];
        let (reader, _) = reader(replies);
        let key = ConfigMapKey { namespace: "theirs".to_owned(), name: "x".to_owned() };
        crate::reading::observe::observe(&reader, "kube-system", |_| [key].into()).await
    };
    let found = observed("/status").await.expect("the status of a node is no instruction");
    assert_eq!((found.nodes.len(), found.contents.len()), (1, 0));
    assert!(matches!(observed("/spec").await, Err(ClusterError::Forbidden { .. })), "an assignment is");
}
