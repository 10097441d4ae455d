//! One pool while it is rolled out: where its nodes are, told by what happens to them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::estimate::{Gate, Pace, seconds};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_planning::judge::Waiting;
use nodecfg_planning::plan::{Action, PoolPlan, Step, WaveKind};
use nodecfg_planning::rollout::progress::Progress;

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pending,
    InFlight,
    Done,
    Failed,
    /// It left the cluster, somebody else has it, or it was taken back.
    Left,
}

/// How many nodes are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) pending: usize,
    pub(super) in_flight: usize,
    pub(super) done: usize,
    pub(super) failed: usize,
    pub(super) left: usize,
}

impl Counts {
    fn of(&mut self, stage: Stage) -> &mut usize {
        match stage {
            Stage::Pending => &mut self.pending,
            Stage::InFlight => &mut self.in_flight,
            Stage::Done => &mut self.done,
            Stage::Failed => &mut self.failed,
            Stage::Left => &mut self.left,
        }
    }

    /// All of them.
    pub(super) fn total(&self) -> usize {
        self.pending + self.in_flight + self.done + self.failed + self.left
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.pending += other.pending;
        self.in_flight += other.in_flight;
        self.done += other.done;
        self.failed += other.failed;
        self.left += other.left;
    }
}

/// A node on its way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flight {
    pub(super) since: Timestamp,
    /// What it is waited for; unset while nothing was seen of a node that may have converged already.
    pub(super) waiting: Option<Waiting>,
}

/// A node that the plan has a step for.
#[derive(Debug, Clone, Copy)]
struct Member {
    stage: Stage,
    kind: WaveKind,
}

/// A pool.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) name: PoolName,
    pub(super) start: Timestamp,
    pub(super) counts: Counts,
    pub(super) in_flight: BTreeMap<NodeName, Flight>,
    pub(super) gate: Gate,
    /// Why it stopped.
    pub(super) stopped: Option<String>,
    /// When the last of its nodes was done.
    pub(super) done: Option<Timestamp>,
    /// How many nodes may be on their way at once; `None` where somebody else decides that.
    budget: Option<usize>,
    soak: Duration,
    /// How long a node may take.
    timeout: Duration,
    members: BTreeMap<NodeName, Member>,
    /// The transitions that were timed, and the seconds that they took together.
    pub(super) timed: (usize, f64),
    /// Since when nothing but the budget holds nodes back, and how many have converged since.
    open: Option<(Timestamp, usize)>,
}

impl Pool {
    /// A pool before anything has happened. `assigns`: its nodes are assigned, not only watched.
    pub(super) fn new(plan: &PoolPlan, assigns: bool, start: Timestamp) -> Self {
        let unavailable = plan.left_alone.iter().filter(|left| left.unavailable).count();
        let mut pool = Self {
            name: plan.name.clone(),
            start,
            counts: Counts::default(),
            in_flight: BTreeMap::new(),
            gate: Gate::Open,
            stopped: None,
            done: None,
            budget: assigns.then(|| plan.budget.saturating_sub(unavailable)),
            soak: Duration::ZERO,
            timeout: plan.policy.convergence_timeout,
            members: BTreeMap::new(),
            timed: (0, 0.0),
            open: None,
        };
        let mut canaries = 0;
        for wave in &plan.waves {
            if let WaveKind::Canary { soak_seconds } = wave.kind {
                pool.soak = Duration::from_secs(soak_seconds);
                canaries = wave.steps.len();
            }
            for step in &wave.steps {
                pool.join(step, wave.kind, assigns);
            }
        }
        if assigns && canaries > 0 {
            pool.gate = Gate::Canaries { left: canaries, soak: pool.soak };
        } else {
            pool.open = Some((start, 0));
        }
        pool
    }

    fn join(&mut self, step: &Step, kind: WaveKind, assigns: bool) {
        let stage = match &step.action {
            Action::Assign if assigns => Stage::Pending,
            Action::Assign => {
                self.in_flight
                    .insert(step.node.clone(), Flight { since: self.start, waiting: Some(Waiting::NotAssigned) });
                Stage::InFlight
            }
            Action::Await { waiting, .. } => {
                self.in_flight.insert(step.node.clone(), Flight { since: self.start, waiting: waiting.clone() });
                Stage::InFlight
            }
        };
        *self.counts.of(stage) += 1;
        self.members.insert(step.node.clone(), Member { stage, kind });
    }

