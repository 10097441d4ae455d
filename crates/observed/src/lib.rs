//! Observed state of a cluster: Nodes, ConfigMaps and versions.
//!
//! The cluster crate fills these plain types, and planning reads them. They must not depend on a client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use kubelet_config::Minor;
use kubelet_config::capacity::{Capacity, PodRange};
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_contract::{ConfigSource, ConfigStatus, KubeletVersion, Placement, UnreadableField};

mod activity;
mod content;
mod creation;
pub mod drain;
mod extended_resources;
pub mod maintainer;
mod node_config;
pub mod orders;
mod own_values;
pub mod pods;
mod proof;
mod references;
mod running;
mod server_version;

pub use activity::{AgentActivity, NodeActivity};
pub use content::NodeContent;
pub use creation::{Age, CreationTime};
pub use drain::{Drain, DrainMark, Protection, Released, RemovedMark};
pub use extended_resources::{ExtendedResources, MissingResource};
pub use maintainer::Maintainer;
pub use node_config::NodeConfigState;
pub use orders::{Abort, AllowedDisruption, Orders, Pause};
pub use own_values::OwnValues;
pub use pods::{EvictionAnswer, Pod, PodBudget, Rejection};
pub use proof::Proof;
pub use references::{Deletion, References, Referrers};
pub use running::{RunningConfig, UnreadReason};
pub use server_version::ServerVersion;

/// Result of one observation of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Nodes by name.
    pub nodes: BTreeMap<NodeName, Node>,
    /// Metadata of the ConfigMaps of one namespace with nodecfg's label.
    pub config_maps: BTreeMap<ConfigMapKey, ManagedConfigMap>,
    /// Metadata of the pool pointers in the same namespace, of every fleet.
    pub pointers: BTreeMap<ConfigMapKey, ManagedConfigMap>,
    /// References to ConfigMaps outside of `nodes`: with NodeConfigs, those of the Nodes' own spec and status and of
    /// NodeConfigs without a Node.
    pub references: References,
    /// Versions of the lists, from which a watch continues.
    pub versions: ListVersions,
    /// Fetched ConfigMaps. `None`: the ConfigMap is missing.
    pub contents: BTreeMap<ConfigMapKey, Option<FetchedConfigMap>>,
    /// Orders of operators for the fleet.
    pub orders: Orders,
    /// Answers of some kubelets to the question what they run.
    pub running: BTreeMap<NodeName, RunningConfig>,
}

impl Observed {
    /// Adds listed ConfigMaps and pool pointers.
    pub fn add_config_maps(&mut self, maps: impl IntoIterator<Item = ManagedConfigMap>) {
        for map in maps {
            let key = ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() };
            let kind = if map.is_pointer() { &mut self.pointers } else { &mut self.config_maps };
            kind.insert(key, map);
        }
    }

    /// Placement of pools that name none: NodeConfigs can carry one, and Nodes cannot.
    #[must_use]
    pub fn default_placement(&self) -> Placement {
        if self.versions.node_configs.is_some() { Placement::Overlay } else { Placement::Replace }
    }

    /// Uid of a ConfigMap that exists; `None` if it was not read or is missing.
    #[must_use]
    pub fn uid_of(&self, key: &ConfigMapKey) -> Option<&str> {
        let listed = self.config_maps.get(key).map(|map| map.uid.as_str());
        match self.contents.get(key) {
            // Read after the list.
            Some(fetched) => fetched.as_ref().map(|map| map.uid.as_str()),
            None => listed,
        }
    }
}

/// Resource versions of lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListVersions {
    /// Version of the list of Nodes.
    pub nodes: String,
    /// List of NodeConfigs, unless Nodes contain the assignments.
    pub node_configs: Option<NodeConfigList>,
}

/// All NodeConfigs of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfigList {
    /// Version of the list.
    pub version: String,
    /// NodeConfigs by name, which is the name of their Node. The watch that continues this list shares them to save
    /// memory.
    pub items: BTreeMap<NodeName, Arc<NodeConfigState>>,
}

/// Namespace and name of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
pub struct ConfigMapKey {
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Name of the ConfigMap.
    pub name: String,
}

impl ConfigMapKey {
    /// ConfigMap of a source, if any.
    #[must_use]
    pub fn of(source: &ConfigSource) -> Option<Self> {
        let map = source.config_map.as_ref()?;
        Some(Self { namespace: map.namespace.clone(), name: map.name.clone() })
    }
}

