//! Tests of the moves of pool pointers.

use std::time::Duration;

use super::fixtures::{
    ZONE, canary, desired, fetched, in_zone, managed, namespace, node, node_name, observed, on, on_trial, options,
    pause, policy, pool, pool_name, rendered, replacing, source, with_config_map, with_pointer,
};
use super::{Options, Plan, PointerMove, PointerTime, Problem, Scope, WaveKind, check, check_returning, make};
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::{CONFIG_MAP_POOL_LABEL, FLEET_LABEL};
use nodecfg_contract::names::FleetName;
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_contract::{ConfigSource, ConfigStatus};
use nodecfg_fleet::{Desired, NodeOrder, Pool, PoolTarget, Rendered, RolloutPolicy};
use nodecfg_observed::{ConfigMapKey, Node, NodeContent, Observed, Readiness};

fn repository(pool: Pool) -> Desired {
    Desired { pool_pointers: true, ..desired([pool]) }
}

/// Pool `a` with 64 pods and this number of canaries.
fn pool_a(canaries: u32) -> Pool {
    pool("a", 64, RolloutPolicy { canary: canary(canaries, 60).filter(|_| canaries > 0), ..policy(1) })
}

fn converged(name: &str) -> Node {
    on(node(name, "a"), &rendered("a", 64).source(&namespace()))
}

/// A cluster with these nodes and the ConfigMap of the pool.
fn cluster(nodes: impl IntoIterator<Item = Node>) -> Observed {
    let mut observed = observed(nodes);
    with_config_map(&mut observed, "a", &rendered("a", 64));
    observed
}

fn planned(desired: &Desired, observed: &Observed, options: &Options) -> Plan {
    let plan = make(desired, observed, options).unwrap();
    assert_eq!(check(&plan, desired, observed, &options.scope), []);
    plan
}

fn moved(desired: &Desired, observed: &Observed, options: &Options) -> Option<PointerMove> {
    planned(desired, observed, options).pools.pop().unwrap().pointer
}

fn time(desired: &Desired, observed: &Observed) -> Option<PointerTime> {
    moved(desired, observed, &options()).map(|pointer| pointer.when)
}

#[test]
fn moves_at_once_if_nodes_prove_the_target() {
    let repository = repository(pool_a(0));
    assert_eq!(time(&repository, &cluster([converged("n1")])), Some(PointerTime::AtOnce));
    assert_eq!(time(&repository, &cluster([converged("n1"), node("n2", "a")])), Some(PointerTime::AtOnce));
    assert_eq!(time(&repository, &cluster([node("n2", "a")])), Some(PointerTime::AfterCanaries));
    let down = Node { ready: Readiness::NotReady, ..converged("n1") };
    assert_eq!(time(&repository, &cluster([down, node("n2", "a")])), Some(PointerTime::AfterCanaries));
}

/// Until more nodes have converged than the pool has canaries, the canaries soak again.
#[test]
fn waits_for_canaries_that_soak_again() {
    let repository = repository(pool_a(1));
    let nodes = |converged_nodes: usize| {
        let all = (1..=4).map(|number| format!("n{number}"));
        cluster(
            all.enumerate().map(|(at, name)| if at < converged_nodes { converged(&name) } else { node(&name, "a") }),
        )
    };
    assert_eq!(time(&repository, &nodes(0)), Some(PointerTime::AfterCanaries));
    assert_eq!(time(&repository, &nodes(1)), Some(PointerTime::AfterCanaries));
    assert_eq!(time(&repository, &nodes(2)), Some(PointerTime::AtOnce));
    assert_eq!(time(&repository, &nodes(4)), Some(PointerTime::AtOnce));
}

/// Node whose own agent assigned the target, because the node joined with it.
fn joined(name: &str) -> Node {
    let hash = Some(rendered("a", 64).hash);
    let content =
        NodeContent { assigned: hash, active: hash, max_disruption: None, self_assigned: true, ..replacing() };
    Node { content: Some(content), ..converged(name) }
}

