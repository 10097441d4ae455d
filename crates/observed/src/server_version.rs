//! Versions of API servers.

use std::fmt;

use kubelet_config::values::unsigned32;
use nodecfg_contract::KubeletVersion;

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
        let fields = match (unsigned32(major.trim()), unsigned32(minor.trim().trim_end_matches('+'))) {
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
