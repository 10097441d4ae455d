//! Property tests of the machine: random actions, kills and faults in the simulation, and random event sequences.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::backoff::{LONGEST, after};
use super::sim_harness::{SimHarness, at, node_config, settings, source};
use super::sim_inputs::{Behaviour, Faults};
use super::sim_join::{SimJoin, booted, hash, joining, tainted};
use super::{MachineState, not_saved, step};
use crate::events::{
    ActivationError, ConfigCheck, DiskCheck, Download, Effect, Event, FetchError, Fetched, Health, NeedsDrain,
    NodeHealth,
};
use crate::host::ServiceReport;
use crate::host::problem::{HealthzError, RestartProblem};
use crate::joining::{JoinAnswer, JoinConfig, JoinError, JoinRequest, OwnNode};
use crate::ledger::{FailureKind, Ledger, Phase};
use crate::settings::Settings;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::Placement;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn refused() -> ConfigCheck {
    ConfigCheck::NotValid { message: "refused".to_owned(), kubelet: None }
}

/// Action on the simulation.
#[derive(Debug, Clone)]
enum Action {
    Assign(Option<usize>),
    PutConfigMap(usize, u8, bool),
    Delete(usize),
    SetBehaviour(usize, Behaviour),
    Faults(Faults),
    NoNodeConfig,
    RedeliverNodeConfig,
    SetClock(i64),
    /// And perhaps kills the agent.
    ReplaceKubeletFile(bool),
    Wait(f64),
}

fn action() -> impl Strategy<Value = Action> {
    let behaviour = prop_oneof![
        3 => Just(Behaviour::Good),
        1 => Just(Behaviour::Silent),
        1 => (3_u64..900).prop_map(Behaviour::Dies),
        1 => Just(Behaviour::Loops),
        1 => Just(Behaviour::Unready),
        1 => Just(Behaviour::NoRestart),
        1 => Just(Behaviour::Exits),
        1 => any::<bool>().prop_map(|command_fails| Behaviour::StaleState { command_fails }),
    ];
    let faults = any::<(bool, bool, bool, bool, bool)>().prop_map(|(api, disk, place, reports, needs_drain)| Faults {
        api_down: api,
        disk_full: disk,
        placement_fails: place,
        reports_fail: reports,
        needs_drain,
        ..Faults::default()
    });
    prop_oneof![
        4 => proptest::option::weighted(0.85, 0_usize..3).prop_map(Action::Assign),
        2 => (0_usize..3, 0_u8..4, prop::bool::weighted(0.7)).prop_map(|(map, version, fine)| Action::PutConfigMap(map, version, fine)),
        1 => (0_usize..3).prop_map(Action::Delete),
        2 => (0_usize..3, behaviour).prop_map(|(map, behaviour)| Action::SetBehaviour(map, behaviour)),
        1 => faults.prop_map(Action::Faults),
        1 => Just(Action::Faults(Faults::default())),
        1 => Just(Action::NoNodeConfig),
        1 => Just(Action::RedeliverNodeConfig),
        1 => (-5_000_i64..5_000).prop_map(Action::SetClock),
        1 => any::<bool>().prop_map(Action::ReplaceKubeletFile),
        6 => (0.0..60.0).prop_map(Action::Wait),
        2 => (0.0..1_200.0).prop_map(Action::Wait),
    ]
}

fn perform(sim: &mut SimHarness, action: &Action) {
    match action {
        Action::Assign(which) => sim.assign(which.map(|which| source(NAMES[which]))),
        Action::PutConfigMap(which, version, fine) => {
            let (config_check, word) = if *fine { (ConfigCheck::Accepted, "fine") } else { (refused(), "refused") };
            // The config check depends only on the version.
            sim.put_config_map(NAMES[*which], &format!("{version}-{word}"), config_check);
        }
        Action::Delete(which) => drop(sim.config_maps.remove(NAMES[*which])),
        Action::SetBehaviour(which, behaviour) => drop(sim.behaviours.insert(NAMES[*which].to_owned(), *behaviour)),
        Action::Faults(faults) => {
            let was_away = std::mem::replace(&mut sim.faults, *faults).api_down;
            if was_away {
                sim.deliver_node_config();
            }
        }
        Action::NoNodeConfig => {
            sim.config = None;
            sim.deliver_node_config();
        }
        Action::RedeliverNodeConfig => sim.deliver_node_config(),
        Action::SetClock(by) => sim.set_clock(SignedDuration::from_secs(*by)),
        Action::ReplaceKubeletFile(kills) => {
            sim.file_source = None;
            if *kills {
                sim.kill(1);
            }
        }
        Action::Wait(seconds) => sim.run_for(*seconds),
    }
}

