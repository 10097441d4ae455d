//! Tests of kubelets against a minimal store with watches: requests, and recovery from server errors.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Fault, start};
use crate::machines::{InjectError, Options, StartError};
use nodecfg_contract::names::NodeName;

const GOOD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 50\n";
const NODES: &str = "/api/v1/nodes";
const CONFIG_MAPS: &str = "/api/v1/configmaps";

#[derive(Default)]
struct ServerState {
    version: u64,
    /// Versions up to this one are expired.
    compacted: u64,
    /// Watches of an earlier epoch are closed.
    epoch: u64,
    objects: HashMap<&'static str, BTreeMap<String, Value>>,
    log: Vec<(u64, &'static str, Value)>,
    events: Vec<Value>,
    /// Number of requests by method and path without query.
    requests: HashMap<String, usize>,
    /// Number of PATCH requests that still fail.
    failing: usize,
    /// All requests fail with 503.
    unavailable: bool,
}

/// A minimal API server; clones share its state.
#[derive(Clone)]
struct Server {
    state: Arc<Mutex<ServerState>>,
    changes: watch::Sender<u64>,
}

type TestResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn json_response(code: u16, value: &Value) -> TestResponse {
    let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

fn failure(code: u16, reason: &str) -> TestResponse {
    json_response(code, &status(code, reason))
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": reason, "reason": reason, "code": code})
}

fn merge(into: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().unwrap() {
        let target = into.as_object_mut().unwrap();
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(_) => merge(target.entry(key.clone()).or_insert_with(|| json!({})), value),
            _ => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

impl ServerState {
    fn put(&mut self, path: &'static str, kind: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let objects = self.objects.entry(path).or_default();
        if kind == "DELETED" {
            objects.remove(&name)
        } else {
            objects.insert(name, object.clone())
        };
        self.log.push((self.version, path, json!({"type": kind, "object": object})));
    }
}

impl Server {
    fn new() -> Self {
        Self { state: Arc::default(), changes: watch::Sender::new(0) }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        Client::new(
            tower::service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(server.handle(request).await) }
            }),
            "default",
        )
    }

    fn edit<T>(&self, change: impl FnOnce(&mut ServerState) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changes.send_modify(|changes| *changes += 1);
        result
    }

    fn put(&self, path: &'static str, kind: &str, object: Value) {
        self.edit(|state| state.put(path, kind, object));
    }

    fn node(&self, name: &str) -> Value {
        self.edit(|state| state.objects[NODES][name].clone())
    }

    fn change(&self, path: &'static str, name: &str, patch: &Value) {
        assert!(self.change_if_exists(path, name, patch), "{name} is missing");
    }

    /// Changes an object; returns `false` if it is missing, because a node can be deleted while its kubelet reports.
    fn change_if_exists(&self, path: &'static str, name: &str, patch: &Value) -> bool {
        self.edit(|state| {
            let object = state.objects.get(path).and_then(|all| all.get(name).cloned());
            let Some(mut object) = object else { return false };
            merge(&mut object, patch);
            state.put(path, "MODIFIED", object);
            true
        })
    }

    fn create_nodes(&self, count: usize, version: &str) {
        for number in 0..count {
            let status = json!({"nodeInfo": {"kubeletVersion": version}, "config": {}});
            self.put(NODES, "ADDED", json!({"metadata": {"name": format!("n{number}")}, "spec": {}, "status": status}));
        }
    }

    fn create_config_map(&self, name: &str, text: &str) {
        let metadata = json!({"name": name, "namespace": "ns", "uid": format!("uid-{name}")});
        self.put(CONFIG_MAPS, "ADDED", json!({"metadata": metadata, "data": {"kubelet": text}}));
    }

    fn assign(&self, node: &str, config_map: &str) {
        let source = json!({"configMap": {"namespace": "ns", "name": config_map, "kubeletConfigKey": "kubelet"}});
        self.change(NODES, node, &json!({"spec": {"configSource": source}}));
    }

    /// Waits until the condition holds.
    async fn until(&self, what: &str, wanted: impl Fn(&ServerState) -> bool) {
        let mut changes = self.changes.subscribe();
        let waiting = async {
            while !wanted(&self.state.lock().unwrap()) {
                changes.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), waiting).await.is_err() {
            panic!("not within 20 s: {what}; {:?}", self.state.lock().unwrap().objects[NODES].values().next());
        }
    }

    async fn until_active(&self, config_map: &str) {
        self.until(config_map, |state| {
            state.objects[NODES]
                .values()
                .all(|node| active(node) == Some(config_map) && node["status"]["config"].get("error").is_none())
        })
        .await;
    }

    fn requests(&self, request: &str) -> usize {
        self.state.lock().unwrap().requests.get(request).copied().unwrap_or_default()
    }

    async fn handle(&self, request: Request<Body>) -> TestResponse {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let path = parts.uri.path().trim_end_matches('/').to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let (failing, unavailable) = self.edit(|state| {
            *state.requests.entry(format!("{} {path}", parts.method)).or_default() += 1;
            let failing = state.failing > 0 && parts.method == Method::PATCH;
            state.failing -= usize::from(failing);
            (failing, state.unavailable)
        });
        if failing || unavailable {
            return failure(503, "ServiceUnavailable");
        }
        let collection = [NODES, CONFIG_MAPS].into_iter().find(|collection| *collection == path);
        match (&parts.method, collection, path.strip_prefix("/api/v1/namespaces/ns/configmaps/")) {
            (&Method::GET, Some(collection), _) if query.contains("watch=true") => self.watch(collection, &query),
            (&Method::GET, Some(collection), _) => self.edit(|state| {
                let items: Vec<&Value> = state.objects.entry(collection).or_default().values().collect();
                json_response(200, &json!({"metadata": {"resourceVersion": state.version.to_string()}, "items": items}))
            }),
            (&Method::GET, _, Some(name)) => {
                let found = self.edit(|state| state.objects.get(CONFIG_MAPS).and_then(|all| all.get(name).cloned()));
                found.map_or_else(|| failure(404, "NotFound"), |object| json_response(200, &object))
            }
            (&Method::PATCH, ..) => {
                assert_eq!(parts.headers["content-type"], "application/strategic-merge-patch+json");
                let name = path.strip_prefix("/api/v1/nodes/").and_then(|rest| rest.strip_suffix("/status")).unwrap();
                if self.change_if_exists(NODES, name, &serde_json::from_slice(&body).unwrap()) {
                    json_response(200, &json!({}))
                } else {
                    failure(404, "NotFound")
                }
            }
            (&Method::POST, ..) if path == "/api/v1/namespaces/default/events" => {
                let event: Value = serde_json::from_slice(&body).unwrap();
                self.edit(|state| state.events.push(event.clone()));
                json_response(201, &event)
            }
            other => panic!("unexpected request: {other:?} {path}"),
        }
    }

    fn watch(&self, collection: &'static str, query: &str) -> TestResponse {
        let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap();
        let from: u64 = from.parse().unwrap();
        let (epoch, expired) = self.edit(|state| (state.epoch, from < state.compacted));
        if expired {
            let line = format!("{}\n", json!({"type": "ERROR", "object": status(410, "Expired")}));
            return Response::new(Full::new(Bytes::from(line)).boxed_unsync());
        }
        let (server, changes) = (self.clone(), self.changes.subscribe());
        let lines = stream::unfold((from, server, changes), move |(from, server, mut changes)| async move {
            loop {
                {
                    let state = server.state.lock().unwrap();
                    if state.epoch != epoch {
                        return None;
                    }
                    let news = state.log.partition_point(|(version, ..)| *version <= from);
                    let next = state.log[news..].iter().find(|(_, path, _)| *path == collection);
                    if let Some((version, _, event)) = next {
                        let (version, line) = (*version, format!("{event}\n"));
                        drop(state);
                        return Some((Ok(Frame::data(Bytes::from(line))), (version, server, changes)));
                    }
                }
                changes.changed().await.ok()?;
            }
        });
        Response::new(StreamBody::new(lines.boxed()).boxed_unsync())
    }
}

fn active(node: &Value) -> Option<&str> {
    node["status"]["config"]["active"]["configMap"]["name"].as_str()
}

fn ready(node: &Value) -> Option<&str> {
    node["status"]["conditions"][0]["status"].as_str()
}

fn fast() -> Options {
    Options { speed: 500.0, ..Options::default() }
}

fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelets_share_one_watch() {
    let server = Server::new();
    server.create_nodes(100, "v1.21.1");
    server.create_config_map("a", GOOD);
    let kubelets = start(server.client(), fast()).await.unwrap();
    for number in 0..100 {
        server.assign(&format!("n{number}"), "a");
    }
    server.until_active("a").await;
    kubelets.stop().await;
    assert_eq!(server.requests("GET /api/v1/nodes"), 2, "a list and a watch");
    let state = server.state.lock().unwrap();
    let reasons = |reason: &str| state.events.iter().filter(|event| event["reason"] == reason).count();
    assert_eq!(reasons("KubeletConfigChanged"), 100);
    assert!(reasons("Starting") >= 90, "stopping can drop the last ones");
    let event = &state.events[0];
    let node = event["involvedObject"]["name"].as_str().unwrap();
    assert_eq!(event["involvedObject"], json!({"kind": "Node", "name": node, "uid": node}));
    assert_eq!(event["source"], json!({"component": "kubelet", "host": node}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_map_changes_and_deletions_reach_kubelets() {
    let server = Server::new();
    server.create_nodes(3, "v1.21.1");
    let _kubelets = start(server.client(), fast()).await.unwrap();
    for node in ["n0", "n1", "n2"] {
        server.assign(node, "late");
    }
    let errors = |wanted: &'static str| {
        move |state: &ServerState| {
            state.objects[NODES].values().all(|node| {
                node["status"]["config"]["error"].as_str().unwrap_or_default().starts_with(wanted)
                    && node["status"]["config"].get("error").is_some()
            })
        }
    };
    server.until("the download fails", errors("failed to sync: failed to download config")).await;
    server.create_config_map("late", GOOD);
    server.until_active("late").await;
    server.change(CONFIG_MAPS, "late", &json!({"data": {"kubelet": GOOD.replace("50", "-5")}}));
    server.until("the new text is refused", errors("failed to validate config")).await;
    let object = server.edit(|state| state.objects[CONFIG_MAPS]["late"].clone());
    server.put(CONFIG_MAPS, "DELETED", object);
    server.until("the download fails", errors("failed to sync: failed to download config")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovers_from_closed_watches_expired_watches_and_failed_writes() {
    let server = Server::new();
    server.create_nodes(20, "v1.21.1");
    server.create_config_map("a", GOOD);
    server.create_config_map("b", GOOD);
    let _kubelets = start(server.client(), fast()).await.unwrap();
    for number in 0..20 {
        server.assign(&format!("n{number}"), "a");
    }
    server.edit(|state| state.epoch += 1);
    server.edit(|state| state.failing = 10);
    server.until_active("a").await;
    // The change is made and its version expires while no watch is open.
    server.edit(|state| (state.unavailable, state.epoch) = (true, state.epoch + 1));
    for number in 0..20 {
        server.assign(&format!("n{number}"), "b");
    }
    let deleted = server.node("n7");
    server.put(NODES, "DELETED", deleted);
    server.edit(|state| state.compacted = state.version);
    server.edit(|state| state.unavailable = false);
    server.until_active("b").await;
    assert!(server.edit(|state| !state.objects[NODES].contains_key("n7")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_change_at_run_time() {
    let server = Server::new();
    server.create_nodes(2, "v1.21.1");
    server.create_config_map("a", GOOD);
    let faults = ["n0=not-ready", "n2=deaf"].map(|fault| fault.parse().unwrap()).into_iter().collect();
    let kubelets = start(server.client(), Options { faults, ..fast() }).await.unwrap();
    server.assign("n0", "a");
    server.assign("n1", "a");
    server.until_active("a").await;
    server.until("n0 is not ready", |state| ready(&state.objects[NODES]["n0"]) == Some("False")).await;
    assert_eq!(ready(&server.node("n1")), None, "n1 has no Ready condition");
    kubelets.inject(&name("n0"), None).unwrap();
    server.until("n0 is ready", |state| ready(&state.objects[NODES]["n0"]) == Some("True")).await;
    kubelets.inject(&name("n1"), Some(Fault::Deaf)).unwrap();
    server.until("n1 is silent", |state| ready(&state.objects[NODES]["n1"]) == Some("Unknown")).await;
    assert_eq!(kubelets.inject(&name("n2"), None), Err(InjectError::UnknownNode(name("n2"))));
    assert_eq!(kubelets.inject(&name("n1"), Some(Fault::Dies)), Err(InjectError::WithoutAgent(name("n1"))));
    server.create_nodes(3, "v1.21.1");
    server.until("n2 appears deaf", |state| ready(&state.objects[NODES]["n2"]) == Some("Unknown")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelet_without_dynamic_config_ignores_assignment() {
    let server = Server::new();
    server.create_nodes(1, "v1.24.0");
    server.create_config_map("a", GOOD);
    let _kubelets = start(server.client(), fast()).await.unwrap();
    server.assign("n0", "a");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((active(&server.node("n0")), server.requests("PATCH /api/v1/nodes/n0/status")), (None, 0));
    // The same node with a kubelet version that has the feature.
    server.change(NODES, "n0", &json!({"status": {"nodeInfo": {"kubeletVersion": "v1.23.0"}}}));
    server.until_active("a").await;
}

#[tokio::test]
async fn start_fails_with_invalid_speed_or_unavailable_server() {
    let server = Server::new();
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = start(server.client(), Options { speed, ..fast() }).await.err().unwrap();
        assert!(matches!(error, StartError::Speed(_)), "{error}");
    }
    server.edit(|state| state.unavailable = true);
    let error = start(server.client(), fast()).await.err().unwrap();
    assert!(matches!(error, StartError::List { .. }), "{error}");
}
