//! Rules for durations that must be in a range.

use super::numbers::written;
use crate::Minor;
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

const SECOND: i64 = 1_000_000_000;

pub(super) const CHECKS: &[Check] = &[
    ("cpu-cfs-quota-period", |config, refusals| {
        // Up to 1.25 the kubelet accepts even 1us, although the kernel refuses such a period.
        let least = if config.minor() < Minor(26) { 1_000 } else { 1_000_000 };
        let minimum = if config.minor() < Minor(26) { "1us" } else { "1ms" };
        if config.gate("CustomCPUCFSQuotaPeriod") {
            let range = format!("between {minimum} and 1s");
            require_duration(
                config,
                refusals,
                "cpuCFSQuotaPeriod",
                |period| (least..=SECOND).contains(&period),
                &range,
            );
        }
    }),
    ("image-minimum-gc-age", |config, refusals| {
        require_duration(config, refusals, "imageMinimumGCAge", |age| age >= 0, "0s or more")
    }),
    ("image-maximum-gc-age", |config, refusals| {
        require_duration(config, refusals, "imageMaximumGCAge", |age| age >= 0, "0s or more")
    }),
    ("shutdown-grace-period", |config, refusals| grace_period(config, refusals, "shutdownGracePeriod")),
    ("shutdown-grace-period-critical-pods", |config, refusals| {
        grace_period(config, refusals, "shutdownGracePeriodCriticalPods");
    }),
    ("container-log-monitor-interval", |config, refusals| {
        require_duration(
            config,
            refusals,
            "containerLogMonitorInterval",
            |interval| interval >= 3 * SECOND,
            "3s or more",
        );
    }),
];

fn grace_period(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    if config.gate("GracefulNodeShutdown") {
        require_duration(config, refusals, path, |period| period == 0 || period >= SECOND, "0s, or 1s or more");
    }
}

/// Refuses a duration that is not allowed. `allowed` takes nanoseconds; `range` describes it.
pub(in crate::verdict) fn require_duration(
    config: &Config<'_>,
    refusals: &mut Refusals,
    path: &str,
    allowed: impl Fn(i64) -> bool,
    range: &str,
) {
    if config.duration(path).is_some_and(|duration| !allowed(duration)) {
        refusals.field(config, path, format!("{path} is {}; it must be {range}", written(config, path)));
        refusals.help(match default(config, path) {
            Some(default) => format!("remove the field for its default, {default}"),
            None => "remove the field for its default".to_owned(),
        });
    }
}

fn default(config: &Config<'_>, path: &str) -> Option<&'static str> {
    crate::fields::lookup(path)?.default.at(config.minor())?.as_str()
}
