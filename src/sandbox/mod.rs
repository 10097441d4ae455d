//! The sandbox: an embedded cluster for trying nodecfg and for its tests.
//!
//! It behaves as recorded API servers and kubelets do, and knows nothing of plans, rollouts or repositories: nodecfg
//! talks to it as to any other cluster.

pub mod api;
pub mod face;
