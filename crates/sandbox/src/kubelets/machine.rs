//! One kubelet 1.11 to 1.23 with Dynamic Kubelet Configuration, as a state machine: inputs and the time in, effects out.
//!
//! Its structure is the kubelet's own (`pkg/kubelet/kubeletconfig`, KEP-281). A sync loop and a status loop run every 10
//! to 12 s and do nothing unless poked: the first downloads what spec names, records it as assigned and makes the process
//! exit; the second writes `status.config`. A new process loads what is assigned, or else the last known good.
//! Whatever the recording shows follows from these two loops.
//!
//! The machine's time is simulated: it knows no clock and no speed, and its only randomness is the generator it is given.

use std::time::Duration;

use super::fault::Fault;
use super::signals::{Download, Input, Moment, Output, Ready, Wanted};
use super::status::{Status, SyncProblem, Taken};
use super::verdict::Problem;
use nodecfg_contract::observed::KubeletVersion;
use nodecfg_contract::{ConfigMapSource, ConfigStatus};

/// Period of both loops; each round adds up to a fifth.
const LOOP_PERIOD: Duration = Duration::from_secs(10);
/// From the exit of the process to the status that the next one writes, at least.
const RESTART: Duration = Duration::from_millis(5_500);
/// How much longer a restart may take.
const RESTART_JITTER: Duration = Duration::from_millis(160);
/// How long an assignment must run before it becomes the last known good.
const TRIAL: Duration = Duration::from_secs(10 * 60);
/// How often the end of the trial is looked for.
const TRIAL_CHECK: Duration = Duration::from_secs(10);
/// How long the node lifecycle controller waits before it calls a silent node's readiness unknown.
const NODE_GRACE: Duration = Duration::from_secs(40);
/// From activation to the first flap, and from one to the next.
const FLAP: Duration = Duration::from_secs(20);
/// Beyond this much idleness the rounds of a loop are no longer counted one by one.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// Whether the kubelet process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    Running,
    /// It has exited; the next one is up at this moment.
    Restarting(Moment),
    /// It has died and stays dead.
    Dead,
}

/// A loop that runs every 10 to 12 s and does nothing unless poked.
#[derive(Debug, Clone, Copy)]
struct Loop {
    poked: bool,
    next: Moment,
}

impl Loop {
    fn due(&self, now: Moment) -> bool {
        self.poked && self.next <= now
    }
}

/// The Node of a kubelet as it is first seen.
#[derive(Debug, Clone, Default)]
pub struct Seen<'a> {
    /// Whether the kubelet's version has Dynamic Kubelet Configuration, see [`supports_dynamic_config`].
    pub dynamic: bool,
    /// What spec says.
    pub wanted: Wanted,
    /// `status.config`, if it is there. It counts as the kubelet's checkpoint, so that a simulation can begin on a
    /// cluster that another one left behind.
    pub status: Option<&'a ConfigStatus>,
}

/// One simulated kubelet.
#[derive(Debug, Clone)]
pub struct SimKubelet {
    /// Whether its version has Dynamic Kubelet Configuration.
    dynamic: bool,
    fault: Option<Fault>,
    rng: fastrand::Rng,
    heartbeat: Option<Duration>,
    next_heartbeat: Moment,
    wanted: Wanted,
    process: Process,
    status: Status,
    /// What the Node's status is known to say; `None` when a patch may not have arrived.
    reported: Option<Status>,
    /// The verdict on the checkpoint of `assigned`.
    assigned_verdict: Result<(), Problem>,
    assigned_at: Moment,
    sync: Loop,
    report: Loop,
    downloading: bool,
    /// When to look next whether the trial is over.
    trial: Option<Moment>,
    ready: Ready,
    /// When readiness changes next by a fault.
    turn: Option<Moment>,
}

