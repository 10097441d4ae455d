//! Exclusions: no node starts whose time limits overlap one.

use super::Step;
use jiff::SignedDuration;
use nodecfg_rollout::machine::Command;

pub(super) fn check(command: &Command, step: &Step) {
    let Some(name) = step.started(command) else { return };
    let policy = &step.pool_of(name).policy;
    let drain = &policy.drain;
    let drained = if step.cluster.drains(name) { drain.timeout + drain.settle } else { Default::default() };
    let now = step.machine.now.time;
    let ends = now + SignedDuration::try_from(policy.convergence_timeout + drained).unwrap();
    let overlapping = policy.schedule.exclusions.iter().find(|one| one.from < ends && one.to > now);
    assert_eq!(overlapping, None, "{name} starts at {now} within an exclusion\n{step}");
}
