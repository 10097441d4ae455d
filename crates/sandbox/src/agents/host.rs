//! One simulated host: its disk, its service manager and its kubelet, as the agent of that host finds them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::cached_verdicts::CachedVerdicts;
use super::process::{Deed, Process, Text};
use crate::api::Proxied;
use crate::configz::{self, PROVISIONED};
use crate::kubelets::Fault;
use kubelet_config::Minor;
use kubelet_config::minor::{NEWEST, OLDEST};
use kubelet_config::risk::StateFile;
use nodecfg_agent::disk::memory::{self, MemoryDisk};
use nodecfg_agent::host::{Healthz, Host, RestartError};
use nodecfg_agent::placement::Placement;
use nodecfg_agent::runtime::Paths;
use nodecfg_clock::Pace;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::KubeletVersion;

/// Where the kubelet reads its configuration (kubeadm).
pub(super) const CONFIG_FILE: &str = "/var/lib/kubelet/config.yaml";
/// Where the agent keeps things.
const FOLDER: &str = "/var/lib/nodecfg";
/// The paths that the agent is started with.
pub(super) fn paths() -> Paths {
    Paths { folder: FOLDER.into(), placement: Placement::File { config: CONFIG_FILE.into() } }
}

/// What can change from one moment to the next.
#[derive(Debug)]
struct Inner {
    process: Process,
    fault: Option<Fault>,
    /// Until when the API server cannot be reached from here.
    outage: Option<Timestamp>,
    /// What the managers of the kubelet wrote when it started last.
    state_files: BTreeMap<StateFile, String>,
}

/// What a host is made of.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) name: NodeName,
    pub(super) version: Option<KubeletVersion>,
    pub(super) fault: Option<Fault>,
    pub(super) heartbeat: Option<std::time::Duration>,
    pub(super) pace: Pace,
    pub(super) rng: fastrand::Rng,
    pub(super) cached_verdicts: CachedVerdicts,
}

/// A simulated host. Its agent and its kubelet share it.
#[derive(Debug)]
pub(super) struct Simulated {
    pub(super) name: NodeName,
    pub(super) disk: MemoryDisk,
    pub(super) pace: Pace,
    version: Option<KubeletVersion>,
    cached_verdicts: CachedVerdicts,
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

impl Simulated {
    /// A host that has been running on what it was provisioned with.
    pub(super) fn new(making: Making) -> Self {
        let disk = MemoryDisk::new();
        disk.put(Path::new(CONFIG_FILE), PROVISIONED.as_bytes(), 0o644);
        let now = making.pace.now();
        let process = Process::new(PROVISIONED.as_bytes().into(), making.fault, making.heartbeat, making.rng, now);
        let inner = Inner { process, fault: None, outage: None, state_files: BTreeMap::new() };
        let host = Self {
            name: making.name,
            disk,
            pace: making.pace,
            version: making.version,
            cached_verdicts: making.cached_verdicts,
            inner: Mutex::new(inner),
            changed: watch::Sender::new(()),
        };
        let policies = host.cached_verdicts.of(PROVISIONED.as_bytes(), host.minor()).policies.clone();
        host.lock().state_files = policies;
        host.inject(making.fault);
        host
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn minor(&self) -> Minor {
        self.version.map_or(NEWEST, |version| Minor(version.minor)).clamp(OLDEST, NEWEST)
    }

    /// Tells when the host may have changed.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Begins to misbehave, or stops to.
    pub(super) fn inject(&self, fault: Option<Fault>) {
        let now = self.pace.now();
        let mut inner = self.lock();
        if inner.fault == Some(Fault::DiskFull) {
            self.disk.heal();
        }
        inner.fault = fault;
        inner.outage = None;
        match fault {
            Some(Fault::DiskFull) => self.disk.inject(memory::Fault::Full, self.disk.operations()..u64::MAX),
            Some(Fault::ApiOutage(seconds)) => {
                inner.outage = now.checked_add(jiff::SignedDuration::from_secs_f64(seconds)).ok();
            }
            _ => {}
        }
        inner.process.misbehave(fault, now);
        let comes_up = inner.process.may_power_on();
        drop(inner);
        if comes_up {
            self.start();
        }
        self.changed.send_replace(());
    }

    /// The fault of the host.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.lock().fault
    }

