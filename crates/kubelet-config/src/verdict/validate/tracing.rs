//! Rules for tracing.

use super::endpoint;
use super::numbers::in_range;
use crate::Minor;
use crate::verdict::Config;
use crate::verdict::refusals::Check;

const GATE: &str = "KubeletTracing";
const ENDPOINT: &str = "tracing.endpoint";

pub(super) const CHECKS: &[Check] = &[
    ("tracing-gate", |config, refusals| {
        if config.given("tracing").is_some() && !config.gate(GATE) {
            refusals
                .field(config, "tracing", format!("tracing is set, but the feature gate {GATE} is off"))
                .help(format!("set featureGates.{GATE}: true, or remove tracing"));
        }
    }),
    ("tracing-sampling-rate", |config, refusals| {
        if checks_fields(config) {
            in_range(config, refusals);
        }
    }),
    ("tracing-endpoint", |config, refusals| {
        let address = config.text(ENDPOINT);
        // From Kubernetes 1.35 on, every release is built with a Go version that checks the brackets of a host.
        let strict = config.minor() >= Minor(35);
        if checks_fields(config)
            && let Err(problem) = endpoint::check(address, strict)
        {
            refusals
                .field(config, ENDPOINT, format!("{ENDPOINT} is {address:?}, which {problem}"))
                .help("write a host and a port, such as localhost:4317, or unix:// and a path");
        }
    }),
];

/// Reports whether the kubelet checks the fields of tracing. With the gate off it refuses tracing as a whole.
fn checks_fields(config: &Config<'_>) -> bool {
    config.minor() >= Minor(34) || config.gate(GATE)
}
