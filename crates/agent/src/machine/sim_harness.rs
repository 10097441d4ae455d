//! Simulation of a node in virtual time: API server, ledger on disk and kubelet process. Carries out the machine's
//! steps like runtime and driver, and checks invariants at every step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::backoff::{after, since};
use super::sim_inputs::{Behaviour, Faults, SimConfigMap};
use super::sim_join::SimJoin;
use super::{MachineState, not_saved, step};
use crate::events::{
    ActivationError, Announcement, ConfigCheck, DiskCheck, Download, Effect, Event, FetchError, Fetched, Health,
    NeedsDrain, NodeHealth, Step,
};
use crate::host::problem::HealthzError;
use crate::ledger::{FailureKind, Ledger, Phase};
use crate::settings::Settings;
use nodecfg_contract::nodeconfig::{Metadata, NodeConfig, NodeConfigSpec, NodeConfigStatus};
use nodecfg_contract::{ConfigSource, ConfigStatus};

#[derive(Debug)]
pub(super) struct SimHarness {
    pub(super) now: Timestamp,
    pub(super) state: MachineState,
    /// Ledger on disk.
    pub(super) saved: Ledger,
    checkpoints: BTreeSet<String>,
    wake: Option<Timestamp>,
    /// Events in transit to the agent, by time and order.
    queue: BTreeMap<(Timestamp, u64), Event>,
    sequence: u64,
    settings: Settings,
    pub(super) config_maps: BTreeMap<String, SimConfigMap>,
    /// Behaviours by ConfigMap name; the local configuration is `local`.
    pub(super) behaviours: BTreeMap<String, Behaviour>,
    pub(super) faults: Faults,
    pub(super) config: Option<NodeConfig>,
    pub(super) join: SimJoin,
    /// Source of the kubelet's configuration file.
    pub(super) file_source: Option<ConfigSource>,
    /// Source that the kubelet process was started on.
    pub(super) running: Option<ConfigSource>,
    started: Timestamp,
    /// Last time that the previous kubelet process answered.
    last_seen_alive: Timestamp,
    pub(super) activations: Vec<Option<ConfigSource>>,
    pub(super) announcements: Vec<Announcement>,
    /// Distinct values of `status.config`, in order.
    pub(super) statuses: Vec<ConfigStatus>,
    pub(super) reports: usize,
    pub(super) steps: usize,
    /// Number of node queries to the API server.
    pub(super) node_checks: usize,
    /// Start of the kubelet's current healthy period.
    pub(super) healthy_since: Option<Timestamp>,
    steps_at_now: (Timestamp, usize),
    /// Trial time that clock changes may have hidden: ten seconds each.
    clock_slack: Duration,
}

pub(super) fn settings() -> Settings {
    Settings { trial_period: Duration::from_secs(600), ..Settings::default() }
}

pub(super) fn source(name: &str) -> ConfigSource {
    ConfigSource::config_map("kube-system", name, "kubelet")
}

/// NodeConfig with this generation and source.
pub(super) fn node_config(generation: i64, config_source: Option<ConfigSource>) -> NodeConfig {
    let metadata = Metadata { generation, ..Metadata::default() };
    NodeConfig {
        metadata,
        spec: NodeConfigSpec { config_source, ..NodeConfigSpec::default() },
        ..NodeConfig::default()
    }
}

pub(super) fn at(seconds: f64) -> Timestamp {
    after("2026-01-01T00:00:00Z".parse().unwrap(), Duration::from_secs_f64(seconds))
}

fn name(source: Option<&ConfigSource>) -> String {
    let map = source.and_then(|source| source.config_map.as_ref());
    map.map_or_else(|| "local".to_owned(), |map| map.name.clone())
}

/// Identifies the content of a checkpoint.
fn checkpoint_key(source: &ConfigSource) -> String {
    let map = source.config_map.as_ref().unwrap();
    format!("{:?} {:?} {}", map.uid, map.resource_version, map.kubelet_config_key)
}

impl SimHarness {
    /// Node that runs its local configuration, with a newly started agent.
    pub(super) fn new(seed: u64) -> Self {
        Self::with(seed, Ledger::default(), settings(), Some(node_config(1, None)), SimJoin::default())
    }

