//! Kills at every operation, and random faults: the same end as without.

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

fn fault() -> impl Strategy<Value = (Fault, u64, u64)> {
    let kinds =
        [Fault::Full, Fault::ReadOnly, Fault::SyncFails, Fault::ShortWrite, Fault::RenameLost, Fault::RenameFails];
    (proptest::sample::select(kinds.to_vec()), 0..80_u64, 1..30_u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// At every moment the kubelet's file is the local configuration or one that was accepted, whole and not failed (the world
    /// holds that); and once the faults are over, the end is the one without faults.
    #[test]
    fn faults_anywhere_end_as_none(
        story in 0..10_usize,
        drop_in in any::<bool>(),
        first in proptest::collection::vec(fault(), 0..5),
        then in proptest::collection::vec(fault(), 0..5),
        kill in (proptest::option::of(0..80_u64), proptest::option::of(0..80_u64)),
        power in (proptest::option::of(any::<u64>()), proptest::option::of(any::<u64>())),
    ) {
        let (_, deeds) = stories().swap_remove(story);
        let (end, _) = told(drop_in, &deeds);
        let mut world = World::new(drop_in, &deeds);
        // One time of trouble for the first assignment, and one for what follows.
        for (faults, kill, power, seconds) in [(first, kill.0, power.0, 100), (then, kill.1, power.1, 200)] {
            let begin = world.disk.operations();
            for (fault, from, length) in faults {
                world.disk.inject(fault, begin + from..begin + from + length);
            }
            if let Some(kill) = kill {
                world.kill_at(begin + kill, power);
            }
            world.run(seconds);
            world.reopen(power);
            world.run(90);
        }
        world.run(LONG);
        prop_assert_eq!(world.end(), end);
    }
}
