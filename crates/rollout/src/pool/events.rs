//! Events of single nodes: answers to their requests, what the watch shows of them, and their time limits.

use std::time::Duration;

use super::Pool;
use super::node::{Attempts, Goal, Mark, Node, Pointed, Stage, Wave};
use super::table::Id;
use crate::instant::Instant;
use crate::intent::Planned;
use crate::outcome::{End, StopReason};
use crate::progress::{Progress, StartGate};
use nodecfg_contract::Assignment;
use nodecfg_observed::{Node as Seen, Readiness};
use nodecfg_plan::convergence::{Convergence, ConvergenceFailure, Target, WaitContext, Waiting, evaluate};
use nodecfg_plan::{Action, Decision, LeftAlone, Step, Why, hold_reason, is_available};

/// Limit of new decisions for an assignment that conflicts with another client, before the node is left unchanged.
const MAX_REPLANS: u8 = 3;

/// Number of regressions that a node may recover from while it settles or soaks. The next one is a failure: a node that
/// comes and goes must not keep a run alive.
const MAX_REGRESSIONS: u8 = 3;

impl Pool {
    /// Handles what the watch shows of a node.
    pub(crate) fn observed(&mut self, id: Id, seen: &Seen) {
        let was_held = self.nodes[id].is_held();
        let was_on_target = self.nodes[id].facts.pointed == Pointed::Seen;
        // In a stopped pool, a held node stays unchanged.
        let stays = was_held && self.closed.stopped.is_some();
        self.nodes.update(id, |node| {
            let held = node.facts.hold.take().filter(|_| stays);
            observe(node, seen);
            node.facts.hold = held.or(node.facts.hold.take());
        });
        if self.nodes[id].facts.hold.is_some() && self.nodes[id].is_unassigned() {
            self.return_to_start(id);
        }
        if let Some(why) = self.nodes[id].facts.hold.clone().filter(|_| self.nodes[id].is_held()) {
            self.held(id, why, was_held);
        }
        if seen.is_unreadable() {
            return self.unreadable(id, seen);
        }
        self.observe_mark(id);
        let node = &self.nodes[id];
        let on_target = node.intent.target.is_assigned_to(seen);
        let left_target = was_on_target && !on_target;
        let on_previous = || node.intent.way_back().is_some() && node.intent.previous().is_assigned_to(seen);
        match &node.stage {
            // A new node with the old name, which the plan does not cover.
            Stage::Ended { end: End::Gone, .. } if !seen.deleting => self.changed_by_others(id, seen),
            // The node left the target after it converged.
            Stage::Ended { end: End::Converged | End::LeftAlone { why: Why::Converged }, .. } if left_target => {
                self.changed_by_others(id, seen);
            }
            Stage::Ended { .. } if node.is_on_target() => self.evaluate_converged(id, seen),
            Stage::Assigning | Stage::Converging { .. } if node.goes_back() => {
                if on_previous() || on_target || !left_target {
                    self.evaluate_rollback(id, seen, left_target);
                } else if node.failure().is_none() {
                    self.changed_by_others(id, seen);
                }
            }
            // The watch event may arrive before the response to the patch. It must not be lost.
            Stage::Assigning if on_target => {
                self.assigned(id);
                self.evaluate_watched(id, seen);
            }
            Stage::Converging { .. } if left_target && self.rollbacks.is_on() && on_previous() => {
                self.was_rolled_back_unseen(id, seen);
            }
            Stage::Converging { .. } | Stage::Settling(_) if left_target => self.changed_by_others(id, seen),
            Stage::Converging { .. } | Stage::Settling(_) => {
                // First event on the target since the rollback was requested.
                if self.rollbacks.is_on() && on_target {
                    self.roll_back(id);
                }
                self.evaluate_watched(id, seen);
            }
            _ => {}
        }
    }

    /// Leaves a node unchanged that has not started: as long as the reason lasts, or for good if it does not end.
    fn held(&mut self, id: Id, why: Why, was_held: bool) {
        if !why.may_end() {
            let end = End::LeftAlone { why: why.clone() };
            self.nodes.update(id, |node| node.stage = Stage::Ended { end, seconds: None });
        }
        if !was_held {
            self.report_node(id, Progress::Held { why });
        }
    }

