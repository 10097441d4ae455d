//! Inputs (events) and outputs (effects) of the agent's state machine.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::problem::{HealthzError, RestartProblems};
use crate::host::{ServiceReport, StateFiles};
use crate::joining::{JoinAnswer, JoinRequest};
use kubelet_config::startup_error::StartupError;
use nodecfg_contract::Placement;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};
use nodecfg_contract::{ConfigMapSource, ConfigSource};

/// An input of the state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The agent has started and loaded its ledger.
    Started(DiskCheck),
    /// Result of [`Effect::CheckDisk`].
    DiskChecked(DiskCheck),
    /// NodeConfig of the node, as last read. `None` if it is missing, which changes nothing.
    NodeConfigRead(Option<Box<NodeConfig>>),
    /// Result of [`Effect::Fetch`].
    Fetched(Result<Box<Fetched>, FetchError>),
    /// Result of [`Effect::CompareLocal`].
    LocalCompared(Result<(), NeedsDrain>),
    /// Result of [`Step::checkpoint`].
    Checkpointed(Result<(), String>),
    /// Result of [`Effect::Activate`]: the configuration is in place and the kubelet was restarted, or an error.
    Activated(Result<(), ActivationError>),
    /// Result of [`Effect::Probe`].
    Probed(Health),
    /// Result of [`Effect::Report`].
    Reported(Result<(), String>),
    /// What the kubelet runs is no longer what the last report says ([`Effect::Prove`]).
    Drifted,
    /// Result of [`Effect::Join`].
    Joined(Box<JoinAnswer>),
    /// The wake time of a step has come.
    Tick,
}

/// Comparison of the ledger with the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskCheck {
    /// Check of the assigned checkpoint for the kubelet of this host. `None` for the local configuration, or if the
    /// checkpoint loads and the kubelet's version is unknown.
    pub config_check: Option<ConfigCheck>,
    /// Whether the kubelet's configuration on disk is the active one of the ledger.
    pub in_place: bool,
    /// Whether the last known good has another text than the one that passed its trial: the node's own configuration,
    /// which it is merged over, has changed.
    pub good_changed: bool,
}

impl DiskCheck {
    /// The disk is as the ledger has it.
    pub(crate) const UNCHANGED: Self = Self { config_check: None, in_place: true, good_changed: false };
}

/// Downloaded ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Download {
    /// Requested source, with the uid and resourceVersion that were found.
    pub source: ConfigSource,
    /// All of `data`, by key. A checkpoint holds every key, as the kubelet's did.
    pub payload: BTreeMap<String, String>,
    /// Whether the ConfigMap is immutable: the API server refuses changes of its data.
    pub immutable: bool,
    /// Hash of the content, once it is verified.
    pub content_hash: Option<String>,
    /// Value of the label `nodecfg.dev/pool`.
    pub pool: Option<String>,
}

/// Download with the check of its content and the node's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The ConfigMap.
    pub download: Download,
    /// Placement that spec asks for.
    pub placement: Placement,
    /// Whether the kubelet's configuration has the same text with this content and placement as it has now.
    pub is_same_text: bool,
    /// Check of the content for the kubelet of this host.
    pub config_check: ConfigCheck,
    /// Health of the node before the change. `None` if the API server did not answer.
    pub node: Option<NodeHealth>,
}

/// Result of checking a configuration for the kubelet of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigCheck {
    /// The kubelet accepts the configuration.
    Accepted,
    /// The checkpoint cannot be read, the key is missing, or the content cannot be decoded.
    NotLoaded {
        /// Reason in full.
        message: String,
        /// The kubelet's version, if known.
        kubelet: Option<String>,
    },
    /// The kubelet decodes the configuration and refuses it, or the configuration disables `/healthz`.
    NotValid {
        /// Reason in full.
        message: String,
        /// The kubelet's version, if known.
        kubelet: Option<String>,
    },
    /// The agent cannot place the configuration on this node: its activation cannot do the placement, or the node's own
    /// configuration is unreadable.
    NotPlaceable {
        /// Reason in full, which may be published.
        message: String,
    },
}

/// Reason why a download failed or was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchError {
    /// The ConfigMap or its namespace is missing.
    Missing(String),
    /// The agent may not read the ConfigMap.
    Forbidden(String),
    /// The server is unreachable or answered with another error.
    Unreachable(String),
    /// The content is not the one that was reviewed.
    OtherContent(String),
    /// The change would disrupt running pods more than the node is prepared for.
    NeedsDrain(NeedsDrain),
}

