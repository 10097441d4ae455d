//! The kubelet's server: `pkg/kubelet/server/server.go` `ListenAndServeKubeletServer` and
//! `ListenAndServeKubeletReadOnlyServer`, which end the kubelet if they cannot listen.

// Only the type; this module opens no connection.
use core::net::IpAddr;

use crate::verdict::Config;
use crate::verdict::refusals::Check;

pub(super) const CHECKS: &[Check] = &[
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
