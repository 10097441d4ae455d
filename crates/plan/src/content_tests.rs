//! Tests of content in assignments: NodeConfigs name it by hash, Nodes by the uid of the ConfigMap.

use std::sync::Arc;

use super::fixtures::{
    desired, fetched, namespace, node, observed, on, options, policy, pool, rendered, replacing, with_config_map,
};
use super::{Action, LeftAlone, Plan, Problem, Scope, Why, check, make};
use crate::convergence::{Convergence, ConvergenceFailure};
use crate::{is_available, present_state};
use kubelet_config::risk::Class;
use nodecfg_contract::kubelet_values::OverriddenValue;
use nodecfg_contract::{Assignment, Placement, error_text};
use nodecfg_fleet::{Desired, Pool, PoolTarget};
use nodecfg_observed::{Node, NodeConfigList, NodeContent, Observed, Proof};

fn planned(desired: &Desired, observed: &Observed) -> Plan {
    let plan = make(desired, observed, &options()).expect("can be planned");
    assert_eq!(check(&plan, desired, observed, &Scope::Everything), [], "the checker accepts the plan");
    plan
}

/// Repository with one pool, whose content has this `maxPods`.
fn repository(max_pods: u32) -> Desired {
    desired([pool("a", max_pods, policy(1))])
}

/// Node with an agent, on the configuration with 64 pods. Its NodeConfig requires and reports these contents.
fn agent(assigned: Option<u32>, active: Option<u32>) -> Node {
    let hash = |pods: Option<u32>| pods.map(|pods| rendered("a", pods).hash);
    let content = NodeContent {
        assigned: hash(assigned),
        active: hash(active),
        max_disruption: None,
        self_assigned: false,
        ..replacing()
    };
    Node { content: Some(content), ..on(node("n1", "a"), &rendered("a", 64).source(&namespace())) }
}

fn cluster(node: Node) -> Observed {
    let mut cluster = observed([node]);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    cluster
}

fn left(plan: &Plan) -> &LeftAlone {
    plan.pools[0].left_alone.first().expect("is left unchanged")
}

#[test]
fn adds_missing_hash_without_a_step() {
    let cluster = cluster(agent(None, Some(64)));
    let plan = planned(&repository(64), &cluster);
    let left = left(&plan);
    assert_eq!((&left.why, plan.pools[0].steps().count()), (&Why::Converged, 0));
    let added = left.completion.as_ref().expect("adds the hash");
    assert_eq!((&added.from, added.to_hash), (&added.to, Some(rendered("a", 64).hash)));
    assert!(plan.has_changes());
    assert_eq!((plan.counts().complete, plan.counts().assign), (1, 0));
    // With the hash, nothing is left to do. A paused pool stays as it is.
    assert!(!planned(&repository(64), &self::cluster(agent(Some(64), Some(64)))).has_changes());
    let mut paused = pool("a", 64, policy(1));
    paused.policy.paused = true;
    assert!(!planned(&desired([paused]), &cluster).has_changes());
}

#[test]
fn checker_rejects_hash_of_content_that_the_node_does_not_run() {
    let cluster = cluster(agent(None, Some(64)));
    let edits: [fn(&mut LeftAlone); 3] = [
        |left| left.completion.as_mut().unwrap().to_hash = Some(rendered("a", 5).hash),
        |left| left.completion.as_mut().unwrap().to = None,
        |left| left.completion.as_mut().unwrap().uid = "other".to_owned(),
    ];
    for edit in edits {
        let mut plan = planned(&repository(64), &cluster);
        edit(&mut plan.pools[0].left_alone[0]);
        assert!(!check(&plan.identified(), &repository(64), &cluster, &Scope::Everything).is_empty());
    }
    let mut other = cluster.clone();
    other.nodes.values_mut().for_each(|node| node.content = Some(NodeContent::default()));
    assert!(!check(&planned(&repository(64), &cluster), &repository(64), &other, &Scope::Everything).is_empty());
}

#[test]
fn node_that_reports_other_content_is_not_converged() {
    for (assigned, active) in [(Some(64), Some(5)), (Some(64), None), (None, Some(5))] {
        let plan = planned(&repository(64), &cluster(agent(assigned, active)));
        let step = plan.pools[0].steps().next().unwrap_or_else(|| panic!("{assigned:?} {active:?}"));
        // A spec that requires the right content needs no write.
        assert_eq!(step.action == Action::Assign, assigned.is_none(), "{:?}", step.action);
    }
    // A spec that requires other content is written again, whatever the node reports.
    let plan = planned(&repository(64), &cluster(agent(Some(5), Some(5))));
    let step = plan.pools[0].steps().next().expect("a step");
    assert_eq!((&step.action, step.assignment.to_hash), (&Action::Assign, Some(rendered("a", 64).hash)));
}