    /// Handles an event without a known state. The node counts as unavailable and does not start. In transition it does not
    /// converge, so its time limit decides; a soaking canary regresses.
    fn unreadable(&mut self, id: Id, seen: &Seen) {
        match &self.nodes[id].stage {
            Stage::Converging { .. } | Stage::Settling(_) if !self.nodes[id].goes_back() => {
                self.evaluate_watched(id, seen)
            }
            Stage::Ended { end: End::Converged, .. } => self.evaluate_converged(id, seen),
            _ => {}
        }
    }

    /// Handles a node that no longer matches its pool. A pending node counts as changed by another client. A started node is
    /// watched to its end, and the next run handles it.
    pub(crate) fn unselected(&mut self, id: Id, seen: &Seen) {
        let node = &self.nodes[id];
        if node.is_unassigned() && !seen.deleting && !seen.is_unreadable() {
            self.end_drain(id);
            self.changed_by_others(id, seen);
        }
        self.observed(id, seen);
    }

    pub(crate) fn gone(&mut self, id: Id) {
        if matches!(self.nodes[id].end(), Some(End::Gone)) {
            return;
        }
        self.end_drain(id);
        self.nodes.update(id, |node| {
            node.stage = Stage::Ended { end: End::Gone, seconds: None };
            // The mark is gone with the Node.
            node.mark = Mark::None;
        });
        self.report_node(id, Progress::Gone);
    }

    /// Ends the part of a node that another client changed.
    fn changed_by_others(&mut self, id: Id, seen: &Seen) {
        self.nodes.update(id, |node| {
            node.stage = Stage::Ended { end: End::Changed { to: seen.source.clone() }, seconds: None };
        });
        self.report_changed(id, seen);
    }

    fn report_changed(&mut self, id: Id, seen: &Seen) {
        let to = seen.source.clone();
        self.report_node(id, Progress::Changed { to });
    }

    /// Handles the answer to the assignment of a node.
    pub(crate) fn assigned(&mut self, id: Id) {
        let node = &self.nodes[id];
        if !node.is_assigning() {
            return;
        }
        let (from, to) = (node.intent.from().cloned(), Target::clone(&node.intent.target));
        self.nodes.update(id, |node| {
            node.waiting = Waiting::NotAcknowledged;
            node.facts.pointed = node.facts.pointed.max(Pointed::Answered);
        });
        self.watch(id);
        self.report_node(id, Progress::Assigned { from, to });
        if self.nodes[id].intent.needs_drain() && self.nodes[id].mark == Mark::None {
            return self.mark_lost(id);
        }
        if self.rollbacks.is_on() {
            self.roll_back(id);
        }
    }

    /// Watches a node from now on until it runs its target.
    pub(super) fn watch(&mut self, id: Id) {
        let since = self.now.instant;
        self.nodes.update(id, |node| node.stage = Stage::Converging { since });
    }

    /// Handles an assignment that was not sent, because the pool has stopped.
    pub(crate) fn withdrawn(&mut self, id: Id) {
        if self.nodes[id].is_assigning() {
            self.nodes.update(id, |node| node.stage = Stage::Waiting);
        }
    }

    /// Handles an assignment that the API server refused.
    pub(crate) fn refused(&mut self, id: Id, error: String) {
        if !self.nodes[id].is_assigning() {
            return;
        }
        self.nodes.update(id, |node| {
            node.stage = Stage::Ended { end: End::Refused { error: error.clone() }, seconds: None };
            // Until the next event of the node, it is unknown whether the patch was applied.
            node.facts.is_healthy = false;
        });
        self.report_node(id, Progress::Refused { error });
        self.count_failure(id);
    }

