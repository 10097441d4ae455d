//! A world for the machine to live in, in virtual time: an API server, a disk that holds the ledger, a kubelet process. It
//! does with a step what the runtime and the driver do, and holds on every step what must always be so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::backoff::{after, since};
use super::{MachineState, not_saved, step};
use crate::events::{
    ActivationError, Announcement, ConfigCheck, Download, Effect, Event, FetchError, Fetched, Health, NodeHealth, Step,
};
use crate::state::{FailureKind, Ledger, Phase, Settings};
use nodecfg_contract::nodeconfig::{Metadata, NodeConfig, NodeConfigSpec, NodeConfigStatus};
use nodecfg_contract::{ConfigSource, ConfigStatus};

/// What a kubelet does on a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Good,
    /// Never answers.
    Silent,
    /// Answers, and no more after so many seconds.
    Dies(u64),
    /// Answers for 5 s and is gone for 3 s, again and again.
    Loops,
    /// Answers; its Node is never Ready.
    Unready,
    /// The command that restarts it fails.
    NoRestart,
}

/// A ConfigMap. The verdict is on the key `kubelet`; another key is missing. A version with a dash has its verdict behind it,
/// `fine` or not, for as long as it is known.
#[derive(Debug, Clone)]
pub(super) struct Map {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) immutable: bool,
    pub(super) hash: Option<String>,
    pub(super) verdict: ConfigCheck,
}

/// What is broken around the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Faults {
    pub(super) api_away: bool,
    /// Nothing can be saved: neither ledger nor checkpoint.
    pub(super) disk_full: bool,
    /// The kubelet's configuration cannot be replaced.
    pub(super) no_place: bool,
    /// Reports are refused.
    pub(super) no_reports: bool,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) state: MachineState,
    /// The ledger on disk.
    pub(super) saved: Ledger,
    checkpoints: BTreeSet<String>,
    wake: Option<Timestamp>,
    /// What is on its way to the agent, by time and order.
    queue: BTreeMap<(Timestamp, u64), Event>,
    sequence: u64,
    settings: Settings,
    pub(super) maps: BTreeMap<String, Map>,
    /// By name; the local configuration is `local`.
    pub(super) behaviours: BTreeMap<String, Behaviour>,
    pub(super) faults: Faults,
    pub(super) config: Option<NodeConfig>,
    /// What the kubelet's configuration file holds.
    pub(super) placed: Option<ConfigSource>,
    /// What the kubelet process was started on, and when.
    pub(super) runs: Option<ConfigSource>,
    started: Timestamp,
    /// When the Node was last seen alive before that.
    alive: Timestamp,
    pub(super) activations: Vec<Option<ConfigSource>>,
    pub(super) announcements: Vec<Announcement>,
    /// The distinct values of `status.config`, in order.
    pub(super) statuses: Vec<ConfigStatus>,
    pub(super) reports: usize,
    pub(super) steps: usize,
    /// How often the API server was asked about the node.
    pub(super) asked: usize,
    /// Since when the kubelet has been healthy without a break, as the world knows.
    healthy_since: Option<Timestamp>,
    at_once: (Timestamp, usize),
    /// How much of a trial the clock may have hidden by being set: ten seconds each time.
    hidden: Duration,
}

pub(super) fn settings() -> Settings {
    Settings { trial_period: Duration::from_secs(600), ..Settings::default() }
}

pub(super) fn source(name: &str) -> ConfigSource {
    ConfigSource::config_map("kube-system", name, "kubelet")
}

/// A NodeConfig that says so.
pub(super) fn wanting(generation: i64, config_source: Option<ConfigSource>) -> NodeConfig {
    let metadata = Metadata { generation, ..Metadata::default() };
    NodeConfig { metadata, spec: NodeConfigSpec { config_source }, ..NodeConfig::default() }
}

pub(super) fn at(seconds: f64) -> Timestamp {
    after("2026-01-01T00:00:00Z".parse().unwrap(), Duration::from_secs_f64(seconds))
}

fn name(source: Option<&ConfigSource>) -> String {
    let map = source.and_then(|source| source.config_map.as_ref());
    map.map_or_else(|| "local".to_owned(), |map| map.name.clone())
}

/// A key for one content.
fn content(source: &ConfigSource) -> String {
    let map = source.config_map.as_ref().unwrap();
    format!("{:?} {:?} {}", map.uid, map.resource_version, map.kubelet_config_key)
}

