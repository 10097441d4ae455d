//! Tests of marks against the embedded API server, with both server profiles.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::ClusterReader;
use crate::connection::fake;
use crate::connection::fake::{Reply, options, status};
use crate::lock;
use crate::lock::{HeldLock, LockOptions};
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_contract::{ConfigSource, KUBELET_KEY, nodeconfig};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile, User};
use nodecfg_sandbox::server::wire::{Fault, FaultKind, Matcher, Wire};

const SCALE_DOWN: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
const DISRUPT: &str = "karpenter.sh/do-not-disrupt";

async fn writer(client: kube::Client) -> (ClusterWriter, HeldLock) {
    let reader = ClusterReader::new(client, "https://sandbox", options());
    let lock = LockOptions::new("kube-system", FleetName::new("prod").expect("a name"), "me".to_owned());
    let held = lock::acquire(&reader, lock).await.expect("free");
    (ClusterWriter::new(reader, &held), held)
}

async fn cluster(profile: ServerProfile) -> (Api, ClusterWriter, HeldLock) {
    let api = Api::new(ApiOptions { profile, ..ApiOptions::default() });
    let (writer, held) = writer(api.client()).await;
    (api, writer, held)
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a name")
}

fn drain(to: &str) -> Drain {
    let source = |name: &str| ConfigSource::config_map("kube-system", name, KUBELET_KEY);
    Drain {
        fleet: FleetName::new("prod").expect("a name"),
        pool: PoolName::new("gpu").expect("a name"),
        to: Some(source(to)),
        from: None,
        since: "2026-11-23T10:00:00Z".parse().expect("a time"),
        added: BTreeSet::new(),
    }
}

/// Creates a Node and returns its uid. Taints are set afterwards, because admission adds one to each new Node.
async fn create((api, writer): (&Api, &ClusterWriter), node: &str, annotations: Value, taints: Value) -> String {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "annotations": annotations}});
    api.create("", "nodes", "", object, "test").unwrap_or_else(|_| panic!("node {node}"));
    change(writer, node, json!({"spec": {"taints": taints}})).await;
    api.get("", "nodes", "", node).expect("a node")["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

fn annotations(api: &Api, node: &str) -> BTreeMap<String, String> {
    let node = api.get("", "nodes", "", node).expect("a node");
    serde_json::from_value(node["metadata"]["annotations"].clone()).unwrap_or_default()
}

fn taints(api: &Api, node: &str) -> Vec<Value> {
    let node = api.get("", "nodes", "", node).expect("a node");
    node["spec"]["taints"].as_array().cloned().unwrap_or_default()
}

/// Changes a Node as another client does.
async fn change(writer: &ClusterWriter, node: &str, merge: Value) {
    let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node);
    let call = Call::new(Method::PATCH, operation.path()).content("application/merge-patch+json", merge.to_string());
    let sent = writer.reader.transport.call(&operation, &call, whole::<IgnoredContent>).await;
    sent.unwrap_or_else(|error| panic!("{merge}: {error}"));
}

#[tokio::test]
async fn marks_once_and_releases_exactly_that() {
    for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
        let (api, writer, _held) = cluster(profile).await;
        let uid = create((&api, &writer), "n1", Value::Null, Value::Null).await;
        let exact = Drain { since: "2026-11-23T10:00:00.353083297Z".parse().expect("a time"), ..drain("a") };
        let stored = writer.mark_for_drain(&name("n1"), &uid, &exact).await.expect("marked");
        assert_eq!(stored, Drain { added: Protection::ALL.into(), ..drain("a") });
        assert_eq!(taints(&api, "n1"), [json!({"key": DRAIN_TAINT, "value": "draining", "effect": "NoSchedule"})]);
        let node = writer.reader.node(&name("n1")).await.expect("read").expect("exists");
        assert_eq!(node.drain_mark.as_deref().and_then(DrainMark::in_effect), Some(&stored));

        // Another attempt, for example after a lost response, keeps the start of the drain.
        let later = Drain { since: "2026-11-23T11:00:00Z".parse().expect("a time"), ..drain("a") };
        assert_eq!(writer.mark_for_drain(&name("n1"), &uid, &later).await, Ok(stored));

        let removed =
            RemovedMark { taint: true, annotation: true, protections: Protection::ALL.into(), cordoned: false };
        assert_eq!(writer.release_drain(&name("n1"), &uid).await, Ok(Released::Removed(removed)));
        assert_eq!((annotations(&api, "n1"), taints(&api, "n1")), (BTreeMap::new(), Vec::new()));
        assert_eq!(writer.release_drain(&name("n1"), &uid).await, Ok(Released::Unmarked));
    }
}

