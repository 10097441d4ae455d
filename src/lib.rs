//! nodecfg: keeps the kubelet configuration of every node pool in git, rolls it out a few nodes at a time, and proves
//! that each node converged.
//!
//! This package is the reconciler. Its parts follow the data: [`repository`] → `nodecfg_planning` → [`rollout`] → [`report`].
//! ARCHITECTURE.md has the map of all crates, the invariants and what each part must not do.

pub mod capture;
pub mod cli;
pub mod doctor;
pub mod history;
pub mod layout;
pub mod replaced_file;
pub mod report;
pub mod repository;
pub mod review;
pub mod rollout;
pub mod sandbox_nodes;
pub mod status;
pub mod telemetry;
