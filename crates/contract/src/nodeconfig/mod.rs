//! NodeConfig: the resource for Dynamic Kubelet Configuration on clusters whose Nodes no longer support it.
//!
//! A NodeConfig is cluster-scoped, has the name of its Node and is owned by it. The reconciler writes
//! `spec.configSource`, the agent of the node writes `status`. Below `spec` and `status.config`, the types are those
//! of core/v1 ([`crate`], KEP-281). The CustomResourceDefinition is derived from these types. Clients read
//! [`NodeConfig`].

#![cfg_attr(
    feature = "definition",
    expect(clippy::duplicated_attributes, reason = "the columns of one table repeat their keys")
)]

use jiff::Timestamp;
#[cfg(feature = "definition")]
use kube_core::CustomResourceExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::kubelet_values::{OverriddenValue, OwnValue, SetValue};
use crate::{ConfigSource, ConfigStatus, Placement, UnreadableField};
use kubelet_config::risk::Class;

mod schema;

/// Condition: the agent accepted the spec.
pub const SYNCED: &str = "Synced";
/// Condition: the kubelet runs the assigned configuration.
pub const ACTIVE: &str = "Active";
/// Condition: the assigned configuration is the last known good.
pub const KNOWN_GOOD: &str = "KnownGood";
/// Condition: the kubelet runs every value that the active configuration names. `Unknown` if the agent cannot tell.
pub const EFFECTIVE: &str = "Effective";
/// Condition of kstatus: the kubelet runs the assigned configuration as reviewed. `Unknown` if the agent cannot tell.
pub const READY: &str = "Ready";
/// Condition of kstatus: the agent works on the assignment.
pub const RECONCILING: &str = "Reconciling";
/// Condition of kstatus: the node does not run the assignment, and needs another one, or another host.
pub const STALLED: &str = "Stalled";
/// Condition of the Node itself, which repeats [`READY`] of its NodeConfig for programs that know only Nodes.
pub const CONFIG_READY: &str = "nodecfg.dev/ConfigReady";

/// Desired configuration of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "definition",
    derive(kube_derive::CustomResource),
    kube(
        crates(kube_core = "::kube_core"),
        group = "nodecfg.dev",
        version = "v1alpha1",
        kind = "NodeConfig",
        root = "NodeConfigResource",
        plural = "nodeconfigs",
        singular = "nodeconfig",
        shortname = "nc",
        category = "nodecfg",
        doc = "Desired and actual kubelet configuration of one Node. Has the name of the Node and is owned by it.",
        printcolumn(name = "Pool", type_ = "string", json_path = ".status.pool"),
        printcolumn(
            name = "Ready",
            type_ = "string",
            json_path = ".status.conditions[?(@.type==\"Ready\")].status",
            description = "Whether the kubelet runs the assigned configuration as reviewed"
        ),
        printcolumn(
            name = "Wanted",
            type_ = "string",
            json_path = ".spec.configSource.configMap.name",
            description = "Desired ConfigMap of the node",
            priority = 1
        ),
        printcolumn(
            name = "Assigned",
            type_ = "string",
            json_path = ".status.config.assigned.configMap.name",
            description = "ConfigMap that the node accepted as its assignment"
        ),
        printcolumn(
            name = "Active",
            type_ = "string",
            json_path = ".status.config.active.configMap.name",
            description = "ConfigMap that the kubelet runs; empty: the local configuration of the node"
        ),
        printcolumn(
            name = "Known good",
            type_ = "string",
            json_path = ".status.config.lastKnownGood.configMap.name",
            description = "Fallback ConfigMap of the node",
            priority = 1
        ),
        printcolumn(name = "Error", type_ = "string", json_path = ".status.config.error"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    ),
    kube(status = "NodeConfigStatus", derive = "PartialEq", derive = "Default")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::spec)]
