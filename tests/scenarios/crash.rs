//! Scenarios of interrupted, killed and concurrent runs: the lock of the fleet, and resumption from the cluster's
//! state.

use jiff::{SignedDuration, Timestamp};
use nodecfg_sandbox::kubelets::Fault;
use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, NodeRecord, Repository};

scenarios! {
    Anything {
        next_sync_completes_after_killed_one,
        ctrl_c_finishes_nodes_in_transition_and_next_sync_resumes,
        second_ctrl_c_ends_immediately,
        concurrent_sync_fails_and_names_lock_holder,
        concurrent_sync_waits_on_request,
        expired_lock_is_taken_over,
        lost_lock_stops_the_rollout,
    }
}

fn leases(cluster: &Cluster) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", cluster.namespace())
}

fn lease_path(cluster: &Cluster) -> String {
    format!("{}/nodecfg-test", leases(cluster))
}

/// Name of the lock in messages.
fn lock(cluster: &Cluster) -> String {
    format!("{}/nodecfg-test", cluster.namespace())
}

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}")
}

/// Starts a cluster of three nodes whose first does not respond until its fault is removed.
async fn blocked_rollout(start: ClusterSetup) -> Cluster {
    start.pool("a", 3).later("a-1", Fault::NeverAcknowledges).up().await
}

async fn converged(cluster: &Cluster) -> bool {
    cluster.states().await.values().all(|state| state.converged() && state.source.is_some())
}

