//! Rules for the node and the kubelet's server: taints, directories, certificates, metrics, log endpoints, and graceful
//! shutdown with its two grace periods and the periods by priority that replace them.

use crate::document::Node;
use crate::values::clean_path;
use crate::values::label::{check_label_key, check_label_value};
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};
use crate::verdict::validate::limits::written;
use crate::verdict::validate::limits::{one_of, value_of};

pub(super) const TAINTS: &[Check] = &[
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

const DIR: &str = "podLogsDir";

pub(super) const DIRECTORIES: &[Check] = &[
    ("pod-logs-dir", |config, refusals| {
        let dir = config.text(DIR);
        // A relative path is joined with the configuration's directory, which also cleans it.
        if dir.starts_with('/') && dir != clean_path(dir) {
            refusals
                .field(config, DIR, format!("{DIR} is {dir}; it must not contain //, . or .., nor end with /"))
                .help(format!("write {}", clean_path(dir)));
        }
    }),
    ("pod-logs-dir-ascii", |config, refusals| {
        let dir = config.text(DIR);
        if let Some(odd) = dir.chars().find(|c| !c.is_ascii()) {
            refusals
                .field(config, DIR, format!("{DIR} is {dir}, with {odd:?}; it must be ASCII"))
                .help("use an ASCII name: the name becomes part of metrics");
        }
    }),
];

const QUERY: &str = "enableSystemLogQuery";

pub(super) const SERVER: &[Check] = &[
    ("server-tls-bootstrap-gate", |config, refusals| {
        if config.is("serverTLSBootstrap") && !config.gate("RotateKubeletServerCertificate") {
            refusals
                .field(
                    config,
                    "serverTLSBootstrap",
                    "serverTLSBootstrap is true, but the feature gate RotateKubeletServerCertificate is off",
                )
                .help("keep featureGates.RotateKubeletServerCertificate on, or serverTLSBootstrap off");
        }
    }),
    ("certificate-key-algorithm", |config, refusals| {
        for path in ["clientCertificateKeyAlgorithm", "serverCertificateKeyAlgorithm"] {
            if config.given(path).is_some() {
                one_of(config, refusals, path);
            }
        }
    }),
    ("run-once", |config, refusals| {
        if config.is("runOnce") {
            refusals
                .field(config, "runOnce", "runOnce is true, but this kubelet has no such mode")
                .help("remove it; the kubelet runs static pods from staticPodPath");
        }
    }),
    ("show-hidden-metrics", |config, refusals| {
        const VERSION: &str = "showHiddenMetricsForVersion";
        let version = config.text(VERSION);
        let previous = format!("1.{}", config.minor().0.saturating_sub(1));
        if !version.is_empty() && version != previous {
            refusals
                .field(config, VERSION, format!("{VERSION} is {version:?}; on this kubelet it must be \"{previous}\""))
                .help(format!("write \"{previous}\" in quotes, or remove it; the value changes with every upgrade"));
        }
    }),
    ("system-log-query-gate", |config, refusals| {
        if config.is(QUERY) {
            refusals.require_gate(config, QUERY, "is true", "NodeLogQuery", &format!("remove {QUERY}"));
        }
    }),
    ("system-log-query-handler", |config, refusals| {
        const HANDLER: &str = "enableSystemLogHandler";
        if config.is(QUERY) && !config.is(HANDLER) {
            refusals
                .field(config, HANDLER, format!("{HANDLER} is false, but {QUERY} is true"))
                .related_field(config, QUERY, "requires the handler")
                .help(format!("keep {HANDLER} on, or {QUERY} off"));
        }
    }),
];

const ALL: &str = "shutdownGracePeriod";
const CRITICAL: &str = "shutdownGracePeriodCriticalPods";
const BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";
const SHUTDOWN_GATE: &str = "GracefulNodeShutdown";
const PRIORITY_GATE: &str = "GracefulNodeShutdownBasedOnPodPriority";

pub(super) const SHUTDOWN: &[Check] = &[
    ("shutdown-critical-pods-within", |config, refusals| {
        if config.gate(SHUTDOWN_GATE) && config.duration(CRITICAL) > config.duration(ALL) {
            let (all, critical) = (written(config, ALL), written(config, CRITICAL));
            refusals
                .field(config, CRITICAL, format!("{CRITICAL} is {critical}, more than {ALL}, which is {all}"))
                .related_field(config, ALL, "the total period")
                .help(format!("write {all} or less, or raise {ALL}: the total includes the time for critical pods"));
        }
    }),
    ("shutdown-grace-period-gate", |config, refusals| {
        if let Some(path) = period(config)
            && !config.gate(SHUTDOWN_GATE)
        {
            refusals
                .field(
                    config,
                    path,
                    format!("{path} is {}, but the feature gate {SHUTDOWN_GATE} is off", written(config, path)),
                )
                .help(format!("keep featureGates.{SHUTDOWN_GATE} on, or set {path}: 0s"));
        }
    }),
    ("shutdown-by-pod-priority", |config, refusals| {
        if let Some(path) = period(config)
            && by_priority(config)
            && config.gate(PRIORITY_GATE)
        {
            refusals
                .field(config, BY_PRIORITY, format!("{BY_PRIORITY} and {path} are both set"))
                .related_field(config, path, "conflicting field")
                .help(format!("remove {path}, or remove {BY_PRIORITY}"));
        }
    }),
    ("shutdown-by-pod-priority-gate", |config, refusals| {
        if by_priority(config) {
            refusals.require_gate(config, BY_PRIORITY, "is set", PRIORITY_GATE, "remove the field");
        }
    }),
];

/// Returns the path of the first of the two periods that is above zero.
fn period(config: &Config<'_>) -> Option<&'static str> {
    [ALL, CRITICAL].into_iter().find(|path| config.duration(path).is_some_and(|period| period > 0))
}

fn by_priority(config: &Config<'_>) -> bool {
    config.list(BY_PRIORITY).is_some_and(|list| !list.is_empty())
}