/// Only the reconciler passes a step of the rollout.
#[test]
fn node_in_transition_counts_for_the_steps_unless_it_assigned_itself() {
    let repository = repository(pool_a(1));
    let begun = |first: Node| planned(&repository, &cluster([first, node("n2", "a")]), &options()).pools[0].begun();
    let starts = |node: Node| Node { status: ConfigStatus::default(), ..node };
    assert_eq!(begun(starts(converged("n1"))), 1);
    assert_eq!(begun(starts(joined("n1"))), 0);
}

fn other_name() -> ConfigSource {
    source("fleet-a-0123456789")
}

/// Node that runs the content of the target by another name.
fn adopted(name: &str) -> Node {
    on(node(name, "a"), &other_name())
}

/// A cluster with the ConfigMap of [`adopted`] nodes.
fn with_adopted(nodes: impl IntoIterator<Item = Node>) -> Observed {
    let mut observed = cluster(nodes);
    let listed = managed("fleet-a-0123456789", Some("fleet"), Some("a"), None);
    observed.config_maps.insert(ConfigMapKey::of(&other_name()).unwrap(), listed);
    observed.contents.extend([fetched(&other_name(), &rendered("a", 64).canonical, true)]);
    observed
}

fn canary_wave(desired: &Desired, observed: &Observed) -> Option<(u64, Vec<String>)> {
    let plan = planned(desired, observed, &options());
    let wave = plan.pools[0].waves.iter().find(|wave| matches!(wave.kind, WaveKind::Canary { .. }))?;
    let WaveKind::Canary { soak_seconds } = wave.kind else { return None };
    Some((soak_seconds, wave.steps.iter().map(|step| step.node.to_string()).collect()))
}

/// A compromised node can choose its configuration and report success.
#[test]
fn nodes_that_assigned_themselves_prove_nothing() {
    let rest = || node("n9", "a");
    assert_eq!(time(&repository(pool_a(0)), &cluster([joined("n1")])), None);
    assert_eq!(time(&repository(pool_a(0)), &cluster([joined("n1"), rest()])), Some(PointerTime::AfterCanaries));
    let many = || cluster([joined("n1"), joined("n2"), joined("n3"), rest()]);
    assert_eq!(canary_wave(&repository(pool_a(1)), &many()), Some((60, vec!["n9".to_owned()])));
    assert_eq!(time(&repository(pool_a(1)), &many()), Some(PointerTime::AfterCanaries));
    let with_one_assigned = cluster([joined("n1"), joined("n2"), converged("n3"), rest()]);
    assert_eq!(canary_wave(&desired([pool_a(1)]), &with_one_assigned), Some((60, vec!["n3".to_owned()])));
    let adopted = |canaries: u32, content: Option<NodeContent>| {
        time(&repository(pool_a(canaries)), &with_adopted([Node { content, ..adopted("n1") }]))
    };
    assert_eq!(adopted(0, converged("n1").content), Some(PointerTime::AtOnce));
    assert_eq!(adopted(0, joined("n1").content), None);
    assert_eq!(adopted(1, converged("n1").content), None, "no more than the canaries");
}

/// A node that joined and is in transition could open the gate for all others by its own report.
#[test]
fn node_that_assigned_itself_is_no_canary() {
    let joining = |name: &str| Node { status: node(name, "a").status, ..joined(name) };
    let observed = cluster([joining("n1"), node("n9", "a")]);
    let repository = repository(pool_a(1));
    assert_eq!(canary_wave(&repository, &observed), Some((60, vec!["n9".to_owned()])));
    let alone = cluster([joining("n1")]);
    assert_eq!(canary_wave(&repository, &alone), None);
    assert_eq!((time(&repository, &alone), time(&self::repository(pool_a(0)), &alone)), (None, None));

    let mut plan = planned(&repository, &observed, &options());
    let [of_joining, of_canary] = &mut plan.pools[0].waves[..] else { panic!("{:?}", plan.pools[0].waves) };
    std::mem::swap(&mut of_joining.steps, &mut of_canary.steps);
    let found = check(&plan.identified(), &repository, &observed, &Scope::Everything);
    let problem = "is a canary although it assigned itself";
    assert!(
        found.iter().any(|found| (found.subject.as_str(), found.problem.as_str()) == ("node n1", problem)),
        "{found:?}"
    );
}

