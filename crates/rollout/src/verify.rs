//! Watches nodes converge without changing anything (`nodecfg verify`). It knows facts and deadlines only: nothing starts,
//! so there are no gates, budgets or stages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::intent::Intent;
use super::machine::StateMachine;
use super::outcome::{End, NodeOutcome, Outcome, PoolOutcome, StopReason};
use super::progress::{Event, NodeCounts, PoolState, Progress, StartGate};
use super::signals::{Command, Input, Mode};
use super::trials::{TrialRun, Trials};
use crate::instant::{Instant, Now};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_observed::Obstacle;
use nodecfg_observed::{Age, Node};
use nodecfg_plan::convergence::{Convergence, ConvergenceFailure, Target, Trial, WaitContext, Waiting, evaluate};
use nodecfg_plan::{Plan, PoolPlan, Why};

/// A run that watches the nodes of a plan.
#[derive(Debug)]
pub struct Verify {
    pools: BTreeMap<PoolName, Pool>,
    pool_of: BTreeMap<NodeName, PoolName>,
}

/// A watched pool.
#[derive(Debug)]
struct Pool {
    name: PoolName,
    /// Whether its nodes should run their local configurations.
    is_local: bool,
    /// Time limit of each node, and age up to which a new Node is not awaited.
    limit: Duration,
    new_nodes_within: Option<Duration>,
    /// Time since which nodes are watched. `None`: the run has not started.
    since: Option<Instant>,
    nodes: BTreeMap<NodeName, Watched>,
    counts: NodeCounts,
    last_failed: Option<NodeName>,
    unassigned: Unassigned,
    trials: Trials,
    /// Limits of trials, if the run waits for them. A trial may end before.
    trial_limits: BTreeSet<(Instant, NodeName)>,
}

/// A watched node.
#[derive(Debug)]
struct Watched {
    intent: Intent,
    /// Whether any event has shown the node on its target.
    was_on_target: bool,
    waiting: Waiting,
    /// Creation time of a Node that never had a configuration.
    joined: Option<Timestamp>,
    /// Its end, and seconds since the start. `None`: it is watched.
    end: Option<(End, Option<f64>)>,
    trial: Option<TrialRun>,
}

/// Whether nodes that are not assigned are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unassigned {
    /// A sync may assign them.
    Awaited,
    /// No sync runs. A node that has just joined may assign itself.
    Joining,
    /// No sync runs, and no node assigns itself.
    Failed,
}

impl Watched {
    fn new(intent: Intent) -> Self {
        Self {
            was_on_target: intent.was_on_target(),
            waiting: intent.waiting(),
            joined: None,
            end: intent.end().map(|end| (end, None)),
            trial: None,
            intent,
        }
    }

    fn runs_target(&self) -> bool {
        self.end.as_ref().is_some_and(|(end, _)| end.runs_target())
    }

    fn current_trial(&self) -> Option<Trial> {
        self.trial.filter(|_| self.runs_target()).map(|run| run.trial)
    }

    /// What the node contributes to the counts.
    fn counts(&self) -> NodeCounts {
        let is_in = |is_in: bool| usize::from(is_in && self.intent.step().is_some());
        let end = self.end.as_ref().map(|(end, _)| end);
        let (is_done, has_failed) = (matches!(end, Some(End::Converged)), matches!(end, Some(End::Failed { .. })));
        NodeCounts {
            pending: 0,
            in_flight: is_in(end.is_none()),
            done: is_in(is_done),
            failed: usize::from(has_failed),
            left: is_in(end.is_some() && !is_done && !has_failed),
            on_trial: usize::from(self.current_trial().is_some()),
        }
    }
}

