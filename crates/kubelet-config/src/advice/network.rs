//! Advice on addresses, ports, DNS, and the number of pod addresses.

// Only the type; this module opens no connection.
use core::net::IpAddr;

use super::remarks::Remarks;
use crate::pod_range::PodRange;
use crate::verdict::Config;

/// The maximum number of name servers in a pod's resolv.conf (`pkg/apis/core/validation`, `MaxDNSNameservers`).
const MAX_NAMESERVERS: usize = 3;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    dns(config, remarks);
    listening(config, remarks);
    pod_range(config, remarks);
}

fn dns(config: &Config<'_>, remarks: &mut Remarks) {
    let servers = config.list("clusterDNS").unwrap_or_default();
    for (at, server) in servers.iter().enumerate() {
        let Some(text) = server.text() else { continue };
        if !is_address(text) {
            remarks
                .at(
                    "cluster-dns-not-ip",
                    format!("clusterDNS[{at}]"),
                    server.place.clone(),
                    format!(
                        "`clusterDNS` contains {text:?}, which is not an IP address: the kubelet logs and drops it"
                    ),
                )
                .help("use the IP address of the cluster's DNS service");
        }
    }
    if let Some(server) = servers.get(MAX_NAMESERVERS) {
        let message = format!("`clusterDNS` has {} entries; pods use only the first {MAX_NAMESERVERS}", servers.len());
        remarks
            .at("cluster-dns-too-many", "clusterDNS", server.place.clone(), message)
            .help("keep at most three entries, the limit of a pod's resolv.conf");
    }
    let domain = config.text("clusterDomain");
    if !servers.is_empty() && domain.is_empty() {
        remarks
            .field(
                config,
                "cluster-domain-missing",
                "clusterDomain",
                "`clusterDNS` is set, but `clusterDomain` is not: pods cannot resolve services by short names",
            )
            .help("set clusterDomain to the cluster's domain, such as cluster.local; a flag may set it too");
    } else if servers.is_empty() && !domain.is_empty() {
        remarks
            .field(
                config,
                "cluster-dns-missing",
                "clusterDNS",
                "`clusterDomain` is set, but `clusterDNS` is not: pods use the node's DNS and resolve no services",
            )
            .help("set clusterDNS to the IP address of the cluster's DNS service; a flag may set it too");
    }
}

fn listening(config: &Config<'_>, remarks: &mut Remarks) {
    if config.flag("enableServer") == Some(false) {
        return;
    }
    let address = config.text("address");
    if !is_address(address) {
        remarks
            .field(
                config,
                "address-not-ip",
                "address",
                format!("`address` is {address:?}, which is not an IP address: the kubelet cannot listen, and exits"),
            )
            .help("use an IP address of the node, or 0.0.0.0 for all addresses");
    }
    let port = |path| config.int(path).filter(|port| *port != 0);
    let ports = [("port", port("port")), ("readOnlyPort", port("readOnlyPort")), ("healthzPort", port("healthzPort"))];
    for (at, (path, port)) in ports.iter().enumerate() {
        let Some(port) = port else { continue };
        let Some((other, _)) = ports.iter().take(at).find(|(_, other)| other.as_ref() == Some(port)) else { continue };
        // The health server has a separate address; on another address the same port is free.
        let apart = *path == "healthzPort" && !conflict(address, config.text("healthzBindAddress"));
        if !apart {
            remarks
                .field(
                    config,
                    "port-twice",
                    path,
                    format!("`{path}` and `{other}` are both {port}; only one server can listen on a port"),
                )
                .related(config.place(other), "the same port")
                .help("use a different port for each");
        }
    }
}

/// Reports whether sockets with the same port conflict on these addresses.
fn conflict(a: &str, b: &str) -> bool {
    let any = |text: &str| text.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    a == b || any(a) || any(b)
}

fn pod_range(config: &Config<'_>, remarks: &mut Remarks) {
    let range = config.text("podCIDR");
    if range.is_empty() {
        return;
    }
    remarks
        .field(
            config,
            "pod-cidr-standalone",
            "podCIDR",
            "`podCIDR` applies only to a kubelet without a cluster; in a cluster the Node's spec.podCIDR replaces it",
        )
        .help("remove it from nodes of a cluster");
    if let (Some(pods), Some(range_read)) = (config.int("maxPods"), PodRange::parse(range))
        && !range_read.fits(pods)
    {
        let addresses = range_read.pods();
        let message = format!("`maxPods` is {pods}, but `podCIDR` {range} has addresses for {addresses} pods");
        remarks
            .field(config, "max-pods-over-addresses", "maxPods", message)
            .related(config.place("podCIDR"), "the range")
            .help(format!("set maxPods to {addresses} or less, or use a larger range"));
    }
}

/// Reports whether the kubelet parses a text as an IP address: as Rust does, but with leading zeros allowed in IPv4
/// (`k8s.io/utils/net`, `ParseIPSloppy`).
fn is_address(text: &str) -> bool {
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
