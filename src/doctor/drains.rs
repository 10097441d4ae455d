//! Check of the marks of drains: a mark that outlasts its drain keeps pods and autoscalers away from a node.

use jiff::{SignedDuration, Timestamp};

use super::{Check, Facts, NameSample};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::Drain;

/// Tolerance for a start in the future. The clocks of two machines write and read it.
const AHEAD: SignedDuration = SignedDuration::from_mins(1);
/// Fix of a mark that no run removes.
const RELEASE: &str = "release the node, unless a sync still drains it: `nodecfg release NODE`";

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    let (Some(observed), Some(now)) = (facts.observed(), facts.now()) else { return };
    let (mut young, mut old, mut untainted) = (NameSample::default(), NameSample::default(), NameSample::default());
    let mut longest: Option<Timestamp> = None;
    for node in observed.nodes.values() {
        let Some(mark) = &node.drain_mark else { continue };
        match &mark.drain {
            _ if !mark.tainted => untainted.add(&node.name),
            Some(drain) if is_young(drain, facts, now) => young.add(&node.name),
            drain => {
                longest = longest.into_iter().chain(drain.as_ref().map(|drain| drain.since)).min();
                old.add(&node.name);
            }
        }
    }
    if old.number > 0 {
        let since = longest.map(|since| format!(", the oldest since {since:.0}")).unwrap_or_default();
        let seen = format!("the mark of a drain outlasts its time limit on {}{since}", old.counted("node"));
        checks.push(Check::warning("drain-mark", seen).about("old").fix(RELEASE));
    }
    if untainted.number > 0 {
        let seen = format!(
            "the annotation of a drain without its taint, so that pods are still scheduled, on {}",
            untainted.counted("node")
        );
        checks.push(Check::warning("drain-mark", seen).about("untainted").fix(RELEASE));
    }
    if young.number > 0 {
        let seen = format!("the mark of a drain within its time limit on {}", young.counted("node"));
        let fix = "wait for the sync that drains the node; if none runs, start one: it finishes the drain or releases the node";
        checks.push(Check::note("drain-mark", seen).about("young").fix(fix));
    }
    if young.number + old.number + untainted.number == 0 {
        checks.push(Check::ok("drain-mark", "no node has the mark of a drain"));
    }
}

/// Reports whether the drain may still take place, by the time limits of its pool or by the defaults.
fn is_young(drain: &Drain, facts: &Facts, now: Timestamp) -> bool {
    let pools = facts.repository.as_ref().and_then(|repository| repository.as_ref().ok());
    let pool = pools.and_then(|repository| repository.desired.pools.get(&drain.pool));
    let default = RolloutPolicy::default();
    let policy = pool.map_or(&default, |pool| &pool.policy);
    let limit = policy.drain.timeout.saturating_add(policy.convergence_timeout).saturating_add(policy.drain.settle);
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    let age = now.duration_since(drain.since);
    (-AHEAD..=limit).contains(&age)
}
