//! Interface to the renderer of discovery documents, OpenAPI documents and tables.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

/// Discovery or OpenAPI document, ready to send.
#[derive(Debug, Clone)]
pub struct RenderedDocument {
    /// `Content-Type` of the body.
    pub content_type: String,
    /// Body.
    pub body: Bytes,
}

/// Objects to render as a `meta.k8s.io/v1 Table`.
#[derive(Debug, Clone, Copy)]
pub struct TableRequest<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
    /// Full objects, one row each.
    pub objects: &'a [Value],
    /// Object data in each row: `Metadata`, `None` or `Object`.
    pub include_object: &'a str,
    /// Definition of a custom resource.
    pub crd: Option<&'a Value>,
    /// Metadata of the list; for a single object, only its resourceVersion.
    pub list_meta: &'a Value,
    /// Reference time of ages.
    pub now: Timestamp,
    /// True for a watch event whose stream already contains the column definitions.
    pub is_watch_event: bool,
}

/// Renderer of discovery documents, OpenAPI documents and tables.
pub trait Renderer: Send + Sync {
    /// Returns the document at a path (`/api`, `/apis/…`, `/openapi/…`) for an `Accept` header, or `None` for an
    /// unknown path. `crds` are the established CustomResourceDefinitions.
    fn document(&self, path: &str, accept: &str, crds: &[Value]) -> Option<RenderedDocument>;

    /// Renders objects as a Table. `None` makes the server return plain JSON.
    fn table(&self, request: TableRequest<'_>) -> Option<Value>;
}
