//! Tests of the NodeConfig binding against the embedded API server that drops `configSource`.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use http::Method;
use serde_json::{Value, json};

use super::{ClusterError, ClusterReader, ClusterWriter, NodeEvent, Operation, Resource, Verb};
use crate::connection::fake::{Reply, options, serving};
use crate::connection::transport::{Call, whole};
use crate::lock;
use crate::lock::{HeldLock, LockOptions};
use crate::reading::binding::Binding;
use crate::reading::wire::IgnoredContent;
use crate::writing::permission::Needs;
use kubelet_config::risk::Class;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_contract::{Assignment, ConfigSource, ContentHash, KUBELET_KEY, Placement, nodeconfig};
use nodecfg_observed::{ConfigMapKey, Drain, Obstacle};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

#[path = "leftover_tests.rs"]
mod leftovers;
#[path = "placement_tests.rs"]
mod placements;

const GROUP: &str = "nodecfg.dev";

fn api(profile: ServerProfile, nodes: &[&str]) -> Api {
    api_with(ApiOptions { profile, ..ApiOptions::default() }, nodes)
}

fn api_with(options: ApiOptions, nodes: &[&str]) -> Api {
    let api = Api::new(options);
    for node in nodes {
        create(&api, "", "nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}));
    }
    api
}

fn create(api: &Api, group: &str, resource: &str, object: Value) -> Value {
    api.create(group, resource, "", object, "test").unwrap_or_else(|_| panic!("{resource}"))
}

fn define(api: &Api) {
    create(api, "apiextensions.k8s.io", "customresourcedefinitions", nodeconfig::definition());
}

fn reader(api: &Api) -> ClusterReader {
    ClusterReader::new(api.client(), "https://sandbox", options())
}

/// A cluster with its definition, with the detected binding.
async fn cluster(nodes: &[&str]) -> (Api, ClusterReader) {
    let api = api(ServerProfile::V1_36, nodes);
    define(&api);
    let reader = reader(&api).with_binding(None).await.expect("bound");
    assert_eq!(reader.binding(), Binding::NodeConfig);
    (api, reader)
}

async fn writer(reader: &ClusterReader) -> (ClusterWriter, HeldLock) {
    let lock = LockOptions::new("kube-system", FleetName::new("prod").expect("a name"), "me".to_owned());
    let held = lock::acquire(reader, lock).await.expect("free");
    (ClusterWriter::new(reader.clone(), &held), held)
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a name")
}

fn source(name: &str) -> ConfigSource {
    ConfigSource::config_map("nodecfg-system", name, KUBELET_KEY)
}

fn uid_of(api: &Api, node: &str) -> String {
    let node = api.get("", "nodes", "", node).expect("a node");
    node["metadata"]["uid"].as_str().expect("text").to_owned()
}

fn node_config(api: &Api, node: &str) -> Value {
    api.get(GROUP, "nodeconfigs", "", node).expect("a NodeConfig")
}

/// An assignment from planning, for this Node and the precondition `from`.
fn assign(uid: &str, from: Option<&str>, to: Option<&str>) -> Assignment {
    let hash = |name: &str| ContentHash::of(name.as_bytes());
    Assignment {
        uid: uid.to_owned(),
        from: from.map(source),
        to: to.map(source),
        from_hash: from.map(hash),
        to_hash: to.map(hash),
        from_placement: None,
        to_placement: None,
        present_placement: None,
        max_disruption: Class::Restart,
    }
}

/// Sends a request as another client.
async fn send(reader: &ClusterReader, verb: Verb, method: Method, node: &str, suffix: &str, body: &Value) {
    let operation = Operation::on(verb, Resource::NodeConfigs, None, node);
    let media = if method == Method::PATCH { "application/json-patch+json" } else { "application/json" };
    let call = Call::new(method, format!("{}{suffix}", operation.path())).content(media, body.to_string());
    reader.transport.call(&operation, &call, whole::<IgnoredContent>).await.expect("done");
}

/// Reports a status as an agent does.
async fn report(reader: &ClusterReader, node: &str, config: Value) {
    let patch = json!([{"op": "add", "path": "/status", "value": {"config": config}}]);
    send(reader, Verb::Patch, Method::PATCH, node, "/status", &patch).await;
}

async fn delete(reader: &ClusterReader, node: &str) {
    send(reader, Verb::Get, Method::DELETE, node, "", &json!({})).await;
}

#[tokio::test]
async fn detects_the_binding_of_a_cluster() {
    // A server that drops the field needs NodeConfigs, also before its first Node.
    for nodes in [&["n1"][..], &[]] {
        let api = api(ServerProfile::V1_36, nodes);
        let error = reader(&api).with_binding(None).await.expect_err("no definition");
        assert!(matches!(error, ClusterError::DefinitionMissing { .. }), "{error}");
        assert!(error.help().contains("nodecfg install"), "{}", error.help());
        assert_eq!(error.to_string(), "cannot list nodeconfigs: this cluster has no nodeconfigs.nodecfg.dev");
        define(&api);
        assert_eq!(reader(&api).with_binding(None).await.expect("bound").binding(), Binding::NodeConfig);
    }
    // Requesting the Node binding is an error as soon as a Node exists to test.
    let dropping = api(ServerProfile::V1_36, &["n1"]);
    let error = reader(&dropping).with_binding(Some(Binding::Node)).await.expect_err("dropped");
    assert!(matches!(error, ClusterError::FeatureDropped { .. }), "{error}");

    let keeping = api(ServerProfile::V1_21, &["n1"]);
    let bound = async |wanted| reader(&keeping).with_binding(wanted).await.map(|reader| reader.binding());
    assert_eq!(bound(None).await, Ok(Binding::Node));
    assert!(matches!(bound(Some(Binding::NodeConfig)).await, Err(ClusterError::DefinitionMissing { .. })));
    define(&keeping);
    assert_eq!(bound(None).await, Ok(Binding::Node), "the definition alone decides nothing");
    assert_eq!(bound(Some(Binding::NodeConfig)).await, Ok(Binding::NodeConfig));
    create(
        &keeping,
        GROUP,
        "nodeconfigs",
        json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig",
        "metadata": {"name": "n1"}, "spec": {}}),
    );
    let error = bound(None).await.expect_err("two instructions for one kubelet");
    assert!(matches!(error, ClusterError::BindingUnclear { .. }), "{error}");
    assert!(error.help().contains("--binding"), "{}", error.help());
    assert_eq!(bound(Some(Binding::Node)).await, Ok(Binding::Node));
    keeping.deny("list", "nodeconfigs");
    assert_eq!(bound(None).await, Ok(Binding::Node), "works without permission to list NodeConfigs");
}