/// Refusal of a change that disrupts running pods more than `spec.maxDisruption` allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedsDrain {
    /// Field with the highest class, or why the change is unknown.
    pub field: String,
    /// Reason in full.
    pub message: String,
}

/// Reason why an activation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActivationError {
    /// The configuration cannot be read, would be refused, or could not be written. The kubelet was not restarted.
    NotPlaced(String),
    /// The configuration is in place. The restart could not be requested, so the configuration is not at fault.
    NotRequested(RestartProblems),
    /// The configuration is in place. The kubelet could not be restarted.
    NotRestarted {
        /// What failed.
        reason: RestartProblems,
        /// Last error in the kubelet's log since the restart began.
        last_error: Option<StartupError>,
    },
}

/// Health of the kubelet of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether `/healthz` answers with success; the error is the reason.
    pub kubelet: Result<(), HealthzError>,
    /// Health of the node. `None` if the API server was not queried or did not answer.
    pub node: Option<NodeHealth>,
    /// What the service manager knows about a kubelet that seems unhealthy. Empty for others.
    pub service: ServiceReport,
}

/// Health of the node, from the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeHealth {
    /// Whether the condition Ready is true.
    pub ready: bool,
    /// Last renewal of the node's Lease. `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_renewed: Option<Timestamp>,
}

impl NodeHealth {
    /// Reports whether the Lease was renewed after this time.
    pub(crate) fn is_renewed_after(&self, moment: Timestamp) -> bool {
        self.lease_renewed.is_some_and(|renewed| renewed > moment)
    }

    /// Reports whether the Node is Ready and its Lease was renewed after this time.
    pub(crate) fn is_healthy_after(&self, moment: Timestamp) -> bool {
        self.ready && self.is_renewed_after(moment)
    }
}

/// Action outside of the agent's folder. Every effect can be repeated without harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Download this ConfigMap.
    Fetch(ConfigMapSource),
    /// Compare the running configuration with the local one, to which spec returns.
    CompareLocal,
    /// Compare the kubelet's configuration on disk with the ledger, now and then and at the end of a trial. Another program
    /// may have written it.
    CheckDisk,
    /// Compare what the kubelet runs with the last report, now and then: a flag or a file may have changed.
    Prove,
    /// Place a configuration for the kubelet and restart the kubelet.
    Activate {
        /// Checkpoint to activate; `None` is the local configuration.
        target: Option<ConfigSource>,
        /// State files that contradict the change. The runtime adds them after it has placed the target.
        state: StateFiles,
    },
    /// Delete state files that were set aside: the kubelet's configuration is the last known good.
    DiscardStateFiles,
    /// Check the kubelet's health, and optionally the node's.
    Probe {
        /// Whether to query the API server too, once `/healthz` has answered. No answer within a few seconds counts
        /// as no information.
        node: bool,
        /// Time of the kubelet's restart.
        since: Timestamp,
        /// Time from which the kubelet's log counts: that of the last healthy probe, or of the restart.
        errors_since: Timestamp,
    },
    /// Write the status of the NodeConfig.
    Report(Box<NodeConfigStatus>),
    /// Emit an Event on the Node.
    Announce(Announcement),
    /// Send a request of a node that joins.
    Join(JoinRequest),
}

/// An Event on the Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Reason in CamelCase, as `KubeletConfigChanged`.
    pub reason: &'static str,
    /// Message, one sentence.
    pub message: String,
    /// Whether the type is Warning.
    pub warning: bool,
}

/// Result of one event. The runtime saves the ledger before it carries out any of it, except for an urgent step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Download to save as a checkpoint.
    pub checkpoint: Option<Box<Download>>,
    /// Effects, in order.
    pub effects: Vec<Effect>,
    /// Whether to remove the checkpoints that the ledger does not name.
    pub prune: bool,
    /// Whether to carry out the step even if the ledger cannot be saved; a later step then saves it. Set for
    /// rollbacks, since a kubelet on a failed configuration costs the node, and for what has already happened.
    pub urgent: bool,
    /// Latest time of the next [`Event::Tick`]. `None`: no tick is needed.
    pub wake: Option<Timestamp>,
}
