//! Scenario tests of drains near the end of the open time.

use super::*;
use nodecfg_fleet::hold::HoldReason;
use nodecfg_plan::fixtures::exclusion;

/// A drained node takes at most 300 + 900 + 30 seconds, another one 300 seconds.
fn excluded(budget: u32, from: i64) -> RolloutPolicy {
    let mut policy = RolloutPolicy { convergence_timeout: Duration::from_secs(300), ..drains(budget) };
    policy.schedule.exclusions = vec![exclusion(from, 3600)];
    policy
}

fn held(scenario: &Scenario) -> bool {
    let outcome = scenario.machine.outcome();
    let held = outcome.pools[&pool_name("a")].held.as_ref();
    held.is_some_and(|closed| matches!(closed.why, HoldReason::TooShort { .. } | HoldReason::Exclusion { .. }))
}

#[test]
fn drain_that_does_not_fit_does_not_begin() {
    assert_eq!(rollout(excluded(1, 1230), &["n1"]).send(Input::Start), ["mark n1"]);
    let mut scenario = rollout(excluded(1, 1229), &["n1"]);
    assert_eq!(scenario.send(Input::Start), Vec::<String>::new());
    assert!(held(&scenario) && scenario.is_finished());
    assert!(scenario.is_complete());
}

#[test]
fn drain_in_progress_goes_on_and_the_next_is_held() {
    let mut scenario = rollout(excluded(1, 1230), &["n1", "n2"]);
    scenario.send(Input::Start);
    scenario.wait(600);
    assert_eq!(scenario.released("n1"), [""; 0], "n2 does not begin");
    assert!(held(&scenario) && scenario.is_finished());
    assert_eq!([scenario.outcome("n1").end, scenario.outcome("n2").end], [End::Converged, End::Held]);
    assert!(scenario.is_complete());
}

/// An abort must end drains that a hold lets go on.
#[test]
fn stop_ends_drains_of_a_held_pool() {
    let mut scenario = rollout(excluded(2, 1300), &["n1", "n2", "n3"]);
    assert_eq!(scenario.send(Input::Start), ["mark n1", "mark n2"]);
    scenario.marked("n2");
    scenario.wait(100);
    assert_eq!(scenario.released("n1"), [""; 0], "n3 does not begin");
    assert!(held(&scenario) && !scenario.is_finished(), "n2 is still drained");
    let commands = scenario.send(Input::Stop(StopReason::Interrupted));
    assert!(commands.iter().any(|command| command == "release n2"), "{commands:?}");
    assert!(!scenario.is_complete());
}

#[test]
fn mark_of_an_earlier_run_is_released() {
    let mut cluster = cluster(&["n1"]);
    for node in cluster.nodes.values_mut() {
        node.drain_mark = Some(Box::new(mark("a")));
    }
    let mut scenario = rollout_over(&cluster, excluded(1, 0));
    assert_eq!(scenario.send(Input::Start), ["release n1"]);
    scenario.end_release("n1");
    assert!(held(&scenario) && scenario.is_finished());
    assert_eq!(scenario.outcome("n1").end, End::Held);
    assert!(!scenario.outcome("n1").marked);
}

/// Nodes that need no drain fit where a drain does not.
#[test]
fn late_drain_holds_no_other_node() {
    let near = format!("{NEW}registryPullQPS: 7\n");
    for (canaries, soak) in [(None, 0), (canary(1, 60), 60)] {
        let mut cluster = cluster(&["n1"]);
        with_fields(&mut cluster, &near);
        cluster.nodes.values_mut().for_each(|node| node.ready = Readiness::NotReady);
        for name in ["n2", "n3"] {
            cluster.nodes.insert(node_name(name), on(node(name, "a"), &source(&near)));
        }
        // The drained node counts as unavailable.
        let policy = RolloutPolicy { canary: canaries, ..excluded(2, 600) };
        let mut scenario = rollout_over(&cluster, policy);
        assert_eq!(scenario.send(Input::Start), ["assign n2"]);
        assert!(!held(&scenario));
        scenario.send(Input::Assigned(node_name("n2")));
        let mut next = scenario.observe("n2", |node| on(node, &source(NEW)));
        next.extend(scenario.wait(soak));
        assert_eq!(next, ["assign n3"], "{soak}");
        scenario.send(Input::Assigned(node_name("n3")));
        scenario.observe("n3", |node| on(node, &source(NEW)));
        assert!(held(&scenario) && scenario.is_finished());
        assert_eq!(scenario.outcome("n1").end, End::Held);
    }
}

/// The window is asked before the budget, which one drain would use up.
#[test]
fn marks_of_an_earlier_run_are_released_when_the_window_is_closed() {
    let mut cluster = cluster(&["n1", "n2"]);
    cluster.nodes.values_mut().for_each(|node| node.drain_mark = Some(Box::new(mark("a"))));
    let mut scenario = rollout_over(&cluster, excluded(1, 0));
    assert_eq!(scenario.send(Input::Start), ["release n1", "release n2"]);
    assert!(held(&scenario));
}
