//! Random scenarios, reproducible by seed. A scenario consists of rounds. After each round the node settles and is
//! compared with the same node in a run without kills.
//!
//! Within a round, actions may follow each other faster than an agent can observe. Therefore only the last action may
//! have a lasting effect: a missed reset clears no last known good. The last of several actions must also not keep
//! effects of earlier ones, as an assignment that cannot be downloaded would.

use std::ops::Range;

use nodecfg_contract::ConfigSource;
use nodecfg_contract::Placement;

use crate::crash::contents::{self, NAMES};
use crate::crash::simulated_node::{CrashKind, CrashPoint, NAMESPACE, SimulatedNode};

/// Action of a user or of the API server.
#[derive(Debug, Clone)]
pub enum Action {
    /// Creates or changes a ConfigMap with this content.
    Put {
        map: &'static str,
        content: &'static str,
        edition: u32,
        immutable: bool,
    },
    Delete(&'static str),
    /// Deletes a ConfigMap and creates it with other content, as an attacker with the right to write ConfigMaps.
    Replace {
        map: &'static str,
        content: &'static str,
        edition: u32,
    },
    /// Sets `spec.configSource` to this key of this ConfigMap, which may not exist, and `spec.placement`.
    Assign(&'static str, &'static str, Placement),
    Reset,
    ApiDown,
    ApiUp,
}

/// Actions of a round, each followed by a pause in seconds.
pub type Round = Vec<(Action, f64)>;

const MAPS: [&str; 5] = ["north", "east", "south", "west", "nowhere"];

/// Random scenario. Without `overlapping`, a round makes one change and has no outage of the API server.
pub fn random_scenario(random: &mut fastrand::Rng, rounds: usize, overlapping: bool) -> Vec<Round> {
    let mut edition = 0;
    let mut existing = [None; MAPS.len()];
    let mut actions: Vec<Round> = vec![initial_config_maps(random, &mut existing)];
    for _ in 0..rounds {
        actions.push(random_round(random, &mut edition, &mut existing, overlapping));
    }
    actions
}

/// ConfigMaps that exist from the start.
fn initial_config_maps(random: &mut fastrand::Rng, existing: &mut [Option<bool>]) -> Round {
    let mut made = Round::new();
    for (index, map) in MAPS.into_iter().enumerate().take(MAPS.len() - 1) {
        let content = if index == 0 { "good-a" } else { NAMES[random.usize(..NAMES.len())] };
        let immutable = random.bool();
        existing[index] = Some(immutable);
        made.push((Action::Put { map, content, edition: 0, immutable }, 0.0));
    }
    made
}

fn random_round(
    random: &mut fastrand::Rng,
    edition: &mut u32,
    existing: &mut [Option<bool>],
    overlapping: bool,
) -> Round {
    let mut actions = Round::new();
    let short = |random: &mut fastrand::Rng| random.f64() * if random.bool() { 2.0 } else { 12.0 };
    let outage = overlapping && random.u8(..6) == 0;
    if outage {
        actions.push((Action::ApiDown, short(random)));
    }
    let count = if overlapping && random.u8(..3) == 0 { 2 + random.usize(..2) } else { 1 };
    for number in 0..count {
        let last = number + 1 == count;
        let gap = if last { 0.0 } else { short(random) };
        let index = random.usize(..MAPS.len());
        let (map, exists) = (MAPS[index], index + 1 < MAPS.len());
        let choice = match random.u8(..11) {
            // The last action must not depend on earlier ones.
            _ if last && count > 1 && existing[index].is_none() => 3,
            0..3 | 4 | 10 if last && count > 1 => 9,
            3 if !last => 9,
            choice => choice,
        };
        match choice {
            0..3 if exists => {
                // An immutable ConfigMap can only be recreated.
                if choice == 2 || existing[index] == Some(true) {
                    actions.push((Action::Delete(map), short(random)));
                    existing[index] = None;
                }
                if choice < 2 || random.bool() {
                    *edition += 1;
                    let immutable = existing[index].unwrap_or_else(|| random.bool());
                    existing[index] = Some(immutable);
                    let content = NAMES[random.usize(..NAMES.len())];
                    actions.push((Action::Put { map, content, edition: *edition, immutable }, gap));
                }
            }
            10 if existing[index].is_some() => {
                *edition += 1;
                let content = NAMES[random.usize(..NAMES.len())];
                actions.push((Action::Replace { map, content, edition: *edition }, gap));
            }
            3 => actions.push((Action::Reset, 0.0)),
            4 => actions.push((Action::Assign(map, "no-such-key", Placement::Overlay), gap)),
            _ => {
                let placement = if random.bool() { Placement::Overlay } else { Placement::Replace };
                actions.push((Action::Assign(map, "kubelet", placement), gap));
            }
        }
    }
    if outage {
        if let Some((_, gap)) = actions.last_mut() {
            *gap += random.f64() * 100.0;
        }
        actions.push((Action::ApiUp, 0.0));
    }
    actions
}

/// Seeds of a test's scenarios: from 0, or as in property tests `PROPTEST_CASES` seeds from `PROPTEST_RNG_SEED`.
pub fn seeds(scenarios: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u32>().unwrap().into());
    let first: u64 = number("PROPTEST_RNG_SEED").unwrap_or(0);
    first..first + number("PROPTEST_CASES").unwrap_or(scenarios)
}

