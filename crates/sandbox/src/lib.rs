//! Sandbox: an embedded Kubernetes cluster for demos and for the tests of nodecfg.
//!
//! The cluster reproduces recorded API servers and kubelets. With 1.21, kubelets follow `configSource` of their
//! Nodes; with 1.36, each node runs the agent if it is installed. Pods run only if the options describe workloads. Only
//! the commands that start the sandbox depend on this crate. The reconciler must not distinguish it from a real cluster.
//!
//! [`api`] and [`server`] are the API server, [`kubelets`] the kubelets of 1.21, [`agents`] the nodes with agents, and
//! [`workloads`] the pods with their controller. Kubelets, agents and workloads are clients of the API server, and also
//! run on another one. They must not know what nodecfg intends. [`machines`] runs a machine for each Node, and `watch`
//! follows a collection for all of them.

pub mod agents;
pub mod api;
pub mod embedded;
mod in_process;
pub mod kubelets;
pub mod machines;
pub mod nodes;
mod running;
pub mod server;
mod watch;
pub mod workloads;

pub use embedded::{Embedded, EmbeddedOptions, SandboxError};
