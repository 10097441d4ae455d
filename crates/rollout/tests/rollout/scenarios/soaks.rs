//! Scenario tests of gates in soaks, and before a domain begins.

use std::time::Duration;

use super::gates::{GATED, gated};
use super::{rollout, rollout_over, target};
use crate::scenario::Scenario;
use nodecfg_fleet::gates::Moment;
use nodecfg_fleet::{NodeOrder, RolloutPolicy};
use nodecfg_plan::fixtures::{ZONE, canary, in_zone, node, observed, on, rendered, with_config_map};
use nodecfg_rollout::StopReason;
use nodecfg_rollout::machine::Input;
use nodecfg_rollout::progress::Progress;

/// A run that continues a rollout soaks before its first node.
#[test]
fn soak_before_the_first_node_waits_for_its_gate_and_ends() {
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(60) };
    let at = [Moment::Node, Moment::Soak];
    let target = target();
    let of_zones = [on(in_zone(node("n1", "a"), Some("a")), &target), in_zone(node("n2", "a"), Some("b"))];
    let of_canaries = [on(node("n1", "a"), &target), node("n2", "a")];
    for (nodes, policy) in [
        (of_zones, RolloutPolicy { order: Some(order), ..gated(3, &at) }),
        (of_canaries, RolloutPolicy { canary: canary(1, 60), ..gated(3, &at) }),
    ] {
        let start = || {
            let mut cluster = observed(nodes.clone());
            with_config_map(&mut cluster, "a", &rendered("a", 64));
            let mut scenario = rollout_over(cluster, policy.clone(), GATED);
            scenario.send(Input::Start);
            scenario.see_on_target("n1");
            scenario.unknown();
            scenario
        };
        let mut scenario = start();
        for _ in 0..8 {
            assert!(scenario.wait(14).is_empty() && scenario.unknown().is_empty());
        }
        assert_eq!(scenario.stopped(), None, "the patience is not over");
        assert_eq!(scenario.fires(&[]), ["assign n2"]);
        let mut scenario = start();
        for _ in 0..60 {
            scenario.wait(14);
            scenario.unknown();
        }
        assert!(matches!(scenario.stopped(), Some(StopReason::GateClosed { .. })), "{:?}", scenario.stopped());
    }
}

#[test]
fn domain_begins_once_the_gate_of_its_nodes_passes() {
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::ZERO };
    let nodes = [in_zone(node("n1", "a"), Some("a")), in_zone(node("n2", "a"), Some("b"))];
    let policy = RolloutPolicy { order: Some(order), ..gated(1, &[Moment::Node]) };
    let mut scenario = rollout(nodes, policy, GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.fires(&[]), ["assign n1"]);
    scenario.wait(15);
    scenario.fires(&["web"]);
    scenario.converge("n1");
    let begun = |scenario: &Scenario| {
        scenario.progress().filter(|progress| matches!(progress, Progress::DomainStarted { .. })).count()
    };
    assert_eq!(begun(&scenario), 1);
    assert_eq!(scenario.fires(&[]), ["assign n2"]);
    assert_eq!(begun(&scenario), 2);
}

#[test]
fn first_domain_begins_once_the_gates_pass() {
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(60) };
    let policy = RolloutPolicy { order: Some(order), ..gated(3, &[Moment::Start, Moment::Soak]) };
    let nodes = [("n1", "a"), ("n2", "b")].map(|(name, zone)| in_zone(node(name, "a"), Some(zone)));
    let mut scenario = rollout(nodes, policy, GATED);
    let begun = |scenario: &Scenario| {
        scenario.progress().filter(|progress| matches!(progress, Progress::DomainStarted { .. })).count()
    };
    assert!(scenario.send(Input::Start).is_empty());
    assert_eq!(begun(&scenario), 0);
    assert_eq!(scenario.fires(&[]), ["assign n1"]);
    assert_eq!(begun(&scenario), 1);
    scenario.converge("n1");
    scenario.wait(15);
    assert!(scenario.fires(&["api"]).is_empty());
    let Some(StopReason::GateClosed { canaries, .. }) = scenario.stopped() else { panic!("{:?}", scenario.stopped()) };
    assert!(!canaries, "no canaries soaked");
    assert_eq!(begun(&scenario), 1);
}
