//! Rules for pods: swap, memory QoS, CPU quota and restart delay.

use crate::verdict::refusals::Check;
use crate::verdict::validate::limits::one_of;
use crate::verdict::validate::limits::written;

const SWAP: &str = "memorySwap.swapBehavior";

pub(super) const MEMORY: &[Check] = &[
    ("swap-behavior", |config, refusals| {
        if config.gate("NodeSwap") && !config.text(SWAP).is_empty() {
            one_of(config, refusals, SWAP);
        }
    }),
    ("swap-behavior-gate", |config, refusals| {
        if !config.text(SWAP).is_empty() {
            refusals.require_gate(config, SWAP, "is set", "NodeSwap", "remove memorySwap");
        }
    }),
    ("memory-reservation-policy-gate", |config, refusals| {
        const POLICY: &str = "memoryReservationPolicy";
        if config.text(POLICY) == "TieredReservation" {
            refusals.require_gate(
                config,
                POLICY,
                "is TieredReservation",
                "MemoryQoS",
                "remove memoryReservationPolicy",
            );
        }
    }),
];

const PERIOD: &str = "crashLoopBackOff.maxContainerRestartPeriod";
const BACKOFF: &str = "KubeletCrashLoopBackOffMax";
const QUOTA: &str = "cpuCFSQuotaPeriod";

pub(super) const RESTARTS: &[Check] = &[
    ("cpu-cfs-quota-period-gate", |config, refusals| {
        if config.duration(QUOTA).is_some_and(|period| period != 100_000_000) {
            refusals.require_gate(
                config,
                QUOTA,
                &format!("is {}", written(config, QUOTA)),
                "CustomCPUCFSQuotaPeriod",
                "remove the field; the default is 100ms",
            );
        }
    }),
    ("crash-loop-back-off", |config, refusals| {
        // Compared in whole milliseconds: 300.0009s is accepted.
        let within = |period: i64| (1_000..=300_000).contains(&(period / 1_000_000));
        if config.gate(BACKOFF) && config.max_container_restart_period().is_some_and(|period| !within(period)) {
            let message = format!("{PERIOD} is {}; it must be between 1s and 5m", written(config, PERIOD));
            refusals.field(config, PERIOD, message).help("remove the field for its default, 5m");
        }
    }),
    ("crash-loop-back-off-gate", |config, refusals| {
        if config.given(PERIOD).is_some() {
            refusals.require_gate(config, PERIOD, "is set", BACKOFF, "remove crashLoopBackOff");
        }
    }),
];
