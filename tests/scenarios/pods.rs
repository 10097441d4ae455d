//! Scenarios of pods on the nodes of a rollout.

use std::collections::BTreeMap;

use crate::harness::{Cluster, ClusterSetup, Repository};
use nodecfg_sandbox::workloads::WorkloadSpec;

scenarios! {
    Workloads {
        rollout_without_a_drain_moves_no_pod,
    }
}

/// Node of each pod by uid.
async fn pods(cluster: &Cluster) -> BTreeMap<String, String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    cluster.pods().await.iter().map(|pod| (text(&pod["metadata"]["uid"]), text(&pod["spec"]["nodeName"]))).collect()
}

async fn rollout_without_a_drain_moves_no_pod(start: ClusterSetup) {
    let cluster = start.pool("a", 3).workloads(WorkloadSpec::filling(3, 5)).up().await;
    let before = pods(&cluster).await;
    assert_eq!(before.len(), 15);
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    cluster.sync(&repository, &[]).await.exits(0).prints("3 converged");
    assert_eq!(pods(&cluster).await, before);
    cluster.down().await;
}
