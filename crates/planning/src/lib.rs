//! Pure core of nodecfg: desired state, plan and convergence as functions of values.
//!
//! - [`snapshot`]: files of one revision.
//! - [`desired`]: configuration that these files request.
//! - [`drain`]: evictions of a node whose change needs a drained node.
//! - [`gates`]: conditions outside of the nodes that must hold before the next step.
//! - [`hold`]: why nodes do not start now although nothing has failed.
//! - [`instant`]: the two clocks of a rollout.
//! - [`plan`]: changes that bring an observed cluster to the desired state.
//! - [`schedule`]: times at which nodes may be touched.
//! - [`convergence`]: the check whether a node has converged.
//! - [`state`]: states of a node and their severity.
//!
//! The caller passes time and randomness as values.

pub mod convergence;
pub mod desired;
pub mod drain;
mod duration_schema;
pub mod gates;
pub mod hold;
pub mod instant;
pub mod plan;
pub mod schedule;
pub mod snapshot;
pub mod state;
