//! Rollout of one pool.
//!
//! The pool is level-triggered. An event changes what is known of a node, and moves the node along its way ([`node`]):
//! wait, mark, drain, assign, converge, settle, release. A rollback takes the same way to another goal. After each event,
//! [`Pool::reconcile`] looks at the whole pool and does what has become possible: it opens gates, starts nodes that no
//! [blocker](blockers) holds, sends rollbacks, releases marks, and moves the pointer.

use std::time::Duration;

use self::blockers::Starts;
use self::blockers::order::Standing;
use self::node::{Node, Stage, Wave};
use self::pointer::PointerRun;
use self::rollback::Rollbacks;
pub(crate) use self::table::Id;
use self::table::{Count, Nodes};
use crate::instant::{Instant, Now};
use crate::intent::Intent;
use crate::outcome::{End, NodeOutcome, PoolOutcome, PoolStart, StopReason};
use crate::progress::{Event, PoolState, Progress, StartGate};
use crate::signals::{Command, Mode};
use crate::trials::Trials;
use kubelet_config::risk::Class;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_fleet::hold::Hold;
use nodecfg_plan::convergence::Target;
use nodecfg_plan::{PoolPlan, WaveKind};

pub(crate) mod blockers;
mod drain;
mod draining;
mod events;
mod evidence;
mod node;
mod pointer;
mod proof;
mod rollback;
mod settling;
mod table;

/// Maximum number of unavailable nodes that the report of an exhausted budget names.
const MAX_EXAMPLES: usize = 3;

/// Rollout of one pool.
#[derive(Debug)]
pub(crate) struct Pool {
    policy: Policy,
    nodes: Nodes,
    now: Now,
    commands: Vec<Command>,
    /// Whether the rollout has started. Before, nodes are only observed.
    is_on: bool,
    /// Whether canaries or a soak delay the start of nodes.
    gate: StartGate<Instant>,
    starts: Starts,
    failures: Failures,
    /// Whether a node was reported that does not acknowledge its assignment.
    has_reported_silence: bool,
    /// Why no further node starts.
    closed: Closed,
    rollbacks: Rollbacks,
    trials: Trials,
    pointer: PointerRun,
}

/// Time in which a Ready node acknowledges its assignment: an agent does within a second, a kubelet with its next status
/// (10 s).
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(30);

/// What does not change during a rollout.
#[derive(Debug)]
struct Policy {
    fleet: FleetName,
    name: PoolName,
    budget: usize,
    rules: RolloutPolicy,
    mode: Mode,
    limits: Limits,
    /// Whether the pods of assigned nodes are checked.
    checks_pods: bool,
    /// Highest disruption class that a drained node is prepared for.
    drained_disruption: Class,
    /// Number of nodes that the plan has a step for.
    steps: usize,
}

/// Durations in real time.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// From the assignment of a node to its convergence.
    node: Duration,
    /// From the mark of a node to its assignment.
    drain: Duration,
    /// Time that a drained node must stay Ready before its release, and that pods have to become Ready again.
    settle: Duration,
    /// From the assignment of a node to the report that it does not acknowledge it.
    acknowledgement: Duration,
    /// Soak of the canaries.
    soak: Duration,
    /// Soak between two domains.
    domain_soak: Duration,
    /// Soak of a step.
    step_soak: Duration,
    /// Between the starts of two nodes.
    interval: Duration,
    first_report: Duration,
}

#[derive(Debug, Default)]
struct Failures {
    number: u32,
    last: Option<NodeName>,
}

/// Why a pool starts no further node. A stop is a failure or an order; a hold ends with the next run.
#[derive(Debug, Default)]
struct Closed {
    stopped: Option<StopReason>,
    held: Option<Hold>,
}