/// Otherwise a node would become a proof for others although only its own agent has chosen its configuration.
#[test]
fn hash_that_a_node_omitted_from_its_own_assignment_is_not_added_beside_the_rollout() {
    let unhashed = |self_assigned: bool| {
        let content = joined("n1").content.map(|content| NodeContent { assigned: None, self_assigned, ..content });
        let plan = planned(&desired([pool_a(0)]), &cluster([Node { content, ..converged("n1") }]), &options());
        (plan.pools[0].completions().count(), plan.pools[0].assignments())
    };
    assert_eq!((unhashed(false), unhashed(true)), ((1, 0), (0, 1)));
    let content = joined("n1").content.map(|content| NodeContent { assigned: None, ..content });
    let plan = planned(&desired([pool_a(0)]), &with_adopted([Node { content, ..adopted("n1") }]), &options());
    assert_eq!((plan.pools[0].completions().count(), plan.pools[0].assignments()), (0, 0));
}

/// A node that joined a zone does not mean that the rollout has begun it.
#[test]
fn nodes_that_assigned_themselves_begin_no_domain() {
    let order = Some(NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(30) });
    let desired = desired([pool("a", 64, RolloutPolicy { order, ..policy(1) })]);
    let zoned = |node: Node, zone| in_zone(node, Some(zone));
    let soak = |in_z2: Node| {
        let nodes = [zoned(converged("n1"), "z1"), zoned(in_z2, "z2"), zoned(node("n3", "a"), "z2")];
        let plan = planned(&desired, &with_adopted(nodes), &options());
        plan.pools[0].waves[0].domain.as_ref().unwrap().soak_seconds
    };
    assert_eq!(soak(converged("n2")), None, "z2 has begun");
    assert_eq!(soak(adopted("n2")), None, "z2 has begun");
    assert_eq!(soak(joined("n2")), Some(30));
    assert_eq!(soak(Node { content: joined("n2").content, ..adopted("n2") }), Some(30));

    let nodes = [zoned(converged("n1"), "z1"), zoned(joined("n2"), "z2"), zoned(node("n3", "a"), "z2")];
    let observed = with_adopted(nodes);
    let mut plan = planned(&desired, &observed, &options());
    plan.pools[0].waves[0].domain.as_mut().unwrap().soak_seconds = None;
    let found = check(&plan.identified(), &desired, &observed, &Scope::Everything);
    let problem = "begins a domain without a soak although no node has begun it";
    assert!(found.iter().any(|found| found.problem == problem), "{found:?}");
}

/// The pointer waits for the soak, also without a next wave, and also in a later run.
#[test]
fn canaries_soak_for_the_pointer() {
    let all_new = || cluster([node("n1", "a")]);
    assert_eq!(canary_wave(&desired([pool_a(1)]), &all_new()), Some((0, vec!["n1".to_owned()])));
    assert_eq!(canary_wave(&repository(pool_a(1)), &all_new()), Some((60, vec!["n1".to_owned()])));
    let one = cluster([converged("n1")]);
    assert_eq!(canary_wave(&desired([pool_a(1)]), &one), None);
    assert_eq!(canary_wave(&repository(pool_a(1)), &one), Some((60, vec!["n1".to_owned()])));
    assert_eq!(time(&repository(pool_a(1)), &one), Some(PointerTime::AfterCanaries));
    let paused = repository(pool("a", 64, RolloutPolicy { paused: true, ..pool_a(1).policy }));
    assert_eq!(canary_wave(&paused, &one), None);
    let two = cluster([converged("n1"), converged("n2")]);
    assert_eq!(
        (canary_wave(&repository(pool_a(1)), &two), time(&repository(pool_a(1)), &two)),
        (None, Some(PointerTime::AtOnce))
    );
    let mut pointed = cluster([converged("n1")]);
    with_pointer(&mut pointed, "a", &rendered("a", 64));
    assert_eq!(canary_wave(&repository(pool_a(1)), &pointed), None);
}

