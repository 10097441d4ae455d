//! The reconciler from end to end: a git repository, the real binary, and a cluster that it reaches over HTTPS.
//!
//! Every scenario runs against the embedded sandbox, and again against a real kube-apiserver with etcd when
//! `KUBEBUILDER_ASSETS` names a folder that holds both (the convention of envtest). Nodes are simulated: kubelets that
//! follow their Nodes, and in the sandbox also nodes with agents that follow NodeConfigs.
//! A scenario waits for conditions, never for time to pass, and has a cluster and a repository to itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[macro_use]
mod harness;

mod commands;
mod crash;
mod doctor;
mod first_day;
mod input;
mod oncall_orders;
mod oncall_revisions;
mod planning;
mod plans;
mod rollout;
mod size;
mod status;
mod wire;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_nodecfg");