    /// Handles an assignment that conflicted with another change. `seen` is the changed node. `decision` is the new decision
    /// of planning; `None` if the node left the pool.
    pub(crate) fn changed(&mut self, id: Id, seen: &Seen, decision: Option<Decision>) {
        if !self.nodes[id].is_assigning() {
            return;
        }
        let on_target = self.nodes[id].intent.target.is_assigned_to(seen);
        self.nodes.update(id, |node| {
            node.attempts.replans += 1;
            node.remember_resources(&seen.extended_resources, on_target);
            node.facts.is_ready = seen.ready == Readiness::Ready;
            node.facts.is_healthy = is_available(seen);
            node.facts.is_self_assigned = seen.is_self_assigned();
        });
        match decision {
            Some(Decision::Step(step))
                if step.action == Action::Assign && self.may_assign_again(id, &step.assignment) =>
            {
                self.assign_again(id, step);
            }
            // The node points at its target: the response to the patch was lost, or another client assigned the same source.
            Some(
                Decision::Step(Step { action: Action::Await { .. }, .. })
                | Decision::LeaveAlone(LeftAlone { why: Why::Converged, .. }),
            ) => {
                self.assigned(id);
                // Evaluated here instead of as a watch event, because the watch may still deliver older events.
                self.evaluate_watched(id, seen);
            }
            Some(Decision::LeaveAlone(LeftAlone {
                why: why @ (Why::Adopted { .. } | Why::Conflict { .. }), ..
            })) => {
                self.nodes.update(id, |node| {
                    node.intent.adopt(&why);
                    node.stage = Stage::Ended { end: End::LeftAlone { why }, seconds: None };
                });
                self.report_changed(id, seen);
            }
            Some(Decision::LeaveAlone(LeftAlone { why, .. })) if why.may_end() => {
                let held = why.clone();
                self.nodes.update(id, |node| (node.stage, node.facts.hold) = (Stage::Waiting, Some(held)));
                self.report_node(id, Progress::Held { why });
            }
            Some(Decision::LeaveAlone(_) | Decision::Step(_)) | None => self.changed_by_others(id, seen),
        }
    }

    /// Reports whether a node may be assigned again after a conflict. With a reviewed plan, only by the reviewed assignment.
    fn may_assign_again(&self, id: Id, now: &Assignment) -> bool {
        let Node { attempts: Attempts { replans, .. }, intent, .. } = &self.nodes[id];
        let is_reviewed = !self.policy.mode.as_reviewed || intent.assignment() == Some(now);
        *replans <= MAX_REPLANS && self.closed.stopped.is_none() && is_reviewed
    }

    /// Follows a new decision to assign a node, at once if nothing has begun to block it.
    fn assign_again(&mut self, id: Id, mut step: Step) {
        self.nodes.update(id, |node| {
            node.stage = Stage::Waiting;
            let Planned::Step(before) = &mut node.intent.planned else { return };
            let starts_alike = |before: &Assignment, now: &Assignment| {
                (&before.uid, &before.from, before.from_placement) == (&now.uid, &now.from, now.from_placement)
            };
            // A new decision for one node does not know what its return needs.
            if starts_alike(&before.assignment, &step.assignment) {
                (step.can_return, step.rollback_needs) = (before.can_return, before.rollback_needs);
            }
            step.domain = before.domain;
            step.drain |= before.drain;
            step.rollback_drain |= before.rollback_drain;
            **before = step;
        });
        if !self.may_go_on(id) {
            return;
        }
        match self.nodes[id].intent.needs_drain() && !self.nodes[id].is_marked() {
            true => self.begin_drain(id),
            false => self.assign(id),
        }
    }

    /// Evaluates an event of a node on the way to its target.
    fn evaluate_watched(&mut self, id: Id, seen: &Seen) {
        let node = &self.nodes[id];
        let since = match node.stage {
            _ if node.goes_back() => return,
            Stage::Settling(settling) => return self.evaluate_settling(id, seen, settling),
            Stage::Converging { since } => since,
            _ => return,
        };
        let waited = self.now.instant.since(since);
        let is_drained = node.is_marked();
        let settles = is_drained || node.proof.is_needed();
        let expected = node.proof.expected();
        // A drained node waits for its resources while it settles.
        let resources = expected.resources.filter(|_| !is_drained);
        let wait = WaitContext { resources, waited, timeout: Some(self.policy.limits.node), ..expected };
        match evaluate(&node.intent.target, seen, wait) {
            Convergence::Converged if settles => self.begin_settling(id, seen, since),
            Convergence::Converged => {
                self.observe_trial(id, seen, true);
                self.converged(id, waited);
            }
            // The event is older than the assignment.
            Convergence::Waiting(Waiting::NotAssigned) => {}
            Convergence::Waiting(waiting) => self.set_waiting(id, waiting),
            // So is this one: the assignment allows more, perhaps without another source.
            Convergence::Failed(ConvergenceFailure::NotPrepared { .. }) if node.allows_more_than(seen) => {}
            Convergence::Failed(failure) => self.fail(id, failure, waited),
        }
    }

    /// Records what a node waits for, and reports a change of it.
    pub(super) fn set_waiting(&mut self, id: Id, waiting: Waiting) {
        if self.nodes[id].waiting != waiting {
            self.report_waiting(id, waiting);
        }
    }

