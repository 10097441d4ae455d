//! Random stories with kills at random moments: each ends in the same state as the same story without a kill.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::story::{Killer, story};
use crate::world::World;

/// How many kills there must have been.
const KILLS: u64 = 10_000;
/// So many stories are told, whatever the machine.
const STORIES: u64 = 200;

/// Tells a story twice and compares. Gives the number of kills.
fn tell(seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let chapters = story(&mut random, 7);
    let mut spared = World::new(seed);
    let mut killed = World::new(seed ^ 0x5eed);
    let mut killer = Killer { random, left: 0 };
    for world in [&mut spared, &mut killed] {
        world.note(&format!("story of seed {seed}"));
    }
    for chapter in &chapters {
        Killer::nobody().live(&mut spared, chapter);
        killer.left = killer.random.u32(2..14);
        killer.live(&mut killed, chapter);
        let (expected, found) = (spared.snapshot(), killed.snapshot());
        let differences = expected.differences(&found);
        assert!(
            differences.is_empty(),
            "seed {seed}: kills made a difference\n{}\n\nwithout kills:\n{}\nwith kills:\n{}",
            differences.join("\n"),
            spared.history,
            killed.history
        );
        assert!(killed.is_well(), "seed {seed}: the kubelet was left on something bad\n{}", killed.history);
    }
    killed.kills
}

#[test]
fn ten_thousand_kills_at_random_change_nothing() {
    let next = AtomicU64::new(0);
    let kills = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= STORIES {
                        break;
                    }
                    kills.fetch_add(tell(seed), Ordering::Relaxed);
                }
            });
        }
    });
    let kills = kills.into_inner();
    println!("{kills} kills in {STORIES} stories");
    assert!(kills >= KILLS, "only {kills} kills");
    let _ = Duration::ZERO;
}
