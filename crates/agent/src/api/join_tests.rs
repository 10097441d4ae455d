//! Tests of the requests of a node that joins, against the sandbox, and on the wire where needed.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::api::AgentClientOptions;
use kubelet_config::risk::Class;
use nodecfg_cluster::connection::fake::{Reply, replying, status};
use nodecfg_cluster::connection::retry::RetryPolicy;
use nodecfg_contract::ContentHash;
use nodecfg_contract::Placement;
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::definition;
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

const NAMESPACE: &str = "nodecfg-system";

fn client_of(client: kube::Client) -> AgentClient {
    let options = AgentClientOptions {
        request_timeout: Duration::from_millis(500),
        retry_limit: crate::api::RETRY_LIMIT,
        retry: RetryPolicy { first_delay: Duration::from_millis(2), longest_delay: Duration::from_millis(20) },
        refusal_timeout: Duration::from_millis(100),
        seed: 1,
    };
    let place = PointerPlace {
        fleet: FleetName::new("prod").expect("a name"),
        namespace: NamespaceName::new(NAMESPACE).expect("a name"),
    };
    AgentClient::new(client, "https://sandbox", NodeName::new("n1").expect("a name"), options)
        .with_pointers(Some(place))
}

fn cluster() -> (Api, AgentClient) {
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    let client = client_of(api.client());
    create(
        &api,
        "",
        "namespaces",
        "",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    );
    create(&api, "apiextensions.k8s.io", "customresourcedefinitions", "", definition());
    (api, client)
}

fn create(api: &Api, group: &str, resource: &str, namespace: &str, object: Value) {
    api.create(group, resource, namespace, object, "test").unwrap_or_else(|_| panic!("{resource}"));
}

fn startup_taint() -> Value {
    json!({"key": STARTUP_TAINT, "effect": STARTUP_TAINT_EFFECT})
}

fn add_node(api: &Api, taints: &Value) -> String {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {POOL_LABEL: "gpu"}, "annotations": {"a": "b"}},
        "spec": {"taints": taints, "unschedulable": true},
    });
    create(api, "", "nodes", "", node);
    let node = api.get("", "nodes", "", "n1").expect("exists");
    node["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

fn pointed() -> PoolConfig {
    let kubelet = "maxPods: 64\n".to_owned();
    let hash = ContentHash::of(kubelet.as_bytes());
    PoolConfig { config_map: format!("prod-gpu-{}", hash.short()), hash, kubelet, placement: None }
}

fn pointer_object(pointer: &PoolPointer) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "nodecfg-pool-prod-gpu", "labels": {
            "app.kubernetes.io/managed-by": "nodecfg", "nodecfg.dev/fleet": "prod", "nodecfg.dev/pool": "gpu",
        }},
        "data": pointer.data(),
    })
}

#[tokio::test]
async fn reads_own_node() {
    let other = json!({"key": STARTUP_TAINT, "effect": "NoExecute"});
    for (taints, tainted) in [(json!([other]), false), (json!([other, startup_taint()]), true)] {
        let (api, client) = cluster();
        assert!(matches!(client.join(&JoinRequest::ReadNode).await, JoinAnswer::Node(Err(JoinError::Failed(_)))));
        let uid = add_node(&api, &taints);
        let expected = OwnNode { uid, pool: Some("gpu".to_owned()), tainted };
        assert_eq!(client.join(&JoinRequest::ReadNode).await, JoinAnswer::Node(Ok(expected)));
    }
}

