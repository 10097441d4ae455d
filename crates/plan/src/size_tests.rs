//! Plans of pools whose configuration follows from the size of each node.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::fixtures::{
    canary, desired, fetched, namespace, node, node_name, observed, of_capacity, on, options, policy, pool, pool_name,
    rendered_of, sized, with_config_map, with_pointer_to,
};
use super::{
    Action, Decision, LeftAlone, Plan, PointerTime, PoolPlan, WaveKind, Why, check, decide_again, make,
    nodes_to_sample, wanted_config_maps,
};
use kubelet_config::capacity::{Capacity, Resource};
use kubelet_config::risk::Class;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_fleet::{Desired, Pool, PoolTarget, RolloutPolicy};
use nodecfg_observed::{Node, Observed};

/// A pool that reserves by the size of its nodes, with half of them at a time.
fn pool_a(canaries: Option<u32>) -> Pool {
    let canary = canaries.and_then(|nodes| canary(nodes, 60));
    sized(pool("a", 64, RolloutPolicy { canary, ..policy(5) }), "{preset: gke}")
}

fn repository() -> Desired {
    Desired { pool_pointers: true, ..desired([pool_a(None)]) }
}

fn small(name: &str) -> Node {
    of_capacity(node(name, "a"), "4", "15996Mi")
}

fn large(name: &str) -> Node {
    of_capacity(node(name, "a"), "64", "251Gi")
}

/// Hash of the configuration of a node.
fn hash_of(desired: &Desired, node: &Node) -> ContentHash {
    let pool = &desired.pools[&pool_name("a")];
    pool.for_node(node.capacity).unwrap().target.hash().unwrap()
}

/// The node on the configuration of its size, with its ConfigMap in the cluster.
fn converge(desired: &Desired, cluster: &mut Observed, node: Node) {
    let pool = &desired.pools[&pool_name("a")];
    let of_size = pool.for_node(node.capacity).unwrap();
    let rendered = of_size.target.rendered().unwrap();
    with_config_map(cluster, "a", rendered);
    let node = on(node, &rendered.source(&namespace()));
    cluster.nodes.insert(node.name.clone(), node);
}

fn planned(desired: &Desired, cluster: &Observed) -> Plan {
    let plan = make(desired, cluster, &options()).unwrap();
    assert_eq!(check(&plan, desired, cluster, &options().scope), []);
    plan
}

fn pool_of(plan: &Plan) -> &PoolPlan {
    &plan.pools[0]
}

fn assigned(plan: &Plan) -> BTreeMap<&str, ContentHash> {
    let steps = pool_of(plan).steps().filter(|step| step.action == Action::Assign);
    steps.map(|step| (step.node.as_str(), step.assignment.to_hash.unwrap())).collect()
}

fn canaries(plan: &Plan) -> Vec<&str> {
    let waves = pool_of(plan).waves.iter().filter(|wave| matches!(wave.kind, WaveKind::Canary { .. }));
    waves.flat_map(|wave| &wave.steps).map(|step| step.node.as_str()).collect()
}

#[test]
fn each_node_gets_the_configuration_of_its_size() {
    let repository = repository();
    let cluster = observed([small("n1"), large("n2"), small("n3"), of_capacity(node("n4", "a"), "4", "15400Mi")]);
    let plan = planned(&repository, &cluster);
    let [small_hash, large_hash] = [small("x"), large("x")].map(|node| hash_of(&repository, &node));
    assert_ne!(small_hash, large_hash);
    assert_eq!(
        assigned(&plan),
        [("n1", small_hash), ("n2", large_hash), ("n3", small_hash), ("n4", small_hash)].into()
    );
    let maps: BTreeSet<ContentHash> = plan.config_maps.iter().map(|planned| planned.map.config.hash).collect();
    assert_eq!(maps, [small_hash, large_hash].into());
    assert_eq!(wanted_config_maps(&repository, &cluster).len(), 2);
    let sizes: Vec<_> =
        pool_of(&plan).targets.by_size().iter().map(|found| (found.size.unwrap().to_string(), found.nodes)).collect();
    assert_eq!(sizes, [("4 CPU, 16Gi, 100Gi disk".to_owned(), 3), ("64 CPU, 251Gi, 100Gi disk".to_owned(), 1)]);
}

