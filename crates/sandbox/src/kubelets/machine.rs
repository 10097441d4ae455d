//! State machine of one kubelet 1.11 to 1.23 with Dynamic Kubelet Configuration, without IO.
//!
//! Its structure follows the kubelet (`pkg/kubelet/kubeletconfig`, KEP-281). A sync loop and a status loop run every
//! 11 s and act only when work is pending. The sync loop downloads the source in spec, records it as assigned and exits
//! the process. The status loop writes `status.config`. A new process loads the assigned configuration, or else the last
//! known good one. The recorded behaviour follows from these two loops.
//!
//! Time is an input and simulated.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::aftermath::GoneDevices;
use super::fault::Fault;
use super::report::{KubeletWrite, NODE_GRACE, Ready, flapping};
use nodecfg_contract::{ConfigMapSource, ConfigSource, KubeletVersion, error_text};

/// Period of both loops.
const LOOP_PERIOD: Duration = Duration::from_secs(11);
/// Time between the exit of a process and the first status of the next one.
const RESTART: Duration = Duration::from_millis(5_580);
/// Time that an assignment must run before it becomes the last known good.
const TRIAL: Duration = Duration::from_secs(10 * 60);

/// State of the kubelet process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    Running,
    /// Exited; the next process starts at this time.
    Restarting(Timestamp),
    /// Dead since this time, until the fault is removed.
    Dead(Timestamp),
}

/// A loop that acts only when work is pending.
#[derive(Debug, Clone, Copy)]
struct Loop {
    pending: bool,
    next: Timestamp,
}

impl Loop {
    fn due(&self, now: Timestamp) -> bool {
        self.pending && self.next <= now
    }

    fn schedule(&mut self, period: Duration, now: Timestamp) {
        if !self.pending {
            self.pending = true;
            // Whole periods, however long nothing was pending.
            if let Ok(late) = u128::try_from(now.duration_since(self.next).as_nanos()) {
                let periods = late / period.as_nanos().max(1) + 1;
                self.next += period.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX));
            }
        }
    }
}

/// A downloaded configuration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Loaded {
    /// Its source, with the uid and resourceVersion of the ConfigMap.
    pub(super) source: Arc<ConfigMapSource>,
    pub(super) text: Arc<[u8]>,
    /// Error of the kubelets that load it.
    pub(super) problem: Option<&'static str>,
}

/// Content of `status.config`.
#[derive(Debug, Default)]
struct Status {
    assigned: Option<Arc<Loaded>>,
    active: Option<Arc<Loaded>>,
    last_known_good: Option<Arc<Loaded>>,
    /// Problem that a new process found in `assigned`.
    problem: Option<&'static str>,
    /// Set while the sync loop cannot download. Its error replaces `problem`.
    sync_failed: bool,
}

