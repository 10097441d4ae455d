//! Types of the files that users write: `nodecfg.yaml` (Fleet) and `pool.yaml` (NodePool). The JSON Schemas are
//! derived from these types, and `read` fills them. A test verifies that the reader supports every field.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use self::gate_formats::GateSpec;
use crate::drain::{DrainMode, DrainPolicy, OnTimeout, PodLoss};
use crate::duration_schema::GoDuration;
use crate::gates::Gate;
use crate::schedule::window::Window;
use crate::schedule::{Exclusion, Schedule};
use crate::{MaxUnavailable, RolloutPolicy};
use kubelet_config::finding::Place;
use kubelet_config::risk::Class;
use kubelet_config::{Minor, removals};
use nodecfg_contract::Placement;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::{NamespaceName, PoolName};

mod drain_fields;
pub(crate) mod fields;
pub(crate) mod gate_fields;
pub mod gate_formats;
#[cfg(test)]
mod gate_tests;
mod kubelet_fields;
mod node_order;
#[cfg(test)]
mod node_order_tests;
pub(crate) mod pool_order;
#[cfg(test)]
mod pool_order_tests;
pub(crate) mod proposals;
pub(crate) mod read;
pub(crate) mod schedule_fields;
#[cfg(test)]
mod schedule_tests;
pub mod schema;
mod selector_text;

pub use selector_text::parse_selector;

/// `apiVersion` of nodecfg's files.
pub const API_VERSION: &str = "nodecfg.dev/v1alpha1";
/// API group of `nodecfg.yaml` and `pool.yaml`.
pub const GROUP: &str = "nodecfg.dev";
/// `kind` of `nodecfg.yaml`.
pub const FLEET: &str = "Fleet";
/// `kind` of `pool.yaml`.
pub const NODE_POOL: &str = "NodePool";

/// `nodecfg.yaml`: one fleet, which is the part of one cluster that this repository manages.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename = "Fleet", rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetFile {
    /// Version of this format.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// Kind of this file.
    #[schemars(extend("const" = FLEET))]
    pub kind: String,
    /// Name of the fleet. A fleet never changes ConfigMaps of another fleet.
    pub metadata: Metadata,
    /// Defaults for every pool.
    #[schemars(default)]
    pub spec: FleetSpec,
}

/// `pools/<pool>/pool.yaml`: node selector, configuration and rollout policy of one pool.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename = "NodePool", rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePoolFile {
    /// Version of this format.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// Kind of this file.
    #[schemars(extend("const" = NODE_POOL))]
    pub kind: String,
    /// Name of the pool, equal to the name of its folder.
    pub metadata: Metadata,
    /// Specification of the pool.
    #[schemars(default)]
    pub spec: NodePoolSpec,
}

/// Name of a fleet or pool.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Metadata {
    /// A DNS label: lower-case letters, digits and '-', up to 63 characters.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

/// Defaults of a fleet for its pools.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetSpec {
    /// Namespace of the ConfigMaps. Default: kube-system for kubelets with dynamic configuration, nodecfg-system for
    /// nodes with an agent.
    #[schemars(with = "String", length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<NamespaceName>,
    /// Limit of unavailable nodes of all pools together, beside the limit of each pool: a number, or a percentage of the
    /// nodes of all pools, rounded down to at least one node. Default: no limit.
    #[schemars(with = "MaxUnavailable")]
    pub max_unavailable: Option<MaxUnavailable>,
    /// Publish the configuration of each pool for new nodes, in the ConfigMap `nodecfg-pool-<fleet>-<pool>`, once its
    /// canaries have held. Default false.
    pub pool_pointers: bool,
    /// Default of how configurations are placed.
    pub kubelet: FleetKubeletSpec,
    /// Default rollout policy.
    pub rollout: RolloutSpec,
}

