//! State of one pool in the live display: the rollout's state, and the times of its nodes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::estimate::{Pace, seconds};
use nodecfg_contract::names::{GateName, NodeName, PoolName};
use nodecfg_plan::convergence::Waiting;
use nodecfg_plan::{Action, PoolPlan, WaveDomain, WaveKind};
use nodecfg_rollout::machine::Mode;
use nodecfg_rollout::progress::{Event, NodeCounts, PoolState, Progress, StartGate};

/// A node in transition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InFlightNode {
    pub(super) since: Timestamp,
    /// What the node waits for. Unset until the first observation of a node that may have converged already.
    pub(super) waiting: Option<Waiting>,
}

/// State of a pool.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) name: PoolName,
    pub(super) start: Timestamp,
    pub(super) counts: NodeCounts,
    pub(super) in_flight: BTreeMap<NodeName, InFlightNode>,
    pub(super) gate: StartGate,
    /// The canaries that have not converged.
    pub(super) canaries: usize,
    /// Why the pool stopped.
    pub(super) stopped: Option<String>,
    /// Why no further node starts now.
    pub(super) held: Option<String>,
    /// The gates that delay the pool, and why.
    pub(super) closed_gates: BTreeMap<GateName, String>,
    /// When the last node finished.
    pub(super) done: Option<Timestamp>,
    /// The latest known end of a trial, once the pool waits for trials only.
    pub(super) trials_end: Option<Timestamp>,
    /// The maximum number of nodes in transition. `None` if another client assigns nodes.
    budget: Option<usize>,
    /// The soak time of canaries, in seconds.
    soak: f64,
    /// The soak times before the domains that have not begun, in seconds.
    domain_soaks: VecDeque<f64>,
    /// The limits of the steps that have not begun to soak, and their soak time in seconds.
    steps: Vec<usize>,
    step_soak: f64,
    /// Whether the latest soak of a stage was that before a domain.
    soaks_before_domain: bool,
    /// The least time between two starts, in seconds.
    interval: f64,
    /// The time after which a node counts as failed.
    timeout: Duration,
    /// The number of timed nodes and the sum of their durations in seconds.
    pub(super) timed: (usize, f64),
    /// When the gate opened or the latest domain began, and the nodes that converged since.
    open: Option<(Timestamp, usize)>,
}

impl Pool {
    /// The state before the first event.
    pub(super) fn new(plan: &PoolPlan, mode: &Mode, start: Timestamp) -> Self {
        let assigns = mode.assign;
        let unavailable = plan.left_alone.iter().filter(|left| left.unavailable).count();
        let in_flight: BTreeMap<NodeName, InFlightNode> = plan
            .steps()
            .filter_map(|step| match &step.action {
                Action::Assign if assigns => None,
                Action::Assign => Some((step, Some(Waiting::NotAssigned))),
                Action::Await { waiting, .. } => Some((step, waiting.clone())),
            })
            .map(|(step, waiting)| (step.node.clone(), InFlightNode { since: start, waiting }))
            .collect();
        let pending = plan.steps().count() - in_flight.len();
        let canaries = plan.waves.iter().filter(|_| assigns).find_map(|wave| match wave.kind {
            WaveKind::Canary { soak_seconds } if !wave.steps.is_empty() => {
                Some((wave.steps.len(), mode.real_duration(Duration::from_secs(soak_seconds))))
            }
            _ => None,
        });
        let (canaries, soak) = canaries.unwrap_or_default();
        let domains = plan.waves.iter().filter(|_| assigns).filter_map(|wave| wave.domain.as_ref());
        let domain_soak =
            |domain: &WaveDomain| mode.real_duration(Duration::from_secs(domain.soak_seconds.unwrap_or_default()));
        Self {
            name: plan.name.clone(),
            start,
            counts: NodeCounts { pending, in_flight: in_flight.len(), ..NodeCounts::default() },
            in_flight,
            gate: if canaries > 0 { StartGate::Canaries } else { StartGate::Open },
            canaries,
            stopped: None,
            held: None,
            closed_gates: BTreeMap::new(),
            done: None,
            trials_end: None,
            budget: assigns.then(|| plan.budget.saturating_sub(unavailable)),
            soak: soak.as_secs_f64(),
            domain_soaks: domains.map(|domain| domain_soak(domain).as_secs_f64()).collect(),
            steps: if assigns { plan.step_limits() } else { Vec::new() },
            step_soak: mode.real_duration(plan.policy.steps.soak).as_secs_f64(),
            soaks_before_domain: false,
            interval: if assigns { mode.real_duration(plan.policy.interval).as_secs_f64() } else { 0.0 },
            timeout: mode.time_limit(&plan.policy),
            timed: (0, 0.0),
            open: (canaries == 0).then_some((start, 0)),
        }
    }

