//! The reservations of a configuration against the capacity of a node, and the pod addresses of a range against
//! `maxPods`.
//!
//! The kubelet does not start if `kubeReserved`, `systemReserved` and the hard eviction thresholds together exceed the
//! capacity of the node (`pkg/kubelet/cm/node_container_manager_linux.go`, `validateNodeAllocatable`: "invalid Node
//! Allocatable configuration").

// Only the type; this module opens no connection.
use core::net::IpAddr;
use std::fmt;
use std::num::NonZeroU64;

use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::Minor;
use super::defaults::with_defaults;
use super::document::Document;
use super::finding::Place;
use crate::values::quantity::Quantity;
use crate::values::unsigned;

/// Fields that reserve resources.
const RESERVED: [&str; 2] = ["kubeReserved", "systemReserved"];
/// Share of the capacity, in percent, above which reservations are probably a mistake.
const NEARLY_ALL: u128 = 90;

/// The capacity of a node (`status.capacity`). Small, because there may be thousands of nodes. A capacity of zero counts
/// as unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capacity {
    /// CPU in thousandths of a core.
    cpu: Option<NonZeroU64>,
    /// Memory in bytes.
    memory: Option<NonZeroU64>,
    /// Ephemeral storage in bytes.
    storage: Option<NonZeroU64>,
}

impl Capacity {
    /// Reads the quantities of `cpu`, `memory` and `ephemeral-storage`. An unreadable one is unknown.
    #[must_use]
    pub fn parse(cpu: Option<&str>, memory: Option<&str>, storage: Option<&str>) -> Self {
        let amount = |text: Option<&str>| Quantity::parse(text?).ok();
        let number = |value: i64| u64::try_from(value).ok().and_then(NonZeroU64::new);
        Self {
            cpu: amount(cpu).and_then(|cpu| number(cpu.rounded_up_thousandths())),
            memory: amount(memory).and_then(|memory| number(memory.rounded_up())),
            storage: amount(storage).and_then(|storage| number(storage.rounded_up())),
        }
    }

    /// The amount of a resource: thousandths of a core, or bytes. `None` if it is unknown.
    #[must_use]
    pub fn of(self, resource: Resource) -> Option<u64> {
        let capacity = match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
            Resource::EphemeralStorage => self.storage,
        };
        capacity.map(NonZeroU64::get)
    }

    /// The same capacity with this amount of a resource.
    #[must_use]
    pub fn with(mut self, resource: Resource, amount: u64) -> Self {
        let amount = NonZeroU64::new(amount);
        match resource {
            Resource::Cpu => self.cpu = amount,
            Resource::Memory => self.memory = amount,
            Resource::EphemeralStorage => self.storage = amount,
        }
        self
    }

    /// Rounds each amount up to a multiple of its step, or below the step to its half, its quarter and so on, and leaves out
    /// resources without a step. `None` if an amount that has a step is unknown.
    ///
    /// A machine reports a little less than its nominal memory and storage, so the result is mostly the nominal size.
    #[must_use]
    pub fn rounded_up(self, steps: Self) -> Option<Self> {
        Resource::ALL.into_iter().try_fold(Self::default(), |rounded, resource| {
            let Some(step) = steps.of(resource) else { return Some(rounded) };
            let amount = self.of(resource)?;
            let halves = (0..u64::BITS).map(|halves| step >> halves).take_while(|half| *half >= amount);
            // Above the largest multiple that fits, the amount stays.
            let multiple = || amount.checked_next_multiple_of(step).unwrap_or(amount);
            Some(rounded.with(resource, halves.last().unwrap_or_else(multiple)))
        })
    }
}

impl fmt::Display for Capacity {
    /// Writes the known amounts: `4 CPU, 16Gi`, `4 CPU, 16Gi, 100Gi disk`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Resource::ALL.into_iter().filter_map(|resource| Some((resource, self.of(resource)?)));
        let text = |(resource, amount): (Resource, u64)| match resource {
            Resource::Cpu if amount % 1000 == 0 => format!("{} CPU", amount / 1000),
            Resource::Cpu => format!("{amount}m CPU"),
            Resource::Memory => resource.amount_text(amount),
            Resource::EphemeralStorage => format!("{} disk", resource.amount_text(amount)),
        };
        f.write_str(&known.map(text).collect::<Vec<_>>().join(", "))
    }
}

