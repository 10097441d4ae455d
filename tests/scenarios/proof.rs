//! Scenarios of what a node must have again before it counts as converged: its devices and its pods.

use nodecfg_contract::names::NodeName;
use nodecfg_sandbox::kubelets::Fault;
use nodecfg_sandbox::workloads::{PodFault, WorkloadSpec};
use serde_json::{Value, json};

use crate::harness::{BEFORE, Cluster, ClusterSetup, Repository, Run};

scenarios! {
    Anything {
        node_converges_when_its_devices_are_back,
        node_that_loses_its_devices_fails_and_stops_its_pool,
    }
    Workloads {
        refused_pod_fails_its_node_by_name,
        pods_that_are_not_ready_again_fail_their_node,
        unchanged_pods_are_counted_before_and_after,
        drained_node_is_checked_before_its_release,
        pool_may_skip_the_check_of_pods,
    }
    Sandbox {
        account_that_may_not_list_pods_changes_nodes_without_the_check,
        failed_list_is_one_warning_and_no_failure,
        each_node_costs_two_lists_of_its_pods,
    }
}

/// Repository of a pool that changes one node at a time. Pods have little time to become Ready again.
fn repository(rollout: &str) -> Repository {
    Repository::of_pool("maxPods: 120", &format!("{{maxUnavailable: 1, drain: {{settle: 1s}}{rollout}}}"))
}

fn outcome(run: &Run, node: &str) -> Value {
    let lines = run.json_lines();
    let outcome = lines.iter().find(|line| line["kind"] == "Outcome").unwrap();
    let nodes = outcome["pools"]["a"]["nodes"].as_array().unwrap();
    nodes.iter().find(|end| end["node"] == node).unwrap().clone()
}

fn workloads() -> WorkloadSpec {
    WorkloadSpec::filling(2, 4)
}

async fn assert_only_first_failed(cluster: &Cluster, run: &Run) {
    let (first, second) = (outcome(run, "a-1"), outcome(run, "a-2"));
    assert_eq!((&first["end"]["state"], &second["end"]["state"]), (&json!("failed"), &json!("notStarted")), "{run}");
    assert_eq!(cluster.source("a-2").await, None, "{run}");
}

async fn node_converges_when_its_devices_are_back(start: ClusterSetup) {
    let cluster = start.pool("a", 2).fault("a-1", Fault::SlowDevices).up().await;
    let run = cluster.sync(&repository(""), &["-o", "json"]).await.exits(0);
    let waits = run.json_lines().iter().filter(|line| line["waiting"]["kind"] == "resourceMissing").count();
    assert!(waits > 0, "{run}");
    let gpus = json!({"nvidia.com/gpu": {"before": 8, "after": 8}});
    assert_eq!(outcome(&run, "a-1")["recovery"]["resources"], gpus, "{run}");
    assert_eq!(outcome(&run, "a-2").get("recovery"), None, "{run}");
    cluster.down().await;
}

async fn node_that_loses_its_devices_fails_and_stops_its_pool(start: ClusterSetup) {
    let cluster = start.pool("a", 2).fault("a-1", Fault::LostDevices).up().await;
    let repository = repository(", convergenceTimeout: 5s");
    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(5);
    assert_only_first_failed(&cluster, &run).await;
    let failure = json!({"kind": "timedOut", "waiting":
        {"kind": "resourceMissing", "resource": "nvidia.com/gpu", "present": 0, "before": 8}});
    assert_eq!(outcome(&run, "a-1")["end"]["failure"], failure, "{run}");
    // The next run does not know what the node had.
    let run = cluster.sync(&repository, &["-v"]).await.exits(0);
    run.prints("2 converged").does_not_print("nvidia.com/gpu");
    cluster.down().await;
}

