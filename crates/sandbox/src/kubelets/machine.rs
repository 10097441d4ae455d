//! State machine of one kubelet 1.11 to 1.23 with Dynamic Kubelet Configuration: inputs and the time in, effects out.
//!
//! Its structure follows the kubelet (`pkg/kubelet/kubeletconfig`, KEP-281). A sync loop and a status loop run every
//! 10 to 12 s and act only when work is pending. The sync loop downloads the source in spec, records it as assigned
//! and exits the process. The status loop writes `status.config`. A new process loads the assigned configuration, or
//! else the last known good one. The recorded behaviour follows from these two loops.
//!
//! Time is simulated: the machine has no clock, and its only randomness is the given generator.

use std::time::Duration;

use super::aftermath::GoneDevices;
use super::fault::Fault;
use super::signals::{Download, Input, Moment, Output, Ready, SpecSource};
use super::status::{LoadedSource, Status, SyncProblem};
use super::verdict::ConfigProblem;
use nodecfg_contract::{ConfigMapSource, ConfigStatus, KubeletVersion};

/// Period of both loops; jitter adds up to a fifth.
const LOOP_PERIOD: Duration = Duration::from_secs(10);
/// Minimum time between the exit of a process and the first status of the next one.
const RESTART: Duration = Duration::from_millis(5_500);
/// Maximum addition to [`RESTART`].
const RESTART_JITTER: Duration = Duration::from_millis(160);
/// Time that an assignment must run before it becomes the last known good.
const TRIAL: Duration = Duration::from_secs(10 * 60);
/// Interval of checks for the end of the trial.
const TRIAL_CHECK: Duration = Duration::from_secs(10);
/// Time after which the node lifecycle controller sets the readiness of a silent node to Unknown.
const NODE_GRACE: Duration = Duration::from_secs(40);
/// Time from activation to the first flap, and between flaps.
const FLAP: Duration = Duration::from_secs(20);
/// Idle time after which loop rounds are not simulated one by one.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// State of the kubelet process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    Running,
    /// Exited; the next process starts at this moment.
    Restarting(Moment),
    /// Dead until the fault is removed.
    Dead,
}

/// A loop that runs every 10 to 12 s and acts only when work is pending.
#[derive(Debug, Clone, Copy)]
struct Loop {
    pending: bool,
    next: Moment,
}

impl Loop {
    fn due(&self, now: Moment) -> bool {
        self.pending && self.next <= now
    }
}

/// Node of a kubelet when first observed.
#[derive(Debug, Clone, Default)]
pub struct ObservedNode<'a> {
    /// The kubelet's version has Dynamic Kubelet Configuration, see [`supports_dynamic_config`].
    pub dynamic: bool,
    /// Source in the Node's spec.
    pub wanted: SpecSource,
    /// `status.config`, if it exists. It serves as the kubelet's checkpoint, so that a simulation can continue on the
    /// cluster of an earlier one.
    pub status: Option<&'a ConfigStatus>,
}

/// One simulated kubelet.
#[derive(Debug, Clone)]
pub struct SimKubelet {
    /// The kubelet's version has Dynamic Kubelet Configuration.
    dynamic: bool,
    fault: Option<Fault>,
    rng: fastrand::Rng,
    heartbeat: Option<Duration>,
    next_heartbeat: Moment,
    wanted: SpecSource,
    process: Process,
    status: Status,
    /// Last status written to the Node; `None` when a patch may have been lost.
    reported: Option<Status>,
    /// Verdict on the checkpoint of `assigned`.
    assigned_verdict: Result<(), ConfigProblem>,
    assigned_at: Moment,
    sync: Loop,
    report: Loop,
    downloading: bool,
    /// Time of the next check for the end of the trial.
    trial: Option<Moment>,
    ready: Ready,
    /// Time of the next readiness change by a fault.
    ready_change: Option<Moment>,
    devices: GoneDevices<Moment>,
}

