//! Kills at every operation, and random faults: the same end as without.

use std::ops::Range;

use proptest::prelude::*;

use super::world::{Deed, End, Manner, World};
use crate::disk::memory::Fault;

/// How long a story is watched: until nothing happens any more, also after a kill and a wait for the next try.
const LONG: u64 = 500;

fn stories() -> Vec<(&'static str, Vec<(u64, Deed)>)> {
    use Deed::{Assign, Reset, Write};
    use Manner::{Dies, Good, NoRestart, Refuses, Silent};
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
        ("missing", vec![(0, Write("a", Good)), (1, Assign("a")), (200, Assign("none"))]),
    ]
}

/// The end of a story without any trouble, and how many operations it took.
fn told(drop_in: bool, deeds: &[(u64, Deed)]) -> (End, u64) {
    let mut world = World::new(drop_in, deeds);
    world.run(LONG);
    (world.end(), world.disk.operations())
}

/// Killed at every operation that changes the disk (in drop-in mode, which differs little, at every third); with every
/// second one power fails too.
#[test]
fn a_kill_anywhere_ends_as_no_kill() {
    for (name, deeds) in stories() {
        for drop_in in [false, true] {
            let (end, operations) = told(drop_in, &deeds);
            for kill in (0..operations).step_by(if drop_in { 3 } else { 1 }) {
                let power = (kill % 2 == u64::from(drop_in)).then_some(kill);
                let mut world = World::new(drop_in, &deeds);
                world.kill_at(kill, power);
                world.run(LONG);
                assert_eq!(world.end(), end, "{name}, killed at {kill} of {operations}, power {power:?}");
            }
        }
    }
}

/// One time of trouble: faults of the disk by the number of the operation, the operation that the agent is killed at, and the
/// seed of what is lost when power fails with it.
#[derive(Debug, Clone, Default)]
struct Disturbance {
    faults: Vec<(Fault, Range<u64>)>,
    kill: Option<u64>,
    power: Option<u64>,
}

/// The end of a story with trouble during the first assignment and during what follows.
fn troubled(drop_in: bool, deeds: &[(u64, Deed)], troubles: [Disturbance; 2]) -> End {
    let mut world = World::new(drop_in, deeds);
    for (trouble, seconds) in troubles.into_iter().zip([100, 200]) {
        let begin = world.disk.operations();
        for (fault, range) in trouble.faults {
            world.disk.inject(fault, begin + range.start..begin + range.end);
        }
        if let Some(kill) = trouble.kill {
            world.kill_at(begin + kill, trouble.power);
        }
        world.run(seconds);
        world.reopen(trouble.power);
        world.run(90);
    }
    world.run(LONG);
    world.end()
}

/// The kubelet that dies is started once more with each power failure, and so stops answering three times: a crash loop, where
/// it would otherwise have been unhealthy for too long. Whichever comes first, its trial has failed.
#[test]
fn a_trial_that_power_failures_interrupt_fails_as_without() {
    let (_, deeds) = stories().swap_remove(5);
    let faults = vec![(Fault::Full, 44..66), (Fault::SyncFails, 20..32)];
    let first = Disturbance { power: Some(0), ..Disturbance::default() };
    let then = Disturbance { faults, kill: Some(77), power: Some(0) };
    for drop_in in [false, true] {
        let (end, _) = told(drop_in, &deeds);
        assert_eq!(troubled(drop_in, &deeds, [first.clone(), then.clone()]), end);
    }
}

fn fault() -> impl Strategy<Value = (Fault, Range<u64>)> {
    let kinds =
        [Fault::Full, Fault::ReadOnly, Fault::SyncFails, Fault::ShortWrite, Fault::RenameLost, Fault::RenameFails];
    (proptest::sample::select(kinds.to_vec()), 0..80_u64, 1..30_u64)
        .prop_map(|(fault, from, length)| (fault, from..from + length))
}

fn trouble() -> impl Strategy<Value = Disturbance> {
    let faults = proptest::collection::vec(fault(), 0..5);
    let kill = proptest::option::of(0..80_u64);
    let power = proptest::option::of(any::<u64>());
    (faults, kill, power).prop_map(|(faults, kill, power)| Disturbance { faults, kill, power })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// At every moment the kubelet's file is the local configuration or one that was accepted, whole and not failed (the world
    /// holds that); and once the faults are over, the end is the one without faults.
    #[test]
    fn faults_anywhere_end_as_none(
        story in 0..10_usize,
        drop_in in any::<bool>(),
        first in trouble(),
        then in trouble(),
    ) {
        let (_, deeds) = stories().swap_remove(story);
        let (end, _) = told(drop_in, &deeds);
        prop_assert_eq!(troubled(drop_in, &deeds, [first, then]), end);
    }
}