async fn refused_pod_fails_its_node_by_name(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(workloads()).fault("a-1", Fault::RefusesPod).up().await;
    let run = cluster.sync(&repository(""), &["-o", "json"]).await.exits(5);
    assert_only_first_failed(&cluster, &run).await;
    let failure = &outcome(&run, "a-1")["end"]["failure"];
    assert_eq!((&failure["kind"], &failure["code"]), (&json!("podsRefused"), &json!("UnexpectedAdmissionError")));
    let message = failure["message"].as_str().unwrap();
    assert!(message.starts_with("Pod was rejected: Allocate failed due to no healthy devices present"), "{message}");
    // The named pod has failed on the node.
    let (namespace, name) = failure["pod"].as_str().unwrap().split_once('/').unwrap();
    let pod = cluster.get(&format!("/api/v1/namespaces/{namespace}/pods/{name}")).await;
    assert!(pod.is_null() || pod["status"]["phase"] == "Failed", "{pod}");
    cluster.down().await;
}

async fn pods_that_are_not_ready_again_fail_their_node(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(workloads()).fault("a-1", Fault::UnreadyPods).up().await;
    let run = cluster.sync(&repository(""), &[]).await.exits(5);
    let run = run.prints("4 pods are not Ready again: kube-system/").prints(", and 1 more");
    run.prints("meaning: the node runs the configuration, and pods that were Ready before are not")
        .prints("1 failed, 0 allowed (maxFailures)");
    cluster.down().await;
}

async fn unchanged_pods_are_counted_before_and_after(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(workloads()).up().await;
    let repository = repository("");
    let run = cluster.sync(&repository, &["-v"]).await.exits(0);
    run.prints("READY PODS").prints("4 → 4").prints("2 converged");
    // Nothing is left to change, so no pods are counted.
    cluster.sync(&repository, &["-v"]).await.exits(0).does_not_print("READY PODS");
    cluster.down().await;
}

async fn drained_node_is_checked_before_its_release(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(workloads()).up().await;
    let repository = Repository::of_pool(BEFORE, "{maxUnavailable: 1}");
    cluster.prepare_drain(&repository, "{maxUnavailable: 1, allowDisruption: drain, drain: {settle: 1s}}").await;
    cluster.fault("a-1", Some(Fault::UnreadyPods)).await;
    // The pods of the two DaemonSets stay.
    cluster.sync(&repository, &[]).await.exits(5).prints("2 pods are not Ready again: kube-system/");
    cluster.assert_no_marks().await;
    cluster.down().await;
}

async fn pool_may_skip_the_check_of_pods(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(workloads()).fault("a-1", Fault::UnreadyPods).up().await;
    cluster.sync(&repository(", checkPods: false"), &["-v"]).await.exits(0).does_not_print("READY PODS");
    cluster.down().await;
}

async fn account_that_may_not_list_pods_changes_nodes_without_the_check(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(workloads()).fault("a-1", Fault::UnreadyPods).up().await;
    cluster.sandbox().forbid("list", "pods");
    let run = cluster.sync(&repository(""), &["-v"]).await.exits(0);
    run.prints("the pods of changed nodes are not checked").prints("deploy/forecaster");
    cluster.down().await;
}

async fn failed_list_is_one_warning_and_no_failure(start: ClusterSetup) {
    let cluster = start.pool("a", 2).workloads(workloads()).fault("a-1", Fault::UnreadyPods).up().await;
    // The access review is refused, too, so the missing right is found by the first list.
    cluster.sandbox().forbid("create", "selfsubjectaccessreviews");
    cluster.sandbox().forbid("list", "pods");
    let run = cluster.sync(&repository(""), &[]).await.exits(0).prints("2 converged");
    assert_eq!(run.lines_with("are not checked, and perhaps those of others"), 1, "{run}");
    cluster.down().await;
}

async fn each_node_costs_two_lists_of_its_pods(start: ClusterSetup) {
    let node = NodeName::new("a-1").unwrap();
    let cluster = start.pool("a", 2).workloads(workloads().with_fault(&node, PodFault::Unmanaged)).up().await;
    let lists = || {
        let entries = cluster.sandbox().wire().log.entries();
        entries.iter().filter(|entry| entry.request.resource == "pods").count()
    };
    let repository = repository("");
    cluster.sync(&repository, &[]).await.exits(0);
    assert_eq!(lists(), 4);
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.run("verify", &repository, &[]).await.exits(0);
    assert_eq!(lists(), 4, "no node was changed");
    cluster.down().await;
}
