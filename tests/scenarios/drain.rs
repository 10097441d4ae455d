//! Scenarios of drains within a rollout.

use std::collections::{BTreeMap, BTreeSet};

use nodecfg_contract::names::NodeName;
use nodecfg_sandbox::workloads::{PodFault, WorkloadSpec};
use serde_json::json;

use crate::harness::{AFTER, BEFORE, Cluster, ClusterSetup, NODE_LEASES, Repository, until};

scenarios! {
    Workloads {
        nodes_are_drained_one_after_the_other_and_get_their_pods_back,
        refused_pod_stops_the_drain_before_any_eviction,
        blocked_drain_names_the_budget_and_releases_the_node,
        interrupt_releases_a_node_that_is_not_assigned,
        next_command_heals_a_killed_drain,
        node_that_another_program_claims_during_its_drain_is_released_to_it,
        node_whose_lease_another_program_holds_is_left_to_it,
        drained_node_is_not_drained_again,
        annotations_of_a_mark_without_its_taint_are_removed,
    }
    Sandbox {
        missing_right_is_named_before_anything_is_written,
    }
}

/// Repository whose pool drains its nodes. The first sync accepts the change from the local configuration.
fn repository(drain: &str) -> Repository {
    Repository::of_pool(BEFORE, &format!("{{maxUnavailable: 1, drain: {{settle: 0s{drain}}}}}"))
}

/// Assigns the first configuration, and commits the change that needs drained nodes.
async fn prepare(cluster: &Cluster, repository: &Repository, drain: &str) {
    let rollout = format!("{{maxUnavailable: 1, allowDisruption: drain, drain: {{settle: 0s{drain}}}}}");
    cluster.prepare_drain(repository, &rollout).await;
}

/// Uids of the pods, without those of DaemonSets and those that end. An evicted pod has a replacement with another uid.
async fn pods(cluster: &Cluster) -> BTreeSet<String> {
    let pods = cluster.pods().await;
    let pods = pods
        .iter()
        .map(|pod| &pod["metadata"])
        .filter(|pod| pod["ownerReferences"][0]["kind"] != "DaemonSet" && pod["deletionTimestamp"].is_null());
    pods.map(|pod| pod["uid"].as_str().unwrap().to_owned()).collect()
}

async fn nodes_are_drained_one_after_the_other_and_get_their_pods_back(start: ClusterSetup) {
    let cluster = start.pool("a", 3).workloads(WorkloadSpec::filling(3, 6)).up().await;
    let repository = repository("");
    let before = pods(&cluster).await;
    prepare(&cluster, &repository, "").await;
    assert_eq!(pods(&cluster).await, before, "no drain was needed so far");
    let run = cluster.sync(&repository, &["-v"]).await.exits(0);
    let run = run.prints("draining, ").prints("3 nodes: 3 converged");
    let target = cluster.state("a-1").await.source;
    for (name, state) in cluster.states().await {
        assert!(state.converged() && state.source == target, "{name}: {state:?}");
    }
    cluster.assert_no_marks().await;
    let after = pods(&cluster).await;
    assert!(after.is_disjoint(&before), "each pod was evicted");
    assert_eq!((before.len(), after.len()), (12, 12));
    // Marks and assignments of different nodes never overlap, because one node may be unavailable.
    let order: Vec<&str> =
        ["a-1", "a-2", "a-3"].into_iter().filter(|name| run.has(&format!("a/{name} draining"))).collect();
    assert_eq!(order.len(), 3);
    cluster.down().await;
}

