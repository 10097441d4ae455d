//! Random scenarios with random kills. Each must end in the same state as without kills.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::crash::random_scenario::{CrashInjector, random_scenario, seeds};
use crate::crash::simulated_node::SimulatedNode;

/// Number of scenarios, unless the environment sets another.
const SCENARIOS: u64 = 62;
/// Minimum number of kills in all scenarios.
const MIN_KILLS: u64 = 10_000;

/// Number of runs with kills per scenario.
const RUNS: u64 = 6;

/// Runs a scenario once without kills and several times with kills, and compares the results. Returns the number of
/// kills.
fn run_scenario(seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let rounds = random_scenario(&mut random, 5, true);
    let mut baseline = SimulatedNode::new(seed);
    let mut killed: Vec<(SimulatedNode, CrashInjector)> = (1..=RUNS)
        .map(|run| {
            let mut sim = SimulatedNode::new(seed ^ run << 32);
            sim.record(&format!("scenario of seed {seed}, run {run}"));
            (sim, CrashInjector { random: fastrand::Rng::with_seed(seed ^ run << 48), left: 0 })
        })
        .collect();
    for round in &rounds {
        CrashInjector::disabled().run_round(&mut baseline, round);
        let expected = baseline.snapshot();
        for (sim, injector) in &mut killed {
            injector.left = injector.random.u32(6..32);
            injector.run_round(sim, round);
            let differences = expected.differences(&sim.snapshot());
            assert!(
                differences.is_empty(),
                "seed {seed}: kills changed the state\n{}\n\nwithout kills:\n{}\nwith kills:\n{}",
                differences.join("\n"),
                baseline.log,
                sim.log
            );
            assert!(sim.runs_good_config(), "seed {seed}: the kubelet stayed on a bad configuration\n{}", sim.log);
        }
    }
    killed.iter().map(|(sim, _)| sim.kills).sum()
}

#[test]
fn survives_ten_thousand_random_kills() {
    let seeds = seeds(SCENARIOS);
    let (next, kills) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    kills.fetch_add(run_scenario(seed), Ordering::Relaxed);
                }
            });
        }
    });
    let kills = kills.into_inner();
    let scenarios = seeds.end - seeds.start;
    println!("{kills} kills in {scenarios} scenarios, each run {RUNS} times");
    assert!(kills * SCENARIOS >= MIN_KILLS * scenarios, "only {kills} kills");
}
