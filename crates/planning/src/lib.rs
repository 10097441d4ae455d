//! What is to happen to the nodes of a cluster, and when: plain functions over plain values.
//!
//! [`snapshot`] is the files of one revision, [`desired`] what they ask for, [`plan`] what that means for a cluster as
//! observed, [`judge`] whether a node has converged, and [`rollout`] the state machine that decides which node starts next.
//! [`state`] has a word for the state of a node, and the order of severity.
//! Time and randomness come in as values.

pub mod desired;
pub mod judge;
pub mod plan;
pub mod rollout;
pub mod snapshot;
pub mod state;
