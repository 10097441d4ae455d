//! The third stage: `ValidateKubeletConfiguration`, rule by rule.

use super::refusals::{Check, Refusals};
use super::{Config, Refusal};

mod numbers;

/// Every rule that a kubelet of the configuration's version breaks the start off for.
pub(super) fn check(config: &Config<'_>) -> Vec<Refusal> {
    let mut refusals = Refusals::default();
    let groups: [&[Check]; 1] = [numbers::CHECKS];
    for group in groups {
        refusals.run(group, config);
    }
    refusals.into_list()
}
