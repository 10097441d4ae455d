//! A recent kubelet process and its service manager, without IO: `systemctl restart kubelet`, `/healthz`, and writes
//! about the Node.
//!
//! The process loads its configuration at start and exits if it refuses the configuration. The service manager
//! restarts it after 10 s (`RestartSec=10` of kubeadm's unit), without limit. Time is an input and simulated.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::kubelets::Fault;
use crate::kubelets::aftermath::GoneDevices;
use crate::kubelets::report::{KubeletWrite, NODE_GRACE, Ready, flapping};
use crate::running::Running;
use kubelet_config::startup_error::LastError;
use nodecfg_agent::host::ServiceReport;
use nodecfg_agent::host::problem::HealthzError;

/// Duration of `systemctl restart kubelet`.
const COMMAND_TIME: Duration = Duration::from_millis(400);
/// Time from the start of the process until `/healthz` answers or the process has exited.
const START_TIME: Duration = Duration::from_secs(3);
/// Time from the exit of the process to its next start.
const RESTART_DELAY: Duration = Duration::from_secs(10);
/// Interval at which a running kubelet renews its Lease.
const RENEWAL_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// Time after start at which the fault `dies` ends the kubelet.
const TIME_TO_DEATH: Duration = Duration::from_secs(15);

/// State of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProcessState {
    /// `/healthz` answers.
    Up { since: Timestamp },
    /// The configuration is loading. At `until`, the process answers, or exits with the error of `outcome`.
    Starting { until: Timestamp, outcome: Result<(), String> },
    /// The process exited; the service manager restarts it at `again`.
    Exited { again: Timestamp },
    /// The host is down.
    Off,
}

/// The kubelet of one node.
#[derive(Debug)]
pub(super) struct Process {
    fault: Option<Fault>,
    state: ProcessState,
    /// Start of the process.
    started: Timestamp,
    /// Number of restarts by the service manager after an exit (`NRestarts` of systemd).
    restarts: u32,
    /// Time and error of the last exit that the kubelet logged.
    logged: Option<(Timestamp, String)>,
    /// Configuration that the process was started with.
    config: Arc<Running>,
    /// Own configuration, and the configuration that was running and ready when the fault was set. Faults that need
    /// a new configuration spare both.
    trusted: [Arc<Running>; 2],
    /// Time since which the kubelet is down; unset while it runs.
    silent: Option<Timestamp>,
    ready: Ready,
    devices: GoneDevices,
    /// Writes to carry out.
    writes: Vec<KubeletWrite>,
}

impl Process {
    /// Creates a running kubelet with this configuration.
    pub(super) fn new(config: Arc<Running>, fault: Option<Fault>, now: Timestamp) -> Self {
        let mut process = Self {
            fault: None,
            state: ProcessState::Up { since: now },
            started: now,
            restarts: 0,
            logged: None,
            trusted: [Arc::clone(&config), Arc::clone(&config)],
            config,
            silent: None,
            ready: Ready::Yes,
            devices: GoneDevices::default(),
            writes: vec![KubeletWrite::Renew],
        };
        process.set_fault(fault, now);
        process
    }

    /// Sets or removes the fault.
    pub(super) fn set_fault(&mut self, fault: Option<Fault>, now: Timestamp) {
        self.devices.fault_changed(fault.as_ref(), now);
        self.fault = fault;
        if matches!(self.state, ProcessState::Up { .. }) && self.ready == Ready::Yes {
            let [_, running] = &mut self.trusted;
            *running = Arc::clone(&self.config);
        }
        if self.fault == Some(Fault::Deaf) {
            self.power_off(now);
        }
    }

    /// Fault of the host.
    pub(super) fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Reports whether the host is up.
    pub(super) fn has_power(&self) -> bool {
        self.state != ProcessState::Off
    }

    /// Reports whether a restart with this configuration crashes the host.
    pub(super) fn takes_host_down(&self, config: &Running) -> bool {
        self.fault == Some(Fault::Crash) && self.is_new(config)
    }

    /// Takes the host down.
    pub(super) fn power_off(&mut self, now: Timestamp) {
        self.silent.get_or_insert(now);
        self.state = ProcessState::Off;
    }

    /// Reports whether the host is down without a fault that keeps it down.
    pub(super) fn may_power_on(&self) -> bool {
        self.state == ProcessState::Off && !matches!(self.fault, Some(Fault::Crash | Fault::Deaf))
    }

    /// Duration of the service manager's command.
    pub(super) fn command_time(&self) -> Duration {
        COMMAND_TIME.mul_f64(self.slowness())
    }

    fn slowness(&self) -> f64 {
        if let Some(Fault::Slow(factor)) = self.fault { factor } else { 1.0 }
    }

    /// Reports whether the service manager's command fails.
    pub(super) fn refuses_restart(&self, config: &Running) -> bool {
        self.fault == Some(Fault::RestartFails) && self.is_new(config)
    }

    /// Starts or restarts the process. `verdict` is the kubelet's verdict on the configuration.
    pub(super) fn start(&mut self, config: Arc<Running>, verdict: Result<(), String>, now: Timestamp) {
        self.silent.get_or_insert(now);
        self.restarts += u32::from(self.is_to_start(now));
        let new = self.is_new(&config);
        let outcome = match (verdict, &self.fault) {
            (Ok(()), Some(Fault::NoStart)) if new => Err("panic: the simulated kubelet does not start".to_owned()),
            (verdict, _) => verdict,
        };
        self.config = config;
        self.started = now;
        let until = now + START_TIME.mul_f64(self.slowness());
        self.state = ProcessState::Starting { until, outcome };
    }

