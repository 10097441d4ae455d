//! Advice on addresses, ports, DNS, and the number of pod addresses.

// Only the type; this module opens no connection.
use core::net::IpAddr;

use super::remarks::Remarks;
use crate::capacity::PodRange;
use crate::verdict::Config;
use crate::verdict::server::{is_address, is_on};

/// The maximum number of name servers in a pod's resolv.conf (`pkg/apis/core/validation`, `MaxDNSNameservers`).
const MAX_NAMESERVERS: usize = 3;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    dns(config, remarks);
    listening(config, remarks);
    pod_range(config, remarks);
    sockets(config, remarks);
}

/// Finds endpoints whose first folder is read as a host, because they have two slashes.
fn sockets(config: &Config<'_>, remarks: &mut Remarks) {
    for path in ["containerRuntimeEndpoint", "imageServiceEndpoint"] {
        let endpoint = config.text(path);
        let Some(rest) = endpoint.strip_prefix("unix://").filter(|rest| !rest.starts_with('/')) else { continue };
        let (host, socket) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let message = format!(
            "`{path}` is {endpoint}: the kubelet takes {host:?} for a host, and connects to the socket {socket:?}"
        );
        remarks.field(config, "endpoint-host", path, message).help(format!("write \"unix:///{rest}\""));
    }
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

/// Compares the port of the health server with those of the other two. The kubelet retries to start its health server,
/// and exits if one of the others cannot start.
fn listening(config: &Config<'_>, remarks: &mut Remarks) {
    let path = "healthzPort";
    let Some(port) = config.int(path).filter(|port| *port != 0 && is_on(config)) else { return };
    let Some(other) = ["port", "readOnlyPort"].into_iter().find(|other| config.int(other) == Some(port)) else {
        return;
    };
    // On another address the same port is free.
    if conflict(config.text("address"), config.text("healthzBindAddress")) {
        let message = format!("`{path}` and `{other}` are both {port}; only one server can listen on a port");
        remarks
            .field(config, "port-twice", path, message)
            .related(config.place(other), "the same port")
            .help("use a different port for each");
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
