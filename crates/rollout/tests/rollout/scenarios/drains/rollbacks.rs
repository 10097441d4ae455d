//! Scenarios of drains before rollbacks.

use super::*;
use nodecfg_contract::UnreadableField;
use nodecfg_fleet::NodeOrder;
use nodecfg_observed::Obstacle;
use nodecfg_plan::fixtures::{ZONE, in_zone};

fn aborted() -> Input {
    Input::RollBackAll(crate::aborted())
}

/// Two released canaries that soak, and a node that waits for them.
fn soaking() -> Scenario {
    let mut scenario = rollout(RolloutPolicy { canary: canary(2, 600), ..drains(1) }, &["n1", "n2", "n3"]);
    assert_eq!(scenario.send(Input::Start), ["mark n1"]);
    assert_eq!(scenario.released("n1"), ["mark n2"]);
    assert_eq!(scenario.released("n2"), [""; 0]);
    scenario
}

/// Drains a marked node, rolls it back and releases it. Returns the commands that follow.
fn rolled_back(scenario: &mut Scenario, name: &str) -> Vec<String> {
    scenario.marked(name);
    scenario.pods(name, []);
    let sent = scenario.send(Input::Volumes(node_name(name), Ok(0)));
    assert_eq!(sent, [format!("unwatch {name}"), format!("roll back {name} drain")]);
    scenario.send(Input::RolledBack(node_name(name), Ok(())));
    assert_eq!(scenario.observe(name, |node| on(node, &source(OLD))), [format!("release {name}")]);
    scenario.end_release(name)
}

/// Nodes that stay on their target, each with the reason.
fn stay(scenario: &Scenario) -> Vec<String> {
    let failed = |event: &Event| match &event.progress {
        Progress::RollbackFailed { failure } => Some(format!("{} {failure}", event.node.as_ref().unwrap())),
        _ => None,
    };
    scenario.events.iter().filter_map(failed).collect()
}

#[test]
fn drains_before_rollbacks_keep_the_budget() {
    let mut scenario = soaking();
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
    assert_eq!(rolled_back(&mut scenario, "n1"), ["mark n2"]);
    assert_eq!(rolled_back(&mut scenario, "n2"), [""; 0]);
    assert!(scenario.is_finished());
    assert_eq!(scenario.outcome("n2").end, End::RolledBack);
}

#[test]
fn queued_node_that_left_the_cluster_is_not_drained() {
    let mut scenario = soaking();
    scenario.send(aborted());
    scenario.send(Input::Gone(node_name("n2")));
    assert_eq!(rolled_back(&mut scenario, "n1"), [""; 0]);
    assert!(scenario.is_finished());
}

#[test]
fn queued_node_that_another_program_claims_stays_on_its_target() {
    let unreadable = || UnreadableField { field: "status.conditions".to_owned(), reason: "not a time".to_owned() };
    for claim in [
        |node: Node, _: UnreadableField| Node { maintainer: Some(Maintainer::Kured), ..node },
        |node: Node, field| Node { obstacle: Some(Obstacle::Unreadable(field)), ready: Readiness::Unknown, ..node },
    ] {
        let mut scenario = soaking();
        scenario.send(aborted());
        scenario.observe("n2", |node| claim(node, unreadable()));
        assert_eq!(rolled_back(&mut scenario, "n1"), [""; 0]);
        assert_eq!(stay(&scenario), ["n2 not drained: another program maintains or deletes the node"]);
    }
}

#[test]
fn rollback_without_budget_is_abandoned_after_the_time_limit() {
    let mut scenario = soaking();
    scenario.observe("n3", |node| Node { ready: Readiness::NotReady, ..node });
    assert_eq!(scenario.send(aborted()), [""; 0]);
    assert_eq!(scenario.send(aborted()), [""; 0]);
    assert!(!scenario.is_finished());
    scenario.wait(299);
    assert_eq!(stay(&scenario), [""; 0]);
    assert_eq!(scenario.wait(1), [""; 0]);
    let no_budget = "not drained: unavailable nodes use up the budget (maxUnavailable)";
    assert_eq!(stay(&scenario), [format!("n1 {no_budget}"), format!("n2 {no_budget}")]);
    assert!(scenario.is_finished() && !scenario.is_complete());
}

/// A canary that failed because it lost its readiness too often, and is Ready now.
fn lost_canary() -> Scenario {
    let policy = RolloutPolicy { canary: canary(1, 600), ..drains(1) };
    let mut scenario = rollout(policy, &["n1", "n2"]);
    scenario.send(Input::Start);
    scenario.released("n1");
    for _ in 0..4 {
        scenario.observe("n1", |node| Node { ready: Readiness::NotReady, ..node });
        scenario.observe("n1", |node| Node { ready: Readiness::Ready, ..node });
    }
    scenario
}

