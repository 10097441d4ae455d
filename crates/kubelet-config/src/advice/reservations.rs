//! Advice on amounts: memory and disk with a likely wrong unit, reservations without enforcement, and reservations that
//! another setting replaces.

use crate::advice::remarks::Remarks;
use crate::document::Node;
use crate::values::quantity::Quantity;
use crate::values::units::{MIN_BYTES, binary, counts_bytes};
use crate::verdict::Config;

const MAPS: [&str; 5] = ["evictionHard", "evictionSoft", "evictionMinimumReclaim", "kubeReserved", "systemReserved"];

pub(super) fn units(config: &Config<'_>, remarks: &mut Remarks) {
    for map in MAPS {
        for (key, entry) in config.entries(map).filter(|(key, _)| counts_bytes(map, key)) {
            amount(&format!("{map}.{key}"), &entry.value, remarks);
        }
    }
    if let Some(size) = config.given("containerLogMaxSize") {
        amount("containerLogMaxSize", size, remarks);
    }
    for (at, item) in config.list("reservedMemory").unwrap_or_default().iter().enumerate() {
        if let Some(memory) = item.get("limits").and_then(|limits| limits.get("memory")) {
            amount(&format!("reservedMemory[{at}].limits.memory"), memory, remarks);
        }
    }
}

fn amount(field: &str, node: &Node, remarks: &mut Remarks) {
    let Some(text) = node.text() else { return };
    let Ok(amount) = Quantity::parse(text) else { return };
    if amount <= Quantity::ZERO {
        return;
    }
    if amount < Quantity::whole(MIN_BYTES) {
        tiny(field, text, amount, node, remarks);
    } else if let Some(binary) = binary(text) {
        let unit = text.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        let message = format!("`{field}` is {text}, which is {amount} bytes: {unit} is a decimal unit");
        remarks
            .at("decimal-unit", field, node.place.clone(), message)
            .help(format!("write {binary:?} for the binary unit, or keep {text} if the decimal one is meant"));
    }
}

/// Reports amounts such as `memory: 512m`, which is half a byte.
fn tiny(field: &str, text: &str, amount: Quantity, node: &Node, remarks: &mut Remarks) {
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let why = if text.ends_with('m') { "m means thousandths" } else { "the unit is too small" };
    let message = match amount.to_string().as_str() {
        "1" => format!("`{field}` is {text}, which is 1 byte"),
        bytes => format!("`{field}` is {text}, which is {bytes} bytes"),
    };
    remarks
        .at("tiny-amount", field, node.place.clone(), message)
        .help(format!("write \"{number}Mi\" for mebibytes: {why}"));
}

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
