//! Texts about the kubelet: Event messages, error texts and condition reasons. Where the kubelet had a text, it is
//! copied from the kubelet (`pkg/kubelet/kubeletconfig/configsync.go`, 1.21). The kubelet's error texts are in
//! [`nodecfg_contract::error_text`].

use std::time::Duration;

use crate::events::Announcement;
use crate::host::problem::{HealthzError, RestartProblems};
use crate::ledger::{AssignmentFailure, FailureKind};
use kubelet_config::risk::StateFile;
use kubelet_config::startup_error::StartupError;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::error_text::{GOOD_FAILS_TOO, RESTART, TRIAL_PREFIX};

/// Condition reason for disk errors.
pub(super) const STORAGE_FAILED: &str = "StorageFailed";

/// Error text after the prefix `failed to sync: `.
pub(super) const OTHER_CONTENT: &str = "the content of the ConfigMap does not match spec.contentHash";

/// Problem of a Node with the startup taint that names no pool.
pub(super) const POOL_LABEL_MISSING: &str =
    "the node does not join: its Node has the startup taint and no label nodecfg.dev/pool";

/// Event after the agent created its NodeConfig.
pub(super) fn joined(source: Option<&ConfigSource>) -> Announcement {
    let message = format!("The agent created the NodeConfig of this node with {}", named(source));
    Announcement { reason: "NodeConfigCreated", message, warning: false }
}

/// Problem of a node that cannot join.
pub(super) fn not_joined(why: &str) -> String {
    format!("the node does not join: {why}")
}

/// Problem of an agent that may not remove the startup taint.
pub(super) fn taint_refused(why: &str) -> String {
    format!("the startup taint stays: {why}")
}

/// Event about a problem of joining.
pub(super) fn join_problem(problem: &str) -> Announcement {
    Announcement { reason: "NodeConfigJoinFailed", message: problem.to_owned(), warning: true }
}

/// Event before the kubelet uses another configuration; copied from the kubelet.
pub(super) fn changed(source: Option<&ConfigSource>) -> Announcement {
    let message = format!("Kubelet restarting to use {}", kubelet_path(source));
    Announcement { reason: "KubeletConfigChanged", message, warning: false }
}

/// Event about an assignment that the kubelet would refuse.
pub(super) fn refused(source: &ConfigSource, why: &AssignmentFailure) -> Announcement {
    let message = format!("The agent does not use {}: {}", named(Some(source)), why.message);
    Announcement { reason: "KubeletConfigRefused", message, warning: true }
}

/// Event before a rollback.
pub(super) fn rolled_back(
    from: Option<&ConfigSource>,
    to: Option<&ConfigSource>,
    why: &AssignmentFailure,
) -> Announcement {
    let (from, to) = (named(from), named(to));
    let message = format!("Kubelet restarting to roll back from {from} to {to}: {}", why.message);
    Announcement { reason: "KubeletConfigRolledBack", message, warning: true }
}

/// Path of a source, as the kubelet's events show it.
fn kubelet_path(source: Option<&ConfigSource>) -> String {
    let map = source.and_then(|source| source.config_map.as_ref());
    map.map_or_else(|| "local config".to_owned(), |map| map.described())
}

/// Name of a source within a sentence.
pub(super) fn named(source: Option<&ConfigSource>) -> String {
    source.map_or_else(|| "the local configuration".to_owned(), ConfigSource::to_string)
}

/// Condition reason for a failure.
pub(super) fn reason(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Load => "LoadFailed",
        FailureKind::Validate => "ValidationFailed",
        FailureKind::Restart => "RestartFailed",
        FailureKind::Trial => "TrialFailed",
    }
}

/// Reason why a kubelet is not healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HealthProblem {
    /// `/healthz` does not answer, or answers with an error.
    Healthz(HealthzError),
    /// The Node was Ready before the restart and is not Ready now.
    NotReady,
    /// The Lease existed before the restart and was not renewed since.
    NoLease,
}

