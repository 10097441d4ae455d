//! Which node belongs to which pool.

use std::collections::BTreeMap;

use crate::desired::{Desired, Pool};
use crate::names::{NodeName, PoolName};
use crate::observed::Node;

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
    desired.pools.get(pool).is_some_and(|pool| {
        let outdoes = |other: &Pool| {
            other.name != pool.name && other.priority >= pool.priority && other.selector.matches(&node.labels)
        };
        pool.selector.matches(&node.labels) && !desired.pools.values().any(outdoes)
    })
}

/// Gives each node to the pool of the highest priority that selects it.
#[must_use]
pub fn membership<'a>(desired: &'a Desired, nodes: &'a BTreeMap<NodeName, Node>) -> Membership<'a> {
    let mut by_priority: Vec<&Pool> = desired.pools.values().collect();
    // Stable: pools of equal priority stay in the order of their names.
    by_priority.sort_by_key(|pool| std::cmp::Reverse(pool.priority));

    let mut membership =
        Membership { pools: desired.pools.keys().map(|pool| (pool, Vec::new())).collect(), ..Membership::default() };
    for (name, node) in nodes {
        let mut selecting = by_priority.iter().filter(|pool| pool.selector.matches(&node.labels));
        let Some(first) = selecting.next() else {
            membership.unpooled.push(name);
            continue;
        };
        let rivals: Vec<&PoolName> =
            selecting.take_while(|pool| pool.priority == first.priority).map(|pool| &pool.name).collect();
        if rivals.is_empty() {
            membership.pools.entry(&first.name).or_default().push(name);
        } else {
            membership.contested.insert(name, std::iter::once(&first.name).chain(rivals).collect());
        }
    }
    membership
}
