//! A node in virtual time: an API server, a kubelet process and its service manager, a disk in memory, and the real runtime
//! between them, which can be killed at every operation of the disk and between any two things that it asks for.
//!
//! The world knows what every configuration does to a kubelet, which the agent does not, and holds at every moment what must
//! be so of a node whatever happens to its agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodecfg_agent::disk::memory::{Fault, MemoryDisk};
use nodecfg_agent::events::{ActivationError, Download, Effect, Event, FetchError, Health, NodeHealth, Step};
use nodecfg_agent::placement::Placement;
use nodecfg_agent::runtime::{AgentRuntime, Paths};
use nodecfg_agent::state::{FailureKind, Ledger, Phase, Settings};
use nodecfg_agent::store::Store;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};
use nodecfg_contract::observed::KubeletVersion;
use nodecfg_contract::{ConfigMapSource, ConfigSource};

use crate::contents::{self, Behaviour};
use crate::snapshot::Snapshot;

/// The agent's folder.
pub const FOLDER: &str = "/var/lib/nodecfg";
/// The kubelet's configuration, in a folder of its own.
pub const CONFIG: &str = "/var/lib/kubelet/config.yaml";
/// The namespace of all ConfigMaps.
pub const NAMESPACE: &str = "nodecfg-system";

/// How long a kubelet takes until it answers.
const START: f64 = 2.0;
/// How long the API server believes in a kubelet that renews its Lease no more.
const GRACE: f64 = 40.0;

/// Everything is faster than in life, and in the same proportions.
pub fn settings() -> Settings {
    Settings {
        health_timeout: Duration::from_secs(20),
        trial_period: Duration::from_secs(40),
        probe_interval: Duration::from_secs(2),
        follow_interval: Duration::from_secs(20),
        resync_interval: Duration::from_secs(30),
    }
}

/// How the agent dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The process is killed; the machine goes on.
    Process,
    /// The machine loses power: what was not durable is lost, in part, or not, and the kubelet starts anew too.
    Power,
}

/// When it dies next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// At the disk's operation of this number, counted from now.
    Operation(u64),
    /// Before this one of the things that the runtime asks for, counted from now.
    Before(u64),
    /// After it, before its answer.
    After(u64),
    /// After so many seconds.
    Seconds(f64),
}

/// A ConfigMap.
#[derive(Debug, Clone)]
pub struct Map {
    pub uid: String,
    pub version: String,
    pub immutable: bool,
    pub payload: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Doom {
    when: When,
    death: Death,
    /// Of what is counted, the number at which it strikes.
    at: u64,
    moment: Timestamp,
}

#[derive(Debug, Clone)]
enum Message {
    Event(Box<Event>),
    Fetched(Box<Result<Download, FetchError>>, Option<NodeHealth>),
}

pub struct World {
    pub now: Timestamp,
    pub disk: MemoryDisk,
    runtime: Option<AgentRuntime<MemoryDisk>>,
    wake: Option<Timestamp>,
    queue: BTreeMap<(Timestamp, u64), Message>,
    sequence: u64,
    random: fastrand::Rng,
    // The API server.
    pub maps: BTreeMap<String, Map>,
    pub config: Option<NodeConfig>,
    pub api_away: bool,
    versions: u64,
    // The kubelet.
    runs: Arc<[u8]>,
    started: Timestamp,
    /// When it was first started on each content.
    tried: BTreeMap<Vec<u8>, Timestamp>,
    alive: Timestamp,
    /// Contents that are or were assigned, so that the kubelet may be found on them.
    known: BTreeSet<Vec<u8>>,
    // Death.
    doom: Option<Doom>,
    /// What the runtime asked for, ever.
    asked: u64,
    pub kills: u64,
    /// When power was lost, lately.
    blackouts: Vec<Timestamp>,
    lost_power: bool,
    born: Option<Timestamp>,
    /// How the disk fails, and from which operation on.
    faults: Vec<(Fault, u64)>,
    /// What failed its trial or its restart as far as the agent has remembered, until spec changes.
    failed: Option<ConfigSource>,
    pub history: String,
    /// How long nothing has changed.
    calm_since: Timestamp,
    last: Option<Ledger>,
}

fn after(moment: Timestamp, seconds: f64) -> Timestamp {
    moment + SignedDuration::from_secs_f64(seconds)
}

fn since(moment: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(moment).as_secs_f64()
}

fn paths() -> Paths {
    Paths { folder: PathBuf::from(FOLDER), placement: Placement::File { config: PathBuf::from(CONFIG) } }
}

/// The kubelet of this host.
pub fn kubelet() -> Option<KubeletVersion> {
    KubeletVersion::parse("v1.33.1")
}

impl World {
    /// A node that runs its local configuration, with an agent that has just started.
    pub fn new(seed: u64) -> Self {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let disk = MemoryDisk::new();
        disk.put(Path::new(CONFIG), contents::LOCAL.as_bytes(), 0o644);
        let local: Arc<[u8]> = contents::LOCAL.as_bytes().into();
        let mut world = Self {
            now,
            disk,
            runtime: None,
            wake: None,
            queue: BTreeMap::new(),
            sequence: 0,
            random: fastrand::Rng::with_seed(seed),
            maps: BTreeMap::new(),
            config: Some(NodeConfig::default()),
            api_away: false,
            versions: 100,
            runs: local,
            started: now - SignedDuration::from_secs(2_000),
            tried: BTreeMap::new(),
            alive: now,
            known: BTreeSet::from([contents::LOCAL.as_bytes().to_vec()]),
            doom: None,
            asked: 0,
            kills: 0,
            blackouts: Vec::new(),
            lost_power: false,
            born: Some(now),
            faults: Vec::new(),
            failed: None,
            history: String::new(),
            calm_since: now,
            last: None,
        };
        world.be_born();
        world
    }

