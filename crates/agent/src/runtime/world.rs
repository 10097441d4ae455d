//! A world for the runtime: a disk that fails as it is told to, a kubelet that reads what is on it, an API server that has
//! ConfigMaps. In virtual time; what must always be so is held after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::disk::memory::MemoryDisk;
use crate::events::Health;
use crate::state::FailureKind;
use nodecfg_contract::error_text::TRIAL_PREFIX;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};

pub(super) const FOLDER: &str = "/var/lib/nodecfg";
const CONFIG: &str = "/var/lib/kubelet/config.yaml";
const CONFIG_DIR: &str = "/etc/kubelet.d";
const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A kubelet does what the end of its configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Good,
    /// Never answers.
    Silent,
    /// Answers for 4 seconds.
    Dies,
    /// Cannot be restarted.
    NoRestart,
    /// Refuses its configuration.
    Refuses,
}

/// The one ConfigMap that is not immutable.
pub(super) const MUTABLE: &str = "m";

/// A ConfigMap of this name and version whose kubelet behaves so.
pub(super) fn text(name: &str, version: u64, manner: Manner) -> String {
    let pods = if manner == Manner::Refuses { -1 } else { 100 };
    format!("{HEAD}maxPods: {pods}\n# {name} {version} {manner:?}.\n")
}

pub(super) fn provisioned() -> String {
    text("local", 1, Manner::Good)
}

pub(super) fn settings() -> Settings {
    Settings {
        health_timeout: Duration::from_secs(5),
        trial_period: Duration::from_secs(20),
        follow_interval: Duration::from_secs(30),
        ..Settings::default()
    }
}

/// What happens to a node from outside.
#[derive(Debug, Clone)]
pub(super) enum Deed {
    /// spec.configSource names this ConfigMap.
    Assign(&'static str),
    /// spec.configSource is removed.
    Reset,
    /// A ConfigMap gets this content.
    Write(&'static str, Manner),
}

/// How the story ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    assigned: Option<ConfigSource>,
    last_known_good: Option<ConfigSource>,
    active: Option<ConfigSource>,
    failure: Option<FailureKind>,
    settled: bool,
    placed: Option<String>,
    running: String,
    status: Option<nodecfg_contract::ConfigStatus>,
}

enum Answer {
    Event(Box<Event>),
    Fetched(Result<Download, FetchError>),
    Deed(Deed),
}

pub(super) struct World {
    pub(super) disk: MemoryDisk,
    paths: Paths,
    runtime: Option<AgentRuntime<MemoryDisk>>,
    /// The operation that the agent is killed at, and what is lost then.
    kill: Option<(u64, Option<u64>)>,
    now: Timestamp,
    wake: Option<Timestamp>,
    queue: BTreeMap<(Timestamp, u64), Answer>,
    sequence: u64,
    maps: BTreeMap<&'static str, (u64, Manner)>,
    wanted: NodeConfig,
    /// What the kubelet process runs, and since when.
    running: String,
    started: Timestamp,
    /// Every content that may be in place at all.
    accepted: BTreeSet<String>,
}

impl World {
    pub(super) fn new(drop_in: bool, deeds: &[(u64, Deed)]) -> Self {
        let disk = MemoryDisk::new();
        disk.put(Path::new(CONFIG), provisioned().as_bytes(), 0o644);
        disk.put(&Path::new(CONFIG_DIR).join("10-image.conf"), HEAD.as_bytes(), 0o644);
        let config = PathBuf::from(CONFIG);
        let placement = if drop_in {
            Placement::DropIn { config_dir: PathBuf::from(CONFIG_DIR), config: Some(config) }
        } else {
            Placement::File { config }
        };
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut world = Self {
            disk,
            paths: Paths { folder: PathBuf::from(FOLDER), placement },
            runtime: None,
            kill: None,
            now,
            wake: None,
            queue: BTreeMap::new(),
            sequence: 0,
            maps: BTreeMap::new(),
            wanted: NodeConfig::default(),
            running: provisioned(),
            started: now,
            accepted: BTreeSet::new(),
        };
        for (seconds, deed) in deeds {
            world.later(*seconds, Answer::Deed(deed.clone()));
        }
        world
    }

    /// Kills the agent at this operation, once; with a seed, power fails too.
    pub(super) fn kill_at(&mut self, operation: u64, power: Option<u64>) {
        self.disk.kill_at(operation);
        self.kill = Some((operation, power));
    }