async fn refused_pod_stops_the_drain_before_any_eviction(start: ClusterSetup) {
    let workloads = WorkloadSpec::filling(2, 4).with_fault(&NodeName::new("a-1").unwrap(), PodFault::Unmanaged);
    let cluster = start.pool("a", 2).workloads(workloads).up().await;
    let repository = repository("");
    prepare(&cluster, &repository, "").await;
    let (before, running) = (cluster.states().await, pods(&cluster).await);
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("drain refused: pod default/unmanaged").prints("has no controller that recreates it");
    assert_eq!(pods(&cluster).await, running);
    cluster.assert_no_marks().await;
    let source = |states: &BTreeMap<String, crate::harness::NodeRecord>| states["a-1"].source.clone();
    assert_eq!(source(&cluster.states().await), source(&before));
    // The policy may accept the loss.
    repository.fleet("test", "{maxUnavailable: 1, allowDisruption: drain, drain: {settle: 0s, unmanaged: delete}}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("2 converged");
    cluster.assert_no_marks().await;
    cluster.down().await;
}

async fn blocked_drain_names_the_budget_and_releases_the_node(start: ClusterSetup) {
    let workloads = WorkloadSpec::filling(2, 3).with_fault(&NodeName::new("a-1").unwrap(), PodFault::BlockedBudget);
    let cluster = start.pool("a", 2).workloads(workloads).up().await;
    let repository = repository("");
    prepare(&cluster, &repository, ", timeout: 4s, unmanaged: delete").await;
    let pod = "/api/v1/namespaces/default/pods/blocked-budget-a-1";
    let uid = cluster.get(pod).await["metadata"]["uid"].clone();
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("drain blocked: pod default/blocked-budget").prints("disruption budget");
    cluster.assert_no_marks().await;
    assert_eq!(cluster.get(pod).await["metadata"]["uid"], uid, "the protected pod is still there");
    cluster.down().await;
}

async fn interrupt_releases_a_node_that_is_not_assigned(start: ClusterSetup) {
    let workloads = WorkloadSpec::filling(2, 3).with_fault(&NodeName::new("a-1").unwrap(), PodFault::Hangs);
    let cluster = start.pool("a", 2).workloads(workloads).up().await;
    let repository = repository("");
    prepare(&cluster, &repository, ", unmanaged: delete").await;
    let before = cluster.source("a-1").await;
    let run = cluster.start_run("sync", &repository, &[]);
    until("a-1 is marked", async || cluster.state("a-1").await.marked).await;
    run.interrupt();
    run.end().await.exits(5).prints("interrupted");
    cluster.assert_no_marks().await;
    assert_eq!(cluster.source("a-1").await, before);
    cluster.down().await;
}

async fn next_command_heals_a_killed_drain(start: ClusterSetup) {
    let workloads = WorkloadSpec::filling(2, 3).with_fault(&NodeName::new("a-1").unwrap(), PodFault::Hangs);
    let cluster = start.pool("a", 2).workloads(workloads).up().await;
    let repository = repository("");
    prepare(&cluster, &repository, ", unmanaged: delete").await;
    install_medik8s(&cluster).await;
    let run = cluster.start_run("sync", &repository, &[]);
    let shown = (vec!["DrainInProgress".to_owned()], Some("nodecfg".to_owned()));
    // A node shows its drain before it is marked.
    until("a-1 is marked", async || cluster.state("a-1").await.marked).await;
    run.kill();
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", cluster.namespace());
    cluster.delete(&format!("{leases}/nodecfg-test")).await;
    assert!(cluster.state("a-1").await.marked);
    assert_eq!(cluster.shown_drain("a-1").await, shown);
    // The change is not wanted any more.
    repository.change("a", BEFORE);
    let run = cluster.sync(&repository, &[]).await.exits(0);
    run.prints("node a-1 released: an earlier run drained it");
    cluster.assert_no_marks().await;
    cluster.down().await;
}

/// Pods stay, the cordon of the other program stays, and the node is drained again once it is released.
async fn node_that_another_program_claims_during_its_drain_is_released_to_it(start: ClusterSetup) {
    let workloads = WorkloadSpec::filling(2, 3).with_fault(&NodeName::new("a-1").unwrap(), PodFault::BlockedBudget);
    let cluster = start.pool("a", 2).workloads(workloads).up().await;
    let repository = repository("");
    prepare(&cluster, &repository, ", timeout: 60s, unmanaged: delete").await;
    let blocked = "/api/v1/namespaces/default/pods/blocked-budget-a-1";
    let (before, uid) = (cluster.source("a-1").await, cluster.get(blocked).await["metadata"]["uid"].clone());
    let count = pods(&cluster).await.len();
    let run = cluster.start_run("sync", &repository, &[]);
    until("a-1 is marked", async || cluster.state("a-1").await.marked).await;
    let claim = |state: &str, cordoned: bool| {
        let labels = json!({"nvidia.com/gpu-driver-upgrade-state": state});
        json!({"metadata": {"labels": labels}, "spec": {"unschedulable": cordoned}})
    };
    cluster.patch("/api/v1/nodes/a-1", claim("drain-required", true)).await;
    until("a-1 is released", async || !cluster.state("a-1").await.marked).await;
    run.interrupt();
    run.end().await.exits(5).prints("maintained by gpu-operator");
    cluster.assert_no_marks().await;
    assert_eq!(cluster.source("a-1").await, before);
    assert_eq!(cluster.get("/api/v1/nodes/a-1").await["spec"]["unschedulable"], true, "the cordon is not ours");
    assert_eq!(cluster.get(blocked).await["metadata"]["uid"], uid, "the protected pod is still there");
    until("the evicted pods are back", async || pods(&cluster).await.len() == count).await;
    cluster.patch("/api/v1/nodes/a-1", claim("upgrade-done", false)).await;
    cluster.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/blocked-budget-a-1").await;
    cluster.sync(&repository, &[]).await.exits(0).prints("2 converged");
    cluster.assert_no_marks().await;
    cluster.down().await;
}

/// Creates the namespace of the Leases by which the programs of Medik8s agree who maintains a node.
async fn install_medik8s(cluster: &Cluster) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "medik8s-leases"}});
    cluster.create("/api/v1/namespaces", namespace).await;
}