    pub fn note(&mut self, text: &str) {
        writeln!(self.history, "{:>9.2} s  op {:>5}  {text}", self.seconds(), self.disk.operations()).unwrap();
    }

    fn seconds(&self) -> f64 {
        since("2026-01-01T00:00:00Z".parse().unwrap(), self.now)
    }

    // ---- what users and API servers do

    /// Makes a ConfigMap, or changes one in place. The same sequence of calls gives the same uids and versions.
    pub fn put_map(&mut self, name: &str, payload: BTreeMap<String, String>, immutable: bool) {
        self.versions += 1;
        let version = self.versions.to_string();
        let uid = self.maps.get(name).map_or_else(|| format!("uid-{name}-{version}"), |map| map.uid.clone());
        for text in payload.values().filter(|text| contents::runs(text)) {
            self.known.insert(text.as_bytes().to_vec());
        }
        self.maps.insert(name.to_owned(), Map { uid, version, immutable, payload });
        self.failed = None;
        self.calm_since = self.now;
    }

    pub fn delete_map(&mut self, name: &str) {
        self.maps.remove(name);
        self.calm_since = self.now;
    }

    pub fn assign(&mut self, source: Option<ConfigSource>) {
        if let Some(config) = &mut self.config {
            config.metadata.generation += 1;
            config.spec.config_source = source;
        }
        self.failed = None;
        self.calm_since = self.now;
        self.see();
    }

    fn see(&mut self) {
        if self.runtime.is_some() && !self.api_away {
            let seen = self.config.clone();
            self.send(0.01, Message::Event(Box::new(Event::Seen(seen.map(Box::new)))));
        }
    }

    /// The API server goes away, or comes back.
    pub fn set_api(&mut self, away: bool) {
        self.api_away = away;
        self.calm_since = self.now;
        if !away {
            self.see();
        }
    }

    // ---- the disk

    /// After so many operations, the disk fails like this until it is mended.
    pub fn fault(&mut self, fault: Fault, operations: u64) {
        let from = self.disk.operations() + operations;
        self.note(&format!("the disk, from operation {from} on: {fault:?}"));
        self.faults.push((fault, from));
        self.disk.inject(fault, from..u64::MAX);
        self.calm_since = self.now;
    }