#[tokio::test]
async fn reads_pointer_of_its_pool_only() {
    let (api, client) = cluster();
    let read = |pool: &str| {
        let request = JoinRequest::ReadPointer(pool.to_owned());
        let client = client.clone();
        async move { client.join(&request).await }
    };
    for pool in ["gpu", "Not A Pool", "../gpu"] {
        assert!(matches!(read(pool).await, JoinAnswer::Pointer(Err(JoinError::NoPointer(_)))), "{pool}");
    }
    let pointer = PoolPointer::to(Some(pointed()), None);
    create(&api, "", "configmaps", NAMESPACE, pointer_object(&pointer));
    let source = ConfigSource::config_map(NAMESPACE, &pointed().config_map, KUBELET_KEY);
    assert_eq!(
        read("gpu").await,
        JoinAnswer::Pointer(Ok(Some(JoinConfig { source, hash: pointed().hash, placement: None })))
    );
    assert!(matches!(read("cpu").await, JoinAnswer::Pointer(Err(JoinError::NoPointer(_)))));
}

/// The kubelet reports the capacity in the status of its Node.
#[tokio::test]
async fn reads_configuration_of_its_size() {
    let size = |memory| Capacity::parse(None, Some(memory), None);
    let configs = [(size("16Gi"), pointed())].into();
    let pointer = pointer_object(&PoolPointer { steps: size("1Gi"), configs, commit: None });
    let read = |capacity: Value| {
        let node = json!({"metadata": {"name": "n1", "uid": "u"}, "status": {"capacity": capacity}});
        let (client, _) = replying(vec![Reply::Json(200, pointer.clone()), Reply::Json(200, node)]);
        async move { client_of(client).join(&JoinRequest::ReadPointer("gpu".to_owned())).await }
    };
    let found = read(json!({"cpu": "4", "memory": "15996Mi"})).await;
    assert!(matches!(&found, JoinAnswer::Pointer(Ok(Some(config))) if config.hash == pointed().hash), "{found:?}");
    for (capacity, problem) in [
        (json!({"cpu": "4"}), "the capacity of this node is unknown"),
        (json!({"cpu": "4", "memory": "8Gi"}), "of the size 8Gi"),
    ] {
        let answer = read(capacity).await;
        let JoinAnswer::Pointer(Err(JoinError::NoPointer(why))) = answer else { panic!("{answer:?}") };
        assert!(why.contains(problem), "{why}");
    }
}

/// A client that may write ConfigMaps must not decide what new nodes run.
#[tokio::test]
async fn rejects_forged_pointers() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 4] = [
        ("its content has the hash", |map| map["data"]["kubelet"] = json!("maxPods: 65\n")),
        ("another owner", |map| map["metadata"]["labels"]["nodecfg.dev/fleet"] = json!("other")),
        ("another owner", |map| map["metadata"]["labels"]["nodecfg.dev/pool"] = json!("cpu")),
        ("contentHash is missing", |map| drop(map["data"].as_object_mut().map(|data| data.remove("contentHash")))),
    ];
    for (expected, change) in changes {
        let (api, client) = cluster();
        let mut object = pointer_object(&PoolPointer::to(Some(pointed()), None));
        change(&mut object);
        create(&api, "", "configmaps", NAMESPACE, object);
        let answer = client.join(&JoinRequest::ReadPointer("gpu".to_owned())).await;
        let JoinAnswer::Pointer(Err(JoinError::NoPointer(why))) = answer else { panic!("{answer:?}") };
        assert!(why.contains(expected) || why.contains("the key contentHash"), "{why}");
    }
}

#[tokio::test]
async fn creates_node_config_once() {
    let (api, client) = cluster();
    let uid = add_node(&api, &json!([]));
    let source = ConfigSource::config_map(NAMESPACE, &pointed().config_map, KUBELET_KEY);
    let spec = NodeConfigSpec {
        config_source: Some(source.clone()),
        content_hash: Some(pointed().hash.to_string()),
        max_disruption: Some(Class::Drain),
        placement: Some(Placement::Overlay),
        self_assigned: true,
    };
    let request = JoinRequest::Create { node_uid: uid.clone(), spec: Box::new(spec) };
    let JoinAnswer::Created(Ok(Some(created))) = client.join(&request).await else { panic!("not created") };
    assert!(created.represents(&uid) && created.is_owned_first_by(&uid));
    assert_eq!(created.spec.config_source, Some(source));
    assert_eq!((created.spec.max_disruption(), created.spec.placement), (Class::Drain, Some(Placement::Overlay)));
    let object = api.get("nodecfg.dev", "nodeconfigs", "", "n1").expect("exists");
    assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"], "nodecfg");
    assert_eq!(client.join(&request).await, JoinAnswer::Created(Ok(None)));
    api.deny("create", "nodeconfigs");
    assert!(matches!(client.join(&request).await, JoinAnswer::Created(Err(JoinError::Refused(_)))));
}

