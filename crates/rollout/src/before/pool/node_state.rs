//! One node of a pool during its rollout: its phase, and what is known of it.

use crate::DrainRecord;
use crate::End;
use crate::before::pool::drains::Drained;
use crate::before::pool::proof::PodCheck;
use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::ExtendedResources;
use nodecfg_contract::{Assignment, ConfigSource};
use nodecfg_planning::convergence::{ConvergenceFailure, Target, Trial, Waiting};
use nodecfg_planning::instant::Instant;
use nodecfg_planning::plan::{Action, LeftAlone, Step, Why};

/// Phase of a node in a rollout.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// The plan leaves the node unchanged.
    LeftAlone(Why),
    /// The node has not started.
    Pending,
    /// Its pods are listed before its assignment.
    Listing,
    /// Its pods are evicted since its mark was requested.
    Draining { since: Instant, purpose: Purpose },
    /// Its patch is unanswered.
    Assigning,
    /// The node points at its target and is watched.
    Watching { since: Instant },
    /// The node converged, and was drained or has pods to check. Since `changed` it has been well, or not. `since` is
    /// the time of the assignment.
    Settling { since: Instant, converged: Instant, well: bool, changed: Instant },
    /// The node converged.
    Converged { seconds: f64 },
    /// The node failed.
    Failed { failure: ConvergenceFailure, seconds: f64, rollback: Rollback },
    /// The API server refused its patch.
    Refused { error: String },
    /// Another client changed the node.
    Changed { to: Option<ConfigSource> },
    /// The node left the cluster.
    Gone,
    /// The patch that rolls the node back is unanswered. `since` is the time of the assignment.
    RollbackSent { since: Instant },
    /// The node points at its previous source since `pointed` and is watched until it runs that source. `since` is
    /// the time of the assignment.
    RollingBack { since: Instant, pointed: Instant },
    /// The node runs its previous source again.
    RolledBack { seconds: f64 },
}

impl Phase {
    /// Phase after the request of a rollback, which began at `now`. `None` if the node has nothing to roll back, or the
    /// rollback was requested.
    pub(super) fn rolled_back(&self, now: Instant) -> Option<Self> {
        match self.clone() {
            Self::Watching { since } | Self::Settling { since, .. } => Some(Self::RollbackSent { since }),
            Self::Converged { .. } => Some(Self::RollbackSent { since: now }),
            Self::Failed { failure, seconds, rollback: Rollback::No } => {
                Some(Self::Failed { failure, seconds, rollback: Rollback::Requested })
            }
            _ => None,
        }
    }
}

/// What follows the drain of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// The assignment of the node.
    Assign,
    /// The rollback of the node.
    RollBack(Box<BeforeRollback>),
}

/// State of a node before the drain for its rollback.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BeforeRollback {
    pub(super) phase: Phase,
    pub(super) waiting: Waiting,
}

/// Mark of a node that is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The node has no mark of this rollout.
    None,
    /// The request for the mark is unanswered.
    Sent,
    /// The node is marked. `seen`: the watch has shown the mark. Only then is its absence the work of another client.
    On { seen: bool },
    /// The request for the release is unanswered.
    Releasing,
    /// The mark stays after the rollout.
    Left,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rollback {
    No,
    Requested,
    /// The node points at its previous source and is watched until it runs that source.
    Assigned {
        since: Instant,
    },
    /// The node runs its previous source again.
    Done,
    /// The node points at its previous source but failed to run it.
    Failed,
}

/// Wave of a node, which determines when the node may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Unavailable,
    Canary,
    Rest,
}