#[tokio::test]
async fn mark_of_another_target_takes_over_the_protections() {
    let (api, writer, _held) = cluster(ServerProfile::V1_36).await;
    let uid = create((&api, &writer), "n1", json!({DISRUPT: "false"}), Value::Null).await;
    writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect("marked");
    let stored = writer.mark_for_drain(&name("n1"), &uid, &drain("b")).await.expect("marked");
    assert_eq!(stored, Drain { added: BTreeSet::from([Protection::ScaleDownDisabled]), ..drain("b") });
    assert_eq!(taints(&api, "n1").len(), 1);
    writer.release_drain(&name("n1"), &uid).await.expect("released");
    assert_eq!(annotations(&api, "n1"), BTreeMap::from([(DISRUPT.to_owned(), "false".to_owned())]));
}

#[tokio::test]
async fn other_nodes_and_fleets_are_left_unchanged() {
    let (api, writer, _held) = cluster(ServerProfile::V1_36).await;
    let uid = create((&api, &writer), "n1", Value::Null, Value::Null).await;
    let refused = |error: ClusterError| assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
    refused(writer.mark_for_drain(&name("n1"), "other", &drain("a")).await.expect_err("another uid"));
    let error = writer.mark_for_drain(&name("n2"), &uid, &drain("a")).await.expect_err("missing");
    assert!(matches!(error, ClusterError::NotFound { .. }), "{error}");
    assert_eq!(writer.release_drain(&name("n2"), &uid).await, Ok(Released::Gone));

    let other = Drain { fleet: FleetName::new("other").expect("a name"), ..drain("a") };
    writer.mark_for_drain(&name("n1"), &uid, &other).await.expect("marked");
    assert_eq!(writer.release_drain(&name("n1"), "other").await, Ok(Released::Gone));
    let before = api.get("", "nodes", "", "n1");
    refused(writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect_err("another fleet"));
    assert_eq!(api.get("", "nodes", "", "n1"), before);
}

#[tokio::test]
async fn unreadable_reason_loses_taint_and_annotation_only() {
    let (api, writer, _held) = cluster(ServerProfile::V1_36).await;
    for (number, reason) in [Some("{}"), Some("not JSON"), None].into_iter().enumerate() {
        let node = format!("n{number}");
        let protected = json!({SCALE_DOWN: "true", DISRUPT: "true", DRAIN_ANNOTATION: reason});
        let uid =
            create((&api, &writer), &node, Value::Null, json!([{"key": DRAIN_TAINT, "effect": "NoSchedule"}])).await;
        change(&writer, &node, json!({"metadata": {"annotations": protected}, "spec": {"unschedulable": true}})).await;
        let removed =
            RemovedMark { taint: true, annotation: reason.is_some(), protections: BTreeSet::new(), cordoned: true };
        assert_eq!(writer.release_drain(&name(&node), &uid).await, Ok(Released::Removed(removed)));
        assert_eq!(annotations(&api, &node).into_keys().collect::<Vec<_>>(), [SCALE_DOWN, DISRUPT]);
        assert_eq!(taints(&api, &node), Vec::<Value>::new());
    }
    // Without the taint, the annotation alone is a mark that a person left.
    let uid = create((&api, &writer), "n9", Value::Null, Value::Null).await;
    writer.mark_for_drain(&name("n9"), &uid, &drain("a")).await.expect("marked");
    change(&writer, "n9", json!({"spec": {"taints": null}})).await;
    let released = writer.release_drain(&name("n9"), &uid).await.expect("released");
    assert!(matches!(released, Released::Removed(RemovedMark { taint: false, annotation: true, .. })), "{released:?}");
    assert_eq!(annotations(&api, "n9"), BTreeMap::new());
}