/// How the configurations of a fleet are placed.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetKubeletSpec {
    /// How nodes combine the configuration of their pool with their own. Default: overlay where NodeConfigs carry the
    /// assignments, replace where Nodes do.
    #[schemars(with = "Placement")]
    pub placement: Option<Placement>,
    /// Path of the nodes' own KubeletConfiguration, as `nodecfg capture` writes it, for pools without such a path.
    #[schemars(with = "String")]
    pub own: Option<FileRef>,
    /// Fields that the pools may omit although their loss harms the nodes, beside those of each pool. Default: none.
    #[schemars(with = "Vec<RemovableField>")]
    pub accept_removed: BTreeSet<String>,
    /// Fields that a flag or a later file may set to another value, beside those of each pool. Default: none.
    #[schemars(with = "Vec<String>")]
    pub accept_overridden: BTreeSet<String>,
}

/// Specification of a pool.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePoolSpec {
    /// Nodes of the pool. Default: nodes labeled `nodecfg.dev/pool=<pool>`. `{}` selects every node.
    #[schemars(with = "LabelSelector")]
    pub node_selector: Option<LabelSelector>,
    /// Priority among pools that select the same node; the highest wins, equal priorities are an error. Default 0.
    pub priority: i64,
    /// Whether the pool must have nodes: without nodes, a sync fails (true), or accepts the empty pool silently (false).
    /// By default, diff, sync and verify warn.
    #[schemars(with = "bool")]
    pub require_nodes: Option<bool>,
    /// Configuration of the nodes.
    pub kubelet: KubeletSpec,
    /// Kubernetes version of the nodes' kubelets, such as "1.36", or several during an upgrade. The configuration is
    /// checked for these versions when no cluster is available.
    #[schemars(with = "KubernetesVersions")]
    pub kubernetes_version: Vec<Minor>,
    /// Rollout policy. Unset fields use the defaults of the fleet.
    pub rollout: RolloutSpec,
}

/// Configuration of a pool: base, then the pool's kubelet.yaml, then patches in order.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletSpec {
    /// Path of a base KubeletConfiguration, relative to the pool's folder. The pool's own file is merged over it.
    #[schemars(with = "String")]
    pub base: Option<FileRef>,
    /// Paths of merge patches (RFC 7386) or JSON patches (RFC 6902), relative to the pool's folder, applied in order.
    #[schemars(with = "Vec<String>")]
    pub patches: Vec<FileRef>,
    /// Use the local configuration of each node: spec.configSource is removed. Default false.
    pub local: bool,
    /// How nodes combine the configuration with their own: merged over it (overlay), or as the whole (replace). Default:
    /// that of the fleet.
    #[schemars(with = "Placement")]
    pub placement: Option<Placement>,
    /// Path of the nodes' own KubeletConfiguration, as `nodecfg capture` writes it, relative to the pool's folder. An
    /// overlay is checked over it. Default: that of the fleet.
    #[schemars(with = "String")]
    pub own: Option<FileRef>,
    /// Fields that a configuration which replaces that of the nodes may omit although their loss harms the nodes. Without
    /// an entry, a sync refuses to take such a field away from nodes that run it. A pool has the entries of its fleet, too.
    #[schemars(with = "Vec<RemovableField>")]
    pub accept_removed: BTreeSet<String>,
    /// Fields that a flag of the kubelet or a later file may set to another value, such as maxPods or
    /// evictionHard.memory.available. Without an entry, such a node does not converge. A pool has the entries of its fleet,
    /// too.
    #[schemars(with = "Vec<String>")]
    pub accept_overridden: BTreeSet<String>,
}