    /// Node that runs the active configuration of this ledger, with a newly started agent.
    pub(super) fn with(
        seed: u64,
        ledger: Ledger,
        settings: Settings,
        config: Option<NodeConfig>,
        join: SimJoin,
    ) -> Self {
        let now = at(0.0);
        let active = ledger.agent_state.active.clone();
        let mut sim = Self {
            now,
            state: MachineState::resume(ledger.clone(), settings, seed),
            checkpoints: ledger.assigned.iter().map(checkpoint_key).collect(),
            saved: ledger,
            wake: None,
            queue: BTreeMap::new(),
            sequence: 0,
            settings,
            config_maps: BTreeMap::new(),
            behaviours: join.behaviours.clone(),
            faults: Faults::default(),
            config,
            join,
            file_source: active.clone(),
            running: active,
            started: now - jiff::SignedDuration::from_secs(2_000),
            last_seen_alive: now,
            activations: Vec::new(),
            announcements: Vec::new(),
            statuses: Vec::new(),
            reports: 0,
            steps: 0,
            node_checks: 0,
            healthy_since: None,
            steps_at_now: (now, 0),
            clock_slack: Duration::ZERO,
        };
        sim.start();
        sim
    }

    fn start(&mut self) {
        let config_check = self.state.ledger.assigned.clone().map(|assigned| self.config_check(&assigned));
        let target = self.state.target().cloned();
        let in_place = self.file_source == target;
        self.handle(Event::Started(DiskCheck { config_check, in_place, good_changed: self.faults.good_changed }));
        let seen = self.config.clone();
        if !self.faults.api_down {
            self.send(0.01, Event::NodeConfigRead(seen.map(Box::new)));
        }
    }

    /// Kills the agent and starts another.
    pub(super) fn kill(&mut self, seed: u64) {
        self.queue.clear();
        self.state = MachineState::resume(self.saved.clone(), self.settings, seed);
        self.start();
    }

    /// Changes the host's clock by this much. Scheduled events keep their distance.
    pub(super) fn set_clock(&mut self, by: jiff::SignedDuration) {
        self.clock_slack += Duration::from_secs(10);
        let queue = std::mem::take(&mut self.queue);
        self.queue = queue.into_iter().map(|((at, order), event)| ((at + by, order), event)).collect();
        self.wake = self.wake.map(|wake| wake + by);
        for moment in [&mut self.now, &mut self.started, &mut self.last_seen_alive] {
            *moment += by;
        }
        self.healthy_since = self.healthy_since.map(|moment| moment + by);
    }

    /// Ends the agent for this number of seconds while the kubelet keeps running.
    pub(super) fn pause_agent(&mut self, seconds: f64, seed: u64) {
        self.queue.clear();
        self.wake = None;
        self.now = after(self.now, Duration::from_secs_f64(seconds));
        self.kill(seed);
    }

    /// Turns the host off for this number of seconds. Then kubelet and agent start together.
    pub(super) fn reboot(&mut self, seconds: f64, seed: u64) {
        self.running.clone_from(&self.file_source);
        self.started = after(self.now, Duration::from_secs_f64(seconds));
        self.healthy_since = None;
        self.pause_agent(seconds, seed);
    }

    /// Changes spec.
    pub(super) fn assign(&mut self, source: Option<ConfigSource>) {
        let mut config = self.config.take().unwrap_or_default();
        config.metadata.generation += 1;
        config.spec.config_source = source;
        self.config = Some(config);
        self.deliver_node_config();
    }

    /// Delivers the NodeConfig through the agent's watch.
    pub(super) fn deliver_node_config(&mut self) {
        if !self.faults.api_down {
            let seen = self.config.clone();
            self.send(0.01, Event::NodeConfigRead(seen.map(Box::new)));
        }
    }

    fn send(&mut self, seconds: f64, event: Event) {
        self.sequence += 1;
        self.queue.insert((after(self.now, Duration::from_secs_f64(seconds)), self.sequence), event);
    }

