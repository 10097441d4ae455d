//! Steps of a plan: what happens to the nodes that it changes or awaits, and when they start.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::convergence::{ConvergenceFailure, Waiting};
use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{Assignment, ConfigSource};

/// Nodes that start under the same condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// Kind of the wave, which determines its start condition.
    #[serde(flatten)]
    pub kind: WaveKind,
    /// Domain of the nodes, if the policy orders them by a label. Only for the last waves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub domain: Option<WaveDomain>,
    /// Steps by node name.
    #[serde(rename = "nodes")]
    pub steps: Vec<Step>,
}

/// Start condition of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum WaveKind {
    /// Nodes that are not Ready, are cordoned, were drained by an earlier run, refuse their assigned configuration, or
    /// are in transition already. They need no budget and do not wait for canaries.
    Unavailable,
    /// Canaries. They start within the budget and are then watched for the soak time.
    #[serde(rename_all = "camelCase")]
    Canary {
        /// Seconds that canaries must stay converged before the next wave starts.
        soak_seconds: u64,
    },
    /// All other nodes. They start within the budget after the canaries have soaked.
    Rest,
}

/// Domain whose nodes start together, after all nodes of the earlier domains have ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveDomain {
    /// The domain.
    #[serde(flatten)]
    pub domain: Domain,
    /// Seconds from the end of the last node of the earlier domain to the start of the wave. Unset if the wave follows no
    /// other domain, or continues its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak_seconds: Option<u64>,
}

/// Nodes of a pool with the same value of the label that orders them. The term is that of topology spread constraints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Domain {
    /// Key of the label.
    pub label: String,
    /// Value of the label. Unset: the nodes without the label, which come last.
    pub value: Option<String>,
}

impl Domain {
    /// Domain of a node with these labels.
    #[must_use]
    pub fn of(label: &str, labels: &BTreeMap<String, String>) -> Self {
        Self { label: label.to_owned(), value: labels.get(label).cloned() }
    }
}

impl PartialOrd for Domain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Domain {
    fn cmp(&self, other: &Self) -> Ordering {
        fn key(domain: &Domain) -> (&str, bool, Option<&str>) {
            (&domain.label, domain.value.is_none(), domain.value.as_deref())
        }
        key(self).cmp(&key(other))
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.label),
            None => write!(f, "nodes without {}", self.label),
        }
    }
}

/// Planned step of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Turn")]
pub struct Step {
    /// The node.
    pub node: NodeName,
    /// Current and desired `configSource`.
    #[serde(rename = "from", serialize_with = "serialize_from")]
    #[schemars(
        with = "Option<ConfigSource>",
        description = "What its spec names now; unset for the local configuration."
    )]
    pub assignment: Assignment,
    /// Position of the node's domain in the order of the pool. 0 without an order.
    #[serde(skip)]
    pub domain: usize,
    /// Action of the step.
    #[serde(flatten)]
    pub action: Action,
    /// Whether the node is Ready now. If so, it must be Ready again to count as converged.
    #[serde(skip)]
    pub was_ready: bool,
    /// Whether the node is available now. If so, its start needs budget.
    pub available: bool,
    /// Whether the node can be rolled back: it does not refuse its current source, and that is the local
    /// configuration or a ConfigMap that exists.
    #[serde(skip)]
    pub can_return: bool,
    /// Disruption that a rollback from the target needs, if it is known and exceeds the policy. A rollback may be
    /// more disruptive than the change: one direction may restart a kubelet, the other may need a drain.
    #[serde(skip)]
    pub rollback_needs: Option<Class>,
    /// Whether the node is drained before a rollback from the target.
    #[serde(skip)]
    pub rollback_drain: bool,
    /// Whether the node is drained before its assignment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub drain: bool,
    /// Whether the node is drained because its current or future configuration is unknown.
    #[serde(skip)]
    pub drain_unknown: bool,
    /// Whether the node has the mark of a drain by this fleet.
    #[serde(skip)]
    pub marked: bool,
    /// Whether the node's own agent wrote its present assignment. Such a node proves nothing for others.
    #[serde(skip)]
    pub self_assigned: bool,
}

fn serialize_from<S: serde::Serializer>(assignment: &Assignment, serializer: S) -> Result<S::Ok, S::Error> {
    assignment.from.serialize(serializer)
}

fn text<S: serde::Serializer>(failure: &Option<Box<ConvergenceFailure>>, serializer: S) -> Result<S::Ok, S::Error> {
    failure.as_ref().map(ToString::to_string).serialize(serializer)
}

/// Action of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "action")]
pub enum Action {
    /// Assigns the target to the node.
    Assign,
    /// Watches a node that points at its target already.
    // Includes converged nodes that soak as canaries.
    Await {
        /// Reason for waiting; `None` if the node failed or converged.
        waiting: Option<Waiting>,
        /// Failure that the node reports against the target.
        #[serde(rename = "error", serialize_with = "text")]
        #[schemars(rename = "error", with = "Option<String>")]
        failure: Option<Box<ConvergenceFailure>>,
    },
}
