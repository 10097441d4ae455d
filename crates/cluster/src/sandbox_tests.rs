//! Tests of reader, writer, lock and watch against the embedded API server, with both server profiles.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use serde_json::json;

use super::{ClusterError, ClusterReader, ClusterWriter, LabelKeys, NodeEvent};
use crate::connection::fake::options;
use crate::lock;
use crate::lock::{HeldLock, LockError, LockOptions};
use crate::reading::binding::{Binding, BindingEvidence};
use crate::writing::writer::{Created, NodeNotice};
use kubelet_config::risk::Class;
use nodecfg_contract::ContentHash;
use nodecfg_contract::Placement;
use nodecfg_contract::config_map::{PoolConfig, PoolConfigMap};
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{Assignment, ConfigSource, KUBELET_KEY};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

fn cluster(profile: ServerProfile, nodes: usize) -> (Api, ClusterReader) {
    let api = Api::new(ApiOptions { profile, ..ApiOptions::default() });
    for number in 0..nodes {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number:04}"),
            "labels": {"pool": "a", "noise": "b"}}});
        api.create("", "nodes", "", node, "test").unwrap_or_else(|_| panic!("node {number}"));
    }
    let reader = ClusterReader::new(api.client(), "https://sandbox", options());
    (api, reader)
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a name")
}

fn lock(me: &str) -> LockOptions {
    LockOptions::new("kube-system", FleetName::new("prod").expect("a name"), me.to_owned())
}

async fn writer(reader: &ClusterReader) -> (ClusterWriter, HeldLock) {
    let held = lock::acquire(reader, lock("me")).await.expect("free");
    (ClusterWriter::new(reader.clone(), &held), held)
}

fn spec(text: &str) -> PoolConfigMap {
    let (config_map, hash) = ("prod-gpu-x".to_owned(), ContentHash::of(text.as_bytes()));
    PoolConfigMap {
        config: PoolConfig { config_map, hash, kubelet: text.to_owned(), placement: Some(Placement::Overlay) },
        namespace: NamespaceName::new("kube-system").expect("a name"),
        fleet: FleetName::new("prod").expect("a name"),
        pool: PoolName::new("gpu").expect("a name"),
        commit: None,
        path: "pools/gpu/kubelet.yaml".to_owned(),
    }
}

fn source(name: &str) -> ConfigSource {
    ConfigSource::config_map("kube-system", name, KUBELET_KEY)
}

fn change(uid: &str, from: Option<ConfigSource>, to: Option<ConfigSource>) -> Assignment {
    let (from_hash, to_hash, max_disruption) = (None, None, Class::Restart);
    let (from_placement, to_placement, present_placement) = (None, None, None);
    Assignment {
        uid: uid.to_owned(),
        from,
        to,
        from_hash,
        to_hash,
        from_placement,
        to_placement,
        present_placement,
        max_disruption,
    }
}

/// Assigns a source to the current Node, under the precondition that its source is `from`.
async fn assign(
    writer: &ClusterWriter,
    node: &str,
    from: Option<ConfigSource>,
    to: Option<ConfigSource>,
) -> Result<Option<ConfigSource>, ClusterError> {
    let uid = writer.reader.node(&name(node)).await?.map(|node| node.uid).unwrap_or_default();
    writer.assign(&name(node), &change(&uid, from, to)).await
}

#[tokio::test]
async fn lists_all_nodes_with_the_requested_labels() {
    let (api, reader) = cluster(ServerProfile::V1_21, 601);
    let reader = reader.keeping(LabelKeys::Only(BTreeSet::from(["pool".to_owned()])));
    let (nodes, version) = reader.list_nodes().await.expect("a list");
    assert_eq!(nodes.len(), 601);
    assert_eq!(version.nodes, api.revision().to_string());
    assert!(nodes.values().all(|node| node.labels.keys().eq(["pool"])));
}

