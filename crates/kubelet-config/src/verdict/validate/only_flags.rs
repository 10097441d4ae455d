//! Rules about values that the file of `--config` cannot have, because there zero means the default, or because the
//! kubelet's flags reset it. A flag can set them, and a drop-in of 1.29 to 1.31 can set zeros
//! (`ValidateKubeletConfiguration`).

use crate::fields;
use crate::verdict::refusals::Refusals;
use crate::verdict::{Config, Refusal};

/// The fields, each with its rule.
const REFUSED: [(&str, &str); 4] = [
    ("containerRuntimeEndpoint", "runtime-endpoint"),
    ("nodeLeaseDurationSeconds", "node-lease-duration"),
    ("podLogsDir", "pod-logs-dir"),
    ("port", "port"),
];

/// Options of logs that need a gate, each with the rule of its neighbor.
const ALPHA: [(&str, &str); 2] = [
    ("logging.options.json.splitStream", "logging-json-buffer-gate"),
    ("logging.options.text.splitStream", "logging-text-buffer-gate"),
];

/// Returns the refusals of such values in a configuration that writes out every default.
pub(in crate::verdict) fn check(config: &Config<'_>) -> Vec<Refusal> {
    let is_zero = |path: &str| match config.number(path) {
        Some(number) => number == 0.0,
        None => config.text(path).is_empty(),
    };
    let is_known = |path: &str| fields::lookup(path).is_some_and(|field| field.is_known_to(config.minor()));
    let mut refusals = Refusals::default();
    for (path, rule) in REFUSED.into_iter().filter(|(path, _)| is_known(path) && is_zero(path)) {
        let message = format!("{path} is empty or 0, which means the default only in the file of --config");
        refusals.by(rule).field(config, path, message).help("omit it for its default");
    }
    for (path, rule) in ALPHA.into_iter().filter(|(path, _)| config.is(path)) {
        refusals.by(rule).require_gate(config, path, "is true", "LoggingAlphaOptions", "omit the flag");
    }
    refusals.into_list()
}
