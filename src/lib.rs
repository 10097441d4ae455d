//! nodecfg: keeps the kubelet configuration of every node pool in git, rolls it out a few nodes at a time, and proves
//! that each node converged.
//!
//! The modules follow the data: [`repository`] → [`desired`] → [`observed`] → [`plan`] → [`rollout`] → [`report`].
//! ARCHITECTURE.md has the map, the invariants and what each module must not do.

pub mod advice;
pub mod agent;
pub mod capture;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod contract;
pub mod desired;
pub mod doctor;
pub mod document;
pub mod finding;
pub mod history;
pub mod install;
pub mod judge;
pub mod kubelet;
pub mod layout;
pub mod names;
pub mod nodeconfig;
pub mod observed;
pub mod plan;
pub mod printable;
pub mod replaced_file;
pub mod report;
pub mod repository;
pub mod review;
pub mod rollout;
pub mod sandbox;
pub mod spelling;
pub mod status;
pub mod telemetry;
pub mod verdict;
