//! The hold of a pool, and nodes that must not start in their present state: unreadable ones, those that another
//! program maintains, and those being deleted. They count as unavailable, and become pending again when the state ends.

use super::PoolRun;
use super::node_state::{Phase, Purpose};
use crate::before::signals::Context;
use crate::progress::Progress;
use nodecfg_contract::observed::Node;
use nodecfg_planning::hold::Hold;
use nodecfg_planning::plan::{Why, hold_reason};

impl PoolRun {
    /// Starts no further node of the pool in this run. Nodes in transition go on.
    pub(super) fn hold_pool(&mut self, hold: Hold, context: &mut Context<'_>) {
        self.held = Some(hold.clone());
        let (pool, nodes) = (self.name.clone(), self.nodes.pending());
        self.report(Progress::PoolHeld { pool, nodes, hold }, context);
    }

    /// Reason why the node may not start in its present state. `None` for a node that this rollout only watches, unless
    /// it is being deleted.
    pub(super) fn must_wait(&self, number: usize, seen: &Node) -> Option<Why> {
        let assigned = self.mode.assign && self.nodes.get(number).is_some_and(|node| node.assignment.is_some());
        hold_reason(seen).filter(|why| assigned || *why == Why::Deleting)
    }

    /// Leaves a node unchanged that has not started, as long as the reason lasts.
    pub(super) fn hold(&mut self, number: usize, why: Why, context: &mut Context<'_>) {
        self.canaries.retain(|canary| *canary != number);
        self.end_drain(number, context);
        self.nodes.set(number, Phase::LeftAlone(why.clone()));
        self.report_node(number, context, |pool, node| Progress::Held { pool, node, why });
        self.replace_canary(number);
    }

    /// Makes a held node pending again. Another node may have replaced it as a canary, or it replaces a canary that is still
    /// held.
    pub(super) fn resume(&mut self, number: usize, healthy: bool) {
        let assigned = self.nodes.get(number).is_some_and(|node| node.assignment.is_some());
        if !assigned || self.stopped.is_some() {
            return;
        }
        self.nodes.set(number, Phase::Pending);
        if self.canary_members.contains(&number) {
            self.canaries.push_back(number);
            return;
        }
        self.queue_rest(number);
        self.replace_held_canary();
        if !healthy && self.is_gate_open_for(number) {
            self.queue_unavailable(number);
        }
    }

    /// Handles an event without a known state. The node counts as unavailable and does not start. In transition it
    /// does not converge, so its time limit decides; a soaking canary regresses.
    pub(super) fn unreadable(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        self.nodes.update(number, |node| (node.ready, node.healthy, node.is_claimed) = (false, false, true));
        match self.nodes.get(number).map(|node| node.phase.clone()) {
            Some(Phase::Pending | Phase::Listing | Phase::Draining { purpose: Purpose::Assign, .. }) => {
                if let Some(why) = self.must_wait(number, seen) {
                    self.hold(number, why, context);
                }
            }
            Some(Phase::Watching { since }) => self.evaluate_watched(number, seen, since, context),
            Some(Phase::Settling { .. }) => self.evaluate_settling(number, seen, context),
            Some(Phase::Converged { .. }) => self.evaluate_converged(number, seen, context),
            _ => {}
        }
        self.advance_canaries(context);
        self.start_more(context);
    }
}
