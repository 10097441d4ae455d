//! Simulated nodes whose kubelets lack Dynamic Kubelet Configuration. Each runs the real agent with its store on an
//! in-memory disk, and a simulated kubelet.
//!
//! `process` is the kubelet with its service manager, without IO; `host` is the machine of both, and `host_client`
//! connects it to the API server. `handle` runs the nodes. The agent receives all information through the interfaces
//! that it has on a real host.

mod handle;
mod host;
mod host_client;
mod process;

pub use handle::{Options, start, start_on};
pub(crate) use host::SimHost;

#[cfg(test)]
mod join_tests;
#[cfg(test)]
mod tests;
