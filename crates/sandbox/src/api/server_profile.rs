//! API server versions that the sandbox reproduces, and their differences.

use serde_json::{Value, json};

/// Recorded API server that the sandbox reproduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerProfile {
    /// Kubernetes 1.21: keeps and validates Node `spec.configSource` and `status.config`. Its kubelets implement
    /// both.
    V1_21,
    /// Kubernetes 1.36: drops both fields on every write, but still claims them in managedFields.
    V1_36,
}

impl ServerProfile {
    /// Reports whether Node `spec.configSource` and `status.config` survive a write.
    #[must_use]
    pub fn keeps_config_source(self) -> bool {
        matches!(self, Self::V1_21)
    }

    /// Returns the release, such as `v1.21.14`.
    #[must_use]
    pub fn git_version(self) -> &'static str {
        match self {
            Self::V1_21 => "v1.21.14",
            Self::V1_36 => "v1.36.2",
        }
    }

    /// Returns the response to `GET /version`.
    #[must_use]
    pub fn version(self) -> Value {
        json!({
            "major": "1",
            "minor": if self == Self::V1_21 { "21" } else { "36" },
            "gitVersion": self.git_version(),
            "gitTreeState": "clean",
            "platform": "linux/amd64",
        })
    }
}
