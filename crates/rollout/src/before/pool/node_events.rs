//! Events of single nodes of a pool: results of patches, and node states from the watch.

use std::time::Duration;

use super::PoolRun;
use super::node_state::{Group, Mark, NodeState, Phase, Purpose, Rollback};
use crate::StopReason;
use crate::before::signals::{Command, Context};
use crate::progress::{Progress, StartGate};
use nodecfg_contract::Assignment;
use nodecfg_contract::observed::{Node, Readiness};
use nodecfg_planning::convergence::{Convergence, ConvergenceFailure, WaitContext, Waiting, evaluate};
use nodecfg_planning::instant::Instant;
use nodecfg_planning::plan::{Action, Decision, LeftAlone, Step, Why, hold_reason, is_available};

/// Limit of new decisions for an assignment that conflicts with another client, before the node is left unchanged.
const MAX_REPLANS: u8 = 3;

/// Number of regressions that a soaking node may recover from. The next one is a failure.
const MAX_REGRESSIONS: u8 = 3;

impl PoolRun {
    pub(crate) fn assigned(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.in_phase(number, &Phase::Assigning) else { return };
        let (from, to) = (node.from.clone(), self.target.clone());
        self.nodes.update(number, |node| node.waiting = Waiting::NotAcknowledged);
        self.watch(number, context);
        self.report_node(number, context, |pool, node| Progress::Assigned { pool, node, from, to });
        if self.rolling_back {
            self.roll_back_node(number, context);
        }
        self.start_more(context);
    }

    /// Handles an assignment that was not sent. The node becomes pending, but does not start again, because its pool
    /// has stopped.
    pub(crate) fn withdrawn(&mut self, number: usize) {
        if self.nodes.get(number).is_some_and(|node| node.phase == Phase::Assigning) {
            self.nodes.set(number, Phase::Pending);
        }
    }

    pub(crate) fn refused(&mut self, number: usize, error: String, context: &mut Context<'_>) {
        let Some(node) = self.nodes.in_phase(number, &Phase::Assigning) else { return };
        let (group, phase) = (node.group, Phase::Refused { error: error.clone() });
        // Until the next event of the node, it is unknown whether the patch was applied, so the node counts as
        // unavailable.
        self.nodes.update(number, |node| (node.phase, node.healthy) = (phase, false));
        self.report_node(number, context, |pool, node| Progress::Refused { pool, node, error });
        self.count_failure(number, group, context);
        self.start_more(context);
    }

    /// Handles an assignment that conflicted with another change. `current` is the changed node. `decision` is the
    /// new decision of planning; `None` if the node left the pool.
    pub(crate) fn changed(
        &mut self,
        number: usize,
        current: &Node,
        decision: Option<Decision>,
        context: &mut Context<'_>,
    ) {
        let Some(node) = self.nodes.in_phase(number, &Phase::Assigning) else { return };
        let (name, replans) = (node.name.clone(), node.replans + 1);
        self.remember_resources(number, current, self.target.is_assigned_to(current));
        self.nodes.update(number, |node| {
            node.replans = replans;
            node.ready = current.ready == Readiness::Ready;
            node.healthy = is_available(current);
            node.is_self_assigned = current.is_self_assigned();
        });
        let planned = self.nodes.get(number).and_then(|node| node.assignment.clone());
        let may_retry = replans <= MAX_REPLANS && self.stopped.is_none();
        // With a reviewed plan, only the reviewed assignment may be sent again.
        let may_assign = |now: &Assignment| may_retry && (!self.mode.as_reviewed || planned.as_ref() == Some(now));
        match decision {
            Some(Decision::Step(Step {
                action: Action::Assign,
                assignment,
                was_ready,
                can_return,
                rollback_needs,
                drain,
                rollback_drain,
                ..
            })) if may_assign(&assignment) => {
                let is_prepared = !drain || matches!(self.nodes.get(number), Some(node) if node.is_marked());
                let command = Command::Assign(name, assignment.clone());
                self.nodes.update(number, |node| {
                    let starts_alike = |before: &Assignment| {
                        (&before.uid, &before.from, before.from_placement)
                            == (&assignment.uid, &assignment.from, assignment.from_placement)
                    };
                    // A new decision for one node does not know what its return needs.
                    if !node.assignment.as_ref().is_some_and(starts_alike) {
                        (node.can_return, node.rollback_needs) = (can_return, rollback_needs);
                    }
                    node.uid.clone_from(&assignment.uid);
                    (node.from, node.assignment) = (assignment.from.clone(), Some(assignment));
                    node.was_ready = was_ready;
                    node.needs_drain |= drain;
                    node.rollback_drain |= rollback_drain;
                });
                if is_prepared && self.needs_budget_now(number) {
                    self.return_to_queue(number, context);
                } else if is_prepared {
                    context.commands.push(command);
                } else {
                    self.begin_drain(number, Purpose::Assign, context);
                }
            }
            // The node points at its target: the response to the patch was lost, or another client assigned the same
            // source.
            Some(
                Decision::Step(Step { action: Action::Await { .. }, .. })
                | Decision::LeaveAlone(LeftAlone { why: Why::Converged, .. }),
            ) => {
                self.assigned(number, context);
                // Evaluated here instead of as a watch event, because the watch may still deliver older events.
                self.evaluate_watched(number, current, context.now, context);
            }
            Some(Decision::LeaveAlone(LeftAlone {
                why: why @ (Why::Adopted { .. } | Why::Conflict { .. }), ..
            })) => {
                self.nodes.set(number, Phase::LeftAlone(why));
                self.report_changed(number, current, context);
            }
            Some(Decision::LeaveAlone(LeftAlone { why, .. })) if why.may_end() => {
                self.hold(number, why, context);
            }
            Some(Decision::LeaveAlone(_) | Decision::Step(_)) | None => {
                self.nodes.set(number, Phase::Changed { to: current.source.clone() });
                self.report_changed(number, current, context);
            }
        }
        self.replace_canary(number);
        self.advance_canaries(context);
        self.start_more(context);
    }

