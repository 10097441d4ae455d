//! One pool of a rollout: its budget, its canaries, when the next node starts and when the pool stops.
//!
//! What happens to a single node is in [`node_events`], the nodes and their counts in [`node_table`].

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use self::node_table::{Group, NodeState, NodeTable, Phase, Rollback};
use super::progress::{Event, Gate, PoolState, Progress};
use super::signals::{Command, Context, Mode};
use super::{NodeOutcome, PoolOutcome, StopReason};
use crate::judge::{Failure, Target};
use crate::plan::{PoolPlan, WaveKind};
use nodecfg_contract::names::{NodeName, PoolName};

mod node_events;
mod node_table;

/// How many nodes an exhausted budget names as examples.
const EXAMPLES: usize = 3;

/// One pool's rollout. Nodes are told by their number in the table.
#[derive(Debug)]
pub(super) struct PoolRun {
    name: PoolName,
    target: Target,
    budget: usize,
    soak: Duration,
    timeout: Duration,
    max_failures: u32,
    mode: Mode,
    nodes: NodeTable,
    /// How many of them the plan has a step for.
    steps: usize,
    /// Pending nodes that cost nothing, being unavailable already.
    free: VecDeque<usize>,
    canaries: VecDeque<usize>,
    /// All canaries, started or not.
    canary_members: Vec<usize>,
    rest: VecDeque<usize>,
    gate: Gate,
    failures: u32,
    last_failed: Option<NodeName>,
    stopped: Option<StopReason>,
    /// Whether nodes that have not converged are pointed back.
    taking_back: bool,
    stalled_since: Option<Timestamp>,
}

impl PoolRun {
    pub(super) fn new(plan: &PoolPlan, mode: Mode) -> Self {
        let mut run = Self {
            name: plan.name.clone(),
            target: plan.target.clone(),
            budget: plan.budget,
            soak: Duration::ZERO,
            timeout: mode.timeout.unwrap_or(plan.policy.convergence_timeout),
            max_failures: plan.policy.max_failures,
            mode,
            nodes: NodeTable::default(),
            steps: plan.steps().count(),
            free: VecDeque::new(),
            canaries: VecDeque::new(),
            canary_members: Vec::new(),
            rest: VecDeque::new(),
            gate: Gate::Open,
            failures: 0,
            last_failed: None,
            stopped: None,
            taking_back: false,
            stalled_since: None,
        };
        for left in &plan.left_alone {
            run.nodes.add(NodeState::left_alone(left, &plan.target));
        }
        for wave in &plan.waves {
            let group = match wave.kind {
                WaveKind::Unavailable => Group::Unavailable,
                WaveKind::Canary { soak_seconds } => {
                    run.soak = Duration::from_secs(soak_seconds);
                    run.gate = Gate::Canaries;
                    Group::Canary
                }
                WaveKind::Rest => Group::Rest,
            };
            for step in &wave.steps {
                let number = run.nodes.add(NodeState::planned(step, group));
                run.queue(number, group);
            }
        }
        if !mode.assign {
            run.gate = Gate::Open;
        }
        run
    }

