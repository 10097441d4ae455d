//! Scenarios of attacks with the credentials of one node: the other nodes reach their target.

use serde_json::json;

use crate::harness::{Cluster, ClusterSetup, Repository};

scenarios! {
    Anything {
        unreadable_time_blocks_only_its_node,
        node_with_the_labels_of_two_pools_keeps_its_configuration,
    }
}

/// Writes a time that Kubernetes accepts and nodecfg cannot represent, as a kubelet may.
async fn make_unreadable(cluster: &Cluster, node: &str) {
    let path = format!("/api/v1/nodes/{node}");
    let mut conditions = cluster.get(&path).await["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().unwrap() {
        condition["lastHeartbeatTime"] = json!("9999-12-31T23:59:59Z");
    }
    cluster.patch(&format!("{path}/status"), json!({"status": {"conditions": conditions}})).await;
}

async fn unreadable_time_blocks_only_its_node(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 2}");
    make_unreadable(&cluster, "a-1").await;

    // The first node also serves the detection of the binding.
    cluster.run("diff", &repository, &[]).await.exits(1).prints("status.conditions is unreadable");
    cluster
        .sync(&repository, &[])
        .await
        .exits(5)
        .prints("\"9999-12-31T23:59:59Z\" is not a time in the supported range")
        .prints("2 converged");
    assert_eq!(cluster.source("a-1").await, None);
    for node in ["a-2", "a-3"] {
        assert!(cluster.state(node).await.converged(), "{node}");
    }
    cluster
        .run("status", &repository, &[])
        .await
        .exits(0)
        .prints("1 blocked")
        .prints("status.conditions is unreadable");
    cluster.run("verify", &repository, &["--timeout", "1s"]).await.exits(5).prints("status.conditions is unreadable");
    cluster.run("doctor", &repository, &[]).await.exits(5).prints("status.conditions is unreadable");
    cluster.down().await;
}

async fn node_with_the_labels_of_two_pools_keeps_its_configuration(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 1).up().await;
    let repository = Repository::empty();
    for pool in ["a", "b"] {
        repository.pool(pool, "maxPods: 110");
        repository.pool_spec(pool, &format!("{{nodeSelector: {{matchLabels: {{in-{pool}: \"1\"}}}}}}"));
    }
    repository.commit();
    for (node, pool) in [("a-1", "a"), ("a-2", "a"), ("a-3", "a"), ("b-1", "b")] {
        cluster
            .patch(&format!("/api/v1/nodes/{node}"), json!({"metadata": {"labels": {format!("in-{pool}"): "1"}}}))
            .await;
    }
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.source("a-2").await;

    cluster.patch("/api/v1/nodes/a-2", json!({"metadata": {"labels": {"in-b": "1"}}})).await;
    repository.pool("a", "maxPods: 120");
    repository.pool_spec("a", "{nodeSelector: {matchLabels: {in-a: \"1\"}}}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(5).prints("pools a and b of equal priority select the node");
    assert_eq!(cluster.source("a-2").await, before, "it keeps what it runs");
    for node in ["a-1", "a-3", "b-1"] {
        assert!(cluster.state(node).await.converged(), "{node}");
    }
    assert_ne!(cluster.source("a-1").await, before);
    cluster.down().await;
}
