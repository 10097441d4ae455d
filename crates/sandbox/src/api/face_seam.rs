//! The seam to what an API server shows of itself: discovery, OpenAPI and tables. The API asks; another module answers.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

/// A document about the API, ready to be sent.
#[derive(Debug, Clone)]
pub struct FaceAnswer {
    /// The `Content-Type` of the body.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// A request to print objects as a `meta.k8s.io/v1 Table`.
#[derive(Debug, Clone, Copy)]
pub struct TableRequest<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural resource name.
    pub resource: &'a str,
    /// The full objects, one row each.
    pub objects: &'a [Value],
    /// `Metadata`, `None` or `Object`: what each row carries of its object.
    pub include_object: &'a str,
    /// The definition, when the resource is a custom one.
    pub crd: Option<&'a Value>,
    /// The list's metadata; for a single object, its resourceVersion alone.
    pub list_meta: &'a Value,
    /// The time that ages are counted to.
    pub now: Timestamp,
    /// Whether this is one event of a watch that has already had its column definitions.
    pub is_watch_event: bool,
}

/// What the API server shows of itself.
pub trait Face: Send + Sync {
    /// The document at a path (`/api`, `/apis/…`, `/openapi/…`) for an `Accept` header, given the CustomResourceDefinitions
    /// that are established; none when there is no such document.
    fn document(&self, path: &str, accept: &str, crds: &[Value]) -> Option<FaceAnswer>;

    /// Objects as a Table; none to have them answered as plain JSON.
    fn table(&self, request: TableRequest<'_>) -> Option<Value>;
}
