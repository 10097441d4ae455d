//! Property tests of plans for arbitrary clusters.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use kubelet_config::risk::Class;
use nodecfg_contract::{Placement, error_text};
use nodecfg_fleet::{Desired, NodeOrder, Pool, PoolTarget};
use nodecfg_observed::{Node, NodeConfigList, NodeContent, Observed, Obstacle, Readiness};
use nodecfg_plan::convergence::Target;
use nodecfg_plan::fixtures::{
    ZONE, canary, desired, fetched, in_zone, namespace, node, node_name, observed, of_version, on, options, policy,
    pool, refusing, rendered, source, with_config_map,
};
use nodecfg_plan::{Action, Options, Plan, Scope, Why, check, check_returning, make};

/// Situation of a node.
#[derive(Debug, Clone, Copy)]
enum NodeSituation {
    Local,
    OnTarget,
    OnOld,
    AssignedTarget,
    RefusesTarget,
    RefusesOld,
    Foreign,
    TooNew,
    TooNewOnTarget,
    Outlived,
    Deleting,
}

fn states() -> impl Strategy<Value = (NodeSituation, bool, u8)> {
    let state = prop_oneof![
        4 => Just(NodeSituation::Local),
        4 => Just(NodeSituation::OnTarget),
        4 => Just(NodeSituation::OnOld),
        1 => Just(NodeSituation::AssignedTarget),
        1 => Just(NodeSituation::RefusesTarget),
        1 => Just(NodeSituation::RefusesOld),
        1 => Just(NodeSituation::Foreign),
        1 => Just(NodeSituation::TooNew),
        1 => Just(NodeSituation::TooNewOnTarget),
        1 => Just(NodeSituation::Outlived),
        1 => Just(NodeSituation::Deleting),
    ];
    (state, prop::bool::weighted(0.8), 0..3_u8)
}

fn build(index: usize, (state, ready, pool): (NodeSituation, bool, u8)) -> Node {
    let pool = ["a", "b", "none"][usize::from(pool)];
    let new = rendered(pool, 64).source(&namespace());
    let old = rendered(pool, 110).source(&namespace());
    let mut node = node(&format!("n{index:03}"), pool);
    node.ready = if ready { Readiness::Ready } else { Readiness::NotReady };
    match state {
        NodeSituation::Local => node,
        NodeSituation::OnTarget => on(node, &new),
        NodeSituation::OnOld => on(node, &old),
        NodeSituation::AssignedTarget => Node { source: Some(new), ..on(node, &old) },
        NodeSituation::RefusesTarget => refusing(node, &new, error_text::VALIDATE),
        NodeSituation::RefusesOld => refusing(node, &old, error_text::LOAD),
        NodeSituation::Foreign => on(node, &source("foreign")),
        NodeSituation::TooNew => of_version(node, "v1.30.0"),
        NodeSituation::TooNewOnTarget => of_version(on(node, &new), "v1.30.0"),
        NodeSituation::Outlived => Node { obstacle: Some(Obstacle::Outlived), ..node },
        NodeSituation::Deleting => Node { deleting: true, ..node },
    }
}

/// Content of the NodeConfig of a node, with any of the hashes of its pool.
fn content(pool: &str, (assigned, active, most): (u8, u8, u8), self_assigned: bool) -> NodeContent {
    let hash =
        |number: u8| [None, Some(64), Some(110), Some(5)][usize::from(number)].map(|pods| rendered(pool, pods).hash);
    let max_disruption = [None, Some(Class::None), Some(Class::Drain), Some(Class::Replace)][usize::from(most)];
    let placement = |number: u8| [None, Some(Placement::Replace), Some(Placement::Overlay), None][usize::from(number)];
    NodeContent {
        assigned: hash(assigned),
        active: hash(active),
        max_disruption,
        self_assigned,
        placement: placement(most),
        active_placement: placement(assigned),
        reported: active > 0,
        handled: active > 1,
    }
}

