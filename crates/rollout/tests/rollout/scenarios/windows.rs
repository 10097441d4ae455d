//! Scenario tests of windows and exclusions: what starts, what is held, and what a hold ends.

use std::time::Duration;

use super::{ASSIGN, down, rollout, rollout_over, target, three};
use crate::scenario::Scenario;
use kubelet_config::risk::Class;
use nodecfg_contract::error_text;
use nodecfg_fleet::drain::{DrainMode, DrainPolicy};
use nodecfg_fleet::hold::{Hold, HoldReason};
use nodecfg_fleet::schedule::Schedule;
use nodecfg_fleet::schedule::window::{Start, Window};
use nodecfg_fleet::{NodeOrder, RolloutPolicy};
use nodecfg_observed::{Maintainer, Node};
use nodecfg_plan::fixtures::{
    ZONE, canary, exclusion, fetched, in_zone, namespace, node, node_name, observed, on, policy, pool_name, refusing,
    rendered, with_config_map,
};
use nodecfg_rollout::machine::{Input, Mode};
use nodecfg_rollout::progress::Progress;
use nodecfg_rollout::{End, StopReason};

/// Policy with a time limit of five minutes for a node, and an exclusion of one hour.
fn excluded(budget: u32, from: i64) -> RolloutPolicy {
    let mut policy = policy(budget);
    policy.convergence_timeout = Duration::from_secs(300);
    policy.schedule.exclusions = vec![exclusion(from, 3600)];
    policy
}

fn held(scenario: &Scenario) -> Option<Hold> {
    scenario.machine.outcome().pools.get(&pool_name("a")).unwrap().held.clone()
}

/// A rollout of one node at a time, whose first node is in transition since this many seconds. An exclusion begins at
/// second 310: 300 seconds fit at second 10, and not at second 11.
fn before_an_exclusion(seconds: i64) -> Scenario {
    let mut scenario = rollout(three(), excluded(1, 310), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.assigned("n1");
    assert!(scenario.wait(seconds).is_empty());
    scenario
}

fn freeze(until: i64) -> Hold {
    let reason = "freeze".to_owned();
    Hold { why: HoldReason::Exclusion { reason }, next: jiff::Timestamp::from_second(until).ok() }
}

#[test]
fn no_node_starts_within_an_exclusion() {
    let mut scenario = rollout(three(), excluded(2, 0), ASSIGN);
    assert!(scenario.send(Input::Start).is_empty());
    assert!(scenario.is_finished());
    assert!(scenario.is_complete());
    assert_eq!(held(&scenario), Some(freeze(3600)));
    assert_eq!(["n1", "n2", "n3"].map(|name| scenario.end(name)), [End::Held, End::Held, End::Held]);
    let held = Progress::PoolHeld { nodes: 3, hold: freeze(3600) };
    assert_eq!(scenario.progress().collect::<Vec<_>>(), [&held]);
}

#[test]
fn node_in_transition_finishes_and_the_next_is_held() {
    let mut scenario = before_an_exclusion(11);
    assert!(!scenario.is_finished());
    assert!(scenario.see_on_target("n1").is_empty());
    assert!(scenario.is_finished());
    assert!(scenario.is_complete());
    assert_eq!((scenario.end("n1"), scenario.end("n2")), (End::Converged, End::Held));
    let until = jiff::Timestamp::from_second(310).unwrap();
    let next = jiff::Timestamp::from_second(310 + 3600).ok();
    assert_eq!(held(&scenario), Some(Hold { why: HoldReason::TooShort { until }, next }));
}

#[test]
fn node_starts_while_its_time_limit_just_fits() {
    let mut scenario = before_an_exclusion(10);
    assert_eq!(scenario.see_on_target("n1"), ["assign n2"]);
}

#[test]
fn soak_finishes_and_the_rest_is_held() {
    let policy = RolloutPolicy { canary: canary(1, 60), ..excluded(3, 350) };
    let mut scenario = rollout(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.converge("n1");
    assert!(!scenario.is_finished(), "the canary soaks");
    assert!(scenario.wait(60).is_empty());
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::Converged, End::Held]);
    assert!(scenario.is_finished());
}

/// The rest never starts without the late canary, so the run does not wait for it.
#[test]
fn late_canary_holds_the_pool() {
    let policy = RolloutPolicy { canary: canary(2, 60), ..excluded(1, 350) };
    let mut scenario = rollout(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.assigned("n1");
    scenario.wait(60);
    scenario.see_on_target("n1");
    assert!(scenario.is_finished());
    assert_eq!([scenario.end("n2"), scenario.end("n3")], [End::Held, End::Held]);
}

#[test]
fn node_that_already_points_at_its_target_is_watched() {
    let pointed = Node { source: Some(target()), ..node("n1", "a") };
    let mut scenario = rollout([pointed, node("n2", "a")], excluded(2, 0), ASSIGN);
    assert!(scenario.send(Input::Start).is_empty());
    assert!(!scenario.is_finished());
    scenario.see_on_target("n1");
    assert!(scenario.is_finished());
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::Converged, End::Held]);
}

#[test]
fn failure_of_a_node_in_transition_is_no_success() {
    let mut scenario = before_an_exclusion(11);
    scenario.see(refusing(node("n1", "a"), &target(), error_text::VALIDATE));
    assert!(scenario.is_finished());
    assert!(!scenario.is_complete());
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
}

