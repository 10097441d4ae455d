//! Scenarios of `status`: with and without a repository, once and with --watch.

use std::process::{Command, Stdio};

use nodecfg_sandbox::kubelets::Fault;
use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, KUBELET, Repository, Run, Running, until};

scenarios! {
    Anything {
        compares_nodes_with_repository,
        change_by_another_client_is_drift,
        shows_pause_and_rollout,
        refuses_unknown_names,
        watch_shows_changes_until_ctrl_c,
        watch_follows_labels,
        watch_ends_with_its_reader,
        watch_follows_the_repository,
        uses_the_repository_of_the_folder,
    }
    Sandbox {
        unreadable_objects_are_unknown,
        status_sends_few_requests,
    }
}

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}")
}

fn start(cluster: &Cluster, more: &[&str]) -> Running {
    let kubeconfig = cluster.kubeconfig();
    let arguments = [&["status", "--kubeconfig", kubeconfig.to_str().unwrap()], more].concat();
    Running::start(cluster.home(), &arguments)
}

async fn status(cluster: &Cluster, more: &[&str]) -> Run {
    start(cluster, more).end().await
}

fn node<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["nodes"].as_array().unwrap().iter().find(|node| node["node"] == name).unwrap()
}

async fn compares_nodes_with_repository(start: ClusterSetup) {
    let cluster = start.pool("a", 2).node("other", &[]).fault("a-2", Fault::ValidateError).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(5);
    let run = cluster.run("status", &repository, &[]).await.exits(0);
    run.prints("1 failed, 1 ")
        .prints("1 in no pool")
        .prints("meaning: the kubelet of this node refuses a value of the configuration");
    repository.change("a", "maxPods: 120");
    let run = cluster.run("status", &repository, &["-o", "json"]).await.exits(0);
    let document = run.json();
    assert_eq!(node(&document, "a-1")["state"], "behind", "{run}");
    assert_eq!(node(&document, "a-2")["state"], "failed", "{run}");
    assert_eq!(node(&document, "other")["state"], "unpooled", "{run}");
    assert_eq!(node(&document, "a-1")["verdict"]["reason"]["kind"], "notAssigned", "{run}");
    assert!(node(&document, "a-1")["desired"]["source"]["configMap"]["name"].is_string(), "{run}");
    cluster.run("status", &repository, &["--rev", "HEAD~1"]).await.exits(0).prints("1 failed, 1 ");
    cluster.run("status", &repository, &["-o", "markdown"]).await.exits(0).prints("| `a` | 2 | 0% |");
    cluster.down().await;
}

async fn change_by_another_client_is_drift(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.create_config_map("by-hand", &format!("{KUBELET}maxPods: 50\n"), true, None).await;
    cluster.assign_by_hand("a-2", "by-hand").await;
    cluster.until_node("a-2", "runs what was made by hand", |state| state.active.as_deref() == Some("by-hand")).await;
    let run = cluster.run("status", &repository, &[]).await.exits(0);
    run.prints("1 drifted, 1 ").prints("by-hand, which nodecfg does not manage");
    let document = cluster.run("status", &repository, &["-o", "json"]).await.exits(0).json();
    assert_eq!(node(&document, "a-2")["drift"]["kind"], "elsewhere");
    cluster.down().await;
}

/// Sets a lock holder and a paused pool in the fleet's Lease.
async fn order(cluster: &Cluster) {
    let pauses = json!({"a": {"by": "ada", "at": "2026-01-02T03:04:05Z", "reason": "disks are full"}}).to_string();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", cluster.namespace());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "nodecfg-test", "annotations": {"nodecfg.dev/pauses": pauses}},
        "spec": {"holderIdentity": "ci-7_1_ab", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now},
    });
    let path = format!("{leases}/nodecfg-test");
    if cluster.get(&path).await.is_null() {
        cluster.create(&leases, lease).await;
    } else {
        cluster.patch(&path, lease).await;
    }
}

