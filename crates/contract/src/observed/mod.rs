//! What is so in a cluster, as far as planning and judging need it: Nodes, ConfigMaps, and what the server can do.
//!
//! Plain values. Knows no client: the cluster layer fills these types in, planning reads them, tests write them down.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::names::{FleetName, NodeName, PoolName};
use crate::nodeconfig::NodeConfig;
use crate::{ConfigSource, ConfigStatus};
use kubelet_config::pod_range::PodRange;

pub mod orders;
pub mod references;
pub mod signs;
pub mod version;

pub use orders::{Abort, Orders, Pause};
pub use references::{Deletion, References, Users};
pub use signs::{AgentSign, Signs};
pub use version::{KubeletVersion, ServerVersion};

/// The label that a pool without a selector of its own selects by: `nodecfg.dev/pool=<pool>`.
pub const POOL_LABEL: &str = "nodecfg.dev/pool";
/// Label that marks what a tool manages (Kubernetes recommended labels).
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`] on everything that nodecfg manages.
pub const MANAGER: &str = "nodecfg";
/// Label that names the fleet of a ConfigMap.
pub const FLEET_LABEL: &str = "nodecfg.dev/fleet";
/// Label that names the pool of a ConfigMap.
pub const CONFIG_MAP_POOL_LABEL: &str = "nodecfg.dev/pool";
/// Annotation that holds the versioned hash of the content.
pub const CONTENT_HASH_ANNOTATION: &str = "nodecfg.dev/content-hash";
/// Annotation that holds the commit a ConfigMap was rendered from.
pub const COMMIT_ANNOTATION: &str = "nodecfg.dev/commit";
/// Annotation that holds the path of the pool's configuration in the repository.
pub const PATH_ANNOTATION: &str = "nodecfg.dev/path";

/// Everything that one look at a cluster found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Every Node by name.
    pub nodes: BTreeMap<NodeName, Node>,
    /// The ConfigMaps of one namespace that carry nodecfg's label. Metadata only.
    pub config_maps: BTreeMap<ConfigMapKey, ManagedConfigMap>,
    /// What refers to ConfigMaps beyond what `nodes` show: a Node's own spec and status where NodeConfigs count, and NodeConfigs
    /// that stand for no Node.
    pub references: References,
    /// The versions of the lists that the Nodes are from; a watch goes on from here.
    pub versions: ListVersions,
    /// ConfigMaps that were fetched whole. `None`: it does not exist.
    pub contents: BTreeMap<ConfigMapKey, Option<FetchedConfigMap>>,
    /// What people have ordered of the fleet.
    pub orders: Orders,
}

/// The versions of lists, each as the server calls it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListVersions {
    /// Of the list of Nodes.
    pub nodes: String,
    /// The list of what carries the assignments, where that is not the Nodes.
    pub carriers: Option<NodeConfigList>,
}

/// All NodeConfigs of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfigList {
    /// The version of the list.
    pub version: String,
    /// By name, which is the name of their Node. The watch that continues from this list shares them, to save memory.
    pub items: BTreeMap<NodeName, Arc<NodeConfig>>,
}

/// Namespace and name of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
pub struct ConfigMapKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ConfigMapKey {
    /// The ConfigMap that a source names; `None` for a source that names none.
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

/// One Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Its uid: a Node made anew under an old name has another one.
    pub uid: String,
    /// Its labels, of the keys that were asked for.
    pub labels: BTreeMap<String, String>,
    /// What its kubelet says it is; unset when it has said nothing readable.
    pub kubelet_version: Option<KubeletVersion>,
    /// The size of its `spec.podCIDR`; unset where nothing gives nodes a range each. Only its size is kept: there are
    /// thousands of nodes.
    #[serde(skip)]
    pub pod_range: Option<PodRange>,
    /// Its Ready condition.
    pub ready: Readiness,
    /// Since when its Ready condition is as it is; unset where nobody says.
    #[serde(skip)]
    pub ready_since: Option<Timestamp>,
    /// Since when its half of the contract is where `status` says, as its agent has noted down; unset where none does.
    #[serde(skip)]
    pub status_since: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `spec.configSource`: what is wanted.
    pub source: Option<ConfigSource>,
    /// `status.config`: what is so.
    pub status: ConfigStatus,
    /// Whether its half of the contract follows `source`.
    pub half: NodeSupport,
}

impl Node {
    /// Every source that its spec or its status names.
    pub fn sources(&self) -> impl Iterator<Item = &ConfigSource> {
        self.source.iter().chain(self.status.sources())
    }

    /// A Node of which nothing is known but its name.
    #[must_use]
    pub fn named(name: NodeName) -> Self {
        Self {
            name,
            uid: String::new(),
            labels: BTreeMap::new(),
            kubelet_version: None,
            pod_range: None,
            ready: Readiness::Unknown,
            ready_since: None,
            status_since: None,
            deleting: false,
            source: None,
            status: ConfigStatus::default(),
            half: NodeSupport::KubeletSilent,
        }
    }

    /// Whether it follows `configSource`, as far as can be seen.
    #[must_use]
    pub fn follows_config_source(&self) -> bool {
        self.half == NodeSupport::Follows
    }
}

/// Whether the node's half of the contract follows what the node is pointed at, as far as can be seen, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum NodeSupport {
    /// It does; or nothing speaks against it, as long as nothing is assigned that it could answer to.
    Follows,
    /// The kubelet would have to, and cannot.
    KubeletUnable {
        /// What it reports as its version.
        version: KubeletVersion,
    },
    /// The kubelet would have to, and says nothing. A kubelet 1.11 to 1.23 with `--dynamic-config-dir` writes
    /// `status.config`, be it empty, as soon as it starts (recorded); without the flag it never does.
    KubeletSilent,
    /// The node agent would have to, and has never said anything, though it has had the time to.
    AgentSilent,
    /// What the assignment would be written to belongs to an earlier Node of this name and is about to go away.
    Outlived,
}

impl NodeSupport {
    /// Whether a kubelet of this version does, that reports `status.config` or not.
    #[must_use]
    pub fn of_kubelet(version: Option<KubeletVersion>, reports: bool) -> Self {
        match version {
            Some(version) if !version.has_dynamic_config() => Self::KubeletUnable { version },
            _ if reports => Self::Follows,
            _ => Self::KubeletSilent,
        }
    }
}

/// A Node's Ready condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Readiness {
    /// The kubelet says that it can run pods.
    Ready,
    /// The kubelet says that it cannot.
    NotReady,
    /// The kubelet has not been heard of for a while, or has never set the condition.
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

/// Metadata of a ConfigMap that carries nodecfg's label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedConfigMap {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; a deletion names it, so that it never hits a later ConfigMap of the same name.
    pub uid: String,
    /// Its version; a deletion names that too, so that what somebody has just relabelled stays.
    #[serde(skip)]
    pub resource_version: String,
    /// The fleet it belongs to; unset when the label is missing or unreadable.
    pub fleet: Option<FleetName>,
    /// The pool it was rendered for; unset when the label is missing or unreadable.
    pub pool: Option<PoolName>,
    /// What its annotation claims as the hash of its content. A claim: only fetched content proves it.
    pub content_hash: Option<String>,
    /// The commit it was rendered from, as its annotation says.
    pub commit: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// A ConfigMap with its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FetchedConfigMap {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether the server refuses changes of its data.
    pub immutable: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its text content by key.
    pub data: BTreeMap<String, String>,
    /// Keys of its binary content, which a kubelet reads as well.
    pub binary_keys: Vec<String>,
}

impl FetchedConfigMap {
    /// The text under one key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key).map(String::as_str)
    }

    /// Whether its labels say that nodecfg manages it.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.labels.get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGER)
    }

    /// The fleet whose it is; `None` when its labels do not say.
    #[must_use]
    pub fn fleet(&self) -> Option<FleetName> {
        FleetName::new(self.labels.get(FLEET_LABEL).filter(|_| self.is_managed())?.as_str()).ok()
    }

    /// Whether it holds just this text under just this key.
    #[must_use]
    pub fn holds_exactly(&self, key: &str, text: &str) -> bool {
        self.binary_keys.is_empty() && self.data.len() == 1 && self.text(key) == Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_content_is_one_key_and_nothing_else() {
        let mut map = FetchedConfigMap::default();
        map.data.insert("kubelet".to_owned(), "a: 1\n".to_owned());
        assert!(map.holds_exactly("kubelet", "a: 1\n"));
        assert!(!map.holds_exactly("kubelet", "a: 2\n"));
        assert!(!map.holds_exactly("other", "a: 1\n"));
        let mut binary = map.clone();
        binary.binary_keys.push("x".to_owned());
        assert!(!binary.holds_exactly("kubelet", "a: 1\n"));
        map.data.insert("x".to_owned(), String::new());
        assert!(!map.holds_exactly("kubelet", "a: 1\n"));
    }

    #[test]
    fn managed_is_what_carries_the_label_with_the_right_value() {
        let mut map = FetchedConfigMap::default();
        assert!(!map.is_managed());
        map.labels.insert(MANAGED_BY_LABEL.to_owned(), "helm".to_owned());
        assert!(!map.is_managed());
        map.labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGER.to_owned());
        assert!(map.is_managed());
    }
}