#[tokio::test]
async fn patch_tests_everything_that_it_changes() {
    let node = |spec: Value| json!({"metadata": {"name": "n1", "uid": "u", "annotations": {"a": "b"}}, "spec": spec});
    let rejected = || status(422, "Invalid", "the server rejected our request", json!({}));
    let lists = |request: &fake::RecordedRequest| request.uri.contains("/leases");
    let mut patches = 0;
    let (client, log) = fake::serving(move |request| match (lists(request), request.method.as_str()) {
        (true, "GET") => status(404, "NotFound", "not found", json!({"kind": "leases"})),
        (true, _) => Reply::Json(200, request.body.clone()),
        (false, "GET") => Reply::Json(200, node(json!({"taints": [{"key": "a", "effect": "NoExecute", "new": 1}]}))),
        (false, _) if request.uri.contains("/status") => Reply::Json(200, json!({})),
        (false, _) => {
            patches += 1;
            if patches == 3 { Reply::Json(200, json!({})) } else { rejected() }
        }
    });
    let (writer, _held) = writer(client).await;
    writer.mark_for_drain(&name("n1"), "u", &drain("a")).await.expect("the third attempt");
    let of_the_mark = |request: &fake::RecordedRequest| request.method == "PATCH" && !request.uri.contains("/status");
    let sent: Vec<_> = log.all().into_iter().filter(of_the_mark).collect();
    assert_eq!((sent.len(), sent[0].uri.as_str()), (3, "/api/v1/nodes/n1?fieldManager=nodecfg"));
    insta::assert_json_snapshot!(sent[0].body);
    // Further failures end it.
    let error = writer.mark_for_drain(&name("n1"), "u", &drain("a")).await.expect_err("changes repeatedly");
    assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
    assert_eq!(log.all().into_iter().filter(of_the_mark).count(), 6);
}

/// A writer of a cluster with Node n1, which is marked and may make changes that need a drain. Returns its uid, too.
async fn permitted(api: &Api, wire: &Wire) -> (ClusterWriter, HeldLock, String) {
    let (mut writer, held) = writer(wire.client(api, User::admin("ci"))).await;
    writer.reader.binding = Binding::NodeConfig;
    let definition = nodeconfig::definition();
    api.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition, "test").expect("defined");
    let uid = create((api, &writer), "n1", Value::Null, Value::Null).await;
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}]);
    let config = json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": "n1",
        "ownerReferences": owner}, "spec": {"maxDisruption": "drain"}});
    api.create("nodecfg.dev", "nodeconfigs", "", config, "test").expect("created");
    writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect("marked");
    (writer, held, uid)
}

/// Disruption that the NodeConfig of Node n1 permits.
fn permission(api: &Api) -> Value {
    api.get("nodecfg.dev", "nodeconfigs", "", "n1").expect("kept")["spec"]["maxDisruption"].clone()
}

/// Pods return with the release. After a crash, the next run finds the mark and releases the node; a permission that
/// outlived the mark would stay.
#[tokio::test]
async fn permission_for_a_drained_node_ends_before_its_mark() {
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    let wire = Wire::new();
    let (writer, _held, uid) = permitted(&api, &wire).await;

    // A refusal ends the release where a crash would.
    let refusal = Fault::once(Matcher::on("patch", "nodes"), FaultKind::Denied("no".to_owned()));
    wire.faults.inject(refusal);
    wire.log.clear();
    writer.release_drain(&name("n1"), &uid).await.expect_err("refused");
    assert_eq!(taints(&api, "n1").len(), 1);
    assert_eq!(permission(&api), "restart");

    writer.release_drain(&name("n1"), &uid).await.expect("released");
    assert_eq!(taints(&api, "n1"), Vec::<Value>::new());
    let written: Vec<String> = wire.log.writes().iter().map(ToString::to_string).collect();
    let node = "PATCH /api/v1/nodes/n1?fieldManager=nodecfg";
    let config = "PATCH /apis/nodecfg.dev/v1alpha1/nodeconfigs/n1?fieldManager=nodecfg 200";
    let shown = "PATCH /api/v1/nodes/n1/status?fieldManager=nodecfg 200";
    assert_eq!(written, [config.to_owned(), format!("{node} 403"), format!("{node} 200"), shown.to_owned()]);
}

