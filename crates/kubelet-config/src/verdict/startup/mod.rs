//! Stage 4: the checks of components when they start, as far as the file determines their result. Each check is a row
//! of the table of rules; allowed values come from tables too. Conditions on the host are in `host`.
//!
//! The kubelet stops at the first problem; this module reports all.

use super::refusals::{Check, Refusals};
use super::{Config, HostCondition, Refusal};
use crate::document::{Entry, Node};
use crate::fields;
use crate::finding::nearest;

pub(crate) mod cpu_manager;
mod eviction;
mod host;
pub(crate) mod log_rotation;
pub(crate) mod memory_manager;
mod names;
mod periods;
mod policy_options;
mod reservations;
mod reserved_cpus;
mod runtime;
pub(crate) mod server;
mod single_values;
mod sysctls;
mod tls;
mod topology_manager;

#[cfg(test)]
mod example_files;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod recorded;

const GROUPS: [&[Check]; 14] = [
    cpu_manager::CHECKS,
    eviction::CHECKS,
    log_rotation::CHECKS,
    memory_manager::CHECKS,
    names::CHECKS,
    periods::CHECKS,
    reservations::CHECKS,
    reserved_cpus::CHECKS,
    runtime::CHECKS,
    server::CHECKS,
    single_values::CHECKS,
    sysctls::CHECKS,
    tls::CHECKS,
    topology_manager::CHECKS,
];

/// Returns the reasons why the kubelet fails to start with a valid configuration.
pub(super) fn check(config: &Config<'_>) -> Vec<Refusal> {
    let mut refusals = Refusals::default();
    for group in GROUPS {
        refusals.run(group, config);
    }
    refusals.into_list()
}

/// Returns the conditions on the host.
pub(super) fn host_conditions(config: &Config<'_>) -> Vec<HostCondition> {
    host::host_conditions(config)
}

/// Returns the entries of a map of strings in the file. Null is empty; other values that are not text are omitted.
fn texts<'d>(config: &Config<'d>, path: &str) -> impl Iterator<Item = (&'d str, &'d str, &'d Entry)> + use<'d> {
    config.entries(path).filter_map(|(key, entry)| Some((key, text_of(&entry.value)?, entry)))
}

/// Returns the items of a list of strings in the file, each with its path. Null is empty; other values that are not
/// text are omitted.
fn items<'d>(config: &Config<'d>, path: &str) -> impl Iterator<Item = (String, &'d str, &'d Node)> + use<'d> {
    let path = path.to_owned();
    let list = config.list(&path).unwrap_or_default().iter().enumerate();
    list.filter_map(move |(at, node)| Some((format!("{path}[{at}]"), text_of(node)?, node)))
}

fn text_of(node: &Node) -> Option<&str> {
    if node.is_null() { Some("") } else { node.text() }
}

/// Returns the known keys of a map in this version.
fn keys<'f>(config: &Config<'_>, path: &str) -> impl Iterator<Item = &'f str> + Clone + use<'f> {
    let keys = fields::lookup(path).and_then(|field| field.keys.at(config.minor()));
    keys.into_iter().flatten().map(String::as_str)
}

/// Returns the fix for an unknown name.
fn did_you_mean<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("remove it, or use one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}
