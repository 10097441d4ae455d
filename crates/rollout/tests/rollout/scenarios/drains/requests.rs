//! Scenarios of requests for pods, volumes and devices.

use super::*;

#[test]
fn refused_request_ends_the_drain() {
    let marked = || {
        let mut scenario = rollout(drains(1), &["n1"]);
        scenario.send(Input::Start);
        scenario.marked("n1");
        scenario
    };
    let refused = || "forbidden".to_owned();
    let mut evicting = marked();
    evicting.pods("n1", [pod("a")]);
    let sent = evicting.send(Input::Evicted(node_name("n1"), pod("a").uid, Err(refused())));
    assert_eq!(sent, ["unwatch n1", "release n1"]);
    assert_eq!(evicting.drain_failure("n1"), DrainFailure::Request { error: refused() });
    // Unknown volumes may still be attached.
    let mut counting = marked();
    assert_eq!(counting.pods("n1", []), ["volumes n1"]);
    let sent = counting.send(Input::Volumes(node_name("n1"), Err(refused())));
    assert_eq!(sent, ["unwatch n1", "release n1"]);
    assert_eq!(counting.drain_failure("n1"), DrainFailure::Request { error: refused() });
}

#[test]
fn events_of_an_ended_drain_have_no_effect() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.drain_and_assign("n1");
    assert_eq!(scenario.pods("n1", [pod("a")]), [""; 0]);
    assert_eq!(scenario.send(Input::Volumes(node_name("n1"), Ok(1))), [""; 0]);
    let refused = Err("forbidden".to_owned());
    assert_eq!(scenario.send(Input::Evicted(node_name("n1"), pod("a").uid, refused)), [""; 0]);
    assert_eq!(scenario.outcome("n1").end, End::InFlight);
}

#[test]
fn volumes_are_counted_by_one_request_at_a_time() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    assert_eq!(scenario.pods("n1", [daemon("proxy")]), ["volumes n1"]);
    let changed = PodChange::Present(Box::new(daemon("proxy")));
    assert_eq!(scenario.send(Input::Pods(node_name("n1"), changed)), [""; 0]);
    assert_eq!(scenario.send(Input::Volumes(node_name("n1"), Ok(0))), ["unwatch n1", "assign n1 drain"]);
}

/// No other pod is deleted past its PodDisruptionBudget.
#[test]
fn only_daemon_pods_with_exclusive_cpus_are_deleted() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    let plugin = Pod { exclusive_cpus: true, ..daemon("plugin") };
    let tolerant = Pod { exclusive_cpus: true, tolerates_drain: true, ..pod("tolerant") };
    let mirror = Pod { exclusive_cpus: true, mirror: true, ..pod("etcd") };
    scenario.pods("n1", [daemon("proxy"), plugin, tolerant, mirror]);
    scenario.send(Input::Volumes(node_name("n1"), Ok(0)));
    scenario.send(Input::Assigned(node_name("n1")));
    assert_eq!(scenario.observe("n1", |node| on(node, &source(NEW))), ["delete n1 plugin"]);
}

fn gpus(number: u64) -> ExtendedResources {
    ExtendedResources::from([("nvidia.com/gpu", number)])
}

/// Begins to drain a node with devices.
fn with_eight_gpus() -> Scenario {
    let mut cluster = cluster(&["n1"]);
    cluster.nodes.values_mut().for_each(|node| node.extended_resources = gpus(8));
    let mut scenario = rollout_over(&cluster, drains(1));
    scenario.send(Input::Start);
    scenario
}

#[test]
fn node_settles_only_with_as_many_devices_as_before() {
    let mut scenario = with_eight_gpus();
    scenario.drain_and_assign("n1");
    scenario.observe("n1", |node| Node { extended_resources: gpus(7), ..on(node, &source(NEW)) });
    assert_eq!(scenario.wait(30), [""; 0]);
    scenario.observe("n1", |node| Node { extended_resources: gpus(8), ..node });
    assert_eq!(scenario.wait(30), ["release n1"]);
}

/// A device plugin may be the pod that must start again.
#[test]
fn pods_with_old_cpus_are_deleted_before_the_devices_are_back() {
    let mut scenario = with_eight_gpus();
    scenario.marked("n1");
    scenario.pods("n1", [Pod { exclusive_cpus: true, ..daemon("plugin") }]);
    scenario.send(Input::Volumes(node_name("n1"), Ok(0)));
    scenario.send(Input::Assigned(node_name("n1")));
    let sent = scenario.observe("n1", |node| Node { extended_resources: gpus(0), ..on(node, &source(NEW)) });
    assert_eq!(sent, ["delete n1 plugin"]);
}

/// An assignment that is decided again may need a drain that the plan did not need.
#[test]
fn new_decision_drains_the_node_before_its_assignment() {
    let (from, to) = ("clusterDNS: [10.0.0.9]\n", "clusterDNS: [10.0.0.10]\n");
    let policy = || RolloutPolicy { canary: canary(1, 600), ..drains(1) };
    let other = format!("{to}{NEW}");
    let mut cluster = cluster_on(from, &["n1"]);
    let mut scenario = rollout_to(to, &cluster, policy(), Mode::ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    with_fields(&mut cluster, &other);
    let changed = on(scenario.nodes["n1"].clone(), &source(&other));
    let decision = decide_again(&wants(to, policy()), &cluster, &options(), &pool_name("a"), &changed);
    scenario.nodes.insert("n1".to_owned(), changed.clone());
    let update = Some(Box::new((changed, decision)));
    assert_eq!(scenario.send(Input::Changed(node_name("n1"), update)), ["mark n1"]);
    scenario.marked("n1");
    scenario.pods("n1", [pod("a")]);
    // A hold does not make the drain unnecessary.
    let held = scenario.observe("n1", |node| Node { maintainer: Some(Maintainer::Kured), ..node });
    assert_eq!(held, ["unwatch n1", "release n1"]);
    assert_eq!(scenario.end_release("n1"), [""; 0]);
    assert_eq!(scenario.observe("n1", |node| Node { maintainer: None, ..node }), ["mark n1"]);
}

/// A node is drained twice in a run if another program claims it for a moment.
#[test]
fn answers_to_an_earlier_drain_have_no_effect_on_the_next() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    assert_eq!(scenario.pods("n1", [pod("a")]), ["evict n1 a"]);
    assert_eq!(scenario.pods("n1", []), ["volumes n1"]);
    let held = scenario.observe("n1", |node| Node { maintainer: Some(Maintainer::Kured), ..node });
    assert_eq!(held, ["unwatch n1", "release n1"]);
    scenario.end_release("n1");
    assert_eq!(scenario.observe("n1", |node| Node { maintainer: None, ..node }), ["mark n1"]);
    assert_eq!(scenario.marked("n1"), ["watch n1"]);
    for result in [Ok(0), Err("no response in time".to_owned())] {
        assert_eq!(scenario.send(Input::Volumes(node_name("n1"), result)), [""; 0]);
    }
    let lost = Err("no response in time".to_owned());
    assert_eq!(scenario.send(Input::Evicted(node_name("n1"), pod("a").uid, lost)), [""; 0]);
    assert_eq!(scenario.pods("n1", []), ["volumes n1"]);
    assert_eq!(scenario.send(Input::Volumes(node_name("n1"), Ok(0))), ["unwatch n1", "assign n1 drain"]);
}
