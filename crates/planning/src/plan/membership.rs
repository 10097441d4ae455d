//! Assignment of nodes to pools.

use std::collections::BTreeMap;

use crate::desired::{Desired, Pool};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::observed::Node;

/// Pool of every node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership<'a> {
    /// Nodes of each pool by name. A pool without nodes has an empty list.
    pub pools: BTreeMap<&'a PoolName, Vec<&'a NodeName>>,
    /// Nodes that no pool selects.
    pub unpooled: Vec<&'a NodeName>,
    /// Nodes that several pools of equal and highest priority select, with these pools.
    pub contested: BTreeMap<&'a NodeName, Vec<&'a PoolName>>,
}

/// Reports whether the node belongs to this pool. A node that several pools of the highest priority select belongs to
/// none.
#[must_use]
pub fn belongs(desired: &Desired, pool: &PoolName, node: &Node) -> bool {
    *claimants(&by_priority(desired), node) == [pool]
}

/// Assigns each node to the pool of the highest priority that selects it.
#[must_use]
pub fn membership<'a>(desired: &'a Desired, nodes: &'a BTreeMap<NodeName, Node>) -> Membership<'a> {
    let by_priority = by_priority(desired);
    let mut membership =
        Membership { pools: desired.pools.keys().map(|pool| (pool, Vec::new())).collect(), ..Membership::default() };
    for (name, node) in nodes {
        let claimants = claimants(&by_priority, node);
        match claimants.as_slice() {
            [] => membership.unpooled.push(name),
            [pool] => membership.pools.entry(pool).or_default().push(name),
            _ => {
                membership.contested.insert(name, claimants);
            }
        }
    }
    membership
}

/// Pools by descending priority.
fn by_priority(desired: &Desired) -> Vec<&Pool> {
    let mut pools: Vec<&Pool> = desired.pools.values().collect();
    // Stable: pools of equal priority stay in the order of their names.
    pools.sort_by_key(|pool| std::cmp::Reverse(pool.priority));
    pools
}

/// Pools of the highest priority that select the node. More than one means a conflict.
fn claimants<'a>(by_priority: &[&'a Pool], node: &Node) -> Vec<&'a PoolName> {
    let mut selecting = by_priority.iter().filter(|pool| pool.selects(&node.name, &node.labels)).peekable();
    let highest = selecting.peek().map(|pool| pool.priority);
    selecting.take_while(|pool| Some(pool.priority) == highest).map(|pool| &pool.name).collect()
}
