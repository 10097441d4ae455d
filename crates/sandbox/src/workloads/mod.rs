//! Simulated workloads: pods, and the controller that starts, moves and ends them.
//!
//! [`spec`] describes the workloads at the start, and `populate` creates them. `controller` is a client of the API
//! server, in this process or outside of it. Behavior beyond Kubernetes is data: an annotation of a pod that never ends,
//! and a list of pods that are recreated.

pub mod controller;
pub mod fault;
pub mod spec;

mod budget;
pub(crate) mod facts;
mod populate;

#[cfg(test)]
mod tests;

pub use controller::Workloads;
pub use fault::{PodFault, PodFaultSpec};
pub use spec::{Application, Budget, DaemonSet, WorkloadSpec};
