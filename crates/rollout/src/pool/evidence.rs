//! Evidence for the [proof](super::proof) of one node: what it had before its assignment, and has since.

use nodecfg_observed::{ExtendedResources, Pod};
use nodecfg_plan::convergence::WaitContext;
use nodecfg_plan::convergence::pods::{LatePods, PodsBefore};

/// What a node had before its assignment, and has since.
#[derive(Debug)]
pub(super) struct Proof {
    /// Whether the node was Ready. Only then must it become Ready again.
    pub(super) was_ready: bool,
    /// Extended resources before the assignment. Unset if this rollout did not assign the node.
    pub(super) resources: Option<ExtendedResources>,
    /// Extended resources since the node runs its target.
    pub(super) resources_after: Option<ExtendedResources>,
    pub(super) pods: PodCheck,
    /// DaemonSet pods with exclusive CPUs that must be deleted before the release: the new configuration does not know
    /// their CPUs.
    pub(super) cpu_owners: Vec<Pod>,
}

/// Check of the pods of a node. The default checks nothing.
#[derive(Debug, Default)]
pub(super) struct PodCheck {
    pub(super) state: CheckState,
    /// Number of Ready pods before the assignment; unset if they were not listed.
    pub(super) ready_before: Option<usize>,
    /// Number of Ready pods by the latest list after the convergence.
    pub(super) ready_after: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) enum CheckState {
    /// Nothing is left to check.
    #[default]
    Done,
    /// The pods before are known, and are compared when the node has converged.
    Due(PodsBefore),
    /// The list is requested.
    Sent(PodsBefore),
    /// These pods are not Ready again. The list is repeated.
    Again(PodsBefore, LatePods),
}

impl PodCheck {
    /// Check of a node that had these pods before its assignment. Without running pods, nothing is checked.
    pub(super) fn after(before: PodsBefore) -> Self {
        if before.is_idle() {
            return Self::default();
        }
        Self { ready_before: Some(before.ready()), state: CheckState::Due(before), ready_after: None }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, CheckState::Done)
    }
}

impl Proof {
    pub(super) fn new(was_ready: bool) -> Self {
        let (resources, resources_after) = (None, None);
        Self { was_ready, resources, resources_after, pods: PodCheck::default(), cpu_owners: Vec::new() }
    }

    /// What must be as before the assignment, as long as no time limit applies. The state of a node that was not Ready
    /// may have been outdated, so its resources need not return.
    pub(super) fn expected(&self) -> WaitContext<'_> {
        let resources = self.resources.as_ref().filter(|_| self.was_ready);
        WaitContext { was_ready: self.was_ready, resources, ..WaitContext::STATE_ONLY }
    }

    /// Reports whether the node must settle when it runs its target, because it had devices or pods.
    pub(super) fn is_needed(&self) -> bool {
        !self.pods.is_done() || self.expected().resources.is_some_and(|before| !before.is_empty())
    }
}