    /// Handles an event like the runtime.
    fn handle(&mut self, event: Event) {
        self.steps_at_now =
            if self.steps_at_now.0 == self.now { (self.now, self.steps_at_now.1 + 1) } else { (self.now, 0) };
        assert!(self.steps_at_now.1 < 50, "the machine makes no progress: {event:?}\n{:#?}", self.state);
        self.steps += 1;
        let before = self.state.ledger.clone();
        let (mut state, mut taken) = step(&self.state, &event, self.now);
        assert_eq!((state.clone(), taken.clone()), step(&self.state, &event, self.now), "a step is deterministic");
        assert!(taken.effects.len() <= 7, "{taken:?}");
        self.check_invariants(&before, &state);
        self.check_join(&event, &state, &taken);
        let active = &state.ledger.agent_state.active;
        if !matches!(event, Event::Activated(_)) && self.file_source == before.agent_state.active {
            // Only an adoption changes it without an activation: the content is the same.
            self.file_source.clone_from(active);
            self.running.clone_from(active);
        }
        if self.faults.disk_full && !taken.urgent && ![&before, &self.saved].contains(&&state.ledger) {
            (state, taken) = not_saved(&self.state, &event, "no space left on device", self.now);
            assert_eq!(state.ledger.assigned, before.assigned, "nothing was accepted");
            assert_eq!(state.ledger.last_known_good, before.last_known_good);
        }
        self.state = state;
        let config = self.state.volatile.node_config.as_ref();
        let pending = self.state.ledger.agent_state.phase != Phase::Settled
            || config.is_some_and(|config| config.spec.config_source.is_some() || self.state.ledger.assigned.is_some());
        let asked = |effect: &Effect| !matches!(effect, Effect::Announce(_) | Effect::DiscardStateFiles);
        let awaited = !self.queue.is_empty() || taken.checkpoint.is_some() || taken.effects.iter().any(asked);
        let all_nil = config.is_some_and(|config| config.spec.config_source == Some(ConfigSource::default()));
        assert!(!pending || taken.wake.is_some() || awaited || all_nil, "stuck: {:#?}", self.state);
        if !self.faults.disk_full {
            self.saved = self.state.ledger.clone();
        }
        self.carry_out(taken);
    }

    /// Checks a step: promotion only after a trial, a lasting record of failures, and the target of a settled node.
    fn check_invariants(&self, before: &Ledger, state: &MachineState) {
        let (old, new) = (before, &state.ledger);
        // A recreated ConfigMap with the same content may replace the last known good.
        let good = old.last_known_good == old.agent_state.active && new.last_known_good == new.agent_state.active;
        let adopted = good
            && new
                .agent_state
                .content_hash
                .as_ref()
                .is_some_and(|new| Some(new) == old.agent_state.last_known_good_hash.as_ref());
        if new.last_known_good != old.last_known_good && new.last_known_good.is_some() && !adopted {
            assert_eq!(new.last_known_good, new.assigned, "only the assignment is promoted");
            let Phase::Trying(trial) = &old.agent_state.phase else { panic!("promoted without a trial: {old:?}") };
            assert!(since(trial.healthy_since.unwrap(), self.now) >= self.settings.trial_period);
            assert!(old.agent_state.failure.is_none());
            assert_eq!(self.file_source, new.assigned, "promoted although another file is in place");
            let healthy = self.healthy_since.expect("promoted while unhealthy");
            // The simulation checks the kubelet as often as the agent.
            assert!(
                since(healthy, self.now) + Duration::from_secs(2) + self.clock_slack >= self.settings.trial_period,
                "promoted too early"
            );
        }
        let sticky = |ledger: &Ledger| {
            let kind = ledger.agent_state.failure.as_ref().map(|failure| failure.kind);
            kind.filter(|kind| matches!(kind, FailureKind::Trial | FailureKind::Restart))
        };
        if sticky(old).is_some() && new.assignment() == old.assignment() {
            assert_eq!(sticky(new), sticky(old), "the failure stays recorded");
        }
        if new.agent_state.phase == Phase::Settled {
            assert_eq!(
                state.target(),
                new.last_known_good.as_ref(),
                "settled on another configuration than the last known good"
            );
            assert_eq!(state.target(), new.agent_state.active.as_ref(), "settled on a configuration that does not run");
        }
    }

