//! Tests of the steps before the first assignment.

use super::*;
use kubelet_config::risk::Class;
use nodecfg_cluster::connection::fake;
use nodecfg_cluster::connection::fake::{Reply, status};
use nodecfg_cluster::lock::LockOptions;
use nodecfg_cluster::{Binding, lock};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::{Drain, DrainMark, Node, NodeContent};
use nodecfg_plan::fixtures::{
    desired, fleet, namespace, node, observed, on, options, policy, pool, rendered, replacing, with_config_map,
};
use nodecfg_plan::{Release, make};
use serde_json::json;
use std::time::Duration;

/// A right that is not checked before the first write may be missed half-way.
#[test]
fn rights_of_drains_and_releases_are_checked() {
    let drained = |node: Node| {
        let drains = RolloutPolicy { allow_disruption: Class::Drain, ..policy(1) };
        let mut observed = observed([node]);
        with_config_map(&mut observed, "a", &rendered("a", 64));
        let plan = make(&desired([pool("a", 64, drains)]), &observed, &options()).unwrap();
        let needs = needs(&plan);
        (needs.assign, needs.watch, needs.drain)
    };
    let converged = on(node("n1", "a"), &rendered("a", 64).source(&namespace()));
    assert_eq!(drained(converged.clone()), (false, false, false));
    assert_eq!(drained(node("n1", "a")), (true, true, true));
    // A node can register with the mark of a drain. Its release needs no right of the run.
    let plan = desired([]);
    let drain = Drain {
        fleet: plan.fleet,
        pool: pool("a", 64, policy(1)).name,
        to: None,
        from: None,
        since: Timestamp::UNIX_EPOCH,
        added: Default::default(),
    };
    let mark = DrainMark { tainted: true, drain: Some(drain) };
    let marked = Node { drain_mark: Some(Box::new(mark)), ..converged };
    assert_eq!(drained(marked), (true, false, false));
}

/// A writer of a server with NodeConfigs that answers each of their patches with this reply.
async fn writer(reply: impl Fn() -> Reply + Send + 'static) -> (ClusterWriter, fake::Log) {
    let (client, log) = fake::serving(move |request| match (request.method.as_str(), request.uri.as_str()) {
        ("GET", uri) if uri.contains("/leases") => status(404, "NotFound", "not found", json!({"kind": "leases"})),
        ("GET", uri) if uri.contains("/nodeconfigs?") => {
            Reply::Json(200, json!({"kind": "NodeConfigList", "metadata": {"resourceVersion": "1"}, "items": []}))
        }
        ("GET", uri) if uri.contains("/nodeconfigs") => {
            status(404, "NotFound", "not found", json!({"kind": "nodeconfigs", "name": "n1"}))
        }
        ("PATCH", uri) if uri.contains("/nodeconfigs") => reply(),
        ("GET", uri) if uri.contains("/nodes/n1") => {
            let taints =
                json!([{"key": "status-taint.cluster-autoscaler.kubernetes.io/nodecfg", "effect": "NoSchedule"}]);
            let metadata = json!({"name": "n1", "uid": "u", "resourceVersion": "1"});
            Reply::Json(200, json!({"metadata": metadata, "spec": {"taints": taints}}))
        }
        ("PATCH", uri) if uri.contains("/nodes/n1") => reply(),
        (_, uri) => {
            let mut object = request.body.clone();
            if uri.contains("/configmaps") {
                object["metadata"]["uid"] = json!("u");
            }
            Reply::Json(201, object)
        }
    });
    let reader = ClusterReader::new(client, "https://fake", fake::options());
    let reader = reader.with_binding(Some(Binding::NodeConfig)).await.unwrap();
    let held = lock::acquire(&reader, LockOptions::new("kube-system", fleet(), "me".to_owned())).await.unwrap();
    let writer = ClusterWriter::new(reader.within(Duration::ZERO), &held);
    // The lock is renewed as long as it is not dropped.
    std::mem::forget(held);
    (writer, log)
}