/// Without the taint, pods start on the node during its drain.
#[tokio::test]
async fn mark_whose_taint_is_gone_is_made_again() {
    let (api, writer, _held) = cluster(ServerProfile::V1_36).await;
    let uid = create((&api, &writer), "n1", Value::Null, Value::Null).await;
    writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect("marked");
    change(&writer, "n1", json!({"spec": {"taints": null}})).await;
    writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect("marked again");
    assert_eq!(taints(&api, "n1").len(), 1);
}

/// A Node that is deleted during its release needs none.
#[tokio::test]
async fn release_of_a_deleted_node_is_done() {
    let gone = status(404, "NotFound", "not found", json!({"kind": "nodes", "name": "n1"}));
    let (writer, _held, log) = marked(prepared("u"), vec![gone]).await;
    assert_eq!(writer.release_drain(&name("n1"), "u").await, Ok(Released::Gone));
    assert_eq!(patches(&log, "/nodes/").len(), 1);
}

/// Pods return to a node whose mark a person removes, too. No later run releases a node without a mark.
#[tokio::test]
async fn permission_ends_although_a_person_removed_the_mark() {
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    let (writer, _held, uid) = permitted(&api, &Wire::new()).await;
    let unmarked = json!({"metadata": {"annotations": {DRAIN_ANNOTATION: null}}, "spec": {"taints": null}});
    change(&writer, "n1", unmarked).await;
    assert_eq!(permission(&api), "drain");
    assert_eq!(writer.release_drain(&name("n1"), "other").await, Ok(Released::Gone), "another Node of this name");
    assert_eq!(permission(&api), "drain");
    assert_eq!(writer.release_drain(&name("n1"), &uid).await, Ok(Released::Unmarked));
    assert_eq!(permission(&api), "restart");
}

/// A fake server of a Node with a mark and of its NodeConfig. Each patch of the Node gets the next of these replies.
async fn marked(config: Value, replies: Vec<Reply>) -> (ClusterWriter, HeldLock, fake::Log) {
    let reason = json!(drain("a")).to_string();
    let node = json!({"metadata": {"name": "n1", "uid": "u", "annotations": {DRAIN_ANNOTATION: reason}},
        "spec": {"taints": [{"key": DRAIN_TAINT, "effect": "NoSchedule"}]}});
    let mut replies = std::collections::VecDeque::from(replies);
    let (client, log) = fake::serving(move |request| match (request.uri.as_str(), request.method.as_str()) {
        (uri, "GET") if uri.contains("/leases") => status(404, "NotFound", "not found", json!({"kind": "leases"})),
        (uri, "GET") if uri.contains("/nodeconfigs") => Reply::Json(200, config.clone()),
        (uri, "PATCH") if uri.contains("/nodes/") => replies.pop_front().unwrap_or(Reply::Reset),
        (uri, "GET") if uri.contains("/nodes/") => Reply::Json(200, node.clone()),
        _ => Reply::Json(200, request.body.clone()),
    });
    let (mut writer, held) = writer(client).await;
    writer.reader.binding = Binding::NodeConfig;
    (writer, held, log)
}

/// A NodeConfig whose node may make changes that need a drain.
fn prepared(owner: &str) -> Value {
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": owner}]);
    json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig",
        "metadata": {"name": "n1", "uid": "c", "ownerReferences": owner},
        "spec": {"configSource": drain("a").to, "maxDisruption": "drain"}})
}

/// Bodies of the patches of this resource.
fn patches(log: &fake::Log, resource: &str) -> Vec<Value> {
    let of = |request: &fake::RecordedRequest| request.method == "PATCH" && request.uri.contains(resource);
    log.all().into_iter().filter(of).map(|request| request.body).collect()
}

