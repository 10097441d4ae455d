//! Scenarios of agents that write drop-ins: their kubelets merge the configuration over the nodes' own.

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository};

scenarios! {
    SandboxAgents {
        drop_ins_keep_the_own_values_of_nodes,
        agents_without_a_report_count_as_file_or_as_all_others,
    }
}

/// Activation that the agent of a node reports.
async fn activation(cluster: &Cluster, node: &str) -> Value {
    cluster.assignment_object(node).await["status"]["agent"]["activation"].clone()
}

/// A file of one field would take cgroupDriver and the DNS servers from nodes as kubeadm makes them. A drop-in does not.
async fn drop_ins_keep_the_own_values_of_nodes(start: ClusterSetup) {
    let cluster = start.kubeadm().drop_ins().pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 150", "{maxUnavailable: 100%}");
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("3 nodes from the local configuration (from configz of 3 of 3 nodes), merged over each node's own")
        .prints("~ maxPods: 110 → 150")
        .does_not_print("cgroupDriver")
        .does_not_print("refused");
    cluster.sync(&repository, &[]).await.exits(0).prints("3 nodes: 3 converged");
    let runs = cluster.running("a-1").await;
    assert_eq!((&runs["maxPods"], &runs["cgroupDriver"]), (&json!(150), &json!("systemd")));
    assert_eq!(activation(&cluster, "a-1").await, "drop-in");

    // The kubelets tell what an added field replaces: here nothing changes.
    repository.change("a", "maxPods: 150\ncgroupDriver: systemd");
    cluster
        .run("diff", &repository, &[])
        .await
        .exits(1)
        .prints("merged over each node's own")
        .does_not_print("refused");
    cluster.sync(&repository, &[]).await.exits(0).prints("3 nodes: 3 converged");
    repository.change("a", "maxPods: 150\ncgroupDriver: cgroupfs");
    let refused = cluster.sync(&repository, &[]).await.exits(3);
    refused.prints("cgroupDriver (replace)").does_not_print("which the configuration omits");
    // What it no longer names returns to the node's own value, which no kubelet shows. The agent compares.
    repository.change("a", "maxPods: 160");
    cluster.run("diff", &repository, &[]).await.exits(1).prints("- cgroupDriver: systemd").does_not_print("refused");
    cluster.sync(&repository, &[]).await.exits(0).prints("3 nodes: 3 converged");
    let runs = cluster.running("a-1").await;
    assert_eq!((&runs["maxPods"], &runs["cgroupDriver"]), (&json!(160), &json!("systemd")));
    cluster.down().await;
}

/// Before its first assignment an agent reports nothing.
async fn agents_without_a_report_count_as_file_or_as_all_others(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 150", "{maxUnavailable: 100%}");
    let refused = cluster.sync(&repository, &[]).await.exits(3);
    refused
        .prints("cgroupDriver (replace)")
        .prints("write cgroupDriver: systemd, staticPodPath: /etc/kubernetes/manifests, which")
        .prints(
            "its nodes lose authentication.x509.clientCAFile, cgroupDriver, clusterDNS, clusterDomain, resolvConf, ",
        );
    let of_kubeadm = "authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}\ncgroupDriver: systemd\nclusterDNS: \
                      [10.96.0.10]\nresolvConf: /run/systemd/resolve/resolv.conf\nrotateCertificates: true\nstaticPodPath: \
                      /etc/kubernetes/manifests";
    repository.change("a", &format!("maxPods: 150\nclusterDomain: cluster.local\n{of_kubeadm}"));
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    assert_eq!(activation(&cluster, "a-1").await, "file");
    cluster.down().await;
}
