//! Tests of runs that are limited to some nodes, and of lists for other programs.

use crate::cli::cluster::Cluster;
use crate::cli::repository::{Folder, gpu_and_general};

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or_default()
}

fn fresh() -> (Cluster, Folder) {
    (Cluster::start(&["gpu", "general"], 2, &[]), gpu_and_general())
}

/// A cluster in which one node of each pool has the label `zone=a`.
fn with_zone() -> (Cluster, Folder) {
    let (cluster, folder) = fresh();
    for node in ["gpu-2", "general-1"] {
        let patch = serde_json::json!({"metadata": {"labels": {"zone": "a"}}});
        cluster.send("PATCH", &format!("/api/v1/nodes/{node}"), "application/merge-patch+json", &patch);
    }
    (cluster, folder)
}

#[test]
fn pool_limits_diff_sync_and_verify() {
    let (cluster, folder) = fresh();
    let diff = cluster.run(folder.path(), "diff --pool gpu");
    assert_eq!(diff.exit, 1, "{}", diff.shown());
    assert!(last_line(&diff.out).contains("2 nodes to assign, 2 not requested ("), "{}", diff.shown());
    let counts = cluster.run(folder.path(), "diff --pool gpu -o json").out;
    let counts: serde_json::Value = serde_json::from_str(&counts).unwrap();
    assert_eq!(counts["cluster"]["counts"]["notRequested"], 2);

    let sync = cluster.run(folder.path(), "sync --pool gpu");
    assert_eq!(sync.exit, 0, "{}", sync.shown());
    assert!(
        last_line(&sync.out).ends_with(". 4 nodes: 2 converged, 2 on trial (up to 10m left), 2 not requested."),
        "{}",
        sync.shown()
    );
    let again = cluster.run(folder.path(), "diff --pool gpu");
    assert!(again.exit == 0 && last_line(&again.out).starts_with("No changes: "), "{}", again.shown());

    let verify = cluster.run(folder.path(), "verify --pool gpu");
    assert!(verify.exit == 0 && verify.out.contains("general: 2 nodes, not requested\n"), "{}", verify.shown());
    assert!(
        last_line(&verify.out).ends_with(". 4 nodes: 2 already up to date, 2 on trial, 2 not requested."),
        "{}",
        verify.shown()
    );
    assert_eq!(cluster.run(folder.path(), "verify --timeout 1 -q").exit, 5, "the other pool has not converged");
    let whole = cluster.run(folder.path(), "diff");
    assert!(last_line(&whole.out).contains("2 nodes to assign, 2 nodes up to date ("), "{}", whole.shown());
}

#[test]
fn selector_limits_run_to_matching_nodes() {
    let (cluster, folder) = with_zone();
    let one = cluster.run(folder.path(), "sync -l zone=a --pool gpu");
    assert!(
        last_line(&one.out).ends_with(". 4 nodes: 1 converged, 1 on trial (up to 10m left), 3 not requested."),
        "{}",
        one.shown()
    );
    let both = cluster.run(folder.path(), "sync -l zone=a");
    assert!(
        last_line(&both.out).contains("4 nodes: 1 converged, 1 already up to date, 2 on trial, 2 not requested"),
        "{}",
        both.shown()
    );
    let left = cluster.run(folder.path(), "diff");
    // The rest of the pool waits for the soak of its canary.
    let counts = "2 nodes to assign, 1 node assigned earlier, 1 node up to date (";
    assert!(last_line(&left.out).contains(counts), "{}", left.shown());
}

