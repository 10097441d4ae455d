//! Placement: how the configuration of a pool and the own configuration of a node are combined.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a node combines the configuration of its pool with its own: its `--config` file and drop-ins, as its image or
/// provisioning wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// The configuration is merged over the node's own. A field that it does not name keeps the node's value.
    Overlay,
    /// The configuration is the whole. A field that it does not name has the kubelet's default.
    Replace,
}

impl Placement {
    /// All placements.
    pub const ALL: [Self; 2] = [Self::Overlay, Self::Replace];

    /// Parses a placement as [`Display`](fmt::Display) writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.as_str() == text)
    }

    /// Placement in documents and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Replace => "replace",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_it_writes() {
        for placement in Placement::ALL {
            assert_eq!(Placement::parse(&placement.to_string()), Some(placement));
            assert_eq!(serde_json::to_value(placement).unwrap(), placement.to_string());
        }
        assert_eq!(Placement::parse("Overlay"), None);
    }
}
