//! Simulated kubelets with Dynamic Kubelet Configuration: what a kubelet 1.21 with `--dynamic-config-dir` does to its
//! Node, as recorded from a real one (`tests/data/recordings/kubelet-1.21-dynamic-config.jsonl`).
//!
//! [`machine`] is one kubelet without any IO, with [`signals`] for what goes in and comes out; [`mod@verdict`] says whether it
//! would load a text; [`fault`] makes it misbehave. [`running`] runs any number of them against an API server, simulated or
//! real. Nothing here runs pods, and nothing here may know what nodecfg intends: the only thing the two halves share is the
//! Node.

pub mod fault;
pub mod machine;
pub mod running;
pub mod signals;
pub mod verdict;

mod config_maps;
mod driver;
pub(super) mod sending;
mod status;
pub(super) mod watch;
pub(super) mod wire;

#[cfg(test)]
mod driving;
#[cfg(test)]
mod misbehaviour;
#[cfg(test)]
mod replay;

pub(super) use driver::seed_of;
pub use fault::{Fault, FaultError, FaultSpec, Faults};
pub use machine::{Seen, SimKubelet, supports_dynamic_config};
pub use running::{InjectError, Kubelets, Options, StartError};
pub use signals::{Download, Input, Moment, Output, Ready, Wanted};
pub use verdict::{Problem, Refusal, verdict};
