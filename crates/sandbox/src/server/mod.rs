//! Server side of the sandbox around the API: TLS and kubeconfig, request log and injected faults.
//!
//! This module stores no objects and decides nothing about writes; the `api` module does.

pub mod kubeconfig;
pub mod serve;
pub mod wire;