/// Rollout policy.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutSpec {
    /// Limit of unavailable nodes: a number, or a percentage of the pool, rounded down to at least one node. Default
    /// 10%.
    #[schemars(with = "MaxUnavailable")]
    pub max_unavailable: Option<MaxUnavailable>,
    /// Canaries, which start before all other nodes.
    #[schemars(with = "CanarySpec")]
    pub canary: Option<CanarySpec>,
    /// Number of failed nodes that the rollout tolerates. Default 0: the first failure stops it.
    #[schemars(with = "u32")]
    pub max_failures: Option<u32>,
    /// Time limit per node from assignment to convergence. Default 5m.
    #[schemars(with = "GoDuration")]
    pub convergence_timeout: Option<Duration>,
    /// Whether the pool is paused: planned and reported, but not changed. Default false.
    #[schemars(with = "bool")]
    pub paused: Option<bool>,
    /// Highest allowed risk class for running pods: none, restart (of the kubelet; pods keep running), drain, replace
    /// (reboot or another node), never. `diff` shows the class of each field; `sync` refuses a higher class. From
    /// drain on, nodes are drained for changes that need it. Default restart.
    #[schemars(with = "Class")]
    pub allow_disruption: Option<Class>,
    /// Drain of nodes for changes of class drain and above, if allowDisruption allows them. A pool that sets it
    /// replaces the default of the fleet as a whole.
    #[schemars(with = "DrainSpec")]
    pub drain: Option<DrainSpec>,
    /// Weekly times at which nodes may start. They add up. A pool that sets them replaces the windows of the fleet; an
    /// empty list permits every time. Default: every time.
    #[schemars(with = "Vec<Window>")]
    pub windows: Option<WindowList>,
    /// Times at which no node may start, also within a window. Those of the fleet apply to each pool.
    #[schemars(with = "Vec<Exclusion>")]
    pub exclusions: Vec<Exclusion>,
    /// Highest risk class of changes that may start outside of the windows: none, restart, drain, replace, never. Every
    /// change restarts the kubelet, also one of class none. Default: no change may.
    #[schemars(with = "Class")]
    pub outside_windows: Option<Class>,
    /// Order of the nodes by a label, such as one zone after the other. A pool that sets it replaces the default of the
    /// fleet as a whole; `{}` is the order by name. Default: by name.
    #[schemars(with = "OrderSpec")]
    pub order: Option<OrderSpec>,
    /// Pools that go first: no node of this pool starts until each node of these pools has converged. Only in the file of
    /// a pool.
    #[schemars(with = "Vec<String>")]
    pub after: Vec<PoolRef>,
    /// Conditions outside of the nodes that must hold before the next step, at most 50. A pool has the gates of its
    /// fleet, too.
    #[schemars(with = "Vec<GateSpec>", length(max = 50))]
    pub gates: Vec<Gate>,
    /// Whether all nodes that a run assigned are rolled back if a gate stops it. Default false.
    #[schemars(with = "bool")]
    pub rollback_on_gate_failure: Option<bool>,
    /// Whether a node converges only when the pods that were Ready before its assignment are Ready again, and its
    /// kubelet refused none. Default true. Needs the right to list pods; without it, pods are not checked.
    #[schemars(with = "bool")]
    pub check_pods: Option<bool>,
}

/// Name of another pool in a file, with its position.
#[derive(Debug, Clone)]
pub struct PoolRef {
    /// The name.
    pub name: PoolName,
    /// Position of the name.
    pub place: Place,
}

/// Windows of a rollout policy, with the position of their list.
#[derive(Debug, Clone)]
pub struct WindowList {
    /// The windows.
    pub windows: Vec<Window>,
    /// Position of the list.
    pub place: Place,
}

