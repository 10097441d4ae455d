//! Simulated kubelets with Dynamic Kubelet Configuration. They reproduce a recorded kubelet 1.21 with
//! `--dynamic-config-dir` (`tests/data/recordings/kubelet-1.21-dynamic-config.jsonl`).
//!
//! `machine` is one kubelet without IO, and `handle` runs kubelets against a simulated or real API server. These
//! kubelets share only the Node with nodecfg; [`workloads`](super::workloads) simulates their pods.
//!
//! The kubelets of nodes with agents share the [`fault`]s with their `aftermath`, the machine of a Node ([`host_spec`]),
//! and what kubelets write (`report`).

pub mod fault;
pub mod host_spec;

pub(super) mod aftermath;
mod handle;
mod machine;
pub(super) mod report;

#[cfg(test)]
mod handle_tests;
#[cfg(test)]
mod machine_tests;
#[cfg(test)]
mod replay;

pub use fault::{Fault, FaultError, FaultSpec, Faults, Setting};
pub use handle::start;
pub use host_spec::{BootedConfig, HostSpec, KUBEADM_FILE};
pub use machine::supports_dynamic_config;
