//! How one pass of an agent ended (`nodecfg-agent --once`), for programs.

use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::json_document::Kind;

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPass<'a> {
    /// The node.
    pub node: &'a str,
    /// Where it is now.
    pub result: PassResult,
    /// What `status.config.error` says, when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    /// The reason in full, when there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
}

impl Kind for AgentPass<'_> {
    const KIND: &'static str = "AgentPass";
}

/// Where a node is after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum PassResult {
    /// It runs what is assigned.
    Settled,
    /// Nothing has been assigned to it; it keeps what it has.
    NoNodeConfig,
    /// It does not run what is assigned.
    Failed,
    /// It was not done in time; the next pass goes on with what was begun.
    Unfinished,
}
