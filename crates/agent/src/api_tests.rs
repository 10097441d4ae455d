//! Tests of the agent's requests against the sandbox, and on the wire where needed.

use std::pin::pin;

use futures::StreamExt;
use serde_json::{Value, json};

use super::*;
use nodecfg_cluster::connection::fake::{RecordedRequest, Reply, replying, serving};
use nodecfg_contract::nodeconfig::{CONFIG_READY, Condition, NodeConfig, READY, definition};
use nodecfg_contract::{ConfigSource, ConfigStatus, KUBELET_KEY, KubeletVersion};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

fn options() -> AgentClientOptions {
    AgentClientOptions {
        request_timeout: Duration::from_millis(500),
        retry_limit: RETRY_LIMIT,
        retry: RetryPolicy { first_delay: Duration::from_millis(2), longest_delay: Duration::from_millis(20) },
        refusal_timeout: Duration::from_millis(100),
        seed: 1,
    }
}

fn client_of(client: kube::Client) -> AgentClient {
    AgentClient::new(client, "https://sandbox", NodeName::new("n1").expect("a name"), options())
}

fn cluster() -> (Api, AgentClient) {
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    let client = client_of(api.client());
    (api, client)
}

fn create(api: &Api, group: &str, resource: &str, namespace: &str, object: Value) {
    api.create(group, resource, namespace, object, "test").unwrap_or_else(|_| panic!("{resource}"));
}

fn with_resource(api: &Api) {
    create(api, "apiextensions.k8s.io", "customresourcedefinitions", "", definition());
}

fn node_config(name: &str, config_map: &str) -> Value {
    json!({
        "apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": name},
        "spec": {"configSource": ConfigSource::config_map("nodecfg-system", config_map, KUBELET_KEY)},
    })
}

async fn next(seen: &mut (impl Stream<Item = Result<Option<NodeConfig>, ClusterError>> + Unpin)) -> Option<NodeConfig> {
    seen.next().await.expect("never ends").expect("is followed")
}

fn name_of(wanted: &NodeConfig) -> Option<String> {
    Some(wanted.spec.config_source.as_ref()?.config_map.as_ref()?.name.clone())
}

#[tokio::test]
async fn follows_node_config_before_definition_exists() {
    let (api, client) = cluster();
    let error = client.node_config(Duration::from_millis(50)).await.expect_err("the resource is missing");
    assert!(matches!(error, ClusterError::DefinitionMissing { .. }), "{error}");
    let mut seen = pin!(client.follow());
    // A missing CustomResourceDefinition must not look like a missing NodeConfig.
    assert!(tokio::time::timeout(Duration::from_millis(100), seen.next()).await.is_err());
    with_resource(&api);
    create(&api, "nodecfg.dev", "nodeconfigs", "", node_config("other", "b"));
    assert_eq!(seen.next().await, Some(Ok(None)));
    create(&api, "nodecfg.dev", "nodeconfigs", "", node_config("n1", "a"));
    let wanted = next(&mut seen).await.expect("only the NodeConfig of this node");
    assert_eq!((name_of(&wanted).as_deref(), wanted.metadata.generation), (Some("a"), 1));
    assert_eq!(wanted.status, NodeConfigStatus::default());

    let status = NodeConfigStatus {
        config: Some(ConfigStatus { error: Some("e".to_owned()), ..ConfigStatus::default() }),
        observed_generation: Some(1),
        ..NodeConfigStatus::default()
    };
    for _ in 0..2 {
        client.report(&status).await.expect("accepts repeated reports");
    }
    let wanted = next(&mut seen).await.expect("changed");
    assert_eq!((wanted.status, wanted.metadata.generation), (status.clone(), 1));
    assert_eq!(client.node_config(RETRY_LIMIT).await.expect("an answer").expect("exists").status, status);
    // Without a Node, a report with the condition Ready arrives, too.
    let ready = |status: &str| {
        let condition = Condition {
            kind: READY.to_owned(),
            status: status.to_owned(),
            reason: "Converged".to_owned(),
            last_transition_time: "2026-11-20T13:38:30Z".to_owned(),
            ..Condition::default()
        };
        NodeConfigStatus { conditions: vec![condition], ..NodeConfigStatus::default() }
    };
    client.report(&ready("True")).await.expect("accepts it");
    let own = json!({"type": "Ready", "status": "Unknown"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [own]}});
    create(&api, "", "nodes", "", node);
    for status in ["True", "False"] {
        client.report(&ready(status)).await.expect("accepts it");
        let shown = api.get("", "nodes", "", "n1").expect("exists");
        assert_eq!(shown["status"]["conditions"][0], own, "the kubelet's");
        let [kind, value] = ["type", "status"].map(|field| shown["status"]["conditions"][1][field].clone());
        assert_eq!([kind, value], [json!(CONFIG_READY), json!(status)]);
        assert_eq!(shown["status"]["conditions"].as_array().map(Vec::len), Some(2));
    }
    // Omitted fields are removed.
    client
        .report(&NodeConfigStatus { config: Some(ConfigStatus::default()), ..NodeConfigStatus::default() })
        .await
        .expect("accepts the report");
    let object = api.get("nodecfg.dev", "nodeconfigs", "", "n1").expect("exists");
    assert_eq!(object["status"], json!({"config": {}}));
}

