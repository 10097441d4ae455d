//! Tests of the checker with plans that were edited after planning, and of the facts that it protects.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::fixtures::{
    ZONE, canary, desired, fetched, in_zone, managed, namespace, node, node_name, observed, on, options, policy, pool,
    pool_name, rendered, replacing, with_config_map,
};
use super::{Action, Plan, PoolPlan, Scope, WaveKind, Why, check, is_available, make};
use kubelet_config::risk::Class;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::{ConfigSource, ConfigStatus};
use nodecfg_fleet::{Desired, NodeOrder, RolloutPolicy, StartOrder};
use nodecfg_observed::{
    ConfigMapKey, CreationTime, ManagedConfigMap, Node, NodeContent, Observed, Obstacle, Readiness,
};

fn target(max_pods: u32) -> ConfigSource {
    rendered("a", max_pods).source(&namespace())
}

/// Repository with a pool that has 64 pods per node.
fn repository() -> Desired {
    desired([pool("a", 64, policy(1))])
}

/// Plan for this repository.
fn planned(observed: &Observed) -> Plan {
    let plan = make(&repository(), observed, &options()).expect("can be planned");
    assert_eq!(check(&plan, &repository(), observed, &Scope::Everything), [], "the checker accepts the plan");
    plan
}

/// Violations of a plan after this edit.
fn violations(mut plan: Plan, observed: &Observed, edit: impl FnOnce(&mut Plan)) -> Vec<String> {
    edit(&mut plan);
    check(&plan.identified(), &repository(), observed, &Scope::Everything).iter().map(ToString::to_string).collect()
}

/// Adds ConfigMaps of the fleet with these numbers of pods, each older than the one before.
fn with_old_config_maps(observed: &mut Observed, max_pods: impl IntoIterator<Item = u32>) {
    for (age, max_pods) in (1..).zip(max_pods) {
        let name = rendered("a", max_pods).config_map;
        let created = Some(Timestamp::from_second(1_800_000_000 - age).unwrap());
        let map = ManagedConfigMap { created, ..managed(&name, Some("fleet"), Some("a"), None) };
        observed.config_maps.insert(ConfigMapKey::of(&target(max_pods)).unwrap(), map);
    }
}

/// A node may need the ConfigMap again: a kubelet that lost its checkpoints downloads what its status names.
#[test]
fn config_map_that_a_single_field_names_is_not_prunable() {
    type Set = fn(&mut Node, Option<ConfigSource>);
    let old = || Some(target(4));
    let fields: [(&str, Set); 4] = [
        ("spec", |node, source| node.source = source),
        ("assigned", |node, source| node.status.assigned = source),
        ("active", |node, source| node.status.active = source),
        ("lastKnownGood", |node, source| node.status.last_known_good = source),
    ];
    let cluster = |node: Node| {
        let mut cluster = observed([node]);
        with_old_config_maps(&mut cluster, [1, 2, 3, 4]);
        cluster
    };
    let name = rendered("a", 4).config_map;
    let bare = || Node { status: ConfigStatus::default(), ..node("n1", "a") };
    assert_eq!(planned(&cluster(bare())).prunable, std::slice::from_ref(&name), "without a reference");
    let refused = [format!("ConfigMap {name}: would be pruned while a node refers to it")];
    for (field, set) in fields {
        let mut node = bare();
        set(&mut node, old());
        let cluster = cluster(node);
        let plan = planned(&cluster);
        assert_eq!(plan.prunable, [] as [String; 0], "{field}");
        assert_eq!(violations(plan, &cluster, |plan| plan.prunable.push(name.clone())), refused, "{field}");
    }
    // A NodeConfig without a Node.
    let mut cluster = cluster(bare());
    cluster.references.add("gone", [&target(4)]);
    let plan = planned(&cluster);
    assert_eq!(violations(plan, &cluster, |plan| plan.prunable.push(name.clone())), refused);
}

