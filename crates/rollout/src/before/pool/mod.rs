//! Rollout of one pool: its budget, its canaries, the start of nodes and the stop of the pool.
//!
//! [`node_events`] handles the events of single nodes, [`canaries`] those of the gate, [`domains`] the order of zones,
//! [`drains`] those of drains, [`held`] those of nodes that must not start, [`rollbacks`] those of rollbacks, [`proof`]
//! what a node must have again, [`trials`] the trials of converged nodes, [`new_nodes`] nodes that are not assigned.
//! [`queues`] decides the order of starts, [`windows`] their time, [`fleet`] the turn of the pool. [`node_state`] is one
//! node, [`node_table`] all of them with their counts. [`pointer`] moves the pointer for new nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use self::node_state::{Group, Mark, NodeState, Phase, Purpose, Rollback};
use self::node_table::NodeTable;
use super::signals::{Command, Context, Mode};
use crate::forecast::PoolStart;
use crate::progress::{Event, PoolState, Progress, StartGate};
use crate::{End, NodeOutcome, PoolOutcome, StopReason};
use kubelet_config::risk::Class;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_planning::convergence::{ConvergenceFailure, Target};
use nodecfg_planning::drain::DrainPolicy;
use nodecfg_planning::hold::Hold;
use nodecfg_planning::instant::Instant;
use nodecfg_planning::plan::{PoolPlan, WaveKind};

mod canaries;
mod domains;
mod drains;
mod fleet;
mod gates;
mod held;
mod new_nodes;
mod node_events;
mod node_state;
mod node_table;
mod pointer;
mod proof;
mod queues;
mod rollbacks;
mod trials;
mod windows;

use self::domains::Domains;
use self::fleet::OtherPools;
pub(super) use self::fleet::Turn;
use self::gates::Gates;
use self::new_nodes::Unassigned;
use self::pointer::PointerRun;
use self::trials::TrialWait;
use self::windows::Windows;

/// Maximum number of unavailable nodes that the report of an exhausted budget names.
const MAX_EXAMPLES: usize = 3;

/// Rollout of one pool. Nodes are identified by their number in the table.
#[derive(Debug)]
pub(super) struct PoolRun {
    fleet: FleetName,
    name: PoolName,
    target: Target,
    budget: usize,
    soak: Duration,
    timeout: Duration,
    drain_policy: DrainPolicy,
    /// Highest disruption class that a drained node is prepared for.
    drained_disruption: Class,
    /// Time limit from the mark of a node to its assignment.
    drain_timeout: Duration,
    /// Time that a drained node must stay Ready before its release, and that pods have to become Ready again.
    settle: Duration,
    /// Whether the pods of assigned nodes are checked.
    checks_pods: bool,
    max_failures: u32,
    mode: Mode,
    /// Whether the rollout has started.
    started: bool,
    nodes: NodeTable,
    /// Number of nodes that the plan has a step for.
    steps: usize,
    /// Pending nodes that need no budget: unavailable nodes, and nodes that already point at the target.
    unavailable_first: VecDeque<usize>,
    /// Unavailable nodes that must be drained. They need no budget, but drains are limited by it.
    unavailable_drains: VecDeque<usize>,
    /// Nodes whose rollback needs budget: it drains them, or they have converged.
    rollback_drains: VecDeque<usize>,
    /// Time since which the budget delays these rollbacks.
    rollback_stalled_since: Option<Instant>,
    /// Nodes whose mark was requested and not released.
    marked: BTreeSet<usize>,
    canaries: VecDeque<usize>,
    /// All canaries, started or not.
    canary_members: Vec<usize>,
    /// Nodes that need budget, of the domains that have begun.
    rest: VecDeque<usize>,
    domains: Domains,
    gate: StartGate<Instant>,
    failures: u32,
    last_failed: Option<NodeName>,
    stopped: Option<StopReason>,
    windows: Windows,
    others: OtherPools,
    gates: Gates,
    /// Whether a gate that stops the pool rolls back all nodes of this run.
    rollback_on_gate_failure: bool,
    /// Why no further node may start in this run. Nodes in transition, also draining ones, go on to their end.
    held: Option<Hold>,
    /// Whether nodes that have not converged are rolled back.
    rolling_back: bool,
    /// Whether converged nodes of this run are rolled back, too.
    is_returning: bool,
    /// Time since which nodes are pending although no node is in transition or soaks.
    stalled_since: Option<Instant>,
    /// Wait for the trials of the nodes.
    trials: TrialWait,
    /// Creation times of the watched nodes that never had a configuration.
    new_nodes: BTreeMap<usize, Timestamp>,
    /// Whether watched nodes that are not assigned are waited for.
    unassigned: Unassigned,
    pointer: PointerRun,
}