#[tokio::test]
async fn determines_the_binding_by_dry_run_or_version() {
    for (profile, binding) in [(ServerProfile::V1_21, Binding::Node), (ServerProfile::V1_36, Binding::NodeConfig)] {
        let (api, reader) = cluster(profile, 1);
        let version = reader.server_version().await.expect("a version");
        let before = api.revision();
        let check = reader.check_binding(&name("n0000"), &version).await.expect("an answer");
        assert_eq!((check.binding, check.evidence), (binding, BindingEvidence::DryRun(name("n0000"))));
        assert_eq!(api.revision(), before, "a dry run stores nothing");
        api.deny("patch", "nodes");
        let check = reader.check_binding(&name("n0000"), &version).await.expect("an answer");
        assert_eq!(check.binding, binding);
        assert!(!matches!(check.evidence, BindingEvidence::DryRun(_)), "{:?}", check.evidence);
    }
}

#[tokio::test]
async fn creates_a_config_map_once() {
    let (_api, reader) = cluster(ServerProfile::V1_36, 0);
    let (writer, _held) = writer(&reader).await;
    assert_eq!(writer.create_config_map(&spec("a: 1\n")).await, Ok(Created::Created));
    assert_eq!(writer.create_config_map(&spec("a: 1\n")).await, Ok(Created::AlreadyThere));
    let error = writer.create_config_map(&spec("a: 2\n")).await.expect_err("other content");
    assert!(matches!(error, ClusterError::ContentMismatch { .. }), "{error}");
    let nowhere = PoolConfigMap { namespace: NamespaceName::new("nope").expect("a name"), ..spec("a: 1\n") };
    let error = writer.create_config_map(&nowhere).await.expect_err("no namespace");
    assert!(matches!(&error, ClusterError::NamespaceMissing { namespace, .. } if namespace == "nope"), "{error}");

    let maps = reader.list_config_maps("kube-system").await.expect("a list");
    assert_eq!(maps.len(), 1);
    let map = &maps[0];
    assert_eq!(map.fleet, Some(FleetName::new("prod").expect("a name")));
    assert_eq!(map.content_hash, Some(ContentHash::of(b"a: 1\n").to_string()));
    assert!(map.created.is_some());
}

#[tokio::test]
async fn assigns_only_under_its_precondition() {
    let (_api, reader) = cluster(ServerProfile::V1_21, 1);
    let (writer, _held) = writer(&reader).await;
    let [a, b] = ["a", "b"].map(|name| Some(source(name)));
    assert_eq!(assign(&writer, "n0000", None, a.clone()).await, Ok(a.clone()));
    let error = assign(&writer, "n0000", None, b.clone()).await.expect_err("assigned already");
    assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
    let error = assign(&writer, "gone", None, b).await.expect_err("no node");
    assert!(matches!(error, ClusterError::NotFound { .. }), "{error}");
    let bad = Some(ConfigSource::default());
    let error = assign(&writer, "n0000", a.clone(), bad).await.expect_err("an empty source");
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
    assert_eq!(assign(&writer, "n0000", a, None).await, Ok(None));
}

#[tokio::test]
async fn never_changes_a_recreated_node() {
    let (api, reader) = cluster(ServerProfile::V1_21, 1);
    let (writer, _held) = writer(&reader).await;
    let node = name("n0000");
    let source_of = |api: &Api| api.get("", "nodes", "", "n0000").expect("a node")["spec"]["configSource"].clone();
    // Independent of the current Node's source: the assignment was decided for the previous Node.
    for current in [None, Some(source("a"))] {
        assign(&writer, "n0000", None, current.clone()).await.ok();
        let assignment = change("previous-node", None, Some(source("a")));
        let reset = change("previous-node", Some(source("a")), None);
        for change in [assignment.clone(), assignment.reversed(), reset] {
            let error = writer.assign(&node, &change).await.expect_err("another Node");
            assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
        }
        assert_eq!(source_of(&api), json!(current));
    }
}

#[tokio::test]
async fn detects_a_server_that_drops_the_field() {
    let (_api, reader) = cluster(ServerProfile::V1_36, 1);
    let (writer, _held) = writer(&reader).await;
    let error = assign(&writer, "n0000", None, Some(source("a"))).await.expect_err("dropped");
    assert!(matches!(error, ClusterError::FeatureDropped { .. }), "{error}");
}

