//! Scenario tests of drains, without a cluster.

use std::time::Duration;

use crate::scenario::Scenario;
use kubelet_config::risk::Class;
use nodecfg_contract::{ConfigSource, error_text};
use nodecfg_fleet::drain::{DrainMode, OnTimeout};
use nodecfg_fleet::{Desired, Pool, PoolTarget, RolloutPolicy};
use nodecfg_observed::{
    EvictionAnswer, ExtendedResources, Maintainer, Node, NodeContent, Observed, Pod, Readiness, RunningConfig,
};
use nodecfg_plan::convergence::{ConvergenceFailure, Waiting};
use nodecfg_plan::drain::DrainFailure;
use nodecfg_plan::drain::fixtures::{daemon, mark, pod};
use nodecfg_plan::fixtures::{
    canary, desired, fetched, namespace, node, node_name, observed, on, options, policy, pool, pool_name, refusing,
    rendered_of, with_config_map,
};
use nodecfg_plan::{Plan, Scope, check, decide_again, make};
use nodecfg_rollout::evictions::PodChange;
use nodecfg_rollout::machine::{Input, Mode};
use nodecfg_rollout::progress::{Event, Progress};
use nodecfg_rollout::{DrainRecord, End, NodeOutcome, StopReason};

mod budget;
mod marks;
mod plans;
mod progress;
mod requests;
mod rollbacks;
mod windows;

const OLD: &str = "cpuManagerPolicy: none\n";
const NEW: &str = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n";

fn drains(budget: u32) -> RolloutPolicy {
    RolloutPolicy { allow_disruption: Class::Drain, ..policy(budget) }
}

fn wants(fields: &str, policy: RolloutPolicy) -> Desired {
    let target = PoolTarget::Config(Box::new(rendered_of("a", fields)));
    desired([Pool { targets: target.into(), ..pool("a", 64, policy) }])
}

fn source(fields: &str) -> ConfigSource {
    rendered_of("a", fields).source(&namespace())
}

/// Nodes of the pool on the old configuration.
fn cluster(names: &[&str]) -> Observed {
    cluster_on(OLD, names)
}

/// Nodes of the pool on a configuration with these fields.
fn cluster_on(fields: &str, names: &[&str]) -> Observed {
    let mut cluster = observed(names.iter().map(|name| on(node(name, "a"), &source(fields))));
    with_fields(&mut cluster, fields);
    cluster
}

/// Adds the ConfigMap with these fields.
fn with_fields(cluster: &mut Observed, fields: &str) {
    let rendered = rendered_of("a", fields);
    with_config_map(cluster, "a", &rendered);
    cluster.contents.extend([fetched(&source(fields), &rendered.canonical, true)]);
}

fn planned(policy: RolloutPolicy, cluster: &Observed) -> Plan {
    planned_to(NEW, policy, cluster)
}

fn planned_to(fields: &str, policy: RolloutPolicy, cluster: &Observed) -> Plan {
    let desired = wants(fields, policy);
    let plan = make(&desired, cluster, &options()).unwrap();
    assert_eq!(check(&plan, &desired, cluster, &Scope::Everything), []);
    plan
}

/// A rollout whose only node was drained, runs its target, and settles.
fn settling(policy: RolloutPolicy) -> Scenario {
    let mut scenario = rollout(policy, &["n1"]);
    scenario.send(Input::Start);
    scenario.drain_and_assign("n1");
    scenario.observe("n1", |node| on(node, &source(NEW)));
    scenario
}

/// A rollout of the pool `a` from the old configuration.
fn rollout(policy: RolloutPolicy, names: &[&str]) -> Scenario {
    rollout_over(&cluster(names), policy)
}

fn rollout_over(cluster: &Observed, policy: RolloutPolicy) -> Scenario {
    rollout_to(NEW, cluster, policy, Mode::ASSIGN)
}

fn rollout_to(fields: &str, cluster: &Observed, policy: RolloutPolicy, mode: Mode) -> Scenario {
    Scenario::of(wants(fields, policy), cluster.clone(), mode)
}

impl Scenario {
    fn marked(&mut self, name: &str) -> Vec<String> {
        let sent = self.send(Input::Marked(node_name(name), Ok(())));
        assert_eq!(self.observe(name, |node| Node { drain_mark: Some(Box::new(mark("a"))), ..node }), [""; 0]);
        sent
    }

    fn pods(&mut self, name: &str, pods: impl IntoIterator<Item = Pod>) -> Vec<String> {
        self.send(Input::Pods(node_name(name), PodChange::Listed(pods.into_iter().collect())))
    }

