//! Simulated kubelets with Dynamic Kubelet Configuration: what a kubelet 1.21 with `--dynamic-config-dir` does to its
//! Node, as recorded from a real one (`tests/data/recordings/kubelet-1.21-dynamic-config.jsonl`).
//!
//! [`machine`] is one kubelet without any IO; [`verdict`] says whether it would load a text; [`fault`] makes it
//! misbehave. Nothing here runs pods, and nothing here may know what nodecfg intends: the only
//! thing the two halves share is the Node.

pub mod fault;
pub mod machine;
pub mod verdict;

#[cfg(test)]
mod replay;

pub use fault::{Fault, FaultError, FaultSpec, Faults};
pub use machine::{Download, Input, Moment, Output, Ready, SimKubelet, Wanted};
pub use verdict::{Problem, Refusal, verdict};
