//! The memory manager: its policy (`pkg/kubelet/cm/memorymanager/memory_manager.go` `NewManager`), and the sums that
//! the static policy compares (`validateReservedMemory`). The sums depend on the node's NUMA nodes and often on its
//! memory. They are therefore not checked here, but in `host` and in advice.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{eviction, reservations, texts};
use crate::document::Node;
use crate::quantity::{self, Quantity, Reading};
use crate::verdict::Config;
use crate::verdict::refusals::Check;
use crate::verdict::rules::choices::one_of;
use crate::{Minor, fields};

pub(super) const CHECKS: &[Check] = &[("memory-manager-policy", |config, refusals| {
    if is_on(config) {
        one_of(config, refusals, "memoryManagerPolicy");
    }
})];

/// Reports whether the kubelet checks the policy's name. 1.21 has the gate off by default. Its policy is refused in
/// any case, because the kubelet refuses it once the gate is on.
fn is_on(config: &Config<'_>) -> bool {
    !(22..=31).contains(&config.minor().0) || config.gate("MemoryManager")
}

/// Reports whether the policy is static, which pins memory.
pub(crate) fn is_static(config: &Config<'_>) -> bool {
    let made = config.minor() != Minor(21) || config.gate("MemoryManager");
    is_on(config) && made && config.text("memoryManagerPolicy") == "Static"
}

/// The two sums that the static policy compares for a kind of memory. `kept` is the amount reserved from pods; it is
/// `None` if it depends on the node.
pub(crate) struct Sums {
    pub(crate) kind: String,
    pub(crate) reserved_memory: Quantity,
    pub(crate) kept: Option<Quantity>,
}

/// Returns the sums by kind of memory, always including `memory`.
pub(crate) fn sums(config: &Config<'_>) -> Vec<Sums> {
    let mut by_kind = BTreeMap::from([("memory".to_owned(), Quantity::ZERO)]);
    for (_, kind, limit) in limits(config) {
        let sum = by_kind.entry(kind.to_owned()).or_default();
        *sum = sum.plus(limit.amount);
    }
    let sums = by_kind.into_iter().map(|(kind, reserved_memory)| {
        // Only memory can be reserved from pods this way.
        let kept = if kind == "memory" { kept_memory(config) } else { Some(Quantity::ZERO) };
        Sums { kind, reserved_memory, kept }
    });
    sums.collect()
}

/// Returns the limits of `reservedMemory`, each with the index of its entry and the kind of memory.
pub(super) fn limits<'d>(config: &Config<'d>) -> impl Iterator<Item = (usize, &'d str, Reading)> + use<'d> {
    let entries = config.list("reservedMemory").unwrap_or_default().iter().enumerate();
    entries.flat_map(|(at, entry)| {
        let limits = entry.get("limits").and_then(Node::mapping).into_iter().flatten();
        limits.map(move |(kind, limit)| {
            let text = match limit.value.to_json() {
                Json::String(text) => text,
                other => other.to_string(),
            };
            (at, kind.as_str(), quantity::read(text.trim()).unwrap_or_default())
        })
    })
}

/// Returns the sum of `kubeReserved`, `systemReserved` and the hard eviction threshold. `None` if the threshold is a
/// percentage, or if a quantity is invalid.
fn kept_memory(config: &Config<'_>) -> Option<Quantity> {
    let threshold = match hard_threshold(config) {
        None | Some("0%" | "100%") => Quantity::ZERO,
        Some(text) => eviction::fixed(text)?,
    };
    Some(reservations::reserved(config, "memory")?.plus(threshold))
}

fn hard_threshold<'d>(config: &Config<'d>) -> Option<&'d str> {
    let signal = "memory.available";
    let default = || match fields::lookup("evictionHard")?.default.at(config.minor())?.get(signal)? {
        Json::String(text) => Some(text.as_str()),
        _ => None,
    };
    let given = texts(config, "evictionHard").find(|(key, ..)| *key == signal).map(|(_, text, _)| text);
    let filled_in = config.given("evictionHard").is_none() || config.is("mergeDefaultEvictionSettings");
    given.or_else(|| filled_in.then(default).flatten())
}