/// A resource that a kubelet can reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
    /// The node's root file system.
    EphemeralStorage,
}

impl Resource {
    /// All resources.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::EphemeralStorage];

    /// An amount as a quantity: `80m`, `1843Mi`, `16Gi`.
    #[must_use]
    pub fn amount_text(self, amount: u64) -> String {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
        match self {
            Self::Cpu => format!("{amount}m"),
            Self::Memory | Self::EphemeralStorage => {
                let whole = UNITS.into_iter().find(|(unit, _)| amount > 0 && amount.is_multiple_of(*unit));
                whole.map_or_else(|| amount.to_string(), |(unit, suffix)| format!("{}{suffix}", amount / unit))
            }
        }
    }

    /// Reads an amount: thousandths of a core, or bytes. `None` for a text that is no quantity, or negative.
    #[must_use]
    pub fn amount(self, text: &str) -> Option<u64> {
        let quantity = Quantity::parse(text).ok().filter(|amount| !amount.is_negative())?;
        let amount = match self {
            Self::Cpu => quantity.rounded_up_thousandths(),
            Self::Memory | Self::EphemeralStorage => quantity.rounded_up(),
        };
        u64::try_from(amount).ok()
    }

    /// Name of the resource in `kubeReserved`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
        }
    }

    /// Returns the signal of `evictionHard` whose threshold is reserved, too.
    fn signal(self) -> Option<&'static str> {
        match self {
            Self::Cpu => None,
            Self::Memory => Some("memory.available"),
            Self::EphemeralStorage => Some("nodefs.available"),
        }
    }
}

/// The reservation of one resource, and the capacity of a node that it exceeds or nearly reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The resource.
    pub resource: Resource,
    /// The reserved amount: bytes, or thousandths of a core.
    pub reserved: u64,
    /// The capacity of the node, in the same unit.
    pub capacity: u64,
}

impl fmt::Display for Reservation {
    /// Writes `20480Mi of memory, but the node has 15974Mi`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, reserved, capacity } = *self;
        let name = resource.as_str();
        match resource {
            Resource::Cpu => write!(f, "{reserved}m of {name}, but the node has {capacity}m"),
            Resource::Memory | Resource::EphemeralStorage => {
                write!(f, "{}Mi of {name}, but the node has {}Mi", reserved.div_ceil(1 << 20), capacity >> 20)
            }
        }
    }
}

/// The reservations of a configuration, for kubelets of one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservations {
    amounts: Vec<(Resource, Amount)>,
    place: Option<Place>,
}

/// A reserved amount.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Amount {
    fixed: Quantity,
    /// Share of the capacity, from an eviction threshold.
    share: f64,
}

impl Reservations {
    /// Reads the reservations of a configuration. Values that the kubelet refuses count as zero.
    #[must_use]
    pub fn of(document: &Document, minor: Minor) -> Self {
        let json = document.root.to_json();
        let whole = json.as_object().map(|map| with_defaults(map, minor)).unwrap_or_default();
        let counts = |resource: &Resource| match resource {
            // This field replaces the reservations of CPU (`cmd/kubelet/app/server.go`, `run`).
            Resource::Cpu => text(&whole, &["reservedSystemCPUs"]).is_none_or(str::is_empty),
            Resource::EphemeralStorage => whole.get("localStorageCapacityIsolation") != Some(&Json::Bool(false)),
            Resource::Memory => true,
        };
        let amounts = Resource::ALL.into_iter().filter(counts).map(|resource| (resource, amount(&whole, resource)));
        let place = RESERVED.iter().chain(&["evictionHard"]).find_map(|field| document.root.get(field));
        Self { amounts: amounts.collect(), place: place.map(|node| node.place.clone()) }
    }

    /// Returns the place of the first field that reserves resources.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Returns the first reservation that exceeds the capacity, so that the kubelet does not start.
    #[must_use]
    pub fn exceeding(&self, capacity: Capacity) -> Option<Reservation> {
        self.reservations(capacity).find(|found| found.reserved > found.capacity)
    }

