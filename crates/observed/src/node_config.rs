//! The part of a NodeConfig that the state of its node needs. Small, because there may be tens of thousands.

use std::sync::Arc;

use jiff::Timestamp;

use super::{CreationTime, NodeContent, OwnValues, Proof};
use nodecfg_contract::nodeconfig::{ACTIVE, NodeConfig, NodeConfigStatus, SYNCED};
use nodecfg_contract::{ConfigSource, ConfigStatus, ContentHash, Placement, UnreadableField};

/// Assignment and report of a node, from its NodeConfig.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfigState {
    /// Uids of the owners that are Nodes.
    pub owners: Box<[Box<str>]>,
    /// Whether the NodeConfig is being deleted.
    pub deleting: bool,
    /// Whether its deletion waits for finalizers.
    pub stuck_in_deletion: bool,
    /// Whether the reconciler left it to the garbage collector.
    pub discarded: bool,
    /// Creation time of the NodeConfig, if known.
    pub created: Option<CreationTime>,
    /// `spec.configSource`.
    pub source: Option<ConfigSource>,
    /// `status.config`; `None` if the agent has not reported. Without an error of an earlier spec.
    pub status: Option<ConfigStatus>,
    /// Last change of what the node runs, if known.
    pub status_since: Option<Timestamp>,
    /// End of the trial, as the agent reports it.
    pub trial_ends: Option<Timestamp>,
    /// What was reviewed, and what runs.
    pub content: NodeContent,
    /// What the node's own configuration has for the fields of the running overlay, if the agent reports that.
    pub own_values: Option<Arc<OwnValues>>,
    /// What the agent knows of the values that the kubelet runs, if it reports that.
    pub proof: Option<Arc<Proof>>,
    /// First field that could not be decoded, if any.
    pub unreadable: Option<Box<UnreadableField>>,
}

impl NodeConfigState {
    /// State of a NodeConfig.
    #[must_use]
    pub fn of(config: NodeConfig) -> Self {
        Self {
            owners: config.nodes().into_iter().map(Box::from).collect(),
            deleting: config.metadata.deletion_timestamp.is_some(),
            stuck_in_deletion: config.is_stuck_in_deletion(),
            discarded: config.is_discarded(),
            created: config.metadata.creation_timestamp.and_then(CreationTime::new),
            status_since: last_change(&config.status),
            trial_ends: trial_end(&config.status),
            content: content(&config),
            status: current_status(&config),
            proof: Proof::of(&config.status),
            own_values: own_values(config.status),
            source: config.spec.config_source,
            unreadable: config.unreadable.map(Box::new),
        }
    }

    /// Reports whether the NodeConfig represents the Node with this uid, as
    /// [`NodeConfig::represents`](nodecfg_contract::nodeconfig::NodeConfig::represents) does.
    #[must_use]
    pub fn represents(&self, node_uid: &str) -> bool {
        !self.deleting && (self.owners.is_empty() || self.owners.iter().any(|owner| **owner == *node_uid))
    }

    /// All sources in spec and status.
    pub fn sources(&self) -> impl Iterator<Item = &ConfigSource> {
        self.source.iter().chain(self.status.iter().flat_map(ConfigStatus::sources))
    }
}

/// The own values beneath the running overlay. Other configurations have none beneath.
fn own_values(status: NodeConfigStatus) -> Option<Arc<OwnValues>> {
    let effective = status.effective.filter(|_| status.placement == Some(Placement::Overlay))?;
    Some(Arc::new(OwnValues::of(effective)))
}

/// Time of the last change of what runs: `Synced` reports that the agent accepted the assignment, `Active` that the
/// kubelet runs it. `None` without these conditions. Becoming the last known good does not change what runs.
fn last_change(status: &NodeConfigStatus) -> Option<Timestamp> {
    let relevant = status.conditions.iter().filter(|condition| matches!(condition.kind.as_str(), SYNCED | ACTIVE));
    relevant.filter_map(|condition| condition.last_transition_time.parse().ok()).max()
}

fn trial_end(status: &NodeConfigStatus) -> Option<Timestamp> {
    status.agent.as_ref()?.trial_ends_at.as_ref()?.parse().ok()
}

/// Status without the error of an earlier spec. The present spec may have removed its cause without another ConfigMap, by
/// a higher `maxDisruption` or by another placement.
fn current_status(config: &NodeConfig) -> Option<ConfigStatus> {
    let mut status = config.status.config.clone()?;
    if config.status.observed_generation.is_some_and(|seen| seen < config.metadata.generation) {
        status.error = None;
    }
    Some(status)
}

fn content(config: &NodeConfig) -> NodeContent {
    let hash = |text: &Option<String>| text.as_deref().and_then(ContentHash::parse);
    NodeContent {
        assigned: hash(&config.spec.content_hash),
        max_disruption: config.spec.max_disruption,
        active: hash(&config.status.content_hash),
        self_assigned: config.spec.self_assigned,
        placement: config.spec.placement,
        active_placement: config.status.placement,
        reported: config.status.config.is_some(),
        handled: config.status.observed_generation == Some(config.metadata.generation),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nodecfg_contract::Placement;

    fn condition(kind: &str, since: &str) -> serde_json::Value {
        json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": since})
    }

    #[test]
    fn state_separates_what_was_reviewed_from_what_runs() {
        let (reviewed, runs) = (ContentHash::of(b"reviewed"), ContentHash::of(b"runs"));
        let conditions = [
            condition("Synced", "2026-11-21T11:00:00Z"),
            condition("Active", "2026-11-21T11:01:00Z"),
            // The end of a trial changes nothing that runs.
            condition("KnownGood", "2026-11-21T11:11:00Z"),
        ];
        let object = json!({
            "metadata": {"name": "n1", "uid": "c", "generation": 4},
            "spec": {"contentHash": reviewed.to_string(), "maxDisruption": "drain", "placement": "replace"},
            "status": {
                "observedGeneration": 4,
                "config": {},
                "contentHash": runs.to_string(),
                "placement": "overlay",
                "conditions": conditions,
                "agent": {"version": "1", "heardAt": "2026-11-21T12:00:00Z"},
            },
        });
        let state = NodeConfigState::of(serde_json::from_value(object).expect("a NodeConfig"));
        assert_eq!((state.content.assigned, state.content.active), (Some(reviewed), Some(runs)));
        assert_eq!(
            (state.content.placement, state.content.active_placement),
            (Some(Placement::Replace), Some(Placement::Overlay))
        );
        assert!(state.content.reported && state.content.handled);
        assert_eq!(state.status_since.map(|since| since.to_string()).as_deref(), Some("2026-11-21T11:01:00Z"));
    }
}
