//! Settings of the agent's state machine: timeouts and intervals.

use std::time::Duration;

use nodecfg_contract::Placement;

/// Timeouts and intervals of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Time that a kubelet may take to become healthy after a restart, and may be unhealthy during a trial.
    pub health_timeout: Duration,
    /// Time that a kubelet must stay healthy before its configuration becomes the last known good. The kubelet used
    /// 10 minutes.
    pub trial_period: Duration,
    /// Interval of health checks during a trial.
    pub probe_interval: Duration,
    /// Interval of reading a mutable ConfigMap again, plus up to a fifth.
    pub follow_interval: Duration,
    /// Interval of reading an immutable ConfigMap again, plus up to a fifth. Its data cannot change, but it can be
    /// deleted and created again.
    pub resync_interval: Duration,
    /// Whether a node with the startup taint joins by the pointer of its pool, and whether the agent removes the taint.
    pub joins: bool,
    /// Placement of an assignment that names none. The runtime sets it to that of its activation.
    pub default_placement: Placement,
    /// Where on the node the kubelet's log is, for messages about an error that may not be published.
    pub kubelet_log: &'static str,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            health_timeout: Duration::from_secs(60),
            trial_period: Duration::from_secs(10 * 60),
            probe_interval: Duration::from_secs(1),
            follow_interval: Duration::from_secs(60),
            resync_interval: Duration::from_secs(60 * 60),
            joins: false,
            default_placement: Placement::Replace,
            kubelet_log: "journalctl -u kubelet",
        }
    }
}