#[tokio::test]
async fn first_assignment_creates_the_node_config() {
    let (api, reader) = cluster(&["n1"]).await;
    let (writer, _held) = writer(&reader).await;
    let node = reader.node(&name("n1")).await.expect("an answer").expect("a node");
    assert_eq!((node.obstacle, &node.source), (None, &None));

    let assigned = writer.assign(&node.name, &assign(&node.uid, None, Some("a"))).await.expect("created");
    assert_eq!(assigned, Some(source("a")));
    let made = node_config(&api, "n1");
    let hash = ContentHash::of(b"a").to_string();
    let spec = json!({"configSource": source("a"), "contentHash": hash, "maxDisruption": "restart"});
    assert_eq!(made["spec"], spec);
    assert_eq!(made["metadata"]["labels"], json!({"app.kubernetes.io/managed-by": "nodecfg"}));
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node.uid}]);
    assert_eq!(made["metadata"]["ownerReferences"], owner);
    assert!(made.get("status").is_none());

    // Later assignments patch the NodeConfig, under their precondition only.
    let moved = writer.assign(&node.name, &assign(&node.uid, Some("a"), Some("b"))).await.expect("patched");
    assert_eq!(moved, Some(source("b")));
    for (uid, from) in [(node.uid.as_str(), Some("a")), (&node.uid, None), ("another", Some("b"))] {
        let error = writer.assign(&node.name, &assign(uid, from, Some("c"))).await.expect_err("changed");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
    }
    let back = assign(&node.uid, None, Some("b")).reversed();
    assert_eq!(writer.assign(&node.name, &back).await, Ok(None));
    assert_eq!(node_config(&api, "n1")["spec"], json!({"maxDisruption": "restart"}));
    // A missing NodeConfig has nothing to roll back.
    let error = writer.assign(&name("n2"), &back).await.expect_err("missing");
    assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
    assert_eq!(api.get("", "nodes", "", "n1").expect("a node")["spec"].get("configSource"), None);
}

