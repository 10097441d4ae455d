//! The kubelet's own server and life: certificates, metrics, the log endpoints, running once.

use crate::verdict::refusals::Check;

const QUERY: &str = "enableSystemLogQuery";

pub(super) const CHECKS: &[Check] = &[
    ("server-tls-bootstrap-gate", |config, refusals| {
        if config.is("serverTLSBootstrap") && !config.gate("RotateKubeletServerCertificate") {
            refusals
                .field(
                    config,
                    "serverTLSBootstrap",
                    "serverTLSBootstrap is true, and the feature gate RotateKubeletServerCertificate is off",
                )
                .help("leave featureGates.RotateKubeletServerCertificate on, or serverTLSBootstrap off");
        }
    }),
    ("run-once", |config, refusals| {
        if config.is("runOnce") {
            refusals
                .field(config, "runOnce", "runOnce is true; this kubelet no longer has that mode")
                .help("leave it out; static pods are run from staticPodPath");
        }
    }),
    ("show-hidden-metrics", |config, refusals| {
        const VERSION: &str = "showHiddenMetricsForVersion";
        let version = config.text(VERSION);
        let previous = format!("1.{}", config.minor().0.saturating_sub(1));
        if !version.is_empty() && version != previous {
            refusals
                .field(config, VERSION, format!("{VERSION} is {version:?}; on this kubelet it must be \"{previous}\""))
                .help(format!("write \"{previous}\" in quotes, or leave it out; it has to change with every upgrade"));
        }
    }),
    ("system-log-query-gate", |config, refusals| {
        if config.is(QUERY) && !config.gate("NodeLogQuery") {
            refusals
                .field(config, QUERY, format!("{QUERY} is true, and the feature gate NodeLogQuery is off"))
                .help(format!("set featureGates.NodeLogQuery: true, or leave {QUERY} out"));
        }
    }),
    ("system-log-query-handler", |config, refusals| {
        const HANDLER: &str = "enableSystemLogHandler";
        if config.is(QUERY) && !config.is(HANDLER) {
            refusals
                .field(config, HANDLER, format!("{HANDLER} is false, and {QUERY} is true"))
                .related_field(config, QUERY, "needs the handler")
                .help(format!("leave {HANDLER} on, or {QUERY} off"));
        }
    }),
];