/// Nodes that are not Ready soak as canaries in the next run.
#[test]
fn broken_nodes_are_no_canaries() {
    let down = Node { ready: Readiness::NotReady, ..node("n1", "a") };
    assert_eq!(time(&repository(pool_a(0)), &cluster([down.clone()])), Some(PointerTime::AfterCanaries));
    assert_eq!(time(&repository(pool_a(1)), &cluster([down])), None);
}

#[test]
fn stays_without_a_proof_in_this_run() {
    let repository = repository(pool_a(1));
    assert_eq!(time(&repository, &cluster([])), None, "no node");
    let deleting = Node { deleting: true, ..node("n1", "a") };
    assert_eq!(time(&repository, &cluster([deleting])), None, "no step");
}

#[test]
fn stays_if_it_names_the_target() {
    let repository = repository(pool_a(0));
    let mut observed = cluster([converged("n1")]);
    with_pointer(&mut observed, "a", &rendered("a", 64));
    assert_eq!(time(&repository, &observed), None);
    assert!(!planned(&repository, &observed, &options()).has_changes());
    with_pointer(&mut observed, "a", &rendered("a", 32));
    let pointer = moved(&repository, &observed, &options()).unwrap();
    assert_eq!(pointer.resource_version.as_deref(), Some("1"));
    assert_eq!(pointer.from.unwrap().only().unwrap().hash, rendered("a", 32).hash);
    assert_eq!(pointer.to.only().unwrap().config_map, rendered("a", 64).config_map);
    assert!(planned(&repository, &observed, &options()).has_changes());
}

/// A converged cluster with a pointer to this configuration, which another client has changed.
fn pointing(named: &Rendered, change: impl Fn(&mut FetchedConfigMap)) -> Observed {
    let mut observed = cluster([converged("n1")]);
    with_pointer(&mut observed, "a", named);
    observed.contents.values_mut().flatten().for_each(change);
    observed
}

/// Replaces the data, consistently but for the annotation.
fn forge(map: &mut FetchedConfigMap) {
    let mut other = observed([]);
    with_pointer(&mut other, "a", &rendered("a", 1));
    map.data = other.contents.into_values().flatten().next().unwrap().data;
}

/// New nodes would start with what another client wrote, while the annotation names the configuration of the repository.
/// A changed content must not be restored by a rollback, either.
#[test]
fn pointer_that_another_client_changed_moves_back() {
    let repository = repository(pool_a(0));
    type Change = fn(&mut FetchedConfigMap);
    let changes: [(Change, &str); 7] = [
        (forge, "its annotations record another hash"),
        (|map| drop(map.data.insert("kubelet".to_owned(), "maxPods: 1\n".to_owned())), "its content has the hash"),
        (|map| map.data.clear(), "its annotations record another hash"),
        (|map| map.annotations.clear(), "its annotations record another hash"),
        (|map| drop(map.data.insert("x".to_owned(), String::new())), "it has the key x"),
        (|map| map.binary_keys.push("x".to_owned()), "it has the key x"),
        (
            |map| drop(map.labels.insert(CONFIG_MAP_POOL_LABEL.to_owned(), "b".to_owned())),
            "it does not belong to pool a",
        ),
    ];
    for (change, fault) in changes {
        let observed = pointing(&rendered("a", 64), change);
        let plan = planned(&repository, &observed, &options());
        let pointer = plan.pools[0].pointer.clone().unwrap();
        assert_eq!((pointer.from, pointer.resource_version.as_deref()), (None, Some("1")), "{fault}");
        assert_eq!((pointer.to.only().unwrap().hash, pointer.when), (rendered("a", 64).hash, PointerTime::AtOnce));
        assert!(plan.has_changes());
        let name = "pool a: another client changed the pointer kube-system/nodecfg-pool-fleet-a: ";
        let [warning] = &plan.findings[..] else { panic!("{:?}", plan.findings) };
        assert!(warning.message.starts_with(&format!("{name}{fault}")), "{}", warning.message);
        let [problem] = &plan.changed_pointers()[..] else { panic!("{:?}", plan.changed_pointers()) };
        let text = format!("another client changed the pointer kube-system/nodecfg-pool-fleet-a of pool a: {fault}");
        assert!(problem.to_string().starts_with(&text), "{problem}");
        // The checker compares content and annotation by itself.
        if fault.contains("hash") {
            for hide in [
                |plan: &mut Plan| plan.pointer_changes.clear(),
                |plan: &mut Plan| plan.pools[0].pointer.as_mut().unwrap().from = Some(PoolPointer::to(None, None)),
                |plan: &mut Plan| plan.pools[0].pointer.as_mut().unwrap().resource_version = Some("0".to_owned()),
            ] {
                let mut hidden = plan.clone();
                hide(&mut hidden);
                assert_eq!(check(&hidden.identified(), &repository, &observed, &Scope::Everything).len(), 1);
            }
        }
    }
    let untouched = planned(&repository, &pointing(&rendered("a", 64), |_| ()), &options());
    assert_eq!(
        (untouched.changed_pointers(), untouched.findings, untouched.pools[0].pointer.clone()),
        (vec![], vec![], None)
    );
}