/// Without a policy, one node of each size goes first.
#[test]
fn one_node_of_each_size_is_a_canary() {
    let cluster = observed([small("n1"), small("n2"), large("n3"), large("n4")]);
    assert_eq!(canaries(&planned(&repository(), &cluster)), ["n1", "n3"]);
    let explicit = |number| desired([pool_a(Some(number))]);
    assert_eq!(canaries(&planned(&explicit(1), &cluster)), ["n1"]);
    assert_eq!(canaries(&planned(&explicit(0), &cluster)), [""; 0]);
    // The only node of a size proves nothing for others, and must not stop the pool.
    assert_eq!(canaries(&planned(&repository(), &observed([small("n1"), small("n2"), large("n3")]))), ["n1"]);
    assert_eq!(canaries(&planned(&repository(), &observed([small("n1"), large("n3")]))), [""; 0]);
    // More nodes of a size than canaries have converged.
    let mut later = cluster;
    for name in ["n1", "n2"] {
        converge(&repository(), &mut later, small(name));
    }
    assert_eq!(canaries(&planned(&repository(), &later)), ["n3"]);
}

#[test]
fn converged_nodes_of_all_sizes_need_nothing() {
    let repository = desired([pool_a(None)]);
    let mut cluster = observed([]);
    for node in [small("n1"), large("n2")] {
        converge(&repository, &mut cluster, node);
    }
    assert!(!planned(&repository, &cluster).has_changes());
    // A node that changes its size gets another configuration, and no other node does.
    let grown = cluster.nodes.get_mut(&node_name("n1")).unwrap();
    grown.capacity = large("x").capacity;
    assert_eq!(assigned(&planned(&repository, &cluster)), [("n1", hash_of(&repository, &large("x")))].into());
}

/// One node that grows, or says so, does not stop the others.
#[test]
fn resized_node_above_the_policy_is_left_alone() {
    let restart = |pool: Pool| {
        let policy = RolloutPolicy { allow_disruption: Class::Restart, ..pool.policy.clone() };
        Pool { policy, ..pool }
    };
    let repository = desired([restart(pool_a(None))]);
    let mut cluster = observed([]);
    for name in ["n1", "n2"] {
        converge(&repository, &mut cluster, small(name));
    }
    let of_size = repository.pools[&pool_name("a")].for_node(small("x").capacity).unwrap();
    let rendered = of_size.target.rendered().unwrap();
    let (key, content) = fetched(&rendered.source(&namespace()), &rendered.canonical, true);
    cluster.contents.insert(key, content);
    cluster.nodes.get_mut(&node_name("n1")).unwrap().capacity = large("x").capacity;
    let plan = planned(&repository, &cluster);
    let left: Vec<_> = pool_of(&plan).left_alone.iter().map(|left| (left.node.as_str(), &left.why)).collect();
    let resized = Why::Resized { needs: Class::Drain, allowed: Class::Restart };
    assert_eq!(left, [("n2", &Why::Converged), ("n1", &resized)]);
    assert!(plan.refusals().is_empty() && !plan.has_changes());
    // Another field changes, too: the repository is the reason.
    let other = desired([restart(sized(pool("a", 65, pool_a(None).policy), "{preset: gke}"))]);
    converge(&other, &mut cluster, small("n2"));
    assert!(!planned(&other, &cluster).refusals().is_empty());
    converge(&repository, &mut cluster, small("n2"));
    // A change of the formulas is one of the repository: it is refused before any write.
    let changed = desired([restart(sized(pool("a", 64, pool_a(None).policy), "{preset: aks}"))]);
    assert!(!planned(&changed, &cluster).refusals().is_empty());
}

/// The kubelets of each size are asked what they run.
#[test]
fn nodes_of_each_size_are_sampled() {
    let nodes = (0..4).flat_map(|at| [small(&format!("a{at}")), large(&format!("b{at}"))]);
    let cluster = observed(nodes);
    let sampled = nodes_to_sample(&planned(&repository(), &cluster), &cluster);
    assert_eq!(sampled.iter().map(NodeName::as_str).collect::<Vec<_>>(), ["a0", "a1", "a3", "b0", "b1", "b3"]);
}