#[tokio::test]
async fn downloads_config_map() {
    let (api, client) = cluster();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": {
            "name": "a", "namespace": "nodecfg-system",
            "labels": {CONFIG_MAP_POOL_LABEL: "gpu"}, "annotations": {"nodecfg.dev/content-hash": "v1:blake3:00"},
        },
        "data": {"kubelet": "kind: KubeletConfiguration\n", "other": ""},
    });
    create(
        &api,
        "",
        "namespaces",
        "",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nodecfg-system"}}),
    );
    create(&api, "", "configmaps", "nodecfg-system", object);
    let asked = ConfigSource::config_map("nodecfg-system", "a", "kubelet").config_map.expect("set");
    let download = client.config_map(&asked).await.expect("exists");
    let found = download.source.config_map.clone().expect("set");
    assert_eq!((found.name.as_str(), found.kubelet_config_key.as_str()), ("a", "kubelet"));
    assert!(found.uid.as_ref().is_some_and(|uid| !uid.is_empty()) && found.resource_version.is_some());
    assert_eq!(download.payload.keys().collect::<Vec<_>>(), ["kubelet", "other"]);
    assert!(download.immutable);
    assert_eq!(
        (download.pool.as_deref(), download.content_hash.as_deref()),
        (Some("gpu"), None),
        "only the content proves its hash"
    );

    let missing = ConfigSource::config_map("nodecfg-system", "b", "kubelet").config_map.expect("set");
    let error = client.config_map(&missing).await.expect_err("is missing");
    assert!(matches!(&error, FetchError::Missing(text) if text.contains("configmap nodecfg-system/b")), "{error:?}");
}

#[tokio::test]
async fn reports_failed_downloads() {
    let asked = ConfigSource::config_map("ns", "a", "kubelet").config_map.expect("set");
    let forbidden = json!({"kind": "Status", "reason": "Forbidden", "code": 403,
        "message": "configmaps \"a\" is forbidden: User \"agent\" cannot get resource \"configmaps\""});
    let (client, _) = replying(vec![Reply::Json(403, forbidden)]);
    let error = client_of(client).config_map(&asked).await;
    assert!(matches!(error, Err(FetchError::Forbidden(_))), "{error:?}");
    let (client, _) = replying(vec![]);
    let error = client_of(client).config_map(&asked).await;
    assert!(matches!(error, Err(FetchError::Unreachable(_))), "{error:?}");
    // One closed connection is retried.
    let map = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}});
    let (client, _) = replying(vec![Reply::Json(200, map.clone()), Reply::Reset, Reply::Json(200, map)]);
    let client = client_of(client);
    for _ in 0..2 {
        assert!(!client.config_map(&asked).await.expect("exists").immutable);
    }
}

/// Client of a server with this Node and this Lease.
fn health_of(node: (u16, Value), lease: (u16, Value)) -> AgentClient {
    let (client, _) = serving(move |asked: &RecordedRequest| {
        let (status, body) = if asked.uri.contains("/leases/") { lease.clone() } else { node.clone() };
        Reply::Json(status, body)
    });
    client_of(client)
}

#[tokio::test]
async fn reads_node_health() {
    let node = |ready: &str| {
        let status =
            json!({"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"kubeletVersion": "v1.36.2"}});
        (200, json!({"metadata": {"name": "n1"}, "status": status}))
    };
    let lease = (200, json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}));
    let status = |code: u16, reason: &str, message: &str| {
        (code, json!({"kind": "Status", "reason": reason, "message": message, "code": code}))
    };
    let forbidden = status(403, "Forbidden", "leases is forbidden: User \"a\" cannot get resource \"leases\"");

    let client = health_of(node("True"), lease.clone());
    let renewed = "2026-01-01T00:00:00Z".parse().expect("a time");
    assert_eq!(client.node_health().await, Some(NodeHealth { ready: true, lease_renewed: Some(renewed) }));
    assert_eq!(client.node().await.and_then(|node| node.kubelet_version), KubeletVersion::parse("v1.36.2"));
    let client = health_of(node("Unknown"), status(404, "NotFound", "no such lease"));
    assert_eq!(client.node_health().await, Some(NodeHealth { ready: false, lease_renewed: None }));
    // A permanently forbidden Lease does not count. A temporary error must not look like a deleted Lease.
    let client = health_of(node("True"), forbidden.clone());
    assert_eq!(client.node_health().await, Some(NodeHealth { ready: true, lease_renewed: None }));
    let client = health_of(node("True"), status(500, "InternalError", "etcd"));
    assert_eq!(client.node_health().await, None);
    let client = health_of(status(404, "NotFound", "no such node"), lease);
    assert_eq!(client.node_health().await, None);
}

