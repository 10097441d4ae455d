//! Nodes of a pool by number, and their counts. Every change updates the counts, so that counting needs no iteration over
//! all nodes.

use std::collections::BTreeMap;

use super::node_state::{NodeState, Phase};
use crate::progress::NodeCounts;
use nodecfg_contract::names::NodeName;

/// Number of counts of a [`NodeTable`].
const COUNTS: usize = 17;

/// All nodes of a pool by number. The number of a node never changes.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    nodes: Vec<NodeState>,
    index: BTreeMap<NodeName, usize>,
    unavailable: usize,
    in_flight: usize,
    pending: usize,
    assigning: usize,
    draining: usize,
    converged: usize,
    proving: usize,
    proven: usize,
    lost: usize,
    failed: usize,
    gone: usize,
    awaiting_domain: usize,
    reported: NodeCounts,
}

/// Contribution of a node to each count. Events show the last five: a node that points at its target from the start
/// is in transition, and one with an unanswered patch is pending.
fn counts(node: &NodeState) -> [usize; COUNTS] {
    let pending = node.phase == Phase::Pending;
    let assigning = matches!(node.phase, Phase::Listing | Phase::Assigning);
    let moves = matches!(
        node.phase,
        Phase::Draining { .. }
            | Phase::Watching { .. }
            | Phase::Settling { .. }
            | Phase::RollbackSent { .. }
            | Phase::RollingBack { .. }
    );
    let waits = node.assignment.is_some() && (pending || assigning);
    [
        node.unavailable(),
        node.in_flight(),
        pending,
        assigning,
        matches!(node.phase, Phase::Draining { .. }),
        node.is_converged(),
        node.is_converged() && !node.is_self_assigned,
        matches!(node.phase, Phase::Converged { .. }) && !node.is_self_assigned,
        node.is_lost(),
        node.has_failed(),
        node.phase == Phase::Gone,
        node.awaits_domain && pending,
        waits,
        moves || (pending && !waits),
        matches!(node.phase, Phase::Converged { .. }),
        matches!(node.phase, Phase::Failed { .. } | Phase::Refused { .. }),
        node.current_trial().is_some(),
    ]
    .map(usize::from)
}

impl NodeTable {
    /// Table for this many nodes.
    pub(super) fn with_capacity(nodes: usize) -> Self {
        Self { nodes: Vec::with_capacity(nodes), ..Self::default() }
    }

    /// Adds a node and returns its number.
    pub(super) fn add(&mut self, node: NodeState) -> usize {
        let number = self.nodes.len();
        self.count([0; COUNTS], counts(&node));
        self.index.insert(node.name.clone(), number);
        self.nodes.push(node);
        number
    }

    /// Changes a node and updates the counts.
    pub(super) fn update(&mut self, number: usize, change: impl FnOnce(&mut NodeState)) {
        let Some(node) = self.nodes.get_mut(number) else { return };
        let before = counts(node);
        change(node);
        let after = counts(node);
        self.count(before, after);
    }

    fn count(&mut self, before: [usize; COUNTS], after: [usize; COUNTS]) {
        let NodeCounts { pending, in_flight, done, failed, on_trial, .. } = &mut self.reported;
        let kept = [
            &mut self.unavailable,
            &mut self.in_flight,
            &mut self.pending,
            &mut self.assigning,
            &mut self.draining,
            &mut self.converged,
            &mut self.proving,
            &mut self.proven,
            &mut self.lost,
            &mut self.failed,
            &mut self.gone,
            &mut self.awaiting_domain,
        ];
        let totals = kept.into_iter().chain([pending, in_flight, done, failed, on_trial]);
        for (total, (before, after)) in totals.zip(before.into_iter().zip(after)) {
            *total = *total + after - before;
        }
    }

    /// Sets the phase of a node.
    pub(super) fn set(&mut self, number: usize, phase: Phase) {
        self.update(number, |node| node.phase = phase);
    }

    pub(super) fn get(&self, number: usize) -> Option<&NodeState> {
        self.nodes.get(number)
    }

    /// The node, if it is in exactly this phase.
    pub(super) fn in_phase(&self, number: usize, phase: &Phase) -> Option<&NodeState> {
        self.nodes.get(number).filter(|node| node.phase == *phase)
    }

    pub(super) fn number_of(&self, node: &NodeName) -> Option<usize> {
        self.index.get(node).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.index.keys()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeState> {
        self.nodes.iter()
    }

    /// Numbers of all nodes.
    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.nodes.len()
    }

    /// Nodes sorted by name.
    pub(super) fn by_name(&self) -> impl Iterator<Item = &NodeState> {
        self.index.values().filter_map(|number| self.nodes.get(*number))
    }

    /// Counts of the nodes that the plan has a step for; `steps` is their number.
    pub(super) fn counts(&self, steps: usize) -> NodeCounts {
        NodeCounts { left: steps.saturating_sub(self.reported.total()), ..self.reported }
    }

    pub(super) fn unavailable(&self) -> usize {
        self.unavailable
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Number of nodes whose drain has begun and not ended.
    pub(super) fn draining(&self) -> usize {
        self.draining
    }

    pub(super) fn assigning(&self) -> usize {
        self.assigning
    }

    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Number of nodes that run their target by an assignment of the reconciler.
    pub(super) fn proving(&self) -> usize {
        self.proving
    }

    /// Number of these nodes that converged in this rollout.
    pub(super) fn proven(&self) -> usize {
        self.proven
    }

    /// Number of nodes that converged in this rollout and are not Ready any more.
    pub(super) fn lost(&self) -> usize {
        self.lost
    }

    /// Number of nodes that failed with their assignment.
    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// Number of pending nodes that wait for their domain to begin.
    pub(super) fn awaiting_domain(&self) -> usize {
        self.awaiting_domain
    }

    /// Reports whether each node runs its target or left the cluster.
    pub(super) fn all_converged(&self) -> bool {
        self.converged + self.gone == self.nodes.len()
    }

    pub(super) fn on_trial(&self) -> usize {
        self.reported.on_trial
    }
}
