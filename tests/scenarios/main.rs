//! End-to-end tests of the reconciler: a git repository, the real binary, and a cluster over HTTPS.
//!
//! Every scenario runs against the embedded sandbox. It also runs against a real kube-apiserver with etcd if
//! `KUBEBUILDER_ASSETS` names a folder with both (the convention of envtest). Nodes are simulated: kubelets that
//! follow their Nodes, or nodes with agents that follow NodeConfigs. Pods and their controllers are simulated, too.
//! Each scenario has its own cluster and repository, and waits for conditions instead of fixed times.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[macro_use]
mod harness;

mod admission;
mod adversary;
mod alerts;
mod commands;
mod crash;
mod doctor;
mod drain;
mod drain_crash;
mod drain_forecast;
mod drain_rights;
mod drop_ins;
mod first_day;
mod gates;
mod hostile_node;
mod input;
mod joining;
mod kubelet_samples;
mod last_line;
mod maintenance;
mod new_nodes;
mod node_order;
mod node_sizes;
mod oncall_orders;
mod oncall_revisions;
mod overridden_values;
mod own_configuration;
mod planning;
mod plans;
mod pods;
mod pool_order;
mod pool_pointers;
mod proof;
mod real_prometheus;
mod release;
mod removed_fields;
mod rollout;
mod size;
mod status;
mod trials;
mod windows;
mod wire;

#[path = "../../src/gates/stand_in.rs"]
mod stand_in;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_nodecfg");
