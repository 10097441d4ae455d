//! Unit tests of planning.

use std::sync::Arc;

use jiff::Timestamp;

use super::fixtures::{
    canary, desired, fetched, fleet, managed, node, node_name, observed, of_version, on, options, pause, policy, pool,
    pool_name, refusing, rendered, replacing, source, with_config_map,
};
use super::{
    Action, KEEP, Owner, Plan, Problem, PruneOptions, Scope, WaveKind, Why, check, make, prune, required_config_maps,
};
use kubelet_config::risk::Class;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::{Assignment, ConfigSource, Placement, error_text};
use nodecfg_fleet::{Desired, PoolTarget, RolloutPolicy};
use nodecfg_observed::{ConfigMapKey, ManagedConfigMap, Node, NodeContent, Observed, Obstacle, Orders, Readiness};

fn planned(desired: &Desired, observed: &Observed) -> Plan {
    let plan = make(desired, observed, &options()).expect("can be planned");
    assert_eq!(check(&plan, desired, observed, &Scope::Everything), [], "the checker accepts the plan");
    plan
}

fn problems(desired: &Desired, observed: &Observed) -> Vec<Problem> {
    make(desired, observed, &options()).expect_err("cannot be planned")
}

fn target(pool: &str, max_pods: u32) -> ConfigSource {
    rendered(pool, max_pods).source(&super::fixtures::namespace())
}

/// Waves of the first pool as kinds and node names.
fn waves(plan: &Plan) -> Vec<(WaveKind, Vec<&str>)> {
    plan.pools[0]
        .waves
        .iter()
        .map(|wave| (wave.kind, wave.steps.iter().map(|step| step.node.as_str()).collect()))
        .collect()
}

fn why<'a>(plan: &'a Plan, node: &str) -> &'a Why {
    let left = plan.pools.iter().flat_map(|pool| &pool.left_alone).find(|left| left.node.as_str() == node);
    &left.expect("is left unchanged").why
}

#[test]
fn assigns_new_pool_with_precondition() {
    let desired = desired([pool("a", 64, policy(1))]);
    let plan = planned(&desired, &observed([node("n1", "a"), node("n2", "a")]));
    assert_eq!(waves(&plan), [(WaveKind::Rest, vec!["n1", "n2"])]);
    assert_eq!(plan.config_maps.len(), 1);
    assert!(plan.config_maps[0].create);
    let step = &plan.pools[0].waves[0].steps[0];
    let assigned = Assignment {
        uid: "uid-n1".to_owned(),
        from: None,
        to: Some(target("a", 64)),
        from_hash: None,
        to_hash: Some(rendered("a", 64).hash),
        from_placement: None,
        to_placement: Some(Placement::Replace),
        present_placement: Some(Placement::Replace),
        max_disruption: Class::Restart,
    };
    assert_eq!((&step.action, &step.assignment), (&Action::Assign, &assigned));
}

#[test]
fn local_target_removes_the_source() {
    let mut local = pool("a", 64, policy(1));
    local.targets = PoolTarget::Local.into();
    let mut cluster = observed([on(node("n1", "a"), &target("a", 64)), node("n2", "a")]);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    let plan = planned(&desired([local]), &cluster);
    let step = &plan.pools[0].waves[0].steps[0];
    let reset = Assignment {
        uid: "uid-n1".to_owned(),
        from: Some(target("a", 64)),
        to: None,
        from_hash: Some(rendered("a", 64).hash),
        to_hash: None,
        from_placement: None,
        to_placement: None,
        present_placement: Some(Placement::Replace),
        max_disruption: Class::Restart,
    };
    assert_eq!((&step.action, &step.assignment), (&Action::Assign, &reset));
    assert!(plan.config_maps.is_empty());
    assert_eq!(why(&plan, "n2"), &Why::Converged);
    // The last known good still refers to the ConfigMap, so it is not prunable yet.
    assert!(plan.prunable.is_empty());
}