    pub(super) fn report_waiting(&mut self, id: Id, waiting: Waiting) {
        self.nodes.update(id, |node| node.waiting = waiting.clone());
        self.report_node(id, Progress::Waiting { waiting });
    }

    /// Reports a node that has not acknowledged its assignment for this time, unless the pool has reported one.
    fn report_silence(&mut self, id: Id, waited: Duration) {
        if !self.has_reported_silence && self.nodes[id].is_silent() {
            self.has_reported_silence = true;
            self.report_node(id, Progress::Unacknowledged { seconds: waited.as_secs_f64() });
        }
    }

    /// Detects regressions of a converged node: a later kubelet error, a failed trial, or a node of a soak that is no longer
    /// Ready or no longer runs the target.
    fn evaluate_converged(&mut self, id: Id, seen: &Seen) {
        let node = &self.nodes[id];
        let of_canary = node.wave == Wave::Canary && !self.gate.has_passed_canaries();
        let of_stage = node.has_converged() && matches!(self.gate, StartGate::SoakingStage { .. });
        let is_soaking = of_canary || of_stage;
        let on_trial = node.trial.is_some();
        let was_settled = !node.has_converged();
        // A node that is not Ready has not passed its trial.
        let wait = if is_soaking || on_trial { node.proof.expected() } else { WaitContext::STATE_ONLY };
        match evaluate(&node.intent.target, seen, wait) {
            Convergence::Converged => self.observe_trial(id, seen, false),
            Convergence::Failed(_) if was_settled && !on_trial => {}
            Convergence::Failed(failure) => self.fail(id, failure, Duration::ZERO),
            Convergence::Waiting(waiting) if is_soaking => self.regressed(id, waiting),
            Convergence::Waiting(waiting) => self.nodes.update(id, |node| node.waiting = waiting),
        }
    }

    /// Counts a loss of readiness. `false`: it is one too many.
    pub(super) fn may_regress(&mut self, id: Id) -> bool {
        let may = self.nodes[id].attempts.regressions < MAX_REGRESSIONS;
        self.nodes.update(id, |node| node.attempts.regressions += u8::from(may));
        may
    }

    /// Watches a converged node again, which ends the soak. Fails a node that regresses again and again.
    pub(super) fn regressed(&mut self, id: Id, waiting: Waiting) {
        if !self.may_regress(id) {
            return self.fail(id, ConvergenceFailure::TimedOut { waiting }, Duration::ZERO);
        }
        match self.gate.has_passed_canaries() {
            true => self.interrupt_soak(),
            false => self.gate = StartGate::Canaries,
        }
        self.watch(id);
        self.report_waiting(id, waiting);
        if self.rollbacks.is_on() {
            self.roll_back(id);
        }
    }

    /// Marks a node as converged after this time since its assignment.
    pub(super) fn converged(&mut self, id: Id, waited: Duration) {
        let seconds = waited.as_secs_f64();
        self.nodes.update(id, |node| {
            node.stage = Stage::Ended { end: End::Converged, seconds: Some(seconds) };
            if node.trial.is_some() {
                node.waiting = Waiting::OnTrial;
            }
        });
        let trial = self.nodes[id].current_trial();
        self.report_node(id, Progress::Converged { seconds, trial });
    }

    /// Records the trial that a node reports which runs its target.
    pub(super) fn observe_trial(&mut self, id: Id, seen: &Seen, begins: bool) {
        let node = &self.nodes[id];
        let (before, is_on_target) = (node.trial, node.is_on_target());
        let trial = self.trials.observe(before, begins, &node.intent.target, seen, self.now);
        self.nodes.update(id, |node| {
            node.trial = trial;
            if trial.is_some() && is_on_target {
                node.waiting = Waiting::OnTrial;
            }
        });
        if before.is_some() && trial.is_none() && is_on_target {
            self.report_node(id, Progress::TrialPassed);
        }
    }

    /// Fails a node whose trial has not ended in time.
    fn trial_due(&mut self, id: Id) {
        let node = &self.nodes[id];
        let is_over = node.trial.is_some_and(|run| run.limit <= self.now.instant);
        if is_over && node.is_on_target() && self.awaits_trials() {
            let failure = ConvergenceFailure::TimedOut { waiting: node.waiting.clone() };
            self.fail(id, failure, Duration::ZERO);
        }
    }

