//! Trouble on the wire: overload, broken connections, lost answers, expired versions and outages are survived, cost no node
//! anything, and are told once.

use std::time::{Duration, Instant};

use http::StatusCode;
use nodecfg_sandbox::face::wire::{Fault, FaultKind, Matcher};
use nodecfg_sandbox::kubelets;

use crate::harness::{Cluster, Repository, Run, Start, until};

scenarios! {
    Sandbox {
        too_many_requests_are_taken_up_again_when_the_server_says_so,
        server_errors_are_tried_again,
        a_connection_reset_before_the_answer_is_survived,
        an_answer_cut_in_the_middle_is_asked_for_again,
        a_patch_whose_answer_is_lost_is_not_taken_for_somebody_elses,
        a_created_config_map_whose_answer_is_lost_is_recognised,
        closed_and_broken_watches_go_on_where_they_were,
        an_expired_watch_lists_anew,
        an_expired_list_continuation_begins_anew,
        an_outage_in_the_middle_is_survived_and_logged_once,
        an_outage_longer_than_the_patience_ends_the_run,
        a_server_that_is_not_there_is_not_waited_for,
    }
}

/// How a line of the log begins that tells of trouble.
const TROUBLE: &str = "trying again";

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}")
}

/// Syncs three nodes while this goes wrong, and checks that each is assigned once and converges.
async fn survives(start: Start, faults: Vec<Fault>) -> Run {
    let cluster = start.pool("a", 3).up().await;
    let history = cluster.history().await;
    let injected: Vec<_> = faults.into_iter().map(|fault| (fault.times, cluster.sandbox().inject(fault))).collect();
    let run = cluster.sync(&repository(), &[]).await.exits(0).says("3 nodes: 3 converged");
    for (times, fault) in injected {
        let least = times.unwrap_or(1);
        assert!(fault.struck() >= least, "{fault:?} struck {} times\n{run}", fault.struck());
    }
    let past = history.end().await;
    assert_eq!(past.assigned(), ["a-1", "a-2", "a-3"]);
    assert_eq!(past.most(|_, state| !state.settled()), 1);
    assert_eq!(cluster.config_maps().await.len(), 1);
    cluster.down().await;
    run
}

fn once(verb: &str, resource: &str, kind: FaultKind) -> Fault {
    Fault::once(Matcher::on(verb, resource), kind)
}

/// Something that goes wrong with assignments, after so many of them. The first patch of a Node is the dry run that finds out
/// about the binding; NodeConfigs have none.
fn assigning(start: &Start, kind: FaultKind, after: u64) -> Fault {
    let dry_run = u64::from(start.carriers() == "nodes");
    once("patch", start.carriers(), kind).skip(after + dry_run)
}

async fn too_many_requests_are_taken_up_again_when_the_server_says_so(start: Start) {
    let busy = FaultKind::Status { code: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(Duration::from_secs(1)) };
    let began = Instant::now();
    let faults = vec![assigning(&start, busy, 1)];
    let run = survives(start, faults).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "it comes no earlier than asked");
    assert_eq!(run.lines_with(TROUBLE), 1, "{run}");
}

async fn server_errors_are_tried_again(start: Start) {
    let status = |verb, resource, code| once(verb, resource, FaultKind::status(code));
    let faults = vec![
        status("list", "nodes", StatusCode::INTERNAL_SERVER_ERROR),
        status("list", "configmaps", StatusCode::SERVICE_UNAVAILABLE),
        status("get", "leases", StatusCode::GATEWAY_TIMEOUT),
        status("create", "leases", StatusCode::INTERNAL_SERVER_ERROR),
        status("create", "configmaps", StatusCode::INTERNAL_SERVER_ERROR),
        status("watch", start.carriers(), StatusCode::SERVICE_UNAVAILABLE),
        status("patch", start.carriers(), StatusCode::SERVICE_UNAVAILABLE).times(2),
    ];
    let run = survives(start, faults).await;
    run.never_says("refused");
}

async fn a_connection_reset_before_the_answer_is_survived(start: Start) {
    let reset = |verb, resource| once(verb, resource, FaultKind::Reset);
    let faults = vec![
        reset("list", "nodes"),
        reset("create", "configmaps"),
        assigning(&start, FaultKind::Reset, 0).times(2),
        reset("watch", start.carriers()),
    ];
    survives(start, faults).await;
}

async fn an_answer_cut_in_the_middle_is_asked_for_again(start: Start) {
    let cut = |verb, resource| once(verb, resource, FaultKind::CutBody { after_bytes: 700 });
    let early = FaultKind::CutBody { after_bytes: 50 };
    let faults = vec![cut("list", "nodes"), cut("list", "configmaps"), once("patch", start.carriers(), early).times(2)];
    survives(start, faults).await;
}

