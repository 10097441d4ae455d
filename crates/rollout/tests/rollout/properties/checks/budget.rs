//! Budget of each pool, and limit of all pools.

use std::collections::{BTreeMap, BTreeSet};

use super::Step;
use crate::properties::cluster::SimCluster;
use crate::{Machine, Runs};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::Plan;
use nodecfg_rollout::machine::{Command, Input};

/// An available node may become unavailable only if the unavailable nodes, including it, stay within the limits. A node
/// that another program maintains or deletes, or whose state is unknown, must not start.
pub(super) fn check(command: &Command, step: &Step) {
    let name = match command {
        Command::Mark(name, ..) | Command::Assign(name, _) => name,
        _ => return,
    };
    let cluster = step.cluster;
    let node = cluster.nodes.get(name).unwrap_or_else(|| panic!("{name} has left the cluster\n{step}"));
    assert!(!cluster.is_claimed(node), "{name} must not start: {node:?}\n{step}");
    // The mark of a drained node took budget, also if another client removed it.
    let is_drained = matches!(command, Command::Assign(..)) && cluster.drains(name);
    if is_drained || !cluster.is_available(name) {
        return;
    }
    let pool = step.pool_of(name);
    let unavailable = |node: &&NodeName| !cluster.is_available(node);
    let of_pool = cluster.in_pool(&pool.name).filter(unavailable).count() + 1;
    assert!(of_pool <= pool.budget, "{name} is number {of_pool} of {}\n{step}", pool.budget);
    let of_all = cluster.nodes.keys().filter(unavailable).count() + 1;
    assert!(step.plan.budget().is_none_or(|limit| of_all <= limit), "{name} is number {of_all} of all pools\n{step}");
}

/// Unavailable nodes as the machine counts them.
pub(super) struct BudgetCheck {
    /// Numbers after the latest step.
    counted: BTreeMap<PoolName, usize>,
    /// Nodes that were available after the latest step.
    available: BTreeSet<NodeName>,
    /// Nodes that became unavailable by themselves. The machine has not seen that yet.
    lost: BTreeSet<NodeName>,
}

impl BudgetCheck {
    pub(super) fn new(plan: &Plan, machine: &Machine, cluster: &SimCluster) -> Self {
        Self { counted: counted(plan, machine), available: available(cluster), lost: BTreeSet::new() }
    }

    pub(super) fn before(&mut self, cluster: &SimCluster) {
        let available = available(cluster);
        self.lost.extend(self.available.difference(&available).cloned());
        self.lost.retain(|node| !available.contains(node));
    }

    /// A step exceeds a limit only by a node that it shows to have become unavailable.
    pub(super) fn after(&mut self, step: &Step) {
        let lost = match step.log.last() {
            Some((_, Input::Observed(node), _)) => self.lost.take(&node.name),
            _ => None,
        };
        let counted = counted(step.plan, step.machine);
        for (pool, unavailable) in &counted {
            assert!(*unavailable <= step.cluster.in_pool(pool).count());
            let is_lost = lost.as_ref().is_some_and(|node| step.cluster.pool(node) == pool);
            let limit = step.pool(pool).budget.max(self.counted[pool] + usize::from(is_lost));
            assert!(*unavailable <= limit, "{unavailable} of {limit} in {pool}\n{step}");
        }
        let sum = |counts: &BTreeMap<PoolName, usize>| counts.values().sum::<usize>();
        if let Runs::Rollout(machine) = &step.machine.runs {
            assert_eq!(machine.unavailable(), sum(&counted));
        }
        let limit = step.plan.budget().map(|limit| limit.max(sum(&self.counted) + usize::from(lost.is_some())));
        assert!(limit.is_none_or(|limit| sum(&counted) <= limit), "{counted:?} of {limit:?}\n{step}");
        (self.counted, self.available) = (counted, available(step.cluster));
    }
}

fn counted(plan: &Plan, machine: &Machine) -> BTreeMap<PoolName, usize> {
    plan.pools.iter().map(|pool| (pool.name.clone(), machine.budget_of(&pool.name).unwrap().0)).collect()
}

fn available(cluster: &SimCluster) -> BTreeSet<NodeName> {
    cluster.nodes.keys().filter(|node| cluster.is_available(node)).cloned().collect()
}
