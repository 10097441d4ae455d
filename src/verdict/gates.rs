//! The second stage: would the kubelet apply the feature gates?

use super::Refusal;
use crate::document::Document;
use crate::kubelet::Minor;
use crate::kubelet::gates::Enabled;

/// The gates as they stand after the document's, or why a kubelet of this version refuses those.
pub(super) fn apply(_document: &Document, _minor: Minor) -> Result<Enabled, Vec<Refusal>> {
    Ok(Enabled::default())
}