    /// The disk is well again.
    pub fn mend(&mut self) {
        self.note("the disk is well");
        self.faults.clear();
        self.disk.heal();
        self.calm_since = self.now;
    }

    // ---- death

    /// The agent is to die.
    pub fn doom(&mut self, when: When, death: Death) {
        let (at, moment) = match when {
            When::Operation(count) => (self.disk.operations() + count, self.now),
            When::Before(count) | When::After(count) => (self.asked + count, self.now),
            When::Seconds(seconds) => (0, after(self.now, seconds)),
        };
        if let When::Operation(_) = when {
            self.arm(at);
        }
        self.doom = Some(Doom { when, death, at, moment });
    }

    /// Whether the machine may lose power once more: one that does so for longer than a kubelet may take to be healthy is
    /// itself a reason to leave a configuration that is on trial.
    pub fn may_lose_power(&mut self) -> bool {
        let (now, limit) = (self.now, settings().health_timeout.as_secs_f64() + 5.0);
        self.blackouts.retain(|moment| since(*moment, now) < limit);
        self.blackouts.len() < 2
    }

    /// Whether it has ever lost power.
    pub fn lost_power(&self) -> bool {
        self.lost_power
    }

    /// No more deaths.
    pub fn spare(&mut self) {
        self.doom = None;
        self.disk.heal();
        self.fail_again();
    }

    /// A kill goes before other faults.
    fn arm(&mut self, at: u64) {
        self.disk.heal();
        self.disk.kill_at(at);
        self.fail_again();
    }

    fn fail_again(&mut self) {
        for (fault, from) in &self.faults {
            self.disk.inject(*fault, *from..u64::MAX);
        }
    }

    pub fn is_doomed(&self) -> bool {
        self.doom.is_some()
    }

    /// Whether the disk has killed the process.
    fn struck(&self) -> bool {
        matches!(&self.doom, Some(Doom { when: When::Operation(_), at, .. }) if self.disk.operations() > *at)
    }

    fn die(&mut self) {
        let Some(doom) = self.doom.take() else { return };
        self.kills += 1;
        self.note(&format!("killed: {:?} at {:?}", doom.death, doom.when));
        self.runtime = None;
        self.wake = None;
        self.queue.clear();
        self.disk.heal();
        let downtime = match doom.death {
            Death::Process => *self.random.choice([0.0, 0.1, 1.0, 3.0].iter()).unwrap(),
            Death::Power => {
                self.disk.crash(self.random.u64(..));
                1.0 + self.random.f64() * 2.0
            }
        };
        self.fail_again();
        self.check_config("after a death");
        self.check_saved();
        if doom.death == Death::Power {
            self.blackouts.push(self.now);
            self.lost_power = true;
            // The machine starts its kubelet, agent or no agent.
            if self.answers() {
                self.alive = self.now;
            }
            self.now = after(self.now, downtime);
            self.start_kubelet();
            self.born = Some(after(self.now, self.random.f64()));
        } else {
            self.born = Some(after(self.now, downtime));
        }
    }

    fn be_born(&mut self) {
        self.born = None;
        let seed = self.random.u64(..);
        let runtime = match AgentRuntime::open(&paths(), settings(), self.disk.clone(), seed) {
            Ok(runtime) => runtime,
            Err(_) if self.struck() => return self.die(),
            Err(error) => panic!("the agent does not start any more: {error}\n{}", self.history),
        };
        self.runtime = Some(runtime);
        self.give(|runtime, now| runtime.start(kubelet(), now));
        self.see();
    }

    // ---- the agent

    fn send(&mut self, seconds: f64, message: Message) {
        self.sequence += 1;
        self.queue.insert((after(self.now, seconds), self.sequence), message);
    }

