//! Nodes that a plan may change. The budget of a pool is computed from all its nodes, in scope or not.

use std::collections::BTreeSet;

use kubelet_config::finding::Strictness;
use nodecfg_contract::names::NamespaceName;
use nodecfg_contract::names::{NodeName, PoolName};

/// Nodes that a plan may change. All other nodes are left unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// Every node of every pool.
    #[default]
    Everything,
    /// The nodes of these pools.
    Pools(BTreeSet<PoolName>),
    /// These nodes.
    Nodes(BTreeSet<NodeName>),
}

impl Scope {
    /// Reports whether a node of this pool may be changed.
    #[must_use]
    pub fn holds(&self, pool: &PoolName, node: &NodeName) -> bool {
        match self {
            Self::Everything => true,
            Self::Pools(pools) => pools.contains(pool),
            Self::Nodes(nodes) => nodes.contains(node),
        }
    }

    /// Reports whether anything of a pool with these nodes may be changed. A pool without nodes is in scope if it is
    /// named, or everything is.
    #[must_use]
    pub fn touches<'n>(&self, pool: &PoolName, nodes: impl IntoIterator<Item = &'n NodeName>) -> bool {
        match self {
            Self::Everything => true,
            Self::Pools(pools) => pools.contains(pool),
            Self::Nodes(_) => nodes.into_iter().any(|node| self.holds(pool, node)),
        }
    }

    /// Reports whether all nodes of a pool are in scope.
    #[must_use]
    pub(crate) fn includes_pool(&self, pool: &PoolName) -> bool {
        match self {
            Self::Everything => true,
            Self::Pools(pools) => pools.contains(pool),
            Self::Nodes(_) => false,
        }
    }

    /// Reports whether all nodes are in scope.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::Everything
    }
}