#[test]
fn failed_node_does_not_delay_its_own_rollback() {
    let mut scenario = lost_canary();
    assert!(matches!(scenario.outcome("n1").end, End::Failed { .. }));
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
}

#[test]
fn node_that_was_not_drained_is_not_rolled_back() {
    let mode = Mode { rollback_on_failure: true, ..Mode::ASSIGN };
    let mut scenario = rollout_to(NEW, &cluster(&["n1"]), drains(1), mode);
    scenario.send(Input::Start);
    scenario.marked("n1");
    let sent = scenario.pods("n1", [Pod { controller: None, ..pod("a") }]);
    assert_eq!(sent, ["unwatch n1", "release n1"]);
}

#[test]
fn marked_node_is_rolled_back_without_another_drain() {
    let mode = Mode { rollback_on_failure: true, ..Mode::ASSIGN };
    let mut scenario = rollout_to(NEW, &cluster(&["n1"]), drains(1), mode);
    scenario.send(Input::Start);
    scenario.drain_and_assign("n1");
    scenario.observe("n1", |node| Node { ready: Readiness::NotReady, ..on(node, &source(NEW)) });
    assert_eq!(scenario.wait(300), ["roll back n1 drain"]);
}

#[test]
fn stop_does_not_end_the_drain_before_a_rollback() {
    let mode = Mode { rollback_on_failure: true, ..Mode::ASSIGN };
    let policy = RolloutPolicy { max_failures: 1, ..drains(1) };
    let mut scenario = rollout_to(NEW, &cluster(&["n1", "n2"]), policy, mode);
    scenario.send(Input::Start);
    assert_eq!(scenario.released("n1"), ["mark n2"]);
    assert_eq!(scenario.send(Input::Marked(node_name("n2"), Err("forbidden".to_owned()))), [""; 0]);
    let failing = |mut node: Node| {
        node.status.error = Some(error_text::VALIDATE.to_owned());
        node
    };
    assert_eq!(scenario.observe("n1", failing), ["mark n1"]);
    scenario.marked("n1");
    assert_eq!(scenario.pods("n1", [pod("a")]), ["evict n1 a"]);
    assert_eq!(scenario.send(Input::Stop(StopReason::Interrupted)), [""; 0]);
    assert_eq!(scenario.evicted("n1", "a", EvictionAnswer::Gone), ["volumes n1"]);
}

/// A change may need no drain although its rollback does.
#[test]
fn rollback_is_drained_and_prepared_by_its_own_class() {
    let (from, to) = ("maxPods: 64\n", "maxPods: 110\n");
    let policy = || RolloutPolicy { canary: canary(1, 600), ..drains(1) };
    let started = || {
        let mut scenario = rollout_to(to, &cluster_on(from, &["n1", "n2"]), policy(), Mode::ASSIGN);
        assert_eq!(scenario.send(Input::Start), ["assign n1"]);
        scenario.send(Input::Assigned(node_name("n1")));
        scenario
    };
    let mut running = started();
    running.observe("n1", |node| on(node, &source(to)));
    assert_eq!(running.send(aborted()), ["mark n1"]);
    running.marked("n1");
    running.pods("n1", []);
    let sent = running.send(Input::Volumes(node_name("n1"), Ok(0)));
    assert_eq!(sent, ["unwatch n1", "roll back n1 drain"]);
    // A node that does not run its target yet loses no pods.
    let mut assigned = started();
    assigned.observe("n1", |node| Node { source: Some(source(to)), ..node });
    assert_eq!(assigned.send(aborted()), ["roll back n1"]);
}

#[test]
fn abort_that_only_rolls_back_is_a_stop() {
    let mut scenario = soaking();
    scenario.send(Input::Gone(node_name("n3")));
    scenario.send(aborted());
    rolled_back(&mut scenario, "n1");
    rolled_back(&mut scenario, "n2");
    let stopped = scenario.machine.outcome().pools[&pool_name("a")].stopped.clone();
    assert!(matches!(stopped, Some(StopReason::Aborted { .. })), "{stopped:?}");
}

#[test]
fn rollback_in_progress_is_no_stall() {
    let mut scenario = soaking();
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
    scenario.marked("n1");
    scenario.pods("n1", [pod("a")]);
    scenario.evicted("n1", "a", EvictionAnswer::Evicted);
    scenario.wait(301);
    assert_eq!(stay(&scenario), [""; 0]);
    assert_eq!(scenario.send(Input::Pods(node_name("n1"), PodChange::Gone(pod("a").uid))), ["volumes n1"]);
    scenario.send(Input::Volumes(node_name("n1"), Ok(0)));
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    scenario.observe("n1", |node| on(node, &source(OLD)));
    assert_eq!(scenario.end_release("n1"), ["mark n2"]);
}