    /// Ends the agent as it is and starts another; all is well from now on.
    pub(super) fn reopen(&mut self, power: Option<u64>) {
        self.kill = None;
        self.runtime = None;
        self.wake = None;
        self.queue.retain(|_, answer| matches!(answer, Answer::Deed(_)));
        match power {
            None => self.disk.heal(),
            Some(seed) => {
                self.disk.crash(seed);
                // The kubelet starts before the agent does.
                self.start_kubelet();
            }
        }
        self.boot();
    }

    /// An agent on the same disk, which has not started.
    pub(super) fn another(&self) -> AgentRuntime<MemoryDisk> {
        AgentRuntime::open(&self.paths, settings(), self.disk.clone(), 1).expect("the store can be read")
    }

    fn boot(&mut self) {
        let opened = AgentRuntime::open(&self.paths, settings(), self.disk.clone(), 7);
        if self.is_killed() {
            let power = self.kill.and_then(|(_, power)| power);
            return self.reopen(power);
        }
        self.runtime = Some(opened.expect("the store can be read"));
        self.wake = None;
        let now = self.now;
        self.act(|runtime| runtime.start(None, now));
        let wanted = self.wanted.clone();
        self.later(0, Answer::Event(Box::new(Event::Seen(Some(Box::new(wanted))))));
    }

    fn is_killed(&self) -> bool {
        self.kill.is_some_and(|(operation, _)| self.disk.operations() > operation)
    }

    fn later(&mut self, seconds: u64, answer: Answer) {
        let at = self.now + SignedDuration::from_secs(i64::try_from(seconds).unwrap());
        self.sequence += 1;
        self.queue.insert((at, self.sequence), answer);
    }

    /// Lets so much time pass.
    pub(super) fn run(&mut self, seconds: u64) {
        if self.runtime.is_none() {
            self.boot();
        }
        let end = self.now + SignedDuration::from_secs(i64::try_from(seconds).unwrap());
        for _ in 0..200_000 {
            let next = self.queue.first_key_value().map(|((at, _), _)| *at);
            let wake = self.wake.filter(|wake| next.is_none_or(|next| *wake < next));
            let Some(at) = wake.or(next).filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            let now = self.now;
            if wake.is_some() {
                self.wake = None;
                self.act(|runtime| runtime.take(Event::Tick, now));
                continue;
            }
            match self.queue.pop_first() {
                Some((_, Answer::Event(event))) => self.act(|runtime| runtime.take(*event, now)),
                Some((_, Answer::Fetched(result))) => self.act(|runtime| runtime.fetched(result, None, None, now)),
                Some((_, Answer::Deed(deed))) => self.outside(deed),
                None => {}
            }
        }
        self.now = end;
    }

    fn outside(&mut self, deed: Deed) {
        let source = match deed {
            Deed::Write(name, manner) => {
                let version = self.maps.get(name).map_or(1, |(version, _)| version + 1);
                self.maps.insert(name, (version, manner));
                if manner != Manner::Refuses {
                    self.accepted.insert(text(name, version, manner));
                }
                return;
            }
            Deed::Assign(name) => Some(ConfigSource::config_map("kube-system", name, "kubelet")),
            Deed::Reset => None,
        };
        self.wanted.metadata.generation += 1;
        self.wanted.spec.config_source = source;
        let wanted = self.wanted.clone();
        self.later(0, Answer::Event(Box::new(Event::Seen(Some(Box::new(wanted))))));
    }

    /// Hands something to the agent and does what comes out of it, unless it died over it.
    fn act(&mut self, event: impl FnOnce(&mut AgentRuntime<MemoryDisk>) -> Step) {
        let Some(runtime) = &mut self.runtime else { return };
        let step = event(runtime);
        self.hold();
        if self.is_killed() {
            let power = self.kill.and_then(|(_, power)| power);
            return self.reopen(power);
        }
        self.wake = step.wake;
        for effect in step.effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Fetch(map) => {
                let found = self.maps.get_key_value(map.name.as_str()).map(|(name, (version, manner))| {
                    let mut source = ConfigSource::config_map(&map.namespace, name, &map.kubelet_config_key);
                    if let Some(map) = &mut source.config_map {
                        map.uid = Some(format!("uid-of-{name}"));
                        map.resource_version = Some(version.to_string());
                    }
                    let payload = BTreeMap::from([("kubelet".to_owned(), text(name, *version, *manner))]);
                    Download { source, payload, immutable: *name != MUTABLE, ..Download::default() }
                });
                self.later(
                    0,
                    Answer::Fetched(found.ok_or_else(|| FetchError::Missing("no such ConfigMap".to_owned()))),
                );
            }
            Effect::Activate { .. } => {
                self.start_kubelet();
                let result = match self.manner() {
                    Manner::NoRestart => Err(ActivationError::NotRestarted("exit status 1".to_owned())),
                    _ => Ok(()),
                };
                self.later(1, Answer::Event(Box::new(Event::Activated(result))));
            }
            Effect::Probe { node } => {
                let up = self.now.duration_since(self.started).as_secs();
                let healthy = match self.manner() {
                    Manner::Good => true,
                    Manner::Dies => up < 4,
                    _ => false,
                };
                let kubelet = if healthy { Ok(()) } else { Err("connection refused".to_owned()) };
                let node = node.then_some(NodeHealth { ready: healthy, lease_renewed: Some(self.now) });
                self.later(0, Answer::Event(Box::new(Event::Probed(Health { kubelet, node }))));
            }
            Effect::Report(status) => {
                self.wanted.status = *status;
                self.later(0, Answer::Event(Box::new(Event::Reported(Ok(())))));
            }
            Effect::Announce(_) => {}
        }
    }

