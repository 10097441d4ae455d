//! JSON document of `nodecfg-agent --once`.

use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::json_document::Kind;

/// Result of `--once`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPass<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// State of the node.
    pub result: PassResult,
    /// Value of `status.config.error` after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    /// Reason in full, if it adds information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
}

impl Kind for AgentPass<'_> {
    const KIND: &'static str = "AgentPass";
}

/// State of a node after `--once`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum PassResult {
    /// The node runs the assignment.
    Settled,
    /// The node has no NodeConfig and keeps its configuration.
    NoNodeConfig,
    /// There is no Node of this name.
    NoNode,
    /// The node does not run the assignment.
    Failed,
    /// The time limit ended; the next run continues.
    Unfinished,
}
