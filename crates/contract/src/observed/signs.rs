//! Signs of life of a node, which planning has no use for and a check-up has.

use jiff::Timestamp;

use crate::nodeconfig::ReportingAgent;

/// What was last heard of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signs {
    /// When its kubelet last wrote its Ready condition, by the kubelet's clock.
    pub heartbeat: Option<Timestamp>,
    /// What its agent says it is; unset where none reports that says so.
    pub agent: Option<AgentSign>,
}

/// What an agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSign {
    /// The version of nodecfg that it is.
    pub version: String,
    /// When it last wrote its status, by its own clock; unset when that cannot be read.
    pub heard: Option<Timestamp>,
}

impl From<&ReportingAgent> for AgentSign {
    fn from(agent: &ReportingAgent) -> Self {
        Self { version: agent.version.clone(), heard: agent.heard_at.parse().ok() }
    }
}
