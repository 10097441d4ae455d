//! Scenario tests of the pods of a node, which must be back before it counts as converged.

use std::time::Duration;

use super::{ASSIGN, down, rollout, target, three};
use crate::scenario::Scenario;
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::{Maintainer, Node, Pod, Readiness, Rejection};
use nodecfg_plan::convergence::ConvergenceFailure;
use nodecfg_plan::convergence::pods::LatePods;
use nodecfg_plan::drain::fixtures::pod;
use nodecfg_plan::fixtures::{canary, exclusion, node, node_name, on, policy};
use nodecfg_rollout::machine::{Input, Mode};
use nodecfg_rollout::progress::Progress;
use nodecfg_rollout::{BeforeAfter, End, Recovery, StopReason};

const LIST: Mode = Mode { list_pods: true, ..ASSIGN };

fn unready(name: &str) -> Pod {
    Pod { ready: false, ..pod(name) }
}

fn refused(name: &str) -> Pod {
    let rejection = Rejection { reason: "TopologyAffinityError".to_owned(), message: "no room".to_owned() };
    Pod { finished: true, rejection: Some(Box::new(rejection)), ..unready(name) }
}

impl Scenario {
    /// Answers a list of pods.
    fn listed(&mut self, name: &str, pods: impl IntoIterator<Item = Pod>) -> Vec<String> {
        self.send(Input::PodsListed(node_name(name), Ok(pods.into_iter().collect())))
    }

    /// Answers the list before the assignment, assigns the node and lets it converge.
    fn converge_with(&mut self, name: &str, pods: impl IntoIterator<Item = Pod>) {
        assert_eq!(self.lists().last(), Some(&name));
        assert_eq!(self.listed(name, pods), [format!("assign {name}")]);
        assert_eq!(self.converge(name), [""; 0]);
    }

    /// Delivers a node that is not Ready on its target.
    fn lose(&mut self, name: &str) {
        self.see(Node { ready: Readiness::NotReady, ..on(node(name, "a"), &target()) });
    }

