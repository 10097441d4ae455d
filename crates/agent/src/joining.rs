//! Requests of a node that joins, and their answers. The agent creates the NodeConfig of its own node if
//! `nodecfg-agent boot` has placed the configuration, or if the Node has the startup taint. It removes that taint once
//! the configuration is in place. `machine/join.rs` decides.

use nodecfg_contract::Placement;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigSpec};
use nodecfg_contract::{ConfigSource, ContentHash};

/// Request of a node that joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinRequest {
    /// Read the node's own Node.
    ReadNode,
    /// Read the pointer of the pool with this name. The name is the value of a label and may be invalid.
    ReadPointer(String),
    /// Create the NodeConfig of the node.
    Create {
        /// Uid of the Node, which owns the NodeConfig.
        node_uid: String,
        /// Its spec. The ConfigMap is named without uid and resourceVersion.
        spec: Box<NodeConfigSpec>,
    },
    /// Remove the startup taint from the Node with this uid.
    RemoveTaint(String),
}

/// Answer to a [`JoinRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinAnswer {
    /// The Node.
    Node(Result<OwnNode, JoinError>),
    /// Configuration that the pointer names. `None`: new nodes run their local configuration.
    Pointer(Result<Option<JoinConfig>, JoinError>),
    /// The NodeConfig as created. `None` if one exists already.
    Created(Result<Option<Box<NodeConfig>>, JoinError>),
    /// The taint is removed, or was missing.
    TaintRemoved(Result<(), JoinError>),
}

/// The parts of the node's own Node that joining needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnNode {
    /// Uid of the Node, which owns the NodeConfig.
    pub uid: String,
    /// Value of the label `nodecfg.dev/pool`.
    pub pool: Option<String>,
    /// Whether the Node has the startup taint.
    pub tainted: bool,
}

/// Configuration of a node that joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinConfig {
    /// The ConfigMap, without uid and resourceVersion.
    pub source: ConfigSource,
    /// Hash of its content.
    pub hash: ContentHash,
    /// Placement that the pointer names, if any.
    pub placement: Option<Placement>,
}

/// Reason why a request of a node that joins failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinError {
    /// The server is unreachable, or the object changed meanwhile. Retrying may help soon.
    Failed(String),
    /// The agent has no right to do this, or an admission policy refuses it. Retrying helps only after a change of the
    /// installation.
    Refused(String),
    /// The pointer is missing, or is no valid pointer of the pool.
    NoPointer(String),
}
