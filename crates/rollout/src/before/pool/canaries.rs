//! Canaries of a pool: the gate that they open, and canaries that prove nothing.

use super::PoolRun;
use super::node_state::{Group, NodeState, Phase};
use crate::before::signals::Context;
use crate::progress::{Progress, StartGate};

impl PoolRun {
    /// Replaces a canary that proves nothing by a node of the rest. Such a canary left the cluster, was changed by
    /// another client, was left unchanged by a new decision, was down from the start, or assigned itself. If it was the last canary and no
    /// node can start now, a held node is the canary: without any, all held nodes could start at once when their holds end.
    pub(super) fn replace_canary(&mut self, number: usize) {
        let proves_nothing = self.nodes.get(number).is_some_and(|node| {
            let proves_failure = matches!(node.phase, Phase::Failed { .. }) && !node.was_down();
            let has_ended = match node.phase {
                Phase::Converged { .. } => node.is_self_assigned,
                Phase::Gone | Phase::Changed { .. } | Phase::LeftAlone(_) | Phase::Failed { .. } => !proves_failure,
                _ => false,
            };
            node.group == Group::Canary && has_ended
        });
        if !proves_nothing || self.gate.has_passed_canaries() {
            return;
        }
        self.canary_members.retain(|member| *member != number);
        self.nodes.update(number, |node| node.group = Group::Rest);
        let mut next = None;
        while next.is_none()
            && let Some(number) = self.next_of_rest()
        {
            next = self.nodes.in_phase(number, &Phase::Pending).map(|_| number);
        }
        self.canaries.extend(next);
        let held = || {
            if !self.canary_members.is_empty() {
                return None;
            }
            let is_held = |other: &usize| self.nodes.get(*other).is_some_and(NodeState::is_held);
            [number].into_iter().chain(self.nodes.numbers()).find(is_held)
        };
        if let Some(canary) = next.or_else(held) {
            self.nodes.update(canary, |node| node.group = Group::Canary);
            self.canary_members.push(canary);
            self.gate = StartGate::Canaries;
        }
    }

    /// Lets a node that can start now replace a canary that is held.
    pub(super) fn replace_held_canary(&mut self) {
        let held = self.held_canaries().next();
        if let Some(canary) = held {
            self.replace_canary(canary);
        }
    }

    /// Canaries that wait for the end of their hold. Until then the gate does not open.
    pub(super) fn held_canaries(&self) -> impl Iterator<Item = usize> {
        let is_held = |number: &usize| self.nodes.get(*number).is_some_and(NodeState::is_held);
        self.canary_members.iter().copied().filter(is_held)
    }

    /// Number of canaries that have not converged.
    pub(super) fn canaries_left(&self) -> usize {
        let canaries = self.canary_members.iter().filter_map(|number| self.nodes.get(*number));
        canaries.filter(|node| !matches!(node.phase, Phase::Converged { .. })).count()
    }

    /// Once every canary has converged, starts the soak time, or opens the gate if there is none.
    pub(super) fn advance_canaries(&mut self, context: &mut Context<'_>) {
        if self.gate != StartGate::Canaries || self.stopped.is_some() {
            return;
        }
        if self.canaries_left() > 0 {
            return;
        }
        if self.soak.is_zero() {
            self.open_gate(context);
            return;
        }
        let until = context.now.after(self.soak);
        self.gate = StartGate::Soaking { until };
        context.timers.wake(until, &self.name, None);
        let until = context.time_at(until);
        self.report(Progress::Soaking { pool: self.name.clone(), until }, context);
    }

    pub(super) fn open_gate(&mut self, context: &mut Context<'_>) {
        if matches!(std::mem::replace(&mut self.gate, StartGate::Open), StartGate::Soaking { .. }) {
            self.report(Progress::Soaked { pool: self.name.clone() }, context);
        }
        self.queue_broken();
    }

    /// Queues nodes that became unavailable while they waited for the canaries or their domain. They need no budget.
    pub(super) fn queue_broken(&mut self) {
        let is_broken = |number: &&usize| self.nodes.get(**number).is_some_and(|node| !node.healthy);
        let broken: Vec<usize> = self.rest.iter().filter(is_broken).copied().collect();
        broken.into_iter().for_each(|number| self.queue_unavailable(number));
    }
}