impl PoolRun {
    pub(super) fn new(fleet: &FleetName, plan: &PoolPlan, mode: Mode) -> Self {
        let drain = &plan.policy.drain;
        let checks_pods = plan.policy.check_pods && mode.list_pods && mode.assign;
        let mut run = Self {
            fleet: fleet.clone(),
            name: plan.name.clone(),
            target: plan.target.clone(),
            budget: plan.budget,
            soak: Duration::ZERO,
            timeout: mode.time_limit(&plan.policy),
            drain_policy: drain.clone(),
            drained_disruption: plan.policy.max_disruption(true),
            drain_timeout: mode.real_duration(drain.timeout),
            settle: mode.real_duration(drain.settle),
            checks_pods,
            max_failures: plan.policy.max_failures,
            mode,
            started: false,
            nodes: NodeTable::with_capacity(plan.nodes),
            steps: plan.steps().count(),
            unavailable_first: VecDeque::new(),
            unavailable_drains: VecDeque::new(),
            rollback_drains: VecDeque::new(),
            rollback_stalled_since: None,
            marked: BTreeSet::new(),
            canaries: VecDeque::new(),
            canary_members: Vec::new(),
            rest: VecDeque::new(),
            domains: Domains::new(plan, &mode),
            gate: StartGate::Open,
            failures: 0,
            last_failed: None,
            stopped: None,
            windows: Windows::new(plan, &mode, checks_pods),
            others: OtherPools::new(plan, &mode),
            gates: Gates::new(plan, &mode),
            rollback_on_gate_failure: plan.policy.rollback_on_gate_failure,
            held: None,
            rolling_back: false,
            is_returning: false,
            stalled_since: None,
            trials: TrialWait::default(),
            new_nodes: BTreeMap::new(),
            unassigned: Unassigned::Awaited,
            pointer: PointerRun::new(plan.pointer.as_ref()),
        };
        for left in &plan.left_alone {
            run.nodes.add(NodeState::left_alone(left, &plan.target));
        }
        for wave in &plan.waves {
            let group = match wave.kind {
                WaveKind::Unavailable => Group::Unavailable,
                WaveKind::Canary { soak_seconds } => {
                    run.soak = mode.real_duration(Duration::from_secs(soak_seconds));
                    run.gate = StartGate::Canaries;
                    Group::Canary
                }
                WaveKind::Rest => Group::Rest,
            };
            for step in &wave.steps {
                let number = run.nodes.add(NodeState::planned(step, group));
                if step.marked && mode.assign {
                    run.marked.insert(number);
                }
                run.queue(number, group);
            }
        }
        if !mode.assign {
            run.gate = StartGate::Open;
        }
        run
    }

    pub(super) fn node_names(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.names()
    }

    pub(super) fn index_of(&self, node: &NodeName) -> Option<usize> {
        self.nodes.number_of(node)
    }

    pub(super) fn budget(&self) -> (usize, usize) {
        (self.nodes.unavailable(), self.budget)
    }

    /// Reports an event with the present state of the pool.
    fn report(&self, progress: Progress, context: &mut Context<'_>) {
        let pool = PoolState {
            counts: self.nodes.counts(self.steps),
            gate: self.gate.by(|until| context.time_at(until)),
            canaries: if self.gate == StartGate::Canaries { self.canaries_left() } else { 0 },
            last_failed: self.last_failed.clone(),
            trials_end: self.trials.end.filter(|_| self.trials.announced),
        };
        context.commands.push(Command::Report(Box::new(Event { progress, pool: Some(pool) })));
    }