/// Another run may have assigned the node again, or prepared it for another change.
#[tokio::test]
async fn permission_ends_only_as_it_was_read() {
    let rejected = || status(422, "Invalid", "the server rejected our request", json!({}));
    let done = || Reply::Json(200, json!({}));
    let (writer, _held, log) = marked(prepared("u"), vec![rejected(), done()]).await;
    let released = writer.release_drain(&name("n1"), "u").await;
    assert!(matches!(released, Ok(Released::Removed(_))), "the second attempt: {released:?}");
    assert_eq!(patches(&log, "/nodes/").len(), 2);
    let lowered = json!([
        {"op": "test", "path": "/metadata/uid", "value": "c"},
        {"op": "test", "path": "/spec/configSource", "value": drain("a").to},
        {"op": "test", "path": "/spec/maxDisruption", "value": "drain"},
        {"op": "add", "path": "/spec/maxDisruption", "value": "restart"},
    ]);
    assert_eq!(patches(&log, "/nodeconfigs/"), [lowered], "once");

    // It belongs to an earlier Node of this name.
    let (mut writer, _held, log) = marked(prepared("other"), vec![done(), done()]).await;
    writer.release_drain(&name("n1"), "u").await.expect("released");
    assert_eq!(patches(&log, "/nodeconfigs/"), [Value::Null; 0]);
    // A Node with its own assignment has no NodeConfig.
    writer.reader.binding = Binding::Node;
    let before = log.lines().len();
    writer.release_drain(&name("n1"), "u").await.expect("released");
    assert!(!log.lines()[before..].iter().any(|line| line.contains("/nodeconfigs/")), "{:?}", log.lines());
}

/// A node that keeps its mark takes no pods.
#[tokio::test]
async fn node_is_released_although_its_permission_stays() {
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    let (mut writer, _held) = writer(api.client()).await;
    let uid = create((&api, &writer), "n1", Value::Null, Value::Null).await;
    writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect("marked");
    // The cluster serves no NodeConfigs, so the permission cannot be read.
    writer.reader.binding = Binding::NodeConfig;
    writer.release_drain(&name("n1"), &uid).await.expect("released");
    assert_eq!(taints(&api, "n1"), Vec::<Value>::new());
}

/// A change that is not tested might overwrite one of another client.
#[test]
fn patches_test_every_field_that_they_change() {
    let read = |node: Value| serde_json::from_value::<MarkedNode>(node).expect("a node");
    let untested = |patch: &Value| {
        let paths = |is_test: bool| -> BTreeSet<String> {
            let operations = patch.as_array().expect("operations").iter();
            let kept = operations.filter(|one| (one["op"] == "test") == is_test);
            kept.map(|one| one["path"].as_str().expect("a path").to_owned()).collect()
        };
        assert!(paths(true).contains(UID), "{patch}");
        let (tested, changed) = (paths(true), paths(false));
        let is_untested = |path: &String| !tested.iter().any(|tested| path.starts_with(tested.as_str()));
        changed.into_iter().filter(is_untested).collect::<Vec<_>>()
    };
    let none = Vec::<String>::new();
    let reason = json!(Drain { added: Protection::ALL.into(), ..drain("a") }).to_string();
    let marked = json!({"metadata": {"uid": "u", "annotations": {DRAIN_ANNOTATION: reason, SCALE_DOWN: "true", DISRUPT: "true"}},
        "spec": {"taints": [{"key": DRAIN_TAINT, "effect": "NoSchedule"}]}});
    let (patch, removed) = releasing(&read(marked.clone())).expect("a mark");
    assert_eq!((untested(&patch), removed.protections.len()), (none.clone(), 2));
    let annotated = json!({"metadata": {"uid": "u", "annotations": {"other": "x"}}});
    for node in [json!({"metadata": {"uid": "u"}}), annotated, marked] {
        let Marking::Patch(patch, _) = marking(&read(node.clone()), &drain("b")) else { panic!("{node}") };
        assert_eq!(untested(&patch), none, "{patch}");
    }
}

/// Taints of other programs, with distinct keys.
fn other_taints() -> impl Strategy<Value = Vec<Value>> {
    let taint = |key: &'static str| {
        (any::<bool>(), prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")], any::<bool>())
            .prop_map(move |(present, effect, valued)| {
                let taint = if valued {
                    json!({"key": key, "value": "v", "effect": effect})
                } else {
                    json!({"key": key, "effect": effect})
                };
                present.then_some(taint)
            })
    };
    (taint("dedicated"), taint("a.example/b"), taint("node.kubernetes.io/unreachable"))
        .prop_map(|(a, b, c)| [a, b, c].into_iter().flatten().collect())
}

/// Values of the annotations that matter, and of another one.
fn some_annotations() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = prop_oneof![Just(SCALE_DOWN), Just(DISRUPT), Just("example.com/other")];
    let value = prop_oneof![Just("true"), Just("false"), Just("")];
    proptest::collection::btree_map(key.prop_map(str::to_owned), value.prop_map(str::to_owned), 0..4)
}

