//! Carries out a plan: sends the commands of the pure state machine ([`nodecfg_planning::rollout`]) to the cluster, and
//! returns what happens there. Decides nothing.

mod commentary;
pub mod execute;
