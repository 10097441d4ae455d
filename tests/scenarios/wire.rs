//! Scenarios with request failures: overload, broken connections, lost responses, expired versions and outages.
//! nodecfg recovers without effects on nodes and logs each failure once.

use std::time::{Duration, Instant};

use http::StatusCode;
use nodecfg_sandbox::kubelets;
use nodecfg_sandbox::server::wire::{Fault, FaultKind, Matcher};

use crate::harness::{Cluster, ClusterSetup, Repository, Run, until};

scenarios! {
    Sandbox {
        too_many_requests_are_retried_after_delay,
        server_errors_are_retried,
        connection_reset_is_retried,
        truncated_response_is_retried,
        patch_with_lost_response_is_recognized_as_own,
        created_config_map_with_lost_response_is_recognized,
        closed_and_broken_watches_resume,
        expired_watch_lists_again,
        expired_list_continuation_restarts_the_list,
        outage_during_rollout_is_survived_and_logged_once,
        outage_beyond_time_limit_ends_the_run,
        unreachable_server_at_start_fails_immediately,
    }
}

/// Text in log lines about request failures.
const RETRY_MESSAGE: &str = "trying again";

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}")
}

/// Syncs three nodes with these faults, and checks that each is assigned once and converges.
async fn survives(start: ClusterSetup, faults: Vec<Fault>) -> Run {
    let cluster = start.pool("a", 3).up().await;
    let history = cluster.history().await;
    let injected: Vec<_> = faults.into_iter().map(|fault| (fault.times, cluster.sandbox().inject(fault))).collect();
    let run = cluster.sync(&repository(), &[]).await.exits(0).prints("3 nodes: 3 converged");
    for (times, fault) in injected {
        let least = times.unwrap_or(1);
        assert!(fault.affected() >= least, "{fault:?} affected {} requests\n{run}", fault.affected());
    }
    let past = history.end().await;
    assert_eq!(past.assigned(), ["a-1", "a-2", "a-3"]);
    assert_eq!(past.most(|_, state| !state.converged()), 1);
    assert_eq!(cluster.config_maps().await.len(), 1);
    cluster.down().await;
    run
}

/// A fault of watches, after the streaming list that precedes them on some servers.
fn watching(resource: &str, kind: FaultKind) -> Fault {
    once("watch", resource, kind).skip(u64::from(resource == "nodeconfigs"))
}

fn once(verb: &str, resource: &str, kind: FaultKind) -> Fault {
    Fault::once(Matcher::on(verb, resource), kind)
}

/// A fault of assignment requests after `after` of them.
fn assigning(start: &ClusterSetup, kind: FaultKind, after: u64) -> Fault {
    once("patch", start.assignment_resource(), kind).skip(after)
}

async fn too_many_requests_are_retried_after_delay(start: ClusterSetup) {
    let busy = FaultKind::Status { code: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(Duration::from_secs(1)) };
    let began = Instant::now();
    let faults = vec![assigning(&start, busy, 1)];
    let run = survives(start, faults).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "the retry respects Retry-After");
    assert_eq!(run.lines_with(RETRY_MESSAGE), 1, "{run}");
}

async fn server_errors_are_retried(start: ClusterSetup) {
    let status = |verb, resource, code| once(verb, resource, FaultKind::status(code));
    let faults = vec![
        status("list", "nodes", StatusCode::INTERNAL_SERVER_ERROR),
        status("list", "configmaps", StatusCode::SERVICE_UNAVAILABLE),
        status("get", "leases", StatusCode::GATEWAY_TIMEOUT),
        status("create", "leases", StatusCode::INTERNAL_SERVER_ERROR),
        status("create", "configmaps", StatusCode::INTERNAL_SERVER_ERROR),
        watching(start.assignment_resource(), FaultKind::status(StatusCode::SERVICE_UNAVAILABLE)),
        status("patch", start.assignment_resource(), StatusCode::SERVICE_UNAVAILABLE).times(2),
    ];
    let run = survives(start, faults).await;
    run.does_not_print("refused");
}

async fn connection_reset_is_retried(start: ClusterSetup) {
    let reset = |verb, resource| once(verb, resource, FaultKind::Reset);
    let faults = vec![
        reset("list", "nodes"),
        reset("create", "configmaps"),
        assigning(&start, FaultKind::Reset, 0).times(2),
        watching(start.assignment_resource(), FaultKind::Reset),
    ];
    survives(start, faults).await;
}

async fn truncated_response_is_retried(start: ClusterSetup) {
    let cut = |verb, resource| once(verb, resource, FaultKind::CutBody { after_bytes: 700 });
    let early = FaultKind::CutBody { after_bytes: 50 };
    let faults = vec![
        cut("list", "nodes"),
        cut("list", "configmaps"),
        once("patch", start.assignment_resource(), early).times(2),
    ];
    survives(start, faults).await;
}