    fn report_changed(&self, number: usize, current: &Node, context: &mut Context<'_>) {
        let to = current.source.clone();
        self.report_node(number, context, |pool, node| Progress::Changed { pool, node, to });
    }

    pub(crate) fn gone(&mut self, number: usize, context: &mut Context<'_>) {
        if self.nodes.in_phase(number, &Phase::Gone).is_some() {
            return;
        }
        self.end_drain(number, context);
        // The mark is gone with the Node.
        self.nodes.update(number, |node| (node.phase, node.mark) = (Phase::Gone, Mark::None));
        self.marked.remove(&number);
        self.report_node(number, context, |pool, node| Progress::Gone { pool, node });
        self.replace_canary(number);
        self.advance_canaries(context);
        self.start_more(context);
    }

    pub(crate) fn observed(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        if seen.is_unreadable() {
            self.unreadable(number, seen, context);
            return;
        }
        let healthy = is_available(seen);
        let on_target = self.target.is_assigned_to(seen);
        let runs_target = self.target.is_active_on(seen);
        let Some(node) = self.nodes.get(number) else { return };
        let left_target = node.seen_on_target && !on_target;
        let on_previous = node.can_roll_back() && node.previous().is_assigned_to(seen);
        self.nodes.update(number, |node| {
            node.ready = seen.ready == Readiness::Ready;
            node.healthy = healthy;
            node.is_claimed = hold_reason(seen).is_some();
            node.is_self_assigned = seen.is_self_assigned();
            node.seen_on_target |= on_target;
            node.runs_target = Some(runs_target);
        });
        self.remember_resources(number, seen, on_target);
        self.observe_mark(number, seen, context);
        let Some(phase) = self.nodes.get(number).map(|node| node.phase.clone()) else { return };
        match phase {
            Phase::Pending | Phase::Listing | Phase::Draining { purpose: Purpose::Assign, .. }
                if let Some(why) = self.must_wait(number, seen) =>
            {
                self.hold(number, why, context);
            }
            Phase::Watching { .. } | Phase::LeftAlone(Why::NoDynamicConfig | Why::Outlived)
                if let Some(joined) = self.joined_recently(number, seen, context.time) =>
            {
                self.hold(number, Why::New { joined }, context);
            }
            Phase::LeftAlone(why) if why.may_end() && self.must_wait(number, seen).is_none() => {
                self.resume(number, healthy);
            }
            Phase::Pending if !healthy && self.is_gate_open_for(number) => self.queue_unavailable(number),
            // Rolled back by this rollout: the watch event arrived before the response to the patch, or the response
            // was lost.
            Phase::Watching { .. } if left_target && self.rolling_back && on_previous => {
                self.evaluate_rollback(number, seen, left_target, context);
            }
            Phase::RollbackSent { .. }
            | Phase::RollingBack { .. }
            | Phase::Failed { rollback: Rollback::Requested | Rollback::Assigned { .. }, .. }
                if on_previous || on_target || !left_target =>
            {
                self.evaluate_rollback(number, seen, left_target, context);
            }
            Phase::Watching { .. }
            | Phase::Settling { .. }
            | Phase::RollbackSent { .. }
            | Phase::RollingBack { .. }
                if left_target && self.mode.assign =>
            {
                self.mark_changed(number, seen, context)
            }
            // The node left the target after it converged.
            Phase::Converged { .. } | Phase::LeftAlone(Why::Converged) if left_target => {
                self.mark_changed(number, seen, context)
            }
            // A new node with the old name, which the plan does not cover.
            Phase::Gone if !seen.deleting => self.mark_changed(number, seen, context),
            // The watch event may arrive before the response to the patch. It must not be lost.
            Phase::Assigning if on_target => {
                self.assigned(number, context);
                self.evaluate_watched(number, seen, context.now, context);
            }
            Phase::Watching { since } => {
                // First event on the target since the rollback was requested.
                if self.rolling_back && on_target {
                    self.roll_back_node(number, context);
                }
                self.evaluate_watched(number, seen, since, context);
            }
            Phase::Settling { .. } => {
                if self.rolling_back && on_target {
                    self.roll_back_node(number, context);
                }
                self.evaluate_settling(number, seen, context);
            }
            Phase::Converged { .. } | Phase::LeftAlone(Why::Converged | Why::Adopted { .. }) => {
                self.evaluate_converged(number, seen, context);
            }
            _ => {}
        }
        self.advance_canaries(context);
        self.start_more(context);
    }

