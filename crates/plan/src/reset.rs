//! Selects the nodes to reset. Without a repository, infers the pool of each node from its ConfigMap.

use std::collections::{BTreeMap, BTreeSet};

use crate::present::is_available;
use kubelet_config::finding::{Place, nearest};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_fleet::{Desired, NodeShare, Pool, PoolTarget, RolloutPolicy};
use nodecfg_observed::{ConfigMapKey, ManagedConfigMap, Node, Observed};

/// The pool of nodes whose ConfigMap names no pool or is unknown.
const OTHERS: &str = "others";

/// Nodes to reset: the union of the criteria.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSelection {
    /// Nodes by name.
    pub nodes: BTreeSet<NodeName>,
    /// All nodes of these pools.
    pub pools: BTreeSet<PoolName>,
    /// All nodes with these labels, in any pool or none.
    pub selector: Option<LabelSelector>,
    /// All nodes of all pools.
    pub all: bool,
}

/// Reason why a selection is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeSelectionError {
    /// The node does not exist.
    #[error("the cluster has no node {name}")]
    UnknownNode {
        /// The given name.
        name: NodeName,
        /// The most similar existing name.
        near: Option<String>,
    },
    /// The pool does not exist.
    #[error("no node is in a pool {name}")]
    UnknownPool {
        /// The given name.
        name: PoolName,
        /// The most similar existing name.
        near: Option<String>,
    },
    /// The node has a `configSource` and is in no pool.
    #[error("node {name} is in no pool, and points at {source_named}")]
    Unpooled {
        /// The node.
        name: NodeName,
        /// Source of the node.
        source_named: Box<ConfigSource>,
    },
}

impl NodeSelectionError {
    /// Fix for this error.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::UnknownNode { near: Some(near), .. } | Self::UnknownPool { near: Some(near), .. } => {
                format!("did you mean {near}?")
            }
            Self::UnknownNode { .. } => "list the nodes with `nodecfg status`".to_owned(),
            Self::UnknownPool { .. } => "list the nodes and their pools with `nodecfg status`".to_owned(),
            Self::Unpooled { .. } => "pass --take-over to reset nodes on ConfigMaps of other owners".to_owned(),
        }
    }
}

/// Builds the fleet from its nodes: one pool per pool name on the ConfigMaps in use, with the local configuration as
/// target. An unavailable node without a ConfigMap belongs to the pool of its label, or to the only pool, and so
/// counts against a budget. With `take_over`, nodes on other ConfigMaps are in pools too.
#[must_use]
pub fn pools_of_nodes(observed: &Observed, fleet: &FleetName, budget: u32, take_over: bool) -> Desired {
    let mut members: BTreeMap<PoolName, BTreeSet<NodeName>> = BTreeMap::new();
    for node in observed.nodes.values() {
        if let Some(pool) = pool_of(node, observed, fleet, take_over) {
            members.entry(pool).or_default().insert(node.name.clone());
        }
    }
    // A node on its local configuration has no ConfigMap that names its pool. If it is unavailable, it must still
    // count against a budget.
    let only = members.keys().next().filter(|_| members.len() == 1).cloned();
    for node in unpooled_and_unavailable(observed, &members) {
        let labeled = node.labels.get(POOL_LABEL).and_then(|pool| PoolName::new(pool.as_str()).ok());
        let labeled = labeled.filter(|pool| members.contains_key(pool));
        if let Some(nodes) = labeled.or_else(|| only.clone()).and_then(|pool| members.get_mut(&pool)) {
            nodes.insert(node.name.clone());
        }
    }
    let policy = RolloutPolicy { max_unavailable: NodeShare::Count(budget), ..RolloutPolicy::default() };
    let pool = |(name, nodes): (PoolName, BTreeSet<NodeName>)| {
        let place = Place::whole_file(format!("pools/{name}"));
        let pool = Pool {
            name: name.clone(),
            selector: LabelSelector::default(),
            named: Some(nodes),
            priority: 0,
            policy: policy.clone(),
            targets: PoolTarget::Local.into(),
            placement: None,
            own: None,
            require_nodes: None,
            kubelets: Vec::new(),
            place,
            files: BTreeSet::new(),
        };
        (name, pool)
    };
    Desired {
        max_unavailable: None,
        pool_pointers: false,
        paused: false,
        fleet: fleet.clone(),
        namespace: None,
        commit: None,
        uncommitted: 0,
        pools: members.into_iter().map(pool).collect(),
    }
}

/// Unavailable nodes in no pool whose spec and status name no source. Each may have been reset before, in any pool.
fn unpooled_and_unavailable<'o>(
    observed: &'o Observed,
    members: &BTreeMap<PoolName, BTreeSet<NodeName>>,
) -> Vec<&'o Node> {
    let pooled: BTreeSet<NodeName> = members.values().flatten().cloned().collect();
    let local =
        |node: &Node| [&node.source, &node.status.assigned, &node.status.active].into_iter().all(Option::is_none);
    let matches = |node: &&Node| !pooled.contains(&node.name) && local(node) && !is_available(node);
    observed.nodes.values().filter(matches).collect()
}

