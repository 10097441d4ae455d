//! Last signs of activity of a node's kubelet and agent. `doctor` uses them; planning does not.

use jiff::Timestamp;

use nodecfg_contract::nodeconfig::ReportingAgent;

/// Last activity of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeActivity {
    /// Time when the kubelet last wrote its Ready condition, by the kubelet's clock.
    pub heartbeat: Option<Timestamp>,
    /// Identity that the agent reports, if any.
    pub agent: Option<AgentActivity>,
}

/// Identity and last activity of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentActivity {
    /// Version of nodecfg that runs as agent.
    pub version: String,
    /// Time when the agent last wrote its status, by its own clock; `None` if unreadable.
    pub last_seen: Option<Timestamp>,
}

impl From<&ReportingAgent> for AgentActivity {
    fn from(agent: &ReportingAgent) -> Self {
        Self { version: agent.version.clone(), last_seen: agent.heard_at.parse().ok() }
    }
}
