//! Target and options of a write.

use super::Api;
use super::resource::Resource;

/// Handling of unknown fields (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drop unknown fields.
    Ignore,
    /// Drop unknown fields and return warnings.
    Warn,
    /// Refuse the object.
    Strict,
}

/// Target and options of a write.
#[derive(Clone, Copy)]
pub(crate) struct WriteRequest<'a> {
    /// Server.
    pub(crate) api: &'a Api,
    /// Resource.
    pub(crate) resource: &'a Resource,
    /// Namespace in the path.
    pub(crate) namespace: &'a str,
    /// Name in the path; empty for a create.
    pub(crate) name: &'a str,
    /// True for the subresource `status`.
    pub(crate) status: bool,
    /// Field manager.
    pub(crate) manager: &'a str,
    /// True if nothing is stored.
    pub(crate) dry_run: bool,
    /// Handling of unknown fields.
    pub(crate) field_validation: FieldValidation,
}
