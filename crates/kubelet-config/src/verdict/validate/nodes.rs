//! Rules for the registration of the node: its taints.

use super::choices::value_of;
use crate::document::Node;
use crate::values::label::{check_label_key, check_label_value};
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

pub(super) const CHECKS: &[Check] = &[
    ("taint-key", |config, refusals| {
        for (index, taint) in taints(config) {
            let key = taint.get("key").and_then(Node::text).unwrap_or_default();
            if let Err(problem) = check_label_key(key) {
                let field = format!("registerWithTaints[{index}].key");
                let message =
                    if key.is_empty() { format!("{field} is empty") } else { format!("{field} {key:?} {problem}") };
                at(refusals, taint, "key", field, message)
                    .help("write a name such as dedicated or example.com/dedicated");
            }
        }
    }),
    ("taint-value", |config, refusals| {
        for (index, taint) in taints(config) {
            let value = taint.get("value").and_then(Node::text).unwrap_or_default();
            if let Err(problem) = check_label_value(value) {
                let field = format!("registerWithTaints[{index}].value");
                let message = format!("{field} {value:?} {problem}");
                at(refusals, taint, "value", field, message).help("omit the key for a taint without a value");
            }
        }
    }),
    ("taint-effect", |config, refusals| {
        for (index, taint) in taints(config) {
            if let Some(effect) = taint.get("effect")
                && let Some(text) = effect.text()
                && !text.is_empty()
            {
                let field = format!("registerWithTaints[{index}].effect");
                value_of(config, refusals, "registerWithTaints[].effect", &field, text, effect.place.clone());
            }
        }
    }),
    ("taint-time-added", |config, refusals| {
        for (index, taint) in taints(config) {
            if taint.get("timeAdded").is_some_and(|time| !time.is_null()) {
                let field = format!("registerWithTaints[{index}].timeAdded");
                let message = format!("{field} is set, but only the cluster may set it");
                at(refusals, taint, "timeAdded", field, message).help("remove it");
            }
        }
    }),
];

fn taints<'d>(config: &Config<'d>) -> impl Iterator<Item = (usize, &'d Node)> + use<'d> {
    config.list("registerWithTaints").unwrap_or_default().iter().enumerate()
}

/// Refuses a field of a taint, at the field or else at the taint.
fn at<'r>(refusals: &'r mut Refusals, taint: &Node, name: &str, field: String, message: String) -> &'r mut Refusals {
    refusals.at(field, taint.get(name).unwrap_or(taint).place.clone(), message)
}
