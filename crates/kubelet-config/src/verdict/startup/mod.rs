//! Stage 4: the checks of components when they start, as far as the file determines their result. Each check is a row
//! of the table of rules; allowed values come from tables too. Conditions on the host are in `host`.
//!
//! The kubelet stops at the first problem; this module reports all.

use super::refusals::{Check, Refusals};
use super::{Config, Refusal, sysctls};
use crate::fields;
use crate::finding::nearest;

pub(crate) mod cpu_manager;
mod eviction;
mod host;
pub(crate) mod log_rotation;
pub(crate) mod memory_manager;
mod policy_options;
mod reservations;
pub(crate) mod server;
mod single_values;

#[cfg(test)]
mod example_files;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod recorded;

pub(super) use host::host_conditions;

const GROUPS: [&[Check]; 14] = [
    cpu_manager::CPU,
    eviction::CHECKS,
    log_rotation::CHECKS,
    memory_manager::CHECKS,
    single_values::NAMES,
    single_values::PERIODS,
    reservations::AMOUNTS,
    reservations::CPUS,
    server::RUNTIME,
    server::SERVER,
    single_values::OTHERS,
    sysctls::UNSAFE,
    server::TLS,
    cpu_manager::TOPOLOGY,
];

/// Returns the reasons why the kubelet fails to start with a valid configuration.
pub(super) fn check(config: &Config<'_>) -> Vec<Refusal> {
    let mut refusals = Refusals::default();
    for group in GROUPS {
        refusals.run(group, config);
    }
    refusals.into_list()
}

/// Returns the known keys of a map in this version.
fn keys<'f>(config: &Config<'_>, path: &str) -> impl Iterator<Item = &'f str> + Clone + use<'f> {
    let keys = fields::lookup(path).and_then(|field| field.keys.at(config.minor()));
    keys.into_iter().flatten().map(String::as_str)
}

/// Reports whether a key of a map is known in this version.
fn is_known(config: &Config<'_>, path: &str, key: &str) -> bool {
    keys(config, path).any(|known| known == key)
}

/// Returns the fix for an unknown name.
fn did_you_mean<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("remove it, or use one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}