pub struct NodeConfigSpec {
    /// ConfigMap of the node's configuration. Without it, the node runs its local configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_source: Option<ConfigSource>,
    /// Hash of the content that was reviewed (`v1:blake3:<hex>`). The node refuses any other content. Without it, the
    /// content must have the short hash at the end of the ConfigMap's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// Highest disruption of running pods that the node is prepared for: none, restart, drain or replace. The agent
    /// refuses a change that needs more. Default: restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub max_disruption: Option<Class>,
    /// How the node combines the configuration with its own: overlay (merged over it) or replace. Unset: what the agent
    /// did before this field existed, replace for files and overlay for drop-ins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub placement: Option<Placement>,
    /// True if the node's own agent wrote this spec, because the node joined with the configuration. Such a node proves
    /// nothing for other nodes. An assignment by the reconciler ends it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub self_assigned: bool,
}

impl NodeConfigSpec {
    /// Highest disruption class that the agent may cause, with its default.
    #[must_use]
    pub fn max_disruption(&self) -> Class {
        self.max_disruption.unwrap_or(Class::Restart)
    }
}

/// Actual state of a node, reported by its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::status)]
pub struct NodeConfigStatus {
    /// Assigned, active and last known good configuration, in the form of `Node.status.config`. Set, possibly empty,
    /// after the first observation of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigStatus>,
    /// `metadata.generation` that this status refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the running content (`v1:blake3:<hex>`); unset for the local configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// Pool of the assigned configuration, from the label of its ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// How the kubelet combines the running configuration with the node's own: overlay or replace. While it runs its own
    /// alone, what the agent does without `spec.placement`. Unset by agents that do not know placements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub placement: Option<Placement>,
    /// What the kubelet runs, compared with the active configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<EffectiveStatus>,
    /// Conditions in the form of meta/v1 Condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Agent that reports this status. Unset if the agent is too old to report itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ReportingAgent>,
}

/// What the kubelet runs, compared with the active configuration: what comes after it, and what the node's own
/// configuration has beneath it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::effective)]
pub struct EffectiveStatus {
    /// How the agent knows the values that the kubelet runs: `computed`, from its files and its command line. Unset if it
    /// cannot tell; the condition Effective then has the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Hash of all values that the kubelet prints (`v1:blake3:<hex>`). Nodes with the same hash run the same, but for values
    /// that the kubelet masks. Unset without a source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Values that the active configuration names and the kubelet does not run, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<OverriddenValue>,
    /// Number of further overridden values.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub overridden_more: u32,
    /// Values that flags and files set after the place of a configuration, at most 32. They would override a configuration
    /// that names these fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<SetValue>,
    /// Number of further values that are set so, or may be secret.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub above_more: u32,
    /// Values of the node's own configuration for the fields that the active overlay sets, at most 64. A field returns to
    /// its own value if it leaves the overlay. One that is missing here has no own value, unless `beneathMore` is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beneath: Vec<OwnValue>,
    /// Number of own values that are not listed: beyond the first 64, too long, or possibly secret.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub beneath_more: u32,
}

impl EffectiveStatus {
    /// Maximum number of listed own values.
    pub const MAX_BENEATH: usize = 64;
    /// Maximum number of listed overridden values.
    pub const MAX_OVERRIDDEN: usize = 20;
    /// Maximum number of listed values that are set after a configuration.
    pub const MAX_ABOVE: usize = 32;
    /// The source of values that the agent computes.
    pub const COMPUTED: &str = "computed";
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Agent that reports a status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::agent)]
pub struct ReportingAgent {
    /// Version of nodecfg.
    pub version: String,
    /// Time of the last write of this status by the agent's clock, RFC 3339. Without changes, the agent writes about
    /// hourly.
    pub heard_at: String,
    /// Time at which the trial of the running configuration ends if the kubelet stays healthy, by the agent's clock,
    /// RFC 3339. Unset outside of a trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_ends_at: Option<String>,
}