/// The nodes would not have started anyway.
#[test]
fn interruption_of_a_held_pool_changes_nothing() {
    let mut scenario = rollout(three(), excluded(1, 0), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert_eq!(scenario.stopped(), None);
    assert!(scenario.is_complete());
}

/// Unavailable nodes need no budget, but their change disrupts, too.
#[test]
fn unavailable_nodes_and_exhausted_budgets_are_held() {
    let maintained = Node { deleting: true, ..down("n2") };
    let mut scenario = rollout_over(observed([down("n1"), maintained, node("n3", "a")]), excluded(1, 0), ASSIGN);
    assert!(scenario.send(Input::Start).is_empty());
    assert!(scenario.is_finished());
    assert_eq!([scenario.end("n1"), scenario.end("n3")], [End::Held, End::Held]);
}

/// The change from the local configuration of these nodes has an unknown class.
#[test]
fn only_allowed_classes_start_outside_of_windows() {
    let window = || {
        let start = Start::parse("Sat 22:00").unwrap();
        let zone = jiff::tz::TimeZone::UTC;
        Window { start, length: Duration::from_secs(3600), zone }
    };
    let at_any_time = |outside| Schedule { windows: vec![window()], exclusions: Vec::new(), outside };
    let policy = |outside| RolloutPolicy { schedule: at_any_time(outside), ..policy(1) };
    // 1970 began on a Thursday.
    let known = || {
        let previous = rendered("a", 110);
        let source = previous.source(&namespace());
        let mut cluster = observed(["n1", "n2"].map(|name| on(node(name, "a"), &source)));
        with_config_map(&mut cluster, "a", &previous);
        cluster.contents.extend([fetched(&source, &previous.canonical, true)]);
        cluster
    };
    // A smaller maxPods may end running pods, so its class is drain.
    for (cluster, outside, starts) in [
        (known(), None, false),
        (known(), Some(Class::None), false),
        (known(), Some(Class::Restart), false),
        (known(), Some(Class::Drain), true),
        (observed(three()), Some(Class::Replace), false),
    ] {
        let policy = RolloutPolicy { allow_disruption: Class::Replace, ..policy(outside) };
        let policy = RolloutPolicy { drain: DrainPolicy { mode: DrainMode::Accept, ..policy.drain }, ..policy };
        let mut scenario = rollout_over(cluster, policy, ASSIGN);
        assert_eq!(!scenario.send(Input::Start).is_empty(), starts, "{outside:?}");
        assert_eq!(held(&scenario).is_some(), !starts);
    }
    let mut scenario = rollout(three(), policy(None), ASSIGN);
    let schedule = &scenario.desired.pools[&pool_name("a")].policy.schedule;
    let next = schedule.next_start(scenario.machine.now.time, Duration::ZERO);
    scenario.machine.now.time = next.unwrap();
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
}

/// The node is late while the canary is in transition, and leaves the cluster before the pool is held.
#[test]
fn late_node_that_left_the_cluster_holds_nothing() {
    let policy = RolloutPolicy { canary: canary(1, 0), ..excluded(3, 310) };
    let mode = Mode { concurrency: 1, ..ASSIGN };
    let mut scenario = rollout([down("n0"), node("n1", "a"), down("n2")], policy, mode);
    assert_eq!(scenario.send(Input::Start), ["assign n0"]);
    scenario.see(Node { maintainer: Some(Maintainer::Kured), ..down("n2") });
    assert_eq!(scenario.send(Input::Assigned(node_name("n0"))), ["assign n1"]);
    scenario.assigned("n1");
    scenario.wait(60);
    assert!(scenario.see(down("n2")).is_empty(), "it is too late");
    scenario.send(Input::Gone(node_name("n2")));
    for name in ["n0", "n1"] {
        scenario.see_on_target(name);
    }
    assert!(scenario.is_finished());
    assert!(!scenario.progress().any(|progress| matches!(progress, Progress::PoolHeld { .. })));
    assert_eq!(held(&scenario), None);
}

#[test]
fn node_whose_window_ends_during_a_conflict_is_not_assigned_again() {
    let mut scenario = rollout(three(), excluded(1, 310), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.wait(11);
    let seen = node("n1", "a");
    assert!(scenario.conflict(seen).is_empty());
    assert_eq!((scenario.end("n1"), scenario.is_finished()), (End::Held, true));
}

/// Nodes behind a held node are held with it: those of later domains, and those that wait for a canary.
#[test]
fn nodes_behind_a_late_node_are_held_with_it() {
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::ZERO };
    let policy = RolloutPolicy { order: Some(order), ..excluded(1, 310) };
    let nodes = [("n1", "a"), ("n2", "b")].map(|(name, zone)| in_zone(node(name, "a"), Some(zone)));
    let mut scenario = rollout(nodes, policy, ASSIGN);
    scenario.machine.now = scenario.machine.now.after(11);
    assert!(scenario.send(Input::Start).is_empty());
    assert!(scenario.is_finished());
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::Held, End::Held]);

    let policy = RolloutPolicy { canary: canary(1, 0), ..excluded(1, 310) };
    let mut scenario = rollout([down("n0"), node("n1", "a"), node("n2", "a")], policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n0"], "n1 waits for budget, n2 for the canary");
    scenario.see(down("n2"));
    scenario.wait(11);
    scenario.send(Input::Assigned(node_name("n0")));
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::Held, End::Held]);
}

#[test]
fn window_that_opens_again_is_seen() {
    let mut policy = excluded(1, 310);
    policy.schedule.exclusions = vec![exclusion(310, 10)];
    policy.canary = canary(1, 100);
    let mut scenario = rollout(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.assigned("n1");
    scenario.wait(250);
    assert!(scenario.see_on_target("n1").is_empty(), "it soaks until second 350");
    assert_eq!(scenario.wait(100), ["assign n2"]);
}
