//! Changes between two statuses of a cluster: orders of fleets, and nodes.

use std::collections::BTreeMap;

use super::{Compared, FleetOrders, FleetStatus, NodeStatus};
use nodecfg_contract::names::{NodeName, PoolName};

/// Change of a fleet.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<'a> {
    /// A node changed or is new.
    Node {
        /// Current status.
        node: &'a NodeStatus,
        /// Previous status; unset for a new node.
        was: Option<&'a NodeStatus>,
    },
    /// A node left the cluster.
    Gone {
        /// The node.
        node: &'a NodeName,
        /// Previous pool of the node.
        pool: Option<&'a PoolName>,
    },
    /// The nodes are compared with another revision.
    Compared {
        /// The revision.
        compared: &'a Compared,
    },
    /// A rollout started or ended, a pool was paused or resumed, or a rollout was ordered to stop.
    Orders {
        /// Current orders.
        orders: &'a FleetOrders,
    },
}

/// Changes between two statuses: another revision first, then new or changed orders, then nodes by name.
#[must_use]
pub fn changes<'a>(before: &'a FleetStatus, after: &'a FleetStatus) -> Vec<Change<'a>> {
    let orders = after.fleets.iter().filter(|fleet| !before.fleets.contains(fleet));
    let compared = after.compared.as_ref().filter(|_| before.compared != after.compared);
    let mut changes: Vec<Change<'a>> = compared.map(|compared| Change::Compared { compared }).into_iter().collect();
    changes.extend(orders.map(|orders| Change::Orders { orders }));
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
