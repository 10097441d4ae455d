//! The sandbox: an embedded cluster for trying nodecfg out and for its tests. Nothing outside it may depend on it, and
//! the reconciler must not be able to tell it from a real cluster.

pub mod fit;
pub mod kubelets;
pub mod nodes;
