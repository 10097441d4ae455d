//! The number of pod addresses in a range: a `podCIDR` of a configuration or a Node.

// Only the type; this module opens no connection.
use core::net::IpAddr;

use crate::strconv::unsigned;

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
