//! Scenarios of reviews of changes that need drained nodes: the pods to evict, and what prevents it.

use crate::harness::{Cluster, ClusterSetup, Repository};
use nodecfg_sandbox::workloads::{PodFault, WorkloadSpec};

scenarios! {
    Workloads {
        review_names_pods_that_prevent_a_drain,
    }
    Sandbox {
        large_drain_lists_pods_once,
        review_without_the_right_to_list_pods_says_so,
        review_without_a_drain_reads_no_pods,
    }
}

/// Repository whose change needs drained nodes.
fn repository() -> Repository {
    Repository::of_pool("topologyManagerPolicy: restricted", "{maxUnavailable: 2, allowDisruption: drain}")
}

/// Number of requests for pods and their budgets.
fn asked(cluster: &Cluster) -> (usize, usize) {
    let entries = cluster.sandbox().wire().log.entries();
    let number = |resource: &str| {
        entries.iter().filter(|entry| entry.request.verb == "list" && entry.request.resource == resource).count()
    };
    (number("pods"), number("poddisruptionbudgets"))
}

async fn review_names_pods_that_prevent_a_drain(start: ClusterSetup) {
    let node = |name: &str| nodecfg_contract::names::NodeName::new(name).unwrap();
    let workloads = WorkloadSpec::default()
        .with_fault(&node("a-1"), PodFault::EmptyDir)
        .with_fault(&node("a-1"), PodFault::Unmanaged)
        .with_fault(&node("a-2"), PodFault::BlockedBudget)
        .with_fault(&node("a-2"), PodFault::TwoBudgets)
        .with_fault(&node("a-3"), PodFault::ToleratesAll);
    let cluster = start.pool("a", 3).workloads(workloads).up().await;
    let before = cluster.written().await;
    let repository = repository();
    let diff = cluster.run("diff", &repository, &["--ask-kubelets", "none", "-v"]).await.exits(1);
    diff.prints("drains 3 nodes, 2 at a time: their current configuration is unknown; up to 15m per node")
        .prints("2 pods to evict on 1 node; 1 pod tolerates the taint and stays")
        .prints("drain refused: 1 pod with emptyDir volumes on a-1 (default/empty-dir")
        .prints("set spec.rollout.drain.emptyDir: delete")
        .prints("drain refused: 1 pod without a controller on a-1 (default/unmanaged")
        .prints("set spec.rollout.drain.unmanaged: delete")
        .prints("drain blocked now: PodDisruptionBudget default/blocked-budget")
        .prints("drain blocked now: several PodDisruptionBudgets (default/two-budgets")
        .prints("NODE PODS TO EVICT TOLERATE THE TAINT PREVENTED BY")
        .prints("a-2 2 - blocked now: default/blocked-budget-a-2,")
        .prints("3 nodes to drain and assign, drain of 1 node refused");
    if cluster.is_sandbox() {
        assert_eq!(asked(&cluster), (3, 1), "one list for each node, and one of the budgets");
    }
    let json = cluster.run("sync", &repository, &["--dry-run", "-o", "json"]).await.exits(0).json();
    let drain = &json["pools"][0]["rollout"]["drain"];
    assert_eq!(drain["pods"]["kind"], "read", "{drain}");
    assert_eq!(
        (&drain["nodes"], &drain["pods"]["evict"], &drain["pods"]["refused"]),
        (&3.into(), &2.into(), &2.into())
    );
    assert_eq!(drain["pods"]["nodes"][0]["refused"][0]["reason"], "emptyDir", "{drain}");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn large_drain_lists_pods_once(start: ClusterSetup) {
    let cluster = start.pool("a", 21).pool("b", 1).workloads(WorkloadSpec::filling(22, 4)).up().await;
    let diff = cluster.run("diff", &repository(), &["--ask-kubelets", "none", "-o", "json"]).await.exits(1).json();
    assert_eq!(asked(&cluster), (1, 1), "one list of all pods");
    let pods = &diff["pools"][0]["rollout"]["drain"]["pods"];
    assert_eq!(pods["nodes"].as_array().unwrap().len(), 21);
    let of_application = |pod: &&serde_json::Value| {
        pod["spec"]["nodeName"].as_str().unwrap().starts_with("a-")
            && pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    };
    let expected = cluster.pods().await.iter().filter(of_application).count();
    assert_eq!(pods["evict"], expected);
    assert!(expected > 20, "{expected}");
    cluster.down().await;
}

async fn review_without_the_right_to_list_pods_says_so(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(WorkloadSpec::filling(2, 4)).up().await;
    let repository = repository();
    for resource in ["pods", "poddisruptionbudgets"] {
        cluster.sandbox().forbid("list", resource);
        let diff = cluster.run("diff", &repository, &["--ask-kubelets", "none"]).await.exits(1);
        diff.prints("the pods to evict are unknown: cannot list")
            .prints(&format!("may not list {resource}"))
            .prints("bind the user to the ClusterRole nodecfg-forecaster of deploy/forecaster")
            .prints("Plan: 1 ConfigMap to create, 2 nodes to drain and assign");
    }
    cluster.run("sync", &repository, &["--dry-run"]).await.exits(0).prints("the pods to evict are unknown");
    cluster.down().await;
}

async fn review_without_a_drain_reads_no_pods(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(WorkloadSpec::filling(2, 4)).up().await;
    let repository = Repository::of_pool("maxPods: 64", "{maxUnavailable: 2}");
    let diff = cluster.run("diff", &repository, &["--ask-kubelets", "none"]).await.exits(1);
    diff.does_not_print("to evict").does_not_print("drains");
    assert_eq!(asked(&cluster), (0, 0));
    cluster.down().await;
}
