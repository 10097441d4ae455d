//! The sandbox: an embedded cluster for trying nodecfg out and for its tests.
//!
//! It behaves as recorded API servers and kubelets do: of 1.21, whose kubelets follow their Nodes, or of 1.36, with an agent on
//! each node. Nothing outside it may depend on it but the commands that start it,
//! and the reconciler must not be able to tell it from a real cluster.

pub mod agents;
pub mod api;
mod configz;
pub mod embedded;
pub mod face;
pub mod kubelets;
pub mod nodes;
pub mod simulated;

pub use embedded::{Embedded, EmbeddedOptions, SandboxError};