    /// Ends the part of a node that failed after this time since its assignment.
    pub(super) fn fail(&mut self, id: Id, failure: ConvergenceFailure, waited: Duration) {
        self.failures.last = Some(self.nodes[id].intent.name().clone());
        self.interrupt_soak();
        let seconds = Some(waited.as_secs_f64());
        let may_help = failure.may_be_the_configuration();
        let end = End::Failed { failure: failure.clone(), rolled_back: false };
        self.nodes.update(id, |node| (node.stage, node.goal) = (Stage::Ended { end, seconds }, Goal::Target));
        self.report_node(id, Progress::Failed { failure });
        if (self.policy.mode.rollback_on_failure && may_help) || self.rollbacks.is_on() {
            self.roll_back(id);
        }
        if !self.nodes[id].was_down() {
            self.count_failure(id);
        }
    }

    fn count_failure(&mut self, id: Id) {
        self.failures.number = self.failures.number.saturating_add(1);
        let (failures, max_failures) = (self.failures.number, self.policy.rules.max_failures);
        if self.nodes[id].wave == Wave::Canary && !self.gate.has_passed_canaries() {
            let reason = StopReason::CanaryFailed { node: self.nodes[id].intent.name().clone() };
            self.stop(&reason);
        } else if failures > max_failures {
            self.stop(&StopReason::TooManyFailures { failures, max_failures });
        }
    }

    /// Times after now at which a node needs attention without an event.
    pub(super) fn wake_nodes(&mut self) {
        let (now, limits) = (self.now.instant, self.policy.limits);
        for id in self.nodes.take_changed() {
            let node = &self.nodes[id];
            let due: [Option<Instant>; 2] = match &node.stage {
                Stage::Draining(draining) => [Some(draining.since.after(limits.drain)), draining.wakes(now)],
                Stage::Converging { since } => {
                    let is_watched = !self.has_reported_silence && node.is_silent();
                    [Some(since.after(limits.node)), is_watched.then(|| since.after(limits.acknowledgement))]
                }
                Stage::Settling(settling) if !settling.is_well => [Some(settling.changed.after(limits.node)), None],
                Stage::Settling(settling) => [self.proves_at(id, *settling), None],
                _ => [node.trial.map(|run| run.limit), node.permit.asked_again_at()],
            };
            for at in due.into_iter().flatten().filter(|at| *at > now) {
                self.nodes.wake(at, id);
            }
        }
    }

    /// Handles the time of a node.
    pub(super) fn node_due(&mut self, id: Id) {
        let node = &self.nodes[id];
        match &node.stage {
            Stage::Draining(draining) => self.drain_due(id, draining.since),
            Stage::Settling(settling) => self.settling_due(id, *settling),
            Stage::Converging { since } => {
                let waited = self.now.instant.since(*since);
                let failure = ConvergenceFailure::TimedOut { waiting: node.waiting.clone() };
                match waited >= self.policy.limits.node {
                    true if node.goes_back() => self.rollback_failed(id, failure),
                    true => self.fail(id, failure, waited),
                    false if waited >= self.policy.limits.acknowledgement => self.report_silence(id, waited),
                    false => {}
                }
            }
            _ => {
                self.permit_due(id);
                self.trial_due(id);
            }
        }
    }
}

/// Records what an event says of a node.
fn observe(node: &mut Node, seen: &Seen) {
    let is_assigned = node.intent.assignment().is_some();
    let facts = &mut node.facts;
    facts.is_ready = seen.ready == Readiness::Ready && !seen.is_unreadable();
    facts.is_healthy = is_available(seen) && !seen.is_unreadable();
    facts.hold = hold_reason(seen).filter(|why| is_assigned || *why == Why::Deleting);
    // A node that recovers before its start needs budget, and waits for the canaries.
    if node.wave == Wave::Unavailable && facts.is_healthy && is_assigned {
        node.wave = Wave::Rest;
    }
    if seen.is_unreadable() {
        return;
    }
    let on_target = node.intent.target.is_assigned_to(seen);
    facts.shows_mark = seen.has_drain_taint();
    facts.is_self_assigned = seen.is_self_assigned();
    if on_target {
        facts.pointed = Pointed::Seen;
    }
    facts.runs_target = Some(node.intent.target.is_active_on(seen));
    node.remember_resources(&seen.extended_resources, on_target);
}