/// A pointer that this run cannot move is reported all the same.
#[test]
fn changed_pointer_of_a_paused_or_unproven_pool_is_reported() {
    let faults = |desired: &Desired, observed: &Observed| {
        let plan = planned(desired, observed, &options());
        (plan.pools[0].pointer.is_some(), plan.changed_pointers().len())
    };
    let paused = repository(pool("a", 64, RolloutPolicy { paused: true, ..policy(1) }));
    assert_eq!(faults(&paused, &pointing(&rendered("a", 64), forge)), (false, 1));
    let mut empty = pointing(&rendered("a", 64), forge);
    empty.nodes.clear();
    assert_eq!(faults(&repository(pool_a(0)), &empty), (false, 1));
    let one = Options { scope: Scope::Nodes([node_name("n1")].into()), ..options() };
    let scoped = planned(&repository(pool_a(0)), &pointing(&rendered("a", 64), forge), &one);
    assert_eq!(scoped.changed_pointers(), []);
}

/// No client can change an immutable ConfigMap.
#[test]
fn immutable_pointer_is_a_problem_once_it_must_move() {
    let immutable = |map: &mut FetchedConfigMap| map.immutable = true;
    let repository = repository(pool_a(0));
    let plan = planned(&repository, &pointing(&rendered("a", 64), immutable), &options());
    assert_eq!((plan.pools[0].pointer.is_some(), plan.changed_pointers().len()), (false, 1));
    assert!(plan.changed_pointers()[0].help().contains("kubectl -n kube-system delete configmap nodecfg-pool-fleet-a"));
    let problems = make(&repository, &pointing(&rendered("a", 32), immutable), &options()).unwrap_err();
    let name = "nodecfg-pool-fleet-a".to_owned();
    assert_eq!(problems, [Problem::PointerImmutable { namespace: namespace(), name }]);
}

/// Its creation fails, so that the ConfigMap of another client is not overwritten.
#[test]
fn config_map_without_labels_is_not_replaced() {
    let unlabeled = pointing(&rendered("a", 64), |map| map.labels.clear());
    let plan = planned(&repository(pool_a(0)), &unlabeled, &options());
    assert_eq!(plan.pools[0].pointer.as_ref().unwrap().resource_version, None);
    assert_eq!(plan.changed_pointers().len(), 1);
}

#[test]
fn stays_if_pool_is_paused_or_not_requested() {
    let observed = cluster([converged("n1")]);
    let plain = repository(pool_a(0));
    assert_eq!(time(&desired([pool_a(0)]), &observed), None, "spec.poolPointers is false");
    let paused = repository(pool("a", 64, RolloutPolicy { paused: true, ..policy(1) }));
    assert_eq!(time(&paused, &observed), None);
    let mut ordered = observed.clone();
    let pause = pause("x");
    ordered.orders.pauses.insert(pool_name("a"), pause);
    assert_eq!(time(&plain, &ordered), None);
    let one = Options { scope: Scope::Nodes([observed.nodes.keys().next().unwrap().clone()].into()), ..options() };
    assert_eq!(moved(&plain, &observed, &one), None);
    let whole = Options { scope: Scope::Pools([pool_name("a")].into()), ..options() };
    assert!(moved(&plain, &observed, &whole).is_some());
}

