//! Test harness of `AgentRuntime` in virtual time: a disk with injected faults, a simulated kubelet, and an API
//! server with ConfigMaps. Checks invariants after every step and before every start of the kubelet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::disk::EntryKind;
use crate::disk::memory::MemoryDisk;
use crate::events::Health;
use crate::host::problem::{CommandError, HealthzError, RestartProblem};
use crate::host::process::KubeletProcess;
use crate::host::{RestartError, ServiceReport};
use crate::ledger::FailureKind;
use kubelet_config::document::Document;
use nodecfg_contract::error_text::TRIAL_PREFIX;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};

pub(super) const FOLDER: &str = "/var/lib/nodecfg";
pub(super) const CONFIG: &str = "/var/lib/kubelet/config.yaml";
pub(super) const CONFIG_DIR: &str = "/etc/kubelet.d";
const KUBELET: Option<KubeletVersion> = Some(KubeletVersion { major: 1, minor: 36, patch: 2 });
pub(super) const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// What the agent does with configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Replaces the kubelet's file.
    Replace,
    /// Writes the kubelet's file, merged over the node's own.
    Overlay,
    /// Adds a drop-in.
    DropIn,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Replace, Self::Overlay, Self::DropIn];

    pub(super) fn placement(self) -> Placement {
        if self == Self::Replace { Placement::Replace } else { Placement::Overlay }
    }
}

/// Behaviour of the simulated kubelet, named in the field clusterDomain of its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Good,
    /// `/healthz` never answers.
    Silent,
    /// `/healthz` answers for less than 4 seconds after the start.
    Dies,
    /// The restart command fails.
    NoRestart,
    /// The agent's config check refuses the configuration.
    Refuses,
}

/// Name of the only mutable ConfigMap.
pub(super) const MUTABLE: &str = "m";

/// Name of the only ConfigMap under which the kubelet writes state of its CPU manager.
pub(super) const STATIC: &str = "static";

/// Text of a configuration with this name and version for a kubelet of this behaviour.
pub(super) fn text(name: &str, version: u64, behaviour: Behaviour) -> String {
    let pods = match behaviour {
        Behaviour::Refuses => -1,
        // Content that the agent must refuse, because spec has the hash of the first one.
        Behaviour::Dies if name == MUTABLE => 110,
        _ => 100,
    };
    let version = if name == MUTABLE { 1 } else { version };
    let policy = if name == STATIC { "cpuManagerPolicy: static\nkubeReserved: {cpu: '1'}\n" } else { "" };
    format!("{HEAD}{}maxPods: {pods}\n{policy}", domain(name, version, &format!("{behaviour:?}")))
}

/// Line that names a configuration.
fn domain(name: &str, version: u64, rest: &str) -> String {
    format!("clusterDomain: {name}.{version}.{rest}\n")
}

/// Own configuration of the node in this version. An overlay keeps its last field.
pub(super) fn own(version: u64) -> String {
    format!("{}podPidsLimit: {}\n", text("local", version, Behaviour::Good), 1000 + version)
}

pub(super) fn provisioned() -> String {
    own(1)
}

/// Hash of a configuration's canonical form, without its comments.
pub(super) fn content_hash(text: &str) -> String {
    let document = Document::parse("kubelet", text).document.expect("a configuration");
    ContentHash::of(document.canonical().as_bytes()).to_string()
}

/// An overlay merged over an own configuration.
pub(super) fn over(own: &str, overlay: &str) -> String {
    content::merged_text(&content::Underneath::file(own.to_owned()), Some(overlay), None).expect("two configurations")
}

pub(super) fn settings() -> Settings {
    Settings {
        health_timeout: Duration::from_secs(5),
        trial_period: Duration::from_secs(20),
        follow_interval: Duration::from_secs(30),
        ..Settings::default()
    }
}