/// Options of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Namespace of the ConfigMaps.
    pub namespace: NamespaceName,
    /// Whether to move nodes from ConfigMaps that other owners manage.
    pub take_over: bool,
    /// Whether to accept a repository without pools, and pools without nodes, whatever the reason.
    pub allow_empty: bool,
    /// Strictness beyond the checks of the kubelets.
    pub gate: Strictness,
    /// Pools whose pause by an operator is overridden. A pause by policy stays in force.
    pub despite_pause: BTreeSet<PoolName>,
    /// Nodes that the plan may change.
    pub scope: Scope,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{
        desired, namespace, node, node_name, observed, on, options, policy, pool, pool_name, rendered, source,
        with_config_map,
    };
    use crate::{Decision, Options, Plan, Problem, Why, check, decide_again, make};
    use nodecfg_contract::label_selector::LabelSelector;
    use nodecfg_observed::{Observed, Readiness};

    fn within(scope: Scope) -> Options {
        Options { scope, ..options() }
    }

    fn pools<const N: usize>(names: [&str; N]) -> Scope {
        Scope::Pools(names.into_iter().map(pool_name).collect())
    }

    fn planned(pools: impl IntoIterator<Item = nodecfg_fleet::Pool>, cluster: &Observed, scope: Scope) -> Plan {
        let options = within(scope);
        let desired = desired(pools);
        let plan = make(&desired, cluster, &options).expect("can be planned");
        assert_eq!(check(&plan, &desired, cluster, &options.scope), []);
        plan
    }

    fn both() -> [nodecfg_fleet::Pool; 2] {
        [pool("a", 64, policy(2)), pool("b", 64, policy(1))]
    }

    #[test]
    fn nodes_out_of_scope_count_for_the_budget() {
        let broken = nodecfg_observed::Node { ready: Readiness::NotReady, ..node("n1", "a") };
        let cluster = observed([broken, node("n2", "a"), node("n3", "a"), node("n4", "b")]);
        let plan = planned(both(), &cluster, Scope::Nodes([node_name("n2")].into()));
        let [a, b] = plan.pools.as_slice() else { panic!("two pools") };
        assert_eq!((a.nodes, a.budget, a.assignments(), b.assignments()), (3, 2, 1, 0));
        let left: Vec<_> = a.left_alone.iter().map(|left| (left.node.as_str(), left.unavailable, &left.why)).collect();
        assert_eq!(left, [("n1", true, &Why::OutOfScope), ("n3", false, &Why::OutOfScope)]);
        assert_eq!((plan.counts().assign, plan.counts().not_requested, plan.counts().skipped), (1, 3, 0));
        // A share of the pool is a share of all its nodes.
        let percent = |percent| nodecfg_fleet::RolloutPolicy {
            max_unavailable: nodecfg_fleet::NodeShare::Percent(percent),
            ..policy(1)
        };
        let of_share = planned([pool("a", 64, percent(70))], &cluster, Scope::Nodes([node_name("n2")].into()));
        assert_eq!((of_share.pools[0].nodes, of_share.pools[0].budget), (3, 2));
        // No ConfigMap for a pool that is left unchanged.
        assert_eq!(plan.config_maps.iter().map(|planned| planned.map.pool.as_str()).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn checker_rejects_nodes_out_of_scope() {
        let cluster = observed([node("n1", "a"), node("n2", "a")]);
        let plan = planned(both(), &cluster, Scope::Everything);
        let violations = |scope: &Scope| {
            check(&plan, &desired(both()), &cluster, scope).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(violations(&Scope::Nodes([node_name("n1")].into())), ["node n2: was not requested"]);
        assert_eq!(violations(&pools(["b"])).len(), 2);
        // The plan must not skip a requested node either.
        let narrow = planned(both(), &cluster, Scope::Nodes([node_name("n1")].into()));
        let passed = check(&narrow, &desired(both()), &cluster, &Scope::Everything);
        assert_eq!(passed.first().map(ToString::to_string).as_deref(), Some("node n2: was requested but is skipped"));
    }

    #[test]
    fn reports_only_problems_in_scope() {
        // Pools b and c both select n2, and pool d lost its nodes.
        let mut others = both().to_vec();
        let mut rival = pool("c", 64, policy(1));
        rival.selector = LabelSelector::of_label("nodecfg.dev/pool", "b");
        others.extend([rival, pool("d", 64, policy(1))]);
        let lost = on(node("n3", "elsewhere"), &rendered("d", 64).source(&namespace()));
        let mut cluster = observed([node("n1", "a"), node("n2", "b"), lost]);
        with_config_map(&mut cluster, "d", &rendered("d", 64));

        let plan = planned(others.clone(), &cluster, pools(["a"]));
        assert_eq!(plan.pools.iter().map(|pool| pool.assignments()).sum::<usize>(), 1);
        assert_eq!(plan.unpooled.iter().map(|node| node.node.as_str()).collect::<Vec<_>>(), ["n3"]);
        let problems = |scope| make(&desired(others.clone()), &cluster, &within(scope)).unwrap_err();
        assert!(matches!(problems(pools(["d"])).as_slice(), [Problem::PoolLostItsNodes { .. }]));
        // Nodes that a pool lost are the cause, also if it requires nodes.
        others.iter_mut().filter(|pool| pool.name == pool_name("d")).for_each(|pool| pool.require_nodes = Some(true));
        let problems = |scope| make(&desired(others.clone()), &cluster, &within(scope)).unwrap_err();
        assert!(matches!(problems(pools(["d"])).as_slice(), [Problem::PoolLostItsNodes { .. }]));
        assert_eq!(problems(Scope::Everything).len(), 1);
        // A pool that never had a node cannot lose one.
        let plan =
            planned([pool("a", 64, policy(1)), pool("e", 64, policy(1))], &observed([node("n1", "a")]), pools(["e"]));
        assert!(!plan.has_changes());
    }

    #[test]
    fn problem_of_a_pool_out_of_scope_blocks_no_other_pool() {
        // The ConfigMap that n2 points at was deleted.
        let target = rendered("b", 64).source(&namespace());
        let mut cluster = observed([node("n1", "a"), on(node("n2", "b"), &target)]);
        cluster.contents.insert(nodecfg_observed::ConfigMapKey::of(&target).unwrap(), None);
        let problems = make(&desired(both()), &cluster, &within(Scope::Everything)).unwrap_err();
        assert!(matches!(problems.as_slice(), [Problem::ConfigMapMissing { .. }]), "{problems:?}");
        assert_eq!(planned(both(), &cluster, pools(["a"])).counts().assign, 1);
        assert_eq!(planned(both(), &cluster, Scope::Nodes([node_name("n1")].into())).counts().assign, 1);
    }

    #[test]
    fn limited_run_may_find_no_node_in_any_pool() {
        let cluster = observed([node("n1", "other")]);
        assert!(!planned(both(), &cluster, pools(["a"])).has_changes());
        let problems = make(&desired(both()), &cluster, &within(Scope::Everything)).unwrap_err();
        assert!(matches!(problems.as_slice(), [Problem::NothingSelected { .. }]), "{problems:?}");
    }

    #[test]
    fn limited_run_prunes_no_more_than_a_whole_one() {
        // The ConfigMaps of pool b: one that a node runs, one that the repository needs, and old ones.
        let on_old = on(node("n2", "b"), &rendered("b", 1).source(&namespace()));
        let mut cluster = observed([node("n1", "a"), on_old]);
        for (age, max_pods) in [1, 64, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].into_iter().enumerate() {
            let rendered = rendered("b", max_pods);
            with_config_map(&mut cluster, "b", &rendered);
            let map = cluster.config_maps.values_mut().find(|map| map.name == rendered.config_map).unwrap();
            map.created = jiff::Timestamp::from_second(i64::try_from(age).unwrap()).ok();
        }
        let whole = planned(both(), &cluster, Scope::Everything).prunable;
        assert!(!whole.is_empty());
        let is_kept = |max_pods| !whole.contains(&rendered("b", max_pods).config_map);
        assert!(is_kept(1) && is_kept(64));
        for scope in [pools(["a"]), pools(["b"]), Scope::Nodes([node_name("n1")].into())] {
            assert_eq!(planned(both(), &cluster, scope).prunable, whole);
        }
    }

    #[test]
    fn second_decision_respects_the_scope() {
        let wanted = desired(both());
        let cluster = observed([node("n1", "a")]);
        let decided = |scope| decide_again(&wanted, &cluster, &within(scope), &pool_name("a"), &node("n1", "a"));
        assert!(matches!(decided(pools(["a"])), Some(Decision::Step(_))));
        let Some(Decision::LeaveAlone(left)) = decided(pools(["b"])) else { panic!("it is out of scope") };
        assert_eq!(left.why, Why::OutOfScope);
    }

    #[test]
    fn pool_may_list_nodes_by_name() {
        let mut named = pool("a", 64, policy(1));
        named.selector = LabelSelector::default();
        named.named = Some([node_name("n2")].into());
        let cluster = observed([node("n1", "a"), on(node("n2", "b"), &source("fleet-a-x"))]);
        let plan = make(&desired([named]), &cluster, &Options { take_over: true, ..options() }).unwrap();
        assert_eq!((plan.pools[0].nodes, plan.unpooled.len()), (1, 1));
        assert_eq!(plan.pools[0].steps().map(|step| step.node.as_str()).collect::<Vec<_>>(), ["n2"]);
    }

    #[test]
    fn scope_contains_what_it_names() {
        let (a, b) = (PoolName::new("a").unwrap(), PoolName::new("b").unwrap());
        let (n1, n2) = (NodeName::new("n1").unwrap(), NodeName::new("n2").unwrap());
        let all = Scope::Everything;
        assert!(all.is_everything() && all.holds(&a, &n1) && all.touches(&a, []));
        let pools = Scope::Pools([a.clone()].into());
        assert!(pools.holds(&a, &n1) && !pools.holds(&b, &n1));
        assert!(pools.touches(&a, []) && !pools.touches(&b, [&n1]));
        let nodes = Scope::Nodes([n1.clone()].into());
        assert!(nodes.holds(&b, &n1) && !nodes.holds(&b, &n2));
        assert!(nodes.touches(&b, [&n2, &n1]) && !nodes.touches(&b, [&n2]));
    }
}
