//! Scenarios of nodes in other hands: cordoned by a person, being deleted, or maintained by another program.

use http::Request;
use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository, until};

scenarios! {
    Anything {
        cordoned_node_is_first_and_takes_budget,
        maintained_nodes_are_left_unchanged_until_they_are_released,
        node_with_a_lifecycle_condition_is_left_unchanged_while_it_is_true,
        node_claimed_during_a_rollout_is_not_started,
        node_being_deleted_takes_budget,
    }
}

/// Patch of a Node that claims it for a program, and the name of the program.
fn claims() -> [(&'static str, Value); 9] {
    let taint = |key: &str| json!({"spec": {"taints": [{"key": key, "value": "1", "effect": "NoSchedule"}]}});
    let annotations = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    let drain = |desired: &str, applied: &str| {
        annotations(json!({
            "machineconfiguration.openshift.io/desiredDrain": desired,
            "machineconfiguration.openshift.io/lastAppliedDrain": applied,
        }))
    };
    let upgrade = |driver: &str, state: &str| json!({"metadata": {"labels": {format!("nvidia.com/{driver}-driver-upgrade-state"): state}}});
    [
        ("cluster-autoscaler", taint("ToBeDeletedByClusterAutoscaler")),
        ("karpenter", taint("karpenter.sh/disrupted")),
        ("node-maintenance-operator", taint("medik8s.io/drain")),
        ("kured", annotations(json!({"weave.works/kured-reboot-in-progress": "2026-11-21T12:00:00Z"}))),
        ("machine-config-operator", drain("uncordon-b", "drain-b")),
        ("machine-config-operator", drain("drain-b", "drain-b")),
        ("gpu-operator", upgrade("gpu", "pod-restart-required")),
        ("gpu-operator", upgrade("gpu", "upgrade-failed")),
        ("network-operator", upgrade("ofed", "node-maintenance-required")),
    ]
}

/// Patch that removes all claims.
fn release() -> Value {
    let keys = ["weave.works/kured-reboot-in-progress"].into_iter().chain(DRAIN_KEYS);
    let annotations: serde_json::Map<String, Value> = keys.map(|key| (key.to_owned(), Value::Null)).collect();
    let upgraded =
        json!({"nvidia.com/gpu-driver-upgrade-state": "upgrade-done", "nvidia.com/ofed-driver-upgrade-state": null});
    json!({"metadata": {"annotations": annotations, "labels": upgraded}, "spec": {"taints": null}})
}

const DRAIN_KEYS: [&str; 2] =
    ["machineconfiguration.openshift.io/desiredDrain", "machineconfiguration.openshift.io/lastAppliedDrain"];

async fn patch(cluster: &Cluster, node: &str, patch: Value) {
    cluster.patch(&format!("/api/v1/nodes/{node}"), patch).await;
}

async fn cordoned_node_is_first_and_takes_budget(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1, convergenceTimeout: 3s}");
    patch(&cluster, "a-3", json!({"spec": {"unschedulable": true}})).await;
    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(5).prints("budgetExhausted");
    let lines = run.json_lines();
    let assigned: Vec<_> = lines.iter().filter(|line| line["event"] == "assigned").map(|line| &line["node"]).collect();
    assert_eq!(assigned, ["a-3"], "the cordoned node uses the budget");
    assert!(cluster.state("a-3").await.converged());
    patch(&cluster, "a-3", json!({"spec": {"unschedulable": false}})).await;
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn maintained_nodes_are_left_unchanged_until_they_are_released(start: ClusterSetup) {
    let cluster = start.pool("a", 10).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    for (index, (_, claim)) in claims().into_iter().enumerate() {
        patch(&cluster, &format!("a-{}", index + 1), claim).await;
    }
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    let mut run = cluster.sync(&repository, &[]).await.exits(5).prints("1 converged").prints("9 blocked");
    let mut status = cluster.run("status", &repository, &[]).await.exits(0).prints("9 blocked");
    let mut doctor = cluster.run("doctor", &repository, &[]).await.exits(5);
    let mut diff = diff.prints("kured");
    for (program, _) in claims() {
        let text = format!("maintained by {program}");
        (diff, run, status, doctor) =
            (diff.prints(&text), run.prints(&text), status.prints(&text), doctor.prints(&text));
    }
    for index in 1..=9 {
        assert_eq!(cluster.source(&format!("a-{index}")).await, None, "a-{index}");
        patch(&cluster, &format!("a-{index}"), release()).await;
    }
    cluster.sync(&repository, &[]).await.exits(0).prints("9 converged");
    cluster.down().await;
}

/// Sets a condition of a node as operators do.
async fn set_condition(cluster: &Cluster, node: &str, kind: &str, status: &str) {
    let patch = json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    let request = Request::patch(format!("/api/v1/nodes/{node}/status"))
        .header("Content-Type", "application/strategic-merge-patch+json")
        .body(patch.to_string().into_bytes())
        .unwrap();
    cluster.send(request).await.unwrap();
}

async fn node_with_a_lifecycle_condition_is_left_unchanged_while_it_is_true(start: ClusterSetup) {
    let cluster = start.pool("a", 6).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    let claiming = ["MaintenanceInProgress", "DrainInProgress", "Drained", "GracefulNodeShutdownInProgress"];
    for (index, kind) in claiming.iter().enumerate() {
        set_condition(&cluster, &format!("a-{}", index + 1), kind, "True").await;
    }
    set_condition(&cluster, "a-5", "MaintenancePlanned", "True").await;
    set_condition(&cluster, "a-6", "DrainInProgress", "False").await;
    let mut run = cluster.sync(&repository, &[]).await.exits(5).prints("2 converged").prints("4 blocked");
    for (index, kind) in claiming.iter().enumerate() {
        run = run.prints(&format!("set its condition {kind}"));
        let node = format!("a-{}", index + 1);
        assert_eq!(cluster.source(&node).await, None, "{node}");
        set_condition(&cluster, &node, kind, "False").await;
    }
    cluster.sync(&repository, &[]).await.exits(0).prints("4 converged");
    cluster.down().await;
}

async fn node_claimed_during_a_rollout_is_not_started(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%, canary: {nodes: 1, soak: 4s}}");
    let run = cluster.start_run("sync", &repository, &[]);
    until("the canary converges", async || {
        cluster.state("a-1").await.converged() && cluster.source("a-1").await.is_some()
    })
    .await;
    let [(_, claim), ..] = claims();
    patch(&cluster, "a-3", claim).await;
    run.end().await.exits(5).prints("maintained by cluster-autoscaler").prints("2 converged");
    assert_eq!(cluster.source("a-3").await, None);
    cluster.down().await;
}

async fn node_being_deleted_takes_budget(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    patch(&cluster, "a-1", json!({"metadata": {"finalizers": ["example.com/drain"]}})).await;
    cluster.delete("/api/v1/nodes/a-1").await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1, convergenceTimeout: 1s}");
    cluster.sync(&repository, &[]).await.exits(5).prints("no budget left, 1 unavailable of at most 1");
    assert_eq!((cluster.source("a-1").await, cluster.source("a-2").await), (None, None));
    patch(&cluster, "a-1", json!({"metadata": {"finalizers": null}})).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("1 converged");
    cluster.down().await;
}
