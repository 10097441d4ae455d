//! Reads a saved plan, and says of one that cannot be used in which way it is damaged.

use serde::Deserialize;

use super::{FORMAT_VERSION, SavedPlan};

/// The largest file that is read, in bytes: some hundred thousand nodes.
pub const LIMIT: usize = 64 * 1024 * 1024;

/// Why a file cannot be used as a saved plan. Each is ready to follow the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Larger than [`LIMIT`].
    #[error("has more than {} MiB", LIMIT / 1024 / 1024)]
    TooLarge,
    /// Nothing is in it.
    #[error("is empty")]
    Empty,
    /// It breaks off.
    #[error("is truncated: it breaks off in line {line}")]
    Truncated {
        /// Where.
        line: usize,
    },
    /// It is not JSON.
    #[error("is not JSON: {error}")]
    NotJson {
        /// What is wrong, and where.
        error: String,
    },
    /// It is JSON of something else.
    #[error("is not a saved plan{}", kind.as_ref().map(|kind| format!(": it is of kind {kind:?}")).unwrap_or_default())]
    NotAPlan {
        /// What it says it is.
        kind: Option<String>,
    },
    /// It is of a format that this nodecfg does not know.
    #[error("has format version {found}, and this nodecfg ({}) reads {FORMAT_VERSION}", env!("CARGO_PKG_VERSION"))]
    OtherVersion {
        /// The version it says it has.
        found: u64,
    },
    /// It says that it is a saved plan, and is not in the format of one.
    #[error("is damaged: {error}")]
    Damaged {
        /// What is wrong, and where.
        error: String,
    },
    /// Its digest is not that of its content.
    #[error("was edited after it was made: its digest is not that of its content")]
    Edited,
}

impl Unreadable {
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

    /// The way out.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotAPlan { .. } | Self::NotJson { .. } | Self::TooLarge => {
                "a saved plan is what `nodecfg diff --out FILE` writes, which is not what `nodecfg diff -o json` prints"
            }
            Self::OtherVersion { .. } => {
                "use the version of nodecfg that made it, or make a new plan with this one (nodecfg diff --out FILE) and have \
                 it reviewed"
            }
            Self::Empty | Self::Truncated { .. } | Self::Damaged { .. } | Self::Edited => {
                "what was reviewed cannot be told from it. Fetch the file again, or make a new plan (nodecfg diff --out FILE) \
                 and have it reviewed"
            }
        }
    }
}

/// What every document of nodecfg begins with.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    format_version: Option<u64>,
    #[serde(default)]
    kind: Option<String>,
}

/// Reads a file.
///
/// # Errors
/// [`Unreadable`] for everything that is not, to the last field, what [`SavedPlan::text`] wrote. How it is laid out does not
/// matter.
pub fn read(bytes: &[u8]) -> Result<SavedPlan, Unreadable> {
    if bytes.len() > LIMIT {
        return Err(Unreadable::TooLarge);
    }
    if bytes.trim_ascii().is_empty() {
        return Err(Unreadable::Empty);
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => Unreadable::Truncated { line: error.line() },
        serde_json::error::Category::Data => Unreadable::NotAPlan { kind: None },
        _ => Unreadable::NotJson { error: error.to_string() },
    })?;
    if head.kind.as_deref() != Some("SavedPlan") {
        return Err(Unreadable::NotAPlan { kind: head.kind });
    }
    match head.format_version {
        Some(found) if found == u64::from(FORMAT_VERSION) => {}
        Some(found) => return Err(Unreadable::OtherVersion { found }),
        None => return Err(Unreadable::Damaged { error: "it has no formatVersion".to_owned() }),
    }
    let saved: SavedPlan =
        serde_json::from_slice(bytes).map_err(|error| Unreadable::Damaged { error: error.to_string() })?;
    if saved.digest == saved.expected_digest() { Ok(saved) } else { Err(Unreadable::Edited) }
}
