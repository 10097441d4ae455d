//! One node of a pool during its rollout: what the plan wants of it (intent), what is known of it (facts), and how far it
//! has got (goal and stage).

use super::blockers::permits::{Permit, PermitState};
use super::draining::Draining;
use super::evidence::Proof;
use crate::instant::Instant;
use crate::intent::Intent;
use crate::outcome::{DrainRecord, End};
use crate::trials::TrialRun;
use nodecfg_observed::Node as Seen;
use nodecfg_plan::Why;
use nodecfg_plan::convergence::{ConvergenceFailure, Trial, Waiting};

/// A node of a pool.
#[derive(Debug)]
pub(crate) struct Node {
    pub(super) intent: Intent,
    pub(super) facts: Facts,
    pub(super) permit: Permit,
    pub(super) goal: Goal,
    pub(super) stage: Stage,
    pub(super) mark: Mark,
    /// Wave of the node, which determines when it may start.
    pub(super) wave: Wave,
    /// What the node waits for, if it is in transition or on trial.
    pub(super) waiting: Waiting,
    /// What must be as before the assignment.
    pub(super) proof: Proof,
    /// Trial of the node since it converged, if it has not passed.
    pub(super) trial: Option<TrialRun>,
    /// Drain of the node in this rollout, for the outcome.
    pub(super) drain: Option<DrainRecord>,
    pub(super) way_back: WayBack,
    pub(super) attempts: Attempts,
}

/// What the latest event of a node says.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) is_ready: bool,
    /// Whether the node is available apart from this rollout.
    pub(super) is_healthy: bool,
    /// Why the node must not start: another program maintains or deletes it, or its state is unknown.
    pub(super) hold: Option<Why>,
    /// Whether the node's own agent wrote its assignment. Such a node proves nothing for others.
    pub(super) is_self_assigned: bool,
    /// Whether the node runs its target. `None`: no event since the plan was made.
    pub(super) runs_target: Option<bool>,
    pub(super) pointed: Pointed,
    /// Whether the node has the mark of a drain.
    pub(super) shows_mark: bool,
}

/// Whether the node is known to point at its target, or to have pointed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pointed {
    No,
    /// By the answer to its assignment.
    Answered,
    /// By an event. Only then is another source a change by another client, and not an event from before the assignment.
    Seen,
}

/// What a node in transition shall run.
#[derive(Debug)]
pub(super) enum Goal {
    /// Its target.
    Target,
    /// What it had before its assignment.
    Previous(Box<Before>),
}

/// State of a node before its rollback.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) stage: Stage,
    /// Time of the assignment. For a converged node, the time at which it was turned back.
    pub(super) since: Instant,
    pub(super) waiting: Waiting,
    /// Whether an event has shown the node running its previous source since the rollback was requested.
    pub(super) is_seen: bool,
}

/// How far a node has got on the way to its goal.
#[derive(Debug)]
pub(super) enum Stage {
    /// It has not started.
    Waiting,
    /// It has not started, and does not in this run.
    Aside,
    /// Its pods are listed before its assignment.
    Listing,
    /// Its pods are evicted since its mark was requested.
    Draining(Box<Draining>),
    /// Its patch is unanswered.
    Assigning,
    /// It points at its goal since then, and is watched until it runs it.
    Converging { since: Instant },
    /// It runs its target, and was drained, or has devices or pods to prove.
    Settling(Settling),
    /// Its part has ended. Seconds from its assignment.
    Ended { end: End, seconds: Option<f64> },
}

/// A node that runs its target, and is watched until it is released.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settling {
    /// Time of the assignment.
    pub(super) since: Instant,
    /// Time of the first event that showed the target running.
    pub(super) converged: Instant,
    /// Whether the node is well by its latest event.
    pub(super) is_well: bool,
    /// Time since which the node has been well, or not.
    pub(super) changed: Instant,
}

/// Mark of a node that is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The node has no mark of this rollout.
    None,
    /// The request for the mark is unanswered. `was_left`: the node may have an earlier mark, whose release was refused.
    Sent { was_left: bool },
    /// The node is marked. `seen`: the watch has shown the mark. Only then is its absence the work of another client.
    On { seen: bool },
    /// The request for the release is unanswered.
    Releasing,
    /// The mark stays after the rollout.
    Left,
}

/// Wave of a node, in start order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wave {
    /// The node was unavailable when the plan was made, and still is.
    Unavailable,
    Canary,
    Rest,
}

/// Whether a node may be rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WayBack {
    Open,
    /// The pool does not allow the disruption, which was reported.
    Refused,
    /// A rollback was given up, so that the node stays on its target.
    GivenUp,
}

/// What a node has tried in vain.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// New decisions after a conflict with another client.
    pub(super) replans: u8,
    /// Losses of readiness while the node settled or soaked.
    pub(super) regressions: u8,
}