    fn evicted(&mut self, name: &str, pod_name: &str, answer: EvictionAnswer) -> Vec<String> {
        self.send(Input::Evicted(node_name(name), pod(pod_name).uid, Ok(answer)))
    }

    /// Drains a marked node without pods and answers the assignment.
    fn drain_and_assign(&mut self, name: &str) {
        assert_eq!(self.marked(name), [format!("watch {name}")]);
        assert_eq!(self.pods(name, [daemon("proxy")]), [format!("volumes {name}")]);
        let sent = self.send(Input::Volumes(node_name(name), Ok(0)));
        assert_eq!(sent, [format!("unwatch {name}"), format!("assign {name} drain")]);
        self.assigned(name);
    }

    /// Drains, assigns and settles a node, and returns the commands after its release.
    fn released(&mut self, name: &str) -> Vec<String> {
        self.drain_and_assign(name);
        assert_eq!(self.see_on_target(name), [""; 0]);
        assert_eq!(self.wait(30), [format!("release {name}")]);
        self.end_release(name)
    }

    /// Answers the release of a node, and returns the commands that follow.
    fn end_release(&mut self, name: &str) -> Vec<String> {
        let mut sent = self.send(Input::Released(node_name(name), Ok(())));
        sent.extend(self.observe(name, unmarked));
        sent
    }

    fn drain_failure(&self, name: &str) -> DrainFailure {
        match self.end(name) {
            End::Failed { failure: ConvergenceFailure::Drain { failure }, rolled_back: false } => failure,
            other => panic!("{other:?}"),
        }
    }
}

fn unmarked(node: Node) -> Node {
    Node { drain_mark: None, ..node }
}

