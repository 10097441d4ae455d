//! Assignment of nodes to pools.

use std::collections::{BTreeMap, HashMap};

use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::{Desired, Pool};
use nodecfg_observed::Node;

/// Pool of every node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership<'a> {
    /// Nodes of each pool, in the order of their names. A pool without nodes has an empty list.
    pub pools: BTreeMap<&'a PoolName, Vec<&'a Node>>,
    /// Nodes that no pool selects, in the order of their names.
    pub unpooled: Vec<&'a Node>,
    /// Nodes that several pools of equal and highest priority select, with these pools, in the order of their names.
    pub contested: Vec<(&'a Node, Vec<&'a PoolName>)>,
}

/// Reports whether the node belongs to this pool. A node that several pools of the highest priority select belongs to
/// none.
#[must_use]
pub fn belongs(desired: &Desired, pool: &PoolName, node: &Node) -> bool {
    let selects = |pool: &Pool| pool.selects(&node.name, &node.labels);
    let own = desired.pools.get(pool).filter(|own| selects(own));
    own.is_some_and(|own| {
        let mut rivals =
            desired.pools.values().filter(|other| other.priority >= own.priority && other.name != own.name);
        !rivals.any(selects)
    })
}

/// Assigns each node to the pool of the highest priority that selects it.
#[must_use]
pub fn membership<'a>(desired: &'a Desired, nodes: &'a BTreeMap<NodeName, Node>) -> Membership<'a> {
    let by_priority = by_priority(desired);
    let selects_by_labels = desired.selects_by_labels();
    // Thousands of nodes have few different labels.
    let mut by_labels: HashMap<&BTreeMap<String, String>, Vec<&PoolName>> = HashMap::new();
    let mut membership =
        Membership { pools: desired.pools.keys().map(|pool| (pool, Vec::new())).collect(), ..Membership::default() };
    for node in nodes.values() {
        let claimants = || claimants(&by_priority, node);
        let claimants = if selects_by_labels {
            by_labels.entry(&node.labels).or_insert_with(claimants).clone()
        } else {
            claimants()
        };
        match claimants.as_slice() {
            [] => membership.unpooled.push(node),
            [pool] => membership.pools.entry(pool).or_default().push(node),
            _ => membership.contested.push((node, claimants)),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixtures::{desired, node, node_name, observed, policy, pool, pool_name};

    fn pools<'a>(membership: &Membership<'a>) -> Vec<(&'a str, Vec<&'a str>)> {
        membership.pools.iter().map(|(pool, nodes)| (pool.as_str(), names(nodes))).collect()
    }

    fn names<'a>(nodes: &[&'a Node]) -> Vec<&'a str> {
        nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn nodes_with_the_same_labels_are_in_the_same_pool() {
        let wanted = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
        let cluster = observed([node("n1", "a"), node("n2", "b"), node("n3", "a"), node("n4", "other")]);
        let membership = membership(&wanted, &cluster.nodes);
        assert_eq!(pools(&membership), [("a", vec!["n1", "n3"]), ("b", vec!["n2"])]);
        assert_eq!(names(&membership.unpooled), ["n4"]);
        for (name, node) in &cluster.nodes {
            for pool in wanted.pools.keys() {
                let listed = membership.pools[pool].contains(&node);
                assert_eq!(belongs(&wanted, pool, node), listed, "{name} {pool}");
            }
        }
    }

    #[test]
    fn pools_that_name_their_nodes_ignore_labels() {
        let mut wanted = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
        for (pool, node) in [("a", "n1"), ("b", "n2")] {
            wanted.pools.get_mut(&pool_name(pool)).unwrap().named = Some(BTreeSet::from([node_name(node)]));
        }
        let cluster = observed([node("n1", "a"), node("n2", "a"), node("n3", "a")]);
        let membership = membership(&wanted, &cluster.nodes);
        assert_eq!(pools(&membership), [("a", vec!["n1"]), ("b", vec!["n2"])]);
        assert_eq!(names(&membership.unpooled), ["n3"]);
    }

    #[test]
    fn pool_that_names_its_nodes_contests_those_of_a_selector() {
        let mut wanted = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
        wanted.pools.get_mut(&pool_name("a")).unwrap().named = Some(BTreeSet::from([node_name("n2")]));
        let cluster = observed([node("n1", "b"), node("n2", "b"), node("n3", "b")]);
        let membership = membership(&wanted, &cluster.nodes);
        assert_eq!(pools(&membership), [("a", vec![]), ("b", vec!["n1", "n3"])]);
        let contested: Vec<&Node> = membership.contested.iter().map(|(node, _)| *node).collect();
        assert_eq!(names(&contested), ["n2"]);
    }

    #[test]
    fn pool_of_higher_priority_wins_and_equal_ones_contest() {
        let mut wanted = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
        let selector = wanted.pools[&pool_name("a")].selector.clone();
        wanted.pools.get_mut(&pool_name("b")).unwrap().selector = selector;
        let cluster = observed([node("n1", "a"), node("n2", "a")]);
        let node = &cluster.nodes[&node_name("n1")];
        let contested = membership(&wanted, &cluster.nodes).contested;
        assert_eq!(contested.len(), 2);
        assert!(wanted.pools.keys().all(|pool| !belongs(&wanted, pool, node)));
        wanted.pools.get_mut(&pool_name("b")).unwrap().priority = 1;
        assert_eq!(pools(&membership(&wanted, &cluster.nodes)), [("a", vec![]), ("b", vec!["n1", "n2"])]);
        assert!(belongs(&wanted, &pool_name("b"), node) && !belongs(&wanted, &pool_name("a"), node));
    }
}
