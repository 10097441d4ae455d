//! Totals of a plan.

use serde::Serialize;

use super::{Plan, Why};
use crate::state::State;

/// Totals of a plan, shown by every report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Nodes to assign.
    pub assign: usize,
    /// Nodes that point at their target but have not converged.
    #[serde(rename = "await")]
    pub await_: usize,
    /// Nodes that run their target.
    pub settled: usize,
    /// Nodes left unchanged that cannot reach their target, each for a reason that an operator should know.
    pub blocked: usize,
    /// Nodes left unchanged because they are paused or being deleted.
    pub skipped: usize,
    /// Nodes left unchanged because the run is limited to other nodes. Unset without such nodes.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_requested: usize,
    /// ConfigMaps to create.
    pub create: usize,
    /// NodeConfigs of settled nodes that get the content hash or the placement that their assignment lacks.
    #[serde(rename = "addHash")]
    pub complete: usize,
    /// Nodes in no pool.
    pub unpooled: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Plan {
    /// Totals of the plan.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { create: self.created().count(), unpooled: self.unpooled.len(), ..Counts::default() };
        for pool in &self.pools {
            counts.assign += pool.assignments();
            counts.await_ += pool.steps().count() - pool.assignments();
            counts.complete += pool.completions().count();
            for left in &pool.left_alone {
                match left.why.state() {
                    _ if left.why == Why::OutOfScope => counts.not_requested += 1,
                    State::Settled => counts.settled += 1,
                    State::Blocked => counts.blocked += 1,
                    _ => counts.skipped += 1,
                }
            }
        }
        counts
    }
}