/// Place of a waiting node in the order of starts. Blockers answer alike for all nodes of a place, except that they hold
/// single nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) need: Need,
    pub(super) wave: Wave,
    /// Position of the domain in the order of the pool; 0 for nodes that do not wait for their domain.
    pub(super) domain: usize,
    /// Whether the node has no permit yet that it needs.
    pub(super) needs_permit: bool,
}

/// What the start of a node needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// Nothing: the node points at its target already, and is watched.
    Nothing,
    /// No budget: the node is unavailable already.
    Change,
    /// No budget, but a drain.
    Drain,
    /// Budget.
    Budget,
}

impl Node {
    pub(super) fn new(intent: Intent, wave: Wave) -> Self {
        let is_marked = intent.step().is_some_and(|step| step.marked);
        let facts = Facts {
            is_ready: intent.was_ready(),
            is_healthy: intent.was_available(),
            hold: None,
            is_self_assigned: intent.step().is_some_and(|step| step.self_assigned),
            runs_target: None,
            pointed: if intent.was_on_target() { Pointed::Seen } else { Pointed::No },
            shows_mark: is_marked,
        };
        Self {
            facts,
            permit: Permit::NOT_NEEDED,
            goal: Goal::Target,
            stage: intent.end().map_or(Stage::Waiting, |end| Stage::Ended { end, seconds: None }),
            mark: if is_marked { Mark::On { seen: true } } else { Mark::None },
            wave,
            waiting: intent.waiting(),
            proof: Proof::new(intent.was_ready()),
            trial: None,
            drain: None,
            way_back: WayBack::Open,
            attempts: Attempts::default(),
            intent,
        }
    }

    /// Place in the order of starts. `None`: the node does not wait to start.
    pub(super) fn place(&self) -> Option<Place> {
        if !self.is_pending() || matches!(self.stage, Stage::Aside) || self.permit.is_awaited() {
            return None;
        }
        let need = match self.intent.assignment() {
            None => Need::Nothing,
            Some(_) if self.takes_budget() => Need::Budget,
            Some(_) if self.intent.needs_drain() => Need::Drain,
            Some(_) => Need::Change,
        };
        let domain = if self.wave == Wave::Rest { self.intent.domain() } else { 0 };
        let needs_permit = self.permit.state == PermitState::Needed;
        Some(Place { need, wave: self.wave, domain, needs_permit })
    }

