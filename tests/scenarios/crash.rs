//! Interrupted, killed and concurrent runs: the lock of the fleet, and going on from the cluster's state alone.

use jiff::{SignedDuration, Timestamp};
use nodecfg_sandbox::kubelets::Fault;
use serde_json::{Value, json};

use crate::harness::{Cluster, NodeRecord, Repository, Start};

scenarios! {
    Anything {
        a_killed_sync_leaves_no_node_half_way_and_the_next_one_completes_after_the_lock_expires,
        ctrl_c_finishes_what_is_in_flight_and_a_second_run_resumes,
        a_second_ctrl_c_ends_at_once,
        a_second_concurrent_sync_is_kept_out_and_told_who_holds_the_lock,
        a_second_sync_waits_for_the_first_when_asked,
        an_expired_lock_is_taken_over,
        a_lost_lock_stops_everything,
    }
}

fn leases(cluster: &Cluster) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", cluster.namespace())
}

fn lease_path(cluster: &Cluster) -> String {
    format!("{}/nodecfg-test", leases(cluster))
}

/// How messages name the lock.
fn lock(cluster: &Cluster) -> String {
    format!("{}/nodecfg-test", cluster.namespace())
}

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}")
}

/// A cluster of three nodes whose first does not answer until it is mended.
async fn held_up(start: Start) -> Cluster {
    start.pool("a", 3).later("a-1", Fault::NeverAcknowledges).up().await
}

async fn settled(cluster: &Cluster) -> bool {
    cluster.states().await.values().all(|state| state.settled() && state.source.is_some())
}

async fn holder(cluster: &Cluster) -> String {
    cluster.get(&lease_path(cluster)).await["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

async fn a_killed_sync_leaves_no_node_half_way_and_the_next_one_completes_after_the_lock_expires(start: Start) {
    let cluster = start.pool("a", 6).later("a-3", Fault::NeverAcknowledges).up().await;
    let repository = repository();
    let history = cluster.history().await;
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_it_says("a/a-3 assigned").await;
    let killed = format!("_{}_", run.id());
    run.kill();
    cluster.fault("a-3", None).await;

    let run = cluster.sync(&repository, &[]).await.exits(6);
    run.says(&killed).says("A sync that was killed leaves a lock that expires by itself");
    // What was in flight gets there without nodecfg, and nothing else has begun.
    cluster.until_node("a-3", "converges", NodeRecord::settled).await;
    for (node, state) in cluster.states().await {
        assert!(state.settled(), "{node}: {state:?}");
        assert_eq!(state.source.is_some(), ["a-1", "a-2", "a-3"].contains(&node.as_str()), "{node}: {state:?}");
    }

    // The rest of half a minute, shortened.
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    cluster.patch(&lease_path(&cluster), json!({"spec": {"renewTime": now, "leaseDurationSeconds": 3}})).await;
    let run = cluster.sync(&repository, &["--lock-timeout", "5m"]).await.exits(0);
    run.says(&killed).says("no longer renews").says("3 converged, 3 as wanted already");
    assert!(settled(&cluster).await);
    let past = history.end().await;
    assert_eq!(past.assigned(), ["a-1", "a-2", "a-3", "a-4", "a-5", "a-6"], "each node once");
    assert_eq!(past.most(|_, state| !state.settled()), 1);
    cluster.down().await;
}

async fn ctrl_c_finishes_what_is_in_flight_and_a_second_run_resumes(start: Start) {
    let cluster = held_up(start).await;
    let repository = repository();
    let history = cluster.history().await;
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_it_says("a/a-1 assigned").await;
    run.interrupt();
    run.until_it_says("nodes in flight are watched to their end, no others start").await;
    run.until_it_says("a stopped: interrupted").await;
    cluster.fault("a-1", None).await;
    let run = run.end().await.exits(5);
    run.says("a/a-1 converged").says("stopped: pool a: interrupted").says("1 converged, 2 not started");
    assert_eq!(cluster.source("a-2").await, None);
    assert_eq!(holder(&cluster).await, "", "the lock is given up");

    cluster.sync(&repository, &[]).await.exits(0).says("2 converged, 1 as wanted already");
    assert_eq!(history.end().await.assigned(), ["a-1", "a-2", "a-3"], "each node once");
    cluster.down().await;
}

async fn a_second_ctrl_c_ends_at_once(start: Start) {
    let cluster = held_up(start).await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_it_says("a/a-1 assigned").await;
    run.interrupt();
    run.until_it_says("a stopped: interrupted").await;
    run.interrupt();
    run.end().await.exits(5).says("ending now").says("1 in flight, 2 not started");
    assert_eq!(holder(&cluster).await, "", "the lock is given up");
    cluster.fault("a-1", None).await;
    cluster.sync(&repository, &[]).await.exits(0);
    assert!(settled(&cluster).await);
    cluster.down().await;
}

async fn a_second_concurrent_sync_is_kept_out_and_told_who_holds_the_lock(start: Start) {
    let cluster = held_up(start).await;
    let repository = repository();
    let mut first = cluster.start_run("sync", &repository, &[]);
    first.until_it_says("a/a-1 assigned").await;
    let before = cluster.written().await;
    let second = cluster.sync(&repository, &[]).await.exits(6).says("another sync of this fleet runs:");
    let second = second.says(&format!("_{}_", first.id())).says(&format!("holds the lock {} since", lock(&cluster)));
    second.says("let nodecfg wait with --lock-timeout");
    assert_eq!(cluster.written().await, before);

    // Another fleet has a lock of its own, and looking needs none.
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

async fn a_second_sync_waits_for_the_first_when_asked(start: Start) {
    let cluster = held_up(start).await;
    let repository = repository();
    let mut first = cluster.start_run("sync", &repository, &[]);
    first.until_it_says("a/a-1 assigned").await;
    let mut second = cluster.start_run("sync", &repository, &["--lock-timeout", "5m", "-v"]);
    second.until_it_says(&format!("waiting for the lock {}", lock(&cluster))).await;
    cluster.fault("a-1", None).await;
    first.end().await.exits(0).says("3 converged");
    second.end().await.exits(0).says("No changes:").says("3 as wanted");
    cluster.down().await;
}

/// A Lease of the fleet `test` that somebody took this long ago for 30 seconds.
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

async fn an_expired_lock_is_taken_over(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    cluster.create(&leases(&cluster), lease("ci-7_4711_00", 40)).await;
    let run = cluster.sync(&repository(), &[]).await.exits(0);
    run.says(&format!("taking over the lock {}, which ci-7_4711_00 no longer renews", lock(&cluster)));
    let lease = cluster.get(&lease_path(&cluster)).await;
    assert_eq!(lease["spec"]["leaseTransitions"], 4, "{lease}");
    assert_eq!(holder(&cluster).await, "");
    cluster.down().await;
}

async fn a_lost_lock_stops_everything(start: Start) {
    let cluster = held_up(start).await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_it_says("a/a-1 assigned").await;
    let thief = lease("thief", 0);
    cluster.patch(&lease_path(&cluster), json!({"spec": thief["spec"]})).await;
    run.until_it_says("the lock was lost").await;
    run.end().await.exits(6).says("thief").says("stopped: pool a: the lock of the fleet was lost");
    assert_eq!(holder(&cluster).await, "thief", "what is not held any more is not given up");
    assert_eq!(cluster.source("a-2").await, None);
    cluster.down().await;
}
