//! Reader of `spec.rollout.after`, and the checks of the order of all pools.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::{Fields, text};
use super::formats::{PoolRef, RolloutSpec};
use kubelet_config::finding::Finding;
use kubelet_config::spelling::nearest;
use nodecfg_contract::names::PoolName;

/// References between pools, by the pool that waits.
pub(super) type References = BTreeMap<PoolName, Vec<PoolRef>>;

/// Reads the pools that go first.
pub(super) fn after(rollout: &Fields<'_>, findings: &mut Vec<Finding>) -> Vec<PoolRef> {
    let path = rollout.path("after");
    let mut pools = Vec::new();
    for (at, node) in rollout.list("after", findings).iter().enumerate() {
        let path = format!("{path}[{at}]");
        let Some(name) = text(node, &path, findings) else { continue };
        match PoolName::new(name) {
            Ok(name) => pools.push(PoolRef { name, place: node.place.clone() }),
            Err(error) => {
                let finding = Finding::error("bad-name", error.to_string()).at(node.place.clone()).field(path);
                findings.push(finding.help("remove it"));
            }
        }
    }
    pools
}

/// Finding of a fleet whose default makes every pool wait, also the pools that go first.
pub(super) fn of_fleet(rollout: &RolloutSpec) -> Option<Finding> {
    let first = rollout.after.first()?;
    let message = "`spec.rollout.after` concerns one pool, and the fleet has no default for it";
    let finding = Finding::error("bad-value", message).at(first.place.clone()).field("spec.rollout.after");
    Some(finding.help("move it into the pool.yaml of the pool that waits"))
}

/// Checks that each named pool exists, and that no pool waits for itself.
pub(super) fn check(references: &References, pools: &BTreeSet<PoolName>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (pool, refs) in references {
        for reference in refs {
            let (name, place) = (&reference.name, reference.place.clone());
            if !pools.contains(name) {
                let help =
                    match nearest(name.as_str(), pools.iter().filter(|known| *known != pool).map(PoolName::as_str)) {
                        Some(near) => format!("did you mean {near}?"),
                        None => "remove it".to_owned(),
                    };
                let message = format!("`spec.rollout.after`: pool {name} does not exist");
                findings.push(Finding::error("unknown-pool", message).at(place).field("spec.rollout.after").help(help));
            } else if let Some(path) = path(references, name, pool) {
                let path: Vec<&str> = path.iter().map(|pool| pool.as_str()).collect();
                let message = format!(
                    "`spec.rollout.after`: pool {pool} waits for itself: {pool} after {}",
                    path.join(" after ")
                );
                let finding = Finding::error("pool-cycle", message).at(place).field("spec.rollout.after");
                findings.push(finding.help("remove it, or another one of these references"));
            }
        }
    }
    findings
}

/// The shortest way from one pool to another, along the pools that each waits for.
fn path<'a>(references: &'a References, from: &'a PoolName, to: &PoolName) -> Option<Vec<&'a PoolName>> {
    let mut seen = BTreeSet::from([from]);
    let mut ways = std::collections::VecDeque::from([vec![from]]);
    while let Some(way) = ways.pop_front() {
        let last = *way.last()?;
        if last == to {
            return Some(way);
        }
        for next in references.get(last).into_iter().flatten().map(|reference| &reference.name) {
            if seen.insert(next) {
                ways.push_back([&way[..], &[next]].concat());
            }
        }
    }
    None
}
