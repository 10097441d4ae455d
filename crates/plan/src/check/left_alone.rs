//! Invariants of the nodes that a plan leaves unchanged.

use super::{Checker, is_usable};
use crate::{PoolPlan, Why};

impl Checker<'_> {
    /// A node that is called available is usable, a converged one runs the target of its pool with its placement, and the
    /// completion of a NodeConfig changes nothing that runs.
    pub(super) fn left_alone(&mut self, pool: &PoolPlan) {
        for left in &pool.left_alone {
            let usable = self.observed.nodes.get(&left.node).is_none_or(is_usable);
            self.require(
                left.unavailable || usable,
                format_args!("node {}", left.node),
                "is not available but called available",
            );
            if let Some(added) = &left.completion {
                let node = self.observed.nodes.get(&left.node);
                let content = node.and_then(|node| node.content).unwrap_or_default();
                let same = node.is_some_and(|node| node.uid == added.uid && node.source == added.from);
                let same = same && content.placement == added.from_placement;
                let placement = pool.target.placement();
                let placed = added.to_placement == placement.or(content.placement);
                let to_target = added.to_hash == pool.target.hash() && placed;
                self.require(
                    same && added.from.is_some() && added.from == added.to && to_target,
                    format_args!("node {}", left.node),
                    "the completion of its NodeConfig changes more than hash and placement",
                );
                let kept = content.placement.is_none() || content.placement == placement;
                let runs = placement.is_none() || content.active_placement == placement && kept;
                self.require(
                    content.active == pool.target.hash() && runs,
                    format_args!("node {}", left.node),
                    "gets the hash or the placement of what it does not run",
                );
            }
            if let (Why::Converged, Some(node)) = (&left.why, self.observed.nodes.get(&left.node)) {
                let placement = node.content.and_then(|content| content.active_placement);
                let wanted = pool.target.placement();
                let placed = node.content.is_none() || wanted.is_none() || placement == wanted;
                self.require(
                    pool.target.is_named_by(node.source.as_ref()) && placed,
                    format_args!("node {}", left.node),
                    "is called converged but points elsewhere",
                );
            }
        }
    }
}
