//! Rules for graceful node shutdown: the two grace periods, and the periods by priority that replace them.

use super::numbers::written;
use crate::verdict::Config;
use crate::verdict::refusals::Check;

const ALL: &str = "shutdownGracePeriod";
const CRITICAL: &str = "shutdownGracePeriodCriticalPods";
const BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";
const GATE: &str = "GracefulNodeShutdown";
const PRIORITY_GATE: &str = "GracefulNodeShutdownBasedOnPodPriority";

pub(super) const CHECKS: &[Check] = &[
    ("shutdown-critical-pods-within", |config, refusals| {
        if config.gate(GATE) && config.duration(CRITICAL) > config.duration(ALL) {
            let (all, critical) = (written(config, ALL), written(config, CRITICAL));
            refusals
                .field(config, CRITICAL, format!("{CRITICAL} is {critical}, more than {ALL}, which is {all}"))
                .related_field(config, ALL, "the total period")
                .help(format!("write {all} or less, or raise {ALL}: the total includes the time for critical pods"));
        }
    }),
    ("shutdown-grace-period-gate", |config, refusals| {
        if let Some(path) = period(config)
            && !config.gate(GATE)
        {
            refusals
                .field(config, path, format!("{path} is {}, but the feature gate {GATE} is off", written(config, path)))
                .help(format!("keep featureGates.{GATE} on, or set {path}: 0s"));
        }
    }),
    ("shutdown-by-pod-priority", |config, refusals| {
        if let Some(path) = period(config)
            && by_priority(config)
            && config.gate(PRIORITY_GATE)
        {
            refusals
                .field(config, BY_PRIORITY, format!("{BY_PRIORITY} and {path} are both set"))
                .related_field(config, path, "conflicting field")
                .help(format!("remove {path}, or remove {BY_PRIORITY}"));
        }
    }),
    ("shutdown-by-pod-priority-gate", |config, refusals| {
        if by_priority(config) && !config.gate(PRIORITY_GATE) {
            refusals
                .field(
                    config,
                    BY_PRIORITY,
                    format!("{BY_PRIORITY} is set, but the feature gate {PRIORITY_GATE} is off"),
                )
                .help(format!("set featureGates.{PRIORITY_GATE}: true, or remove the field"));
        }
    }),
];

/// Returns the path of the first of the two periods that is above zero.
fn period(config: &Config<'_>) -> Option<&'static str> {
    [ALL, CRITICAL].into_iter().find(|path| config.duration(path).is_some_and(|period| period > 0))
}

fn by_priority(config: &Config<'_>) -> bool {
    config.list(BY_PRIORITY).is_some_and(|list| !list.is_empty())
}