#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) name: NodeName,
    /// Uid of the Node in the plan.
    pub(super) uid: String,
    pub(super) group: Group,
    /// Position of its domain in the order of the pool.
    pub(super) domain: usize,
    /// Whether it waits for its domain to begin.
    pub(super) awaits_domain: bool,
    /// Whether it is in a queue of nodes that need no budget.
    pub(super) is_queued_first: bool,
    pub(super) phase: Phase,
    pub(super) from: Option<ConfigSource>,
    /// Assignment of this rollout, if any.
    pub(super) assignment: Option<Assignment>,
    /// Whether the node must be drained before its assignment.
    pub(super) needs_drain: bool,
    /// Whether the node must be drained before a rollback from its target.
    pub(super) rollback_drain: bool,
    pub(super) mark: Mark,
    pub(super) drained: Drained,
    /// Drain of the node in this rollout, for the outcome.
    pub(super) drain_record: Option<DrainRecord>,
    /// Error that the node reported against its target when the plan was made.
    pub(super) known_failure: Option<ConvergenceFailure>,
    pub(super) was_ready: bool,
    /// Extended resources before the assignment. Unset if this rollout did not assign the node.
    pub(super) resources: Option<ExtendedResources>,
    /// Extended resources since the node runs its target.
    pub(super) resources_after: Option<ExtendedResources>,
    /// Check of the pods, which must be back.
    pub(super) pods: PodCheck,
    /// Whether the node is Ready, by its latest event.
    pub(super) ready: bool,
    /// Whether the node is available apart from this rollout, by its latest event.
    pub(super) healthy: bool,
    /// Whether another program maintains or deletes the node, or its state is unknown, by its latest event.
    pub(super) is_claimed: bool,
    /// Whether the node can be rolled back to its previous source.
    pub(super) can_return: bool,
    /// Disruption that a rollback needs while the node runs the target, if the pool does not allow it.
    pub(super) rollback_needs: Option<Class>,
    /// Whether the node runs the target, by its latest event. `None`: no event since the plan was made.
    pub(super) runs_target: Option<bool>,
    /// Whether the watch showed the node running its previous source since its rollback was requested.
    pub(super) seen_rolled_back: bool,
    /// Whether the refusal to roll the node back was reported.
    pub(super) refusal_reported: bool,
    /// Whether its rollback was given up, so that it stays on its target.
    pub(super) keeps_target: bool,
    /// Whether the node's own agent wrote its assignment, by its latest event. Such a node proves nothing for others.
    pub(super) is_self_assigned: bool,
    /// Whether the watch has reported the node on its target. Only then is another source a change by another client,
    /// and not an event from before the assignment.
    pub(super) seen_on_target: bool,
    pub(super) waiting: Waiting,
    pub(super) replans: u8,
    /// Number of readiness losses during soaks.
    pub(super) readiness_losses: u8,
    /// Trial of the node since it converged, if it has not passed.
    pub(super) trial: Option<Trial>,
    /// Time at which a trial that has not ended counts as failed, if the rollout waits for it.
    pub(super) trial_limit: Option<Instant>,
}

impl NodeState {
    pub(super) fn in_flight(&self) -> bool {
        match &self.phase {
            _ if matches!(self.mark, Mark::Sent | Mark::Releasing) => true,
            Phase::Listing | Phase::Draining { .. } | Phase::Settling { .. } => true,
            Phase::Assigning | Phase::Watching { .. } | Phase::RollbackSent { .. } | Phase::RollingBack { .. } => true,
            Phase::Failed { rollback, .. } => matches!(rollback, Rollback::Requested | Rollback::Assigned { .. }),
            _ => false,
        }
    }

    /// Reports whether the node has not started, and may once the reason of its hold ends.
    pub(super) fn is_held(&self) -> bool {
        self.assignment.is_some() && matches!(&self.phase, Phase::LeftAlone(why) if why.may_end())
    }

    /// Reports whether the node is marked although its part in the rollout has ended. A pending node waits for its
    /// turn.
    pub(super) fn needs_no_mark(&self, stopped: bool) -> bool {
        let ended = match &self.phase {
            Phase::Pending => stopped,
            _ => !self.in_flight(),
        };
        ended && matches!(self.mark, Mark::On { .. })
    }

