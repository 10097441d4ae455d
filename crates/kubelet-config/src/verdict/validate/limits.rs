//! Rules for values that must be in a range, or one of several texts. Ranges and texts are in the table of fields.

use crate::Minor;
use crate::document::Value;
use crate::fields::{self, Range};
use crate::finding::{Place, nearest};
use crate::values::listed;
use crate::verdict::refusals::{Check, Refusals};
use crate::verdict::{Config, rules};

pub(super) const NUMBERS: &[Check] = &[
    ("node-lease-duration", |config, refusals| {
        // In 1.16 the NodeLease gate could still be off.
        if config.minor() > Minor(16) || config.gate("NodeLease") {
            in_range(config, refusals);
        }
    }),
    ("event-burst", in_range),
    ("event-record-qps", in_range),
    ("healthz-port", in_range),
    ("image-gc-high-threshold", in_range),
    ("image-gc-low-threshold", in_range),
    ("iptables-drop-bit", in_range),
    ("iptables-masquerade-bit", in_range),
    ("kube-api-burst", in_range),
    ("kube-api-qps", in_range),
    ("node-status-max-images", in_range),
    ("max-open-files", in_range),
    ("max-pods", in_range),
    ("oom-score-adj", in_range),
    ("pods-per-core", in_range),
    ("port", in_range),
    ("read-only-port", in_range),
    ("registry-burst", in_range),
    ("registry-pull-qps", in_range),
    ("max-parallel-image-pulls", in_range),
    ("memory-throttling-factor", in_range),
    ("user-namespaces-ids-per-pod", in_range),
    ("container-log-max-workers", in_range),
    ("container-log-max-files", in_range),
];

/// Refuses the running rule's field if it is out of range. A zero that means the default is already replaced.
pub(super) fn in_range(config: &Config<'_>, refusals: &mut Refusals) {
    let Some(path) = rules::lookup(refusals.rule()).and_then(|rule| rule.fields.first()) else { return };
    let Some(range) = fields::lookup(path).and_then(|field| field.range.at(config.minor())) else { return };
    let Some(value) = config.number(path) else { return };
    if !holds(range, value) {
        let message = format!("{path} is {}; it must be {}", written(config, path), describe(range));
        refusals.field(config, path, message);
        refusals.help(match nearest_number(range, value) {
            Some(nearest) => format!("the closest allowed value is {nearest}"),
            None => "remove the field for its default".to_owned(),
        });
    }
}

/// Reports whether a range allows a value. All bounds are far below 2^53, and exact as floats.
fn holds(range: &Range, value: f64) -> bool {
    range.minimum.is_none_or(|minimum| if range.exclusive { value > minimum as f64 } else { value >= minimum as f64 })
        && range.maximum.is_none_or(|maximum| value <= maximum as f64)
        && range.multiple_of.is_none_or(|multiple_of| value % multiple_of as f64 == 0.0)
}

fn describe(range: &Range) -> String {
    let bounds = match (range.minimum, range.maximum) {
        (Some(minimum), Some(maximum)) if range.exclusive => format!("more than {minimum} and at most {maximum}"),
        (Some(minimum), Some(maximum)) => format!("between {minimum} and {maximum}"),
        (Some(minimum), None) => format!("{minimum} or more"),
        (None, Some(maximum)) => format!("{maximum} or less"),
        (None, None) => String::new(),
    };
    match range.multiple_of {
        Some(multiple_of) => format!("a multiple of {multiple_of}, {bounds}"),
        None => bounds,
    }
}

/// Returns an allowed value near this one: the exceeded bound, or the next lower multiple. `None` at or below an
/// excluded minimum.
fn nearest_number(range: &Range, value: f64) -> Option<i64> {
    let multiple_of = range.multiple_of.unwrap_or(1);
    let maximum = range.maximum.map(|maximum| maximum / multiple_of * multiple_of);
    match (range.minimum, maximum) {
        (Some(minimum), _) if value < minimum as f64 || range.exclusive && value <= minimum as f64 => {
            (!range.exclusive).then_some(minimum)
        }
        (_, Some(maximum)) if value > maximum as f64 => Some(maximum),
        // Only a range with a step has gaps, and its values are whole numbers.
        _ => Some((value / multiple_of as f64).floor() as i64 * multiple_of),
    }
}