    /// Reports an event of one node.
    fn report_node(
        &self,
        number: usize,
        context: &mut Context<'_>,
        progress: impl FnOnce(PoolName, NodeName) -> Progress,
    ) {
        if let Some(node) = self.nodes.get(number) {
            self.report(progress(self.name.clone(), node.name.clone()), context);
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_finished_but_for_trials() && !self.awaits_trials()
    }

    fn is_finished_but_for_trials(&self) -> bool {
        let idle = self.nodes.in_flight() == 0 && self.rollback_drains.is_empty();
        let is_done = self.nodes.pending() == 0 && !self.pointer_awaits_soak();
        idle && (is_done || self.stopped.is_some() || self.held.is_some())
    }

    /// Whether the pool starts nodes, waits for unavailable ones, is held, or has stopped.
    pub(super) fn pool_start(&self) -> PoolStart {
        match (&self.stopped, &self.held) {
            (Some(reason), _) => PoolStart::Stops { reason: reason.clone() },
            (None, Some(hold)) => PoolStart::Held { hold: hold.clone() },
            (None, None) if self.stalled_since.is_some() => PoolStart::Waits,
            (None, None) => PoolStart::Starts,
        }
    }

    pub(super) fn start(&mut self, context: &mut Context<'_>) {
        self.started = true;
        if !self.mode.assign {
            // `verify` watches every pending node from the start, assigned or not.
            for number in self.nodes.numbers() {
                if self.nodes.in_phase(number, &Phase::Pending).is_some() {
                    self.watch(number, context);
                }
            }
            return;
        }
        // Counts known failures on this target before any node is assigned.
        for number in self.nodes.numbers() {
            if let Some(failure) = self.nodes.get(number).and_then(|node| node.known_failure.clone()) {
                self.fail(number, failure, Duration::ZERO, context);
            }
        }
        if !self.waits_for().is_empty() {
            return self.watch_awaited(context);
        }
        self.await_gates(context);
        self.advance_canaries(context);
        self.start_more(context);
    }

    /// Starts every node that may start now.
    fn start_more(&mut self, context: &mut Context<'_>) {
        // Settled nodes are observed before the start, which counts the known failures.
        if !self.started || !self.mode.assign {
            return;
        }
        self.start_rollback_drains(context);
        if self.stopped.is_some() || self.held.is_some() || !self.waits_for().is_empty() {
            return;
        }
        self.advance_domains(context);
        while self.nodes.assigning() < self.mode.concurrency.max(1) {
            if !self.gates_permit(context.now) {
                self.watch_awaited(context);
                self.stalled_since = None;
                return;
            }
            let Some(number) = self.next(context.time) else { break };
            self.start_node(number, context);
        }
        self.hold_late_nodes(context);
        if self.held.is_none() {
            self.watch_for_stall(context);
        }
    }

    fn start_node(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.in_phase(number, &Phase::Pending) else { return };
        let needs_drain = node.needs_drain;
        match node.assignment.clone() {
            Some(_) if needs_drain => {
                self.node_started();
                self.begin_drain(number, Purpose::Assign, context);
            }
            Some(assignment) => {
                self.node_started();
                self.list_or_assign(number, assignment, context);
            }
            None => self.watch(number, context),
        }
    }

    fn watch(&mut self, number: usize, context: &mut Context<'_>) {
        self.nodes.set(number, Phase::Watching { since: context.now });
        context.timers.wake(context.now.after(self.timeout), &self.name, Some(number));
    }

    /// Detects a pool whose pending nodes only wait for unavailable nodes to recover. Stops the pool at once if
    /// failed nodes use up the budget, and otherwise after the time limit of one node.
    fn watch_for_stall(&mut self, context: &mut Context<'_>) {
        let waits = self.awaits_other_pools() || self.gate.soaks_until().is_some();
        let stalled = self.nodes.pending() > 0 && self.nodes.in_flight() == 0 && !waits;
        match (stalled, self.stalled_since) {
            (false, _) => self.stalled_since = None,
            (true, Some(_)) => {}
            (true, None) if self.nodes.failed() >= self.budget => {
                let reason = self.budget_exhausted();
                self.stop(&reason, context);
            }
            (true, None) => {
                self.stalled_since = Some(context.now);
                context.timers.wake(context.now.after(self.timeout), &self.name, None);
            }
        }
    }

    /// Reports whether only the budget delays the start of a pending node.
    fn is_gate_open_for(&self, number: usize) -> bool {
        self.nodes.get(number).is_some_and(|node| match node.group {
            Group::Unavailable => true,
            Group::Canary => self.gate == StartGate::Canaries,
            Group::Rest => self.gate == StartGate::Open && self.is_turn_of(node),
        })
    }

    /// Handles the timer of a node, or of the pool (`None`).
    pub(super) fn timer_fired(&mut self, node: Option<usize>, context: &mut Context<'_>) {
        match node {
            Some(number) => {
                if let Some(waiting) = self.overdue_rollback(number, context) {
                    self.rollback_failed(number, ConvergenceFailure::TimedOut { waiting }, context);
                    self.start_more(context);
                    return;
                }
                self.end_overdue_trial(number, context);
                if self.drain_timer(number, context) {
                    self.advance_canaries(context);
                    self.start_more(context);
                    return;
                }
                let Some(node) = self.nodes.get(number) else { return };
                let Phase::Watching { since } = node.phase else { return };
                let waited = context.now.since(since);
                if waited >= self.timeout {
                    let failure = ConvergenceFailure::TimedOut { waiting: node.waiting.clone() };
                    self.fail(number, failure, waited, context);
                }
            }
            None => {
                self.abandon_stalled_rollbacks(context);
                if let Some(until) = self.gate.soaks_until()
                    && !self.rolling_back
                    && context.now >= until
                {
                    self.end_soak(context);
                }
                self.advance_gates(context);
                if let Some(since) = self.stalled_since
                    && context.now.since(since) >= self.timeout
                {
                    let reason = self.budget_exhausted();
                    self.stop(&reason, context);
                }
            }
        }
        self.advance_canaries(context);
        self.start_more(context);
    }

    fn budget_exhausted(&self) -> StopReason {
        if let Some((budget, elsewhere)) = self.others.limit().filter(|_| self.others.room() < self.budget) {
            return StopReason::FleetBudgetExhausted { budget, unavailable: elsewhere + self.nodes.unavailable() };
        }
        StopReason::BudgetExhausted {
            budget: self.budget,
            unavailable: self.nodes.unavailable(),
            examples: self
                .nodes
                .iter()
                .filter(|node| node.unavailable())
                .map(|node| node.name.clone())
                .take(MAX_EXAMPLES)
                .collect(),
        }
    }

    /// Starts no further node, also none whose hold ends later, and moves no pointer. Nodes in transition are watched to
    /// their end. Has no effect if nothing is left to start.
    pub(super) fn stop(&mut self, reason: &StopReason, context: &mut Context<'_>) {
        if self.abandon_trials(reason) && self.stopped.is_none() {
            return self.mark_stopped(reason, context);
        }
        let starting = || self.nodes.iter().any(|node| node.is_starting());
        let is_left =
            self.nodes.pending() > 0 || self.nodes.iter().any(NodeState::is_held) || self.pointer_awaits_soak();
        let may_start = is_left && self.held.is_none();
        if self.stopped.is_some() || !(may_start || starting()) {
            return;
        }
        self.mark_stopped(reason, context);
    }

    /// Handles what follows from every event: the pointer, marks of nodes whose part has ended, and the wait for trials.
    pub(super) fn finish_step(&mut self, context: &mut Context<'_>) {
        self.advance_pointer(context);
        self.release_ended(context);
        self.announce_trials(context);
    }

    fn mark_stopped(&mut self, reason: &StopReason, context: &mut Context<'_>) {
        self.stopped = Some(reason.clone());
        self.stalled_since = None;
        self.abandon_lists();
        self.abandon_drains(context);
        self.report(Progress::Stopped { pool: self.name.clone(), reason: reason.clone() }, context);
    }

    /// Starts no further node, and rolls back the nodes that have not converged and the canaries that soak. Waits for
    /// the responses to assignments first. Has no effect for `verify`.
    pub(super) fn roll_back_all(&mut self, reason: &StopReason, context: &mut Context<'_>) {
        if !self.mode.assign {
            return;
        }
        self.stop(reason, context);
        self.rolling_back = true;
        for number in self.nodes.numbers() {
            // An operator may have removed what prevented an earlier rollback.
            self.nodes.update(number, |node| node.keeps_target = false);
            self.roll_back_node(number, context);
        }
        let awaits_rollback = |node: &NodeState| matches!(node.phase, Phase::RollbackSent { .. });
        let waits = !self.rollback_drains.is_empty() || self.nodes.iter().any(awaits_rollback);
        if self.stopped.is_none() && waits {
            self.mark_stopped(reason, context);
        }
        self.start_rollback_drains(context);
    }

    pub(super) fn outcome(&self) -> PoolOutcome {
        let held = self.held.as_ref().filter(|_| self.stopped.is_none() && self.nodes.pending() > 0);
        let is_held = held.is_some();
        let mut nodes = Vec::with_capacity(self.nodes.numbers().len());
        nodes.extend(self.nodes.by_name().map(|node| {
            let (mut end, seconds) = node.end();
            if end == End::NotStarted && is_held {
                end = End::Held;
            }
            let (from, to, trial) = (node.from.clone(), self.target.clone(), node.current_trial());
            let (drain, marked) = (node.drain_record.clone(), node.mark != Mark::None);
            let recovery = node.recovery();
            NodeOutcome { node: node.name.clone(), from, to, end, seconds, trial, drain, recovery, marked }
        }));
        // A requested stop that prevented no start and rolled back no node is not reported.
        let requested = self.stopped.as_ref().is_some_and(StopReason::is_requested);
        let was_rolled_back = |node: &NodeState| match &node.phase {
            Phase::RollbackSent { .. } | Phase::RollingBack { .. } | Phase::RolledBack { .. } => true,
            Phase::Failed { rollback, .. } => self.rolling_back && *rollback != Rollback::No,
            _ => node.keeps_target,
        };
        let prevented_nothing = requested
            && self.nodes.pending() == 0
            && !self.is_due_after_soak()
            && !self.nodes.iter().any(was_rolled_back);
        let stopped = self.stopped.as_ref().filter(|_| !prevented_nothing).or_else(|| self.stop_before_trials_ended());
        PoolOutcome { stopped: stopped.cloned(), held: held.cloned(), nodes }
    }
}
