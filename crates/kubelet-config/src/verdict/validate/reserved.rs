//! Rules for resources reserved for the system: CPUs, and memory by NUMA node.

use std::collections::BTreeMap;

use super::cpuset;
use crate::Minor;
use crate::document::{Entry, Node, Reading};
use crate::finding::Place;
use crate::values::quantity::Quantity;
use crate::verdict::Config;
use crate::verdict::config::whole;
use crate::verdict::refusals::Check;

const CPUS: &str = "reservedSystemCPUs";

pub(super) const CHECKS: &[Check] = &[
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
            && let Err(problem) = cpuset::check(cpus, config.minor() < Minor(22))
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

/// One entry of `reservedMemory`.
struct Limit<'d> {
    index: usize,
    node: i128,
    resource: &'d str,
    entry: &'d Entry,
}

impl Limit<'_> {
    fn field(&self) -> String {
        format!("reservedMemory[{}].limits.{}", self.index, self.resource)
    }
}

fn limits<'d>(config: &Config<'d>) -> Vec<Limit<'d>> {
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