    /// Handles a node that no longer matches its pool. A pending node counts as changed by another client. A started
    /// node is watched to its end, and the next run handles it.
    pub(crate) fn unselected(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        if self.mode.assign
            && !seen.deleting
            && !seen.is_unreadable()
            && self.nodes.get(number).is_some_and(|node| node.is_unassigned() || node.is_held())
        {
            self.end_drain(number, context);
            self.mark_changed(number, seen, context);
        }
        self.observed(number, seen, context);
    }

    /// Marks the node as changed by another client.
    fn mark_changed(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        self.nodes.set(number, Phase::Changed { to: seen.source.clone() });
        self.report_changed(number, seen, context);
        self.replace_canary(number);
    }

    pub(super) fn evaluate_watched(&mut self, number: usize, seen: &Node, since: Instant, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        // For example, the node is being rolled back.
        if !matches!(node.phase, Phase::Watching { .. }) {
            return;
        }
        let waited = context.now.since(since);
        let is_drained = node.is_marked() && self.mode.assign;
        let settles = is_drained || node.must_prove();
        let expected = node.expected();
        // A drained node waits for its resources while it settles.
        let resources = expected.resources.filter(|_| !is_drained);
        let wait = WaitContext { resources, waited, timeout: Some(self.timeout), ..expected };
        match evaluate(&self.target, seen, wait) {
            Convergence::Converged if settles => {
                self.begin_settling(number, seen, since, context);
            }
            Convergence::Converged => {
                self.begin_trial(number, seen, context);
                self.converged(number, waited, context);
            }
            // The event is older than the assignment.
            Convergence::Waiting(Waiting::NotAssigned) if self.mode.assign => {}
            Convergence::Waiting(waiting @ Waiting::NotAssigned) if !self.awaits_assignment(number, context.time) => {
                self.fail(number, ConvergenceFailure::NoSync { waiting }, waited, context);
            }
            Convergence::Waiting(waiting) if waiting != node.waiting => self.set_waiting(number, waiting, context),
            Convergence::Waiting(_) => {}
            Convergence::Failed(failure) => self.fail(number, failure, waited, context),
        }
    }

    pub(super) fn set_waiting(&mut self, number: usize, waiting: Waiting, context: &mut Context<'_>) {
        self.nodes.update(number, |node| node.waiting = waiting.clone());
        self.report_node(number, context, |pool, node| Progress::Waiting { pool, node, waiting });
    }