impl fmt::Display for ConfigMapKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Observed state of one Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Name of the Node.
    pub name: NodeName,
    /// Uid of the Node. A recreated Node has another uid.
    pub uid: String,
    /// Creation time of the Node, if known.
    #[serde(skip)]
    pub created: Option<CreationTime>,
    /// Whether the node is known to have had an assignment, which may be empty now. Only NodeConfigs show that: a
    /// NodeConfig exists since the first assignment.
    #[serde(skip)]
    pub assigned_before: bool,
    /// Labels with requested keys. Nodes with the same labels share them.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Version that the kubelet reports; `None` if missing or unreadable.
    pub kubelet_version: Option<KubeletVersion>,
    /// Size of `spec.podCIDR`, if set. Only the size is stored, because there may be thousands of nodes.
    #[serde(skip)]
    pub pod_range: Option<PodRange>,
    /// Capacity of the node (`status.capacity`), as far as known.
    #[serde(skip)]
    pub capacity: Capacity,
    /// Allocatable amounts of extended resources.
    #[serde(skip)]
    pub extended_resources: ExtendedResources,
    /// Ready condition.
    pub ready: Readiness,
    /// Last transition of the Ready condition, if known.
    #[serde(skip)]
    pub ready_since: Option<Timestamp>,
    /// Time of the last change that `status` shows, as the agent reports it, if known.
    #[serde(skip)]
    pub status_since: Option<Timestamp>,
    /// End of the trial of the running configuration, as the agent reports it, if known.
    #[serde(skip)]
    pub trial_ends: Option<Timestamp>,
    /// What the node's own configuration has for the fields of its active overlay, if its agent reports that.
    #[serde(skip)]
    pub own_values: Option<Arc<OwnValues>>,
    /// What the node's agent knows of the values that the kubelet runs. `None` if it reports nothing.
    #[serde(skip)]
    pub proof: Option<Arc<Proof>>,
    /// Whether the Node is being deleted.
    pub deleting: bool,
    /// Whether the Node is cordoned (`spec.unschedulable`).
    pub cordoned: bool,
    /// Program that maintains the node now, if any.
    pub maintainer: Option<Maintainer>,
    /// Mark of a drain by nodecfg, if the Node has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_mark: Option<Box<DrainMark>>,
    /// `spec.configSource`: desired source.
    pub source: Option<ConfigSource>,
    /// `status.config`: actual state.
    pub status: ConfigStatus,
    /// Reason why the node does not follow `source`, if there is one.
    pub obstacle: Option<Obstacle>,
    /// Content of assignment and report. `None` for kubelets, which know ConfigMaps only by uid.
    #[serde(skip)]
    pub content: Option<NodeContent>,
}

impl Node {
    /// All sources in spec and status.
    pub fn sources(&self) -> impl Iterator<Item = &ConfigSource> {
        self.source.iter().chain(self.status.sources())
    }

    /// Creates a Node with a name and no other data.
    #[must_use]
    pub fn named(name: NodeName) -> Self {
        Self {
            name,
            uid: String::new(),
            created: None,
            assigned_before: false,
            labels: Arc::default(),
            kubelet_version: None,
            pod_range: None,
            capacity: Capacity::default(),
            extended_resources: ExtendedResources::default(),
            ready: Readiness::Unknown,
            ready_since: None,
            status_since: None,
            trial_ends: None,
            own_values: None,
            proof: None,
            deleting: false,
            cordoned: false,
            maintainer: None,
            drain_mark: None,
            source: None,
            status: ConfigStatus::default(),
            obstacle: Some(Obstacle::NoDynamicConfig),
            content: None,
        }
    }

    /// Reports whether the state of the node is unknown, because a value is unreadable.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        matches!(self.obstacle, Some(Obstacle::Unreadable(_)))
    }

    /// Reports whether the node's own agent wrote its assignment. Such a node does not prove its configuration for
    /// others: a compromised node could choose its configuration and report success.
    #[must_use]
    pub fn is_self_assigned(&self) -> bool {
        self.content.is_some_and(|content| content.self_assigned)
    }

    /// Placement of the running configuration. Kubelets that follow assignments themselves only replace, and so do agents
    /// that report nothing.
    #[must_use]
    pub fn active_placement(&self) -> Placement {
        let content = self.content.unwrap_or_default();
        content.active_placement.unwrap_or(Placement::Replace)
    }

    /// Placement of the assignment, as [`active_placement`](Self::active_placement).
    #[must_use]
    pub fn assigned_placement(&self) -> Placement {
        self.content.and_then(|content| content.placement).unwrap_or_else(|| self.active_placement())
    }

    /// Reports whether the taint of a drain keeps new pods from the node.
    #[must_use]
    pub fn has_drain_taint(&self) -> bool {
        self.drain_mark.as_ref().is_some_and(|mark| mark.tainted)
    }

    /// Minor version of the node's kubelet, also if no rules of it are known.
    #[must_use]
    pub fn minor(&self) -> Option<Minor> {
        self.kubelet_version.filter(|version| version.major == 1).map(|version| Minor(version.minor))
    }

    /// Minor version of the node's kubelet, if its rules are known.
    #[must_use]
    pub fn known_minor(&self) -> Option<Minor> {
        self.minor().filter(|minor| minor.is_known())
    }
}

