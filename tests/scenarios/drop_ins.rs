//! Scenarios of agents that write drop-ins: their kubelets merge the configuration over the nodes' own.

use serde_json::json;

use crate::harness::{ClusterSetup, Repository};

scenarios! {
    SandboxAgents {
        drop_ins_keep_the_own_values_of_nodes,
    }
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
    // What it no longer names returns to the node's own value, which the agent reports: here nothing changes.
    repository.change("a", "maxPods: 160");
    cluster.run("diff", &repository, &[]).await.exits(1).does_not_print("cgroupDriver").does_not_print("refused");
    cluster.sync(&repository, &[]).await.exits(0).prints("3 nodes: 3 converged");
    let runs = cluster.running("a-1").await;
    assert_eq!((&runs["maxPods"], &runs["cgroupDriver"]), (&json!(160), &json!("systemd")));
    cluster.down().await;
}
