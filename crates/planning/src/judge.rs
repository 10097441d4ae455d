//! Decides whether a node has converged: the only definition of *converged* in nodecfg.
//!
//! [`judge`] compares what a node reports with what it should run. `sync`, `verify`, `status`, planning and the sandbox's tests
//! use it. It is a pure function: the caller passes the elapsed wait time.
//!
//! Behaviour of a kubelet 1.21, observed in recordings:
//! - Status lags the assignment by 5 to 15 s and shows the *old* assignment until then, old error included. An error
//!   counts against an assignment only once `status.config.assigned` names that assignment.
//! - `failed to sync: …` is reported while `assigned` still names the previous configuration. The kubelet retries it, so it
//!   counts as waiting.
//! - After a reset, `status.config` becomes empty.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use nodecfg_contract::observed::{Node, Readiness};
use nodecfg_contract::{ConfigSource, error_text};

/// The configuration that a node should run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// The local configuration: no `configSource`.
    Local,
    /// The configuration that this source names.
    Source(ConfigSource),
}

impl Target {
    /// What `spec.configSource` must be for this target.
    #[must_use]
    pub fn source(&self) -> Option<&ConfigSource> {
        match self {
            Self::Local => None,
            Self::Source(source) => Some(source),
        }
    }

    /// Whether a node's `spec.configSource` asks for this target.
    #[must_use]
    pub fn is_named_by(&self, spec: Option<&ConfigSource>) -> bool {
        match (self, spec) {
            (Self::Local, None) => true,
            (Self::Source(target), Some(source)) => target.names_same(source),
            _ => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local configuration"),
            Self::Source(source) => source.fmt(f),
        }
    }
}

/// The progress of a node towards its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "state", content = "reason")]
#[schemars(rename = "Verdict")]
pub enum Convergence {
    /// It runs its target, and says so.
    Converged,
    /// It may still get there by itself.
    Waiting(Waiting),
    /// It will not get there without help.
    Failed(Failure),
}

/// Why a node has not converged yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Waiting {
    /// `spec.configSource` asks for something else.
    NotAssigned,
    /// `status.config` still shows the assignment before this one.
    NotAcknowledged,
    /// The node cannot fetch its assignment and goes on trying.
    Syncing {
        /// The kubelet's own text, prefix removed.
        error: String,
    },
    /// The assignment was taken; the kubelet does not run it yet.
    Activating,
    /// The kubelet runs it; the Node, Ready before, is not Ready yet.
    NotReady,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAssigned => f.write_str("not assigned"),
            Self::NotAcknowledged => f.write_str("not acknowledged yet"),
            Self::Syncing { error } => write!(f, "failed to sync, retrying: {error}"),
            Self::Activating => f.write_str("assigned, not active yet"),
            Self::NotReady => f.write_str("active, Node not Ready yet"),
        }
    }
}

/// Why a node will not converge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Failure {
    /// The node took the assignment and reports this error against it.
    Refused {
        /// The kubelet's own text.
        error: String,
    },
    /// It was waited for as long as the pool allows.
    TimedOut {
        /// What it was still waited for.
        waiting: Waiting,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { error } => f.write_str(error),
            Self::TimedOut { waiting } => write!(f, "timed out: {waiting}"),
        }
    }
}

/// What the judgement depends on besides the node itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitContext {
    /// Whether the Node was Ready before it was assigned: only then must it be Ready again.
    pub was_ready: bool,
    /// How long it has been waited for.
    pub waited: Duration,
    /// How long it may take. `None`: as long as it likes, the verdict is never [`Failure::TimedOut`].
    pub timeout: Option<Duration>,
}

impl WaitContext {
    /// Judges the present state alone: no time limit, readiness not asked for.
    pub const STATE_ONLY: Self = Self { was_ready: false, waited: Duration::ZERO, timeout: None };
}

/// Says how far `node` is on its way to `target`.
#[must_use]
pub fn judge(target: &Target, node: &Node, patience: WaitContext) -> Convergence {
    let waiting = match config_state(target, node) {
        Convergence::Converged if patience.was_ready && node.ready != Readiness::Ready => Waiting::NotReady,
        Convergence::Waiting(waiting) => waiting,
        settled => return settled,
    };
    match patience.timeout {
        Some(timeout) if patience.waited >= timeout => Convergence::Failed(Failure::TimedOut { waiting }),
        _ => Convergence::Waiting(waiting),
    }
}

