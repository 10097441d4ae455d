//! Scenario tests of rollouts that operators abort, pause or roll back.

use super::{ASSIGN, Mode, rollout, rollout_over, target, three};
use crate::scenario::Scenario;
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_fleet::drain::DrainMode;
use nodecfg_observed::{Node, Observed, Readiness};
use nodecfg_plan::convergence::ConvergenceFailure;
use nodecfg_plan::fixtures::{
    canary, fetched, namespace, node, node_name, observed, on, policy, pool_name, refusing, rendered, with_config_map,
};
use nodecfg_rollout::machine::Input;
use nodecfg_rollout::progress::Progress;
use nodecfg_rollout::{End, StopReason};

fn aborted() -> StopReason {
    StopReason::Aborted { by: "ada".to_owned(), reason: Some("wrong branch".to_owned()) }
}

fn old() -> ConfigSource {
    rendered("a", 110).source(&namespace())
}

/// Three nodes on a ConfigMap of this fleet, which can return to it.
fn returnable() -> Observed {
    let mut cluster = observed(three().map(|node| on(node, &old())));
    with_config_map(&mut cluster, "a", &rendered("a", 110));
    cluster.contents.extend([fetched(&old(), &rendered("a", 110).canonical, true)]);
    cluster
}

fn assigned(scenario: &mut Scenario, name: &str) {
    scenario.send(Input::Assigned(node_name(name)));
    let seen = Node { source: Some(target()), ..on(node(name, "a"), &old()) };
    scenario.see(seen);
}

fn observe_previous_source(scenario: &mut Scenario, name: &str) {
    scenario.see(on(node(name, "a"), &old()));
}

fn rolled_back() -> Progress {
    Progress::RolledBack { to: Some(old()) }
}

#[test]
fn finishes_nodes_in_flight_after_abort() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Stop(aborted()));
    assert_eq!(scenario.stopped(), Some(aborted()));
    assert!(!scenario.is_finished());
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.is_finished() && scenario.rolled_back().is_empty());
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::Converged, End::NotStarted]);
}

#[test]
fn ignores_abort_when_all_nodes_have_started() {
    let mut scenario = rollout(three(), policy(3), ASSIGN);
    scenario.send(Input::Start);
    for name in ["n1", "n2", "n3"] {
        scenario.assigned(name);
    }
    scenario.send(Input::Stop(aborted()));
    for name in ["n1", "n2", "n3"] {
        scenario.converge(name);
    }
    assert!(scenario.is_finished() && scenario.is_complete());
}

