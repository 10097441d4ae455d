//! Rules for swap and memory QoS.

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
                    "memorySwap.swapBehavior is set, but the feature gate NodeSwap is off",
                )
                .help("set featureGates.NodeSwap: true, or remove memorySwap");
        }
    }),
    ("memory-reservation-policy-gate", |config, refusals| {
        const POLICY: &str = "memoryReservationPolicy";
        if config.text(POLICY) == "TieredReservation" && !config.gate("MemoryQoS") {
            refusals
                .field(config, POLICY, format!("{POLICY} is TieredReservation, but the feature gate MemoryQoS is off"))
                .help(format!("set featureGates.MemoryQoS: true, or remove {POLICY}"));
        }
    }),
];
