//! Inputs (events) and outputs (effects) of the agent's state machine.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use kubelet_config::risk::StateFile;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};
use nodecfg_contract::{ConfigMapSource, ConfigSource};

/// An input of the state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The agent has started, with its ledger as it was saved.
    Started {
        /// What the kubelet of this host would say of the checkpoint that is assigned; unset for the local configuration.
        verdict: Option<ConfigCheck>,
        /// Whether the kubelet's configuration on disk matches the ledger.
        in_place: bool,
    },
    /// The node's NodeConfig, as last read. `None`: it is missing, which changes nothing.
    Seen(Option<Box<NodeConfig>>),
    /// The answer to [`Effect::Fetch`].
    Fetched(Result<Box<Fetched>, FetchError>),
    /// The answer to [`Step::checkpoint`].
    Checkpointed(Result<(), String>),
    /// The answer to [`Effect::Activate`]: the configuration is in place and the kubelet was restarted, or why not.
    Activated(Result<(), ActivationError>),
    /// The answer to [`Effect::Probe`].
    Probed(Health),
    /// The answer to [`Effect::Report`].
    Reported(Result<(), String>),
    /// The moment that a step asked to be woken at.
    Tick,
}

/// A ConfigMap as it was downloaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Download {
    /// What was asked for, with the uid and resourceVersion that were found.
    pub source: ConfigSource,
    /// All of `data`, by key: a checkpoint holds them all, as the kubelet's did.
    pub payload: BTreeMap<String, String>,
    /// Whether the API server refuses changes of it.
    pub immutable: bool,
    /// What its annotation `nodecfg.dev/content-hash` says.
    pub content_hash: Option<String>,
    /// What its label `nodecfg.dev/pool` says.
    pub pool: Option<String>,
}

/// A download and what else is known at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The ConfigMap.
    pub download: Download,
    /// What the kubelet of this host would say of it.
    pub verdict: ConfigCheck,
    /// Health of the node before the change; unset when the API server did not answer.
    pub node: Option<NodeHealth>,
}

/// What the kubelet of this host would do with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigCheck {
    /// The kubelet accepts the configuration.
    Accepted,
    /// Its key is missing, or it cannot be decoded.
    NotLoaded {
        /// The reason in full.
        message: String,
        /// The kubelet's version.
        kubelet: Option<String>,
    },
    /// The kubelet decodes the configuration and refuses it.
    NotValid {
        /// The reason in full.
        message: String,
        /// The kubelet's version.
        kubelet: Option<String>,
    },
}

/// Why a ConfigMap was not downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchError {
    /// There is none of this name.
    Missing(String),
    /// The agent may not read it.
    Forbidden(String),
    /// The server cannot be reached, or answered with an error of its own.
    Unreachable(String),
    /// Its content is not what its annotation `nodecfg.dev/content-hash` says.
    HashDiffers(String),
}

/// Why an activation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActivationError {
    /// The configuration could not be written: the kubelet was not touched.
    NotPlaced(String),
    /// The configuration is in place. The restart could not be requested, so the configuration is not at fault.
    NotAsked(String),
    /// The configuration is in place; the kubelet could not be restarted.
    NotRestarted(String),
}

/// Health of the kubelet of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether its `/healthz` answers; otherwise why not.
    pub kubelet: Result<(), String>,
    /// Health of the node; unset when the API server was not asked or did not answer.
    pub node: Option<NodeHealth>,
}

/// How the API server sees the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeHealth {
    /// Its condition Ready.
    pub ready: bool,
    /// When its Lease was last renewed; unset when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_renewed: Option<Timestamp>,
}

/// What the agent does outside of its own folder. Each can be repeated without harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Download this ConfigMap.
    Fetch(ConfigMapSource),
    /// Put the kubelet on a configuration and restart it.
    Activate {
        /// A checkpoint; `None` is the local configuration.
        target: Option<ConfigSource>,
        /// State files to remove while the kubelet does not run. The runtime adds them when it has put the target in place.
        remove: Vec<StateFile>,
    },
    /// Check the kubelet's health, and optionally the node's.
    Probe {
        /// Whether to ask the API server too, once `/healthz` has answered. A server that does not answer within a few
        /// seconds has not said anything.
        node: bool,
    },
    /// Write the status of the NodeConfig.
    Report(Box<NodeConfigStatus>),
    /// Emit an Event on the Node.
    Announce(Announcement),
}

/// An Event on the Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// In CamelCase, as `KubeletConfigChanged`.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// Whether it is of type Warning.
    pub warning: bool,
}

/// The result of one event. The runtime saves the ledger before it carries out any of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Keep this download on disk, before anything else.
    pub checkpoint: Option<Box<Download>>,
    /// What to do, in this order.
    pub effects: Vec<Effect>,
    /// Remove the checkpoints that the ledger does not name.
    pub prune: bool,
    /// Whether the effects are carried out even if the ledger cannot be saved; a later step then saves it. It is set for
    /// rollbacks, since a kubelet that stays on a failed configuration costs the node, and for what has already happened.
    pub urgent: bool,
    /// The latest time of the next [`Event::Tick`].
    pub wake: Option<Timestamp>,
}
