//! nodecfg: keeps the kubelet configuration of every node pool in git, rolls it out a few nodes at a time, and
//! verifies that each node converged.
//!
//! This package is the reconciler. Its parts follow the data: [`repository`] → `nodecfg_fleet` → `nodecfg_plan` →
//! [`rollout`] → [`report`]. ARCHITECTURE.md lists the crates, the folders of this one, and the invariants.

pub(crate) mod arguments;
pub mod atomic_file;
pub mod capture;
pub mod commands;
pub mod doctor;
pub(crate) mod doctor_facts;
pub(crate) mod effective;
pub mod gates;
pub mod history;
mod https;
pub mod layout;
pub mod render;
pub mod report;
pub mod repository;
pub mod review;
pub mod rollout;
pub(crate) mod runs;
#[cfg(feature = "sandbox")]
pub mod sandbox_nodes;
pub mod status;
pub mod telemetry;
pub mod terminal;
