//! Tests of `diff` against a cluster.

use crate::cli::cluster::{Cluster, specs};
use crate::cli::program::shows;
use crate::cli::repository::{KUBELET, POOL, gpu, gpu_and_general};

#[test]
fn prints_fresh_cluster_in_every_format() {
    let folder = gpu_and_general();
    let cluster = Cluster::start(&["gpu", "general"], 3, &[]);
    shows!("diff-fresh", cluster.run(folder.path(), "diff").shown());
    shows!("diff-fresh-markdown", cluster.run(folder.path(), "diff -o markdown").shown());
    shows!("diff-fresh-json", cluster.run(folder.path(), "diff -o json").shown());
    let yaml = cluster.run(folder.path(), "diff -o yaml");
    assert!(yaml.out.starts_with("formatVersion: 1\nkind: Diff\n"), "{}", yaml.out);

    let all = cluster.run(folder.path(), "diff -v");
    assert!(all.out.contains("staticPodURLHeader.X-Registry-17"), "{}", all.out);
}

#[test]
fn prints_no_change_and_change_of_two_fields() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 3, &[]);
    assert_eq!(cluster.run(folder.path(), "sync").exit, 0);
    shows!("diff-nothing", cluster.run(folder.path(), "diff").shown());
    shows!("diff-nothing-markdown", cluster.run(folder.path(), "diff -o markdown").shown());

    // Comments, quotes and order do not count as changes.
    let formatted = format!("# A comment.\n{}", KUBELET.replace("maxPods: 32", "maxPods:   32  # enough"));
    folder.write("pools/gpu/kubelet.yaml", &formatted);
    folder.commit();
    let unchanged = cluster.run(folder.path(), "diff");
    assert_eq!(unchanged.exit, 0, "{}", unchanged.shown());

    folder.write("pools/gpu/kubelet.yaml", &KUBELET.replace("32", "40").replace("1Gi", "2Gi"));
    folder.commit();
    shows!("diff-two-fields", cluster.run(folder.path(), "diff").shown());
    shows!("diff-two-fields-markdown", cluster.run(folder.path(), "diff -o markdown").shown());
}

#[test]
fn prints_blocked_nodes() {
    let folder = gpu();
    let mut nodes = specs(&["gpu"], 4);
    nodes[2].kubelet_version = "v1.24.1".to_owned();
    let cluster = Cluster::of(nodes, &[]);
    cluster.point("gpu-2", "made-by-hand");
    // A node in transition uses up the budget, so that the pool waits.
    let node = || cluster.send("GET", "/api/v1/nodes/gpu-2", "application/json", &serde_json::Value::Null);
    let settles = |_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        node()["status"]["config"]["error"].is_string()
    };
    assert!((0..1000).any(settles), "{}", node());
    shows!("diff-blocked", cluster.run(folder.path(), "diff").shown());
    shows!("diff-blocked-markdown", cluster.run(folder.path(), "diff -o markdown").shown());
    let over = cluster.run(folder.path(), "diff --take-over");
    assert!(over.out.contains("3 nodes to assign"), "{}", over.out);
}

#[test]
fn rejects_configuration_invalid_for_node_versions() {
    let folder = gpu();
    folder.write("pools/gpu/kubelet.yaml", &format!("{KUBELET}enforceNodeAllocatable: [nothing]\npodLogsDir: /a\n"));
    folder.commit();
    let mut nodes = specs(&["gpu"], 3);
    nodes[2].kubelet_version = "v1.22.1".to_owned();
    let cluster = Cluster::of(nodes, &[]);
    let refused = cluster.run(folder.path(), "diff");
    assert_eq!(refused.exit, 3);
    shows!("diff-refused", refused.shown());
    for line in ["sync", "sync --dry-run", "verify", "diff -o json --lenient"] {
        let refused = cluster.run(folder.path(), line);
        assert_eq!(refused.exit, 3, "{}", refused.shown());
        assert!(!refused.err.contains("assigned"), "{}", refused.shown());
    }
    // Fields that kubelets drop do not block a plan with --lenient.
    folder.write("pools/gpu/kubelet.yaml", &format!("{KUBELET}podLogsDir: /a\n"));
    folder.commit();
    assert_eq!(cluster.run(folder.path(), "sync").exit, 3);
    let lenient = cluster.run(folder.path(), "sync --lenient");
    assert_eq!(lenient.exit, 0, "{}", lenient.shown());
}

#[test]
fn prints_every_risk_class() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 2, &[]);
    assert_eq!(cluster.run(folder.path(), "sync").exit, 0);
    let fields = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ncgroupDriver: systemd\nclusterDNS: [10.96.0.10]\n\
                  syncFrequency: 2m\ntopologyManagerPolicy: none\n";
    folder.write("pools/gpu/kubelet.yaml", &format!("{}{fields}", KUBELET.replace("32", "64")));
    folder.commit();
    shows!("diff-risk", cluster.run(folder.path(), "diff -v").shown());
    shows!("sync-too-disruptive", cluster.run(folder.path(), "sync").shown());
    shows!("sync-too-disruptive-json", cluster.run(folder.path(), "sync -o json").shown());

    folder.write("pools/gpu/pool.yaml", &format!("{POOL}    allowDisruption: replace\n"));
    folder.commit();
    shows!("diff-risk-allowed", cluster.run(folder.path(), "diff").shown());
    folder.write("pools/gpu/pool.yaml", &format!("{POOL}    allowDisruption: drian\n"));
    folder.commit();
    let misspelt = cluster.run(folder.path(), "validate");
    assert_eq!(misspelt.exit, 3);
    assert!(misspelt.shown().contains("did you mean drain?"), "{}", misspelt.shown());
}
