//! Who may talk to the kubelet, and how well that is kept secret.

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
                "whoever reaches the kubelet's port may run commands in any container: anonymous requests are let in, and \
                 AlwaysAllow allows them everything",
            )
            .related(config.place("authentication.anonymous.enabled"), "lets them in")
            .help("write authentication.anonymous.enabled: false and authorization.mode: Webhook");
    } else if all_allowed {
        remarks
            .field(
                config,
                "always-allow",
                "authorization.mode",
                "`authorization.mode` is AlwaysAllow: whoever can authenticate may run commands in any container",
            )
            .help("write Webhook, so that the API server is asked who may do what");
    } else if anonymous {
        remarks
            .field(
                config,
                "anonymous-requests",
                "authentication.anonymous.enabled",
                "requests without credentials are let in as system:anonymous, and RBAC alone keeps them out",
            )
            .help("write false; health checks of the node can use healthzPort, which asks for no credentials");
    }
    let webhook = config.is("authentication.webhook.enabled");
    if !anonymous && !webhook && config.text("authentication.x509.clientCAFile").is_empty() {
        remarks
            .field(
                config,
                "nobody-authenticates",
                "authentication",
                "nobody can authenticate to the kubelet: no client CA, no token webhook, no anonymous requests; logs and exec \
                 will fail",
            )
            .help("set authentication.x509.clientCAFile, or authentication.webhook.enabled: true");
    }
    if let Some(port) = config.int("readOnlyPort").filter(|port| *port != 0) {
        remarks
            .field(
                config,
                "open-read-only-port",
                "readOnlyPort",
                format!("`readOnlyPort` is {port}: it tells pods, metrics and node details to anyone who asks"),
            )
            .help("write 0, and have monitoring use the authenticated port");
    }
}

fn certificate(config: &Config<'_>, remarks: &mut Remarks) {
    let (certificate, key) = (config.text("tlsCertFile"), config.text("tlsPrivateKeyFile"));
    if config.is("serverTLSBootstrap") {
        if !certificate.is_empty() {
            remarks
                .field(
                    config,
                    "two-serving-certificates",
                    "tlsCertFile",
                    format!(
                        "`tlsCertFile` is {certificate}, while `serverTLSBootstrap` has the kubelet ask the cluster for its \
                         certificate"
                    ),
                )
                .related(config.place("serverTLSBootstrap"), "the other certificate")
                .help("keep one of the two: remove tlsCertFile and tlsPrivateKeyFile, or serverTLSBootstrap");
        }
        remarks
            .field(
                config,
                "serving-certificate-approval",
                "serverTLSBootstrap",
                "the kubelet asks the cluster for its serving certificate, and Kubernetes itself approves no such request",
            )
            .help("have an approver for signer kubernetes.io/kubelet-serving in the cluster; managed services bring one");
        return;
    }
    let missing = match (certificate.is_empty(), key.is_empty()) {
        (false, true) => Some(("tlsCertFile", "tlsPrivateKeyFile")),
        (true, false) => Some(("tlsPrivateKeyFile", "tlsCertFile")),
        _ => None,
    };
    if let Some((given, missing)) = missing {
        let message = format!("`{given}` is set and `{missing}` is not: the kubelet has no certificate to serve with");
        remarks
            .field(config, "half-a-certificate", given, message)
            .help(format!("set {missing} too, or remove {given} for a self-signed certificate"));
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
                    format!("`tlsMinVersion` is {version}, a version that must not be used any more"),
                )
                .help("write VersionTLS12 or VersionTLS13");
        }
        "VersionTLS13" if config.list("tlsCipherSuites").is_some_and(|list| !list.is_empty()) => {
            remarks
                .field(
                    config,
                    "cipher-suites-unused",
                    "tlsCipherSuites",
                    "`tlsCipherSuites` has no effect: from TLS 1.3 on, the least allowed here, suites cannot be chosen",
                )
                .help("remove tlsCipherSuites, or write tlsMinVersion: VersionTLS12");
        }
        _ => {}
    }
}