    /// Start of the process.
    pub(super) fn started(&self) -> Timestamp {
        self.started
    }

    /// What the service manager knows at `now` of the process, with the last error since a time.
    pub(super) fn service_report(&mut self, since: Timestamp, now: Timestamp) -> ServiceReport<LastError> {
        self.catch_up(now);
        let logged = self.logged.as_ref().filter(|(at, _)| *at >= since);
        let last_error = logged.and_then(|(_, error)| LastError::in_log(&format!("Error: {error}")));
        ServiceReport { restarts: Some(self.restarts), last_error }
    }

    /// Configuration that the process was started with.
    pub(super) fn running(&self) -> &Running {
        &self.config
    }

    /// Reports whether a program that writes the kubelet's file again does so now.
    pub(super) fn is_to_rewrite(&self) -> bool {
        let up = matches!(self.state, ProcessState::Up { .. });
        up && self.fault == Some(Fault::RewrittenFile) && self.is_new(&self.config)
    }

    /// Reports whether the service manager restarts the process now.
    pub(super) fn is_to_start(&self, now: Timestamp) -> bool {
        matches!(self.state, ProcessState::Exited { again, .. } if again <= now)
    }

    /// Result of `/healthz` at `now`.
    pub(super) fn healthz(&mut self, now: Timestamp) -> Result<(), HealthzError> {
        self.catch_up(now);
        if matches!(self.state, ProcessState::Up { .. }) { Ok(()) } else { Err(HealthzError::refused()) }
    }

    /// Time of the last Lease renewal; `None` if the kubelet does not run. A running kubelet renews every 10 s; most
    /// renewals are not written.
    pub(super) fn renewed(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.catch_up(now);
        let ProcessState::Up { since } = self.state else { return None };
        let renewals = now.duration_since(since).as_secs() / RENEWAL_INTERVAL.as_secs();
        Some(since + RENEWAL_INTERVAL * i32::try_from(renewals).unwrap_or(i32::MAX))
    }

    /// Carries out due work and returns the writes.
    pub(super) fn advance(&mut self, now: Timestamp) -> Vec<KubeletWrite> {
        self.catch_up(now);
        std::mem::take(&mut self.writes)
    }

    fn catch_up(&mut self, now: Timestamp) {
        match &self.state {
            ProcessState::Starting { until, outcome } if *until <= now => {
                let until = *until;
                match outcome.clone() {
                    Ok(()) => self.up(until),
                    Err(error) => {
                        self.logged = Some((until, error));
                        self.state = ProcessState::Exited { again: until + RESTART_DELAY };
                    }
                }
            }
            _ => {}
        }
        if let ProcessState::Up { since } = self.state
            && self.fault == Some(Fault::Dies)
            && self.is_new(&self.config)
            && since + TIME_TO_DEATH <= now
        {
            let died = since + TIME_TO_DEATH;
            self.silent.get_or_insert(died);
            self.state = ProcessState::Exited { again: died + RESTART_DELAY };
        }
        self.writes.extend(self.devices.due(now).map(KubeletWrite::Aftermath));
        let ready = self.readiness(now);
        if self.ready != ready {
            self.ready = ready;
            self.writes.push(KubeletWrite::Ready { ready, changed: true });
        }
    }

    /// Time of the next due work.
    pub(super) fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let state_change = match &self.state {
            ProcessState::Up { since } if self.fault == Some(Fault::Dies) && self.is_new(&self.config) => {
                Some(*since + TIME_TO_DEATH)
            }
            ProcessState::Up { since } if self.fault == Some(Fault::Flap) && self.is_new(&self.config) => {
                Some(flapping(*since, now).1)
            }
            ProcessState::Starting { until, .. } => Some(*until),
            ProcessState::Exited { again, .. } => Some(*again),
            ProcessState::Up { .. } | ProcessState::Off => None,
        };
        let grace = self.silent.filter(|_| self.ready != Ready::Unknown).map(|since| since + NODE_GRACE);
        [state_change, grace, self.devices.wake()].into_iter().flatten().min()
    }

    fn up(&mut self, now: Timestamp) {
        self.state = ProcessState::Up { since: now };
        self.silent = None;
        let ready = self.readiness(now);
        let changed = self.ready != ready;
        self.ready = ready;
        self.writes.extend(self.devices.restarted(self.fault.as_ref(), now).map(KubeletWrite::Aftermath));
        self.writes.extend([KubeletWrite::Ready { ready, changed }, KubeletWrite::Renew, KubeletWrite::started()]);
    }

    fn readiness(&self, now: Timestamp) -> Ready {
        match (&self.state, &self.fault) {
            (_, Some(Fault::Deaf)) => Ready::Unknown,
            (ProcessState::Up { .. }, Some(Fault::NotReady)) if self.is_new(&self.config) => Ready::No,
            (ProcessState::Up { since }, Some(Fault::Flap)) if self.is_new(&self.config) => flapping(*since, now).0,
            (ProcessState::Up { .. }, _) => Ready::Yes,
            _ if self.silent.is_some_and(|since| since + NODE_GRACE <= now) => Ready::Unknown,
            _ => self.ready,
        }
    }

    /// Reports whether faults that need a new configuration affect this one.
    fn is_new(&self, config: &Running) -> bool {
        self.trusted.iter().all(|trusted| trusted.inputs != config.inputs)
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
