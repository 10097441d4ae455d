//! A simulated host with its disk, service manager and kubelet, as its agent finds them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::process::Process;
use crate::api::ProxyResult;
use crate::kubelets::report::KubeletWrite;
use crate::kubelets::{BootedConfig, Fault, HostSpec};
use crate::machines::{Machine, unreachable};
use crate::running::{CONFIG_DIR, CONFIG_FILE, Inputs, Running, RunningCache};
use kubelet_config::effective::is_read;
use kubelet_config::risk::StateFile;
use kubelet_config::startup_error::LastError;
use kubelet_config::{Minor, NEWEST, OLDEST};
use nodecfg_agent::boot::Boot;
use nodecfg_agent::boot::offer::Offer;
use nodecfg_agent::disk::memory::MemoryDisk;
use nodecfg_agent::disk::{Disk as _, memory};
use nodecfg_agent::host::problem::{CommandError, HealthzError, RestartProblem};
use nodecfg_agent::host::process::{KubeletProcess, ProcessProblem};
use nodecfg_agent::host::{Healthz, Host, RestartError, ServiceReport, StateFiles, StateHandling};
use nodecfg_agent::placement::Activation;
use nodecfg_agent::runtime::Paths;
use nodecfg_clock::ScaledClock;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY, KubeletVersion};

/// Root directory of the kubelet.
const ROOT: &str = "/var/lib/kubelet";
/// Folder of the agent's state.
const FOLDER: &str = "/var/lib/nodecfg";
/// Drop-in of another program, which kubelets merge over that of the agent.
const LATER_DROP_IN: &str = "95-other.conf";
/// What another program adds to the kubelet's own file when it writes that file again.
const REWRITTEN: &str = "\ncontainerLogMaxFiles: 4\n";

/// Paths that the agent is started with.
fn paths(drop_in: bool) -> Paths {
    let config = CONFIG_FILE.into();
    let activation = match drop_in {
        true => Activation::DropIn { config_dir: CONFIG_DIR.into(), config: Some(config) },
        false => Activation::File { config },
    };
    Paths { folder: FOLDER.into(), activation }
}

/// Mutable state of a host.
#[derive(Debug)]
struct Inner {
    process: Process,
    /// Number of starts of the process after the first one.
    restarts: u64,
    /// End of an API server outage.
    outage: Option<Timestamp>,
    /// Whether another program has written the kubelet's file again since the fault began.
    rewritten: bool,
    /// Policies in the state files of the kubelet's managers, as of the last start with an accepted configuration.
    state_files: BTreeMap<StateFile, String>,
    /// State files that were set aside.
    set_aside: BTreeMap<StateFile, String>,
}

/// A simulated host, shared by its agent and its kubelet.
#[derive(Debug)]
pub(crate) struct SimHost {
    pub(super) name: NodeName,
    /// Paths that the agent is started with.
    pub(super) paths: Paths,
    pub(super) disk: MemoryDisk,
    pub(super) clock: ScaledClock,
    version: Option<KubeletVersion>,
    /// What the kubelet is provisioned with.
    spec: HostSpec,
    cache: RunningCache,
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
    let offer = Offer { source, hash, kubelet: booted.kubelet, placement: None };
    let Ok(pool) = PoolName::new(booted.pool) else { return };
    let boot = Boot { paths: paths.clone(), root: ROOT.into() };
    if let Err(error) = boot.install(disk, &offer, &pool, version, now) {
        tracing::warn!("a simulated node did not boot with its configuration: {error}");
    }
}

/// Path below the folder of `--config-dir`.
fn below_config_dir(path: &str) -> PathBuf {
    Path::new(CONFIG_DIR).join(path)
}

fn minor(version: Option<KubeletVersion>) -> Minor {
    version.map_or(NEWEST, |version| Minor(version.minor)).clamp(OLDEST, NEWEST)
}