    /// Has the runtime do something, and does what it asks for.
    fn give(&mut self, act: impl FnOnce(&mut AgentRuntime<MemoryDisk>, Timestamp) -> Step) {
        let Some(mut runtime) = self.runtime.take() else { return };
        let step = act(&mut runtime, self.now);
        let ledger = runtime.ledger().clone();
        self.runtime = Some(runtime);
        self.check_config("after a step");
        if self.struck() {
            return self.die();
        }
        self.check_ledger(&ledger);
        self.wake = step.wake;
        for effect in step.effects {
            let number = self.asked;
            self.asked += 1;
            let strikes = |doom: &Option<Doom>, after: bool| {
                doom.as_ref().is_some_and(|doom| match doom.when {
                    When::Before(_) => !after && doom.at <= number,
                    When::After(_) => after && doom.at <= number,
                    _ => false,
                })
            };
            if strikes(&self.doom, false) {
                return self.die();
            }
            self.carry_out(effect, &ledger);
            if strikes(&self.doom, true) {
                return self.die();
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.give(|runtime, now| runtime.take(*event, now)),
            Message::Fetched(result, node) => self.give(|runtime, now| runtime.fetched(*result, node, kubelet(), now)),
        }
    }

    fn carry_out(&mut self, effect: Effect, ledger: &Ledger) {
        match effect {
            Effect::Fetch(source) => {
                let node = (!self.api_away).then(|| self.node());
                let answer = self.fetch(&source);
                self.send(0.05, Message::Fetched(Box::new(answer), node));
            }
            Effect::Activate { .. } => self.restart(ledger),
            Effect::Probe { node } => {
                let healthz = self.runtime.as_mut().expect("an agent").healthz();
                assert_eq!((healthz.address.as_str(), healthz.port), ("127.0.0.1", 10248));
                let node = (node && !self.api_away).then(|| self.node());
                let kubelet = if self.answers() { Ok(()) } else { Err("connection refused".to_owned()) };
                self.send(0.01, Message::Event(Box::new(Event::Probed(Health { kubelet, node }))));
            }
            Effect::Report(status) => {
                let answer = match &mut self.config {
                    Some(config) if !self.api_away => {
                        config.status = *status;
                        Ok(())
                    }
                    _ => Err("connection refused".to_owned()),
                };
                let told = answer.is_ok();
                self.send(0.02, Message::Event(Box::new(Event::Reported(answer))));
                if told {
                    self.see();
                }
            }
            Effect::Announce(announcement) => {
                let text = format!("{}: {}", announcement.reason, announcement.message);
                self.note(&text);
            }
        }
    }

    fn fetch(&self, asked: &ConfigMapSource) -> Result<Download, FetchError> {
        if self.api_away {
            return Err(FetchError::Unreachable("connection refused".to_owned()));
        }
        let Some(map) = self.maps.get(&asked.name) else {
            return Err(FetchError::Missing(format!("there is no ConfigMap {}/{}", asked.namespace, asked.name)));
        };
        let found = ConfigMapSource {
            uid: Some(map.uid.clone()),
            resource_version: Some(map.version.clone()),
            ..asked.clone()
        };
        Ok(Download {
            source: ConfigSource { config_map: Some(found) },
            payload: map.payload.clone(),
            immutable: map.immutable,
            content_hash: None,
            pool: Some("pool".to_owned()),
        })
    }

    // ---- the kubelet

    fn restart(&mut self, ledger: &Ledger) {
        if self.answers() {
            self.alive = self.now;
        }
        self.start_kubelet();
        let text = String::from_utf8_lossy(&self.runs).into_owned();
        self.note(&format!("the kubelet is restarted on {:?}", contents::name(&text)));
        // It is not enough that it is left in the end: the agent itself must not put it there.
        if let Some(failed) = self.failed.clone() {
            assert_ne!(
                Some(text.as_str()),
                self.text_of(&failed).as_deref(),
                "the kubelet was restarted on {failed}, which had failed\n{}",
                self.history
            );
        }
        if ledger.beyond.failure.is_some() && ledger.assigned != ledger.last_known_good {
            let assigned = ledger.assigned.as_ref().and_then(|assigned| self.text_of(assigned));
            let good = ledger.last_known_good.as_ref().and_then(|good| self.text_of(good));
            let same = assigned.is_some() && assigned == good;
            assert!(
                same || Some(text.as_str()) != assigned.as_deref(),
                "the kubelet was restarted on what the ledger says has failed\n{}",
                self.history
            );
        }
        let answer = match contents::behaviour(&text) {
            Behaviour::NoRestart => Err(ActivationError::NotRestarted("exit status 1".to_owned())),
            _ => Ok(()),
        };
        let takes = 0.2 + self.random.f64();
        self.send(takes, Message::Event(Box::new(Event::Activated(answer))));
    }

    /// The kubelet process starts on what its file holds.
    fn start_kubelet(&mut self) {
        self.check_config("when the kubelet starts");
        let Some(content) = self.disk.content(Path::new(CONFIG)) else { return };
        self.runs = content;
        self.tried.entry(self.runs.to_vec()).or_insert(self.now);
        self.started = self.now;
    }

    fn behaviour(&self) -> Behaviour {
        contents::behaviour(&String::from_utf8_lossy(&self.runs))
    }

    fn answers(&self) -> bool {
        let age = since(self.started, self.now);
        match self.behaviour() {
            _ if age < START => false,
            Behaviour::Good | Behaviour::Unready => true,
            Behaviour::Silent | Behaviour::NoRestart | Behaviour::Refused => false,
            Behaviour::Dies => since(self.tried.get(&*self.runs).copied().unwrap_or(self.now), self.now) < 20.0,
            Behaviour::Loops => age % 10.0 < 5.0,
        }
    }

    fn node(&self) -> NodeHealth {
        let up = after(self.started, START);
        let (ready, renewed) = if self.answers() {
            let tens = (since(up, self.now) / 10.0).floor() * 10.0;
            (self.behaviour() != Behaviour::Unready, after(up, tens))
        } else {
            (since(self.alive, self.now) < GRACE, self.alive)
        };
        NodeHealth { ready, lease_renewed: Some(renewed) }
    }

    /// The text of a source, if it is what the API server has now.
    fn text_of(&self, source: &ConfigSource) -> Option<String> {
        let named = source.config_map.as_ref()?;
        let map = self.maps.get(&named.name)?;
        let same = Some(&map.uid) == named.uid.as_ref() && Some(&map.version) == named.resource_version.as_ref();
        same.then(|| map.payload.get(&named.kubelet_config_key).cloned()).flatten()
    }

    // ---- what must always be so

    /// The kubelet's file is whole, and something that a kubelet accepts: it may be restarted by anybody at any moment.
    fn check_config(&self, when: &str) {
        let found = self.disk.content(Path::new(CONFIG));
        let found = found.unwrap_or_else(|| panic!("{when}, the kubelet's configuration is gone\n{}", self.history));
        assert!(
            self.known.contains(&*found),
            "{when}, the kubelet's file holds what was never accepted, or a part: {:?}\n{}",
            String::from_utf8_lossy(&found),
            self.history
        );
    }

    /// What is in place is something that the ledger on disk names: it was saved before anything was placed.
    fn check_saved(&self) {
        if !self.faults.is_empty() {
            return;
        }
        let store = Store::new(Path::new(FOLDER));
        let ledger = store.load(&self.disk).unwrap_or_else(|error| panic!("{error}\n{}", self.history));
        let named = [&ledger.assigned, &ledger.last_known_good, &ledger.beyond.active];
        let payloads = named.into_iter().flatten().filter_map(|source| store.checkpoint(&self.disk, source).ok());
        let mut texts = payloads.flat_map(BTreeMap::into_values);
        let found = self.disk.content(Path::new(CONFIG)).unwrap_or_default();
        assert!(
            *found == *contents::LOCAL.as_bytes() || texts.any(|text| text.as_bytes() == &*found),
            "in place is what the ledger on disk does not name: {:?}\n{ledger:?}\n{}",
            String::from_utf8_lossy(&found),
            self.history
        );
    }

    fn check_ledger(&mut self, ledger: &Ledger) {
        let failure = ledger.beyond.failure.as_ref();
        let tried = failure.is_some_and(|failure| matches!(failure.kind, FailureKind::Trial | FailureKind::Restart));
        // Remembered only when it could be saved. What is assigned may be older than spec.
        if tried && self.faults.is_empty() && self.is_current(ledger.assigned.as_ref()) {
            self.failed.clone_from(&ledger.assigned);
        }
        if ledger.last_known_good.is_some() {
            let good = ledger.last_known_good.as_ref();
            if let Some(text) = good.and_then(|good| self.text_of(good)) {
                assert_eq!(
                    contents::behaviour(&text),
                    Behaviour::Good,
                    "{:?} became the last known good\n{}",
                    contents::name(&text),
                    self.history
                );
            }
        }
        let changed = self.last.as_ref().is_none_or(|last| {
            let plain = |ledger: &Ledger| (ledger.assigned.clone(), ledger.last_known_good.clone());
            plain(last) != plain(ledger)
                || last.beyond.failure != ledger.beyond.failure
                || std::mem::discriminant(&last.beyond.phase) != std::mem::discriminant(&ledger.beyond.phase)
        });
        if changed {
            self.calm_since = self.now;
            self.last = Some(ledger.clone());
        }
    }

    fn is_current(&self, assigned: Option<&ConfigSource>) -> bool {
        let wanted = self.config.as_ref().and_then(|config| config.spec.config_source.as_ref());
        match (assigned, wanted) {
            (Some(assigned), Some(wanted)) => assigned.names_same(wanted) && self.text_of(assigned).is_some(),
            _ => false,
        }
    }

    /// The kubelet is where it can stay: on something good.
    pub fn is_well(&self) -> bool {
        self.behaviour() == Behaviour::Good
    }

    // ---- time

    fn next_moment(&self) -> Option<Timestamp> {
        let queued = self.queue.first_key_value().map(|((moment, _), _)| *moment);
        let doom = match &self.doom {
            Some(Doom { when: When::Seconds(_), moment, .. }) => Some(*moment),
            _ => None,
        };
        [queued, self.wake, self.born, doom].into_iter().flatten().min().map(|moment| moment.max(self.now))
    }

    fn live_once(&mut self, moment: Timestamp) {
        self.now = moment;
        if matches!(&self.doom, Some(Doom { when: When::Seconds(_), moment: due, .. }) if *due <= moment) {
            self.die();
        } else if self.born.is_some_and(|born| born <= moment) {
            self.be_born();
        } else if self.queue.first_key_value().is_some_and(|((due, _), _)| *due <= moment) {
            if let Some((_, message)) = self.queue.pop_first() {
                self.take(message);
            }
        } else {
            self.wake = None;
            self.take(Message::Event(Box::new(Event::Tick)));
        }
    }

    /// Lives on for so long, or until a death.
    pub fn run_for(&mut self, seconds: f64) -> bool {
        let end = after(self.now, seconds);
        let kills = self.kills;
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= end) {
            self.live_once(moment);
            if self.kills > kills {
                return true;
            }
        }
        self.now = self.now.max(end);
        false
    }

