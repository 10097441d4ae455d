//! Stage 3: the rules of `ValidateKubeletConfiguration`, as on a Linux host with cgroup v2. Each rule is a row of the
//! table of rules, which lists its versions. Ranges and allowed values come from the table of fields. Conditions on
//! the host are in `startup/host.rs`.

use super::refusals::{Check, Refusals};
use super::{Config, Refusal, sysctls};
use crate::Minor;

mod endpoint;
mod image_names;
mod images;
pub(super) mod limits;
mod node;
pub(super) mod only_flags;
mod pods;
pub(super) mod reservations;
mod telemetry;

pub(super) use endpoint::scheme;

#[cfg(test)]
mod tests;

/// The first minor that sets up logging before validation. If `logging` is invalid, such a kubelet reports nothing
/// else (`cmd/kubelet/app/server.go`, `NewKubeletCommand`).
const LOGGING_FIRST: Minor = Minor(25);

const GROUPS: [&[Check]; 15] = [
    limits::NUMBERS,
    limits::DURATIONS,
    limits::TEXTS,
    reservations::ENFORCEMENT,
    images::CHECKS,
    pods::MEMORY,
    node::TAINTS,
    node::DIRECTORIES,
    pods::RESTARTS,
    reservations::RESERVED,
    node::SERVER,
    node::SHUTDOWN,
    sysctls::DEFAULTS_OF_PODS,
    telemetry::TRACES,
    telemetry::LOGS,
];

/// Returns the refusals of a kubelet of the configuration's version.
pub(super) fn check(config: &Config<'_>) -> Vec<Refusal> {
    if config.minor() >= LOGGING_FIRST {
        let mut refusals = Refusals::default();
        refusals.run(telemetry::LOGS, config);
        if !refusals.is_empty() {
            return refusals.into_list();
        }
    }
    all(config)
}

/// Returns all refusals, including those that a kubelet does not reach.
pub(super) fn all(config: &Config<'_>) -> Vec<Refusal> {
    let mut refusals = Refusals::default();
    for group in GROUPS {
        refusals.run(group, config);
    }
    refusals.into_list()
}
