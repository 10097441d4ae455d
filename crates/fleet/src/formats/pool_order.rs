//! Reader of `spec.rollout.after`, and the checks of the order of all pools.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::rollout::RolloutSpec;
use crate::fields::Located;
use kubelet_config::finding::{Finding, Proposals, nearest};
use nodecfg_contract::names::PoolName;

/// References between pools, by the pool that waits.
pub(crate) type References = BTreeMap<PoolName, Vec<Located<PoolName>>>;

/// Finding of a fleet whose default makes every pool wait, also the pools that go first.
pub(crate) fn of_fleet(rollout: &RolloutSpec) -> Option<Finding> {
    let first = rollout.after.first()?;
    let message = "`spec.rollout.after` concerns one pool, and the fleet has no default for it";
    let finding = Finding::error("bad-value", message).at(first.place.clone()).field("spec.rollout.after");
    Some(finding.help("move it into the pool.yaml of the pool that waits"))
}

/// Maximum number of pools in a message about a cycle.
const MAX_SHOWN: usize = 8;

/// Checks that each named pool exists, and that no pool waits for itself.
pub(crate) fn check(references: &References, pools: &BTreeSet<PoolName>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (cycles, proposals, ways) = (cycles(references), Proposals::default(), Proposals::default());
    for (pool, refs) in references {
        for reference in refs {
            let (name, place) = (&reference.value, reference.place.clone());
            if !pools.contains(name) {
                let others = pools.iter().filter(|known| *known != pool).map(PoolName::as_str);
                let help = match proposals.take().then(|| nearest(name.as_str(), others)).flatten() {
                    Some(near) => format!("did you mean {near}?"),
                    None => "remove it".to_owned(),
                };
                let message = format!("`spec.rollout.after`: pool {name} does not exist");
                findings.push(Finding::error("unknown-pool", message).at(place).field("spec.rollout.after").help(help));
            } else if cycles.get(pool).is_some_and(|cycle| cycles.get(name) == Some(cycle)) {
                let way = ways.take().then(|| path(references, name, pool)).flatten();
                let mut way: Vec<&str> = way.unwrap_or_else(|| vec![name]).into_iter().map(PoolName::as_str).collect();
                if way.len() > MAX_SHOWN {
                    way.splice(MAX_SHOWN / 2..way.len() - MAX_SHOWN / 2, ["…"]);
                }
                let message =
                    format!("`spec.rollout.after`: pool {pool} waits for itself: {pool} after {}", way.join(" after "));
                let finding = Finding::error("pool-cycle", message).at(place).field("spec.rollout.after");
                findings.push(finding.help("remove it, or another one of these references"));
            }
        }
    }
    findings
}

/// The pools that wait for themselves, with the same number for those that wait for each other. Takes time in
/// proportion to the references (Kosaraju's algorithm), because a pull request may add thousands of pools.
fn cycles(references: &References) -> BTreeMap<&PoolName, usize> {
    let mut waiting: BTreeMap<&PoolName, Vec<&PoolName>> = BTreeMap::new();
    for (pool, refs) in references {
        for reference in refs {
            waiting.entry(&reference.value).or_default().push(pool);
        }
    }
    // The pools in the order in which a search from each ends.
    let (mut ended, mut seen) = (Vec::new(), BTreeSet::new());
    for start in references.keys() {
        let mut open = vec![(start, false)];
        while let Some((pool, is_done)) = open.pop() {
            if is_done {
                ended.push(pool);
            } else if seen.insert(pool) {
                open.push((pool, true));
                open.extend(references.get(pool).into_iter().flatten().map(|reference| (&reference.value, false)));
            }
        }
    }
    let mut found: BTreeMap<&PoolName, usize> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (number, start) in ended.into_iter().rev().enumerate() {
        let (mut open, mut cycle) = (vec![start], Vec::new());
        while let Some(pool) = open.pop() {
            if seen.insert(pool) {
                cycle.push(pool);
                open.extend(waiting.get(pool).into_iter().flatten());
            }
        }
        let itself =
            |pool: &PoolName| references.get(pool).is_some_and(|refs| refs.iter().any(|one| one.value == *pool));
        if cycle.len() > 1 || itself(start) {
            found.extend(cycle.into_iter().map(|pool| (pool, number)));
        }
    }
    found
}

/// The shortest way from one pool to another, along the pools that each waits for.
fn path<'a>(references: &'a References, from: &'a PoolName, to: &PoolName) -> Option<Vec<&'a PoolName>> {
    // The pool that led to each pool.
    let mut before: BTreeMap<&PoolName, &PoolName> = BTreeMap::from([(from, from)]);
    let mut open = VecDeque::from([from]);
    while let Some(last) = open.pop_front() {
        if last == to {
            let mut way = vec![last];
            while let Some(earlier) =
                way.last().and_then(|pool| before.get(pool)).filter(|pool| way.last() != Some(*pool))
            {
                way.push(earlier);
            }
            way.reverse();
            return Some(way);
        }
        for next in references.get(last).into_iter().flatten().map(|reference| &reference.value) {
            before.entry(next).or_insert_with(|| {
                open.push_back(next);
                last
            });
        }
    }
    None
}
