//! Scenario tests of canaries and their soak time.

use std::time::Duration;

use super::{ASSIGN, down, rollout, target, three};
use nodecfg_contract::error_text;
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::{Node, Readiness};
use nodecfg_plan::fixtures::{canary, node, node_name, on, policy, refusing};
use nodecfg_rollout::machine::{Input, Mode};
use nodecfg_rollout::progress::Progress;
use nodecfg_rollout::{End, StopReason};

#[test]
fn canaries_soak_before_other_nodes_start() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n2", "assign n3"]);
    assert!(scenario.progress().any(|progress| matches!(progress, Progress::Soaking { .. })));
}

#[test]
fn restarts_soak_after_readiness_loss() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.wait(30);
    let unready = Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target()) };
    scenario.see(unready);
    assert!(scenario.wait(40).is_empty(), "the soak restarts");
    scenario.see_on_target("n1");
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n2", "assign n3"]);
}

#[test]
fn failed_canary_stops_pool_regardless_of_max_failures() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    policy.max_failures = 5;
    let mut scenario = rollout(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    assert!(scenario.refuse("n1").is_empty());
    assert_eq!(scenario.stopped(), Some(StopReason::CanaryFailed { node: node_name("n1") }));
    assert_eq!(scenario.end("n2"), End::NotStarted);
    assert!(scenario.is_finished());
}

#[test]
fn replaces_canary_that_leaves_the_cluster() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    assert_eq!(scenario.send(Input::Gone(node_name("n1"))), ["assign n2"]);
    assert!(scenario.converge("n2").is_empty());
    assert_eq!(scenario.wait(60), ["assign n3"]);
}

#[test]
fn skips_removed_node_as_replacement_canary() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Gone(node_name("n2")));
    assert_eq!(scenario.send(Input::Gone(node_name("n1"))), ["assign n3"], "the next existing node");
}

#[test]
fn fails_canary_with_repeated_readiness_losses() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    for _ in 0..10 {
        let unready = Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target()) };
        scenario.see(unready);
        scenario.wait(30);
        scenario.see_on_target("n1");
        scenario.wait(30);
    }
    assert_eq!(scenario.stopped(), Some(StopReason::CanaryFailed { node: node_name("n1") }));
}

#[test]
fn down_node_is_replaced_as_canary() {
    let mut policy = policy(2);
    policy.canary = canary(3, 0);
    let nodes = ["n1", "n2", "n3", "n4"].map(|name| node(name, "a"));
    let mut scenario = rollout(nodes, policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    let down = Node { ready: Readiness::Unknown, ..node("n3", "a") };
    assert_eq!(scenario.see(down), ["assign n3"], "it needs no budget");
    scenario.send(Input::Assigned(node_name("n3")));
    scenario.converge("n1");
    scenario.converge("n2");
    assert_eq!(scenario.wait(300), ["assign n4"], "n3 proves nothing about the configuration");
    assert!(matches!(scenario.end("n3"), End::Failed { .. }));
    assert_eq!(scenario.state().canaries, 1, "n4 is a canary");
    scenario.converge("n4");
    assert!(scenario.is_finished() && scenario.stopped().is_none());
}

/// A configuration that no canary runs yet is no repair for a node that is down.
#[test]
fn node_that_goes_down_waits_for_the_canaries_but_not_for_budget() {
    let mut policy = policy(1);
    policy.canary = canary(1, 60);
    let mut scenario = rollout(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.see(down("n3")).is_empty());
    assert!(scenario.converge("n1").is_empty());
    assert_eq!(scenario.wait(60), ["assign n3"], "n3 uses the budget itself");
}

#[test]
fn stopped_pool_does_not_soak() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert!(scenario.converge("n1").is_empty());
    assert!(!scenario.progress().any(|progress| matches!(progress, Progress::Soaking { .. })));
}

#[test]
fn canaries_of_a_stopped_pool_do_not_pass() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert!(scenario.wait(60).is_empty());
    assert!(!scenario.progress().any(|progress| matches!(progress, Progress::Soaked)));
}

#[test]
fn after_the_canaries_the_gate_stays_open() {
    let mut policy = policy(2);
    (policy.canary, policy.max_failures) = (canary(1, 0), 5);
    let nodes = ["n1", "n2", "n3", "n4", "n5", "n6"].map(|name| node(name, "a"));
    let mut scenario = rollout(nodes, policy, ASSIGN);
    scenario.send(Input::Start);
    assert_eq!(scenario.converge("n1"), ["assign n2", "assign n3"]);
    // A former canary is a node like any other.
    let failed = refusing(node("n1", "a"), &target(), error_text::VALIDATE);
    scenario.see(failed);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));
    assert_eq!(scenario.stopped(), None);
    scenario.send(Input::Gone(node_name("n1")));
    assert_eq!(scenario.converge("n2"), ["assign n4"]);
    assert_eq!(scenario.converge("n3"), ["assign n5"], "n4 is not a canary");
}

#[test]
fn soak_and_time_limit_follow_the_speed_of_the_nodes() {
    let fast = Mode { speed: 10.0, ..ASSIGN };
    let mut policy = policy(3);
    (policy.canary, policy.convergence_timeout) = (canary(1, 600), Duration::from_secs(300));
    let mut scenario = rollout(three(), policy, fast);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n2", "assign n3"]);
    scenario.assigned("n2");
    scenario.wait(29);
    assert!(!matches!(scenario.end("n2"), End::Failed { .. }));
    scenario.wait(1);
    assert!(matches!(scenario.end("n2"), End::Failed { .. }), "{:?}", scenario.end("n2"));
}

#[test]
fn canary_that_recovers_before_its_start_stays_a_canary() {
    let nodes = ["n1", "n2", "n3", "n4"].map(|name| node(name, "a"));
    let mut policy = policy(2);
    policy.canary = canary(2, 60);
    let mut scenario = rollout(nodes, policy, Mode { concurrency: 1, ..ASSIGN });
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.see(down("n2")).is_empty());
    assert!(scenario.see(node("n2", "a")).is_empty());
    assert_eq!(scenario.send(Input::Assigned(node_name("n1"))), ["assign n2"]);
    scenario.send(Input::Assigned(node_name("n2")));
    for name in ["n1", "n2"] {
        scenario.see(on(node(name, "a"), &target()));
    }
    scenario.see(Node { ready: Readiness::NotReady, ..on(node("n2", "a"), &target()) });
    assert!(scenario.wait(60).is_empty(), "its soak starts again");
}

/// An unavailable node needs no budget, so that it waits for no canary that needs some.
#[test]
fn unavailable_canary_starts_before_one_that_waits_for_budget() {
    let nodes = ["n1", "n2", "n3"].map(|name| node(name, "a"));
    let mut scenario = rollout(nodes, RolloutPolicy { canary: canary(3, 0), ..policy(1) }, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert_eq!(scenario.see(down("n3")), ["assign n3"]);
}