#[test]
fn kubelet_that_reports_an_earlier_config_map_of_the_name_is_not_converged() {
    let source = rendered("a", 64).source(&namespace());
    let kubelet = || on(node("n1", "a"), &source);
    assert_eq!(left(&planned(&repository(64), &cluster(kubelet()))).why, Why::Converged);
    let mut recreated = cluster(kubelet());
    recreated.config_maps.values_mut().for_each(|map| map.uid = "recreated".to_owned());
    assert_eq!(planned(&repository(64), &recreated).pools[0].steps().count(), 1);
    // The fetched ConfigMap is newer than the list.
    let mut fetched_later = cluster(kubelet());
    let (key, map) = fetched(&source, &rendered("a", 64).canonical, true);
    let map = map.map(|map| nodecfg_contract::config_map::FetchedConfigMap { uid: "recreated".to_owned(), ..map });
    fetched_later.contents.insert(key, map);
    assert_eq!(planned(&repository(64), &fetched_later).pools[0].steps().count(), 1);
}

#[test]
fn adopts_only_a_node_that_reports_the_content() {
    // The pool's ConfigMap has another name.
    let desired = desired([pool("b", 64, policy(1))]);
    let on_a = |active| {
        let mut node = agent(None, active);
        node.labels = super::fixtures::node("n1", "b").labels;
        let mut cluster = cluster(node);
        let rendered = rendered("a", 64);
        cluster.contents.extend([fetched(&rendered.source(&namespace()), &rendered.canonical, true)]);
        cluster
    };
    let plan = planned(&desired, &on_a(Some(64)));
    assert!(matches!(left(&plan).why, Why::Adopted { .. }));
    assert!(left(&plan).completion.is_some());
    assert_eq!(planned(&desired, &on_a(Some(5))).pools[0].assignments(), 1);
    // Its kubelet runs another value of the content.
    let mut overridden = on_a(Some(64));
    let value = OverriddenValue { field: "maxPods".to_owned(), ..OverriddenValue::default() };
    for node in overridden.nodes.values_mut() {
        let proof = Proof::Known { overridden: vec![value.clone()], more: 0, above: Vec::new() };
        node.proof = Some(Arc::new(proof));
    }
    assert_eq!(planned(&desired, &overridden).pools[0].assignments(), 1);
}

#[test]
fn node_that_needs_a_drain_is_available_and_waits_for_its_turn() {
    let mut waiting = agent(Some(64), None);
    waiting.status = nodecfg_contract::ConfigStatus {
        error: Some(format!("{}{}maxPods", error_text::SYNC_PREFIX, error_text::NEEDS_DRAIN_PREFIX)),
        ..Default::default()
    };
    let refusal = ConvergenceFailure::NotPrepared { error: "needs a drained node: maxPods".to_owned() };
    assert_eq!(present_state(&waiting), Convergence::Failed(refusal));
    assert!(is_available(&waiting), "it runs its pods");
    // Its next assignment needs budget, as that of any available node.
    let mut cluster = cluster(waiting.clone());
    cluster.contents.extend([fetched(&rendered("a", 64).source(&namespace()), &rendered("a", 64).canonical, true)]);
    let plan = planned(&repository(110), &cluster);
    assert_ne!(plan.pools[0].waves[0].kind, super::WaveKind::Unavailable);
    // A pool that allows a drain now assigns it again.
    let mut allows = pool("a", 64, policy(1));
    allows.policy.allow_disruption = Class::Drain;
    let plan = planned(&desired([allows]), &cluster);
    let step = plan.pools[0].steps().next().expect("a step");
    assert_eq!((&step.action, step.assignment.max_disruption), (&Action::Assign, Class::Drain));
    assert!(matches!(
        planned(&repository(64), &cluster).pools[0].steps().next().expect("a step").action,
        Action::Await { .. }
    ));
}

/// The rollback names the hash, and an agent takes no other content.
#[test]
fn node_returns_only_to_content_with_a_known_hash() {
    let plan = |text: &str, assigned| {
        let mut cluster = cluster(agent(assigned, Some(64)));
        cluster.contents.extend([fetched(&rendered("a", 64).source(&namespace()), text, true)]);
        planned(&repository(110), &cluster).pools[0].steps().next().expect("a step").clone()
    };
    assert!(plan(&rendered("a", 64).canonical, None).can_return);
    assert!(plan("[", Some(64)).can_return);
    assert!(!plan("[", None).can_return, "the content cannot be parsed");
}

/// The cluster, with NodeConfigs that carry its assignments.
fn with_node_configs(mut cluster: Observed) -> Observed {
    cluster.versions.node_configs = Some(NodeConfigList::default());
    cluster
}

/// The node, whose NodeConfig has this placement, and whose agent reports that one.
fn placed(spec: Option<Placement>, status: Option<Placement>) -> Node {
    let node = agent(Some(64), Some(64));
    let content = node.content.map(|content| NodeContent { placement: spec, active_placement: status, ..content });
    Node { content, ..node }
}

