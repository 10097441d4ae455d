//! Execution of a plan: sends the commands of the pure state machine ([`nodecfg_rollout`]) to the cluster
//! and returns the observed changes. Must not decide.

mod event_limits;
pub mod execute;
mod kubernetes_events;
mod pod_watches;
pub mod prepare;
mod requests;