#[test]
fn orders_broken_nodes_canaries_rest() {
    let mut policy = policy(2);
    policy.canary = canary(1, 600);
    let mut down = node("n3", "a");
    down.ready = Readiness::Unknown;
    let mut cluster = observed([
        node("n1", "a"),
        node("n2", "a"),
        down,
        refusing(node("n4", "a"), &target("a", 1), error_text::VALIDATE),
    ]);
    with_config_map(&mut cluster, "a", &rendered("a", 1));
    let plan = planned(&desired([pool("a", 64, policy)]), &cluster);
    assert_eq!(
        waves(&plan),
        [
            (WaveKind::Unavailable, vec!["n3", "n4"]),
            (WaveKind::Canary { soak_seconds: 600 }, vec!["n1"]),
            (WaveKind::Rest, vec!["n2"]),
        ]
    );
}

#[test]
fn resumes_interrupted_rollout_from_cluster_state() {
    let mut policy = policy(1);
    policy.canary = canary(2, 600);
    let on_target = |name| on(node(name, "a"), &target("a", 64));
    let in_flight = |name| Node { source: Some(target("a", 64)), ..node(name, "a") };
    let at = |nodes: Vec<Node>| planned(&desired([pool("a", 64, policy.clone())]), &observed(nodes));

    let canary = WaveKind::Canary { soak_seconds: 600 };
    // One canary converged, the other is in transition: both are watched and soak again.
    let plan = at(vec![on_target("n1"), in_flight("n2"), node("n3", "a")]);
    assert_eq!(waves(&plan), [(canary, vec!["n1", "n2"]), (WaveKind::Rest, vec!["n3"])]);
    // Both converged at an unknown time: they are watched and soak again.
    let plan = at(vec![on_target("n1"), on_target("n2"), node("n3", "a")]);
    assert_eq!(waves(&plan), [(canary, vec!["n1", "n2"]), (WaveKind::Rest, vec!["n3"])]);
    // A node in transition proves nothing: it may have been broken and started without budget.
    let plan = at(vec![on_target("n1"), on_target("n2"), in_flight("n3"), node("n4", "a")]);
    assert_eq!(
        waves(&plan),
        [(WaveKind::Unavailable, vec!["n3"]), (canary, vec!["n1", "n2"]), (WaveKind::Rest, vec!["n4"])]
    );
    // More nodes converged than there are canaries, so the soak time was over.
    let plan = at(vec![on_target("n1"), on_target("n2"), on_target("n3"), node("n4", "a")]);
    assert_eq!(waves(&plan), [(WaveKind::Rest, vec!["n4"])]);
    // All nodes are in transition: without nodes in the next wave, no soak time is needed.
    let plan = at(vec![on_target("n1"), in_flight("n2")]);
    assert_eq!(waves(&plan), [(WaveKind::Canary { soak_seconds: 0 }, vec!["n1", "n2"])]);
}

#[test]
fn foreign_config_map_is_a_conflict_without_take_over() {
    let desired = desired([pool("a", 64, policy(1))]);
    let cluster = observed([on(node("n1", "a"), &source("theirs"))]);
    let plan = planned(&desired, &cluster);
    assert_eq!(why(&plan, "n1"), &Why::Conflict { source: source("theirs"), owner: Owner::Unknown });
    assert!(!plan.has_changes());

    let options = super::Options { take_over: true, ..options() };
    let plan = make(&desired, &cluster, &options).unwrap();
    assert_eq!(plan.pools[0].assignments(), 1);
}

#[test]
fn node_of_another_fleet_is_a_conflict_despite_equal_content() {
    let desired = desired([pool("a", 64, policy(1))]);
    let theirs = source("other-a-xx");
    let mut cluster = observed([on(node("n1", "a"), &theirs)]);
    let hash = rendered("a", 64).hash.to_string();
    cluster
        .config_maps
        .insert(ConfigMapKey::of(&theirs).unwrap(), managed("other-a-xx", Some("other"), Some("a"), Some(&hash)));
    cluster.contents.extend([fetched(&theirs, &rendered("a", 64).canonical, true)]);
    let plan = planned(&desired, &cluster);
    assert!(
        matches!(why(&plan, "n1"), Why::Conflict { owner: Owner::Fleet { fleet }, .. } if fleet.as_str() == "other")
    );
}