impl World {
    /// A node that runs its local configuration, with an agent that has just started.
    pub(super) fn new(seed: u64) -> Self {
        let now = at(0.0);
        let state = MachineState::resume(Ledger::default(), settings(), seed);
        let mut world = Self {
            now,
            state,
            saved: Ledger::default(),
            checkpoints: BTreeSet::new(),
            wake: None,
            queue: BTreeMap::new(),
            sequence: 0,
            settings: settings(),
            maps: BTreeMap::new(),
            behaviours: BTreeMap::new(),
            faults: Faults::default(),
            config: Some(wanting(1, None)),
            placed: None,
            runs: None,
            started: now - jiff::SignedDuration::from_secs(2_000),
            alive: now,
            activations: Vec::new(),
            announcements: Vec::new(),
            statuses: Vec::new(),
            reports: 0,
            steps: 0,
            asked: 0,
            healthy_since: None,
            at_once: (now, 0),
            hidden: Duration::ZERO,
        };
        world.start();
        world
    }

    fn start(&mut self) {
        let verdict = self.state.ledger.assigned.clone().map(|assigned| self.verdict(&assigned));
        let target = self.state.target().cloned();
        self.take(Event::Started { verdict, in_place: self.placed == target });
        let seen = self.config.clone();
        if !self.faults.api_away {
            self.send(0.01, Event::Seen(seen.map(Box::new)));
        }
    }

    /// The agent is killed and started again.
    pub(super) fn kill(&mut self, seed: u64) {
        self.queue.clear();
        self.state = MachineState::resume(self.saved.clone(), self.settings, seed);
        self.start();
    }

    /// The host's clock is set. What happens meanwhile happens at the same distance.
    pub(super) fn set_clock(&mut self, by: jiff::SignedDuration) {
        self.hidden += Duration::from_secs(10);
        let queue = std::mem::take(&mut self.queue);
        self.queue = queue.into_iter().map(|((at, order), event)| ((at + by, order), event)).collect();
        self.wake = self.wake.map(|wake| wake + by);
        for moment in [&mut self.now, &mut self.started, &mut self.alive] {
            *moment += by;
        }
        self.healthy_since = self.healthy_since.map(|moment| moment + by);
    }

    /// The agent is away for so long, and the kubelet runs on.
    pub(super) fn away(&mut self, seconds: f64, seed: u64) {
        self.queue.clear();
        self.wake = None;
        self.now = after(self.now, Duration::from_secs_f64(seconds));
        self.kill(seed);
    }

    /// The host is off for so long; then kubelet and agent start at the same time.
    pub(super) fn reboot(&mut self, seconds: f64, seed: u64) {
        self.runs.clone_from(&self.placed);
        self.started = after(self.now, Duration::from_secs_f64(seconds));
        self.healthy_since = None;
        self.away(seconds, seed);
    }

    pub(super) fn verdict(&self, source: &ConfigSource) -> ConfigCheck {
        let map = source.config_map.as_ref().unwrap();
        if map.kubelet_config_key != "kubelet" {
            return ConfigCheck::NotLoaded { message: "no such key".to_owned(), kubelet: None };
        }
        match map.resource_version.as_deref().and_then(|version| version.split_once('-')) {
            Some((_, "fine")) => return ConfigCheck::Accepted,
            Some(_) => return ConfigCheck::NotValid { message: "refused".to_owned(), kubelet: None },
            None => {}
        }
        let same = |known: &&Map| Some(&known.uid) == map.uid.as_ref();
        self.maps.values().find(same).map_or(ConfigCheck::Accepted, |known| known.verdict.clone())
    }

    pub(super) fn map(&mut self, name: &str, version: &str, verdict: ConfigCheck) {
        let (uid, version) = (format!("uid-{name}"), version.to_owned());
        self.maps.insert(name.to_owned(), Map { uid, version, immutable: false, hash: None, verdict });
    }

    /// Spec says something else.
    pub(super) fn assign(&mut self, source: Option<ConfigSource>) {
        let mut config = self.config.take().unwrap_or_default();
        config.metadata.generation += 1;
        config.spec.config_source = source;
        self.config = Some(config);
        self.see();
    }

    /// The agent's watch delivers its NodeConfig.
    pub(super) fn see(&mut self) {
        if !self.faults.api_away {
            let seen = self.config.clone();
            self.send(0.01, Event::Seen(seen.map(Box::new)));
        }
    }

    fn send(&mut self, seconds: f64, event: Event) {
        self.sequence += 1;
        self.queue.insert((after(self.now, Duration::from_secs_f64(seconds)), self.sequence), event);
    }