    fn failure(&self, name: &str) -> String {
        match self.end(name) {
            End::Failed { failure, .. } => failure.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

/// A rollout that lists the pods of its first nodes.
fn started(nodes: impl IntoIterator<Item = Node>, policy: RolloutPolicy) -> Scenario {
    let mut scenario = rollout(nodes, policy, LIST);
    let sent = scenario.send(Input::Start);
    assert!(sent.iter().all(|command| command.starts_with("list ")), "the pods before are unknown: {sent:?}");
    scenario
}

fn one_at_a_time() -> Scenario {
    started(three(), policy(1))
}

/// A rollout of one node at a time, which lists the pods of its first node after the convergence.
fn listed_again(before: impl IntoIterator<Item = Pod>) -> Scenario {
    let mut scenario = one_at_a_time();
    scenario.converge_with("n1", before);
    assert_eq!(scenario.wait(5), ["list n1"]);
    scenario
}

#[test]
fn pods_are_listed_before_the_assignment_and_after_the_convergence() {
    let mut scenario = one_at_a_time();
    scenario.converge_with("n1", [pod("a"), unready("b")]);
    assert_eq!(scenario.waits().last().unwrap(), "n1: active, its devices and pods are checked");
    // The new kubelet decides about its pods first.
    assert_eq!(scenario.wait(4), [""; 0]);
    assert_eq!(scenario.end("n1"), End::InFlight);
    assert_eq!(scenario.wait(1), ["list n1"]);
    assert_eq!(scenario.listed("n1", [pod("a"), unready("b")]), ["list n2"]);
    assert_eq!(scenario.end("n1"), End::Converged);
    let ready_pods = Some(BeforeAfter { before: 1, after: Some(1) });
    assert_eq!(scenario.outcome("n1").recovery, Some(Recovery { ready_pods, ..Recovery::default() }));
    assert_eq!(scenario.outcome("n2").recovery, None);
    // The node counts as converged from the time when it ran the target.
    let seconds = scenario.progress().find_map(|progress| match progress {
        Progress::Converged { seconds, .. } => Some(*seconds),
        _ => None,
    });
    assert_eq!(seconds, Some(0.0));
}

#[test]
fn refused_pod_fails_the_node() {
    let mut scenario = listed_again([pod("a"), pod("b")]);
    scenario.listed("n1", [refused("a"), pod("b")]);
    let text = "the kubelet refused pod web/a: TopologyAffinityError: no room";
    assert_eq!(scenario.failure("n1"), text);
    assert!(matches!(scenario.stopped(), Some(StopReason::TooManyFailures { .. })));
    let ready_pods = Some(BeforeAfter { before: 2, after: Some(1) });
    assert_eq!(scenario.outcome("n1").recovery, Some(Recovery { ready_pods, ..Recovery::default() }));
}

#[test]
fn pod_that_was_refused_before_is_no_failure() {
    let mut scenario = listed_again([refused("a"), pod("b")]);
    scenario.listed("n1", [refused("a"), pod("b")]);
    assert_eq!(scenario.end("n1"), End::Converged);
}

#[test]
fn late_pods_are_listed_once_more_at_the_end_of_the_settle_time() {
    for (pods, fails) in [(vec![pod("a")], false), (vec![unready("a")], true)] {
        let mut scenario = listed_again([pod("a")]);
        scenario.listed("n1", [unready("a")]);
        assert_eq!(scenario.waits().last().unwrap(), "n1: active, 1 pod is not Ready again: web/a");
        assert_eq!(scenario.wait(24), [""; 0]);
        assert_eq!(scenario.end("n1"), End::InFlight);
        assert_eq!(scenario.wait(1), ["list n1"]);
        scenario.listed("n1", pods);
        if fails {
            let late = LatePods { pods: 1, examples: vec!["web/a".to_owned()] };
            let end = End::Failed { failure: ConvergenceFailure::PodsLost(late), rolled_back: false };
            assert_eq!(scenario.end("n1"), end);
            assert_eq!(scenario.failure("n1"), "1 pod is not Ready again: web/a");
        } else {
            assert_eq!(scenario.end("n1"), End::Converged);
            assert_eq!(scenario.lists().last(), Some(&"n2"));
        }
    }
}

#[test]
fn settle_time_shorter_than_the_admission_is_kept() {
    let mut short = policy(1);
    short.drain.settle = Duration::from_secs(2);
    let mut scenario = started(three(), short);
    scenario.converge_with("n1", [pod("a")]);
    assert_eq!(scenario.wait(2), ["list n1"]);
    scenario.listed("n1", [unready("a")]);
    assert_eq!(scenario.failure("n1"), "1 pod is not Ready again: web/a");
}

/// A list that fails proves nothing against the node.
#[test]
fn failed_list_is_no_failure_of_the_node() {
    let error = || Err("forbidden".to_owned());
    let mut scenario = one_at_a_time();
    assert_eq!(scenario.lists(), ["n1"]);
    assert_eq!(scenario.send(Input::PodsListed(node_name("n1"), error())), ["assign n1"]);
    scenario.converge("n1");
    assert_eq!((scenario.end("n1"), scenario.outcome("n1").recovery), (End::Converged, None));
    scenario.converge_with("n2", [pod("a")]);
    assert_eq!(scenario.wait(5), ["list n2"]);
    scenario.send(Input::PodsListed(node_name("n2"), error()));
    assert_eq!(scenario.end("n2"), End::Converged);
    let ready_pods = Some(BeforeAfter { before: 1, after: None });
    assert_eq!(scenario.outcome("n2").recovery, Some(Recovery { ready_pods, ..Recovery::default() }));
}

#[test]
fn idle_node_and_disabled_check_cause_no_list_after_the_convergence() {
    let mut scenario = one_at_a_time();
    let ended = Pod { finished: true, ..unready("a") };
    assert_eq!(scenario.listed("n1", [ended]), ["assign n1"]);
    assert_eq!(scenario.converge("n1"), ["list n2"], "the next node starts");
    assert_eq!((scenario.end("n1"), scenario.outcome("n1").recovery), (End::Converged, None));
    let off = RolloutPolicy { check_pods: false, ..policy(1) };
    for (policy, mode) in [(off, LIST), (policy(1), ASSIGN)] {
        let mut scenario = rollout(three(), policy, mode);
        assert_eq!(scenario.send(Input::Start), ["assign n1"]);
        assert_eq!(scenario.converge("n1"), ["assign n2"]);
        assert!(scenario.lists().is_empty());
    }
}

#[test]
fn no_pods_are_listed_for_nodes_that_were_assigned_before() {
    let assigned = Node { source: Some(target()), ..node("n1", "a") };
    for mode in [LIST, Mode { assign: false, ..LIST }] {
        let mut scenario = rollout([assigned.clone()], policy(1), mode);
        scenario.send(Input::Start);
        scenario.see_on_target("n1");
        assert_eq!((scenario.end("n1"), scenario.lists().len()), (End::Converged, 0));
    }
}

#[test]
fn node_is_not_assigned_after_a_stop_during_the_list() {
    let mut scenario = one_at_a_time();
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert!(scenario.listed("n1", [pod("a")]).is_empty());
    assert!(scenario.is_finished());
    assert_eq!((scenario.end("n1"), scenario.stopped()), (End::NotStarted, Some(StopReason::Interrupted)));
    assert_eq!(scenario.outcome("n1").recovery, None);
}

#[test]
fn node_that_is_claimed_during_the_list_is_held() {
    let mut scenario = one_at_a_time();
    let claimed = Node { maintainer: Some(Maintainer::Kured), ..node("n1", "a") };
    assert_eq!(scenario.see(claimed), [""; 0], "the node takes the budget");
    assert!(scenario.listed("n1", [pod("a")]).is_empty());
    assert!(matches!(scenario.end("n1"), End::LeftAlone { .. }));
    let left = scenario.send(Input::Unselected(Box::new(node("n2", "b"))));
    assert!(left.is_empty());
    assert_eq!(scenario.end("n2"), End::Changed { to: None });
}

#[test]
fn node_that_recovers_during_the_list_needs_budget() {
    let mut scenario = started([down("n1"), down("n2")], policy(1));
    assert_eq!(scenario.lists(), ["n1", "n2"]);
    scenario.see(node("n1", "a"));
    assert!(scenario.listed("n1", []).is_empty(), "n2 takes the budget");
    assert_eq!(scenario.listed("n2", []), ["assign n2"]);
    assert_eq!(scenario.converge("n2"), ["list n1"]);
    assert_eq!(scenario.listed("n1", []), ["assign n1"]);
}

#[test]
fn canary_gives_way_when_the_budget_is_used_up_during_the_list() {
    let mut scenario = started(three(), RolloutPolicy { canary: canary(1, 0), ..policy(1) });
    assert_eq!(scenario.lists(), ["n1"]);
    scenario.see(down("n3"));
    assert!(scenario.listed("n1", [pod("a")]).is_empty());
    assert_eq!(scenario.see(node("n3", "a")), ["list n1"]);
    assert_eq!(scenario.listed("n1", [pod("a")]), ["assign n1"]);
}

#[test]
fn lists_before_assignments_are_bounded_by_budget_and_concurrency() {
    let mut scenario = rollout(three(), policy(3), Mode { concurrency: 2, ..LIST });
    scenario.send(Input::Start);
    assert_eq!(scenario.lists(), ["n1", "n2"]);
    assert_eq!(scenario.listed("n1", []), ["assign n1"]);
    assert_eq!(scenario.send(Input::Assigned(node_name("n1"))), ["list n3"]);
}

#[test]
fn node_that_is_not_ready_while_its_pods_are_checked_waits() {
    let mut scenario = one_at_a_time();
    scenario.converge_with("n1", [pod("a")]);
    scenario.lose("n1");
    assert_eq!(scenario.wait(40), [""; 0]);
    assert_eq!(scenario.end("n1"), End::InFlight);
    assert_eq!(scenario.see_on_target("n1"), ["list n1"]);
    scenario.listed("n1", [unready("a")]);
    assert_eq!(scenario.failure("n1"), "1 pod is not Ready again: web/a");

    let mut scenario = one_at_a_time();
    scenario.converge_with("n1", [pod("a")]);
    scenario.lose("n1");
    scenario.wait(300);
    assert_eq!(scenario.failure("n1"), "timed out: active, Node not Ready yet");
}

/// The answer shows nothing about a node that lost its readiness meanwhile.
#[test]
fn late_answer_for_a_node_that_is_not_ready_fails_no_node() {
    let mut scenario = listed_again([pod("a")]);
    scenario.lose("n1");
    scenario.wait(25);
    assert_eq!(scenario.listed("n1", [unready("a")]), [""; 0]);
    assert_eq!(scenario.end("n1"), End::InFlight);
    assert_eq!(scenario.see_on_target("n1"), ["list n1"]);
    scenario.listed("n1", [pod("a")]);
    assert_eq!(scenario.end("n1"), End::Converged);
}

#[test]
fn node_that_recovers_during_the_list_waits_for_the_canaries() {
    let mut nodes = three();
    nodes[0].ready = Readiness::NotReady;
    let mut scenario = started(nodes, RolloutPolicy { canary: canary(1, 0), ..policy(2) });
    assert_eq!(scenario.lists(), ["n1", "n2"]);
    scenario.see(node("n1", "a"));
    assert!(scenario.listed("n1", []).is_empty(), "n2 is the canary");
    assert_eq!(scenario.listed("n2", []), ["assign n2"]);
    assert_eq!(scenario.converge("n2"), ["list n1", "list n3"]);
}

#[test]
fn node_whose_window_ends_during_the_list_is_not_assigned() {
    let mut frozen = policy(1);
    frozen.schedule.exclusions = vec![exclusion(400, 1_000)];
    let mut scenario = started(three(), frozen);
    assert_eq!(scenario.lists(), ["n1"]);
    // 300 s for the node and 30 s for its pods do not fit any more.
    scenario.wait(71);
    assert!(scenario.listed("n1", [pod("a")]).is_empty());
    assert!(scenario.is_finished());
    assert!(scenario.progress().any(|progress| matches!(progress, Progress::PoolHeld { nodes: 3, .. })));
}

#[test]
fn canary_soaks_when_its_pods_are_back() {
    let mut scenario = started(three(), RolloutPolicy { canary: canary(1, 60), ..policy(3) });
    scenario.converge_with("n1", [pod("a")]);
    scenario.wait(5);
    assert!(!scenario.progress().any(|progress| matches!(progress, Progress::Soaking { .. })));
    scenario.listed("n1", [pod("a")]);
    assert_eq!(scenario.wait(59), [""; 0]);
    // A canary that regresses and returns is not listed again.
    scenario.lose("n1");
    scenario.see_on_target("n1");
    assert_eq!(scenario.wait(60), ["list n2", "list n3"]);
}

#[test]
fn failed_canary_stops_the_pool_and_is_rolled_back() {
    let mode = Mode { rollback_on_failure: true, ..LIST };
    let mut scenario = rollout(three(), RolloutPolicy { canary: canary(1, 60), ..policy(3) }, mode);
    scenario.send(Input::Start);
    scenario.converge_with("n1", [pod("a")]);
    scenario.wait(5);
    scenario.listed("n1", [refused("a")]);
    assert_eq!(scenario.stopped(), Some(StopReason::CanaryFailed { node: node_name("n1") }));
    assert_eq!(scenario.rolled_back(), ["n1"]);
}

#[test]
fn abort_with_rollback_returns_a_node_whose_pods_are_checked() {
    let mut scenario = one_at_a_time();
    scenario.converge_with("n1", [pod("a")]);
    scenario.send(Input::RollBackAll(crate::aborted()));
    assert_eq!(scenario.rolled_back(), ["n1"]);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    scenario.see(node("n1", "a"));
    assert_eq!(scenario.end("n1"), End::RolledBack);
    assert!(scenario.is_finished());
}