/// Health problem without details that change from probe to probe.
pub(super) fn health_problem(problem: &HealthProblem) -> &'static str {
    match problem {
        HealthProblem::Healthz(_) => "its /healthz does not answer",
        HealthProblem::NotReady => "its Node is not Ready",
        HealthProblem::NoLease => "its Lease is not renewed",
    }
}

fn with_reason(what: &HealthProblem) -> String {
    match what {
        HealthProblem::Healthz(reason) => format!("{}: {reason}", health_problem(what)),
        _ => health_problem(what).to_owned(),
    }
}

fn trial_error(what: &HealthProblem) -> String {
    let what = match what {
        HealthProblem::Healthz(_) => "kubelet /healthz did not answer",
        HealthProblem::NotReady => "Node was not Ready",
        HealthProblem::NoLease => "Lease was not renewed",
    };
    format!("{TRIAL_PREFIX}{what}")
}

/// Error text and reason of a trial in which the kubelet exited repeatedly.
pub(super) fn exited(times: u32) -> (String, String) {
    (
        format!("{TRIAL_PREFIX}kubelet exited {times} times"),
        format!("the kubelet exited {times} times during its trial"),
    )
}

/// Error text and reason of a restart that failed.
pub(super) fn not_restarted(why: &RestartProblems, last_error: Option<&StartupError>) -> (String, String) {
    with_last_error((RESTART.to_owned(), format!("the kubelet could not be restarted: {why}")), last_error)
}

/// Error text and reason of a failure, with the kubelet's last error.
pub(super) fn with_last_error(
    (error, message): (String, String),
    last_error: Option<&StartupError>,
) -> (String, String) {
    let Some(last) = last_error else { return (error, message) };
    let cause = last.state_file().map(|file| format!("; the cause is the state file {file}"));
    (format!("{error}: {last}"), format!("{message}; its last error: {last}{}", cause.unwrap_or_default()))
}

/// Fix for a kubelet that does not start with its state file.
pub(super) fn state_file_fix(file: StateFile) -> String {
    format!(
        "the cause is the state file {file}, and the agent does not restart the kubelet again: drain the node, stop the \
         kubelet, delete the file, and start the kubelet"
    )
}

/// Error text of a last known good that is assigned and does not start.
pub(super) fn not_started(last_error: &StartupError) -> String {
    format!("{TRIAL_PREFIX}kubelet does not start: {last_error}")
}

/// Text after the error of an assignment whose last known good is not healthy either.
pub(super) fn good_fails_too(state_file: Option<StateFile>) -> String {
    let cause = state_file.map(|file| format!(": the cause is the state file {file}"));
    GOOD_FAILS_TOO.to_owned() + &cause.unwrap_or_default()
}

/// Error text and reason of a trial in which the kubelet repeatedly stopped answering.
pub(super) fn crash_loop(interruptions: u32, what: &HealthProblem) -> (String, String) {
    let error = format!("{TRIAL_PREFIX}kubelet stopped answering /healthz {interruptions} times");
    let message =
        format!("the kubelet stopped answering {interruptions} times during its trial; now {}", with_reason(what));
    (error, message)
}

/// Error text and reason of a trial in which the kubelet never became healthy.
pub(super) fn never_healthy(limit: Duration, what: &HealthProblem) -> (String, String) {
    let limit = limit.as_secs_f64();
    let error = format!("{} within {limit} s", trial_error(what));
    (error, format!("the kubelet was not healthy within {limit} s of its restart: {}", with_reason(what)))
}

/// Error text and reason of a trial in which the kubelet became unhealthy.
pub(super) fn no_longer_healthy(limit: Duration, what: &HealthProblem) -> (String, String) {
    let limit = limit.as_secs_f64();
    let error = format!("{} for {limit} s", trial_error(what));
    (error, format!("the kubelet was unhealthy for more than {limit} s during its trial: {}", with_reason(what)))
}
