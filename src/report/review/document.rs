//! A review for programs: the review itself, with its verdict and its counts in front.

use serde::Serialize;

use crate::kubelet::risk::Class;
use crate::report::FORMAT_VERSION;
use crate::review::{Counts, Review};

/// What `diff` and `sync --dry-run` write with `-o json` and `-o yaml`, and `sync -o json` as its plan.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffDocument<'a> {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// `Diff`.
    pub kind: &'static str,
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

impl<'a> DiffDocument<'a> {
    /// The document of a review.
    #[must_use]
    pub fn new(review: &'a Review) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            kind: "Diff",
            changed: review.is_changed(),
            worst: review.worst(),
            counts: review.counts(),
            review,
        }
    }
}

/// The document as a value.
///
/// # Errors
/// When it cannot be serialised, which would be a bug.
pub fn document(review: &Review) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::to_value(DiffDocument::new(review))
}
