//! What the commands that plan or change nodes share: planning, saved plans, the run itself, and its view.

pub(crate) mod comparison;
pub(crate) mod drain_forecast;
pub(crate) mod emit;
pub(crate) mod kubelet_samples;
pub(crate) mod live;
pub(crate) mod plan_file;
pub(crate) mod plan_options;
pub(crate) mod planning;
pub(crate) mod reconcile;
pub(crate) mod run;
pub(crate) mod write_review;