/// A person's changes between mark and release: annotations set or removed, other taints, a cordon.
type Changes = (BTreeMap<String, Option<String>>, Option<Vec<Value>>, Option<bool>);

fn changes() -> impl Strategy<Value = Changes> {
    let annotations = some_annotations().prop_flat_map(|set| {
        let removed = proptest::collection::vec(any::<bool>(), set.len());
        removed.prop_map(move |removed| {
            let changes = set.clone().into_iter().zip(removed);
            changes.map(|((key, value), removed)| (key, (!removed).then_some(value))).collect()
        })
    });
    (annotations, proptest::option::of(other_taints()), proptest::option::of(any::<bool>()))
}

/// Marks a Node, changes it as a person does, releases it, and returns what differs from the Node with the changes
/// alone.
async fn marked_and_released(
    (api, writer): (&Api, &ClusterWriter),
    node: &str,
    annotations_before: &BTreeMap<String, String>,
    taints_before: &[Value],
    (by_person, taints_by_person, cordon): &Changes,
) -> Result<(), TestCaseError> {
    let uid = create((api, writer), node, json!(annotations_before), json!(taints_before)).await;
    writer.mark_for_drain(&name(node), &uid, &drain("a")).await.expect("marked");
    let ours = taints(api, node).into_iter().filter(|taint| taint["key"] == DRAIN_TAINT);
    let kept: Vec<Value> = taints_by_person.iter().flatten().cloned().chain(ours).collect();
    let mut spec = json!({"unschedulable": cordon.unwrap_or_default()});
    if taints_by_person.is_some() {
        spec["taints"] = json!(kept);
    }
    change(writer, node, json!({"metadata": {"annotations": by_person}, "spec": spec})).await;
    writer.release_drain(&name(node), &uid).await.expect("released");

    let mut expected = annotations_before.clone();
    for (key, value) in by_person {
        match value {
            // Indistinguishable from the value that the mark added.
            Some(value) if value == "true" && !annotations_before.contains_key(key) && key != "example.com/other" => {}
            Some(value) => drop(expected.insert(key.clone(), value.clone())),
            None => drop(expected.remove(key)),
        }
    }
    prop_assert_eq!(annotations(api, node), expected);
    prop_assert_eq!(taints(api, node), taints_by_person.as_deref().unwrap_or(taints_before));
    let cordoned = api.get("", "nodes", "", node).expect("a node")["spec"]["unschedulable"].as_bool();
    prop_assert_eq!(cordoned.unwrap_or_default(), cordon.unwrap_or_default());
    Ok(())
}

#[test]
fn release_restores_the_node_and_keeps_every_change_of_a_person() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
        let (api, writer, _held) = runtime.block_on(cluster(profile));
        let number = std::cell::Cell::new(0);
        let strategy = (some_annotations(), other_taints(), changes());
        TestRunner::new(ProptestConfig::with_cases(100))
            .run(&strategy, |(annotations, taints, changes)| {
                number.set(number.get() + 1);
                let node = format!("n{}", number.get());
                runtime.block_on(marked_and_released((&api, &writer), &node, &annotations, &taints, &changes))
            })
            .expect("restored");
    }
}

/// The True conditions of a Node with the reason of nodecfg, and those of others.
fn conditions(api: &Api, node: &str) -> (Vec<String>, Vec<String>) {
    let node = api.get("", "nodes", "", node).expect("a node");
    let found = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let (own, others): (Vec<Value>, Vec<Value>) = found
        .into_iter()
        .filter(|condition| condition["status"] == "True")
        .partition(|condition| condition["reason"] == "KubeletConfigurationChange");
    let names = |conditions: Vec<Value>| {
        let mut names: Vec<String> =
            conditions.iter().map(|condition| condition["type"].as_str().expect("a type").to_owned()).collect();
        names.sort();
        names
    };
    (names(own), names(others))
}