/// What the kubelet reads when it starts.
fn inputs(disk: &MemoryDisk, minor: Minor, flags: Vec<String>) -> Inputs {
    let file = disk.content(Path::new(CONFIG_FILE)).unwrap_or_else(|| Arc::from([]));
    let files = disk.files().into_iter().filter_map(|(path, content)| {
        let below = path.strip_prefix(CONFIG_DIR)?.strip_prefix('/')?.to_owned();
        Some((below, content))
    });
    let files: BTreeMap<String, Arc<[u8]>> = files.collect();
    let has_folder = !files.is_empty();
    let drop_ins = files.into_iter().filter(|(path, _)| is_read(path)).collect();
    Inputs { minor, file, drop_ins: has_folder.then_some(drop_ins), flags }
}

/// Creates the file of another program that the fault asks for.
fn put_later_drop_in(disk: &MemoryDisk, fault: Option<&Fault>) {
    if let Some(Fault::LaterDropIn(setting)) = fault {
        disk.put(&below_config_dir(LATER_DROP_IN), setting.drop_in().as_bytes(), 0o644);
    }
}

impl SimHost {
    /// Creates a host that runs its own configuration, or the one that it has booted with.
    pub(super) fn new(
        name: &NodeName,
        spec: HostSpec,
        version: Option<KubeletVersion>,
        fault: Option<Fault>,
        clock: &ScaledClock,
        cache: &RunningCache,
    ) -> Self {
        let disk = MemoryDisk::new();
        disk.put(Path::new(CONFIG_FILE), spec.own_file().as_bytes(), 0o644);
        for (path, text) in &spec.drop_ins {
            disk.put(&below_config_dir(path), text.as_bytes(), 0o644);
        }
        let paths = paths(spec.writes_drop_in);
        if spec.writes_drop_in {
            // A folder without the agent's file. The kubelet reads no hidden file.
            disk.put(&below_config_dir(".keep"), &[], 0o644);
        }
        let now = clock.now();
        if let Some(booted) = spec.booted.clone() {
            boot(&disk, &paths, booted, version, now);
        }
        put_later_drop_in(&disk, fault.as_ref());
        let running = cache.of(inputs(&disk, minor(version), spec.arguments(fault.as_ref())));
        let inner = Inner {
            process: Process::new(Arc::clone(&running), fault.clone(), now),
            restarts: 0,
            outage: None,
            rewritten: false,
            state_files: running.policies(),
            set_aside: BTreeMap::new(),
        };
        let host = Self {
            name: name.clone(),
            paths,
            disk,
            clock: clock.clone(),
            version,
            spec,
            cache: cache.clone(),
            inner: Mutex::new(inner),
            changed: watch::Sender::new(()),
        };
        host.inject(fault);
        if let Err(error) = running.configuration() {
            let verdict = Err(error.to_owned());
            host.lock().process.start(Arc::clone(&running), verdict, now);
        }
        host
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of restarts of the kubelet.
    pub(super) fn kubelet_restarts(&self) -> u64 {
        self.lock().restarts
    }

    /// Fault of the host.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.lock().process.fault().cloned()
    }

    /// Reports whether the agent runs.
    pub(super) fn runs_agent(&self) -> bool {
        let inner = self.lock();
        inner.process.has_power() && inner.process.fault() != Some(&Fault::NeverAcknowledges)
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

    /// What the kubelet would run if it started.
    fn next_running(&self) -> Arc<Running> {
        let flags = self.spec.arguments(self.fault().as_ref());
        self.cache.of(inputs(&self.disk, minor(self.version), flags))
    }

    /// Starts the kubelet, as the service manager does.
    fn start_kubelet(&self) {
        let running = self.next_running();
        let policies = running.policies();
        let mut inner = self.lock();
        let stale =
            inner.state_files.iter().find(|(file, policy)| policies.get(file).is_some_and(|wanted| wanted != *policy));
        let verdict = match (running.configuration(), stale) {
            (Ok(_), Some((file, policy))) => Err(format!(
                "could not restore state from checkpoint: the configured policy differs from {policy:?} in {file}; drain this \
                 node and delete the file"
            )),
            (Ok(_), None) => Ok(()),
            (Err(error), _) => Err(error.to_owned()),
        };
        if let Err(error) = &verdict {
            tracing::info!(node = %self.name, "the simulated kubelet exits: {error}");
        } else {
            inner.state_files.extend(policies);
        }
        inner.process.start(running, verdict, self.clock.now());
        inner.restarts += 1;
        drop(inner);
        self.changed.send_replace(());
    }

    /// Begins a restart, and handles these state files unless the command fails. Returns the command's duration and
    /// whether it fails, or `None` if the host goes down.
    fn begin_restart(&self, state: &StateFiles) -> Option<(std::time::Duration, bool)> {
        let running = self.next_running();
        let mut inner = self.lock();
        if inner.process.takes_host_down(&running) {
            inner.process.power_off(self.clock.now());
            drop(inner);
            self.changed.send_replace(());
            return None;
        }
        let fails = inner.process.refuses_restart(&running);
        if !fails {
            inner.handle_state_files(state);
        }
        Some((inner.process.command_time(), fails))
    }
}

impl Machine for SimHost {
    fn host(&self) -> Option<&SimHost> {
        Some(self)
    }

