//! The table of TLS names (`crates/kubelet-config/data/tls.csv`): cipher suites and curves that the kubelet of a version knows, which are
//! those of the Go release that it is built with (`component-base/cli/flag/ciphersuites_flag.go`, `curves_flag.go`). What
//! is called insecure is what Go 1.26 calls so.

use std::sync::LazyLock;

use super::minor::Minor;
use super::table;

static TEXT: &str = include_str!("../data/tls.csv");
static TABLE: LazyLock<Vec<Name>> = LazyLock::new(|| table::rows(TEXT).filter_map(|cells| name(&cells)).collect());

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A cipher suite, by name.
    Cipher,
    /// A curve or another way to exchange keys, by number.
    Curve,
}

/// One cipher suite or curve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// What it stands for.
    pub kind: Kind,
    /// What the configuration says.
    pub value: String,
    /// The first minor that knows it.
    pub since: Minor,
    /// The last minor that knows it; 1.37 says that it still does.
    pub until: Minor,
    /// Whether Go lists it among those with security issues.
    pub insecure: bool,
    /// What people call it, where the value is a number.
    pub called: String,
}

/// The names of a kind that kubelets of this version know.
pub fn known(kind: Kind, minor: Minor) -> impl Iterator<Item = &'static Name> + Clone {
    TABLE.iter().filter(move |name| name.kind == kind && (name.since..=name.until).contains(&minor))
}

fn name(cells: &[String]) -> Option<Name> {
    let [kind, value, since, until, insecure, called] = cells else { return None };
    Some(Name {
        kind: match kind.as_str() {
            "cipher" => Kind::Cipher,
            "curve" => Kind::Curve,
            _ => return None,
        },
        value: value.clone(),
        since: table::minor(since)?,
        until: table::minor(until)?,
        insecure: match insecure.as_str() {
            "" => false,
            "yes" => true,
            _ => return None,
        },
        called: called.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("kind,value,since,until,insecure,called"));
        assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "every line reads");
        assert!(TABLE.is_sorted_by_key(|name| (name.kind, name.value.parse::<u16>().ok(), name.value.clone())));
        for name in TABLE.iter() {
            assert!(name.since <= name.until, "{}", name.value);
            assert_eq!(name.kind == Kind::Curve, name.value.parse::<u16>().is_ok(), "{}", name.value);
        }
    }

    #[test]
    fn names_come_with_versions() {
        let ciphers = |minor| known(Kind::Cipher, Minor(minor)).count();
        assert_eq!((ciphers(16), ciphers(18), ciphers(19), ciphers(36)), (22, 22, 27, 27));
        assert_eq!(known(Kind::Curve, Minor(35)).count(), 0);
        let curves: Vec<_> = known(Kind::Curve, Minor(36)).map(|curve| curve.called.as_str()).collect();
        assert!(curves.contains(&"X25519") && curves.contains(&"X25519MLKEM768"));
    }
}