/// Others go on, and the next sync changes the node.
async fn node_whose_lease_another_program_holds_is_left_to_it(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(WorkloadSpec::filling(2, 3)).up().await;
    let repository = repository("");
    prepare(&cluster, &repository, "").await;
    install_medik8s(&cluster).await;
    let now = nodecfg_clock::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node-a-1"},
        "spec": {"holderIdentity": "node-healthcheck", "leaseDurationSeconds": 600, "renewTime": now},
    });
    cluster.create(NODE_LEASES, lease).await;
    let before = cluster.source("a-1").await;
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("a/a-1").prints("maintained by the program that holds its Lease").prints("1 converged");
    assert_eq!(cluster.source("a-1").await, before);
    assert_eq!(cluster.shown_drain("a-1").await, (Vec::new(), Some("node-healthcheck".to_owned())));
    assert!(!cluster.state("a-1").await.marked);
    cluster.delete(&format!("{NODE_LEASES}/node-a-1")).await;
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.assert_no_marks().await;
    cluster.down().await;
}

async fn missing_right_is_named_before_anything_is_written(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(WorkloadSpec::filling(2, 3)).up().await;
    let repository = repository("");
    prepare(&cluster, &repository, "").await;
    cluster.sandbox().forbid("create", "pods/eviction");
    let before = cluster.written().await;
    cluster.sync(&repository, &[]).await.exits(4).prints("pods/eviction").prints("drainer");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn drained_node_is_not_drained_again(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(WorkloadSpec::filling(2, 3)).up().await;
    let repository = repository("");
    prepare(&cluster, &repository, "").await;
    cluster.sync(&repository, &[]).await.exits(0);
    let running = pods(&cluster).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("2 already up to date");
    // A change that needs no drain evicts nothing.
    repository.change("a", &format!("{AFTER}\nclusterDNS: [10.0.0.10]"));
    cluster.sync(&repository, &[]).await.exits(0).prints("2 converged").does_not_print("draining");
    assert_eq!(pods(&cluster).await, running);
    cluster.down().await;
}

async fn annotations_of_a_mark_without_its_taint_are_removed(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository("");
    cluster.sync(&repository, &[]).await.exits(0);
    let drain = json!({"fleet": "test", "pool": "a", "since": "2026-11-23T10:00:00Z", "added": ["doNotDisrupt"]});
    let keys =
        ["nodecfg.dev/drain", "karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/scale-down-disabled"];
    let annotations = json!({keys[0]: drain.to_string(), keys[1]: "true", keys[2]: "true"});
    cluster.patch("/api/v1/nodes/a-1", json!({"metadata": {"annotations": annotations}})).await;
    let left = "removes the annotations of an earlier drain from a-1, whose taint is gone";
    cluster.run("diff", &repository, &[]).await.exits(1).prints(left);
    cluster.sync(&repository, &[]).await.exits(0).prints("node a-1 released");
    let node = cluster.get("/api/v1/nodes/a-1").await;
    let kept: Vec<bool> = keys.iter().map(|key| node["metadata"]["annotations"].get(*key).is_some()).collect();
    assert_eq!(kept, [false, false, true], "only what the mark added: {node}");
    cluster.run("diff", &repository, &[]).await.exits(0);
    cluster.down().await;
}
