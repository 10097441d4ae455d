//! Invariants of the moves of pool pointers.

use super::Checker;
use crate::plan::{PointerTime, Scope, WaveKind, Why};
use nodecfg_contract::ContentHash;
use nodecfg_contract::observed::{Node, Readiness};

impl Checker<'_> {
    /// A pointer moves only to the reviewed content of its pool. It moves at once only if more nodes of the pool
    /// than canaries run that content by an assignment of the reconciler, and no canary must prove it first.
    pub(super) fn pointers(&mut self) {
        for pool in &self.plan.pools {
            let Some(pointer) = &pool.pointer else { continue };
            let subject = format!("pointer of pool {}", pool.name);
            let requested = match self.scope {
                Scope::Everything => true,
                Scope::Pools(pools) => pools.contains(&pool.name),
                Scope::Nodes(_) => false,
            };
            let wanted = self.desired.pool_pointers && requested && !pool.is_paused();
            self.require(wanted, &subject, "moves although the pool was not requested, is paused or has no pointer");
            let hash = pointer.to.config.as_ref().map(|config| ContentHash::of(config.kubelet.as_bytes()));
            let named = pointer.to.config.as_ref().map(|config| config.hash);
            self.require(hash == pool.hash && named == pool.hash, &subject, "does not name the content of its pool");
            if pointer.when == PointerTime::AtOnce {
                let runs = |node: &Node| match pool.target.source() {
                    None => node.status.active.is_none(),
                    Some(wanted) => node.status.active.as_ref().is_some_and(|active| {
                        active.names_same(wanted)
                            || pool
                                .left_alone
                                .iter()
                                .any(|left| left.node == node.name && matches!(left.why, Why::Adopted { .. }))
                    }),
                };
                let of_pool = pool.left_alone.iter().filter_map(|left| self.observed.nodes.get(&left.node));
                let assigned = of_pool.filter(|node| node.content.is_none_or(|content| !content.self_assigned));
                let proving = assigned.filter(|node| node.ready == Readiness::Ready && runs(node)).count();
                let proven = proving > pool.policy.canaries();
                let waits = pool.waves.iter().any(|wave| matches!(wave.kind, WaveKind::Canary { .. }));
                self.require(proven && !waits, &subject, "moves at once although no node proves its content");
            }
        }
    }
}
