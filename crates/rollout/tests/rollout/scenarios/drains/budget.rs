//! Scenarios of the budget of unavailable nodes and of canaries.

use super::*;

#[test]
fn drains_of_unavailable_nodes_are_limited_by_the_budget() {
    let mut cluster = cluster(&["n1", "n2", "n3"]);
    cluster.nodes.values_mut().for_each(|node| node.ready = Readiness::NotReady);
    let mut scenario = rollout_over(&cluster, drains(1));
    assert_eq!(scenario.send(Input::Start), ["mark n1"]);
}

#[test]
fn node_that_becomes_unavailable_is_drained_in_its_turn() {
    let mut scenario = rollout(drains(1), &["n1", "n2"]);
    assert_eq!(scenario.send(Input::Start), ["mark n1"]);
    assert_eq!(scenario.observe("n2", |node| Node { ready: Readiness::NotReady, ..node }), [""; 0]);
    assert_eq!(scenario.marked("n1"), ["watch n1"]);
    scenario.pods("n1", []);
    assert_eq!(scenario.send(Input::Volumes(node_name("n1"), Ok(0))), ["unwatch n1", "assign n1 drain"]);
    assert_eq!(scenario.send(Input::Assigned(node_name("n1"))), ["mark n2"]);
    assert_eq!(scenario.marked("n2"), ["watch n2"]);
    scenario.pods("n2", []);
    assert_eq!(scenario.send(Input::Volumes(node_name("n2"), Ok(0))), ["unwatch n2", "assign n2 drain"]);
    scenario.send(Input::Assigned(node_name("n2")));
    // It was not Ready before, so it need not be.
    scenario.observe("n2", |node| on(node, &source(NEW)));
    assert_eq!(scenario.wait(30), ["release n2"]);
}

#[test]
fn node_whose_drain_failed_takes_budget_until_it_is_released() {
    let mut policy = drains(1);
    policy.max_failures = 1;
    let mut scenario = rollout(policy, &["n1", "n2"]);
    scenario.send(Input::Start);
    // The watch has not shown the mark yet.
    scenario.send(Input::Marked(node_name("n1"), Ok(())));
    let unmanaged = Pod { controller: None, ..pod("a") };
    assert_eq!(scenario.pods("n1", [unmanaged]), ["unwatch n1", "release n1"]);
    assert!(!scenario.is_finished());
    assert_eq!(scenario.observe("n2", |node| node), [""; 0]);
    assert_eq!(scenario.end_release("n1"), ["mark n2"]);
}

#[test]
fn failed_drain_does_not_exhaust_the_budget() {
    let mut policy = drains(1);
    policy.max_failures = 1;
    let mut scenario = rollout(policy, &["n1", "n2"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    scenario.pods("n1", [Pod { controller: None, ..pod("a") }]);
    assert_eq!(scenario.send(Input::Released(node_name("n1"), Ok(()))), [""; 0], "n1 still has the taint");
    assert_eq!(scenario.observe("n1", unmarked), ["mark n2"]);
}

#[test]
fn canary_that_settles_keeps_the_gate_closed() {
    let policy = RolloutPolicy { canary: canary(1, 0), ..drains(2) };
    let mut scenario = rollout(policy, &["n1", "n2"]);
    assert_eq!(scenario.send(Input::Start), ["mark n1"]);
    assert_eq!(scenario.released("n1"), ["mark n2"]);
}