impl SimKubelet {
    /// Creates a running kubelet for a Node.
    #[must_use]
    pub fn new(
        seen: ObservedNode<'_>,
        fault: Option<Fault>,
        heartbeat: Option<Duration>,
        mut rng: fastrand::Rng,
        now: Moment,
    ) -> Self {
        let is_deaf = fault == Some(Fault::Deaf);
        let reported = seen.status.map(Status::read);
        let status = reported.clone().unwrap_or_default();
        let phase = LOOP_PERIOD.mul_f64(rng.f64());
        let heartbeat_phase = heartbeat.map_or(Duration::ZERO, |period| period.mul_f64(rng.f64()));
        let mut kubelet = Self {
            dynamic: seen.dynamic,
            fault,
            heartbeat,
            next_heartbeat: now + heartbeat_phase,
            process: Process::Running,
            assigned_verdict: status.problem.map_or(Ok(()), Err),
            assigned_at: now,
            // As after a restart, spec is compared with the checkpoint once, unless both are empty.
            sync: Loop { pending: seen.wanted != SpecSource::Local || status != Status::default(), next: now + phase },
            wanted: seen.wanted,
            report: Loop { pending: reported.is_none(), next: now },
            downloading: false,
            trial: None,
            ready: Ready::Yes,
            ready_change: is_deaf.then_some(now),
            devices: GoneDevices::default(),
            status,
            reported,
            rng,
        };
        kubelet.begin_trial(now);
        kubelet
    }

