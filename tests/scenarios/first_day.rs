//! Scenarios of adoption: capture of running configurations, an initial repository without changes, and the first
//! pool.

use std::fs;
use std::path::{Path, PathBuf};

use nodecfg_sandbox::kubelets::Fault;
use serde_json::json;

use crate::harness::{Cluster, ClusterSetup, KUBELET, Repository, Run, Running};

scenarios! {
    Sandbox {
        capture_writes_running_configurations,
        capture_writes_pool_and_replaces_no_file,
        initial_repository_changes_nothing,
        initial_repository_keeps_managed_pool,
        initial_repository_pauses_pool_with_differing_nodes,
        pool_is_taken_over_by_removing_a_line,
        refusals_name_the_refusing_component,
        init_works_without_permission_for_configz,
    }
    Kubelets {
        initial_repository_copies_existing_config_maps,
    }
    Dropping {
        init_works_before_installation,
    }
}

/// Runs a command without a cluster.
async fn offline(cluster: &Cluster, arguments: &[&str]) -> Run {
    Running::start(cluster.home(), arguments).end().await
}

/// Creates an initial repository and diffs it.
async fn started(cluster: &Cluster, more: &[&str]) -> PathBuf {
    let folder = cluster.home().join("started");
    let started = [&["init", folder.to_str().unwrap()], more].concat();
    let before = cluster.written().await;
    cluster.command(&started).await.exits(0).prints("Wrote");
    cluster.command(&["diff", folder.to_str().unwrap()]).await.exits(0).prints("No changes:");
    assert_eq!(cluster.written().await, before);
    folder
}

fn read(folder: &Path, path: &str) -> String {
    fs::read_to_string(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

async fn capture_writes_running_configurations(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 1).up().await;
    let repository = Repository::of_pool(
        "maxPods: 77\nevictionHard: {}",
        "{maxUnavailable: 100%, allowDisruption: drain, drain: {settle: 0s}}",
    );
    cluster.sync(&repository, &[]).await.exits(0);
    let one = cluster.command(&["capture", "a-1", "--drop-defaults"]).await.exits(0);
    assert_eq!(
        one.out,
        format!("# What a-1 runs.\n{}", KUBELET.replace("kind", "evictionHard: {}\nkind") + "maxPods: 77\n")
    );
    let whole = cluster.command(&["capture", "a-1"]).await.exits(0);
    let file = cluster.home().join("captured.yaml");
    fs::write(&file, &whole.out).unwrap();
    assert!(whole.out.contains("maxPods: 77\n") && whole.out.lines().count() > 60, "{whole}");
    offline(&cluster, &["validate", file.to_str().unwrap()]).await.exits(0);
    let all = cluster.command(&["capture", "b-1", "a-1", "a-2", "a-3", "--drop-defaults"]).await.exits(0);
    all.prints("maxPods differs:").prints("77 on a-1, a-2, a-3 (taken)").prints("unset on b-1");
    let json = cluster.command(&["capture", "--pool", "a", "--at-most", "2", "-o", "json"]).await.exits(0).json();
    assert_eq!((&json["nodes"], &json["of"]), (&json!(["a-1", "a-2"]), &json!(3)));
    assert_eq!((&json["configuration"]["maxPods"], &json["differences"]), (&json!(77), &json!([])));
    cluster.command(&["capture", "-l", "nodecfg.dev/pool in (a)"]).await.exits(0).prints("of 3 nodes");
    cluster.command(&["capture", "--pool", "aa"]).await.exits(2).prints("did you mean a?");
    cluster.command(&["capture", "a-11"]).await.exits(2).prints("node a-11 does not exist").prints("did you mean a-1?");
    cluster.down().await;
}

async fn capture_writes_pool_and_replaces_no_file(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 2).up().await;
    let folder = cluster.home().join("repository");
    let text = folder.to_str().unwrap();
    let write = ["capture", "--pool", "a", "--drop-defaults", "--write", text];
    cluster.command(&write).await.exits(0).prints("pools/a/kubelet.yaml");
    assert!(read(&folder, "pools/a/pool.yaml").contains("paused: true"));
    cluster.command(&["diff", text]).await.exits(0);
    fs::write(folder.join("pools/a/kubelet.yaml"), "mine").unwrap();
    cluster.command(&write).await.exits(2).prints("already exists");
    assert_eq!(read(&folder, "pools/a/kubelet.yaml"), "mine");
    cluster.command(&[&write[..], &["--force"]].concat()).await.exits(0);
    assert!(read(&folder, "pools/a/kubelet.yaml").contains("cgroupDriver: systemd"));
    cluster.command(&["init", text]).await.exits(2).prints("init replaces nothing");
    cluster.down().await;
}

async fn initial_repository_changes_nothing(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 3).node("lonely", &[]).up().await;
    let folder = started(&cluster, &[]).await;
    assert!(read(&folder, "pools/a/pool.yaml").contains("local: true"));
    let captured = if cluster.has_agents() { "own.yaml" } else { "kubelet.yaml" };
    assert!(read(&folder, &format!("pools/a/{captured}")).contains("clusterDomain: cluster.local"));
    assert!(read(&folder, "pools/others/pool.yaml").contains("operator: DoesNotExist"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 4, "nodecfg.yaml, pools, README.md and the schemas");
    offline(&cluster, &["validate", folder.to_str().unwrap()]).await.exits(0);
    cluster.down().await;
}