    /// Takes what happened. What it tells of nodes that the plan leaves alone is no part of the picture.
    pub(super) fn apply(&mut self, now: Timestamp, progress: &Progress) {
        match progress {
            Progress::Assigned { node, .. } => {
                if self.settle(node, Stage::InFlight) {
                    self.in_flight.insert(node.clone(), Flight { since: now, waiting: Some(Waiting::NotAcknowledged) });
                }
                if self.members.get(node).is_some_and(|member| member.kind == WaveKind::Rest) {
                    self.opened(now);
                }
            }
            Progress::Waiting { node, waiting, .. } => self.waits(node, waiting, now),
            Progress::Converged { node, seconds, .. } => {
                let first = self.members.get(node).is_some_and(|member| member.stage == Stage::InFlight);
                if first && self.settle(node, Stage::Done) {
                    self.timed = (self.timed.0 + 1, self.timed.1 + seconds);
                    self.open = self.open.map(|(since, finished)| (since, finished + 1));
                }
            }
            Progress::Changed { node, .. } | Progress::Gone { node, .. } => {
                self.settle(node, Stage::Left);
            }
            // Nothing is left to wait for; one that failed has failed all the same.
            Progress::RolledBack { node, .. } if !self.has_failed(node) => {
                self.settle(node, Stage::Left);
            }
            Progress::Failed { node, .. } | Progress::Refused { node, .. } | Progress::NotBack { node, .. } => {
                self.settle(node, Stage::Failed);
            }
            Progress::Soaking { until, .. } => self.gate = Gate::Soaking { until: *until },
            Progress::Soaked { .. } => self.opened(now),
            Progress::Stopped { reason, .. } => {
                self.gate = Gate::Open;
                self.stopped = Some(reason.to_string());
            }
            _ => {}
        }
        let over = self.counts.done + self.counts.left == self.counts.total();
        self.done = if over { self.done.or(Some(now)) } else { None };
    }

    fn has_failed(&self, node: &NodeName) -> bool {
        self.members.get(node).is_some_and(|member| member.stage == Stage::Failed)
    }

    fn waits(&mut self, node: &NodeName, waiting: &Waiting, now: Timestamp) {
        if let Some(flight) = self.in_flight.get_mut(node) {
            flight.waiting = Some(waiting.clone());
        } else if self.settle(node, Stage::InFlight) {
            // A canary that had converged, and has lost it while it soaks.
            self.in_flight.insert(node.clone(), Flight { since: now, waiting: Some(waiting.clone()) });
            if matches!(self.gate, Gate::Soaking { .. }) {
                self.gate = Gate::Canaries { left: 1, soak: self.soak };
            }
        }
    }

    /// Moves a node to another stage. Whether it is one of the plan's.
    fn settle(&mut self, node: &NodeName, stage: Stage) -> bool {
        let Some(member) = self.members.get_mut(node) else { return false };
        let before = std::mem::replace(&mut member.stage, stage);
        let is_canary = matches!(member.kind, WaveKind::Canary { .. });
        *self.counts.of(before) -= 1;
        *self.counts.of(stage) += 1;
        if stage != Stage::InFlight {
            self.in_flight.remove(node);
        }
        if let Gate::Canaries { left, soak } = self.gate
            && is_canary
            && stage == Stage::Done
        {
            self.gate = Gate::Canaries { left: left.saturating_sub(1), soak };
        }
        true
    }

    fn opened(&mut self, now: Timestamp) {
        self.gate = Gate::Open;
        self.open.get_or_insert((now, 0));
    }

    /// How it gets on. `mean`: how long a node takes in other pools, for one where none has finished.
    pub(super) fn pace(&self, now: Timestamp, mean: Option<f64>) -> Pace {
        let stopped = self.stopped.is_some();
        let ages = || self.in_flight.values().map(|flight| seconds(flight.since, now));
        let (oldest, youngest) = (ages().fold(0.0, f64::max), ages().reduce(f64::min).unwrap_or(0.0));
        Pace {
            pending: if stopped { 0 } else { self.counts.pending },
            in_flight: self.counts.in_flight,
            oldest,
            youngest,
            parallel: self.budget.map(|budget| budget.saturating_sub(self.counts.failed)),
            mean: mean_of(self.timed).or(mean),
            finished: self.open.map_or(0, |(_, finished)| finished),
            open: self.open.map_or(0.0, |(since, _)| seconds(since, now)),
            gate: self.gate,
            timeout: self.timeout.as_secs_f64(),
        }
    }

    /// How much there is to see: what went wrong, then what happens, then what is to come, then what is over.
    pub(super) fn rank(&self) -> u8 {
        if self.counts.failed > 0 || self.stopped.is_some() {
            0
        } else if self.counts.in_flight > 0 || matches!(self.gate, Gate::Soaking { .. }) {
            1
        } else if self.done.is_none() {
            2
        } else {
            3
        }
    }
}

/// How long a node took on average, in seconds; of none nothing is known.
pub(super) fn mean_of((nodes, seconds): (usize, f64)) -> Option<f64> {
    (nodes > 0).then(|| seconds / nodes as f64)
}
