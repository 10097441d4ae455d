//! Names that the table of fields lists and that the kubelet looks at no earlier than when it starts.

use super::did_you_mean;
use crate::kubelet::fields;
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

pub(super) const CHECKS: &[Check] = &[
    ("authorization-mode", |config, refusals| {
        one_of(config, refusals, "authorization.mode");
    }),
    ("change-detection-strategy", |config, refusals| {
        one_of(config, refusals, "configMapAndSecretChangeDetectionStrategy");
    }),
    ("tls-min-version", |config, refusals| {
        if !config.text("tlsMinVersion").is_empty() {
            one_of(config, refusals, "tlsMinVersion");
        }
    }),
];

/// Holds a text to the values that the table allows it in this version.
pub(super) fn one_of(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    let value = config.text(path);
    let allowed = fields::lookup(path).and_then(|field| field.allowed.at(config.minor()));
    let names = allowed.into_iter().flatten().map(String::as_str);
    if !names.clone().any(|name| name == value) {
        let message = format!("{path} is {value:?}, which kubelet {} does not know", config.minor());
        refusals.field(config, path, message).help(did_you_mean(value, names));
    }
}