    /// Detects regressions of a converged node: a later kubelet error, a failed trial, or a node of a soak that is no
    /// longer Ready or no longer runs the target.
    pub(super) fn evaluate_converged(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let of_canary = node.group == Group::Canary && !self.gate.has_passed_canaries();
        let of_domain =
            matches!(node.phase, Phase::Converged { .. }) && matches!(self.gate, StartGate::SoakingDomain { .. });
        let soaking = of_canary || of_domain;
        let on_trial = node.trial.is_some();
        let was_settled = matches!(node.phase, Phase::LeftAlone(_));
        // A node that is not Ready has not passed its trial.
        let wait = if soaking || on_trial { node.expected() } else { WaitContext::STATE_ONLY };
        match evaluate(&self.target_of(number), seen, wait) {
            Convergence::Converged => self.update_trial(number, seen, context),
            Convergence::Failed(_) if was_settled && !on_trial => {}
            Convergence::Failed(failure) => self.fail(number, failure, Duration::ZERO, context),
            Convergence::Waiting(waiting) if soaking => self.regressed(number, waiting, context),
            Convergence::Waiting(waiting) => self.nodes.update(number, |node| node.waiting = waiting),
        }
    }

    /// Watches a converged node again, which ends the soak. Fails a node that regresses again and again.
    pub(super) fn regressed(&mut self, number: usize, waiting: Waiting, context: &mut Context<'_>) {
        if self.nodes.get(number).is_some_and(|node| node.readiness_losses >= MAX_REGRESSIONS) {
            return self.fail(number, ConvergenceFailure::TimedOut { waiting }, Duration::ZERO, context);
        }
        self.nodes.update(number, |node| node.readiness_losses += 1);
        match self.gate.has_passed_canaries() {
            true => self.interrupt_domain_soak(),
            false => self.gate = StartGate::Canaries,
        }
        self.watch(number, context);
        self.set_waiting(number, waiting, context);
        if self.rolling_back {
            self.roll_back_node(number, context);
        }
    }

    /// Marks a node as converged after this time since its assignment.
    pub(super) fn converged(&mut self, number: usize, waited: Duration, context: &mut Context<'_>) {
        let seconds = waited.as_secs_f64();
        self.nodes.set(number, Phase::Converged { seconds });
        let trial = self.nodes.get(number).and_then(NodeState::current_trial);
        if trial.is_some() {
            self.nodes.update(number, |node| node.waiting = Waiting::OnTrial);
        }
        self.report_node(number, context, |pool, node| Progress::Converged { pool, node, seconds, trial });
        self.replace_canary(number);
    }

    pub(super) fn fail(
        &mut self,
        number: usize,
        failure: ConvergenceFailure,
        waited: Duration,
        context: &mut Context<'_>,
    ) {
        let failure = self.failure_of_new_node(number, failure, context.time);
        let Some(node) = self.nodes.get(number) else { return };
        let (group, seconds) = (node.group, waited.as_secs_f64());
        self.last_failed = Some(node.name.clone());
        self.interrupt_domain_soak();
        let may_help = failure.may_be_the_configuration();
        self.nodes.set(number, Phase::Failed { failure: failure.clone(), seconds, rollback: Rollback::No });
        self.report_node(number, context, |pool, node| Progress::Failed { pool, node, failure });
        if (self.mode.rollback_on_failure && may_help) || self.rolling_back {
            self.roll_back_node(number, context);
        }
        if self.nodes.get(number).is_some_and(NodeState::was_down) {
            self.replace_canary(number);
        } else if self.mode.assign {
            self.count_failure(number, group, context);
        }
    }

    pub(super) fn count_failure(&mut self, number: usize, group: Group, context: &mut Context<'_>) {
        self.failures = self.failures.saturating_add(1);
        let Some(node) = self.nodes.get(number) else { return };
        if group == Group::Canary && !self.gate.has_passed_canaries() {
            let reason = StopReason::CanaryFailed { node: node.name.clone() };
            self.stop(&reason, context);
        } else if self.failures > self.max_failures {
            let reason = StopReason::TooManyFailures { failures: self.failures, max_failures: self.max_failures };
            self.stop(&reason, context);
        }
    }
}