/// Ledger without what kills may change: the counters, and the text of a failure.
fn final_state(sim: &SimHarness) -> (Ledger, Option<FailureKind>) {
    let mut ledger = sim.state.ledger.clone();
    ledger.agent_state.restarts = 0;
    ledger.agent_state.rollbacks = 0;
    let failure = ledger.agent_state.failure.take();
    (ledger, failure.map(|failure| failure.kind))
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    proptest::collection::vec(action(), 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The simulation checks its invariants at every step (`SimHarness::check_invariants`). This test checks the end.
    /// Without faults, the agent puts the assignment in place, or the last known good if the assignment failed, and
    /// reports it.
    #[test]
    fn settles_once_faults_end(seed in any::<u64>(), actions in actions(), kills in proptest::collection::vec(0_usize..25, 0..4)) {
        let mut sim = SimHarness::new(seed);
        for (index, action) in actions.iter().enumerate() {
            perform(&mut sim, action);
            if kills.contains(&index) {
                sim.kill(seed ^ 1);
            }
        }
        sim.faults = Faults::default();
        sim.behaviours.remove("local");
        sim.deliver_node_config();
        sim.run_for(5_000.0);
        let ledger = &sim.state.ledger;
        prop_assert_eq!(&sim.saved, ledger);
        let on_last_known_good = sim.state.target() == ledger.last_known_good.as_ref();
        // A kubelet that stays unhealthy on the last known good is probed forever. The behaviour may also have
        // changed after the trial.
        let well = matches!(sim.behaviour(), Behaviour::Good | Behaviour::Dies(_) | Behaviour::Unready);
        if well || ledger.agent_state.phase == Phase::Settled {
            prop_assert!(on_last_known_good, "{:#?}", ledger);
        }
        prop_assert_eq!(sim.state.target(), sim.file_source.as_ref());
        if let Some(config) = &sim.config {
            let reported = config.status.config.clone().unwrap();
            prop_assert_eq!(reported.assigned.as_ref(), ledger.assigned.as_ref());
            prop_assert_eq!(reported.last_known_good.as_ref(), ledger.last_known_good.as_ref());
            prop_assert_eq!(reported.error, sim.state.error());
            prop_assert_eq!(config.status.observed_generation, Some(config.metadata.generation));
            let wanted = config.spec.config_source.as_ref();
            let there = wanted.is_none_or(|wanted| sim.config_maps.contains_key(&wanted.config_map.as_ref().unwrap().name));
            if there {
                let names = |source: Option<&ConfigSource>| source.map(ToString::to_string);
                prop_assert_eq!(names(ledger.assigned.as_ref()), names(wanted));
            }
        }
    }

    /// Kills after random numbers of steps do not change the final state.
    #[test]
    fn kills_do_not_change_the_final_state(
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
            let mut sim = SimHarness::new(seed);
            for (index, name) in NAMES.into_iter().enumerate() {
                sim.put_config_map(name, "1", if fine[index] { ConfigCheck::Accepted } else { refused() });
                sim.behaviours.insert(name.to_owned(), behaviours[index]);
            }
            for (which, wait) in &assignments {
                let wait: f64 = *wait;
                sim.assign(which.map(|which| source(NAMES[which])));
                let until = sim.now + SignedDuration::from_secs_f64(wait + 700.0);
                sim.run_until_killed(until, kills, seed);
            }
            ends.push(final_state(&sim));
        }
        prop_assert_eq!(&ends[0], &ends[1]);
    }

    /// Whatever fails in between, a node without NodeConfig joins once, and loses its taint if and only if its kubelet
    /// is healthy on the configuration.
    #[test]
    fn joins_once_faults_end(
        seed in any::<u64>(),
        is_booted in any::<bool>(),
        good in prop::bool::weighted(0.7),
        actions in proptest::collection::vec(join_action(), 0..20),
    ) {
        let mut join = tainted("cpu");
        join.pointers.insert("cpu".to_owned(), Some("a".to_owned()));
        if !good {
            join.behaviours.insert("a".to_owned(), Behaviour::Silent);
        }
        let ledger = if is_booted { booted("a") } else { Ledger::default() };
        let mut sim = SimHarness::without_node_config(seed, ledger, joining(), join);
        sim.put_proven("a");
        for action in actions {
            match action {
                JoinAction::Faults(faults) => sim.faults = faults,
                JoinAction::Join(change) => change(&mut sim.join),
                JoinAction::Kill => sim.kill(seed ^ 1),
                JoinAction::Reboot => sim.reboot(30.0, seed ^ 2),
                JoinAction::Wait(seconds) => sim.run_for(seconds),
            }
        }
        sim.faults = Faults::default();
        let pointers = [("cpu".to_owned(), Some("a".to_owned()))].into();
        sim.join = SimJoin { pointers, node_refused: false, create_refused: false, taint_refused: false, ..sim.join.clone() };
        sim.deliver_node_config();
        // An agent that may not remove the taint tries again after a restart.
        sim.kill(seed ^ 3);
        sim.run_for(8_000.0);
        let booted_and_failed = is_booted && !good;
        prop_assert!(sim.join.created == 1 || booted_and_failed && sim.join.created == 0, "{:?}", sim.join);
        let ledger = &sim.state.ledger;
        prop_assert_eq!(&sim.saved, ledger);
        prop_assert_eq!(sim.is_tainted(), !good, "{:#?}", ledger);
        prop_assert_eq!(sim.running.is_some(), good);
        prop_assert!(!ledger.agent_state.booted || booted_and_failed);
        if is_booted && good {
            prop_assert_eq!(sim.activations.len(), 0, "no restart");
        }
    }

    /// For any events in any order: no panic, a bounded number of effects, no activation of a refused or failed
    /// configuration, and no early promotion. Work in progress always has a wake time or an expected answer.
    #[test]
    fn tolerates_unexpected_events(seed in any::<u64>(), joins in any::<bool>(), is_booted in any::<bool>(), events in proptest::collection::vec((event(), -100_i64..1_000, prop::bool::weighted(0.95)), 1..80)) {
        let ledger = if is_booted { booted("a") } else { Ledger::default() };
        let mut state = MachineState::resume(ledger, Settings { joins, ..settings() }, seed);
        let mut now = at(0.0);
        let mut read = false;
        // Whether the answer to an activation and to a probe is expected.
        let (mut restarts, mut probes) = (false, false);
        for (event, pause, saved) in events {
            now += SignedDuration::from_secs(pause);
            let before = state.ledger.clone();
            restarts &= !matches!(event, Event::Activated(_));
            probes &= !matches!(event, Event::Probed(_));
            let come = || if saved { step(&state, &event, now) } else { not_saved(&state, &event, "full", now) };
            let (next, taken) = come();
            prop_assert_eq!((&next, &taken), (&come().0, &come().1));
            prop_assert!(taken.effects.len() <= 7);
            read |= matches!(event, Event::NodeConfigRead(Some(_)));
            // An answer without a request is no read.
            let is_created = |answer: &JoinAnswer| matches!(answer, JoinAnswer::Created(Ok(Some(_))));
            read |= matches!(&event, Event::Joined(answer) if is_created(answer) && state.volatile.joining.expects(answer));
            let creates = |effect: &Effect| matches!(effect, Effect::Join(JoinRequest::Create { .. }));
            prop_assert!(!read || !taken.effects.iter().any(creates), "created although one was read");
            for effect in &taken.effects {
                restarts |= matches!(effect, Effect::Activate { .. });
                if let Effect::Probe { since, errors_since, .. } = effect {
                    probes = true;
                    let Phase::Trying(trial) = &next.ledger.agent_state.phase else { panic!("a probe without a trial") };
                    prop_assert_eq!(*since, trial.started);
                    prop_assert!(*errors_since >= trial.started);
                }
                if let Effect::Activate { target, .. } = effect {
                    prop_assert_eq!(target.as_ref(), next.target());
                    prop_assert!(target.as_ref().is_none_or(|target| !target.to_string().contains("refused")));
                }
            }
            if let Some(good) = &next.ledger.last_known_good
                && next.ledger.last_known_good != before.last_known_good
            {
                let Phase::Trying(trial) = &before.agent_state.phase else { panic!("promoted {good} without a trial") };
                prop_assert!(now.duration_since(trial.healthy_since.unwrap()) >= SignedDuration::from_secs(600));
            }
            let expected = match next.ledger.agent_state.phase {
                Phase::Settled => true,
                Phase::Activating { .. } => restarts,
                Phase::Trying(_) => probes,
            };
            if next.volatile.started {
                // Heartbeats have a later wake time.
                let soon = taken.wake.is_some_and(|wake| wake <= after(now, LONGEST));
                prop_assert!(expected || soon, "stuck in {:?}", next.ledger.agent_state.phase);
            }
            state = next;
        }
    }
}

