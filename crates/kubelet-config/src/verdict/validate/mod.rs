//! Stage 3: the rules of `ValidateKubeletConfiguration`, as on a Linux host with cgroup v2. Each rule is a row of the
//! table of rules, which lists its versions. Ranges and allowed values come from the table of fields. Conditions on
//! the host are in `host`.

use super::refusals::{Check, Refusals};
use super::{Config, Refusal};
use crate::Minor;

mod allocatable;
pub(super) mod choices;
mod cpuset;
pub(super) mod durations;
pub(super) mod endpoint;
pub(super) mod host;
mod image_names;
mod images;
mod logging;
mod memory;
mod nodes;
pub(super) mod numbers;
mod paths;
mod pods;
mod reserved;
mod server;
mod shutdown;
mod sysctls;
mod tracing;

#[cfg(test)]
mod tests;

/// The first minor that sets up logging before validation. If `logging` is invalid, such a kubelet reports nothing
/// else (`cmd/kubelet/app/server.go`, `NewKubeletCommand`).
const LOGGING_FIRST: Minor = Minor(25);

const GROUPS: [&[Check]; 15] = [
    numbers::CHECKS,
    durations::CHECKS,
    choices::CHECKS,
    allocatable::CHECKS,
    images::CHECKS,
    memory::CHECKS,
    nodes::CHECKS,
    paths::CHECKS,
    pods::CHECKS,
    reserved::CHECKS,
    server::CHECKS,
    shutdown::CHECKS,
    sysctls::CHECKS,
    tracing::CHECKS,
    logging::CHECKS,
];

/// Returns the refusals of a kubelet of the configuration's version.
pub(super) fn check(config: &Config<'_>) -> Vec<Refusal> {
    if config.minor() >= LOGGING_FIRST {
        let mut refusals = Refusals::default();
        refusals.run(logging::CHECKS, config);
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
