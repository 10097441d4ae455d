//! Rollbacks of nodes: the same way as to the target, to what the node had before. First come those that need no budget,
//! then those that do, in plan order.

use std::collections::BTreeSet;

use super::Pool;
use super::node::{Before, Goal, Node, Stage, Wave, WayBack};
use super::table::{Count, Id};
use crate::instant::Instant;
use crate::outcome::{End, StopReason};
use crate::progress::Progress;
use crate::signals::Command;
use nodecfg_observed::Node as Seen;
use nodecfg_plan::convergence::{Convergence, ConvergenceFailure, Waiting, evaluate};
use nodecfg_plan::drain::DrainFailure;

/// Rollbacks of a pool.
#[derive(Debug, Default)]
pub(super) struct Rollbacks {
    pub(super) extent: Extent,
    /// Nodes whose rollback needs budget: it drains them, or they have converged.
    queue: BTreeSet<Id>,
    /// Time since which unavailable nodes delay these rollbacks.
    blocked_since: Option<Instant>,
}

/// Which nodes of this run are rolled back without having failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    #[default]
    None,
    /// Nodes that have not converged, and canaries while they hold the gate.
    InTransition,
    /// Converged nodes, too.
    All,
}

impl Rollbacks {
    /// Reports whether rollbacks wait for budget.
    pub(super) fn are_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Reports whether nodes are rolled back that have not failed.
    pub(super) fn is_on(&self) -> bool {
        self.extent > Extent::None
    }
}

impl Pool {
    /// Starts no further node, and rolls back the nodes that have not converged and the canaries that soak. Waits for the
    /// responses to assignments first.
    pub(crate) fn roll_back_all(&mut self, reason: &StopReason) {
        self.stop(reason);
        // An operator may have removed what prevented an earlier rollback.
        for id in self.nodes.all() {
            if self.nodes[id].way_back == WayBack::GivenUp {
                self.nodes.update(id, |node| node.way_back = WayBack::Open);
            }
        }
        self.return_nodes(Extent::InTransition);
        let is_sent =
            |node: &Node| node.goes_back() && matches!(node.stage, Stage::Assigning) && node.failure().is_none();
        if self.closed.stopped.is_none() && (self.rollbacks.are_queued() || self.nodes.iter().any(is_sent)) {
            self.mark_stopped(reason);
        }
    }

    /// Rolls back every node that this run assigned: those in transition at once, converged ones within the budget.
    pub(super) fn return_all(&mut self) {
        self.return_nodes(Extent::All);
    }

    fn return_nodes(&mut self, extent: Extent) {
        self.rollbacks.extent = self.rollbacks.extent.max(extent);
        self.nodes.all().for_each(|id| self.roll_back(id));
    }

    /// Rolls back a node that was assigned, if it can return and the pool allows the disruption.
    pub(super) fn roll_back(&mut self, id: Id) {
        let node = &self.nodes[id];
        let is_canary = node.wave == Wave::Canary && !self.gate.has_passed_canaries();
        let stays = node.has_converged() && !is_canary && self.rollbacks.extent != Extent::All;
        let Some(step) = node.intent.way_back().filter(|_| node.can_turn_back() && !stays) else { return };
        // While the node does not run the target, a rollback disrupts nothing.
        let disrupts = node.facts.runs_target != Some(false);
        if let Some(needs) = step.rollback_needs.filter(|_| disrupts) {
            if node.way_back == WayBack::Open && node.facts.runs_target == Some(true) {
                self.nodes.update(id, |node| node.way_back = WayBack::Refused);
                self.report_node(id, Progress::NotRolledBack { needs });
            }
            return;
        }
        // A converged node is available, so that its rollback needs budget.
        if needs_drain_back(node) || node.has_converged() {
            self.rollbacks.queue.insert(id);
            return;
        }
        self.send_rollback(id);
    }

