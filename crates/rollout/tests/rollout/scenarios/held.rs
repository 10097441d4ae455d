//! Nodes that must not start in their present state: they take budget, and start when the state ends.

use super::*;
use nodecfg_contract::UnreadableField;
use nodecfg_observed::{Maintainer, Obstacle};
use nodecfg_plan::Why;
use nodecfg_plan::fixtures::canary;

fn field() -> UnreadableField {
    UnreadableField { field: "status.conditions".to_owned(), reason: "not a time".to_owned() }
}

fn unreadable(name: &str) -> Node {
    // Nothing of it is known: neither its source nor its readiness.
    Node { obstacle: Some(Obstacle::Unreadable(field())), ready: Readiness::Unknown, ..node(name, "a") }
}

/// Asserts that n3, held beside n1 and n2 in transition, uses budget until it is released, and then converges.
fn assert_released_node_ends_the_rollout(mut scenario: Scenario) {
    assert!(scenario.converge("n1").is_empty(), "n2 and n3 use the budget");
    assert_eq!(scenario.see(node("n3", "a")), ["assign n3"]);
    scenario.converge("n2");
    scenario.converge("n3");
    assert!(scenario.is_finished() && scenario.is_complete());
}

/// The executor passes the settled nodes of the plan before the start, because they may be on trial.
#[test]
fn no_node_starts_before_the_rollout() {
    let target = target();
    let failed = refusing(node("n2", "a"), &target, error_text::VALIDATE);
    let nodes = [on(node("n1", "a"), &target), failed, node("n3", "a")];
    for assign in [true, false] {
        let mut cluster = observed(nodes.clone());
        with_config_map(&mut cluster, "a", &rendered("a", 64));
        let mut scenario = rollout_over(cluster, policy(3), Mode { assign, ..ASSIGN });
        assert!(scenario.send(Input::Observed(Box::new(nodes[0].clone()))).is_empty(), "before the start");
        assert!(scenario.send(Input::Start).is_empty(), "n2 has failed, or nodes are only watched");
        assert!(scenario.send(Input::Observed(Box::new(nodes[0].clone()))).is_empty());
        assert_eq!(scenario.stopped().is_some(), assign);
        assert_eq!(scenario.end("n3"), if assign { End::NotStarted } else { End::InFlight });
    }
}

