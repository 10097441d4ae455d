//! Simulated node in virtual time: API server, kubelet, disk in memory, and the agent's real runtime. The agent can
//! crash at every disk operation, before and after every effect, and at any time.

mod crashes;
mod invariants;
mod join;
mod kubelet;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubelet_config::risk::Class;
use nodecfg_agent::disk::memory::{Fault, MemoryDisk};
use nodecfg_agent::events::{Download, Effect, Event, FetchError, Health, NodeHealth, Step};
use nodecfg_agent::host::ServiceReport;
use nodecfg_agent::host::problem::HealthzError;
use nodecfg_agent::ledger::{Ledger, Phase};
use nodecfg_agent::placement::Activation;
use nodecfg_agent::runtime::{AgentRuntime, Paths};
use nodecfg_agent::settings::Settings;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};
use nodecfg_contract::{ConfigMapSource, ConfigSource, ContentHash, KubeletVersion, Placement};

use crate::crash::contents;
use crate::crash::snapshot::Snapshot;
use crashes::PlannedCrash;
pub use crashes::{CrashKind, CrashPoint};
pub use join::JoinState;

/// The agent's folder.
pub const FOLDER: &str = "/var/lib/nodecfg";
/// The kubelet's configuration file.
pub const CONFIG: &str = "/var/lib/kubelet/config.yaml";
/// Namespace of all ConfigMaps.
pub const NAMESPACE: &str = "nodecfg-system";

/// Short times in realistic proportions.
pub fn settings() -> Settings {
    Settings {
        health_timeout: Duration::from_secs(20),
        trial_period: Duration::from_secs(40),
        probe_interval: Duration::from_secs(2),
        follow_interval: Duration::from_secs(20),
        resync_interval: Duration::from_secs(30),
        joins: true,
        ..Settings::default()
    }
}

