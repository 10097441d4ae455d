//! Tests beyond the recordings: clients over sockets and in the process, garbage collection, refused requests, and
//! scale.

use std::time::{Duration, Instant};

use ::http::Request;
use axum::body::Body;
use futures::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use tower::ServiceExt;

use super::*;

pub(super) fn api(profile: ServerProfile) -> Api {
    Api::new(ApiOptions { profile, ..ApiOptions::default() })
}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) warnings: Vec<String>,
    pub(super) retry_after: Option<String>,
    pub(super) body: Value,
}

pub(super) async fn send(api: &Api, method: &str, uri: &str, content_type: &str, body: &Value) -> Reply {
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .header("Content-Type", content_type)
        .header("User-Agent", "test/1")
        .body(if body.is_null() { Body::empty() } else { Body::from(body.to_string()) })
        .unwrap();
    request.extensions_mut().insert(User::admin("admin"));
    let response = api.router().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter().map(|v| v.to_str().unwrap().to_owned()).collect();
    let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
    Reply { status, warnings, retry_after, body }
}

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(super) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": "a"}}})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

#[tokio::test]
async fn kube_client_works_in_process() {
    let api = api(ServerProfile::V1_21);
    let nodes: kube::Api<Node> = kube::Api::all(api.client());
    let node: Node = serde_json::from_value(node("n1")).unwrap();
    let created = nodes.create(&PostParams::default(), &node).await.unwrap();
    let since = created.metadata.resource_version.clone().unwrap();
    let mut watch = nodes.watch(&WatchParams::default().labels("pool=a"), &since).await.unwrap().boxed();
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status("n1", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(5), watch.try_next()).await.unwrap().unwrap();
    match event {
        Some(WatchEvent::Modified(node)) => {
            assert_eq!(node.status.unwrap().conditions.unwrap()[0].status, "True");
        }
        other => panic!("{other:?}"),
    }
    let list = nodes.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);
    let applied = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"x": "y"}}});
    nodes.patch("n1", &PatchParams::apply("t"), &Patch::Apply(applied)).await.unwrap();
    nodes.delete("n1", &DeleteParams::default()).await.unwrap();
    assert!(nodes.get_opt("n1").await.unwrap().is_none());
}

async fn watch_over_the_wire(http2: bool) {
    let tokens = BTreeMap::from([("secret".to_owned(), User::admin("admin"))]);
    let api = Api::new(ApiOptions { tokens, ..ApiOptions::default() });
    api.create("", "nodes", "", node("n1"), "t").unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = api.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let uri = format!("http://{address}/api/v1/nodes?watch=1");
    let request = Request::builder()
        .uri(uri)
        .header("Host", "localhost")
        .header("Authorization", "Bearer secret")
        .body(Body::empty())
        .unwrap();
    // The sender must outlive the stream, because without the sender the connection closes.
    let (response, _keep): (_, Box<dyn std::any::Any>) = if http2 {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        (sender.send_request(request).await.unwrap(), Box::new(sender))
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        (sender.send_request(request).await.unwrap(), Box::new(sender))
    };
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    for expected in [("ADDED", "n1"), ("ADDED", "n2")] {
        let frame = tokio::time::timeout(Duration::from_secs(5), body.frame()).await.unwrap().unwrap().unwrap();
        let event: Value = serde_json::from_slice(frame.data_ref().unwrap()).unwrap();
        assert_eq!((text(&event, "/type"), text(&event, "/object/metadata/name")), expected);
        let _ = api.create("", "nodes", "", node("n2"), "t");
    }
}

#[tokio::test]
async fn watches_work_over_http_1_and_2() {
    watch_over_the_wire(false).await;
    watch_over_the_wire(true).await;
}

#[tokio::test]
async fn pages_show_one_revision_despite_later_writes() {
    let api = api(ServerProfile::V1_21);
    for name in ["a", "b", "c", "d"] {
        api.create("", "nodes", "", node(name), "t").unwrap();
    }
    let first = send(&api, "GET", "/api/v1/nodes?limit=2", JSON, &Value::Null).await.body;
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    send(&api, "DELETE", "/api/v1/nodes/c", JSON, &Value::Null).await;
    send(&api, "PATCH", "/api/v1/nodes/d", MERGE, &json!({"metadata": {"labels": {"pool": "z"}}})).await;
    api.create("", "nodes", "", node("bb"), "t").unwrap();
    let next = format!("/api/v1/nodes?limit=2&continue={}", first["metadata"]["continue"].as_str().unwrap());
    let second = send(&api, "GET", &next, JSON, &Value::Null).await.body;
    let names: Vec<&str> = second["items"].as_array().unwrap().iter().map(|n| text(n, "/metadata/name")).collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(second["items"][1]["metadata"]["labels"]["pool"], "a");
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    api.forget_history();
    let expired = send(&api, "GET", &next, JSON, &Value::Null).await;
    assert_eq!((expired.status, expired.body["reason"].as_str()), (410, Some("Expired")));
    let token = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = send(&api, "GET", &format!("/api/v1/nodes?continue={token}"), JSON, &Value::Null).await;
    assert_eq!(rest.body["items"].as_array().unwrap().len(), 2, "the current bb and d");
}

