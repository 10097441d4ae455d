//! One pool while it is rolled out: its state as the rollout reports it, and the times that a view adds.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::estimate::{Pace, seconds};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_planning::judge::Waiting;
use nodecfg_planning::plan::{Action, PoolPlan, WaveKind};
use nodecfg_planning::rollout::progress::{Gate, NodeCounts, PoolState, Progress};

/// A node on its way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flight {
    pub(super) since: Timestamp,
    /// What it is waited for; unset while nothing was seen of a node that may have converged already.
    pub(super) waiting: Option<Waiting>,
}

/// A pool.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) name: PoolName,
    pub(super) start: Timestamp,
    pub(super) counts: NodeCounts,
    pub(super) in_flight: BTreeMap<NodeName, Flight>,
    pub(super) gate: Gate,
    /// How many canaries have not converged.
    pub(super) canaries: usize,
    /// Why it stopped.
    pub(super) stopped: Option<String>,
    /// When the last of its nodes was done.
    pub(super) done: Option<Timestamp>,
    /// How many nodes may be on their way at once; `None` where somebody else decides that.
    budget: Option<usize>,
    /// How long canaries soak, in seconds.
    soak: f64,
    /// How long a node may take.
    timeout: Duration,
    /// The transitions that were timed, and the seconds that they took together.
    pub(super) timed: (usize, f64),
    /// Since when nothing but the budget holds nodes back, and how many have converged since.
    open: Option<(Timestamp, usize)>,
}

impl Pool {
    /// A pool before anything has happened. `assigns`: its nodes are assigned, not only watched.
    pub(super) fn new(plan: &PoolPlan, assigns: bool, start: Timestamp) -> Self {
        let unavailable = plan.left_alone.iter().filter(|left| left.unavailable).count();
        let in_flight: BTreeMap<NodeName, Flight> = plan
            .steps()
            .filter_map(|step| match &step.action {
                Action::Assign if assigns => None,
                Action::Assign => Some((step, Some(Waiting::NotAssigned))),
                Action::Await { waiting, .. } => Some((step, waiting.clone())),
            })
            .map(|(step, waiting)| (step.node.clone(), Flight { since: start, waiting }))
            .collect();
        let pending = plan.steps().count() - in_flight.len();
        let canaries = plan.waves.iter().filter(|_| assigns).find_map(|wave| match wave.kind {
            WaveKind::Canary { soak_seconds } if !wave.steps.is_empty() => Some((wave.steps.len(), soak_seconds)),
            _ => None,
        });
        let (canaries, soak) = canaries.unwrap_or_default();
        Self {
            name: plan.name.clone(),
            start,
            counts: NodeCounts { pending, in_flight: in_flight.len(), ..NodeCounts::default() },
            in_flight,
            gate: if canaries > 0 { Gate::Canaries } else { Gate::Open },
            canaries,
            stopped: None,
            done: None,
            budget: assigns.then(|| plan.budget.saturating_sub(unavailable)),
            soak: soak as f64,
            timeout: plan.policy.convergence_timeout,
            timed: (0, 0.0),
            open: (canaries == 0).then_some((start, 0)),
        }
    }

    /// Takes what happened, and the state of the pool right after it.
    pub(super) fn apply(&mut self, now: Timestamp, progress: &Progress, state: &PoolState) {
        (self.counts, self.canaries) = (state.counts, state.canaries);
        match progress {
            Progress::Assigned { node, .. } => {
                self.in_flight.insert(node.clone(), Flight { since: now, waiting: Some(Waiting::NotAcknowledged) });
            }
            // Also a canary that had converged, and has lost that while it soaks.
            Progress::Waiting { node, waiting, .. } => {
                let flight = self.in_flight.entry(node.clone()).or_insert(Flight { since: now, waiting: None });
                flight.waiting = Some(waiting.clone());
            }
            Progress::Converged { node, seconds, .. } if self.in_flight.remove(node).is_some() => {
                self.timed = (self.timed.0 + 1, self.timed.1 + seconds);
                self.open = self.open.map(|(since, finished)| (since, finished + 1));
            }
            Progress::Failed { node, .. }
            | Progress::RolledBack { node, .. }
            | Progress::NotBack { node, .. }
            | Progress::Changed { node, .. }
            | Progress::Gone { node, .. } => drop(self.in_flight.remove(node)),
            Progress::Stopped { reason, .. } => self.stopped = Some(reason.to_string()),
            _ => {}
        }
        if state.gate == Gate::Open {
            self.open.get_or_insert((now, 0));
        }
        self.gate = if self.stopped.is_some() { Gate::Open } else { state.gate };
        let over = self.counts.done + self.counts.left == self.counts.total();
        self.done = if over { self.done.or(Some(now)) } else { None };
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
            canaries: self.canaries,
            soak: self.soak,
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
