//! Windows and exclusions of a pool. A node that is due while they are closed for it does not start in this run.

use std::time::Duration;

use super::MayStart;
use crate::instant::Now;
use crate::pool::node::Node;
use crate::pool::{Policy, Pool};
use kubelet_config::risk::Class;
use nodecfg_fleet::hold::Hold;
use nodecfg_fleet::schedule::Schedule;
use nodecfg_plan::PoolPlan;

/// Schedule of a pool in one rollout.
#[derive(Debug)]
pub(in crate::pool) struct Windows {
    schedule: Schedule,
    /// Highest class of the pool's changes.
    class: Class,
    /// Longest time of a node without a drain, and of a drained one, in real time.
    need: [Duration; 2],
    /// Why such a node may not start, valid until the next opening.
    closed: [Option<Hold>; 2],
}

impl Windows {
    pub(super) fn new(plan: &PoolPlan, policy: &Policy) -> Self {
        let around = |drained| policy.mode.real_duration(policy.rules.time_around(drained, policy.checks_pods));
        let disruption = &plan.disruption;
        // The class of a change from an unknown configuration is unknown, so nothing may permit it.
        let class = if disruption.unknown > 0 { Class::Never } else { disruption.worst.unwrap_or(Class::None) };
        Self {
            schedule: policy.rules.schedule.clone(),
            class,
            need: [false, true].map(|drained| policy.limits.node.saturating_add(around(drained))),
            closed: [None, None],
        }
    }

    /// Checks the schedule at this time. The search for the next opening is expensive, so its result is kept.
    pub(super) fn look(&mut self, now: Now) {
        for (closed, need) in self.closed.iter_mut().zip(self.need) {
            if closed.as_ref().is_none_or(|closed| closed.next.is_some_and(|next| next <= now.time)) {
                *closed = self.schedule.check(now.time, self.class, need).err();
            }
        }
    }
}

pub(super) fn may_start(pool: &Pool, node: &Node) -> MayStart {
    let [undrained, drained] = &pool.starts.windows.closed;
    let closed = if node.intent.needs_drain() { drained } else { undrained };
    closed.clone().map_or(MayStart::Yes, MayStart::Hold)
}
