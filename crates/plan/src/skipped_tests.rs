//! Tests of nodes that must not stop their fleet, and of nodes in other hands: unreadable, contested, cordoned and
//! maintained ones.

use std::sync::Arc;

use super::fixtures::{
    canary, desired, fetched, managed, node, node_name, observed, on, options, policy, pool, pool_name, rendered,
    source,
};
use super::{Action, Options, Plan, Scope, Step, Wave, WaveKind, Why, check, make};
use jiff::Timestamp;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::{Assignment, UnreadableField};
use nodecfg_fleet::{Desired, Pool, PoolTarget, RolloutPolicy};
use nodecfg_observed::{ConfigMapKey, Maintainer, ManagedConfigMap, Node, Observed, Obstacle, Readiness};

fn planned(desired: &Desired, observed: &Observed, scope: Scope) -> Plan {
    let plan = make(desired, observed, &Options { scope: scope.clone(), ..options() }).expect("can be planned");
    assert_eq!(check(&plan, desired, observed, &scope), [], "the checker accepts the plan");
    plan
}

/// Reasons of the nodes that the pool leaves unchanged, with whether each is unavailable.
fn left(plan: &Plan, pool: usize) -> Vec<(String, bool, Why)> {
    plan.pools[pool].left_alone.iter().map(|left| (left.node.to_string(), left.unavailable, left.why.clone())).collect()
}

fn field() -> UnreadableField {
    UnreadableField { field: "status.conditions".to_owned(), reason: "not a time".to_owned() }
}

fn unreadable(node: Node) -> Node {
    Node { obstacle: Some(Obstacle::Unreadable(field())), ..node }
}

/// The plan with a step for a node that it leaves unchanged.
fn with_step(mut plan: Plan, node: &Node) -> Plan {
    let pool = plan.pools.iter_mut().find(|pool| pool.left_alone.iter().any(|left| left.node == node.name)).unwrap();
    pool.left_alone.retain(|left| left.node != node.name);
    let assignment = Assignment {
        uid: node.uid.clone(),
        from: node.source.clone(),
        to: pool.targets.only().unwrap().source().cloned(),
        from_hash: None,
        to_hash: pool.targets.only().unwrap().hash(),
        from_placement: None,
        to_placement: pool.targets.only().unwrap().placement(),
        present_placement: Some(node.assigned_placement()),
        max_disruption: pool.policy.allow_disruption,
    };
    let step = Step {
        node: node.name.clone(),
        assignment,
        action: Action::Assign,
        was_ready: true,
        available: true,
        can_return: false,
        rollback_needs: None,
        rollback_drain: false,
        drain: false,
        domain: 0,
        drain_unknown: false,
        marked: false,
        self_assigned: false,
    };
    match pool.waves.last_mut() {
        Some(wave) => wave.steps.push(step),
        None => pool.waves.push(Wave { kind: WaveKind::Rest, domain: None, steps: vec![step] }),
    }
    plan.identified()
}

#[test]
fn unreadable_node_is_blocked_and_unavailable() {
    let wanted = desired([pool("a", 64, policy(2))]);
    // Ready, and even on its target as far as readable.
    let target = rendered("a", 64).source(&super::fixtures::namespace());
    for attacked in [unreadable(node("n1", "a")), unreadable(on(node("n1", "a"), &target))] {
        let cluster = observed([attacked, node("n2", "a"), node("n3", "a")]);
        let plan = planned(&wanted, &cluster, Scope::Everything);
        assert_eq!(left(&plan, 0), [("n1".to_owned(), true, Why::Obstacle(Obstacle::Unreadable(field())))]);
        assert_eq!((plan.counts().assign, plan.counts().blocked), (2, 1));
        let scoped = planned(&wanted, &cluster, Scope::Nodes([node_name("n2")].into()));
        assert_eq!(left(&scoped, 0)[0], ("n1".to_owned(), true, Why::OutOfScope));
    }
    // A pool with the local configuration as target: the missing source proves nothing.
    let local = desired([Pool { targets: PoolTarget::Local.into(), ..pool("a", 64, policy(1)) }]);
    let plan = planned(&local, &observed([unreadable(node("n1", "a")), node("n2", "a")]), Scope::Everything);
    assert_eq!(left(&plan, 0)[0], ("n1".to_owned(), true, Why::Obstacle(Obstacle::Unreadable(field()))));
}

#[test]
fn checker_rejects_steps_and_availability_of_unreadable_nodes() {
    let wanted = desired([pool("a", 64, policy(2))]);
    let cluster = observed([unreadable(node("n1", "a")), node("n2", "a")]);
    let plan = planned(&wanted, &cluster, Scope::Everything);
    let found = |plan: &Plan| -> Vec<String> {
        check(plan, &wanted, &cluster, &Scope::Everything).iter().map(ToString::to_string).collect()
    };
    let stepped = found(&with_step(plan.clone(), &cluster.nodes[&node_name("n1")]));
    assert!(stepped.contains(&"node n1: does not follow assignments".to_owned()), "{stepped:?}");
    let mut available = plan;
    available.pools[0].left_alone[0].unavailable = false;
    assert_eq!(found(&available.identified()), ["node n1: is not available but called available"]);
}

