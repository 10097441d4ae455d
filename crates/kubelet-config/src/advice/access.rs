//! Advice on access to the kubelet: authentication, authorization, ports and TLS.

use super::remarks::Remarks;
use crate::verdict::Config;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    callers(config, remarks);
    certificate(config, remarks);
    protocol(config, remarks);
}

fn callers(config: &Config<'_>, remarks: &mut Remarks) {
    let anonymous = config.is("authentication.anonymous.enabled");
    let all_allowed = config.text("authorization.mode") == "AlwaysAllow";
    if anonymous && all_allowed {
        remarks
            .field(
                config,
                "open-to-everyone",
                "authorization.mode",
                "every client that reaches the kubelet's port can run commands in any container: anonymous requests \
                 are accepted, and AlwaysAllow authorizes them",
            )
            .related(config.place("authentication.anonymous.enabled"), "accepts anonymous requests")
            .help("set authentication.anonymous.enabled: false and authorization.mode: Webhook");
    } else if all_allowed {
        remarks
            .field(
                config,
                "always-allow",
                "authorization.mode",
                "`authorization.mode` is AlwaysAllow: every authenticated client can run commands in any container",
            )
            .help("set it to Webhook, so that the API server authorizes requests");
    } else if anonymous {
        remarks
            .field(
                config,
                "anonymous-requests",
                "authentication.anonymous.enabled",
                "requests without credentials are accepted as system:anonymous; only RBAC restricts them",
            )
            .help("set it to false; health checks can use healthzPort, which requires no credentials");
    }
    let webhook = config.is("authentication.webhook.enabled");
    if !anonymous && !webhook && config.text("authentication.x509.clientCAFile").is_empty() {
        remarks
            .field(
                config,
                "nobody-authenticates",
                "authentication",
                "no client can authenticate to the kubelet: no client CA, no token webhook, no anonymous requests; \
                 logs and exec fail",
            )
            .help("set authentication.x509.clientCAFile, or authentication.webhook.enabled: true");
    }
    if let Some(port) = config.int("readOnlyPort").filter(|port| *port != 0) {
        remarks
            .field(
                config,
                "open-read-only-port",
                "readOnlyPort",
                format!("`readOnlyPort` is {port}: it serves pods, metrics and node details without authentication"),
            )
            .help("set it to 0, and use the authenticated port for monitoring");
    }
}

fn certificate(config: &Config<'_>, remarks: &mut Remarks) {
    let certificate = config.text("tlsCertFile");
    if config.is("serverTLSBootstrap") {
        if !certificate.is_empty() {
            remarks
                .field(
                    config,
                    "two-serving-certificates",
                    "tlsCertFile",
                    format!("`tlsCertFile` is {certificate}, but `serverTLSBootstrap` requests another certificate"),
                )
                .related(config.place("serverTLSBootstrap"), "conflicting certificate source")
                .help("remove either serverTLSBootstrap, or tlsCertFile and tlsPrivateKeyFile");
        }
        remarks
            .field(
                config,
                "serving-certificate-approval",
                "serverTLSBootstrap",
                "the kubelet requests its serving certificate from the cluster, but Kubernetes has no approver",
            )
            .help("run an approver for signer kubernetes.io/kubelet-serving; managed services include one");
    }
}

fn protocol(config: &Config<'_>, remarks: &mut Remarks) {
    match config.text("tlsMinVersion") {
        version @ ("VersionTLS10" | "VersionTLS11") => {
            remarks
                .field(
                    config,
                    "outdated-tls",
                    "tlsMinVersion",
                    format!("`tlsMinVersion` is {version}, an obsolete version that must not be used"),
                )
                .help("set it to VersionTLS12 or VersionTLS13");
        }
        "VersionTLS13" if config.list("tlsCipherSuites").is_some_and(|list| !list.is_empty()) => {
            remarks
                .field(
                    config,
                    "cipher-suites-unused",
                    "tlsCipherSuites",
                    "`tlsCipherSuites` has no effect: `tlsMinVersion` is TLS 1.3, whose suites cannot be configured",
                )
                .help("remove tlsCipherSuites, or set tlsMinVersion: VersionTLS12");
        }
        _ => {}
    }
}