/// meta/v1 Condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::condition)]
pub struct Condition {
    /// `Synced`, `Active`, `KnownGood` or `Effective`, or `Ready`, `Reconciling` or `Stalled` of kstatus.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason for programs, one word in CamelCase.
    pub reason: String,
    /// Reason for readers, one sentence.
    pub message: String,
    /// Last change of `status`, RFC 3339.
    pub last_transition_time: String,
    /// `metadata.generation` that this condition refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A NodeConfig as the reconciler and the agent read it. An unreadable spec is an error. An unreadable status counts
/// as unset, because the agent replaces it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct NodeConfig {
    /// The part of `metadata` that nodecfg reads.
    pub metadata: Metadata,
    /// Desired configuration of the node.
    #[serde(default)]
    pub spec: NodeConfigSpec,
    /// Actual state of the node.
    #[serde(default, deserialize_with = "status_or_default")]
    pub status: NodeConfigStatus,
    /// First field that the reconciler could not decode, if any. Such a field counts as unset.
    #[serde(skip)]
    pub unreadable: Option<UnreadableField>,
}

/// The part of meta/v1 ObjectMeta that nodecfg reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Name of the NodeConfig and its Node.
    pub name: String,
    /// Uid of the NodeConfig.
    pub uid: String,
    /// Number of the latest spec.
    pub generation: i64,
    /// Owners, usually the Node.
    pub owner_references: Option<Vec<OwnerReference>>,
    /// Creation time.
    pub creation_timestamp: Option<Timestamp>,
    /// Set while the object is being deleted.
    pub deletion_timestamp: Option<String>,
    /// What delays a deletion. nodecfg sets none.
    pub finalizers: Option<Vec<String>>,
}

/// meta/v1 OwnerReference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    /// Kind of the owner.
    pub kind: String,
    /// Uid of the owner.
    pub uid: String,
}

impl NodeConfig {
    /// Uids of the owners that are Nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<&str> {
        let owners = self.metadata.owner_references.iter().flatten();
        owners.filter(|owner| owner.kind == "Node").map(|owner| owner.uid.as_str()).collect()
    }

    /// Reports whether the NodeConfig represents the Node with this uid and is not being deleted. If an earlier Node
    /// of the name owns it, the garbage collector is about to delete it. Without a Node as owner, it was created by
    /// hand and counts, because the agent follows it.
    #[must_use]
    pub fn represents(&self, node_uid: &str) -> bool {
        let nodes = self.nodes();
        self.metadata.deletion_timestamp.is_none() && (nodes.is_empty() || nodes.contains(&node_uid))
    }

    /// Reports whether finalizers delay the deletion of the NodeConfig.
    #[must_use]
    pub fn is_stuck_in_deletion(&self) -> bool {
        let Metadata { deletion_timestamp, finalizers, .. } = &self.metadata;
        deletion_timestamp.is_some() && finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
    }

    /// Reports whether the reconciler left the NodeConfig to the garbage collector. It then names its own uid as that of
    /// the Node, which no Node has.
    #[must_use]
    pub fn is_discarded(&self) -> bool {
        self.nodes() == [self.metadata.uid.as_str()]
    }

    /// Reports whether the first owner is the Node with this uid.
    #[must_use]
    pub fn is_owned_first_by(&self, node_uid: &str) -> bool {
        self.metadata.owner_references.iter().flatten().next().is_some_and(|owner| owner.uid == node_uid)
    }

    /// All sources in spec and status.
    pub fn sources(&self) -> impl Iterator<Item = &ConfigSource> {
        self.spec.config_source.iter().chain(self.status.config.iter().flat_map(ConfigStatus::sources))
    }
}

fn status_or_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeConfigStatus, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// CustomResourceDefinition of NodeConfig (apiextensions.k8s.io/v1).
#[cfg(feature = "definition")]
#[must_use]
pub fn definition() -> Value {
    // Types of k8s-openapi always serialize.
    let mut definition = serde_json::to_value(NodeConfigResource::crd()).unwrap_or_default();
    schema::tidy(&mut definition);
    definition
}