    /// Gives a node what it had before as its goal.
    fn turn_back(&mut self, id: Id, stage: Stage) {
        let now = self.now.instant;
        self.nodes.update(id, |node| {
            let stage = std::mem::replace(&mut node.stage, stage);
            let since = match &stage {
                Stage::Converging { since } => *since,
                Stage::Settling(settling) => settling.since,
                _ => now,
            };
            let before = Before { stage, since, waiting: node.waiting.clone(), is_seen: false };
            node.goal = Goal::Previous(Box::new(before));
        });
    }

    fn send_rollback(&mut self, id: Id) {
        let intent = &self.nodes[id].intent;
        let send =
            intent.assignment().map(|planned| Command::RollBack(intent.name().clone(), planned.clone().reversed()));
        self.commands.extend(send);
        self.turn_back(id, Stage::Assigning);
    }

    /// Returns a node to its target, and tells what it was before its rollback. `None`: it is not rolled back.
    pub(super) fn take_before(&mut self, id: Id) -> Option<Before> {
        self.nodes.update(id, |node| match std::mem::replace(&mut node.goal, Goal::Target) {
            Goal::Target => None,
            Goal::Previous(before) => Some(*before),
        })
    }

    /// Sends queued rollbacks as far as the budget allows, after a drain if they need one. Gives them up if unavailable
    /// nodes use up the budget for too long.
    pub(super) fn start_rollbacks(&mut self) {
        let (now, limit) = (self.now.instant, self.policy.limits.node);
        if self.rollbacks.blocked_since.is_some_and(|since| now.since(since) >= limit) {
            self.rollbacks.blocked_since = None;
            for id in std::mem::take(&mut self.rollbacks.queue) {
                self.stays_on_target(id, DrainFailure::NoBudget);
            }
        }
        while let Some(id) = self.rollbacks.queue.first().copied() {
            let node = &self.nodes[id];
            if node.awaits_mark_answer() {
                return;
            }
            // A failed node counts as unavailable, although it may run its pods.
            if node.takes_budget() && !self.has_budget_for(node) {
                // A node in transition may make room.
                if self.number(Count::InFlight) > 0 || self.awaits_other_pools() {
                    self.rollbacks.blocked_since = None;
                } else {
                    let since = *self.rollbacks.blocked_since.get_or_insert(now);
                    self.wake(since.after(limit));
                }
                return;
            }
            self.rollbacks.blocked_since = None;
            self.rollbacks.queue.remove(&id);
            if node.facts.hold.is_some() {
                self.stays_on_target(id, DrainFailure::Claimed);
            } else if node.can_turn_back() && needs_drain_back(node) {
                self.turn_back(id, Stage::Waiting);
                self.begin_drain(id);
            } else if node.can_turn_back() {
                self.send_rollback(id);
            }
        }
    }

    /// Gives up the rollback of a node, which stays on its target.
    pub(super) fn stays_on_target(&mut self, id: Id, failure: DrainFailure) {
        self.nodes.update(id, |node| node.way_back = WayBack::GivenUp);
        let failure = ConvergenceFailure::Drain { failure };
        self.report_node(id, Progress::RollbackFailed { failure });
    }

    /// Handles the answer to the rollback of a node.
    pub(crate) fn rolled_back(&mut self, id: Id, result: Result<(), String>) {
        // Otherwise the watch has already shown the rollback, or another client changed the node.
        if !(self.nodes[id].goes_back() && matches!(self.nodes[id].stage, Stage::Assigning)) {
            return;
        }
        let Err(error) = result else { return self.rollback_accepted(id) };
        self.report_node(id, Progress::Refused { error });
        let Some(before) = self.take_before(id) else { return };
        let stage = match before.stage {
            stage @ Stage::Ended { end: End::Failed { .. }, .. } => stage,
            // The watch shows whether the patch was applied.
            _ => Stage::Converging { since: before.since },
        };
        self.nodes.update(id, |node| node.stage = stage);
        self.node_due(id);
    }

    /// Marks that the node points at its previous source, and starts the time limit of the rollback.
    fn rollback_accepted(&mut self, id: Id) {
        let since = self.now.instant;
        self.nodes.update(id, |node| {
            (node.waiting, node.stage) = (Waiting::NotAcknowledged, Stage::Converging { since });
        });
    }