    /// Returns the first reservation that leaves pods less than a tenth of the capacity.
    #[must_use]
    pub fn nearly_all(&self, capacity: Capacity) -> Option<Reservation> {
        self.reservations(capacity)
            .find(|found| u128::from(found.reserved) * 100 > u128::from(found.capacity) * NEARLY_ALL)
    }

    fn reservations(&self, capacity: Capacity) -> impl Iterator<Item = Reservation> {
        self.amounts.iter().filter_map(move |(resource, amount)| {
            let capacity = capacity.of(*resource)?;
            let fixed = match resource {
                Resource::Cpu => amount.fixed.rounded_up_thousandths(),
                Resource::Memory | Resource::EphemeralStorage => amount.fixed.rounded_up(),
            };
            // The kubelet computes shares in floating point, too.
            let share = (capacity as f64 * amount.share) as u64;
            let reserved = u64::try_from(fixed).unwrap_or(0).saturating_add(share);
            Some(Reservation { resource: *resource, reserved, capacity })
        })
    }
}

fn text<'a>(whole: &'a Map<String, Json>, path: &[&str]) -> Option<&'a str> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(whole.get(*first)?, |value, name| value.get(*name))?.as_str()
}

fn amount(whole: &Map<String, Json>, resource: Resource) -> Amount {
    let quantity = |text: &str| Quantity::parse(text).ok().filter(|amount| !amount.is_negative());
    let reserved = RESERVED.iter().filter_map(|field| quantity(text(whole, &[field, resource.as_str()])?));
    let mut amount = Amount { fixed: reserved.fold(Quantity::ZERO, Quantity::plus), share: 0.0 };
    match resource.signal().and_then(|signal| text(whole, &["evictionHard", signal])) {
        // These two disable a threshold (`pkg/kubelet/eviction/helpers.go`, `parseThreshold`).
        None | Some("0%" | "100%") => {}
        Some(threshold) => match threshold.strip_suffix('%') {
            Some(percent) => amount.share = percent.parse::<f64>().unwrap_or(0.0).clamp(0.0, 100.0) / 100.0,
            None => amount.fixed = amount.fixed.plus(quantity(threshold).unwrap_or(Quantity::ZERO)),
        },
    }
    amount
}

/// The size of a range of pod addresses, without the addresses themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRange {
    /// True if the range is IPv6.
    six: bool,
    /// The number of host bits.
    free: u8,
}

impl PodRange {
    /// Parses one range such as `10.4.2.0/24`. `None` for any other text; a dual-stack pair is two texts.
    #[must_use]
    pub fn parse(cidr: &str) -> Option<Self> {
        let (address, prefix) = cidr.split_once('/')?;
        let prefix = u8::try_from(unsigned(prefix)?).ok()?;
        let (six, bits) = match address.parse::<IpAddr>().ok()? {
            IpAddr::V4(_) => (false, 32_u8),
            IpAddr::V6(_) => (true, 128),
        };
        Some(Self { six, free: bits.checked_sub(prefix)? })
    }

    /// Returns the number of pod addresses, at most `u64::MAX`. The network address and, with IPv4, the broadcast
    /// address are excluded, except in a range of one or two addresses. Network plugins reserve a few more.
    #[must_use]
    pub fn pods(self) -> u64 {
        let all = 1_u64.checked_shl(u32::from(self.free)).unwrap_or(u64::MAX);
        if self.free < 2 { all } else { all.saturating_sub(if self.six { 1 } else { 2 }) }
    }

    /// Reports whether the range has an address for each of `max_pods` pods. Pods in the host's network need no
    /// address. A kubelet therefore admits more pods than addresses, and the surplus waits.
    #[must_use]
    pub fn fits(self, max_pods: i64) -> bool {
        u64::try_from(max_pods).unwrap_or(0) <= self.pods()
    }