    /// Whether an agent runs on it.
    pub(super) fn runs_agent(&self) -> bool {
        let inner = self.lock();
        inner.process.has_power() && inner.fault != Some(Fault::NeverAcknowledges)
    }

    /// If the host went down: what was not durable on its disk is lost, or not.
    pub(super) fn lose_memory(&self, seed: u64) {
        let inner = self.lock();
        if !inner.process.has_power() {
            self.disk.crash(seed);
        }
    }

    /// Whether the API server can be reached from it.
    pub(super) fn reaches_server(&self) -> bool {
        self.lock().outage.is_none_or(|until| until <= self.pace.now())
    }

    /// When its kubelet last renewed its Lease; `None` while it does not run.
    pub(super) fn renewed(&self) -> Option<Timestamp> {
        self.lock().process.renewed(self.pace.now())
    }

    /// What its kubelet answers the API server.
    pub(super) fn proxied(&self, path: &str) -> Proxied {
        let now = self.pace.now();
        let minor = self.minor();
        let mut inner = self.lock();
        match inner.process.look(now) {
            Ok(()) => {
                let running = inner.process.running();
                configz::answer(path, &String::from_utf8_lossy(&running), minor, inner.fault)
            }
            Err(_) => configz::unreachable(),
        }
    }

    /// What the kubelet has to write now, and when to ask again.
    pub(super) fn advance(&self) -> (Vec<Deed>, Option<Timestamp>) {
        let now = self.pace.now();
        let mut inner = self.lock();
        let deeds = inner.process.advance(now);
        if inner.process.is_to_start(now) {
            drop(inner);
            self.start();
            inner = self.lock();
        }
        (deeds, inner.process.wake())
    }

    /// What the kubelet would read now. One that is not there is as good as empty.
    fn text(&self) -> Text {
        self.disk.content(Path::new(CONFIG_FILE)).unwrap_or_else(|| Arc::from([]))
    }

    /// The service manager starts the kubelet.
    fn start(&self) {
        let text = self.text();
        let cached = self.cached_verdicts.of(&text, self.minor());
        let mut inner = self.lock();
        let stale = inner
            .state_files
            .iter()
            .find(|(file, policy)| cached.policies.get(file).is_some_and(|wanted| wanted != *policy));
        let verdict = match (&cached.verdict, stale) {
            (Ok(()), Some((file, policy))) => Err(format!(
                "could not restore state from checkpoint: the configured policy differs from {policy:?} in {file}; drain this \
                 node and delete the file"
            )),
            (verdict, _) => verdict.clone(),
        };
        if verdict.is_ok() {
            inner.state_files.extend(cached.policies.iter().map(|(file, policy)| (*file, policy.clone())));
        }
        inner.process.start(text, verdict, self.pace.now());
        drop(inner);
        self.changed.send_replace(());
    }

    /// Begins a restart: how long the command takes and whether it fails. `None`: the host goes down with it.
    fn begin_restart(&self, remove: &[StateFile]) -> Option<(std::time::Duration, bool)> {
        let text = self.text();
        let mut inner = self.lock();
        if inner.process.takes_host_down(&text) {
            inner.process.power_off(self.pace.now());
            drop(inner);
            self.changed.send_replace(());
            return None;
        }
        let fails = inner.process.refuses_restart(&text);
        if !fails {
            inner.state_files.retain(|file, _| !remove.contains(file));
        }
        Some((inner.process.command_time(), fails))
    }
}

/// The host as its agent sees it.
#[derive(Debug, Clone)]
pub(super) struct AgentsHost(pub(super) Arc<Simulated>);

impl Host for AgentsHost {
    async fn version(&self) -> Option<KubeletVersion> {
        self.0.version
    }

    async fn restart(&self, remove: &[StateFile]) -> Result<(), RestartError> {
        let Some((takes, fails)) = self.0.begin_restart(remove) else {
            // The agent ends with its host.
            return std::future::pending().await;
        };
        tokio::time::sleep(self.0.pace.real_duration(takes)).await;
        if fails {
            let reason = "systemctl restart kubelet: exit status 1: Job for kubelet.service failed";
            return Err(RestartError::Failed(reason.to_owned()));
        }
        self.0.start();
        Ok(())
    }

    async fn healthz(&self, _at: &Healthz) -> Result<(), String> {
        // What is due by now counts, whether or not the kubelet's own task has come to it.
        self.0.lock().process.look(self.0.pace.now())
    }
}