/// The NodeConfig that planning saw is gone: nothing is known of the node's state.
#[tokio::test]
async fn never_creates_a_node_config_in_place_of_a_deleted_one() {
    let (api, reader) = cluster(&["n1"]).await;
    let (writer, _held) = writer(&reader).await;
    // A reset needs none either.
    for (from, to) in [(Some("a"), Some("b")), (None, None)] {
        let error = writer.assign(&name("n1"), &assign(&uid_of(&api, "n1"), from, to)).await;
        assert!(matches!(error, Err(ClusterError::PreconditionFailed { .. })), "{error:?}");
        assert!(api.get(GROUP, "nodeconfigs", "", "n1").is_none());
    }
}

/// A node rolls back to these ConfigMaps, and downloads them again if its disk fails.
#[tokio::test]
async fn a_config_map_that_a_single_field_names_is_referenced() {
    let (api, reader) = cluster(&["n1"]).await;
    let object = json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": "n1"},
        "spec": {}});
    create(&api, GROUP, "nodeconfigs", object);
    for (field, named) in [("assigned", "a"), ("active", "b"), ("lastKnownGood", "c")] {
        let mut accepted = json!(source(named));
        json_patch::merge(&mut accepted, &json!({"configMap": {"uid": "u", "resourceVersion": "1"}}));
        report(&reader, "n1", json!({field: accepted})).await;
        let references = reader.references().await.expect("references");
        assert_eq!(references.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), [named], "{field}");
    }
}

#[tokio::test]
async fn never_changes_the_node_config_of_another_node() {
    // The owner is another Node: the garbage collector would delete the NodeConfig of an earlier Node of the same
    // name.
    let (api, reader) = cluster(&["n1", "n2"]).await;
    let (writer, _held) = writer(&reader).await;
    let (n1, uid) = (name("n1"), uid_of(&api, "n1"));
    let owned_by = |nodes: &[&str]| {
        let owner = |node: &&str| json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid_of(&api, node)});
        let metadata = json!({"name": "n1", "ownerReferences": nodes.iter().map(owner).collect::<Vec<_>>()});
        json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": metadata,
            "spec": {"configSource": source("old")}})
    };
    create(&api, GROUP, "nodeconfigs", owned_by(&["n2"]));
    let node = reader.node(&n1).await.expect("an answer").expect("a node");
    assert_eq!((node.obstacle, &node.source), (Some(Obstacle::Outlived), &None));
    for from in [None, Some("old")] {
        let error = writer.assign(&n1, &assign(&uid, from, Some("a"))).await.expect_err("of another node");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
    }
    assert_eq!(node_config(&api, "n1")["spec"]["configSource"], json!(source("old")));

    // A NodeConfig created by hand, without owner or with other owners first, belongs to the Node of its name.
    for owners in [&[][..], &["n2", "n1"]] {
        delete(&reader, "n1").await;
        create(&api, GROUP, "nodeconfigs", owned_by(owners));
        let error = writer.assign(&n1, &assign(&uid, None, Some("a"))).await.expect_err("not as expected");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
        let patched = writer.assign(&n1, &assign(&uid, Some("old"), Some("a"))).await;
        assert_eq!(patched, Ok(Some(source("a"))));
    }
}

