//! Simulated nodes of clusters whose kubelets know nothing of Dynamic Kubelet Configuration: on each the real agent, with its
//! store on a disk in memory, and a simulated kubelet for it to restart.
//!
//! `process` is the kubelet and its service manager, without any IO; `host` the machine that both are on, `cached_verdicts` what the
//! kubelet says of a configuration, `gate` what lies between the host and the API server; `node` runs one node, [`running`]
//! any number of them. Nothing here may know what nodecfg intends, and nothing here may help the agent: all that it learns of
//! the kubelet comes through the seams that it has on a real host.

pub mod running;

mod cached_verdicts;
mod gate;
mod host;
mod node;
mod process;

pub use running::{Agents, Options};

#[cfg(test)]
mod tests;
