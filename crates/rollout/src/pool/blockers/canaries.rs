//! Canaries of a pool: the gate that they open, and canaries that prove nothing.

use super::MayStart;
use crate::outcome::End;
use crate::pool::Pool;
use crate::pool::node::{Node, Wave};
use crate::pool::table::{Count, Id};
use crate::progress::{Progress, StartGate};

pub(super) fn may_start(pool: &Pool, node: &Node) -> MayStart {
    match (pool.gate, node.wave) {
        (_, Wave::Unavailable) | (StartGate::Open | StartGate::Canaries, Wave::Canary) | (StartGate::Open, _) => {
            MayStart::Yes
        }
        (StartGate::Soaking { until } | StartGate::SoakingStage { until }, _) => MayStart::NotBefore(until),
        // The gate never opens without a canary that is held.
        (StartGate::Canaries, Wave::Rest) if pool.number(Count::CanariesHeld) > 0 => pool.held_with_others(),
        (StartGate::Canaries, Wave::Rest) => MayStart::AfterNodes,
    }
}

impl Pool {
    /// Answer about a node that waits for nodes which are held.
    pub(super) fn held_with_others(&self) -> MayStart {
        self.starts.aside.clone().map_or(MayStart::AfterNodes, MayStart::Hold)
    }

    /// Replaces canaries that prove nothing. Once every canary has converged, starts the soak time, or opens the gate.
    pub(in crate::pool) fn advance_canaries(&mut self) {
        if self.gate.has_passed_canaries() {
            return;
        }
        for id in self.nodes.canaries() {
            // The permit of a refused canary may come late, and the other nodes need not wait for it.
            let is_refused = self.nodes[id].is_refused() && self.nodes.first_of_rest().is_some();
            if is_refused || proves_nothing(&self.nodes[id]) {
                self.replace_canary(id);
            }
        }
        if self.gate != StartGate::Canaries || self.closed.stopped.is_some() || self.number(Count::CanariesLeft) > 0 {
            return;
        }
        if self.policy.limits.soak.is_zero() {
            self.gate = StartGate::Open;
            return;
        }
        let until = self.now.instant.after(self.policy.limits.soak);
        self.gate = StartGate::Soaking { until };
        self.wake(until);
        let until = self.now.time_at(until);
        self.report(Progress::Soaking { until });
    }

    /// Replaces a canary by a node of the rest. If it was the last one and no node can start now, a held node is the canary:
    /// without any, all held nodes could start at once when their holds end.
    fn replace_canary(&mut self, id: Id) {
        let next = self.nodes.first_of_rest();
        self.nodes.update(id, |node| node.wave = Wave::Rest);
        let is_held = |id: &Id| self.nodes[*id].is_held();
        let is_last = self.nodes.canaries().is_empty();
        let held = || [id].into_iter().chain(self.nodes.all()).find(is_held).filter(|_| is_last);
        if let Some(canary) = next.or_else(held) {
            self.nodes.update(canary, |node| node.wave = Wave::Canary);
            self.left_domain(self.nodes[canary].intent.domain());
            self.gate = StartGate::Canaries;
        }
    }
}

/// Reports whether a canary has not failed and will not converge by an assignment: it left the cluster, was changed by
/// another client, was left unchanged by a new decision, is held, was down from the start, or assigned itself.
fn proves_nothing(canary: &Node) -> bool {
    match canary.end() {
        Some(End::Converged) => canary.facts.is_self_assigned,
        Some(End::Gone | End::Changed { .. } | End::LeftAlone { .. }) => true,
        _ => canary.is_held() || canary.was_down(),
    }
}
