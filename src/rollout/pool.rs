//! One pool of a rollout: its nodes' phases, its budget, its canaries, and when it stops.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use json_patch::Patch;

use super::machine::{Command, Context, Mode};
use super::progress::Progress;
use super::{End, NodeOutcome, PoolOutcome, StopReason};
use crate::contract::ConfigSource;
use crate::judge::{Failure, Patience, Target, Verdict, Waiting, judge};
use crate::names::{NodeName, PoolName};
use crate::observed::Node;
use crate::plan::{Action, Decision, LeftAlone, PoolPlan, Step, WaveKind, Why, back_patch, is_healthy};

/// How often an assignment that met somebody else's change is planned anew before the node is left as it is.
const REPLANS: u8 = 3;

/// How many nodes an exhausted budget names as examples.
const EXAMPLES: usize = 3;

/// Where a node is on its way.
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// The plan leaves it alone.
    LeftAlone(Why),
    /// Its turn has not come.
    Pending,
    /// Its patch is on its way to the server.
    Assigning,
    /// It points at its target and is watched.
    Watching { since: Timestamp },
    /// It converged.
    Converged { seconds: f64 },
    /// It failed.
    Failed { failure: Failure, seconds: f64, rollback: Rollback },
    /// The server refused its patch.
    Refused { error: String },
    /// Somebody else changed it.
    Changed { to: Option<ConfigSource> },
    /// It left the cluster.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rollback {
    No,
    Asked,
    Done,
}

/// Which condition a node's start depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Unavailable,
    Canary,
    Rest,
}

#[derive(Debug)]
struct Tracked {
    name: NodeName,
    group: Group,
    phase: Phase,
    from: Option<ConfigSource>,
    patch: Option<Patch>,
    was_ready: bool,
    /// Whether it is Ready and runs what it points at, as last seen.
    healthy: bool,
    /// Whether the watch has shown it pointing at the target: only then does another source mean somebody else's change,
    /// and not an event from before the assignment.
    seen_on_target: bool,
    waiting: Waiting,
    replans: u8,
}

impl Tracked {
    fn in_flight(&self) -> bool {
        match &self.phase {
            Phase::Assigning | Phase::Watching { .. } => true,
            Phase::Failed { rollback, .. } => *rollback == Rollback::Asked,
            _ => false,
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed { .. })
    }

    /// Invariant 4: not Ready, in transition, or failed.
    fn unavailable(&self) -> bool {
        match &self.phase {
            Phase::Gone => false,
            Phase::Assigning | Phase::Watching { .. } | Phase::Failed { .. } => true,
            _ => !self.healthy,
        }
    }
}

/// What holds the rest back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// The canaries have not all converged.
    Canaries,
    /// They have, and are watched until then.
    Soaking { until: Timestamp },
    /// Nothing.
    Open,
}

