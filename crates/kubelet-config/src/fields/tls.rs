//! The table of TLS cipher suites and curves (`crates/kubelet-config/data/tls.csv`), by kubelet version.
//!
//! A kubelet supports the cipher suites and curves of the Go release that it is built with
//! (`component-base/cli/flag/ciphersuites_flag.go`, `curves_flag.go`). The column `insecure` follows Go 1.26.

use std::sync::LazyLock;

use crate::{Minor, table};

static TEXT: &str = include_str!("../../data/tls.csv");
static TABLE: LazyLock<Vec<TlsName>> = LazyLock::new(|| table::rows(TEXT).filter_map(|cells| name(&cells)).collect());

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TlsKind {
    /// A cipher suite, by name.
    Cipher,
    /// A curve or another key exchange, by number.
    Curve,
}

/// One cipher suite or curve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsName {
    /// The kind.
    pub kind: TlsKind,
    /// The value in the configuration.
    pub value: String,
    /// The first minor that supports the name.
    pub since: Minor,
    /// The last minor that supports the name. [`NEWEST`](crate::NEWEST) means that it is still supported.
    pub until: Minor,
    /// True if Go lists the cipher suite as insecure.
    pub insecure: bool,
    /// The common name, if the value is a number.
    pub common_name: String,
}

/// Returns the names of a kind that a version supports.
pub fn tls_names(kind: TlsKind, minor: Minor) -> impl Iterator<Item = &'static TlsName> + Clone {
    TABLE.iter().filter(move |name| name.kind == kind && (name.since..=name.until).contains(&minor))
}

fn name(cells: &[String]) -> Option<TlsName> {
    let [kind, value, since, until, insecure, common_name] = cells else { return None };
    Some(TlsName {
        kind: table::word(kind)?,
        value: value.clone(),
        since: table::minor(since)?,
        until: table::minor(until)?,
        insecure: match insecure.as_str() {
            "" => false,
            "yes" => true,
            _ => return None,
        },
        common_name: common_name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_tls_names_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("kind,value,since,until,insecure,common_name"));
        assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "every line reads");
        assert!(TABLE.is_sorted_by_key(|name| (name.kind, name.value.parse::<u16>().ok(), name.value.clone())));
        for name in TABLE.iter() {
            assert!(name.since <= name.until, "{}", name.value);
            assert_eq!(name.kind == TlsKind::Curve, name.value.parse::<u16>().is_ok(), "{}", name.value);
        }
    }

    #[test]
    fn names_depend_on_version() {
        let ciphers = |minor| tls_names(TlsKind::Cipher, Minor(minor)).count();
        assert_eq!((ciphers(16), ciphers(18), ciphers(19), ciphers(36)), (22, 22, 27, 27));
        assert_eq!(tls_names(TlsKind::Curve, Minor(35)).count(), 0);
        let curves: Vec<_> = tls_names(TlsKind::Curve, Minor(36)).map(|curve| curve.common_name.as_str()).collect();
        assert!(curves.contains(&"X25519") && curves.contains(&"X25519MLKEM768"));
    }
}