/// Unavailable nodes whose pool is unknown. They count against the budget of every pool.
#[must_use]
pub fn unavailable_without_pool(desired: &Desired, observed: &Observed) -> Vec<NodeName> {
    let named = |pool: &Pool| Some((pool.name.clone(), pool.named.clone()?));
    let members = desired.pools.values().filter_map(named).collect();
    let nodes = if desired.pools.is_empty() { Vec::new() } else { unpooled_and_unavailable(observed, &members) };
    nodes.into_iter().map(|node| node.name.clone()).collect()
}

/// Returns the pool of the first ConfigMap of this fleet among the sources in spec and status. So a node that leaves
/// its pool stays in it until its status no longer names the ConfigMap. With `take_over`, falls back to the first
/// ConfigMap of any owner.
fn pool_of(node: &Node, observed: &Observed, fleet: &FleetName, take_over: bool) -> Option<PoolName> {
    let status = &node.status;
    let sources = || [&node.source, &status.assigned, &status.active].into_iter().flatten();
    let map = |source: &ConfigSource| observed.config_maps.get(&ConfigMapKey::of(source)?);
    let pool = |map: &ManagedConfigMap| map.pool.clone().or_else(|| PoolName::new(OTHERS).ok());
    let ours = sources().filter_map(map).find(|map| map.fleet.as_ref() == Some(fleet));
    if let Some(ours) = ours {
        return pool(ours);
    }
    let any = sources().next().filter(|_| take_over)?;
    map(any).map_or_else(|| PoolName::new(OTHERS).ok(), pool)
}