    fn carry_out(&mut self, Step { checkpoint, effects, prune, wake, .. }: Step) {
        self.wake = wake;
        if let Some(download) = checkpoint {
            let result = if self.faults.disk_full { Err("no space left on device".to_owned()) } else { Ok(()) };
            if result.is_ok() {
                self.checkpoints.insert(checkpoint_key(&download.source));
            }
            self.send(0.0, Event::Checkpointed(result));
        }
        for effect in effects {
            match effect {
                Effect::Fetch(wanted) => {
                    let answer = self.fetch(&wanted.into());
                    self.send(0.05, Event::Fetched(answer));
                }
                Effect::CompareLocal => {
                    let refusal = NeedsDrain { field: "maxPods".to_owned(), message: "drain first".to_owned() };
                    let answer = if self.faults.needs_drain { Err(refusal) } else { Ok(()) };
                    self.send(0.0, Event::LocalCompared(answer));
                }
                Effect::DiscardStateFiles | Effect::Prove => {}
                Effect::CheckDisk => {
                    let in_place = self.file_source == self.state.ledger.agent_state.active;
                    let good_changed = self.faults.good_changed;
                    self.send(0.0, Event::DiskChecked(DiskCheck { config_check: None, in_place, good_changed }));
                }
                Effect::Activate { target, .. } => self.activate(target),
                Effect::Probe { node, .. } => {
                    self.node_checks += usize::from(node);
                    let node = (node && !self.faults.api_down).then(|| self.node());
                    let kubelet = if self.answers() { Ok(()) } else { Err(HealthzError::refused()) };
                    let healthy = kubelet.is_ok();
                    self.healthy_since = if healthy { self.healthy_since.or(Some(self.now)) } else { None };
                    let service = self.behaviour().service_report(since(self.started, self.now));
                    self.send(0.01, Event::Probed(Health { kubelet, node, service }));
                }
                Effect::Report(status) => self.report(*status),
                Effect::Join(request) => {
                    let answer = self.answer_join(request);
                    self.send(0.05, Event::Joined(Box::new(answer)));
                }
                Effect::Announce(announcement) => self.announcements.push(announcement),
            }
        }
        if prune {
            let ledger = &self.state.ledger;
            let named: Vec<String> =
                [&ledger.assigned, &ledger.last_known_good].into_iter().flatten().map(checkpoint_key).collect();
            self.checkpoints.retain(|checkpoint| named.contains(checkpoint));
        }
    }

    fn fetch(&self, wanted: &ConfigSource) -> Result<Box<Fetched>, FetchError> {
        if self.faults.api_down {
            return Err(FetchError::Unreachable("connection refused".to_owned()));
        }
        let mut found = wanted.clone();
        let asked = found.config_map_mut().unwrap();
        let Some(map) = self.config_maps.get(&asked.name) else {
            return Err(FetchError::Missing("not found".to_owned()));
        };
        asked.uid = Some(map.uid.clone());
        asked.resource_version = Some(map.version.clone());
        let config_check = self.config_check(&found);
        let (immutable, content_hash) = (map.immutable, map.hash.clone());
        let download = Download { source: found, immutable, content_hash, ..Download::default() };
        let (placement, is_same_text) = (self.state.wanted_placement(), self.faults.same_text);
        Ok(Box::new(Fetched { download, placement, is_same_text, config_check, node: Some(self.node()) }))
    }

    fn activate(&mut self, target: Option<ConfigSource>) {
        assert_eq!(target.as_ref(), self.state.target(), "only the target is activated");
        if let Some(target) = &target {
            assert!(self.checkpoints.contains(&checkpoint_key(target)), "{target} has no checkpoint");
            assert_eq!(self.config_check(target), ConfigCheck::Accepted, "{target} was refused");
        }
        if self.faults.placement_fails {
            return self.send(0.0, Event::Activated(Err(ActivationError::NotPlaced("read-only".to_owned()))));
        }
        self.activations.push(target.clone());
        self.file_source.clone_from(&target);
        self.last_seen_alive = if self.answers() { self.now } else { self.last_seen_alive };
        self.running = target;
        self.started = self.now;
        self.healthy_since = None;
        self.send(1.0, Event::Activated(self.behaviour().restart()));
    }

