//! Types of the files that users write: `nodecfg.yaml` (Fleet) and `pool.yaml` (NodePool). Each field is declared once,
//! with `map!`. Reader, JSON Schema and the table of fields follow from the declaration.

use serde_json::json;

use self::kubelet::{FleetKubeletSpec, KubeletSpec, KubernetesVersions};
use self::rollout::RolloutSpec;
use self::selector::NodeSelector;
use crate::NodeShare;
use crate::fields::{dns_label_schema, map};
use nodecfg_contract::names::NamespaceName;

#[cfg(test)]
mod documentation_tests;
#[cfg(test)]
mod gate_tests;
mod gates;
mod kubelet;
mod names;
#[cfg(test)]
mod node_order_tests;
pub(crate) mod pool_order;
#[cfg(test)]
mod pool_order_tests;
pub(crate) mod proposals;
pub(crate) mod read;
mod rollout;
#[cfg(test)]
mod schedule_tests;
pub mod schema;
mod selector;

pub(crate) use gates::report_too_many;
pub(crate) use rollout::too_short;

/// `apiVersion` of nodecfg's files.
pub const API_VERSION: &str = "nodecfg.dev/v1alpha1";
/// API group of `nodecfg.yaml` and `pool.yaml`.
pub const GROUP: &str = "nodecfg.dev";
/// `kind` of `nodecfg.yaml`.
pub const FLEET: &str = "Fleet";
/// `kind` of `pool.yaml`.
pub(crate) const NODE_POOL: &str = "NodePool";
/// Name of the fleet without a `nodecfg.yaml`.
pub const DEFAULT_FLEET: &str = "default";

map! {
    /// `nodecfg.yaml`: one fleet, which is the part of one cluster that this repository manages.
    #[name("Fleet")]
    pub struct FleetFile {
        /// Version of this format.
        #[required("apiVersion: nodecfg.dev/v1alpha1")]
        #[schema(json!({"const": API_VERSION}))]
        "apiVersion" => api_version: String,
        /// Kind of this file.
        #[required("kind: Fleet")]
        #[schema(json!({"const": FLEET}))]
        "kind" => kind: String,
        /// Name of the fleet. A fleet never changes ConfigMaps of another fleet.
        #[required("metadata: {name: default}")]
        "metadata" => metadata: Metadata,
        /// Defaults for every pool.
        "spec" => spec: FleetSpec,
    }
}

map! {
    /// `pools/<pool>/pool.yaml`: node selector, configuration and rollout policy of one pool.
    #[name("NodePool")]
    pub struct NodePoolFile {
        /// Version of this format.
        #[required("apiVersion: nodecfg.dev/v1alpha1")]
        #[schema(json!({"const": API_VERSION}))]
        "apiVersion" => api_version: String,
        /// Kind of this file.
        #[required("kind: NodePool")]
        #[schema(json!({"const": NODE_POOL}))]
        "kind" => kind: String,
        /// Name of the pool, equal to the name of its folder.
        #[required("metadata: {name: general}")]
        "metadata" => metadata: Metadata,
        /// Specification of the pool.
        "spec" => spec: NodePoolSpec,
    }
}

map! {
    /// Name of a fleet or pool.
    pub struct Metadata {
        /// A DNS label: lower-case letters, digits and '-', up to 63 characters.
        #[required("name: general")]
        #[schema(dns_label_schema())]
        "name" => name: String,
    }
}

map! {
    /// Defaults of a fleet for its pools.
    #[derive(Default)]
    pub struct FleetSpec {
        /// Namespace of the ConfigMaps. Default: kube-system for kubelets with dynamic configuration, nodecfg-system
        /// for nodes with an agent.
        #[schema(dns_label_schema())]
        "namespace" => namespace: Option<NamespaceName>,
        /// Limit of unavailable nodes of all pools together, beside the limit of each pool: a number, or a percentage
        /// of the nodes of all pools, rounded down to at least one node. Default: no limit.
        "maxUnavailable" => max_unavailable: Option<NodeShare>,
        /// Publish the configuration of each pool for new nodes, in the ConfigMap `nodecfg-pool-<fleet>-<pool>`, once
        /// its canaries have held. Default {default}.
        #[default(false)]
        "poolPointers" => pool_pointers: bool,
        /// Whether all pools are paused, whatever they set themselves. A sync of such a revision also stops the sync that
        /// runs. Default {default}.
        #[default(false)]
        "paused" => paused: bool,
        /// Default of how configurations are placed.
        "kubelet" => kubelet: FleetKubeletSpec,
        /// Default rollout policy.
        "rollout" => rollout: RolloutSpec,
    }
}

map! {
    /// Specification of a pool.
    #[derive(Default)]
    pub struct NodePoolSpec {
        /// Nodes of the pool. Default: nodes labeled `nodecfg.dev/pool=<pool>`. `{}` selects every node.
        "nodeSelector" => node_selector: Option<NodeSelector>,
        /// Priority among pools that select the same node; the highest wins, equal priorities are an error. Default
        /// {default}.
        #[default(0)]
        "priority" => priority: i64,
        /// Whether the pool must have nodes: without nodes, a sync fails (true), or accepts the empty pool silently
        /// (false). By default, diff, sync and verify warn.
        "requireNodes" => require_nodes: Option<bool>,
        /// Configuration of the nodes.
        "kubelet" => kubelet: KubeletSpec,
        /// Kubernetes version of the nodes' kubelets, such as "1.36", or several during an upgrade. The configuration
        /// is checked for these versions when no cluster is available.
        "kubernetesVersion" => kubernetes_version: KubernetesVersions,
        /// Rollout policy. Unset fields use the defaults of the fleet.
        "rollout" => rollout: RolloutSpec,
    }
}
