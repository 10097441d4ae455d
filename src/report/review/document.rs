//! A review for programs: the review itself, with its verdict and its counts in front.

use schemars::JsonSchema;
use serde::Serialize;

use crate::review::{Counts, Review};
use kubelet_config::risk::Class;
use nodecfg_contract::json_document::{Document, Kind};

/// What `diff` and `sync --dry-run` write with `-o json` and `-o yaml`, and `sync -o json` as its plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff<'a> {
    /// Whether anything changes.
    pub changed: bool,
    /// The worst class of all pools; unset when no risk is known.
    pub worst: Option<Class>,
    /// The pools in numbers.
    pub counts: Counts,
    /// What changes.
    #[serde(flatten)]
    pub review: &'a Review,
}

impl Kind for Diff<'_> {
    const KIND: &'static str = "Diff";
}

/// The document as a value.
///
/// # Errors
/// When it cannot be serialised, which would be a bug.
pub fn document(review: &Review) -> Result<serde_json::Value, serde_json::Error> {
    let (changed, worst, counts) = (review.is_changed(), review.worst(), review.counts());
    Document::value(Diff { changed, worst, counts, review })
}
