//! Execution of a plan: sends the commands of the pure state machine ([`nodecfg_rollout`]) to the cluster
//! and returns the observed changes. Must not decide.

mod event_limits;
pub mod execute;
mod kubernetes_events;
mod pod_watches;
pub mod prepare;
mod requests;

use crate::gates::Evaluator;
use nodecfg_clock::ScaledClock;
use nodecfg_fleet::Desired;
use nodecfg_observed::{AllowedDisruption, Observed};
use nodecfg_plan::{Options, Plan};
use nodecfg_rollout::machine::Mode;

/// Inputs of a rollout.
#[derive(Clone, Copy)]
pub struct Rollout<'a> {
    /// The checked plan.
    pub plan: &'a Plan,
    /// Desired state of the plan, to replan a node that another client changed.
    pub desired: &'a Desired,
    /// Observed state of the plan.
    pub observed: &'a Observed,
    /// Options of the plan.
    pub options: &'a Options,
    /// Mode of the rollout.
    pub mode: Mode,
    /// Asks the gates of the pools. `None`: gates are not asked.
    pub gates: Option<&'a Evaluator>,
    /// Disruption that this run is allowed beyond the policy, for the Events of the nodes.
    pub allowed: Option<&'a AllowedDisruption>,
    /// Reason for which this run ignores the windows and exclusions of pools, for the Events of the nodes.
    pub ignored_windows: Option<&'a str>,
    /// Clock of the time limits.
    pub clock: &'a ScaledClock,
}