#[test]
fn unreadable_pending_node_takes_budget_until_it_is_readable() {
    let mut scenario = rollout(three(), policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    assert!(scenario.see(unreadable("n3")).is_empty(), "an unreadable node does not start for free");
    assert_eq!(scenario.end("n3"), End::LeftAlone { why: Why::Obstacle(Obstacle::Unreadable(field())) });
    assert_eq!(scenario.machine.budget_of(&pool_name("a")), Some((3, 2)));
    assert_released_node_ends_the_rollout(scenario);
}

#[test]
fn unreadable_pending_node_does_not_delay_the_end() {
    let mut scenario = rollout(three(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    scenario.see(unreadable("n3"));
    scenario.converge("n1");
    scenario.converge("n2");
    assert!(scenario.is_finished(), "no node is in transition");
    assert!(!scenario.is_complete(), "n3 is not on its target");
    // The labels of an unreadable node may be the unreadable value.
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Unselected(Box::new(unreadable("n2"))));
    assert_eq!(scenario.end("n2"), End::LeftAlone { why: Why::Obstacle(Obstacle::Unreadable(field())) });
}

#[test]
fn unreadable_node_in_transition_times_out_without_freeing_budget() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    // Its source seems to have changed, because it is unknown.
    assert!(scenario.see(unreadable("n1")).is_empty());
    assert_eq!((scenario.end("n1"), scenario.machine.budget_of(&pool_name("a"))), (End::InFlight, Some((1, 1))));
    assert!(scenario.wait(299).is_empty());
    scenario.wait(1);
    let failure = ConvergenceFailure::TimedOut { waiting: Waiting::Unreadable(field()) };
    assert_eq!(scenario.end("n1"), End::Failed { failure, rolled_back: false });
    assert!(scenario.stopped().is_some());
    // A node that is readable again converges within its time limit.
    let mut scenario = rollout([node("n1", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    scenario.see(unreadable("n1"));
    scenario.wait(200);
    scenario.see(on(node("n1", "a"), &target()));
    assert_eq!(scenario.end("n1"), End::Converged);
}

#[test]
fn unreadable_converged_node_takes_budget() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    assert_eq!(scenario.see_on_target("n1"), ["assign n2"]);
    scenario.see(unreadable("n1"));
    assert!(scenario.converge("n2").is_empty());
    assert_eq!(scenario.end("n1"), End::Converged);
}

#[test]
fn unreadable_canary_is_replaced_before_and_regresses_after_its_start() {
    let policy = RolloutPolicy { canary: canary(1, 60), ..policy(3) };
    let mut scenario = rollout(three(), policy.clone(), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.converge("n1");
    scenario.see(unreadable("n1"));
    assert!(scenario.wait(61).is_empty(), "the soak proves nothing");
    scenario.wait(300);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));

    let mut scenario = rollout(three(), policy, Mode { concurrency: 1, ..ASSIGN });
    scenario.send(Input::Start);
    let started = scenario.conflict(unreadable("n1"));
    assert_eq!(
        (started, scenario.end("n1")),
        (vec!["assign n2".to_owned()], End::LeftAlone { why: Why::Obstacle(Obstacle::Unreadable(field())) })
    );
    // The former canary waits for the new one.
    assert!(scenario.see(node("n1", "a")).is_empty());
    scenario.converge("n2");
    assert_eq!(scenario.wait(61).len(), 1);
}

fn cordoned(name: &str) -> Node {
    Node { cordoned: true, ..node(name, "a") }
}

fn maintained(name: &str) -> Node {
    Node { maintainer: Some(Maintainer::Kured), ..node(name, "a") }
}

#[test]
fn cordoned_node_starts_first_and_takes_budget() {
    let mut scenario = rollout([node("n1", "a"), node("n2", "a"), cordoned("n3")], policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n3"], "the cordoned node uses the budget");
    scenario.assigned("n3");
    let converged = Node { cordoned: true, ..on(node("n3", "a"), &target()) };
    assert!(scenario.see(converged.clone()).is_empty(), "it is still cordoned");
    assert_eq!(scenario.end("n3"), End::Converged);
    assert_eq!(scenario.see(Node { cordoned: false, ..converged }), ["assign n1"]);
}

#[test]
fn cordon_of_a_pending_node_starts_it_and_takes_budget() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert_eq!(scenario.see(cordoned("n3")), ["assign n3"], "a person drains it, so it needs no budget");
    assert!(scenario.converge("n1").is_empty(), "n3 uses the budget");
    // A cordoned node that waits for the canaries loses its precedence with the cordon.
    let mut scenario = rollout(three(), RolloutPolicy { canary: canary(1, 0), ..policy(1) }, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.see(cordoned("n3")).is_empty(), "the canary is first");
    scenario.see(node("n3", "a"));
    assert_eq!(scenario.converge("n1"), ["assign n2"]);
}

#[test]
fn maintained_node_takes_budget_until_it_is_released() {
    let mut scenario = rollout(three(), policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    assert!(scenario.see(maintained("n3")).is_empty());
    let why = Why::Maintained { by: Maintainer::Kured };
    assert_eq!(scenario.end("n3"), End::LeftAlone { why: why.clone() });
    let held = Progress::Held { why };
    assert_eq!(scenario.progress().last(), Some(&held), "the user learns why it does not start");
    assert_eq!(scenario.events.last().unwrap().node, Some(node_name("n3")));
    // Not even when it is down or cordoned, as during a reboot.
    let down = Node { ready: Readiness::NotReady, cordoned: true, ..maintained("n3") };
    assert!(scenario.see(down).is_empty());
    assert_released_node_ends_the_rollout(scenario);
}

#[test]
fn maintained_node_of_the_plan_takes_budget_and_is_not_started() {
    let mut scenario = rollout([node("n1", "a"), node("n2", "a"), maintained("n3")], policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.see(node("n3", "a")).contains(&"assign n2".to_owned()), "its budget is free again");
    assert_eq!(scenario.end("n3"), End::LeftAlone { why: Why::Maintained { by: Maintainer::Kured } });
    scenario.converge("n1");
    scenario.converge("n2");
    assert!(scenario.is_finished() && !scenario.is_complete());
}

#[test]
fn node_in_transition_that_becomes_maintained_takes_budget_after_it_converged() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    let converged = on(node("n1", "a"), &target());
    let claimed = Node { maintainer: Some(Maintainer::ClusterAutoscaler), ..converged.clone() };
    assert!(scenario.see(claimed).is_empty());
    assert_eq!(scenario.end("n1"), End::Converged);
    assert_eq!(scenario.see(converged), ["assign n2"]);
}

#[test]
fn held_node_stays_unchanged_after_a_stop() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.see(maintained("n2"));
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert!(scenario.see(node("n2", "a")).is_empty());
    assert_eq!(scenario.end("n2"), End::LeftAlone { why: Why::Maintained { by: Maintainer::Kured } });
}

#[test]
fn node_being_deleted_takes_budget_until_it_is_gone() {
    let mut scenario = rollout(three(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    assert!(scenario.see(Node { deleting: true, ..node("n3", "a") }).is_empty());
    assert_eq!(scenario.end("n3"), End::LeftAlone { why: Why::Deleting });
    assert_eq!(scenario.machine.budget_of(&pool_name("a")), Some((3, 2)));
    scenario.send(Input::Gone(node_name("n3")));
    assert_eq!(scenario.machine.budget_of(&pool_name("a")), Some((2, 2)));
    scenario.converge("n1");
    scenario.converge("n2");
    assert!(scenario.is_finished() && scenario.is_complete());
}

#[test]
fn released_node_that_is_still_cordoned_starts_without_budget() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.see(Node { cordoned: true, ..maintained("n3") }).is_empty());
    assert_eq!(scenario.see(cordoned("n3")), ["assign n3"]);
}

#[test]
fn pending_canary_that_is_claimed_is_replaced() {
    let nodes = ["n1", "n2", "n3", "n4", "n5"].map(|name| node(name, "a"));
    let policy = RolloutPolicy { canary: canary(4, 0), ..policy(2) };
    let mut scenario = rollout(nodes, policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    scenario.see(maintained("n4"));
    assert!(scenario.see(node("n4", "a")).is_empty());
    assert_eq!(scenario.converge("n1"), ["assign n3"]);
    assert_eq!(scenario.converge("n2"), ["assign n5"], "n5 is a canary now, and n4 waits for it");
    assert!(scenario.converge("n3").is_empty());
    assert_eq!(scenario.converge("n5"), ["assign n4"]);
}

/// Without a canary, all nodes could start at once when their holds end.
#[test]
fn held_nodes_start_with_a_canary() {
    let policy = || RolloutPolicy { canary: canary(1, 60), ..policy(3) };
    for released in ["n1", "n2", "n3"] {
        let mut scenario = rollout(three(), policy(), ASSIGN);
        for name in ["n1", "n2", "n3"] {
            scenario.see(maintained(name));
        }
        assert!(scenario.send(Input::Start).is_empty());
        assert!(!scenario.progress().any(|progress| matches!(progress, Progress::Soaking { .. })));
        assert_eq!(scenario.see(node(released, "a")), [format!("assign {released}")]);
        let others =
            ["n1", "n2", "n3"].map(|name| if name == released { vec![] } else { scenario.see(node(name, "a")) });
        assert!(others.iter().all(Vec::is_empty), "{released} is the canary: {others:?}");
        assert!(scenario.converge(released).is_empty());
        assert_eq!(scenario.wait(60).len(), 2);
    }
}

#[test]
fn stop_keeps_held_nodes_from_starting_when_nothing_else_is_left() {
    let stops = [Input::Stop(StopReason::Interrupted), Input::RollBackAll(crate::aborted())];
    for stop in stops {
        let mut scenario = rollout([node("n1", "a"), node("n2", "a")], policy(1), ASSIGN);
        assert_eq!(scenario.send(Input::Start), ["assign n1"]);
        scenario.see(maintained("n2"));
        scenario.assigned("n1");
        scenario.send(stop);
        assert!(scenario.see(node("n2", "a")).is_empty());
        assert!(matches!(scenario.end("n2"), End::LeftAlone { .. }));
        scenario.converge("n1");
        assert!(scenario.see(node("n2", "a")).is_empty());
    }
}

#[test]
fn held_node_that_leaves_its_pool_does_not_start() {
    let mut scenario = rollout(three(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    scenario.see(maintained("n3"));
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.send(Input::Unselected(Box::new(node("n3", "b")))).is_empty());
    assert_eq!(scenario.end("n3"), End::Changed { to: None });
}

#[test]
fn recovered_node_replaces_a_held_canary() {
    let nodes = [node("n1", "a"), Node { ready: Readiness::NotReady, ..node("n2", "a") }];
    let policy = RolloutPolicy { canary: canary(1, 0), ..policy(2) };
    let mut scenario = rollout(nodes, policy, ASSIGN);
    scenario.see(node("n2", "a"));
    scenario.see(maintained("n1"));
    assert_eq!(scenario.send(Input::Start), ["assign n2"], "it is the canary");
}

#[test]
fn held_nodes_delay_no_other_canary() {
    let policy = RolloutPolicy { canary: canary(2, 60), ..policy(3) };
    let mut scenario = rollout(three(), policy, ASSIGN);
    for name in ["n3", "n2"] {
        scenario.see(maintained(name));
    }
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.converge("n1");
    assert!(scenario.progress().any(|progress| matches!(progress, Progress::Soaking { .. })));
    assert!(scenario.see(node("n2", "a")).is_empty());
    assert_eq!(scenario.wait(60), ["assign n2"]);
}

#[test]
fn held_node_shows_the_present_reason() {
    let mut scenario = rollout(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.see(maintained("n2"));
    scenario.see(unreadable("n2"));
    assert_eq!(scenario.end("n2"), End::LeftAlone { why: Why::Obstacle(Obstacle::Unreadable(field())) });
    let held = |progress: &&Progress| matches!(progress, Progress::Held { .. });
    assert_eq!(scenario.progress().filter(held).count(), 1, "it is held since the first");
}
