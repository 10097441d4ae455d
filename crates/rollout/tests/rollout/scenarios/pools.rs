//! Scenario and property tests of several pools: their order, and the limit of unavailable nodes of all pools.

use std::sync::Arc;
use std::time::Duration;

use crate::Machine;
use crate::scenario::Scenario;
use nodecfg_contract::names::GateName;
use nodecfg_contract::{ConfigSource, error_text};
use nodecfg_fleet::gates::{Baseline, Gate, GateCheck, Moment, PrometheusQuery, Question};
use nodecfg_fleet::hold::{Hold, HoldReason};
use nodecfg_fleet::{NodeShare, Pool, RolloutPolicy};
use nodecfg_observed::{Maintainer, Node, NodeContent, Readiness};
use nodecfg_plan::Plan;
use nodecfg_plan::fixtures::{
    canary, desired, exclusion, namespace, node, node_name, observed, on, policy, pool, pool_name, refusing, rendered,
    replacing, with_config_map,
};
use nodecfg_rollout::instant::Instant;
use nodecfg_rollout::judge::{Answer, Asked, Series};
use nodecfg_rollout::machine::{Input, Mode};
use nodecfg_rollout::{End, StopReason};

fn after(first: &[&str], policy: RolloutPolicy) -> RolloutPolicy {
    RolloutPolicy { after: first.iter().map(|name| pool_name(name)).collect(), ..policy }
}

fn target(node: &str) -> ConfigSource {
    rendered(&node[..1], 64).source(&namespace())
}

fn wanted(name: &str, policy: RolloutPolicy) -> Pool {
    pool(name, 64, RolloutPolicy { convergence_timeout: Duration::from_secs(300), ..policy })
}

fn rollout(pools: impl IntoIterator<Item = Pool>, nodes: impl IntoIterator<Item = Node>) -> Scenario {
    rollout_within(None, pools, nodes)
}

/// A rollout with a limit of all pools.
fn rollout_within(
    limit: Option<u32>,
    pools: impl IntoIterator<Item = Pool>,
    nodes: impl IntoIterator<Item = Node>,
) -> Scenario {
    let mut cluster = observed(nodes);
    let mut desired = desired(pools);
    desired.max_unavailable = limit.map(NodeShare::Count);
    for name in desired.pools.keys() {
        with_config_map(&mut cluster, name.as_str(), &rendered(name.as_str(), 64));
    }
    Scenario::of(desired, cluster, Mode::ASSIGN)
}

fn held(scenario: &Scenario, pool: &str) -> Option<HoldReason> {
    scenario.pool(pool).held.map(|hold| hold.why)
}

fn waits_for(pool: &str) -> Option<HoldReason> {
    Some(HoldReason::Pool { pool: pool_name(pool) })
}

fn one_each(pools: &[&str]) -> Vec<Node> {
    pools.iter().map(|pool| node(&format!("{pool}1"), pool)).collect()
}

#[test]
fn pool_starts_when_the_pools_before_it_have_converged() {
    let pools = [
        wanted("a", policy(1)),
        wanted("b", after(&["a"], policy(1))),
        wanted("c", after(&["a", "b"], policy(1))),
        wanted("d", policy(1)),
    ];
    let mut scenario = rollout(pools, one_each(&["a", "b", "c", "d"]));
    assert_eq!(scenario.send(Input::Start), ["assign a1", "assign d1"]);
    assert_eq!(scenario.converge("a1"), ["assign b1"]);
    assert_eq!(scenario.converge("d1"), [""; 0]);
    assert_eq!(scenario.converge("b1"), ["assign c1"]);
    assert!(!scenario.is_finished());
    scenario.converge("c1");
    assert!(scenario.is_finished() && scenario.is_complete());
}

#[test]
fn pools_after_one_that_failed_are_held() {
    let pools = [wanted("a", policy(1)), wanted("b", after(&["a"], policy(1))), wanted("c", after(&["b"], policy(1)))];
    let mut scenario = rollout(pools, one_each(&["a", "b", "c"]));
    scenario.send(Input::Start);
    assert_eq!(scenario.refuse("a1"), [""; 0]);
    assert_eq!((held(&scenario, "b"), held(&scenario, "c")), (waits_for("a"), waits_for("b")));
    assert_eq!(scenario.pool("c").nodes[0].end, End::Held);
    assert!(scenario.is_finished() && !scenario.is_complete());
}

