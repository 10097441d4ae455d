//! Tests of the queue of requests.

use super::*;
use kubelet_config::risk::Class;
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::connection::operation::{Operation, Resource, Verb};
use nodecfg_fleet::{Desired, RolloutPolicy};
use nodecfg_observed::Observed;
use nodecfg_plan::drain::fixtures::pod;
use nodecfg_plan::fixtures::{
    desired, namespace, node, node_name, observed, on, options, pause, policy, pool, pool_name, rendered,
};
use nodecfg_plan::{Options, make};
use nodecfg_rollout::End;

static CLOCK: ScaledClock = ScaledClock::real();

pub(super) const MODE: Mode = Mode { concurrency: 16, ..Mode::ASSIGN };

/// A rollout without gates and exceptions.
pub(super) fn rollout<'a>(
    plan: &'a Plan,
    desired: &'a Desired,
    observed: &'a Observed,
    options: &'a Options,
) -> Rollout<'a> {
    Rollout {
        plan,
        desired,
        observed,
        options,
        mode: MODE,
        gates: None,
        allowed: None,
        ignored_windows: None,
        clock: &CLOCK,
    }
}

/// An operator who pauses a pool expects that no further node of it changes, and that other pools continue.
#[test]
fn stopped_pool_withdraws_its_own_queued_assignments_only() {
    let desired = desired([pool("a", 64, policy(2)), pool("b", 64, policy(2))]);
    let observed = observed([node("a1", "a"), node("a2", "a"), node("a3", "a"), node("b1", "b"), node("b2", "b")]);
    let options = options();
    let plan = make(&desired, &observed, &options).expect("can be planned");
    let rollout = rollout(&plan, &desired, &observed, &options);
    let mut ignore = |_: Timestamp, _: &Event| {};
    let mut runner = Runner::new(rollout, &mut ignore);
    let queued = |runner: &Runner<'_>| runner.queue.texts();
    runner.step(Input::Start);
    assert_eq!(queued(&runner), ["assign a1", "assign a2", "assign b1", "assign b2"]);
    // The patch of a1 was sent and conflicted.
    runner.queue.next();
    runner.handle_response(Response::Changed(node_name("a1")));
    let paused = StopReason::Paused(pause("disks"));
    runner.step(Input::StopPool(pool_name("a"), paused));
    assert_eq!(queued(&runner), ["reread a1", "assign b1", "assign b2"], "a2 is withdrawn");
    let outcome = runner.machine.outcome();
    let ends: Vec<(&str, &End)> =
        outcome.pools.values().flat_map(|pool| &pool.nodes).map(|node| (node.node.as_str(), &node.end)).collect();
    let (sent, waits) = (&End::InFlight, &End::NotStarted);
    assert_eq!(ends, [("a1", sent), ("a2", waits), ("a3", waits), ("b1", sent), ("b2", sent)]);
}

/// New nodes start with what the pointer names, and queued nodes wait longer than they. So it goes first, also when a pool
/// that returns restores it.
#[test]
fn pointer_is_requested_before_queued_assignments() {
    let desired = Desired { pool_pointers: true, ..desired([pool("a", 64, policy(2))]) };
    let observed = observed(["a1", "a2", "a3"].map(|name| node(name, "a")));
    let options = options();
    let plan = make(&desired, &observed, &options).expect("can be planned");
    let mut ignore = |_: Timestamp, _: &Event| {};
    let mut runner = Runner::new(rollout(&plan, &desired, &observed, &options), &mut ignore);
    runner.step(Input::Start);
    runner.queue.next();
    runner.step(Input::Assigned(node_name("a1")));
    let converged = on(node("a1", "a"), &rendered("a", 64).source(&namespace()));
    runner.apply_event(NodeEvent::Upsert(Box::new(converged)));
    assert_eq!(runner.queue.texts(), ["point a", "assign a2", "assign a3"]);
    runner.queue.next();
    runner.move_pointer(&pool_name("a"), PoolPointer::to(None, None));
    assert_eq!(runner.queue.texts(), ["point a", "assign a2", "assign a3"]);
}