#[tokio::test]
async fn error_names_the_refused_permission() {
    let (api, reader) = cluster(ServerProfile::V1_36, 1);
    let (writer, _held) = writer(&reader).await;
    api.deny("list", "nodes");
    let error = reader.list_nodes().await.expect_err("refused");
    assert_eq!(error.to_string(), "cannot list nodes: kubernetes-admin may not list nodes in the cluster");
    api.deny("create", "configmaps");
    let error = writer.create_config_map(&spec("a: 1\n")).await.expect_err("refused");
    assert!(
        error.to_string().ends_with("kubernetes-admin may not create configmaps in namespace kube-system"),
        "{error}"
    );
}

#[tokio::test]
async fn events_are_sent_and_never_fail() {
    let (api, reader) = cluster(ServerProfile::V1_21, 1);
    let (writer, _held) = writer(&reader).await;
    let notice = NodeNotice {
        node: name("n0000"),
        warning: false,
        reason: "NodeConfigAssigned",
        message: "assigned kube-system/a".to_owned(),
        at: nodecfg_clock::now(),
    };
    let before = api.revision();
    writer.emit_event(&notice).await;
    assert_eq!(api.revision(), before + 1);
    api.deny("create", "events");
    writer.emit_event(&notice).await;
    assert_eq!(api.revision(), before + 1);
}

#[tokio::test]
async fn only_one_sync_of_a_fleet_holds_the_lock() {
    let (_api, reader) = cluster(ServerProfile::V1_36, 0);
    let held = lock::acquire(&reader, lock("one")).await.expect("free");
    let error = lock::acquire(&reader, lock("two")).await.expect_err("held");
    assert!(matches!(&error, LockError::Held { holder, .. } if holder == "one"), "{error}");
    let other = LockOptions { fleet: FleetName::new("other").expect("a name"), ..lock("two") };
    lock::acquire(&reader, other).await.expect("another fleet's lock").release().await;
    held.release().await;
    lock::acquire(&reader, lock("two")).await.expect("released").release().await;
    let nowhere = LockOptions { namespace: "nope".to_owned(), ..lock("one") };
    let error = lock::acquire(&reader, nowhere).await.expect_err("no namespace");
    assert!(matches!(error, LockError::Cluster(ClusterError::NamespaceMissing { .. })), "{error}");
}

#[tokio::test]
async fn watch_yields_changes_and_survives_compacted_history() {
    let (api, reader) = cluster(ServerProfile::V1_21, 2);
    let (writer, _held) = writer(&reader).await;
    let (_, version) = reader.list_nodes().await.expect("a list");
    let mut events = pin!(reader.watch_nodes(&BTreeMap::new(), &version));
    let mut next = async || {
        let event = tokio::time::timeout(Duration::from_secs(5), events.next()).await.expect("in time");
        event.expect("open").expect("no error")
    };
    assign(&writer, "n0001", None, Some(source("a"))).await.expect("assigned");
    let NodeEvent::Upsert(node) = next().await else { panic!("a change") };
    assert_eq!((node.name.as_str(), node.source.is_some()), ("n0001", true));

    // A watch from an expired version lists once and continues.
    assign(&writer, "n0000", None, Some(source("a"))).await.expect("assigned");
    api.forget_history();
    let mut late = pin!(reader.watch_nodes(&BTreeMap::new(), &version));
    let first = tokio::time::timeout(Duration::from_secs(5), late.next()).await.expect("in time");
    let Some(Ok(NodeEvent::Relisted(nodes))) = first else { panic!("{first:?}") };
    assert!(nodes.iter().all(|node| node.source.is_some()));
    assign(&writer, "n0000", Some(source("a")), None).await.expect("reset");
    let then = tokio::time::timeout(Duration::from_secs(5), late.next()).await.expect("in time");
    assert!(matches!(&then, Some(Ok(NodeEvent::Upsert(node))) if node.source.is_none()), "{then:?}");
}