impl Status {
    /// Merge patch of the whole status; null removes a field.
    fn patch(&self) -> Map<String, Value> {
        let source = |loaded: &Option<Arc<Loaded>>| {
            let source = loaded.as_ref().map(|loaded| ConfigSource { config_map: Some(Arc::clone(&loaded.source)) });
            source.and_then(|source| serde_json::to_value(source).ok()).unwrap_or_default()
        };
        let error = if self.sync_failed {
            format!("{}{}", error_text::SYNC_PREFIX, error_text::DOWNLOAD).into()
        } else {
            self.problem.map_or(Value::Null, Value::from)
        };
        let fields = [
            ("active", source(&self.active)),
            ("assigned", source(&self.assigned)),
            ("error", error),
            ("lastKnownGood", source(&self.last_known_good)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// One simulated kubelet.
#[derive(Debug)]
pub(super) struct SimKubelet {
    /// The kubelet's version has Dynamic Kubelet Configuration.
    dynamic: bool,
    fault: Option<Fault>,
    wanted: Option<Arc<ConfigMapSource>>,
    process: Process,
    status: Status,
    assigned_at: Timestamp,
    sync: Loop,
    report: Loop,
    /// Source of the running download.
    download: Option<Arc<ConfigMapSource>>,
    ready: Ready,
    /// Start of the flaps by the fault.
    flaps_since: Timestamp,
    /// Set if the process is not Ready because of the fault with which it started.
    starts_unready: bool,
    devices: GoneDevices,
    /// Writes to carry out.
    writes: Vec<KubeletWrite>,
}

impl SimKubelet {
    /// Creates a running kubelet. `reports`: its Node has a `status.config`. `seed` sets the phase of the loops.
    pub(super) fn new(dynamic: bool, reports: bool, fault: Option<Fault>, seed: u64, now: Timestamp) -> Self {
        let phase = LOOP_PERIOD.mul_f64(fastrand::Rng::with_seed(seed).f64());
        Self {
            dynamic,
            fault,
            wanted: None,
            process: Process::Running,
            status: Status::default(),
            assigned_at: now,
            sync: Loop { pending: false, next: now + phase },
            report: Loop { pending: !reports, next: now },
            download: None,
            ready: Ready::Yes,
            flaps_since: now,
            starts_unready: false,
            devices: GoneDevices::default(),
            writes: Vec::new(),
        }
    }

    /// Takes over the source in spec.
    pub(super) fn assign(&mut self, wanted: Option<Arc<ConfigMapSource>>, now: Timestamp) {
        self.catch_up(now);
        if self.wanted != wanted {
            self.wanted = wanted;
            self.schedule_sync(now);
        }
    }

    /// Reports whether the source in spec is a key of this ConfigMap.
    pub(super) fn follows(&self, namespace: &str, name: &str) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.namespace == namespace && wanted.name == name)
    }

    /// Handles a change of the ConfigMap in spec.
    pub(super) fn config_map_changed(&mut self, now: Timestamp) {
        self.catch_up(now);
        self.schedule_sync(now);
    }

    /// Source to download. The result follows from [`downloaded`](Self::downloaded).
    pub(super) fn download(&self) -> Option<Arc<ConfigMapSource>> {
        self.download.clone()
    }

    /// Handles the result of a download.
    pub(super) fn downloaded(&mut self, loaded: Option<Loaded>, now: Timestamp) {
        self.catch_up(now);
        if self.download.take().is_none() || !self.is_active() {
            return;
        }
        match loaded {
            Some(loaded) if self.status.assigned.as_ref().is_some_and(|known| known.source == loaded.source) => {
                // The kubelet rewrites its record of the assignment, and the trial counts from the last write.
                self.assigned_at = now;
                self.finish_sync(false, now);
            }
            Some(loaded) => self.restart_with(Some(Arc::new(loaded)), now),
            None => self.finish_sync(true, now),
        }
    }

    /// Handles a lost write of the status.
    pub(super) fn status_lost(&mut self, now: Timestamp) {
        self.catch_up(now);
        self.schedule_report(now);
    }

    /// Carries out due work. Returns the writes and the time of the next work.
    pub(super) fn advance(&mut self, now: Timestamp) -> (Vec<KubeletWrite>, Option<Timestamp>) {
        self.catch_up(now);
        (std::mem::take(&mut self.writes), self.next_wake(now))
    }

    /// Text of the ConfigMap that the kubelet runs.
    pub(super) fn active_text(&self) -> Option<Arc<[u8]>> {
        self.status.active.as_ref().map(|active| Arc::clone(&active.text))
    }

    /// Reports whether the kubelet answers requests.
    pub(super) fn answers(&self) -> bool {
        self.ready != Ready::Unknown && self.fault != Some(Fault::Deaf)
    }

    /// Fault of the node.
    pub(super) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Reports whether the kubelet takes part in Dynamic Kubelet Configuration.
    fn handles_config(&self) -> bool {
        self.dynamic && !matches!(self.fault, Some(Fault::Deaf | Fault::NeverAcknowledges))
    }

    fn is_active(&self) -> bool {
        self.handles_config() && self.process == Process::Running
    }

    fn catch_up(&mut self, now: Timestamp) {
        if let Process::Restarting(up) = self.process
            && up <= now
            && self.handles_config()
        {
            self.boot(now);
        }
        if self.is_active() {
            if self.trial_end().is_some_and(|end| end <= now) {
                self.status.last_known_good.clone_from(&self.status.assigned);
                self.schedule_report(now);
            }
            if self.sync.due(now) && self.download.is_none() {
                self.sync = Loop { pending: false, next: now + self.period() };
                self.sync_once(now);
            }
            if self.report.due(now) {
                self.report = Loop { pending: false, next: now + self.period() };
                self.writes.push(KubeletWrite::Config(self.status.patch()));
            }
        }
        self.writes.extend(self.devices.due(now).map(KubeletWrite::Aftermath));
        self.update_readiness(now);
    }

    fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let start = match self.process {
            Process::Restarting(up) if self.handles_config() => Some(up),
            _ => None,
        };
        let sync = (self.sync.pending && self.download.is_none()).then_some(self.sync.next);
        let report = self.report.pending.then_some(self.report.next);
        let loops = [sync, report, self.trial_end()].map(|at| at.filter(|_| self.is_active()));
        let readiness = match self.process {
            Process::Dead(since) if self.ready != Ready::Unknown => Some(since + NODE_GRACE),
            Process::Running if self.is_flapping() => Some(flapping(self.flaps_since, now).1),
            _ => None,
        };
        [start, readiness, self.devices.wake()].into_iter().chain(loops).flatten().min()
    }

    fn slowness(&self) -> f64 {
        match self.fault {
            Some(Fault::Slow(factor)) => factor,
            _ => 1.0,
        }
    }

    fn period(&self) -> Duration {
        LOOP_PERIOD.mul_f64(self.slowness())
    }

    fn schedule_sync(&mut self, now: Timestamp) {
        if self.is_active() {
            self.sync.schedule(self.period(), now);
        }
    }

    fn schedule_report(&mut self, now: Timestamp) {
        if self.is_active() {
            self.report.schedule(self.period(), now);
        }
    }

    /// Runs one round of the sync loop: compares spec with the assigned source.
    fn sync_once(&mut self, now: Timestamp) {
        match &self.wanted {
            None if self.status.assigned.is_none() && self.status.last_known_good.is_none() => {
                self.finish_sync(false, now);
            }
            None => {
                self.status.last_known_good = None;
                self.restart_with(None, now);
            }
            Some(_) if self.fault == Some(Fault::SyncError) => self.finish_sync(true, now),
            Some(source) => self.download = Some(Arc::clone(source)),
        }
    }

    /// Ends a round without restart. The next round retries after a failure.
    fn finish_sync(&mut self, failed: bool, now: Timestamp) {
        if self.status.sync_failed != failed {
            self.status.sync_failed = failed;
            self.schedule_report(now);
        }
        if failed {
            self.schedule_sync(now);
        }
    }

    /// Records the assignment on disk and exits; the service manager starts the next process.
    fn restart_with(&mut self, assigned: Option<Arc<Loaded>>, now: Timestamp) {
        let target = assigned.as_ref().map_or_else(|| "local config".to_owned(), |loaded| loaded.source.described());
        let message = format!("Kubelet restarting to use {target}");
        self.writes.push(KubeletWrite::Event { reason: "KubeletConfigChanged", message });
        self.status.assigned = assigned;
        self.assigned_at = now;
        self.exit(now);
    }

    fn exit(&mut self, now: Timestamp) {
        self.process = Process::Restarting(now + RESTART.mul_f64(self.slowness()));
        self.download = None;
    }

    /// Starts a process: loads the assigned configuration, else the last known good, else the local one.
    fn boot(&mut self, now: Timestamp) {
        if self.fault == Some(Fault::Crash) {
            self.process = Process::Dead(now);
            return;
        }
        self.process = Process::Running;
        let Status { assigned, last_known_good, .. } = &self.status;
        let problem = assigned.as_ref().and_then(|assigned| match self.fault {
            Some(Fault::LoadError) => Some(error_text::LOAD),
            Some(Fault::ValidateError) => Some(error_text::VALIDATE),
            _ => assigned.problem,
        });
        let active = if problem.is_some() { last_known_good } else { assigned };
        self.status = Status {
            assigned: assigned.clone(),
            active: active.clone(),
            last_known_good: last_known_good.clone(),
            problem,
            sync_failed: false,
        };
        // The informer of a new process lists the Node again. The comparison is omitted only if spec and assignment
        // are both local.
        let compares = self.wanted.is_some() || self.status.assigned.is_some();
        self.sync = Loop { pending: compares, next: now + self.period() };
        self.report = Loop { pending: false, next: now + self.period() };
        // Readiness is reported first. An active configuration with the readiness of the old process would look
        // converged.
        self.flaps_since = now;
        self.starts_unready = self.fault == Some(Fault::NotReady) && self.status.active.is_some();
        self.update_readiness(now);
        self.writes.extend(self.devices.restarted(self.fault.as_ref(), now).map(KubeletWrite::Aftermath));
        self.writes.push(KubeletWrite::Config(self.status.patch()));
        self.writes.push(KubeletWrite::started());
    }

    /// Time at which the running assignment becomes the last known good.
    fn trial_end(&self) -> Option<Timestamp> {
        let Status { assigned, last_known_good, problem, .. } = &self.status;
        let on_trial = assigned.is_some() && problem.is_none() && assigned != last_known_good;
        on_trial.then(|| self.assigned_at + TRIAL)
    }

    /// Sets or removes the fault.
    pub(super) fn set_fault(&mut self, fault: Option<Fault>, now: Timestamp) {
        self.catch_up(now);
        let handled_config = self.handles_config();
        self.devices.fault_changed(fault.as_ref(), now);
        self.fault.clone_from(&fault);
        self.flaps_since = now;
        self.starts_unready &= fault == Some(Fault::NotReady);
        if matches!(self.process, Process::Dead(_)) && fault != Some(Fault::Crash) {
            self.exit(now);
        }
        if self.handles_config() && !handled_config {
            self.schedule_sync(now);
        }
    }

    fn is_flapping(&self) -> bool {
        self.fault == Some(Fault::Flap) && self.status.active.is_some()
    }

    fn update_readiness(&mut self, now: Timestamp) {
        let ready = match self.process {
            _ if self.fault == Some(Fault::Deaf) => Ready::Unknown,
            Process::Dead(since) if since + NODE_GRACE <= now => Ready::Unknown,
            Process::Running if self.starts_unready => Ready::No,
            Process::Running if self.is_flapping() => flapping(self.flaps_since, now).0,
            Process::Running => Ready::Yes,
            // A starting process reports its readiness when it runs, if it takes part.
            Process::Restarting(_) if !self.handles_config() => Ready::Yes,
            Process::Restarting(_) | Process::Dead(_) => self.ready,
        };
        if self.ready != ready {
            self.ready = ready;
            self.writes.push(KubeletWrite::Ready { ready, changed: true });
        }
    }
}

/// Reports whether a kubelet of this version has Dynamic Kubelet Configuration: 1.11 (beta) to 1.23. Returns `false`
/// for an unreadable version.
#[must_use]
pub fn supports_dynamic_config(version: &str) -> bool {
    KubeletVersion::parse(version).is_some_and(|version| version.has_dynamic_config())
}