    /// Evaluates an event of a node during its rollback. Until the watch has shown the node on its target, an event on the
    /// previous source may be older than the assignment. Such an event is only recorded, and decides if the rollback times
    /// out.
    pub(super) fn evaluate_rollback(&mut self, id: Id, seen: &Seen, left_target: bool) {
        let node = &self.nodes[id];
        let previous = node.intent.previous();
        let verdict = match previous.is_assigned_to(seen) {
            true => evaluate(&previous, seen, node.proof.expected()),
            false => Convergence::Waiting(Waiting::NotAssigned),
        };
        let is_done = verdict == Convergence::Converged;
        self.nodes.update(id, |node| {
            if let Goal::Previous(before) = &mut node.goal {
                before.is_seen = is_done;
            }
        });
        if !left_target || verdict == Convergence::Waiting(Waiting::NotAssigned) {
            return;
        }
        if matches!(self.nodes[id].stage, Stage::Assigning) {
            self.rollback_accepted(id);
        }
        match verdict {
            Convergence::Converged => self.rollback_done(id),
            Convergence::Waiting(waiting) => self.nodes.update(id, |node| node.waiting = waiting),
            Convergence::Failed(failure) => self.rollback_failed(id, failure),
        }
    }

    /// Handles an event of a node on its previous source whose rollback the API server had refused: it was applied.
    pub(super) fn was_rolled_back_unseen(&mut self, id: Id, seen: &Seen) {
        self.turn_back(id, Stage::Assigning);
        self.evaluate_rollback(id, seen, true);
    }

    /// Marks the rollback as failed, unless an earlier event showed its success.
    pub(super) fn rollback_failed(&mut self, id: Id, failure: ConvergenceFailure) {
        let Goal::Previous(before) = &self.nodes[id].goal else { return };
        if before.is_seen {
            return self.rollback_done(id);
        }
        self.end_rollback(id, End::Failed { failure: failure.clone(), rolled_back: true });
        self.report_node(id, Progress::RollbackFailed { failure });
    }

    fn rollback_done(&mut self, id: Id) {
        self.end_rollback(id, End::RolledBack);
        let to = self.nodes[id].intent.from().cloned();
        self.report_node(id, Progress::RolledBack { to });
    }

    /// Ends a rollback. A node that was rolled back for its failure keeps that.
    fn end_rollback(&mut self, id: Id, end: End) {
        let now = self.now.instant;
        self.nodes.update(id, |node| {
            let Goal::Previous(before) = &node.goal else { return };
            node.stage = match &before.stage {
                Stage::Ended { end: End::Failed { failure, .. }, seconds } => {
                    Stage::Ended { end: End::Failed { failure: failure.clone(), rolled_back: true }, seconds: *seconds }
                }
                _ => Stage::Ended { end, seconds: Some(now.since(before.since).as_secs_f64()) },
            };
        });
    }

    /// Reports whether the stop of the pool rolled this node back, or tried to.
    pub(super) fn was_rolled_back(&self, node: &Node) -> bool {
        let is_given_up = node.way_back == WayBack::GivenUp;
        match node.end() {
            None => is_given_up || (node.goes_back() && (node.failure().is_none() || self.rollbacks.is_on())),
            Some(End::Failed { .. }) => node.goes_back() && self.rollbacks.is_on(),
            Some(end) => is_given_up || *end == End::RolledBack,
        }
    }
}

impl Node {
    /// Reports whether the node is on its target, or failed on it, and its rollback was not given up.
    fn can_turn_back(&self) -> bool {
        let is_there = match &self.stage {
            Stage::Converging { .. } | Stage::Settling(_) | Stage::Ended { end: End::Converged, .. } => true,
            // Otherwise the node was not drained.
            _ => self.has_failed(),
        };
        is_there && !self.goes_back() && self.way_back != WayBack::GivenUp
    }
}

/// Reports whether a node must be drained before it is rolled back.
fn needs_drain_back(node: &Node) -> bool {
    let drains = node.intent.way_back().is_some_and(|step| step.rollback_drain);
    drains && !node.is_marked() && node.facts.runs_target != Some(false)
}
