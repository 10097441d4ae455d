//! A pool among the other pools of its fleet: pools that go first, and the limit of unavailable nodes of all pools.

use super::MayStart;
use crate::pool::Pool;
use crate::pool::node::Node;
use crate::pool::table::Count;
use nodecfg_contract::names::PoolName;
use std::collections::BTreeSet;

/// Room that the limit of all pools leaves to a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// Limit of unavailable nodes of all pools. `None`: no limit.
    pub(crate) limit: Option<usize>,
    /// Number of unavailable nodes of other pools.
    pub(crate) elsewhere: usize,
    /// Whether nodes of other pools are in transition, so that this number may fall.
    pub(crate) is_in_flight: bool,
}

impl Room {
    /// Number of nodes of the pool that may be unavailable.
    pub(crate) fn left(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| limit.saturating_sub(self.elsewhere))
    }
}

/// Progress of a pool that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nodes of the pool have not converged yet.
    Running,
    /// Each node runs the target of the pool.
    Converged,
    /// Each node runs the target of the pool, but one that converged in this rollout is not Ready now.
    Lost,
    /// The pool ended, and some node does not run its target.
    Ended,
}

pub(super) fn may_start(pool: &Pool, _: &Node) -> MayStart {
    pool.starts.turn.clone()
}

impl Pool {
    /// Pools that this one waits for. None before the start, when nodes are only observed, and without a pending node.
    pub(crate) fn waits_for(&self) -> Option<&BTreeSet<PoolName>> {
        let waits = self.is_on && self.starts.turn != MayStart::Yes;
        Some(&self.policy.rules.after).filter(|_| waits && self.number(Count::Pending) > 0 && !self.is_closed())
    }

    /// Reports whether a node of this pool was assigned the target and runs it already, so that the soak time of an earlier
    /// pool has passed.
    pub(crate) fn has_begun(&self) -> bool {
        self.number(Count::Proving) > 0
    }

    /// Reports whether a node of this pool was started in this run.
    pub(crate) fn has_started(&self) -> bool {
        self.starts.has_started()
    }

    /// What the pool was told of its turn.
    pub(crate) fn told(&self) -> &MayStart {
        &self.starts.turn
    }

    /// Tells the pool whether its turn has come.
    pub(crate) fn tell(&mut self, turn: MayStart) {
        self.starts.turn = turn;
    }

    /// Tells the pool what the other pools use of the limit. Returns whether that may start or stop one of its nodes.
    pub(crate) fn share(&mut self, room: Room) -> bool {
        let before = std::mem::replace(&mut self.starts.room, room);
        let needs_room = self.number(Count::Pending) > 0 || self.rollbacks.are_queued();
        before != room && needs_room
    }
}