#[tokio::test]
async fn assignment_for_an_earlier_node_changes_nothing() {
    let (api, reader) = cluster(&["n1"]).await;
    let (writer, _held) = writer(&reader).await;
    let (n1, uid) = (name("n1"), uid_of(&api, "n1"));
    let object = |owner: Option<&str>| {
        let owners: Vec<Value> =
            owner.iter().map(|uid| json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid})).collect();
        json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "spec": {"configSource": source("a")},
            "metadata": {"name": "n1", "ownerReferences": owners}})
    };
    // The NodeConfig belongs to the current Node, created by nodecfg or by hand.
    for owner in [Some(uid.as_str()), None] {
        create(&api, GROUP, "nodeconfigs", object(owner));
        let assigned = assign("previous-node", Some("a"), Some("b"));
        let rolled_back = assign("previous-node", Some("old"), Some("a")).reversed();
        let reset = assign("previous-node", Some("a"), None);
        for change in [assigned, rolled_back, reset] {
            let error = writer.assign(&n1, &change).await.expect_err("another Node");
            assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
        }
        assert_eq!(node_config(&api, "n1")["spec"]["configSource"], json!(source("a")));
        delete(&reader, "n1").await;
    }
}

/// An agent that was down during the drain must not make the change later, when pods run on the node again.
#[tokio::test]
async fn released_node_is_not_prepared_for_a_drain() {
    let (api, reader) = cluster(&["n1"]).await;
    let (writer, _held) = writer(&reader).await;
    let (n1, uid) = (name("n1"), uid_of(&api, "n1"));
    let drain = Drain {
        fleet: FleetName::new("prod").expect("a name"),
        pool: PoolName::new("gpu").expect("a name"),
        to: Some(source("a")),
        from: None,
        since: jiff::Timestamp::UNIX_EPOCH,
        added: BTreeSet::new(),
    };
    // A node without a NodeConfig is released, too.
    writer.mark_for_drain(&n1, &uid, &drain).await.expect("marked");
    writer.release_drain(&n1, &uid).await.expect("released");
    let mut from = None;
    for (class, error, released) in [
        (Class::Drain, "", "restart"),
        (Class::Replace, "", "restart"),
        (Class::None, "", "none"),
        (Class::Drain, "failed to sync: the change needs a drain", "restart"),
        // The agent does not retry what it refused, and the next sync must not drain the node for it again.
        (Class::Drain, "failed to validate config, see Kubelet log for details", "drain"),
    ] {
        writer.mark_for_drain(&n1, &uid, &drain).await.expect("marked");
        let change = Assignment { max_disruption: class, ..assign(&uid, from, Some("a")) };
        writer.assign(&n1, &change).await.expect("assigned");
        from = Some("a");
        report(&reader, "n1", json!({"error": error})).await;
        let before = node_config(&api, "n1")["spec"].clone();
        writer.release_drain(&n1, &uid).await.expect("released");
        let after = node_config(&api, "n1")["spec"].clone();
        assert_eq!(after["maxDisruption"], released, "{class} {error}");
        for field in ["configSource", "contentHash"] {
            assert_eq!(after[field], before[field], "{field}");
        }
    }
}

#[tokio::test]
async fn lists_nodes_with_the_status_of_their_agents() {
    let (api, reader) = cluster(&["n1", "n2", "n3"]).await;
    let (writer, _held) = writer(&reader).await;
    for node in ["n1", "n2"] {
        writer.assign(&name(node), &assign(&uid_of(&api, node), None, Some("a"))).await.expect("assigned");
    }
    report(&reader, "n1", json!({"error": "e"})).await;
    let (nodes, versions) = reader.list_nodes().await.expect("a list");
    assert_eq!(versions.nodes, api.revision().to_string());
    assert_eq!(versions.node_configs.as_ref().map(|listed| &listed.version), Some(&api.revision().to_string()));
    let listed: Vec<_> =
        nodes.values().map(|node| (node.source.is_some(), node.status.error(), node.obstacle.clone())).collect();
    assert_eq!(
        listed,
        [
            (true, Some("e"), None),
            // Just created: the agent still has time to report.
            (true, None, None),
            (false, None, None),
        ]
    );
    let (signed, _, _) = reader.list_nodes_with_signs().await.expect("a list");
    assert_eq!(signed, nodes);
    // A single read returns the same.
    for (name, node) in nodes {
        assert_eq!(reader.node(&name).await, Ok(Some(node)));
    }
}

