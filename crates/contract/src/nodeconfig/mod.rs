//! NodeConfig: the resource that carries the contract of Dynamic Kubelet Configuration on clusters whose Nodes no longer do.
//!
//! Cluster-scoped, named like its Node and owned by it. The reconciler writes `spec.configSource`, the agent of that node
//! writes `status`. Shapes below `spec` and `status.config` are core/v1's ([`crate`], KEP-281). The
//! CustomResourceDefinition is derived from these types; nothing else describes it. Clients read [`NodeConfig`].

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

use crate::{ConfigSource, ConfigStatus};

mod schema;

/// The condition that the agent took what spec says.
pub const SYNCED: &str = "Synced";
/// The condition that the kubelet runs what is assigned.
pub const ACTIVE: &str = "Active";
/// The condition that what is assigned is the last known good.
pub const KNOWN_GOOD: &str = "KnownGood";

/// What a node shall run.
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
        doc = "What the kubelet of one Node shall run, and what it runs. Named like the Node and owned by it.",
        printcolumn(name = "Pool", type_ = "string", json_path = ".status.pool"),
        printcolumn(
            name = "Wanted",
            type_ = "string",
            json_path = ".spec.configSource.configMap.name",
            description = "The ConfigMap that the node shall run",
            priority = 1
        ),
        printcolumn(
            name = "Assigned",
            type_ = "string",
            json_path = ".status.config.assigned.configMap.name",
            description = "The ConfigMap that the node has taken as its assignment"
        ),
        printcolumn(
            name = "Active",
            type_ = "string",
            json_path = ".status.config.active.configMap.name",
            description = "The ConfigMap that the kubelet runs; empty: the configuration that the node was provisioned with"
        ),
        printcolumn(
            name = "Known good",
            type_ = "string",
            json_path = ".status.config.lastKnownGood.configMap.name",
            description = "The ConfigMap that the node falls back to",
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
    /// The ConfigMap that holds the node's configuration. Without it the node runs the configuration that it was
    /// provisioned with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_source: Option<ConfigSource>,
}

/// What is so on a node, as its agent says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::status)]
pub struct NodeConfigStatus {
    /// What is assigned, active and last known good, shaped as `Node.status.config`. Present, be it empty, as soon as an
    /// agent has looked; absent while none ever has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigStatus>,
    /// The `metadata.generation` that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the content that the kubelet runs (`v1:blake3:<hex>`); unset for the local configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// The pool whose configuration is assigned, as the label of its ConfigMap says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// What holds and why, in the form of meta/v1 Condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Which agent this is from; unset while none has reported that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ReportingAgent>,
}

/// The agent that a status is from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::agent)]
pub struct ReportingAgent {
    /// The version of nodecfg that it is.
    pub version: String,
    /// When it last wrote this status, by its own clock, RFC 3339. It writes one about hourly though nothing has changed.
    pub heard_at: String,
}

/// meta/v1 Condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::condition)]
pub struct Condition {
    /// `Synced`, `Active` or `KnownGood`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word for programs, in CamelCase.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// When `status` changed last, RFC 3339.
    pub last_transition_time: String,
    /// The `metadata.generation` that this condition answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A NodeConfig, as the reconciler and the agent of its node read it. A spec that cannot be read is an error; a status that
/// cannot be read counts as unset, since its agent replaces it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct NodeConfig {
    /// The part of `metadata` that nodecfg reads.
    pub metadata: Metadata,
    /// The desired configuration of the node.
    #[serde(default)]
    pub spec: NodeConfigSpec,
    /// What is so on the node.
    #[serde(default, deserialize_with = "readable")]
    pub status: NodeConfigStatus,
}

/// meta/v1 ObjectMeta, as far as nodecfg reads it of a NodeConfig.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Its name, and its Node's.
    pub name: String,
    /// Its own uid.
    pub uid: String,
    /// Counts the changes of its spec.
    pub generation: i64,
    /// Its owners: its Node, as a rule.
    pub owner_references: Option<Vec<OwnerReference>>,
    /// When it was created.
    pub creation_timestamp: Option<Timestamp>,
    /// Set once it is being deleted.
    pub deletion_timestamp: Option<String>,
}

/// meta/v1 OwnerReference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    /// The kind of the owner.
    pub kind: String,
    /// The uid of the owner.
    pub uid: String,
}

impl NodeConfig {
    /// The uids of those of its owners that are Nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<&str> {
        let owners = self.metadata.owner_references.iter().flatten();
        owners.filter(|owner| owner.kind == "Node").map(|owner| owner.uid.as_str()).collect()
    }

    /// Whether it stands for the Node of this uid. One that an earlier Node of that name owned does not: the garbage collector
    /// is about to remove it. One that no Node owns was made by hand and does, since the agent of that node follows it.
    #[must_use]
    pub fn stands_for(&self, node_uid: &str) -> bool {
        let nodes = self.nodes();
        self.metadata.deletion_timestamp.is_none() && (nodes.is_empty() || nodes.contains(&node_uid))
    }

    /// Whether the first of its owners is the Node of this uid.
    #[must_use]
    pub fn is_owned_first_by(&self, node_uid: &str) -> bool {
        self.metadata.owner_references.iter().flatten().next().is_some_and(|owner| owner.uid == node_uid)
    }

    /// Every source that its spec or its status names.
    pub fn sources(&self) -> impl Iterator<Item = &ConfigSource> {
        self.spec.config_source.iter().chain(self.status.config.iter().flat_map(ConfigStatus::sources))
    }
}

fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeConfigStatus, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// The CustomResourceDefinition (apiextensions.k8s.io/v1) that makes an API server keep NodeConfigs.
#[cfg(feature = "definition")]
#[must_use]
pub fn definition() -> Value {
    // Types of k8s-openapi always serialise.
    let mut definition = serde_json::to_value(NodeConfigResource::crd()).unwrap_or_default();
    schema::tidy(&mut definition);
    definition
}
