//! Advice on reservations: reservations without enforcement, and reservations that another setting replaces.

use super::remarks::Remarks;
use crate::verdict::Config;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    enforcement(config, remarks, "kube", "kubeReserved", "kubeReservedCgroup");
    enforcement(config, remarks, "system", "systemReserved", "systemReservedCgroup");
    replaced(config, remarks);
}

fn enforcement(config: &Config<'_>, remarks: &mut Remarks, owner: &str, reserved: &str, cgroup: &str) {
    let key = format!("{owner}-reserved");
    let is_enforcing =
        |text: &str| text.strip_prefix(key.as_str()).is_some_and(|rest| matches!(rest, "" | "-compressible"));
    let any = config.entries(reserved).next().is_some();
    if config.enforcements().iter().any(|(_, text)| is_enforcing(text)) {
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
                .help(format!("remove {reserved}.cpu, or remove reservedSystemCPUs"));
        }
    }
}
