//! Versions of kubelets and API servers.

use std::fmt;

use serde::{Serialize, Serializer};

use kubelet_config::strconv::unsigned;

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
        let mut numbers = core.split('.').map(number);
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

fn number(digits: &str) -> Option<u32> {
    u32::try_from(unsigned(digits)?).ok()
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

/// Version of an API server, from `/version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerVersion {
    /// Full version name, for example `v1.21.14-eks-18ef993`.
    pub git_version: String,
    /// Major and minor version; `None` if unknown.
    pub release: Option<(u32, u32)>,
}

impl ServerVersion {
    /// Parses the three texts of the response. Managed services report `21+` as minor version. Some builds leave
    /// major and minor empty; then the version name decides, unless it is the placeholder of an unstamped build
    /// (`v0.0.0`).
    #[must_use]
    pub fn read(git_version: &str, major: &str, minor: &str) -> Self {
        let fields = match (number(major.trim()), number(minor.trim().trim_end_matches('+'))) {
            (Some(major), Some(minor)) => Some((major, minor)),
            _ => None,
        };
        let named =
            || KubeletVersion::parse(git_version).map(|v| (v.major, v.minor)).filter(|release| *release != (0, 0));
        Self { git_version: git_version.to_owned(), release: fields.or_else(named) }
    }

    /// Reports whether API servers of this release store `Node.spec.configSource`, which ended with 1.26. `None`:
    /// unknown release.
    #[must_use]
    pub fn keeps_config_source(&self) -> Option<bool> {
        self.release.map(|release| release < (1, 26))
    }

    /// Reports whether API servers of this release have streaming lists by default (gate `WatchList`, KEP-3157: on in 1.32
    /// and since 1.34). False for an unknown release.
    #[must_use]
    pub fn streams_lists(&self) -> bool {
        self.release.is_some_and(|release| release == (1, 32) || release >= (1, 34))
    }

    /// Version of the group `policy` in the Eviction of a pod: `v1` since 1.22, and for an unknown release
    /// (kubernetes.io, API-initiated Eviction).
    #[must_use]
    pub fn eviction(&self) -> &'static str {
        if self.release.is_some_and(|release| release < (1, 22)) { "policy/v1beta1" } else { "policy/v1" }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.git_version)
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

    #[test]
    fn parses_recorded_server_versions() {
        let unstamped = ServerVersion::read("v0.0.0-master+$Format:%H$", "", "");
        assert_eq!(unstamped.keeps_config_source(), None);
        assert_eq!(ServerVersion::read("v1.36.2", "1", "36").keeps_config_source(), Some(false));
        assert_eq!(ServerVersion::read("v1.21.14-eks-18ef993", "1", "21+").keeps_config_source(), Some(true));
        assert_eq!(ServerVersion::read("v1.25.16", "", "").keeps_config_source(), Some(true));
        assert_eq!(ServerVersion::read("v1.26.0", "1", "26").keeps_config_source(), Some(false));
        assert_eq!(unstamped.eviction(), "policy/v1");
        let streams = |minor: &str| ServerVersion::read("", "1", minor).streams_lists();
        assert_eq!(["31", "32", "33", "34", "36+"].map(streams), [false, true, false, true, true]);
        assert!(!unstamped.streams_lists());
        assert_eq!(ServerVersion::read("v1.22.0", "1", "22").eviction(), "policy/v1");
        assert_eq!(ServerVersion::read("v1.21.14-eks-18ef993", "1", "21+").eviction(), "policy/v1beta1");
    }
}