impl Pool {
    fn new(plan: &PoolPlan, mode: &Mode) -> Self {
        let limit = mode.time_limit(&plan.policy);
        let left = plan.left_alone.iter().map(|left| Intent::leave_alone(left, &plan.targets));
        let intents = left.chain(plan.steps().map(|step| Intent::follow(step, &plan.targets)));
        let nodes: BTreeMap<_, _> = intents.map(|intent| (intent.name().clone(), Watched::new(intent))).collect();
        let mut counts = NodeCounts::default();
        nodes.values().for_each(|node| counts.add(&node.counts()));
        Self {
            name: plan.name.clone(),
            is_local: plan.targets.is_local(),
            limit,
            new_nodes_within: mode.new_nodes_within,
            since: None,
            nodes,
            counts,
            last_failed: None,
            unassigned: Unassigned::Awaited,
            trials: Trials::new(mode, limit),
            trial_limits: BTreeSet::new(),
        }
    }

    /// Changes a node.
    fn update(&mut self, name: &NodeName, change: impl FnOnce(&mut Watched)) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let before = node.counts();
        change(node);
        self.counts = self.counts.replace(&before, &node.counts());
    }

    fn report(&self, node: Option<&NodeName>, progress: Progress, commands: &mut Vec<Command>) {
        let state = PoolState {
            counts: self.counts,
            gate: StartGate::Open,
            canaries: 0,
            last_failed: self.last_failed.clone(),
            trials_end: self.trials.announced_end(),
        };
        let (pool, node) = (Some(self.name.clone()), node.cloned());
        commands.push(Command::Report(Box::new(Event { progress, pool, node, state: Some(state) })));
    }

    fn observed(&mut self, seen: &Node, now: Now, commands: &mut Vec<Command>) {
        let Some(node) = self.nodes.get(&seen.name) else { return };
        let on_target = node.intent.wanted.is_assigned_to(seen) && !seen.is_unreadable();
        let left_target = node.was_on_target && !on_target && !seen.is_unreadable();
        let may_join = matches!(
            &node.end,
            None | Some((End::LeftAlone { why: Why::Obstacle(Obstacle::NoDynamicConfig | Obstacle::Outlived) }, _))
        );
        self.update(&seen.name, |node| node.was_on_target |= on_target);
        if may_join && let Some(joined) = self.joined_recently(seen, now.time) {
            let why = Why::New { joined };
            self.end(&seen.name, End::LeftAlone { why: why.clone() }, None);
            return self.report(Some(&seen.name), Progress::Held { why }, commands);
        }
        let Some(node) = self.nodes.get(&seen.name) else { return };
        match &node.end {
            None => self.evaluate_watched(seen, now, commands),
            // A new node with the old name, which the plan does not cover.
            Some((End::Gone, _)) if !seen.deleting => self.changed(seen, commands),
            Some((End::Converged | End::LeftAlone { why: Why::Converged }, _)) if left_target => {
                self.changed(seen, commands)
            }
            Some(_) if node.runs_target() => self.evaluate_converged(seen, now, commands),
            Some(_) => {}
        }
    }

    fn changed(&mut self, seen: &Node, commands: &mut Vec<Command>) {
        let to = seen.source.clone();
        self.end(&seen.name, End::Changed { to: to.clone() }, None);
        self.report(Some(&seen.name), Progress::Changed { to }, commands);
    }

    fn end(&mut self, name: &NodeName, end: End, waited: Option<Duration>) {
        self.update(name, |node| node.end = Some((end, waited.map(|waited| waited.as_secs_f64()))));
    }

    fn evaluate_watched(&mut self, seen: &Node, now: Now, commands: &mut Vec<Command>) {
        let (Some(since), Some(node)) = (self.since, self.nodes.get(&seen.name)) else { return };
        let waited = now.instant.since(since);
        let wait =
            WaitContext { was_ready: node.intent.was_ready(), resources: None, waited, timeout: Some(self.limit) };
        match evaluate(&node.intent.wanted, seen, wait) {
            Convergence::Converged => {
                let trial = self.trials.observe(None, true, &node.intent.wanted, seen, now);
                self.set_trial(&seen.name, trial);
                self.end(&seen.name, End::Converged, Some(waited));
                let (seconds, trial) = (waited.as_secs_f64(), trial.map(|run| run.trial));
                self.report(Some(&seen.name), Progress::Converged { seconds, trial }, commands);
            }
            Convergence::Waiting(waiting @ Waiting::NotAssigned) if !self.awaits_assignment(node, now.time) => {
                self.fail(&seen.name, ConvergenceFailure::NoSync { waiting }, waited, now, commands);
            }
            Convergence::Waiting(waiting) => {
                if node.waiting != waiting {
                    self.update(&seen.name, |node| node.waiting = waiting.clone());
                    self.report(Some(&seen.name), Progress::Waiting { waiting }, commands);
                }
            }
            Convergence::Failed(failure) => self.fail(&seen.name, failure, waited, now, commands),
        }
    }

    /// Detects a later kubelet error and a failed trial of a converged node.
    fn evaluate_converged(&mut self, seen: &Node, now: Now, commands: &mut Vec<Command>) {
        let Some(node) = self.nodes.get(&seen.name) else { return };
        let target = &node.intent.target;
        let before = node.trial;
        let was_settled = !matches!(node.end, Some((End::Converged, _)));
        // A node that is not Ready has not passed its trial.
        let was_ready = node.intent.was_ready() && before.is_some();
        match evaluate(target, seen, WaitContext { was_ready, ..WaitContext::STATE_ONLY }) {
            Convergence::Converged => {
                let trial = self.trials.observe(before, false, target, seen, now);
                self.set_trial(&seen.name, trial);
                if before.is_some() && trial.is_none() {
                    self.report(Some(&seen.name), Progress::TrialPassed, commands);
                }
            }
            Convergence::Failed(_) if was_settled && before.is_none() => {}
            Convergence::Failed(failure) => self.fail(&seen.name, failure, Duration::ZERO, now, commands),
            Convergence::Waiting(waiting) => self.update(&seen.name, |node| node.waiting = waiting),
        }
    }

    fn fail(
        &mut self,
        name: &NodeName,
        failure: ConvergenceFailure,
        waited: Duration,
        now: Now,
        commands: &mut Vec<Command>,
    ) {
        let failure = self.failure_of_new_node(name, failure, now.time);
        self.last_failed = Some(name.clone());
        self.end(name, End::Failed { failure: failure.clone(), rolled_back: false }, Some(waited));
        self.report(Some(name), Progress::Failed { failure }, commands);
    }

    fn gone(&mut self, name: &NodeName, commands: &mut Vec<Command>) {
        if self.nodes.get(name).is_some_and(|node| !matches!(node.end, Some((End::Gone, _)))) {
            self.end(name, End::Gone, None);
            self.report(Some(name), Progress::Gone, commands);
        }
    }

    /// Fails the nodes whose time limits have passed.
    fn tick(&mut self, now: Now, commands: &mut Vec<Command>) {
        let waited = self.since.map_or(Duration::ZERO, |since| now.instant.since(since));
        let is_over = self.since.is_some() && waited >= self.limit;
        let awaits_trials = self.trials.are_awaited(self.counts.on_trial);
        let overdue = self.nodes.iter().filter(|(_, node)| is_over && node.end.is_none());
        let mut overdue: Vec<(NodeName, Duration)> = overdue.map(|(name, _)| (name.clone(), waited)).collect();
        while let Some((_, name)) = self.trial_limits.first().filter(|(limit, _)| *limit <= now.instant).cloned() {
            self.trial_limits.pop_first();
            let is_on_trial = self.nodes.get(&name).is_some_and(|node| node.current_trial().is_some());
            overdue.extend(Some((name, Duration::ZERO)).filter(|_| awaits_trials && is_on_trial));
        }
        for (name, waited) in overdue {
            let Some(node) = self.nodes.get(&name) else { continue };
            let failure = ConvergenceFailure::TimedOut { waiting: node.waiting.clone() };
            self.fail(&name, failure, waited, now, commands);
        }
    }

    /// Ends the wait for trials, if this stop ends the run.
    fn stop(&mut self, reason: &StopReason, commands: &mut Vec<Command>) {
        let waited = self.counts.in_flight == 0 && self.trials.are_awaited(self.counts.on_trial);
        if self.trials.abandon(reason) && waited {
            self.report(None, Progress::Stopped { reason: reason.clone() }, commands);
        }
    }

    /// Records the trial of a node that runs its target.
    fn set_trial(&mut self, name: &NodeName, trial: Option<TrialRun>) {
        self.trial_limits.extend(trial.map(|run| (run.limit, name.clone())));
        self.update(name, |node| {
            node.trial = trial;
            if trial.is_some() {
                node.waiting = Waiting::OnTrial;
            }
        });
    }

    fn next_tick(&self) -> Option<Instant> {
        let is_watching = self.counts.in_flight > 0;
        let limit = self.since.filter(|_| is_watching).map(|since| since.after(self.limit));
        let awaits_trials = self.trials.are_awaited(self.counts.on_trial);
        let trial = self.trial_limits.first().filter(|_| awaits_trials).map(|(limit, _)| *limit);
        limit.into_iter().chain(trial).min()
    }

    fn is_finished(&self) -> bool {
        self.counts.in_flight == 0 && !self.trials.are_awaited(self.counts.on_trial)
    }

    fn outcome(&self) -> PoolOutcome {
        let of_node = |(name, node): (&NodeName, &Watched)| {
            let unknown = if self.since.is_some() { End::InFlight } else { End::NotStarted };
            let (end, seconds) = node.end.clone().unwrap_or((unknown, None));
            NodeOutcome {
                node: name.clone(),
                from: node.intent.from().cloned(),
                to: Target::clone(&node.intent.wanted),
                end,
                seconds,
                trial: node.current_trial(),
                drain: None,
                recovery: None,
                marked: false,
            }
        };
        let stopped = self.trials.stopped(self.counts.on_trial).cloned();
        PoolOutcome { stopped, held: None, nodes: self.nodes.iter().map(of_node).collect() }
    }
}

