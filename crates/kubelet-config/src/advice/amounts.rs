//! Advice on amounts of memory and disk with a likely wrong unit.

use super::remarks::Remarks;
use crate::document::Node;
use crate::values::quantity::Quantity;
use crate::values::units::{MIN_BYTES, binary, counts_bytes};
use crate::verdict::Config;

const MAPS: [&str; 5] = ["evictionHard", "evictionSoft", "evictionMinimumReclaim", "kubeReserved", "systemReserved"];

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
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
