//! The budget: how many nodes of the pool, and of all pools, may be unavailable.

use super::MayStart;
use crate::outcome::StopReason;
use crate::pool::node::{Need, Node};
use crate::pool::table::Count;
use crate::pool::{MAX_EXAMPLES, Pool};

pub(super) fn may_start(pool: &Pool, node: &Node) -> MayStart {
    let is_free = match node.place().map(|place| place.need) {
        Some(Need::Nothing | Need::Change) => true,
        Some(Need::Drain) => pool.number(Count::Draining) < pool.policy.budget,
        Some(Need::Budget) | None => pool.has_budget_for(node),
    };
    match is_free {
        true => MayStart::Yes,
        false if pool.awaits_other_pools() => MayStart::AfterOthers,
        false => MayStart::AfterNodes,
    }
}

impl Pool {
    /// Reports whether this node may become unavailable, or is without the others exceeding a limit.
    pub(in crate::pool) fn has_budget_for(&self, node: &Node) -> bool {
        let others = self.number(Count::Unavailable) - usize::from(node.is_unavailable());
        others < self.policy.budget.min(self.starts.room.left())
    }

    /// Reports whether only nodes in transition in other pools prevent the start of a node.
    pub(in crate::pool) fn awaits_other_pools(&self) -> bool {
        self.starts.room.is_in_flight && self.number(Count::Unavailable) >= self.starts.room.left()
    }

    pub(super) fn budget_exhausted(&self) -> StopReason {
        let (unavailable, budget) = self.budget();
        let room = &self.starts.room;
        if let Some(limit) = room.limit.filter(|_| room.left() < budget) {
            return StopReason::FleetBudgetExhausted { budget: limit, unavailable: room.elsewhere + unavailable };
        }
        let examples = self.nodes.iter().filter(|node| node.is_unavailable()).take(MAX_EXAMPLES);
        let examples = examples.map(|node| node.intent.name().clone()).collect();
        StopReason::BudgetExhausted { budget, unavailable, examples }
    }
}
