//! JSON document for a command that failed.

use schemars::JsonSchema;
use serde::Serialize;

use super::findings::ByFile;
use nodecfg_contract::json_document::Kind;
use nodecfg_plan::saved::Difference;

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorReport<'a> {
    /// The exit code of the process.
    pub exit_code: u8,
    /// The errors. At least one.
    pub errors: Vec<ErrorMessage>,
    /// All findings, if the repository is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<ByFile<'a>>,
    /// The changes since the plan was saved, if a saved plan is stale.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

impl Kind for ErrorReport<'_> {
    const KIND: &'static str = "Error";
}

/// One error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorMessage {
    /// The kind of error, in kebab case. Scripts can match it.
    pub code: String,
    /// What failed, and on which object.
    pub message: String,
    /// How to fix the error.
    pub help: String,
}