async fn patch_with_lost_response_is_recognized_as_own(start: ClusterSetup) {
    let mut faults = vec![assigning(&start, FaultKind::LoseAnswer, 0).times(2)];
    if start.assignment_resource() == "nodeconfigs" {
        faults.push(once("create", "nodeconfigs", FaultKind::LoseAnswer).times(2));
    }
    let run = survives(start, faults).await;
    run.does_not_print("changed by another client").does_not_print("conflict");
}

async fn created_config_map_with_lost_response_is_recognized(start: ClusterSetup) {
    let lost = |resource| once("create", resource, FaultKind::LoseAnswer);
    survives(start, vec![lost("configmaps"), lost("leases")]).await;
}

async fn closed_and_broken_watches_resume(start: ClusterSetup) {
    let watching = |kind| watching(start.assignment_resource(), kind);
    let faults = vec![
        watching(FaultKind::CloseWatch { after_events: 1 }),
        watching(FaultKind::CutBody { after_bytes: 2_000 }),
        watching(FaultKind::CloseWatch { after_events: 2 }),
    ];
    survives(start, faults).await;
}

async fn expired_watch_lists_again(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let history = cluster.history().await;
    let expire = watching(cluster.assignment_resource(), FaultKind::ExpireWatch { after_events: 2 });
    let expired = cluster.sandbox().inject(expire);
    cluster.sync(&repository(), &[]).await.exits(0).prints("3 converged");
    assert_eq!(expired.affected(), 1);
    let lists = cluster.sandbox().wire().log.count("list", cluster.assignment_resource());
    let paged = if cluster.streams_lists() { 2 } else { 3 };
    assert!(lists >= paged, "for binding detection, planning unless it streams, and the new list: {lists}");
    assert_eq!(history.end().await.assigned(), ["a-1", "a-2", "a-3"]);
    cluster.down().await;
}

async fn expired_list_continuation_restarts_the_list(start: ClusterSetup) {
    let cluster = start.pool("a", 520).up().await;
    let on = Matcher::on("list", "nodes");
    let expired = cluster.sandbox().inject(Fault::once(on, FaultKind::ContinueExpired));
    if cluster.streams_lists() {
        // A list that is cut is read in pages.
        cluster.sandbox().inject(once("watch", "nodes", FaultKind::CutBody { after_bytes: 50_000 }));
    }
    let run = cluster.run("diff", &repository(), &[]).await.exits(1).prints("520 nodes to assign");
    assert_eq!(expired.affected(), 1, "{run}");
    cluster.down().await;
}

/// Starts a sync of three nodes whose first node blocks the others.
async fn blocked_rollout(start: ClusterSetup, more: &[&str]) -> (Cluster, crate::harness::Running, Repository) {
    let cluster = start.pool("a", 3).later("a-1", kubelets::Fault::NeverAcknowledges).up().await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, more);
    run.until_stderr_contains("a/a-1 assigned").await;
    let lists = u64::from(cluster.streams_lists());
    until("the watch is open", async || cluster.sandbox().wire().log.count("watch", "nodes") > lists).await;
    (cluster, run, repository)
}

async fn outage_during_rollout_is_survived_and_logged_once(start: ClusterSetup) {
    let (mut cluster, mut run, _repository) = blocked_rollout(start, &["-v"]).await;
    cluster.sandbox_mut().crash().await;
    run.until_stderr_contains(RETRY_MESSAGE).await;
    cluster.fault("a-1", None).await;
    cluster.until_node("a-1", "converges during the outage", |state| state.converged()).await;
    cluster.sandbox_mut().recover().await;
    let run = run.end().await.exits(0).prints("3 converged");
    assert_eq!(run.lines_with(RETRY_MESSAGE), 1, "{run}");
    assert_eq!(run.lines_with("no request to the API server is being retried any longer"), 1, "{run}");
    cluster.down().await;
}

async fn outage_beyond_time_limit_ends_the_run(start: ClusterSetup) {
    let (mut cluster, run, _repository) = blocked_rollout(start, &["--request-timeout", "2s"]).await;
    cluster.sandbox_mut().crash().await;
    let run = run.end().await.exits(4);
    let yet = ["nodes", "nodeconfigs"].map(|resource| run.lines_with(&format!("cannot watch {resource} yet")));
    assert_eq!(yet.iter().sum::<usize>(), 1, "{run}");
    run.prints("gave up after").prints("stopped: pool a: the cluster failed:").prints("1 in transition, 2 not started");
    cluster.down().await;
}

async fn unreachable_server_at_start_fails_immediately(start: ClusterSetup) {
    let mut cluster = start.pool("a", 1).up().await;
    cluster.sandbox_mut().crash().await;
    let began = Instant::now();
    let run = cluster.sync(&repository(), &[]).await.exits(4);
    run.prints("cannot be reached: connection refused").prints("check that an API server listens on");
    // An outage of a running server is waited out for five minutes.
    assert!(began.elapsed() < Duration::from_secs(120));
    cluster.down().await;
}
