//! Gates of a rollout: conditions outside of the nodes that must hold before the next step (`spec.rollout.gates`).
//!
//! A [`Gate`] is policy, never part of a configuration's hash. The caller asks Prometheus and the API server.
//! The rollout decides what the answers mean.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use json_path::JsonPath;
use kubelet_config::values::duration;
use nodecfg_contract::names::{GateName, NodeName};
use nodecfg_contract::printable::escaped;
use nodecfg_contract::{ObjectId, ObjectRef};
use schemars::JsonSchema;
use serde::Serialize;

pub mod json_path;

/// Limit of the gates of one pool.
pub(crate) const MAX_GATES: usize = 50;
/// Limit of the length of a query, in characters.
pub(crate) const MAX_QUERY: usize = 4096;
/// Limit of the length of a JSONPath with its value, in characters.
pub(crate) const MAX_JSON_PATH: usize = 512;
/// Text that stands for the name of a node.
pub const NODE: &str = "{node}";
/// Default of [`Gate::patience`].
pub const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// A condition that must hold before a step of a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Name, unique in the pool.
    pub name: GateName,
    /// What is asked.
    pub check: GateCheck,
    /// Steps that the gate guards; none switches it off.
    pub at: BTreeSet<Moment>,
    /// How long a rollout waits between nodes, or at the end of a soak, before it stops. Default 10 minutes.
    pub patience: Duration,
}

/// A step of a rollout that a gate can guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Moment {
    /// Before the first node of the pool.
    Start,
    /// Before each further node.
    Node,
    /// During the soak of the canaries.
    Soak,
}

impl Moment {
    /// Every step, in their order.
    pub const ALL: [Self; 3] = [Self::Start, Self::Node, Self::Soak];

    /// Name in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Node => "node",
            Self::Soak => "soak",
        }
    }
}

/// What a gate asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateCheck {
    /// Series of a Prometheus query.
    Prometheus {
        /// The two expressions.
        query: PrometheusQuery,
        /// Whether series that fired before the first node block.
        baseline: Baseline,
    },
    /// State of a Kubernetes object.
    Object {
        /// The object. [`NODE`] in its name or label stands for the name of a node.
        object: ObjectRef,
        /// The wanted state.
        wanted: Wanted,
    },
}

/// Expressions of a Prometheus gate, which are asked once for all gates that share them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrometheusQuery {
    /// Expression whose result has a series for each problem.
    pub query: String,
    /// Expression that has a result if the data of `query` is collected at all.
    pub present: String,
}

/// Treatment of series that fired before the first node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Baseline {
    /// They do not block.
    Use,
    /// They block like any other.
    Ignore,
}

/// Wanted state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A condition of `status.conditions` has this status.
    Condition {
        /// Type of the condition.
        condition: String,
        /// `True`, `False` or `Unknown`.
        status: String,
    },
    /// A JSONPath selects a value with this text.
    JsonPath {
        /// The path.
        path: JsonPath,
        /// Text of the value.
        value: String,
    },
}

impl fmt::Display for Wanted {
    /// Notation of `pool.yaml`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition { condition, status } => write!(f, "{condition}={status}"),
            Self::JsonPath { path, value } => write!(f, "{{{path}}}={value}"),
        }
    }
}

/// One request of a gate, which gates of several pools may share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// Ask Prometheus.
    Prometheus(PrometheusQuery),
    /// Read an object.
    Object(ObjectRef),
}

impl Gate {
    /// Reports whether each node has an object of its own, which is asked about before the node starts.
    #[must_use]
    pub fn is_of_nodes(&self) -> bool {
        let GateCheck::Object { object, .. } = &self.check else { return false };
        match &object.by {
            ObjectId::Name(text) | ObjectId::Label { value: text, .. } => text.contains(NODE),
        }
    }

    /// The gate of one node.
    #[must_use]
    pub fn of_node(&self, node: &NodeName) -> Self {
        let mut gate = self.clone();
        if let GateCheck::Object { object, .. } = &mut gate.check {
            match &mut object.by {
                ObjectId::Name(text) | ObjectId::Label { value: text, .. } => *text = text.replace(NODE, node.as_str()),
            }
        }
        gate
    }

    /// The request of this gate.
    #[must_use]
    pub fn question(&self) -> Question {
        match &self.check {
            GateCheck::Prometheus { query, .. } => Question::Prometheus(query.clone()),
            GateCheck::Object { object, .. } => Question::Object(object.clone()),
        }
    }
}

impl fmt::Display for Gate {
    /// The gate on one line: name, check, and what differs from the defaults. Different gates have different lines, so that a
    /// review shows every change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.check {
            GateCheck::Prometheus { query, baseline } => {
                write!(f, "{} ({}; present {}", self.name, escaped(&query.query), escaped(&query.present))?;
                if *baseline == Baseline::Ignore {
                    f.write_str("; baseline ignore")?;
                }
            }
            GateCheck::Object { object, wanted } => {
                let version = &object.api_version;
                write!(f, "{} ({version} {object}: {}", self.name, escaped(&wanted.to_string()))?
            }
        }
        if self.at.len() < Moment::ALL.len() {
            let at: Vec<&str> = self.at.iter().map(|moment| moment.as_str()).collect();
            write!(f, "; at [{}]", at.join(", "))?;
        }
        if self.patience != PATIENCE {
            write!(f, "; patience {}", duration::format(self.patience))?;
        }
        f.write_str(")")
    }
}

/// Reads `{.status.phase}=Running`: a path in the notation of kubectl, and the text of its value.
///
/// # Errors
/// The problem, as the continuation of a sentence.
pub fn parse_json_path_value(text: &str) -> Result<Wanted, String> {
    let Some((path, value)) = text.strip_prefix('{').and_then(|rest| rest.split_once("}=")) else {
        return Err("has not the form {<path>}=<value>".to_owned());
    };
    if value.is_empty() {
        return Err("has no value".to_owned());
    }
    let path = JsonPath::parse(path).map_err(|error| error.to_string())?;
    Ok(Wanted::JsonPath { path, value: value.to_owned() })
}

/// Reads `Available=True`.
///
/// # Errors
/// The problem, as the continuation of a sentence.
pub fn parse_condition(text: &str) -> Result<Wanted, String> {
    match text.split_once('=') {
        Some((condition, status @ ("True" | "False" | "Unknown"))) if !condition.is_empty() => {
            Ok(Wanted::Condition { condition: condition.to_owned(), status: status.to_owned() })
        }
        _ => Err("has not the form <type>=True, <type>=False or <type>=Unknown".to_owned()),
    }
}