/// Each pool is held for its own reason, and nothing has failed.
#[test]
fn pools_after_a_held_one_are_held() {
    let mut frozen = policy(1);
    frozen.schedule.exclusions = vec![exclusion(0, 60)];
    let pools = [wanted("a", frozen), wanted("b", after(&["a"], policy(1)))];
    let mut scenario = rollout(pools, one_each(&["a", "b"]));
    assert_eq!(scenario.send(Input::Start), [""; 0]);
    assert!(matches!(held(&scenario, "a"), Some(HoldReason::Exclusion { .. })));
    assert_eq!(held(&scenario, "b"), waits_for("a"));
    assert!(scenario.is_finished() && scenario.is_complete());
}

/// The soak time of the canaries is also that of the whole pool, which may have canaries only.
#[test]
fn pool_soaks_before_the_next_one_starts() {
    let first = RolloutPolicy { canary: canary(1, 60), ..policy(1) };
    let pools = || [wanted("a", first.clone()), wanted("b", after(&["a"], policy(2)))];
    let mut scenario = rollout(pools(), one_each(&["a", "b"]));
    scenario.send(Input::Start);
    assert_eq!(scenario.converge("a1"), [""; 0]);
    assert_eq!(scenario.wait(30), [""; 0]);
    // A node that is lost restarts the soak time.
    assert_eq!(scenario.observe("a1", |node| Node { ready: Readiness::NotReady, ..node }), [""; 0]);
    assert_eq!(scenario.wait(40), [""; 0]);
    assert_eq!(scenario.observe("a1", |node| Node { ready: Readiness::Ready, ..node }), [""; 0]);
    assert_eq!(scenario.wait(59), [""; 0]);
    assert_eq!(scenario.wait(1), ["assign b1"]);
    // The soak time has passed once a node that the reconciler assigned runs the target of the next pool.
    for (self_assigned, started) in [(false, vec!["assign b2".to_owned()]), (true, vec![])] {
        let hash = Some(rendered("b", 64).hash);
        let content = NodeContent { assigned: hash, active: hash, self_assigned, ..replacing() };
        let settled = Node { content: Some(content), ..on(node("b1", "b"), &target("b1")) };
        let mut scenario = rollout(pools(), [node("a1", "a"), settled.clone(), node("b2", "b")]);
        scenario.send(Input::Observed(Box::new(settled)));
        scenario.send(Input::Start);
        assert_eq!(scenario.converge("a1"), started);
    }
}

/// The rollout must end, and the next run continues.
#[test]
fn pool_whose_predecessor_loses_a_node_for_long_is_held() {
    let first = RolloutPolicy { canary: canary(1, 60), ..policy(1) };
    let pools = [wanted("a", first), wanted("b", after(&["a"], policy(2)))];
    let mut scenario = rollout(pools, one_each(&["a", "b"]));
    scenario.send(Input::Start);
    scenario.converge("a1");
    scenario.observe("a1", |node| Node { ready: Readiness::NotReady, ..node });
    scenario.wait(299);
    assert!(!scenario.is_finished());
    scenario.wait(1);
    assert_eq!(held(&scenario, "b"), waits_for("a"));
    assert!(scenario.is_finished());
}

#[test]
fn pools_without_nodes_and_converged_pools_delay_nothing() {
    let pools = || [wanted("a", policy(1)), wanted("b", after(&["a"], policy(1)))];
    assert_eq!(rollout(pools(), one_each(&["b"])).send(Input::Start), ["assign b1"]);
    let nodes = [on(node("a1", "a"), &target("a1")), node("b1", "b")];
    assert_eq!(rollout(pools(), nodes).send(Input::Start), ["assign b1"]);
}

