//! Advice on reservations: reservations without enforcement, reservations that another setting replaces, and amounts
//! with a likely wrong unit.

use super::remarks::Remarks;
use crate::quantity::Quantity;
use crate::verdict::Config;

/// Smaller amounts of memory and disk probably have a wrong unit.
const MIN_BYTES: i64 = 1 << 20;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    enforcement(config, remarks, "kube", "kubeReserved", "kubeReservedCgroup");
    enforcement(config, remarks, "system", "systemReserved", "systemReservedCgroup");
    replaced(config, remarks);
    tiny_amounts(config, remarks);
}

fn enforcement(config: &Config<'_>, remarks: &mut Remarks, owner: &str, reserved: &str, cgroup: &str) {
    let key = format!("{owner}-reserved");
    let enforced = config.list("enforceNodeAllocatable").unwrap_or_default().iter().find(|item| {
        item.text().and_then(|text| text.strip_prefix(key.as_str())).is_some_and(|r| matches!(r, "" | "-compressible"))
    });
    let any = config.entries(reserved).next().is_some();
    if let Some(enforced) = enforced {
        if !any {
            let message =
                format!("`enforceNodeAllocatable` contains {key}, but `{reserved}` is empty: the kubelet exits");
            remarks
                .at("enforced-without-reservation", "enforceNodeAllocatable", enforced.place.clone(), message)
                .help(format!("set {reserved}, for example to cpu and memory, or remove {key} from the list"));
        }
        return;
    }
    let name = config.text(cgroup);
    let steps = format!("{key} to enforceNodeAllocatable after the cgroup exists and its limits are tested");
    if !name.is_empty() {
        let message = format!("`{cgroup}` is {name}, but has no effect without {key} in `enforceNodeAllocatable`");
        remarks
            .field(config, "reserved-cgroup-unused", cgroup, message)
            .help(format!("to limit the cgroup, add {steps}; otherwise remove {cgroup}"));
    } else if any {
        let message =
            format!("`{reserved}` is withheld from pods but not enforced: `enforceNodeAllocatable` lacks {key}");
        remarks
            .field(config, "reservation-not-enforced", reserved, message)
            .help(format!("most nodes run this way; to enforce the reservation, set {cgroup} and add {steps}"));
    }
}

/// Finds CPU reservations that reservedSystemCPUs replaces (`cmd/kubelet/app/server.go`, `run`).
fn replaced(config: &Config<'_>, remarks: &mut Remarks) {
    let cpus = config.text("reservedSystemCPUs");
    if cpus.is_empty() {
        return;
    }
    for reserved in ["kubeReserved", "systemReserved"] {
        for (_, entry) in config.entries(reserved).filter(|(resource, _)| *resource == "cpu") {
            let amount = entry.value.text().unwrap_or_default();
            remarks
                .at(
                    "reserved-cpu-replaced",
                    format!("{reserved}.cpu"),
                    entry.value.place.clone(),
                    format!("`{reserved}.cpu` ({amount}) has no effect: `reservedSystemCPUs` ({cpus}) replaces it"),
                )
                .related(config.place("reservedSystemCPUs"), "these CPUs are reserved instead")
                .help(format!("remove {reserved}.cpu, or reservedSystemCPUs"));
        }
    }
}

/// Finds amounts such as `memory: 512m`, which is half a byte.
fn tiny_amounts(config: &Config<'_>, remarks: &mut Remarks) {
    for map in ["evictionHard", "evictionSoft", "evictionMinimumReclaim", "kubeReserved", "systemReserved"] {
        let in_bytes = |name: &str| match map {
            "kubeReserved" | "systemReserved" => matches!(name, "memory" | "ephemeral-storage"),
            _ => name != "pid.available" && name.ends_with(".available"),
        };
        for (name, entry) in config.entries(map).filter(|(name, _)| in_bytes(name)) {
            let Some(text) = entry.value.text() else { continue };
            let Ok(amount) = Quantity::parse(text) else { continue };
            if amount <= Quantity::ZERO || amount >= Quantity::whole(MIN_BYTES) {
                continue;
            }
            let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
            let why = if text.ends_with('m') { "m means thousandths" } else { "the unit is too small" };
            let message = match amount.to_string().as_str() {
                "1" => format!("`{map}.{name}` is {text}, which is 1 byte"),
                bytes => format!("`{map}.{name}` is {text}, which is {bytes} bytes"),
            };
            remarks
                .at("tiny-amount", format!("{map}.{name}"), entry.value.place.clone(), message)
                .help(format!("{why}; for mebibytes write \"{number}Mi\""));
        }
    }
}