/// Drain of a node before its change: its pods are evicted within their PodDisruptionBudgets.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct DrainSpec {
    /// Evict the pods (evict), or make the change with running pods (accept), for example after a drain by hand. Default
    /// evict.
    #[schemars(with = "DrainMode")]
    pub mode: Option<DrainMode>,
    /// Time limit per node from its mark to its assignment. Default 15m.
    #[schemars(with = "GoDuration")]
    pub timeout: Option<Duration>,
    /// Time that a converged node must stay Ready before new pods may start on it. Default 30s.
    #[schemars(with = "GoDuration")]
    pub settle: Option<Duration>,
    /// Refuse to drain a node with pods that have emptyDir volumes (refuse), or lose these volumes (delete). Default
    /// refuse.
    #[schemars(with = "PodLoss")]
    pub empty_dir: Option<PodLoss>,
    /// Refuse to drain a node with pods that have no controller (refuse), or delete these pods (delete). Default refuse.
    #[schemars(with = "PodLoss")]
    pub unmanaged: Option<PodLoss>,
    /// Pods that stay on the node. Pods with exclusive CPUs cannot stay. Default: none.
    #[schemars(with = "LabelSelector")]
    pub skip: Option<LabelSelector>,
    /// Release a node that was not drained in time (release), or keep new pods away from it (hold). Default release.
    #[schemars(with = "OnTimeout")]
    pub on_timeout: Option<OnTimeout>,
}

impl DrainSpec {
    fn policy(&self) -> DrainPolicy {
        let default = DrainPolicy::default();
        DrainPolicy {
            mode: self.mode.unwrap_or(default.mode),
            timeout: self.timeout.unwrap_or(default.timeout),
            settle: self.settle.unwrap_or(default.settle),
            empty_dir: self.empty_dir.unwrap_or(default.empty_dir),
            unmanaged: self.unmanaged.unwrap_or(default.unmanaged),
            skip: self.skip.clone(),
            on_timeout: self.on_timeout.unwrap_or(default.on_timeout),
        }
    }
}

/// Canaries of a pool, and their soak time.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CanarySpec {
    /// Number of canaries. Default 1; 0 disables the canaries of the fleet.
    pub nodes: u32,
    /// Time that canaries must stay converged before the next node starts. Default 0s.
    #[schemars(with = "GoDuration")]
    pub soak: Duration,
}

impl Default for CanarySpec {
    fn default() -> Self {
        Self { nodes: 1, soak: Duration::ZERO }
    }
}

/// Order of a pool's nodes: nodes with the same value of a label start together, in the order of the values. Nodes
/// without the label come last.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("dependentRequired" = {"soak": ["by"]}))]
pub struct OrderSpec {
    /// Key of the label, such as topology.kubernetes.io/zone.
    #[schemars(with = "String")]
    pub by: Option<String>,
    /// Time from the end of the last node with one value to the start of the nodes with the next value. Default 0s.
    #[schemars(with = "GoDuration")]
    pub soak: Duration,
}

/// A path in a file, with its position.
#[derive(Debug, Clone)]
pub struct FileRef {
    /// The path, relative to the folder of its file.
    pub path: String,
    /// Position of the path.
    pub place: Place,
}

/// Schema of a field of the table of removals.
enum RemovableField {}

impl JsonSchema for RemovableField {
    fn schema_name() -> Cow<'static, str> {
        "RemovableField".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A field whose loss harms a node that had a value.",
            "enum": removals::all().map(|removal| removal.field.as_str()).collect::<Vec<_>>(),
        })
    }
}

/// Schema of one version or several.
enum KubernetesVersions {}

impl JsonSchema for KubernetesVersions {
    fn schema_name() -> Cow<'static, str> {
        "KubernetesVersions".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known: Vec<String> = Minor::all().map(|minor| minor.0.to_string()).collect();
        let one = json_schema!({"type": "string", "pattern": format!(r"^v?1\.({})([-.+].*)?$", known.join("|"))});
        json_schema!({
            "description": "A Kubernetes version, or a list of them. Quote it: without quotes, 1.30 is the number 1.3.",
            "anyOf": [one, {"type": "array", "minItems": 1, "items": one}],
        })
    }
}

impl JsonSchema for MaxUnavailable {
    fn schema_name() -> Cow<'static, str> {
        "MaxUnavailable".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of nodes, or a percentage of the pool.",
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": u32::MAX},
                {"type": "string", "pattern": "^([1-9][0-9]?|100)%$"},
            ],
        })
    }
}