async fn a_patch_whose_answer_is_lost_is_not_taken_for_somebody_elses(start: Start) {
    let mut faults = vec![assigning(&start, FaultKind::LoseAnswer, 0).times(2)];
    if start.carriers() == "nodeconfigs" {
        faults.push(once("create", "nodeconfigs", FaultKind::LoseAnswer).times(2));
    }
    let run = survives(start, faults).await;
    run.never_says("changed by somebody else").never_says("conflict");
}

async fn a_created_config_map_whose_answer_is_lost_is_recognised(start: Start) {
    let lost = |resource| once("create", resource, FaultKind::LoseAnswer);
    survives(start, vec![lost("configmaps"), lost("leases")]).await;
}

async fn closed_and_broken_watches_go_on_where_they_were(start: Start) {
    let on = || Matcher::on("watch", start.carriers());
    let faults = vec![
        Fault::once(on(), FaultKind::CloseWatch { after_events: 1 }),
        Fault::once(on(), FaultKind::CutBody { after_bytes: 2_000 }),
        Fault::once(on(), FaultKind::CloseWatch { after_events: 2 }),
    ];
    survives(start, faults).await;
}

async fn an_expired_watch_lists_anew(start: Start) {
    let cluster = start.pool("a", 3).up().await;
    let history = cluster.history().await;
    let on = Matcher::on("watch", cluster.carriers());
    let expired = cluster.sandbox().inject(Fault::once(on, FaultKind::ExpireWatch { after_events: 2 }));
    cluster.sync(&repository(), &[]).await.exits(0).says("3 converged");
    assert_eq!(expired.struck(), 1);
    let lists = cluster.sandbox().wire().log.count("list", cluster.carriers());
    assert!(lists >= 3, "to find out about the binding, to plan, and anew: {lists}");
    assert_eq!(history.end().await.assigned(), ["a-1", "a-2", "a-3"]);
    cluster.down().await;
}

async fn an_expired_list_continuation_begins_anew(start: Start) {
    let cluster = start.pool("a", 520).up().await;
    let on = Matcher::on("list", "nodes");
    let expired = cluster.sandbox().inject(Fault::once(on, FaultKind::ContinueExpired));
    let run = cluster.run("diff", &repository(), &[]).await.exits(1).says("520 nodes to assign");
    assert_eq!(expired.struck(), 1, "{run}");
    cluster.down().await;
}

/// A cluster of three nodes, the first of which holds the others up, and a sync that has got that far.
async fn held_up(start: Start, more: &[&str]) -> (Cluster, crate::harness::Running, Repository) {
    let cluster = start.pool("a", 3).later("a-1", kubelets::Fault::NeverAcknowledges).up().await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, more);
    run.until_it_says("a/a-1 assigned").await;
    until("the watch is open", async || cluster.sandbox().wire().log.count("watch", "nodes") > 0).await;
    (cluster, run, repository)
}

async fn an_outage_in_the_middle_is_survived_and_logged_once(start: Start) {
    let (mut cluster, mut run, _repository) = held_up(start, &["-v"]).await;
    cluster.sandbox_mut().crash().await;
    run.until_it_says(TROUBLE).await;
    cluster.fault("a-1", None).await;
    cluster.until_node("a-1", "converges while nobody can see it", |state| state.settled()).await;
    cluster.sandbox_mut().recover().await;
    let run = run.end().await.exits(0).says("3 converged");
    assert_eq!(run.lines_with(TROUBLE), 1, "{run}");
    assert_eq!(run.lines_with("no request to the API server is held up any more"), 1, "{run}");
    cluster.down().await;
}

async fn an_outage_longer_than_the_patience_ends_the_run(start: Start) {
    let (mut cluster, run, _repository) = held_up(start, &["--request-timeout", "2s"]).await;
    cluster.sandbox_mut().crash().await;
    let run = run.end().await.exits(4);
    let yet = ["nodes", "nodeconfigs"].map(|resource| run.lines_with(&format!("cannot watch {resource} yet")));
    assert_eq!(yet.iter().sum::<usize>(), 1, "{run}");
    run.says("gave up after").says("stopped: pool a: the cluster failed:").says("1 in flight, 2 not started");
    cluster.down().await;
}

async fn a_server_that_is_not_there_is_not_waited_for(start: Start) {
    let mut cluster = start.pool("a", 1).up().await;
    cluster.sandbox_mut().crash().await;
    let began = Instant::now();
    let run = cluster.sync(&repository(), &[]).await.exits(4);
    run.says("cannot be reached: connection refused").says("check that the API server runs");
    // One that is only away for a while is waited for five minutes.
    assert!(began.elapsed() < Duration::from_secs(120));
    cluster.down().await;
}