    /// Returns the prefix length.
    #[must_use]
    pub fn prefix(self) -> u8 {
        (if self.six { 128_u8 } else { 32 }).saturating_sub(self.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservations(body: &str) -> Reservations {
        let document = Document::parse("f.yaml", &format!("kind: K\n{body}")).document.expect("a document");
        Reservations::of(&document, Minor(36))
    }

    fn node(cpu: &str, memory: &str, storage: &str) -> Capacity {
        Capacity::parse(Some(cpu), Some(memory), Some(storage))
    }

    #[test]
    fn reservations_and_thresholds_count_together() {
        let exceeding = |body: &str, capacity: Capacity| {
            reservations(body).exceeding(capacity).map_or_else(|| "fits".to_owned(), |found| found.to_string())
        };
        let small = node("2", "4Gi", "20Gi");
        let both = "kubeReserved: {memory: 2Gi}\nsystemReserved: {memory: 1Gi}\n";
        // kubernetes/kubernetes, node_container_manager_linux_test.go: equal amounts are valid.
        for (body, expected) in [
            ("", "fits"),
            (both, "fits"),
            (&format!("{both}evictionHard: {{memory.available: 1Gi}}"), "fits"),
            (&format!("{both}evictionHard: {{memory.available: 1025Mi}}"), "4097Mi of memory, but the node has 4096Mi"),
            (&format!("{both}evictionHard: {{memory.available: 25%}}"), "fits"),
            (&format!("{both}evictionHard: {{memory.available: 26%}}"), "4137Mi of memory, but the node has 4096Mi"),
            (&format!("{both}evictionHard: {{memory.available: 100%}}"), "fits"),
            // The default threshold counts, too.
            ("kubeReserved: {memory: 4000Mi}", "4100Mi of memory, but the node has 4096Mi"),
            ("kubeReserved: {cpu: 1500m}\nsystemReserved: {cpu: 501m}", "2001m of cpu, but the node has 2000m"),
            ("kubeReserved: {cpu: '3'}\nreservedSystemCPUs: 0-1", "fits"),
            ("systemReserved: {ephemeral-storage: 19Gi}", "21504Mi of ephemeral-storage, but the node has 20480Mi"),
            ("systemReserved: {ephemeral-storage: 19Gi}\nlocalStorageCapacityIsolation: false", "fits"),
        ] {
            assert_eq!(exceeding(body, small), expected, "{body}");
        }
        assert_eq!(exceeding("kubeReserved: {memory: 99Gi}", Capacity::default()), "fits", "unknown capacity");
        assert_eq!(exceeding("kubeReserved: {memory: 99Gi}", node("0", "x", "-1")), "fits", "unusable capacity");
    }

    #[test]
    fn finds_reservations_of_nearly_all() {
        let found = |body: &str| reservations(body).nearly_all(node("2", "4Gi", "20Gi")).map(|found| found.resource);
        assert_eq!(found("kubeReserved: {memory: 3Gi}"), None);
        assert_eq!(found("kubeReserved: {memory: 3700Mi}"), Some(Resource::Memory));
        assert_eq!(found("kubeReserved: {cpu: 1801m}"), Some(Resource::Cpu));
    }

    #[test]
    fn counts_addresses_of_ranges() {
        for (cidr, wanted) in [
            ("10.0.0.0/24", Some((24, 254))),
            ("10.0.0.0/26", Some((26, 62))),
            ("10.0.0.0/30", Some((30, 2))),
            ("10.0.0.0/31", Some((31, 2))),
            ("10.0.0.1/32", Some((32, 1))),
            ("10.0.0.0/0", Some((0, 4_294_967_294))),
            ("fd00::/64", Some((64, u64::MAX - 1))),
            ("fd00::/120", Some((120, 255))),
            ("10.0.0.0/33", None),
            ("10.0.0.0/256", None),
            ("10.0.0.0/+24", None),
            ("10.0.0.0/-0", None),
            ("10.0.0.0", None),
            ("10.0.0.0/24,fd00::/64", None),
            ("ten/24", None),
            ("", None),
        ] {
            assert_eq!(PodRange::parse(cidr).map(|range| (range.prefix(), range.pods())), wanted, "{cidr}");
        }
        let fits = |max_pods, cidr| PodRange::parse(cidr).is_some_and(|range| range.fits(max_pods));
        assert!(fits(126, "10.0.0.0/25") && !fits(127, "10.0.0.0/25"));
        assert!(fits(i64::MAX, "fd00::/64") && fits(-1, "10.0.0.0/32"));
    }

    #[test]
    fn pod_range_stays_small() {
        assert!(size_of::<Option<PodRange>>() <= 4);
    }
}
