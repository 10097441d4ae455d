//! Server side of the sandbox around the API: TLS and kubeconfig, request log and injected faults, discovery, OpenAPI
//! and Table rendering.
//!
//! This module stores no objects and decides nothing about writes; the `api` module does.

pub mod discovery;
mod field;
pub mod kubeconfig;
pub mod openapi;
mod resources;
pub mod serve;
pub mod table;
pub mod wire;

use serde_json::Value;

use crate::api::{RenderedDocument, Renderer, ServerProfile, TableRequest};

/// Renderer of discovery, OpenAPI and Tables for one server version.
#[derive(Debug, Clone, Copy)]
pub struct ServerRenderer {
    profile: ServerProfile,
}

impl ServerRenderer {
    /// Creates the renderer for a server version.
    #[must_use]
    pub fn new(profile: ServerProfile) -> Self {
        Self { profile }
    }
}

impl Renderer for ServerRenderer {
    fn document(&self, path: &str, accept: &str, crds: &[Value]) -> Option<RenderedDocument> {
        discovery::document(self.profile, path, accept, crds)
            .or_else(|| openapi::document(self.profile, path, accept, crds))
    }

    fn table(&self, request: TableRequest<'_>) -> Option<Value> {
        Some(table::render(request))
    }
}