/// Returns a scalar as written in the file, or its default.
pub(in crate::verdict) fn written(config: &Config<'_>, path: &str) -> String {
    let given = config.given(path).and_then(|node| match &node.value {
        Value::Scalar(scalar) => Some(scalar.text.clone()),
        _ => None,
    });
    let default = || {
        let default = fields::lookup(path)?.default.at(config.minor())?;
        Some(default.as_str().map_or_else(|| default.to_string(), str::to_owned))
    };
    given.or_else(default).unwrap_or_default()
}

const SECOND: i64 = 1_000_000_000;

pub(super) const DURATIONS: &[Check] = &[
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
        refusals.help(match default_text(config, path) {
            Some(default) => format!("remove the field for its default, {default}"),
            None => "remove the field for its default".to_owned(),
        });
    }
}

fn default_text(config: &Config<'_>, path: &str) -> Option<&'static str> {
    fields::lookup(path)?.default.at(config.minor())?.as_str()
}

pub(super) const TEXTS: &[Check] = &[
    ("topology-manager-policy", |config, refusals| one_of(config, refusals, "topologyManagerPolicy")),
    ("topology-manager-scope", |config, refusals| one_of(config, refusals, "topologyManagerScope")),
    ("topology-manager-policy-gate", |config, refusals| {
        topology_gate(config, refusals, "topologyManagerPolicy", "none")
    }),
    ("topology-manager-scope-gate", |config, refusals| {
        topology_gate(config, refusals, "topologyManagerScope", "container")
    }),
    ("hairpin-mode", |config, refusals| one_of(config, refusals, "hairpinMode")),
    ("memory-reservation-policy", |config, refusals| one_of(config, refusals, "memoryReservationPolicy")),
];

/// Refuses every value except the one without effect if the topology manager is off.
fn topology_gate(config: &Config<'_>, refusals: &mut Refusals, path: &str, idle: &str) {
    const GATE: &str = "TopologyManager";
    let value = config.text(path);
    if value != idle && !config.gate(GATE) {
        refusals
            .field(config, path, format!("{path} is {value}, but the feature gate {GATE} is off"))
            .help(format!("keep featureGates.{GATE} on, or set the field to {idle}"));
    }
}

/// Refuses a field whose value its version does not allow.
pub(in crate::verdict) fn one_of(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    value_of(config, refusals, path, path, config.text(path), config.place(path));
}

/// Refuses a value at `field` that its version does not allow for the table's field `path`. Reports whether the value
/// is allowed.
pub(super) fn value_of(
    config: &Config<'_>,
    refusals: &mut Refusals,
    path: &str,
    field: &str,
    value: &str,
    place: Place,
) -> bool {
    let allowed = fields::lookup(path).and_then(|field| field.allowed.at(config.minor()));
    let allowed = allowed.map(Vec::as_slice).unwrap_or_default();
    if allowed.iter().any(|name| name == value) {
        return true;
    }
    let help = match nearest(value, allowed.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("use one of {}; case matters", allowed.join(", ")),
    };
    refusals.at(field, place, format!("{field} is {value:?}; it must be {}", listed(allowed, "or"))).help(help);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_ranges_and_finds_closest_values() {
        let blocks = Range { minimum: Some(10), exclusive: false, maximum: Some(99), multiple_of: Some(10) };
        let cases = [
            (Range { minimum: Some(0), ..Range::default() }, -1.0, "0 or more", Some(0)),
            (Range { maximum: Some(5), ..Range::default() }, 6.0, "5 or less", Some(5)),
            (Range { minimum: Some(1), maximum: Some(9), ..Range::default() }, 12.0, "between 1 and 9", Some(9)),
            (
                Range { minimum: Some(0), exclusive: true, maximum: Some(1), multiple_of: None },
                0.0,
                "more than 0 and at most 1",
                None,
            ),
            (blocks, 7.0, "a multiple of 10, between 10 and 99", Some(10)),
            (blocks, 25.0, "a multiple of 10, between 10 and 99", Some(20)),
            (blocks, 120.0, "a multiple of 10, between 10 and 99", Some(90)),
        ];
        for (range, value, description, closest) in cases {
            assert!(!holds(&range, value));
            assert_eq!((describe(&range).as_str(), nearest_number(&range, value)), (description, closest), "{value}");
            assert!(closest.is_none_or(|closest| holds(&range, closest as f64)));
        }
        assert!(holds(&blocks, 20.0));
    }
}
