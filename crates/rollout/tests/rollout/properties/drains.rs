//! Property test of drains (invariant 10): whatever nodes, pods and the API server do, all checks hold, and the rollout
//! ends.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::events::{SimEvent, clock, of_node, step_clock, stop, switch};
use super::simulation::Simulation;
use kubelet_config::risk::Class;
use nodecfg_fleet::PoolTarget;
use nodecfg_fleet::drain::{DrainPolicy, OnTimeout};
use nodecfg_observed::{Node, Pod, Readiness};
use nodecfg_plan::drain::fixtures::{daemon, mark, pod};
use nodecfg_plan::fixtures::{
    canary, desired, exclusion, fetched, namespace, node, node_name, observed, on, policy, pool as pool_of,
    rendered_of, with_config_map,
};
use nodecfg_rollout::machine::Mode;

fn sim_events() -> impl Strategy<Value = SimEvent> {
    prop_oneof![
        30 => (0..100_usize, 0..20_u8).prop_map(|(index, how)| SimEvent::Answer(index, how)),
        12 => of_node(SimEvent::PodEnds),
        1 => of_node(SimEvent::PodStarts),
        11 => switch(0.9, SimEvent::Follow),
        3 => switch(0.7, SimEvent::Ready),
        1 => switch(0.5, SimEvent::Maintain),
        1 => of_node(SimEvent::Unmark),
        1 => of_node(SimEvent::Vanish),
        2 => of_node(SimEvent::Heartbeat),
        6 => clock(1..90, SimEvent::Wait),
        1 => step_clock(),
        3 => stop(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn drains_keep_the_budget_and_release_every_mark(
        states in vec((prop::bool::weighted(0.85), prop::bool::weighted(0.15), 0..12_usize), 1..8),
        budget in 1..4_u32,
        canaries in prop::option::of((1..3_u32, 0..60_u64)),
        max_failures in 0..3_u32,
        rollback_on_failure in any::<bool>(),
        on_timeout in prop_oneof![Just(OnTimeout::Hold), Just(OnTimeout::Release)],
        (timeout, drain_timeout, settle) in (60..900_u64, 60..900_u64, 0..90_u64),
        excluded in vec((0..6000_i64, 1..3000_i64), 0..2),
        list_pods in any::<bool>(),
        sim_events in vec(sim_events(), 0..300),
    ) {
        let mut policy = policy(budget);
        policy.canary = canaries.and_then(|(nodes, soak)| canary(nodes, soak));
        policy.max_failures = max_failures;
        policy.convergence_timeout = Duration::from_secs(timeout);
        policy.allow_disruption = Class::Drain;
        policy.schedule.exclusions = excluded.into_iter().map(|(from, length)| exclusion(from, length)).collect();
        let (timeout, settle) = (Duration::from_secs(drain_timeout), Duration::from_secs(settle));
        policy.drain = DrainPolicy { on_timeout, timeout, settle, ..DrainPolicy::default() };
        let mut pool = pool_of("a", 64, policy);
        let target = rendered_of("a", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n");
        pool.targets = PoolTarget::Config(Box::new(target)).into();
        let previous = rendered_of("a", "cpuManagerPolicy: none\n");
        let old = previous.source(&namespace());
        let name = |index: usize| format!("n{index:02}");
        let mut start = observed(states.iter().enumerate().map(|(index, (ready, is_marked, _))| {
            let drain_mark = is_marked.then(|| Box::new(mark("a")));
            let ready = if *ready { Readiness::Ready } else { Readiness::NotReady };
            Node { ready, drain_mark, ..on(node(&name(index), "a"), &old) }
        }));
        with_config_map(&mut start, "a", &previous);
        start.contents.extend([fetched(&old, &previous.canonical, true)]);
        let mode = Mode { rollback_on_failure, list_pods, ..Mode::ASSIGN };
        let mut simulation = Simulation::new(desired([pool]), start, mode);
        prop_assert!(simulation.plan.pools[0].steps().all(|step| step.drain));
        for (index, (.., pods)) in states.into_iter().enumerate() {
            let own = (0..pods).map(|number| Pod { priority: i32::from(number % 4 == 3), ..pod(&format!("p{number}")) });
            let daemon = Pod { exclusive_cpus: index % 2 == 0, uid: "daemon".to_owned(), ..daemon("proxy") };
            let pods = own.chain([daemon]).map(|pod| (pod.uid.clone(), pod)).collect();
            simulation.cluster.pods.insert(node_name(&name(index)), pods);
        }
        simulation.run(sim_events);
        simulation.settle(8_000);
    }
}