    /// Lives on until nothing happens any more, or until a death. Waits are at most a minute, so more than that is quiet.
    pub fn settle(&mut self) -> bool {
        self.calm_since = self.now;
        let limit = after(self.now, 3_000.0);
        let kills = self.kills;
        loop {
            let busy = self.last.as_ref().is_none_or(|last| last.beyond.phase != Phase::Settled);
            let enough = if busy { 400.0 } else { 75.0 };
            let end = after(self.calm_since, enough);
            match self.next_moment().filter(|moment| *moment <= end) {
                Some(moment) => self.live_once(moment),
                None => {
                    self.now = self.now.max(end);
                    return false;
                }
            }
            if self.kills > kills {
                return true;
            }
            assert!(self.now < limit, "never quiet\n{}", self.history);
        }
    }

    /// How things are.
    pub fn snapshot(&self) -> Snapshot {
        let ledger = self.runtime.as_ref().map(|runtime| runtime.ledger().clone()).unwrap_or_default();
        Snapshot::of(&self.disk.files(), &self.runs).with_ledger(&ledger).with_status(&self.status())
    }

    /// What the API server has been told.
    pub fn status(&self) -> NodeConfigStatus {
        self.config.as_ref().map(|config| config.status.clone()).unwrap_or_default()
    }
}