    /// Does with an event what the runtime does.
    fn take(&mut self, event: Event) {
        self.at_once = if self.at_once.0 == self.now { (self.now, self.at_once.1 + 1) } else { (self.now, 0) };
        assert!(self.at_once.1 < 50, "the machine turns on the spot: {event:?}\n{:#?}", self.state);
        self.steps += 1;
        let before = self.state.ledger.clone();
        let (mut state, mut taken) = step(&self.state, &event, self.now);
        assert_eq!((state.clone(), taken.clone()), step(&self.state, &event, self.now), "a step is deterministic");
        assert!(taken.effects.len() <= 6, "{taken:?}");
        self.check(&before, &state);
        if self.faults.disk_full && !taken.urgent && ![&before, &self.saved].contains(&&state.ledger) {
            (state, taken) = not_saved(&self.state, &event, "no space left on device", self.now);
            assert_eq!(state.ledger.assigned, before.assigned, "nothing was taken");
            assert_eq!(state.ledger.last_known_good, before.last_known_good);
        }
        self.state = state;
        let pending = self.state.ledger.beyond.phase != Phase::Settled
            || self
                .state
                .volatile
                .wanted
                .as_ref()
                .is_some_and(|wanted| wanted.spec.config_source.is_some() || self.state.ledger.assigned.is_some());
        let asked = |effect: &Effect| !matches!(effect, Effect::Announce(_));
        let awaited = !self.queue.is_empty() || taken.checkpoint.is_some() || taken.effects.iter().any(asked);
        let all_nil = self
            .state
            .volatile
            .wanted
            .as_ref()
            .is_some_and(|wanted| wanted.spec.config_source == Some(ConfigSource::default()));
        assert!(!pending || taken.wake.is_some() || awaited || all_nil, "stuck: {:#?}", self.state);
        if !self.faults.disk_full {
            self.saved = self.state.ledger.clone();
        }
        self.carry_out(taken);
    }

    /// What must be so of every step.
    fn check(&self, before: &Ledger, state: &MachineState) {
        let (old, new) = (before, &state.ledger);
        // The same content made again takes the place of what was good and ran.
        let good = old.last_known_good == old.beyond.active && new.last_known_good == new.beyond.active;
        let adopted = good
            && new
                .beyond
                .content_hash
                .as_ref()
                .is_some_and(|new| Some(new) == old.beyond.last_known_good_hash.as_ref());
        if new.last_known_good != old.last_known_good && new.last_known_good.is_some() && !adopted {
            assert_eq!(new.last_known_good, new.assigned, "only what is assigned is promoted");
            let Phase::Trying(trial) = &old.beyond.phase else { panic!("promoted without a trial: {old:?}") };
            assert!(since(trial.healthy_since.unwrap(), self.now) >= self.settings.trial_period);
            assert!(old.beyond.failure.is_none());
            let healthy = self.healthy_since.expect("promoted while unhealthy");
            // The world looks at the kubelet as often as the agent does.
            assert!(
                since(healthy, self.now) + Duration::from_secs(2) + self.hidden >= self.settings.trial_period,
                "promoted too early"
            );
        }
        let sticky = |ledger: &Ledger| {
            let kind = ledger.beyond.failure.as_ref().map(|failure| failure.kind);
            kind.filter(|kind| matches!(kind, FailureKind::Trial | FailureKind::Restart))
        };
        if sticky(old).is_some() && new.assigned == old.assigned {
            assert_eq!(sticky(new), sticky(old), "what failed is not forgotten");
        }
        if new.beyond.phase == Phase::Settled {
            assert_eq!(state.target(), new.last_known_good.as_ref(), "settled on what is no last resort");
            assert_eq!(state.target(), new.beyond.active.as_ref(), "settled on what does not run");
        }
    }

    fn carry_out(&mut self, Step { checkpoint, effects, prune, wake, .. }: Step) {
        self.wake = wake;
        if let Some(download) = checkpoint {
            let kept = if self.faults.disk_full { Err("no space left on device".to_owned()) } else { Ok(()) };
            if kept.is_ok() {
                self.checkpoints.insert(content(&download.source));
            }
            self.send(0.0, Event::Checkpointed(kept));
        }
        for effect in effects {
            match effect {
                Effect::Fetch(wanted) => {
                    let answer = self.fetch(&ConfigSource { config_map: Some(wanted) });
                    self.send(0.05, Event::Fetched(answer));
                }
                Effect::Activate { target, .. } => self.activate(target),
                Effect::Probe { node } => {
                    self.asked += usize::from(node);
                    let node = (node && !self.faults.api_away).then(|| self.node());
                    let kubelet = if self.answers() { Ok(()) } else { Err("connection refused".to_owned()) };
                    let healthy = kubelet.is_ok();
                    self.healthy_since = if healthy { self.healthy_since.or(Some(self.now)) } else { None };
                    self.send(0.01, Event::Probed(Health { kubelet, node }));
                }
                Effect::Report(status) => self.report(*status),
                Effect::Announce(announcement) => self.announcements.push(announcement),
            }
        }
        if prune {
            let ledger = &self.state.ledger;
            let named: Vec<String> =
                [&ledger.assigned, &ledger.last_known_good].into_iter().flatten().map(content).collect();
            self.checkpoints.retain(|checkpoint| named.contains(checkpoint));
        }
    }