#[tokio::test]
async fn removes_only_the_startup_taint() {
    let (api, client) = cluster();
    let others = json!([
        // Every new Node has it.
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "gpu", "value": "x", "effect": "NoSchedule"},
        {"key": STARTUP_TAINT, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
        {"key": "startup-taint.cluster-autoscaler.kubernetes.io/other", "effect": "NoSchedule"},
    ]);
    let mut taints = others.as_array().expect("a list").clone();
    taints.insert(1, startup_taint());
    let uid = add_node(&api, &json!(taints));
    let before = api.get("", "nodes", "", "n1").expect("exists");
    let remove = |uid: &str| {
        let (client, request) = (client.clone(), JoinRequest::RemoveTaint(uid.to_owned()));
        async move { client.join(&request).await }
    };
    assert!(matches!(remove("another").await, JoinAnswer::TaintRemoved(Err(JoinError::Failed(_)))));
    assert_eq!(api.get("", "nodes", "", "n1").expect("exists"), before);
    api.deny("patch", "nodes");
    assert!(matches!(remove(&uid).await, JoinAnswer::TaintRemoved(Err(JoinError::Refused(_)))));
    api.clear_denials();
    assert_eq!(remove(&uid).await, JoinAnswer::TaintRemoved(Ok(())));
    let after = api.get("", "nodes", "", "n1").expect("exists");
    assert_eq!(after["spec"]["taints"], others);
    let rest = |node: &Value| (node["metadata"]["labels"].clone(), node["metadata"]["annotations"].clone());
    assert_eq!((rest(&after), &after["spec"]["unschedulable"]), (rest(&before), &json!(true)));
    // Nothing is sent without the taint.
    assert_eq!(remove(&uid).await, JoinAnswer::TaintRemoved(Ok(())));
    assert_eq!(api.get("", "nodes", "", "n1").expect("exists"), after);
}

/// A taint that another client adds in between must not get lost.
#[tokio::test]
async fn patch_tests_uid_and_all_taints() {
    let taints = json!([{"key": "a", "effect": "NoSchedule", "new": 1}, startup_taint()]);
    let node = json!({"metadata": {"name": "n1", "uid": "u"}, "spec": {"taints": taints}});
    let rejected = status(422, "Invalid", "the server rejected our request due to an error in our request", json!({}));
    let (client, log) = replying(vec![Reply::Json(200, node), rejected]);
    let answer = client_of(client).join(&JoinRequest::RemoveTaint("u".to_owned())).await;
    assert!(matches!(answer, JoinAnswer::TaintRemoved(Err(JoinError::Failed(_)))), "{answer:?}");
    let sent = log.all().pop().expect("a patch");
    assert_eq!(sent.uri, "/api/v1/nodes/n1?fieldManager=nodecfg-agent");
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/spec/taints", "value": taints},
        {"op": "replace", "path": "/spec/taints", "value": [taints[0]]},
    ]);
    assert_eq!(sent.body, expected);
}

/// The table of requests that the tests of the admission policies evaluate.
fn admission_requests() -> Value {
    serde_json::from_str(include_str!("../../../install/src/admission_requests.json")).expect("JSON")
}

