//! The files that users write: `nodecfg.yaml` (Fleet) and `pool.yaml` (NodePool), as types. The JSON Schemas come from
//! these types; `read` fills them from a document. Every field that the types have, the reader knows, and
//! a test holds them together.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{LabelSelector, MaxUnavailable, RolloutPolicy};
use kubelet_config::Minor;
use kubelet_config::finding::Place;
use kubelet_config::risk::Class;
use nodecfg_contract::names::NamespaceName;

/// The `apiVersion` of nodecfg's own files.
pub const API_VERSION: &str = "nodecfg.dev/v1alpha1";
/// The `kind` of `nodecfg.yaml`.
pub const FLEET: &str = "Fleet";
/// The `kind` of `pool.yaml`.
pub const NODE_POOL: &str = "NodePool";

/// `nodecfg.yaml`: one fleet, which is one cluster as this repository manages it.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename = "Fleet", rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetFile {
    /// The version of this format.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// What this file is.
    #[schemars(extend("const" = FLEET))]
    pub kind: String,
    /// Its identity: two fleets never touch each other's ConfigMaps.
    pub metadata: Metadata,
    /// Defaults for every pool.
    #[schemars(default)]
    pub spec: FleetSpec,
}

/// `pools/<pool>/pool.yaml`: which nodes belong to a pool, what they run, and how to roll it out.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename = "NodePool", rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePoolFile {
    /// The version of this format.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// What this file is.
    #[schemars(extend("const" = NODE_POOL))]
    pub kind: String,
    /// The pool's name, which is that of its folder.
    pub metadata: Metadata,
    /// The pool.
    #[schemars(default)]
    pub spec: NodePoolSpec,
}

/// The name of a fleet or pool.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Metadata {
    /// A DNS label: lower-case letters, digits and '-', up to 63 characters.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

/// What a fleet sets for its pools.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetSpec {
    /// The namespace of the ConfigMaps. Default: kube-system for kubelets with dynamic configuration, nodecfg-system for
    /// nodes with an agent.
    #[schemars(with = "String", length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<NamespaceName>,
    /// How pools are rolled out that do not say otherwise.
    pub rollout: RolloutSpec,
}

/// A pool.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePoolSpec {
    /// The nodes of the pool. Default: those labelled `nodecfg.dev/pool=<pool>`. `{}` selects every node.
    #[schemars(with = "LabelSelector")]
    pub node_selector: Option<LabelSelector>,
    /// The higher pool wins a node that several select; equal priority is an error. Default 0.
    pub priority: i64,
    /// What the nodes run.
    pub kubelet: KubeletSpec,
    /// The Kubernetes version of the nodes' kubelets, such as "1.36", or several while the pool is being upgraded: what the
    /// configuration is checked for where no cluster is asked.
    #[schemars(with = "KubernetesVersions")]
    pub kubernetes_version: Vec<Minor>,
    /// How to roll out; what is not set is the fleet's.
    pub rollout: RolloutSpec,
}

/// What the nodes of a pool run: base, then the pool's kubelet.yaml, then patches in order.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletSpec {
    /// A KubeletConfiguration that the pool's own is laid over; a path from the pool's folder.
    #[schemars(with = "String")]
    pub base: Option<FileRef>,
    /// Merge patches (RFC 7386) or JSON patches (RFC 6902), applied in order; paths from the pool's folder.
    #[schemars(with = "Vec<String>")]
    pub patches: Vec<FileRef>,
    /// Run the configuration that the nodes were provisioned with: spec.configSource is removed. Default false.
    pub local: bool,
}