async fn initial_repository_keeps_managed_pool(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository =
        Repository::of_pool("maxPods: 77", "{maxUnavailable: 100%, allowDisruption: drain, drain: {settle: 0s}}");
    cluster.sync(&repository, &[]).await.exits(0);
    let folder = started(&cluster, &[]).await;
    assert!(read(&folder, "nodecfg.yaml").contains("name: test"));
    assert!(read(&folder, "pools/a/kubelet.yaml").contains("maxPods: 77"));
    cluster.down().await;
}

async fn initial_repository_pauses_pool_with_differing_nodes(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    cluster.create_config_map("mine", &format!("{KUBELET}maxPods: 9\n"), false, None).await;
    for node in ["a-1", "a-2"] {
        cluster.assign_by_hand(node, "mine").await;
        cluster.until_node(node, "runs the ConfigMap", |state| state.converged()).await;
    }
    let folder = started(&cluster, &[]).await;
    let pool = read(&folder, "pools/a/pool.yaml");
    assert!(pool.contains("paused: true") && pool.contains("1 node on their local\n    #   configuration"), "{pool}");
    assert!(read(&folder, "pools/a/kubelet.yaml").contains("maxPods: 9"));
    cluster.down().await;
}

async fn initial_repository_copies_existing_config_maps(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let text = format!("# by hand\n{KUBELET}maxPods: 9   # few\nauthentication: {{x509: {{clientCAFile: /ca}}}}\n");
    cluster.create_config_map("mine", &text, false, None).await;
    for node in ["a-1", "a-2"] {
        cluster.assign_by_hand(node, "mine").await;
        cluster.until_node(node, "runs the ConfigMap", |state| state.converged()).await;
    }
    let folder = started(&cluster, &[]).await;
    assert!(read(&folder, "pools/a/kubelet.yaml").ends_with(&text));
    assert!(!read(&folder, "pools/a/pool.yaml").contains("local"));
    assert!(read(&folder, "pools/b/pool.yaml").contains("local: true"));
    cluster.down().await;
}

async fn pool_is_taken_over_by_removing_a_line(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 2).up().await;
    let folder = started(&cluster, &[]).await;
    let pool = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: a}\nspec: {rollout: {canary: {nodes: 1, soak: 0s}}}\n";
    fs::write(folder.join("pools/a/pool.yaml"), pool).unwrap();
    cluster.command(&["diff", folder.to_str().unwrap()]).await.exits(1).prints("2 nodes to assign");
    cluster.command(&["sync", folder.to_str().unwrap()]).await.exits(0).prints("2 converged");
    let now = cluster.command(&["capture", "a-1", "--drop-defaults"]).await.exits(0);
    // The nodes run what they ran before: with agents, the overlay names no field yet.
    let captured = if cluster.has_agents() { "own.yaml" } else { "kubelet.yaml" };
    assert!(read(&folder, &format!("pools/a/{captured}")).ends_with(now.out.split_once('\n').unwrap().1), "{now}");
    cluster.down().await;
}

async fn refusals_name_the_refusing_component(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 3).up().await;
    cluster.fault("a-2", Some(Fault::RefusesConfigz)).await;
    let some = cluster.command(&["capture", "a-1", "a-2"]).await.exits(4).prints("the kubelet refuses the API server");
    assert!(some.out.contains("cgroupDriver: systemd"), "{some}");
    let json = cluster.command(&["capture", "a-1", "a-2", "-o", "json"]).await.exits(4).json();
    assert_eq!(json["failed"][0]["code"], "kubelet-refuses");
    cluster.sandbox().forbid("get", "nodes/proxy");
    let none = cluster.command(&["capture", "a-1", "a-3"]).await.exits(4);
    assert_eq!(none.out, "");
    none.prints("may not get nodes/proxy in the cluster").prints("nodecfg-capture");
    cluster.down().await;
}

async fn init_works_without_permission_for_configz(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).up().await;
    cluster.sandbox().forbid("get", "nodes/proxy");
    let folder = cluster.home().join("started");
    let run_ = cluster.command(&["init", folder.to_str().unwrap()]).await.exits(0);
    assert_eq!(run_.lines_with("may not get nodes/proxy"), 1, "{run_}");
    let captured = if cluster.has_agents() { "own.yaml" } else { "kubelet.yaml" };
    assert!(!folder.join("pools/a").join(captured).exists() && folder.join("pools/a/pool.yaml").exists());
    cluster.command(&["diff", folder.to_str().unwrap()]).await.exits(0);
    cluster.down().await;
}

async fn init_works_before_installation(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 2).up().await;
    let folder = cluster.home().join("started");
    cluster.command(&["init", folder.to_str().unwrap()]).await.exits(0).prints("nodecfg install");
    // A real API server does not reach the simulated kubelets.
    if cluster.is_sandbox() {
        assert!(read(&folder, "pools/a/own.yaml").contains("cgroupDriver: systemd"));
    }
    cluster.down().await;
}
