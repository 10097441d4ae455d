//! Scenario tests of pools whose nodes are ordered by a label.

use std::time::Duration;

use super::{ASSIGN, rollout, rollout_over, target};
use crate::scenario::Scenario;
use nodecfg_contract::error_text;
use nodecfg_fleet::{NodeOrder, RolloutPolicy};
use nodecfg_observed::{Maintainer, Node, Readiness};
use nodecfg_plan::fixtures::{
    ZONE, canary, in_zone, namespace, node, node_name, observed, on, policy, refusing, rendered, with_config_map,
};
use nodecfg_rollout::machine::{Input, Mode};
use nodecfg_rollout::progress::{Progress, StartGate};
use nodecfg_rollout::{End, StopReason};

fn ordered(budget: u32, soak_seconds: u64) -> RolloutPolicy {
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(soak_seconds) };
    RolloutPolicy { order: Some(order), ..policy(budget) }
}

/// Two nodes in zone a, one in zone b, and one without a zone.
fn four() -> [Node; 4] {
    [("n1", Some("b")), ("n2", Some("a")), ("n3", None), ("n4", Some("a"))]
        .map(|(name, zone)| in_zone(node(name, "a"), zone))
}

/// Domains that began, soaks between them, and canaries that passed, in order.
fn told(scenario: &Scenario) -> Vec<String> {
    let tell = |progress: &Progress| match progress {
        Progress::DomainStarted { domain, nodes, .. } => Some(format!("{domain} {nodes}")),
        Progress::DomainSoaking { next, .. } => Some(format!("then {next}")),
        Progress::Soaked => Some("soaked".to_owned()),
        _ => None,
    };
    scenario.progress().filter_map(tell).collect()
}

fn unready(name: &str, zone: &str) -> Node {
    Node { ready: Readiness::NotReady, ..on(in_zone(node(name, "a"), Some(zone)), &target()) }
}

fn ready(name: &str, zone: &str) -> Node {
    on(in_zone(node(name, "a"), Some(zone)), &target())
}

