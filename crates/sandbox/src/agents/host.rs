//! A simulated host with its disk, service manager and kubelet, as its agent finds them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::cached_verdicts::CachedVerdicts;
use super::process::{KubeletWrite, Process, Text};
use crate::api::ProxyResult;
use crate::configz;
use crate::kubelets::Fault;
use crate::nodes::{BootedConfig, HostSpec};
use kubelet_config::Minor;
use kubelet_config::minor::{NEWEST, OLDEST};
use kubelet_config::risk::StateFile;
use kubelet_config::startup_error::LastError;
use nodecfg_agent::boot::Boot;
use nodecfg_agent::boot::offer::Offer;
use nodecfg_agent::content::merged_text;
use nodecfg_agent::disk::memory::{self, MemoryDisk};
use nodecfg_agent::events::{ServiceReport, StateFiles, StateHandling};
use nodecfg_agent::host::problem::{CommandError, HealthzError, RestartProblem};
use nodecfg_agent::host::{Healthz, Host, RestartError};
use nodecfg_agent::placement::{DROP_IN_NAME, Placement};
use nodecfg_agent::runtime::Paths;
use nodecfg_clock::ScaledClock;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::observed::KubeletVersion;
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY};

/// Configuration file of the kubelet (kubeadm).
pub(super) const CONFIG_FILE: &str = "/var/lib/kubelet/config.yaml";
/// Root directory of the kubelet.
const ROOT: &str = "/var/lib/kubelet";
/// Folder of the agent's state.
const FOLDER: &str = "/var/lib/nodecfg";
/// Folder of the kubelet's drop-ins (`--config-dir`).
pub(crate) const CONFIG_DIR: &str = "/etc/kubernetes/kubelet.conf.d";

/// Paths that the agent is started with.
fn paths(drop_in: bool) -> Paths {
    let config = CONFIG_FILE.into();
    let placement = match drop_in {
        true => Placement::DropIn { config_dir: CONFIG_DIR.into(), config: Some(config) },
        false => Placement::File { config },
    };
    Paths { folder: FOLDER.into(), placement }
}

/// Mutable state of a host.
#[derive(Debug)]
struct Inner {
    process: Process,
    /// Number of starts of the process after the first one.
    restarts: u64,
    fault: Option<Fault>,
    /// End of an API server outage.
    outage: Option<Timestamp>,
    /// Policies in the state files of the kubelet's managers, as of the last start with an accepted configuration.
    state_files: BTreeMap<StateFile, String>,
    /// State files that were set aside.
    set_aside: BTreeMap<StateFile, String>,
}

/// Parameters of a host.
#[derive(Debug)]
pub(super) struct HostOptions {
    pub(super) spec: HostSpec,
    pub(super) name: NodeName,
    pub(super) version: Option<KubeletVersion>,
    pub(super) fault: Option<Fault>,
    pub(super) heartbeat: Option<std::time::Duration>,
    pub(super) clock: ScaledClock,
    pub(super) rng: fastrand::Rng,
    pub(super) cached_verdicts: CachedVerdicts,
}

