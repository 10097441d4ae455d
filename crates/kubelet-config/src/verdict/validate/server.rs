//! Rules for the kubelet's server and run mode: certificates, metrics, log endpoints, running once.

use super::choices::one_of;
use crate::verdict::refusals::Check;

const QUERY: &str = "enableSystemLogQuery";

pub(super) const CHECKS: &[Check] = &[
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
        if config.is(QUERY) && !config.gate("NodeLogQuery") {
            refusals
                .field(config, QUERY, format!("{QUERY} is true, but the feature gate NodeLogQuery is off"))
                .help(format!("set featureGates.NodeLogQuery: true, or remove {QUERY}"));
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
