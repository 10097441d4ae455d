//! Scenario tests of assignments that the API server refuses, or that conflict with another client.

use super::{ASSIGN, Mode, rollout, three};
use crate::scenario::Scenario;
use nodecfg_observed::{Node, Readiness};
use nodecfg_plan::fixtures::{node, node_name, on, policy, source, with_config_map};
use nodecfg_rollout::machine::Input;
use nodecfg_rollout::{End, StopReason};

/// The node on a ConfigMap that another client of this fleet assigned after the plan.
fn moved(scenario: &mut Scenario, name: &str) -> Node {
    let theirs = nodecfg_plan::fixtures::rendered("a", 30);
    with_config_map(&mut scenario.cluster, "a", &theirs);
    on(node(name, "a"), &theirs.source(&nodecfg_plan::fixtures::namespace()))
}

/// The response may be wrong: the node may already restart its kubelet.
#[test]
fn refused_assignment_uses_budget_until_the_node_is_seen() {
    let mut policy = policy(1);
    policy.max_failures = 5;
    let mut scenario = rollout(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.send(Input::Refused(node_name("n1"), "no".to_owned())).is_empty(), "n1 may be unavailable");
    assert!(matches!(scenario.end("n1"), End::Refused { .. }));
    assert_eq!(scenario.see(node("n1", "a")), ["assign n2"]);
}

#[test]
fn gives_up_a_node_that_another_client_changes_each_time() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    for _ in 0..3 {
        let current = moved(&mut scenario, "n1");
        assert_eq!(scenario.conflict(current), ["assign n1"]);
    }
    let current = moved(&mut scenario, "n1");
    assert_eq!(scenario.conflict(current), ["assign n2"]);
    assert!(matches!(scenario.end("n1"), End::Changed { to: Some(_) }));
}

#[test]
fn stopped_pool_sends_no_assignment_again() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Stop(StopReason::Interrupted));
    let current = moved(&mut scenario, "n1");
    assert!(scenario.conflict(current).is_empty());
    assert!(matches!(scenario.end("n1"), End::Changed { to: Some(_) }));
    assert!(scenario.is_finished());
}

#[test]
fn reviewed_plan_sends_only_reviewed_assignments() {
    let mut scenario = rollout(three(), policy(1), Mode { as_reviewed: true, ..ASSIGN });
    scenario.send(Input::Start);
    // The decision is the reviewed one: the response to the first patch was lost before it arrived.
    assert_eq!(scenario.conflict(node("n1", "a")), ["assign n1"]);
    let current = moved(&mut scenario, "n1");
    assert_eq!(scenario.conflict(current), ["assign n2"], "no reviewer saw a change from this source");
    assert!(matches!(scenario.end("n1"), End::Changed { to: Some(_) }));
    assert_eq!(scenario.conflict(on(node("n2", "a"), &source("theirs"))), ["assign n3"]);
}

#[test]
fn recovered_nodes_need_budget_when_they_are_assigned_again() {
    let lost = three().map(|node| Node { ready: Readiness::Unknown, ..node });
    let mut scenario = rollout(lost, policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start).len(), 3);
    let again: Vec<String> =
        ["n1", "n2", "n3"].into_iter().flat_map(|name| scenario.conflict(node(name, "a"))).collect();
    assert_eq!(again.len(), 1, "{again:?}");
}
