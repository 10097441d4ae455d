//! Scenario tests of steps, of the interval between two starts, and of the order of starts.

use std::time::Duration;

use jiff::Timestamp;

use super::gates::{GATED, gated};
use super::pointers::joined;
use super::{ASSIGN, rollout, rollout_over, target};
use crate::scenario::Scenario;
use nodecfg_fleet::gates::Moment;
use nodecfg_fleet::{NodeOrder, NodeShare, RolloutPolicy, StartOrder, Steps};
use nodecfg_observed::{CreationTime, Node, NodeContent, Readiness};
use nodecfg_plan::fixtures::{ZONE, canary, in_zone, node, node_name, observed, on, policy, rendered, with_config_map};
use nodecfg_rollout::StopReason;
use nodecfg_rollout::machine::Input;
use nodecfg_rollout::progress::{Progress, StartGate};

fn stepped(budget: u32, shares: &[u32], soak_seconds: u64) -> RolloutPolicy {
    let shares = shares.iter().copied().map(NodeShare::Count).collect();
    RolloutPolicy { steps: Steps { shares, soak: Duration::from_secs(soak_seconds) }, ..policy(budget) }
}

fn nodes(number: usize) -> Vec<Node> {
    (1..=number).map(|index| node(&format!("n{index}"), "a")).collect()
}

/// Steps that soaked and began, in order.
fn told(scenario: &Scenario) -> Vec<String> {
    let tell = |progress: &Progress| match progress {
        Progress::StepSoaking { begun, .. } => Some(format!("{begun} soak")),
        Progress::StepStarted { limit: Some(limit) } => Some(format!("up to {limit}")),
        Progress::StepStarted { limit: None } => Some("the rest".to_owned()),
        _ => None,
    };
    scenario.progress().filter_map(tell).collect()
}