    fn queue(&mut self, number: usize, group: Group) {
        // A node that points at its target already is in transition: it costs nothing to watch it.
        let awaited = self.nodes.get(number).is_some_and(|node| node.assignment.is_none());
        if group == Group::Canary {
            self.canary_members.push(number);
        }
        match group {
            _ if awaited => self.free.push_back(number),
            Group::Unavailable => self.free.push_back(number),
            Group::Canary => self.canaries.push_back(number),
            Group::Rest => self.rest.push_back(number),
        }
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

    /// Reports what happened, once the state of the pool shows it.
    fn tell(&self, progress: Progress, context: &mut Context<'_>) {
        let pool = PoolState {
            counts: self.nodes.counts(self.steps),
            gate: self.gate,
            canaries: if self.gate == Gate::Canaries { self.canaries_left() } else { 0 },
            last_failed: self.last_failed.clone(),
        };
        context.commands.push(Command::Tell(Box::new(Event { progress, pool: Some(pool) })));
    }

    /// The same of a node.
    fn tell_of(&self, number: usize, context: &mut Context<'_>, progress: impl FnOnce(PoolName, NodeName) -> Progress) {
        if let Some(node) = self.nodes.get(number) {
            self.tell(progress(self.name.clone(), node.name.clone()), context);
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.nodes.in_flight() == 0 && (self.nodes.pending() == 0 || self.stopped.is_some())
    }

    pub(super) fn start(&mut self, context: &mut Context<'_>) {
        if !self.mode.assign {
            // Verifying: every node is watched from the start, assigned or not.
            for number in self.nodes.numbers() {
                if self.nodes.in_phase(number, &Phase::Pending).is_some() {
                    self.watch(number, context);
                }
            }
            self.free.clear();
            self.canaries.clear();
            self.rest.clear();
            return;
        }
        // What has failed on this very target is known before anybody else is sent there.
        for number in self.nodes.numbers() {
            if let Some(error) = self.nodes.get(number).and_then(|node| node.known_error.clone()) {
                self.fail(number, Failure::Refused { error }, Duration::ZERO, context);
            }
        }
        self.canaries_settled(context);
        self.start_more(context);
    }

    /// Starts every node that may start now.
    fn start_more(&mut self, context: &mut Context<'_>) {
        if self.stopped.is_some() {
            return;
        }
        while self.nodes.assigning() < self.mode.concurrency.max(1) {
            let Some(number) = self.next() else { break };
            self.start_node(number, context);
        }
        self.watch_for_stall(context);
    }

    /// Whose turn it is: what is broken first, then whoever the gate lets through and the budget allows.
    fn next(&mut self) -> Option<usize> {
        while let Some(number) = self.free.pop_front() {
            let Some(node) = self.nodes.in_phase(number, &Phase::Pending) else { continue };
            if node.assignment.is_none() || !node.healthy {
                return Some(number);
            }
            // It has mended while it waited: now it has something to lose.
            self.nodes.update(number, |node| node.group = Group::Rest);
            self.rest.push_back(number);
        }
        let queue = match self.gate {
            Gate::Canaries => &mut self.canaries,
            Gate::Soaking { .. } => return None,
            Gate::Open => &mut self.rest,
        };
        while let Some(number) = queue.front().copied() {
            let Some(node) = self.nodes.in_phase(number, &Phase::Pending) else {
                queue.pop_front();
                continue;
            };
            // Whoever is unavailable already costs nothing more.
            if node.healthy && self.nodes.unavailable() >= self.budget {
                return None;
            }
            return queue.pop_front();
        }
        None
    }

    fn start_node(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.in_phase(number, &Phase::Pending) else { return };
        match node.assignment.clone() {
            Some(assignment) => {
                context.commands.push(Command::Assign(node.name.clone(), assignment));
                // What the plan saw of its readiness may be long ago.
                self.nodes.update(number, |node| (node.phase, node.was_ready) = (Phase::Assigning, node.ready));
            }
            None => self.watch(number, context),
        }
    }

    fn watch(&mut self, number: usize, context: &mut Context<'_>) {
        self.nodes.set(number, Phase::Watching { since: context.now });
        context.timers.wake(later(context.now, self.timeout), &self.name, Some(number));
    }

    /// A pool that waits for nothing but other nodes' recovery is given as long as a node is given; then it stops. When
    /// the nodes that failed use up the whole budget, nothing will change by itself, and it stops at once.
    fn watch_for_stall(&mut self, context: &mut Context<'_>) {
        let stalled =
            self.nodes.pending() > 0 && self.nodes.in_flight() == 0 && !matches!(self.gate, Gate::Soaking { .. });
        match (stalled, self.stalled_since) {
            (false, _) => self.stalled_since = None,
            (true, Some(_)) => {}
            (true, None) if self.nodes.iter().filter(|node| node.has_failed()).count() >= self.budget => {
                let reason = self.exhausted();
                self.stop(&reason, context);
            }
            (true, None) => {
                self.stalled_since = Some(context.now);
                context.timers.wake(later(context.now, self.timeout), &self.name, None);
            }
        }
    }

    /// Whether a pending node's turn depends on nothing but the budget.
    fn opened(&self, number: usize) -> bool {
        self.nodes.get(number).is_some_and(|node| match node.group {
            Group::Unavailable => true,
            Group::Canary => self.gate == Gate::Canaries,
            Group::Rest => self.gate == Gate::Open,
        })
    }

    /// A canary that proves nothing, being gone, somebody else's, or down all along, is replaced from the rest.
    fn replace_canary(&mut self, number: usize) {
        let lost = self.nodes.get(number).is_some_and(|node| {
            let answered = matches!(node.phase, Phase::Failed { .. }) && !node.was_down();
            node.group == Group::Canary
                && matches!(
                    node.phase,
                    Phase::Gone | Phase::Changed { .. } | Phase::LeftAlone(_) | Phase::Failed { .. }
                )
                && !answered
        });
        if !lost || self.gate == Gate::Open {
            return;
        }
        self.canary_members.retain(|member| *member != number);
        self.nodes.update(number, |node| node.group = Group::Rest);
        while let Some(next) = self.rest.pop_front() {
            if self.nodes.in_phase(next, &Phase::Pending).is_none() {
                continue;
            }
            self.nodes.update(next, |node| node.group = Group::Canary);
            self.canaries.push_back(next);
            self.canary_members.push(next);
            self.gate = Gate::Canaries;
            return;
        }
    }

    /// How many canaries have not converged.
    fn canaries_left(&self) -> usize {
        let canaries = self.canary_members.iter().filter_map(|number| self.nodes.get(*number));
        canaries.filter(|node| !matches!(node.phase, Phase::Converged { .. })).count()
    }

    /// Opens the gate once every canary has converged and soaked.
    fn canaries_settled(&mut self, context: &mut Context<'_>) {
        if self.gate != Gate::Canaries || self.stopped.is_some() {
            return;
        }
        if self.canaries_left() > 0 {
            return;
        }
        if self.soak.is_zero() {
            self.open(context);
            return;
        }
        let until = later(context.now, self.soak);
        self.gate = Gate::Soaking { until };
        context.timers.wake(until, &self.name, None);
        self.tell(Progress::Soaking { pool: self.name.clone(), until }, context);
    }

    fn open(&mut self, context: &mut Context<'_>) {
        if matches!(std::mem::replace(&mut self.gate, Gate::Open), Gate::Soaking { .. }) {
            self.tell(Progress::Soaked { pool: self.name.clone() }, context);
        }
        // What broke while it waited for the canaries costs nothing now.
        let broken = self.rest.iter().filter(|number| self.nodes.get(**number).is_some_and(|node| !node.healthy));
        self.free.extend(broken);
    }

    /// The time that a node, or (`None`) the pool, asked for has come.
    pub(super) fn woken(&mut self, node: Option<usize>, context: &mut Context<'_>) {
        match node {
            Some(number) => {
                if let Some(waiting) = self.late_back(number, context) {
                    self.came_not_back(number, Failure::TimedOut { waiting }, context);
                    self.start_more(context);
                    return;
                }
                let Some(tracked) = self.nodes.get(number) else { return };
                let Phase::Watching { since } = tracked.phase else { return };
                let waited = elapsed(since, context.now);
                if waited >= self.timeout {
                    let failure = Failure::TimedOut { waiting: tracked.waiting.clone() };
                    self.fail(number, failure, waited, context);
                }
            }
            None => {
                if let Gate::Soaking { until } = self.gate
                    && !self.taking_back
                    && context.now >= until
                {
                    self.open(context);
                }
                if let Some(since) = self.stalled_since
                    && elapsed(since, context.now) >= self.timeout
                {
                    let reason = self.exhausted();
                    self.stop(&reason, context);
                }
            }
        }
        self.canaries_settled(context);
        self.start_more(context);
    }

    fn exhausted(&self) -> StopReason {
        StopReason::BudgetExhausted {
            budget: self.budget,
            unavailable: self.nodes.unavailable(),
            examples: self
                .nodes
                .iter()
                .filter(|node| node.unavailable())
                .map(|node| node.name.clone())
                .take(EXAMPLES)
                .collect(),
        }
    }

    /// Starts no further node. What is in flight is watched to its end.
    pub(super) fn stop(&mut self, reason: &StopReason, context: &mut Context<'_>) {
        let assigning = || self.nodes.iter().any(|node| node.phase == Phase::Assigning);
        if self.stopped.is_some() || (self.nodes.pending() == 0 && !assigning()) {
            return;
        }
        self.halt(reason, context);
    }

    fn halt(&mut self, reason: &StopReason, context: &mut Context<'_>) {
        self.stopped = Some(reason.clone());
        self.stalled_since = None;
        self.tell(Progress::Stopped { pool: self.name.clone(), reason: reason.clone() }, context);
    }

    /// Starts no further node, and points back those that have not converged. A patch that is on its way to the server is
    /// waited for.
    pub(super) fn take_back(&mut self, reason: &StopReason, context: &mut Context<'_>) {
        if !self.mode.assign {
            return;
        }
        self.stop(reason, context);
        self.taking_back = true;
        for number in self.nodes.numbers() {
            self.return_node(number, context);
        }
        let returning = |node: &NodeState| matches!(node.phase, Phase::Returning { .. });
        if self.stopped.is_none() && self.nodes.iter().any(returning) {
            self.halt(reason, context);
        }
    }

    pub(super) fn outcome(&self) -> PoolOutcome {
        let nodes = self
            .nodes
            .by_name()
            .map(|node| {
                let (end, seconds) = node.end();
                NodeOutcome { node: node.name.clone(), from: node.from.clone(), to: self.target.clone(), end, seconds }
            })
            .collect();
        // Whoever asked when nothing was left to start has stopped nothing.
        let asked = self.stopped.as_ref().is_some_and(StopReason::is_asked_for);
        let returned = |node: &NodeState| match &node.phase {
            Phase::Returning { .. } | Phase::GoingBack { .. } | Phase::Returned { .. } => true,
            Phase::Failed { rollback, .. } => self.taking_back && *rollback != Rollback::No,
            _ => false,
        };
        let nothing_left = asked && self.nodes.pending() == 0 && !self.nodes.iter().any(returned);
        PoolOutcome { stopped: self.stopped.clone().filter(|_| !nothing_left), nodes }
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| now.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
