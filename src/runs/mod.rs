//! What commands do to a cluster: planning, saved plans, the run itself and its view, orders, and changes without a run.

pub(crate) mod comparison;
pub(crate) mod drain_forecast;
pub(crate) mod drain_marks;
pub(crate) mod emit;
pub(crate) mod fleet_change;
pub(crate) mod installation;
pub(crate) mod kubelet_samples;
pub(crate) mod live;
pub(crate) mod orders;
pub(crate) mod plan_file;
pub(crate) mod planning;
pub(crate) mod pool_history;
pub(crate) mod prune;
pub(crate) mod reconcile;
pub(crate) mod reset_target;
pub(crate) mod rollback_target;
pub(crate) mod run;
pub(crate) mod write_review;