#[test]
fn local_pool_points_at_the_local_configuration() {
    let local = || repository(Pool { targets: PoolTarget::Local.into(), ..pool_a(0) });
    let mut observed = cluster([node("n1", "a")]);
    assert!(moved(&local(), &observed, &options()).unwrap().to.is_local());
    with_pointer(&mut observed, "a", &rendered("a", 64));
    let pointer = moved(&local(), &observed, &options()).unwrap();
    assert_eq!((pointer.to.is_local(), pointer.when), (true, PointerTime::AtOnce));
    for pointer in observed.contents.values_mut().flatten() {
        pointer.annotations.clear();
        pointer.data.clear();
    }
    assert_eq!(time(&local(), &observed), None);
}

/// The names of pointers of two fleets can be equal.
#[test]
fn pointer_of_another_fleet_is_a_problem() {
    let name = PoolPointer::name(&FleetName::new("fleet").unwrap(), &pool_name("a"));
    for named in [rendered("a", 32), rendered("a", 64)] {
        let observed = pointing(&named, |map| drop(map.labels.insert(FLEET_LABEL.to_owned(), "other".to_owned())));
        let problems = make(&repository(pool_a(0)), &observed, &options()).unwrap_err();
        let fleet = Some(FleetName::new("other").unwrap());
        assert_eq!(problems, [Problem::NameTaken { namespace: namespace(), name: name.clone(), fleet }]);
    }
}

/// In an incident, new nodes must not start with the configuration that is rolled back.
#[test]
fn rollback_moves_first_to_a_configuration_that_has_run() {
    let newer = rendered("a", 128).source(&namespace());
    let on_newer = |name: &str| on(node(name, "a"), &newer);
    let times_of = |canaries: u32, nodes: Vec<Node>| {
        let (repository, mut observed) = (repository(pool_a(canaries)), cluster(nodes));
        with_config_map(&mut observed, "a", &rendered("a", 128));
        let plan = planned(&repository, &observed, &options()).returning_pointers(&observed);
        assert_eq!(check_returning(&plan, &observed), []);
        let when = plan.pools[0].pointer.as_ref().map(|pointer| pointer.when);
        // The checker finds a move without a proof by itself.
        let mut first = plan.clone();
        if when == Some(PointerTime::AfterCanaries) {
            first.pools[0].pointer.as_mut().unwrap().when = PointerTime::AtOnce;
            assert_eq!(check_returning(&first, &observed).len(), 1);
        }
        when
    };
    let times = |nodes: [Node; 2]| times_of(1, nodes.into());
    let fell_back = |name: &str| {
        let mut node = on_newer(name);
        node.status.last_known_good = converged(name).status.active;
        node
    };
    assert_eq!(times([fell_back("n1"), on_newer("n2")]), Some(PointerTime::AtOnce));
    // A compromised node can report any last known good configuration.
    let joined = Node { content: joined("n1").content, ..fell_back("n1") };
    assert_eq!(times([joined, on_newer("n2")]), Some(PointerTime::AfterCanaries), "it assigned itself");
    let elsewhere = Node { labels: node("n1", "none").labels, ..fell_back("n1") };
    assert_eq!(times([elsewhere, on_newer("n2")]), Some(PointerTime::AfterCanaries), "it is in no pool");
    let few = vec![fell_back("n1"), on_newer("n2"), on_newer("n3")];
    assert_eq!(times_of(2, few), Some(PointerTime::AfterCanaries), "fewer than canaries");
    let enough = vec![fell_back("n1"), fell_back("n2"), on_newer("n3")];
    assert_eq!(times_of(2, enough), Some(PointerTime::AtOnce));
    assert_eq!(times_of(0, vec![on_newer("n1"), on_newer("n2")]), Some(PointerTime::AfterCanaries));
    assert_eq!(times([converged("n1"), on_newer("n2")]), Some(PointerTime::AtOnce));
    let on_trial = on_trial(node("n1", "a"), &rendered("a", 64).source(&namespace()));
    assert_eq!(times([on_trial, on_newer("n2")]), Some(PointerTime::AfterCanaries), "it can still fail");
    assert_eq!(times([on_newer("n1"), on_newer("n2")]), Some(PointerTime::AfterCanaries));
}

