//! Numbers that have to be in the range that the table of fields gives them, and nothing more.

use crate::Minor;
use crate::document::Value;
use crate::fields::{self, Range};
use crate::rules;
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

pub(super) const CHECKS: &[Check] = &[
    ("node-lease-duration", |config, refusals| {
        // In 1.16 leases could still be switched off.
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

/// Holds the field that the running rule is about to its range. Zero, where it takes the default, has become that.
pub(super) fn in_range(config: &Config<'_>, refusals: &mut Refusals) {
    let Some(path) = rules::lookup(refusals.rule()).and_then(|rule| rule.fields.first()) else { return };
    let Some(range) = fields::lookup(path).and_then(|field| field.range.at(config.minor())) else { return };
    let Some(value) = config.number(path) else { return };
    if !holds(range, value) {
        let message = format!("{path} is {}; it must be {}", written(config, path), words(range));
        refusals.field(config, path, message);
        refusals.help(match nearest(range, value) {
            Some(nearest) => format!("the closest value that is allowed is {nearest}"),
            None => "leave the field out for its default".to_owned(),
        });
    }
}

// The numbers of the table and of these fields are far below 2^53, so that a float holds them exactly.
fn holds(range: &Range, value: f64) -> bool {
    range.least.is_none_or(|least| if range.above { value > least as f64 } else { value >= least as f64 })
        && range.greatest.is_none_or(|greatest| value <= greatest as f64)
        && range.step.is_none_or(|step| value % step as f64 == 0.0)
}

fn words(range: &Range) -> String {
    let bounds = match (range.least, range.greatest) {
        (Some(least), Some(greatest)) if range.above => format!("more than {least} and at most {greatest}"),
        (Some(least), Some(greatest)) => format!("between {least} and {greatest}"),
        (Some(least), None) => format!("{least} or more"),
        (None, Some(greatest)) => format!("{greatest} or less"),
        (None, None) => String::new(),
    };
    match range.step {
        Some(step) => format!("a multiple of {step}, {bounds}"),
        None => bounds,
    }
}

/// The closest value in the range; none where the range begins just above its least.
fn nearest(range: &Range, value: f64) -> Option<i64> {
    let step = range.step.unwrap_or(1);
    let greatest = range.greatest.map(|greatest| greatest / step * step);
    match (range.least, greatest) {
        (Some(least), _) if value < least as f64 || range.above && value <= least as f64 => {
            (!range.above).then_some(least)
        }
        (_, Some(greatest)) if value > greatest as f64 => Some(greatest),
        // Only a range with steps has gaps, and those are of whole numbers.
        _ => Some((value / step as f64).floor() as i64 * step),
    }
}

/// A scalar as the file has it, or the default that stands for it.
pub(super) fn written(config: &Config<'_>, path: &str) -> String {
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
    fn ranges_are_said_and_come_with_the_closest_value() {
        let blocks = Range { least: Some(10), above: false, greatest: Some(99), step: Some(10) };
        let cases = [
            (Range { least: Some(0), ..Range::default() }, -1.0, "0 or more", Some(0)),
            (Range { greatest: Some(5), ..Range::default() }, 6.0, "5 or less", Some(5)),
            (Range { least: Some(1), greatest: Some(9), ..Range::default() }, 12.0, "between 1 and 9", Some(9)),
            (
                Range { least: Some(0), above: true, greatest: Some(1), step: None },
                0.0,
                "more than 0 and at most 1",
                None,
            ),
            (blocks, 7.0, "a multiple of 10, between 10 and 99", Some(10)),
            (blocks, 25.0, "a multiple of 10, between 10 and 99", Some(20)),
            (blocks, 120.0, "a multiple of 10, between 10 and 99", Some(90)),
        ];
        for (range, value, said, closest) in cases {
            assert!(!holds(&range, value));
            assert_eq!((words(&range).as_str(), nearest(&range, value)), (said, closest), "{value}");
            assert!(closest.is_none_or(|closest| holds(&range, closest as f64)));
        }
        assert!(holds(&blocks, 20.0));
    }
}
