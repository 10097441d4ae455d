//! Simulated nodes whose kubelets lack Dynamic Kubelet Configuration. Each runs the real agent with its store on an
//! in-memory disk, and a simulated kubelet.
//!
//! `process` is the kubelet with its service manager, without IO; `host` is the machine of both. `cached_verdicts`
//! caches verdicts on configurations, and `host_client` connects a host to the API server. `node` runs one node and
//! [`handle`] any number. The agent receives all information through the interfaces that it has on a real host.

pub mod handle;

mod cached_verdicts;
mod host;
mod host_client;
mod node;
mod process;

pub use handle::{Agents, Options};
pub(crate) use host::CONFIG_DIR;

#[cfg(test)]
mod join_tests;
#[cfg(test)]
mod tests;
