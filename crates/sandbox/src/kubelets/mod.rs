//! Simulated kubelets with Dynamic Kubelet Configuration. They reproduce a recorded kubelet 1.21 with
//! `--dynamic-config-dir` (`tests/data/recordings/kubelet-1.21-dynamic-config.jsonl`).
//!
//! [`machine`] is one kubelet without IO; [`signals`] holds its inputs and outputs. [`mod@verdict`] checks whether a
//! kubelet loads a configuration, and [`fault`] defines injected faults. [`handle`] runs kubelets against a simulated
//! or real API server. These kubelets share only the Node with nodecfg; [`workloads`](super::workloads) simulates
//! their pods.

pub mod fault;
pub mod handle;
pub mod machine;
pub mod signals;
pub mod verdict;

pub(super) mod aftermath;
mod config_maps;
mod driver;
pub(super) mod requests;
pub(super) mod send;
mod status;
pub(super) mod watch;

#[cfg(test)]
mod driver_tests;
#[cfg(test)]
mod machine_tests;
#[cfg(test)]
mod replay;

pub use aftermath::Aftermath;
pub(super) use driver::seed_of;
pub use fault::{Fault, FaultError, FaultSpec, Faults, Setting};
pub use handle::{InjectError, Kubelets, Options, StartError};
pub use machine::{ObservedNode, SimKubelet, supports_dynamic_config};
pub use signals::{Download, Input, Moment, Output, Ready, SpecSource};
pub use verdict::{ConfigProblem, ConfigRefusal, verdict};
