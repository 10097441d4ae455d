//! What happens to single nodes of a pool: answers to patches, what the watch shows, and what the judge makes of it.

use std::time::Duration;

use jiff::Timestamp;

use super::node_table::{Group, NodeState, Phase, Rollback};
use super::{PoolRun, elapsed, later};
use crate::judge::{Convergence, Failure, Target, WaitContext, Waiting, judge};
use crate::plan::{Action, Decision, LeftAlone, Step, Why, is_available};
use crate::rollout::StopReason;
use crate::rollout::progress::{Gate, Progress};
use crate::rollout::signals::{Command, Context};
use nodecfg_contract::Assignment;
use nodecfg_contract::observed::{Node, Readiness};

/// How often an assignment that met somebody else's change is planned anew before the node is left as it is.
const REPLANS: u8 = 3;

/// How often a canary may lose its readiness while it soaks and find it again, before that is a failure.
const RELAPSES: u8 = 3;

impl PoolRun {
    pub(in crate::rollout) fn assigned(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.in_phase(number, &Phase::Assigning) else { return };
        let (from, to) = (node.from.clone(), self.target.clone());
        self.nodes.update(number, |node| node.waiting = Waiting::NotAcknowledged);
        self.watch(number, context);
        self.tell_of(number, context, |pool, node| Progress::Assigned { pool, node, from, to });
        if self.taking_back {
            self.return_node(number, context);
        }
        self.start_more(context);
    }

    /// Its turn has not come after all. Only asked for once the pool has stopped: nothing starts it again.
    pub(in crate::rollout) fn withdrawn(&mut self, number: usize) {
        if self.nodes.get(number).is_some_and(|node| node.phase == Phase::Assigning) {
            self.nodes.set(number, Phase::Pending);
        }
    }

    pub(in crate::rollout) fn refused(&mut self, number: usize, error: String, context: &mut Context<'_>) {
        let Some(node) = self.nodes.in_phase(number, &Phase::Assigning) else { return };
        let (group, phase) = (node.group, Phase::Refused { error: error.clone() });
        // Until it is seen again nobody knows whether the patch arrived after all.
        self.nodes.update(number, |node| (node.phase, node.healthy) = (phase, false));
        self.tell_of(number, context, |pool, node| Progress::Refused { pool, node, error });
        self.count_failure(number, group, context);
        self.start_more(context);
    }

    /// The assignment met a change; `decision` is what planning says of the node as it is now.
    pub(in crate::rollout) fn changed(
        &mut self,
        number: usize,
        current: &Node,
        decision: Option<Decision>,
        context: &mut Context<'_>,
    ) {
        let Some(node) = self.nodes.in_phase(number, &Phase::Assigning) else { return };
        let (name, replans) = (node.name.clone(), node.replans + 1);
        self.nodes.update(number, |node| {
            node.replans = replans;
            node.ready = current.ready == Readiness::Ready;
            node.healthy = is_available(current);
        });
        let planned = self.nodes.get(number).and_then(|node| node.assignment.clone());
        let may_retry = replans <= REPLANS && self.stopped.is_none();
        // Whether the patch that was sent had arrived may have been all that was open.
        let may_assign = |now: &Assignment| may_retry && (!self.mode.as_reviewed || planned.as_ref() == Some(now));
        match decision {
            Some(Decision::Step(Step {
                action: Action::Assign,
                assignment,
                was_ready,
                can_return,
                back_needs,
                ..
            })) if may_assign(&assignment) => {
                context.commands.push(Command::Assign(name, assignment.clone()));
                self.nodes.update(number, |node| {
                    (node.from, node.assignment) = (assignment.from.clone(), Some(assignment));
                    (node.was_ready, node.can_return, node.back_needs) = (was_ready, can_return, back_needs);
                });
            }
            // Our own patch, answered to nobody, or somebody who wanted the same.
            Some(
                Decision::Step(Step { action: Action::Await { .. }, .. })
                | Decision::LeaveAlone(LeftAlone { why: Why::Converged, .. }),
            ) => {
                self.assigned(number, context);
                // Judged as it was read, not taken as seen by the watch: that may still be at events from before.
                self.judge_watched(number, current, context.now, context);
            }
            Some(Decision::LeaveAlone(LeftAlone {
                why: why @ (Why::Adopted { .. } | Why::Conflict { .. }), ..
            })) => {
                self.nodes.set(number, Phase::LeftAlone(why));
                self.tell_changed(number, current, context);
            }
            Some(Decision::LeaveAlone(_) | Decision::Step(_)) | None => {
                self.nodes.set(number, Phase::Changed { to: current.source.clone() });
                self.tell_changed(number, current, context);
            }
        }
        self.replace_canary(number);
        self.canaries_settled(context);
        self.start_more(context);
    }

