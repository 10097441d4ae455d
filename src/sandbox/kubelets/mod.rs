//! Simulated kubelets with Dynamic Kubelet Configuration: what a kubelet 1.21 with `--dynamic-config-dir` does to its
//! Node, as recorded from a real one (`tests/data/recordings/kubelet-1.21-dynamic-config.jsonl`).
//!
//! [`machine`] is one kubelet without any IO; [`verdict`] says whether it would load a text; [`fault`] makes it
//! misbehave; [`driver`] runs any number of them against an API server, simulated or real, with `watch`, `config_maps`
//! and `wire` between it and the server. Nothing here runs pods, and nothing here may know what nodecfg intends: the
//! only thing the two halves share is the Node.

pub mod driver;
pub mod fault;
pub mod machine;
pub mod verdict;

mod config_maps;
mod watch;
pub(super) mod wire;

#[cfg(test)]
mod driving;
#[cfg(test)]
mod misbehaviour;
#[cfg(test)]
mod replay;

pub use driver::{InjectError, Kubelets, Options, StartError};
pub use fault::{Fault, FaultError, FaultSpec, Faults};
pub use machine::{Download, Input, Moment, Output, Ready, SimKubelet, Wanted, supports_dynamic_config};
pub use verdict::{Problem, Refusal, verdict};
