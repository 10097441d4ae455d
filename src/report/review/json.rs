//! JSON document of a review: the review, its result and its counts.

use schemars::JsonSchema;
use serde::Serialize;

use crate::review::{Counts, Review};
use kubelet_config::risk::Class;
use nodecfg_contract::json_document::Kind;

/// Output of `diff` and `sync --dry-run` with `-o json` and `-o yaml`, and the plan in `sync -o json`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff<'a> {
    /// Whether anything changes.
    pub changed: bool,
    /// The worst risk of all pools. Unset if no risk is known.
    pub worst: Option<Class>,
    /// The number of pools per kind of change.
    pub counts: Counts,
    /// The review.
    #[serde(flatten)]
    pub review: &'a Review,
}

impl Kind for Diff<'_> {
    const KIND: &'static str = "Diff";
}

/// The body of the document.
#[must_use]
pub fn body(review: &Review) -> Diff<'_> {
    Diff { changed: review.is_changed(), worst: review.worst(), counts: review.counts(), review }
}