#[tokio::test]
async fn deletion_respects_owners_finalizers_and_namespaces() {
    let api = api(ServerProfile::V1_36);
    let owner = api.create("", "nodes", "", node("n1"), "t").unwrap();
    let mut lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1", "ownerReferences":
        [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": text(&owner, "/metadata/uid")}]}, "spec": {}});
    api.create("coordination.k8s.io", "leases", "kube-node-lease", lease.clone(), "t").unwrap();
    lease["metadata"]["finalizers"] = json!(["x.dev/y"]);
    lease["metadata"]["name"] = "held".into();
    api.create("coordination.k8s.io", "leases", "kube-node-lease", lease, "t").unwrap();
    assert_eq!(send(&api, "DELETE", "/api/v1/nodes/n1", JSON, &Value::Null).await.status, 200);
    let get = |name: &str| api.get("coordination.k8s.io", "leases", "kube-node-lease", name);
    assert!(get("n1").is_none());
    assert!(get("held").unwrap()["metadata"]["deletionTimestamp"].is_string());
    let held = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/held";
    let freed = send(&api, "PATCH", held, MERGE, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(freed.status, 200);
    assert!(get("held").is_none());

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let created = api.create("", "namespaces", "", namespace, "t").unwrap();
    assert_eq!(created["status"]["phase"], "Active");
    assert_eq!(created["metadata"]["labels"]["kubernetes.io/metadata.name"], "team");
    api.create("", "configmaps", "team", config_map("a"), "t").unwrap();
    let deleted = send(&api, "DELETE", "/api/v1/namespaces/team", JSON, &Value::Null).await;
    assert_eq!(deleted.body["status"]["phase"], "Terminating");
    assert!(api.get("", "configmaps", "team", "a").is_none() && api.get("", "namespaces", "", "team").is_none());
}

#[tokio::test]
async fn deletion_respects_preconditions_selectors_and_dry_run() {
    let api = api(ServerProfile::V1_21);
    for name in ["a", "b"] {
        api.create("", "configmaps", "default", config_map(name), "t").unwrap();
    }
    let at = "/api/v1/namespaces/default/configmaps";
    let wrong = send(&api, "DELETE", &format!("{at}/a"), JSON, &json!({"preconditions": {"uid": "x"}})).await;
    assert_eq!((wrong.status, wrong.body["reason"].as_str()), (409, Some("Conflict")));
    assert_eq!(send(&api, "DELETE", &format!("{at}/a?dryRun=All"), JSON, &Value::Null).await.status, 200);
    assert!(api.get("", "configmaps", "default", "a").is_some());
    let some = format!("{at}?fieldSelector=metadata.name%3Da");
    let deleted = send(&api, "DELETE", &some, JSON, &Value::Null).await;
    assert_eq!(
        (deleted.body["kind"].as_str(), deleted.body["items"].as_array().map(Vec::len)),
        (Some("ConfigMapList"), Some(1))
    );
    assert!(api.get("", "configmaps", "default", "a").is_none() && api.get("", "configmaps", "default", "b").is_some());
}

#[tokio::test]
async fn refuses_invalid_paths_types_and_users() {
    let api = api(ServerProfile::V1_21);
    api.create("", "nodes", "", node("n1"), "t").unwrap();
    let status = async |method: &str, uri: &str, kind: &str| {
        let reply = send(&api, method, uri, kind, &json!({"a": 1})).await;
        (reply.status, reply.body["reason"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(status("PATCH", "/api/v1/nodes/n1", JSON).await, (415, "UnsupportedMediaType".to_owned()));
    assert_eq!(status("GET", "/api/v1/secrets", JSON).await, (404, "NotFound".to_owned()));
    assert_eq!(status("GET", "/apis/none.dev/v1/things", JSON).await, (404, String::new()));
    assert_eq!(status("POST", "/api/v1/nodes/n1", JSON).await, (405, "MethodNotAllowed".to_owned()));
    assert_eq!(status("PATCH", "/api/v1/nodes/n1", APPLY).await.0, 400, "apply requires a field manager");
    assert_eq!(status("GET", "/api/v1/nodes?resourceVersion=999", JSON).await, (504, "Timeout".to_owned()));
    api.deny("patch", "nodes");
    let refused = send(&api, "PATCH", "/api/v1/nodes/n1", MERGE, &json!({})).await;
    assert_eq!(
        refused.body["message"],
        "nodes \"n1\" is forbidden: User \"admin\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope"
    );
    api.clear_denials();
    assert_eq!(send(&api, "PATCH", "/api/v1/nodes/n1", MERGE, &json!({})).await.status, 200);
}

#[tokio::test]
async fn config_map_holds_at_most_one_mebibyte() {
    let api = api(ServerProfile::V1_21);
    let mut map = config_map("big");
    map["data"]["a"] = "x".repeat(1024 * 1024).into();
    api.create("", "configmaps", "default", map.clone(), "t").unwrap();
    map["data"]["b"] = "x".into();
    map["metadata"]["name"] = "bigger".into();
    let refused = api.create("", "configmaps", "default", map, "t").unwrap_err();
    assert_eq!(refused.message, "ConfigMap \"bigger\" is invalid: []: Too long: must have at most 1048576 bytes");
}

#[tokio::test]
async fn apply_takes_and_releases_fields() {
    let api = api(ServerProfile::V1_21);
    let at = "/api/v1/namespaces/default/configmaps/a?fieldManager=";
    let config =
        |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    let one = send(&api, "PATCH", &format!("{at}one"), APPLY, &config(json!({"x": "1", "y": "1"}))).await;
    assert_eq!(one.status, 201);
    let again = send(&api, "PATCH", &format!("{at}one"), APPLY, &config(json!({"x": "1", "y": "1"}))).await;
    assert_eq!(again.body["metadata"]["resourceVersion"], one.body["metadata"]["resourceVersion"]);
    let two = send(&api, "PATCH", &format!("{at}two"), APPLY, &config(json!({"x": "2"}))).await;
    assert_eq!(two.body["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    let forced = send(&api, "PATCH", &format!("{at}two&force=true"), APPLY, &config(json!({"x": "2"}))).await;
    assert_eq!(forced.body["data"], json!({"x": "2", "y": "1"}));
    let less = send(&api, "PATCH", &format!("{at}one"), APPLY, &config(json!({}))).await;
    assert_eq!(less.body["data"], json!({"x": "2"}), "y lost its only owner, x has another owner");
}

#[tokio::test]
async fn watch_older_than_history_gets_410() {
    let api = api(ServerProfile::V1_21);
    let nodes: kube::Api<ConfigMap> = kube::Api::default_namespaced(api.client());
    let since = api.revision().to_string();
    api.create("", "configmaps", "default", config_map("a"), "t").unwrap();
    api.forget_history();
    let mut watch = nodes.watch(&WatchParams::default(), &since).await.unwrap().boxed();
    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Error(error)) => assert_eq!((error.code, error.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn serves_fifteen_thousand_nodes() {
    let api = api(ServerProfile::V1_21);
    let started = Instant::now();
    let images: Vec<Value> =
        (0..20).map(|i| json!({"names": [format!("registry.example/image-{i}@sha256:{}", "0".repeat(64))]})).collect();
    for index in 0..15_000 {
        let mut node = node(&format!("node-{index:05}"));
        node["status"] = json!({"images": images});
        api.create("", "nodes", "", node, "t").unwrap();
    }
    println!("15,000 nodes created in {:?}", started.elapsed());
    let nodes: kube::Api<Node> = kube::Api::all(api.client());
    let since = api.revision().to_string();
    let mut watch = nodes.watch(&WatchParams::default(), &since).await.unwrap().boxed();
    let mut slowest = Duration::ZERO;
    for index in 0..20 {
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": index.to_string()}]}});
        let started = Instant::now();
        nodes.patch_status("node-07000", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
        assert!(watch.try_next().await.unwrap().is_some());
        slowest = slowest.max(started.elapsed());
    }
    println!("patch and watch event: {slowest:?} at most");
    let mut count = 0;
    let mut params = ListParams::default().limit(500);
    let started = Instant::now();
    loop {
        let page = nodes.list_metadata(&params).await.unwrap();
        count += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    println!("listed in {:?}", started.elapsed());
    assert_eq!(count, 15_000);
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.x.dev"},
    "spec": {"group": "x.dev", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties":
            {"size": {"type": "integer", "minimum": 1}}}}}}
    }]}})
}

#[tokio::test]
async fn definitions_add_and_remove_resources() {
    let api = api(ServerProfile::V1_36);
    let at = "/apis/x.dev/v1/namespaces/default/things";
    let thing =
        json!({"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 3, "bogus": 1}});
    assert_eq!(send(&api, "POST", at, JSON, &thing).await.status, 404);
    api.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition(), "t").unwrap();
    let strict = send(&api, "POST", &format!("{at}?fieldValidation=Strict"), JSON, &thing).await;
    assert_eq!(strict.status, 400);
    assert!(strict.body["message"].as_str().unwrap().contains("strict decoding error: unknown field \"spec.bogus\""));
    let created = send(&api, "POST", at, JSON, &thing).await;
    assert_eq!((created.status, &created.body["spec"]), (201, &json!({"size": 3})));
    assert_eq!(created.warnings, [r#"299 - "unknown field \"spec.bogus\"""#]);
    let bad = send(&api, "PATCH", &format!("{at}/a"), MERGE, &json!({"spec": {"size": 0}})).await;
    assert_eq!(bad.status, 422);
    let wrong = send(&api, "PATCH", &format!("{at}/a"), "application/strategic-merge-patch+json", &json!({})).await;
    assert_eq!(wrong.status, 415);
    let bumped = send(&api, "PATCH", &format!("{at}/a"), MERGE, &json!({"spec": {"size": 5}})).await;
    assert_eq!(bumped.body["metadata"]["generation"], 2);

    let watch = async |selector: &str| {
        let uri = format!("{at}?watch=1&resourceVersion={}{selector}", api.revision());
        let mut request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        request.extensions_mut().insert(User::admin("admin"));
        api.router().oneshot(request).await.unwrap()
    };
    let watches = [watch("").await, watch("&fieldSelector=metadata.name%3Da").await];
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.x.dev";
    assert_eq!(send(&api, "DELETE", crd, JSON, &Value::Null).await.status, 200);
    for watch in watches {
        let seen = watch.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&seen).starts_with("{\"type\":\"DELETED\""), "the watch reports the deletion");
    }
    assert_eq!(send(&api, "GET", at, JSON, &Value::Null).await.status, 404);
}

#[tokio::test]
async fn concurrent_writes_to_one_object_all_succeed() {
    let api = api(ServerProfile::V1_21);
    api.create("", "nodes", "", node("n1"), "t").unwrap();
    let writers = (0..20).map(|index| {
        let api = api.clone();
        tokio::spawn(async move {
            let label = format!("l{index}");
            send(&api, "PATCH", "/api/v1/nodes/n1", MERGE, &json!({"metadata": {"labels": {label: "x"}}})).await.status
        })
    });
    let statuses = futures::future::join_all(writers).await;
    assert!(statuses.into_iter().all(|status| status.unwrap() == 200));
    assert_eq!(api.get("", "nodes", "", "n1").unwrap()["metadata"]["labels"].as_object().unwrap().len(), 21);
}

#[test]
fn seed_determines_uids_and_names() {
    let ids = |seed| {
        let api = Api::new(ApiOptions { seed, ..ApiOptions::default() });
        (api.uid(), api.suffix())
    };
    assert_eq!(ids(1), ids(1));
    assert_ne!(ids(1), ids(2));
    let uid = ids(1).0;
    assert_eq!((uid.len(), uid.get(14..15)), (36, Some("4")));
}

/// As an API server 1.36.2 with etcd 3.5.30 answers, apart from empty fields of the last line.
#[tokio::test]
async fn streaming_list_ends_with_a_bookmark() {
    let options = ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() };
    let api = Api::new(options);
    for name in ["n1", "n2"] {
        api.create("", "nodes", "", node(name), "test").unwrap();
    }
    let list = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let lines = async |query: &str| {
        let text = send(&api, "GET", &format!("/api/v1/nodes?{query}"), JSON, &Value::Null).await.body;
        let lines = match &text {
            Value::String(lines) => lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            one => vec![one.clone()],
        };
        lines
            .into_iter()
            .map(|line: Value| (line["type"].clone(), line["object"]["metadata"].clone()))
            .collect::<Vec<_>>()
    };
    let seen = lines(&format!("{list}&allowWatchBookmarks=true")).await;
    let kinds: Vec<&Value> = seen.iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds[..3], ["ADDED", "ADDED", "BOOKMARK"]);
    let end =
        json!({"resourceVersion": api.revision().to_string(), "annotations": {"k8s.io/initial-events-end": "true"}});
    assert_eq!(seen[2].1, end);
    // Without bookmarks there is no end.
    let kinds: Vec<Value> = lines(list).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["ADDED", "ADDED"]);
    let selected = lines(&format!("{list}&allowWatchBookmarks=true&labelSelector=pool%3Db")).await;
    assert_eq!(selected[0].1, end);
    // The end comes after all selected objects, however many others are between.
    for number in 0..600 {
        api.create("", "nodes", "", node(&format!("o{number}")), "test").unwrap();
    }
    let mut last = node("z");
    last["metadata"]["labels"]["pool"] = json!("b");
    api.create("", "nodes", "", last, "test").unwrap();
    let selected = lines(&format!("{list}&allowWatchBookmarks=true&labelSelector=pool%3Db")).await;
    assert_eq!((&selected[0].0, &selected[1].0), (&json!("ADDED"), &json!("BOOKMARK")));
}