impl Pool {
    pub(crate) fn new(fleet: &FleetName, plan: &PoolPlan, mode: Mode) -> Self {
        let rules = plan.policy.clone();
        let real = |duration| mode.real_duration(duration);
        let mut soak = Duration::ZERO;
        let mut gate = StartGate::Open;
        let left = plan.left_alone.iter().map(|left| Node::new(Intent::leave_alone(left, &plan.targets), Wave::Rest));
        let mut nodes: Vec<Node> = left.collect();
        for wave in &plan.waves {
            let of_node = match wave.kind {
                WaveKind::Unavailable => Wave::Unavailable,
                WaveKind::Canary { soak_seconds } => {
                    soak = real(Duration::from_secs(soak_seconds));
                    gate = StartGate::Canaries;
                    Wave::Canary
                }
                WaveKind::Rest => Wave::Rest,
            };
            nodes.extend(wave.steps.iter().map(|step| Node::new(Intent::follow(step, &plan.targets), of_node)));
        }
        let checks_pods = rules.check_pods && mode.list_pods;
        let policy = Policy {
            fleet: fleet.clone(),
            name: plan.name.clone(),
            budget: plan.budget,
            mode,
            limits: Limits {
                node: mode.time_limit(&rules),
                drain: real(rules.drain.timeout),
                settle: real(rules.drain.settle),
                acknowledgement: real(ACKNOWLEDGEMENT),
                soak,
                domain_soak: rules.order.as_ref().map_or(Duration::ZERO, |order| real(order.soak)),
                step_soak: real(rules.steps.soak),
                interval: real(rules.interval),
                first_report: real(proof::FIRST_REPORT),
            },
            checks_pods,
            drained_disruption: rules.max_disruption(true),
            steps: plan.steps().count(),
            rules,
        };
        Self {
            starts: Starts::new(plan, &policy),
            trials: Trials::new(&mode, policy.limits.node),
            policy,
            nodes: Nodes::new(nodes.into_iter()),
            now: Now::START,
            commands: Vec::new(),
            is_on: false,
            gate,
            failures: Failures::default(),
            has_reported_silence: false,
            closed: Closed::default(),
            rollbacks: Rollbacks::default(),
            pointer: PointerRun::new(plan.pointer.as_ref()),
        }
    }

    /// Handles an event, and does what has become possible. Returns the commands that follow.
    pub(crate) fn step(&mut self, now: Now, event: impl FnOnce(&mut Self)) -> Vec<Command> {
        self.now = now;
        self.starts.look(now);
        event(self);
        if self.is_on {
            self.reconcile();
        }
        self.release_ended();
        self.wake_nodes();
        std::mem::take(&mut self.commands)
    }

    /// Does what has become possible, until nothing more is.
    fn reconcile(&mut self) {
        self.starts.wakes = None;
        let mut commands = None;
        while commands != Some(self.commands.len()) {
            commands = Some(self.commands.len());
            self.advance_canaries();
            self.advance_gates();
            self.start_rollbacks();
            self.start_nodes();
        }
        self.advance_pointer();
        if self.is_finished_but_for_trials() {
            let announced = self.trials.announce(self.number(Count::OnTrial));
            announced.into_iter().for_each(|progress| self.report(progress));
        }
    }

    /// Begins the rollout. Known failures on this target count before any node is assigned.
    pub(crate) fn start(&mut self) {
        self.is_on = true;
        self.resume_steps();
        self.need_permits();
        for id in self.nodes.all() {
            if let Some(failure) = self.nodes[id].intent.known_failure().cloned() {
                self.fail(id, failure, Duration::ZERO);
            }
        }
    }

    /// Handles the time: nodes and waits of the pool that are due.
    pub(crate) fn tick(&mut self) {
        while let Some(id) = self.nodes.due(self.now.instant) {
            self.node_due(id);
        }
    }

