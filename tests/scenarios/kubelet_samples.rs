//! Scenarios of first changes: what sampled kubelets run, and what nodes have capacity for.

use nodecfg_sandbox::kubelets::Fault;

use crate::harness::{Cluster, ClusterSetup, Repository};

scenarios! {
    Sandbox {
        first_change_has_the_risk_of_sampled_kubelets,
        first_change_to_running_values_has_no_effect,
        unasked_and_unreadable_kubelets_leave_the_risk_unknown,
        saved_plan_does_not_depend_on_the_right_to_ask,
        node_without_capacity_for_reservations_is_blocked,
    }
}

/// Number of requests for the configuration of a kubelet.
fn asked(cluster: &Cluster) -> usize {
    let entries = cluster.sandbox().wire().log.entries();
    entries.iter().filter(|entry| entry.request.resource == "nodes/proxy").count()
}

async fn first_change_has_the_risk_of_sampled_kubelets(start: ClusterSetup) {
    let cluster = start.pool("a", 5).up().await;
    let repository = Repository::of_pool("maxPods: 64", "{maxUnavailable: 100%}");
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("5 nodes from the local configuration (from configz of 3 of 5 nodes)")
        .prints("~ maxPods: 110 → 64")
        .prints("risk: drain: requires draining the node first (from configz of 3 of 5 nodes)")
        .prints("refused by sync:");
    assert_eq!(asked(&cluster), 3);
    let before = cluster.written().await;
    cluster.sync(&repository, &[]).await.exits(3).prints("the pool allows at most restart: maxPods (drain)");
    assert_eq!(cluster.written().await, before);

    repository.fleet("test", "{maxUnavailable: 100%, allowDisruption: drain, drain: {settle: 0s}}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("5 nodes: 5 converged");
    let before = asked(&cluster);
    repository.change("a", "maxPods: 70");
    cluster.run("diff", &repository, &[]).await.exits(1).prints("~ maxPods: 64 → 70");
    assert_eq!(asked(&cluster), before, "the cluster has the current configuration");
    cluster.down().await;
}

async fn first_change_to_running_values_has_no_effect(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110\nsyncFrequency: 60s", "{allowDisruption: none}");
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("= syncFrequency: \"1m0s\" → \"60s\"")
        .prints("risk: none: has no effect on pods")
        .does_not_print("refused by sync");
    let json = cluster.run("diff", &repository, &["-o", "json"]).await.exits(1).json();
    let set = &json["pools"][0]["changes"][0];
    assert_eq!(set["sample"], serde_json::json!({"asked": 2, "read": 2, "same": 2}));
    assert!(set["fields"].as_array().unwrap().iter().all(|field| field["noEffect"] == true), "{set}");
    cluster.down().await;
}

async fn unasked_and_unreadable_kubelets_leave_the_risk_unknown(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 64", "{maxUnavailable: 100%}");
    let unknown = "risk: unknown (the current configuration is unknown)";
    cluster.run("diff", &repository, &["--ask-kubelets", "none"]).await.exits(1).prints(unknown);
    assert_eq!(asked(&cluster), 0);
    // One kubelet that refuses does not hide what the others run.
    cluster.fault("a-1", Some(Fault::RefusesConfigz)).await;
    cluster.run("diff", &repository, &[]).await.exits(1).prints("(from configz of 2 of 3 nodes)");
    for node in ["a-2", "a-3"] {
        cluster.fault(node, Some(Fault::RefusesConfigz)).await;
    }
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("(content unknown: the kubelet refuses configz)").prints(unknown);
    cluster.sandbox().forbid("get", "nodes/proxy");
    let before = asked(&cluster);
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("(content unknown: may not get nodes/proxy)").prints(unknown);
    assert_eq!(asked(&cluster), before);
    cluster.down().await;
}

async fn saved_plan_does_not_depend_on_the_right_to_ask(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 250", "{maxUnavailable: 100%}");
    let plan = cluster.home().join("plan.json");
    let plan = plan.to_str().unwrap();
    cluster.run("diff", &repository, &["--out", plan]).await.exits(1).prints("(from configz of 3 of 3 nodes)");
    cluster.sandbox().forbid("get", "nodes/proxy");
    cluster.sync(&repository, &["--plan", plan]).await.exits(0).prints("3 nodes: 3 converged");
    cluster.down().await;
}

async fn node_without_capacity_for_reservations_is_blocked(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository =
        Repository::of_pool("kubeReserved: {memory: 100Gi}", "{allowDisruption: drain, drain: {settle: 0s}}");
    let diff = cluster.run("diff", &repository, &[]).await.exits(0);
    diff.prints("the kubelet would not start").prints("102500Mi of memory, but the node has 63873Mi");
    let before = cluster.written().await;
    cluster.sync(&repository, &[]).await.exits(5).prints("too small");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}