    /// Reports whether the node was not Ready before and timed out without acknowledging its assignment. Such a
    /// failure proves nothing about the configuration.
    pub(super) fn was_down(&self) -> bool {
        let silent = |failure: &ConvergenceFailure| {
            matches!(failure, ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged })
        };
        !self.was_ready && matches!(&self.phase, Phase::Failed { failure, .. } if silent(failure))
    }

    /// Reports whether the node has an assignment in this rollout and can return to its previous source.
    pub(super) fn can_roll_back(&self) -> bool {
        self.assignment.is_some() && self.can_return
    }

    /// What the node had before its assignment.
    pub(super) fn previous(&self) -> Target {
        self.assignment.as_ref().map_or_else(|| Target::named(self.from.as_ref()), Target::before)
    }

    /// Disruption that prevents a rollback now. While the node does not run the target, a rollback disrupts nothing.
    pub(super) fn rollback_blocked_by(&self) -> Option<Class> {
        self.rollback_needs.filter(|_| self.runs_target != Some(false))
    }

    /// Reports whether the node is marked.
    pub(super) fn is_marked(&self) -> bool {
        matches!(self.mark, Mark::On { .. })
    }

    /// Changes the record of the drain.
    pub(super) fn record_drain(&mut self, change: impl FnOnce(&mut DrainRecord)) {
        if let Some(record) = &mut self.drain_record {
            change(record);
        }
    }

    /// Reports whether this rollout has not assigned the node yet.
    pub(super) fn is_unassigned(&self) -> bool {
        matches!(self.phase, Phase::Pending | Phase::Listing | Phase::Draining { purpose: Purpose::Assign, .. })
    }

    /// Reports whether the mark or the release of the node is unanswered. Until then it gets no new mark: the release could
    /// remove it, and a refusal of the first mark would hide it.
    pub(super) fn awaits_mark_answer(&self) -> bool {
        matches!(self.mark, Mark::Sent | Mark::Releasing)
    }

    /// Reports whether the node must be drained before it is rolled back.
    pub(super) fn rollback_needs_drain(&self) -> bool {
        self.rollback_drain && !matches!(self.mark, Mark::On { .. }) && self.runs_target != Some(false)
    }

    /// Reports whether the node runs its target, by its own transition or since before the rollout.
    pub(super) fn is_converged(&self) -> bool {
        matches!(self.phase, Phase::Converged { .. } | Phase::LeftAlone(Why::Converged | Why::Adopted { .. }))
    }

    /// Reports whether the node converged in this rollout and is not Ready any more.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.phase, Phase::Converged { .. }) && !self.ready
    }

    /// Trial of the node, if it is converged.
    pub(super) fn current_trial(&self) -> Option<Trial> {
        self.trial.filter(|_| self.is_converged())
    }

    /// Reports whether the node failed with its assignment, so that it may not recover.
    pub(super) fn has_failed(&self) -> bool {
        matches!(&self.phase, Phase::Failed { failure, .. } if !matches!(failure, ConvergenceFailure::Drain { .. }))
    }

    /// Invariant 4: not available, in transition, or failed.
    pub(super) fn unavailable(&self) -> bool {
        match &self.phase {
            Phase::Gone => false,
            _ if self.mark != Mark::None => true,
            Phase::Failed { failure: ConvergenceFailure::Drain { .. }, .. } => !self.healthy,
            Phase::Listing | Phase::Draining { .. } | Phase::Settling { .. } => true,
            Phase::Assigning | Phase::Watching { .. } | Phase::Failed { .. } => true,
            Phase::RollbackSent { .. } | Phase::RollingBack { .. } => true,
            _ => !self.healthy,
        }
    }
}