    /// What is in place of ours; in drop-in mode `None` is the local configuration.
    fn placed(&self) -> Option<String> {
        let path = match &self.paths.placement {
            Placement::File { config } => config.clone(),
            Placement::DropIn { config_dir, .. } => config_dir.join(crate::placement::DROP_IN_NAME),
        };
        self.disk.content(&path).map(|content| String::from_utf8(content.to_vec()).expect("never torn"))
    }

    fn start_kubelet(&mut self) {
        self.hold();
        self.running = self.placed().unwrap_or_else(provisioned);
        self.started = self.now;
    }

    fn manner(&self) -> Manner {
        let manners = [Manner::Good, Manner::Silent, Manner::Dies, Manner::NoRestart, Manner::Refuses];
        let ends = |manner: &Manner| self.running.ends_with(&format!(" {manner:?}.\n"));
        manners.into_iter().find(ends).expect("the configuration is whole")
    }

    /// What must be so at every moment.
    fn hold(&self) {
        let placed = self.placed();
        let local = match self.paths.placement {
            Placement::File { .. } => Some(provisioned()),
            Placement::DropIn { .. } => None,
        };
        let known = placed == local || placed.as_ref().is_some_and(|text| self.accepted.contains(text));
        assert!(known, "in place is what nobody accepted: {placed:?}");
        assert!(self.disk.content(Path::new(CONFIG)).is_some(), "the kubelet has no configuration");
        if let Some(runtime) = &self.runtime
            && !self.is_killed()
        {
            let ledger = runtime.ledger();
            let settled = !matches!(ledger.beyond.phase, Phase::Activating { .. });
            if let (Some(_), Some(assigned), true) = (&ledger.beyond.failure, &ledger.assigned, settled) {
                assert_ne!(placed, Some(self.text_of(assigned)), "in place is what failed: {ledger:?}");
            }
        }
    }

    fn text_of(&self, source: &ConfigSource) -> String {
        let map = source.config_map.as_ref().expect("a ConfigMap");
        let version = map.resource_version.as_ref().expect("a version");
        let begin = format!("# {} {version} ", map.name);
        self.accepted.iter().find(|text| text.contains(&begin)).cloned().unwrap_or_default()
    }

    /// Somebody else's content that may be in place.
    pub(super) fn accept(&mut self, text: &str) {
        self.accepted.insert(text.to_owned());
    }

    pub(super) fn runtime(&self) -> &AgentRuntime<MemoryDisk> {
        self.runtime.as_ref().expect("an agent")
    }

    pub(super) fn status(&self) -> &NodeConfigStatus {
        &self.wanted.status
    }

    pub(super) fn running(&self) -> &str {
        &self.running
    }

    pub(super) fn end(&self) -> End {
        let ledger = self.runtime().ledger();
        let failure = ledger.beyond.failure.as_ref().map(|failure| failure.kind);
        let mut status = self.wanted.status.config.clone();
        if let (Some(FailureKind::Trial), Some(error)) = (failure, status.as_mut().and_then(|it| it.error.as_mut())) {
            // The rest says what the agent saw, which depends on when it and the kubelet were started again.
            assert!(error.starts_with(TRIAL_PREFIX), "{error}");
            error.truncate(TRIAL_PREFIX.len());
        }
        End {
            assigned: ledger.assigned.clone(),
            last_known_good: ledger.last_known_good.clone(),
            active: ledger.beyond.active.clone(),
            failure,
            settled: ledger.beyond.phase == Phase::Settled,
            placed: self.placed(),
            running: self.running.clone(),
            status,
        }
    }
}