prop_compose! {
    pub(super) fn clusters()(
        nodes in vec((states(), (0..4_u8, 0..4_u8, 0..4_u8), 0..4_u8, prop::bool::weighted(0.3)), 0..30),
        order_soak in prop::option::of(0..90_u32),
        agents in any::<bool>(),
        budget in 1..5_u32,
        canaries in prop::option::of((1..4_u32, 0..100_u64)),
        paused in prop::bool::weighted(0.1),
        allowed in prop::sample::select(Class::ALL.to_vec()),
        readable in any::<bool>(),
        local in prop::bool::weighted(0.2),
        placement in prop::option::of(prop::sample::select(Placement::ALL.to_vec())),
    ) -> (Desired, Observed) {
        let mut policy = policy(budget);
        policy.allow_disruption = allowed;
        policy.canary = canaries.and_then(|(nodes, soak)| canary(nodes, soak));
        policy.paused = paused;
        let order = |soak: u32| NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(soak.into()) };
        policy.order = order_soak.map(order);
        let second = pool("b", 64, policy.clone());
        let second = if local { Pool { targets: PoolTarget::Local.into(), ..second } } else { second };
        // Nodes carry no placement.
        let first = Pool { placement: placement.filter(|_| agents), ..pool("a", 64, policy) };
        let desired = desired([first, second]);
        let nodes = nodes.into_iter().enumerate().map(|(index, (state, hashes, zone, joined))| {
            let zone = ["z0", "z1", "z2"].get(usize::from(zone)).copied();
            let pool = ["a", "b", "none"][usize::from(state.2)];
            Node { content: agents.then(|| content(pool, hashes, joined)), ..in_zone(build(index, state), zone) }
        });
        let mut observed = observed(nodes);
        observed.versions.node_configs = agents.then(NodeConfigList::default);
        for pool in ["a", "b"] {
            let old = rendered(pool, 110);
            with_config_map(&mut observed, pool, &old);
            if readable {
                observed.contents.extend([fetched(&old.source(&namespace()), &old.canonical, true)]);
            }
        }
        (desired, observed)
    }
}

pub(super) fn plan(desired: &Desired, observed: &Observed) -> Plan {
    let options = Options { allow_empty: true, ..options() };
    make(desired, observed, &options).expect("these clusters can be planned")
}

/// The cluster after the plan was carried out and every node converged.
fn applied(plan: &Plan, desired: &Desired, observed: &Observed) -> Observed {
    let mut after = observed.clone();
    for pool in &plan.pools {
        for step in pool.steps() {
            let node = after.nodes.remove(&step.node).expect("a planned node was observed");
            let moved = match pool.targets.only().unwrap() {
                Target::Source(wanted) => on(node, &wanted.source),
                Target::Local => Node { source: None, status: nodecfg_contract::ConfigStatus::default(), ..node },
            };
            let written = NodeContent {
                assigned: pool.targets.only().unwrap().hash(),
                active: pool.targets.only().unwrap().hash(),
                max_disruption: Some(step.assignment.max_disruption.min(Class::Replace)),
                self_assigned: false,
                placement: step.assignment.to_placement,
                active_placement: pool.targets.only().unwrap().placement().or(Some(Placement::Overlay)),
                reported: true,
                handled: true,
            };
            let content = moved.content.map(|_| written);
            after.nodes.insert(step.node.clone(), Node { content, ..moved });
        }
        for (name, added) in pool.completions() {
            if let Some(content) = after.nodes.get_mut(name).and_then(|node| node.content.as_mut()) {
                (content.assigned, content.max_disruption) = (added.to_hash, Some(added.max_disruption));
                content.placement = added.to_placement;
            }
        }
        if let Some(PoolTarget::Config(rendered)) = desired.pools.get(&pool.name).map(|pool| &**pool.targets.typical())
        {
            with_config_map(&mut after, pool.name.as_str(), rendered);
        }
    }
    after
}

