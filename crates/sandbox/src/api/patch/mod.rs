//! Patch types, and their selection by content type.

pub(crate) mod apply;
pub(crate) mod json;
pub(crate) mod strategic;

use super::status::{ApiError, ApiResult};

/// Type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes strategic merge, which uses the keys of lists.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// Returns the patch type of a content type.
    ///
    /// # Errors
    /// 415 for an unknown content type, and for strategic merge on custom resources.
    pub(crate) fn of(content_type: &str, typed: bool) -> ApiResult<Self> {
        match content_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if typed => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if typed => Err(ApiError::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
                 application/apply-patch+yaml",
            )),
            _ => Err(ApiError::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }
}
