//! Values of a kubelet in reports: overridden ones, and those that flags and files set.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::printable::one_line;

/// A value that the active configuration names and the kubelet does not run.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverriddenValue {
    /// Path of the field, with dots: `evictionHard.memory.available`.
    #[schemars(length(min = 1, max = OwnValue::MAX_FIELD))]
    pub field: String,
    /// The reviewed value as JSON, at most 256 characters. Unset: the kubelet's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = OwnValue::MAX_VALUE))]
    pub reviewed: Option<String>,
    /// The value that the kubelet runs as JSON, at most 256 characters. Unset if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = OwnValue::MAX_VALUE))]
    pub running: Option<String>,
    /// What sets the running value: a flag such as `--max-pods`, or the path of a file. Unset if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = OverriddenValue::MAX_BY))]
    pub by: Option<String>,
}

impl OverriddenValue {
    /// Maximum length of the source of a value, in characters.
    pub const MAX_BY: usize = 512;
}

/// What sets a value, in words: `the flag --max-pods`, or `the file /etc/kubernetes/kubelet.conf.d/95-other.conf`.
#[must_use]
pub fn origin(by: &str) -> String {
    let kind = if by.starts_with('-') { "flag" } else { "file" };
    format!("the {kind} {}", one_line(by))
}

impl fmt::Display for OverriddenValue {
    /// `maxPods is 50 by the flag --max-pods, reviewed is 60`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| one_line(value.as_deref().unwrap_or("unset"));
        write!(f, "{} is {}", one_line(&self.field), value(&self.running))?;
        if let Some(by) = &self.by {
            write!(f, " by {}", origin(by))?;
        }
        write!(f, ", reviewed is {}", value(&self.reviewed))
    }
}

/// A value that a flag or a file sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetValue {
    /// Path of the field, with dots: `evictionHard.memory.available`.
    #[schemars(length(min = 1, max = OwnValue::MAX_FIELD))]
    pub field: String,
    /// The value as JSON, at most 256 characters.
    #[schemars(length(min = 1, max = OwnValue::MAX_VALUE))]
    pub value: String,
    /// A flag such as `--max-pods`, or the path of a file.
    #[schemars(length(min = 1, max = OverriddenValue::MAX_BY))]
    pub by: String,
}

/// A value of the node's own configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnValue {
    /// Path of the field, such as `imageGCHighThresholdPercent`.
    #[schemars(length(min = 1, max = OwnValue::MAX_FIELD))]
    pub field: String,
    /// The value as JSON, at most 256 characters.
    #[schemars(length(min = 1, max = OwnValue::MAX_VALUE))]
    pub value: String,
}

impl OwnValue {
    /// Maximum length of a value, in characters.
    pub const MAX_VALUE: usize = 256;
    /// Maximum length of a path, in characters.
    pub const MAX_FIELD: usize = 512;
}