proptest! {
    #[test]
    fn every_plan_satisfies_its_invariants((desired, observed) in clusters()) {
        let violations = check(&plan(&desired, &observed), &desired, &observed, &Scope::Everything);
        prop_assert!(violations.is_empty(), "{violations:?}");
    }

    #[test]
    fn every_pointer_satisfies_its_invariants((desired, observed) in clusters()) {
        let desired = Desired { pool_pointers: true, ..desired };
        let plan = plan(&desired, &observed);
        prop_assert_eq!(check(&plan, &desired, &observed, &Scope::Everything), vec![]);
        prop_assert_eq!(check_returning(&plan.returning_pointers(&observed), &observed), vec![]);
    }

    #[test]
    fn every_node_config_gets_the_content_of_its_pool((desired, observed) in clusters()) {
        let plan = plan(&desired, &observed);
        for pool in &plan.pools {
            let steps = pool.steps().filter(|step| step.action == Action::Assign).map(|step| &step.assignment);
            for written in steps.chain(pool.completions().map(|(_, added)| added)) {
                prop_assert_eq!(written.to_hash, pool.targets.only().unwrap().hash());
                let wanted = pool.targets.only().unwrap().placement();
                prop_assert!(wanted.is_none() || written.to_placement == wanted);
                prop_assert!(written.max_disruption <= pool.policy.allow_disruption);
            }
            for left in pool.left_alone.iter().filter(|left| left.why == Why::Converged) {
                let node = &observed.nodes[&left.node];
                let Some(content) = node.content.filter(|_| node.source.is_some()) else { continue };
                prop_assert_eq!(content.active, pool.targets.only().unwrap().hash(), "called converged on other content");
                let placement = pool.targets.only().unwrap().placement();
                let runs = placement.is_none() || content.active_placement == placement;
                prop_assert!(runs, "called converged with another placement");
                let placed = placement.is_none() || content.placement == placement;
                let as_written = content.assigned == pool.targets.only().unwrap().hash() && placed;
                let complete = as_written || left.completion.is_some() || pool.is_paused();
                prop_assert!(complete || node.obstacle.is_some(), "keeps an incomplete assignment");
            }
        }
    }

    #[test]
    fn equal_input_gives_equal_plan((desired, observed) in clusters()) {
        let bytes = |plan: &Plan| format!("{plan:?}");
        prop_assert_eq!(bytes(&plan(&desired, &observed)), bytes(&plan(&desired, &observed)));
    }

    #[test]
    fn completed_plan_leaves_no_changes((desired, observed) in clusters()) {
        let first = plan(&desired, &observed);
        let second = plan(&desired, &applied(&first, &desired, &observed));
        prop_assert!(!second.has_changes(), "{second:?}");
        prop_assert_eq!(second.counts().await_, 0);
        prop_assert_eq!(second.refusals(), vec![]);
        prop_assert_eq!(second.counts().blocked, first.counts().blocked);
    }

    #[test]
    fn scope_restricts_nodes_only(
        (desired, observed) in clusters(),
        chosen in prop::collection::btree_set(0..30_usize, 0..10),
    ) {
        let nodes = chosen.into_iter().map(|index| node_name(&format!("n{index:03}"))).collect();
        let scope = Scope::Nodes(nodes);
        let options = Options { allow_empty: true, scope: scope.clone(), ..options() };
        let narrow = make(&desired, &observed, &options).expect("these clusters can be planned");
        prop_assert_eq!(check(&narrow, &desired, &observed, &scope), vec![]);
        let assigned = |plan: &Plan| {
            let steps = plan.pools.iter().flat_map(|pool| pool.steps().map(move |step| (pool, step)));
            let assigned = steps.filter(|(_, step)| step.action == Action::Assign);
            assigned.map(|(pool, step)| (pool.name.clone(), step.node.clone())).collect::<BTreeSet<_>>()
        };
        let whole: BTreeSet<_> =
            assigned(&plan(&desired, &observed)).into_iter().filter(|(pool, node)| scope.holds(pool, node)).collect();
        prop_assert_eq!(assigned(&narrow), whole);
    }

    #[test]
    fn checker_rejects_edited_plan((desired, observed) in clusters()) {
        let mut plan = plan(&desired, &observed);
        let assigned = plan.pools.iter_mut().flat_map(|pool| pool.waves.iter_mut()).flat_map(|wave| wave.steps.iter_mut())
            .find(|step| step.action == Action::Assign);
        prop_assume!(assigned.is_some());
        if let Some(step) = assigned {
            step.assignment.from = Some(source("not-what-was-seen"));
        }
        prop_assert!(!check(&plan, &desired, &observed, &Scope::Everything).is_empty());
    }
}
