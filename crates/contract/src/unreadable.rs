//! Fields that cannot be decoded.

use std::fmt;

use serde::Serialize;

/// A field of a Node or its NodeConfig that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadableField {
    /// Path of the field, for example `status.conditions`.
    pub field: String,
    /// Reason, which may quote the value.
    pub reason: String,
}

impl fmt::Display for UnreadableField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is unreadable: {}", self.field, self.reason)
    }
}
