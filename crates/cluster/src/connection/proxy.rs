//! Choice of the servers to reach without the proxy of the environment, by the rules of kubectl (Go's `httpproxy`),
//! and removal of credentials from URLs.

use std::net::IpAddr;

use kubelet_config::values::unsigned;

/// Reports whether `host` is reached directly: always for loopback, otherwise when `$NO_PROXY` matches. `$NO_PROXY`
/// contains names, `.suffixes`, addresses, networks in CIDR notation, or `*`. A port after a name is ignored.
pub(crate) fn bypasses(host: &str, no_proxy: Option<&str>) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    no_proxy.unwrap_or_default().split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        if entry == "*" {
            return true;
        }
        match address {
            Some(address) => entry.parse() == Ok(address) || in_network(address, &entry),
            None => {
                let name = entry.trim_start_matches('*').trim_start_matches('.');
                let name = name.split(':').next().unwrap_or(name);
                host == name || host.strip_suffix(name).is_some_and(|head| !name.is_empty() && head.ends_with('.'))
            }
        }
    })
}

/// Reports whether an address lies in a network `address/bits`.
fn in_network(address: IpAddr, network: &str) -> bool {
    let Some((base, bits)) = network.split_once('/') else { return false };
    let (Ok(base), Some(bits)) = (base.parse::<IpAddr>(), unsigned(bits)) else { return false };
    let Ok(bits) = u32::try_from(bits) else { return false };
    let same_head = |a: u128, b: u128, width: u32| {
        bits <= width && (bits == 0 || a.checked_shr(width - bits) == b.checked_shr(width - bits))
    };
    match (address, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same_head(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same_head(a.into(), b.into(), 128),
        _ => false,
    }
}

/// URL for messages: without user and password.
pub(crate) fn without_userinfo(url: &http::Uri) -> String {
    let text = url.to_string();
    let text = text.trim_end_matches('/');
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_needs_no_proxy() {
        for host in ["127.0.0.1", "127.8.0.1", "localhost", "[::1]"] {
            assert!(bypasses(host, None), "{host}");
        }
        assert!(!bypasses("10.0.0.1", None));
    }

    #[test]
    fn no_proxy_names_hosts_suffixes_and_networks() {
        let list = Some("example.org, .corp.example,*.svc,10.0.0.0/8,192.168.1.7,fd00::/8,,");
        for host in
            ["example.org", "api.example.org", "a.corp.example", "x.svc", "10.200.0.1", "192.168.1.7", "[fd12::1]"]
        {
            assert!(bypasses(host, list), "{host}");
        }
        for host in ["notexample.org", "example.com", "11.0.0.1", "192.168.1.8", "fe80::1"] {
            assert!(!bypasses(host, list), "{host}");
        }
        assert!(bypasses("anything", Some("*")));
        assert!(bypasses("1.2.3.4", Some("0.0.0.0/0")));
        assert!(!bypasses("1.2.3.4", Some("1.2.3.0/99")));
        assert!(!bypasses("1.2.3.4", Some("1.2.3.0/+24")));
    }

    #[test]
    fn url_hides_credentials() {
        let show = |text: &str| without_userinfo(&text.parse().expect("a URL"));
        assert_eq!(show("https://u:secret@h:6443/"), "https://h:6443");
        assert_eq!(show("https://h:6443/k8s/clusters/c"), "https://h:6443/k8s/clusters/c");
    }
}
