//! What a node may run before an assignment: a configuration with its placement.

use std::collections::BTreeSet;

use crate::present::refuses;
use nodecfg_contract::{Assignment, ConfigSource, Placement};
use nodecfg_observed::Node;

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