/// An assignment does not test labels, so a queued one must not reach a node that left its pool.
#[test]
fn node_that_leaves_its_pool_is_withdrawn_from_the_queue() {
    let desired = desired([pool("a", 64, policy(2))]);
    let observed = observed([node("a1", "a"), node("a2", "a")]);
    let options = options();
    let plan = make(&desired, &observed, &options).expect("can be planned");
    let rollout = rollout(&plan, &desired, &observed, &options);
    let mut ignore = |_: Timestamp, _: &Event| {};
    let mut runner = Runner::new(rollout, &mut ignore);
    runner.step(Input::Start);
    runner.apply_event(NodeEvent::Upsert(Box::new(node("a2", "b"))));
    assert_eq!(runner.queue.texts(), ["assign a1"]);
    let outcome = runner.machine.outcome();
    let end = outcome.pools.values().flat_map(|pool| &pool.nodes).find(|node| node.node.as_str() == "a2");
    assert_eq!(end.map(|node| &node.end), Some(&End::Changed { to: None }));
}

/// A deleted node must not use its pool's budget until its time limit.
#[test]
fn nodes_missing_from_a_new_list_are_gone() {
    let desired = desired([pool("a", 64, policy(1))]);
    let observed = observed([node("a1", "a"), node("a2", "a"), node("a3", "a")]);
    let options = options();
    let plan = make(&desired, &observed, &options).expect("can be planned");
    let rollout = rollout(&plan, &desired, &observed, &options);
    let mut ignore = |_: Timestamp, _: &Event| {};
    let mut runner = Runner::new(rollout, &mut ignore);
    runner.step(Input::Start);
    runner.queue.next();
    runner.handle_response(Response::Assigned(node_name("a1")));
    assert!(runner.queue.is_empty(), "the budget is used");
    // The new list has the present state of the others: a2 left its pool.
    runner.apply_event(NodeEvent::Relisted(vec![node("a2", "b"), node("a3", "a")]));
    assert_eq!(runner.queue.texts(), ["assign a3"]);
    let outcome = runner.machine.outcome();
    let ends: Vec<&End> = outcome.pools.values().flat_map(|pool| &pool.nodes).map(|node| &node.end).collect();
    assert_eq!(ends, [&End::Gone, &End::Changed { to: None }, &End::InFlight]);
}

/// A refused assignment and a lost connection may have one cause, and the first error names it.
#[test]
fn first_error_is_kept() {
    let desired = desired([pool("a", 64, policy(2))]);
    let observed = observed([node("a1", "a"), node("a2", "a")]);
    let options = options();
    let plan = make(&desired, &observed, &options).expect("can be planned");
    let rollout = rollout(&plan, &desired, &observed, &options);
    let mut ignore = |_: Timestamp, _: &Event| {};
    let mut runner = Runner::new(rollout, &mut ignore);
    let operation = || Box::new(Operation::on(Verb::Patch, Resource::Nodes, None, "a1"));
    let ended = StopReason::ClusterFailed { error: "the watch ended".to_owned() };
    runner.step(Input::Start);
    runner.handle_response(Response::Refused(
        node_name("a1"),
        ClusterError::Forbidden { operation: operation(), user: None },
    ));
    runner.cut_short(ended.clone(), None);
    assert!(matches!(runner.error, Some(ClusterError::Forbidden { .. })), "{:?}", runner.error);
    runner.cut_short(ended.clone(), Some(ClusterError::Expired { operation: operation() }));
    assert!(matches!(runner.error, Some(ClusterError::Forbidden { .. })), "{:?}", runner.error);
    runner.error = None;
    let denied = ClusterError::Forbidden { operation: operation(), user: None };
    runner.handle_response(Response::Reread(node_name("a1"), Box::new(Err(denied))));
    assert!(matches!(runner.error, Some(ClusterError::Forbidden { .. })), "{:?}", runner.error);
    runner.error = None;
    runner.cut_short(ended, Some(ClusterError::Expired { operation: operation() }));
    assert!(matches!(runner.error, Some(ClusterError::Expired { .. })), "{:?}", runner.error);
}