impl RolloutSpec {
    /// Policy of a pool with this specification and the defaults of `fleet`. A canary replaces the default canary as
    /// a whole.
    #[must_use]
    pub fn policy(&self, fleet: &Self) -> RolloutPolicy {
        let default = RolloutPolicy::default();
        let canary = self.canary.as_ref().or(fleet.canary.as_ref());
        RolloutPolicy {
            max_unavailable: self.max_unavailable.or(fleet.max_unavailable).unwrap_or(default.max_unavailable),
            canary: canary
                .filter(|canary| canary.nodes > 0)
                .map(|canary| super::Canary { nodes: canary.nodes, soak: canary.soak }),
            max_failures: self.max_failures.or(fleet.max_failures).unwrap_or(default.max_failures),
            convergence_timeout: self
                .convergence_timeout
                .or(fleet.convergence_timeout)
                .unwrap_or(default.convergence_timeout),
            paused: self.paused.or(fleet.paused).unwrap_or(default.paused),
            accept_removed: default.accept_removed,
            accept_overridden: default.accept_overridden,
            allow_disruption: self.allow_disruption.or(fleet.allow_disruption).unwrap_or(default.allow_disruption),
            drain: self.drain.as_ref().or(fleet.drain.as_ref()).map_or(default.drain, DrainSpec::policy),
            schedule: self.schedule(fleet),
            order: self.order.as_ref().or(fleet.order.as_ref()).and_then(OrderSpec::order),
            after: self.after.iter().map(|pool| pool.name.clone()).collect(),
            gates: gate_fields::merged(&self.gates, &fleet.gates),
            rollback_on_gate_failure: self
                .rollback_on_gate_failure
                .or(fleet.rollback_on_gate_failure)
                .unwrap_or(default.rollback_on_gate_failure),
            check_pods: self.check_pods.or(fleet.check_pods).unwrap_or(default.check_pods),
        }
    }

    /// The windows of the pool replace those of the fleet. The exclusions of both apply, so that no pool misses a freeze
    /// of the fleet.
    fn schedule(&self, fleet: &Self) -> Schedule {
        let windows = self.windows.as_ref().or(fleet.windows.as_ref());
        Schedule {
            windows: windows.map(|list| list.windows.clone()).unwrap_or_default(),
            exclusions: fleet.exclusions.iter().chain(&self.exclusions).cloned().collect(),
            outside: self.outside_windows.or(fleet.outside_windows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_overrides_fleet_and_fleet_overrides_default() {
        let fleet = RolloutSpec {
            max_unavailable: Some(MaxUnavailable::Count(3)),
            canary: Some(CanarySpec { nodes: 2, soak: Duration::from_secs(5) }),
            paused: Some(true),
            allow_disruption: Some(Class::Drain),
            check_pods: Some(false),
            ..RolloutSpec::default()
        };
        let plain = RolloutSpec::default().policy(&fleet);
        assert_eq!(plain.max_unavailable, MaxUnavailable::Count(3));
        assert_eq!(plain.canary.map(|c| c.nodes), Some(2));
        assert!(plain.paused);
        assert_eq!((plain.allow_disruption, plain.check_pods), (Class::Drain, false));
        assert_eq!(plain.convergence_timeout, Duration::from_secs(300));
        let own = RolloutSpec {
            max_unavailable: Some(MaxUnavailable::Percent(50)),
            canary: Some(CanarySpec { nodes: 0, soak: Duration::ZERO }),
            paused: Some(false),
            allow_disruption: Some(Class::None),
            check_pods: Some(true),
            ..RolloutSpec::default()
        };
        let policy = own.policy(&fleet);
        assert_eq!(policy.max_unavailable, MaxUnavailable::Percent(50));
        assert_eq!(policy.canary, None);
        assert!(!policy.paused);
        assert_eq!((policy.allow_disruption, policy.check_pods), (Class::None, true));
        assert_eq!(RolloutSpec::default().policy(&RolloutSpec::default()), RolloutPolicy::default());
    }
}