#[test]
fn adopts_equal_content_under_another_name() {
    let desired = desired([pool("a", 64, policy(1))]);
    // The name that an older version of nodecfg gave: other hash and formatting, same content.
    let old = source("fleet-a-0123456789");
    let text =
        "# by an older version\nmaxPods: 64\nkind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
    let mut cluster = observed([on(node("n1", "a"), &old)]);
    cluster
        .config_maps
        .insert(ConfigMapKey::of(&old).unwrap(), managed("fleet-a-0123456789", Some("fleet"), Some("a"), Some("v0:x")));
    cluster.contents.extend([fetched(&old, text, true)]);
    let plan = planned(&desired, &cluster);
    assert_eq!(why(&plan, "n1"), &Why::Adopted { source: old.clone() });
    assert!(!plan.has_changes());

    // A node that does not prove that it runs the content is not adopted.
    cluster.nodes.get_mut(&node_name("n1")).unwrap().status.active = None;
    assert_eq!(planned(&desired, &cluster).pools[0].assignments(), 1);
}

#[test]
fn recognizes_own_config_map_recreated_by_hand() {
    let old = rendered("a", 110);
    let source = old.source(&super::fixtures::namespace());
    let mut cluster = observed([on(node("n1", "a"), &source)]);
    // The ConfigMap has the name that only nodecfg gives to this content, but no labels.
    cluster.contents.extend([fetched(&source, &old.canonical, true)]);
    let desired = desired([pool("a", 64, policy(1))]);
    assert_eq!(planned(&desired, &cluster).pools[0].assignments(), 1);
    // With other content under such a name, its owner is unknown.
    cluster.contents.extend([fetched(&source, &rendered("a", 5).canonical, true)]);
    assert!(matches!(why(&planned(&desired, &cluster), "n1"), Why::Conflict { .. }));
}

#[test]
fn skips_unsupported_kubelets() {
    let at = |version: &str| {
        let node = of_version(node("n1", "a"), version);
        planned(&desired([pool("a", 64, policy(1))]), &observed([node]))
    };
    for version in ["v1.10.13", "v1.24.0", "v1.36.2"] {
        assert!(matches!(why(&at(version), "n1"), Why::Obstacle(Obstacle::Unsupported { .. })), "{version}");
    }
    for version in ["v1.11.0", "v1.23.17-eks-1"] {
        assert_eq!(at(version).pools[0].assignments(), 1, "{version}");
    }
}

#[test]
fn skips_nodes_that_do_not_follow_assignments() {
    // The status of a kubelet without --dynamic-config-dir: no status.config.
    let without = Node { obstacle: Some(Obstacle::NoDynamicConfig), ..node("n1", "a") };
    let plan = planned(&desired([pool("a", 64, policy(1))]), &observed([without.clone(), node("n2", "a")]));
    assert_eq!(why(&plan, "n1"), &Why::Obstacle(Obstacle::NoDynamicConfig));
    assert_eq!(plan.counts().blocked, 1);
    for (obstacle, expected) in [
        (Some(Obstacle::AgentSilent), Why::Obstacle(Obstacle::AgentSilent)),
        (Some(Obstacle::Outlived), Why::Obstacle(Obstacle::Outlived)),
    ] {
        let silent = Node { obstacle, ..without.clone() };
        let plan = planned(&desired([pool("a", 64, policy(1))]), &observed([silent, node("n2", "a")]));
        assert_eq!((why(&plan, "n1"), plan.counts().blocked), (&expected, 1));
    }
    // A source that the node does not follow is no transition and needs no budget.
    let pointing = Node { source: Some(source("x")), ..without };
    let plan = planned(&desired([pool("a", 64, policy(1))]), &observed([pointing, node("n2", "a")]));
    assert!(!plan.pools[0].left_alone[0].unavailable);
}