    /// Handles an event, with the state of the pool right after the event.
    pub(super) fn apply(&mut self, now: Timestamp, event: &Event, state: &PoolState) {
        (self.counts, self.canaries, self.trials_end) = (state.counts, state.canaries, state.trials_end);
        match (&event.progress, &event.node) {
            (Progress::Assigned { .. }, Some(node)) => {
                self.in_flight
                    .insert(node.clone(), InFlightNode { since: now, waiting: Some(Waiting::NotAcknowledged) });
            }
            // Includes a converged canary that becomes unready while it soaks.
            (Progress::Waiting { waiting }, Some(node)) => {
                let flight = self.in_flight.entry(node.clone()).or_insert(InFlightNode { since: now, waiting: None });
                flight.waiting = Some(waiting.clone());
            }
            (Progress::Converged { seconds, .. }, Some(node)) if self.in_flight.remove(node).is_some() => {
                self.timed = (self.timed.0 + 1, self.timed.1 + seconds);
                self.open = self.open.map(|(since, finished)| (since, finished + 1));
            }
            (
                Progress::Failed { .. }
                | Progress::RolledBack { .. }
                | Progress::RollbackFailed { .. }
                | Progress::Changed { .. }
                | Progress::Gone,
                Some(node),
            ) => drop(self.in_flight.remove(node)),
            (Progress::Stopped { reason }, _) => self.stopped = Some(reason.to_string()),
            (Progress::PoolHeld { hold, .. }, _) => self.held = Some(hold.to_string()),
            (Progress::GateClosed { gate, why }, _) => drop(self.closed_gates.insert(gate.clone(), why.clone())),
            (Progress::DomainStarted { .. }, _) => {
                self.domain_soaks.pop_front();
                self.open = Some((now, 0));
            }
            (Progress::DomainSoaking { .. }, _) => self.soaks_before_domain = true,
            (Progress::StepSoaking { begun, .. }, _) => {
                self.soaks_before_domain = false;
                self.steps.retain(|limit| limit > begun);
            }
            (Progress::StepStarted { limit }, _) => {
                self.steps.retain(|step| limit.is_some_and(|limit| *step >= limit));
                self.open = Some((now, 0));
            }
            (Progress::GateOpened { gate }, _) => drop(self.closed_gates.remove(gate)),
            _ => {}
        }
        if state.gate == StartGate::Open {
            self.open.get_or_insert((now, 0));
        }
        self.gate = if self.stopped.is_some() { StartGate::Open } else { state.gate };
        let over = self.counts.done + self.counts.left == self.counts.total();
        self.done = if over { self.done.or(Some(now)) } else { None };
    }

    /// The progress of the pool. `mean` is the mean duration of a node in all pools, for a pool without finished
    /// nodes.
    pub(super) fn pace(&self, now: Timestamp, mean: Option<f64>) -> Pace {
        let stopped = self.stopped.is_some() || self.held.is_some();
        let ages = || self.in_flight.values().map(|flight| seconds(flight.since, now));
        let (oldest, youngest) = (ages().fold(0.0, f64::max), ages().reduce(f64::min).unwrap_or(0.0));
        let skipped = match self.gate {
            _ if stopped => usize::MAX,
            StartGate::SoakingStage { .. } if self.soaks_before_domain => 1,
            _ => 0,
        };
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
            stage_soaks: self.domain_soaks.iter().skip(skipped).sum::<f64>()
                + if stopped { 0.0 } else { self.steps.len() as f64 * self.step_soak },
            interval: self.interval,
            timeout: self.timeout.as_secs_f64(),
        }
    }

    /// The display priority: problems first, then active pools, then pending ones, then finished ones.
    pub(super) fn rank(&self) -> u8 {
        if self.counts.failed > 0 || self.stopped.is_some() {
            0
        } else if self.counts.in_flight > 0 || self.gate.soaks_until().is_some() {
            1
        } else if self.done.is_none() {
            2
        } else {
            3
        }
    }
}

/// The mean duration of a node in seconds. `None` without nodes.
pub(super) fn mean_of((nodes, seconds): (usize, f64)) -> Option<f64> {
    (nodes > 0).then(|| seconds / nodes as f64)
}
