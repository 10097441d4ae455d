//! The two API servers that the sandbox can be, and what they say of their version.

use serde_json::{Value, json};

/// Which recorded API server the sandbox behaves like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerProfile {
    /// Kubernetes 1.21: keeps and validates Node `spec.configSource` and `status.config`; its kubelets implement them.
    V1_21,
    /// Kubernetes 1.36: drops both on every write, and goes on claiming them in managedFields.
    V1_36,
}

impl ServerProfile {
    /// Whether Node `spec.configSource` and `status.config` survive a write.
    #[must_use]
    pub fn keeps_config_source(self) -> bool {
        matches!(self, Self::V1_21)
    }

    /// Whether unknown fields are reported (`fieldValidation`, since 1.25).
    #[must_use]
    pub fn validates_fields(self) -> bool {
        matches!(self, Self::V1_36)
    }

    /// Whether rules in CEL of custom resources are carried out (GA in 1.29). An older server drops them.
    #[must_use]
    pub fn evaluates_rules(self) -> bool {
        matches!(self, Self::V1_36)
    }

    /// Whether managedFields tell subresources apart (since 1.22).
    #[must_use]
    pub fn tracks_subresources(self) -> bool {
        matches!(self, Self::V1_36)
    }

    /// Whether `metadata.creationTimestamp: null` is written where there is none.
    #[must_use]
    pub fn writes_null_times(self) -> bool {
        matches!(self, Self::V1_21)
    }

    /// Whether lists and watches of old revisions are served from a cache that a compaction of the storage leaves alone
    /// (consistent lists from cache, 1.34).
    #[must_use]
    pub fn serves_compacted(self) -> bool {
        matches!(self, Self::V1_36)
    }

    /// The release, as `v1.21.14`.
    #[must_use]
    pub fn git_version(self) -> &'static str {
        match self {
            Self::V1_21 => "v1.21.14",
            Self::V1_36 => "v1.36.2",
        }
    }

    /// The answer to `GET /version`.
    #[must_use]
    pub fn version(self) -> Value {
        let mut version = json!({
            "major": "1",
            "minor": if self == Self::V1_21 { "21" } else { "36" },
            "gitVersion": self.git_version(),
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": if self == Self::V1_21 { "go1.19.8" } else { "go1.26.6" },
            "compiler": "gc",
            "platform": "linux/amd64",
        });
        if let (Self::V1_36, Some(map)) = (self, version.as_object_mut()) {
            for (key, value) in [
                ("emulationMajor", "1"),
                ("emulationMinor", "36"),
                ("minCompatibilityMajor", "1"),
                ("minCompatibilityMinor", "35"),
            ] {
                map.insert(key.to_owned(), value.into());
            }
        }
        version
    }
}
