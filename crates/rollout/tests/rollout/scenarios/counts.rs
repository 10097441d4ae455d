//! Scenario tests of the pool state in events.

use super::{ASSIGN, rollout, target, three};
use crate::scenario::Scenario;
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::Node;
use nodecfg_plan::fixtures::{canary, node, node_name, on, policy};
use nodecfg_rollout::machine::Input;
use nodecfg_rollout::progress::{NodeCounts, StartGate};

#[test]
fn events_carry_counts_of_their_pool() {
    let deleted = Node { deleting: true, ..node("n0", "a") };
    let policy = RolloutPolicy { canary: canary(1, 60), ..policy(2) };
    let mut scenario = rollout(three().into_iter().chain([deleted]), policy, ASSIGN);
    let counts = |scenario: &Scenario| {
        let state = scenario.state();
        let NodeCounts { pending, in_flight, done, failed, left, .. } = state.counts;
        ((pending, in_flight, done, failed, left), state.gate, state.canaries)
    };
    scenario.send(Input::Start);
    scenario.assigned("n1");
    assert_eq!(counts(&scenario), ((2, 1, 0, 0, 0), StartGate::Canaries, 1));
    scenario.send(Input::Observed(Box::new(on(node("n1", "a"), &target()))));
    let until = scenario.machine.now.after(60).time;
    assert_eq!(counts(&scenario), ((2, 0, 1, 0, 0), StartGate::Soaking { until }, 0));
    scenario.wait(60);
    scenario.send(Input::Gone(node_name("n0")));
    assert_eq!(counts(&scenario), ((2, 0, 1, 0, 0), StartGate::Open, 0), "the plan leaves n0 unchanged");
    scenario.refuse("n2");
    assert_eq!(counts(&scenario), ((1, 0, 1, 1, 0), StartGate::Open, 0));
    assert_eq!(scenario.state().last_failed, Some(node_name("n2")));
    scenario.send(Input::Gone(node_name("n3")));
    assert_eq!(counts(&scenario), ((0, 0, 1, 1, 1), StartGate::Open, 0));
}