#[tokio::test]
async fn creates_what_the_admission_policy_admits() {
    let mut admitted = admission_requests()["objects"]["joining"].clone();
    for by_the_server in ["uid", "creationTimestamp", "generation", "managedFields"] {
        assert!(admitted["metadata"].as_object_mut().and_then(|fields| fields.remove(by_the_server)).is_some());
    }
    let owner = &admitted["metadata"]["ownerReferences"][0];
    let hash = admitted["spec"]["contentHash"].as_str().expect("a hash");
    let spec = NodeConfigSpec {
        config_source: Some(ConfigSource::config_map(NAMESPACE, "prod-gpu-bbbbbbbbbb", KUBELET_KEY)),
        content_hash: Some(hash.to_owned()),
        max_disruption: Some(Class::Drain),
        placement: admitted["spec"]["placement"].as_str().and_then(Placement::parse),
        self_assigned: true,
    };
    let node_uid = owner["uid"].as_str().expect("a uid").to_owned();
    let (client, log) = replying(vec![Reply::Json(201, admitted.clone())]);
    let answer = client_of(client).join(&JoinRequest::Create { node_uid, spec: Box::new(spec) }).await;
    assert!(matches!(answer, JoinAnswer::Created(Ok(Some(_)))), "{answer:?}");
    let sent = log.all().pop().expect("a request");
    assert_eq!(sent.uri, "/apis/nodecfg.dev/v1alpha1/nodeconfigs?fieldManager=nodecfg-agent");
    assert_eq!(sent.body, admitted);
}

/// The admission policy for Nodes admits no other change of `managedFields`.
#[tokio::test]
async fn removal_of_the_taint_changes_only_the_owner_of_taints() {
    let (api, client) = cluster();
    let uid = add_node(&api, &json!([{"key": "gpu", "effect": "NoSchedule"}, startup_taint()]));
    let fields = || {
        let node = api.get("", "nodes", "", "n1").expect("exists");
        let entries = node["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let named =
            |entry: Value| (entry["manager"].as_str().unwrap_or_default().to_owned(), entry["fieldsV1"].clone());
        entries.into_iter().map(named).collect::<Vec<_>>()
    };
    let mut expected = fields();
    assert_eq!(expected.len(), 1);
    let taints = expected[0].1["f:spec"].as_object_mut().and_then(|spec| spec.remove("f:taints"));
    expected.push(("nodecfg-agent".to_owned(), json!({"f:spec": {"f:taints": taints.expect("owned before")}})));
    assert_eq!(client.join(&JoinRequest::RemoveTaint(uid)).await, JoinAnswer::TaintRemoved(Ok(())));
    let mut after = fields();
    after.sort_by_key(|(manager, _)| manager == "nodecfg-agent");
    assert_eq!(after, expected);
}

/// An administrator must learn of a policy that refuses, and a request a minute would not help.
#[tokio::test]
async fn refusal_by_a_policy_is_no_outage() {
    let message = "nodeconfigs.nodecfg.dev \"n1\" is forbidden: ValidatingAdmissionPolicy 'nodecfg-agent-own-status' with \
                   binding 'nodecfg-agent-own-status' denied request: the agent of an unknown node may do nothing";
    let denied = || status(403, "Forbidden", message, json!({"name": "n1", "kind": "nodeconfigs"}));
    let tainted = json!({"metadata": {"name": "n1", "uid": "u"}, "spec": {"taints": [startup_taint()]}});
    let (client, _log) = replying(vec![denied(), Reply::Json(200, tainted), denied()]);
    let client = client_of(client);
    let spec = NodeConfigSpec {
        config_source: Some(ConfigSource::config_map(NAMESPACE, "a", KUBELET_KEY)),
        self_assigned: true,
        ..NodeConfigSpec::default()
    };
    let answer = client.join(&JoinRequest::Create { node_uid: "u".to_owned(), spec: Box::new(spec) }).await;
    assert!(
        matches!(&answer, JoinAnswer::Created(Err(JoinError::Refused(why))) if why.contains("own-status")),
        "{answer:?}"
    );
    let answer = client.join(&JoinRequest::RemoveTaint("u".to_owned())).await;
    assert!(matches!(answer, JoinAnswer::TaintRemoved(Err(JoinError::Refused(_)))), "{answer:?}");
}