    fn has_not_started(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Aside)
    }

    /// Reports whether the node may start once its turn comes.
    pub(super) fn is_pending(&self) -> bool {
        self.has_not_started() && self.facts.hold.is_none() && !self.is_withheld()
    }

    /// Reports whether a gate of the node did not pass for the whole of its patience.
    fn is_withheld(&self) -> bool {
        matches!(self.permit.state, PermitState::Withheld { .. })
    }

    /// Reports whether a change makes the node unavailable, which is available now, or is once the watch shows that it is
    /// released.
    pub(super) fn takes_budget(&self) -> bool {
        self.facts.is_healthy || (self.mark == Mark::None && self.facts.shows_mark)
    }

    /// Reports whether the node has not started, and may once the reason of its hold ends.
    pub(super) fn is_held(&self) -> bool {
        self.has_not_started() && (self.facts.hold.is_some() || self.is_withheld())
    }

    /// Reports whether the node waits for its permit, which was refused.
    pub(super) fn is_refused(&self) -> bool {
        self.is_pending() && matches!(self.permit.state, PermitState::Refused { .. })
    }

    /// Reports whether the node has left the queue, and its assignment may not have been sent.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Listing | Stage::Draining(_)) || self.is_assigning()
    }

    /// Reports whether the assignment of the node is unanswered.
    pub(super) fn is_assigning(&self) -> bool {
        matches!(self.stage, Stage::Assigning) && !self.goes_back()
    }

    /// Reports whether the assignment of this rollout allows more disruption than the NodeConfig does.
    pub(super) fn allows_more_than(&self, seen: &Seen) -> bool {
        let allowed = self.intent.assignment().map(|assignment| assignment.max_disruption);
        seen.content.zip(allowed).is_some_and(|(content, allowed)| content.allows_less_than(allowed))
    }

    /// Reports whether this rollout has not assigned the node yet.
    pub(super) fn is_unassigned(&self) -> bool {
        let is_prepared = self.has_not_started() || matches!(self.stage, Stage::Listing | Stage::Draining(_));
        is_prepared && matches!(self.goal, Goal::Target)
    }

    /// Reports whether the node, its mark or its release is in transition.
    pub(super) fn is_in_flight(&self) -> bool {
        self.awaits_mark_answer() || !(self.has_not_started() || matches!(self.stage, Stage::Ended { .. }))
    }

    /// Reports whether the mark or the release of the node is unanswered. Until then it gets no new mark: the release could
    /// remove it, and a refusal of the first mark would hide it.
    pub(super) fn awaits_mark_answer(&self) -> bool {
        matches!(self.mark, Mark::Sent { .. } | Mark::Releasing)
    }

    /// Reports whether the node is marked.
    pub(super) fn is_marked(&self) -> bool {
        matches!(self.mark, Mark::On { .. })
    }

    /// Reports whether the node is marked although its part in the rollout has ended. A pending node waits for its turn.
    pub(super) fn needs_no_mark(&self, is_closed: bool) -> bool {
        let has_ended = match self.stage {
            Stage::Waiting | Stage::Aside => is_closed || self.is_held(),
            _ => !self.is_in_flight(),
        };
        has_ended && self.is_marked()
    }

    /// The end of the node, if its part has ended.
    pub(super) fn end(&self) -> Option<&End> {
        match &self.stage {
            Stage::Ended { end, .. } => Some(end),
            _ => None,
        }
    }

    /// The failure of the node, also while it is rolled back for it.
    pub(super) fn failure(&self) -> Option<&ConvergenceFailure> {
        let stage = match (&self.stage, &self.goal) {
            (Stage::Ended { .. }, _) | (_, Goal::Target) => &self.stage,
            (_, Goal::Previous(before)) => &before.stage,
        };
        match stage {
            Stage::Ended { end: End::Failed { failure, .. }, .. } => Some(failure),
            _ => None,
        }
    }

    /// Reports whether the node was Ready before, and has not acknowledged its assignment.
    pub(super) fn is_silent(&self) -> bool {
        self.proof.was_ready && self.waiting == Waiting::NotAcknowledged && !self.goes_back()
    }

    /// Reports whether the node was not Ready before and timed out without acknowledging its assignment. Such a failure
    /// proves nothing about the configuration.
    pub(super) fn was_down(&self) -> bool {
        let is_silent =
            matches!(self.failure(), Some(ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged }));
        !self.proof.was_ready && is_silent
    }

    /// Reports whether the node failed with its assignment, so that it may not recover.
    pub(super) fn has_failed(&self) -> bool {
        self.failure().is_some_and(|failure| !matches!(failure, ConvergenceFailure::Drain { .. }))
    }

    /// Reports whether the node failed after its assignment, which it may not run yet.
    fn is_unwatched(&self) -> bool {
        self.failure().is_some() && self.facts.pointed != Pointed::No && self.facts.runs_target != Some(true)
    }

    /// Reports whether the node converged in this rollout.
    pub(super) fn has_converged(&self) -> bool {
        matches!(self.end(), Some(End::Converged))
    }

    /// Reports whether the node runs its target, by its own transition or since before the rollout.
    pub(super) fn is_on_target(&self) -> bool {
        self.end().is_some_and(End::runs_target)
    }

    /// Reports whether the node has its target or gets it, by the reconciler in this run or an earlier one, also if it
    /// failed with it.
    pub(super) fn has_begun(&self) -> bool {
        let by_us = !self.facts.is_self_assigned;
        match &self.stage {
            Stage::Waiting | Stage::Aside => self.intent.was_on_target() && by_us,
            Stage::Ended { .. } => self.has_failed() || (self.is_on_target() && by_us),
            // The assignment of this run ends that of the node's own agent.
            _ => self.intent.assignment().is_some() || by_us,
        }
    }

    /// Reports whether the node converged in this rollout and is not Ready any more.
    pub(super) fn is_lost(&self) -> bool {
        self.has_converged() && !self.facts.is_ready
    }

    /// Trial of the node, if it runs its target.
    pub(super) fn current_trial(&self) -> Option<Trial> {
        self.trial.filter(|_| self.is_on_target()).map(|run| run.trial)
    }

    /// Reports whether the goal of the node is what it had before its assignment.
    pub(super) fn goes_back(&self) -> bool {
        matches!(self.goal, Goal::Previous(_))
    }

    /// Reports whether the node counts against the budget: it is not available, in transition, or failed.
    pub(super) fn is_unavailable(&self) -> bool {
        match &self.stage {
            Stage::Ended { end: End::Gone, .. } => false,
            _ if self.mark != Mark::None => true,
            Stage::Waiting | Stage::Aside => !self.facts.is_healthy,
            Stage::Ended { .. } => self.has_failed() || self.is_unwatched() || !self.facts.is_healthy,
            _ => true,
        }
    }

    /// End for the outcome, and seconds since the assignment.
    pub(super) fn outcome(&self) -> (End, Option<f64>) {
        let failed = match &self.goal {
            Goal::Previous(before) if self.failure().is_some() => Some(&before.stage),
            _ => None,
        };
        let end = |end: End| (end, None);
        match (&self.stage, failed) {
            (Stage::Ended { end, seconds }, _) | (_, Some(Stage::Ended { end, seconds })) => (end.clone(), *seconds),
            (Stage::Waiting | Stage::Aside, _) => match (self.facts.hold.clone(), &self.permit.state) {
                (Some(why), _) => end(End::LeftAlone { why }),
                (None, PermitState::Withheld { gate, why }) => {
                    end(End::NotPermitted { gate: gate.clone(), why: why.clone() })
                }
                (None, _) => end(End::NotStarted),
            },
            _ if self.is_unassigned() => end(End::NotStarted),
            _ => end(End::InFlight),
        }
    }
}
