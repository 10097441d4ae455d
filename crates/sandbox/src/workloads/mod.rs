//! Simulated workloads: pods, and the components of a cluster that start, move and end them.
//!
//! `model` decides without IO: ReplicaSet and DaemonSet controllers, scheduler, disruption controller, and the pods
//! and volumes of the kubelets. `driver` carries out its actions in the API server, and `remote` in one outside this
//! process. Behavior beyond Kubernetes, such as a pod that never ends, is data: an annotation of the pod (`objects`).
//! `spec` describes the workloads at the start.

pub mod fault;
pub mod handle;
pub mod spec;

mod budget;
mod driver;
mod facts;
mod intake;
mod lifecycle;
mod model;
mod objects;
mod populate;
mod remote;
mod replicas;

#[cfg(test)]
mod tests;

pub use fault::{PodFault, PodFaultError, PodFaultSpec};
pub use handle::Workloads;
pub use spec::{Application, Budget, DaemonSet, WorkloadSpec};