#[test]
fn node_that_points_at_its_target_is_watched_before_the_turn_of_its_pool() {
    let pointed = Node { source: Some(target("b1")), ..node("b1", "b") };
    let pools = [wanted("a", policy(1)), wanted("b", after(&["a"], policy(1)))];
    let mut scenario = rollout(pools, [node("a1", "a"), pointed, node("b2", "b")]);
    scenario.send(Input::Start);
    scenario.observe("b1", |node| on(node, &target("b1")));
    assert_eq!(scenario.refuse("a1"), [""; 0]);
    let ends: Vec<End> = scenario.pool("b").nodes.into_iter().map(|node| node.end).collect();
    assert_eq!(ends, [End::Converged, End::Held]);
}

/// `verify` watches all nodes at once.
#[test]
fn order_does_not_concern_a_verification() {
    let pools = [wanted("a", policy(1)), wanted("b", after(&["a"], policy(1)))];
    let pointed = |name: &str| Node { source: Some(target(name)), ..node(name, &name[..1]) };
    let mut scenario = rollout(pools, [pointed("a1"), pointed("b1")]);
    scenario.machine = Machine::new(&scenario.plan, Mode { assign: false, ..Mode::ASSIGN });
    scenario.send(Input::Start);
    scenario.observe("a1", |node| refusing(node, &target("a1"), error_text::VALIDATE));
    assert!(!scenario.is_finished(), "b1 is watched");
    scenario.observe("b1", |node| on(node, &target("b1")));
    assert_eq!((held(&scenario, "b"), scenario.pool("b").nodes[0].end.clone()), (None, End::Converged));
}

#[test]
fn stop_ends_pools_that_wait() {
    let pools = [wanted("a", policy(1)), wanted("b", after(&["a"], policy(1)))];
    let mut scenario = rollout(pools, one_each(&["a", "b"]));
    scenario.send(Input::Start);
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert_eq!(scenario.converge("a1"), [""; 0]);
    assert_eq!(scenario.pool("b").stopped, Some(StopReason::Interrupted));
    assert!(scenario.is_finished());
}

#[test]
fn windows_are_checked_when_the_turn_comes() {
    let mut frozen = policy(1);
    frozen.schedule.exclusions = vec![exclusion(310, 60)];
    let mut scenario = rollout([wanted("a", policy(1)), wanted("b", after(&["a"], frozen))], one_each(&["a", "b"]));
    scenario.send(Input::Start);
    scenario.wait(11);
    assert_eq!(scenario.converge("a1"), [""; 0]);
    assert!(matches!(scenario.pool("b").held, Some(Hold { why: HoldReason::TooShort { .. }, .. })));
}

#[test]
fn limit_of_all_pools_is_shared() {
    let pools = [wanted("a", policy(2)), wanted("b", policy(2))];
    let nodes = ["a1", "a2", "b1", "b2"].map(|name| node(name, &name[..1]));
    let mut scenario = rollout_within(Some(3), pools, nodes);
    assert_eq!(scenario.send(Input::Start), ["assign a1", "assign a2", "assign b1"]);
    assert_eq!(scenario.converge("a1"), ["assign b2"]);
    scenario.converge("a2");
    // Time in other pools is no stall.
    scenario.wait(1);
    for name in ["b1", "b2"] {
        scenario.converge(name);
    }
    assert!(scenario.is_complete());
}

#[test]
fn percentage_of_the_fleet_is_of_the_nodes_of_all_pools() {
    let nodes = ["a1", "a2", "a3", "b1"].map(|name| node(name, &name[..1]));
    let scenario = rollout([wanted("a", policy(1)), wanted("b", policy(1))], nodes);
    let plan = Plan { max_unavailable: Some(NodeShare::Percent(50)), ..scenario.plan };
    assert_eq!(plan.budget(), Some(2));
}

#[test]
fn pool_that_waits_for_room_has_not_stalled() {
    let slow = RolloutPolicy { convergence_timeout: Duration::from_secs(3000), ..policy(1) };
    let pools = [pool("a", 64, slow), wanted("b", policy(1))];
    let mut scenario = rollout_within(Some(1), pools, one_each(&["a", "b"]));
    assert_eq!(scenario.send(Input::Start), ["assign a1"]);
    assert_eq!(scenario.wait(2000), [""; 0]);
    assert_eq!(scenario.converge("a1"), ["assign b1"]);
}

