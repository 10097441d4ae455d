//! Types of `spec.rollout.gates`, from which its JSON Schema is derived. [`gate_fields`](super) reads them.

use schemars::JsonSchema;

use crate::duration_schema::GoDuration;
use crate::gates::{Baseline, Moment};

/// A condition that must hold before a step of a rollout. Exactly one of prometheus and object.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["prometheus"]}, {"required": ["object"]}]))]
pub struct GateSpec {
    /// Name, unique among the gates of fleet or pool: lower-case letters, digits and '-', up to 63 characters. A gate of
    /// a pool replaces the gate of the fleet with the same name.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Query of Prometheus. Its address is an option of the command line.
    #[schemars(default, with = "PrometheusSpec")]
    pub prometheus: Option<PrometheusSpec>,
    /// State of a Kubernetes object.
    #[schemars(default, with = "ObjectSpec")]
    pub object: Option<ObjectSpec>,
    /// Steps that the gate guards: start (before the first node), node (before each further node), soak (during the
    /// soak of the canaries). [] switches the gate off. Default: all.
    #[schemars(default, with = "Vec<Moment>")]
    pub at: Option<Vec<Moment>>,
    /// Time that a rollout waits for the gate between nodes, or at the end of a soak, before it stops. Default 10m.
    #[schemars(default, with = "GoDuration")]
    pub patience: Option<String>,
}

/// Query of Prometheus.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrometheusSpec {
    /// PromQL expression. Each series of its result is a problem; without a series, the gate passes.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// PromQL expression that has a result if the data of the query is collected. Without it, missing data would pass.
    #[schemars(length(min = 1, max = 4096))]
    pub present: String,
    /// Whether series of the query that fired before the first node block: no (use), or yes (ignore). Default use.
    #[schemars(default, with = "Baseline")]
    pub baseline: Option<Baseline>,
}

/// State of a Kubernetes object. Exactly one of condition and jsonPath. Secrets are not allowed.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["condition"]}, {"required": ["jsonPath"]}]))]
#[schemars(extend("not" = {"properties": {"apiVersion": {"const": "v1"}, "kind": {"const": "Secret"}}, "required": ["apiVersion", "kind"]}))]
pub struct ObjectSpec {
    /// v1, or GROUP/VERSION.
    #[schemars(regex(pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?v[a-z0-9]+$"))]
    pub api_version: String,
    /// Kind, such as Deployment.
    #[schemars(regex(pattern = r"^[A-Z][A-Za-z0-9]{0,62}$"))]
    pub kind: String,
    /// Namespace. Unset for objects of the cluster.
    #[schemars(
        default,
        with = "String",
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: Option<String>,
    /// Name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9:]([-A-Za-z0-9_.:]*[A-Za-z0-9:])?$"))]
    pub name: String,
    /// Condition of the status, such as "Available=True".
    #[schemars(default, with = "String", regex(pattern = r"^[^=]+=(True|False|Unknown)$"))]
    pub condition: Option<String>,
    /// JSONPath of names and indexes, and the value, such as "{.status.phase}=Running".
    #[schemars(
        default,
        with = "String",
        length(max = 512),
        regex(
            pattern = r#"^\{\$?(\.(\\[^}]|[^\\.\[\](){}*?'"\s])+|\[(-?[0-9]+|'(\\.|[^'\\])+'|"(\\.|[^"\\])+")\])+\}=.+$"#
        )
    )]
    pub json_path: Option<String>,
}
