//! What a node is now, before any plan.

use crate::convergence::{Convergence, ConvergenceFailure, Target, WaitContext, Waiting, evaluate};
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
        && (!node.follows_config_source()
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
