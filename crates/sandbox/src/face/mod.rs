//! What clients meet when they speak to the sandbox, around the API server itself: TLS and kubeconfig, the request log
//! and the faults put on the wire, discovery, OpenAPI and Table printing.
//!
//! Nothing here holds objects or decides about a write; that is the API server's.

pub mod discovery;
mod field;
pub mod kubeconfig;
pub mod openapi;
pub mod serve;
mod served;
pub mod table;
pub mod wire;

use serde_json::Value;

use crate::api::{Face, FaceAnswer, ServerProfile, TableRequest};

/// What an API server of one character shows of itself.
#[derive(Debug, Clone, Copy)]
pub struct ServerFace {
    character: ServerProfile,
}

impl ServerFace {
    /// The face of a character.
    #[must_use]
    pub fn new(character: ServerProfile) -> Self {
        Self { character }
    }
}

impl Face for ServerFace {
    fn document(&self, path: &str, accept: &str, crds: &[Value]) -> Option<FaceAnswer> {
        discovery::document(self.character, path, accept, crds)
            .or_else(|| openapi::document(self.character, path, accept, crds))
    }

    fn table(&self, request: TableRequest<'_>) -> Option<Value> {
        Some(table::render(request))
    }
}