    fn tell_changed(&self, number: usize, current: &Node, context: &mut Context<'_>) {
        let to = current.source.clone();
        self.tell_of(number, context, |pool, node| Progress::Changed { pool, node, to });
    }

    pub(in crate::rollout) fn gone(&mut self, number: usize, context: &mut Context<'_>) {
        if self.nodes.in_phase(number, &Phase::Gone).is_some() {
            return;
        }
        self.nodes.set(number, Phase::Gone);
        self.tell_of(number, context, |pool, node| Progress::Gone { pool, node });
        self.replace_canary(number);
        self.canaries_settled(context);
        self.start_more(context);
    }

    pub(in crate::rollout) fn observed(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        if seen.deleting && self.nodes.in_phase(number, &Phase::Pending).is_some() {
            self.gone(number, context);
            return;
        }
        let healthy = is_available(seen);
        let on_target = self.target.is_named_by(seen.source.as_ref());
        let runs_target = self.target.is_named_by(seen.status.active.as_ref());
        let Some(node) = self.nodes.get(number) else { return };
        let (phase, left_target) = (node.phase.clone(), node.seen_on_target && !on_target);
        let has_back = node.may_return() && seen.source == node.from;
        self.nodes.update(number, |node| {
            node.ready = seen.ready == Readiness::Ready;
            node.healthy = healthy;
            node.seen_on_target |= on_target;
            node.runs_target = Some(runs_target);
        });
        match phase {
            Phase::Pending if !healthy && self.opened(number) => self.free.push_back(number),
            // Pointed back by our own patch, seen before its answer, or without one.
            Phase::Watching { .. } if left_target && self.taking_back && has_back => {
                self.judge_back(number, seen, left_target, context);
            }
            Phase::Returning { .. }
            | Phase::GoingBack { .. }
            | Phase::Failed { rollback: Rollback::Asked | Rollback::Pointed { .. }, .. }
                if has_back || on_target || !left_target =>
            {
                self.judge_back(number, seen, left_target, context);
            }
            Phase::Watching { .. } | Phase::Returning { .. } | Phase::GoingBack { .. }
                if left_target && self.mode.assign =>
            {
                self.lose(number, seen, context)
            }
            // What was proven of it is no longer so.
            Phase::Converged { .. } | Phase::LeftAlone(Why::Converged) if left_target => {
                self.lose(number, seen, context)
            }
            // Another node under the old name: the plan knows nothing of it.
            Phase::Gone if !seen.deleting => self.lose(number, seen, context),
            // The watch can be faster than the answer to the patch; what it shows must not be lost.
            Phase::Assigning if on_target => {
                self.assigned(number, context);
                self.judge_watched(number, seen, context.now, context);
            }
            Phase::Watching { since } => {
                // Seen for the first time since it was to be pointed back.
                if self.taking_back && on_target {
                    self.return_node(number, context);
                }
                self.judge_watched(number, seen, since, context);
            }
            Phase::Converged { .. } => self.judge_converged(number, seen, context),
            _ => {}
        }
        self.canaries_settled(context);
        self.start_more(context);
    }

    /// Another pool would have it now, or none: as long as it has not been assigned, it is left as it is. Once it has, it is
    /// watched to its end, and the next run sees to the rest.
    pub(in crate::rollout) fn moved(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        if self.mode.assign && !seen.deleting && self.nodes.in_phase(number, &Phase::Pending).is_some() {
            self.lose(number, seen, context);
        }
        self.observed(number, seen, context);
    }

    /// The node is somebody else's now.
    fn lose(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        self.nodes.set(number, Phase::Changed { to: seen.source.clone() });
        self.tell_changed(number, seen, context);
        self.replace_canary(number);
    }

    fn judge_watched(&mut self, number: usize, seen: &Node, since: Timestamp, context: &mut Context<'_>) {
        let Some(tracked) = self.nodes.get(number) else { return };
        // It is on its way back.
        if !matches!(tracked.phase, Phase::Watching { .. }) {
            return;
        }
        let waited = elapsed(since, context.now);
        let patience = WaitContext { was_ready: tracked.was_ready, waited, timeout: Some(self.timeout) };
        match judge(&self.target, seen, patience) {
            Convergence::Converged => {
                let seconds = waited.as_secs_f64();
                self.nodes.set(number, Phase::Converged { seconds });
                self.tell_of(number, context, |pool, node| Progress::Converged { pool, node, seconds });
            }
            // An event from before the assignment.
            Convergence::Waiting(Waiting::NotAssigned) if self.mode.assign => {}
            Convergence::Waiting(waiting) if waiting != tracked.waiting => self.waits(number, waiting, context),
            Convergence::Waiting(_) => {}
            Convergence::Failed(failure) => self.fail(number, failure, waited, context),
        }
    }