pub fn perform(sim: &mut SimulatedNode, action: &Action) {
    sim.record(&format!("{action:?}"));
    match action {
        Action::Put { map, content, edition, immutable } => {
            sim.put_config_map(map, contents::payload(content, *edition), *immutable);
        }
        Action::Delete(map) => sim.delete_config_map(map),
        Action::Replace { map, content, edition } => sim.replace_content(map, contents::payload(content, *edition)),
        Action::Assign(map, key, placement) => {
            sim.set_placement(*placement);
            sim.assign(Some(ConfigSource::config_map(NAMESPACE, map, key)));
        }
        Action::Reset => sim.assign(None),
        Action::ApiDown => sim.set_api_down(true),
        Action::ApiUp => sim.set_api_down(false),
    }
}

/// Schedules random crashes, at most `left` more.
pub struct CrashInjector {
    pub random: fastrand::Rng,
    pub left: u32,
}

impl CrashInjector {
    /// Injector without crashes.
    pub fn disabled() -> Self {
        Self { random: fastrand::Rng::with_seed(0), left: 0 }
    }

    /// Schedules the next crash if any are left.
    pub fn schedule(&mut self, sim: &mut SimulatedNode) {
        if self.left == 0 || sim.has_planned_crash() {
            return;
        }
        self.left -= 1;
        let random = &mut self.random;
        let point = match random.u8(..20) {
            0..7 => CrashPoint::Operation(random.u64(..6)),
            7..14 => CrashPoint::Operation(random.u64(..32)),
            14..16 => CrashPoint::Before(random.u64(..4)),
            16..19 => CrashPoint::After(random.u64(..4)),
            _ => CrashPoint::Seconds(random.f64() * 30.0),
        };
        let kind = if random.u8(..5) < 3 && sim.may_lose_power() { CrashKind::Power } else { CrashKind::Process };
        sim.schedule_crash(point, kind);
    }

    /// Runs a round and then until the node settles.
    pub fn run_round(&mut self, sim: &mut SimulatedNode, round: &Round) {
        self.schedule(sim);
        for (action, gap) in round {
            perform(sim, action);
            let end = sim.now + jiff::SignedDuration::from_secs_f64(*gap);
            while sim.now < end {
                if sim.run_for(end.duration_since(sim.now).as_secs_f64()) {
                    self.schedule(sim);
                }
            }
        }
        self.settle(sim);
    }

    /// Runs until the node settles, and cancels a crash that did not occur.
    pub fn settle(&mut self, sim: &mut SimulatedNode) {
        while sim.settle() {
            self.schedule(sim);
        }
        sim.cancel_crash();
    }
}