#[test]
fn nothing_is_prunable_while_a_node_is_unreadable() {
    let wanted = desired([pool("a", 64, policy(1))]);
    let mut cluster = observed([node("n1", "a")]);
    for index in 0..9 {
        let name = rendered("a", index).config_map;
        let map =
            ManagedConfigMap { created: Some(Timestamp::UNIX_EPOCH), ..managed(&name, Some("fleet"), Some("a"), None) };
        cluster.config_maps.insert(ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() }, map);
    }
    assert!(!planned(&wanted, &cluster, Scope::Everything).prunable.is_empty());
    cluster.nodes.insert(node_name("n2"), unreadable(node("n2", "a")));
    let mut plan = planned(&wanted, &cluster, Scope::Everything);
    assert_eq!(plan.prunable, [""; 0]);
    plan.prunable.push(rendered("a", 0).config_map);
    let found = check(&plan.identified(), &wanted, &cluster, &Scope::Everything);
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["plan: prunes while a node is unreadable"]);
}

/// Pools a and b, which both select node n2.
fn contested() -> (Desired, Observed) {
    let select =
        |name: &str, key: &str| Pool { selector: LabelSelector::of_label(key, "1"), ..pool(name, 64, policy(1)) };
    let labeled = |name: &str, keys: &[&str]| Node {
        labels: Arc::new(keys.iter().map(|key| ((*key).to_owned(), "1".to_owned())).collect()),
        ..node(name, "")
    };
    let both = on(labeled("n2", &["in-a", "in-b"]), &source("fleet-b-x"));
    let cluster = observed([labeled("n1", &["in-a"]), both, labeled("n3", &["in-b"]), labeled("n4", &["in-b"])]);
    (desired([select("a", "in-a"), select("b", "in-b")]), cluster)
}

#[test]
fn contested_node_is_blocked_and_other_nodes_are_assigned() {
    let (wanted, cluster) = contested();
    let why = Why::Contested { pools: vec![pool_name("a"), pool_name("b")] };
    let plan = planned(&wanted, &cluster, Scope::Everything);
    assert_eq!((left(&plan, 0), left(&plan, 1).len()), (vec![("n2".to_owned(), false, why.clone())], 0));
    assert_eq!((plan.counts().assign, plan.counts().blocked, plan.counts().unpooled), (3, 1, 0));
    assert_eq!((plan.pools[0].nodes, plan.pools[1].nodes), (2, 2), "one pool reports the node");
    // The pool in scope reports it.
    let of_b = planned(&wanted, &cluster, Scope::Pools([pool_name("b")].into()));
    assert_eq!(left(&of_b, 1), [("n2".to_owned(), false, why.clone())]);
    let alone = planned(&wanted, &cluster, Scope::Nodes([node_name("n2")].into()));
    assert!(left(&alone, 0).contains(&("n2".to_owned(), false, why)) && !alone.has_changes());
    let other = planned(&wanted, &cluster, Scope::Nodes([node_name("n1")].into()));
    assert_eq!(left(&other, 0)[0], ("n2".to_owned(), false, Why::OutOfScope));
    // A higher priority decides.
    let mut decided = wanted;
    decided.pools.get_mut(&pool_name("b")).unwrap().priority = 1;
    assert_eq!(planned(&decided, &cluster, Scope::Everything).counts().blocked, 1, "a conflict: its source is unknown");
}

#[test]
fn contested_node_counts_against_the_budget_and_may_be_deleted() {
    let (wanted, mut cluster) = contested();
    let node = cluster.nodes.get_mut(&node_name("n2")).unwrap();
    node.ready = Readiness::NotReady;
    assert!(left(&planned(&wanted, &cluster, Scope::Everything), 0)[0].1);
    cluster.nodes.get_mut(&node_name("n2")).unwrap().deleting = true;
    assert_eq!(left(&planned(&wanted, &cluster, Scope::Everything), 0)[0].2, Why::Deleting);
}

#[test]
fn checker_rejects_steps_of_contested_nodes() {
    let (wanted, cluster) = contested();
    let plan = with_step(planned(&wanted, &cluster, Scope::Everything), &cluster.nodes[&node_name("n2")]);
    let found: Vec<String> =
        check(&plan, &wanted, &cluster, &Scope::Everything).iter().map(ToString::to_string).collect();
    assert!(found.contains(&"node n2: is not selected by its pool alone".to_owned()), "{found:?}");
    // Nor may a pool change the nodes of another.
    let mut swapped = plan;
    swapped.pools.swap(0, 1);
    let names: Vec<_> = swapped.pools.iter().map(|pool| pool.name.clone()).collect();
    for (pool, name) in swapped.pools.iter_mut().zip(names.into_iter().rev()) {
        pool.name = name;
    }
    let found = check(&swapped.identified(), &wanted, &cluster, &Scope::Everything);
    assert!(found.iter().any(|violation| violation.to_string() == "node n1: is not selected by its pool alone"));
}

