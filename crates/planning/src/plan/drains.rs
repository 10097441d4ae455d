//! Nodes that must be drained for their change, and marks of earlier drains.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::config_maps::ConfigMapIndex;
use super::disruption::{changed_fields, current_configurations, has_other_content, worst};
use super::verdicts::known_minor;
use super::{Plan, Release, sample};
use crate::desired::{Pool, PoolTarget};
use kubelet_config::Minor;
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{FleetName, NodeName};
use nodecfg_contract::observed::{Drain, Node, Observed};

/// Decides which nodes of a pool are drained. Compares each configuration once, because thousands of nodes share a few.
pub(super) struct DrainNeeds<'a> {
    pool: &'a Pool,
    index: &'a ConfigMapIndex<'a>,
    /// Whether the riskiest answer of the pool's kubelets on their local configuration needs a drain. `None` without an
    /// answer.
    sampled: Option<bool>,
    known: RefCell<BTreeMap<(ConfigSource, Option<Minor>), bool>>,
}

impl<'a> DrainNeeds<'a> {
    /// `nodes`: the nodes of the pool.
    pub(super) fn new(
        pool: &'a Pool,
        nodes: impl IntoIterator<Item = &'a Node>,
        index: &'a ConfigMapIndex<'a>,
    ) -> Self {
        let sampled = if pool.policy.drains_nodes() { sampled(pool, nodes, index) } else { None };
        Self { pool, index, sampled, known: RefCell::default() }
    }

    /// Reports whether a node is drained before it is assigned the target: the pool drains nodes, and the change needs
    /// it or is unknown. An agent counts an unknown change as one that needs a drain, too.
    pub(super) fn of(&self, node: &Node) -> bool {
        self.pool.policy.drains_nodes() && current_configurations(node).into_iter().any(|from| self.needs(node, from))
    }

    fn needs(&self, node: &Node, from: Option<ConfigSource>) -> bool {
        let PoolTarget::Config(rendered) = &self.pool.target else { return true };
        let Some(source) = from.filter(|source| !has_other_content(node, source, self.index)) else {
            // Only the kubelet itself knows what the node runs. The answer of another kubelet may be wrong for this
            // node, so it counts only where an agent compares again, and refuses.
            let own = || sampled(self.pool, std::iter::once(node), self.index);
            return own().or(self.sampled.filter(|_| node.content.is_some())).unwrap_or(true);
        };
        let key = (source, known_minor(node));
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let needs = self.index.document(&key.0).is_none_or(|old| {
            let fields = changed_fields(Some(&old), Some(&rendered.document), &BTreeSet::from([key.1]));
            worst(&fields) >= Some(Class::Drain)
        });
        self.known.borrow_mut().insert(key, needs);
        needs
    }
}

/// Whether the riskiest answer of these nodes on their local configuration needs a drain. `None` without an answer.
fn sampled<'a>(pool: &Pool, nodes: impl IntoIterator<Item = &'a Node>, index: &ConfigMapIndex<'_>) -> Option<bool> {
    let PoolTarget::Config(rendered) = &pool.target else { return None };
    let asked = nodes.into_iter().filter(|node| sample::runs(node, None));
    let (fields, _) = sample::changes_of(asked, index.observed(), Some(&rendered.document))?;
    Some(worst(&fields?) >= Some(Class::Drain))
}

/// Drain of a node by this fleet.
pub(super) fn drain_by<'a>(node: &'a Node, fleet: &FleetName) -> Option<&'a Drain> {
    node.drain_mark.as_ref()?.in_effect().filter(|drain| drain.fleet == *fleet)
}

/// Drain of a node by another fleet.
pub(super) fn drain_by_other<'a>(node: &'a Node, fleet: &FleetName) -> Option<&'a Drain> {
    node.drain_mark.as_ref()?.in_effect().filter(|drain| drain.fleet != *fleet)
}

/// Nodes that were drained for a change that nobody makes any more, or has been made.
pub(super) fn releases(plan: &Plan, observed: &Observed) -> Vec<Release> {
    let stepped: BTreeSet<&NodeName> = plan.pools.iter().flat_map(|pool| pool.steps()).map(|step| &step.node).collect();
    let marked = observed.nodes.values().filter(|node| !stepped.contains(&node.name) && !node.deleting);
    marked
        .filter_map(|node| {
            let drain = drain_by(node, &plan.fleet)?;
            Some(Release { node: node.name.clone(), uid: node.uid.clone(), since: drain.since })
        })
        .collect()
}