#[test]
fn rolls_back_unconverged_nodes_and_keeps_converged_ones() {
    let mut scenario = rollout_over(returnable(), policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    assert_eq!(scenario.converge("n1"), ["assign n3"]);
    assigned(&mut scenario, "n2");
    // The patch of n3 is unanswered.
    assert_eq!(scenario.send(Input::RollBackAll(aborted())), ["roll back n2"]);
    assigned(&mut scenario, "n3");
    assert_eq!(scenario.rolled_back(), ["n2", "n3"], "as soon as the patch is applied");
    assert!(!scenario.is_finished());
    scenario.send(Input::RolledBack(node_name("n2"), Ok(())));
    observe_previous_source(&mut scenario, "n2");
    scenario.send(Input::RolledBack(node_name("n3"), Ok(())));
    assert!(!scenario.is_finished(), "the node does not run its previous source yet");
    observe_previous_source(&mut scenario, "n3");
    assert_eq!(["n1", "n2", "n3"].map(|name| scenario.end(name)), [End::Converged, End::RolledBack, End::RolledBack]);
    assert_eq!(scenario.stopped(), Some(aborted()), "no node was left to start, but the rollout is incomplete");
    assert!(scenario.is_finished() && !scenario.is_complete());
}

#[test]
fn reports_rollback_once_when_watch_precedes_the_response() {
    let mut scenario = rollout_over(returnable(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    assigned(&mut scenario, "n1");
    scenario.send(Input::RollBackAll(aborted()));
    observe_previous_source(&mut scenario, "n1");
    assert_eq!(scenario.end("n1"), End::RolledBack);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    assert_eq!(scenario.progress().filter(|progress| **progress == rolled_back()).count(), 1);
    assert!(scenario.is_finished());
}

#[test]
fn watches_node_that_cannot_return_to_its_end() {
    let mut cluster = returnable();
    let refusing = refusing(node("n1", "a"), &old(), nodecfg_contract::error_text::VALIDATE);
    cluster.nodes.insert(node_name("n1"), refusing);
    let mut scenario = rollout_over(cluster, policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.assigned("n1");
    scenario.send(Input::RollBackAll(aborted()));
    assert_eq!(scenario.rolled_back(), [""; 0], "the node refuses its previous source");
    assert!(!scenario.is_finished());
    scenario.converge("n1");
    assert_eq!(scenario.end("n1"), End::Converged);
    assert!(scenario.is_finished());
}

#[test]
fn rolls_back_failed_node_and_keeps_its_failure() {
    let mut policy = policy(2);
    policy.max_failures = 5;
    let mut scenario = rollout_over(returnable(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.refuse("n1");
    assert!(scenario.rolled_back().is_empty());
    scenario.send(Input::RollBackAll(aborted()));
    assert_eq!(scenario.rolled_back(), ["n1"]);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    observe_previous_source(&mut scenario, "n1");
    assert!(matches!(
        scenario.end("n1"),
        End::Failed { failure: ConvergenceFailure::Refused { .. }, rolled_back: true }
    ));
}

#[test]
fn keeps_watching_node_whose_rollback_is_refused() {
    let mut scenario = rollout_over(returnable(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    assigned(&mut scenario, "n1");
    scenario.send(Input::RollBackAll(aborted()));
    scenario.send(Input::RolledBack(node_name("n1"), Err("no answer".to_owned())));
    assert_eq!(scenario.end("n1"), End::InFlight);
    // The patch was applied despite the error.
    observe_previous_source(&mut scenario, "n1");
    assert_eq!(scenario.end("n1"), End::RolledBack);
    assert!(scenario.is_finished());
}

#[test]
fn reports_change_by_another_client_during_rollback() {
    let theirs = nodecfg_plan::fixtures::source("theirs");
    let mut scenario = rollout_over(returnable(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    assigned(&mut scenario, "n1");
    scenario.send(Input::RollBackAll(aborted()));
    scenario.see(on(node("n1", "a"), &theirs));
    scenario.send(Input::RolledBack(node_name("n1"), Err("another precondition".to_owned())));
    assert_eq!(scenario.end("n1"), End::Changed { to: Some(theirs) });
    assert!(scenario.is_finished());
}

#[test]
fn upgrades_abort_to_rollback() {
    let mut scenario = rollout_over(returnable(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    assigned(&mut scenario, "n1");
    scenario.send(Input::Stop(aborted()));
    assert!(scenario.rolled_back().is_empty());
    scenario.send(Input::RollBackAll(StopReason::Aborted { by: "bob".to_owned(), reason: None }));
    assert_eq!(scenario.rolled_back(), ["n1"]);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    observe_previous_source(&mut scenario, "n1");
    assert!(scenario.is_finished());
    let stops = scenario.progress().filter(|progress| matches!(progress, Progress::Stopped { .. }));
    assert_eq!(stops.count(), 1);
}

#[test]
fn pause_stops_only_its_pool() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::StopPool(pool_name("b"), crate::paused()));
    assert_eq!(scenario.converge("n1"), ["assign n2"], "another pool's");
    scenario.send(Input::StopPool(pool_name("a"), crate::paused()));
    assert!(scenario.converge("n2").is_empty());
    assert_eq!((scenario.stopped(), scenario.end("n3")), (Some(crate::paused()), End::NotStarted));
    assert!(scenario.is_finished());
}

/// A source with a smaller maxPods than the target: the change to the target restarts the kubelet, the rollback needs
/// a drain.
fn smaller_source() -> ConfigSource {
    rendered("a", 30).source(&namespace())
}

/// Three nodes on this source.
fn nodes_on_smaller() -> Observed {
    let mut cluster = observed(three().map(|node| on(node, &smaller_source())));
    with_config_map(&mut cluster, "a", &rendered("a", 30));
    cluster.contents.extend([fetched(&smaller_source(), &rendered("a", 30).canonical, true)]);
    cluster
}

fn not_rolled_back() -> Progress {
    Progress::NotRolledBack { needs: Class::Drain }
}

#[test]
fn refuses_rollback_that_exceeds_allowed_disruption() {
    let running = |name| Node { ready: Readiness::NotReady, ..on(node(name, "a"), &target()) };
    for (allowed, back) in [(Class::Restart, false), (Class::Drain, true)] {
        let mut policy = policy(1);
        policy.allow_disruption = allowed;
        policy.drain.mode = DrainMode::Accept;
        let mut scenario = rollout_over(nodes_on_smaller(), policy, ASSIGN);
        scenario.send(Input::Start);
        scenario.send(Input::Assigned(node_name("n1")));
        // n1 runs the new configuration and is not Ready yet.
        scenario.see(running("n1"));
        scenario.send(Input::RollBackAll(aborted()));
        assert_eq!(scenario.rolled_back().contains(&"n1"), back);
        assert_eq!(scenario.reported(&not_rolled_back()), !back, "{:?}", scenario.events);
    }
}

#[test]
fn rolls_back_node_that_does_not_run_the_target_regardless_of_disruption() {
    let mut scenario = rollout_over(nodes_on_smaller(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.send(Input::RollBackAll(aborted()));
    assert!(scenario.rolled_back().is_empty(), "its configuration is unknown");
    let waiting = Node { source: Some(target()), ..on(node("n1", "a"), &smaller_source()) };
    scenario.see(waiting);
    assert_eq!(scenario.rolled_back(), ["n1"]);
    assert!(!scenario.reported(&not_rolled_back()));
}

#[test]
fn rolls_back_failed_node_only_if_disruption_is_allowed_or_absent() {
    for (runs_it, expected) in [(true, 0), (false, 1)] {
        let mut scenario = rollout_over(nodes_on_smaller(), policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
        scenario.send(Input::Start);
        scenario.send(Input::Assigned(node_name("n1")));
        let seen = if runs_it {
            Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target()) }
        } else {
            refusing(node("n1", "a"), &target(), nodecfg_contract::error_text::VALIDATE)
        };
        scenario.see(seen);
        scenario.wait(300);
        assert!(matches!(scenario.end("n1"), End::Failed { .. }));
        assert_eq!(scenario.rolled_back().len(), expected);
    }
}

#[test]
fn reports_rollback_when_node_runs_previous_source() {
    let mut scenario = rollout_over(returnable(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.see(Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target()) });
    scenario.send(Input::RollBackAll(aborted()));
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    let restarting = Node { source: Some(old()), ..on(node("n1", "a"), &target()) };
    scenario.see(restarting);
    assert_eq!(scenario.end("n1"), End::InFlight);
    assert!(!scenario.reported(&rolled_back()) && !scenario.is_finished());
    observe_previous_source(&mut scenario, "n1");
    assert_eq!(scenario.end("n1"), End::RolledBack);
    assert!(scenario.reported(&rolled_back()) && scenario.is_finished());
}

#[test]
fn reports_rollback_that_times_out() {
    let mut scenario = rollout_over(returnable(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    assigned(&mut scenario, "n1");
    scenario.send(Input::RollBackAll(aborted()));
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    scenario.see(Node { source: Some(old()), ..on(node("n1", "a"), &target()) });
    scenario.wait(299);
    assert!(!scenario.is_finished());
    scenario.wait(1);
    assert!(scenario.is_finished());
    assert!(matches!(
        scenario.end("n1"),
        End::Failed { failure: ConvergenceFailure::TimedOut { .. }, rolled_back: true }
    ));
    assert!(scenario.progress().any(|progress| matches!(progress, Progress::RollbackFailed { .. })));
    assert_eq!(scenario.stopped(), Some(aborted()));
}

#[test]
fn rolls_back_canary_that_is_soaking() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout_over(returnable(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.converge("n1");
    scenario.send(Input::RollBackAll(aborted()));
    assert_eq!(scenario.rolled_back(), ["n1"]);
    assert!(!scenario.is_finished());
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    observe_previous_source(&mut scenario, "n1");
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::RolledBack, End::NotStarted]);
    assert!(scenario.is_finished());
    scenario.wait(60);
    assert!(!scenario.progress().any(|progress| matches!(progress, Progress::Soaked)), "no other node starts");
}

#[test]
fn rolls_back_canary_that_lost_readiness() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut scenario = rollout_over(returnable(), policy, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.see(Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target()) });
    scenario.send(Input::RollBackAll(aborted()));
    assert_eq!(scenario.rolled_back(), ["n1"]);
}

#[test]
fn rolls_back_again_when_node_of_refused_rollback_times_out() {
    let mut scenario = rollout_over(returnable(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    assigned(&mut scenario, "n1");
    scenario.send(Input::RollBackAll(aborted()));
    scenario.send(Input::RolledBack(node_name("n1"), Err("no answer".to_owned())));
    assert_eq!(scenario.rolled_back().len(), 1);
    scenario.wait(300);
    assert_eq!(scenario.rolled_back(), ["n1", "n1"]);
    // The failure stays final if the API server refuses again.
    scenario.send(Input::RolledBack(node_name("n1"), Err("no answer".to_owned())));
    assert!(matches!(scenario.end("n1"), End::Failed { rolled_back: false, .. }));
    assert!(scenario.is_finished(), "no rollback is awaited");
}

/// Until the watch has shown the node on its target, an event on the previous source may be older than the assignment.
#[test]
fn event_from_before_the_assignment_proves_no_rollback_at_first() {
    let mut scenario = rollout_over(returnable(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.send(Input::RollBackAll(aborted()));
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    observe_previous_source(&mut scenario, "n1");
    assert_eq!(scenario.end("n1"), End::InFlight);
    // No other event came: the watch has shown only the last state.
    scenario.wait(300);
    assert_eq!(scenario.end("n1"), End::RolledBack);
    assert!(scenario.is_finished());
}

#[test]
fn soaking_canaries_return_within_the_budget() {
    let mut policy = policy(1);
    policy.canary = canary(2, 60);
    let mut scenario = rollout_over(returnable(), policy, ASSIGN);
    scenario.send(Input::Start);
    assert_eq!(scenario.converge("n1"), ["assign n2"]);
    scenario.converge("n2");
    scenario.send(Input::RollBackAll(aborted()));
    assert_eq!(scenario.rolled_back(), ["n1"]);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    observe_previous_source(&mut scenario, "n1");
    assert_eq!(scenario.rolled_back(), ["n1", "n2"]);
}

#[test]
fn node_that_was_assigned_again_can_return() {
    let mode = Mode { rollback_on_failure: true, ..ASSIGN };
    let mut scenario = rollout_over(returnable(), policy(1), mode);
    scenario.send(Input::Start);
    let current = on(node("n1", "a"), &old());
    assert_eq!(scenario.conflict(current), ["assign n1"]);
    scenario.refuse("n1");
    assert_eq!(scenario.rolled_back(), ["n1"]);
}
