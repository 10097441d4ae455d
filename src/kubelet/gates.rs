//! Feature gates: which ones a kubelet of a version knows, and which are on.

use std::collections::BTreeMap;

/// The feature gates of a kubelet as they stand once its configuration has been applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enabled {
    on: BTreeMap<String, bool>,
}

impl Enabled {
    /// Whether a gate is on; a gate that this version does not know is off.
    #[must_use]
    pub fn is_on(&self, gate: &str) -> bool {
        self.on.get(gate).copied().unwrap_or(false)
    }
}
