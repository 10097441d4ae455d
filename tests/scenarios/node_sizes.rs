//! Scenarios of reservations that follow from the size of each node.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository};

scenarios! {
    Anything {
        each_size_runs_its_own_reservations,
        reservation_above_the_capacity_is_refused_for_its_node,
        saved_plan_knows_sizes,
    }
    Sandbox {
        canary_of_one_size_stops_the_pool,
        pointer_has_a_configuration_for_each_size,
    }
}

const RESERVE: &str = "{kubelet: {reserve: {preset: aks}}, rollout: {maxUnavailable: 100%, allowDisruption: drain, \
                       drain: {mode: accept, settle: 0s}}}";

/// A repository with pool `a` that reserves as AKS does.
fn repository() -> Repository {
    let repository = Repository::of_pool("maxPods: 110", "{}");
    repository.pool_spec("a", RESERVE);
    repository.commit();
    repository
}

fn machines(start: ClusterSetup) -> ClusterSetup {
    start
        .machine("a-1", "4", "15996Mi")
        .machine("a-2", "4", "15990Mi")
        .machine("b-1", "16", "63Gi")
        .machine("b-2", "16", "63Gi")
}

async fn reserved(cluster: &Cluster, node: &str) -> Value {
    cluster.running(node).await["kubeReserved"].clone()
}

async fn each_size_runs_its_own_reservations(start: ClusterSetup) {
    let cluster = machines(start).up().await;
    let repository = repository();
    let path = repository.path().to_str().unwrap();
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("4 CPU, 16Gi")
        .prints("16 CPU, 63Gi")
        .prints("140m")
        .prints("260m")
        .prints("50Mi + 20Mi for each pod, at most 25%");
    cluster.sync(&repository, &[]).await.exits(0);
    for (node, wanted) in [
        ("a-1", json!({"cpu": "140m", "memory": "2250Mi"})),
        ("a-2", json!({"cpu": "140m", "memory": "2250Mi"})),
        ("b-1", json!({"cpu": "260m", "memory": "2250Mi"})),
        ("b-2", json!({"cpu": "260m", "memory": "2250Mi"})),
    ] {
        assert_eq!(reserved(&cluster, node).await, wanted, "{node}");
    }
    let sources: BTreeSet<_> = cluster.states().await.into_values().map(|state| state.source).collect();
    assert_eq!((sources.len(), cluster.config_maps().await.len()), (2, 2));
    cluster.run("verify", &repository, &[]).await.exits(0);
    cluster.sync(&repository, &[]).await.exits(0).prints("up to date");
    let status = cluster.call(&["status", path, "-o", "json"]).await.exits(0).json();
    let sizes = status["pools"][0]["sizes"].as_array().unwrap();
    let counted: Vec<_> =
        sizes.iter().map(|size| (size["size"].as_str().unwrap(), size["converged"].as_u64().unwrap())).collect();
    assert_eq!(counted, [("4 CPU, 16Gi", 2), ("16 CPU, 63Gi", 2)]);

    // Another revision, and back.
    repository.change("a", "maxPods: 60");
    cluster.sync(&repository, &[]).await.exits(0);
    assert_eq!(reserved(&cluster, "b-1").await["memory"], "1250Mi");
    let history = cluster.call(&["history", "a", path, "-o", "json"]).await.exits(0).json();
    let nodes: Vec<_> =
        history["revisions"].as_array().unwrap().iter().map(|one| one["nodes"]["active"].clone()).collect();
    // The oldest one has no sizes.
    assert_eq!(nodes, [json!(4), json!(0), json!(0)], "{history}");
    cluster.call(&["rollback", "a", path, "--allow-disruption", "drain", "--reason", "test"]).await.exits(0);
    assert_eq!(reserved(&cluster, "b-1").await["memory"], "2250Mi");
    cluster.down().await;
}

async fn reservation_above_the_capacity_is_refused_for_its_node(start: ClusterSetup) {
    let cluster = start.machine("a-1", "4", "16Gi").machine("a-2", "1", "300Mi").up().await;
    let repository = repository();
    repository.pool_spec("a", &RESERVE.replace("{preset: aks}", "{kubeReserved: {memory: {base: 255Mi}}}"));
    repository.commit();
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("a-2").prints("reserve 355Mi of memory, but the node has 300Mi");
    assert_eq!(reserved(&cluster, "a-1").await, json!({"memory": "255Mi"}));
    assert_eq!(cluster.source("a-2").await, None);
    cluster.down().await;
}

async fn saved_plan_knows_sizes(start: ClusterSetup) {
    let cluster = machines(start).up().await;
    let repository = repository();
    let file = cluster.home().join("plan.json");
    cluster.run("diff", &repository, &["--out", file.to_str().unwrap()]).await.exits(1);
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let sizes = plan["plan"]["pools"]["a"]["sizes"].as_object().unwrap();
    assert_eq!(sizes.keys().collect::<Vec<_>>(), ["16 CPU, 63Gi", "4 CPU, 16Gi"]);
    cluster.sync(&repository, &["--plan", file.to_str().unwrap()]).await.exits(0);
    assert_eq!(reserved(&cluster, "b-1").await["cpu"], "260m");
    cluster.down().await;
}

/// One node of each size goes first: a size that fails stops the others, too.
async fn canary_of_one_size_stops_the_pool(start: ClusterSetup) {
    let cluster = machines(start).fault("b-1", nodecfg_sandbox::kubelets::Fault::ValidateError).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(5).prints("b-1");
    assert_eq!(cluster.source("a-2").await, None, "started after a failed canary");
    assert_eq!(cluster.source("b-2").await, None, "started after a failed canary");
    cluster.down().await;
}

async fn pointer_has_a_configuration_for_each_size(start: ClusterSetup) {
    let cluster = machines(start).up().await;
    let repository = repository();
    let text = "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: test}\nspec: {poolPointers: true}\n";
    repository.write("nodecfg.yaml", text);
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("new nodes start with 2 sizes");
    let pointer = cluster.config_maps().await.remove("nodecfg-pool-test-a").unwrap();
    let data = pointer["data"].as_object().unwrap();
    assert_eq!(data["roundTo"], "cpu-1000m.memory-1Gi");
    for (size, node) in [("cpu-4000m.memory-16Gi", "a-1"), ("cpu-16000m.memory-63Gi", "b-1")] {
        assert_eq!(data[&format!("configMap.{size}")].as_str(), cluster.source(node).await.as_deref());
    }
    cluster.sync(&repository, &[]).await.exits(0).does_not_print("new nodes start");
    let path = repository.path().to_str().unwrap();
    cluster.call(&["doctor", path, "-v"]).await.prints("new nodes start with the configurations of the repository");
    // What the pointer names stays, although no node runs it any more.
    for node in ["b-1", "b-2"] {
        cluster.delete(&format!("/api/v1/nodes/{node}")).await;
    }
    cluster.call(&["prune", path, "--keep", "1", "--yes"]).await.exits(0);
    assert_eq!(cluster.config_maps().await.len(), 3);
    cluster.down().await;
}