/// Returns the selected nodes. `pool_by_node` holds the pool of each node that is in one, `pools` all existing pools,
/// and `labels` matches a node against a selector. A selected node without a pool and without a source is no error:
/// it needs no reset.
///
/// # Errors
/// The selection names a node or a pool that is missing, or a node in no pool that has a `configSource`.
pub fn select_nodes(
    choice: &NodeSelection,
    observed: &Observed,
    pool_by_node: &BTreeMap<&NodeName, &PoolName>,
    labels: impl Fn(&LabelSelector, &Node) -> bool,
    pools: &BTreeSet<&PoolName>,
) -> Result<BTreeSet<NodeName>, NodeSelectionError> {
    for name in &choice.nodes {
        let Some(node) = observed.nodes.get(name) else {
            let near = nearest(name.as_str(), observed.nodes.keys().map(NodeName::as_str)).map(str::to_owned);
            return Err(NodeSelectionError::UnknownNode { name: name.clone(), near });
        };
        if let (None, Some(source)) = (pool_by_node.get(name), &node.source) {
            return Err(NodeSelectionError::Unpooled { name: name.clone(), source_named: Box::new(source.clone()) });
        }
    }
    if let Some(name) = choice.pools.iter().find(|pool| !pools.contains(pool)) {
        let near = nearest(name.as_str(), pools.iter().map(|pool| pool.as_str())).map(str::to_owned);
        return Err(NodeSelectionError::UnknownPool { name: name.clone(), near });
    }
    let selected = |node: &&Node| {
        let pool = pool_by_node.get(&node.name);
        choice.nodes.contains(&node.name)
            || pool.is_some_and(|pool| choice.all || choice.pools.contains(*pool))
            || choice.selector.as_ref().is_some_and(|selector| labels(selector, node))
    };
    Ok(observed.nodes.values().filter(selected).map(|node| node.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{fleet, managed, node, node_name, observed, on, options, pool_name, source};
    use crate::{Options, Scope, Why, check, make, membership};
    use nodecfg_observed::Readiness;

    fn cluster() -> Observed {
        let leaving = Node { source: None, ..on(node("n3", "gone"), &source("fleet-a-old")) };
        let mut cluster = observed([
            on(node("n1", "a"), &source("fleet-a-new")),
            on(node("n2", "a"), &source("fleet-a-old")),
            leaving,
            on(node("n4", "x"), &source("other-x-1")),
            on(node("n5", "y"), &source("by-hand")),
            node("n6", "a"),
        ]);
        for map in [
            managed("fleet-a-new", Some("fleet"), Some("a"), None),
            managed("fleet-a-old", Some("fleet"), Some("a"), None),
            managed("other-x-1", Some("other"), Some("x"), None),
        ] {
            let key = ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() };
            cluster.config_maps.insert(key, map);
        }
        cluster
    }

    fn members(desired: &Desired) -> Vec<(String, usize)> {
        let size = |pool: &Pool| pool.named.as_ref().map_or(0, BTreeSet::len);
        desired.pools.values().map(|pool| (pool.name.to_string(), size(pool))).collect()
    }

    fn choose(choice: &NodeSelection, take_over: bool) -> Result<Vec<String>, NodeSelectionError> {
        let cluster = cluster();
        let desired = pools_of_nodes(&cluster, &fleet(), 1, take_over);
        let members = membership(&desired, &cluster.nodes);
        let homes =
            members.pools.iter().flat_map(|(pool, nodes)| nodes.iter().map(move |node| (&node.name, *pool))).collect();
        let labels = |selector: &LabelSelector, node: &Node| selector.matches(&node.labels);
        let pools = desired.pools.keys().collect();
        select_nodes(choice, &cluster, &homes, labels, &pools)
            .map(|nodes| nodes.into_iter().map(|node| node.to_string()).collect())
    }

    #[test]
    fn nodes_belong_to_the_pool_of_their_config_map() {
        assert_eq!(members(&pools_of_nodes(&cluster(), &fleet(), 1, false)), [("a".to_owned(), 3)]);
        let all = [("a".to_owned(), 3), ("others".to_owned(), 1), ("x".to_owned(), 1)];
        assert_eq!(members(&pools_of_nodes(&cluster(), &fleet(), 1, true)), all);
    }

    #[test]
    fn selection_is_a_union_of_existing_names() {
        let nodes = NodeSelection { nodes: [node_name("n1"), node_name("n6")].into(), ..NodeSelection::default() };
        assert_eq!(choose(&nodes, false).unwrap(), ["n1", "n6"]);
        let pools = NodeSelection { pools: [pool_name("a")].into(), ..nodes.clone() };
        assert_eq!(choose(&pools, false).unwrap(), ["n1", "n2", "n3", "n6"]);
        assert_eq!(
            choose(&NodeSelection { all: true, ..NodeSelection::default() }, false).unwrap(),
            ["n1", "n2", "n3"]
        );
        let labeled = NodeSelection {
            selector: Some(LabelSelector::of_label("nodecfg.dev/pool", "gone")),
            ..NodeSelection::default()
        };
        assert_eq!(choose(&labeled, false).unwrap(), ["n3"]);

        let message = |choice: &NodeSelection| {
            choose(choice, false).map_err(|error| format!("{error}; {}", error.help())).unwrap_err()
        };
        let unknown = NodeSelection { nodes: [node_name("n11")].into(), ..NodeSelection::default() };
        assert_eq!(message(&unknown), "the cluster has no node n11; did you mean n1?");
        let unknown = NodeSelection { pools: [pool_name("gpu")].into(), ..NodeSelection::default() };
        assert!(message(&unknown).starts_with("no node is in a pool gpu; "));
        let foreign = NodeSelection { nodes: [node_name("n5")].into(), ..NodeSelection::default() };
        assert!(message(&foreign).contains("--take-over"));
        assert_eq!(choose(&foreign, true).unwrap(), ["n5"]);
    }

    #[test]
    fn counts_unavailable_nodes_on_local_configuration() {
        let down = |name: &str, pool: &str| Node { ready: Readiness::NotReady, ..node(name, pool) };
        let mut cluster = cluster();
        for node in [down("n7", "a"), down("n8", "elsewhere")] {
            cluster.nodes.insert(node.name.clone(), node);
        }
        let desired = pools_of_nodes(&cluster, &fleet(), 2, false);
        assert_eq!(members(&desired), [("a".to_owned(), 5)]);
        assert_eq!(unavailable_without_pool(&desired, &cluster), Vec::<NodeName>::new());
        let scope = Scope::Nodes([node_name("n1"), node_name("n2")].into());
        let options = Options { scope: scope.clone(), allow_empty: true, ..options() };
        let plan = make(&desired, &cluster, &options).unwrap();
        assert_eq!(check(&plan, &desired, &cluster, &scope), []);
        let down = |left: &&crate::LeftAlone| left.unavailable && ["n7", "n8"].contains(&left.node.as_str());
        assert_eq!(plan.pools[0].left_alone.iter().filter(down).count(), 2);

        // With several pools, a node whose label names none of them is in no pool.
        let desired = pools_of_nodes(&cluster, &fleet(), 2, true);
        assert_eq!(members(&desired), [("a".to_owned(), 4), ("others".to_owned(), 1), ("x".to_owned(), 1)]);
        assert_eq!(unavailable_without_pool(&desired, &cluster), [node_name("n8")]);
    }

    #[test]
    fn reset_has_a_budget_and_leaves_other_nodes_unchanged() {
        let cluster = cluster();
        let desired = pools_of_nodes(&cluster, &fleet(), 1, false);
        let scope = Scope::Nodes([node_name("n1"), node_name("n2")].into());
        let options = Options { scope: scope.clone(), allow_empty: true, ..options() };
        let plan = make(&desired, &cluster, &options).unwrap();
        assert_eq!(check(&plan, &desired, &cluster, &scope), []);
        assert_eq!((plan.pools[0].assignments(), plan.pools[0].budget, plan.config_maps.len()), (2, 1, 0));
        assert_eq!(plan.pools[0].left_alone.iter().map(|left| &left.why).collect::<Vec<_>>(), [&Why::OutOfScope]);
    }
}
