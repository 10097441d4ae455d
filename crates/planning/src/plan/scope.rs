//! Which nodes a plan may touch. The budget of a pool is that of all its nodes, whichever of them are in scope.

use std::collections::BTreeSet;

use nodecfg_contract::names::{NodeName, PoolName};

/// Which nodes a plan may touch. All others are left alone.
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
    /// Whether a node of this pool may be touched.
    #[must_use]
    pub fn holds(&self, pool: &PoolName, node: &NodeName) -> bool {
        match self {
            Self::Everything => true,
            Self::Pools(pools) => pools.contains(pool),
            Self::Nodes(nodes) => nodes.contains(node),
        }
    }

    /// Whether anything of a pool may be touched, these being all its nodes. A pool without nodes is in scope when it is
    /// named, or everything is.
    #[must_use]
    pub fn touches<'n>(&self, pool: &PoolName, nodes: impl IntoIterator<Item = &'n NodeName>) -> bool {
        match self {
            Self::Everything => true,
            Self::Pools(pools) => pools.contains(pool),
            Self::Nodes(_) => nodes.into_iter().any(|node| self.holds(pool, node)),
        }
    }

    /// Whether a node that several pools contest matters: one of the pools is in scope, or the node is.
    pub(super) fn minds(&self, node: &NodeName, pools: &[&PoolName]) -> bool {
        pools.iter().any(|pool| self.holds(pool, node))
    }

    /// Whether this is no scope at all.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::Everything
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::LabelSelector;
    use crate::plan::fixtures::{
        desired, namespace, node, node_name, observed, on, options, policy, pool, pool_name, rendered, source,
        with_config_map,
    };
    use crate::plan::{Decision, Options, Plan, Problem, Why, check, make, redecide};
    use nodecfg_contract::observed::{Observed, Readiness};

    fn within(scope: Scope) -> Options {
        Options { scope, ..options() }
    }

    fn pools<const N: usize>(names: [&str; N]) -> Scope {
        Scope::Pools(names.into_iter().map(pool_name).collect())
    }

    fn planned(pools: impl IntoIterator<Item = crate::desired::Pool>, cluster: &Observed, scope: Scope) -> Plan {
        let options = within(scope);
        let plan = make(&desired(pools), cluster, &options).expect("can be planned");
        assert_eq!(check(&plan, cluster, &options.scope), []);
        plan
    }

    fn both() -> [crate::desired::Pool; 2] {
        [pool("a", 64, policy(2)), pool("b", 64, policy(1))]
    }

    #[test]
    fn nodes_out_of_scope_are_left_alone_and_count_for_the_budget() {
        let broken = nodecfg_contract::observed::Node { ready: Readiness::NotReady, ..node("n1", "a") };
        let cluster = observed([broken, node("n2", "a"), node("n3", "a"), node("n4", "b")]);
        let plan = planned(both(), &cluster, Scope::Nodes([node_name("n2")].into()));
        let [a, b] = plan.pools.as_slice() else { panic!("two pools") };
        assert_eq!((a.nodes, a.budget, a.assignments(), b.assignments()), (3, 2, 1, 0));
        let left: Vec<_> = a.left_alone.iter().map(|left| (left.node.as_str(), left.unavailable, &left.why)).collect();
        assert_eq!(left, [("n1", true, &Why::OutOfScope), ("n3", false, &Why::OutOfScope)]);
        assert_eq!((plan.counts().assign, plan.counts().skipped), (1, 3));
        // No ConfigMap for a pool that is left alone.
        assert_eq!(plan.config_maps.iter().map(|map| map.pool.as_str()).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn one_more_node_than_was_asked_for_is_noticed() {
        let cluster = observed([node("n1", "a"), node("n2", "a")]);
        let plan = planned(both(), &cluster, Scope::Everything);
        let told = |scope: &Scope| check(&plan, &cluster, scope).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(told(&Scope::Nodes([node_name("n1")].into())), ["node n2: was not asked for"]);
        assert_eq!(told(&pools(["b"])).len(), 2);
        // Nor may what was asked for be passed over.
        let narrow = planned(both(), &cluster, Scope::Nodes([node_name("n1")].into()));
        let passed = check(&narrow, &cluster, &Scope::Everything);
        assert_eq!(
            passed.first().map(ToString::to_string).as_deref(),
            Some("node n2: was asked for and is passed over")
        );
    }

    #[test]
    fn a_pool_is_refused_for_what_is_its_own_alone() {
        // Pools b and c contest n2, and the nodes of pool d are gone.
        let mut others = both().to_vec();
        let mut rival = pool("c", 64, policy(1));
        rival.selector = LabelSelector::of_label("nodecfg.dev/pool", "b");
        others.extend([rival, pool("d", 64, policy(1))]);
        let lost = on(node("n3", "elsewhere"), &rendered("d", 64).source(&namespace()));
        let mut cluster = observed([node("n1", "a"), node("n2", "b"), lost]);
        with_config_map(&mut cluster, "d", &rendered("d", 64));

        let plan = planned(others.clone(), &cluster, pools(["a"]));
        assert_eq!(plan.pools.iter().map(|pool| pool.assignments()).sum::<usize>(), 1);
        // A contested node stands among those that are nobody's.
        assert_eq!(plan.unpooled.iter().map(|node| node.node.as_str()).collect::<Vec<_>>(), ["n2", "n3"]);
        let problems = |scope| make(&desired(others.clone()), &cluster, &within(scope)).unwrap_err();
        assert!(matches!(problems(pools(["b"])).as_slice(), [Problem::Contested { .. }]));
        assert!(matches!(problems(Scope::Nodes([node_name("n2")].into())).as_slice(), [Problem::Contested { .. }]));
        assert!(matches!(problems(pools(["d"])).as_slice(), [Problem::PoolLostItsNodes { .. }]));
        assert_eq!(problems(Scope::Everything).len(), 2);
        // A pool that never had a node has nothing to lose.
        let plan =
            planned([pool("a", 64, policy(1)), pool("e", 64, policy(1))], &observed([node("n1", "a")]), pools(["e"]));
        assert!(!plan.has_changes());
    }

    #[test]
    fn a_second_decision_keeps_to_the_scope() {
        let wanted = desired(both());
        let cluster = observed([node("n1", "a")]);
        let decided = |scope| redecide(&wanted, &cluster, &within(scope), &pool_name("a"), &node("n1", "a"));
        assert!(matches!(decided(pools(["a"])), Some(Decision::Step(_))));
        let Some(Decision::LeaveAlone(left)) = decided(pools(["b"])) else { panic!("it is out of scope") };
        assert_eq!(left.why, Why::OutOfScope);
    }

    #[test]
    fn a_pool_may_have_its_nodes_by_name() {
        let mut named = pool("a", 64, policy(1));
        named.selector = LabelSelector::default();
        named.named = Some([node_name("n2")].into());
        let cluster = observed([node("n1", "a"), on(node("n2", "b"), &source("fleet-a-x"))]);
        let plan = make(&desired([named]), &cluster, &Options { take_over: true, ..options() }).unwrap();
        assert_eq!((plan.pools[0].nodes, plan.unpooled.len()), (1, 1));
        assert_eq!(plan.pools[0].steps().map(|step| step.node.as_str()).collect::<Vec<_>>(), ["n2"]);
    }

    #[test]
    fn a_scope_holds_what_it_names() {
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
        assert!(pools.minds(&n2, &[&a, &b]) && !pools.minds(&n2, &[&b]));
        assert!(nodes.minds(&n1, &[&a, &b]) && !nodes.minds(&n2, &[&a, &b]));
    }
}
