//! Tests of errors before the first write: report, exit code and help.

use serde_json::json;

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, run, shows};
use crate::cli::repository::{Folder, gpu};

#[test]
fn reports_wrong_usage() {
    let folder = gpu();
    let mut shown = String::new();
    for line in [
        "--bogus",
        "snyc",
        "plan",
        "-o json apply",
        "--context prod rollout status",
        "--context prod explain maxPods",
        "sandbox -n kube-system",
        "sync --rev",
        "diff --rev main --worktree",
        "sync --request-timeout 5x",
        "sync --dry-run=server",
        "reset --dry-run=true --all",
        "-q sync -v",
        "diff -v=high",
        "sync --fault gpu-1=crash",
        "sync --sandbox --fault gpu-1=blah",
        "sync --sandbox --fault nonode=crash",
        "sync --sandbox --sandbox-speed 0",
        "sync --sandbox -o yaml",
        "sync -n Bad_Name",
        "sandbox --pools Bad_Name",
        "schema pod",
        "status -o sarif",
        "diff -o html",
        "-o jsonpath={.nodes} status",
        "verify -o yaml",
        "schema fleet -o markdown",
        "validate --kubernetes-version 1.99",
        "validate --kubernetes-version latest",
        "validate --rev main nodecfg.yaml",
        "validate --files-from nowhere",
        "sync -o json --bogus",
        "agent --kubeconfig /etc/kubernetes/kubelet.conf --listen 9348",
        "agent host-step --socket /run/nodecfg/step.sock",
    ] {
        let run = run(folder.path(), line);
        assert_eq!(run.exit, 2, "{}", run.shown());
        shown.push_str(&run.shown());
        shown.push('\n');
    }
    shows!("wrong-usage", shown);
}

#[test]
fn reports_unreadable_repositories() {
    let folder = gpu();
    folder.write("notes.txt", "");
    let mut shown = String::new();
    for line in ["validate nowhere", "validate notes.txt", "validate --rev v9", "diff pools/nowhere -o json"] {
        let run = run(folder.path(), line);
        assert_eq!(run.exit, 3, "{}", run.shown());
        shown.push_str(&run.shown());
        shown.push('\n');
    }
    shows!(
        "unreadable-repository",
        shown.replace(&folder.path().canonicalize().unwrap().display().to_string(), "[folder]")
    );
}

#[test]
fn reports_unusable_kubeconfigs() {
    let folder = gpu();
    folder.write("broken.yaml", "apiVersion: v1\nkind: Config\nclusters: [\n");
    // CI writes an empty file from a missing secret.
    folder.write("empty.yaml", "\n");
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let good = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let server =
        good.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap().trim_matches('"').to_owned();
    folder.write("unreachable.yaml", &good.replace(&server, "https://127.0.0.1:1"));
    let token = good.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    folder.write("expired.yaml", &good.replace(token, "\"expired\""));
    let mut shown = String::new();
    for line in [
        "diff --worktree",
        "status -o json",
        "status --kubeconfig nowhere.yaml",
        "status --kubeconfig broken.yaml",
        "status --kubeconfig empty.yaml",
        "sync -o json --kubeconfig empty.yaml",
        "status --kubeconfig unreachable.yaml --request-timeout 1s",
        "status --kubeconfig expired.yaml",
        "status --kubeconfig expired.yaml --context other",
    ] {
        let run = run(folder.path(), line);
        assert_eq!(run.exit, 4, "{}", run.shown());
        shown.push_str(&run.shown());
        shown.push('\n');
    }
    let home = folder.path().join("no-home").display().to_string();
    shows!("no-cluster", shown.replace(&home, "[home]"));
}

#[test]
fn reports_forbidden_requests() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let mut shown = String::new();
    let mut show = |run: Run, exit| {
        assert_eq!(run.exit, exit, "{}", run.shown());
        shown.push_str(&run.shown());
        shown.push('\n');
    };
    show(cluster.run(folder.path(), "sync -n nowhere"), 4);
    cluster.embedded().api().deny("create", "configmaps");
    show(cluster.run(folder.path(), "sync"), 4);
    cluster.restrict();
    cluster.embedded().api().deny("patch", "nodes");
    show(cluster.run(folder.path(), "sync"), 4);
    cluster.restrict();
    cluster.embedded().api().deny("list", "nodes");
    show(cluster.run(folder.path(), "diff -o json"), 4);
    cluster.restrict();
    shows!("refused", shown);
}

#[test]
fn reports_config_map_with_other_content() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let plan: serde_json::Value = serde_json::from_str(&cluster.run(folder.path(), "diff -o json").out).unwrap();
    let name = plan["pools"][0]["configMap"]["after"].as_str().unwrap();
    let object = json!({"metadata": {"name": name}, "data": {"kubelet": "maxPods: 1\n"}});
    cluster.create("/api/v1", "configmaps", &object);
    let run = cluster.run(folder.path(), "sync");
    assert_eq!(run.exit, 4, "{}", run.shown());
    shows!("foreign-config-map", run.shown());
}

#[test]
fn reports_held_lock() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let now = nodecfg_clock::now();
    let lease = json!({
        "metadata": {"name": "nodecfg-prod"},
        "spec": {
            "holderIdentity": "ci-7_12_00000000000000aa", "leaseDurationSeconds": 3600,
            "acquireTime": format!("{now:.6}"), "renewTime": format!("{now:.6}"), "leaseTransitions": 0,
        },
    });
    cluster.create("/apis/coordination.k8s.io/v1", "leases", &lease);
    shows!("locked", cluster.run(folder.path(), "sync").shown());
    let json = cluster.run(folder.path(), "sync -o json");
    assert_eq!(json.exit, 6);
    let last = json.json_lines().pop().unwrap();
    assert_eq!((last["kind"].as_str(), last["errors"][0]["code"].as_str()), (Some("Error"), Some("locked")));
}

#[test]
fn reports_pool_without_nodes() {
    let cluster = Cluster::start(&["cpu"], 1, &[]);
    let mut shown = cluster.run(gpu().path(), "sync").shown();
    let empty = Folder::committed(&[("README.md", "Nothing yet.\n")]);
    shown.push_str(&cluster.run(empty.path(), "sync").shown());
    shows!("nothing-selected", shown);
}