#[test]
fn pause_by_operator_prevents_changes_unless_overridden() {
    let order = pause("disks");
    let desired = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
    let mut observed = observed([node("n1", "a"), node("n2", "b")]);
    observed.orders.pauses.insert(pool_name("a"), order.clone());
    let plan = planned(&desired, &observed);
    assert_eq!(why(&plan, "n1"), &Why::Paused { order: Some(Box::new(order.clone())) });
    let held: Vec<_> = plan.pools.iter().map(|pool| (pool.is_paused(), pool.assignments())).collect();
    assert_eq!(held, [(true, 0), (false, 1)]);
    assert_eq!(plan.pools[0].paused, Some(order.clone()));
    assert_eq!(why(&plan, "n1").to_string(), "the pool is paused: by ada since 1970-01-01T00:00:00Z, disks");

    let despite = super::Options { despite_pause: [pool_name("a")].into(), ..options() };
    let plan = make(&desired, &observed, &despite).unwrap();
    assert_eq!(check(&plan, &desired, &observed, &Scope::Everything), []);
    assert_eq!((plan.pools[0].assignments(), plan.pools[0].despite_pause), (1, true));

    // The checker rejects a plan that ignores the pause.
    let unaware = Observed { orders: Orders::default(), ..observed.clone() };
    let careless = make(&desired, &unaware, &options()).unwrap();
    let violations: Vec<String> =
        check(&careless, &desired, &observed, &Scope::Everything).iter().map(ToString::to_string).collect();
    assert_eq!(violations, ["pool a: its pause is stated wrongly", "pool a: is paused by order and changes nodes"]);
}

#[test]
fn pause_of_whole_fleet_prevents_every_change() {
    let desired = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
    let mut observed = observed([node("n1", "a"), node("n2", "b")]);
    observed.orders.pauses.insert(pool_name("a"), pause("fans"));
    observed.orders.pause(None, &pause("disks"));
    let plan = planned(&desired, &observed);
    for node in ["n1", "n2"] {
        let text = "the pool is paused: the whole fleet, by ada since 1970-01-01T00:00:00Z, disks";
        assert_eq!(why(&plan, node).to_string(), text);
    }
    observed.orders.resume(None);
    let plan = planned(&desired, &observed);
    assert_eq!(plan.pools.iter().map(super::PoolPlan::assignments).collect::<Vec<_>>(), [0, 1], "the pause of a stays");
}

#[test]
fn pause_by_policy_prevents_changes() {
    let mut paused = policy(1);
    paused.paused = true;
    let plan = planned(&desired([pool("a", 64, paused)]), &observed([node("n1", "a")]));
    assert_eq!(why(&plan, "n1"), &Why::Paused { order: None });
    assert!(!plan.has_changes());
    let of_fleet = RolloutPolicy { fleet_paused: true, ..policy(1) };
    let plan = planned(&desired([pool("a", 64, of_fleet)]), &observed([node("n1", "a")]));
    assert!(!plan.has_changes());
}

#[test]
fn higher_priority_wins_and_equal_priority_blocks() {
    let mut special = pool("special", 32, policy(1));
    special.selector = LabelSelector::of_label("nodecfg.dev/pool", "a");
    special.priority = 10;
    let plan = planned(&desired([pool("a", 64, policy(1)), special.clone()]), &observed([node("n1", "a")]));
    assert_eq!(
        plan.pools.iter().map(|pool| (pool.name.as_str(), pool.nodes)).collect::<Vec<_>>(),
        [("a", 0), ("special", 1)]
    );

    special.priority = 0;
    let desired = desired([pool("a", 64, policy(1)), special]);
    let plan = planned(&desired, &observed([node("n1", "a"), node("n2", "a")]));
    assert!(why(&plan, "n2").to_string().starts_with("pools a and special of equal priority select the node; "));
    assert_eq!((plan.counts().blocked, plan.has_changes()), (2, false));
}

