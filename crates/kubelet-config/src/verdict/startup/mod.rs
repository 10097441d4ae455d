//! The fourth stage: what the kubelet refuses when its components start, as far as the file alone tells. Each rule is a
//! row of the table of rules; the values that are allowed come from the tables too. What depends on the host is said to be
//! unknown, in `host`.
//!
//! The kubelet names the first problem and stops; this names all of them.

use super::refusals::{Check, Refusals};
use super::{Config, Refusal, Unknown};
use crate::document::{Entry, Node};
use crate::fields;
use crate::spelling::nearest;

mod cpu_manager;
mod eviction;
mod host;
pub(crate) mod memory_manager;
mod names;
mod policy_options;
mod reservations;
mod reserved_cpus;
mod single_values;
mod sysctls;
mod tls;
mod topology_manager;

#[cfg(test)]
mod examples;

const GROUPS: [&[Check]; 9] = [
    cpu_manager::CHECKS,
    eviction::CHECKS,
    memory_manager::CHECKS,
    names::CHECKS,
    reservations::CHECKS,
    single_values::CHECKS,
    sysctls::CHECKS,
    tls::CHECKS,
    topology_manager::CHECKS,
];

/// What keeps the kubelet from starting on a configuration that it validated.
pub(super) fn check(config: &Config<'_>) -> Vec<Refusal> {
    let mut refusals = Refusals::default();
    for group in GROUPS {
        refusals.run(group, config);
    }
    refusals.into_list()
}

/// What only the host can tell.
pub(super) fn unknown(config: &Config<'_>) -> Vec<Unknown> {
    host::unknown(config)
}

/// The texts of a map of texts that the file gives, by key; null is empty.
fn texts<'d>(config: &Config<'d>, path: &str) -> impl Iterator<Item = (&'d str, &'d str, &'d Entry)> + use<'d> {
    config.entries(path).filter_map(|(key, entry)| Some((key, text_of(&entry.value)?, entry)))
}

/// The texts of a list of texts that the file gives, each with its path; null is empty.
fn items<'d>(config: &Config<'d>, path: &str) -> impl Iterator<Item = (String, &'d str, &'d Node)> + use<'d> {
    let path = path.to_owned();
    let list = config.list(&path).unwrap_or_default().iter().enumerate();
    list.filter_map(move |(at, node)| Some((format!("{path}[{at}]"), text_of(node)?, node)))
}

fn text_of(node: &Node) -> Option<&str> {
    if node.is_null() { Some("") } else { node.text() }
}

/// The keys that the table of fields gives a map in this version.
fn keys<'f>(config: &Config<'_>, path: &str) -> impl Iterator<Item = &'f str> + Clone + use<'f> {
    let keys = fields::lookup(path).and_then(|field| field.keys.at(config.minor()));
    keys.into_iter().flatten().map(String::as_str)
}

/// The way out where a name is none of those that are known.
fn did_you_mean<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("known are {}", known.collect::<Vec<_>>().join(", ")),
    }
}
