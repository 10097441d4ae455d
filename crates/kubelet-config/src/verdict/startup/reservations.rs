//! Resources reserved for the system: `cmd/kubelet/app/server.go` `parseResourceList`,
//! `pkg/kubelet/cm/container_manager.go` `ParseQOSReserved`, and their enforcement:
//! `pkg/kubelet/cm/node_container_manager_linux.go` `enforceExistingCgroup`.

use super::{did_you_mean, items, keys, reserved_cpus, texts};
use crate::values::quantity::Quantity;
use crate::values::{strconv, units};
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

/// The fields with reserved resources.
pub(super) const LISTS: [&str; 2] = ["kubeReserved", "systemReserved"];

pub(super) const CHECKS: &[Check] = &[
    ("reserved-resource", |config, refusals| {
        for path in LISTS {
            refuse_unknown_keys(config, refusals, path);
        }
    }),
    ("reserved-quantity", |config, refusals| {
        for path in LISTS {
            for (resource, text, entry) in texts(config, path).filter(|(resource, ..)| is_read(config, path, resource))
            {
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
            let items = items(config, "enforceNodeAllocatable");
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
            texts(config, "qosReserved").filter(|(key, ..)| is_known(config, "qosReserved", key))
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

fn is_known(config: &Config<'_>, path: &str, resource: &str) -> bool {
    keys(config, path).any(|known| known == resource)
}

/// Reports whether the kubelet reads an entry. `reservedSystemCPUs` replaces `cpu` in both fields before they are
/// read.
fn is_read(config: &Config<'_>, path: &str, resource: &str) -> bool {
    is_known(config, path, resource)
        && !(resource == "cpu" && reserved_cpus::count(config).is_some_and(|cpus| cpus > 0))
}

/// Returns the sum of a resource over both fields; `None` if a quantity is invalid.
pub(super) fn reserved(config: &Config<'_>, resource: &str) -> Option<Quantity> {
    let mut total = Quantity::ZERO;
    for (_, text, _) in LISTS.iter().flat_map(|path| texts(config, path)).filter(|(key, ..)| *key == resource) {
        total = total.plus(Quantity::parse(text).ok()?);
    }
    Some(total)
}