#[tokio::test]
async fn list_finds_the_references_that_prune_finds() {
    let (api, reader) = cluster(&["n1"]).await;
    for (node, named) in [("n1", "a"), ("without-a-node", "b")] {
        let object = json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": node},
            "spec": {"configSource": source(named)}});
        create(&api, GROUP, "nodeconfigs", object);
    }
    let observed = crate::reading::observe::list(&reader, None).await.expect("a list");
    assert_eq!(observed.references, reader.references().await.expect("references"));
    assert_eq!(observed.references.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

/// A kubelet of an earlier version may still report on its Node.
#[tokio::test]
async fn list_finds_the_references_of_nodes_without_node_configs() {
    let node = json!({"metadata": {"name": "n1"}, "status": {"config": {"active": source("a")}}});
    let (client, _) = serving(move |request| {
        let items = if request.uri.starts_with("/api/v1/nodes") { vec![node.clone()] } else { Vec::new() };
        Reply::Json(200, json!({"items": items, "metadata": {"resourceVersion": "7"}}))
    });
    let reader = ClusterReader::new(client, "https://fake", options());
    let reader = ClusterReader { binding: Binding::NodeConfig, ..reader };
    let (nodes, _, references) = reader.list_nodes_with_references().await.expect("a list");
    assert_eq!(nodes[&name("n1")].status.active, None);
    assert_eq!(references.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["a"]);
}

/// A joining node may name any ConfigMap, also one that the reconciler may not read.
#[tokio::test]
async fn own_assignment_of_a_node_cannot_stop_an_observation() {
    let observed = async |by_itself: bool| {
        let node = json!({"metadata": {"name": "n1", "uid": "u"}});
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"});
        let spec =
            json!({"configSource": ConfigSource::config_map("theirs", "x", "kubelet"), "selfAssigned": by_itself});
        let config = json!({"metadata": {"name": "n1", "ownerReferences": [owner]}, "spec": spec});
        let (client, _) = serving(move |request| match request.uri.as_str() {
            uri if uri.contains("/configmaps/x") => {
                let message = "configmaps \"x\" is forbidden: User \"sync\" cannot get resource \"configmaps\"";
                Reply::Json(403, json!({"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}))
            }
            uri => {
                let items = match uri {
                    uri if uri.starts_with("/api/v1/nodes") => vec![node.clone()],
                    uri if uri.contains("/nodeconfigs") => vec![config.clone()],
                    _ => Vec::new(),
                };
                Reply::Json(200, json!({"items": items, "metadata": {"resourceVersion": "7"}}))
            }
        });
        let reader = ClusterReader::new(client, "https://fake", options());
        let reader = ClusterReader { binding: Binding::NodeConfig, ..reader };
        let key = ConfigMapKey { namespace: "theirs".to_owned(), name: "x".to_owned() };
        crate::reading::observe::observe(&reader, "kube-system", |_| [key].into()).await
    };
    assert_eq!(observed(true).await.expect("no instruction").contents.len(), 0);
    assert!(matches!(observed(false).await, Err(ClusterError::Forbidden { .. })), "the reconciler's assignment is");
}

async fn next(events: &mut (impl Stream<Item = Result<NodeEvent, ClusterError>> + Unpin)) -> NodeEvent {
    let event = tokio::time::timeout(Duration::from_secs(5), events.next()).await.expect("in time");
    event.expect("open").expect("no error")
}

#[tokio::test]
async fn joins_the_watches_of_nodes_and_node_configs() {
    let api = api(ServerProfile::V1_36, &["n1", "n2"]);
    define(&api);
    let reader = reader(&api).with_binding(None).await.expect("bound");
    let (writer, _held) = writer(&reader).await;
    let uid = uid_of(&api, "n1");
    writer.assign(&name("n1"), &assign(&uid, None, Some("a"))).await.expect("assigned");
    let (known, versions) = reader.list_nodes().await.expect("a list");
    let mut events = pin!(reader.watch_nodes(&known, &versions));

    report(&reader, "n1", json!({"error": "e"})).await;
    let NodeEvent::Upsert(node) = next(&mut events).await else { panic!("a change") };
    assert_eq!((node.name.as_str(), node.status.error(), node.source), ("n1", Some("e"), Some(source("a"))));
    // A change of the Node includes the known state of its NodeConfig.
    let operation = Operation::on(Verb::Patch, Resource::Nodes, None, "n1");
    let call = Call::new(Method::PATCH, operation.path())
        .content("application/merge-patch+json", json!({"metadata": {"labels": {"x": "y"}}}).to_string());
    reader.transport.call(&operation, &call, whole::<IgnoredContent>).await.expect("labelled");
    let NodeEvent::Upsert(node) = next(&mut events).await else { panic!("a change") };
    assert_eq!((node.labels.len(), node.status.error(), &node.source), (1, Some("e"), &Some(source("a"))));
    // A NodeConfig is created for the other node.
    writer.assign(&name("n2"), &assign(&uid_of(&api, "n2"), None, Some("b"))).await.expect("assigned");
    let NodeEvent::Upsert(node) = next(&mut events).await else { panic!("a change") };
    assert_eq!((node.name.as_str(), node.source), ("n2", Some(source("b"))));
    delete(&reader, "n1").await;
    let NodeEvent::Upsert(node) = next(&mut events).await else { panic!("a change") };
    assert_eq!((node.name.as_str(), node.source, node.status.error()), ("n1", None, None));

    // Both versions expire: each watch lists again, and the last list is complete.
    api.forget_history();
    let mut late = pin!(reader.watch_nodes(&known, &versions));
    let mut all = Vec::new();
    for _ in 0..2 {
        let NodeEvent::Relisted(nodes) = next(&mut late).await else { panic!("a list") };
        all = nodes;
    }
    let sources: Vec<_> = all.into_iter().map(|node| node.source).collect();
    assert_eq!(sources, [None, Some(source("b"))]);
}

#[tokio::test]
async fn checks_the_permissions_of_a_rollout() {
    let (api, reader) = cluster(&["n1"]).await;
    let needs = Needs { config_maps_in: Some("nodecfg-system"), assign: true, watch: true, ..Needs::default() };
    assert_eq!(reader.check_all_allowed(needs).await, Ok(()));
    for (verb, resource) in [
        ("create", "nodeconfigs"),
        ("patch", "nodeconfigs"),
        ("get", "nodeconfigs"),
        ("watch", "nodeconfigs"),
        ("watch", "nodes"),
    ] {
        api.deny(verb, resource);
        let error = reader.check_all_allowed(needs).await.expect_err("refused");
        assert!(matches!(error, ClusterError::Forbidden { .. }), "{error}");
        assert_eq!(reader.check_all_allowed(Needs::default()).await, Ok(()));
        api.clear_denials();
    }
    api.deny("patch", "nodes");
    assert_eq!(reader.check_all_allowed(needs).await, Ok(()), "Nodes are not written");
    let needs = Needs { drain: true, ..Needs::default() };
    let error = reader.check_all_allowed(needs).await.expect_err("a mark is on the Node");
    assert_eq!(error.to_string(), "cannot patch nodes: this user may not patch nodes in the cluster");
}

#[tokio::test]
async fn missing_namespace_or_definition_refers_to_nodecfg_install() {
    let (_api, reader) = cluster(&["n1"]).await;
    let lock = LockOptions::new("nodecfg-system", FleetName::new("prod").expect("a name"), "me".to_owned());
    let error = lock::acquire(&reader, lock).await.expect_err("no namespace");
    assert!(error.help().contains("nodecfg install"), "{}", error.help());

    let (writer, _held) = writer(&reader).await;
    let operation = Operation::on(Verb::Get, Resource::NodeConfigs, None, "x");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeconfigs.nodecfg.dev".to_owned();
    let call = Call::new(Method::DELETE, path);
    reader.transport.call(&operation, &call, whole::<IgnoredContent>).await.expect("deleted");
    let missing = |error: ClusterError| assert!(matches!(error, ClusterError::DefinitionMissing { .. }), "{error}");
    missing(reader.list_nodes().await.expect_err("missing"));
    missing(reader.node(&name("n1")).await.expect_err("missing"));
    missing(writer.assign(&name("n1"), &assign("u", None, Some("a"))).await.expect_err("missing"));
}
