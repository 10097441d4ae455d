//! Nodes that never had a configuration, in a run that only watches.

use super::*;
use nodecfg_observed::{CreationTime, Obstacle};
use nodecfg_plan::Why;

/// Accepts nodes that joined less than ten minutes ago.
const VERIFY: Mode = Mode {
    assign: false,
    timeout: Some(Duration::from_secs(30)),
    new_nodes_within: Some(Duration::from_secs(600)),
    ..ASSIGN
};

fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// A node that joined this long before the start.
fn joined(name: &str, seconds: i64) -> Node {
    Node { created: CreationTime::new(start() - SignedDuration::from_secs(seconds)), ..node(name, "a") }
}

/// A run that has seen these nodes.
fn run(nodes: &[Node], mode: Mode) -> Scenario {
    let mut scenario = rollout(nodes.to_vec(), policy(1), mode);
    scenario.machine.now.time = start();
    scenario.send(Input::Start);
    for node in nodes {
        assert!(scenario.see(node.clone()).is_empty());
    }
    scenario
}

fn new(seconds: i64) -> End {
    End::LeftAlone { why: Why::New { joined: start() - SignedDuration::from_secs(seconds) } }
}

fn timed_out(waiting: Waiting) -> End {
    End::Failed { failure: ConvergenceFailure::TimedOut { waiting }, rolled_back: false }
}

#[test]
fn recent_node_is_not_awaited() {
    let scenario = run(&[joined("n1", 599)], VERIFY);
    assert_eq!(scenario.end("n1"), new(599));
    assert!(scenario.is_finished() && scenario.is_complete());
}

#[test]
fn node_of_the_future_is_recent() {
    assert_eq!(run(&[joined("n1", -3600)], VERIFY).end("n1"), new(-3600));
}

#[test]
fn old_node_fails_at_the_time_limit_with_its_age() {
    let mut scenario = run(&[joined("n1", 600), joined("n2", 10)], VERIFY);
    assert_eq!((scenario.end("n1"), scenario.end("n2")), (End::InFlight, new(10)));
    scenario.wait(30);
    let since = start() - SignedDuration::from_secs(600);
    assert_eq!(scenario.end("n1"), timed_out(Waiting::NeverAssigned { joined: since, age_seconds: 630 }));
    assert!(scenario.is_finished() && !scenario.is_complete());
}

#[test]
fn old_node_that_a_sync_reaches_converges() {
    let mut scenario = run(&[joined("n1", 6000)], VERIFY);
    scenario.see_on_target("n1");
    assert_eq!(scenario.end("n1"), End::Converged);
}

#[test]
fn node_with_an_earlier_configuration_is_not_new() {
    let before = Node { assigned_before: true, ..joined("n1", 10) };
    let mut scenario = run(&[before, node("n2", "a")], VERIFY);
    scenario.wait(30);
    assert_eq!(
        (scenario.end("n1"), scenario.end("n2")),
        (timed_out(Waiting::NotAssigned), timed_out(Waiting::NotAssigned))
    );
}

#[test]
fn kubelet_that_has_just_started_is_accepted_for_a_while() {
    let silent = |name, seconds| Node { obstacle: Some(Obstacle::NoDynamicConfig), ..joined(name, seconds) };
    let scenario = run(&[silent("n1", 10), silent("n2", 6000)], VERIFY);
    assert_eq!(
        (scenario.end("n1"), scenario.end("n2")),
        (new(10), End::LeftAlone { why: Why::Obstacle(Obstacle::NoDynamicConfig) })
    );
}

#[test]
fn new_nodes_are_awaited_by_default() {
    let mut scenario = run(&[joined("n1", 10)], Mode { new_nodes_within: None, ..VERIFY });
    assert_eq!(scenario.end("n1"), End::InFlight);
    scenario.wait(30);
    assert_eq!(scenario.end("n1"), timed_out(Waiting::NotAssigned));
    let mut assigning = rollout([joined("n1", 10)], policy(1), Mode { assign: true, ..VERIFY });
    assigning.machine.now.time = start();
    assert_eq!(assigning.send(Input::Start), ["assign n1"], "a sync assigns new nodes");
    assigning.see(joined("n1", 10));
    assert_ne!(assigning.end("n1"), new(10));
}

fn no_sync(waiting: Waiting) -> End {
    End::Failed { failure: ConvergenceFailure::NoSync { waiting }, rolled_back: false }
}

#[test]
fn unassigned_nodes_fail_at_once_when_no_sync_runs() {
    let mode = Mode { new_nodes_within: None, ..VERIFY };
    let mut scenario = run(&[node("n1", "a"), node("n2", "a"), joined("n3", 10)], mode);
    scenario.see(Node { source: Some(target()), ..node("n2", "a") });
    scenario.send(Input::NoSync { joining: false });
    for name in ["n1", "n3"] {
        assert_eq!(scenario.end(name), no_sync(Waiting::NotAssigned), "{name}");
    }
    assert_eq!((scenario.end("n2"), scenario.is_finished()), (End::InFlight, false), "it may converge");
    // Another client points the node elsewhere.
    scenario.see(node("n2", "a"));
    assert_eq!((scenario.end("n2"), scenario.is_finished()), (no_sync(Waiting::NotAssigned), true));
}

#[test]
fn node_that_may_join_by_itself_is_awaited_until_the_time_limit() {
    let mode = Mode { new_nodes_within: None, ..VERIFY };
    let before = Node { assigned_before: true, ..joined("n2", 10) };
    let mut scenario = run(&[joined("n1", 10), before, joined("n3", 30)], mode);
    scenario.send(Input::NoSync { joining: true });
    assert_eq!(scenario.end("n1"), End::InFlight);
    assert_eq!(
        (scenario.end("n2"), scenario.end("n3")),
        (no_sync(Waiting::NotAssigned), no_sync(Waiting::NotAssigned))
    );
    scenario.wait(19);
    scenario.see(joined("n1", 10));
    assert_eq!(scenario.end("n1"), End::InFlight);
    scenario.wait(1);
    scenario.see(joined("n1", 10));
    assert_eq!(scenario.end("n1"), no_sync(Waiting::NotAssigned));
}

#[test]
fn without_a_sync_the_failure_of_an_old_new_node_states_its_age() {
    let mut scenario = run(&[joined("n1", 600), joined("n2", 10)], VERIFY);
    scenario.send(Input::NoSync { joining: false });
    let since = start() - SignedDuration::from_secs(600);
    assert_eq!(scenario.end("n1"), no_sync(Waiting::NeverAssigned { joined: since, age_seconds: 600 }));
    assert_eq!((scenario.end("n2"), scenario.is_finished()), (new(10), true));
}

#[test]
fn run_that_assigns_nodes_ignores_that_no_other_sync_runs() {
    let mut scenario = rollout([node("n1", "a"), node("n2", "a")], policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.send(Input::NoSync { joining: false });
    assert_eq!((scenario.end("n1"), scenario.end("n2")), (End::InFlight, End::NotStarted));
}
