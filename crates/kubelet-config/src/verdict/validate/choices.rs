//! Rules for texts that must be one of the values in the table of fields.

use crate::fields;
use crate::finding::{Place, nearest};
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

pub(super) const CHECKS: &[Check] = &[
    ("topology-manager-policy", |config, refusals| one_of(config, refusals, "topologyManagerPolicy")),
    ("topology-manager-scope", |config, refusals| one_of(config, refusals, "topologyManagerScope")),
    ("topology-manager-policy-gate", |config, refusals| {
        topology_gate(config, refusals, "topologyManagerPolicy", "none")
    }),
    ("topology-manager-scope-gate", |config, refusals| {
        topology_gate(config, refusals, "topologyManagerScope", "container")
    }),
    ("hairpin-mode", |config, refusals| one_of(config, refusals, "hairpinMode")),
    ("memory-reservation-policy", |config, refusals| one_of(config, refusals, "memoryReservationPolicy")),
];

/// Refuses every value except the one without effect if the topology manager is off.
fn topology_gate(config: &Config<'_>, refusals: &mut Refusals, path: &str, idle: &str) {
    const GATE: &str = "TopologyManager";
    let value = config.text(path);
    if value != idle && !config.gate(GATE) {
        refusals
            .field(config, path, format!("{path} is {value}, but the feature gate {GATE} is off"))
            .help(format!("keep featureGates.{GATE} on, or set the field to {idle}"));
    }
}

/// Refuses a field whose value its version does not allow.
pub(in crate::verdict) fn one_of(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    value_of(config, refusals, path, path, config.text(path), config.place(path));
}

/// Refuses a value at `field` that its version does not allow for the table's field `path`. Reports whether the value
/// is allowed.
pub(super) fn value_of(
    config: &Config<'_>,
    refusals: &mut Refusals,
    path: &str,
    field: &str,
    value: &str,
    place: Place,
) -> bool {
    let allowed = fields::lookup(path).and_then(|field| field.allowed.at(config.minor()));
    let allowed = allowed.map(Vec::as_slice).unwrap_or_default();
    if allowed.iter().any(|name| name == value) {
        return true;
    }
    let help = match nearest(value, allowed.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("use one of {}; case matters", allowed.join(", ")),
    };
    refusals.at(field, place, format!("{field} is {value:?}; it must be {}", alternatives(allowed))).help(help);
    false
}

/// Formats a list of names as `a, b or c`.
fn alternatives(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