impl NodeState {
    /// Creates an entry without an assignment.
    fn new(name: NodeName, phase: Phase, is_available: bool) -> Self {
        Self {
            name,
            uid: String::new(),
            group: Group::Rest,
            domain: 0,
            awaits_domain: false,
            is_queued_first: false,
            phase,
            from: None,
            assignment: None,
            needs_drain: false,
            rollback_drain: false,
            mark: Mark::None,
            drained: Drained::default(),
            drain_record: None,
            known_failure: None,
            was_ready: is_available,
            resources: None,
            resources_after: None,
            pods: PodCheck::default(),
            ready: is_available,
            healthy: is_available,
            is_claimed: false,
            can_return: false,
            rollback_needs: None,
            runs_target: None,
            seen_rolled_back: false,
            refusal_reported: false,
            keeps_target: false,
            is_self_assigned: false,
            seen_on_target: false,
            waiting: Waiting::NotAssigned,
            replans: 0,
            readiness_losses: 0,
            trial: None,
            trial_limit: None,
        }
    }

    /// Creates the entry of a node that the plan leaves unchanged.
    pub(super) fn left_alone(left: &LeftAlone, target: &Target) -> Self {
        let from = match &left.why {
            Why::Converged => target.source().cloned(),
            Why::Adopted { source } | Why::Conflict { source, .. } => Some(source.clone()),
            _ => None,
        };
        let seen_on_target = left.why == Why::Converged;
        Self {
            from,
            seen_on_target,
            ..Self::new(left.node.clone(), Phase::LeftAlone(left.why.clone()), !left.unavailable)
        }
    }

    /// Creates the entry of a node that the plan has a step for.
    pub(super) fn planned(step: &Step, group: Group) -> Self {
        let (assignment, waiting, known_failure) = match &step.action {
            Action::Assign => (Some(step.assignment.clone()), None, None),
            Action::Await { waiting, failure } => (None, waiting.clone(), failure.as_deref().cloned()),
        };
        let awaited = assignment.is_none();
        let before = if awaited { Waiting::NotAcknowledged } else { Waiting::NotAssigned };
        Self {
            uid: step.assignment.uid.clone(),
            group,
            domain: step.domain,
            from: step.assignment.from.clone(),
            assignment,
            needs_drain: step.drain,
            rollback_drain: step.rollback_drain,
            mark: if step.marked { Mark::On { seen: true } } else { Mark::None },
            known_failure,
            was_ready: step.was_ready,
            ready: step.was_ready,
            can_return: step.can_return,
            rollback_needs: step.rollback_needs,
            seen_on_target: awaited,
            waiting: waiting.unwrap_or(before),
            ..Self::new(step.node.clone(), Phase::Pending, step.available)
        }
    }

    /// Final state so far, and its duration in seconds.
    pub(super) fn end(&self) -> (End, Option<f64>) {
        let phase = match &self.phase {
            Phase::Draining { purpose: Purpose::RollBack(before), .. }
                if matches!(before.phase, Phase::Failed { .. }) =>
            {
                &before.phase
            }
            phase => phase,
        };
        match phase {
            Phase::LeftAlone(why) => (End::LeftAlone { why: why.clone() }, None),
            Phase::Pending | Phase::Listing => (End::NotStarted, None),
            Phase::Draining { purpose: Purpose::Assign, .. } => (End::NotStarted, None),
            Phase::Draining { .. } | Phase::Settling { .. } => (End::InFlight, None),
            Phase::Assigning | Phase::Watching { .. } => (End::InFlight, None),
            Phase::RollbackSent { .. } | Phase::RollingBack { .. } => (End::InFlight, None),
            Phase::RolledBack { seconds } => (End::RolledBack, Some(*seconds)),
            Phase::Converged { seconds } => (End::Converged, Some(*seconds)),
            Phase::Failed { failure, seconds, rollback } => {
                let rolled_back = matches!(rollback, Rollback::Done | Rollback::Failed);
                (End::Failed { failure: failure.clone(), rolled_back }, Some(*seconds))
            }
            Phase::Refused { error } => (End::Refused { error: error.clone() }, None),
            Phase::Changed { to } => (End::Changed { to: to.clone() }, None),
            Phase::Gone => (End::Gone, None),
        }
    }
}