/// Action of a user or another program.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// Sets spec.configSource to this ConfigMap.
    Assign(&'static str),
    /// Removes spec.configSource.
    Reset,
    /// Writes the content of a ConfigMap.
    Write(&'static str, Behaviour),
    /// Writes this version of the node's own configuration and restarts the kubelet, as `kubeadm upgrade` does.
    Rewrite(u64),
    /// Makes the command of the next restarts, this number of them, impossible to start.
    CannotRestart(u32),
}

/// State at the end of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FinalState {
    assigned: Option<ConfigSource>,
    last_known_good: Option<ConfigSource>,
    active: Option<ConfigSource>,
    failure: Option<FailureKind>,
    settled: bool,
    placed: Option<String>,
    running: String,
    status: Option<nodecfg_contract::ConfigStatus>,
}

enum Pending {
    Event(Box<Event>),
    Restarted(Result<(), RestartError>),
    Fetched(Result<Download, FetchError>),
    Action(Action),
}

pub(super) struct RuntimeHarness {
    pub(super) disk: MemoryDisk,
    /// Flags of the running kubelet, beside its paths.
    pub(super) flags: Vec<String>,
    paths: Paths,
    runtime: Option<AgentRuntime<MemoryDisk>>,
    /// Disk operation at which to kill the agent, and the seed of a power failure at that time, if any.
    kill: Option<(u64, Option<u64>)>,
    now: Timestamp,
    wake: Option<Timestamp>,
    queue: BTreeMap<(Timestamp, u64), Pending>,
    sequence: u64,
    config_maps: BTreeMap<&'static str, (u64, Behaviour)>,
    node_config: NodeConfig,
    /// Configuration of the kubelet process and the time of its start.
    running: String,
    started: Timestamp,
    /// Contents that may be in the kubelet's file, for an overlay merged over an own configuration.
    accepted: BTreeSet<String>,
    /// Own configurations that the node has had.
    owns: Vec<String>,
    pub(super) way: Way,
    /// What each activation does to the kubelet's state files, in order.
    pub(super) state_files: Vec<String>,
    /// Number of restarts, from now on, whose command cannot be started.
    unreachable_restarts: u32,
}

impl RuntimeHarness {
    /// Node with its local configuration.
    pub(super) fn new(way: Way, actions: &[(u64, Action)]) -> Self {
        let disk = MemoryDisk::new();
        disk.put(Path::new(CONFIG), provisioned().as_bytes(), 0o644);
        disk.put(&Path::new(CONFIG_DIR).join("10-image.conf"), HEAD.as_bytes(), 0o644);
        let config = PathBuf::from(CONFIG);
        let activation = if way == Way::DropIn {
            Activation::DropIn { config_dir: PathBuf::from(CONFIG_DIR), config: Some(config) }
        } else {
            Activation::File { config }
        };
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut sim = Self {
            disk,
            flags: Vec::new(),
            paths: Paths { folder: PathBuf::from(FOLDER), activation },
            runtime: None,
            kill: None,
            now,
            wake: None,
            queue: BTreeMap::new(),
            sequence: 0,
            config_maps: BTreeMap::new(),
            node_config: NodeConfig::default(),
            running: provisioned(),
            started: now,
            accepted: BTreeSet::new(),
            owns: vec![provisioned()],
            way,
            state_files: Vec::new(),
            unreachable_restarts: 0,
        };
        for (seconds, action) in actions {
            sim.schedule(*seconds, Pending::Action(action.clone()));
        }
        sim
    }

    /// Kills the agent at this disk operation, once. With a seed, power fails at the same time.
    pub(super) fn kill_at(&mut self, operation: u64, power: Option<u64>) {
        self.disk.kill_at(operation);
        self.kill = Some((operation, power));
    }

    /// Ends the agent, clears all disk faults and starts another agent. With a seed, power fails in between: content
    /// that is not durable may be lost, and the kubelet starts again.
    pub(super) fn restart_agent(&mut self, power: Option<u64>) {
        self.kill = None;
        self.runtime = None;
        self.wake = None;
        self.queue.retain(|_, answer| matches!(answer, Pending::Action(_)));
        match power {
            None => self.disk.clear_faults(),
            Some(seed) => {
                self.disk.crash(seed);
                // The kubelet starts before the agent.
                self.start_kubelet();
            }
        }
        self.start_agent();
    }