    fn fetch(&self, wanted: &ConfigSource) -> Result<Box<Fetched>, FetchError> {
        if self.faults.api_away {
            return Err(FetchError::Unreachable("connection refused".to_owned()));
        }
        let mut found = wanted.clone();
        let asked = found.config_map.as_mut().unwrap();
        let Some(map) = self.maps.get(&asked.name) else { return Err(FetchError::Missing("not found".to_owned())) };
        asked.uid = Some(map.uid.clone());
        asked.resource_version = Some(map.version.clone());
        let verdict = self.verdict(&found);
        let (immutable, content_hash) = (map.immutable, map.hash.clone());
        let download = Download { source: found, immutable, content_hash, ..Download::default() };
        Ok(Box::new(Fetched { download, verdict, node: Some(self.node()) }))
    }

    fn activate(&mut self, target: Option<ConfigSource>) {
        assert_eq!(target.as_ref(), self.state.target(), "only the target is activated");
        if let Some(target) = &target {
            assert!(self.checkpoints.contains(&content(target)), "{target} has no checkpoint");
            assert_eq!(self.verdict(target), ConfigCheck::Accepted, "{target} was refused");
        }
        if self.faults.no_place {
            return self.send(0.0, Event::Activated(Err(ActivationError::NotPlaced("read-only".to_owned()))));
        }
        self.activations.push(target.clone());
        self.placed.clone_from(&target);
        self.alive = if self.answers() { self.now } else { self.alive };
        self.runs = target;
        self.started = self.now;
        self.healthy_since = None;
        let answer = match self.behaviour() {
            Behaviour::NoRestart => Err(ActivationError::NotRestarted("exit status 1".to_owned())),
            _ => Ok(()),
        };
        self.send(1.0, Event::Activated(answer));
    }

    fn report(&mut self, status: NodeConfigStatus) {
        let refused = self.faults.api_away || self.faults.no_reports || self.config.is_none();
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
        self.see();
    }

    /// What the kubelet does on what it runs.
    pub(super) fn behaviour(&self) -> Behaviour {
        self.behaviours.get(&name(self.runs.as_ref())).copied().unwrap_or(Behaviour::Good)
    }

    /// Whether `/healthz` answers.
    pub(super) fn answers(&self) -> bool {
        let age = since(self.started, self.now).as_secs_f64();
        match self.behaviour() {
            _ if age < 2.0 => false,
            Behaviour::Good | Behaviour::Unready => true,
            Behaviour::Silent | Behaviour::NoRestart => false,
            #[expect(clippy::cast_precision_loss, reason = "seconds of a test")]
            Behaviour::Dies(after) => age < after as f64,
            Behaviour::Loops => age % 8.0 < 5.0,
        }
    }

    fn node(&self) -> NodeHealth {
        let up = after(self.started, Duration::from_secs(2));
        let (ready, renewed) = if self.answers() {
            (
                self.behaviour() != Behaviour::Unready,
                after(up, Duration::from_secs(since(up, self.now).as_secs() / 10 * 10)),
            )
        } else {
            (since(self.alive, self.now) < Duration::from_secs(40), self.alive)
        };
        NodeHealth { ready, lease_renewed: Some(renewed) }
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let next = self.queue.first_key_value().map(|((moment, _), _)| *moment);
        [next, self.wake].into_iter().flatten().min().map(|moment| moment.max(self.now))
    }

    fn live_once(&mut self, moment: Timestamp) {
        self.now = moment;
        if self.queue.first_key_value().is_some_and(|((due, _), _)| *due <= moment) {
            let (_, event) = self.queue.pop_first().unwrap();
            self.take(event);
        } else {
            self.wake = None;
            self.take(Event::Tick);
        }
    }

    /// Lives on until this moment.
    pub(super) fn run_until(&mut self, end: Timestamp) {
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= end) {
            self.live_once(moment);
        }
        self.now = self.now.max(end);
    }

    /// The same, with an agent that is killed after so many steps of this time.
    pub(super) fn run_until_killed(&mut self, end: Timestamp, kills: &[usize], seed: u64) {
        let begun = self.steps;
        let mut kills: Vec<usize> = kills.iter().map(|kill| begun + kill).collect();
        kills.sort_unstable_by(|a, b| b.cmp(a));
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= end) {
            self.live_once(moment);
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

    /// What the server has.
    pub(super) fn status(&self) -> NodeConfigStatus {
        self.config.clone().unwrap().status
    }

    pub(super) fn error(&self) -> String {
        self.status().config.and_then(|config| config.error).unwrap_or_default()
    }

    /// The names of assigned, active and last known good, as the server has them.
    pub(super) fn told(&self) -> [String; 3] {
        let config = self.status().config.expect("reported");
        [config.assigned, config.active, config.last_known_good].map(|source| name(source.as_ref()))
    }
}