/// Nodes that are not assigned. Those that joined recently and never had a configuration end as new with
/// `--new-nodes-within`. Others are waited for while a sync may assign them.
impl Pool {
    /// Creation time of a new node that is not awaited. Remembers the other new nodes.
    fn joined_recently(&mut self, seen: &Node, now: Timestamp) -> Option<Timestamp> {
        let joined = seen.new_since().filter(|_| !self.is_local && !seen.is_unreadable());
        let is_recent = |joined: &Timestamp| {
            self.new_nodes_within.is_some_and(|within| Age::between(*joined, now).duration() < within)
        };
        let recently = joined.filter(is_recent);
        self.update(&seen.name, |node| node.joined = joined.filter(|_| recently.is_none()));
        recently
    }

    /// Reports whether waiting may help a node that is not assigned. A new node that has not assigned itself within the time
    /// limit does not join.
    fn awaits_assignment(&self, node: &Watched, now: Timestamp) -> bool {
        let is_joining = |joined: Timestamp| Age::between(joined, now).duration() < self.limit;
        match self.unassigned {
            Unassigned::Awaited => true,
            Unassigned::Joining => node.joined.is_some_and(is_joining),
            Unassigned::Failed => false,
        }
    }

    /// Fails the nodes that are not assigned: no sync runs.
    fn no_sync_runs(&mut self, joining: bool, now: Now, commands: &mut Vec<Command>) {
        self.unassigned = if joining { Unassigned::Joining } else { Unassigned::Failed };
        let waited = self.since.map_or(Duration::ZERO, |since| now.instant.since(since));
        let is_lost = |(_, node): &(&NodeName, &Watched)| {
            let waits = node.end.is_none() && node.waiting == Waiting::NotAssigned;
            waits && self.since.is_some() && !self.awaits_assignment(node, now.time)
        };
        let lost: Vec<NodeName> = self.nodes.iter().filter(is_lost).map(|(name, _)| name.clone()).collect();
        let failure = || ConvergenceFailure::NoSync { waiting: Waiting::NotAssigned };
        lost.iter().for_each(|name| self.fail(name, failure(), waited, now, commands));
    }