/// Action on a simulated node that joins.
#[derive(Debug, Clone)]
enum JoinAction {
    Faults(Faults),
    Join(fn(&mut SimJoin)),
    Kill,
    Reboot,
    Wait(f64),
}

fn join_action() -> impl Strategy<Value = JoinAction> {
    let faults = any::<(bool, bool, bool)>().prop_map(|(api_down, disk_full, reports_fail)| {
        JoinAction::Faults(Faults { api_down, disk_full, reports_fail, ..Faults::default() })
    });
    let changes: [fn(&mut SimJoin); 6] = [
        |join| join.create_refused ^= true,
        |join| join.taint_refused ^= true,
        |join| join.lose_response = true,
        |join| join.pointers.clear(),
        |join| drop(join.pointers.insert("cpu".to_owned(), Some("a".to_owned()))),
        |_| (),
    ];
    prop_oneof![
        2 => faults,
        1 => Just(JoinAction::Faults(Faults::default())),
        3 => prop::sample::select(changes.to_vec()).prop_map(JoinAction::Join),
        1 => Just(JoinAction::Kill),
        1 => Just(JoinAction::Reboot),
        4 => (0.0..3.0).prop_map(JoinAction::Wait),
        2 => (0.0..120.0).prop_map(JoinAction::Wait),
    ]
}

