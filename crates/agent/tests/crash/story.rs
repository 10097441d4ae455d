//! What happens to a node in a run: random, and the same for the same seed. A story is told in chapters; at the end of each
//! the node comes to rest, and is compared with the same node in a telling without kills.
//!
//! Within a chapter things may follow each other faster than an agent can see them all, which is why only the last may
//! leave something behind (a reset that nobody saw clears no last known good), and the last of several leaves nothing of those
//! before (an assignment that cannot be downloaded would).

use std::ops::Range;

use nodecfg_contract::ConfigSource;

use crate::contents::{self, NAMES};
use crate::world::{Death, NAMESPACE, When, World};

/// Something that users or API servers do.
#[derive(Debug, Clone)]
pub enum Action {
    /// A ConfigMap of this name is made or changed so that it holds this content.
    Put {
        map: &'static str,
        content: &'static str,
        edition: u32,
        immutable: bool,
    },
    Delete(&'static str),
    /// `spec.configSource` names this key of this ConfigMap, which may not exist.
    Assign(&'static str, &'static str),
    Reset,
    ApiAway,
    ApiBack,
}

/// What happens between two rests, each followed by so many seconds.
pub type Chapter = Vec<(Action, f64)>;

const MAPS: [&str; 5] = ["north", "east", "south", "west", "nowhere"];

/// A story; in one that is not hasty, one thing happens at a time.
pub fn story(random: &mut fastrand::Rng, chapters: usize, hasty: bool) -> Vec<Chapter> {
    let mut edition = 0;
    let mut there = [None; MAPS.len()];
    let mut told: Vec<Chapter> = vec![beginning(random, &mut there)];
    for _ in 0..chapters {
        told.push(chapter(random, &mut edition, &mut there, hasty));
    }
    told
}

/// The ConfigMaps that there are from the first.
fn beginning(random: &mut fastrand::Rng, there: &mut [Option<bool>]) -> Chapter {
    let mut made = Chapter::new();
    for (index, map) in MAPS.into_iter().enumerate().take(MAPS.len() - 1) {
        let content = if index == 0 { "good-a" } else { NAMES[random.usize(..NAMES.len())] };
        let immutable = random.bool();
        there[index] = Some(immutable);
        made.push((Action::Put { map, content, edition: 0, immutable }, 0.0));
    }
    made
}

fn chapter(random: &mut fastrand::Rng, edition: &mut u32, there: &mut [Option<bool>], hasty: bool) -> Chapter {
    let mut told = Chapter::new();
    let short = |random: &mut fastrand::Rng| random.f64() * if random.bool() { 2.0 } else { 12.0 };
    let away = hasty && random.u8(..6) == 0;
    if away {
        told.push((Action::ApiAway, short(random)));
    }
    let many = if hasty && random.u8(..3) == 0 { 2 + random.usize(..2) } else { 1 };
    for number in 0..many {
        let last = number + 1 == many;
        let gap = if last { 0.0 } else { short(random) };
        let index = random.usize(..MAPS.len());
        let (map, exists) = (MAPS[index], index + 1 < MAPS.len());
        let choice = match random.u8(..10) {
            // What was there before must not show through.
            _ if last && many > 1 && there[index].is_none() => 3,
            0..3 if last && many > 1 => 9,
            3 if !last => 9,
            choice => choice,
        };
        match choice {
            0..3 if exists => {
                // What is immutable can only be made anew.
                if choice == 2 || there[index] == Some(true) {
                    told.push((Action::Delete(map), short(random)));
                    there[index] = None;
                }
                if choice < 2 || random.bool() {
                    *edition += 1;
                    let immutable = there[index].unwrap_or_else(|| random.bool());
                    there[index] = Some(immutable);
                    let content = NAMES[random.usize(..NAMES.len())];
                    told.push((Action::Put { map, content, edition: *edition, immutable }, gap));
                }
            }
            3 => told.push((Action::Reset, 0.0)),
            4 => told.push((Action::Assign(map, "no-such-key"), gap)),
            _ => told.push((Action::Assign(map, "kubelet"), gap)),
        }
    }
    if away {
        if let Some((_, gap)) = told.last_mut() {
            *gap += random.f64() * 100.0;
        }
        told.push((Action::ApiBack, 0.0));
    }
    told
}

/// The seeds of a test's stories: so many from 0 on, or, as in property tests, `PROPTEST_CASES` from `PROPTEST_RNG_SEED` on.
pub fn seeds(stories: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u32>().unwrap().into());
    let first: u64 = number("PROPTEST_RNG_SEED").unwrap_or(0);
    first..first + number("PROPTEST_CASES").unwrap_or(stories)
}

pub fn act(world: &mut World, action: &Action) {
    world.note(&format!("{action:?}"));
    match action {
        Action::Put { map, content, edition, immutable } => {
            world.put_map(map, contents::payload(content, *edition), *immutable);
        }
        Action::Delete(map) => world.delete_map(map),
        Action::Assign(map, key) => world.assign(Some(ConfigSource::config_map(NAMESPACE, map, key))),
        Action::Reset => world.assign(None),
        Action::ApiAway => world.set_api(true),
        Action::ApiBack => world.set_api(false),
    }
}

/// Who kills, and how often in a chapter.
pub struct Killer {
    pub random: fastrand::Rng,
    pub left: u32,
}

impl Killer {
    /// Nobody.
    pub fn nobody() -> Self {
        Self { random: fastrand::Rng::with_seed(0), left: 0 }
    }

    /// Decides on the next kill, if there is to be one.
    pub fn arm(&mut self, world: &mut World) {
        if self.left == 0 || world.is_doomed() {
            return;
        }
        self.left -= 1;
        let random = &mut self.random;
        let when = match random.u8(..20) {
            0..7 => When::Operation(random.u64(..6)),
            7..14 => When::Operation(random.u64(..32)),
            14..16 => When::Before(random.u64(..4)),
            16..19 => When::After(random.u64(..4)),
            _ => When::Seconds(random.f64() * 30.0),
        };
        let death = if random.u8(..5) < 3 && world.may_lose_power() { Death::Power } else { Death::Process };
        world.doom(when, death);
    }

    /// Lives through a chapter until the node is at rest.
    pub fn live(&mut self, world: &mut World, chapter: &Chapter) {
        self.arm(world);
        for (action, gap) in chapter {
            act(world, action);
            let end = world.now + jiff::SignedDuration::from_secs_f64(*gap);
            while world.now < end {
                if world.run_for(end.duration_since(world.now).as_secs_f64()) {
                    self.arm(world);
                }
            }
        }
        self.rest(world);
    }

    /// Until nothing happens any more.
    pub fn rest(&mut self, world: &mut World) {
        while world.settle() {
            self.arm(world);
        }
        world.spare();
    }
}