/// ConfigMap of the simulated API server.
#[derive(Debug, Clone)]
pub struct StoredConfigMap {
    pub uid: String,
    pub version: String,
    pub immutable: bool,
    pub payload: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
enum Message {
    Event(Box<Event>),
    Fetched(Box<Result<Download, FetchError>>, Option<NodeHealth>),
}

pub struct SimulatedNode {
    pub now: Timestamp,
    pub disk: MemoryDisk,
    runtime: Option<AgentRuntime<MemoryDisk>>,
    wake: Option<Timestamp>,
    queue: BTreeMap<(Timestamp, u64), Message>,
    sequence: u64,
    random: fastrand::Rng,
    // The API server.
    pub config_maps: BTreeMap<String, StoredConfigMap>,
    pub config: Option<NodeConfig>,
    pub api_down: bool,
    last_version: u64,
    join: JoinState,
    // The kubelet.
    running: Arc<[u8]>,
    started: Timestamp,
    /// Time of the first start on each content.
    first_started: BTreeMap<Vec<u8>, Timestamp>,
    last_seen_alive: Timestamp,
    /// Contents that the kubelet may run: all accepted ones.
    allowed_contents: BTreeSet<Vec<u8>>,
    // Crashes and faults.
    planned_crash: Option<PlannedCrash>,
    /// Total number of effects.
    effects_started: u64,
    pub kills: u64,
    /// Times of recent power failures.
    power_losses: Vec<Timestamp>,
    lost_power: bool,
    agent_start: Option<Timestamp>,
    /// Disk faults, each with its first operation.
    faults: Vec<(Fault, u64)>,
    /// Source that failed its trial or restart, if recorded by the agent. Cleared when spec changes or a ConfigMap is
    /// written.
    failed_source: Option<ConfigSource>,
    pub log: String,
    /// Time of the last change of the ledger, or of the last action of the test.
    unchanged_since: Timestamp,
    last_ledger: Option<Ledger>,
}

fn after(moment: Timestamp, seconds: f64) -> Timestamp {
    moment + SignedDuration::from_secs_f64(seconds)
}

fn since(moment: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(moment).as_secs_f64()
}

fn paths() -> Paths {
    Paths { folder: PathBuf::from(FOLDER), activation: Activation::File { config: PathBuf::from(CONFIG) } }
}

/// Version of the kubelet.
fn kubelet_version() -> Option<KubeletVersion> {
    KubeletVersion::parse("v1.33.1")
}

impl SimulatedNode {
    /// Node that runs its local configuration, with a newly started agent.
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Some(NodeConfig::default()), JoinState::default())
    }

    fn with(seed: u64, config: Option<NodeConfig>, join: JoinState) -> Self {
        let mut sim = Self::without_agent(seed, config, join);
        sim.start_agent();
        sim
    }

    fn without_agent(seed: u64, config: Option<NodeConfig>, join: JoinState) -> Self {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let disk = MemoryDisk::new();
        disk.put(Path::new(CONFIG), contents::LOCAL.as_bytes(), 0o644);
        let local: Arc<[u8]> = contents::LOCAL.as_bytes().into();
        Self {
            now,
            disk,
            runtime: None,
            wake: None,
            queue: BTreeMap::new(),
            sequence: 0,
            random: fastrand::Rng::with_seed(seed),
            config_maps: BTreeMap::new(),
            config,
            api_down: false,
            last_version: 100,
            join,
            running: local,
            started: now - SignedDuration::from_secs(2_000),
            first_started: BTreeMap::new(),
            last_seen_alive: now,
            allowed_contents: BTreeSet::from([contents::LOCAL.as_bytes().to_vec()]),
            planned_crash: None,
            effects_started: 0,
            kills: 0,
            power_losses: Vec::new(),
            lost_power: false,
            agent_start: Some(now),
            faults: Vec::new(),
            failed_source: None,
            log: String::new(),
            unchanged_since: now,
            last_ledger: None,
        }
    }

    pub fn record(&mut self, text: &str) {
        writeln!(self.log, "{:>9.2} s  op {:>5}  {text}", self.seconds(), self.disk.operations()).unwrap();
    }

    fn seconds(&self) -> f64 {
        since("2026-01-01T00:00:00Z".parse().unwrap(), self.now)
    }

    /// Creates a ConfigMap, or changes one in place. The same calls produce the same uids and versions.
    pub fn put_config_map(&mut self, name: &str, payload: BTreeMap<String, String>, immutable: bool) {
        for text in payload.values() {
            self.allow(text);
        }
        self.store_config_map(name, payload, immutable);
        let before = self.config.clone();
        self.require_present_content();
        if self.config != before {
            self.config.iter_mut().for_each(|config| config.metadata.generation += 1);
            self.deliver_node_config();
        }
    }

    /// Changes the content of a ConfigMap without a review. No kubelet may ever get it.
    pub fn replace_content(&mut self, name: &str, payload: BTreeMap<String, String>) {
        let immutable = self.config_maps.get(name).is_some_and(|map| map.immutable);
        // As for an immutable ConfigMap that was deleted and created again.
        self.config_maps.remove(name);
        self.store_config_map(name, payload, immutable);
    }

    fn store_config_map(&mut self, name: &str, payload: BTreeMap<String, String>, immutable: bool) {
        self.last_version += 1;
        let version = self.last_version.to_string();
        let uid = self.config_maps.get(name).map_or_else(|| format!("uid-{name}-{version}"), |map| map.uid.clone());
        self.config_maps.insert(name.to_owned(), StoredConfigMap { uid, version, immutable, payload });
        self.failed_source = None;
        self.unchanged_since = self.now;
    }

    pub fn delete_config_map(&mut self, name: &str) {
        self.config_maps.remove(name);
        self.unchanged_since = self.now;
    }

    pub fn assign(&mut self, source: Option<ConfigSource>) {
        if let Some(config) = &mut self.config {
            config.metadata.generation += 1;
            config.spec.config_source = source;
            config.spec.max_disruption = Some(Class::Replace);
        }
        self.failed_source = None;
        self.unchanged_since = self.now;
        self.require_present_content();
        self.deliver_node_config();
    }

    /// Requires the content that the assigned ConfigMap has now, as a reconciler does after a review.
    fn require_present_content(&mut self) {
        let Some(config) = &mut self.config else { return };
        let wanted = config.spec.config_source.as_ref().and_then(|source| source.config_map.as_ref());
        let found = wanted.and_then(|map| self.config_maps.get(&map.name)?.payload.get(&map.kubelet_config_key));
        config.spec.content_hash = found.map(|text| ContentHash::of(text.as_bytes()).to_string());
        if let Some(text) = found.cloned() {
            self.allow(&text);
        }
    }

    /// Allows a text for the kubelet, alone and merged over the node's own configuration.
    pub(super) fn allow(&mut self, text: &str) {
        if contents::runs(text) {
            self.allowed_contents.insert(text.as_bytes().to_vec());
            self.allowed_contents.extend(contents::over_local(text).map(String::into_bytes));
        }
    }

    /// Sets the placement of the next assignment.
    pub fn set_placement(&mut self, placement: Placement) {
        if let Some(config) = &mut self.config {
            config.spec.placement = Some(placement);
        }
    }

    fn deliver_node_config(&mut self) {
        if self.runtime.is_some() && !self.api_down {
            let seen = self.config.clone();
            self.send(0.01, Message::Event(Box::new(Event::NodeConfigRead(seen.map(Box::new)))));
        }
    }

    /// Stops or restarts the API server.
    pub fn set_api_down(&mut self, down: bool) {
        self.api_down = down;
        self.unchanged_since = self.now;
        if !down {
            self.deliver_node_config();
        }
    }

    fn send(&mut self, seconds: f64, message: Message) {
        self.sequence += 1;
        self.queue.insert((after(self.now, seconds), self.sequence), message);
    }

    /// Steps the runtime and carries out its effects.
    fn run_step(&mut self, act: impl FnOnce(&mut AgentRuntime<MemoryDisk>, Timestamp) -> Step) {
        let Some(mut runtime) = self.runtime.take() else { return };
        let step = act(&mut runtime, self.now);
        let ledger = runtime.ledger().clone();
        self.runtime = Some(runtime);
        self.check_config("after a step");
        if self.crashed_on_disk() {
            return self.crash_agent();
        }
        self.check_ledger(&ledger);
        self.wake = step.wake;
        for effect in step.effects {
            let number = self.effects_started;
            self.effects_started += 1;
            let is_due = |crash: &Option<PlannedCrash>, after: bool| {
                crash.as_ref().is_some_and(|crash| match crash.point {
                    CrashPoint::Before(_) => !after && crash.at <= number,
                    CrashPoint::After(_) => after && crash.at <= number,
                    _ => false,
                })
            };
            if is_due(&self.planned_crash, false) {
                return self.crash_agent();
            }
            self.carry_out(effect, &ledger);
            if is_due(&self.planned_crash, true) {
                return self.crash_agent();
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.run_step(|runtime, now| runtime.handle(*event, now)),
            Message::Fetched(result, node) => {
                self.run_step(|runtime, now| runtime.handle_fetch(*result, node, kubelet_version(), &[], now))
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, ledger: &Ledger) {
        match effect {
            Effect::Fetch(source) => {
                let node = (!self.api_down).then(|| self.node());
                let answer = self.fetch(&source);
                self.send(0.05, Message::Fetched(Box::new(answer), node));
            }
            Effect::CompareLocal | Effect::CheckDisk => panic!("the runtime answers it"),
            Effect::DiscardStateFiles | Effect::Prove => {}
            Effect::Activate { .. } => self.restart(ledger),
            Effect::Probe { node, .. } => {
                let healthz = self.runtime.as_mut().expect("an agent").healthz();
                assert_eq!((healthz.address.as_str(), healthz.port), ("127.0.0.1", 10248));
                let node = (node && !self.api_down).then(|| self.node());
                let kubelet = if self.answers() { Ok(()) } else { Err(HealthzError::refused()) };
                self.send(
                    0.01,
                    Message::Event(Box::new(Event::Probed(Health {
                        kubelet,
                        node,
                        service: ServiceReport::default(),
                    }))),
                );
            }
            Effect::Report(status) => {
                let answer = match &mut self.config {
                    Some(config) if !self.api_down => {
                        config.status = *status;
                        Ok(())
                    }
                    _ => Err("connection refused".to_owned()),
                };
                let reported = answer.is_ok();
                self.send(0.02, Message::Event(Box::new(Event::Reported(answer))));
                if reported {
                    self.deliver_node_config();
                }
            }
            Effect::Join(request) => {
                let answer = self.answer_join(request);
                self.send(0.05, Message::Event(Box::new(Event::Joined(Box::new(answer)))));
            }
            Effect::Announce(announcement) => {
                let text = format!("{}: {}", announcement.reason, announcement.message);
                self.record(&text);
            }
        }
    }

    fn fetch(&self, asked: &ConfigMapSource) -> Result<Download, FetchError> {
        if self.api_down {
            return Err(FetchError::Unreachable("connection refused".to_owned()));
        }
        let Some(map) = self.config_maps.get(&asked.name) else {
            return Err(FetchError::Missing(format!("there is no ConfigMap {}/{}", asked.namespace, asked.name)));
        };
        let found = ConfigMapSource {
            uid: Some(map.uid.clone()),
            resource_version: Some(map.version.clone()),
            ..asked.clone()
        };
        Ok(Download {
            source: found.into(),
            payload: map.payload.clone(),
            immutable: map.immutable,
            content_hash: None,
            pool: Some("pool".to_owned()),
        })
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let queued = self.queue.first_key_value().map(|((moment, _), _)| *moment);
        let crash = match &self.planned_crash {
            Some(PlannedCrash { point: CrashPoint::Seconds(_), moment, .. }) => Some(*moment),
            _ => None,
        };
        [queued, self.wake, self.agent_start, crash].into_iter().flatten().min().map(|moment| moment.max(self.now))
    }

    fn run_next(&mut self, moment: Timestamp) {
        self.now = moment;
        if matches!(&self.planned_crash, Some(PlannedCrash { point: CrashPoint::Seconds(_), moment: due, .. }) if *due <= moment)
        {
            self.crash_agent();
        } else if self.agent_start.is_some_and(|agent_start| agent_start <= moment) {
            self.start_agent();
        } else if self.queue.first_key_value().is_some_and(|((due, _), _)| *due <= moment) {
            if let Some((_, message)) = self.queue.pop_first() {
                self.deliver(message);
            }
        } else {
            self.wake = None;
            self.deliver(Message::Event(Box::new(Event::Tick)));
        }
    }

    /// Runs for this number of seconds or until a crash. Returns whether a crash occurred.
    pub fn run_for(&mut self, seconds: f64) -> bool {
        let end = after(self.now, seconds);
        let kills = self.kills;
        while let Some(moment) = self.next_moment().filter(|moment| *moment <= end) {
            self.run_next(moment);
            if self.kills > kills {
                return true;
            }
        }
        self.now = self.now.max(end);
        false
    }

    /// Runs until nothing changes, or until a crash. Returns whether a crash occurred. A settled agent waits at most
    /// a minute between two attempts, so 75 s without change suffice; 400 s during a trial or an activation.
    pub fn settle(&mut self) -> bool {
        self.unchanged_since = self.now;
        let limit = after(self.now, 3_000.0);
        let kills = self.kills;
        loop {
            let busy = self.last_ledger.as_ref().is_none_or(|last| last.agent_state.phase != Phase::Settled);
            let enough = if busy { 400.0 } else { 75.0 };
            let end = after(self.unchanged_since, enough);
            match self.next_moment().filter(|moment| *moment <= end) {
                Some(moment) => self.run_next(moment),
                None => {
                    self.now = self.now.max(end);
                    return false;
                }
            }
            if self.kills > kills {
                return true;
            }
            assert!(self.now < limit, "does not settle\n{}", self.log);
        }
    }

    /// Snapshot of the node.
    pub fn snapshot(&self) -> Snapshot {
        let ledger = self.runtime.as_ref().map(|runtime| runtime.ledger().clone()).unwrap_or_default();
        Snapshot::of(&self.disk.files(), &self.running).with_ledger(&ledger).with_status(&self.status())
    }

    /// Status on the API server.
    pub fn status(&self) -> NodeConfigStatus {
        self.config.as_ref().map(|config| config.status.clone()).unwrap_or_default()
    }
}
