//! Scenario tests of the state machine, without a cluster.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::scenario::Scenario;
use kubelet_config::risk::Class;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::{ConfigSource, ConfigStatus, Placement, error_text};
use nodecfg_fleet::drain::DrainMode;
use nodecfg_fleet::{Desired, RolloutPolicy};
use nodecfg_observed::{ConfigMapKey, Node, NodeConfigList, NodeContent, Observed, Readiness};
use nodecfg_plan::belongs;
use nodecfg_plan::convergence::{ConvergenceFailure, Waiting};
use nodecfg_plan::fixtures::{
    desired, fetched, namespace, node, node_name, observed, on, policy, pool, pool_name, refusing, rendered, source,
    with_config_map,
};
use nodecfg_rollout::instant::Now;
use nodecfg_rollout::machine::{Input, Mode};
use nodecfg_rollout::progress::Progress;
use nodecfg_rollout::{End, StopReason};

mod bad_input;
mod canaries;
mod clock_steps;
mod conflicts;
mod counts;
mod domains;
mod drains;
mod gates;
mod held;
mod new_nodes;
mod orders;
mod permits;
mod placements;
mod pods;
mod pointers;
mod pools;
mod proof;
mod soaks;
mod steps;
mod trials;
mod windows;

const ASSIGN: Mode = Mode { concurrency: 16, ..Mode::ASSIGN };

/// A rollout or a verification of the pool `a`.
fn rollout(nodes: impl IntoIterator<Item = Node>, policy: RolloutPolicy, mode: Mode) -> Scenario {
    rollout_over(observed(nodes), policy, mode)
}

fn rollout_over(cluster: Observed, policy: RolloutPolicy, mode: Mode) -> Scenario {
    Scenario::of(desired([pool("a", 64, policy)]), cluster, mode)
}

/// The target of the pool `a`.
fn target() -> ConfigSource {
    rendered("a", 64).source(&namespace())
}

/// A node that is not Ready.
fn down(name: &str) -> Node {
    Node { ready: Readiness::NotReady, ..node(name, "a") }
}

fn three() -> [Node; 3] {
    ["n1", "n2", "n3"].map(|name| node(name, "a"))
}

#[test]
fn starts_next_node_when_one_converges() {
    let mut scenario = rollout(three(), policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    assert_eq!(scenario.converge("n2"), ["assign n3"]);
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.converge("n3").is_empty());
    assert!(scenario.is_finished());
    assert!(scenario.is_complete());
}

