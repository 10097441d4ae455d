//! Rules for numbers that must be in the range of the table of fields.

use crate::Minor;
use crate::document::Value;
use crate::fields::{self, Range};
use crate::verdict::refusals::{Check, Refusals};
use crate::verdict::{Config, rules};

pub(super) const CHECKS: &[Check] = &[
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
        refusals.help(match nearest(range, value) {
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
fn nearest(range: &Range, value: f64) -> Option<i64> {
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
            assert_eq!((describe(&range).as_str(), nearest(&range, value)), (description, closest), "{value}");
            assert!(closest.is_none_or(|closest| holds(&range, closest as f64)));
        }
        assert!(holds(&blocks, 20.0));
    }
}