    /// Failure of a node. With `--new-nodes-within`, the failure of a new node that was not assigned states its age.
    fn failure_of_new_node(&self, name: &NodeName, failure: ConvergenceFailure, now: Timestamp) -> ConvergenceFailure {
        let joined = self.nodes.get(name).and_then(|node| node.joined).filter(|_| self.new_nodes_within.is_some());
        let never = |joined: Timestamp| Waiting::NeverAssigned {
            joined,
            age_seconds: Age::between(joined, now).duration().as_secs(),
        };
        match (failure, joined) {
            (ConvergenceFailure::TimedOut { waiting: Waiting::NotAssigned }, Some(joined)) => {
                ConvergenceFailure::TimedOut { waiting: never(joined) }
            }
            (ConvergenceFailure::NoSync { .. }, Some(joined)) => ConvergenceFailure::NoSync { waiting: never(joined) },
            (failure, _) => failure,
        }
    }
}

impl Verify {
    /// Creates the run for a plan.
    #[must_use]
    pub fn new(plan: &Plan, mode: &Mode) -> Self {
        let pools: BTreeMap<PoolName, Pool> =
            plan.pools.iter().map(|pool| (pool.name.clone(), Pool::new(pool, mode))).collect();
        let nodes =
            pools.iter().flat_map(|(name, pool)| pool.nodes.keys().map(move |node| (node.clone(), name.clone())));
        Self { pool_of: nodes.collect(), pools }
    }
}