async fn shows_pause_and_rollout(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    order(&cluster).await;
    for run in [status(&cluster, &[]).await, cluster.run("status", &repository, &[]).await] {
        let run = run.exits(0).prints("rollout: of test, by ci-7_1_ab since");
        run.prints("paused: a by ada since 2026-01-02T03:04:05Z: disks are full");
    }
    repository.change("a", "maxPods: 120");
    let run = cluster.run("status", &repository, &["-o", "json"]).await.exits(0);
    let document = run.json();
    assert_eq!(node(&document, "a-1")["state"], "paused", "{run}");
    assert_eq!(document["pools"][0]["paused"]["order"]["by"], "ada", "{run}");
    assert_eq!(document["fleets"][0]["rollout"]["holder"], "ci-7_1_ab", "{run}");
    cluster.down().await;
}

async fn refuses_unknown_names(start: ClusterSetup) {
    let cluster = start.pool("alpha", 2).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.pool("alpha", "maxPods: 110");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);
    status(&cluster, &["--pool", "alhpa"])
        .await
        .exits(2)
        .prints("there is no pool alhpa")
        .prints("did you mean alpha?");
    status(&cluster, &["--node", "alpha-3"]).await.exits(2).prints("there is no node alpha-3");
    status(&cluster, &["--watch", "-o", "yaml"]).await.exits(2);
    status(&cluster, &["--worktree"]).await.exits(2);
    let document = status(&cluster, &["--node", "alpha-2", "-o", "json"]).await.exits(0).json();
    assert_eq!((document["nodes"].as_array().unwrap().len(), &document["pools"][0]["nodes"]), (1, &json!(2)));
    cluster.down().await;
}

async fn watch_shows_changes_until_ctrl_c(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    let mut lines = cluster.start_run("status", &repository, &["--watch"]);
    let mut json = self::start(&cluster, &["--watch", "-o", "json"]);
    lines.until_stdout_contains("Not converged: 2 of 2 nodes: 2 behind.").await;
    json.until_stdout_contains("\"event\":\"status\"").await;
    cluster.sync(&repository, &[]).await.exits(0);
    // Changes between two polls are reported as one: a fast node was `behind` immediately before. The next change
    // begins only after both polls have shown the end of this one.
    for node in ["Z a-1 (a): ", "Z a-2 (a): "] {
        lines.until_stdout_line_contains(&[node, " → converged"]).await;
    }
    cluster.fault("a-1", Some(Fault::Deaf)).await;
    lines.until_stdout_contains("a-1 (a): converged → not Ready").await;
    json.until_stdout_contains("\"notReady\"").await;
    lines.interrupt();
    json.interrupt();
    lines.end().await.exits(0);
    let run = json.end().await.exits(0);
    for line in run.json_lines() {
        assert_eq!(line["formatVersion"], 1, "{line}");
        line["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let wanted = if line["event"] == "status" { "Status" } else { "StatusChange" };
        assert_eq!(line["kind"], wanted, "{line}");
    }
    cluster.down().await;
}

async fn watch_follows_the_repository(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let mut lines = cluster.start_run("status", &repository, &["--watch"]);
    let mut json = cluster.start_run("status", &repository, &["--watch", "-o", "json"]);
    lines.until_stdout_contains("Converged: 1 node").await;
    json.until_stdout_contains("\"event\":\"status\"").await;
    let second = repository.change("a", "maxPods: 120");
    lines.until_stdout_line_contains(&["Z compared with fleet test at commit ", &second[..10]]).await;
    lines.until_stdout_line_contains(&["Z a-1 (a): ", " → behind"]).await;
    json.until_stdout_line_contains(&["\"event\":\"compared\"", second.as_str()]).await;
    // An invalid revision does not end the watch, and is reported once.
    repository.change("a", "maxPods: many");
    lines.until_stderr_contains("warning: its last valid revision stays: ").await;
    // Nodes that a sync assigned just now are not behind.
    let last = repository.change("a", "maxPods: 130");
    lines.until_stdout_line_contains(&["Z compared with fleet test at commit ", &last[..10]]).await;
    cluster.sync(&repository, &[]).await.exits(0);
    lines.until_stdout_line_contains(&["Z a-1 (a): ", " → on trial"]).await;
    lines.interrupt();
    json.interrupt();
    let run = lines.end().await.exits(0);
    assert_eq!(run.err.matches("last valid revision").count(), 1, "{run}");
    for line in json.end().await.exits(0).json_lines() {
        assert_eq!(line["kind"], if line["event"] == "status" { "Status" } else { "StatusChange" }, "{line}");
    }
    cluster.down().await;
}

async fn watch_follows_labels(start: ClusterSetup) {
    let cluster = start.node("n-1", &[("zone", "a")]).node("n-2", &[("zone", "b")]).up().await;
    let mut json = self::start(&cluster, &["--watch", "-o", "json", "-l", "zone=a"]);
    json.until_stdout_contains("\"event\":\"status\"").await;
    let moved = json!({"metadata": {"labels": {"zone": "a"}}});
    cluster.patch("/api/v1/nodes/n-2", moved).await;
    json.until_stdout_line_contains(&["\"kind\":\"StatusChange\"", "n-2"]).await;
    json.interrupt();
    let run = json.end().await.exits(0);
    let first = run.json_lines().remove(0);
    let nodes: Vec<&Value> = first["nodes"].as_array().unwrap().iter().map(|node| &node["node"]).collect();
    assert_eq!(nodes, ["n-1"], "{run}");
    cluster.down().await;
}

/// Runs `status` in the folder of a repository.
async fn status_in(cluster: &Cluster, folder: &std::path::Path, more: &[&str]) -> Run {
    let kubeconfig = cluster.kubeconfig();
    let arguments = [&["status", "--kubeconfig", kubeconfig.to_str().unwrap()], more].concat();
    Running::start(folder, &arguments).end().await
}

async fn uses_the_repository_of_the_folder(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "maxPods: 120");
    let folder = repository.path();
    status_in(&cluster, folder, &[]).await.exits(0).prints("1 behind").prints("fleet test at commit");
    status_in(&cluster, folder, &["--rev", "HEAD~1"]).await.exits(0).prints("Converged: 1 node");
    status_in(&cluster, folder, &["--no-repo"]).await.exits(0).prints("Converged: 1 node");
    repository.change("a", "maxPods: many");
    let run = status_in(&cluster, folder, &[]).await.exits(0).prints("Converged: 1 node");
    run.prints("warning: the repository in this folder is invalid (1 error)").prints("`nodecfg validate` lists");
    status_in(&cluster, folder, &["."]).await.exits(3);
    cluster.down().await;
}

