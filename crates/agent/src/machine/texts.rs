//! What people read: events, error texts and reasons. The kubelet's own words where it had any
//! (`pkg/kubelet/kubeletconfig/configsync.go`, 1.21); its error texts are in [`nodecfg_contract::error_text`].

use std::time::Duration;

use super::trial::HealthProblem;
use crate::events::Announcement;
use crate::state::{AssignmentFailure, FailureKind};
use nodecfg_contract::error_text::TRIAL_PREFIX;
use nodecfg_contract::{ConfigMapSource, ConfigSource};

/// The reason of a condition that a disk stands in the way of.
pub(super) const STORAGE_FAILED: &str = "StorageFailed";

/// Follows `failed to sync: `.
pub(super) const HASH_DIFFERS: &str = "content differs from its annotation nodecfg.dev/content-hash";

/// The kubelet is about to use another configuration: its own event, word for word.
pub(super) fn changed(source: Option<&ConfigSource>) -> Announcement {
    let message = format!("Kubelet restarting to use {}", described(source));
    Announcement { reason: "KubeletConfigChanged", message, warning: false }
}

/// The kubelet goes back to what worked.
pub(super) fn rolled_back(
    from: Option<&ConfigSource>,
    to: Option<&ConfigSource>,
    why: &AssignmentFailure,
) -> Announcement {
    let (from, to) = (named(from), named(to));
    let message = format!("Kubelet restarting to go back from {from} to {to}: {}", why.message);
    Announcement { reason: "KubeletConfigRolledBack", message, warning: true }
}

/// A source as the kubelet's events describe it.
fn described(source: Option<&ConfigSource>) -> String {
    let map = source.and_then(|source| source.config_map.as_ref());
    map.map_or_else(|| "local config".to_owned(), ConfigMapSource::described)
}

/// A source in a sentence.
pub(super) fn named(source: Option<&ConfigSource>) -> String {
    source.map_or_else(|| "the local configuration".to_owned(), ConfigSource::to_string)
}

/// The reason of a condition that a failure stands in the way of.
pub(super) fn reason(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Load => "LoadFailed",
        FailureKind::Validate => "ValidationFailed",
        FailureKind::Restart => "RestartFailed",
        FailureKind::Trial => "TrialFailed",
    }
}

/// What is wrong with a kubelet, without what changes from one look to the next.
pub(super) fn ailment(ailment: &HealthProblem) -> &'static str {
    match ailment {
        HealthProblem::Healthz(_) => "its /healthz does not answer",
        HealthProblem::NotReady => "its Node is not Ready",
        HealthProblem::NoLease => "its Lease is not renewed",
    }
}

fn in_full(what: &HealthProblem) -> String {
    match what {
        HealthProblem::Healthz(reason) => format!("{}: {reason}", ailment(what)),
        _ => ailment(what).to_owned(),
    }
}

fn failed(what: &HealthProblem) -> String {
    let what = match what {
        HealthProblem::Healthz(_) => "kubelet /healthz did not answer",
        HealthProblem::NotReady => "Node was not Ready",
        HealthProblem::NoLease => "Lease was not renewed",
    };
    format!("{TRIAL_PREFIX}{what}")
}

/// A trial's error text and reason: the kubelet stopped answering again and again.
pub(super) fn crash_loop(lapses: u32, what: &HealthProblem) -> (String, String) {
    let error = format!("{TRIAL_PREFIX}kubelet stopped answering /healthz {lapses} times");
    let message = format!("the kubelet stopped answering {lapses} times during its trial; now {}", in_full(what));
    (error, message)
}

/// The same: it never was healthy.
pub(super) fn never_healthy(limit: Duration, what: &HealthProblem) -> (String, String) {
    let limit = limit.as_secs_f64();
    let error = format!("{} within {limit} s", failed(what));
    (error, format!("the kubelet was not healthy within {limit} s of its restart: {}", in_full(what)))
}

/// The same: it was healthy, and then not any more.
pub(super) fn no_longer_healthy(limit: Duration, what: &HealthProblem) -> (String, String) {
    let limit = limit.as_secs_f64();
    let error = format!("{} for {limit} s", failed(what));
    (error, format!("the kubelet was unhealthy for more than {limit} s during its trial: {}", in_full(what)))
}
