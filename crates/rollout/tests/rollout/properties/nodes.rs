//! Property test of nodes and pointers (invariant 4): whatever the nodes of a pool do, all checks hold, and the rollout
//! ends.

use std::time::Duration;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::events::{SimEvent, clock, of_node, step_clock, stop, switch};
use super::simulation::Simulation;
use nodecfg_fleet::{Desired, NodeOrder, NodeShare, Steps};
use nodecfg_observed::{Maintainer, Node, Readiness};
use nodecfg_plan::drain::fixtures::pod;
use nodecfg_plan::fixtures::{
    ZONE, canary, desired, exclusion, fetched, in_zone, namespace, node, observed, on, policy, pool, rendered,
    with_config_map,
};
use nodecfg_rollout::machine::Mode;

fn sim_events() -> impl Strategy<Value = SimEvent> {
    prop_oneof![
        12 => (0..20_u8).prop_map(|how| SimEvent::Answer(0, how)),
        12 => switch(0.8, SimEvent::Follow),
        5 => switch(0.6, SimEvent::Ready),
        2 => of_node(SimEvent::Heartbeat),
        2 => switch(0.5, SimEvent::Cordon),
        2 => switch(0.5, SimEvent::Maintain),
        2 => switch(0.5, SimEvent::Unreadable),
        1 => of_node(SimEvent::Delete),
        1 => of_node(SimEvent::Vanish),
        3 => clock(1..120, SimEvent::Wait),
        1 => step_clock(),
        3 => stop(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn keeps_budget_and_terminates(
        states in vec((prop::bool::weighted(0.85), prop::bool::weighted(0.1), prop::bool::weighted(0.1), 0..4_usize), 1..14),
        order_soak in prop::option::of(0..90_u64),
        budget in 1..5_u32,
        canaries in prop::option::of((1..3_u32, 0..60_u64)),
        steps in prop::option::of((btree_set(1..12_u32, 1..4), 0..90_u64)),
        interval in prop::option::of(1..60_u64),
        max_failures in 0..3_u32,
        rollback_on_failure in any::<bool>(),
        list_pods in any::<bool>(),
        concurrency in 1..6_usize,
        timeout in 1..900_u64,
        excluded in vec((0..6000_i64, 1..2000_i64), 0..3),
        sim_events in vec(sim_events(), 0..160),
    ) {
        let mut policy = policy(budget);
        policy.canary = canaries.and_then(|(nodes, soak)| canary(nodes, soak));
        policy.steps = steps.map_or(Steps::default(), |(shares, soak)| Steps {
            shares: shares.into_iter().map(NodeShare::Count).collect(),
            soak: Duration::from_secs(soak),
        });
        policy.interval = Duration::from_secs(interval.unwrap_or_default());
        policy.max_failures = max_failures;
        policy.convergence_timeout = Duration::from_secs(timeout);
        policy.schedule.exclusions = excluded.into_iter().map(|(from, length)| exclusion(from, length)).collect();
        policy.order = order_soak.map(|soak| NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(soak) });
        let desired = Desired { pool_pointers: true, ..desired([pool("a", 64, policy)]) };
        let previous = rendered("a", 110);
        let old = previous.source(&namespace());
        let mut start = observed(states.into_iter().enumerate().map(|(index, (ready, cordoned, maintained, zone))| {
            let node = node(&format!("n{index:02}"), "a");
            let node = on(in_zone(node, ["z0", "z1", "z2"].get(zone).copied()), &old);
            let ready = if ready { Readiness::Ready } else { Readiness::NotReady };
            Node { cordoned, maintainer: maintained.then_some(Maintainer::Karpenter), ready, ..node }
        }));
        with_config_map(&mut start, "a", &previous);
        // The previous ConfigMap still exists.
        start.contents.extend([fetched(&old, &previous.canonical, true)]);
        let mode = Mode { rollback_on_failure, concurrency, list_pods, ..Mode::ASSIGN };
        let mut simulation = Simulation::new(desired, start, mode);
        for name in simulation.cluster.nodes.keys() {
            let pods = ["a", "b"].map(pod).map(|pod| (pod.uid.clone(), pod));
            simulation.cluster.pods.insert(name.clone(), pods.into());
        }
        simulation.run(sim_events);
        simulation.settle(12_000);
    }
}
