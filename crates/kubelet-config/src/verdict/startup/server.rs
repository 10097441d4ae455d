//! Sockets. The kubelet's server: `pkg/kubelet/server/server.go` `ListenAndServeKubeletServer` and
//! `ListenAndServeKubeletReadOnlyServer`, which end the kubelet if they cannot listen. Its TLS: `cmd/kubelet/app/server.go`
//! `InitializeTLS`, `component-base/cli/flag/ciphersuites_flag.go` and `curves_flag.go`. The container runtime:
//! `k8s.io/cri-client/pkg/util/util_unix.go` `GetAddressAndDialer`.

// Only the type; this module opens no connection.
use core::net::IpAddr;
use std::collections::BTreeMap;

use crate::document::Node;
use crate::fields::{TlsKind, tls_names};
use crate::verdict::Config;
use crate::verdict::config::whole;
use crate::verdict::refusals::Check;
use crate::verdict::startup::did_you_mean;
use crate::verdict::validate::scheme;

pub(super) const SERVER: &[Check] = &[
    ("address-not-ip", |config, refusals| {
        let address = config.text("address");
        if is_on(config) && !is_address(address) {
            let message =
                format!("address is {address:?}, which is not an IP address: the kubelet cannot listen, and exits");
            refusals
                .field(config, "address", message)
                .help("use an IP address of the node, or 0.0.0.0 for all addresses");
        }
    }),
    ("read-only-port-twice", |config, refusals| {
        let port = config.int("readOnlyPort").filter(|port| *port != 0 && config.int("port") == Some(*port));
        if let Some(port) = port.filter(|_| is_on(config)) {
            let message = format!("readOnlyPort and port are both {port}; only one server can listen on a port");
            refusals
                .field(config, "readOnlyPort", message)
                .related_field(config, "port", "the same port")
                .help("set it to 0, or use another port");
        }
    }),
    ("half-a-certificate", |config, refusals| {
        let (certificate, key) = (config.text("tlsCertFile"), config.text("tlsPrivateKeyFile"));
        if !is_on(config) || config.is("serverTLSBootstrap") || certificate.is_empty() == key.is_empty() {
            return;
        }
        let (given, missing) =
            if key.is_empty() { ("tlsCertFile", "tlsPrivateKeyFile") } else { ("tlsPrivateKeyFile", "tlsCertFile") };
        let message =
            format!("{given} is set, but {missing} is not: the kubelet has no serving certificate, and exits");
        refusals
            .field(config, given, message)
            .help(format!("set {missing} too, or remove {given} for a self-signed certificate"));
    }),
];

/// Reports whether the kubelet has a server.
pub(crate) fn is_on(config: &Config<'_>) -> bool {
    config.flag("enableServer") != Some(false)
}

/// Reports whether the kubelet parses a text as an IP address: as Rust does, but with leading zeros allowed in IPv4
/// (`k8s.io/utils/net`, `ParseIPSloppy`).
pub(crate) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || {
        let parts: Vec<&str> = text.split('.').collect();
        parts.len() == 4
            && parts.iter().all(|part| {
                let digits = !part.is_empty() && part.len() <= 10 && part.bytes().all(|b| b.is_ascii_digit());
                digits && part.parse::<u64>().is_ok_and(|number| number <= 255)
            })
    }
}

pub(super) const TLS: &[Check] = &[
    ("tls-cipher-suite", |config, refusals| {
        let names = tls_names(TlsKind::Cipher, config.minor()).map(|cipher| cipher.value.as_str());
        for (field, name, node) in config.items("tlsCipherSuites") {
            if !names.clone().any(|known| known == name) {
                let message = format!("{field} is {name:?}, a cipher suite that kubelet {} lacks", config.minor());
                refusals.at(field, node.place.clone(), message).help(did_you_mean(name, names.clone()));
            }
        }
    }),
    ("tls-curve", |config, refusals| {
        let mut seen: BTreeMap<i128, &Node> = BTreeMap::new();
        for (at, node) in config.list("tlsCurvePreferences").unwrap_or_default().iter().enumerate() {
            let field = format!("tlsCurvePreferences[{at}]");
            let Some(id) = (if node.is_null() { Some(0) } else { whole(node) }) else { continue };
            if !tls_names(TlsKind::Curve, config.minor()).any(|curve| curve.value.parse() == Ok(id)) {
                let curves = tls_names(TlsKind::Curve, config.minor())
                    .map(|curve| format!("{} ({})", curve.value, curve.common_name));
                let help = format!("remove it, or use one of {}", curves.collect::<Vec<_>>().join(", "));
                let message = format!("{field} is {id}, a curve that kubelet {} lacks", config.minor());
                refusals.at(field, node.place.clone(), message).help(help);
            } else if let Some(first) = seen.get(&id) {
                let message = format!("{field} repeats the curve {id}");
                refusals
                    .at(field, node.place.clone(), message)
                    .related(first.place.clone(), "first occurrence")
                    .help("remove it");
            } else {
                seen.insert(id, node);
            }
        }
    }),
];

/// The fields with an endpoint.
pub(super) const ENDPOINTS: [&str; 2] = ["containerRuntimeEndpoint", "imageServiceEndpoint"];

pub(super) const RUNTIME: &[Check] = &[("runtime-endpoint", |config, refusals| {
    for path in ENDPOINTS {
        let endpoint = config.text(path);
        // The kubelet reads an endpoint without a scheme as the path of a socket.
        if let Some((scheme, _)) = scheme(endpoint).filter(|(scheme, _)| scheme != "unix") {
            let message = format!(
                "{path} is {endpoint:?}; on Linux the kubelet connects only to a unix socket, not through {scheme}"
            );
            refusals
                .field(config, path, message)
                .help("write the path of the socket, such as unix:///run/containerd/containerd.sock");
        }
    }
})];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_addresses_as_the_kubelet_does() {
        for good in ["10.96.0.10", "fd00::a", "010.000.0.1", "::", "0.0.0.0"] {
            assert!(is_address(good), "{good}");
        }
        for bad in
            ["", "kube-dns", "10.96.0", "10.96.0.256", "10.96.0.10:53", "10.96.0.0/12", "fe80::1%eth0", "+1.0.0.1"]
        {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