fn join_answer() -> impl Strategy<Value = JoinAnswer> {
    let node = |pool: Option<&str>, tainted: bool| {
        JoinAnswer::Node(Ok(OwnNode { uid: "u".to_owned(), pool: pool.map(str::to_owned), tainted }))
    };
    let config = JoinConfig { source: source("a"), hash: hash("a"), placement: None };
    let error = || {
        prop::sample::select(vec![
            JoinError::Failed("no".to_owned()),
            JoinError::Refused("no".to_owned()),
            JoinError::NoPointer("no".to_owned()),
        ])
    };
    prop_oneof![
        4 => Just(node(Some("cpu"), true)),
        1 => Just(node(None, true)),
        1 => Just(node(Some("cpu"), false)),
        4 => Just(JoinAnswer::Pointer(Ok(Some(config)))),
        1 => Just(JoinAnswer::Pointer(Ok(None))),
        3 => Just(JoinAnswer::Created(Ok(Some(Box::new(node_config(1, Some(source("a")))))))),
        1 => Just(JoinAnswer::Created(Ok(None))),
        3 => Just(JoinAnswer::TaintRemoved(Ok(()))),
        1 => error().prop_map(|error| JoinAnswer::Node(Err(error))),
        1 => error().prop_map(|error| JoinAnswer::Pointer(Err(error))),
        1 => error().prop_map(|error| JoinAnswer::Created(Err(error))),
        1 => error().prop_map(|error| JoinAnswer::TaintRemoved(Err(error))),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let wanted = |name: &'static str| Event::NodeConfigRead(Some(Box::new(node_config(1, Some(source(name))))));
    let fetched = |name: &'static str, version: &str| {
        let mut found = source(name);
        let map = found.config_map_mut().unwrap();
        (map.uid, map.resource_version) = (Some(name.to_owned()), Some(version.to_owned()));
        let config_check = if name == "refused" { refused() } else { ConfigCheck::Accepted };
        let node = Some(NodeHealth { ready: true, lease_renewed: None });
        Event::Fetched(Ok(Box::new(Fetched {
            download: Download { source: found, ..Download::default() },
            placement: Placement::Replace,
            is_same_text: false,
            config_check,
            node,
        })))
    };
    let nothing = node_config(2, None);
    let probed = |healthy: bool, node: Option<bool>| {
        let kubelet = if healthy { Ok(()) } else { Err(HealthzError::Disabled) };
        Event::Probed(Health {
            kubelet,
            node: node.map(|ready| NodeHealth { ready, lease_renewed: None }),
            service: ServiceReport::default(),
        })
    };
    prop_oneof![
        3 => Just(Event::Started(DiskCheck { in_place: true, ..DiskCheck::default() })),
        1 => Just(Event::Started(DiskCheck { config_check: Some(refused()), ..DiskCheck::default() })),
        4 => prop_oneof![Just("a"), Just("b"), Just("refused")].prop_map(wanted),
        1 => Just(Event::NodeConfigRead(Some(Box::new(nothing)))),
        1 => Just(Event::NodeConfigRead(None)),
        4 => (prop_oneof![Just("a"), Just("b"), Just("refused")], prop_oneof![Just("1"), Just("2")])
            .prop_map(move |(name, version)| fetched(name, version)),
        1 => Just(Event::Fetched(Err(FetchError::OtherContent("other".to_owned())))),
        2 => Just(Event::LocalCompared(Ok(()))),
        1 => Just(Event::LocalCompared(Err(NeedsDrain { field: "f".to_owned(), message: "no".to_owned() }))),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(in_place, good_changed)| {
            Event::DiskChecked(DiskCheck { config_check: None, in_place, good_changed })
        }),
        4 => Just(Event::Checkpointed(Ok(()))),
        1 => Just(Event::Checkpointed(Err("full".to_owned()))),
        4 => Just(Event::Activated(Ok(()))),
        1 => Just(Event::Activated(Err(ActivationError::NotPlaced("full".to_owned())))),
        1 => Just(Event::Activated(Err(ActivationError::NotRequested(RestartProblem::MaybeStopped.into())))),
        1 => Just(Event::Activated(Err(ActivationError::NotRestarted { reason: RestartProblem::MaybeStopped.into(), last_error: None }))),
        8 => Just(probed(true, Some(true))),
        2 => (any::<bool>(), any::<Option<bool>>()).prop_map(move |(healthy, node)| probed(healthy, node)),
        2 => Just(Event::Reported(Ok(()))),
        1 => Just(Event::Reported(Err("no".to_owned()))),
        1 => Just(Event::Drifted),
        6 => join_answer().prop_map(|answer| Event::Joined(Box::new(answer))),
        6 => Just(Event::Tick),
    ]
}

#[test]
fn tolerates_extreme_timestamps() {
    for moment in [Timestamp::MIN, Timestamp::MAX] {
        let mut state = MachineState::resume(Ledger::default(), settings(), 1);
        let events = [
            Event::Started(DiskCheck::default()),
            Event::Activated(Ok(())),
            Event::Probed(Health {
                kubelet: Err(HealthzError::Disabled),
                node: None,
                service: ServiceReport::default(),
            }),
            Event::Tick,
        ];
        for event in events {
            for now in [moment, at(0.0), moment] {
                state = step(&state, &event, now).0;
            }
        }
        assert_ne!(state.ledger.agent_state.phase, Phase::Activating { before: None });
    }
    assert_eq!(Duration::ZERO, super::backoff::since(Timestamp::MAX, Timestamp::MIN));
}