/// A node chooses most of its labels, so that several pools may select it.
#[test]
fn contested_node_proves_nothing_for_a_rollback() {
    let second = Pool { selector: LabelSelector::of_label("x", "y"), ..pool("b", 64, policy(1)) };
    let repository = Desired { pools: desired([pool_a(1), second]).pools, ..repository(pool_a(1)) };
    let when = |also_in_b: bool| {
        let newer = rendered("a", 128).source(&namespace());
        let [mut fell_back, other] = ["n1", "n2"].map(|name| on(node(name, "a"), &newer));
        fell_back.status.last_known_good = converged("n1").status.active;
        std::sync::Arc::make_mut(&mut fell_back.labels).extend(also_in_b.then(|| ("x".to_owned(), "y".to_owned())));
        let mut observed = cluster([fell_back, other]);
        with_config_map(&mut observed, "a", &rendered("a", 128));
        let plan = planned(&repository, &observed, &options()).returning_pointers(&observed);
        assert_eq!(check_returning(&plan, &observed), []);
        plan.pools[0].pointer.as_ref().map(|pointer| pointer.when)
    };
    assert_eq!((when(false), when(true)), (Some(PointerTime::AtOnce), Some(PointerTime::AfterCanaries)));
}

#[test]
fn checker_rejects_wrong_moves() {
    let repository = repository(pool_a(1));
    let observed = cluster([node("n1", "a"), node("n2", "a")]);
    let good = planned(&repository, &observed, &options());
    let problems = |change: &dyn Fn(&mut PointerMove)| -> Vec<String> {
        let mut plan = good.clone();
        change(plan.pools[0].pointer.as_mut().unwrap());
        check(&plan.identified(), &repository, &observed, &Scope::Everything).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        problems(&|pointer| pointer.when = PointerTime::AtOnce),
        ["pointer of pool a: moves at once although no node proves its content"]
    );
    assert_eq!(
        problems(&|pointer| pointer
            .to
            .configs
            .values_mut()
            .for_each(|config| config.kubelet = "maxPods: 1\n".to_owned())),
        ["pointer of pool a: does not name the content of its pool"]
    );
    assert_eq!(
        problems(&|pointer| pointer.to.configs.clear()),
        ["pointer of pool a: does not name the content of its pool"]
    );
    assert_eq!(
        problems(&|pointer| pointer.to.configs.values_mut().for_each(|config| config.placement = None)),
        ["pointer of pool a: has another placement than its pool"]
    );
    // Nodes that joined, and no more nodes than canaries, prove nothing.
    for (canaries, node) in [(0, joined("n1")), (1, adopted("n1"))] {
        let (proven, of_pool) = (
            with_adopted([adopted("n1"), adopted("n2")]),
            Desired { pools: desired([pool_a(canaries)]).pools, ..repository.clone() },
        );
        let plan = planned(&of_pool, &proven, &options());
        assert_eq!(plan.pools[0].pointer.as_ref().unwrap().when, PointerTime::AtOnce);
        let mut less = proven.clone();
        less.nodes.remove(&node_name("n2"));
        less.nodes.insert(node.name.clone(), node);
        let found = check(&plan, &of_pool, &less, &Scope::Everything);
        let problem = "moves at once although no node proves its content";
        assert!(found.iter().any(|found| found.problem == problem), "{found:?}");
    }
    let is_refused = |desired: &Desired, scope: &Scope| {
        let wrong = "moves although the pool was not requested, is paused or has no pointer";
        check(&good, desired, &observed, scope).iter().any(|found| found.problem == wrong)
    };
    assert!(is_refused(&desired([pool_a(1)]), &Scope::Everything));
    assert!(is_refused(&repository, &Scope::Nodes(observed.nodes.keys().cloned().collect())));
    assert!(is_refused(&repository, &Scope::Pools([pool_name("b")].into())));
}
