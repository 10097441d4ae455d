//! Resources reserved for the system: `cmd/kubelet/app/server.go` `parseResourceList`,
//! `pkg/kubelet/cm/container_manager.go` `ParseQOSReserved`, their enforcement
//! (`pkg/kubelet/cm/node_container_manager_linux.go` `enforceExistingCgroup`), and the CPUs in `reservedSystemCPUs`
//! (`k8s.io/utils/cpuset` `Parse`, until 1.21 `pkg/kubelet/cm/cpuset`).

use crate::Minor;
use crate::values::quantity::Quantity;
use crate::values::{strconv, units};
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};
use crate::verdict::startup::{did_you_mean, is_known, keys};

/// The fields with reserved resources.
pub(super) const LISTS: [&str; 2] = ["kubeReserved", "systemReserved"];

pub(super) const AMOUNTS: &[Check] = &[
    ("reserved-resource", |config, refusals| {
        for path in LISTS {
            refuse_unknown_keys(config, refusals, path);
        }
    }),
    ("reserved-quantity", |config, refusals| {
        for path in LISTS {
            for (resource, text, entry) in config.texts(path).filter(|(resource, ..)| is_read(config, path, resource)) {
                let why = match Quantity::parse(text) {
                    Ok(amount) if amount.is_negative() => "is negative".to_owned(),
                    Ok(_) => continue,
                    Err(why) => why.to_string(),
                };
                let field = format!("{path}.{resource}");
                let message = format!("{field} {text:?} {why}");
                let example = match resource {
                    "cpu" => "500m",
                    "pid" => "1000",
                    _ => "1Gi",
                };
                let meant = units::intended(text).filter(|_| units::counts_bytes(path, resource));
                let help = meant.map_or_else(
                    || format!("write a quantity such as {example:?}"),
                    |meant| format!("write {meant:?}"),
                );
                refusals.at(field, entry.value.place.clone(), message).help(help);
            }
        }
    }),
    ("enforced-without-reservation", |config, refusals| {
        for (path, key) in [("kubeReserved", "kube-reserved"), ("systemReserved", "system-reserved")] {
            let items = config.items("enforceNodeAllocatable");
            let enforced: Vec<_> =
                items.filter(|(_, text, _)| text.strip_suffix("-compressible").unwrap_or(text) == key).collect();
            if let Some((_, text, node)) = enforced.first()
                && config.entries(path).next().is_none()
            {
                let message = format!("enforceNodeAllocatable contains {text}, but {path} is empty: the kubelet exits");
                let listed: Vec<_> = enforced.iter().map(|(_, text, _)| *text).collect();
                refusals.at("enforceNodeAllocatable", node.place.clone(), message).help(format!(
                    "set {path}: {{cpu: 100m, memory: 500Mi}}, or remove {} from the list",
                    listed.join(" and ")
                ));
            }
        }
    }),
    ("qos-reserved-resource", |config, refusals| refuse_unknown_keys(config, refusals, "qosReserved")),
    ("qos-reserved-percentage", |config, refusals| {
        for (resource, text, entry) in
            config.texts("qosReserved").filter(|(key, ..)| is_known(config, "qosReserved", key))
        {
            let number = text.ends_with('%').then(|| strconv::integer(text.trim_end_matches('%'))).flatten();
            if !number.is_some_and(|number| (0..=100).contains(&number)) {
                let field = format!("qosReserved.{resource}");
                let message = format!("{field} {text:?} is not a whole percentage between 0% and 100%");
                refusals.at(field, entry.value.place.clone(), message).help("write a percentage such as 50%");
            }
        }
    }),
];

fn refuse_unknown_keys(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    for (resource, entry) in config.entries(path).filter(|(resource, _)| !is_known(config, path, resource)) {
        let message = format!("{path} contains {resource:?}, which cannot be reserved");
        let help = did_you_mean(resource, keys(config, path));
        refusals.at(format!("{path}.{resource}"), entry.key_place.clone(), message).help(help);
    }
}

/// Reports whether the kubelet reads an entry. `reservedSystemCPUs` replaces `cpu` in both fields before they are
/// read.
fn is_read(config: &Config<'_>, path: &str, resource: &str) -> bool {
    is_known(config, path, resource) && !(resource == "cpu" && count_cpus(config).is_some_and(|cpus| cpus > 0))
}

/// Returns the sum of a resource over both fields; `None` if a quantity is invalid.
pub(super) fn reserved(config: &Config<'_>, resource: &str) -> Option<Quantity> {
    let mut total = Quantity::ZERO;
    for (_, text, _) in LISTS.iter().flat_map(|path| config.texts(path)).filter(|(key, ..)| *key == resource) {
        total = total.plus(Quantity::parse(text).ok()?);
    }
    Some(total)
}

pub(super) const CPUS: &[Check] = &[("reserved-cpus-none", |config, refusals| {
    let list = config.text("reservedSystemCPUs");
    if !list.is_empty() && count_cpus(config) == Some(0) {
        let message = format!("reservedSystemCPUs is {list:?}, which contains no CPU: the kubelet panics");
        let help = "write a range that starts with the lower number, such as \"0-1\"";
        refusals.field(config, "reservedSystemCPUs", message).help(help);
    }
})];

/// The first minor that refuses `3-1` and `1-2-3`. Earlier ones read both as no CPU.
const STRICT: Minor = Minor(22);

/// Returns the number of CPUs in the list. `None` if the list is invalid ([`cpu_ranges`]).
pub(super) fn count_cpus(config: &Config<'_>) -> Option<u64> {
    let lengths = cpu_ranges(config)?.into_iter().map(|(first, last)| (last - first).saturating_add(1));
    Some(lengths.fold(0, u64::saturating_add))
}

/// Returns the CPUs in the list as inclusive ranges that do not overlap, in order. `None` if a part is neither a number nor a
/// range, is negative, or, since 1.22, has three ends. A descending range has no CPU; validation refuses it since 1.22.
pub(super) fn cpu_ranges(config: &Config<'_>) -> Option<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    let text = config.text("reservedSystemCPUs");
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let range = match part.split_once('-') {
            None => strconv::integer(part).map(|one| (one, one)),
            Some((_, last)) if last.contains('-') && config.minor() < STRICT => continue,
            Some((first, last)) => strconv::integer(first).zip(strconv::integer(last)),
        };
        let (first, last) = range?;
        ranges.push((u64::try_from(first).ok()?, u64::try_from(last).ok()?));
    }
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    // Ranges may overlap, and may be too long to expand.
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (first, last) in ranges {
        match apart.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => apart.push((first, last)),
        }
    }
    Some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::gates::EnabledGates;

    #[test]
    fn counts_each_cpu_once() {
        for (list, strict, loose) in [
            ("", Some(0), Some(0)),
            ("0", Some(1), Some(1)),
            ("0-3,8", Some(5), Some(5)),
            ("0-3,2-5,1,5", Some(6), Some(6)),
            ("+1,1", Some(1), Some(1)),
            ("0-9223372036854775807", Some(1 << 63), Some(1 << 63)),
            ("9223372036854775807,9223372036854775807", Some(1), Some(1)),
            ("1-2-3", None, Some(0)),
            ("a", None, None),
        ] {
            let document = Document::parse("kubelet.yaml", &format!("reservedSystemCPUs: '{list}'")).document.unwrap();
            let count = |minor| count_cpus(&Config::new(&document, Minor(minor), EnabledGates::default()));
            assert_eq!((count(22), count(21)), (strict, loose), "{list}");
        }
    }
}
