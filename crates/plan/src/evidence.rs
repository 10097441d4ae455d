//! Evidence: nodes that prove the configuration of their pool for other nodes, as canaries, for a domain and for the
//! pointer of the pool. A compromised node can choose its own configuration and report success on it.

use super::{Action, PoolPlan, Step, Why};
use crate::present::proves;
use nodecfg_contract::names::NodeName;
use nodecfg_observed::{Node, Observed};

/// Reports whether a step makes its node prove the target: the reconciler assigns it, or has assigned it before.
pub(super) fn may_prove(step: &Step, observed: &Observed) -> bool {
    step.action == Action::Assign || observed.nodes.get(&step.node).is_some_and(proves)
}

/// Nodes of a pool that can prove its target. Contested nodes are not of the pool.
pub(super) fn of_pool<'a>(pool: &'a PoolPlan, observed: &'a Observed) -> impl Iterator<Item = &'a Node> {
    let left = pool.left_alone.iter().filter(|left| !matches!(left.why, Why::Contested { .. }));
    let names = pool.steps().map(|step| &step.node).chain(left.map(|left| &left.node));
    names.filter_map(|name: &NodeName| observed.nodes.get(name)).filter(|node| proves(node))
}