#[test]
fn node_that_left_an_earlier_pool_delays_nothing() {
    let pools = [wanted("a", policy(2)), wanted("b", after(&["a"], policy(1)))];
    let nodes = ["a1", "a2", "b1"].map(|name| node(name, &name[..1]));
    let mut scenario = rollout(pools, nodes);
    scenario.send(Input::Start);
    assert_eq!(scenario.converge("a1"), [""; 0]);
    assert_eq!(scenario.send(Input::Gone(node_name("a2"))), ["assign b1"]);
}

/// The time limit counts from the latest loss.
#[test]
fn predecessor_may_lose_a_node_again_and_again() {
    let first = RolloutPolicy { canary: canary(1, 600), ..policy(1) };
    let pools = [wanted("a", first), wanted("b", after(&["a"], policy(2)))];
    let mut scenario = rollout(pools, one_each(&["a", "b"]));
    scenario.send(Input::Start);
    scenario.converge("a1");
    for _ in 0..3 {
        scenario.observe("a1", |node| Node { ready: Readiness::NotReady, ..node });
        scenario.wait(299);
        assert_eq!(held(&scenario, "b"), None);
        scenario.observe("a1", |node| Node { ready: Readiness::Ready, ..node });
        scenario.wait(10);
    }
    assert_eq!(scenario.wait(590), ["assign b1"]);
}

/// A node reports its own readiness, and must not keep the later pools waiting with it.
#[test]
fn predecessor_that_comes_and_goes_ends_the_wait() {
    let first = RolloutPolicy { canary: canary(1, 600), ..policy(1) };
    let pools = [wanted("a", first), wanted("b", after(&["a"], policy(2)))];
    let mut scenario = rollout(pools, one_each(&["a", "b"]));
    scenario.send(Input::Start);
    scenario.converge("a1");
    let mut waited = 0;
    while held(&scenario, "b").is_none() {
        scenario.observe("a1", |node| Node { ready: Readiness::NotReady, ..node });
        scenario.wait(100);
        scenario.observe("a1", |node| Node { ready: Readiness::Ready, ..node });
        scenario.wait(100);
        waited += 200;
        assert!(waited <= 4 * (600 + 300) + 200, "{waited} s");
    }
}

#[test]
fn stalled_pool_names_the_limit_that_is_used_up() {
    let pools = [wanted("a", policy(1)), wanted("b", policy(1))];
    let mut nodes = ["a1", "a2", "b1"].map(|name| node(name, &name[..1]));
    nodes[0].maintainer = Some(Maintainer::Kured);
    let mut scenario = rollout_within(Some(3), pools, nodes);
    assert_eq!(scenario.send(Input::Start), ["assign b1"]);
    scenario.converge("b1");
    scenario.wait(300);
    let own = StopReason::BudgetExhausted { budget: 1, unavailable: 1, examples: vec![node_name("a1")] };
    assert_eq!(scenario.pool("a").stopped, Some(own));
}

#[test]
fn failed_nodes_of_other_pools_exhaust_the_limit() {
    let pools = [wanted("a", policy(1)), wanted("b", policy(1))];
    let mut scenario = rollout_within(Some(1), pools, one_each(&["a", "b"]));
    scenario.send(Input::Start);
    assert_eq!(scenario.refuse("a1"), [""; 0]);
    scenario.wait(300);
    let exhausted = StopReason::FleetBudgetExhausted { budget: 1, unavailable: 1 };
    assert_eq!(scenario.pool("b").stopped, Some(exhausted));
    assert!(scenario.is_finished());
}

/// A pool waits for nodes in transition in other pools, even if they started without room. It stalls after them.
#[test]
fn node_that_starts_in_another_pool_ends_a_stall() {
    let pools = ["a", "b", "c"].map(|name| wanted(name, policy(1)));
    let mut scenario = rollout_within(Some(1), pools, one_each(&["a", "b", "c"]));
    scenario.send(Input::Start);
    scenario.refuse("a1");
    scenario.wait(200);
    let lost = scenario.observe("c1", |node| Node { ready: Readiness::NotReady, ..node });
    assert_eq!(lost, ["assign c1"]);
    scenario.wait(200);
    assert_eq!(scenario.pool("b").stopped, None);
    scenario.assigned("c1");
    scenario.observe("c1", |node| on(node, &target("c1")));
    scenario.wait(299);
    assert_eq!(scenario.pool("b").stopped, None);
    scenario.wait(1);
    let exhausted = StopReason::FleetBudgetExhausted { budget: 1, unavailable: 2 };
    assert_eq!(scenario.pool("b").stopped, Some(exhausted));
    assert!(scenario.is_finished());
}