/// Reason why a node follows no assignment, as far as known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Obstacle {
    /// The kubelet does not support dynamic configuration.
    Unsupported {
        /// Version of the kubelet.
        version: KubeletVersion,
    },
    /// The kubelet version supports dynamic configuration, but the kubelet reports no `status.config`. It runs
    /// without `--dynamic-config-dir`, or has just started. With the flag, a kubelet 1.11 to 1.23 writes `status.config`,
    /// possibly empty, as soon as it starts (recorded).
    NoDynamicConfig,
    /// No node agent has reported from the node, although it had enough time, so none runs there.
    AgentSilent,
    /// The NodeConfig belongs to an earlier Node of the same name and is about to be deleted.
    Outlived,
    /// The Node or its NodeConfig has an unreadable value, so its state is unknown.
    Unreadable(UnreadableField),
}

impl Obstacle {
    /// Obstacle of a kubelet of this version; `reports`: whether it reports `status.config`.
    #[must_use]
    pub fn of_kubelet(version: Option<KubeletVersion>, reports: bool) -> Option<Self> {
        match version {
            Some(version) if !version.has_dynamic_config() => Some(Self::Unsupported { version }),
            _ if reports => None,
            _ => Some(Self::NoDynamicConfig),
        }
    }
}

impl fmt::Display for Obstacle {
    /// Formats the reason, followed by a fix where one exists.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { version } => write!(
                f,
                "kubelet {version} does not support configSource: dynamic configuration needs kubelets 1.11 to 1.23"
            ),
            Self::NoDynamicConfig => f.write_str(
                "the kubelet reports no status.config: it runs without --dynamic-config-dir, or has just started",
            ),
            Self::AgentSilent => f.write_str(
                "no node agent has reported from the node; install the agent (`nodecfg install --agent daemonset --image \
                 IMAGE`), or check why it does not run",
            ),
            Self::Outlived => f.write_str(
                "the NodeConfig belongs to an earlier node of this name and is about to be deleted; run this again after two \
                 minutes",
            ),
            Self::Unreadable(field) => write!(f, "{field}; correct the value, which the node itself may have written"),
        }
    }
}

/// Ready condition of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Readiness {
    /// The kubelet can run pods.
    Ready,
    /// The kubelet cannot run pods.
    NotReady,
    /// The kubelet has not reported for a while, or has never set the condition.
    Unknown,
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Unknown => "Unknown",
        })
    }
}

/// Metadata of a ConfigMap with nodecfg's label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedConfigMap {
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Name of the ConfigMap.
    pub name: String,
    /// Uid, the precondition of a deletion, which must not delete a later ConfigMap of the same name.
    pub uid: String,
    /// Resource version, also a precondition of a deletion, which must not delete a relabeled ConfigMap.
    #[serde(skip)]
    pub resource_version: String,
    /// Fleet; `None` if the label is missing or invalid.
    pub fleet: Option<FleetName>,
    /// Pool; `None` if the label is missing or invalid.
    pub pool: Option<PoolName>,
    /// Hash of the content in the annotation. Only the fetched content proves it.
    pub content_hash: Option<String>,
    /// Commit in the annotation.
    pub commit: Option<String>,
    /// Placement in the annotation. `None`: the ConfigMap is from before this annotation.
    #[serde(skip)]
    pub placement: Option<Placement>,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Whether the ConfigMap is being deleted.
    pub deleting: bool,
}

impl ManagedConfigMap {
    /// Reports whether this is the pointer of a pool by its labels and name.
    #[must_use]
    pub fn is_pointer(&self) -> bool {
        let (Some(fleet), Some(pool)) = (&self.fleet, &self.pool) else { return false };
        self.name == PoolPointer::name(fleet, pool)
    }
}
