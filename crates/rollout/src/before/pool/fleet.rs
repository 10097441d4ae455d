//! A pool among the other pools of its fleet: pools that go first, and the limit of unavailable nodes of all pools.

use std::collections::BTreeSet;
use std::time::Duration;

use super::PoolRun;
use super::node_state::Phase;
use crate::before::signals::{Context, Mode};
use nodecfg_contract::names::PoolName;
use nodecfg_planning::hold::{Hold, HoldReason};
use nodecfg_planning::plan::PoolPlan;

/// What a pool knows of the other pools.
#[derive(Debug)]
pub(super) struct OtherPools {
    /// Pools that must converge before a node of this pool starts. Empty once they have.
    after: BTreeSet<PoolName>,
    /// Time that this pool must stay converged before a pool starts that waits for it, in real time.
    soak: Duration,
    /// Limit of unavailable nodes of all pools, and their number in the other pools.
    limit: Option<(usize, usize)>,
    /// Whether nodes of other pools are in transition, so that their number of unavailable nodes may fall.
    in_flight: bool,
    /// Whether this has changed for the pool since the pool last used its room.
    is_news: bool,
}

/// Room that the limit of all pools leaves to a pool for another unavailable node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Free,
    /// Nodes in transition in other pools use it.
    Awaited,
    Exhausted,
}

/// Progress of a pool that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nodes of the pool have not converged yet.
    Running,
    /// Each node runs the target of the pool.
    Converged,
    /// Each node runs the target of the pool, but one that converged in this rollout is not Ready now.
    Lost,
    /// The pool ended, and some node does not run its target.
    Ended,
}

impl OtherPools {
    pub(super) fn new(plan: &PoolPlan, mode: &Mode) -> Self {
        Self {
            after: plan.policy.after.clone(),
            soak: plan.policy.canary.map_or(Duration::ZERO, |canary| mode.real_duration(canary.soak)),
            limit: None,
            in_flight: false,
            is_news: false,
        }
    }

    /// Number of nodes of this pool that the fleet allows to be unavailable.
    pub(super) fn room(&self) -> usize {
        self.limit.map_or(usize::MAX, |(limit, elsewhere)| limit.saturating_sub(elsewhere))
    }

    /// Limit of the fleet, and the unavailable nodes of the other pools.
    pub(super) fn limit(&self) -> Option<(usize, usize)> {
        self.limit
    }
}

impl PoolRun {
    /// Pools that this one still waits for. None before the start, when nodes are only observed.
    pub(crate) fn waits_for(&self) -> &BTreeSet<PoolName> {
        static NONE: BTreeSet<PoolName> = BTreeSet::new();
        let waits = self.started && self.nodes.pending() > 0 && self.stopped.is_none() && self.held.is_none();
        if waits { &self.others.after } else { &NONE }
    }

    /// Progress of this pool for those that wait for it.
    pub(crate) fn turn(&self) -> Turn {
        if self.stopped.is_some() || self.held.is_some() {
            return Turn::Ended;
        }
        if !self.is_finished_but_for_trials() {
            return Turn::Running;
        }
        match self.nodes.all_converged() {
            false => Turn::Ended,
            true if self.nodes.lost() > 0 => Turn::Lost,
            true => Turn::Converged,
        }
    }

    /// Time that this pool must stay converged before a pool starts that waits for it.
    pub(crate) fn soak_for_others(&self) -> Duration {
        self.others.soak
    }

    /// Time that a node of this pool may take.
    pub(crate) fn time_limit(&self) -> Duration {
        self.timeout
    }

    /// Reports whether a node of this pool was assigned the target and runs it already, so that the soak time of an earlier pool has passed.
    pub(crate) fn has_begun(&self) -> bool {
        self.nodes.proving() > 0
    }

    /// Starts nodes now that all pools that go first have converged.
    pub(crate) fn begin_turn(&mut self, context: &mut Context<'_>) {
        self.others.after.clear();
        self.await_gates(context);
        self.advance_gates(context);
        self.advance_canaries(context);
        self.start_more(context);
    }

    /// Holds the pool because a pool that goes first has ended without success. That pool's own result tells why.
    pub(crate) fn hold_after(&mut self, first: &PoolName, context: &mut Context<'_>) {
        self.hold_pool(Hold { why: HoldReason::Pool { pool: first.clone() }, next: None }, context);
    }

    /// Watches the nodes that point at their target already. They need no turn.
    pub(super) fn watch_awaited(&mut self, context: &mut Context<'_>) {
        for number in std::mem::take(&mut self.unavailable_first) {
            match self.nodes.in_phase(number, &Phase::Pending) {
                Some(node) if node.assignment.is_none() => {
                    self.nodes.update(number, |node| node.is_queued_first = false);
                    self.watch(number, context);
                }
                _ => self.unavailable_first.push_back(number),
            }
        }
    }

    /// Sets the limit of all pools, and what the other pools use of it.
    pub(crate) fn share(&mut self, limit: usize, elsewhere: usize, in_flight: bool) {
        let (before, room) = (self.others.room(), self.room());
        (self.others.limit, self.others.in_flight) = (Some((limit, elsewhere)), in_flight);
        // A failed node that is rolled back needs no room for itself.
        let concerns_rollbacks = !self.rollback_drains.is_empty() && self.others.room() != before;
        self.others.is_news |= self.room() != room || concerns_rollbacks;
    }

    fn room(&self) -> Room {
        match self.nodes.unavailable() < self.others.room() {
            true => Room::Free,
            false if self.others.in_flight => Room::Awaited,
            false => Room::Exhausted,
        }
    }

    /// Numbers of nodes that are unavailable, and in transition.
    pub(crate) fn use_of_limit(&self) -> (usize, usize) {
        (self.nodes.unavailable(), self.nodes.in_flight())
    }

    /// Reports whether another pool has made or taken room, and this pool has nodes that need it. Without room, the
    /// pool only checks whether it has stalled.
    pub(crate) fn awaits_room(&self) -> bool {
        let needs_room = self.nodes.pending() > 0 || !self.rollback_drains.is_empty();
        self.others.is_news && needs_room
    }

    /// Starts nodes if another pool has made room for them.
    pub(crate) fn use_room(&mut self, context: &mut Context<'_>) {
        self.others.is_news = false;
        self.start_more(context);
    }

    /// Number of nodes that may be unavailable, by the limits of the pool and of the fleet.
    pub(super) fn limit(&self) -> usize {
        self.budget.min(self.others.room())
    }

    /// Reports whether only nodes in transition in other pools prevent the start of a node.
    pub(super) fn awaits_other_pools(&self) -> bool {
        self.room() == Room::Awaited
    }
}