#[test]
fn pod_that_keeps_its_exclusive_cpus_fails_the_node_and_stops_the_pool() {
    let mut scenario = rollout(drains(1), &["n1", "n2"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    let proxy = Pod { exclusive_cpus: true, ..daemon("proxy") };
    assert_eq!(scenario.pods("n1", [proxy.clone()]), ["volumes n1"]);
    scenario.send(Input::Volumes(node_name("n1"), Ok(0)));
    scenario.send(Input::Assigned(node_name("n1")));
    assert_eq!(scenario.observe("n1", |node| on(node, &source(NEW))), ["delete n1 proxy"]);
    let error = "cannot delete pod kube-system/proxy".to_owned();
    assert_eq!(scenario.send(Input::PodDeleted(node_name("n1"), proxy.uid, Err(error))), ["release n1"]);
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    let outcome = scenario.outcome("n1");
    let End::Failed { failure, .. } = &outcome.end else { panic!("{outcome:?}") };
    let text = "DaemonSet pod with exclusive CPUs not deleted: cannot delete pod kube-system/proxy";
    assert_eq!((failure.to_string().as_str(), outcome.marked), (text, false));
    assert_eq!(scenario.outcome("n2").end, End::NotStarted);
}

#[test]
fn node_is_marked_evicted_assigned_settled_and_released() {
    let mut scenario = rollout(drains(1), &["n1", "n2"]);
    assert_eq!(scenario.send(Input::Start), ["mark n1"]);
    assert_eq!(scenario.marked("n1"), ["watch n1"]);
    let proxy = Pod { claims: 1, exclusive_cpus: true, ..daemon("proxy") };
    assert_eq!(scenario.pods("n1", [pod("a"), pod("b"), proxy.clone()]), ["evict n1 a", "evict n1 b"]);
    assert_eq!(scenario.evicted("n1", "a", EvictionAnswer::Evicted), [""; 0]);
    assert_eq!(scenario.send(Input::Pods(node_name("n1"), PodChange::Gone(pod("a").uid))), [""; 0]);
    let reason = "The disruption budget web needs 1".to_owned();
    assert_eq!(scenario.evicted("n1", "b", EvictionAnswer::Blocked { reason }), [""; 0]);
    assert_eq!(scenario.wait(5), ["evict n1 b"]);
    assert_eq!(scenario.evicted("n1", "b", EvictionAnswer::Gone), ["volumes n1"]);
    // The DaemonSet pod keeps one volume.
    assert_eq!(scenario.send(Input::Volumes(node_name("n1"), Ok(2))), [""; 0]);
    assert_eq!(scenario.wait(5), ["volumes n1"]);
    assert_eq!(scenario.send(Input::Volumes(node_name("n1"), Ok(1))), ["unwatch n1", "assign n1 drain"]);
    assert_eq!(scenario.shown, ["n1 Drained"]);
    assert_eq!(scenario.send(Input::Assigned(node_name("n1"))), [""; 0]);
    assert_eq!(scenario.observe("n1", |node| on(node, &source(NEW))), ["delete n1 proxy"]);
    assert_eq!(scenario.wait(30), [""; 0], "the pod with the old CPUs is still there");
    assert_eq!(scenario.send(Input::PodDeleted(node_name("n1"), proxy.uid, Ok(()))), ["release n1"]);
    assert_eq!(scenario.outcome("n1").end, End::InFlight);
    assert_eq!(scenario.send(Input::Released(node_name("n1"), Ok(()))), [""; 0], "n1 still has the taint");
    assert_eq!(scenario.observe("n1", |node| Node { drain_mark: None, ..node }), ["mark n2"]);
    assert!(matches!(scenario.outcome("n1"), NodeOutcome { end: End::Converged, marked: false, .. }));
    let blocked = Some("pod web/b: The disruption budget web needs 1".to_owned());
    assert_eq!(scenario.outcome("n1").drain, Some(DrainRecord { evicted: 1, seconds: Some(10.0), blocked }));
    assert_eq!(scenario.outcome("n2").drain, Some(DrainRecord::default()), "its drain has not ended");
    assert_eq!(
        scenario.waits(),
        [
            "n1: draining",
            "n1: draining, 2 pods left",
            "n1: draining, 1 pod left",
            "n1: draining, 1 pod left; blocked: pod web/b: The disruption budget web needs 1",
            "n1: drained, 1 volume still attached",
            "n1: active, settling before new pods may start",
            "n2: draining",
        ]
    );
}

#[test]
fn node_settles_only_while_it_is_ready() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.drain_and_assign("n1");
    assert_eq!(scenario.observe("n1", |node| on(node, &source(NEW))), [""; 0]);
    scenario.wait(20);
    scenario.observe("n1", |node| Node { ready: Readiness::NotReady, ..node });
    assert_eq!(scenario.wait(20), [""; 0]);
    scenario.observe("n1", |node| Node { ready: Readiness::Ready, ..node });
    assert_eq!(scenario.wait(29), [""; 0]);
    assert_eq!(scenario.wait(1), ["release n1"]);
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    assert!(scenario.is_finished());
    assert!(scenario.is_complete());
}

/// A node reports its own readiness, and must not keep a run alive with it.
#[test]
fn node_that_comes_and_goes_does_not_settle_forever() {
    let mut scenario = settling(drains(1));
    for losses in 1..=4 {
        scenario.wait(20);
        let lost = scenario.observe("n1", |node| Node { ready: Readiness::NotReady, ..node });
        assert_eq!(lost, if losses == 4 { vec!["release n1"] } else { vec![] }, "{losses}");
        scenario.observe("n1", |node| Node { ready: Readiness::Ready, ..node });
    }
    assert!(matches!(scenario.outcome("n1").end, End::Failed { .. }));
}

#[test]
fn node_that_is_lost_late_in_a_long_settle_time_fails() {
    let mut policy = drains(1);
    policy.drain.settle = Duration::from_secs(1_000);
    let mut scenario = settling(policy);
    assert_eq!(scenario.wait(900), [""; 0]);
    scenario.observe("n1", |node| Node { ready: Readiness::NotReady, ..node });
    assert_eq!(scenario.wait(299), [""; 0]);
    assert_eq!(scenario.wait(1), ["release n1"]);
    assert!(matches!(scenario.outcome("n1").end, End::Failed { .. }));
}

#[test]
fn node_settles_only_when_its_devices_are_back() {
    let gpus = |number| ExtendedResources::from([("nvidia.com/gpu", number)]);
    let mut cluster = cluster(&["n1"]);
    cluster.nodes.values_mut().for_each(|node| node.extended_resources = gpus(8));
    let mut scenario = rollout_over(&cluster, drains(1));
    scenario.send(Input::Start);
    scenario.drain_and_assign("n1");
    scenario.observe("n1", |node| Node { extended_resources: gpus(0), ..on(node, &source(NEW)) });
    assert_eq!(scenario.waits().last().unwrap(), "n1: active, waiting for nvidia.com/gpu: 0 of 8 are back");
    assert_eq!(scenario.wait(60), [""; 0]);
    scenario.observe("n1", |node| Node { extended_resources: gpus(8), ..node });
    assert_eq!(scenario.wait(29), [""; 0]);
    assert_eq!(scenario.wait(1), ["release n1"]);
}

#[test]
fn pods_that_stay_are_checked_before_the_release() {
    let unready = Pod { ready: false, ..daemon("proxy") };
    for (pods, fails) in [(vec![daemon("proxy")], false), (vec![unready], true)] {
        let mode = Mode { list_pods: true, ..Mode::ASSIGN };
        let mut scenario = rollout_to(NEW, &cluster(&["n1"]), drains(1), mode);
        assert_eq!(scenario.send(Input::Start), ["mark n1"], "the pods are known from the drain");
        scenario.drain_and_assign("n1");
        scenario.observe("n1", |node| on(node, &source(NEW)));
        assert_eq!(scenario.waits().last().unwrap(), "n1: active, settling before new pods may start");
        assert_eq!(scenario.wait(29), [""; 0]);
        assert_eq!(scenario.wait(1), ["list n1"]);
        assert_eq!(scenario.send(Input::PodsListed(node_name("n1"), Ok(pods))), ["release n1"]);
        scenario.send(Input::Released(node_name("n1"), Ok(())));
        match scenario.outcome("n1").end {
            End::Failed { failure, .. } if fails => {
                assert_eq!(failure.to_string(), "1 pod is not Ready again: web/proxy");
            }
            end => assert_eq!((end, fails), (End::Converged, false)),
        }
    }
}

#[test]
fn node_that_is_never_ready_again_fails_and_is_released() {
    let mut scenario = settling(drains(1));
    scenario.observe("n1", |node| Node { ready: Readiness::NotReady, ..node });
    scenario.wait(299);
    assert_eq!(scenario.wait(1), ["release n1"]);
    let timed_out = ConvergenceFailure::TimedOut { waiting: Waiting::NotReady };
    assert_eq!(scenario.outcome("n1").end, End::Failed { failure: timed_out, rolled_back: false });
}

#[test]
fn refused_drain_evicts_nothing_and_stops_the_pool() {
    let mut scenario = rollout(drains(1), &["n1", "n2"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    let sent = scenario.pods("n1", [pod("a"), Pod { controller: None, ..pod("b") }]);
    assert_eq!(sent, ["unwatch n1", "release n1"]);
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    scenario.observe("n1", |node| Node { drain_mark: None, ..node });
    assert!(matches!(scenario.drain_failure("n1"), DrainFailure::Refused { pods: 1, .. }));
    assert_eq!(scenario.outcome("n2").end, End::NotStarted);
    assert!(scenario.is_finished());
    assert_eq!(scenario.machine.budget_of(&pool_name("a")), Some((0, 1)), "the node runs its pods");
}

#[test]
fn overdue_drain_releases_or_holds_the_node() {
    for (on_timeout, sent, marked) in
        [(OnTimeout::Release, vec!["unwatch n1", "release n1"], false), (OnTimeout::Hold, vec!["unwatch n1"], true)]
    {
        let mut policy = drains(1);
        policy.drain.on_timeout = on_timeout;
        policy.drain.timeout = Duration::from_secs(60);
        let mut scenario = rollout(policy, &["n1"]);
        scenario.send(Input::Start);
        scenario.marked("n1");
        scenario.pods("n1", [pod("a")]);
        scenario.evicted("n1", "a", EvictionAnswer::Evicted);
        scenario.wait(59);
        assert_eq!(scenario.wait(1), sent);
        if !marked {
            scenario.send(Input::Released(node_name("n1"), Ok(())));
        }
        assert_eq!(scenario.drain_failure("n1").to_string(), "drain timed out: pod web/a is still there");
        assert_eq!(scenario.outcome("n1").marked, marked);
        let record = DrainRecord { evicted: 1, seconds: Some(60.0), blocked: None };
        assert_eq!(scenario.outcome("n1").drain, Some(record));
        assert!(scenario.is_finished());
        assert!(!scenario.is_complete());
    }
}

#[test]
fn stop_releases_nodes_that_are_not_assigned() {
    let mut scenario = rollout(drains(3), &["n1", "n2", "n3"]);
    assert_eq!(scenario.send(Input::Start), ["mark n1", "mark n2", "mark n3"]);
    scenario.drain_and_assign("n1");
    scenario.marked("n2");
    assert_eq!(scenario.pods("n2", [pod("a")]), ["evict n2 a"]);
    assert_eq!(scenario.send(Input::Stop(StopReason::Interrupted)), ["unwatch n2", "release n2"]);
    assert_eq!(scenario.evicted("n2", "a", EvictionAnswer::Evicted), [""; 0]);
    // The mark of n3 was unanswered.
    assert_eq!(scenario.send(Input::Marked(node_name("n3"), Ok(()))), ["release n3"]);
    scenario.send(Input::Released(node_name("n2"), Ok(())));
    scenario.send(Input::Released(node_name("n3"), Err("forbidden".to_owned())));
    assert!(!scenario.is_finished(), "n1 is in transition");
    scenario.observe("n1", |node| on(node, &source(NEW)));
    assert_eq!(scenario.wait(30), ["release n1"]);
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    assert!(scenario.is_finished());
    assert_eq!(scenario.outcome("n2").end, End::NotStarted);
    assert_eq!((scenario.outcome("n3").end, scenario.outcome("n3").marked), (End::NotStarted, true));
}

#[test]
fn lost_mark_ends_the_drain_and_leaves_the_node_alone() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    scenario.pods("n1", [pod("a")]);
    assert_eq!(scenario.observe("n1", |node| Node { drain_mark: None, ..node }), ["unwatch n1"]);
    assert_eq!(scenario.drain_failure("n1"), DrainFailure::MarkLost);
    assert!(scenario.is_finished());
}

#[test]
fn node_that_another_program_claims_is_released() {
    let mut scenario = rollout(drains(1), &["n1", "n2"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    scenario.pods("n1", [pod("a")]);
    let claimed = scenario.observe("n1", |node| Node { maintainer: Some(Maintainer::Kured), ..node });
    assert_eq!(claimed, ["unwatch n1", "release n1"]);
    assert!(matches!(scenario.outcome("n1").end, End::LeftAlone { .. }));
}

#[test]
fn failed_node_is_rolled_back_while_it_is_drained() {
    let mode = Mode { rollback_on_failure: true, ..Mode::ASSIGN };
    let mut scenario = rollout_to(NEW, &cluster(&["n1"]), drains(1), mode);
    scenario.send(Input::Start);
    scenario.drain_and_assign("n1");
    let sent = scenario.observe("n1", |node| refusing(node, &source(NEW), error_text::VALIDATE));
    assert_eq!(sent, ["roll back n1 drain"]);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    assert_eq!(scenario.observe("n1", |node| on(node, &source(OLD))), ["release n1"]);
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    assert!(matches!(scenario.outcome("n1").end, End::Failed { rolled_back: true, .. }));
}

#[test]
fn released_canary_is_drained_again_before_its_rollback() {
    let mut policy = drains(1);
    policy.canary = canary(1, 600);
    let mut scenario = rollout(policy, &["n1", "n2"]);
    scenario.send(Input::Start);
    scenario.drain_and_assign("n1");
    scenario.observe("n1", |node| on(node, &source(NEW)));
    assert_eq!(scenario.wait(30), ["release n1"]);
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    scenario.observe("n1", |node| Node { drain_mark: None, ..node });
    assert_eq!(scenario.send(Input::RollBackAll(crate::aborted())), ["mark n1"]);
    scenario.marked("n1");
    assert_eq!(scenario.pods("n1", [pod("a")]), ["evict n1 a"]);
    assert_eq!(scenario.evicted("n1", "a", EvictionAnswer::Gone), ["volumes n1"]);
    assert_eq!(scenario.send(Input::Volumes(node_name("n1"), Ok(0))), ["unwatch n1", "roll back n1 drain"]);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    assert_eq!(scenario.observe("n1", |node| on(node, &source(OLD))), ["release n1"]);
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    assert_eq!(scenario.outcome("n1").end, End::RolledBack);
    assert!(scenario.is_finished());
}

/// Two requests for marks would be answered in any order, and the refusal of one would hide the mark of the other. The
/// drain goes on with the mark that was requested before the hold.
#[test]
fn node_gets_no_second_mark_before_the_first_is_answered() {
    for (answer, sent) in [(Ok(()), vec!["watch n1"]), (Err("forbidden".to_owned()), vec!["mark n1"])] {
        let mut scenario = rollout(drains(1), &["n1"]);
        assert_eq!(scenario.send(Input::Start), ["mark n1"]);
        for maintainer in [Some(Maintainer::Kured), None] {
            assert_eq!(scenario.observe("n1", |node| Node { maintainer, ..node }), [""; 0]);
        }
        assert_eq!(scenario.send(Input::Marked(node_name("n1"), answer)), sent);
    }
}
