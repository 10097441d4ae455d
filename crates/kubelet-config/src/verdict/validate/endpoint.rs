//! The address of a trace collector: a URL as Go's `net/url` parses it, with a gRPC scheme
//! (`k8s.io/component-base/tracing/api/v1`, `validateEndpoint`).

use std::net::Ipv6Addr;

const SCHEMES: [&str; 3] = ["dns", "unix", "unix-abstract"];

/// Checks an address. Without `//` it is a host. With `strict`, brackets may contain only an IPv6 address and must
/// start the host (Go 1.25.2).
///
/// # Errors
/// A phrase to follow the quoted address and "which".
pub(super) fn check(endpoint: &str, strict: bool) -> Result<(), String> {
    let whole = if endpoint.contains("//") { endpoint.to_owned() } else { format!("dns://{endpoint}") };
    if whole.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("has a control character".to_owned());
    }
    let (text, fragment) = whole.split_once('#').unwrap_or((&whole, ""));
    let (scheme, rest) = scheme(text).ok_or("has no scheme")?;
    if !SCHEMES.contains(&scheme.as_str()) {
        return Err(format!("has the scheme {scheme}; it must be dns, unix or unix-abstract"));
    }
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    escapes(fragment)?;
    if !rest.starts_with('/') {
        // A part without a leading slash is opaque and not checked.
        return Ok(());
    }
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            check_authority(authority, strict)?;
            path
        }
        None => rest,
    };
    escapes(path)
}

/// Splits off the scheme, in lower case.
pub(in crate::verdict) fn scheme(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let good = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    good.then(|| (scheme.to_ascii_lowercase(), rest))
}

fn check_authority(authority: &str, strict: bool) -> Result<(), String> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if !user.chars().all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c)) {
        return Err("has unescaped characters before the @".to_owned());
    }
    escapes(user)?;
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("has a [ without its ]")?;
        if strict && !is_ipv6(host.get(1..end).unwrap_or_default()) {
            return Err("has no IPv6 address in its brackets".to_owned());
        }
        host.get(end + 1..).unwrap_or_default()
    } else if strict && host.contains('[') {
        return Err("has a [ inside the host".to_owned());
    } else {
        // Go refuses colons in a host only for http and https.
        host.rfind(':').and_then(|colon| host.get(colon..)).unwrap_or_default()
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if !is_port {
        return Err(format!("has {port:?} after the host, which is not a port"));
    }
    let odd = |c: &char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"!$&'()*+,;=:[]<>\"-_.~%".contains(*c);
    if let Some(odd) = host.chars().find(odd) {
        return Err(format!("has {odd:?} in the host"));
    }
    // In a host, escapes are for bytes beyond ASCII and for the % before the zone of an address.
    let zone = host.starts_with('[').then(|| host.find("%25")).flatten().unwrap_or(host.len());
    let (name, zone) = host.split_at(zone);
    escapes(zone)?;
    escapes(name)?;
    match name.split('%').skip(1).find(|escape| escape.starts_with(|c: char| ('0'..='7').contains(&c))) {
        Some(escape) if !escape.starts_with("25") => Err("has an escape in the host".to_owned()),
        _ => Ok(()),
    }
}

/// Reports whether a text is an IPv6 address, with or without a zone.
fn is_ipv6(text: &str) -> bool {
    let (address, zone) = text.split_once("%25").map_or((text, None), |(address, zone)| (address, Some(zone)));
    zone != Some("") && address.parse::<Ipv6Addr>().is_ok()
}

/// Checks that every % starts an escape of two hexadecimal digits.
fn escapes(text: &str) -> Result<(), String> {
    let good = text.split('%').skip(1).all(|escape| {
        escape.as_bytes().first_chunk::<2>().is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if good { Ok(()) } else { Err("has a % without two hexadecimal digits".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_urls_of_three_schemes() {
        for good in [
            "",
            "localhost:4317",
            "localhost",
            "localhost:",
            "dns://1.1.1.1/x",
            "DNS:///x",
            "unix:///tmp/s",
            "unix-abstract://x",
            "unix:/var/run/s",
            "[::1]:4317",
            "dns:x//y",
            "dns://h/%41",
            "dns://u:p@h:1",
            "dns://[fe80::1%25en0]:1",
            "dns://h%C3%A9/",
            "dns://h?a=%zz",
            "dns://é",
        ] {
            assert_eq!(check(good, true), Ok(()), "{good}");
        }
        for bad in [
            "http://localhost:4317",
            "grpc://x",
            "localhost:port",
            "dns:foo",
            "//x",
            ":4317//",
            "1a://x",
            "dns://[::1",
            "dns://[::1]x",
            "dns://h/%4",
            "dns://h#%z",
            "a b",
            "dns://a^b@h",
            "dns://h%41",
            "x\ty",
            "dns://h:1x",
        ] {
            assert!(check(bad, false).is_err(), "{bad}");
        }
        for colons in ["dns://a:b:80", "::1", "190:20:30"] {
            assert_eq!(check(colons, true), Ok(()), "{colons}");
        }
        for loose in ["dns://[a]:80", "[1.2.3.4]", "[fe80::1%25]", "a[b]:1"] {
            assert!(check(loose, true).is_err(), "{loose}");
            assert_eq!(check(loose, false), Ok(()), "{loose}");
        }
    }
}