/// A node whose state is unknown is neither changed nor gone.
#[test]
fn node_that_cannot_be_read_again_is_refused() {
    let (desired, observed, options) = (desired([pool("a", 64, policy(1))]), observed([node("a1", "a")]), options());
    let plan = make(&desired, &observed, &options).expect("can be planned");
    let rollout = rollout(&plan, &desired, &observed, &options);
    let mut ignore = |_: Timestamp, _: &Event| {};
    let mut runner = Runner::new(rollout, &mut ignore);
    runner.step(Input::Start);
    runner.queue.next();
    runner.handle_response(Response::Changed(node_name("a1")));
    assert_eq!(runner.queue.texts(), ["reread a1"]);
    let operation = Box::new(Operation::on(Verb::Get, Resource::Nodes, None, "a1"));
    let denied = ClusterError::Forbidden { operation, user: None };
    runner.handle_response(Response::Reread(node_name("a1"), Box::new(Err(denied))));
    let outcome = runner.machine.outcome();
    let end = &outcome.pools[&pool_name("a")].nodes[0].end;
    assert!(matches!(end, End::Refused { .. }), "{end:?}");
}

/// The pods of a node are unknown without their watch, and no pod may be lost for a change that is not made.
#[test]
fn ended_watch_of_pods_ends_the_drain_and_its_queued_evictions() {
    let drains = RolloutPolicy { allow_disruption: Class::Drain, ..policy(1) };
    let (desired, observed, options) = (desired([pool("a", 64, drains)]), observed([node("a1", "a")]), options());
    let plan = make(&desired, &observed, &options).expect("can be planned");
    let rollout = rollout(&plan, &desired, &observed, &options);
    let mut ignore = |_: Timestamp, _: &Event| {};
    let mut runner = Runner::new(rollout, &mut ignore);
    runner.step(Input::Start);
    assert_eq!(runner.queue.texts(), ["mark a1"]);
    runner.queue.next();
    runner.step(Input::Marked(node_name("a1"), Ok(())));
    runner.pods_changed(node_name("a1"), Ok(PodChange::Listed(vec![pod("x"), pod("y")])));
    assert_eq!(runner.queue.texts(), ["evict a1 x", "evict a1 y"]);
    let operation = Box::new(Operation::on_all(Verb::Watch, Resource::Pods, None));
    runner.pods_changed(node_name("a1"), Err(ClusterError::Forbidden { operation, user: None }));
    assert_eq!(runner.queue.texts(), ["release a1"]);
    assert!(matches!(runner.pod_watches[..], [PodWatch::Open(_), PodWatch::Close(_)]));
    assert!(matches!(runner.error, Some(ClusterError::Forbidden { .. })), "{:?}", runner.error);
}

/// The run that took the lock drains, releases and rolls back nodes, and moves pointers now.
#[test]
fn lock_lost_by_any_request_ends_the_run() {
    let drains = RolloutPolicy { allow_disruption: Class::Drain, ..policy(1) };
    let (desired, observed, options) = (desired([pool("a", 64, drains)]), observed([node("a1", "a")]), options());
    let plan = make(&desired, &observed, &options).expect("can be planned");
    let lost = || ClusterError::LockLost {
        operation: Box::new(Operation::on(Verb::Patch, Resource::Nodes, None, "a1")),
        lease: "kube-system/nodecfg-fleet".to_owned(),
        reason: "another run took it".to_owned(),
    };
    let marked = Input::Marked(node_name("a1"), Err(lost().to_string()));
    for response in [
        Response::Refused(node_name("a1"), lost()),
        Response::Drain(vec![marked], Some(lost())),
        Response::Pointer(pool_name("a"), Err(lost())),
        Response::RolledBack(node_name("a1"), Err(lost())),
    ] {
        let rollout = rollout(&plan, &desired, &observed, &options);
        let mut ignore = |_: Timestamp, _: &Event| {};
        let mut runner = Runner::new(rollout, &mut ignore);
        runner.step(Input::Start);
        runner.queue.next();
        runner.handle_response(response);
        assert!(runner.lock_lost && runner.queue.is_empty());
        let outcome = runner.machine.outcome();
        assert_eq!(outcome.pools[&pool_name("a")].nodes[0].end, End::NotStarted);
        assert_eq!(outcome.pools[&pool_name("a")].stopped, Some(StopReason::LockLost));
    }
}