#[tokio::test]
async fn other_programs_see_the_drain() {
    let (api, writer, _held) = cluster(ServerProfile::V1_36).await;
    let uid = create((&api, &writer), "n1", Value::Null, Value::Null).await;
    let own = |api: &Api| conditions(api, "n1").0;
    writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect("marked");
    assert_eq!(own(&api), ["DrainInProgress"]);
    let node = writer.reader.node(&name("n1")).await.expect("read").expect("exists");
    assert_eq!(node.maintainer, None, "the conditions are our own");
    writer.show_drained(&name("n1"), "other").await.expect("no error");
    assert_eq!(own(&api), ["DrainInProgress"], "another Node");
    writer.show_drained(&name("n1"), &uid).await.expect("shown");
    assert_eq!(own(&api), ["Drained", "MaintenanceInProgress"]);
    writer.release_drain(&name("n1"), &uid).await.expect("released");
    assert_eq!(own(&api), Vec::<String>::new());

    // A mark that a person removed, and conditions that another program set in the meantime.
    for (by_a_person, is_released) in [(false, true), (true, false), (true, true)] {
        writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect("marked");
        writer.show_unmarked(&name("n1"), &uid).await.expect("no error");
        assert_eq!(own(&api), ["DrainInProgress"], "the mark is in effect");
        let taken = json!({"status": {"conditions": [
            {"type": "DrainInProgress", "status": "True", "reason": "KubeletConfigurationChange"},
            {"type": "Drained", "status": "True", "reason": "AdminRequested"},
        ]}});
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, "n1");
        let call = Call::new(Method::PATCH, format!("{}/status", operation.path()))
            .content("application/merge-patch+json", taken.to_string());
        writer.call(&operation, &call, whole::<IgnoredContent>).await.expect("changed");
        let unmarked = json!({"spec": {"taints": null}, "metadata": {"annotations": {DRAIN_ANNOTATION: null}}});
        if by_a_person {
            change(&writer, "n1", unmarked).await;
        }
        if is_released {
            let released = writer.release_drain(&name("n1"), &uid).await.expect("released");
            assert_eq!(released == Released::Unmarked, by_a_person);
        } else {
            writer.show_unmarked(&name("n1"), &uid).await.expect("shown");
        }
        assert_eq!(conditions(&api, "n1"), (Vec::new(), vec!["Drained".to_owned()]));
        let node = writer.reader.node(&name("n1")).await.expect("read").expect("exists");
        assert_eq!(node.maintainer, Some(nodecfg_observed::Maintainer::Drained));
        let cleared = json!({"status": {"conditions": []}}).to_string();
        let call = Call::new(Method::PATCH, format!("{}/status", operation.path()))
            .content("application/merge-patch+json", cleared);
        writer.call(&operation, &call, whole::<IgnoredContent>).await.expect("changed");
    }
}

/// The drain needs no right to write the status of Nodes.
#[tokio::test]
async fn drain_without_the_right_to_show_it() {
    let rule = |verbs: &[&str], group: &str, resource: &str| nodecfg_sandbox::api::Rule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        namespace: None,
        names: Vec::new(),
    };
    let rules = vec![
        rule(&["create", "get", "patch"], "", "nodes"),
        rule(&["get", "create", "update"], "coordination.k8s.io", "leases"),
    ];
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    let (writer, _held) = writer(api.client_as(User::with_rules("drainer", rules))).await;
    let uid = create((&api, &writer), "n1", Value::Null, Value::Null).await;
    writer.mark_for_drain(&name("n1"), &uid, &drain("a")).await.expect("marked");
    writer.show_drained(&name("n1"), &uid).await.expect("no error");
    assert_eq!(conditions(&api, "n1").0, Vec::<String>::new());
    assert!(matches!(writer.release_drain(&name("n1"), &uid).await, Ok(Released::Removed(_))));
}

/// A failure would end the whole run, and with it the other nodes.
#[tokio::test]
async fn node_that_cannot_be_read_keeps_what_it_shows() {
    let (client, _) = fake::serving(|request| match (request.uri.contains("/leases"), request.method.as_str()) {
        (true, "GET") => status(404, "NotFound", "not found", json!({"kind": "leases"})),
        (true, _) => Reply::Json(200, request.body.clone()),
        (false, _) => status(403, "Forbidden", "User \"ci\" cannot get resource \"nodes\"", json!({})),
    });
    let (writer, _held) = writer(client).await;
    assert_eq!(writer.show_unmarked(&name("n1"), "u").await, Ok(()));
}