async fn holder(cluster: &Cluster) -> String {
    cluster.get(&lease_path(cluster)).await["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

async fn next_sync_completes_after_killed_one(start: ClusterSetup) {
    let cluster = start.pool("a", 6).later("a-3", Fault::NeverAcknowledges).up().await;
    let repository = repository();
    let history = cluster.history().await;
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-3 assigned").await;
    let killed = format!("_{}_", run.id());
    run.kill();
    cluster.fault("a-3", None).await;

    let run = cluster.sync(&repository, &[]).await.exits(6);
    run.prints(&killed).prints("unless it is renewed");
    // The node in transition converges without nodecfg, and no other transition begins.
    cluster.until_node("a-3", "converges", NodeRecord::converged).await;
    for (node, state) in cluster.states().await {
        assert!(state.converged(), "{node}: {state:?}");
        assert_eq!(state.source.is_some(), ["a-1", "a-2", "a-3"].contains(&node.as_str()), "{node}: {state:?}");
    }

    // Shortens the remaining lock duration of 30 s.
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    cluster.patch(&lease_path(&cluster), json!({"spec": {"renewTime": now, "leaseDurationSeconds": 3}})).await;
    let run = cluster.sync(&repository, &["--lock-timeout", "5m"]).await.exits(0);
    run.prints(&killed).prints("no longer renews").prints("3 converged, 3 already up to date");
    assert!(converged(&cluster).await);
    let past = history.end().await;
    assert_eq!(past.assigned(), ["a-1", "a-2", "a-3", "a-4", "a-5", "a-6"], "each node once");
    assert_eq!(past.most(|_, state| !state.converged()), 1);
    cluster.down().await;
}

async fn ctrl_c_finishes_nodes_in_transition_and_next_sync_resumes(start: ClusterSetup) {
    let cluster = blocked_rollout(start).await;
    let repository = repository();
    let history = cluster.history().await;
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-1 assigned").await;
    run.interrupt();
    run.until_stderr_contains("nodes in transition finish, no further node starts").await;
    run.until_stderr_contains("a stopped: interrupted").await;
    cluster.fault("a-1", None).await;
    let run = run.end().await.exits(5);
    run.prints("a/a-1 converged").prints("stopped: pool a: interrupted").prints("1 converged").prints("2 not started.");
    assert_eq!(cluster.source("a-2").await, None);
    assert_eq!(holder(&cluster).await, "", "the lock is released");

    cluster.sync(&repository, &[]).await.exits(0).prints("2 converged, 1 already up to date");
    assert_eq!(history.end().await.assigned(), ["a-1", "a-2", "a-3"], "each node once");
    cluster.down().await;
}

async fn second_ctrl_c_ends_immediately(start: ClusterSetup) {
    let cluster = blocked_rollout(start).await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-1 assigned").await;
    run.interrupt();
    run.until_stderr_contains("a stopped: interrupted").await;
    run.interrupt();
    run.end().await.exits(5).prints("stopping now").prints("1 in transition, 2 not started");
    assert_eq!(holder(&cluster).await, "", "the lock is released");
    cluster.fault("a-1", None).await;
    cluster.sync(&repository, &[]).await.exits(0);
    assert!(converged(&cluster).await);
    cluster.down().await;
}

async fn concurrent_sync_fails_and_names_lock_holder(start: ClusterSetup) {
    let cluster = blocked_rollout(start).await;
    let repository = repository();
    let mut first = cluster.start_run("sync", &repository, &[]);
    first.until_stderr_contains("a/a-1 assigned").await;
    let before = cluster.written().await;
    let second = cluster.sync(&repository, &[]).await.exits(6).prints("another sync of this fleet runs:");
    let second =
        second.prints(&format!("_{}_", first.id())).prints(&format!("holds the lock {} since", lock(&cluster)));
    second.prints("pass --lock-timeout to wait for the other sync");
    assert_eq!(cluster.written().await, before);

    // Another fleet has its own lock, and read-only commands need none.
    let other = Repository::empty();
    other.fleet("other", "");
    other.pool("b", "maxPods: 50");
    other.commit();
    cluster.sync(&other, &["--allow-empty"]).await.exits(0);
    cluster.run("diff", &repository, &[]).await.exits(1);

    cluster.fault("a-1", None).await;
    first.end().await.exits(0);
    cluster.down().await;
}

async fn concurrent_sync_waits_on_request(start: ClusterSetup) {
    let cluster = blocked_rollout(start).await;
    let repository = repository();
    let mut first = cluster.start_run("sync", &repository, &[]);
    first.until_stderr_contains("a/a-1 assigned").await;
    let mut second = cluster.start_run("sync", &repository, &["--lock-timeout", "0", "-v"]);
    second.until_stderr_contains(&format!("waiting for the lock {}", lock(&cluster))).await;
    cluster.fault("a-1", None).await;
    first.end().await.exits(0).prints("3 converged");
    second.end().await.exits(0).prints("No changes:").prints("3 already up to date");
    cluster.down().await;
}

/// Lease of the fleet `test`, taken `ago` seconds ago for 30 seconds.
fn lease(holder: &str, ago: i64) -> Value {
    let time = Timestamp::now().checked_sub(SignedDuration::from_secs(ago)).unwrap();
    let time = time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "nodecfg-test"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 30, "acquireTime": time, "renewTime": time,
            "leaseTransitions": 3},
    })
}

async fn expired_lock_is_taken_over(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let mut dead = lease("ci-7_4711_00", 40);
    dead["spec"]["leaseDurationSeconds"] = json!(2);
    cluster.create(&leases(&cluster), dead).await;
    // Also without --lock-timeout.
    let run = cluster.sync(&repository(), &[]).await.exits(0);
    run.prints("taking it over in 2 s unless it is renewed")
        .prints(&format!("taking over the lock {}, which ci-7_4711_00 no longer renews", lock(&cluster)));
    let lease = cluster.get(&lease_path(&cluster)).await;
    assert_eq!(lease["spec"]["leaseTransitions"], 4, "{lease}");
    assert_eq!(holder(&cluster).await, "");
    cluster.down().await;
}

async fn lost_lock_stops_the_rollout(start: ClusterSetup) {
    let cluster = blocked_rollout(start).await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-1 assigned").await;
    let thief = lease("thief", 0);
    cluster.patch(&lease_path(&cluster), json!({"spec": thief["spec"]})).await;
    run.until_stderr_contains("the lock was lost").await;
    run.end().await.exits(6).prints("thief").prints("stopped: pool a: the lock of the fleet was lost");
    assert_eq!(holder(&cluster).await, "thief", "a lost lock is not released");
    assert_eq!(cluster.source("a-2").await, None);
    cluster.down().await;
}