    fn report(&mut self, status: NodeConfigStatus) {
        let refused = self.faults.api_down || self.faults.reports_fail || self.config.is_none();
        if refused {
            return self.send(0.02, Event::Reported(Err("refused".to_owned())));
        }
        self.reports += 1;
        let config = status.config.clone().unwrap();
        if self.statuses.last() != Some(&config) {
            self.statuses.push(config);
        }
        if let Some(config) = &mut self.config {
            config.status = status;
        }
        self.send(0.02, Event::Reported(Ok(())));
        self.deliver_node_config();
    }

    /// Behaviour of the running kubelet.
    pub(super) fn behaviour(&self) -> Behaviour {
        self.behaviours.get(&name(self.running.as_ref())).copied().unwrap_or(Behaviour::Good)
    }

    /// Reports whether `/healthz` answers.
    pub(super) fn answers(&self) -> bool {
        let age = since(self.started, self.now).as_secs_f64();
        match self.behaviour() {
            _ if age < 2.0 => false,
            Behaviour::Good | Behaviour::Unready | Behaviour::NoLease => true,
            Behaviour::Silent | Behaviour::NoRestart | Behaviour::Exits | Behaviour::StaleState { .. } => false,
            #[expect(clippy::cast_precision_loss, reason = "seconds of a test")]
            Behaviour::Dies(after) => age < after as f64,
            Behaviour::Loops => age % 8.0 < 5.0,
        }
    }

    fn node(&self) -> NodeHealth {
        let up = after(self.started, Duration::from_secs(2));
        let (ready, renewed) = if self.behaviour() == Behaviour::NoLease {
            (true, self.last_seen_alive)
        } else if self.answers() {
            (
                self.behaviour() != Behaviour::Unready,
                after(up, Duration::from_secs(since(up, self.now).as_secs() / 10 * 10)),
            )
        } else {
            (since(self.last_seen_alive, self.now) < Duration::from_secs(40), self.last_seen_alive)
        };
        NodeHealth { ready, lease_renewed: Some(renewed) }
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let next = self.queue.first_key_value().map(|((moment, _), _)| *moment);
        [next, self.wake].into_iter().flatten().min().map(|moment| moment.max(self.now))
    }

    fn run_next(&mut self, moment: Timestamp) {
        self.now = moment;
        if self.queue.first_key_value().is_some_and(|((due, _), _)| *due <= moment) {
            let (_, event) = self.queue.pop_first().unwrap();
            self.handle(event);
        } else {
            self.wake = None;
            self.handle(Event::Tick);
        }
    }

    /// Runs until this time of the host's clock.
    pub(super) fn run_until(&mut self, end: Timestamp) {
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= end) {
            self.run_next(moment);
        }
        self.now = self.now.max(end);
    }

    /// Runs until this time, and kills the agent after these numbers of steps from now.
    pub(super) fn run_until_killed(&mut self, end: Timestamp, kills: &[usize], seed: u64) {
        let begun = self.steps;
        let mut kills: Vec<usize> = kills.iter().map(|kill| begun + kill).collect();
        kills.sort_unstable_by(|a, b| b.cmp(a));
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= end) {
            self.run_next(moment);
            while kills.last().is_some_and(|kill| *kill <= self.steps) {
                kills.pop();
                self.kill(seed);
            }
        }
        self.now = self.now.max(end);
    }

    pub(super) fn run_for(&mut self, seconds: f64) {
        self.run_until(after(self.now, Duration::from_secs_f64(seconds)));
    }

    /// Status on the server.
    pub(super) fn status(&self) -> NodeConfigStatus {
        self.config.clone().unwrap().status
    }

    pub(super) fn error(&self) -> String {
        self.status().config.and_then(|config| config.error).unwrap_or_default()
    }

    /// Names of assigned, active and last known good in the status on the server.
    pub(super) fn reported(&self) -> [String; 3] {
        let config = self.status().config.expect("reported");
        [config.assigned, config.active, config.last_known_good].map(|source| name(source.as_ref()))
    }
}