/// A simulated host, shared by its agent and its kubelet.
#[derive(Debug)]
pub(super) struct SimHost {
    pub(super) name: NodeName,
    /// Paths that the agent is started with.
    pub(super) paths: Paths,
    pub(super) disk: MemoryDisk,
    pub(super) clock: ScaledClock,
    version: Option<KubeletVersion>,
    cached_verdicts: CachedVerdicts,
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

/// Puts a configuration in place as `nodecfg-agent boot` does, if it can.
fn boot(disk: &MemoryDisk, paths: &Paths, booted: BootedConfig, version: Option<KubeletVersion>, now: Timestamp) {
    let mut source = ConfigSource::config_map(&booted.namespace, &booted.config_map, KUBELET_KEY);
    if let Some(map) = source.config_map_mut() {
        map.uid = Some("pointer".to_owned());
        map.resource_version = Some("1".to_owned());
    }
    let hash = ContentHash::of(booted.kubelet.as_bytes());
    let offer = Offer { source, hash, kubelet: booted.kubelet };
    let Ok(pool) = PoolName::new(booted.pool) else { return };
    let boot = Boot { paths: paths.clone(), root: ROOT.into() };
    if let Err(error) = boot.install(disk, &offer, &pool, version, now) {
        tracing::warn!("a simulated node did not boot with its configuration: {error}");
    }
}

/// Content that the kubelet loads: its configuration file, and the drop-in merged over it. Empty without a file.
fn loaded(disk: &MemoryDisk) -> Text {
    let config = disk.content(Path::new(CONFIG_FILE)).unwrap_or_else(|| Arc::from([]));
    let Some(drop_in) = disk.content(&Path::new(CONFIG_DIR).join(DROP_IN_NAME)) else { return config };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let own = text(&drop_in);
    merged_text(&[text(&config)], &own).unwrap_or(own).into_bytes().into()
}

impl SimHost {
    /// Creates a host that runs its own configuration, or the one that it has booted with.
    pub(super) fn new(options: HostOptions) -> Self {
        let disk = MemoryDisk::new();
        let spec = options.spec;
        disk.put(Path::new(CONFIG_FILE), spec.own_file().as_bytes(), 0o644);
        let paths = paths(spec.writes_drop_in);
        if spec.writes_drop_in {
            // A folder without the agent's file. The kubelet reads no hidden file.
            disk.put(&Path::new(CONFIG_DIR).join(".keep"), &[], 0o644);
        }
        let now = options.clock.now();
        if let Some(booted) = spec.booted {
            boot(&disk, &paths, booted, options.version, now);
        }
        let running = loaded(&disk);
        let process = Process::new(Arc::clone(&running), options.fault, options.heartbeat, options.rng, now);
        let inner = Inner {
            process,
            restarts: 0,
            fault: None,
            outage: None,
            state_files: BTreeMap::new(),
            set_aside: BTreeMap::new(),
        };
        let host = Self {
            name: options.name,
            paths,
            disk,
            clock: options.clock,
            version: options.version,
            cached_verdicts: options.cached_verdicts,
            inner: Mutex::new(inner),
            changed: watch::Sender::new(()),
        };
        let policies = host.cached_verdicts.of(&running, host.minor()).policies.clone();
        host.lock().state_files = policies;
        host.inject(options.fault);
        host
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn minor(&self) -> Minor {
        self.version.map_or(NEWEST, |version| Minor(version.minor)).clamp(OLDEST, NEWEST)
    }

    /// Returns a receiver that is notified of possible changes of the host.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Number of restarts of the kubelet.
    pub(super) fn kubelet_restarts(&self) -> u64 {
        self.lock().restarts
    }

    /// Sets or removes the fault. A host that the old fault kept down boots.
    pub(super) fn inject(&self, fault: Option<Fault>) {
        let now = self.clock.now();
        let mut inner = self.lock();
        if inner.fault == Some(Fault::DiskFull) {
            self.disk.clear_faults();
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
        inner.process.set_fault(fault, now);
        let comes_up = inner.process.may_power_on();
        drop(inner);
        if comes_up {
            self.start_kubelet();
        }
        self.changed.send_replace(());
    }

    /// Fault of the host.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.lock().fault
    }

    /// Reports whether the agent runs.
    pub(super) fn runs_agent(&self) -> bool {
        let inner = self.lock();
        inner.process.has_power() && inner.fault != Some(Fault::NeverAcknowledges)
    }

    /// Discards writes that were not durable if the host is down; `seed` selects them.
    pub(super) fn crash_disk_if_down(&self, seed: u64) {
        let inner = self.lock();
        if !inner.process.has_power() {
            self.disk.crash(seed);
        }
    }

    /// Reports whether the API server is reachable.
    pub(super) fn reaches_server(&self) -> bool {
        self.lock().outage.is_none_or(|until| until <= self.clock.now())
    }

    /// Time of the kubelet's last Lease renewal; `None` if the kubelet does not run.
    pub(super) fn renewed(&self) -> Option<Timestamp> {
        self.lock().process.renewed(self.clock.now())
    }

    /// Response of the kubelet to the API server.
    pub(super) fn get_from_kubelet(&self, path: &str) -> ProxyResult {
        let now = self.clock.now();
        let minor = self.minor();
        let mut inner = self.lock();
        match inner.process.check_healthz(now) {
            Ok(()) => {
                let running = inner.process.running();
                configz::respond(path, &String::from_utf8_lossy(&running), minor, inner.fault)
            }
            Err(_) => configz::unreachable(),
        }
    }

    /// Returns the kubelet's due writes and the time of the next call.
    pub(super) fn advance(&self) -> (Vec<KubeletWrite>, Option<Timestamp>) {
        let now = self.clock.now();
        let mut inner = self.lock();
        let writes = inner.process.advance(now);
        if inner.process.is_to_start(now) {
            drop(inner);
            self.start_kubelet();
            inner = self.lock();
        }
        (writes, inner.process.wake())
    }

    /// Content that the kubelet loads when it starts.
    fn config_text(&self) -> Text {
        loaded(&self.disk)
    }

    /// Starts the kubelet, as the service manager does.
    fn start_kubelet(&self) {
        let text = self.config_text();
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
        inner.process.start(text, verdict, self.clock.now());
        inner.restarts += 1;
        drop(inner);
        self.changed.send_replace(());
    }

    /// Begins a restart, and handles these state files unless the command fails. Returns the command's duration and
    /// whether it fails, or `None` if the host goes down.
    fn begin_restart(&self, state: &StateFiles) -> Option<(std::time::Duration, bool)> {
        let text = self.config_text();
        let mut inner = self.lock();
        if inner.process.takes_host_down(&text) {
            inner.process.power_off(self.clock.now());
            drop(inner);
            self.changed.send_replace(());
            return None;
        }
        let fails = inner.process.refuses_restart(&text);
        if !fails {
            inner.handle_state_files(state);
        }
        Some((inner.process.command_time(), fails))
    }
}

impl Inner {
    fn handle_state_files(&mut self, state: &StateFiles) {
        for file in &state.files {
            let present = self.state_files.remove(file);
            match state.handling {
                StateHandling::SetAside => {
                    if let Some(present) = present {
                        self.set_aside.entry(*file).or_insert(present);
                    }
                }
                StateHandling::PutBack => self.state_files.extend(self.set_aside.remove_entry(file)),
                StateHandling::Remove => drop(self.set_aside.remove(file)),
            }
        }
    }
}

/// The host as seen by its agent.
#[derive(Debug, Clone)]
pub(super) struct AgentHost(pub(super) Arc<SimHost>);

impl Host for AgentHost {
    async fn version(&self) -> Option<KubeletVersion> {
        self.0.version
    }

    async fn discard_state_files(&self) -> Result<(), RestartError> {
        self.0.lock().set_aside.clear();
        Ok(())
    }

    async fn restart(&self, state: &StateFiles) -> Result<(), RestartError> {
        let Some((takes, fails)) = self.0.begin_restart(state) else {
            // The agent ends with its host.
            return std::future::pending().await;
        };
        self.0.clock.sleep(takes).await;
        if fails {
            return Err(RestartError::Failed(RestartProblem::Restart(CommandError::exited(1)).into()));
        }
        self.0.start_kubelet();
        Ok(())
    }

    async fn healthz(&self, _at: &Healthz) -> Result<(), HealthzError> {
        // Apply due work first: the kubelet's own task may be late.
        self.0.lock().process.check_healthz(self.0.clock.now())
    }

    async fn service_report(&self, since: Timestamp) -> ServiceReport<LastError> {
        self.0.lock().process.service_report(since, self.0.clock.now())
    }
}
