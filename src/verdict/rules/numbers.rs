//! Rules about single numbers and durations.

use crate::verdict::refusals::Check;

pub(super) const CHECKS: &[Check] = &[("max-pods", |config, refusals| {
    if let Some(pods) = config.int("maxPods")
        && pods < 0
    {
        refusals.field(config, "maxPods", format!("maxPods is {pods}; it must not be negative"));
    }
})];
