//! The state that the agent keeps on disk, and the settings of its state machine.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::events::NodeHealth;
use nodecfg_contract::ConfigSource;

/// The agent's persistent state. The runtime saves it before it carries out effects that depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// What was taken as the assignment, with uid and resourceVersion. `None` is the local configuration. In the kubelet's own
    /// format on disk (`meta/assigned`).
    pub assigned: Option<ConfigSource>,
    /// What the kubelet is put on when the assignment fails. `None` is the local configuration (`meta/last-known-good`).
    pub last_known_good: Option<ConfigSource>,
    /// The part that the documented layout of Dynamic Kubelet Configuration lacks.
    pub beyond: AgentState,
}

impl Ledger {
    /// The content hash of a source, as the annotation of its ConfigMap said; unset when the ledger does not name that source.
    #[must_use]
    pub fn content_hash_of(&self, source: &ConfigSource) -> Option<&String> {
        if self.assigned.as_ref() == Some(source) {
            self.beyond.content_hash.as_ref()
        } else if self.last_known_good.as_ref() == Some(source) {
            self.beyond.last_known_good_hash.as_ref()
        } else {
            None
        }
    }
}

/// The part of the persistent state that the documented layout of Dynamic Kubelet Configuration lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Beyond")]
pub struct AgentState {
    /// What is under way.
    #[serde(default)]
    pub phase: Phase,
    /// Why the kubelet is not on what is assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<AssignmentFailure>,
    /// The configuration at the last restart of the kubelet. `None` is the local configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ConfigSource>,
    /// The content hash of what is assigned, as the annotation of its ConfigMap says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// The content hash of the last known good, from the annotation of its ConfigMap at the time of its assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good_hash: Option<String>,
    /// The pool of what is assigned, as the label of its ConfigMap says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Whether the assigned ConfigMap is immutable. The agent polls a mutable one for changes.
    #[serde(default)]
    pub immutable: bool,
    /// Number of restarts of the kubelet by the agent.
    #[serde(default)]
    pub restarts: u64,
    /// Number of rollbacks to the last known good.
    #[serde(default)]
    pub rollbacks: u64,
}

/// What is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Phase {
    /// No activation and no trial.
    #[default]
    Settled,
    /// The kubelet is being put on what it shall run: its configuration is replaced, then it is restarted. Both are done
    /// again when the agent is killed meanwhile.
    #[serde(rename_all = "camelCase")]
    Activating {
        /// How the node was before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<NodeHealth>,
    },
    /// The kubelet was restarted and is watched.
    Trying(Trial),
}

/// A kubelet that was restarted and is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// When it was restarted.
    pub started: Timestamp,
    /// Health of the node before the restart: only conditions that held before must hold afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<NodeHealth>,
    /// Start of the current healthy period; unset until the kubelet is healthy for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Timestamp>,
    /// Start of the current unhealthy period, after a healthy one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ailing_since: Option<Timestamp>,
    /// How often it stopped answering after it had answered.
    #[serde(default)]
    pub lapses: u32,
}

/// Why the kubelet is not on what is assigned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Failure")]
pub struct AssignmentFailure {
    /// What failed.
    pub kind: FailureKind,
    /// What `status.config.error` says: the kubelet's own text where it had one.
    pub error: String,
    /// The reason in full, for people.
    pub message: String,
    /// The version of the kubelet that it holds for, as `v1.36.2`. Other versions may accept the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<String>,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// The content is not there or cannot be decoded.
    Load,
    /// The content was decoded and would be refused.
    Validate,
    /// The kubelet could not be restarted.
    Restart,
    /// The kubelet did not stay healthy.
    Trial,
}

/// How the agent behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a kubelet may take to be healthy after a restart, and be unhealthy during a trial.
    pub health_timeout: Duration,
    /// How long a configuration must run before it is the last known good. The kubelet had 10 minutes.
    pub trial_period: Duration,
    /// How often health is looked at during a trial.
    pub probe_interval: Duration,
    /// How often a mutable ConfigMap is read again, plus up to a fifth.
    pub follow_interval: Duration,
    /// How often an immutable one is, plus up to a fifth: only its deletion can be news.
    pub resync_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            health_timeout: Duration::from_secs(60),
            trial_period: Duration::from_secs(10 * 60),
            probe_interval: Duration::from_secs(1),
            follow_interval: Duration::from_secs(60),
            resync_interval: Duration::from_secs(60 * 60),
        }
    }
}