#[test]
fn node_that_settles_is_drained_before_its_rollback() {
    let (from, to) = ("maxPods: 64\n", "maxPods: 110\n");
    let mode = Mode { list_pods: true, ..Mode::ASSIGN };
    let mut scenario = rollout_to(to, &cluster_on(from, &["n1", "n2"]), drains(1), mode);
    assert_eq!(scenario.send(Input::Start), ["list n1"]);
    scenario.send(Input::PodsListed(node_name("n1"), Ok(vec![pod("a")])));
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.observe("n1", |node| on(node, &source(to)));
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
}

fn refuse_drain(scenario: &mut Scenario, name: &str) -> Vec<String> {
    scenario.marked(name);
    scenario.pods(name, [Pod { controller: None, ..pod("a") }])
}

fn failures(scenario: &Scenario) -> usize {
    scenario.progress().filter(|progress| matches!(progress, Progress::Failed { .. })).count()
}

/// The failed node counts against the budget, although it is Ready.
#[test]
fn failed_drain_before_a_rollback_keeps_the_failure_of_its_node() {
    for is_refused in [true, false] {
        let mut scenario = lost_canary();
        let failed = scenario.outcome("n1").end;
        assert!(matches!(&failed, End::Failed { failure: ConvergenceFailure::TimedOut { .. }, .. }), "{failed:?}");
        assert_eq!(scenario.send(aborted()), ["mark n1"]);
        assert_eq!(scenario.outcome("n1").end, failed, "a run that ends now states the failure");
        let requests = if is_refused {
            refuse_drain(&mut scenario, "n1")
        } else {
            scenario.marked("n1");
            scenario.observe("n1", unmarked)
        };
        assert_eq!(requests.first().map(String::as_str), Some("unwatch n1"));
        scenario.end_release("n1");
        assert_eq!(scenario.outcome("n1").end, failed);
        assert_eq!(scenario.machine.budget_of(&pool_name("a")), Some((1, 1)));
        assert_eq!((failures(&scenario), stay(&scenario).len()), (1, 1));
        assert!(scenario.is_finished());
    }
}

#[test]
fn soaking_canary_whose_rollback_fails_stays_converged() {
    let mut scenario = soaking();
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
    assert_eq!(refuse_drain(&mut scenario, "n1"), ["unwatch n1", "release n1"]);
    assert_eq!(scenario.end_release("n1"), ["mark n2"]);
    assert_eq!(rolled_back(&mut scenario, "n2"), [""; 0]);
    let ends = ["n1", "n2"].map(|name| scenario.outcome(name).end);
    assert_eq!((ends, failures(&scenario)), ([End::Converged, End::RolledBack], 0));
    assert!(scenario.is_finished());
    // The operator may have removed the pod that prevented the drain.
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
}

#[test]
fn abort_whose_only_rollback_fails_is_a_stop() {
    let mut scenario = soaking();
    scenario.send(Input::Gone(node_name("n3")));
    scenario.send(Input::Gone(node_name("n2")));
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
    refuse_drain(&mut scenario, "n1");
    scenario.end_release("n1");
    assert!(scenario.is_finished() && !scenario.is_complete());
}

#[test]
fn node_that_keeps_its_target_is_watched_and_not_drained_again() {
    let (from, to) = ("maxPods: 64\n", "maxPods: 110\n");
    for ready in [Readiness::Ready, Readiness::NotReady] {
        let mut scenario = rollout_to(to, &cluster_on(from, &["n1"]), drains(1), Mode::ASSIGN);
        assert_eq!(scenario.send(Input::Start), ["assign n1"]);
        scenario.send(Input::Assigned(node_name("n1")));
        let waits = |node| Node { ready: Readiness::NotReady, ..on(node, &source(to)) };
        scenario.observe("n1", waits);
        assert_eq!(scenario.send(aborted()), ["mark n1"]);
        scenario.wait(299);
        assert_eq!(refuse_drain(&mut scenario, "n1"), ["unwatch n1"]);
        // The time limit begins again, because the drain took most of it.
        assert_eq!(scenario.wait(299), [""; 0]);
        assert_eq!(scenario.observe("n1", |node| Node { ready, ..node }), [""; 0]);
        assert_eq!(scenario.wait(30), ["release n1"]);
        scenario.end_release("n1");
        match scenario.outcome("n1").end {
            End::Failed { failure, rolled_back: false } if ready == Readiness::NotReady => {
                assert_eq!(failure.to_string(), "timed out: active, Node not Ready yet");
            }
            end => assert_eq!((end, ready), (End::Converged, Readiness::Ready)),
        }
        assert_eq!(stay(&scenario).len(), 1);
        assert!(scenario.is_finished());
    }
}