    /// The next time at which the pool needs a tick.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.nodes.next_due().into_iter().chain(self.starts.wakes).min()
    }

    /// Starts no further node, also none whose hold ends later, and moves no pointer. Nodes in transition are watched to
    /// their end. Has no effect if nothing is left to start.
    pub(crate) fn stop(&mut self, reason: &StopReason) {
        let waited = self.awaits_trials() && self.is_finished_but_for_trials();
        if self.trials.abandon(reason) && waited && self.closed.stopped.is_none() {
            return self.mark_stopped(reason);
        }
        let is_left = self.number(Count::Pending) + self.number(Count::Held) > 0 || self.pointer_awaits_soak();
        let prevents = (is_left && self.closed.held.is_none()) || self.nodes.iter().any(Node::is_starting);
        if self.closed.stopped.is_none() && prevents {
            self.mark_stopped(reason);
        }
    }

    fn mark_stopped(&mut self, reason: &StopReason) {
        self.closed.stopped = Some(reason.clone());
        for id in self.nodes.all() {
            if self.nodes[id].is_unassigned() && self.nodes[id].is_starting() {
                self.return_to_start(id);
            }
        }
        self.report(Progress::Stopped { reason: reason.clone() });
    }

    /// Makes a node wait again whose pods are listed or evicted. It was not changed.
    fn return_to_start(&mut self, id: Id) {
        self.end_drain(id);
        self.nodes.update(id, |node| node.stage = Stage::Waiting);
    }

    /// Starts no further node of the pool in this run. Nodes in transition go on.
    fn hold(&mut self, hold: Hold) {
        self.closed.held = Some(hold.clone());
        let nodes = self.number(Count::Pending);
        self.report(Progress::PoolHeld { nodes, hold });
    }

    /// Reports whether the pool starts no further node.
    fn is_closed(&self) -> bool {
        self.closed.stopped.is_some() || self.closed.held.is_some()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished_but_for_trials() && !self.awaits_trials()
    }

    /// Reports whether the pool waits for trials, now or after its rollout.
    fn awaits_trials(&self) -> bool {
        self.trials.are_awaited(self.number(Count::OnTrial))
    }

    fn is_finished_but_for_trials(&self) -> bool {
        let is_idle = self.number(Count::InFlight) == 0 && !self.rollbacks.are_queued();
        let is_done = self.number(Count::Pending) == 0 && !self.pointer_awaits_soak();
        is_idle && (is_done || self.is_closed())
    }

    /// Whether the pool starts nodes, waits for unavailable ones, is held, or has stopped.
    pub(crate) fn pool_start(&self) -> PoolStart {
        match (&self.closed.stopped, &self.closed.held) {
            (Some(reason), _) => PoolStart::Stops { reason: reason.clone() },
            (None, Some(hold)) => PoolStart::Held { hold: hold.clone() },
            (None, None) if self.starts.stalled_since.is_some() => PoolStart::Waits,
            (None, None) => PoolStart::Starts,
        }
    }

    /// All nodes with their numbers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (&NodeName, Id)> {
        self.nodes.all().map(|id| (self.nodes[id].intent.name(), id))
    }

    /// Number of unavailable nodes, and the budget.
    pub(crate) fn budget(&self) -> (usize, usize) {
        (self.number(Count::Unavailable), self.policy.budget)
    }

    /// Number of nodes in transition.
    pub(crate) fn in_flight(&self) -> usize {
        self.number(Count::InFlight)
    }

    fn number(&self, count: Count) -> usize {
        self.nodes.number(count)
    }

    /// Looks at the pool again at this moment.
    fn wake(&mut self, at: Instant) {
        let at = Some(at).filter(|at| *at > self.now.instant);
        self.starts.wakes = self.starts.wakes.into_iter().chain(at).min();
    }

    /// Reports an event of the pool.
    fn report(&mut self, progress: Progress) {
        let state = PoolState {
            counts: self.nodes.reported(self.policy.steps),
            gate: self.gate.by(|until| self.now.time_at(until)),
            canaries: if self.gate == StartGate::Canaries { self.number(Count::CanariesLeft) } else { 0 },
            last_failed: self.failures.last.clone(),
            trials_end: self.trials.announced_end(),
        };
        let event = Event { progress, pool: Some(self.policy.name.clone()), node: None, state: Some(state) };
        self.commands.push(Command::Report(Box::new(event)));
    }

    /// Reports an event of one node.
    fn report_node(&mut self, id: Id, progress: Progress) {
        self.report(progress);
        if let Some(Command::Report(event)) = self.commands.last_mut() {
            event.node = Some(self.nodes[id].intent.name().clone());
        }
    }

    pub(crate) fn outcome(&self) -> PoolOutcome {
        let stopped = self.closed.stopped.as_ref();
        let held = self.closed.held.as_ref().filter(|_| stopped.is_none() && self.number(Count::Pending) > 0);
        let of_node = |node: &Node| {
            let (end, seconds) = node.outcome();
            let end = if end == End::NotStarted && held.is_some() { End::Held } else { end };
            NodeOutcome {
                node: node.intent.name().clone(),
                from: node.intent.from().cloned(),
                to: Target::clone(&node.intent.wanted),
                end,
                seconds,
                trial: node.current_trial(),
                drain: node.drain.clone(),
                recovery: node.recovery(),
                marked: node.mark != node::Mark::None,
            }
        };
        let mut nodes = Vec::with_capacity(self.nodes.len());
        nodes.extend(self.nodes.by_name().map(of_node));
        // A requested stop that prevented no start and rolled back no node is not reported.
        let prevented_nothing = || {
            self.number(Count::Pending) == 0
                && !self.is_due_after_soak()
                && !self.nodes.iter().any(|node| self.was_rolled_back(node))
        };
        let stopped = stopped.filter(|reason| !reason.is_requested() || !prevented_nothing());
        PoolOutcome {
            stopped: stopped.or_else(|| self.trials.stopped(self.number(Count::OnTrial))).cloned(),
            held: held.cloned(),
            nodes,
        }
    }
}

/// Progress of a pool for those that wait for it.
impl Pool {
    /// What the pool means for those that wait for it.
    pub(crate) fn standing(&self) -> Standing {
        if self.is_closed() {
            return Standing::Ended;
        }
        if !self.is_finished_but_for_trials() {
            return Standing::Running;
        }
        match self.number(Count::OnTarget) + self.number(Count::Gone) == self.nodes.len() {
            false => Standing::Ended,
            true if self.number(Count::Lost) > 0 => Standing::Lost,
            true => Standing::Converged,
        }
    }

    /// Time that the pool must stay converged before a pool starts that waits for it.
    pub(crate) fn soak_for_others(&self) -> Duration {
        self.policy.mode.real_duration(self.policy.rules.canary_soak())
    }

    /// Time that a node of this pool may take.
    pub(crate) fn time_limit(&self) -> Duration {
        self.policy.limits.node
    }
}
