//! Property test of several pools: whatever the nodes do, all checks hold, among them the order of the pools and the
//! limit of all pools, and the rollout ends.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::events::{SimEvent, clock, switch};
use super::simulation::Simulation;
use nodecfg_fleet::{Desired, NodeShare, RolloutPolicy};
use nodecfg_plan::fixtures::{canary, desired, node, observed, policy, pool, pool_name, rendered, with_config_map};
use nodecfg_rollout::machine::Mode;

fn sim_events() -> impl Strategy<Value = SimEvent> {
    prop_oneof![
        6 => switch(0.9, SimEvent::Finish),
        1 => switch(1.0, SimEvent::Follow),
        7 => switch(0.7, SimEvent::Ready),
        5 => clock(1..200, SimEvent::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn limit_and_order_are_kept(
        nodes in vec(0..3_usize, 1..14),
        (limit, budget, max_failures) in (1..5_u32, 1..4_u32, 0..3_u32),
        soak in prop::option::of(0..60_u64),
        is_ordered in any::<bool>(),
        sim_events in vec(sim_events(), 0..120),
    ) {
        let names = ["a", "b", "c"];
        let pools = (0..names.len()).map(|index| {
            let earlier = if is_ordered { &names[..index] } else { &[] };
            pool(names[index], 64, RolloutPolicy {
                canary: soak.and_then(|soak| canary(1, soak)),
                max_failures,
                convergence_timeout: Duration::from_secs(300),
                after: earlier.iter().map(|name| pool_name(name)).collect(),
                ..policy(budget)
            })
        });
        let desired = Desired { max_unavailable: Some(NodeShare::Count(limit)), ..desired(pools) };
        let nodes = nodes.into_iter().enumerate();
        let mut start = observed(nodes.map(|(index, pool)| node(&format!("{}{index:02}", names[pool]), names[pool])));
        names.iter().for_each(|name| with_config_map(&mut start, name, &rendered(name, 64)));
        let mut simulation = Simulation::new(desired, start, Mode::ASSIGN);
        simulation.run(sim_events);
        simulation.settle(12_000);
    }
}
