//! Numbers and durations that have to be within the bounds of the table of bounds, and no more than that.

use crate::kubelet::bounds;
use crate::kubelet::fields::{self, FieldType};
use crate::kubelet::rules;
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

pub(super) const CHECKS: &[Check] = &[
    ("node-lease-duration", bounded),
    ("event-burst", bounded),
    ("event-record-qps", bounded),
    ("healthz-port", bounded),
    ("cpu-cfs-quota-period", bounded),
    ("image-gc-high-threshold", bounded),
    ("image-gc-low-threshold", bounded),
    ("image-minimum-gc-age", bounded),
    ("image-maximum-gc-age", bounded),
    ("iptables-drop-bit", bounded),
    ("iptables-masquerade-bit", bounded),
    ("kube-api-burst", bounded),
    ("kube-api-qps", bounded),
    ("node-status-max-images", bounded),
    ("max-open-files", bounded),
    ("max-pods", bounded),
    ("oom-score-adj", bounded),
    ("pods-per-core", bounded),
    ("port", bounded),
    ("read-only-port", bounded),
    ("registry-burst", bounded),
    ("registry-pull-qps", bounded),
    ("max-parallel-image-pulls", bounded),
    ("shutdown-grace-period", bounded),
    ("shutdown-grace-period-critical-pods", bounded),
    ("container-log-max-workers", bounded),
    ("container-log-monitor-interval", bounded),
    ("container-log-max-files", bounded),
];

/// Holds the field of the running rule to the rule's bounds. A field without a value is within.
pub(super) fn bounded(config: &Config<'_>, refusals: &mut Refusals) {
    let Some(bounds) = bounds::lookup(refusals.rule()) else { return };
    let Some(path) = rules::lookup(refusals.rule()).and_then(|rule| rule.fields.first()) else { return };
    let Some(field) = fields::lookup(path) else { return };
    if bounds.gate.as_ref().is_some_and(|gate| !config.gate(gate)) {
        return;
    }
    let is_duration = field.any_types().contains(&FieldType::Duration);
    let Some(value) = (if is_duration { config.duration(path) } else { config.int(path) }) else { return };
    let (least, most) = (bounds.least.at(config.minor()), bounds.most.at(config.minor()));
    let below = least.filter(|least| value < least.value);
    let above = most.filter(|most| value > most.value);
    let Some(nearest) = below.or(above) else { return };
    if bounds.also.as_ref().is_some_and(|also| also.value == value) {
        return;
    }
    let range = match (least, most) {
        (Some(least), Some(most)) => format!("between {} and {}", least.text, most.text),
        (Some(least), None) => format!("{} or more", least.text),
        (None, Some(most)) => format!("{} or less", most.text),
        (None, None) => return,
    };
    let also = bounds.also.as_ref().map(|also| format!(", or {}", also.text)).unwrap_or_default();
    refusals.field(config, path, format!("{path} is {}; it must be {range}{also}", written(config, path))).help(
        match &bounds.also {
            Some(also) => format!("the closest values that are allowed are {} and {}", also.text, nearest.text),
            None => format!("the closest value that is allowed is {}", nearest.text),
        },
    );
}

/// A scalar as the file has it, or the default that stands for it.
pub(super) fn written(config: &Config<'_>, path: &str) -> String {
    let given = config.given(path).and_then(|node| match &node.value {
        crate::document::Value::Scalar(scalar) => Some(scalar.text.clone()),
        _ => None,
    });
    let default = || {
        let default = fields::lookup(path)?.default.at(config.minor())?;
        Some(default.as_str().map_or_else(|| default.to_string(), str::to_owned))
    };
    given.or_else(default).unwrap_or_default()
}