/// One pool's rollout.
#[derive(Debug)]
pub(super) struct PoolRun {
    name: PoolName,
    target: Target,
    budget: usize,
    soak: Duration,
    timeout: Duration,
    max_failures: u32,
    mode: Mode,
    nodes: Vec<Tracked>,
    index: BTreeMap<NodeName, usize>,
    /// Pending nodes that cost nothing, being unavailable already.
    free: VecDeque<usize>,
    canaries: VecDeque<usize>,
    /// All canaries, started or not.
    canary_members: Vec<usize>,
    rest: VecDeque<usize>,
    gate: Gate,
    unavailable: usize,
    in_flight: usize,
    pending: usize,
    failures: u32,
    stopped: Option<StopReason>,
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
            nodes: Vec::with_capacity(plan.nodes),
            index: BTreeMap::new(),
            free: VecDeque::new(),
            canaries: VecDeque::new(),
            canary_members: Vec::new(),
            rest: VecDeque::new(),
            gate: Gate::Open,
            unavailable: 0,
            in_flight: 0,
            pending: 0,
            failures: 0,
            stopped: None,
            stalled_since: None,
        };
        for left in &plan.left_alone {
            run.add_left_alone(left, &plan.target);
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
                run.add_step(step, group);
            }
        }
        if !mode.assign {
            run.gate = Gate::Open;
        }
        run
    }

    fn add(&mut self, tracked: Tracked) -> usize {
        let index = self.nodes.len();
        self.unavailable += usize::from(tracked.unavailable());
        self.index.insert(tracked.name.clone(), index);
        self.nodes.push(tracked);
        index
    }

    fn add_left_alone(&mut self, left: &LeftAlone, target: &Target) {
        self.add(Tracked {
            name: left.node.clone(),
            group: Group::Rest,
            phase: Phase::LeftAlone(left.why.clone()),
            from: match &left.why {
                Why::Converged => target.source().cloned(),
                Why::Adopted { source } | Why::Conflict { source, .. } => Some(source.clone()),
                _ => None,
            },
            patch: None,
            was_ready: !left.unavailable,
            healthy: !left.unavailable,
            seen_on_target: left.why == Why::Converged,
            waiting: Waiting::NotAssigned,
            replans: 0,
        });
    }

    fn add_step(&mut self, step: &Step, group: Group) {
        let (patch, waiting) = match &step.action {
            Action::Assign { patch } => (Some(patch.clone()), Waiting::NotAssigned),
            Action::Await { waiting, .. } => (None, waiting.clone().unwrap_or(Waiting::NotAcknowledged)),
        };
        let awaited = patch.is_none();
        let index = self.add(Tracked {
            name: step.node.clone(),
            group,
            phase: Phase::Pending,
            from: step.from.clone(),
            patch,
            was_ready: step.was_ready,
            healthy: group != Group::Unavailable && !awaited,
            seen_on_target: awaited,
            waiting,
            replans: 0,
        });
        self.pending += 1;
        if group == Group::Canary {
            self.canary_members.push(index);
        }
        match group {
            // A node that points at its target already is in transition: it costs nothing to watch it.
            _ if awaited => self.free.push_back(index),
            Group::Unavailable => self.free.push_back(index),
            Group::Canary => self.canaries.push_back(index),
            Group::Rest => self.rest.push_back(index),
        }
    }

    pub(super) fn node_names(&self) -> impl Iterator<Item = &NodeName> {
        self.index.keys()
    }

    pub(super) fn index_of(&self, node: &NodeName) -> Option<usize> {
        self.index.get(node).copied()
    }

    pub(super) fn budget(&self) -> (usize, usize) {
        (self.unavailable, self.budget)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.in_flight == 0 && (self.pending == 0 || self.stopped.is_some())
    }

    /// Changes a node through `change`, keeping the counts true.
    fn update(&mut self, index: usize, change: impl FnOnce(&mut Tracked)) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let count = |node: &Tracked| {
            (usize::from(node.unavailable()), usize::from(node.in_flight()), usize::from(node.phase == Phase::Pending))
        };
        let before = count(node);
        change(node);
        let after = count(node);
        self.unavailable = self.unavailable + after.0 - before.0;
        self.in_flight = self.in_flight + after.1 - before.1;
        self.pending = self.pending + after.2 - before.2;
    }

    fn set(&mut self, index: usize, phase: Phase) {
        self.update(index, |node| node.phase = phase);
    }

    // --- starting ---

    pub(super) fn start(&mut self, context: &mut Context<'_>) {
        if !self.mode.assign {
            // Verifying: every node is watched from the start, assigned or not.
            for index in 0..self.nodes.len() {
                if self.nodes.get(index).is_some_and(|node| node.phase == Phase::Pending) {
                    self.watch(index, context);
                }
            }
            self.free.clear();
            self.canaries.clear();
            self.rest.clear();
            return;
        }
        self.canaries_settled(context);
        self.start_more(context);
    }

    /// Starts every node that may start now.
    fn start_more(&mut self, context: &mut Context<'_>) {
        if self.stopped.is_some() {
            return;
        }
        while let Some(index) = self.free.pop_front() {
            self.start_node(index, context);
        }
        while self.unavailable < self.budget {
            let queue = match self.gate {
                Gate::Canaries => &mut self.canaries,
                Gate::Soaking { .. } => break,
                Gate::Open => &mut self.rest,
            };
            let Some(index) = queue.pop_front() else { break };
            self.start_node(index, context);
        }
        self.watch_for_stall(context);
    }

    fn start_node(&mut self, index: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(index).filter(|node| node.phase == Phase::Pending) else { return };
        match node.patch.clone() {
            Some(patch) => {
                context.commands.push(Command::Assign(node.name.clone(), patch));
                self.set(index, Phase::Assigning);
            }
            None => self.watch(index, context),
        }
    }

    fn watch(&mut self, index: usize, context: &mut Context<'_>) {
        self.set(index, Phase::Watching { since: context.now });
        context.timers.wake(later(context.now, self.timeout), &self.name, Some(index));
    }

    /// A pool that waits for nothing but other nodes' recovery is given as long as a node is given; then it stops. When
    /// the nodes that failed use up the whole budget, nothing will change by itself, and it stops at once.
    fn watch_for_stall(&mut self, context: &mut Context<'_>) {
        let stalled = self.pending > 0 && self.in_flight == 0 && !matches!(self.gate, Gate::Soaking { .. });
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

    // --- what happens to a node ---

    pub(super) fn assigned(&mut self, index: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(index).filter(|node| node.phase == Phase::Assigning) else { return };
        context.tell(Progress::Assigned {
            pool: self.name.clone(),
            node: node.name.clone(),
            from: node.from.clone(),
            to: self.target.clone(),
        });
        self.update(index, |node| node.waiting = Waiting::NotAcknowledged);
        self.watch(index, context);
    }

    /// Its turn has not come after all. Only asked for once the pool has stopped: nothing starts it again.
    pub(super) fn withdrawn(&mut self, index: usize) {
        if self.nodes.get(index).is_some_and(|node| node.phase == Phase::Assigning) {
            self.set(index, Phase::Pending);
        }
    }

    pub(super) fn refused(&mut self, index: usize, error: String, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(index).filter(|node| node.phase == Phase::Assigning) else { return };
        context.tell(Progress::Refused { pool: self.name.clone(), node: node.name.clone(), error: error.clone() });
        let group = node.group;
        self.set(index, Phase::Refused { error });
        self.count_failure(index, group, context);
        self.start_more(context);
    }

    /// The assignment met a change; `decision` is what planning says of the node as it is now.
    pub(super) fn changed(&mut self, index: usize, current: &Node, decision: Decision, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get_mut(index).filter(|node| node.phase == Phase::Assigning) else { return };
        node.replans += 1;
        let may_retry = node.replans <= REPLANS && self.stopped.is_none();
        match decision {
            Decision::Step(Step { action: Action::Assign { patch }, from, .. }) if may_retry => {
                node.from = from;
                node.patch = Some(patch.clone());
                let command = Command::Assign(node.name.clone(), patch);
                context.commands.push(command);
            }
            // Our own patch, answered to nobody, or somebody who wanted the same.
            Decision::Step(Step { action: Action::Await { .. }, .. })
            | Decision::LeaveAlone(LeftAlone { why: Why::Converged, .. }) => {
                self.assigned(index, context);
                self.observed(index, current, context);
            }
            Decision::LeaveAlone(LeftAlone { why: why @ (Why::Adopted { .. } | Why::Conflict { .. }), .. }) => {
                self.set(index, Phase::LeftAlone(why));
                self.tell_changed(index, current, context);
            }
            Decision::LeaveAlone(_) | Decision::Step(_) => {
                self.set(index, Phase::Changed { to: current.source.clone() });
                self.tell_changed(index, current, context);
            }
        }
        self.replace_canary(index);
        self.canaries_settled(context);
        self.start_more(context);
    }

    fn tell_changed(&self, index: usize, current: &Node, context: &mut Context<'_>) {
        if let Some(node) = self.nodes.get(index) {
            let (pool, to) = (self.name.clone(), current.source.clone());
            context.tell(Progress::Changed { pool, node: node.name.clone(), to });
        }
    }

    pub(super) fn gone(&mut self, index: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(index).filter(|node| node.phase != Phase::Gone) else { return };
        context.tell(Progress::Gone { pool: self.name.clone(), node: node.name.clone() });
        self.set(index, Phase::Gone);
        self.replace_canary(index);
        self.canaries_settled(context);
        self.start_more(context);
    }

    /// A canary that proves nothing any more, being gone or somebody else's, is replaced from the rest.
    fn replace_canary(&mut self, index: usize) {
        let lost = self.nodes.get(index).is_some_and(|node| {
            node.group == Group::Canary
                && matches!(node.phase, Phase::Gone | Phase::Changed { .. } | Phase::LeftAlone(_))
        });
        if !lost || self.gate == Gate::Open {
            return;
        }
        self.canary_members.retain(|member| *member != index);
        if let Some(node) = self.nodes.get_mut(index) {
            node.group = Group::Rest;
        }
        if let Some(next) = self.rest.pop_front() {
            if let Some(node) = self.nodes.get_mut(next) {
                node.group = Group::Canary;
            }
            self.canaries.push_back(next);
            self.canary_members.push(next);
            self.gate = Gate::Canaries;
        }
    }

    pub(super) fn observed(&mut self, index: usize, seen: &Node, context: &mut Context<'_>) {
        if seen.deleting && self.nodes.get(index).is_some_and(|node| node.phase == Phase::Pending) {
            self.gone(index, context);
            return;
        }
        let healthy = is_healthy(seen);
        self.update(index, |node| node.healthy = healthy);
        let Some(node) = self.nodes.get_mut(index) else { return };
        let on_target = self.target.is_named_by(seen.source.as_ref());
        let left_target = node.seen_on_target && !on_target;
        node.seen_on_target |= on_target;
        match node.phase.clone() {
            Phase::Pending if !healthy && self.opened(index) => self.free.push_back(index),
            Phase::Watching { .. } if left_target && self.mode.assign => {
                self.set(index, Phase::Changed { to: seen.source.clone() });
                self.tell_changed(index, seen, context);
                self.replace_canary(index);
            }
            // The watch can be faster than the answer to the patch; what it shows must not be lost.
            Phase::Assigning if on_target => {
                self.assigned(index, context);
                self.judge_watched(index, seen, context.now, context);
            }
            Phase::Watching { since } => self.judge_watched(index, seen, since, context),
            Phase::Converged { .. } if !left_target => self.judge_converged(index, seen, context),
            _ => {}
        }
        self.canaries_settled(context);
        self.start_more(context);
    }

    /// Whether a pending node's turn depends on nothing but the budget.
    fn opened(&self, index: usize) -> bool {
        self.nodes.get(index).is_some_and(|node| match node.group {
            Group::Unavailable => true,
            Group::Canary => self.gate == Gate::Canaries,
            Group::Rest => self.gate == Gate::Open,
        })
    }

    fn judge_watched(&mut self, index: usize, seen: &Node, since: Timestamp, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let waited = elapsed(since, context.now);
        let patience = Patience { was_ready: node.was_ready, waited, timeout: Some(self.timeout) };
        match judge(&self.target, seen, patience) {
            Verdict::Converged => {
                let seconds = waited.as_secs_f64();
                let (pool, name) = (self.name.clone(), node.name.clone());
                self.set(index, Phase::Converged { seconds });
                context.tell(Progress::Converged { pool, node: name, seconds });
            }
            // An event from before the assignment, or (when verifying) a node that somebody else has yet to assign.
            Verdict::Waiting(Waiting::NotAssigned) if self.mode.assign => {}
            Verdict::Waiting(waiting) => {
                if node.waiting != waiting {
                    node.waiting = waiting.clone();
                    let (pool, node) = (self.name.clone(), node.name.clone());
                    context.tell(Progress::Waiting { pool, node, waiting });
                }
            }
            Verdict::Failed(failure) => self.fail(index, failure, waited, context),
        }
    }

    /// A converged node may still regress: the kubelet reports an error later, or a canary loses its readiness.
    fn judge_converged(&mut self, index: usize, seen: &Node, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let soaking = node.group == Group::Canary && self.gate != Gate::Open;
        let patience = Patience { was_ready: soaking && node.was_ready, waited: Duration::ZERO, timeout: None };
        match judge(&self.target, seen, patience) {
            Verdict::Failed(failure) => self.fail(index, failure, Duration::ZERO, context),
            Verdict::Waiting(waiting) if soaking => {
                node.waiting = waiting.clone();
                let told = Progress::Waiting { pool: self.name.clone(), node: node.name.clone(), waiting };
                context.tell(told);
                self.gate = Gate::Canaries;
                self.watch(index, context);
            }
            _ => {}
        }
    }

    fn fail(&mut self, index: usize, failure: Failure, waited: Duration, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(index) else { return };
        context.tell(Progress::Failed { pool: self.name.clone(), node: node.name.clone(), failure: failure.clone() });
        let (group, was_ready) = (node.group, node.was_ready);
        let assigned_here = node.patch.is_some() && node.seen_on_target;
        let rollback = if self.mode.rollback_on_failure && assigned_here {
            let patch = back_patch(&self.target, node.from.as_ref());
            context.commands.push(Command::RollBack(node.name.clone(), patch));
            Rollback::Asked
        } else {
            Rollback::No
        };
        // A node that was down before and has not answered tells nothing about the configuration.
        let was_down = !was_ready && matches!(failure, Failure::TimedOut { waiting: Waiting::NotAcknowledged });
        self.set(index, Phase::Failed { failure, seconds: waited.as_secs_f64(), rollback });
        if !was_down && self.mode.assign {
            self.count_failure(index, group, context);
        }
    }

    fn count_failure(&mut self, index: usize, group: Group, context: &mut Context<'_>) {
        self.failures = self.failures.saturating_add(1);
        let Some(node) = self.nodes.get(index) else { return };
        if group == Group::Canary && self.gate != Gate::Open {
            let reason = StopReason::CanaryFailed { node: node.name.clone() };
            self.stop(&reason, context);
        } else if self.failures > self.max_failures {
            let reason = StopReason::TooManyFailures { failures: self.failures, max_failures: self.max_failures };
            self.stop(&reason, context);
        }
    }

    pub(super) fn rolled_back(&mut self, index: usize, result: Result<(), String>, context: &mut Context<'_>) {
        let name = self.name.clone();
        let (done, outcome) = match result {
            Ok(()) => (Rollback::Done, None),
            Err(error) => (Rollback::No, Some(error)),
        };
        self.update(index, |node| {
            if let Phase::Failed { rollback, .. } = &mut node.phase {
                *rollback = done;
            }
        });
        let Some(node) = self.nodes.get(index) else { return };
        context.tell(match outcome {
            None => Progress::RolledBack { pool: name, node: node.name.clone(), to: node.from.clone() },
            Some(error) => Progress::Refused { pool: name, node: node.name.clone(), error },
        });
        self.start_more(context);
    }

    // --- the pool as a whole ---

    /// Opens the gate once every canary has converged and soaked.
    fn canaries_settled(&mut self, context: &mut Context<'_>) {
        if self.gate != Gate::Canaries || self.stopped.is_some() {
            return;
        }
        let mut canaries = self.canary_members.iter().filter_map(|index| self.nodes.get(*index));
        let unsettled = canaries.any(|node| !matches!(node.phase, Phase::Converged { .. }));
        if unsettled {
            return;
        }
        if self.soak.is_zero() {
            self.open(context);
            return;
        }
        let until = later(context.now, self.soak);
        self.gate = Gate::Soaking { until };
        context.timers.wake(until, &self.name, None);
        context.tell(Progress::Soaking { pool: self.name.clone(), until });
    }

    fn open(&mut self, context: &mut Context<'_>) {
        if matches!(self.gate, Gate::Soaking { .. }) {
            context.tell(Progress::Soaked { pool: self.name.clone() });
        }
        self.gate = Gate::Open;
        // What broke while it waited for the canaries costs nothing now.
        let broken = self.rest.iter().filter(|index| self.nodes.get(**index).is_some_and(|node| !node.healthy));
        self.free.extend(broken);
    }

    /// The time that a node, or (`None`) the pool, asked for has come.
    pub(super) fn woken(&mut self, node: Option<usize>, context: &mut Context<'_>) {
        match node {
            Some(index) => {
                let Some(tracked) = self.nodes.get(index) else { return };
                let Phase::Watching { since } = tracked.phase else { return };
                let waited = elapsed(since, context.now);
                if waited >= self.timeout {
                    let failure = Failure::TimedOut { waiting: tracked.waiting.clone() };
                    self.fail(index, failure, waited, context);
                }
            }
            None => {
                if let Gate::Soaking { until } = self.gate
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
            unavailable: self.unavailable,
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
        if self.stopped.is_some() || (self.pending == 0 && !assigning()) {
            return;
        }
        self.stopped = Some(reason.clone());
        self.stalled_since = None;
        context.tell(Progress::Stopped { pool: self.name.clone(), reason: reason.clone() });
    }

    pub(super) fn outcome(&self) -> PoolOutcome {
        let nodes = self
            .index
            .values()
            .filter_map(|index| self.nodes.get(*index))
            .map(|node| {
                let (end, seconds) = end_of(&node.phase);
                NodeOutcome { node: node.name.clone(), from: node.from.clone(), to: self.target.clone(), end, seconds }
            })
            .collect();
        // An interrupt that came when nothing was left to start has stopped nothing.
        let nothing_left = self.pending == 0 && self.stopped == Some(StopReason::Interrupted);
        PoolOutcome { stopped: self.stopped.clone().filter(|_| !nothing_left), nodes }
    }
}

fn end_of(phase: &Phase) -> (End, Option<f64>) {
    match phase {
        Phase::LeftAlone(why) => (End::LeftAlone { why: why.clone() }, None),
        Phase::Pending => (End::NotStarted, None),
        Phase::Assigning | Phase::Watching { .. } => (End::InFlight, None),
        Phase::Converged { seconds } => (End::Converged, Some(*seconds)),
        Phase::Failed { failure, seconds, rollback } => {
            (End::Failed { failure: failure.clone(), rolled_back: *rollback == Rollback::Done }, Some(*seconds))
        }
        Phase::Refused { error } => (End::Refused { error: error.clone() }, None),
        Phase::Changed { to } => (End::Changed { to: to.clone() }, None),
        Phase::Gone => (End::Gone, None),
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| now.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
