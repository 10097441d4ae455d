//! Durations that have a least or a greatest value, and nothing more.

use super::numbers::written;
use crate::Minor;
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

const SECOND: i64 = 1_000_000_000;

pub(super) const CHECKS: &[Check] = &[
    ("cpu-cfs-quota-period", |config, refusals| {
        // One microsecond was too short for the kernel.
        let least = if config.minor() < Minor(26) { 1_000 } else { 1_000_000 };
        let words = if config.minor() < Minor(26) { "1us" } else { "1ms" };
        if config.gate("CustomCPUCFSQuotaPeriod") {
            let range = format!("between {words} and 1s");
            hold(config, refusals, "cpuCFSQuotaPeriod", |period| (least..=SECOND).contains(&period), &range);
        }
    }),
    ("image-minimum-gc-age", |config, refusals| {
        hold(config, refusals, "imageMinimumGCAge", |age| age >= 0, "0s or more")
    }),
    ("image-maximum-gc-age", |config, refusals| {
        hold(config, refusals, "imageMaximumGCAge", |age| age >= 0, "0s or more")
    }),
    ("shutdown-grace-period", |config, refusals| grace_period(config, refusals, "shutdownGracePeriod")),
    ("shutdown-grace-period-critical-pods", |config, refusals| {
        grace_period(config, refusals, "shutdownGracePeriodCriticalPods");
    }),
    ("container-log-monitor-interval", |config, refusals| {
        hold(config, refusals, "containerLogMonitorInterval", |interval| interval >= 3 * SECOND, "3s or more");
    }),
];

fn grace_period(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    if config.gate("GracefulNodeShutdown") {
        hold(config, refusals, path, |period| period == 0 || period >= SECOND, "0s, or 1s or more");
    }
}

/// Holds a duration to what is allowed, in nanoseconds and in words.
pub(super) fn hold(
    config: &Config<'_>,
    refusals: &mut Refusals,
    path: &str,
    allowed: impl Fn(i64) -> bool,
    words: &str,
) {
    if config.duration(path).is_some_and(|duration| !allowed(duration)) {
        refusals.field(config, path, format!("{path} is {}; it must be {words}", written(config, path)));
        refusals.help(match default(config, path) {
            Some(default) => format!("without the field it is {default}"),
            None => "leave the field out for its default".to_owned(),
        });
    }
}

fn default(config: &Config<'_>, path: &str) -> Option<&'static str> {
    crate::fields::lookup(path)?.default.at(config.minor())?.as_str()
}
