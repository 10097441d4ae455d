//! Rollbacks of single nodes: their request, its answer, and the watch of a node until it runs its previous source.

use super::PoolRun;
use super::node_state::{BeforeRollback, Group, NodeState, Phase, Purpose, Rollback};
use crate::before::signals::{Command, Context};
use crate::progress::Progress;
use nodecfg_contract::observed::Node;
use nodecfg_planning::convergence::{Convergence, ConvergenceFailure, Waiting, evaluate};
use nodecfg_planning::drain::DrainFailure;
use nodecfg_planning::instant::Instant;

impl PoolRun {
    /// Rolls back a node that was assigned and has not converged, if it can return and the pool allows the
    /// disruption. Rolls back a converged canary too, as long as the gate is closed, and every converged node of a pool
    /// that returns.
    pub(super) fn roll_back_node(&mut self, number: usize, context: &mut Context<'_>) {
        let can_return = |node: &&NodeState| node.can_roll_back() && !node.keeps_target;
        let Some(node) = self.nodes.get(number).filter(can_return) else { return };
        let returns = match &node.phase {
            // The node was not drained, or another client claimed it.
            Phase::Failed { failure: ConvergenceFailure::Drain { .. }, .. } => false,
            Phase::Converged { .. } => {
                self.is_returning || (node.group == Group::Canary && !self.gate.has_passed_canaries())
            }
            _ => true,
        };
        let Some(phase) = node.phase.rolled_back(context.now).filter(|_| returns) else { return };
        if let Some(needs) = node.rollback_blocked_by() {
            if !node.refusal_reported && node.runs_target == Some(true) {
                self.report_node(number, context, |pool, node| Progress::NotRolledBack { pool, node, needs });
                self.nodes.update(number, |node| node.refusal_reported = true);
            }
            return;
        }
        // A converged node is available, so that its rollback needs budget.
        if node.rollback_needs_drain() || matches!(node.phase, Phase::Converged { .. }) {
            if !self.rollback_drains.contains(&number) {
                self.rollback_drains.push_back(number);
            }
            return;
        }
        self.send_rollback(number, phase, context);
    }

    /// Sends the rollback of a node, which is then in this phase.
    pub(super) fn send_rollback(&mut self, number: usize, phase: Phase, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let Some(assignment) = node.assignment.clone() else { return };
        context.commands.push(Command::RollBack(node.name.clone(), assignment.reversed()));
        self.nodes.update(number, |node| (node.phase, node.seen_rolled_back) = (phase, false));
    }

    /// Rolls back every node that this run assigned: those in transition at once, converged ones within the budget.
    pub(super) fn return_all(&mut self, context: &mut Context<'_>) {
        (self.rolling_back, self.is_returning) = (true, true);
        for number in self.nodes.numbers() {
            self.roll_back_node(number, context);
        }
        self.start_rollback_drains(context);
    }

    /// Rolls back queued nodes as far as the budget allows, after their drain if they need one.
    pub(super) fn start_rollback_drains(&mut self, context: &mut Context<'_>) {
        while let Some(number) = self.rollback_drains.front().copied() {
            let Some(node) = self.nodes.get(number).filter(|node| !node.awaits_mark_answer()) else { return };
            // A failed node counts as unavailable, although it may run its pods.
            let others = self.nodes.unavailable() - usize::from(node.unavailable());
            if node.healthy && others >= self.limit() {
                // A node in transition may make room.
                if self.nodes.in_flight() > 0 || self.awaits_other_pools() {
                    self.rollback_stalled_since = None;
                } else if self.rollback_stalled_since.is_none() {
                    self.rollback_stalled_since = Some(context.now);
                    context.timers.wake(context.now.after(self.timeout), &self.name, None);
                }
                return;
            }
            self.rollback_stalled_since = None;
            self.rollback_drains.pop_front();
            if node.is_claimed {
                self.stays_on_target(number, DrainFailure::Claimed, context);
                continue;
            }
            let Some(phase) = node.phase.rolled_back(context.now) else { continue };
            if node.rollback_needs_drain() {
                let before = BeforeRollback { phase: node.phase.clone(), waiting: node.waiting.clone() };
                self.begin_drain(number, Purpose::RollBack(Box::new(before)), context);
            } else {
                self.send_rollback(number, phase, context);
            }
        }
    }

    /// Leaves queued nodes on their target, because unavailable nodes use up the budget for too long.
    pub(super) fn abandon_stalled_rollbacks(&mut self, context: &mut Context<'_>) {
        if self.rollback_stalled_since.is_none_or(|since| context.now.since(since) < self.timeout) {
            return;
        }
        self.rollback_stalled_since = None;
        for number in std::mem::take(&mut self.rollback_drains) {
            self.stays_on_target(number, DrainFailure::NoBudget, context);
        }
    }

    /// Gives up the rollback of a node, which stays on its target.
    pub(super) fn stays_on_target(&mut self, number: usize, failure: DrainFailure, context: &mut Context<'_>) {
        self.nodes.update(number, |node| node.keeps_target = true);
        let failure = ConvergenceFailure::Drain { failure };
        self.report_node(number, context, |pool, node| Progress::RollbackFailed { pool, node, failure });
    }

