//! Which node belongs to which pool.

use std::collections::BTreeMap;

use crate::desired::{Desired, Pool};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::observed::Node;

/// The outcome of asking every pool for every node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership<'a> {
    /// The nodes of each pool, by name; a pool that selects nothing has an empty list.
    pub pools: BTreeMap<&'a PoolName, Vec<&'a NodeName>>,
    /// Nodes that no pool selects.
    pub unpooled: Vec<&'a NodeName>,
    /// Nodes that several pools of the highest priority select, with those pools.
    pub contested: BTreeMap<&'a NodeName, Vec<&'a PoolName>>,
}

/// Whether this pool, and no other, would be given this node. Of a contested node, no pool would.
#[must_use]
pub fn belongs(desired: &Desired, pool: &PoolName, node: &Node) -> bool {
    *claimants(&by_priority(desired), node) == [pool]
}

/// Gives each node to the pool of the highest priority that selects it.
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

/// The pools, the highest priority first.
fn by_priority(desired: &Desired) -> Vec<&Pool> {
    let mut pools: Vec<&Pool> = desired.pools.values().collect();
    // Stable: pools of equal priority stay in the order of their names.
    pools.sort_by_key(|pool| std::cmp::Reverse(pool.priority));
    pools
}

/// The pools of the highest priority that select the node: none, the one that it belongs to, or several that contest it.
fn claimants<'a>(by_priority: &[&'a Pool], node: &Node) -> Vec<&'a PoolName> {
    let mut selecting = by_priority.iter().filter(|pool| pool.selects(&node.name, &node.labels)).peekable();
    let highest = selecting.peek().map(|pool| pool.priority);
    selecting.take_while(|pool| Some(pool.priority) == highest).map(|pool| &pool.name).collect()
}
