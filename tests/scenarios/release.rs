//! Scenarios of marks that an ended drain left: `release`, and what `status` and `doctor` report.

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository};

const TAINT: &str = "status-taint.cluster-autoscaler.kubernetes.io/nodecfg";
const REASON: &str = "nodecfg.dev/drain";
const SCALE_DOWN: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
const DISRUPT: &str = "karpenter.sh/do-not-disrupt";

scenarios! {
    Anything {
        marks_are_released_and_other_changes_stay,
        mark_of_another_fleet_is_refused,
        release_waits_for_the_lock,
    }
}

/// Marks a node as a drain of `fleet` does. A Ready node has no other taints.
async fn mark(cluster: &Cluster, node: &str, fleet: &str) {
    let reason = json!({"fleet": fleet, "pool": "a", "since": "2026-01-01T00:00:00Z",
        "added": ["scaleDownDisabled", "doNotDisrupt"]});
    let annotations = json!({REASON: reason.to_string(), SCALE_DOWN: "true", DISRUPT: "true"});
    let taints = json!([{"key": "dedicated", "effect": "NoSchedule"},
        {"key": TAINT, "value": "draining", "effect": "NoSchedule"}]);
    cluster.patch(&path(node), json!({"metadata": {"annotations": annotations}, "spec": {"taints": taints}})).await;
}

fn path(node: &str) -> String {
    format!("/api/v1/nodes/{node}")
}

/// The annotations and taints of a node that a mark concerns.
async fn marks(cluster: &Cluster, node: &str) -> (Vec<String>, Vec<Value>) {
    let node = cluster.get(&path(node)).await;
    let annotations = node["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let ours = annotations.into_iter().filter(|(key, _)| [REASON, SCALE_DOWN, DISRUPT].contains(&key.as_str()));
    let taints = node["spec"]["taints"].as_array().into_iter().flatten().map(|taint| taint["key"].clone());
    (ours.map(|(key, value)| format!("{key}={}", value.as_str().unwrap())).collect(), taints.collect())
}

async fn marks_are_released_and_other_changes_stay(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    cluster.sync(&repository, &[]).await.exits(0);
    let fleet = ["--fleet", "test"];
    cluster
        .call(&[&["release", "--all", "--yes"], &fleet[..]].concat())
        .await
        .exits(0)
        .prints("No node has a mark of fleet test.");

    mark(&cluster, "a-1", "test").await;
    mark(&cluster, "a-2", "test").await;
    // A person cordons the node, and keeps Karpenter away for another reason.
    let by_person = json!({"metadata": {"annotations": {DISRUPT: "until Monday"}}, "spec": {"unschedulable": true}});
    cluster.patch(&path("a-1"), by_person).await;
    let before = (marks(&cluster, "a-1").await, marks(&cluster, "a-2").await);
    cluster.call(&["status"]).await.exits(0).prints("DRAINING").prints("; 2 draining.");
    let doctor = cluster.call(&["doctor", "-o", "json"]).await.exits(0).json();
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["code"] == "drain-mark").unwrap();
    assert_eq!(check["verdict"], "warning");
    assert!(check["seen"].as_str().unwrap().contains("on 2 nodes (a-1, a-2), the oldest since 2026-01-01"), "{check}");
    assert!(check["fix"].as_str().unwrap().contains("`nodecfg release NODE`"), "{check}");
    cluster.call(&["release", "--all"]).await.exits(2).prints("is not a terminal").prints("--yes");
    cluster.call(&["release"]).await.exits(2).prints("no nodes are selected").prints("--all");
    cluster.call(&["release", "a-9", "--yes"]).await.exits(2).prints("there is no node a-9 in the cluster");
    let dry = cluster.call(&["release", "--all", "--dry-run", "-o", "json"]).await.exits(0).json();
    assert_eq!((&dry["kind"], &dry["dryRun"], &dry["fleet"]), (&json!("Release"), &json!(true), &json!("test")));
    let ends: Vec<&Value> = dry["nodes"].as_array().unwrap().iter().map(|node| &node["end"]["kind"]).collect();
    assert_eq!(ends, ["toRelease", "toRelease"]);
    assert_eq!(dry["nodes"][0]["end"], json!({"kind": "toRelease", "tainted": true, "cordoned": true}));
    assert_eq!((marks(&cluster, "a-1").await, marks(&cluster, "a-2").await), before, "nothing was written");

    let run = cluster.call(&["release", "a-1", "a-3", "--yes", "--repo", repository.path().to_str().unwrap()]).await;
    let run = run.exits(0).prints("1 node released, 1 without a mark.");
    run.prints(&format!("removed taint {TAINT}; annotations {REASON}, {SCALE_DOWN}; the node stays cordoned"));
    let kept = vec![format!("{DISRUPT}=until Monday")];
    assert_eq!(marks(&cluster, "a-1").await, (kept, vec![json!("dedicated")]));
    assert_eq!(cluster.get(&path("a-1")).await["spec"]["unschedulable"], true);
    assert_eq!(marks(&cluster, "a-2").await, before.1);

    // Without a readable reason, the mark belongs to no known fleet. Only its name releases the node.
    cluster.patch(&path("a-3"), json!({"spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]}})).await;
    let run = cluster.call(&["release", "--all", "--yes"]).await.exits(5);
    let run = run.prints("1 node released, 1 left with a mark that names no fleet.");
    run.prints("its mark names no fleet: `nodecfg release NODE` removes it");
    assert_eq!(marks(&cluster, "a-2").await, (Vec::new(), vec![json!("dedicated")]));
    let document = cluster.call(&["release", "a-3", "--yes", "-o", "json"]).await.exits(0).json();
    let end = json!({"kind": "released", "taint": true, "annotation": false, "protections": [], "cordoned": false});
    assert_eq!(document["nodes"][0]["end"], end);
    assert_eq!(marks(&cluster, "a-3").await, (Vec::new(), Vec::new()));
    cluster.down().await;
}

async fn mark_of_another_fleet_is_refused(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    cluster.sync(&Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}"), &[]).await.exits(0);
    mark(&cluster, "a-1", "other").await;
    mark(&cluster, "a-2", "test").await;
    let before = marks(&cluster, "a-1").await;
    let run = cluster.call(&["release", "a-1", "a-2", "--yes"]).await.exits(2);
    run.prints("fleet other drains node a-1, not fleet test").prints("pass --fleet other");
    assert_eq!(marks(&cluster, "a-2").await.1.len(), 2, "nothing was written");
    cluster.call(&["release", "--all", "--yes"]).await.exits(0).prints("1 node released.");
    assert_eq!(marks(&cluster, "a-1").await, before);
    cluster.call(&["release", "a-1", "--fleet", "other", "--yes"]).await.exits(0).prints("1 node released.");
    cluster.down().await;
}

async fn release_waits_for_the_lock(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    cluster.sync(&Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}"), &[]).await.exits(0);
    mark(&cluster, "a-1", "test").await;
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", cluster.namespace());
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = json!({"holderIdentity": "somebody", "leaseDurationSeconds": 600, "renewTime": now});
    cluster.patch(&lease, json!({"spec": spec})).await;
    let before = marks(&cluster, "a-1").await;
    cluster.call(&["release", "--all", "--yes"]).await.exits(6).prints("somebody holds the lock");
    assert_eq!(marks(&cluster, "a-1").await, before);
    cluster.down().await;
}