    /// A host that the old fault kept down boots.
    fn inject(&self, fault: Option<Fault>) {
        let now = self.clock.now();
        let mut inner = self.lock();
        match inner.process.fault() {
            Some(Fault::DiskFull) => self.disk.clear_faults(),
            Some(Fault::LaterDropIn(_)) => drop(self.disk.remove_file(&below_config_dir(LATER_DROP_IN))),
            _ => {}
        }
        put_later_drop_in(&self.disk, fault.as_ref());
        self.disk.touch(&below_config_dir(LATER_DROP_IN), now);
        (inner.outage, inner.rewritten) = (None, false);
        match &fault {
            Some(Fault::DiskFull) => self.disk.inject(memory::Fault::Full, self.disk.operations()..u64::MAX),
            Some(Fault::ApiOutage(seconds)) => {
                inner.outage = now.checked_add(jiff::SignedDuration::from_secs_f64(*seconds)).ok();
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

    fn answer(&self, path: &str) -> ProxyResult {
        let now = self.clock.now();
        let mut inner = self.lock();
        match inner.process.healthz(now) {
            Ok(()) => inner.process.running().answer(path, inner.process.fault()),
            Err(_) => unreachable(),
        }
    }

    fn clock(&self) -> &ScaledClock {
        &self.clock
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn advance(&self) -> (Vec<KubeletWrite>, Option<Timestamp>) {
        let now = self.clock.now();
        let mut inner = self.lock();
        let writes = inner.process.advance(now);
        let rewrites = inner.process.is_to_rewrite() && !std::mem::replace(&mut inner.rewritten, true);
        if rewrites {
            let text = format!("{}{REWRITTEN}", self.spec.own_file());
            self.disk.put(Path::new(CONFIG_FILE), text.as_bytes(), 0o644);
        }
        if rewrites || inner.process.is_to_start(now) {
            drop(inner);
            self.start_kubelet();
            inner = self.lock();
        }
        (writes, inner.process.wake(now))
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

    async fn healthz(&self, at: &Healthz) -> Result<(), HealthzError> {
        // Apply due work first: the kubelet's own task may be late.
        let mut inner = self.0.lock();
        inner.process.healthz(self.0.clock.now())?;
        let port = inner.process.running().value("healthzPort");
        if port.is_none_or(|port| *port == at.port) { Ok(()) } else { Err(HealthzError::refused()) }
    }

    async fn process(&self) -> Result<KubeletProcess, ProcessProblem> {
        let inner = self.0.lock();
        let inputs = &inner.process.running().inputs;
        let paths = [
            Some(format!("--config={CONFIG_FILE}")),
            inputs.drop_ins.as_ref().map(|_| format!("--config-dir={CONFIG_DIR}")),
        ];
        let arguments = paths.into_iter().flatten().chain(inputs.flags.iter().cloned()).collect();
        let started = inner.process.started();
        // Each start has another id.
        let pid = u32::try_from(started.as_millisecond() & i64::from(u32::MAX)).unwrap_or_default();
        Ok(KubeletProcess { arguments, started: started.as_second(), pid })
    }

    async fn service_report(&self, since: Timestamp) -> ServiceReport<LastError> {
        self.0.lock().process.service_report(since, self.0.clock.now())
    }
}