/// How to roll out.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutSpec {
    /// How many nodes may be unavailable at once: a number, or a percentage of the pool, rounded down but at least one
    /// node. Default 10%.
    #[schemars(with = "MaxUnavailable")]
    pub max_unavailable: Option<MaxUnavailable>,
    /// Nodes that go first, alone.
    #[schemars(with = "CanarySpec")]
    pub canary: Option<CanarySpec>,
    /// Failed nodes before the rollout stops. Default 0: the first failure stops it.
    #[schemars(with = "u32")]
    pub max_failures: Option<u32>,
    /// How long a node may take from assignment to convergence. Default 5m.
    #[schemars(with = "GoDuration")]
    pub convergence_timeout: Option<Duration>,
    /// A paused pool is planned and reported, never changed. Default false.
    #[schemars(with = "bool")]
    pub paused: Option<bool>,
    /// The worst that a change of configuration may do to pods that run: none, restart (the kubelet's own; pods go on),
    /// drain, replace (reboot or another node), never. `diff` shows the class of each field; `sync` refuses anything worse
    /// than this. nodecfg drains no node. Default restart.
    #[schemars(with = "Class")]
    pub allow_disruption: Option<Class>,
}

/// The nodes that go first, and how long they are watched before the others follow.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CanarySpec {
    /// How many nodes. Default 1; 0 for no canary, where the fleet has one.
    pub nodes: u32,
    /// How long they must stay converged before the next node starts. Default 0s.
    #[schemars(with = "GoDuration")]
    pub soak: Duration,
}

impl Default for CanarySpec {
    fn default() -> Self {
        Self { nodes: 1, soak: Duration::ZERO }
    }
}

/// A path as it was written, and where.
#[derive(Debug, Clone)]
pub struct FileRef {
    /// The path, from the folder of the file that has it.
    pub path: String,
    /// Where it was written.
    pub place: Place,
}

/// The schema of one version or several.
enum KubernetesVersions {}

impl JsonSchema for KubernetesVersions {
    fn schema_name() -> Cow<'static, str> {
        "KubernetesVersions".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known: Vec<String> = Minor::all().map(|minor| minor.0.to_string()).collect();
        let one = json_schema!({"type": "string", "pattern": format!(r"^v?1\.({})([-.+].*)?$", known.join("|"))});
        json_schema!({
            "description": "A Kubernetes version, or a list of them. In quotes: 1.30 without them is the number 1.3.",
            "anyOf": [one, {"type": "array", "minItems": 1, "items": one}],
        })
    }
}

/// The schema of a duration in Go's syntax.
enum GoDuration {}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
            "description": "A duration in Go's syntax, such as 30s, 10m or 1h30m.",
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
    /// The policy of a pool with this specification in a fleet with those defaults. A canary is taken as a whole.
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
            allow_disruption: self.allow_disruption.or(fleet.allow_disruption).unwrap_or(default.allow_disruption),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_wins_over_its_fleet_and_both_over_the_default() {
        let fleet = RolloutSpec {
            max_unavailable: Some(MaxUnavailable::Count(3)),
            canary: Some(CanarySpec { nodes: 2, soak: Duration::from_secs(5) }),
            paused: Some(true),
            allow_disruption: Some(Class::Drain),
            ..RolloutSpec::default()
        };
        let plain = RolloutSpec::default().policy(&fleet);
        assert_eq!(plain.max_unavailable, MaxUnavailable::Count(3));
        assert_eq!(plain.canary.map(|c| c.nodes), Some(2));
        assert!(plain.paused);
        assert_eq!(plain.allow_disruption, Class::Drain);
        assert_eq!(plain.convergence_timeout, Duration::from_secs(300));
        let own = RolloutSpec {
            max_unavailable: Some(MaxUnavailable::Percent(50)),
            canary: Some(CanarySpec { nodes: 0, soak: Duration::ZERO }),
            paused: Some(false),
            allow_disruption: Some(Class::None),
            ..RolloutSpec::default()
        };
        let policy = own.policy(&fleet);
        assert_eq!(policy.max_unavailable, MaxUnavailable::Percent(50));
        assert_eq!(policy.canary, None);
        assert!(!policy.paused);
        assert_eq!(policy.allow_disruption, Class::None);
        assert_eq!(RolloutSpec::default().policy(&RolloutSpec::default()), RolloutPolicy::default());
    }
}
