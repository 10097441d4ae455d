//! Crashes and disk faults of a simulated node: kills at a chosen point, power failures, and restarts of the agent.

use jiff::Timestamp;
use nodecfg_agent::disk::memory::Fault;
use nodecfg_agent::runtime::AgentRuntime;

use super::{SimulatedNode, after, kubelet_version, paths, settings, since};

/// Kind of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashKind {
    /// The agent process is killed.
    Process,
    /// Power failure: content that is not durable may be lost, and the kubelet restarts too.
    Power,
}

/// Point of a planned crash.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CrashPoint {
    /// At this disk operation, counted from now.
    Operation(u64),
    /// Before this effect, counted from now.
    Before(u64),
    /// After this effect, counted from now, and before its result.
    After(u64),
    /// After this number of seconds.
    Seconds(f64),
}

#[derive(Debug)]
pub(super) struct PlannedCrash {
    pub(super) point: CrashPoint,
    pub(super) kind: CrashKind,
    /// Number of the disk operation or effect.
    pub(super) at: u64,
    pub(super) moment: Timestamp,
}

impl SimulatedNode {
    /// Injects a disk fault after this number of operations, until `repair_disk`.
    pub fn fault(&mut self, fault: Fault, operations: u64) {
        let from = self.disk.operations() + operations;
        self.record(&format!("the disk, from operation {from} on: {fault:?}"));
        self.faults.push((fault, from));
        self.disk.inject(fault, from..u64::MAX);
        self.unchanged_since = self.now;
    }

    /// Ends all disk faults.
    pub fn repair_disk(&mut self) {
        self.record("the disk is repaired");
        self.faults.clear();
        self.disk.clear_faults();
        self.unchanged_since = self.now;
    }

    /// Plans a crash of the agent.
    pub fn schedule_crash(&mut self, point: CrashPoint, kind: CrashKind) {
        let (at, moment) = match point {
            CrashPoint::Operation(count) => (self.disk.operations() + count, self.now),
            CrashPoint::Before(count) | CrashPoint::After(count) => (self.effects_started + count, self.now),
            CrashPoint::Seconds(seconds) => (0, after(self.now, seconds)),
        };
        if let CrashPoint::Operation(_) = point {
            self.inject_kill(at);
        }
        self.planned_crash = Some(PlannedCrash { point, kind, at, moment });
    }

    /// Reports whether another power failure is allowed: at most two within the health timeout and five seconds. More
    /// could themselves fail a trial.
    pub fn may_lose_power(&mut self) -> bool {
        let (now, limit) = (self.now, settings().health_timeout.as_secs_f64() + 5.0);
        self.power_losses.retain(|moment| since(*moment, now) < limit);
        self.power_losses.len() < 2
    }

    /// Reports whether power has failed since the start of the simulation.
    pub fn lost_power(&self) -> bool {
        self.lost_power
    }

    /// Cancels the planned crash.
    pub fn cancel_crash(&mut self) {
        self.planned_crash = None;
        self.disk.clear_faults();
        self.reinject_faults();
    }

    /// Injects a kill, which takes precedence over other faults.
    fn inject_kill(&mut self, at: u64) {
        self.disk.clear_faults();
        self.disk.kill_at(at);
        self.reinject_faults();
    }

    fn reinject_faults(&mut self) {
        for (fault, from) in &self.faults {
            self.disk.inject(*fault, *from..u64::MAX);
        }
    }

    pub fn has_planned_crash(&self) -> bool {
        self.planned_crash.is_some()
    }

    /// Reports whether a disk operation has killed the process.
    pub(super) fn crashed_on_disk(&self) -> bool {
        matches!(&self.planned_crash, Some(PlannedCrash { point: CrashPoint::Operation(_), at, .. }) if self.disk.operations() > *at)
    }

    pub(super) fn crash_agent(&mut self) {
        let Some(crash) = self.planned_crash.take() else { return };
        self.kills += 1;
        self.record(&format!("killed: {:?} at {:?}", crash.kind, crash.point));
        self.runtime = None;
        self.wake = None;
        self.queue.clear();
        self.disk.clear_faults();
        let downtime = match crash.kind {
            CrashKind::Process => *self.random.choice([0.0, 0.1, 1.0, 3.0].iter()).unwrap(),
            CrashKind::Power => {
                self.disk.crash(self.random.u64(..));
                1.0 + self.random.f64() * 2.0
            }
        };
        self.reinject_faults();
        self.check_config("after a crash");
        self.check_saved();
        if crash.kind == CrashKind::Power {
            self.power_losses.push(self.now);
            self.lost_power = true;
            // The host starts its kubelet with or without an agent.
            if self.answers() {
                self.last_seen_alive = self.now;
            }
            self.now = after(self.now, downtime);
            self.start_kubelet();
            self.agent_start = Some(after(self.now, self.random.f64()));
        } else {
            self.agent_start = Some(after(self.now, downtime));
        }
    }

    pub(super) fn start_agent(&mut self) {
        self.agent_start = None;
        let seed = self.random.u64(..);
        let runtime = match AgentRuntime::open(&paths(), settings(), self.disk.clone(), seed) {
            Ok(runtime) => runtime,
            Err(_) if self.crashed_on_disk() => return self.crash_agent(),
            Err(error) => panic!("the agent does not start: {error}\n{}", self.log),
        };
        self.runtime = Some(runtime);
        self.run_step(|runtime, now| runtime.start(kubelet_version(), now));
        self.deliver_node_config();
    }
}
