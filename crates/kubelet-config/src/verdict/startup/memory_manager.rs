//! The memory manager: its policy (`pkg/kubelet/cm/memorymanager/memory_manager.go` `NewManager`), and the sums that
//! the static policy compares (`validateReservedMemory`). Sums that depend on the node's memory are in `host`.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{eviction, reservations};
use crate::Minor;
use crate::values::quantity::{self, Quantity, Reading};
use crate::values::strconv;
use crate::verdict::config::whole;
use crate::verdict::refusals::Check;
use crate::verdict::validate::limits::one_of;
use crate::verdict::validate::reservations::{Limit, limits};
use crate::verdict::{Config, KeptMemory};

/// The last minor in which the manager could be switched off.
const LAST_OPTIONAL: Minor = Minor(31);

pub(super) const CHECKS: &[Check] = &[
    ("memory-manager-policy", |config, refusals| {
        if is_on(config) {
            one_of(config, refusals, "memoryManagerPolicy");
        }
    }),
    ("reserved-memory-node", |config, refusals| {
        for (at, entry) in config.list("reservedMemory").unwrap_or_default().iter().enumerate() {
            if let Some(node) = entry.get("numaNode")
                && let Some(number) = whole(node).filter(|number| *number < 0 && is_static(config))
            {
                let field = format!("reservedMemory[{at}].numaNode");
                let message = format!("{field} is {number}; NUMA nodes are counted from 0");
                refusals.at(field, node.place.clone(), message).help("write 0, or the number of another NUMA node");
            }
        }
    }),
    ("reserved-memory-whole", |config, refusals| {
        let fractions = amounts(config).filter(|(_, amount)| amount.as_int64.is_none() && is_static(config));
        for (limit, _) in fractions {
            let (field, node) = (limit.field(), &limit.entry.value);
            let message = format!("{field} is {}, which the kubelet does not convert to bytes", node.describe());
            refusals
                .at(field, node.place.clone(), message)
                .help("write a whole number without a fraction, such as 1536Mi for 1.5Gi");
        }
    }),
    ("reserved-memory-mismatch", |config, refusals| {
        if !is_static(config) {
            return;
        }
        let known = sums(config).into_iter().filter_map(|sums| Some((sums.kind, sums.reserved_memory, sums.kept?)));
        for (kind, sum, kept) in known.filter(|(_, sum, kept)| sum != kept) {
            let field = if config.given("reservedMemory").is_some() { "reservedMemory" } else { "memoryManagerPolicy" };
            let message = format!(
                "reservedMemory reserves {sum} bytes of {kind}, but kubeReserved, systemReserved and the hard eviction \
                 threshold add up to {kept}: the kubelet does not start"
            );
            let help = if kind == "memory" {
                format!("change reservedMemory so that all NUMA nodes together reserve \"{kept}\" (in bytes)")
            } else {
                format!("remove {kind} from reservedMemory: no other setting reserves it")
            };
            refusals.field(config, field, message).help(help);
        }
    }),
];

/// Reports whether the kubelet has a memory manager, which reads the policy.
fn is_on(config: &Config<'_>) -> bool {
    config.minor() > LAST_OPTIONAL || config.gate("MemoryManager")
}

/// Reports whether the policy is static, which pins memory.
pub(crate) fn is_static(config: &Config<'_>) -> bool {
    is_on(config) && config.text("memoryManagerPolicy") == "Static"
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
    for (limit, amount) in amounts(config) {
        let sum = by_kind.entry(limit.resource.to_owned()).or_default();
        *sum = sum.plus(amount.amount);
    }
    let sums = by_kind.into_iter().map(|(kind, reserved_memory)| {
        // Only memory can be reserved from pods this way.
        let kept = if kind == "memory" { fixed_kept_memory(config) } else { Some(Quantity::ZERO) };
        Sums { kind, reserved_memory, kept }
    });
    sums.collect()
}

/// Returns the limits of `reservedMemory` that are quantities.
fn amounts<'d>(config: &Config<'d>) -> impl Iterator<Item = (Limit<'d>, Reading)> + use<'d> {
    limits(config).into_iter().filter_map(|limit| {
        let text = match limit.entry.value.to_json() {
            Json::String(text) => text,
            other => other.to_string(),
        };
        let amount = quantity::read(text.trim()).ok()?;
        Some((limit, amount))
    })
}

/// Returns the memory that is kept from pods: `kubeReserved`, `systemReserved` and the hard eviction threshold. `None` if
/// a quantity is invalid.
pub(super) fn kept_memory(config: &Config<'_>) -> Option<KeptMemory> {
    let (threshold, percent) = match hard_threshold(config) {
        None | Some("0%" | "100%") => (Quantity::ZERO, None),
        Some(text) if text.ends_with('%') => {
            (Quantity::ZERO, Some(strconv::float32(text.trim_end_matches('%'))?.to_string()))
        }
        Some(text) => (eviction::fixed(text)?, None),
    };
    let bytes = reservations::reserved(config, "memory")?.plus(threshold).rounded_up();
    Some(KeptMemory { bytes: u64::try_from(bytes).ok()?, percent })
}

fn fixed_kept_memory(config: &Config<'_>) -> Option<Quantity> {
    let kept = kept_memory(config).filter(|kept| kept.percent.is_none())?;
    i64::try_from(kept.bytes).ok().map(Quantity::whole)
}

fn hard_threshold<'c>(config: &'c Config<'_>) -> Option<&'c str> {
    const SIGNAL: &str = "memory.available";
    let given = config.texts("evictionHard").find(|(key, ..)| *key == SIGNAL).map(|(_, text, _)| text);
    given.or_else(|| config.filled("evictionHard", Some(SIGNAL))?.as_str())
}

#[cfg(test)]
mod tests {
    use crate::Minor;
    use crate::document::Document;
    use crate::verdict::assess;

    #[test]
    fn static_memory_manager_compares_sums() {
        let kept = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryManagerPolicy: Static\n\
                    kubeReserved: {memory: 424Mi}\nsystemReserved: {memory: 500Mi}\n";
        let messages = |rest: &str| -> Vec<String> {
            let document = Document::parse("kubelet.yaml", &format!("{kept}{rest}")).document.unwrap();
            let startup = assess(&document, Minor(36)).startup;
            startup.into_iter().filter(|one| one.rule == "reserved-memory-mismatch").map(|one| one.message).collect()
        };
        // The threshold of memory.available is 100Mi by default.
        for good in [
            "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]",
            "reservedMemory: [{limits: {memory: 512Mi}}, {numaNode: 1, limits: {memory: 536870912}}]",
            "mergeDefaultEvictionSettings: true\nevictionHard: {nodefs.available: 5%}\nreservedMemory: [{limits: {memory: 1Gi}}]",
            "evictionHard: {memory.available: 5%}\nreservedMemory: [{limits: {memory: 1Mi}}]",
        ] {
            assert_eq!(messages(good), [] as [&str; 0], "{good}");
        }
        let pages =
            "evictionHard: {nodefs.available: 5%}\nreservedMemory: [{limits: {memory: 924Mi, hugepages-2Mi: 4Mi}}]";
        assert!(
            messages(pages).first().is_some_and(|one| one.contains("4194304 bytes of hugepages-2Mi")),
            "{:?}",
            messages(pages)
        );
        assert!(messages("").first().is_some_and(|one| one.contains("0 bytes of memory")), "{:?}", messages(""));
    }
}
