//! Content of a node's assignment and report.

use kubelet_config::risk::Class;
use nodecfg_contract::{ContentHash, Placement};

/// The part of a NodeConfig that concerns content: what was reviewed, and what runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeContent {
    /// `spec.contentHash`; `None` if it is missing or has another version.
    pub assigned: Option<ContentHash>,
    /// `spec.maxDisruption`; `None` if it is missing.
    pub max_disruption: Option<Class>,
    /// `status.contentHash`; `None` for the local configuration, or if it has another version.
    pub active: Option<ContentHash>,
    /// `spec.selfAssigned`.
    pub self_assigned: bool,
    /// `spec.placement`; `None` in NodeConfigs from before this field.
    pub placement: Option<Placement>,
    /// `status.placement`; `None` if the agent has not reported, or is older than this field.
    pub active_placement: Option<Placement>,
    /// Whether the agent has reported.
    pub reported: bool,
    /// Whether the agent has handled the present spec (`status.observedGeneration`). Until the kubelet answers on another
    /// configuration, `status.config` shows the previous one.
    pub handled: bool,
}

impl NodeContent {
    /// Placement that the agent follows: without `spec.placement`, that which it reports.
    #[must_use]
    pub fn assigned_placement(&self) -> Option<Placement> {
        self.placement.or(self.active_placement)
    }

    /// Reports whether the NodeConfig allows less disruption than an assignment with this class. A NodeConfig allows at most
    /// [`Class::Replace`], and without `spec.maxDisruption` [`Class::Restart`].
    #[must_use]
    pub fn allows_less_than(&self, class: Class) -> bool {
        self.max_disruption.unwrap_or(Class::Restart) < class.min(Class::Replace)
    }

    /// Reports whether the agent does not know placements: it has reported, but none.
    #[must_use]
    pub fn lacks_placements(&self) -> bool {
        self.reported && self.active_placement.is_none()
    }
}