    /// Opens another agent on the same disk without starting it.
    pub(super) fn open_agent(&self) -> AgentRuntime<MemoryDisk> {
        AgentRuntime::open(&self.paths, settings(), self.disk.clone(), 1).expect("the store can be read")
    }

    fn start_agent(&mut self) {
        let opened = AgentRuntime::open(&self.paths, settings(), self.disk.clone(), 7);
        if self.is_killed() {
            let power = self.kill.and_then(|(_, power)| power);
            return self.restart_agent(power);
        }
        self.runtime = Some(opened.expect("the store can be read"));
        self.wake = None;
        let now = self.now;
        self.step(|runtime| runtime.start(KUBELET, now));
        let wanted = self.node_config.clone();
        self.schedule(0, Pending::Event(Box::new(Event::NodeConfigRead(Some(Box::new(wanted))))));
    }

    fn is_killed(&self) -> bool {
        self.kill.is_some_and(|(operation, _)| self.disk.operations() > operation)
    }

    fn schedule(&mut self, seconds: u64, answer: Pending) {
        let at = self.now + SignedDuration::from_secs(i64::try_from(seconds).unwrap());
        self.sequence += 1;
        self.queue.insert((at, self.sequence), answer);
    }

    /// Runs for this number of seconds.
    pub(super) fn run(&mut self, seconds: u64) {
        if self.runtime.is_none() {
            self.start_agent();
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
                self.step(|runtime| runtime.handle(Event::Tick, now));
                continue;
            }
            match self.queue.pop_first() {
                Some((_, Pending::Event(event))) => self.step(|runtime| runtime.handle(*event, now)),
                Some((_, Pending::Restarted(result))) => {
                    self.step(|runtime| runtime.handle_restart(result, None, now));
                }
                Some((_, Pending::Fetched(result))) => {
                    self.step(|runtime| runtime.handle_fetch(result, None, KUBELET, &[], now))
                }
                Some((_, Pending::Action(action))) => self.perform(action),
                None => {}
            }
        }
        self.now = end;
    }

    fn perform(&mut self, action: Action) {
        let source = match action {
            Action::Write(name, behaviour) => {
                let version = self.config_maps.get(name).map_or(1, |(version, _)| version + 1);
                self.config_maps.insert(name, (version, behaviour));
                if behaviour != Behaviour::Refuses {
                    self.accepted.insert(text(name, version, behaviour));
                }
                return;
            }
            Action::Assign(name) => Some(ConfigSource::config_map("kube-system", name, "kubelet")),
            Action::Reset => None,
            Action::Rewrite(version) => {
                self.owns.push(own(version));
                self.disk.put(Path::new(CONFIG), own(version).as_bytes(), 0o644);
                return self.start_kubelet();
            }
            Action::CannotRestart(times) => {
                self.unreachable_restarts = times;
                return;
            }
        };
        self.node_config.spec.placement = Some(self.way.placement());
        self.node_config.metadata.generation += 1;
        self.node_config.spec.config_source = source;
        self.node_config.spec.max_disruption = Some(Class::Drain);
        let reviewed = self.node_config.spec.config_source.as_ref().map(|source| {
            let name = source.config_map.as_ref().map_or("", |map| map.name.as_str());
            let (version, behaviour) = self.config_maps.get(name).copied().unwrap_or((1, Behaviour::Good));
            content_hash(&text(name, version, behaviour))
        });
        self.node_config.spec.content_hash = reviewed;
        let wanted = self.node_config.clone();
        self.schedule(0, Pending::Event(Box::new(Event::NodeConfigRead(Some(Box::new(wanted))))));
    }

    /// Steps the agent and carries out the effects. If the agent was killed during the step, restarts it instead.
    fn step(&mut self, event: impl FnOnce(&mut AgentRuntime<MemoryDisk>) -> Step) {
        let Some(runtime) = &mut self.runtime else { return };
        let step = event(runtime);
        self.check_invariants();
        if self.is_killed() {
            let power = self.kill.and_then(|(_, power)| power);
            return self.restart_agent(power);
        }
        self.wake = step.wake;
        for effect in step.effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Fetch(map) => {
                let found = self.config_maps.get_key_value(map.name.as_str()).map(|(name, (version, behaviour))| {
                    let mut source = ConfigSource::config_map(&map.namespace, name, &map.kubelet_config_key);
                    if let Some(map) = source.config_map_mut() {
                        map.uid = Some(format!("uid-of-{name}"));
                        map.resource_version = Some(version.to_string());
                    }
                    let payload = BTreeMap::from([("kubelet".to_owned(), text(name, *version, *behaviour))]);
                    Download { source, payload, immutable: *name != MUTABLE, ..Download::default() }
                });
                self.schedule(
                    0,
                    Pending::Fetched(found.ok_or_else(|| FetchError::Missing("no such ConfigMap".to_owned()))),
                );
            }
            Effect::Activate { state, .. } => {
                self.state_files.push(state.to_string());
                if let Some(rest) = self.unreachable_restarts.checked_sub(1) {
                    self.unreachable_restarts = rest;
                    let error = RestartError::NotRequested(RestartProblem::MaybeStopped.into());
                    return self.schedule(0, Pending::Restarted(Err(error)));
                }
                self.start_kubelet();
                let result = match self.behaviour() {
                    Behaviour::NoRestart => {
                        Err(RestartError::Failed(RestartProblem::Restart(CommandError::exited(1)).into()))
                    }
                    _ => Ok(()),
                };
                self.schedule(1, Pending::Restarted(result));
            }
            Effect::Probe { node, .. } => {
                let up = self.now.duration_since(self.started).as_secs();
                let healthy = match self.behaviour() {
                    Behaviour::Good => true,
                    Behaviour::Dies => up < 4,
                    _ => false,
                };
                let kubelet = if healthy { Ok(()) } else { Err(HealthzError::refused()) };
                let node = node.then_some(NodeHealth { ready: healthy, lease_renewed: Some(self.now) });
                self.schedule(
                    0,
                    Pending::Event(Box::new(Event::Probed(Health {
                        kubelet,
                        node,
                        service: ServiceReport::default(),
                    }))),
                );
            }
            Effect::Report(status) => {
                let (process, now) = (Ok(self.process()), self.now);
                if let Some(runtime) = &mut self.runtime {
                    self.node_config.status = runtime.complete(*status, process, now);
                }
                self.schedule(0, Pending::Event(Box::new(Event::Reported(Ok(())))));
            }
            Effect::Prove => {
                let (process, now) = (Ok(self.process()), self.now);
                if let Some(step) = self.runtime.as_mut().and_then(|runtime| runtime.compare_again(process, now)) {
                    self.step(|_| step);
                }
            }
            Effect::CompareLocal | Effect::CheckDisk => panic!("the runtime answers it"),
            Effect::Announce(_) | Effect::DiscardStateFiles | Effect::Join(_) => {}
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// The running kubelet.
    pub(super) fn process(&self) -> KubeletProcess {
        let folder = match &self.paths.activation {
            Activation::File { .. } => None,
            Activation::DropIn { config_dir, .. } => Some(format!("--config-dir={}", config_dir.display())),
        };
        let paths = std::iter::once(format!("--config={CONFIG}")).chain(folder);
        let arguments = paths.chain(self.flags.iter().cloned()).collect();
        KubeletProcess { arguments, started: self.started.as_second(), pid: 7 }
    }

    /// Content of the file that the agent writes. In drop-in mode, `None` is the local configuration.
    fn placed(&self) -> Option<String> {
        let path = match &self.paths.activation {
            Activation::File { config } => config.clone(),
            Activation::DropIn { config_dir, .. } => config_dir.join(crate::placement::DROP_IN_NAME),
        };
        self.disk.content(&path).map(|content| String::from_utf8(content.to_vec()).expect("never partial"))
    }

    /// Starts the kubelet on what the disk has, as a reboot does before the agent starts.
    pub(super) fn start_kubelet(&mut self) {
        self.check_invariants();
        self.running = self.placed().or(self.owns.last().cloned()).expect("an own configuration");
        self.started = self.now;
    }

    fn behaviour(&self) -> Behaviour {
        let behaviours =
            [Behaviour::Good, Behaviour::Silent, Behaviour::Dies, Behaviour::NoRestart, Behaviour::Refuses];
        let named = self.running.lines().find_map(|line| line.strip_prefix("clusterDomain: ")).expect("a name");
        let ends = |behaviour: &Behaviour| named.ends_with(&format!(".{behaviour:?}"));
        behaviours.into_iter().find(ends).expect("the configuration is complete")
    }

    /// Asserts that the kubelet's file holds an accepted content and that no failed assignment stays in place.
    fn check_invariants(&self) {
        let placed = self.placed();
        let stat = self.disk.stat(Path::new(CONFIG));
        let is_link = stat.is_ok_and(|found| found.is_some_and(|entry| entry.kind == EntryKind::Other));
        let known = match &placed {
            None => self.way == Way::DropIn || is_link,
            Some(placed) => {
                (self.way != Way::DropIn && self.owns.contains(placed))
                    || self.accepted.iter().any(|text| self.texts(text).contains(placed))
            }
        };
        assert!(known, "the placed content was never accepted: {placed:?}");
        assert!(is_link || self.disk.content(Path::new(CONFIG)).is_some(), "the kubelet has no configuration");
        if let Some(runtime) = &self.runtime
            && !self.is_killed()
        {
            let ledger = runtime.ledger();
            let settled = !matches!(ledger.agent_state.phase, Phase::Activating { .. });
            if let (Some(_), Some(assigned), true) = (&ledger.agent_state.failure, &ledger.assigned, settled) {
                let failed = self.texts(&self.text_of(assigned));
                let is_failed = placed.as_ref().is_some_and(|placed| failed.contains(placed));
                assert!(!is_failed, "the placed content has failed: {ledger:?}");
            }
        }
    }

    /// Texts that the agent may write for a reviewed one.
    fn texts(&self, text: &str) -> Vec<String> {
        match self.way {
            Way::Overlay => {
                let owns = self.owns.iter().map(|own| content::Underneath::file(own.clone()));
                owns.filter_map(|own| content::merged_text(&own, Some(text), None)).collect()
            }
            Way::Replace | Way::DropIn => vec![text.to_owned()],
        }
    }

    fn text_of(&self, source: &ConfigSource) -> String {
        let map = source.config_map.as_ref().expect("a ConfigMap");
        let version = map.resource_version.as_ref().expect("a version");
        let begin = domain(&map.name, version.parse().expect("a number"), "");
        let begin = begin.trim_end();
        self.accepted.iter().find(|text| text.contains(begin)).cloned().unwrap_or_default()
    }

    /// Counts a content that the test itself writes to the kubelet's file as the node's own.
    pub(super) fn accept(&mut self, text: &str) {
        self.owns.push(text.to_owned());
    }

    pub(super) fn runtime(&self) -> &AgentRuntime<MemoryDisk> {
        self.runtime.as_ref().expect("an agent")
    }

    pub(super) fn status(&self) -> &NodeConfigStatus {
        &self.node_config.status
    }

    pub(super) fn running(&self) -> &str {
        &self.running
    }

    pub(super) fn final_state(&self) -> FinalState {
        let ledger = self.runtime().ledger();
        let failure = ledger.agent_state.failure.as_ref().map(|failure| failure.kind);
        let mut status = self.node_config.status.config.clone();
        if let (Some(FailureKind::Trial), Some(error)) = (failure, status.as_mut().and_then(|it| it.error.as_mut())) {
            // The rest describes the probes, which depend on the restart times of agent and kubelet.
            assert!(error.starts_with(TRIAL_PREFIX), "{error}");
            error.truncate(TRIAL_PREFIX.len());
        }
        FinalState {
            assigned: ledger.assigned.clone(),
            last_known_good: ledger.last_known_good.clone(),
            active: ledger.agent_state.active.clone(),
            failure,
            settled: ledger.agent_state.phase == Phase::Settled,
            placed: self.placed(),
            running: self.running.clone(),
            status,
        }
    }
}