/// A plan that adds the hash of node `n1`, and creates the ConfigMap of pool `b`.
fn plan_with_hash() -> Plan {
    let content = Some(NodeContent { active: Some(rendered("a", 64).hash), ..replacing() });
    let unhashed = Node { content, ..on(node("n1", "a"), &rendered("a", 64).source(&namespace())) };
    let other = Node { content: Some(replacing()), ..node("n2", "b") };
    let mut observed = observed([unhashed, other]);
    with_config_map(&mut observed, "a", &rendered("a", 64));
    let plan = make(&desired([pool("a", 64, policy(1)), pool("b", 65, policy(1))]), &observed, &options()).unwrap();
    assert_eq!(plan.pools.iter().map(|pool| pool.completions().count()).sum::<usize>(), 1);
    plan
}

/// A node that another client changed is planned again by the next run. A refusal concerns all nodes.
#[tokio::test]
async fn hash_that_cannot_be_added_ends_the_run_only_if_it_is_refused() {
    let added = |reply: fn() -> Reply| async move {
        let (writer, log) = writer(reply).await;
        let mut hashes = 0;
        let mut listener = |_: Timestamp, event: &Event| {
            if let Progress::ContentHashesAdded { nodes } = event.progress {
                hashes += nodes;
            }
        };
        let result = before_assignments(&plan_with_hash(), &writer, &mut listener).await;
        let written = |request: &fake::RecordedRequest| {
            let kind = ["nodeconfigs", "configmaps"].into_iter().find(|kind| request.uri.contains(kind))?;
            (request.method != "GET").then_some(kind)
        };
        let writes: Vec<&str> = log.all().iter().filter_map(written).collect();
        (result.map_err(|error| matches!(error, ClusterError::Forbidden { .. })), hashes, writes)
    };
    let done = || {
        let hash = rendered("a", 64).hash.to_string();
        let spec = json!({"configSource": rendered("a", 64).source(&namespace()), "contentHash": hash, "placement": "replace"});
        Reply::Json(200, json!({"metadata": {"name": "n1"}, "spec": spec}))
    };
    let order = vec!["configmaps", "nodeconfigs"];
    assert_eq!(added(done).await, (Ok(None), 1, order.clone()));
    let changed = || status(422, "Invalid", "the server rejected our request", json!({}));
    assert_eq!(added(changed).await, (Ok(None), 0, order.clone()));
    let refused = || status(403, "Forbidden", "User \"ci\" cannot patch resource \"nodeconfigs\"", json!({}));
    assert_eq!(added(refused).await, (Err(true), 0, order));
}

/// A kubelet can register with the taint of a drain, and change its annotations at any time.
#[tokio::test]
async fn mark_that_cannot_be_removed_does_not_end_the_run() {
    let released = |reply: fn() -> Reply| async move {
        let (writer, log) = writer(reply).await;
        let mut plan = plan_with_hash();
        for pool in &mut plan.pools {
            pool.left_alone.clear();
        }
        let (node, uid) = (node("n1", "a").name, "u".to_owned());
        plan.releases.push(Release { node, uid, since: Timestamp::UNIX_EPOCH, tainted: true });
        let result = before_assignments(&plan, &writer, &mut |_, _| {}).await;
        let created = log.all().iter().any(|request| request.method == "POST" && request.uri.contains("/configmaps"));
        (result, created)
    };
    let changed = || status(422, "Invalid", "the server rejected our request", json!({}));
    let refused = || status(403, "Forbidden", "User \"ci\" cannot patch resource \"nodes\"", json!({}));
    for reply in [changed as fn() -> Reply, refused] {
        let (result, created) = released(reply).await;
        assert!(matches!(result, Ok(Some(_))) && created, "{result:?}");
    }
}

/// A later run may have moved the pointer since: what this run wrote is its precondition, and not an older version.
#[test]
fn pointer_is_restored_only_over_what_this_run_wrote() {
    let pointer = |commit: &str| PoolPointer::to(None, Some(commit.to_owned()));
    let planned = PointerMove {
        from: Some(pointer("old")),
        resource_version: Some("7".to_owned()),
        to: pointer("new"),
        when: PointerTime::AtOnce,
    };
    let plan = plan_with_hash();
    let replaces = |written: PoolPointer| pointer_spec(&plan, &plan.pools[0].name, &planned, written).replaces;
    assert_eq!(replaces(pointer("new")), Replaced::Version("7".to_owned()));
    assert_eq!(replaces(pointer("old")), Replaced::Content(pointer("new")));
}