    fn waits(&mut self, number: usize, waiting: Waiting, context: &mut Context<'_>) {
        self.nodes.update(number, |node| node.waiting = waiting.clone());
        self.tell_of(number, context, |pool, node| Progress::Waiting { pool, node, waiting });
    }

    /// A converged node may still regress: the kubelet reports an error later, or a canary loses its readiness.
    fn judge_converged(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        let Some(tracked) = self.nodes.get(number) else { return };
        let soaking = tracked.group == Group::Canary && self.gate != Gate::Open;
        let patience = WaitContext { was_ready: soaking && tracked.was_ready, waited: Duration::ZERO, timeout: None };
        match judge(&self.target, seen, patience) {
            Convergence::Failed(failure) => self.fail(number, failure, Duration::ZERO, context),
            Convergence::Waiting(waiting) if soaking && tracked.relapses >= RELAPSES => {
                self.fail(number, Failure::TimedOut { waiting }, Duration::ZERO, context);
            }
            Convergence::Waiting(waiting) if soaking => {
                self.nodes.update(number, |node| node.relapses += 1);
                self.gate = Gate::Canaries;
                self.watch(number, context);
                self.waits(number, waiting, context);
                if self.taking_back {
                    self.return_node(number, context);
                }
            }
            _ => {}
        }
    }

    pub(super) fn fail(&mut self, number: usize, failure: Failure, waited: Duration, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let (group, seconds) = (node.group, waited.as_secs_f64());
        self.last_failed = Some(node.name.clone());
        self.nodes.set(number, Phase::Failed { failure: failure.clone(), seconds, rollback: Rollback::No });
        self.tell_of(number, context, |pool, node| Progress::Failed { pool, node, failure });
        if self.mode.rollback_on_failure || self.taking_back {
            self.return_node(number, context);
        }
        if self.nodes.get(number).is_some_and(NodeState::was_down) {
            self.replace_canary(number);
        } else if self.mode.assign {
            self.count_failure(number, group, context);
        }
    }

