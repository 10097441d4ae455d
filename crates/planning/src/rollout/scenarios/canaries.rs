//! Canaries: what the other nodes of a pool wait for.

use super::{ASSIGN, Story, three};
use crate::plan::fixtures::{canary, node, node_name, on, policy};
use crate::rollout::machine::Input;
use crate::rollout::progress::Progress;
use crate::rollout::{End, StopReason};
use nodecfg_contract::observed::{Node, Readiness};

#[test]
fn canaries_soak_before_the_others_follow() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut story = Story::new(three(), policy, ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1"]);
    assert!(story.converge("n1").is_empty());
    assert!(story.wait(59).is_empty());
    assert_eq!(story.wait(1), ["n2", "n3"]);
    assert!(story.told.iter().any(|told| matches!(told, Progress::Soaking { .. })));
}

#[test]
fn a_canary_that_loses_readiness_soaks_anew() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut story = Story::new(three(), policy, ASSIGN);
    story.tell(Input::Start);
    story.converge("n1");
    story.wait(30);
    let unready = Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &Story::target()) };
    story.tell(Input::Observed(Box::new(unready)));
    assert!(story.wait(40).is_empty(), "the first soak counts for nothing");
    story.tell(Input::Observed(Box::new(on(node("n1", "a"), &Story::target()))));
    assert!(story.wait(59).is_empty());
    assert_eq!(story.wait(1), ["n2", "n3"]);
}

#[test]
fn a_failed_canary_stops_the_pool_whatever_max_failures_says() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    policy.max_failures = 5;
    let mut story = Story::new(three(), policy, ASSIGN);
    story.tell(Input::Start);
    assert!(story.refuse("n1").is_empty());
    assert_eq!(story.stopped(), Some(StopReason::CanaryFailed { node: node_name("n1") }));
    assert_eq!(story.end("n2"), End::NotStarted);
    assert!(story.machine.is_finished());
}

#[test]
fn a_canary_that_leaves_the_cluster_is_replaced() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut story = Story::new(three(), policy, ASSIGN);
    story.tell(Input::Start);
    assert_eq!(story.tell(Input::Gone(node_name("n1"))), ["n2"]);
    assert!(story.converge("n2").is_empty());
    assert_eq!(story.wait(60), ["n3"]);
}

#[test]
fn a_pending_node_that_left_is_no_canary() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut story = Story::new(three(), policy, ASSIGN);
    story.tell(Input::Start);
    story.tell(Input::Gone(node_name("n2")));
    assert_eq!(story.tell(Input::Gone(node_name("n1"))), ["n3"], "the next that is there");
}

#[test]
fn a_canary_that_flaps_is_a_failure_in_the_end() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut story = Story::new(three(), policy, ASSIGN);
    story.tell(Input::Start);
    story.converge("n1");
    for _ in 0..10 {
        let unready = Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &Story::target()) };
        story.tell(Input::Observed(Box::new(unready)));
        story.wait(30);
        story.tell(Input::Observed(Box::new(on(node("n1", "a"), &Story::target()))));
        story.wait(30);
    }
    assert_eq!(story.stopped(), Some(StopReason::CanaryFailed { node: node_name("n1") }));
}
