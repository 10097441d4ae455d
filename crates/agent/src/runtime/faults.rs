//! Tests of `AgentRuntime` with kills and with disk faults. They must not change the final state of a scenario.

use std::ops::Range;

use proptest::prelude::*;

use super::harness::{Action, Behaviour, FinalState, RuntimeHarness, Way};
use crate::disk::memory::Fault;

/// Simulated seconds per scenario, enough to settle after a kill, a retry and a comparison of the disk.
const RUN_SECONDS: u64 = 600;

fn scenarios() -> Vec<(&'static str, Vec<(u64, Action)>)> {
    use Action::{Assign, CannotRestart, Reset, Rewrite, Write};
    use Behaviour::{Dies, Good, NoRestart, Refuses, Silent};
    vec![
        ("good", vec![(0, Write("a", Good)), (1, Assign("a"))]),
        ("better", vec![(0, Write("a", Good)), (0, Write("b", Good)), (1, Assign("a")), (200, Assign("b"))]),
        ("during the trial", vec![(0, Write("a", Good)), (0, Write("b", Good)), (1, Assign("a")), (9, Assign("b"))]),
        ("refused", vec![(0, Write("a", Good)), (0, Write("b", Refuses)), (1, Assign("a")), (200, Assign("b"))]),
        ("silent", vec![(0, Write("a", Silent)), (1, Assign("a"))]),
        ("dies", vec![(0, Write("a", Good)), (0, Write("b", Dies)), (1, Assign("a")), (200, Assign("b"))]),
        ("no restart", vec![(0, Write("a", Good)), (0, Write("b", NoRestart)), (1, Assign("a")), (200, Assign("b"))]),
        ("mutable", vec![(0, Write("m", Good)), (1, Assign("m")), (50, Write("m", Dies)), (210, Write("m", Good))]),
        ("reset", vec![(0, Write("a", Good)), (1, Assign("a")), (200, Reset)]),
        ("rewritten", vec![(0, Write("a", Good)), (1, Assign("a")), (100, Rewrite(2))]),
        ("rewritten during the trial", vec![(0, Write("a", Good)), (1, Assign("a")), (9, Rewrite(2))]),
        (
            "rewritten before a rollback",
            vec![
                (0, Write("a", Good)),
                (0, Write("b", Dies)),
                (1, Assign("a")),
                (200, Assign("b")),
                // While the kubelet still answers.
                (203, Rewrite(2)),
            ],
        ),
        (
            "no restart for a while",
            vec![
                (0, Write("a", Good)),
                (0, Write("b", Dies)),
                (1, Assign("a")),
                (199, CannotRestart(3)),
                (200, Assign("b")),
            ],
        ),
        ("missing", vec![(0, Write("a", Good)), (1, Assign("a")), (200, Assign("none"))]),
    ]
}

/// Final state of a scenario without faults, and its number of disk operations.
fn undisturbed_end(way: Way, actions: &[(u64, Action)]) -> (FinalState, u64) {
    let mut sim = RuntimeHarness::new(way, actions);
    sim.run(RUN_SECONDS);
    (sim.final_state(), sim.disk.operations())
}

/// Kills at some operations that change or sync the disk, others in each scenario.
#[test]
fn kill_at_any_operation_does_not_change_the_final_state() {
    kill_at_operations(|way| if way == Way::Overlay { 4 } else { 8 });
}

/// The same at every operation.
#[test]
#[ignore = "takes minutes"]
fn kill_at_every_operation_does_not_change_the_final_state() {
    kill_at_operations(|_| 1);
}

/// Kills at every n-th operation, for each way on its own thread.
fn kill_at_operations(step: impl Fn(Way) -> u64) {
    std::thread::scope(|scope| {
        for (way, step) in Way::ALL.map(|way| (way, step(way))) {
            scope.spawn(move || kill_at_operations_of(way, step));
        }
    });
}