#[test]
fn accepts_watch_event_before_the_response() {
    let mut scenario = rollout([node("n1", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.see_on_target("n1");
    scenario.send(Input::Assigned(node_name("n1")));
    assert_eq!(scenario.end("n1"), End::Converged);
    assert!(scenario.is_finished());
}

#[test]
fn stops_pool_after_max_failures_and_finishes_nodes_in_flight() {
    let mut policy = policy(2);
    policy.max_failures = 0;
    let mut scenario = rollout(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    assert!(scenario.refuse("n1").is_empty());
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
    assert!(!scenario.is_finished(), "n2 is in transition");
    assert!(scenario.converge("n2").is_empty());
    assert!(scenario.is_finished());
    assert_eq!(
        scenario.end("n1"),
        End::Failed {
            failure: ConvergenceFailure::Refused { error: error_text::VALIDATE.to_owned() },
            rolled_back: false
        }
    );
    assert_eq!(scenario.end("n3"), End::NotStarted);
}

#[test]
fn counts_failed_nodes_against_the_budget() {
    let mut policy = policy(1);
    policy.max_failures = 1;
    let mut scenario = rollout(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    assert!(scenario.refuse("n1").is_empty(), "the failed node uses up the budget");
    assert!(matches!(scenario.stopped(), Some(StopReason::BudgetExhausted { budget: 1, unavailable: 1, .. })));
}

#[test]
fn rolls_back_failed_node_to_previous_source() {
    let old = source("old");
    let mut cluster: Vec<Node> = three().to_vec();
    cluster[0] = on(cluster[0].clone(), &old);
    let mut scenario = rollout(cluster, policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
    // n1 points at a foreign ConfigMap, so the plan leaves n1 unchanged. n2 fails.
    assert_eq!(scenario.send(Input::Start), ["assign n2"]);
    scenario.refuse("n2");
    assert_eq!(scenario.rolled_back(), ["n2"]);
    assert!(!scenario.is_finished(), "the answer is missing");
    scenario.send(Input::RolledBack(node_name("n2"), Ok(())));
    assert!(!scenario.is_finished(), "the rollback is not complete");
    scenario.see(node("n2", "a"));
    assert!(matches!(scenario.end("n2"), End::Failed { rolled_back: true, .. }));
    assert!(scenario.is_finished());
}

#[test]
fn times_out_silent_node_with_reason() {
    let mut scenario = rollout([node("n1", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    let silent = Progress::Unacknowledged { seconds: 30.0 };
    scenario.wait(29);
    assert!(!scenario.reported(&silent));
    scenario.wait(1);
    assert!(scenario.reported(&silent));
    scenario.wait(269);
    assert_eq!(scenario.end("n1"), End::InFlight);
    scenario.wait(1);
    assert_eq!(
        scenario.end("n1"),
        End::Failed { failure: ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged }, rolled_back: false }
    );
}

/// Source and content stay, so only the allowed disruption tells which events are older than the assignment.
#[test]
fn refusal_from_before_the_assignment_that_allows_more_is_no_failure() {
    let placement = Some(Placement::Overlay);
    let reported = NodeContent { active_placement: placement, reported: true, ..NodeContent::default() };
    let refusing_below = |allowed: Option<Class>| {
        let error = format!("{}{}maxPods", error_text::SYNC_PREFIX, error_text::NEEDS_DRAIN_PREFIX);
        let content =
            NodeContent { assigned: Some(rendered("a", 64).hash), max_disruption: allowed, placement, ..reported };
        let refused = refusing(node("n1", "a"), &target(), &error);
        Node { content: Some(content), status: ConfigStatus { assigned: None, ..refused.status.clone() }, ..refused }
    };
    let begin = || {
        let mut cluster = observed([refusing_below(None)]);
        cluster.versions.node_configs = Some(NodeConfigList::default());
        let wanted = rendered("a", 64);
        with_config_map(&mut cluster, "a", &wanted);
        cluster.contents.extend([fetched(&target(), &wanted.canonical, true)]);
        let mut allowing = RolloutPolicy { allow_disruption: Class::Drain, ..policy(1) };
        // A person has drained the node.
        allowing.drain.mode = DrainMode::Accept;
        allowing.check_pods = false;
        let mut scenario = rollout_over(cluster, allowing, ASSIGN);
        assert_eq!(scenario.send(Input::Start), ["assign n1 drain"]);
        scenario.send(Input::Assigned(node_name("n1")));
        scenario.see(refusing_below(None));
        assert_eq!(scenario.end("n1"), End::InFlight);
        scenario
    };
    let mut scenario = begin();
    let status = on(node("n1", "a"), &target()).status;
    let content =
        NodeContent { active: Some(rendered("a", 64).hash), ..refusing_below(Some(Class::Drain)).content.unwrap() };
    scenario.see(Node { status, content: Some(content), ..refusing_below(Some(Class::Drain)) });
    assert_eq!(scenario.end("n1"), End::Converged, "{:?}", scenario.waits());
    // The agent refuses this assignment, too.
    let mut scenario = begin();
    scenario.see(refusing_below(Some(Class::Drain)));
    let failure = ConvergenceFailure::NotPrepared { error: "needs a drained node: maxPods".to_owned() };
    assert_eq!(scenario.end("n1"), End::Failed { failure, rolled_back: false });
}

#[test]
fn reports_the_first_silent_node_of_a_pool() {
    let mut scenario = rollout(three(), policy(3), ASSIGN);
    scenario.send(Input::Start);
    for name in ["n1", "n2", "n3"] {
        scenario.assigned(name);
    }
    scenario.converge("n1");
    scenario.wait(100);
    let silent: Vec<_> =
        scenario.events.iter().filter(|event| matches!(event.progress, Progress::Unacknowledged { .. })).collect();
    assert_eq!(silent.iter().map(|event| event.node.as_ref().unwrap().as_str()).collect::<Vec<_>>(), ["n2"]);
}

#[test]
fn ignores_failure_of_node_that_was_down_before() {
    let mut nodes = three();
    nodes[0].ready = Readiness::Unknown;
    let mut scenario = rollout(nodes, policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"], "n1 needs no budget, n2 uses the rest");
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.see(Node { ready: Readiness::Unknown, source: Some(target()), ..node("n1", "a") });
    assert_eq!(scenario.converge("n2"), ["assign n3"]);
    scenario.wait(301);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));
    assert_eq!(scenario.stopped(), None, "the node had not answered before either");
}

#[test]
fn stops_when_down_nodes_use_up_the_budget() {
    let mut nodes = three();
    nodes[0].ready = Readiness::Unknown;
    let mut scenario = rollout(nodes, policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"], "no budget is left for Ready nodes");
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.wait(300);
    assert!(matches!(scenario.stopped(), Some(StopReason::BudgetExhausted { .. })));
}

#[test]
fn frees_budget_when_node_recovers() {
    let mut nodes = three();
    nodes[0].ready = Readiness::NotReady;
    let mut scenario = rollout(nodes, policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert_eq!(scenario.converge("n1"), ["assign n2"], "a good configuration restores the node");
}

#[test]
fn decides_again_after_conflicting_change() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    // Another client assigned its own ConfigMap to n1 just before our patch.
    let theirs = on(node("n1", "a"), &source("theirs"));
    assert_eq!(scenario.conflict(theirs), ["assign n2"]);
    assert!(matches!(scenario.end("n1"), End::LeftAlone { why } if why.is_blocked()));

    // The patch was applied, but its response was lost.
    let ours = Node { source: Some(target()), ..node("n2", "a") };
    scenario.conflict(ours);
    assert_eq!(scenario.end("n2"), End::InFlight);
    assert_eq!(scenario.see_on_target("n2"), ["assign n3"]);

    // Another client changes n3 after its assignment.
    scenario.assigned("n3");
    scenario.see(on(node("n3", "a"), &source("theirs")));
    assert_eq!(scenario.end("n3"), End::Changed { to: Some(source("theirs")) });
    assert!(scenario.is_finished());
    assert!(!scenario.is_complete());
}

#[test]
fn skips_pending_node_that_leaves_its_pool() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    let moved = |name| node(name, "b");
    assert!(!belongs(&scenario.desired, &pool_name("a"), &moved("n2")));
    assert!(scenario.send(Input::Unselected(Box::new(moved("n2")))).is_empty());
    assert_eq!(scenario.end("n2"), End::Changed { to: None });
    assert_eq!(scenario.converge("n1"), ["assign n3"]);
    // The patch of n3 conflicted, and n3 left the pool before the conflict was read.
    assert_eq!(scenario.decide(&moved("n3")), None);
    assert!(scenario.conflict(moved("n3")).is_empty());
    assert_eq!(scenario.end("n3"), End::Changed { to: None });
    assert!(scenario.is_finished() && !scenario.is_complete());
}

#[test]
fn ignores_event_from_before_the_assignment() {
    let mut scenario = rollout([node("n1", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.see(node("n1", "a"));
    assert_eq!(scenario.end("n1"), End::InFlight);
}

#[test]
fn finishes_nodes_in_flight_after_interrupt() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert!(!scenario.is_finished());
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.is_finished());
    assert_eq!(scenario.stopped(), Some(StopReason::Interrupted));
    assert_eq!(scenario.end("n2"), End::NotStarted);
}

#[test]
fn resets_node_whose_assignment_was_not_sent() {
    let mut scenario = rollout(three(), policy(3), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2", "assign n3"]);
    scenario.assigned("n1");
    scenario.send(Input::Stop(StopReason::Interrupted));
    scenario.send(Input::Withdrawn(node_name("n2")));
    scenario.send(Input::Withdrawn(node_name("n3")));
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.is_finished());
    assert_eq!((scenario.end("n2"), scenario.stopped()), (End::NotStarted, Some(StopReason::Interrupted)));
}

#[test]
fn starts_no_node_on_target_that_failed_before() {
    let mut nodes = three();
    nodes[0] = refusing(nodes[0].clone(), &target(), error_text::VALIDATE);
    let mut scenario = rollout(nodes, policy(3), ASSIGN);
    assert!(scenario.send(Input::Start).is_empty(), "the budget would allow two more");
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
    assert!(scenario.is_finished());
}

#[test]
fn charges_budget_for_node_that_recovers_before_its_start() {
    let mut nodes = three();
    for node in &mut nodes {
        node.ready = Readiness::Unknown;
    }
    let mut scenario = rollout(nodes, policy(1), Mode { concurrency: 1, ..ASSIGN });
    assert_eq!(scenario.send(Input::Start), ["assign n1"], "one request at a time");
    // The network recovers: all nodes are Ready before n2 and n3 start.
    for name in ["n2", "n3"] {
        assert!(scenario.see(node(name, "a")).is_empty());
    }
    assert!(scenario.send(Input::Assigned(node_name("n1"))).is_empty(), "n1 uses up the budget");
}

#[test]
fn starts_node_that_goes_down_before_its_start_without_readiness() {
    let mut scenario = rollout(three(), policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    let dead = Node { ready: Readiness::Unknown, ..node("n3", "a") };
    assert_eq!(scenario.see(dead), ["assign n3"], "it needs no budget");
    scenario.send(Input::Assigned(node_name("n3")));
    scenario.converge("n1");
    scenario.converge("n2");
    scenario.wait(301);
    assert!(matches!(scenario.end("n3"), End::Failed { .. }));
    assert_eq!(scenario.stopped(), None);
}

#[test]
fn reports_recreated_node_as_changed() {
    let mut scenario = rollout(three(), policy(3), ASSIGN);
    scenario.send(Input::Start);
    for name in ["n1", "n2", "n3"] {
        scenario.converge(name);
    }
    scenario.send(Input::Gone(node_name("n1")));
    assert!(scenario.is_complete());
    scenario.see(node("n1", "a"));
    assert_eq!(scenario.end("n1"), End::Changed { to: None });
    // The same holds for a converged node that another client changes.
    scenario.see(on(node("n2", "a"), &source("theirs")));
    assert_eq!(scenario.end("n2"), End::Changed { to: Some(source("theirs")) });
    assert!(!scenario.is_complete());
}

#[test]
fn ignores_old_event_after_node_was_read_again() {
    let mut scenario = rollout([node("n1", "a"), node("n2", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    // The patch was applied, its response and the watch were lost; the node was read again, then the watch restarts.
    let ours = Node { source: Some(target()), ..node("n1", "a") };
    scenario.conflict(ours);
    assert!(scenario.see(node("n1", "a")).is_empty(), "no other node starts");
    assert_eq!(scenario.end("n1"), End::InFlight);
}

#[test]
fn keeps_failed_node_when_previous_config_map_is_missing() {
    let old = rendered("a", 110).source(&namespace());
    let mut cluster = observed([on(node("n1", "a"), &old)]);
    with_config_map(&mut cluster, "a", &rendered("a", 110));
    let key = ConfigMapKey::of(&old).unwrap();
    let rolled_back = |found: Option<FetchedConfigMap>| {
        let mut cluster = cluster.clone();
        cluster.contents.insert(key.clone(), found);
        let mut scenario = rollout_over(cluster, policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
        assert_eq!(scenario.send(Input::Start), ["assign n1"]);
        scenario.refuse("n1");
        scenario.rolled_back().len()
    };
    let data = [("kubelet".to_owned(), rendered("a", 110).canonical)].into();
    assert_eq!(rolled_back(Some(FetchedConfigMap { data, ..FetchedConfigMap::default() })), 1);
    assert_eq!(rolled_back(None), 0);
}

#[test]
fn verify_waits_without_assigning() {
    let mode = Mode { assign: false, concurrency: 1, timeout: Some(Duration::from_secs(30)), ..ASSIGN };
    let mut scenario = rollout(three(), policy(1), mode);
    assert!(scenario.send(Input::Start).is_empty());
    // A sync by another client moves both nodes at once.
    for name in ["n1", "n2"] {
        assert!(scenario.see_on_target(name).is_empty());
        assert_eq!(scenario.end(name), End::Converged);
    }
    scenario.wait(30);
    assert_eq!(
        scenario.end("n3"),
        End::Failed { failure: ConvergenceFailure::TimedOut { waiting: Waiting::NotAssigned }, rolled_back: false }
    );
    assert!(scenario.is_finished());
}

/// The pool looks at itself once after all time limits of a tick.
#[test]
fn nodes_that_time_out_together_stop_the_pool_before_another_starts() {
    let policy = RolloutPolicy { max_failures: 1, ..policy(2) };
    let mut scenario = rollout(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    scenario.assigned("n1");
    scenario.assigned("n2");
    assert!(scenario.wait(300).is_empty(), "one failure would be allowed");
    let failed = |progress: &&Progress| matches!(progress, Progress::Failed { .. });
    assert_eq!(scenario.progress().filter(failed).count(), 2);
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 2, max_failures: 1 }));
}
