//! What must be so whatever happens, and in whatever order: over lives in a world, with kills and faults, and over bare
//! events that nobody would send.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::world::{Behaviour, Faults, World, at, settings, source, wanting};
use super::{MachineState, not_saved, step};
use crate::events::{ActivationError, ConfigCheck, Download, Effect, Event, FetchError, Fetched, Health, NodeHealth};
use crate::state::{FailureKind, Ledger, Phase};
use nodecfg_contract::ConfigSource;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn refused() -> ConfigCheck {
    ConfigCheck::NotValid { message: "refused".to_owned(), kubelet: None }
}

/// Something that happens to a world.
#[derive(Debug, Clone)]
enum Happening {
    Assign(Option<usize>),
    Map(usize, u8, bool),
    Delete(usize),
    Behave(usize, Behaviour),
    Faults(Faults),
    NoNodeConfig,
    Again,
    SetClock(i64),
    Replaced,
    Wait(f64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let behaviour = prop_oneof![
        3 => Just(Behaviour::Good),
        1 => Just(Behaviour::Silent),
        1 => (3_u64..900).prop_map(Behaviour::Dies),
        1 => Just(Behaviour::Loops),
        1 => Just(Behaviour::Unready),
        1 => Just(Behaviour::NoRestart),
    ];
    let faults =
        (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(api, disk, place, reports)| Faults {
            api_away: api,
            disk_full: disk,
            no_place: place,
            no_reports: reports,
        });
    prop_oneof![
        4 => proptest::option::weighted(0.85, 0_usize..3).prop_map(Happening::Assign),
        2 => (0_usize..3, 0_u8..4, prop::bool::weighted(0.7)).prop_map(|(map, version, fine)| Happening::Map(map, version, fine)),
        1 => (0_usize..3).prop_map(Happening::Delete),
        2 => (0_usize..3, behaviour).prop_map(|(map, behaviour)| Happening::Behave(map, behaviour)),
        1 => faults.prop_map(Happening::Faults),
        1 => Just(Happening::Faults(Faults::default())),
        1 => Just(Happening::NoNodeConfig),
        1 => Just(Happening::Again),
        1 => (-5_000_i64..5_000).prop_map(Happening::SetClock),
        1 => Just(Happening::Replaced),
        6 => (0.0..60.0).prop_map(Happening::Wait),
        2 => (0.0..1_200.0).prop_map(Happening::Wait),
    ]
}

fn live(world: &mut World, happening: &Happening) {
    match happening {
        Happening::Assign(which) => world.assign(which.map(|which| source(NAMES[which]))),
        Happening::Map(which, version, fine) => {
            let (verdict, word) = if *fine { (ConfigCheck::Accepted, "fine") } else { (refused(), "refused") };
            // One version has one content, and so one verdict.
            world.map(NAMES[*which], &format!("{version}-{word}"), verdict);
        }
        Happening::Delete(which) => drop(world.maps.remove(NAMES[*which])),
        Happening::Behave(which, behaviour) => drop(world.behaviours.insert(NAMES[*which].to_owned(), *behaviour)),
        Happening::Faults(faults) => {
            let was_away = std::mem::replace(&mut world.faults, *faults).api_away;
            if was_away {
                world.see();
            }
        }
        Happening::NoNodeConfig => {
            world.config = None;
            world.see();
        }
        Happening::Again => world.see(),
        Happening::SetClock(by) => world.set_clock(SignedDuration::from_secs(*by)),
        Happening::Replaced => {
            world.placed = None;
            world.kill(1);
        }
        Happening::Wait(seconds) => world.run_for(*seconds),
    }
}

/// Without the counters and the moments, which a kill may change.
fn end(world: &World) -> (Ledger, Option<FailureKind>) {
    let mut ledger = world.state.ledger.clone();
    ledger.beyond.restarts = 0;
    ledger.beyond.rollbacks = 0;
    let failure = ledger.beyond.failure.take();
    (ledger, failure.map(|failure| failure.kind))
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    proptest::collection::vec(happening(), 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The world asserts on every step what is always so: see `World::take` and `World::check`. Here: once nothing is broken
    /// any more, everything comes to rest, on what is assigned or, if that failed, on the last known good, and is told.
    #[test]
    fn everything_comes_to_rest(seed in any::<u64>(), happenings in happenings(), kills in proptest::collection::vec(0_usize..25, 0..4)) {
        let mut world = World::new(seed);
        for (index, happening) in happenings.iter().enumerate() {
            live(&mut world, happening);
            if kills.contains(&index) {
                world.kill(seed ^ 1);
            }
        }
        world.faults = Faults::default();
        world.behaviours.remove("local");
        world.see();
        world.run_for(5_000.0);
        let ledger = &world.state.ledger;
        prop_assert_eq!(&world.saved, ledger);
        let last_resort = world.state.target() == ledger.last_known_good.as_ref();
        // A last resort that went bad is watched for ever; and what it behaves like may have been changed after its trial.
        let well = matches!(world.behaviour(), Behaviour::Good | Behaviour::Dies(_) | Behaviour::Unready);
        if well || ledger.beyond.phase == Phase::Settled {
            prop_assert!(last_resort, "{:#?}", ledger);
        }
        prop_assert_eq!(world.state.target(), world.placed.as_ref());
        if let Some(config) = &world.config {
            let told = config.status.config.clone().unwrap();
            prop_assert_eq!(told.assigned.as_ref(), ledger.assigned.as_ref());
            prop_assert_eq!(told.last_known_good.as_ref(), ledger.last_known_good.as_ref());
            prop_assert_eq!(told.error, world.state.error());
            prop_assert_eq!(config.status.observed_generation, Some(config.metadata.generation));
            let wanted = config.spec.config_source.as_ref();
            let there = wanted.is_none_or(|wanted| world.maps.contains_key(&wanted.config_map.as_ref().unwrap().name));
            if there {
                let names = |source: Option<&ConfigSource>| source.map(ToString::to_string);
                prop_assert_eq!(names(ledger.assigned.as_ref()), names(wanted));
            }
        }
    }

    /// A kill at any moment, at any step, changes nothing of what it comes to in the end.
    #[test]
    fn a_kill_changes_nothing_in_the_end(
        seed in any::<u64>(),
        behaviours in proptest::collection::vec(prop_oneof![
            Just(Behaviour::Good), Just(Behaviour::Silent), Just(Behaviour::Loops), Just(Behaviour::Unready),
            Just(Behaviour::NoRestart),
        ], 3),
        fine in proptest::collection::vec(prop::bool::weighted(0.8), 3),
        assignments in proptest::collection::vec((proptest::option::weighted(0.85, 0_usize..3), 700.0..1_500.0), 1..4),
        kills in proptest::collection::vec(0_usize..400, 1..6),
    ) {
        let mut ends = Vec::new();
        for kills in [&Vec::new(), &kills] {
            let mut world = World::new(seed);
            for (index, name) in NAMES.into_iter().enumerate() {
                world.map(name, "1", if fine[index] { ConfigCheck::Accepted } else { refused() });
                world.behaviours.insert(name.to_owned(), behaviours[index]);
            }
            for (which, wait) in &assignments {
                let wait: f64 = *wait;
                world.assign(which.map(|which| source(NAMES[which])));
                let until = world.now + SignedDuration::from_secs_f64(wait + 700.0);
                world.run_until_killed(until, kills, seed);
            }
            ends.push(end(&world));
        }
        prop_assert_eq!(&ends[0], &ends[1]);
    }

    /// Whatever is sent, in whatever order: no panic, no endless list of effects, a refused or failed configuration is not
    /// activated, nothing is promoted before its time, and something that is under way has a wake or an answer to come.
    #[test]
    fn events_that_nobody_would_send_do_no_harm(seed in any::<u64>(), events in proptest::collection::vec((event(), -100_i64..1_000, prop::bool::weighted(0.95)), 1..80)) {
        let mut state = MachineState::resume(Ledger::default(), settings(), seed);
        let mut now = at(0.0);
        let mut owed = false;
        for (event, pause, saved) in events {
            now += SignedDuration::from_secs(pause);
            let before = state.ledger.clone();
            let come = || if saved { step(&state, &event, now) } else { not_saved(&state, &event, "full", now) };
            let (next, taken) = come();
            prop_assert_eq!((&next, &taken), (&come().0, &come().1));
            prop_assert!(taken.effects.len() <= 6);
            for effect in &taken.effects {
                owed |= matches!(effect, Effect::Activate { .. } | Effect::Probe { .. });
                if let Effect::Activate { target, .. } = effect {
                    prop_assert_eq!(target.as_ref(), next.target());
                    prop_assert!(target.as_ref().is_none_or(|target| !target.to_string().contains("refused")));
                }
            }
            if let Some(good) = &next.ledger.last_known_good
                && next.ledger.last_known_good != before.last_known_good
            {
                let Phase::Trying(trial) = &before.beyond.phase else { panic!("promoted {good} without a trial") };
                prop_assert!(now.duration_since(trial.healthy_since.unwrap()) >= SignedDuration::from_secs(600));
            }
            if next.ledger.beyond.phase != Phase::Settled && next.volatile.started {
                prop_assert!(taken.wake.is_some() || owed, "stuck in {:?}", next.ledger.beyond.phase);
            }
            state = next;
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let wanted = |name: &'static str| Event::Seen(Some(Box::new(wanting(1, Some(source(name))))));
    let fetched = |name: &'static str, version: &str| {
        let mut found = source(name);
        let map = found.config_map.as_mut().unwrap();
        (map.uid, map.resource_version) = (Some(name.to_owned()), Some(version.to_owned()));
        let verdict = if name == "refused" { refused() } else { ConfigCheck::Accepted };
        let node = Some(NodeHealth { ready: true, lease_renewed: None });
        Event::Fetched(Ok(Box::new(Fetched {
            download: Download { source: found, ..Download::default() },
            verdict,
            node,
        })))
    };
    let nothing = wanting(2, None);
    let probed = |healthy: bool, node: Option<bool>| {
        let kubelet = if healthy { Ok(()) } else { Err("no".to_owned()) };
        Event::Probed(Health { kubelet, node: node.map(|ready| NodeHealth { ready, lease_renewed: None }) })
    };
    prop_oneof![
        3 => Just(Event::Started { verdict: None, in_place: true }),
        1 => Just(Event::Started { verdict: Some(refused()), in_place: false }),
        4 => prop_oneof![Just("a"), Just("b"), Just("refused")].prop_map(wanted),
        1 => Just(Event::Seen(Some(Box::new(nothing)))),
        1 => Just(Event::Seen(None)),
        4 => (prop_oneof![Just("a"), Just("b"), Just("refused")], prop_oneof![Just("1"), Just("2")])
            .prop_map(move |(name, version)| fetched(name, version)),
        1 => Just(Event::Fetched(Err(FetchError::HashDiffers("other".to_owned())))),
        4 => Just(Event::Checkpointed(Ok(()))),
        1 => Just(Event::Checkpointed(Err("full".to_owned()))),
        4 => Just(Event::Activated(Ok(()))),
        1 => Just(Event::Activated(Err(ActivationError::NotPlaced("full".to_owned())))),
        1 => Just(Event::Activated(Err(ActivationError::NotAsked("no".to_owned())))),
        1 => Just(Event::Activated(Err(ActivationError::NotRestarted("no".to_owned())))),
        8 => Just(probed(true, Some(true))),
        2 => (any::<bool>(), any::<Option<bool>>()).prop_map(move |(healthy, node)| probed(healthy, node)),
        2 => Just(Event::Reported(Ok(()))),
        1 => Just(Event::Reported(Err("no".to_owned()))),
        6 => Just(Event::Tick),
    ]
}

#[test]
fn moments_at_the_ends_of_time_are_no_trouble() {
    for moment in [Timestamp::MIN, Timestamp::MAX] {
        let mut state = MachineState::resume(Ledger::default(), settings(), 1);
        let events = [
            Event::Started { verdict: None, in_place: false },
            Event::Activated(Ok(())),
            Event::Probed(Health { kubelet: Err(String::new()), node: None }),
            Event::Tick,
        ];
        for event in events {
            for now in [moment, at(0.0), moment] {
                state = step(&state, &event, now).0;
            }
        }
        assert_ne!(state.ledger.beyond.phase, Phase::Activating { before: None });
    }
    assert_eq!(Duration::ZERO, super::backoff::since(Timestamp::MAX, Timestamp::MIN));
}