#[test]
fn rejects_assignment_of_other_content_or_disruption() {
    let cluster = observed([node("n1", "a")]);
    let edit = |edit: fn(&mut super::Step)| {
        violations(planned(&cluster), &cluster, |plan| edit(&mut plan.pools[0].waves[0].steps[0]))
    };
    assert_eq!(
        edit(|step| step.assignment.to_hash = Some(rendered("a", 5).hash)),
        ["node n1: is assigned other content than its pool's"]
    );
    assert_eq!(
        edit(|step| step.assignment.max_disruption = Class::Replace),
        ["node n1: may be disrupted more or less than its pool allows"]
    );
}

#[test]
fn rejects_config_map_that_is_being_deleted_or_wrongly_created() {
    let with = |deleting| {
        let mut cluster = observed([node("n1", "a")]);
        let (key, map) = fetched(&target(64), &rendered("a", 64).canonical, true);
        cluster.contents.insert(key, map.map(|map| FetchedConfigMap { deleting, ..map }));
        cluster
    };
    let plan = planned(&with(false));
    let name = rendered("a", 64).config_map;
    assert_eq!(violations(plan.clone(), &with(true), |_| {}), [format!("ConfigMap {name}: is being deleted")]);
    assert_eq!(
        violations(plan, &with(false), |plan| plan.config_maps[0].create = true),
        [format!("ConfigMap {name}: its creation contradicts its existence")]
    );
}

#[test]
fn rejects_unchanged_node_that_is_wrongly_called_available() {
    let cluster = observed([Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target(64)) }]);
    assert_eq!(
        violations(planned(&cluster), &cluster, |plan| plan.pools[0].left_alone[0].unavailable = false),
        ["node n1: is not available but called available"]
    );
}

#[test]
fn node_that_is_being_deleted_is_unavailable() {
    let cluster = observed([Node { deleting: true, ..on(node("n1", "a"), &target(64)) }]);
    let plan = planned(&cluster);
    let left = &plan.pools[0].left_alone[0];
    assert_eq!((&left.why, left.unavailable), (&Why::Deleting, true));
}

#[test]
fn converged_node_that_is_not_ready_is_no_canary() {
    let mut policy = policy(2);
    policy.canary = canary(1, 60);
    let down = Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target(64)) };
    let mut cluster = observed([down, node("n2", "a"), node("n3", "a")]);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    let plan = make(&desired([pool("a", 64, policy)]), &cluster, &options()).expect("can be planned");
    let waves: Vec<(WaveKind, Vec<&str>)> = plan.pools[0]
        .waves
        .iter()
        .map(|wave| (wave.kind, wave.steps.iter().map(|step| step.node.as_str()).collect()))
        .collect();
    assert_eq!(waves, [(WaveKind::Canary { soak_seconds: 60 }, vec!["n2"]), (WaveKind::Rest, vec!["n3"])]);
}

/// The canaries are the first nodes, so that their order decides what proves a change.
#[test]
fn nodes_must_be_in_the_order_of_the_policy() {
    let at = |second| CreationTime::new(Timestamp::from_second(second).expect("is in range"));
    let aged = |name, created| Node { created, ..node(name, "a") };
    let cluster = observed([aged("n1", at(10)), aged("n2", at(30)), aged("n3", None), aged("n4", at(20))]);
    for (start_order, expected) in [
        (StartOrder::Name, ["n1", "n2", "n3", "n4"]),
        (StartOrder::Newest, ["n2", "n4", "n1", "n3"]),
        (StartOrder::Oldest, ["n1", "n4", "n2", "n3"]),
    ] {
        let desired = desired([pool("a", 64, RolloutPolicy { start_order, ..policy(2) })]);
        let plan = make(&desired, &cluster, &options()).expect("can be planned");
        let names: Vec<&str> = plan.pools[0].steps().map(|step| step.node.as_str()).collect();
        assert_eq!(names, expected);
        for index in 0..3 {
            let mut swapped = plan.clone();
            swapped.pools[0].waves[0].steps.swap(index, index + 1);
            let found = check(&swapped.identified(), &desired, &cluster, &Scope::Everything);
            let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(texts, ["pool a: its nodes are out of order"]);
        }
    }
}