#[test]
fn bad_checkout_never_releases_nodes() {
    let cluster = observed([node("n1", "a")]);
    assert_eq!(problems(&desired([]), &cluster), [Problem::NoPools]);
    assert_eq!(
        problems(&desired([pool("b", 64, policy(1))]), &cluster),
        [Problem::NothingSelected { nodes: 1, pools: 1 }]
    );

    // A pool without nodes is valid unless its former nodes are now in no pool.
    let mut cluster = observed([node("n1", "a"), on(node("n2", "renamed"), &target("b", 64))]);
    let both = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
    assert_eq!(planned(&both, &cluster).unpooled.len(), 1);
    with_config_map(&mut cluster, "b", &rendered("b", 64));
    assert_eq!(
        problems(&both, &cluster),
        [Problem::PoolLostItsNodes { pool: pool_name("b"), nodes: 1, example: node_name("n2"), near: None }]
    );
    let mut misspelt = both.clone();
    misspelt.pools.get_mut(&pool_name("b")).unwrap().selector.match_labels =
        [("tier".to_owned(), "storagee".to_owned())].into();
    let mut labelled = cluster.clone();
    labelled.nodes.get_mut(&node_name("n2")).unwrap().labels =
        Arc::new([("tier".to_owned(), "storage".to_owned())].into());
    let lost = problems(&misspelt, &labelled);
    assert_eq!(
        lost[0].to_string(),
        "pool b selects no node, but node n2 still runs its configuration; node n2 in no pool has the \
         label tier=storage, which is close to tier=storagee"
    );
    assert!(lost[0].help().contains("tier"), "{}", lost[0].help());
    let allowed = super::Options { allow_empty: true, ..options() };
    let plan = make(&both, &cluster, &allowed).unwrap();
    assert_eq!(plan.unpooled[0].still_on.as_deref(), Some("b"));
    assert!(make(&desired([]), &cluster, &allowed).is_ok_and(|plan| !plan.has_changes()));
}

#[test]
fn rejects_config_map_whose_content_differs_from_its_name() {
    let desired = desired([pool("a", 64, policy(1))]);
    let cluster = |text: &str, immutable| {
        let mut cluster = observed([node("n1", "a")]);
        cluster.contents.extend([fetched(&target("a", 64), text, immutable)]);
        cluster
    };
    let right = rendered("a", 64).canonical;
    assert!(!planned(&desired, &cluster(&right, true)).config_maps[0].create);
    assert!(matches!(problems(&desired, &cluster(&right, false))[0], Problem::NotImmutable { .. }));
    assert!(matches!(
        problems(&desired, &cluster("maxPods: 1\n", true))[0],
        Problem::ContentMismatch { found: Some(_), .. }
    ));
    assert!(matches!(problems(&desired, &cluster("{", true))[0], Problem::ContentMismatch { found: None, .. }));
}

#[test]
fn never_recreates_config_map_in_use() {
    let desired = desired([pool("a", 64, policy(1))]);
    let mut cluster = observed([on(node("n1", "a"), &target("a", 64)), node("n2", "a")]);
    cluster.contents.insert(ConfigMapKey::of(&target("a", 64)).unwrap(), None);
    let problems = problems(&desired, &cluster);
    assert!(matches!(&problems[0], Problem::ConfigMapMissing { nodes: 1, example, .. } if example.as_str() == "n1"));
    // Without a node that points at it, the ConfigMap is created.
    cluster.nodes.remove(&node_name("n1"));
    assert!(planned(&desired, &cluster).config_maps[0].create);
}

/// The agent of a node that joins can name a ConfigMap before it exists.
#[test]
fn config_map_that_a_node_assigned_itself_is_created() {
    let desired = desired([pool("a", 64, policy(1))]);
    let joined = Some(NodeContent { self_assigned: true, ..replacing() });
    let joined = Node { content: joined, ..on(node("n1", "a"), &target("a", 64)) };
    let mut cluster = observed([joined, Node { content: Some(replacing()), ..node("n2", "a") }]);
    cluster.contents.insert(ConfigMapKey::of(&target("a", 64)).unwrap(), None);
    assert!(planned(&desired, &cluster).config_maps[0].create);
}

