//! Rules for resources reserved for the system: CPUs, memory by NUMA node, the kubelet's cgroups, and their enforcement
//! (`enforceNodeAllocatable` and related fields).

use std::collections::BTreeMap;

use crate::document::{Entry, Node, Reading};
use crate::finding::Place;
use crate::values::quantity::Quantity;
use crate::verdict::Config;
use crate::verdict::config::whole;
use crate::verdict::refusals::{Check, Refusals};
use crate::verdict::validate::limits::value_of;
use crate::{Minor, fields};

pub(super) const ENFORCEMENT: &[Check] = &[
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

const CPUS: &str = "reservedSystemCPUs";

pub(super) const RESERVED: &[Check] = &[
    ("reserved-system-cpus-cgroups", |config, refusals| {
        for cgroup in ["systemReservedCgroup", "kubeReservedCgroup"] {
            if !config.text(CPUS).is_empty() && !config.text(cgroup).is_empty() {
                refusals
                    .field(config, CPUS, format!("{CPUS} and {cgroup} are both set"))
                    .related_field(config, cgroup, "conflicting field")
                    .help(format!("remove {CPUS}, or remove {cgroup}"));
            }
        }
    }),
    ("reserved-system-cpus", |config, refusals| {
        let cpus = config.text(CPUS);
        if !cpus.is_empty()
            && let Err(problem) = check_cpus(cpus, config.minor() < Minor(22))
        {
            refusals
                .field(config, CPUS, format!("{CPUS} is {cpus:?}, which is not a list of CPUs: {problem}"))
                .help("write numbers and ranges without blanks, such as \"0,2-3\"");
        }
    }),
    ("reserved-memory-resource", |config, refusals| {
        for limit in limits(config) {
            if limit.resource != "memory" && !limit.resource.starts_with("hugepages-") {
                let message = format!("{} cannot be reserved for a NUMA node", limit.resource);
                refusals
                    .at(limit.field(), limit.entry.key_place.clone(), message)
                    .help("use memory, or hugepages- and a size such as hugepages-2Mi");
            }
        }
    }),
    ("reserved-memory-zero", |config, refusals| {
        for limit in limits(config).into_iter().filter(|limit| is_zero(&limit.entry.value)) {
            let message = format!("{} of NUMA node {} is zero", limit.resource, limit.node);
            refusals.at(limit.field(), limit.entry.value.place.clone(), message).help("remove the entry");
        }
    }),
    ("reserved-memory-duplicate", |config, refusals| {
        let mut seen: BTreeMap<(i128, &str), Place> = BTreeMap::new();
        for limit in limits(config) {
            let place = limit.entry.key_place.clone();
            if let Some(first) = seen.get(&(limit.node, limit.resource)) {
                let message = format!("{} of NUMA node {} is reserved twice", limit.resource, limit.node);
                refusals
                    .at(limit.field(), place, message)
                    .related(first.clone(), "first occurrence")
                    .help("give one amount for each resource of a NUMA node");
            } else {
                seen.insert((limit.node, limit.resource), place);
            }
        }
    }),
];

/// One limit of `reservedMemory`.
pub(in crate::verdict) struct Limit<'d> {
    /// The index of its entry.
    index: usize,
    node: i128,
    /// The kind of memory.
    pub(in crate::verdict) resource: &'d str,
    pub(in crate::verdict) entry: &'d Entry,
}

impl Limit<'_> {
    pub(in crate::verdict) fn field(&self) -> String {
        format!("reservedMemory[{}].limits.{}", self.index, self.resource)
    }
}

pub(in crate::verdict) fn limits<'d>(config: &Config<'d>) -> Vec<Limit<'d>> {
    let mut limits = Vec::new();
    for (index, item) in config.list("reservedMemory").unwrap_or_default().iter().enumerate() {
        let node = item.get("numaNode").and_then(whole).unwrap_or(0);
        let entries = item.get("limits").and_then(Node::mapping).into_iter().flatten();
        limits.extend(entries.map(|(resource, entry)| Limit { index, node, resource, entry }));
    }
    limits
}

/// Reports whether a quantity is zero or null. Amounts below a quantity's precision are rounded up, and are not zero.
pub(super) fn is_zero(quantity: &Node) -> bool {
    match quantity.reading() {
        Some(Reading::Null) => true,
        Some(Reading::Int(value)) => value == 0,
        Some(Reading::Float(value)) => value == 0.0,
        Some(Reading::Text(text)) => Quantity::parse(text).is_ok_and(Quantity::is_zero),
        _ => false,
    }
}

/// Checks a list as the kubelet does. With `loose`, a descending range is accepted as empty, and a part with more
/// than two ends is ignored.
///
/// # Errors
/// A clause that states the problem.
pub(super) fn check_cpus(text: &str, loose: bool) -> Result<(), String> {
    text.split(',').try_for_each(|part| {
        let ends: Vec<&str> = if loose { part.split('-').collect() } else { part.splitn(2, '-').collect() };
        match ends.as_slice() {
            [only] => cpu_number(only).map(|_| ()),
            [first, last] => {
                let (first, last) = (cpu_number(first)?, cpu_number(last)?);
                if first > last && !loose {
                    return Err(format!("the range {part} is descending"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    })
}

/// Parses a number of a CPU as `strconv.Atoi` does: decimal, with or without a sign.
fn cpu_number(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("{text:?} is not a CPU number"));
    }
    text.parse().map_err(|_| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_lists_as_old_and_new_kubelets_do() {
        for good in ["0", "0-3", "0,2-4,7", "3-3", "+1", "007"] {
            assert_eq!(check_cpus(good, false), Ok(()), "{good}");
            assert_eq!(check_cpus(good, true), Ok(()), "{good}");
        }
        for bad in ["a", "0, 1", "0-", "-1", ",", "1,", "0-x", "1_0", "0x1", "99999999999999999999", " 1", "1--2"] {
            assert!(check_cpus(bad, false).is_err(), "{bad}");
            assert_eq!(check_cpus(bad, true).is_err(), bad != "1--2", "{bad}");
        }
        for loose in ["3-0", "0-1-2", "a-b-c"] {
            assert!(check_cpus(loose, false).is_err(), "{loose}");
            assert_eq!(check_cpus(loose, true), Ok(()), "{loose}");
        }
    }
}