/// Errors of one size, such as that of a false capacity, do not stop the pool.
#[test]
fn size_with_an_error_is_left_alone() {
    let text = "cpuManagerPolicy: static\n";
    let pool =
        Pool { targets: PoolTarget::Config(Box::new(rendered_of("a", text))).into(), ..pool("a", 64, policy(5)) };
    let repository = desired([sized(pool, "{preset: gke}")]);
    let cluster = observed([small("n1"), of_capacity(node("n2", "a"), "10m", "16Gi")]);
    let plan = planned(&repository, &cluster);
    assert_eq!(assigned(&plan).into_keys().collect::<Vec<_>>(), ["n1"]);
    let [left] = &*pool_of(&plan).left_alone else { panic!("{:?}", pool_of(&plan).left_alone) };
    assert!(matches!(&left.why, Why::WouldRefuse { .. }), "{:?}", left.why);
}

#[test]
fn node_without_a_size_or_room_is_left_alone() {
    let tiny = of_capacity(node("n3", "a"), "1", "200Mi");
    let cluster = observed([small("n1"), node("n2", "a"), tiny]);
    let plan = planned(&repository(), &cluster);
    let why = |name: &str| &pool_of(&plan).left_alone.iter().find(|left| left.node.as_str() == name).unwrap().why;
    assert_eq!(why("n2"), &Why::SizeUnknown { missing: Some(Resource::Cpu) });
    let Why::OverReserved(found) = why("n3") else { panic!("{:?}", why("n3")) };
    // 255 MiB, and 100 MiB of evictionHard.
    assert_eq!(found.to_string(), "355Mi of memory, but the node has 200Mi");
    assert_eq!(assigned(&plan).len(), 1);
}

/// A node reports its own capacity, so it must not stop others.
#[test]
fn rare_sizes_beyond_the_limit_are_left_alone() {
    let nodes = |number: usize| {
        let common = (0..2).map(|at| small(&format!("common-{at}")));
        let others =
            (1..=number).map(|at| of_capacity(node(&format!("n{at:02}"), "a"), "4", &format!("{}Gi", 100 + at)));
        observed(common.chain(others))
    };
    let plan = planned(&repository(), &nodes(19));
    assert_eq!((assigned(&plan).len(), plan.findings.len()), (21, 0));
    let plan = planned(&repository(), &nodes(22));
    let left: Vec<&Why> = pool_of(&plan).left_alone.iter().map(|left| &left.why).collect();
    assert_eq!((assigned(&plan).len(), left), (21, vec![&Why::TooManySizes { sizes: 23 }; 3]));
    assert!(assigned(&plan).contains_key("common-0"));
    let [warning] = &plan.findings[..] else { panic!("{:?}", plan.findings) };
    assert_eq!(warning.code, "too-many-sizes");
    assert_eq!(warning.help.as_deref(), Some("write roundTo: {memory: 2Gi} under spec.kubelet.reserve"));
    let rounded = sized(pool("a", 64, policy(5)), "{preset: gke, roundTo: {memory: 2Gi}}");
    let plan = planned(&desired([rounded]), &nodes(22));
    assert_eq!((assigned(&plan).len(), plan.findings.len()), (24, 0));
}

#[test]
fn capacity_that_changes_during_a_run_waits_for_the_next_plan() {
    let repository = desired([pool_a(None)]);
    let cluster = observed([small("n1")]);
    let changed = Node { capacity: large("x").capacity, ..small("n1") };
    let decision = decide_again(&repository, &cluster, &options(), &pool_name("a"), &changed);
    let Some(Decision::Step(step)) = decision else { panic!("{decision:?}") };
    assert_eq!(step.assignment.to_hash, Some(hash_of(&repository, &small("x"))));
    let unknown = decide_again(&repository, &observed([]), &options(), &pool_name("a"), &node("n9", "a"));
    assert!(
        matches!(unknown, Some(Decision::LeaveAlone(LeftAlone { why: Why::SizeUnknown { .. }, .. }))),
        "{unknown:?}"
    );
}