/// Its finalizers keep it for now, and kubelets would download it.
#[test]
fn assigns_no_node_to_a_config_map_that_is_being_deleted() {
    let desired = desired([pool("a", 64, policy(1))]);
    let mut cluster = observed([node("n1", "a"), node("n2", "a")]);
    let (key, map) = fetched(&target("a", 64), &rendered("a", 64).canonical, true);
    cluster.contents.insert(key, map.map(|map| FetchedConfigMap { deleting: true, ..map }));
    let found = problems(&desired, &cluster);
    assert!(matches!(&found[..], [Problem::ConfigMapDeleting { nodes: 2, .. }]), "{found:?}");
    // A paused pool needs no ConfigMap.
    let paused = super::fixtures::desired([pool("a", 64, RolloutPolicy { paused: true, ..policy(1) })]);
    assert!(planned(&paused, &cluster).config_maps.is_empty());
}

#[test]
fn ready_nodes_with_status_errors_count_as_available() {
    let mut policy = policy(1);
    policy.canary = canary(1, 600);
    let old = target("a", 110);
    // The ConfigMap in use was deleted: every kubelet reports that and keeps its configuration.
    let orphaned = |name| {
        let mut node = on(node(name, "a"), &old);
        node.status.error = Some(format!("{}{}", error_text::SYNC_PREFIX, error_text::DOWNLOAD));
        node
    };
    // Assigned to another source a moment ago, and in transition.
    let moving = Node { source: Some(target("a", 90)), ..on(node("n3", "a"), &old) };
    let mut cluster = observed([orphaned("n1"), orphaned("n2"), moving]);
    for max_pods in [90, 110] {
        with_config_map(&mut cluster, "a", &rendered("a", max_pods));
    }
    let plan = planned(&desired([pool("a", 64, policy)]), &cluster);
    assert_eq!(
        waves(&plan),
        [(WaveKind::Canary { soak_seconds: 600 }, vec!["n1"]), (WaveKind::Rest, vec!["n2", "n3"])]
    );
    let available: Vec<bool> = plan.pools[0].steps().map(|step| step.available).collect();
    assert_eq!(available, [true, true, false]);
}

#[test]
fn requires_only_config_maps_that_decisions_need() {
    let both = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
    let mut settled = observed([on(node("n1", "a"), &target("a", 64)), on(node("n2", "b"), &target("b", 64))]);
    for pool in ["a", "b"] {
        with_config_map(&mut settled, pool, &rendered(pool, 64));
    }
    assert!(required_config_maps(&both, &settled, &super::fixtures::namespace()).is_empty(), "no changes, no contents");
    let asked = |change: &dyn Fn(&mut Observed)| {
        let mut cluster = settled.clone();
        change(&mut cluster);
        required_config_maps(&both, &cluster, &super::fixtures::namespace()).len()
    };
    let key = ConfigMapKey::of(&target("a", 64)).unwrap();
    assert_eq!(asked(&|cluster| drop(cluster.config_maps.remove(&key))), 1, "it is missing");
    assert_eq!(asked(&|cluster| cluster.config_maps.get_mut(&key).unwrap().uid = "another".to_owned()), 1, "recreated");
    assert_eq!(asked(&|cluster| cluster.config_maps.get_mut(&key).unwrap().content_hash = None), 1, "not marked");
    let earlier = super::fixtures::accepted(&source("theirs"));
    let accept = |cluster: &mut Observed| {
        cluster.nodes.get_mut(&node_name("n1")).unwrap().status.assigned = Some(earlier.clone());
    };
    assert_eq!(asked(&accept), 0, "its kubelet has not accepted the assignment yet");

    let mut moving = observed([on(node("n1", "a"), &source("theirs")), on(node("n2", "b"), &target("b", 64))]);
    with_config_map(&mut moving, "b", &rendered("b", 64));
    let asked = required_config_maps(&both, &moving, &super::fixtures::namespace());
    let expected = [ConfigMapKey::of(&source("theirs")).unwrap(), ConfigMapKey::of(&target("a", 64)).unwrap()];
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), {
        let mut e = expected.to_vec();
        e.sort();
        e
    });
}

