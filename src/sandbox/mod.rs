//! The sandbox: an embedded Kubernetes API with simulated nodes, to try nodecfg on and to test it against.
//!
//! Nothing outside this module may depend on a cluster being a sandbox.

pub mod api;
pub mod face;