    /// Points a node back that has been assigned and has not converged, if it can return. A canary that converged goes back
    /// too, as long as nobody follows it: it has proven nothing yet.
    pub(super) fn return_node(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number).filter(|node| node.may_return()) else { return };
        let Some(assignment) = node.assignment.clone() else { return };
        let phase = match node.phase.clone() {
            Phase::Watching { since } => Phase::Returning { since },
            Phase::Converged { .. } if node.group == Group::Canary && self.gate != Gate::Open => {
                Phase::Returning { since: context.now }
            }
            Phase::Failed { failure, seconds, rollback: Rollback::No } => {
                Phase::Failed { failure, seconds, rollback: Rollback::Asked }
            }
            _ => return,
        };
        if let Some(needs) = node.held_by() {
            if !node.stays && node.runs_target == Some(true) {
                self.tell_of(number, context, |pool, node| Progress::NotRolledBack { pool, node, needs });
                self.nodes.update(number, |node| node.stays = true);
            }
            return;
        }
        context.commands.push(Command::RollBack(node.name.clone(), assignment.back()));
        self.nodes.update(number, |node| (node.phase, node.seen_back) = (phase, false));
    }

    /// It points again at what it had, and has the time of any other transition to run that.
    fn pointed_back(&mut self, number: usize, context: &mut Context<'_>) {
        let now = context.now;
        self.nodes.update(number, |node| node.waiting = Waiting::NotAcknowledged);
        self.nodes.update(number, |node| match &mut node.phase {
            Phase::Returning { since } | Phase::Watching { since } => {
                node.phase = Phase::GoingBack { since: *since, pointed: now };
            }
            Phase::Failed { rollback, .. } => *rollback = Rollback::Pointed { since: now },
            _ => {}
        });
        context.timers.wake(later(now, self.timeout), &self.name, Some(number));
    }

    /// Since when it points again at what it had without running that.
    fn pointed_since(&self, number: usize) -> Option<Timestamp> {
        match self.nodes.get(number)?.phase {
            Phase::GoingBack { pointed, .. } => Some(pointed),
            Phase::Failed { rollback: Rollback::Pointed { since }, .. } => Some(since),
            _ => None,
        }
    }

    /// What a node is still waited for that has been on its way back for as long as a node is given.
    pub(super) fn late_back(&self, number: usize, context: &Context<'_>) -> Option<Waiting> {
        let since = self.pointed_since(number)?;
        let node = self.nodes.get(number).filter(|_| elapsed(since, context.now) >= self.timeout)?;
        Some(node.waiting.clone())
    }

    /// Judges a node against what it had. An event from before its assignment proves nothing, and is remembered only: where
    /// the watch passes over the assignment, it stands at the end.
    fn judge_back(&mut self, number: usize, seen: &Node, left_target: bool, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let from = node.from.clone().map_or(Target::Local, Target::Source);
        let was_ready = node.was_ready;
        if !from.is_named_by(seen.source.as_ref()) {
            self.nodes.update(number, |node| node.seen_back = false);
            return;
        }
        let verdict = judge(&from, seen, WaitContext { was_ready, waited: Duration::ZERO, timeout: None });
        self.nodes.update(number, |node| node.seen_back = verdict == Convergence::Converged);
        if !left_target {
            return;
        }
        if self.pointed_since(number).is_none() {
            self.pointed_back(number, context);
        }
        match verdict {
            Convergence::Converged => self.returned(number, context),
            Convergence::Waiting(waiting) => self.nodes.update(number, |node| node.waiting = waiting),
            Convergence::Failed(failure) => self.came_not_back(number, failure, context),
        }
    }

    /// It points at what it had and does not run it, by all that is known.
    pub(super) fn came_not_back(&mut self, number: usize, failure: Failure, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        if node.seen_back {
            self.returned(number, context);
            return;
        }
        let (now, reported) = (context.now, failure.clone());
        self.nodes.update(number, |node| match &mut node.phase {
            Phase::Failed { rollback, .. } => *rollback = Rollback::Missed,
            Phase::GoingBack { since, .. } => {
                let seconds = elapsed(*since, now).as_secs_f64();
                node.phase = Phase::Failed { failure, seconds, rollback: Rollback::Missed };
            }
            _ => {}
        });
        self.tell_of(number, context, |pool, node| Progress::NotBack { pool, node, failure: reported });
    }

    /// It runs again what it had.
    fn returned(&mut self, number: usize, context: &mut Context<'_>) {
        let now = context.now;
        self.nodes.update(number, |node| match &mut node.phase {
            Phase::Failed { rollback, .. } => *rollback = Rollback::Done,
            Phase::GoingBack { since, .. } => {
                node.phase = Phase::Returned { seconds: elapsed(*since, now).as_secs_f64() };
            }
            _ => {}
        });
        let to = self.nodes.get(number).and_then(|node| node.from.clone());
        self.tell_of(number, context, |pool, node| Progress::RolledBack { pool, node, to });
    }

    fn count_failure(&mut self, number: usize, group: Group, context: &mut Context<'_>) {
        self.failures = self.failures.saturating_add(1);
        let Some(node) = self.nodes.get(number) else { return };
        if group == Group::Canary && self.gate != Gate::Open {
            let reason = StopReason::CanaryFailed { node: node.name.clone() };
            self.stop(&reason, context);
        } else if self.failures > self.max_failures {
            let reason = StopReason::TooManyFailures { failures: self.failures, max_failures: self.max_failures };
            self.stop(&reason, context);
        }
    }

    pub(in crate::rollout) fn rolled_back(
        &mut self,
        number: usize,
        result: Result<(), String>,
        context: &mut Context<'_>,
    ) {
        let Some(phase) = self.nodes.get(number).map(|node| node.phase.clone()) else { return };
        let is_asked = matches!(phase, Phase::Returning { .. } | Phase::Failed { rollback: Rollback::Asked, .. });
        // Seen by the watch before, or somebody else's by now.
        if !is_asked {
            return;
        }
        match result {
            Ok(()) => self.pointed_back(number, context),
            Err(error) => {
                self.tell_of(number, context, |pool, node| Progress::Refused { pool, node, error });
                match phase {
                    // Whether it arrived after all is seen by the watch.
                    Phase::Returning { since } => self.watch_on(number, since, context),
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

    /// The patch that points it back was refused: it is watched as before.
    fn watch_on(&mut self, number: usize, since: Timestamp, context: &mut Context<'_>) {
        self.nodes.set(number, Phase::Watching { since });
        context.timers.wake(later(since, self.timeout), &self.name, Some(number));
        self.woken(Some(number), context);
    }
}