/// The domains decide in which order zones of production change.
#[test]
fn domains_must_be_those_of_the_policy_in_order() {
    let order = |soak: u64| Some(NodeOrder { by: ZONE.to_owned(), soak: std::time::Duration::from_secs(soak) });
    let desired = desired([pool("a", 64, RolloutPolicy { order: order(60), ..policy(2) })]);
    let zones = [("n1", Some("b")), ("n2", Some("a")), ("n3", None)];
    let cluster = observed(zones.map(|(name, zone)| in_zone(node(name, "a"), zone)));
    let plan = make(&desired, &cluster, &options()).expect("can be planned");
    let violations = |edit: fn(&mut PoolPlan)| {
        let mut plan = plan.clone();
        edit(&mut plan.pools[0]);
        let found = check(&plan.identified(), &desired, &cluster, &Scope::Everything);
        found.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let wrong = "pool a: its waves differ from its domains";
    assert_eq!(violations(|_| {}), [""; 0]);
    type Edit = fn(&mut PoolPlan);
    let edits: [(Edit, &[&str]); 7] = [
        (|pool| pool.waves.swap(0, 1), &[wrong]),
        (|pool| pool.waves[1].domain.as_mut().unwrap().soak_seconds = None, &[wrong]),
        (|pool| pool.waves[0].domain.as_mut().unwrap().soak_seconds = Some(59), &[wrong]),
        (|pool| pool.waves[0].domain.as_mut().unwrap().domain.value = None, &[wrong]),
        (|pool| pool.waves[2].domain = None, &[wrong]),
        (
            |pool| {
                let steps = std::mem::take(&mut pool.waves[1].steps);
                pool.waves[0].steps.splice(0..0, steps);
            },
            &[wrong],
        ),
        (|pool| pool.waves[2].steps[0].domain = 0, &["pool a: its domains are out of order", wrong]),
    ];
    for (number, (edit, expected)) in edits.into_iter().enumerate() {
        assert_eq!(violations(edit), expected, "edit {number}");
    }
    let mut unordered = plan.clone();
    unordered.pools[0].policy.order = None;
    let found = check(&unordered.identified(), &desired, &cluster, &Scope::Everything);
    assert!(found.iter().any(|one| one.to_string() == "pool a: has domains without an order"), "{found:?}");
}

/// Node with an agent on the configuration with 64 pods. Its NodeConfig requires `assigned` and allows `most`.
fn agent(assigned: Option<u32>, active: u32, most: Option<Class>) -> Node {
    let hash = |pods| rendered("a", pods).hash;
    let content = NodeContent {
        assigned: assigned.map(hash),
        active: Some(hash(active)),
        max_disruption: most,
        self_assigned: false,
        ..replacing()
    };
    Node { content: Some(content), ..on(node("n1", "a"), &target(64)) }
}

fn cluster(node: Node) -> Observed {
    let mut cluster = observed([node]);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    cluster
}

#[test]
fn node_with_other_content_than_its_assignment_is_unavailable() {
    assert!(is_available(&agent(Some(64), 64, None)));
    assert!(!is_available(&agent(Some(64), 5, None)), "its kubelet restarts soon");
}

/// The schema has no class above `replace`, so such an assignment is complete.
#[test]
fn assignment_with_the_highest_class_is_not_repeated() {
    let mut never = pool("a", 64, policy(1));
    never.policy.allow_disruption = Class::Never;
    let plan = |most| {
        let cluster = cluster(agent(Some(64), 5, Some(most)));
        let plan = make(&desired([never.clone()]), &cluster, &options()).expect("can be planned");
        plan.pools[0].steps().next().expect("a step").action.clone()
    };
    assert!(matches!(plan(Class::Replace), Action::Await { .. }));
    assert_eq!(plan(Class::Drain), Action::Assign);
}

#[test]
fn adds_no_hash_to_node_that_does_not_follow_assignments() {
    let silent = Node { obstacle: Some(Obstacle::AgentSilent), ..agent(None, 64, None) };
    let plan = planned(&cluster(silent));
    assert!(plan.pools[0].left_alone[0].completion.is_none() && !plan.has_changes());
}

#[test]
fn paused_pool_repeats_no_incomplete_assignment() {
    let mut paused = pool("a", 64, policy(1));
    paused.policy.paused = true;
    for node in [agent(Some(5), 5, None), agent(Some(64), 5, None)] {
        let plan = make(&desired([paused.clone()]), &cluster(node), &options()).expect("can be planned");
        assert_eq!(plan.pools[0].left_alone[0].why, Why::Paused { order: None });
    }
}

/// The rollback of a node must require what its assignment required, not what the ConfigMap of the name has now.
#[test]
fn rollback_requires_the_content_of_the_present_assignment() {
    let previous = target(110);
    let agent = Node { source: Some(previous.clone()), ..on(agent(Some(30), 30, None), &previous) };
    let mut cluster = observed([agent]);
    with_config_map(&mut cluster, "a", &rendered("a", 110));
    cluster.contents.extend([fetched(&previous, &rendered("a", 110).canonical, true)]);
    let plan = planned(&cluster);
    let step = plan.pools[0].steps().next().expect("a step");
    assert_eq!(step.assignment.from_hash, Some(rendered("a", 30).hash));
}

/// The owner of a node is not that of its labels where a pool names its nodes.
#[test]
fn accepts_nodes_with_equal_labels_in_pools_that_name_them() {
    let mut wanted = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
    let named = wanted.pools.get_mut(&pool_name("b")).unwrap();
    (named.named, named.priority) = (Some(BTreeSet::from([node_name("n2")])), 1);
    let cluster = observed([node("n1", "a"), node("n2", "a"), node("n3", "a")]);
    let plan = make(&wanted, &cluster, &options()).expect("can be planned");
    assert_eq!(plan.pools.iter().map(PoolPlan::assignments).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(check(&plan, &wanted, &cluster, &Scope::Everything), []);
}

#[test]
fn every_observed_node_is_planned_once() {
    let cluster = observed([node("n1", "a"), node("n2", "a"), node("n3", "a"), node("n4", "none")]);
    let edited = |edit: fn(&mut Plan)| violations(planned(&cluster), &cluster, edit);
    let about_nodes =
        |problems: Vec<String>| problems.into_iter().filter(|problem| problem.starts_with("node ")).collect();
    let problems: Vec<String> = about_nodes(edited(|plan| drop(plan.unpooled.pop())));
    assert_eq!(problems, ["node n4: is missing from the plan"]);
    let problems: Vec<String> = about_nodes(edited(|plan| {
        plan.pools[0].waves[0].steps.retain(|step| step.node.as_str() != "n2");
    }));
    assert_eq!(problems, ["node n2: is missing from the plan"]);
    let problems: Vec<String> = about_nodes(edited(|plan| plan.unpooled.push(plan.unpooled[0].clone())));
    assert_eq!(problems, ["node n4: occurs 2 times in the plan"]);
    let problems: Vec<String> = about_nodes(edited(|plan| plan.unpooled[0].node = node_name("n0")));
    assert_eq!(problems, ["node n0: was not observed", "node n4: is missing from the plan"]);
    let problems = edited(|plan| plan.pools[0].nodes = 2);
    assert!(problems.contains(&"pool a: its node count is wrong".to_owned()), "{problems:?}");
}