#[test]
fn one_domain_follows_the_other() {
    let mut scenario = rollout(four(), ordered(3, 60), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2", "assign n4"], "nothing precedes the first domain");
    assert!(scenario.converge("n4").is_empty(), "budget is left, but n2 is in transition");
    assert!(scenario.converge("n2").is_empty());
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n1"]);
    scenario.converge("n1");
    assert_eq!(scenario.wait(60), ["assign n3"]);
    scenario.converge("n3");
    assert!(scenario.is_finished() && scenario.stopped().is_none());
    let zone = |value: &str| format!("{ZONE}={value}");
    let last = format!("nodes without {ZONE}");
    let expected = [
        format!("{} 2", zone("a")),
        format!("then {}", zone("b")),
        format!("{} 1", zone("b")),
        format!("then {last}"),
        format!("{last} 1"),
    ];
    assert_eq!(told(&scenario), expected);
}

#[test]
fn domains_without_a_soak_follow_at_once() {
    let mut scenario = rollout(four(), ordered(1, 0), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2"]);
    assert_eq!(scenario.converge("n2"), ["assign n4"], "the budget limits the domain, too");
    assert_eq!(scenario.converge("n4"), ["assign n1"]);
    assert_eq!(scenario.converge("n1"), ["assign n3"]);
}

#[test]
fn canaries_are_of_the_first_domain() {
    let policy = RolloutPolicy { canary: canary(1, 30), ..ordered(3, 60) };
    let mut scenario = rollout(four(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2"]);
    assert!(scenario.converge("n2").is_empty());
    assert_eq!(scenario.wait(30), ["assign n4"], "the other node of the canary's domain");
    scenario.converge("n4");
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n1"]);
}

#[test]
fn soak_of_canaries_counts_for_their_domain() {
    for (of_canaries, of_domains, rest) in [(30, 60, 30), (60, 60, 0), (90, 60, 0)] {
        let policy = RolloutPolicy { canary: canary(2, of_canaries), ..ordered(3, of_domains) };
        let mut scenario = rollout(four(), policy, ASSIGN);
        assert_eq!(scenario.send(Input::Start), ["assign n2", "assign n4"], "all nodes of the domain are canaries");
        scenario.converge("n2");
        scenario.converge("n4");
        assert!(scenario.wait(i64::try_from(of_canaries).unwrap() - 1).is_empty());
        let started = scenario.wait(1);
        match rest {
            0 => assert_eq!(started, ["assign n1"]),
            rest => {
                assert!(started.is_empty() && scenario.wait(rest - 1).is_empty());
                assert_eq!(scenario.wait(1), ["assign n1"]);
            }
        }
    }
}

#[test]
fn replaced_canaries_may_use_up_a_domain() {
    let policy = RolloutPolicy { canary: canary(1, 0), ..ordered(3, 60) };
    let mut scenario = rollout(four(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2"]);
    assert_eq!(scenario.send(Input::Gone(node_name("n2"))), ["assign n4"]);
    assert_eq!(scenario.send(Input::Gone(node_name("n4"))), ["assign n1"], "the canary is of the next domain");
    scenario.converge("n1");
    assert_eq!(scenario.wait(60), ["assign n3"]);
}

#[test]
fn node_that_is_lost_in_the_soak_is_awaited_again() {
    let mut scenario = rollout(four(), ordered(3, 60), ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n2");
    scenario.converge("n4");
    scenario.wait(30);
    scenario.send(Input::Observed(Box::new(unready("n2", "a"))));
    assert_eq!(scenario.state().gate, StartGate::Open);
    assert!(scenario.wait(100).is_empty(), "the soak restarts");
    scenario.send(Input::Observed(Box::new(ready("n2", "a"))));
    assert!(scenario.wait(59).is_empty());
    assert_eq!(scenario.wait(1), ["assign n1"]);
}

#[test]
fn node_that_is_lost_before_the_end_of_its_domain_delays_the_next_one_and_fails() {
    let mut scenario = rollout(four(), ordered(3, 0), ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n2");
    scenario.send(Input::Observed(Box::new(unready("n2", "a"))));
    assert!(scenario.converge("n4").is_empty(), "n2 is not Ready");
    assert!(scenario.wait(299).is_empty());
    scenario.wait(1);
    assert!(matches!(scenario.end("n2"), End::Failed { .. }));
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
    assert_eq!(scenario.end("n1"), End::NotStarted);
}

#[test]
fn tolerated_failure_does_not_hold_the_next_domain() {
    let mut policy = ordered(3, 60);
    policy.max_failures = 1;
    let mut scenario = rollout(four(), policy, Mode { rollback_on_failure: false, ..ASSIGN });
    scenario.send(Input::Start);
    scenario.converge("n2");
    scenario.refuse("n4");
    assert!(scenario.stopped().is_none());
    assert_eq!(scenario.wait(60), ["assign n1"]);
}

#[test]
fn failure_in_the_soak_stops_the_pool() {
    let mut scenario = rollout(four(), ordered(3, 60), ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n2");
    scenario.converge("n4");
    let failed = refusing(in_zone(node("n2", "a"), Some("a")), &target(), error_text::VALIDATE);
    scenario.send(Input::Observed(Box::new(failed)));
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
    assert!(scenario.wait(600).is_empty());
}

#[test]
fn run_that_continues_a_rollout_soaks_before_the_next_domain() {
    let start = |converged: &[&str]| {
        let target = target();
        let n5 = in_zone(node("n5", "a"), Some("b"));
        let nodes = four()
            .into_iter()
            .chain([n5])
            .map(|node| if converged.contains(&node.name.as_str()) { on(node, &target) } else { node });
        let mut cluster = observed(nodes);
        with_config_map(&mut cluster, "a", &rendered("a", 64));
        assert_eq!(rendered("a", 64).source(&namespace()), target);
        let mut scenario = rollout_over(cluster, ordered(3, 60), ASSIGN);
        let first = scenario.send(Input::Start);
        let soaked = if first.is_empty() { scenario.wait(60) } else { Vec::new() };
        (first, soaked)
    };
    let names = |names: &[&str]| names.iter().map(|name| format!("assign {name}")).collect::<Vec<String>>();
    assert_eq!(start(&["n2", "n4"]), (names(&[]), names(&["n1", "n5"])), "zone a is done, zone b has not begun");
    assert_eq!(start(&["n2"]), (names(&["n4"]), names(&[])), "zone a has begun");
    assert_eq!(start(&["n2", "n4", "n1"]), (names(&["n5"]), names(&[])), "zone b has begun");
    assert_eq!(start(&["n2", "n4", "n1", "n5"]), (names(&[]), names(&["n3"])));
    assert_eq!(start(&["n1"]), (names(&["n2", "n4"]), names(&[])), "a later domain proves nothing for zone a");
}

#[test]
fn node_that_recovers_waits_for_its_domain() {
    let mut nodes = four();
    (nodes[0].ready, nodes[1].ready) = (Readiness::NotReady, Readiness::NotReady);
    let slow = Mode { concurrency: 1, ..ASSIGN };
    let mut scenario = rollout(nodes, ordered(9, 0), slow);
    assert_eq!(scenario.send(Input::Start), ["assign n1"], "an unavailable node starts first, whatever its domain");

    let mut nodes = four();
    (nodes[0].ready, nodes[1].ready) = (Readiness::NotReady, Readiness::NotReady);
    nodes[1].name = node_name("n0");
    let mut scenario = rollout(nodes, ordered(9, 0), slow);
    assert_eq!(scenario.send(Input::Start), ["assign n0"]);
    assert!(scenario.send(Input::Observed(Box::new(four()[0].clone()))).is_empty());
    assert_eq!(scenario.send(Input::Assigned(node_name("n0"))), ["assign n4"], "n1 needs budget and its domain now");
    assert!(scenario.send(Input::Assigned(node_name("n4"))).is_empty());
    scenario.converge("n4");
    assert_eq!(scenario.converge("n0"), ["assign n1"]);
}

#[test]
fn node_that_another_program_releases_waits_for_its_domain() {
    let mut scenario = rollout(four(), ordered(9, 0), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2", "assign n4"]);
    let claimed = Node { maintainer: Some(Maintainer::Kured), ..four()[0].clone() };
    scenario.send(Input::Observed(Box::new(claimed)));
    assert!(scenario.send(Input::Observed(Box::new(four()[0].clone()))).is_empty(), "zone b has not begun");
    scenario.converge("n2");
    assert_eq!(scenario.converge("n4"), ["assign n1"]);
}

#[test]
fn node_that_becomes_unavailable_starts_with_its_domain_and_without_budget() {
    let mut nodes = four().to_vec();
    nodes.push(in_zone(node("n5", "a"), Some("b")));
    let mut scenario = rollout(nodes, ordered(1, 60), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2"]);
    let down = Node { ready: Readiness::NotReady, ..in_zone(node("n5", "a"), Some("b")) };
    assert!(scenario.send(Input::Observed(Box::new(down.clone()))).is_empty(), "zone b has not begun");
    scenario.send(Input::Observed(Box::new(in_zone(node("n5", "a"), Some("b")))));
    assert_eq!(scenario.converge("n2"), ["assign n4"]);
    scenario.converge("n4");
    assert!(scenario.send(Input::Observed(Box::new(down))).is_empty());
    assert_eq!(scenario.wait(60), ["assign n5"], "n5 uses the budget itself");
}

#[test]
fn canaries_are_nodes_like_others_once_they_have_passed() {
    let policy = RolloutPolicy { canary: canary(1, 0), max_failures: 1, ..ordered(3, 60) };
    let soaking = || {
        let mut scenario = rollout(four(), policy.clone(), Mode { rollback_on_failure: false, ..ASSIGN });
        assert_eq!(scenario.send(Input::Start), ["assign n2"]);
        assert_eq!(scenario.converge("n2"), ["assign n4"]);
        scenario.converge("n4");
        scenario
    };
    let mut scenario = soaking();
    let failed = refusing(in_zone(node("n2", "a"), Some("a")), &target(), error_text::VALIDATE);
    scenario.send(Input::Observed(Box::new(failed)));
    assert_eq!(scenario.stopped(), None, "maxFailures decides");
    assert_eq!(scenario.wait(60), ["assign n1"]);
    let mut scenario = soaking();
    assert!(scenario.send(Input::Gone(node_name("n2"))).is_empty(), "no other node becomes a canary");
    assert_eq!(scenario.wait(60), ["assign n1"]);
}

/// Zone a has converged, and the soak before zone b is not over.
fn soaking(policy: RolloutPolicy, mode: Mode) -> Scenario {
    let mut scenario = rollout(four(), policy, mode);
    scenario.send(Input::Start);
    scenario.converge("n2");
    scenario.converge("n4");
    scenario
}

fn refusal(name: &str, zone: &str) -> Input {
    let node = in_zone(node(name, "a"), Some(zone));
    Input::Observed(Box::new(refusing(node, &target(), error_text::VALIDATE)))
}

#[test]
fn no_domain_begins_after_a_stop() {
    let mut scenario = soaking(ordered(3, 60), ASSIGN);
    let before = told(&scenario);
    scenario.send(Input::Stop(StopReason::Interrupted));
    scenario.wait(60);
    assert_eq!(told(&scenario), before);
    // The failed node is still being rolled back when the soak ends.
    let mut scenario = soaking(ordered(3, 60), ASSIGN);
    scenario.send(refusal("n2", "a"));
    assert!(scenario.stopped().is_some());
    assert!(scenario.wait(60).is_empty());
    assert_eq!(told(&scenario), before);
}

#[test]
fn canaries_that_have_passed_are_not_rolled_back_in_a_later_soak() {
    let mut scenario = soaking(RolloutPolicy { canary: canary(1, 0), ..ordered(3, 60) }, ASSIGN);
    scenario.send(Input::RollBackAll(StopReason::Interrupted));
    assert_eq!(scenario.rolled_back(), [""; 0]);
}

#[test]
fn run_that_continues_a_rollout_waits_for_nodes_in_transition() {
    let target = target();
    let mut nodes = four();
    nodes[1].source = Some(target.clone());
    nodes[3] = on(nodes[3].clone(), &target);
    for soak in [60, 0] {
        let mut cluster = observed(nodes.clone());
        with_config_map(&mut cluster, "a", &rendered("a", 64));
        let mut scenario = rollout_over(cluster, ordered(3, soak), ASSIGN);
        assert!(scenario.send(Input::Start).is_empty(), "n2 of zone a is in transition");
        let mut started = scenario.send(Input::Observed(Box::new(on(four()[1].clone(), &target))));
        if soak > 0 {
            assert!(started.is_empty());
            started = scenario.wait(60);
        }
        assert_eq!(started, ["assign n1"]);
    }
}

#[test]
fn node_that_is_lost_too_often_fails_and_the_soak_begins_anew() {
    let mut policy = ordered(3, 60);
    policy.max_failures = 1;
    let mut scenario = soaking(policy, Mode { rollback_on_failure: false, ..ASSIGN });
    for _ in 0..3 {
        scenario.send(Input::Observed(Box::new(unready("n2", "a"))));
        scenario.send(Input::Observed(Box::new(ready("n2", "a"))));
    }
    scenario.send(Input::Observed(Box::new(unready("n4", "a"))));
    scenario.send(Input::Observed(Box::new(unready("n2", "a"))));
    scenario.wait(280);
    scenario.send(Input::Observed(Box::new(ready("n4", "a"))));
    assert!(matches!(scenario.end("n2"), End::Failed { .. }));
    assert!(scenario.wait(59).is_empty() && scenario.stopped().is_none());
    assert_eq!(scenario.wait(1), ["assign n1"]);
}

#[test]
fn loss_that_stops_the_pool_begins_no_soak() {
    let mut scenario = soaking(ordered(3, 60), Mode { rollback_on_failure: false, ..ASSIGN });
    for _ in 0..3 {
        scenario.send(Input::Observed(Box::new(unready("n2", "a"))));
        scenario.send(Input::Observed(Box::new(ready("n2", "a"))));
    }
    scenario.send(Input::Observed(Box::new(unready("n4", "a"))));
    scenario.send(Input::Observed(Box::new(unready("n2", "a"))));
    let before = told(&scenario);
    scenario.send(Input::Observed(Box::new(ready("n4", "a"))));
    assert!(scenario.stopped().is_some());
    assert_eq!(told(&scenario), before);
    assert!(scenario.wait(600).is_empty() && scenario.is_finished());
}

#[test]
fn tolerated_failure_begins_the_soak_anew() {
    let mut policy = ordered(3, 60);
    policy.max_failures = 1;
    let mut scenario = soaking(policy, Mode { rollback_on_failure: false, ..ASSIGN });
    scenario.wait(59);
    scenario.send(refusal("n2", "a"));
    assert!(scenario.wait(59).is_empty(), "n2 ended later than n4");
    assert_eq!(scenario.wait(1), ["assign n1"]);
}

#[test]
fn domain_without_pending_nodes_costs_no_soak() {
    let mut scenario = soaking(ordered(3, 60), ASSIGN);
    scenario.send(Input::Gone(node_name("n1")));
    assert_eq!(scenario.wait(60), ["assign n3"]);
    assert!(!told(&scenario).iter().any(|text| text.ends_with(" 0")), "{:?}", told(&scenario));
    // A node that comes back starts in the turn of a later domain.
    let mut scenario = soaking(ordered(3, 60), ASSIGN);
    let claimed = Node { maintainer: Some(Maintainer::Kured), ..four()[0].clone() };
    scenario.send(Input::Observed(Box::new(claimed)));
    assert_eq!(scenario.wait(60), ["assign n3"]);
    assert_eq!(scenario.send(Input::Observed(Box::new(four()[0].clone()))), ["assign n1"]);
}

#[test]
fn canaries_are_of_one_domain() {
    let policy = RolloutPolicy { canary: canary(3, 0), ..ordered(3, 60) };
    let mut scenario = rollout(four(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2", "assign n4"]);
    scenario.converge("n2");
    assert!(scenario.converge("n4").is_empty(), "zone b follows zone a");
    assert_eq!(scenario.wait(60), ["assign n1"]);
}

/// A kubelet can put its node into a zone of its own.
#[test]
fn node_alone_in_the_first_zone_is_not_the_only_canary() {
    let policy = RolloutPolicy { canary: canary(2, 0), ..ordered(3, 60) };
    let alone = in_zone(node("n5", "a"), Some("0"));
    let mut scenario = rollout(four().into_iter().chain([alone]), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2", "assign n4"]);
    scenario.converge("n2");
    scenario.converge("n4");
    assert_eq!(scenario.wait(60), ["assign n5"]);
    scenario.converge("n5");
    assert_eq!(scenario.wait(60), ["assign n1"]);
}

#[test]
fn domain_follows_unavailable_nodes_of_an_earlier_one() {
    let mut nodes = four();
    (nodes[1].cordoned, nodes[3].cordoned) = (true, true);
    let mut scenario = rollout(nodes, ordered(3, 60), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2", "assign n4"]);
}

#[test]
fn verify_watches_all_domains_at_once() {
    let mode = Mode { assign: false, ..ASSIGN };
    let mut scenario = rollout(four(), ordered(1, 60), mode);
    scenario.send(Input::Start);
    for name in ["n1", "n3", "n4", "n2"] {
        let zone = four().iter().find(|node| node.name.as_str() == name).unwrap().labels.get(ZONE).cloned();
        let node = on(in_zone(node(name, "a"), zone.as_deref()), &target());
        scenario.send(Input::Observed(Box::new(node)));
    }
    assert!(scenario.is_finished());
    assert_eq!(told(&scenario), [""; 0]);
}

/// Unavailable nodes wait for no domain. One that recovers before its assignment does.
#[test]
fn node_that_recovers_during_the_list_waits_for_its_domain() {
    let nodes = four().map(|node| match node.name.as_str() {
        "n1" => Node { ready: Readiness::NotReady, ..node },
        _ => node,
    });
    let mut scenario = rollout(nodes, ordered(3, 60), Mode { list_pods: true, ..ASSIGN });
    scenario.send(Input::Start);
    assert_eq!(scenario.lists(), ["n1", "n2", "n4"]);
    scenario.see(in_zone(node("n1", "a"), Some("b")));
    assert!(scenario.send(Input::PodsListed(node_name("n1"), Ok(Vec::new()))).is_empty());
    assert_eq!(scenario.send(Input::PodsListed(node_name("n2"), Ok(Vec::new()))), ["assign n2"]);
}

/// Nothing would begin after it.
#[test]
fn domain_of_held_nodes_keeps_no_earlier_one_on() {
    let maintained = Node { maintainer: Some(Maintainer::Kured), ..in_zone(node("n2", "a"), Some("b")) };
    let first = in_zone(node("n1", "a"), Some("a"));
    let mut scenario = rollout([first, maintained], ordered(2, 60), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.converge("n1");
    assert!(scenario.is_finished());
    scenario.see(unready("n1", "a"));
    assert_eq!((scenario.end("n1"), scenario.is_finished()), (End::Converged, true));
}
