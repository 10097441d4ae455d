//! Reader of saved plans, with a distinct error for each kind of damage.

use serde::Deserialize;

use super::{FORMAT_VERSION, SavedPlan};
use crate::reviewed::PlanId;
use nodecfg_contract::printable::escaped;

/// Maximum file size in bytes, enough for some hundred thousand nodes.
pub const LIMIT: usize = 64 * 1024 * 1024;

/// Reason why a file is no usable saved plan. Messages continue a sentence that begins with the file name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SavedPlanError {
    /// Larger than [`LIMIT`].
    #[error("has more than {} MiB", LIMIT / 1024 / 1024)]
    TooLarge,
    /// The file is empty.
    #[error("is empty")]
    Empty,
    /// The file ends too early.
    #[error("is truncated: it ends in line {line}")]
    Truncated {
        /// Last line of the file.
        line: usize,
    },
    /// The file is not JSON.
    #[error("is not JSON: {error}")]
    NotJson {
        /// Description and position of the error.
        error: String,
    },
    /// The file is JSON of another kind.
    #[error("is not a saved plan{}", kind.as_ref().map(|kind| format!(": its kind is {kind:?}")).unwrap_or_default())]
    NotAPlan {
        /// Kind in the file.
        kind: Option<String>,
    },
    /// This version of nodecfg does not support the format version.
    #[error("has format version {found}, but nodecfg {} reads {FORMAT_VERSION}", env!("CARGO_PKG_VERSION"))]
    OtherVersion {
        /// Format version in the file.
        found: u64,
    },
    /// The file claims to be a saved plan but does not have the format.
    #[error("is damaged: {error}")]
    Damaged {
        /// Description and position of the error.
        error: String,
    },
    /// The digest does not match the content.
    #[error("was edited: its digest does not match its content")]
    Edited,
}

impl SavedPlanError {
    /// Stable identifier in kebab case.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "plan-too-large",
            Self::Empty | Self::Truncated { .. } => "plan-truncated",
            Self::NotJson { .. } | Self::NotAPlan { .. } => "plan-not-a-plan",
            Self::OtherVersion { .. } => "plan-format-version",
            Self::Damaged { .. } | Self::Edited => "plan-edited",
        }
    }

    /// Fix for this error.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotAPlan { .. } | Self::NotJson { .. } | Self::TooLarge => {
                "pass a file that `nodecfg diff --out FILE` wrote"
            }
            Self::OtherVersion { .. } => "make a new plan with `nodecfg diff --out FILE`, and have it reviewed",
            Self::Empty | Self::Truncated { .. } | Self::Damaged { .. } | Self::Edited => {
                "fetch the file again, or create a new plan with `nodecfg diff --out FILE`"
            }
        }
    }
}

/// Header of every JSON document of nodecfg.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    #[serde(default)]
    format_version: Option<u64>,
    #[serde(default)]
    kind: Option<String>,
}

/// Reads a file.
///
/// # Errors
/// [`SavedPlanError`] unless all fields equal what [`SavedPlan::text`] wrote. Whitespace is ignored.
pub fn read(bytes: &[u8]) -> Result<SavedPlan, SavedPlanError> {
    if bytes.len() > LIMIT {
        return Err(SavedPlanError::TooLarge);
    }
    if bytes.trim_ascii().is_empty() {
        return Err(SavedPlanError::Empty);
    }
    let header: Header = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => SavedPlanError::Truncated { line: error.line() },
        serde_json::error::Category::Data => SavedPlanError::NotAPlan { kind: None },
        _ => SavedPlanError::NotJson { error: escaped(&error.to_string()) },
    })?;
    if header.kind.as_deref() != Some("SavedPlan") {
        return Err(SavedPlanError::NotAPlan { kind: header.kind });
    }
    match header.format_version {
        Some(found) if found == u64::from(FORMAT_VERSION) => {}
        Some(found) => return Err(SavedPlanError::OtherVersion { found }),
        None => return Err(SavedPlanError::Damaged { error: "it has no formatVersion".to_owned() }),
    }
    let saved: SavedPlan = serde_json::from_slice(bytes)
        .map_err(|error| SavedPlanError::Damaged { error: escaped(&error.to_string()) })?;
    // Reviewers quote the id of the plan.
    let is_intact = saved.digest == saved.expected_digest() && saved.plan_id == PlanId::of(&saved.plan);
    if is_intact { Ok(saved) } else { Err(SavedPlanError::Edited) }
}