impl StateMachine for Verify {
    fn step(&mut self, input: Input, now: Now) -> Vec<Command> {
        let mut commands = Vec::new();
        let out = &mut commands;
        let pools = self.pools.values_mut();
        match &input {
            Input::Start => pools.for_each(|pool| pool.since = Some(now.instant)),
            Input::Tick => pools.for_each(|pool| pool.tick(now, out)),
            Input::NoSync { joining } => pools.for_each(|pool| pool.no_sync_runs(*joining, now, out)),
            Input::Stop(reason) => pools.for_each(|pool| pool.stop(reason, out)),
            Input::StopPool(name, reason) => {
                self.pools.get_mut(name).into_iter().for_each(|pool| pool.stop(reason, out))
            }
            Input::Observed(node) | Input::Unselected(node) => {
                if let Some(pool) = self.pool_of.get(&node.name).and_then(|name| self.pools.get_mut(name)) {
                    pool.observed(node, now, out);
                }
            }
            Input::Gone(node) => {
                if let Some(pool) = self.pool_of.get(node).and_then(|name| self.pools.get_mut(name)) {
                    pool.gone(node, out);
                }
            }
            // The rest answers requests, and this run sends none.
            _ => {}
        }
        for pool in self.pools.values_mut().filter(|pool| pool.since.is_some() && pool.counts.in_flight == 0) {
            if let Some(progress) = pool.trials.announce(pool.counts.on_trial) {
                pool.report(None, progress, &mut commands);
            }
        }
        commands
    }

    fn missing(&self, present: &BTreeSet<NodeName>) -> Vec<NodeName> {
        self.pool_of.keys().filter(|node| !present.contains(*node)).cloned().collect()
    }

    fn next_tick(&self) -> Option<Instant> {
        self.pools.values().filter_map(Pool::next_tick).min()
    }

    fn is_finished(&self) -> bool {
        self.pools.values().all(Pool::is_finished)
    }

    fn outcome(&self) -> Outcome {
        Outcome { pools: self.pools.iter().map(|(name, pool)| (name.clone(), pool.outcome())).collect() }
    }
}
