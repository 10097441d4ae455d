//! Rules for the kubelet's cgroups and their enforcement: `enforceNodeAllocatable` and related fields.

use super::choices::value_of;
use crate::finding::Place;
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};
use crate::{Minor, fields};

pub(super) const CHECKS: &[Check] = &[
    ("system-cgroups", |config, refusals| {
        if !config.text("systemCgroups").is_empty() && config.text("cgroupRoot").is_empty() {
            refusals
                .field(config, "systemCgroups", "systemCgroups is set, but cgroupRoot is not")
                .help("set cgroupRoot: /, the root of the hierarchy");
        }
    }),
    ("cgroups-per-qos-off", |config, refusals| {
        if !config.is("cgroupsPerQOS") && !config.enforcements().is_empty() {
            refusals
                .field(
                    config,
                    "enforceNodeAllocatable",
                    format!("enforceNodeAllocatable {}, but cgroupsPerQOS is false", list_state(config)),
                )
                .related_field(config, "cgroupsPerQOS", "enforcement requires these cgroups")
                .help("set enforceNodeAllocatable: [], or keep cgroupsPerQOS on");
        }
    }),
    ("enforce-node-allocatable-compressible", |config, refusals| {
        for reserved in ["system-reserved", "kube-reserved"] {
            let index = |name: &str| config.enforcements().iter().find(|(_, v)| *v == name).and_then(|(i, _)| *i);
            let compressible = format!("{reserved}-compressible");
            if let (Some(whole), Some(part)) = (index(reserved), index(&compressible)) {
                refusals
                    .at(
                        item(part),
                        place(config, Some(part)),
                        format!("enforceNodeAllocatable contains both {reserved} and {compressible}"),
                    )
                    .related(place(config, Some(whole)), "conflicting value")
                    .help(format!(
                        "remove {reserved} to enforce only the CPU, or remove {compressible} to enforce memory too"
                    ));
            }
        }
    }),
    ("enforce-node-allocatable-duplicate", |config, refusals| {
        let all = config.enforcements();
        for (at, (index, value)) in all.iter().enumerate() {
            let before = all.iter().take(at).find(|(_, other)| other == value);
            if let (Some(index), Some((first, _))) = (index, before) {
                refusals
                    .at(
                        item(*index),
                        place(config, Some(*index)),
                        format!("enforceNodeAllocatable contains {value:?} twice"),
                    )
                    .related(place(config, *first), "first occurrence")
                    .help("remove one of them");
            }
        }
    }),
    ("enforce-node-allocatable", |config, refusals| {
        for (index, value) in enforcements_to_check(config) {
            let field = index.map_or_else(|| "enforceNodeAllocatable".to_owned(), item);
            value_of(config, refusals, "enforceNodeAllocatable[]", &field, value, place(config, index));
        }
    }),
    ("enforce-node-allocatable-none", |config, refusals| {
        for (index, _) in enforcements_to_check(config).filter(|(_, value)| *value == "none") {
            if let Some(index) = index
                && config.enforcements().len() > 1
            {
                refusals
                    .at(
                        item(index),
                        place(config, Some(index)),
                        "enforceNodeAllocatable contains none and other values",
                    )
                    .help("remove none, or all other values");
            }
        }
    }),
    ("system-reserved-cgroup", |config, refusals| {
        require_cgroup(config, refusals, "system-reserved", "systemReservedCgroup")
    }),
    ("kube-reserved-cgroup", |config, refusals| {
        require_cgroup(config, refusals, "kube-reserved", "kubeReservedCgroup")
    }),
    ("cgroups-per-qos", |config, refusals| {
        let first = enforcements_to_check(config).find(|(_, value)| *value != "none" && is_known(config, value));
        if let Some((index, value)) = first
            && !config.is("cgroupsPerQOS")
        {
            refusals
                .field(
                    config,
                    "cgroupsPerQOS",
                    format!("cgroupsPerQOS is false, but enforceNodeAllocatable {} {value}", contains_phrase(index)),
                )
                .related(place(config, index), "enforcement requires these cgroups")
                .help("set enforceNodeAllocatable: [none], or keep cgroupsPerQOS on");
        }
    }),
];

/// Refuses the enforcement of a reservation without its cgroup.
fn require_cgroup(config: &Config<'_>, refusals: &mut Refusals, reserved: &str, cgroup: &str) {
    let compressible = |value: &str| value.strip_suffix("-compressible") == Some(reserved) && is_known(config, value);
    let enforced = enforcements_to_check(config).find(|(_, value)| *value == reserved || compressible(value));
    if let Some((index, value)) = enforced
        && config.text(cgroup).is_empty()
    {
        refusals
            .at(
                cgroup,
                place(config, index),
                format!("enforceNodeAllocatable contains {value}, but {cgroup} is not set"),
            )
            .help(format!("set {cgroup}, or remove {value}"));
    }
}

/// Returns the enforcements. Since 1.31 duplicates are omitted, because they have a separate rule.
fn enforcements_to_check<'c>(config: &'c Config<'_>) -> impl Iterator<Item = (Option<usize>, &'c str)> {
    let all = config.enforcements();
    let once = config.minor() >= Minor(31);
    let kept: Vec<_> = all
        .iter()
        .enumerate()
        .filter(|(at, (_, value))| !(once && all.iter().take(*at).any(|(_, other)| other == value)))
        .map(|(_, entry)| *entry)
        .collect();
    kept.into_iter()
}

fn is_known(config: &Config<'_>, value: &str) -> bool {
    let allowed = fields::lookup("enforceNodeAllocatable[]").and_then(|field| field.allowed.at(config.minor()));
    allowed.is_some_and(|allowed| allowed.iter().any(|name| name == value))
}

fn item(index: usize) -> String {
    format!("enforceNodeAllocatable[{index}]")
}

fn place(config: &Config<'_>, index: Option<usize>) -> Place {
    let item = index.and_then(|index| config.list("enforceNodeAllocatable")?.get(index));
    item.map_or_else(|| config.place("enforceNodeAllocatable"), |item| item.place.clone())
}

fn contains_phrase(index: Option<usize>) -> &'static str {
    if index.is_some() { "contains" } else { "is unset, which means" }
}

fn list_state(config: &Config<'_>) -> &'static str {
    if config.list("enforceNodeAllocatable").is_some() { "is not empty" } else { "is unset, which means pods" }
}
