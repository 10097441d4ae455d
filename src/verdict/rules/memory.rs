//! Swap and memory QoS.

use super::bounds::written;
use super::choices::one_of;
use crate::verdict::refusals::Check;

pub(super) const CHECKS: &[Check] = &[
    ("swap-behavior", |config, refusals| {
        if config.gate("NodeSwap") && !config.text("memorySwap.swapBehavior").is_empty() {
            one_of(config, refusals, "memorySwap.swapBehavior");
        }
    }),
    ("swap-behavior-gate", |config, refusals| {
        if !config.gate("NodeSwap") && !config.text("memorySwap.swapBehavior").is_empty() {
            refusals
                .field(
                    config,
                    "memorySwap.swapBehavior",
                    "memorySwap.swapBehavior is set, and the feature gate NodeSwap is off",
                )
                .help("set featureGates.NodeSwap: true, or leave memorySwap out");
        }
    }),
    ("memory-throttling-factor", |config, refusals| {
        const FACTOR: &str = "memoryThrottlingFactor";
        if config.number(FACTOR).is_some_and(|factor| !(factor > 0.0 && factor <= 1.0)) {
            let message = format!("{FACTOR} is {}; it must be more than 0 and at most 1", written(config, FACTOR));
            refusals.field(config, FACTOR, message).help("without the field it is what Kubernetes recommends");
        }
    }),
    ("memory-reservation-policy-gate", |config, refusals| {
        const POLICY: &str = "memoryReservationPolicy";
        if config.text(POLICY) == "TieredReservation" && !config.gate("MemoryQoS") {
            refusals
                .field(config, POLICY, format!("{POLICY} is TieredReservation, and the feature gate MemoryQoS is off"))
                .help(format!("set featureGates.MemoryQoS: true, or leave {POLICY} out"));
        }
    }),
];
