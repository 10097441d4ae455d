//! Requests of a drain: marks of nodes, evictions, and the pods and volumes of a node.

pub(crate) mod drain_mark;
#[cfg(test)]
mod drain_sandbox_tests;
mod evict;
mod node_conditions;
mod node_lease;
pub(crate) mod pods;
pub(crate) mod wire_pod;

pub use node_lease::{NAMESPACE as NODE_LEASE_NAMESPACE, NodeLease};