/// Every second kill is also a power failure.
fn kill_at_operations_of(way: Way, step: u64) {
    for (number, (name, actions)) in (0..).zip(scenarios()) {
        let (end, operations) = undisturbed_end(way, &actions);
        let kills = (0..operations).filter(|kill| kill % step == number % step);
        for (count, kill) in (0_u64..).zip(kills) {
            let power = (count % 2 == u64::from(way == Way::DropIn)).then_some(kill);
            let mut sim = RuntimeHarness::new(way, &actions);
            sim.kill_at(kill, power);
            sim.run(RUN_SECONDS);
            let point = format!("{name}, {way:?}, killed at {kill} of {operations}, power {power:?}");
            assert_eq!(sim.final_state(), end, "{point}");
        }
    }
}

/// Faults of one period. Numbers of disk operations count from the start of the period. A power failure comes with
/// the kill and with the restart at the end of the period.
#[derive(Debug, Clone, Default)]
struct Disturbance {
    faults: Vec<(Fault, Range<u64>)>,
    kill: Option<u64>,
    power: Option<u64>,
}

/// Final state of a scenario with two disturbances: during the first 100 s, and for 200 s after second 190.
fn run_disturbed(way: Way, actions: &[(u64, Action)], disturbances: [Disturbance; 2]) -> FinalState {
    let mut sim = RuntimeHarness::new(way, actions);
    for (disturbance, seconds) in disturbances.into_iter().zip([100, 200]) {
        let begin = sim.disk.operations();
        for (fault, range) in disturbance.faults {
            sim.disk.inject(fault, begin + range.start..begin + range.end);
        }
        if let Some(kill) = disturbance.kill {
            sim.kill_at(begin + kill, disturbance.power);
        }
        sim.run(seconds);
        sim.restart_agent(disturbance.power);
        sim.run(90);
    }
    sim.run(RUN_SECONDS);
    sim.final_state()
}

/// Each power failure starts the dying kubelet once more. It thus stops answering three times, and the trial fails as
/// a crash loop instead of by the health timeout.
#[test]
fn failing_trial_fails_despite_power_failures() {
    // The scenario `dies`.
    let (_, actions) = scenarios().swap_remove(5);
    let faults = vec![(Fault::Full, 44..66), (Fault::SyncFails, 20..32)];
    let first = Disturbance { power: Some(0), ..Disturbance::default() };
    let then = Disturbance { faults, kill: Some(77), power: Some(0) };
    for way in Way::ALL {
        let (end, _) = undisturbed_end(way, &actions);
        assert_eq!(run_disturbed(way, &actions, [first.clone(), then.clone()]), end);
    }
}

fn fault() -> impl Strategy<Value = (Fault, Range<u64>)> {
    let kinds =
        [Fault::Full, Fault::ReadOnly, Fault::SyncFails, Fault::ShortWrite, Fault::RenameLost, Fault::RenameFails];
    (proptest::sample::select(kinds.to_vec()), 0..80_u64, 1..30_u64)
        .prop_map(|(fault, from, length)| (fault, from..from + length))
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    let faults = proptest::collection::vec(fault(), 0..5);
    let kill = proptest::option::of(0..80_u64);
    let power = proptest::option::of(any::<u64>());
    (faults, kill, power).prop_map(|(faults, kill, power)| Disturbance { faults, kill, power })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// The harness checks at every step that the kubelet's file is local or accepted, complete and not failed. Once
    /// the faults end, the final state must equal the state without faults.
    #[test]
    fn disk_faults_do_not_change_the_final_state(
        scenario in 0..13_usize,
        way in proptest::sample::select(Way::ALL.to_vec()),
        first in disturbance(),
        then in disturbance(),
    ) {
        let (_, actions) = scenarios().swap_remove(scenario);
        let (end, _) = undisturbed_end(way, &actions);
        prop_assert_eq!(run_disturbed(way, &actions, [first, then]), end);
    }
}
