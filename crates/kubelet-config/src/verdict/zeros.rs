//! Zero values that only a file cannot have, because there they mean the default. A flag can set them, and so can a
//! drop-in of 1.29 to 1.31 (`ValidateKubeletConfiguration`).

use super::{Config, Refusal};
use crate::fields;

/// The fields, each with its rule.
const REFUSED: [(&str, &str); 4] = [
    ("containerRuntimeEndpoint", "runtime-endpoint"),
    ("nodeLeaseDurationSeconds", "node-lease-duration"),
    ("podLogsDir", "pod-logs-dir"),
    ("port", "port"),
];

/// Returns the refusals of zero values in a configuration that writes out every default.
pub(super) fn check(config: &Config<'_>) -> Vec<Refusal> {
    let is_zero = |path: &str| match config.number(path) {
        Some(number) => number == 0.0,
        None => config.text(path).is_empty(),
    };
    let is_known = |path: &str| fields::lookup(path).is_some_and(|field| field.is_known_to(config.minor()));
    REFUSED
        .into_iter()
        .filter(|(path, _)| is_known(path) && is_zero(path))
        .map(|(path, rule)| Refusal {
            rule,
            field: path.to_owned(),
            message: format!("{path} is empty or 0, which means the default only in the file of --config"),
            place: config.place(path),
            related: Vec::new(),
            help: Some("omit it for its default".to_owned()),
        })
        .collect()
}