    /// Marks that the node points at its previous source, and starts the time limit of the rollback.
    pub(super) fn rollback_accepted(&mut self, number: usize, context: &mut Context<'_>) {
        let now = context.now;
        self.nodes.update(number, |node| node.waiting = Waiting::NotAcknowledged);
        self.nodes.update(number, |node| match &mut node.phase {
            Phase::RollbackSent { since } | Phase::Watching { since } => {
                node.phase = Phase::RollingBack { since: *since, pointed: now };
            }
            Phase::Failed { rollback, .. } => *rollback = Rollback::Assigned { since: now },
            _ => {}
        });
        context.timers.wake(now.after(self.timeout), &self.name, Some(number));
    }

    /// Time since which the node points at its previous source without running it.
    pub(super) fn rollback_since(&self, number: usize) -> Option<Instant> {
        match self.nodes.get(number)?.phase {
            Phase::RollingBack { pointed, .. } => Some(pointed),
            Phase::Failed { rollback: Rollback::Assigned { since }, .. } => Some(since),
            _ => None,
        }
    }

    /// Returns what an overdue rollback still waits for; `None` if it is within the time limit.
    pub(super) fn overdue_rollback(&self, number: usize, context: &Context<'_>) -> Option<Waiting> {
        let since = self.rollback_since(number)?;
        let node = self.nodes.get(number).filter(|_| context.now.since(since) >= self.timeout)?;
        Some(node.waiting.clone())
    }

    /// Evaluates an event of a node during its rollback. Until the watch has shown the node on its target, an event
    /// on the previous source may be older than the assignment. Such an event is only recorded, and decides if the
    /// rollback times out.
    pub(super) fn evaluate_rollback(
        &mut self,
        number: usize,
        seen: &Node,
        left_target: bool,
        context: &mut Context<'_>,
    ) {
        let Some(node) = self.nodes.get(number) else { return };
        let from = node.previous();
        if !from.is_assigned_to(seen) {
            self.nodes.update(number, |node| node.seen_rolled_back = false);
            return;
        }
        let verdict = evaluate(&from, seen, node.expected());
        self.nodes.update(number, |node| node.seen_rolled_back = verdict == Convergence::Converged);
        if !left_target {
            return;
        }
        if self.rollback_since(number).is_none() {
            self.rollback_accepted(number, context);
        }
        match verdict {
            Convergence::Converged => self.rollback_done(number, context),
            Convergence::Waiting(waiting) => self.nodes.update(number, |node| node.waiting = waiting),
            Convergence::Failed(failure) => self.rollback_failed(number, failure, context),
        }
    }

    /// Marks the rollback as failed, unless an earlier event showed its success.
    pub(super) fn rollback_failed(&mut self, number: usize, failure: ConvergenceFailure, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        if node.seen_rolled_back {
            self.rollback_done(number, context);
            return;
        }
        let (now, reported) = (context.now, failure.clone());
        self.nodes.update(number, |node| match &mut node.phase {
            Phase::Failed { rollback, .. } => *rollback = Rollback::Failed,
            Phase::RollingBack { since, .. } => {
                let seconds = now.since(*since).as_secs_f64();
                node.phase = Phase::Failed { failure, seconds, rollback: Rollback::Failed };
            }
            _ => {}
        });
        self.report_node(number, context, |pool, node| Progress::RollbackFailed { pool, node, failure: reported });
    }

    /// Marks the rollback as done.
    pub(super) fn rollback_done(&mut self, number: usize, context: &mut Context<'_>) {
        let now = context.now;
        self.nodes.update(number, |node| match &mut node.phase {
            Phase::Failed { rollback, .. } => *rollback = Rollback::Done,
            Phase::RollingBack { since, .. } => {
                node.phase = Phase::RolledBack { seconds: now.since(*since).as_secs_f64() };
            }
            _ => {}
        });
        let to = self.nodes.get(number).and_then(|node| node.from.clone());
        self.report_node(number, context, |pool, node| Progress::RolledBack { pool, node, to });
    }

    pub(crate) fn rolled_back(&mut self, number: usize, result: Result<(), String>, context: &mut Context<'_>) {
        let Some(phase) = self.nodes.get(number).map(|node| node.phase.clone()) else { return };
        let is_requested =
            matches!(phase, Phase::RollbackSent { .. } | Phase::Failed { rollback: Rollback::Requested, .. });
        // The watch has already shown the rollback, or another client changed the node.
        if !is_requested {
            return;
        }
        match result {
            Ok(()) => self.rollback_accepted(number, context),
            Err(error) => {
                self.report_node(number, context, |pool, node| Progress::Refused { pool, node, error });
                match phase {
                    // The watch shows whether the patch was applied.
                    Phase::RollbackSent { since } => self.resume_watching(number, since, context),
                    _ => self.nodes.update(number, |node| {
                        if let Phase::Failed { rollback, .. } = &mut node.phase {
                            *rollback = Rollback::No;
                        }
                    }),
                }
            }
        }
        self.start_more(context);
    }

    /// Watches the node as before, after the API server refused its rollback.
    pub(super) fn resume_watching(&mut self, number: usize, since: Instant, context: &mut Context<'_>) {
        self.nodes.set(number, Phase::Watching { since });
        context.timers.wake(since.after(self.timeout), &self.name, Some(number));
        self.timer_fired(Some(number), context);
    }
}
