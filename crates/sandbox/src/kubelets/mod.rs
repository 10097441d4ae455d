//! Simulated kubelets with Dynamic Kubelet Configuration. They reproduce a recorded kubelet 1.21 with
//! `--dynamic-config-dir` (`tests/data/recordings/kubelet-1.21-dynamic-config.jsonl`).
//!
//! [`machine`] is one kubelet without IO; [`signals`] holds its inputs and outputs. [`mod@verdict`] checks whether a
//! kubelet loads a configuration. [`handle`] runs kubelets against a simulated or real API server. These kubelets share
//! only the Node with nodecfg; [`workloads`](super::workloads) simulates their pods.
//!
//! The kubelets of nodes with agents share the [`fault`]s, the machine of a Node ([`host_spec`]), and the answers on the
//! kubelet's own port (`configz`).

pub mod fault;
pub mod handle;
pub mod host_spec;
pub mod machine;
pub mod options;
pub mod signals;
pub mod verdict;

pub(super) mod aftermath;
pub(super) mod attempts;
mod config_maps;
pub(super) mod configz;
mod driver;
pub(super) mod report_aftermath;
pub(super) mod requests;
mod send;
mod status;

#[cfg(test)]
mod driver_tests;
#[cfg(test)]
mod machine_tests;
#[cfg(test)]
mod replay;

pub use aftermath::Aftermath;
pub(super) use driver::seed_of;
pub use fault::{Fault, FaultError, FaultSpec, Faults, Setting};
pub use handle::{InjectError, Kubelets, StartError};
pub use host_spec::{BootedConfig, HostSpec, KUBEADM_FILE};
pub use machine::{ObservedNode, SimKubelet, supports_dynamic_config};
pub use options::Options;
pub use signals::{Download, Input, Moment, Output, Ready, SpecSource};
pub use verdict::{ConfigProblem, ConfigRefusal, verdict};
