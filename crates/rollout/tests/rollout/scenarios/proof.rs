//! Scenario tests of what a node must have again before it counts as converged.

use super::{ASSIGN, rollout, rollout_over, target, three};
use crate::scenario::Scenario;
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::{ExtendedResources, Node, Readiness};
use nodecfg_plan::convergence::{ConvergenceFailure, Waiting};
use nodecfg_plan::fixtures;
use nodecfg_plan::fixtures::{canary, node, node_name, on, policy, rendered, with_config_map};
use nodecfg_rollout::End;
use nodecfg_rollout::machine::{Input, Mode};
use nodecfg_rollout::progress::Progress;

fn gpus(number: u64) -> ExtendedResources {
    ExtendedResources::from([("nvidia.com/gpu", number)])
}

fn with_gpus(number: u64, node: Node) -> Node {
    Node { extended_resources: gpus(number), ..node }
}

fn missing(present: u64) -> Waiting {
    Waiting::ResourceMissing { resource: "nvidia.com/gpu".to_owned(), present, before: 8 }
}

/// The node on its target, with this number of devices.
fn converged(name: &str, number: u64) -> Node {
    with_gpus(number, on(node(name, "a"), &target()))
}

/// A rollout of nodes with 8 devices each, of which the first has been assigned.
fn with_devices(nodes: impl IntoIterator<Item = Node>, policy: RolloutPolicy, mode: Mode) -> Scenario {
    let nodes: Vec<Node> = nodes.into_iter().map(|node| with_gpus(8, node)).collect();
    let mut scenario = rollout(nodes.clone(), policy, mode);
    scenario.send(Input::Start);
    for node in nodes {
        scenario.see(node);
    }
    scenario.assigned("n1");
    scenario
}

impl Scenario {
    fn last_wait(&self) -> Option<&Waiting> {
        self.progress().rev().find_map(|progress| match progress {
            Progress::Waiting { waiting, .. } => Some(waiting),
            _ => None,
        })
    }
}

#[test]
fn node_converges_when_its_devices_are_back() {
    let mut scenario = with_devices(three(), policy(1), ASSIGN);
    assert!(scenario.see(converged("n1", 0)).is_empty());
    assert_eq!(scenario.last_wait(), Some(&missing(0)));
    assert!(scenario.see(converged("n1", 7)).is_empty());
    assert_eq!((scenario.last_wait(), scenario.end("n1")), (Some(&missing(7)), End::InFlight));
    assert!(scenario.see(converged("n1", 8)).is_empty());
    assert_eq!(scenario.last_wait(), Some(&Waiting::Checking));
    assert_eq!(scenario.wait(5), ["assign n2"]);
}