#[test]
fn cordoned_nodes_are_unavailable_and_first() {
    let wanted = desired([pool("a", 64, policy(1))]);
    let cordoned = |node: Node| Node { cordoned: true, ..node };
    let plan = planned(&wanted, &observed([node("n1", "a"), cordoned(node("n2", "a"))]), Scope::Everything);
    let waves: Vec<_> = plan.pools[0].waves.iter().map(|wave| (wave.kind, wave.steps[0].node.as_str())).collect();
    assert_eq!(waves, [(WaveKind::Unavailable, "n2"), (WaveKind::Rest, "n1")]);
    assert!(!plan.pools[0].waves[0].steps[0].available);
    // On its target it is left unchanged, and still takes budget. It proves nothing as a canary.
    let on_target = cordoned(on(node("n2", "a"), &rendered("a", 64).source(&super::fixtures::namespace())));
    let cluster = observed([node("n1", "a"), on_target]);
    let plan = planned(&wanted, &cluster, Scope::Everything);
    assert_eq!(left(&plan, 0), [("n2".to_owned(), true, Why::Converged)]);
    let canary = desired([pool("a", 64, RolloutPolicy { canary: canary(1, 0), ..policy(1) })]);
    assert_eq!(left(&planned(&canary, &cluster, Scope::Everything), 0).len(), 1);
    // The checker rejects both mistakes.
    let found = |mut plan: Plan, edit: &dyn Fn(&mut Plan)| -> Vec<String> {
        edit(&mut plan);
        check(&plan.identified(), &wanted, &cluster, &Scope::Everything).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        found(plan, &|plan| plan.pools[0].left_alone[0].unavailable = false),
        ["node n2: is not available but called available"]
    );
}

#[test]
fn checker_rejects_cordoned_node_that_waits_for_budget() {
    let wanted = desired([pool("a", 64, policy(1))]);
    let cluster = observed([Node { cordoned: true, ..node("n1", "a") }]);
    let mut plan = planned(&wanted, &cluster, Scope::Everything);
    plan.pools[0].waves[0].kind = WaveKind::Rest;
    plan.pools[0].waves[0].steps[0].available = true;
    let found = check(&plan.identified(), &wanted, &cluster, &Scope::Everything);
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["node n1: is not available but called available", "node n1: is unavailable but waits for budget"]
    );
}

#[test]
fn maintained_nodes_are_unavailable_and_not_started() {
    let wanted = desired([pool("a", 64, policy(1))]);
    let by = Maintainer::ClusterAutoscaler;
    let target = rendered("a", 64).source(&super::fixtures::namespace());
    let claimed = |node: Node| Node { maintainer: Some(by), ..node };
    let in_transition = Node { source: Some(target.clone()), ..node("n3", "a") };
    let cluster = observed([
        claimed(node("n1", "a")),
        claimed(on(node("n2", "a"), &target)),
        claimed(in_transition),
        claimed(Node { ready: Readiness::NotReady, cordoned: true, ..node("n4", "a") }),
        claimed(Node { deleting: true, ..node("n5", "a") }),
    ]);
    let plan = planned(&wanted, &cluster, Scope::Everything);
    let maintained = Why::Maintained { by };
    let expected = [&maintained, &Why::Converged, &maintained, &maintained, &Why::Deleting];
    assert_eq!(
        left(&plan, 0).iter().map(|(_, unavailable, why)| (*unavailable, why)).collect::<Vec<_>>(),
        expected.map(|why| (true, why))
    );
    assert_eq!(plan.counts().blocked, 3);
    assert_eq!(maintained.to_string(), "maintained by cluster-autoscaler; run this again when it has finished");
    let stepped = with_step(plan, &cluster.nodes[&node_name("n1")]);
    let found: Vec<_> =
        check(&stepped, &wanted, &cluster, &Scope::Everything).iter().map(ToString::to_string).collect();
    assert!(found.contains(&"node n1: is maintained by another program".to_owned()), "{found:?}");
}

#[test]
fn maintenance_hides_neither_a_pause_nor_an_adoption() {
    let claimed = |node: Node| Node { maintainer: Some(Maintainer::Kured), ..node };
    let paused = desired([pool("a", 64, RolloutPolicy { paused: true, ..policy(1) })]);
    let plan = planned(&paused, &observed([claimed(node("n1", "a"))]), Scope::Everything);
    assert_eq!(left(&plan, 0), [("n1".to_owned(), true, Why::Paused { order: None })]);
    // The node runs the desired content from another ConfigMap.
    let wanted = desired([pool("a", 64, policy(1))]);
    let mut cluster = observed([claimed(on(node("n1", "a"), &source("by-hand")))]);
    cluster.contents.extend([fetched(&source("by-hand"), &rendered("a", 64).canonical, true)]);
    let plan = planned(&wanted, &cluster, Scope::Everything);
    assert_eq!(left(&plan, 0), [("n1".to_owned(), true, Why::Adopted { source: source("by-hand") })]);
}
