//! Persistent state of the agent: the ledger and its parts.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::events::NodeHealth;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::Placement;

/// The agent's persistent state. The runtime saves it before it carries out effects that depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// ConfigMap accepted as the assignment, with uid and resourceVersion. `None` is the local configuration. On disk
    /// in the kubelet's format (`meta/assigned`).
    pub assigned: Option<ConfigSource>,
    /// Configuration that the kubelet returns to when the assignment fails. `None` is the local configuration
    /// (`meta/last-known-good`).
    pub last_known_good: Option<ConfigSource>,
    /// State that the documented layout of Dynamic Kubelet Configuration lacks.
    pub agent_state: AgentState,
}

/// A configuration that the ledger names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration<'a> {
    /// The ConfigMap.
    pub source: &'a ConfigSource,
    /// How the kubelet combines it with the node's own configuration. `None` in ledgers from before placements.
    pub placement: Option<Placement>,
}

impl<'a> Configuration<'a> {
    fn of(source: &'a Option<ConfigSource>, placement: Option<Placement>) -> Option<Self> {
        source.as_ref().map(|source| Self { source, placement })
    }
}

impl Ledger {
    /// The assignment with its placement. `None` is the node's own configuration.
    #[must_use]
    pub fn assignment(&self) -> Option<Configuration<'_>> {
        Configuration::of(&self.assigned, self.agent_state.placement)
    }

    /// The last known good with its placement. `None` is the node's own configuration.
    #[must_use]
    pub fn good(&self) -> Option<Configuration<'_>> {
        Configuration::of(&self.last_known_good, self.agent_state.last_known_good_placement)
    }

    /// The configuration at the last restart of the kubelet, with its placement. `None` is the node's own configuration.
    #[must_use]
    pub fn active(&self) -> Option<Configuration<'_>> {
        Configuration::of(&self.agent_state.active, self.agent_state.active_placement)
    }

    /// Gives each configuration without a placement this one: ledgers from before placements have none.
    pub(crate) fn complete_placements(&mut self, default: Placement) {
        let Self { assigned, last_known_good, agent_state } = self;
        for (source, placement) in [
            (&*assigned, &mut agent_state.placement),
            (&*last_known_good, &mut agent_state.last_known_good_placement),
            (&agent_state.active, &mut agent_state.active_placement),
        ] {
            *placement = source.as_ref().map(|_| placement.unwrap_or(default));
        }
    }

    /// Reports whether the ledger is as `nodecfg-agent boot` saved it, and the kubelet has not been healthy on the
    /// configuration.
    #[must_use]
    pub(crate) fn is_seeded(&self) -> bool {
        let Self { assigned, last_known_good, agent_state } = self;
        agent_state.booted
            && assigned.is_some()
            && *assigned == agent_state.active
            && last_known_good.is_none()
            && agent_state.failure.is_none()
            && matches!(&agent_state.phase, Phase::Trying(trial) if trial.healthy_since.is_none())
    }

    /// Content hash of a source, from the annotation of its ConfigMap. `None` if the source is neither assigned nor
    /// last known good, or if its ConfigMap had no annotation.
    #[must_use]
    pub(crate) fn content_hash_of(&self, source: &ConfigSource) -> Option<&String> {
        if self.assigned.as_ref() == Some(source) {
            self.agent_state.content_hash.as_ref()
        } else if self.last_known_good.as_ref() == Some(source) {
            self.agent_state.last_known_good_hash.as_ref()
        } else {
            None
        }
    }
}

/// State that the documented layout of Dynamic Kubelet Configuration lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Beyond")]
pub struct AgentState {
    /// Activation or trial in progress.
    #[serde(default)]
    pub phase: Phase,
    /// Reason why the kubelet does not run the assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<AssignmentFailure>,
    /// Configuration at the last restart of the kubelet. `None` is the local configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ConfigSource>,
    /// Placement of the assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Placement of the active configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_placement: Option<Placement>,
    /// Placement of the last known good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good_placement: Option<Placement>,
    /// Hash of the text that the agent last placed for the kubelet. Another text comes from another program. `None` for
    /// the own configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed_text: Option<String>,
    /// Hash of the text that passed its trial as the last known good. An overlay has another text over another own
    /// configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good_text: Option<String>,
    /// Content hash of the assignment, from the annotation of its ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// Content hash of the last known good, from the annotation of its ConfigMap at the time of its assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good_hash: Option<String>,
    /// Pool of the assignment, from the label of its ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Whether the assigned ConfigMap is immutable. The agent polls a mutable one for changes.
    #[serde(default)]
    pub immutable: bool,
    /// Whether `nodecfg-agent boot` made the assignment, and the node has had no NodeConfig since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub booted: bool,
    /// Number of restarts of the kubelet by the agent.
    #[serde(default)]
    pub restarts: u64,
    /// Number of rollbacks to the last known good.
    #[serde(default)]
    pub rollbacks: u64,
}

/// Activation or trial in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Phase {
    /// Neither activation nor trial.
    #[default]
    Settled,
    /// The agent replaces the kubelet's configuration and restarts the kubelet. A restarted agent repeats both.
    #[serde(rename_all = "camelCase")]
    Activating {
        /// Health of the node before the activation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<NodeHealth>,
    },
    /// The kubelet was restarted; the agent checks its health.
    Trying(Trial),
}

/// Health checks of a restarted kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// Time of the restart.
    pub started: Timestamp,
    /// Health of the node before the restart: only conditions that held before must hold afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<NodeHealth>,
    /// Start of the current healthy period; unset until the kubelet is healthy for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Timestamp>,
    /// Start of the current unhealthy period, after a healthy one.
    #[serde(default, rename = "ailingSince", skip_serializing_if = "Option::is_none")]
    pub unhealthy_since: Option<Timestamp>,
    /// Number of times that the kubelet stopped answering after it had answered.
    #[serde(default, rename = "lapses")]
    pub interruptions: u32,
}

/// Reason why the kubelet does not run the assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Failure")]
pub struct AssignmentFailure {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Whether the kubelet was healthy on the configuration for some time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_healthy: bool,
    /// Value of `status.config.error`: the kubelet's own text where it had one.
    pub error: String,
    /// Reason in full, for people.
    pub message: String,
    /// Kubelet version that the failure applies to, as `v1.36.2`. Other versions may accept the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<String>,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// The content is missing or cannot be decoded.
    Load,
    /// The content was decoded and the kubelet would refuse it.
    Validate,
    /// The kubelet could not be restarted.
    Restart,
    /// The kubelet did not stay healthy.
    Trial,
}
