//! What clients meet when they speak to the sandbox, around the API server itself: TLS and kubeconfig, the request log
//! and the faults put on the wire, discovery, OpenAPI and Table printing.
//!
//! Nothing here holds objects or decides about a write; that is the API server's.

pub mod kubeconfig;
pub mod serve;
pub mod wire;