fn query() -> PrometheusQuery {
    PrometheusQuery { query: "errors > 1".to_owned(), present: "errors".to_owned() }
}

/// A rollback needs room, too, and no node of its pool may be left to start.
#[test]
fn pool_rolls_back_once_another_pool_has_made_room() {
    let check = GateCheck::Prometheus { query: query(), baseline: Baseline::Ignore };
    let (name, patience) = (GateName::new("errors").unwrap(), Duration::from_secs(10));
    let gate = Gate { name, check, at: [Moment::Node].into(), patience };
    let gated = RolloutPolicy { gates: vec![gate], rollback_on_gate_failure: true, ..policy(1) };
    let nodes = ["a1", "a2", "b1"].map(|name| node(name, &name[..1]));
    let mut scenario = rollout_within(Some(1), [wanted("a", gated), wanted("b", policy(1))], nodes);
    scenario.machine = Machine::new(&scenario.plan, Mode { gates: Some(Duration::from_secs(15)), ..Mode::ASSIGN });
    let answer = |firing: usize| {
        let series = vec![Series { labels: Arc::default(), value: "5".to_owned() }; firing];
        let answer = Answer::Prometheus { firing: Ok(series), present: Ok(1) };
        let question = Question::Prometheus(query());
        Input::Gate(Box::new(Asked { question, answer, at: Instant::START }))
    };
    assert_eq!(scenario.send(Input::Start), ["assign b1"]);
    assert_eq!(scenario.send(answer(0)), [""; 0]);
    // A node that is not Ready needs no room.
    assert_eq!(scenario.observe("a1", |node| Node { ready: Readiness::NotReady, ..node }), ["assign a1"]);
    scenario.send(answer(1));
    scenario.send(Input::Assigned(node_name("a1")));
    scenario.observe("a1", |node| Node { ready: Readiness::Ready, ..on(node, &target("a1")) });
    scenario.wait(10);
    assert!(matches!(scenario.pool("a").stopped, Some(StopReason::GateClosed { .. })));
    scenario.send(Input::Gone(node_name("a2")));
    assert!(matches!(scenario.pool("a").nodes[0].end, End::Converged));
    scenario.converge("b1");
    assert_eq!(scenario.pool("a").nodes[0].end, End::InFlight);
}

#[test]
fn order_acts_only_after_the_start() {
    let paused = RolloutPolicy { paused: true, ..policy(1) };
    let pools = [wanted("a", paused), wanted("b", after(&["a"], policy(1)))];
    let pointed = Node { source: Some(target("b1")), ..node("b1", "b") };
    let settled = on(node("b2", "b"), &target("b2"));
    let mut scenario = rollout(pools, [node("a1", "a"), pointed, settled]);
    // As the executor does.
    scenario.observe("b2", |node| node);
    scenario.send(Input::Start);
    assert!(!scenario.is_finished(), "b1 is watched");
}

#[test]
fn pools_that_are_due_together_share_the_limit_in_the_order_of_their_names() {
    let soaking = || RolloutPolicy { canary: canary(1, 60), ..policy(2) };
    let nodes = ["a1", "a2", "b1", "b2"].map(|name| node(name, &name[..1]));
    let settled = on(node("c1", "c"), &target("c1"));
    let pools = [wanted("a", soaking()), wanted("b", soaking()), wanted("c", policy(1))];
    let mut scenario = rollout_within(Some(2), pools, nodes.into_iter().chain([settled]));
    assert_eq!(scenario.send(Input::Start), ["assign a1", "assign b1"]);
    // The soak of b ends first.
    scenario.converge("b1");
    scenario.wait(10);
    scenario.converge("a1");
    scenario.observe("c1", |node| Node { ready: Readiness::NotReady, ..node });
    scenario.machine.now = scenario.machine.now.after(80);
    assert_eq!(scenario.send(Input::Tick), ["assign a2"]);
}
