//! Tests of the status of nodes and pools in every state.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::arguments::selector::parse_selector;
use nodecfg_contract::error_text;
use nodecfg_fleet::{Desired, NodeShare, Pool, RolloutPolicy, Steps};
use nodecfg_observed::{CreationTime, Node, Observed, Obstacle};
use nodecfg_plan::fixtures::*;

pub(crate) fn at() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn compared(desired: &Desired, observed: &Observed, fleets: Vec<FleetOrders>) -> FleetStatus {
    build(observed, Some(&DesiredFleet { desired, namespace: &namespace() }), fleets, at())
}

pub(crate) fn orders(pauses: impl IntoIterator<Item = (&'static str, Pause)>) -> FleetOrders {
    FleetOrders {
        fleet: fleet(),
        namespace: "kube-system".to_owned(),
        rollout: None,
        orders: Orders {
            pauses: pauses.into_iter().map(|(pool, pause)| (pool_name(pool), pause)).collect(),
            ..Orders::default()
        },
        unknown: None,
    }
}

/// Creates the ConfigMap of a pool in the cluster and returns it as a source.
fn target(observed: &mut Observed, pool: &Pool) -> ConfigSource {
    let Some(rendered) = pool.rendered() else { panic!("no configuration") };
    with_config_map(observed, pool.name.as_str(), rendered);
    rendered.source(&namespace())
}

fn state_of(status: &FleetStatus, node: &str) -> State {
    status.nodes.iter().find(|status| status.node == node_name(node)).unwrap().state
}

#[test]
fn worst_state_comes_first_and_is_counted() {
    let (a, b) = (pool("a", 64, policy(1)), pool("b", 64, policy(1)));
    let mut observed = observed([]);
    let (on_a, on_b) = (target(&mut observed, &a), target(&mut observed, &b));
    let nodes = [
        on(node("a1", "a"), &on_a),
        on(node("b1", "b"), &on_b),
        refusing(node("b2", "b"), &on_b, error_text::VALIDATE),
        Node { ready: Readiness::NotReady, ready_since: Some(at()), ..on(node("b3", "b"), &on_b) },
        node("b4", "b"),
        node("x", "none"),
    ];
    observed.nodes.extend(nodes.map(|node| (node.name.clone(), node)));
    let status = compared(&desired([a, b]), &observed, Vec::new());
    let nodes: Vec<(&str, State)> = status.nodes.iter().map(|node| (node.node.as_str(), node.state)).collect();
    let order = [
        ("b2", State::Failed),
        ("b3", State::NotReady),
        ("b4", State::Behind),
        ("x", State::Unpooled),
        ("a1", State::Converged),
        ("b1", State::Converged),
    ];
    assert_eq!(nodes, order);
    assert_eq!(status.nodes[1].since, Some(at()));
    let pools: Vec<_> =
        status.pools.iter().map(|pool| (pool.pool.as_ref().map(PoolName::as_str), pool.worst)).collect();
    assert_eq!(pools, [(Some("b"), State::Failed), (None, State::Unpooled), (Some("a"), State::Converged)]);
    let worst = &status.pools[0];
    assert_eq!((worst.nodes, worst.converged, worst.percent(), worst.configurations), (4, 1, Some(25), 2));
    assert_eq!(status.states.values().sum::<usize>(), 6);
}

#[test]
fn drift_is_a_change_by_another_client() {
    let (a, b) = (pool("a", 64, policy(1)), pool("b", 65, policy(1)));
    let mut observed = observed([]);
    let (on_a, on_b) = (target(&mut observed, &a), target(&mut observed, &b));
    let stranger = source("by-hand");
    let mut earlier = on(node("a4", "a"), &on_a);
    if let Some(map) = earlier.status.active.as_mut().and_then(|active| active.config_map_mut()) {
        map.uid = Some("earlier".to_owned());
    }
    earlier.status.assigned = earlier.status.active.clone();
    let nodes = [
        on(node("a1", "a"), &on_a),
        on(node("a2", "a"), &stranger),
        on(node("a3", "a"), &on_b),
        earlier,
        on(node("x", "none"), &on_a),
    ];
    observed.nodes.extend(nodes.map(|node| (node.name.clone(), node)));
    let status = compared(&desired([a, b]), &observed, Vec::new());
    let drift = |name: &str| status.nodes.iter().find(|node| node.node == node_name(name)).unwrap().drift.clone();
    assert_eq!(drift("a1"), None);
    assert_eq!(drift("a2"), Some(Drift::Elsewhere { source: stranger, owner: Owner::Unknown }));
    assert_eq!(drift("a3"), Some(Drift::OtherPool { source: on_b, pool: pool_name("b") }));
    assert_eq!(drift("a4"), Some(Drift::OtherContent { source: on_a.clone() }));
    assert_eq!(drift("x"), Some(Drift::Unselected { source: on_a }));
    assert_eq!(status.states.get(&State::Drifted), Some(&4));
}

#[test]
fn desired_content_under_another_name_is_converged() {
    let a = pool("a", 64, policy(1));
    let mut observed = observed([]);
    let old = source("kept");
    let Some(rendered) = a.rendered() else { panic!("no configuration") };
    observed.contents.extend([fetched(&old, &rendered.canonical, false)]);
    let node = on(node("a1", "a"), &old);
    observed.nodes.insert(node.name.clone(), node);
    let status = compared(&desired([a]), &observed, Vec::new());
    assert_eq!((state_of(&status, "a1"), &status.nodes[0].verdict), (State::Converged, &Convergence::Converged));
}

#[test]
fn step_is_the_first_that_is_not_passed() {
    let shares = vec![NodeShare::Count(1), NodeShare::Percent(50)];
    let steps = Steps { shares, soak: std::time::Duration::ZERO };
    let a = pool("a", 64, RolloutPolicy { steps, ..policy(1) });
    let step = |begun: usize| {
        let mut cluster = observed([]);
        let target = target(&mut cluster, &a);
        for index in 0..6 {
            let node = node(&format!("n{index}"), "a");
            let node = if index < begun { on(node, &target) } else { node };
            cluster.nodes.insert(node.name.clone(), node);
        }
        let status = compared(&desired([a.clone()]), &cluster, Vec::new());
        status.pools[0].step.as_ref().map(ToString::to_string)
    };
    let text = |position, begun, limit| {
        Some(format!("{position} of 2: {begun} of at most {limit} nodes have or get the configuration"))
    };
    let all: Vec<Option<String>> = (0..=6).map(step).collect();
    let expected = [text(1, 0, 1), text(1, 1, 1), text(2, 2, 3), text(2, 3, 3), None, None, None];
    assert_eq!(all, expected);
}

#[test]
fn paused_pool_names_author_and_reason() {
    let (a, mut b) = (pool("a", 64, policy(1)), pool("b", 64, policy(1)));
    b.policy.paused = true;
    let observed = observed([node("a1", "a"), node("b1", "b")]);
    let pause = Pause { at: at(), ..pause("disks") };
    let status = compared(&desired([a, b]), &observed, vec![orders([("a", pause.clone())])]);
    assert_eq!((state_of(&status, "a1"), state_of(&status, "b1")), (State::Paused, State::Paused));
    let paused: Vec<_> = status.pools.iter().map(|pool| pool.paused.clone().unwrap()).collect();
    assert_eq!(paused[0], Paused { in_repository: false, order: Some(pause) });
    assert_eq!(paused[1], Paused { in_repository: true, order: None });
}

#[test]
fn node_without_support_is_blocked_only_with_a_target() {
    let a = pool("a", 64, policy(1));
    let silent = Node { obstacle: Some(Obstacle::AgentSilent), ..node("a1", "a") };
    let observed = observed([silent]);
    let status = compared(&desired([a]), &observed, Vec::new());
    assert_eq!(
        (state_of(&status, "a1"), &status.nodes[0].blocked),
        (State::Blocked, &Some(Why::Obstacle(Obstacle::AgentSilent)))
    );
    assert_eq!(state_of(&build(&observed, None, Vec::new(), at()), "a1"), State::Converged);
}

#[test]
fn compares_a_node_with_its_assignment_without_a_repository() {
    let a = pool("a", 64, policy(1));
    let mut observed = observed([]);
    let on_a = target(&mut observed, &a);
    let sync = format!("{}{}", error_text::SYNC_PREFIX, error_text::DOWNLOAD);
    let nodes = [
        on(node("n1", "a"), &on_a),
        Node { source: Some(on_a.clone()), ..node("n2", "a") },
        refusing(node("n3", "a"), &on_a, &sync),
        on(node("n4", "a"), &source("by-hand")),
        node("n5", "a"),
    ];
    observed.nodes.extend(nodes.map(|node| (node.name.clone(), node)));
    let status = build(&observed, None, Vec::new(), at());
    let states: Vec<State> = ["n1", "n2", "n3", "n4", "n5"].map(|node| state_of(&status, node)).into();
    let wanted = [State::Converged, State::InTransition, State::CannotFetch, State::Converged, State::Converged];
    assert_eq!(states, wanted);
    let pools: Vec<_> = status.pools.iter().map(|pool| (pool.pool.is_some(), pool.nodes)).collect();
    assert_eq!(pools, [(true, 3), (false, 2)]);
}

#[test]
fn selection_reports_unknown_names_and_keeps_whole_pools() {
    let a = pool("alpha", 64, policy(1));
    let observed = observed([node("n1", "alpha"), node("n2", "alpha")]);
    let status = compared(&desired([a]), &observed, Vec::new());
    let misspelt = Selection { pools: [pool_name("alhpa")].into(), ..Selection::default() };
    let known = misspelt.unknown(&status).map(|(kind, name, known)| (kind, name, known.contains("alpha")));
    assert_eq!(known, Some(("pool", "alhpa", true)));
    let one = Selection { nodes: [node_name("n2")].into(), ..Selection::default() };
    assert_eq!(one.unknown(&status), None);
    let narrowed = one.of(status, &observed);
    assert_eq!((narrowed.nodes.len(), narrowed.pools.len(), narrowed.pools[0].nodes), (1, 1, 2));
}

#[test]
fn selection_by_labels_narrows_pools_and_nodes() {
    let mut observed = observed([node("a1", "a"), node("a2", "a"), node("b1", "b"), node("x1", "none")]);
    for name in ["a2", "b1", "x1"] {
        let node = observed.nodes.get_mut(&node_name(name)).unwrap();
        Arc::make_mut(&mut node.labels).insert("zone".to_owned(), "1".to_owned());
    }
    let fleet = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
    let status = compared(&fleet, &observed, Vec::new());
    let selected = |zone: &str, pools: &[&str], nodes: &[&str]| {
        let selection = Selection {
            pools: pools.iter().map(|pool| pool_name(pool)).collect(),
            nodes: nodes.iter().map(|node| node_name(node)).collect(),
            labels: Some(parse_selector(zone).unwrap()),
        };
        let status = selection.of(status.clone(), &observed);
        let nodes: BTreeSet<String> = status.nodes.iter().map(|node| node.node.to_string()).collect();
        let pools: BTreeSet<_> = status.pools.iter().map(|pool| (pool.pool.clone(), pool.nodes)).collect();
        (nodes.into_iter().collect::<Vec<_>>().join(" "), pools.len(), status.states.values().sum::<usize>())
    };
    assert_eq!(selected("zone=1", &[], &[]), ("a2 b1 x1".to_owned(), 3, 3));
    assert_eq!(selected("zone=1", &["a"], &[]), ("a2".to_owned(), 1, 1));
    assert_eq!(selected("zone=1", &["a"], &["b1"]), ("a2 b1".to_owned(), 2, 2));
    assert_eq!(selected("!zone", &[], &["a1", "b1"]), ("a1".to_owned(), 1, 1));
    assert_eq!(selected("zone=2", &[], &[]), (String::new(), 0, 0));
}

#[test]
fn lists_changes_by_node() {
    let a = desired([pool("a", 64, policy(1))]);
    let before = compared(&a, &observed([node("n1", "a"), node("n2", "a"), node("n3", "a")]), vec![orders([])]);
    let down = Node { ready: Readiness::Unknown, ..node("n2", "a") };
    let pause = Pause { at: at(), ..pause("x") };
    let next = Desired { commit: Some(CommitId::new("0123456789".repeat(4)).unwrap()), ..a.clone() };
    let after = compared(&next, &observed([node("n1", "a"), down, node("n4", "a")]), vec![orders([("b", pause)])]);
    let listed: Vec<String> = changes(&before, &after)
        .iter()
        .map(|change| match change {
            Change::Node { node, was } => format!("{} {:?} {:?}", node.node, was.map(|was| was.state), node.state),
            Change::Gone { node, .. } => format!("{node} gone"),
            Change::Orders { orders } => format!("{} orders", orders.fleet),
            Change::Compared { compared } => format!("compared with {:?}", compared.commit),
        })
        .collect();
    let commit = format!("compared with {:?}", next.commit);
    let wanted = [commit.as_str(), "fleet orders", "n2 Some(Behind) NotReady", "n3 gone", "n4 None Behind"];
    assert_eq!(listed, wanted);
    assert!(changes(&before, &before).is_empty());
}

#[test]
fn nodes_without_any_configuration_are_new() {
    let a = pool("a", 64, policy(1));
    let mut observed = observed([]);
    let on_a = target(&mut observed, &a);
    let joined = |name, hours| {
        let created = CreationTime::new(at() - jiff::SignedDuration::from_hours(hours));
        Node { created, ..node(name, "a") }
    };
    let nodes = [
        joined("n1", 1),
        joined("n2", 2),
        on(joined("n3", 3), &on_a),
        Node { assigned_before: true, ..joined("n4", 4) },
        Node { labels: Arc::default(), ..joined("x", 5) },
        node("n5", "a"),
    ];
    observed.nodes.extend(nodes.map(|node| (node.name.clone(), node)));
    let status = compared(&desired([a.clone()]), &observed, Vec::new());
    let new: BTreeSet<&str> =
        status.nodes.iter().filter(|node| node.new_since.is_some()).map(|node| node.node.as_str()).collect();
    assert_eq!(new, BTreeSet::from(["n1", "n2"]));
    let of_pool = status.pools.iter().find(|pool| pool.pool.is_some()).unwrap().new_nodes.clone().unwrap();
    assert_eq!((of_pool.nodes, of_pool.oldest.as_str()), (2, "n2"));
    assert_eq!(of_pool.text(at()), "2 nodes never had its configuration, the oldest for 2h: n2");
    let skewed = of_pool.since - jiff::SignedDuration::from_hours(1);
    assert_eq!(NewNodes { nodes: 1, ..of_pool }.text(skewed), "1 node never had its configuration, for 0s: n2");

    // The local configuration is the image's.
    let local = Pool { targets: nodecfg_fleet::PoolTarget::Local.into(), ..a };
    let status = compared(&desired([local]), &observed, Vec::new());
    assert!(status.nodes.iter().all(|node| node.new_since.is_none()));
    assert!(status.pools.iter().all(|pool| pool.new_nodes.is_none()));
}

#[test]
fn first_domain_that_has_not_converged_is_on() {
    let order = nodecfg_fleet::NodeOrder { by: ZONE.to_owned(), soak: std::time::Duration::ZERO };
    let policy = RolloutPolicy { order: Some(order), ..policy(1) };
    let a = pool("a", 64, policy);
    let mut observed = observed([]);
    let on_a = target(&mut observed, &a);
    let desired = desired([a]);
    let nodes = [("n1", Some("b")), ("n2", Some("a")), ("n3", None), ("n4", Some("b"))];
    observed.nodes.extend(nodes.map(|(name, zone)| (node_name(name), in_zone(node(name, "a"), zone))));
    let domain = |observed: &Observed| {
        compared(&desired, observed, Vec::new()).pools[0].domain.as_ref().map(ToString::to_string)
    };
    assert_eq!(domain(&observed).as_deref(), Some("topology.kubernetes.io/zone=a (1 of 3): 0 of 1 converged"));
    for (name, expected) in [
        ("n2", Some("topology.kubernetes.io/zone=b (2 of 3): 0 of 2 converged")),
        ("n4", Some("topology.kubernetes.io/zone=b (2 of 3): 1 of 2 converged")),
        ("n1", Some("nodes without topology.kubernetes.io/zone (3 of 3): 0 of 1 converged")),
        ("n3", None),
    ] {
        let node = observed.nodes.remove(&node_name(name)).unwrap();
        observed.nodes.insert(node_name(name), on(node, &on_a));
        assert_eq!(domain(&observed).as_deref(), expected, "{name} converged");
    }
    // A node that failed needs a person, and is not on its way.
    let failed = refusing(in_zone(node("n2", "a"), Some("a")), &on_a, error_text::VALIDATE);
    observed.nodes.insert(node_name("n2"), failed);
    assert_eq!(domain(&observed), None);
}