async fn watch_ends_with_its_reader(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_nodecfg"))
        .args(["status", "--watch", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .env("HOME", cluster.home())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut ended = None;
    until("the watch ends", async || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    })
    .await;
    assert_eq!(ended.unwrap().code(), Some(0));
    cluster.down().await;
}

async fn unreadable_objects_are_unknown(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.sandbox().forbid("get", "leases");
    status(&cluster, &[]).await.exits(0).prints("rollout and pauses unknown").prints("Converged: 1 node");
    cluster.down().await;
}

async fn status_sends_few_requests(start: ClusterSetup) {
    let cluster = start.pool("a", 300).large().up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.pool("a", "maxPods: 110");
    repository.commit();
    let log = &cluster.sandbox().wire().log;
    let counts = || {
        ["nodes", "nodeconfigs", "configmaps", "leases"]
            .map(|resource| (log.count("list", resource), log.count("watch", resource), log.count("get", resource)))
    };
    let run = cluster.run("status", &repository, &[]).await.exits(0);
    assert!(run.out.lines().count() < 20 && run.out.contains("\n300 nodes  a "), "{run}");
    let [nodes, node_configs, maps, leases] = counts();
    // One to find out the binding, then a stream or pages of 250, and one Lease.
    let streams = cluster.streams_lists();
    assert_eq!((nodes, leases), (if streams { (1, 1, 0) } else { (3, 0, 0) }, (0, 0, 1)));
    assert_eq!(node_configs, if streams { (1, 1, 0) } else { (0, 0, 0) });
    assert!(maps.0 == 1 && maps.1 == 0 && maps.2 <= 1, "{maps:?}");
    cluster.down().await;
}
