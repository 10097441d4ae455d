//! Property test of gates that name the node: whatever their owners answer, all checks hold, and the rollout ends.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::events::{SimEvent, clock, stop, switch};
use super::simulation::{Simulation, asking_gates};
use nodecfg_contract::names::GateName;
use nodecfg_contract::{ObjectId, ObjectRef};
use nodecfg_fleet::gates::{Gate, GateCheck, Moment, Wanted};
use nodecfg_fleet::{NodeShare, Steps};
use nodecfg_plan::fixtures::{canary, desired, node, observed, policy, pool};

fn sim_events() -> impl Strategy<Value = SimEvent> {
    prop_oneof![
        12 => (0..4_usize, 0..20_u8).prop_map(|(index, how)| SimEvent::Answer(index, how)),
        8 => switch(0.9, SimEvent::Follow),
        3 => switch(0.7, SimEvent::Ready),
        1 => switch(0.5, SimEvent::Maintain),
        4 => clock(1..40, SimEvent::Wait),
        1 => stop(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nodes_start_with_their_permits(
        nodes in 1..9_usize,
        budget in 1..4_u32,
        canaries in 0..3_u32,
        steps in vec(1..6_u32, 0..2),
        patience in 0..90_u64,
        sim_events in vec(sim_events(), 0..120),
    ) {
        let mut policy = policy(budget);
        policy.canary = canary(canaries, 20);
        policy.max_failures = 3;
        policy.steps = Steps { shares: steps.into_iter().map(NodeShare::Count).collect(), soak: Duration::from_secs(20) };
        let (api_version, kind) = ("example.com/v1".to_owned(), "Volume".to_owned());
        let object = ObjectRef { api_version, kind, namespace: None, by: ObjectId::Name("{node}".to_owned()) };
        let wanted = Wanted::Condition { condition: "Idle".to_owned(), status: "True".to_owned() };
        let (name, patience) = (GateName::new("storage").unwrap(), Duration::from_secs(patience));
        let check = GateCheck::Object { object, wanted };
        policy.gates = vec![Gate { name, check, at: [Moment::Node].into(), patience }];
        let start = observed((0..nodes).map(|index| node(&format!("n{index}"), "a")));
        let mut simulation = Simulation::new(desired([pool("a", 64, policy)]), start, asking_gates());
        simulation.run(sim_events);
        simulation.settle(12_000);
    }
}