#[test]
fn selector_limits_status() {
    let (cluster, folder) = with_zone();
    // Labels that no pool selects by are read, too, with and without a repository.
    for (arguments, nodes) in [
        ("status -l zone=a -o name", "node/general-1\nnode/gpu-2\n"),
        ("status -l zone=a --no-repo -o name", "node/general-1\nnode/gpu-2\n"),
        ("status --selector !zone --pool gpu -o name", "node/gpu-1\n"),
        ("status -l zone --pool gpu --node general-1 --node general-2 -o name", "node/general-1\nnode/gpu-2\n"),
    ] {
        let run = cluster.run(folder.path(), arguments);
        assert_eq!((run.exit, run.out.as_str()), (0, nodes), "{}", run.shown());
    }
    let text = cluster.run(folder.path(), "status -l zone=a --pool gpu");
    assert_eq!(last_line(&text.out), "Not converged: 1 of 1 node: 1 behind.", "{}", text.shown());
    let json = cluster.run(folder.path(), "status -l zone=a -o json").out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["nodes"].as_array().unwrap().len(), &json["states"]["behind"]), (2, &2.into()), "{json}");
    for (arguments, words) in [
        ("status -l zone=b", "no node matches zone=b"),
        ("status -l zone=a --node gpu-1", "no node of --pool or --node matches zone=a"),
        ("status -l =a", "invalid value '=a'"),
    ] {
        let run = cluster.run(folder.path(), arguments);
        assert!(run.exit == 2 && run.err.contains(words), "{}", run.shown());
    }
}

#[test]
fn limited_run_refuses_what_needs_all_nodes() {
    let (cluster, folder) = fresh();
    for (line, words) in [
        ("diff --pool gp", "did you mean gpu?"),
        ("sync -l zone=b", "no node matches zone=b"),
        (
            "verify --pool gpu -l nodecfg.dev/pool=general",
            "no node in the pools of --pool matches nodecfg.dev/pool=general",
        ),
        ("diff --pool gpu --out plan.json", "cannot be used with '--out <FILE>'"),
        ("sync -l zone=a --plan plan.json", "cannot be used with"),
        ("sync --pool gpu --metrics-textfile sync.prom", "cannot be used with '--metrics-textfile <FILE>'"),
        ("diff --against HEAD --pool gpu", "name the cluster with --kubeconfig or --context"),
    ] {
        let run = cluster.run(folder.path(), line);
        assert!(run.exit == 2 && run.err.contains(words), "{}", run.shown());
    }
    assert_eq!(cluster.run(folder.path(), "diff -q").exit, 1, "nothing was written");
}

#[test]
fn lists_fit_other_programs() {
    let (cluster, folder) = fresh();
    assert_eq!(cluster.run(folder.path(), "sync --pool gpu -q").exit, 0);
    let names = cluster.run(folder.path(), "status --pool gpu -o name");
    assert_eq!((names.exit, names.out.as_str()), (0, "node/gpu-1\nnode/gpu-2\n"), "{}", names.shown());
    let wide = cluster.run(folder.path(), "status --no-repo -o wide");
    let header: Vec<&str> =
        wide.out.lines().next().unwrap().split("  ").map(str::trim).filter(|t| !t.is_empty()).collect();
    let all = ["NODE", "POOL", "STATE", "SINCE", "READY", "KUBELET", "WANTED", "ASSIGNED", "ACTIVE", "LAST KNOWN GOOD"];
    assert_eq!(header, all, "{}", wide.shown());
    assert_eq!(wide.out.lines().count(), 5, "a line per node: {}", wide.shown());

    let config_maps = cluster.run(folder.path(), "history gpu -o name").out;
    let name = config_maps.trim().strip_prefix("configmap/").expect("one ConfigMap");
    assert!(wide.out.contains(name), "{config_maps}");
    let history = cluster.run(folder.path(), "history gpu -o wide");
    let lines: Vec<&str> = history.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", history.shown());
    assert!(lines[0].starts_with("REVISION") && lines[1].contains(name), "{}", history.shown());
    assert!(lines[1].contains("2 pointed at it"), "{}", history.shown());
    assert_eq!(cluster.run(folder.path(), "history general -o name").out, "", "its ConfigMap does not exist");
    for line in ["status --watch -o name", "diff -o wide", "status --report wide=FILE"] {
        let run = cluster.run(folder.path(), line);
        assert_eq!(run.exit, 2, "{}", run.shown());
    }
}
