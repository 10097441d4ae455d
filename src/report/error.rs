//! What programs get when a command cannot do its work.

use schemars::JsonSchema;
use serde::Serialize;

use super::findings::ByFile;
use nodecfg_contract::json_document::Kind;
use nodecfg_planning::plan::saved::Difference;

/// Why a command has not done its work.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorReport<'a> {
    /// The exit code of the process.
    pub exit_code: u8,
    /// What is wrong; at least one thing.
    pub errors: Vec<ErrorMessage>,
    /// All findings, where the repository is what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<ByFile<'a>>,
    /// What has changed since, where a saved plan is stale.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

impl Kind for ErrorReport<'_> {
    const KIND: &'static str = "Error";
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorMessage {
    /// What kind of error it is, in kebab case; safe to match in scripts.
    pub code: String,
    /// What is wrong, with the names of what it is about.
    pub message: String,
    /// The way out.
    pub help: String,
}