    /// Handles one input at its time. The last output is the next wake-up; without one, only another input has
    /// effects.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.catch_up(now, &mut outputs);
        match input {
            Input::Node(wanted) => {
                if self.wanted != wanted {
                    self.wanted = wanted;
                    self.schedule_sync(now);
                }
            }
            Input::ConfigMapChanged => self.schedule_sync(now),
            Input::Fetched(download) => self.handle_download(download, now, &mut outputs),
            Input::Timer => {}
            Input::StatusLost => {
                self.reported = None;
                self.schedule_report(now);
            }
            Input::Fault(fault) => self.set_fault(fault, now),
        }
        self.catch_up(now, &mut outputs);
        outputs.extend(self.next_wake().map(Output::WakeAt));
        outputs
    }

    /// ConfigMap in the last observed spec.
    #[must_use]
    pub(crate) fn spec_source(&self) -> Option<&ConfigMapSource> {
        match &self.wanted {
            SpecSource::ConfigMap(source) => Some(source),
            SpecSource::Local | SpecSource::Empty => None,
        }
    }

    /// Reports whether the kubelet's version has Dynamic Kubelet Configuration.
    #[must_use]
    pub(crate) fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// Reports whether the kubelet takes part in Dynamic Kubelet Configuration.
    fn handles_config(&self) -> bool {
        self.dynamic && !matches!(self.fault, Some(Fault::Deaf | Fault::NeverAcknowledges))
    }

    fn is_active(&self) -> bool {
        self.handles_config() && self.process == Process::Running
    }

    /// Carries out all due work.
    fn catch_up(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        if let Process::Restarting(up) = self.process
            && up <= now
            && self.handles_config()
        {
            self.boot(now, outputs);
        }
        if self.is_active() {
            if let Some(check) = self.trial.filter(|check| *check <= now) {
                self.check_trial(check, now);
            }
            if self.sync.due(now) && !self.downloading {
                self.sync.pending = false;
                self.sync.next = now + self.next_period();
                self.sync_once(now, outputs);
            }
            if self.report.due(now) {
                self.report.pending = false;
                self.report.next = now + self.next_period();
                self.write_status(outputs);
            }
        }
        outputs.extend(self.devices.due(now).map(Output::Aftermath));
        self.update_readiness(now, outputs);
    }

    fn next_wake(&self) -> Option<Moment> {
        let mut wake = self.ready_change;
        let mut at = |moment: Option<Moment>| wake = [wake, moment].into_iter().flatten().min();
        if self.heartbeat.is_some() && self.ready != Ready::Unknown {
            at(Some(self.next_heartbeat));
        }
        at(self.devices.wake());
        if let Process::Restarting(up) = self.process
            && self.handles_config()
        {
            at(Some(up));
        }
        if self.is_active() {
            at(self.trial);
            at((self.sync.pending && !self.downloading).then_some(self.sync.next));
            at(self.report.pending.then_some(self.report.next));
        }
        wake
    }

    fn slowness(&self) -> f64 {
        match self.fault {
            Some(Fault::Slow(factor)) => factor,
            _ => 1.0,
        }
    }

    fn next_period(&mut self) -> Duration {
        LOOP_PERIOD.mul_f64((1.0 + 0.2 * self.rng.f64()) * self.slowness())
    }

    /// Time of the loop's next round after `now`. After a long idle time the round is drawn at random, because the
    /// idle rounds have no effect.
    fn next_round(&mut self, mut next: Moment, now: Moment) -> Moment {
        if now > next + IDLE {
            return now + self.next_period().mul_f64(self.rng.f64());
        }
        while next <= now {
            next = next + self.next_period();
        }
        next
    }

    fn schedule_sync(&mut self, now: Moment) {
        if self.is_active() && !self.sync.pending {
            self.sync = Loop { pending: true, next: self.next_round(self.sync.next, now) };
        }
    }

    fn schedule_report(&mut self, now: Moment) {
        if self.is_active() && !self.report.pending {
            self.report = Loop { pending: true, next: self.next_round(self.report.next, now) };
        }
    }

    /// Runs one round of the sync loop: compares spec with the assigned source.
    fn sync_once(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        match self.wanted.clone() {
            SpecSource::Local => {
                if self.status.assigned.is_none() && self.status.last_known_good.is_none() {
                    return self.finish_sync(None, now);
                }
                self.status.last_known_good = None;
                self.assign(None, Ok(()), now, outputs);
            }
            SpecSource::Empty => self.finish_sync(Some(SyncProblem::AllNil), now),
            SpecSource::ConfigMap(_) if self.fault == Some(Fault::SyncError) => {
                self.finish_sync(Some(SyncProblem::Download), now);
            }
            SpecSource::ConfigMap(source) => {
                self.downloading = true;
                outputs.push(Output::Fetch(source));
            }
        }
    }

    fn handle_download(&mut self, download: Download, now: Moment, outputs: &mut Vec<Output>) {
        self.downloading = false;
        if !self.is_active() {
            return;
        }
        match download {
            Download::Found(source, _) if self.status.assigned.as_ref() == Some(&source) => {
                // The kubelet rewrites its record of the assignment, and the trial counts from the last write.
                self.assigned_at = now;
                self.finish_sync(None, now);
            }
            Download::Found(source, verdict) => self.assign(Some(source), verdict, now, outputs),
            Download::Missing | Download::Unreachable => self.finish_sync(Some(SyncProblem::Download), now),
        }
    }

    /// Ends a round without restart. The next round retries after a problem.
    fn finish_sync(&mut self, problem: Option<SyncProblem>, now: Moment) {
        if self.status.sync_problem != problem {
            self.status.sync_problem = problem;
            self.schedule_report(now);
        }
        if problem.is_some() {
            self.schedule_sync(now);
        }
    }

    /// Records the assignment on disk and exits; the service manager starts the next process.
    fn assign(
        &mut self,
        source: LoadedSource,
        verdict: Result<(), ConfigProblem>,
        now: Moment,
        outputs: &mut Vec<Output>,
    ) {
        let target = source.as_deref().map_or_else(|| "local config".to_owned(), ConfigMapSource::described);
        let message = format!("Kubelet restarting to use {target}");
        outputs.push(Output::Event { reason: "KubeletConfigChanged", message });
        self.status.assigned = source;
        self.assigned_at = now;
        self.assigned_verdict = verdict;
        self.exit(now);
    }

    fn exit(&mut self, now: Moment) {
        let pause = RESTART + RESTART_JITTER.mul_f64(self.rng.f64());
        self.process = Process::Restarting(now + pause.mul_f64(self.slowness()));
        (self.downloading, self.trial, self.ready_change) = (false, None, None);
    }

    /// Starts a process: loads the assigned configuration, else the last known good, else the local one.
    fn boot(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        if self.fault == Some(Fault::Crash) {
            self.process = Process::Dead;
            self.ready_change = Some(now + NODE_GRACE);
            return;
        }
        self.process = Process::Running;
        self.status.sync_problem = None;
        self.status.problem = match self.fault {
            _ if self.status.assigned.is_none() => None,
            Some(Fault::LoadError) => Some(ConfigProblem::Load),
            Some(Fault::ValidateError) => Some(ConfigProblem::Validate),
            _ => self.assigned_verdict.err(),
        };
        let source = if self.status.problem.is_some() { &self.status.last_known_good } else { &self.status.assigned };
        self.status.active.clone_from(source);
        self.begin_trial(now);
        self.sync = Loop { pending: false, next: now + self.next_period() };
        // The informer of a new process lists the Node again. The comparison is omitted only if spec and assignment
        // are both local.
        if self.wanted != SpecSource::Local || self.status.assigned.is_some() {
            self.sync.pending = true;
        }
        self.report = Loop { pending: false, next: now + self.next_period() };
        // Readiness is reported first. An active configuration with the readiness of the old process would look
        // converged.
        self.ready_change = self.next_ready_change(now);
        self.update_readiness(now, outputs);
        outputs.extend(self.devices.restarted(self.fault.as_ref(), now).map(Output::Aftermath));
        self.write_status(outputs);
        outputs.push(Output::Event { reason: "Starting", message: "Starting kubelet.".to_owned() });
    }

    fn begin_trial(&mut self, now: Moment) {
        let Status { assigned, last_known_good, problem, .. } = &self.status;
        let running = assigned.is_some() && problem.is_none() && assigned != last_known_good;
        self.trial = running.then_some(now);
        self.check_trial(now, now);
    }

    /// Ends the trial if its time has passed, otherwise schedules the next check. `check` is the time of the last
    /// check; checks are 10 s apart.
    fn check_trial(&mut self, mut check: Moment, now: Moment) {
        if self.trial.is_none() {
            return;
        }
        let end = self.assigned_at + TRIAL;
        if end <= now {
            self.trial = None;
            self.status.last_known_good.clone_from(&self.status.assigned);
            self.schedule_report(now);
            return;
        }
        // Checks before the end have no effect.
        while check < end {
            check = check + TRIAL_CHECK;
        }
        self.trial = Some(check);
    }

    fn write_status(&mut self, outputs: &mut Vec<Output>) {
        let patch = self.status.patch_from(self.reported.as_ref());
        self.reported = Some(self.status.clone());
        outputs.push(Output::PatchConfig(patch));
    }

    fn set_fault(&mut self, fault: Option<Fault>, now: Moment) {
        let handled_config = self.handles_config();
        self.devices.fault_changed(fault.as_ref(), now);
        self.fault.clone_from(&fault);
        if self.process == Process::Dead && fault != Some(Fault::Crash) {
            self.exit(now);
        }
        // A starting process reports its readiness when it runs. Other faults show immediately, except those that
        // need a new configuration.
        if self.process == Process::Running || !self.handles_config() {
            self.ready_change = match fault {
                Some(Fault::Deaf) => Some(now),
                _ if self.ready != Ready::Yes => Some(now),
                Some(Fault::Flap) => self.next_ready_change(now),
                _ => None,
            };
        }
        if self.handles_config() && !handled_config {
            self.schedule_sync(now);
        }
    }

    /// Time of the next readiness change that the fault causes.
    fn next_ready_change(&self, now: Moment) -> Option<Moment> {
        match self.fault {
            Some(Fault::Flap) if self.status.active.is_some() => Some(now + FLAP),
            Some(Fault::Flap) => None,
            _ => Some(now),
        }
    }

    /// Carries out due readiness changes and heartbeats.
    fn update_readiness(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        let before = self.ready;
        if self.ready_change.is_some_and(|ready_change| ready_change <= now) {
            self.ready_change = None;
            self.ready = match self.fault {
                Some(Fault::Deaf) => Ready::Unknown,
                Some(Fault::Crash) if self.process == Process::Dead => Ready::Unknown,
                Some(Fault::NotReady) if self.status.active.is_some() => Ready::No,
                Some(Fault::Flap) if self.status.active.is_some() => {
                    self.ready_change = Some(now + FLAP);
                    if before == Ready::Yes { Ready::No } else { Ready::Yes }
                }
                _ => Ready::Yes,
            };
        }
        let changed = self.ready != before;
        let beat = self.heartbeat.is_some() && self.next_heartbeat <= now && self.ready != Ready::Unknown;
        if changed || beat {
            if let Some(period) = self.heartbeat {
                self.next_heartbeat = now + period;
            }
            outputs.push(Output::Ready { ready: self.ready, changed });
        }
    }
}

/// Reports whether a kubelet of this version has Dynamic Kubelet Configuration: 1.11 (beta) to 1.23. Returns `false`
/// for an unreadable version.
#[must_use]
pub fn supports_dynamic_config(version: &str) -> bool {
    KubeletVersion::parse(version).is_some_and(|version| version.has_dynamic_config())
}