#[test]
fn one_step_follows_the_other_after_its_soak() {
    let mut scenario = rollout(nodes(6), stepped(9, &[1, 3], 60), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n2", "assign n3"]);
    assert!(scenario.converge("n2").is_empty());
    assert!(scenario.wait(100).is_empty(), "n3 is in transition");
    scenario.converge("n3");
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n4", "assign n5", "assign n6"]);
    ["n4", "n5", "n6"].iter().for_each(|name| drop(scenario.converge(name)));
    assert!(scenario.is_finished() && scenario.stopped().is_none());
    assert_eq!(told(&scenario), ["1 soak", "up to 3", "3 soak", "the rest"]);
}

#[test]
fn steps_come_after_the_canaries_and_count_them() {
    let policy = RolloutPolicy { canary: canary(2, 30), ..stepped(9, &[1, 3], 60) };
    let mut scenario = rollout(nodes(5), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"], "canaries go first");
    scenario.converge("n1");
    scenario.converge("n2");
    assert!(scenario.wait(30).is_empty(), "the first step is full, and its soak began with that of the canaries");
    assert!(scenario.wait(29).is_empty());
    assert_eq!(scenario.wait(1), ["assign n3"]);
    assert_eq!(told(&scenario), ["2 soak", "up to 3"]);
}

#[test]
fn unavailable_nodes_count_and_pass_no_step() {
    let down = |name: &str| Node { ready: Readiness::NotReady, ..node(name, "a") };
    let mut all = vec![down("n1"), down("n2")];
    all.extend(nodes(5).split_off(2));
    let mut scenario = rollout(all, stepped(9, &[1, 4], 60), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    scenario.converge("n1");
    assert!(scenario.converge("n2").is_empty(), "two have begun, which is more than the step of one");
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n3", "assign n4"], "up to four in all");
}

#[test]
fn next_run_continues_at_its_step() {
    let resumed = |done: usize| {
        let names: Vec<String> = (1..=6).map(|index| format!("n{index}")).collect();
        let nodes = names.iter().enumerate().map(|(index, name)| match index < done {
            true => on(node(name, "a"), &target()),
            false => node(name, "a"),
        });
        let mut cluster = observed(nodes);
        with_config_map(&mut cluster, "a", &rendered("a", 64));
        rollout_over(cluster, stepped(9, &[1, 3], 60), ASSIGN)
    };
    assert_eq!(resumed(2).send(Input::Start), ["assign n3"], "the step of three is not full");
    assert_eq!(resumed(4).send(Input::Start), ["assign n5", "assign n6"]);
    let mut full = resumed(3);
    assert!(full.send(Input::Start).is_empty(), "the earlier run may have ended before the soak");
    assert_eq!(full.wait(60), ["assign n4", "assign n5", "assign n6"]);
}

#[test]
fn node_that_joined_by_itself_passes_no_step() {
    let all = ["n1", "n2", "n3"]
        .map(|name| joined(node(name, "a")))
        .into_iter()
        .chain(["n4", "n5", "n6"].map(|name| node(name, "a")));
    let mut cluster = observed(all);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    let mut scenario = rollout_over(cluster, stepped(9, &[1, 2], 60), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n4"]);
    assert!(scenario.wait(200).is_empty(), "n4 is in transition");
    // Its own assignment lacks what the target requires, so it is assigned in its turn.
    let incomplete = |name: &str| {
        let node = joined(node(name, "a"));
        let content = node.content.map(|content| NodeContent { assigned: None, ..content });
        Node { content, ..node }
    };
    let mut cluster = observed(["n1", "n2", "n3"].map(incomplete));
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    let mut scenario = rollout_over(cluster, stepped(9, &[1, 2], 60), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
}

#[test]
fn failure_and_lost_node_restart_the_soak() {
    let policy = RolloutPolicy { max_failures: 1, ..stepped(9, &[2], 60) };
    let mut scenario = rollout(nodes(4), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    scenario.refuse("n1");
    scenario.converge("n2");
    assert!(scenario.wait(30).is_empty());
    assert!(matches!(scenario.state().gate, StartGate::SoakingStage { .. }));
    let target = target();
    scenario.observe("n2", |node| Node { ready: Readiness::NotReady, ..on(node, &target) });
    assert!(scenario.wait(100).is_empty(), "n2 is not Ready");
    scenario.see_on_target("n2");
    assert!(scenario.wait(59).is_empty(), "the soak restarts");
    assert_eq!(scenario.wait(1), ["assign n3", "assign n4"], "the failed node counts");
}

#[test]
fn node_that_leaves_makes_room_within_its_step() {
    let mut scenario = rollout(nodes(4), stepped(9, &[2], 60), ASSIGN);
    scenario.send(Input::Start);
    assert_eq!(scenario.send(Input::Gone(node_name("n1"))), ["assign n3"]);
}

#[test]
fn steps_and_domains_each_have_their_soak() {
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(30) };
    let policy = RolloutPolicy { order: Some(order), ..stepped(9, &[2], 60) };
    let zones = [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b")];
    let mut scenario = rollout(zones.map(|(name, zone)| in_zone(node(name, "a"), Some(zone))), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    scenario.converge("n1");
    scenario.converge("n2");
    assert!(scenario.wait(59).is_empty(), "the domain has soaked, and the step has not");
    assert_eq!(scenario.wait(1), ["assign n3", "assign n4"]);
}

#[test]
fn next_step_waits_for_the_gate_of_its_nodes() {
    let steps = stepped(9, &[1], 0).steps;
    let mut scenario = rollout(nodes(2), RolloutPolicy { steps, ..gated(9, &[Moment::Node]) }, GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.fires(&[]), ["assign n1"]);
    scenario.wait(15);
    scenario.fires(&["web"]);
    scenario.converge("n1");
    for _ in 0..30 {
        scenario.wait(14);
        scenario.fires(&["web"]);
    }
    assert_eq!(scenario.stopped(), None, "the pool has not stalled, although nodes may take less time");
    assert_eq!(scenario.fires(&[]), ["assign n2"]);
}

#[test]
fn interval_lies_between_two_starts() {
    let policy = RolloutPolicy { interval: Duration::from_secs(30), ..policy(9) };
    let mut scenario = rollout(nodes(3), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.wait(29).is_empty());
    assert_eq!(scenario.wait(1), ["assign n2"]);
    scenario.converge("n1");
    assert!(scenario.converge("n2").is_empty());
    assert_eq!(scenario.wait(30), ["assign n3"]);
}

#[test]
fn nodes_start_in_the_order_of_their_age() {
    let at = |second| CreationTime::new(Timestamp::from_second(second).unwrap());
    let ages = [("n1", at(200)), ("n2", None), ("n3", at(100)), ("n4", at(300)), ("n5", at(200))];
    let started = |start_order, canaries| {
        let nodes = ages.map(|(name, created)| Node { created, ..node(name, "a") });
        let policy = RolloutPolicy { start_order, canary: canary(canaries, 0), ..policy(9) };
        rollout(nodes, policy, ASSIGN).send(Input::Start)
    };
    let assign = |names: &[&str]| names.iter().map(|name| format!("assign {name}")).collect::<Vec<_>>();
    assert_eq!(started(StartOrder::Name, 0), assign(&["n1", "n2", "n3", "n4", "n5"]));
    assert_eq!(started(StartOrder::Newest, 0), assign(&["n4", "n1", "n5", "n3", "n2"]));
    assert_eq!(started(StartOrder::Oldest, 0), assign(&["n3", "n1", "n5", "n4", "n2"]));
    assert_eq!(started(StartOrder::Newest, 2), assign(&["n4", "n1"]), "the canaries are the newest");
}

#[test]
fn exhausted_budget_stops_a_step() {
    let policy = RolloutPolicy { max_failures: 5, ..stepped(1, &[2], 0) };
    let mut scenario = rollout(nodes(3), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.refuse("n1");
    assert!(matches!(scenario.stopped(), Some(StopReason::BudgetExhausted { .. })), "{:?}", scenario.stopped());
}
