//! Versions of kubelets.

use std::fmt;

use serde::{Serialize, Serializer};

use kubelet_config::values::unsigned32;

/// Version of a kubelet without build suffix, in version order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubeletVersion {
    /// Major version: 1.
    pub major: u32,
    /// Minor version, which determines the features of a kubelet.
    pub minor: u32,
    /// Patch version.
    pub patch: u32,
}

impl KubeletVersion {
    /// Parses `v1.21.14`, with or without the `v`, and with any suffix that begins with `-` or `+` (`-eks-18ef993`,
    /// `-gke.100`, `+k3s1`). `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let core = text.split(['-', '+']).next()?;
        let mut numbers = core.split('.').map(unsigned32);
        let version = Self { major: numbers.next()??, minor: numbers.next()??, patch: numbers.next()?? };
        numbers.next().is_none().then_some(version)
    }

    /// Reports whether kubelets of this version follow `configSource`: 1.11 (beta, on by default; KEP-281) to 1.23
    /// (removed in 1.24).
    #[must_use]
    pub fn has_dynamic_config(&self) -> bool {
        self.major == 1 && (11..=23).contains(&self.minor)
    }
}

impl fmt::Display for KubeletVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("v{}.{}.{}", self.major, self.minor, self.patch))
    }
}

impl Serialize for KubeletVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for KubeletVersion {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KubeletVersion".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_kubelet_versions_with_suffixes() {
        let v = |major, minor, patch| Some(KubeletVersion { major, minor, patch });
        for (text, wanted) in [
            ("v1.21.1", v(1, 21, 1)),
            ("v1.21.14-eks-18ef993", v(1, 21, 14)),
            ("v1.23.17-gke.100", v(1, 23, 17)),
            ("v1.22.4+k3s1", v(1, 22, 4)),
            ("v1.24.0-alpha.1.14+d3c4e5", v(1, 24, 0)),
            ("1.20.0", v(1, 20, 0)),
            ("", None),
            ("v1.21", None),
            ("v1.21.1.2", None),
            ("v1.x.1", None),
            ("v1.+1.1", None),
            ("v1..1", None),
            ("latest", None),
        ] {
            assert_eq!(KubeletVersion::parse(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn orders_kubelet_versions_by_number() {
        let parse = |text| KubeletVersion::parse(text).expect("readable");
        assert!(parse("v1.9.0") < parse("v1.21.0"));
        assert_eq!(parse("v1.21.14-eks-18ef993").to_string(), "v1.21.14");
        assert_eq!(format!("{:>9}|", parse("v1.2.3")), "   v1.2.3|");
    }
}