/// A fast kubelet may have restarted before the response to the assignment.
#[test]
fn devices_of_the_new_kubelet_are_not_those_of_before() {
    let nodes = three().map(|node| with_gpus(8, node));
    let mut scenario = rollout(nodes.clone(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    for node in nodes {
        scenario.see(node);
    }
    scenario.see(converged("n1", 0));
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.wait(60);
    assert_eq!((scenario.last_wait(), scenario.end("n1")), (Some(&missing(0)), End::InFlight));
}

/// The first status with the new configuration may have the devices of the old kubelet.
#[test]
fn devices_that_vanish_right_after_the_convergence_are_missed() {
    let mut scenario = with_devices(three(), policy(1), ASSIGN);
    assert!(scenario.see(converged("n1", 8)).is_empty());
    scenario.wait(4);
    scenario.see(converged("n1", 0));
    assert!(scenario.wait(60).is_empty());
    assert_eq!((scenario.last_wait(), scenario.end("n1")), (Some(&missing(0)), End::InFlight));
    assert_eq!(scenario.see(converged("n1", 8)), ["assign n2"]);
}

#[test]
fn node_without_its_devices_fails_at_its_time_limit() {
    let mut scenario = with_devices(three(), policy(1), ASSIGN);
    scenario.see(converged("n1", 0));
    scenario.wait(299);
    assert_eq!(scenario.end("n1"), End::InFlight);
    scenario.wait(1);
    let failure = ConvergenceFailure::TimedOut { waiting: missing(0) };
    assert_eq!(failure.to_string(), "timed out: active, waiting for nvidia.com/gpu: 0 of 8 are back");
    assert_eq!(scenario.end("n1"), End::Failed { failure, rolled_back: false });
}

#[test]
fn last_state_before_the_assignment_counts() {
    let mut scenario = with_devices(three(), policy(1), ASSIGN);
    // A device of n2 fails while the node waits for its turn. The devices of n1 are not those of before any more.
    scenario.see(with_gpus(7, node("n2", "a")));
    scenario.see(converged("n1", 8));
    assert_eq!(scenario.wait(5), ["assign n2"]);
    scenario.assigned("n2");
    scenario.see(converged("n2", 7));
    assert_eq!(scenario.wait(5), ["assign n3"]);
    assert_eq!(scenario.end("n2"), End::Converged);
}

#[test]
fn conflict_shows_the_state_before_the_next_assignment() {
    let mut scenario = with_devices(three(), policy(1), ASSIGN);
    scenario.see(converged("n1", 8));
    scenario.wait(5);
    let fewer = with_gpus(6, node("n2", "a"));
    assert_eq!(scenario.conflict(fewer), ["assign n2"]);
    scenario.assigned("n2");
    scenario.see(converged("n2", 6));
    assert_eq!(scenario.wait(5), ["assign n3"]);
}

/// The amount before the restart is unknown to a run that did not assign the node.
#[test]
fn nothing_must_return_to_a_node_that_was_assigned_before() {
    let assigned = |name| with_gpus(0, Node { source: Some(target()), ..node(name, "a") });
    for mode in [ASSIGN, Mode { assign: false, ..ASSIGN }] {
        let mut scenario = rollout([assigned("n1")], policy(1), mode);
        scenario.send(Input::Start);
        scenario.see(assigned("n1"));
        scenario.see(converged("n1", 0));
        assert_eq!(scenario.end("n1"), End::Converged);
    }
}

#[test]
fn nothing_must_return_to_a_node_that_had_none_or_was_down() {
    let down = Node { ready: Readiness::Unknown, ..with_gpus(8, node("n1", "a")) };
    for before in [with_gpus(0, node("n1", "a")), down] {
        let mut scenario = rollout([before.clone()], policy(1), ASSIGN);
        scenario.send(Input::Start);
        scenario.see(before);
        scenario.send(Input::Assigned(node_name("n1")));
        scenario.see(converged("n1", 0));
        assert_eq!(scenario.end("n1"), End::Converged);
    }
}

#[test]
fn soaking_canary_that_loses_devices_regresses() {
    let policy = || RolloutPolicy { canary: canary(1, 60), ..policy(3) };
    let mut scenario = with_devices(three(), policy(), ASSIGN);
    scenario.see(converged("n1", 8));
    scenario.wait(5);
    scenario.wait(30);
    scenario.see(converged("n1", 7));
    assert_eq!((scenario.last_wait(), scenario.end("n1")), (Some(&missing(7)), End::InFlight));
    assert!(scenario.wait(40).is_empty(), "the soak restarts");
    scenario.see(converged("n1", 8));
    scenario.wait(5);
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n2", "assign n3"]);
    // Later, another node is not judged by the loss of a device.
    scenario.see(converged("n1", 0));
    assert_eq!(scenario.end("n1"), End::Converged);
}

#[test]
fn rollback_is_done_when_the_devices_are_back() {
    let old = rendered("a", 110).source(&fixtures::namespace());
    let before = with_gpus(8, on(node("n1", "a"), &old));
    let mut cluster = fixtures::observed([before.clone()]);
    with_config_map(&mut cluster, "a", &rendered("a", 110));
    cluster.contents.extend([fixtures::fetched(&old, &rendered("a", 110).canonical, true)]);
    let mut scenario = rollout_over(cluster, policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
    scenario.send(Input::Start);
    scenario.see(before.clone());
    scenario.assigned("n1");
    scenario.see(converged("n1", 0));
    scenario.wait(300);
    assert_eq!(scenario.rolled_back(), ["n1"]);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    scenario.see(with_gpus(0, before.clone()));
    assert!(!scenario.is_finished(), "the devices are missing");
    scenario.see(before);
    assert!(scenario.is_finished());
    assert!(matches!(scenario.end("n1"), End::Failed { rolled_back: true, .. }));
}