#[test]
fn node_that_settled_converges_if_its_rollback_fails() {
    let (from, to) = ("maxPods: 64\n", "maxPods: 110\n");
    let mode = Mode { list_pods: true, ..Mode::ASSIGN };
    let mut scenario = rollout_to(to, &cluster_on(from, &["n1"]), drains(1), mode);
    scenario.send(Input::Start);
    scenario.send(Input::PodsListed(node_name("n1"), Ok(vec![pod("a")])));
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.observe("n1", |node| on(node, &source(to)));
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
    assert_eq!(refuse_drain(&mut scenario, "n1"), ["unwatch n1", "release n1"]);
    scenario.end_release("n1");
    assert_eq!(scenario.outcome("n1").end, End::Converged);
    assert!(scenario.is_finished() && !scenario.is_complete());
}

/// A node of the domain still runs the target, so that the domain has not ended.
#[test]
fn no_domain_soaks_while_the_rollback_of_a_tolerated_failure_is_queued() {
    // More pods need no drain, fewer do.
    let (few, many) = ("maxPods: 64\n", "maxPods: 110\n");
    let gpus = |number| ExtendedResources::from([("nvidia.com/gpu", number)]);
    let mut cluster = cluster_on(few, &["n1", "n2"]);
    for (node, zone) in cluster.nodes.values_mut().zip(["z1", "z2"]) {
        *node = Node { extended_resources: gpus(8), ..in_zone(node.clone(), Some(zone)) };
    }
    let settled = in_zone(on(node("n9", "a"), &source(many)), Some("z1"));
    cluster.nodes.insert(settled.name.clone(), settled);
    with_fields(&mut cluster, many);
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(60) };
    let policy = RolloutPolicy { order: Some(order), max_failures: 1, ..drains(1) };
    let mode = Mode { rollback_on_failure: true, ..Mode::ASSIGN };
    let mut scenario = rollout_to(many, &cluster, policy, mode);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    // Its devices are remembered until its assignment.
    scenario.observe("n1", |node| node);
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.observe("n1", |node| Node { extended_resources: gpus(0), ..on(node, &source(many)) });
    // Another node uses the budget, so that the drain before the rollback waits.
    scenario.observe("n9", |node| Node { ready: Readiness::NotReady, ..node });
    assert_eq!(scenario.wait(300), [""; 0]);
    assert!(matches!(scenario.outcome("n1").end, End::Failed { rolled_back: false, .. }));
    let soaks = |scenario: &Scenario| {
        scenario.progress().filter(|progress| matches!(progress, Progress::DomainSoaking { .. })).count()
    };
    scenario.wait(60);
    assert_eq!(soaks(&scenario), 0);
    assert_eq!(scenario.observe("n9", |node| Node { ready: Readiness::Ready, ..node }), ["mark n1"]);
    assert_eq!(soaks(&scenario), 0);
}

#[test]
fn stop_that_drains_a_node_for_its_rollback_is_reported() {
    let mut scenario = settling(drains(1));
    scenario.wait(30);
    scenario.send(aborted());
    assert_eq!(scenario.end_release("n1"), ["mark n1"], "it had not converged when the operator ordered it");
    let outcome = scenario.machine.outcome();
    assert_eq!(outcome.pools[&pool_name("a")].stopped, Some(crate::aborted()));
}

/// A node on its way back needs its mark no more than one that has been assigned.
#[test]
fn mark_lost_after_the_rollback_was_sent_changes_nothing() {
    let mut scenario = soaking();
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
    scenario.marked("n1");
    scenario.pods("n1", []);
    scenario.send(Input::Volumes(node_name("n1"), Ok(0)));
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    assert_eq!(scenario.observe("n1", unmarked), [""; 0]);
    assert_eq!(stay(&scenario), [""; 0]);
    scenario.observe("n1", |node| on(node, &source(OLD)));
    assert_eq!(scenario.outcome("n1").end, End::RolledBack);
}

/// The last event still shows the mark of a node that is released, so that it seems unavailable.
#[test]
fn released_node_needs_budget_for_its_rollback_before_its_event() {
    let mut scenario = soaking();
    scenario.observe("n3", |node| Node { ready: Readiness::NotReady, ..node });
    scenario.nodes.get_mut("n1").unwrap().drain_mark = Some(Box::new(mark("a")));
    scenario.observe("n1", |node| node);
    assert_eq!(scenario.send(aborted()), [""; 0]);
}

/// The node that was not drained keeps the reason of its failure.
#[test]
fn rollback_of_a_node_that_another_program_holds_fails() {
    let mut scenario = lost_canary();
    assert_eq!(scenario.send(aborted()), ["mark n1"]);
    assert_eq!(scenario.send(Input::Claimed(node_name("n1"), Maintainer::Medik8sLease)), [""; 0]);
    let failed = scenario.progress().any(|progress| matches!(progress, Progress::RollbackFailed { .. }));
    assert!(failed, "{:?}", scenario.events);
    assert!(!scenario.outcome("n1").marked);
}
