//! What has changed between two looks at a fleet, node by node.

use std::collections::BTreeMap;

use super::{FleetOrders, FleetStatus, NodeStatus};
use nodecfg_contract::names::{NodeName, PoolName};

/// What has changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'a> {
    /// A node is not as it was, or is new.
    Node {
        /// How it is.
        node: &'a NodeStatus,
        /// How it was; unset for a node that is new.
        was: Option<&'a NodeStatus>,
    },
    /// A node has left the cluster.
    Gone {
        /// The node.
        node: &'a NodeName,
        /// The pool it was in.
        pool: Option<&'a PoolName>,
    },
    /// Somebody has begun or ended a rollout, paused a pool or resumed one, or ordered a rollout to stop.
    Orders {
        /// How it is.
        orders: &'a FleetOrders,
    },
}

/// What has changed: orders first, then nodes by name.
#[must_use]
pub fn changes<'a>(before: &'a FleetStatus, after: &'a FleetStatus) -> Vec<Change<'a>> {
    let orders = after.fleets.iter().filter(|fleet| !before.fleets.contains(fleet));
    let mut changes: Vec<Change<'a>> = orders.map(|orders| Change::Orders { orders }).collect();
    let (old, new) = (by_name(before), by_name(after));
    let mut nodes: BTreeMap<&NodeName, Change<'a>> = BTreeMap::new();
    for (name, node) in &new {
        match old.get(name) {
            Some(was) if was == node => {}
            was => drop(nodes.insert(name, Change::Node { node, was: was.copied() })),
        }
    }
    for (name, node) in old {
        if !new.contains_key(name) {
            nodes.insert(name, Change::Gone { node: name, pool: node.pool.as_ref() });
        }
    }
    changes.extend(nodes.into_values());
    changes
}

fn by_name(status: &FleetStatus) -> BTreeMap<&NodeName, &NodeStatus> {
    status.nodes.iter().map(|node| (&node.node, node)).collect()
}