/// Result of `prune` for the same cluster and repository, independent of planning.
fn pruned(desired: &Desired, observed: &Observed) -> Vec<String> {
    let mut references = observed.references.clone();
    observed.nodes.values().for_each(|node| references.add(node.name.as_str(), node.sources()));
    let (fleet, namespace, wanted) =
        (fleet(), super::fixtures::namespace(), super::wanted_config_maps(desired, observed));
    let options = PruneOptions { fleet, namespace, keep: KEEP as usize, wanted, pools: [].into() };
    prune(observed.config_maps.values(), &references, &options).delete.into_iter().map(|map| map.name).collect()
}

#[test]
fn diff_and_prune_agree() {
    let desired = desired([pool("a", 64, policy(1))]);
    let mut cluster = observed([on(node("n1", "a"), &target("a", 64))]);
    let made_at = |second| Some(Timestamp::from_second(second).unwrap());
    let mut add = |map: ManagedConfigMap| {
        cluster.config_maps.insert(ConfigMapKey::of(&source(&map.name)).unwrap(), map);
    };
    let of_fleet = |max_pods: u32, second: i64| {
        let name = rendered("a", max_pods).config_map;
        ManagedConfigMap { created: made_at(second), ..managed(&name, Some("fleet"), Some("a"), None) }
    };
    add(of_fleet(64, 0));
    // The newest three are kept, in use or not.
    [(1, 9), (2, 8), (3, 7)].into_iter().for_each(|(max_pods, second)| add(of_fleet(max_pods, second)));
    // Older ones: prunable; referenced by a NodeConfig without a Node; being deleted; of unknown age; without a pool;
    // of another fleet; not named by nodecfg.
    add(of_fleet(4, 1));
    add(of_fleet(5, 1));
    add(ManagedConfigMap { deleting: true, ..of_fleet(6, 1) });
    add(ManagedConfigMap { created: None, ..of_fleet(7, 1) });
    add(ManagedConfigMap { pool: None, ..of_fleet(8, 1) });
    add(ManagedConfigMap { created: made_at(1), ..managed("other-a-old", Some("other"), Some("a"), None) });
    add(ManagedConfigMap { created: made_at(1), ..managed("fleet-a-own", Some("fleet"), Some("a"), None) });
    cluster.references.add("gone", [&target("a", 5)]);
    let prunable = planned(&desired, &cluster).prunable;
    assert_eq!(prunable, [rendered("a", 4).config_map]);
    assert_eq!(prunable, pruned(&desired, &cluster));
}

#[test]
fn lists_changes_per_current_configuration() {
    let desired = desired([pool("a", 64, policy(9))]);
    let mut cluster =
        observed([node("n1", "a"), on(node("n2", "a"), &target("a", 110)), on(node("n3", "a"), &target("a", 110))]);
    with_config_map(&mut cluster, "a", &rendered("a", 110));
    cluster.contents.extend([fetched(&target("a", 110), &rendered("a", 110).canonical, true)]);
    let plan = planned(&desired, &cluster);
    let sets = &plan.pools[0].changes;
    assert_eq!(sets.iter().map(|set| (set.from.is_some(), set.nodes)).collect::<Vec<_>>(), [(false, 1), (true, 2)]);
    let field = &sets[1].fields[0].change;
    assert_eq!((field.path.as_str(), field.old.as_deref(), field.new.as_deref()), ("maxPods", Some("110"), Some("64")));
    assert_eq!(field.place.as_ref().map(ToString::to_string).as_deref(), Some("pools/a/kubelet.yaml:3:10"));
}
