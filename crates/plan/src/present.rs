//! What a node is now, before any plan, and what it may run before an assignment.

use std::collections::BTreeSet;

use crate::convergence::{Convergence, ConvergenceFailure, Target, WaitContext, Waiting, evaluate};
use nodecfg_contract::{Assignment, ConfigSource, Placement};
use nodecfg_observed::{Node, Readiness};

/// Invariant 4: a node is available while it is Ready, converged on its current source, not cordoned, not maintained by
/// another program, and not being deleted. A node that ignores its source, cannot fetch it, or waits for a drain is not
/// in transition: it keeps its running configuration. (Recorded when a ConfigMap in use was deleted.) The state of an
/// unreadable node is unknown, so it is unavailable.
#[must_use]
pub fn is_available(node: &Node) -> bool {
    node.ready == Readiness::Ready
        && !node.deleting
        && !node.cordoned
        && node.maintainer.is_none()
        && !node.has_drain_taint()
        && !node.is_unreadable()
        && (node.obstacle.is_some()
            || matches!(
                present_state(node),
                Convergence::Converged
                    | Convergence::Waiting(Waiting::Syncing { .. })
                    | Convergence::Failed(ConvergenceFailure::NotPrepared { .. })
            ))
}

/// Reports whether a node is not Ready or refuses its current source, so that another configuration can only improve
/// it, whether a person has cordoned it for a change, or whether an earlier run has drained it. A Ready node in
/// transition is unavailable but not broken: it waits for the canaries.
pub(super) fn is_broken(node: &Node) -> bool {
    node.ready != Readiness::Ready || node.cordoned || node.has_drain_taint() || refuses(node)
}

/// Reports whether a node refuses its current source. A node that waits for a drain runs its pods well: another
/// assignment needs budget.
pub(super) fn refuses(node: &Node) -> bool {
    matches!(present_state(node), Convergence::Failed(ConvergenceFailure::Refused { .. }))
}

/// Progress of a node towards its current source.
#[must_use]
pub fn present_state(node: &Node) -> Convergence {
    evaluate(&Target::present(node), node, WaitContext::STATE_ONLY)
}

/// Reports whether the reconciler wrote the assignment of a node. Otherwise the node says nothing about the progress of a
/// rollout.
pub(super) fn proves(node: &Node) -> bool {
    !node.is_self_assigned()
}

/// A configuration that a node may run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Start {
    /// The source; `None`: the local configuration.
    pub(super) from: Option<ConfigSource>,
    /// Its placement; `None` if it is unknown, and for the local configuration.
    pub(super) placement: Option<Placement>,
}

impl Start {
    fn new(source: Option<&ConfigSource>, placement: Option<Placement>) -> Self {
        Self { from: source.map(without_version), placement: placement.filter(|_| source.is_some()) }
    }

    /// The active configuration of a node.
    pub(super) fn active(node: &Node) -> Self {
        Self::new(node.status.active.as_ref(), Some(node.active_placement()))
    }

    /// The source that an assignment leaves.
    pub(super) fn of(assignment: &Assignment) -> Self {
        Self::new(assignment.from.as_ref(), assignment.present_placement)
    }

    /// Reports whether fields may change that neither this configuration nor a new one with this placement names.
    pub(super) fn may_change_more(&self, new: Placement) -> bool {
        self.from.is_some() && self.placement != Some(new)
    }
}

/// Configurations that a node may run: the active one of its status, and its current source unless refused.
pub(super) fn current_configurations(node: &Node) -> BTreeSet<Start> {
    let mut current = BTreeSet::from([Start::active(node)]);
    if !refuses(node) {
        current.insert(Start::new(node.source.as_ref(), Some(node.assigned_placement())));
    }
    current
}

/// The source as in a spec, without uid and version.
fn without_version(source: &ConfigSource) -> ConfigSource {
    match &source.config_map {
        Some(map) => ConfigSource::config_map(&map.namespace, &map.name, &map.kubelet_config_key),
        None => source.clone(),
    }
}
