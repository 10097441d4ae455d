//! Rules for the kubelet's logs (`k8s.io/component-base/logs/api/v1/options.go`, `Validate`) and traces.

use crate::Minor;
use crate::document::Node;
use crate::verdict::Config;
use crate::verdict::config::whole;
use crate::verdict::refusals::{Check, Refusals};
use crate::verdict::validate::endpoint;
use crate::verdict::validate::limits::in_range;
use crate::verdict::validate::limits::one_of;
use crate::verdict::validate::limits::require_duration;
use crate::verdict::validate::reservations::is_zero;

const FORMAT: &str = "logging.format";
const VMODULE: &str = "logging.vmodule";
/// klog stores levels as signed 32-bit numbers.
const MAX_LEVEL: i128 = i32::MAX as i128;

/// splitStream has no rule for its gate. Kubelets parse their flags again after the file, and the flags of that name
/// start as false. The value in the file is thus lost before the check
/// (`k8s.io/component-base/logs/api/v1/options.go`, `addFlags`).
pub(super) const LOGS: &[Check] = &[
    ("logging-format", |config, refusals| one_of(config, refusals, FORMAT)),
    ("logging-format-gate", |config, refusals| {
        if config.text(FORMAT) == "json" && !config.gate("LoggingBetaOptions") {
            refusals
                .field(config, FORMAT, format!("{FORMAT} is json, but the feature gate LoggingBetaOptions is off"))
                .help("keep featureGates.LoggingBetaOptions on, or write text");
        }
    }),
    ("logging-flush-frequency", |config, refusals| {
        require_duration(config, refusals, "logging.flushFrequency", |frequency| frequency > 0, "more than 0s");
    }),
    ("logging-verbosity", in_range),
    ("logging-vmodule-format", |config, refusals| {
        let format = config.text(FORMAT);
        if format != "text" && config.list(VMODULE).is_some_and(|list| !list.is_empty()) {
            refusals
                .field(config, VMODULE, format!("{VMODULE} is set, but {FORMAT} is {format}"))
                .related_field(config, FORMAT, "only the text format supports levels by file")
                .help(format!("remove {VMODULE}, or set the format to text"));
        }
    }),
    ("logging-vmodule-pattern", |config, refusals| {
        for (index, module) in config.list(VMODULE).unwrap_or_default().iter().enumerate() {
            let pattern = module.get("filePattern");
            let text = pattern.and_then(Node::text).unwrap_or_default();
            let problem = if text.is_empty() { "is empty" } else { "contains = or ," };
            if text.is_empty() || text.contains(['=', ',']) {
                let field = format!("{VMODULE}[{index}].filePattern");
                let message = format!("{field} {problem}");
                refusals
                    .at(field, pattern.unwrap_or(module).place.clone(), message)
                    .help("write the name of a source file without .go, such as kubelet_pods or gc*");
            }
        }
    }),
    ("logging-vmodule-verbosity", |config, refusals| {
        for (index, module) in config.list(VMODULE).unwrap_or_default().iter().enumerate() {
            if let Some(level) = module.get("verbosity")
                && let Some(value) = whole(level).filter(|value| *value > MAX_LEVEL)
            {
                let field = format!("{VMODULE}[{index}].verbosity");
                let message = format!("{field} is {value}; it must be {MAX_LEVEL} or less");
                refusals
                    .at(field, level.place.clone(), message)
                    .help("write 10, the highest level that the kubelet uses");
            }
        }
    }),
    ("logging-text-buffer-gate", |config, refusals| buffer(config, refusals, "text")),
    ("logging-json-buffer-gate", |config, refusals| buffer(config, refusals, "json")),
];

fn buffer(config: &Config<'_>, refusals: &mut Refusals, format: &str) {
    let path = format!("logging.options.{format}.infoBufferSize");
    if config.given(&path).is_some_and(|size| !is_zero(size)) {
        refusals.require_gate(config, &path, "is set", "LoggingAlphaOptions", "remove the field");
    }
}

const TRACES_GATE: &str = "KubeletTracing";
const ENDPOINT: &str = "tracing.endpoint";

pub(super) const TRACES: &[Check] = &[
    ("tracing-gate", |config, refusals| {
        if config.given("tracing").is_some() {
            refusals.require_gate(config, "tracing", "is set", TRACES_GATE, "remove tracing");
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
    config.minor() >= Minor(34) || config.gate(TRACES_GATE)
}