/// The verdict on the configuration alone: without readiness, without time.
fn config_state(target: &Target, node: &Node) -> Convergence {
    if !target.is_named_by(node.source.as_ref()) {
        return Convergence::Waiting(Waiting::NotAssigned);
    }
    let status = &node.status;
    if let Some(error) = status.error().and_then(|error| error.strip_prefix(error_text::SYNC_PREFIX)) {
        return Convergence::Waiting(Waiting::Syncing { error: error.to_owned() });
    }
    if !target.is_named_by(status.assigned.as_ref()) {
        // Whatever error is shown belongs to the assignment before this one.
        return Convergence::Waiting(Waiting::NotAcknowledged);
    }
    if let Some(error) = status.error() {
        return match target {
            Target::Source(_) => Convergence::Failed(Failure::Refused { error: error.to_owned() }),
            // With nothing assigned there is nothing that the error could be about but the time before.
            Target::Local => Convergence::Waiting(Waiting::NotAcknowledged),
        };
    }
    // Uid and resourceVersion are compared too, so that the content that runs is the content that was assigned.
    if status.active == status.assigned { Convergence::Converged } else { Convergence::Waiting(Waiting::Activating) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::ConfigStatus;
    use nodecfg_contract::names::NodeName;

    fn spec(name: &str) -> ConfigSource {
        ConfigSource::config_map("kube-system", name, "kubelet")
    }

    /// As status names it: with uid and version.
    fn taken(name: &str, version: &str) -> ConfigSource {
        let mut source = spec(name);
        if let Some(map) = &mut source.config_map {
            map.uid = Some(format!("uid-of-{name}"));
            map.resource_version = Some(version.to_owned());
        }
        source
    }

    fn node(source: Option<ConfigSource>, status: ConfigStatus) -> Node {
        Node { source, status, ..Node::named(NodeName::new("n1").unwrap()) }
    }

    fn status(assigned: Option<&str>, active: Option<&str>, error: Option<&str>) -> ConfigStatus {
        ConfigStatus {
            assigned: assigned.map(|name| taken(name, "1")),
            active: active.map(|name| taken(name, "1")),
            last_known_good: None,
            error: error.map(str::to_owned),
        }
    }

    fn verdict(target: &str, status: ConfigStatus) -> Convergence {
        judge(&Target::Source(spec(target)), &node(Some(spec(target)), status), WaitContext::STATE_ONLY)
    }

    const REFUSED: &str = error_text::VALIDATE;

    #[test]
    fn converged_means_assigned_active_and_no_error() {
        assert_eq!(verdict("b", status(Some("b"), Some("b"), None)), Convergence::Converged);
        assert_eq!(verdict("b", status(Some("b"), Some("b"), Some(""))), Convergence::Converged);
        assert_eq!(verdict("b", status(Some("b"), Some("a"), None)), Convergence::Waiting(Waiting::Activating));
        assert_eq!(verdict("b", status(Some("b"), None, None)), Convergence::Waiting(Waiting::Activating));
    }

    #[test]
    fn an_older_version_of_the_same_config_map_is_not_active() {
        let mut observed = status(Some("b"), Some("b"), None);
        observed.active = Some(taken("b", "0"));
        assert_eq!(verdict("b", observed), Convergence::Waiting(Waiting::Activating));
    }

    #[test]
    fn the_old_assignments_error_does_not_fail_the_new_one() {
        assert_eq!(
            verdict("b", status(Some("a"), None, Some(REFUSED))),
            Convergence::Waiting(Waiting::NotAcknowledged)
        );
        assert_eq!(verdict("b", status(None, None, None)), Convergence::Waiting(Waiting::NotAcknowledged));
    }

    #[test]
    fn an_error_counts_once_assigned_names_the_target() {
        assert_eq!(
            verdict("b", status(Some("b"), Some("a"), Some(REFUSED))),
            Convergence::Failed(Failure::Refused { error: REFUSED.to_owned() })
        );
    }

    #[test]
    fn failed_to_sync_is_waited_for_whatever_is_assigned() {
        let error = format!("{}{}", error_text::SYNC_PREFIX, error_text::DOWNLOAD);
        for assigned in [None, Some("a"), Some("b")] {
            assert_eq!(
                verdict("b", status(assigned, assigned, Some(&error))),
                Convergence::Waiting(Waiting::Syncing { error: error_text::DOWNLOAD.to_owned() })
            );
        }
    }

    #[test]
    fn waiting_ends_with_the_timeout_and_says_for_what() {
        let target = Target::Source(spec("b"));
        let observed = node(Some(spec("b")), ConfigStatus::default());
        let patience = |seconds| WaitContext {
            was_ready: true,
            waited: Duration::from_secs(seconds),
            timeout: Some(Duration::from_secs(10)),
        };
        assert_eq!(judge(&target, &observed, patience(9)), Convergence::Waiting(Waiting::NotAcknowledged));
        assert_eq!(
            judge(&target, &observed, patience(10)),
            Convergence::Failed(Failure::TimedOut { waiting: Waiting::NotAcknowledged })
        );
    }

    #[test]
    fn a_node_that_was_ready_must_be_ready_again() {
        let target = Target::Source(spec("b"));
        let mut observed = node(Some(spec("b")), status(Some("b"), Some("b"), None));
        observed.ready = Readiness::NotReady;
        let patience = |was_ready| WaitContext { was_ready, ..WaitContext::STATE_ONLY };
        assert_eq!(judge(&target, &observed, patience(true)), Convergence::Waiting(Waiting::NotReady));
        assert_eq!(judge(&target, &observed, patience(false)), Convergence::Converged);
        observed.ready = Readiness::Ready;
        assert_eq!(judge(&target, &observed, patience(true)), Convergence::Converged);
    }

    #[test]
    fn local_is_converged_when_status_is_empty() {
        let local = |observed: ConfigStatus| judge(&Target::Local, &node(None, observed), WaitContext::STATE_ONLY);
        assert_eq!(local(ConfigStatus::default()), Convergence::Converged);
        assert_eq!(local(status(Some("a"), Some("a"), None)), Convergence::Waiting(Waiting::NotAcknowledged));
        assert_eq!(local(status(None, Some("a"), None)), Convergence::Waiting(Waiting::Activating));
        assert_eq!(local(status(None, None, Some(REFUSED))), Convergence::Waiting(Waiting::NotAcknowledged));
    }

    #[test]
    fn a_spec_that_names_something_else_is_not_assigned() {
        let observed = node(Some(spec("a")), status(Some("b"), Some("b"), None));
        assert_eq!(
            judge(&Target::Source(spec("b")), &observed, WaitContext::STATE_ONLY),
            Convergence::Waiting(Waiting::NotAssigned)
        );
        assert_eq!(
            judge(&Target::Local, &observed, WaitContext::STATE_ONLY),
            Convergence::Waiting(Waiting::NotAssigned)
        );
    }
}
