//! Tests of `doctor`.

use serde_json::json;

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, run, shows};
use crate::cli::repository::{Folder, gpu};

/// The output, after a check that no line is wider than a terminal.
fn narrow_output(run: &Run) -> String {
    let wide: Vec<&str> = run.out.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(wide.iter().all(|line| line.contains('/')), "{wide:#?}");
    let shown = run.shown();
    // The path differs between machines.
    shown.replace(&std::env::temp_dir().display().to_string(), "[temporary]")
}

#[test]
fn reports_healthy_cluster() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu", "spare"], 2, &[]);
    cluster.embedded().api().clear_denials();
    shows!("doctor-alone", narrow_output(&cluster.run(folder.path(), "doctor --no-repo")));
    shows!("doctor", narrow_output(&cluster.run(folder.path(), "doctor .")));
    assert_eq!(cluster.run(folder.path(), "sync --ask-kubelets none").exit, 0);
    let verbose = narrow_output(&cluster.run(folder.path(), "doctor . -v"));
    // The name of the folder differs between runs.
    let verbose: String =
        verbose.lines().filter(|line| !line.contains("kubeconfig")).map(|line| format!("{line}\n")).collect();
    assert!(verbose.contains("ok: nothing to do (plan)"), "{verbose}");
    let json = cluster.run(folder.path(), "doctor . -o json").out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["kind"], &json["exitCode"]), (&json!("Doctor"), &json!(0)));
}

#[test]
fn reports_unhealthy_cluster() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu", "spare"], 2, &["gpu-2=validate-error"]);
    cluster.embedded().api().clear_denials();
    assert_eq!(cluster.run(folder.path(), "sync --ask-kubelets none").exit, 5);
    cluster.embedded().api().deny_user("sandbox", "patch", "nodes");
    cluster.embedded().api().deny_user("sandbox", "create", "configmaps");
    let now = nodecfg_clock::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec =
        json!({"holderIdentity": "ci-7_1_0", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now});
    cluster.send(
        "PATCH",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/nodecfg-prod",
        "application/merge-patch+json",
        &json!({"spec": spec}),
    );
    let ill = cluster.run(folder.path(), "doctor .");
    assert_eq!(ill.exit, 4);
    shows!("doctor-ill", narrow_output(&ill));
    // The name of the folder differs between runs.
    let markdown = cluster.run(folder.path(), "doctor . -o markdown").shown();
    let markdown: String =
        markdown.lines().filter(|line| !line.contains("kubeconfig")).map(|line| format!("{line}\n")).collect();
    shows!("doctor-ill-markdown", markdown);
}

#[test]
fn reports_missing_cluster_and_repository() {
    let folder = Folder::with(&[("pools/gpu/kubelet.yaml", "kind: Nothing\n")]);
    let mut shown = String::new();
    for (line, exit) in [
        ("doctor --kubeconfig nowhere --no-repo", 4),
        ("doctor nowhere --kubeconfig nowhere", 3),
        ("doctor . --worktree --kubeconfig nowhere", 3),
        ("doctor --no-repo --worktree", 2),
        ("doctor -o sarif", 2),
    ] {
        let run = run(folder.path(), line);
        assert_eq!(run.exit, exit, "{}", run.shown());
        shown.push_str(&narrow_output(&run));
        shown.push('\n');
    }
    shows!("doctor-nowhere", shown);
}