impl SimKubelet {
    /// A running kubelet on a Node as it was first seen.
    #[must_use]
    pub fn new(
        seen: Seen<'_>,
        fault: Option<Fault>,
        heartbeat: Option<Duration>,
        mut rng: fastrand::Rng,
        now: Moment,
    ) -> Self {
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
            // As after a restart, spec is compared with the checkpoint once, unless both are certainly empty.
            sync: Loop { poked: seen.wanted != Wanted::Local || status != Status::default(), next: now + phase },
            wanted: seen.wanted,
            report: Loop { poked: reported.is_none(), next: now },
            downloading: false,
            trial: None,
            ready: Ready::Yes,
            turn: (fault == Some(Fault::Deaf)).then_some(now),
            status,
            reported,
            rng,
        };
        kubelet.begin_trial(now);
        kubelet
    }

    /// Takes one input at the moment it happens. The last output says when to wake the kubelet next; without it, only
    /// another input moves it.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.catch_up(now, &mut outputs);
        match input {
            Input::Node(wanted) => {
                if self.wanted != wanted {
                    self.wanted = wanted;
                    self.poke_sync(now);
                }
            }
            Input::ConfigMapChanged => self.poke_sync(now),
            Input::Fetched(download) => self.take(download, now, &mut outputs),
            Input::Timer => {}
            Input::StatusLost => {
                self.reported = None;
                self.poke_report(now);
            }
            Input::Fault(fault) => self.misbehave(fault, now),
        }
        self.catch_up(now, &mut outputs);
        outputs.extend(self.wake().map(Output::WakeAt));
        outputs
    }

    /// The ConfigMap that its spec names, as last seen.
    #[must_use]
    pub fn wants(&self) -> Option<&ConfigMapSource> {
        match &self.wanted {
            Wanted::ConfigMap(source) => Some(source),
            Wanted::Local | Wanted::Nothing => None,
        }
    }

    /// Whether its version has Dynamic Kubelet Configuration.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// Whether it takes part in Dynamic Kubelet Configuration at all.
    fn listens(&self) -> bool {
        self.dynamic && !matches!(self.fault, Some(Fault::Deaf | Fault::NeverAcknowledges))
    }

    fn acts(&self) -> bool {
        self.listens() && self.process == Process::Running
    }

    /// Does all that is due.
    fn catch_up(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        if let Process::Restarting(up) = self.process
            && up <= now
            && self.listens()
        {
            self.boot(now, outputs);
        }
        if self.acts() {
            if let Some(check) = self.trial.filter(|check| *check <= now) {
                self.check_trial(check, now);
            }
            if self.sync.due(now) && !self.downloading {
                self.sync.poked = false;
                self.sync.next = now + self.period();
                self.synchronise(now, outputs);
            }
            if self.report.due(now) {
                self.report.poked = false;
                self.report.next = now + self.period();
                self.write_status(outputs);
            }
        }
        self.keep_readiness(now, outputs);
    }

    fn wake(&self) -> Option<Moment> {
        let mut wake = self.turn;
        let mut at = |moment: Option<Moment>| wake = [wake, moment].into_iter().flatten().min();
        if self.heartbeat.is_some() && self.ready != Ready::Unknown {
            at(Some(self.next_heartbeat));
        }
        if let Process::Restarting(up) = self.process
            && self.listens()
        {
            at(Some(up));
        }
        if self.acts() {
            at(self.trial);
            at((self.sync.poked && !self.downloading).then_some(self.sync.next));
            at(self.report.poked.then_some(self.report.next));
        }
        wake
    }

    fn slowness(&self) -> f64 {
        match self.fault {
            Some(Fault::Slow(factor)) => factor,
            _ => 1.0,
        }
    }

    fn period(&mut self) -> Duration {
        LOOP_PERIOD.mul_f64((1.0 + 0.2 * self.rng.f64()) * self.slowness())
    }

    /// The next round of a loop after `now`, having gone round idly since `next`.
    fn round(&mut self, mut next: Moment, now: Moment) -> Moment {
        if now > next + IDLE {
            return now + self.period().mul_f64(self.rng.f64());
        }
        while next <= now {
            next = next + self.period();
        }
        next
    }

    fn poke_sync(&mut self, now: Moment) {
        if self.acts() && !self.sync.poked {
            self.sync = Loop { poked: true, next: self.round(self.sync.next, now) };
        }
    }

    fn poke_report(&mut self, now: Moment) {
        if self.acts() && !self.report.poked {
            self.report = Loop { poked: true, next: self.round(self.report.next, now) };
        }
    }

    /// One round of the sync loop: compare spec with what is assigned.
    fn synchronise(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        match self.wanted.clone() {
            Wanted::Local => {
                if self.status.assigned.is_none() && self.status.last_known_good.is_none() {
                    return self.synchronised(None, now);
                }
                self.status.last_known_good = None;
                self.assign(None, Ok(()), now, outputs);
            }
            Wanted::Nothing => self.synchronised(Some(SyncProblem::AllNil), now),
            Wanted::ConfigMap(_) if self.fault == Some(Fault::SyncError) => {
                self.synchronised(Some(SyncProblem::Download), now);
            }
            Wanted::ConfigMap(source) => {
                self.downloading = true;
                outputs.push(Output::Fetch(source));
            }
        }
    }

    fn take(&mut self, download: Download, now: Moment, outputs: &mut Vec<Output>) {
        self.downloading = false;
        if !self.acts() {
            return;
        }
        match download {
            Download::Found(source, _) if self.status.assigned.as_ref() == Some(&source) => {
                // The kubelet writes its record of the assignment again, and the trial counts from the last writing.
                self.assigned_at = now;
                self.synchronised(None, now);
            }
            Download::Found(source, verdict) => self.assign(Some(source), verdict, now, outputs),
            Download::Missing | Download::Unreachable => self.synchronised(Some(SyncProblem::Download), now),
        }
    }

    /// Ends a round that needs no restart. A problem is tried again in the next one.
    fn synchronised(&mut self, problem: Option<SyncProblem>, now: Moment) {
        if self.status.sync_problem != problem {
            self.status.sync_problem = problem;
            self.poke_report(now);
        }
        if problem.is_some() {
            self.poke_sync(now);
        }
    }

    /// Records the assignment on disk and exits, for the service manager to start the next process.
    fn assign(&mut self, source: Taken, verdict: Result<(), Problem>, now: Moment, outputs: &mut Vec<Output>) {
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
        (self.downloading, self.trial, self.turn) = (false, None, None);
    }

    /// A new process: load what is assigned, or else the last known good, or else the local configuration.
    fn boot(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        if self.fault == Some(Fault::Crash) {
            self.process = Process::Dead;
            self.turn = Some(now + NODE_GRACE);
            return;
        }
        self.process = Process::Running;
        self.status.sync_problem = None;
        self.status.problem = match self.fault {
            _ if self.status.assigned.is_none() => None,
            Some(Fault::LoadError) => Some(Problem::Load),
            Some(Fault::ValidateError) => Some(Problem::Validate),
            _ => self.assigned_verdict.err(),
        };
        let source = if self.status.problem.is_some() { &self.status.last_known_good } else { &self.status.assigned };
        self.status.active.clone_from(source);
        self.begin_trial(now);
        self.sync = Loop { poked: false, next: now + self.period() };
        // The informer of a new process lists the Node afresh; only a local configuration needs no second look.
        if self.wanted != Wanted::Local || self.status.assigned.is_some() {
            self.sync.poked = true;
        }
        self.report = Loop { poked: false, next: now + self.period() };
        // Readiness comes first: a Node that called its configuration active while it still showed the readiness of the
        // process before would look converged for a moment.
        self.turn = self.next_turn(now);
        self.keep_readiness(now, outputs);
        self.write_status(outputs);
        outputs.push(Output::Event { reason: "Starting", message: "Starting kubelet.".to_owned() });
    }

    fn begin_trial(&mut self, now: Moment) {
        let Status { assigned, last_known_good, problem, .. } = &self.status;
        let running = assigned.is_some() && problem.is_none() && assigned != last_known_good;
        self.trial = running.then_some(now);
        self.check_trial(now, now);
    }

    /// Looks whether the trial is over, at the moment `check` of a look every 10 s.
    fn check_trial(&mut self, mut check: Moment, now: Moment) {
        if self.trial.is_none() {
            return;
        }
        let end = self.assigned_at + TRIAL;
        if end <= now {
            self.trial = None;
            self.status.last_known_good.clone_from(&self.status.assigned);
            self.poke_report(now);
            return;
        }
        // The looks in between would find nothing.
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

    fn misbehave(&mut self, fault: Option<Fault>, now: Moment) {
        let listened = self.listens();
        self.fault = fault;
        if self.process == Process::Dead && fault != Some(Fault::Crash) {
            self.exit(now);
        }
        // A process on its way up shows its readiness when it is up; everything else shows at once, except what needs
        // a new configuration to break on.
        if self.process == Process::Running || !self.listens() {
            self.turn = match fault {
                Some(Fault::Deaf) => Some(now),
                _ if self.ready != Ready::Yes => Some(now),
                Some(Fault::Flap) => self.next_turn(now),
                _ => None,
            };
        }
        if self.listens() && !listened {
            self.poke_sync(now);
        }
    }

    /// When readiness next differs from what it is, as far as the fault decides.
    fn next_turn(&self, now: Moment) -> Option<Moment> {
        match self.fault {
            Some(Fault::Flap) if self.status.active.is_some() => Some(now + FLAP),
            Some(Fault::Flap) => None,
            _ => Some(now),
        }
    }

    /// Carries out a change of readiness that is due, and heartbeats.
    fn keep_readiness(&mut self, now: Moment, outputs: &mut Vec<Output>) {
        let before = self.ready;
        if self.turn.is_some_and(|turn| turn <= now) {
            self.turn = None;
            self.ready = match self.fault {
                Some(Fault::Deaf) => Ready::Unknown,
                Some(Fault::Crash) if self.process == Process::Dead => Ready::Unknown,
                Some(Fault::NotReady) if self.status.active.is_some() => Ready::No,
                Some(Fault::Flap) if self.status.active.is_some() => {
                    self.turn = Some(now + FLAP);
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

/// Whether a kubelet of this version has Dynamic Kubelet Configuration: 1.11 (beta) to 1.23. What cannot be read as a
/// version has not.
#[must_use]
pub fn supports_dynamic_config(version: &str) -> bool {
    KubeletVersion::parse(version).is_some_and(|version| version.has_dynamic_config())
}
