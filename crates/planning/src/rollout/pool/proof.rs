//! Proof that a node works after its assignment: the resources that it had before must return.

use super::PoolRun;
use super::node_table::{NodeState, Phase};
use nodecfg_contract::observed::Node;

impl PoolRun {
    /// Remembers the extended resources of a node before its assignment. Until the Node names the target, its kubelet
    /// has not restarted for it. A node that was assigned before this rollout may have restarted already, so its
    /// resources before are unknown.
    pub(super) fn remember_resources(&mut self, number: usize, seen: &Node, on_target: bool) {
        let is_before =
            |node: &NodeState| node.assignment.is_some() && (node.is_unassigned() || node.phase == Phase::Assigning);
        if !on_target && self.nodes.get(number).is_some_and(is_before) {
            self.nodes.update(number, |node| node.resources = Some(seen.extended_resources.clone()));
        }
    }
}
