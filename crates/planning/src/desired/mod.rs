//! What a revision asks for: pools, the nodes they select, how to roll out, and the one configuration that each pool's
//! nodes shall run. Pure: made from a [`Snapshot`](crate::snapshot::Snapshot), knows no cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::finding::Place;
use kubelet_config::risk::Class;
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY};

mod build;
mod checked;
mod fields;
pub mod formats;
mod kubelet_file;
mod read;
mod render;
#[cfg(test)]
mod scenarios;
pub mod schema;
pub mod selector;
mod selector_text;

pub use build::{Built, CheckedPool, DEFAULT_FLEET, Draft, FLEET_FILE, build, draft};
pub use checked::{Checked, Checks, Kubelets, check_document, check_file, told_once};
pub use selector::LabelSelector;
pub use selector_text::parse_selector;

/// Everything that one revision of a repository asks for.
#[derive(Debug, Clone)]
pub struct Desired {
    /// Identity of the fleet.
    pub fleet: FleetName,
    /// Where ConfigMaps go; unset means the binding's default.
    pub namespace: Option<NamespaceName>,
    /// The commit that was read; unset for a working tree.
    pub commit: Option<CommitId>,
    /// The pools by name.
    pub pools: BTreeMap<PoolName, Pool>,
}

impl Desired {
    /// The names of the ConfigMaps of its pools.
    #[must_use]
    pub fn config_maps(&self) -> BTreeSet<String> {
        let name = |pool: &Pool| match &pool.target {
            PoolTarget::Config(rendered) => Some(rendered.config_map.clone()),
            PoolTarget::Local => None,
        };
        self.pools.values().filter_map(name).collect()
    }
}

/// One pool as desired.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Its name.
    pub name: PoolName,
    /// Which nodes belong to it.
    pub selector: LabelSelector,
    /// Its nodes by name, whatever their labels. No repository says so: it is for those who reset the nodes that are on some
    /// configuration, wherever they belong now.
    pub named: Option<BTreeSet<NodeName>>,
    /// The higher pool wins a node that several select.
    pub priority: i64,
    /// How to roll out.
    pub policy: RolloutPolicy,
    /// What its nodes shall run.
    pub target: PoolTarget,
    /// The kubelets that it says its nodes have; empty when it does not say.
    pub kubelets: Vec<Minor>,
    /// Where the pool is declared: `pool.yaml`, or the `kubelet.yaml` of a pool without one.
    pub place: Place,
    /// The files that it is made from, by path from the root of the snapshot: those of the fleet and the pool, base and
    /// patches.
    pub files: BTreeSet<String>,
}

impl Pool {
    /// Whether it selects the node of this name with these labels.
    #[must_use]
    pub fn selects(&self, node: &NodeName, labels: &BTreeMap<String, String>) -> bool {
        self.named.as_ref().map_or_else(|| self.selector.matches(labels), |named| named.contains(node))
    }
}

/// What a pool's nodes shall run.
#[derive(Debug, Clone)]
pub enum PoolTarget {
    /// The configuration that they were provisioned with (`spec.kubelet.local: true`).
    Local,
    /// A rendered configuration.
    Config(Box<Rendered>),
}

/// A complete KubeletConfiguration, rendered from base and patches.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The merged tree; every value still knows the file and position that set it.
    pub document: Document,
    /// The canonical YAML: the bytes of the ConfigMap.
    pub canonical: String,
    /// The hash of the content.
    pub hash: ContentHash,
    /// Name of the ConfigMap: `<fleet>-<pool>-<hash>`.
    pub config_map: String,
    /// Path of the pool's `kubelet.yaml` from the root of the snapshot.
    pub path: String,
}

impl Rendered {
    /// The source that a node's spec names to run this configuration from `namespace`.
    #[must_use]
    pub fn source(&self, namespace: &NamespaceName) -> ConfigSource {
        ConfigSource::config_map(namespace.as_str(), &self.config_map, KUBELET_KEY)
    }
}

/// How a pool is rolled out, with the fleet's defaults already applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPolicy {
    /// How many nodes may be unavailable at once. Default 10%.
    pub max_unavailable: MaxUnavailable,
    /// Nodes that go first, alone.
    pub canary: Option<Canary>,
    /// Failed nodes before the rollout stops. Default 0: the first failure stops it.
    pub max_failures: u32,
    /// How long a node may take from assignment to convergence. Default 5 minutes.
    pub convergence_timeout: Duration,
    /// A paused pool is planned and reported, never changed.
    pub paused: bool,
    /// The worst that a change may do to pods that run. Default: a restart of the kubelet.
    pub allow_disruption: Class,
}

impl Default for RolloutPolicy {
    fn default() -> Self {
        Self {
            max_unavailable: MaxUnavailable::Percent(10),
            canary: None,
            max_failures: 0,
            convergence_timeout: Duration::from_secs(5 * 60),
            paused: false,
            allow_disruption: Class::Restart,
        }
    }
}

/// A budget: a number of nodes or a share of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxUnavailable {
    /// This many nodes, at least 1.
    Count(u32),
    /// This share of the pool's nodes, 1 to 100, rounded down but at least one node.
    Percent(u8),
}

impl MaxUnavailable {
    /// The budget for a pool of `nodes` nodes, at least 1.
    #[must_use]
    pub fn of(self, nodes: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX).max(1),
            Self::Percent(percent) => (nodes.saturating_mul(usize::from(percent)) / 100).max(1),
        }
    }
}

impl fmt::Display for MaxUnavailable {
    /// As in `pool.yaml`: `3`, `25%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// The nodes that go first, and how long they are watched before the others follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canary {
    /// How many nodes, at least 1.
    pub nodes: u32,
    /// How long they must stay converged before the next node starts.
    pub soak: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_rounded_down_and_never_zero() {
        assert_eq!(MaxUnavailable::Percent(25).of(7), 1);
        assert_eq!(MaxUnavailable::Percent(25).of(8), 2);
        assert_eq!(MaxUnavailable::Percent(10).of(0), 1);
        assert_eq!(MaxUnavailable::Percent(100).of(15_000), 15_000);
        assert_eq!(MaxUnavailable::Count(0).of(5), 1);
        assert_eq!(MaxUnavailable::Count(9).of(5), 9);
    }
}
