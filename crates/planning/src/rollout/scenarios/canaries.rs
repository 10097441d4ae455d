//! Scenario tests of canaries and their soak time.

use super::{ASSIGN, Scenario, three};
use crate::plan::fixtures::{canary, node, node_name, on, policy};
use crate::rollout::machine::Input;
use crate::rollout::progress::Progress;
use crate::rollout::{End, StopReason};
use nodecfg_contract::observed::{Node, Readiness};

#[test]
fn canaries_soak_before_other_nodes_start() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1"]);
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["n2", "n3"]);
    assert!(scenario.progress.iter().any(|progress| matches!(progress, Progress::Soaking { .. })));
}

#[test]
fn restarts_soak_after_readiness_loss() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.wait(30);
    let unready = Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &Scenario::target()) };
    scenario.send(Input::Observed(Box::new(unready)));
    assert!(scenario.wait(40).is_empty(), "the soak restarts");
    scenario.send(Input::Observed(Box::new(on(node("n1", "a"), &Scenario::target()))));
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["n2", "n3"]);
}

#[test]
fn failed_canary_stops_pool_regardless_of_max_failures() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    policy.max_failures = 5;
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    assert!(scenario.refuse("n1").is_empty());
    assert_eq!(scenario.stopped(), Some(StopReason::CanaryFailed { node: node_name("n1") }));
    assert_eq!(scenario.end("n2"), End::NotStarted);
    assert!(scenario.machine.is_finished());
}

#[test]
fn replaces_canary_that_leaves_the_cluster() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    assert_eq!(scenario.send(Input::Gone(node_name("n1"))), ["n2"]);
    assert!(scenario.converge("n2").is_empty());
    assert_eq!(scenario.wait(60), ["n3"]);
}

#[test]
fn skips_removed_node_as_replacement_canary() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Gone(node_name("n2")));
    assert_eq!(scenario.send(Input::Gone(node_name("n1"))), ["n3"], "the next existing node");
}

#[test]
fn fails_canary_with_repeated_readiness_losses() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    for _ in 0..10 {
        let unready = Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &Scenario::target()) };
        scenario.send(Input::Observed(Box::new(unready)));
        scenario.wait(30);
        scenario.send(Input::Observed(Box::new(on(node("n1", "a"), &Scenario::target()))));
        scenario.wait(30);
    }
    assert_eq!(scenario.stopped(), Some(StopReason::CanaryFailed { node: node_name("n1") }));
}
