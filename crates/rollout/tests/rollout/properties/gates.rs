//! Property test of gates (invariant 11): whatever is answered, all checks hold, every node starts unless the pool stops
//! or is held, and a stop returns all nodes or none.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::events::{Says, SimEvent, clock, step_clock};
use super::simulation::{INTERVAL, Simulation, asking_gates, query};
use nodecfg_contract::names::GateName;
use nodecfg_fleet::gates::{Baseline, Gate, GateCheck, Moment};
use nodecfg_plan::fixtures::{canary, desired, node, observed, policy, pool, pool_name};
use nodecfg_rollout::machine::Command;

fn sim_events() -> impl Strategy<Value = SimEvent> {
    let says = prop_oneof![4 => Just(Says::Passes), 1 => Just(Says::Blocks), 1 => Just(Says::Unknown)];
    prop_oneof![
        4 => says.prop_map(SimEvent::Gate),
        3 => clock(1..40, SimEvent::Wait),
        1 => step_clock(),
        4 => Just(SimEvent::Finish(0, true)),
    ]
}

proptest! {
    #[test]
    fn no_step_passes_a_closed_gate(
        nodes in 1..8_usize,
        budget in 1..4_u32,
        soak in 0..100_u64,
        canaries in 0..3_u32,
        at in vec(0..3_usize, 0..4),
        patience in 0..120_u64,
        returns in any::<bool>(),
        sim_events in vec(sim_events(), 0..120),
    ) {
        let at: BTreeSet<Moment> = at.into_iter().map(|index| Moment::ALL[index]).collect();
        let mut policy = policy(budget);
        policy.canary = if canaries > 0 { canary(canaries, soak) } else { None };
        policy.convergence_timeout = Duration::from_secs(1_000_000);
        policy.rollback_on_gate_failure = returns;
        let check = GateCheck::Prometheus { query: query(), baseline: Baseline::Ignore };
        let (name, patience) = (GateName::new("errors").unwrap(), Duration::from_secs(patience));
        policy.gates = vec![Gate { name, check, at, patience }];
        let start = observed((0..nodes).map(|index| node(&format!("n{index}"), "a")));
        let mut simulation = Simulation::new(desired([pool("a", 64, policy)]), start, asking_gates());
        simulation.run(sim_events);
        // Then everything goes well.
        let interval = i64::try_from(INTERVAL).unwrap();
        let goes_well = [SimEvent::Gate(Says::Passes), SimEvent::Finish(0, true), SimEvent::Wait(interval)];
        (0..200).for_each(|_| simulation.happen(goes_well));
        simulation.assert_ended();
        let outcome = simulation.machine.outcome();
        let ended = &outcome.pools[&pool_name("a")];
        let started = simulation.count(|command| matches!(command, Command::Assign(..)));
        let returned = simulation.count(|command| matches!(command, Command::RollBack(..)));
        if ended.stopped.is_none() && ended.held.is_none() {
            prop_assert_eq!(started, nodes);
        }
        if ended.stopped.is_some() && returns {
            prop_assert_eq!(returned, started, "every node of the run goes back");
        } else {
            prop_assert_eq!(returned, 0);
        }
    }
}
