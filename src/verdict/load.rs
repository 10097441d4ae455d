//! The first stage: would the kubelet decode the document?

use super::Refusal;
use crate::document::Document;
use crate::kubelet::Minor;

/// What keeps a kubelet of this version from decoding a document. Empty: it decodes.
pub(super) fn check(_document: &Document, _minor: Minor) -> Vec<Refusal> {
    Vec::new()
}