/// Repository with one pool, which overlays the own configuration of its nodes.
fn overlaying() -> Desired {
    desired([Pool { placement: Some(Placement::Overlay), ..pool("a", 64, policy(1)) }])
}

#[test]
fn adds_missing_placement_that_the_agent_reports_without_a_step() {
    let overlay = Some(Placement::Overlay);
    let cluster = with_node_configs(cluster(placed(None, overlay)));
    let plan = planned(&overlaying(), &cluster);
    let left = left(&plan);
    assert_eq!((&left.why, plan.pools[0].steps().count()), (&Why::Converged, 0));
    let added = left.completion.as_ref().expect("adds the placement");
    assert_eq!((added.from_placement, added.to_placement, &added.from), (None, overlay, &added.to));
    assert_eq!((plan.counts().complete, plan.pools[0].disruption.unknown), (1, 0));
    let complete = with_node_configs(self::cluster(placed(overlay, overlay)));
    assert!(!planned(&overlaying(), &complete).has_changes());
}

/// The next value of a field that the configuration does not name is the node's own, which the plan does not know.
#[test]
fn another_placement_is_an_assignment_of_unknown_risk() {
    let (overlay, replace) = (Some(Placement::Overlay), Some(Placement::Replace));
    for spec in [None, replace] {
        let mut cluster = with_node_configs(cluster(placed(spec, replace)));
        let target = rendered("a", 64);
        cluster.contents.extend([fetched(&target.source(&namespace()), &target.canonical, true)]);
        let plan = planned(&overlaying(), &cluster);
        let step = plan.pools[0].steps().next().expect("a step");
        let assignment = &step.assignment;
        assert_eq!((&step.action, &assignment.from), (&Action::Assign, &assignment.to));
        assert_eq!((assignment.from_placement, assignment.to_placement), (spec, overlay));
        let back = assignment.clone().reversed();
        assert_eq!((back.from_placement, back.to_placement), (overlay, replace), "what the agent did before");
        assert_eq!((plan.pools[0].disruption.worst, plan.pools[0].disruption.unknown), (None, 1));
        let returned = desired([Pool { placement: replace, ..pool("a", 64, policy(1)) }]);
        let kept = planned(&returned, &cluster);
        assert_eq!((kept.pools[0].steps().count(), kept.counts().complete), (0, usize::from(spec.is_none())));
    }
}

#[test]
fn checker_rejects_another_placement() {
    let cluster = with_node_configs(cluster(placed(None, Some(Placement::Replace))));
    let edits: [fn(&mut Assignment); 2] = [
        |assignment| assignment.to_placement = Some(Placement::Replace),
        |assignment| assignment.from_placement = Some(Placement::Replace),
    ];
    for edit in edits {
        let mut plan = planned(&overlaying(), &cluster);
        edit(&mut plan.pools[0].waves[0].steps[0].assignment);
        let plan = plan.identified();
        assert_eq!(check(&plan, &overlaying(), &cluster, &Scope::Everything).len(), 1);
    }
}

/// It would ignore the placement, and report the content as active.
#[test]
fn agent_that_knows_no_placements_gets_none() {
    for spec in [None, Some(Placement::Overlay)] {
        let cluster = with_node_configs(cluster(placed(spec, None)));
        for placement in Placement::ALL.map(Some) {
            let desired = desired([Pool { placement, ..pool("a", 64, policy(1)) }]);
            assert_eq!(left(&planned(&desired, &cluster)).why, Why::AgentOutdated);
        }
        let mut local = overlaying();
        local.pools.values_mut().for_each(|pool| pool.targets = PoolTarget::Local.into());
        assert_eq!(planned(&local, &cluster).pools[0].assignments(), 1, "a reset needs no placement");
    }
}

#[test]
fn overlay_on_nodes_is_refused_with_its_fix() {
    let overlay = desired([Pool { placement: Some(Placement::Overlay), ..pool("a", 64, policy(1)) }]);
    let cluster = observed([node("n1", "a")]);
    let problems = make(&overlay, &cluster, &options()).expect_err("kubelets know no overlay");
    assert_eq!(problems.iter().map(Problem::code).collect::<Vec<_>>(), ["overlay-on-nodes"]);
    assert!(problems[0].help().contains("placement: replace") && problems[0].is_of_repository());
    planned(&repository(64), &cluster);
}

#[test]
fn pool_without_a_placement_overlays_unless_nodes_carry_the_assignments() {
    let node = placed(Some(Placement::Overlay), Some(Placement::Overlay));
    let moving = |mut cluster: Observed| {
        let target = rendered("a", 64);
        cluster.contents.extend([fetched(&target.source(&namespace()), &target.canonical, true)]);
        planned(&repository(110), &cluster).pools[0].steps().next().expect("a step").assignment.to_placement
    };
    assert_eq!(moving(with_node_configs(cluster(node.clone()))), Some(Placement::Overlay));
    assert_eq!(moving(cluster(Node { content: None, ..node })), Some(Placement::Replace));
}
