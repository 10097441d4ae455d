//! Queues of pending nodes, and the order in which they start.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::PoolRun;
use super::node_state::{Group, NodeState, Phase};
use crate::progress::StartGate;

impl PoolRun {
    pub(super) fn queue(&mut self, number: usize, group: Group) {
        // A node that already points at its target is in transition, so watching it needs no budget.
        let awaited = self.nodes.get(number).is_some_and(|node| node.assignment.is_none());
        if group == Group::Canary {
            self.canary_members.push(number);
        }
        match group {
            _ if awaited => self.queue_unavailable(number),
            Group::Unavailable => self.queue_unavailable(number),
            Group::Canary => self.canaries.push_back(number),
            Group::Rest => self.queue_rest(number),
        }
    }

    /// Queues a node that needs no budget, unless it is queued already: every event of a cordoned node asks for it.
    pub(super) fn queue_unavailable(&mut self, number: usize) {
        let Some(node) = self.nodes.get(number).filter(|node| !node.is_queued_first) else { return };
        let drains = node.needs_drain && node.assignment.is_some();
        self.nodes.update(number, |node| node.is_queued_first = true);
        if drains { &mut self.unavailable_drains } else { &mut self.unavailable_first }.push_back(number);
    }

    /// Returns the next node to start: first nodes that need no budget, then nodes that the gate and the budget
    /// allow. Sets nodes aside that the windows do not allow.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<usize> {
        let may_drain = self.nodes.draining() < self.budget;
        while let Some(number) = self.next_unavailable(may_drain) {
            let Some(node) = self.nodes.in_phase(number, &Phase::Pending) else { continue };
            if node.assignment.is_none() || !node.healthy {
                if self.is_open_for(number, now) {
                    return Some(number);
                }
                continue;
            }
            // The node recovered while it waited, so its start needs budget now. A canary is in the queue of canaries too.
            if node.group != Group::Canary {
                self.nodes.update(number, |node| node.group = Group::Rest);
                self.queue_rest(number);
                self.replace_held_canary();
            }
        }
        while let Some(number) = self.queue_of_gate()?.front().copied() {
            if self.nodes.in_phase(number, &Phase::Pending).is_none() || !self.is_open_for(number, now) {
                self.queue_of_gate()?.pop_front();
                continue;
            }
            let node = self.nodes.get(number).filter(|node| !node.awaits_mark_answer())?;
            // A node that is unavailable already needs no budget, but drains are limited by it.
            let is_free = !node.healthy && (may_drain || !node.needs_drain);
            if !is_free && self.nodes.unavailable() >= self.limit() {
                return None;
            }
            return self.queue_of_gate()?.pop_front();
        }
        None
    }

    /// Removes the next node from the queues of nodes that need no budget.
    fn next_unavailable(&mut self, may_drain: bool) -> Option<usize> {
        let next = self.unavailable_first.pop_front().or_else(|| {
            let next = *self.unavailable_drains.front().filter(|_| may_drain)?;
            if self.nodes.get(next).is_some_and(NodeState::awaits_mark_answer) {
                return None;
            }
            self.unavailable_drains.pop_front()
        })?;
        self.nodes.update(next, |node| node.is_queued_first = false);
        Some(next)
    }

    /// Queue of the nodes that may start at the present gate. `None`: no node may.
    fn queue_of_gate(&mut self) -> Option<&mut VecDeque<usize>> {
        match self.gate {
            StartGate::Canaries => Some(&mut self.canaries),
            StartGate::Soaking { .. } | StartGate::SoakingDomain { .. } => None,
            StartGate::Open => Some(&mut self.rest),
        }
    }
}