#[test]
fn checker_finds_another_size() {
    let repository = repository();
    let cluster = observed([small("n1"), small("n2"), large("n3")]);
    let plan = planned(&repository, &cluster);
    let problems = |change: &dyn Fn(&mut Plan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        let found = check(&changed, &repository, &cluster, &options().scope);
        found.into_iter().map(|violation| violation.to_string()).collect::<Vec<_>>().join("\n")
    };
    let other = hash_of(&repository, &large("x"));
    let found = problems(&|plan| plan.pools[0].waves[0].steps[0].assignment.to_hash = Some(other));
    assert!(found.contains("node n1: is assigned other content than its pool's"), "{found}");
    let found = problems(&|plan| {
        let steps = plan.pools[0].waves.pop().unwrap().steps;
        plan.pools[0].waves[0].steps.extend(steps);
    });
    assert!(found.contains("pool a: has more canaries than its policy"), "{found}");
    let found = problems(&|plan| {
        let pointer = plan.pools[0].pointer.as_mut().unwrap();
        pointer.to.configs.pop_last();
    });
    assert!(found.contains("pointer of pool a: does not name the content of its pool"), "{found}");
    let cluster = Observed { nodes: BTreeMap::from([(node_name("n1"), large("n1"))]), ..cluster.clone() };
    let found = check(&plan, &repository, &cluster, &options().scope);
    assert!(found.iter().any(|one| one.problem == "has another target than its size"), "{found:?}");
}

#[test]
fn pointer_has_all_sizes_that_the_pool_had() {
    let repository = repository();
    let pointer = |cluster: &Observed| pool_of(&planned(&repository, cluster)).pointer.clone();
    let configs = |pointer: &PoolPointer| pointer.configs.values().map(|config| config.hash).collect::<BTreeSet<_>>();
    let [small_hash, large_hash] = [small("x"), large("x")].map(|node| hash_of(&repository, &node));

    let first = pointer(&observed([small("n1"), large("n2")])).unwrap();
    assert_eq!((first.when, configs(&first.to)), (PointerTime::AfterCanaries, [small_hash, large_hash].into()));
    for (node, hash) in [(small("x"), small_hash), (large("x"), large_hash)] {
        assert_eq!(first.to.for_node(node.capacity).unwrap().unwrap().hash, hash);
    }
    let other = Capacity::parse(Some("8"), Some("32Gi"), Some("100Gi"));
    let missing = first.to.for_node(other).unwrap_err().to_string();
    assert_eq!(missing, "it has no configuration for nodes of the size 8 CPU, 32Gi, 100Gi disk");
    assert!(first.to.for_node(Capacity::default()).is_err());

    // The last large node is gone, and a new one may come.
    let mut cluster = observed([]);
    for name in ["n1", "n3"] {
        converge(&repository, &mut cluster, small(name));
    }
    with_pointer_to(&mut cluster, "a", &first.to);
    assert_eq!(pointer(&cluster), None);
    // A new size is added once it is proven: one node of it is a canary.
    for name in ["n4", "n5"] {
        converge(&repository, &mut cluster, of_capacity(node(name, "a"), "8", "32Gi"));
    }
    let added = pointer(&cluster).unwrap();
    assert_eq!((added.when, added.to.configs.len()), (PointerTime::AtOnce, 3));
    for name in ["n4", "n5"] {
        let node = of_capacity(node(name, "a"), "8", "32Gi");
        cluster.nodes.insert(node.name.clone(), node);
    }
    assert_eq!(pointer(&cluster).unwrap().when, PointerTime::AfterCanaries);
}

proptest! {
    #[test]
    fn plans_of_any_sizes_hold(sizes in proptest::collection::vec((1_u64..200, 1_u64..500, any::<bool>()), 0..40)) {
        let repository = repository();
        let mut cluster = observed([]);
        for (at, (cpu, memory, converged)) in sizes.iter().enumerate() {
            let node = of_capacity(node(&format!("n{at:02}"), "a"), &cpu.to_string(), &format!("{memory}Gi"));
            match converged {
                true => converge(&repository, &mut cluster, node),
                false => drop(cluster.nodes.insert(node.name.clone(), node)),
            }
        }
        let plan = make(&repository, &cluster, &options()).unwrap();
        prop_assert_eq!(check(&plan, &repository, &cluster, &options().scope), []);
        for step in pool_of(&plan).steps().filter(|step| step.action == Action::Assign) {
            let own = hash_of(&repository, &cluster.nodes[&step.node]);
            prop_assert_eq!(step.assignment.to_hash, Some(own));
        }
        prop_assert!(pool_of(&plan).targets.by_size().len() <= nodecfg_fleet::MAX_SIZES);
    }
}