#[tokio::test]
async fn announces_event_in_kubelet_format() {
    let (client, log) = replying(vec![Reply::Json(201, json!({}))]);
    let announcement = Announcement { reason: "KubeletConfigChanged", message: "m".to_owned(), warning: false };
    client_of(client).announce(&announcement, Timestamp::UNIX_EPOCH).await;
    let asked = log.all();
    insta::assert_json_snapshot!(asked.first().map(|asked| &asked.body));
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn skips_unreadable_node_config() {
    let item =
        |spec: Value| json!({"metadata": {"name": "n1", "generation": 3}, "spec": spec, "status": {"config": 7}});
    let list = |spec: Value| Reply::Json(200, json!({"metadata": {"resourceVersion": "9"}, "items": [item(spec)]}));
    let (client, log) = replying(vec![list(json!({"configSource": "nonsense"})), list(json!({"configSource": {}}))]);
    let wanted = next(&mut pin!(client_of(client).follow())).await.expect("the second");
    assert_eq!((wanted.metadata.generation, wanted.spec.config_source), (3, Some(ConfigSource::default())));
    // An invalid status is overwritten.
    assert_eq!(wanted.status, NodeConfigStatus::default());
    assert!(log.lines().iter().all(|line| line.contains("fieldSelector=metadata.name%3Dn1")), "{:?}", log.lines());
}

/// NodeConfig of generation 3 with additional metadata.
fn with_metadata(metadata: &Value) -> Value {
    let mut object = node_config("n1", "a");
    object["metadata"]["generation"] = json!(3);
    for (key, value) in metadata.as_object().expect("fields") {
        object["metadata"][key] = value.clone();
    }
    object
}

/// Client of a server with one constant NodeConfig and this Node.
fn owned(metadata: &Value, node: (u16, Value)) -> (AgentClient, nodecfg_cluster::connection::fake::Log) {
    let item = with_metadata(metadata);
    let (client, log) = serving(move |asked: &RecordedRequest| match asked.uri.as_str() {
        uri if uri.contains("/nodes/") => Reply::Json(node.0, node.1.clone()),
        uri if uri.contains("watch=") => {
            let event = |object: &Value| json!({"type": "MODIFIED", "object": object});
            let mut item = item.clone();
            item["metadata"]["resourceVersion"] = json!("10");
            Reply::Lines(vec![event(&item), event(&item)])
        }
        uri if uri.contains("nodeconfigs/n1") => Reply::Json(200, item.clone()),
        _ => Reply::Json(200, json!({"metadata": {"resourceVersion": "9"}, "items": [item]})),
    });
    (client_of(client), log)
}

#[tokio::test]
async fn ignores_node_config_of_earlier_node() {
    let node = |uid: &str| (200, json!({"metadata": {"name": "n1", "uid": uid}}));
    let no_node = (404, json!({"kind": "Status", "reason": "NotFound", "code": 404, "message": "no"}));
    let owner = |kind: &str, uid: &str| json!({"apiVersion": "v1", "kind": kind, "name": "n1", "uid": uid});
    let owners = |list: &[Value]| json!({"ownerReferences": list});
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    for (metadata, node, applicable, reads) in [
        (owners(&[owner("Node", "new")]), node("new"), true, 1),
        (owners(&[owner("Node", "old")]), node("new"), false, 1),
        (owners(&[owner("Node", "old"), owner("Node", "new")]), node("new"), true, 1),
        (owners(&[owner("Fleet", "old")]), node("new"), true, 0),
        (owners(&[]), node("new"), true, 0),
        (going, node("new"), false, 0),
        // If the Node cannot be read, the NodeConfig applies, and the agent reads the Node again each time.
        (owners(&[owner("Node", "old")]), no_node, true, 3),
    ] {
        let (client, log) = owned(&metadata, node.clone());
        let mut seen = pin!(client.follow());
        for _ in 0..3 {
            assert_eq!(next(&mut seen).await.is_some(), applicable, "{metadata}");
        }
        let asked = log.lines().iter().filter(|line| line.contains("/nodes/")).count();
        assert_eq!(asked, reads, "{metadata}");
        let once = client.node_config(RETRY_LIMIT).await.expect("an answer");
        assert_eq!(once.is_some(), applicable, "{metadata}");
    }
}

#[tokio::test]
async fn reports_persistently_refused_credentials() {
    let refused =
        || Reply::Json(401, json!({"kind": "Status", "reason": "Unauthorized", "code": 401, "message": "no"}));
    let (client, log) = serving(move |_: &RecordedRequest| refused());
    let client = client_of(client);
    let mut seen = pin!(client.follow());
    let error = seen.next().await.expect("never ends").expect_err("returns the error");
    assert!(matches!(error, ClusterError::Unauthorized { .. }), "{error}");
    assert!(log.all().len() > 1, "not at the first refusal");

    // Any other error is retried without limit.
    let (client, _) = serving(|_: &RecordedRequest| {
        Reply::Json(403, json!({"kind": "Status", "reason": "Forbidden", "code": 403, "message": "no"}))
    });
    let client = client_of(client);
    let mut seen = pin!(client.follow());
    assert!(tokio::time::timeout(Duration::from_millis(300), seen.next()).await.is_err());
}
