//! What is set aside for the system: reservations that nothing enforces or that another setting replaces, and amounts
//! that are surely slips of a unit.

use super::remarks::Remarks;
use crate::quantity::Quantity;
use crate::verdict::Config;

/// Amounts of memory and of disk under this are slips.
const LEAST_BYTES: i64 = 1 << 20;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    enforcement(config, remarks, "kube", "kubeReserved", "kubeReservedCgroup");
    enforcement(config, remarks, "system", "systemReserved", "systemReservedCgroup");
    replaced(config, remarks);
    slips(config, remarks);
}

fn enforcement(config: &Config<'_>, remarks: &mut Remarks, who: &str, reserved: &str, cgroup: &str) {
    let key = format!("{who}-reserved");
    let enforced = config.list("enforceNodeAllocatable").unwrap_or_default().iter().find(|item| {
        item.text().and_then(|text| text.strip_prefix(key.as_str())).is_some_and(|r| matches!(r, "" | "-compressible"))
    });
    let any = config.entries(reserved).next().is_some();
    if let Some(enforced) = enforced {
        if !any {
            let message = format!("`enforceNodeAllocatable` has {key}, but `{reserved}` is empty: the kubelet exits");
            remarks
                .at("enforced-without-reservation", "enforceNodeAllocatable", enforced.place.clone(), message)
                .help(format!("set {reserved}, with cpu and memory say, or take {key} out of the list"));
        }
        return;
    }
    let name = config.text(cgroup);
    let way_out = format!("{key} to enforceNodeAllocatable once the cgroup exists and its limits were tried");
    if !name.is_empty() {
        let message = format!("`{cgroup}` is {name}; without {key} in `enforceNodeAllocatable` it has no effect");
        remarks
            .field(config, "reserved-cgroup-unused", cgroup, message)
            .help(format!("to hold the cgroup to its share add {way_out}; otherwise {cgroup} may be removed"));
    } else if any {
        let message = format!(
            "`{reserved}` is kept from pods, but nothing holds the system to it: `enforceNodeAllocatable` lacks {key}"
        );
        remarks
            .field(config, "reservation-not-enforced", reserved, message)
            .help(format!("this is how most nodes run; to enforce it set {cgroup} and add {way_out}"));
    }
}

/// reservedSystemCPUs takes the place of both reservations of CPU (`cmd/kubelet/app/server.go`, `run`).
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
                    format!("`{reserved}.cpu` ({amount}) does not count: `reservedSystemCPUs` ({cpus}) replaces it"),
                )
                .related(config.place("reservedSystemCPUs"), "these CPUs are set aside instead")
                .help(format!("remove {reserved}.cpu, or reservedSystemCPUs"));
        }
    }
}

/// `memory: 512m` is half a byte.
fn slips(config: &Config<'_>, remarks: &mut Remarks) {
    for map in ["evictionHard", "evictionSoft", "evictionMinimumReclaim", "kubeReserved", "systemReserved"] {
        let in_bytes = |name: &str| match map {
            "kubeReserved" | "systemReserved" => matches!(name, "memory" | "ephemeral-storage"),
            _ => name != "pid.available" && name.ends_with(".available"),
        };
        for (name, entry) in config.entries(map).filter(|(name, _)| in_bytes(name)) {
            let Some(text) = entry.value.text() else { continue };
            let Ok(amount) = Quantity::parse(text) else { continue };
            if amount <= Quantity::ZERO || amount >= Quantity::whole(LEAST_BYTES) {
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
