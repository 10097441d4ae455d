//! Rules for pods: swap, memory QoS, CPU quota and restart delay.

use crate::verdict::refusals::Check;
use crate::verdict::validate::limits::one_of;
use crate::verdict::validate::limits::written;

pub(super) const MEMORY: &[Check] = &[
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

const PERIOD: &str = "crashLoopBackOff.maxContainerRestartPeriod";
const BACKOFF: &str = "KubeletCrashLoopBackOffMax";
const QUOTA: &str = "cpuCFSQuotaPeriod";

pub(super) const RESTARTS: &[Check] = &[
    ("cpu-cfs-quota-period-gate", |config, refusals| {
        if !config.gate("CustomCPUCFSQuotaPeriod") && config.duration(QUOTA).is_some_and(|period| period != 100_000_000)
        {
            let period = written(config, QUOTA);
            refusals
                .field(
                    config,
                    QUOTA,
                    format!("{QUOTA} is {period}, but the feature gate CustomCPUCFSQuotaPeriod is off"),
                )
                .help("set featureGates.CustomCPUCFSQuotaPeriod: true, or remove the field; the default is 100ms");
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
        if !config.gate(BACKOFF) && config.given(PERIOD).is_some() {
            refusals
                .field(config, PERIOD, format!("{PERIOD} is set, but the feature gate {BACKOFF} is off"))
                .help(format!("set featureGates.{BACKOFF}: true, or remove crashLoopBackOff"));
        }
    }),
];
