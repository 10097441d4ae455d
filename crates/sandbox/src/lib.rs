//! Sandbox: an embedded Kubernetes cluster for demos and for the tests of nodecfg.
//!
//! The cluster reproduces recorded API servers and kubelets. With 1.21, kubelets follow `configSource` of their
//! Nodes; with 1.36, each node runs the agent if it is installed. Pods run only if the options describe workloads. Only
//! the commands that start the sandbox depend on this crate. The reconciler must not distinguish it from a real cluster.

pub mod agents;
pub mod api;
mod configz;
pub mod embedded;
pub mod kubelets;
pub mod nodes;
mod running;
pub mod server;
pub mod simulated;
pub mod workloads;

pub use embedded::{Embedded, EmbeddedOptions, SandboxError};
