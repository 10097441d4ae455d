//! Random stories with kills at random moments: each ends in the same state as the same story without a kill.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::story::{Killer, seeds, story};
use crate::world::World;

/// So many stories are told, unless others are asked for.
const STORIES: u64 = 62;
/// How many kills there must have been in so many.
const KILLS: u64 = 10_000;

/// How often each is told with kills.
const TELLINGS: u64 = 6;

/// Tells a story without kills and several times with, and compares. Gives the number of kills.
fn tell(seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let chapters = story(&mut random, 5, true);
    let mut spared = World::new(seed);
    let mut killed: Vec<(World, Killer)> = (1..=TELLINGS)
        .map(|telling| {
            let mut world = World::new(seed ^ telling << 32);
            world.note(&format!("story of seed {seed}, telling {telling}"));
            (world, Killer { random: fastrand::Rng::with_seed(seed ^ telling << 48), left: 0 })
        })
        .collect();
    for chapter in &chapters {
        Killer::nobody().live(&mut spared, chapter);
        let expected = spared.snapshot();
        for (world, killer) in &mut killed {
            killer.left = killer.random.u32(6..32);
            killer.live(world, chapter);
            let differences = expected.differences(&world.snapshot());
            assert!(
                differences.is_empty(),
                "seed {seed}: kills made a difference\n{}\n\nwithout kills:\n{}\nwith kills:\n{}",
                differences.join("\n"),
                spared.history,
                world.history
            );
            assert!(world.is_well(), "seed {seed}: the kubelet was left on something bad\n{}", world.history);
        }
    }
    killed.iter().map(|(world, _)| world.kills).sum()
}

#[test]
fn ten_thousand_kills_at_random_change_nothing() {
    let seeds = seeds(STORIES);
    let (next, kills) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    kills.fetch_add(tell(seed), Ordering::Relaxed);
                }
            });
        }
    });
    let kills = kills.into_inner();
    let stories = seeds.end - seeds.start;
    println!("{kills} kills in {stories} stories, each told {TELLINGS} times");
    assert!(kills * STORIES >= KILLS * stories, "only {kills} kills");
}
