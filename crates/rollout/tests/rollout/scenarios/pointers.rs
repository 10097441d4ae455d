//! Moves of the pool's pointer during a rollout.

use super::gates::{GATED, gated};
use super::*;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::NodeOrder;
use nodecfg_fleet::gates::Moment;
use nodecfg_observed::NodeContent;
use nodecfg_plan::fixtures::{ZONE, canary, fetched, in_zone, replacing, with_pointer};

/// A rollout of a pool whose pointer names this older configuration.
fn pointing(nodes: impl IntoIterator<Item = Node>, policy: RolloutPolicy, mode: Mode) -> Scenario {
    let desired = Desired { pool_pointers: true, ..desired([pool("a", 64, policy)]) };
    let mut cluster = observed(nodes);
    with_pointer(&mut cluster, "a", &rendered("a", 32));
    Scenario::of(desired, cluster, mode)
}

fn new_target() -> String {
    rendered("a", 64).config_map
}

fn pool_a() -> PoolName {
    pool_name("a")
}

#[test]
fn moves_once_canaries_and_soak_have_passed() {
    let mut scenario = pointing(three(), RolloutPolicy { canary: canary(1, 60), ..policy(1) }, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    assert!(scenario.pointed().is_empty(), "the canary soaks");
    scenario.wait(60);
    assert_eq!(scenario.pointed(), [new_target()]);
    scenario.send(Input::PointerMoved(pool_a(), Ok(())));
    let moved = Progress::PointerMoved { config_map: Some(new_target()) };
    assert!(scenario.reported(&moved));
    scenario.converge("n2");
    scenario.converge("n3");
    assert_eq!(scenario.pointed().len(), 1);
}

/// In a pool that is no larger than its canaries, no node waits for the soak, but the pointer does.
#[test]
fn waits_for_the_soak_of_the_last_wave() {
    let mut scenario = pointing([node("n1", "a")], RolloutPolicy { canary: canary(1, 60), ..policy(1) }, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    assert!(scenario.pointed().is_empty() && !scenario.is_finished(), "the canary soaks");
    scenario.wait(60);
    assert_eq!(scenario.pointed(), [new_target()]);
}

#[test]
fn pool_without_a_pointer_does_not_wait_for_a_soak_that_nothing_needs() {
    let nodes = [node("n1", "a"), node("n2", "a")];
    let mut scenario = rollout(nodes, RolloutPolicy { canary: canary(1, 60), ..policy(1) }, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    assert!(!scenario.is_finished());
    scenario.send(Input::Gone(node_name("n2")));
    assert!(scenario.is_finished());
}

#[test]
fn canary_that_fails_in_the_soak_of_the_last_wave_leaves_it() {
    let mut scenario = pointing([node("n1", "a")], RolloutPolicy { canary: canary(1, 60), ..policy(1) }, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.wait(30);
    scenario.see(Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target()) });
    scenario.wait(600);
    assert!(scenario.is_finished() && scenario.pointed().is_empty());
}

#[test]
fn moves_with_the_first_node_of_a_pool_without_canaries() {
    let mut scenario = pointing(three(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    assert!(scenario.pointed().is_empty());
    scenario.converge("n2");
    assert_eq!(scenario.pointed(), [new_target()]);
}

/// The node, whose own agent wrote its assignment to the target.
pub(super) fn joined(node: Node) -> Node {
    let hash = Some(rendered("a", 64).hash);
    let content =
        NodeContent { assigned: hash, active: hash, max_disruption: None, self_assigned: true, ..replacing() };
    Node { source: Some(target()), content: Some(content), ..node }
}

/// A compromised node can choose its configuration and report success.
#[test]
fn node_that_assigned_itself_proves_nothing() {
    let in_transition = joined(node("n1", "a"));
    let mut scenario = pointing([in_transition, node("n2", "a")], policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n2"]);
    let converged = |name: &str| joined(on(node(name, "a"), &target()));
    scenario.see(converged("n1"));
    assert_eq!((scenario.end("n1"), scenario.pointed().len()), (End::Converged, 0));
    scenario.converge("n2");
    assert_eq!(scenario.pointed(), [new_target()]);

    // A canary creates its NodeConfig faster than the reconciler.
    let mut scenario = pointing(three(), RolloutPolicy { canary: canary(1, 60), ..policy(3) }, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    let mut faster = converged("n1");
    assert_eq!(scenario.conflict(faster.clone()), ["assign n2"], "another node is the canary");
    assert!(scenario.wait(60).is_empty() && scenario.pointed().is_empty());
    scenario.converge("n2");
    assert_eq!(scenario.wait(60), ["assign n3".to_owned(), format!("point a {}", new_target())]);

    // The watch shows it first.
    let mut scenario = pointing(three(), RolloutPolicy { canary: canary(1, 60), ..policy(3) }, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    faster.ready = Readiness::Ready;
    assert_eq!(scenario.see(faster), ["assign n2"]);
}

#[test]
fn failed_canary_leaves_it() {
    let mut scenario = pointing(three(), RolloutPolicy { canary: canary(2, 0), ..policy(2) }, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.refuse("n2");
    assert!(scenario.stopped().is_some());
    assert!(scenario.pointed().is_empty());
}

/// The gate opens without a proof if every canary left the cluster.
#[test]
fn lost_canaries_prove_nothing() {
    let mut scenario = pointing([node("n1", "a")], RolloutPolicy { canary: canary(1, 0), ..policy(1) }, ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Gone(node_name("n1")));
    assert!(scenario.is_finished());
    assert!(scenario.pointed().is_empty());
}

#[test]
fn failed_first_node_leaves_it() {
    let mut scenario = pointing(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.refuse("n1");
    assert!(scenario.stopped().is_some() && scenario.pointed().is_empty());
}

#[test]
fn stop_before_the_proof_leaves_it() {
    let mut scenario = pointing(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Stop(StopReason::Interrupted));
    scenario.converge("n1");
    assert!(scenario.pointed().is_empty());
}

#[test]
fn verify_moves_nothing() {
    let mut scenario = pointing(three(), policy(1), Mode { assign: false, ..ASSIGN });
    scenario.send(Input::Start);
    for name in ["n1", "n2", "n3"] {
        scenario.see_on_target(name);
    }
    assert!(scenario.is_finished() && scenario.pointed().is_empty());
}

#[test]
fn refused_move_is_reported_and_not_repeated() {
    let mut scenario = pointing(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.send(Input::PointerMoved(pool_a(), Err("forbidden".to_owned())));
    scenario.converge("n2");
    scenario.converge("n3");
    assert_eq!(scenario.pointed().len(), 1);
    let error = "forbidden".to_owned();
    let refused = Progress::PointerNotMoved { config_map: Some(new_target()), error };
    assert!(scenario.reported(&refused));
}

/// A rollout with a gate, whose nodes can return to the configuration of the pointer.
fn returning(nodes: impl IntoIterator<Item = Node>) -> Scenario {
    let policy = RolloutPolicy { rollback_on_gate_failure: true, ..gated(1, &Moment::ALL) };
    let desired = Desired { pool_pointers: true, ..desired([pool("a", 64, policy)]) };
    let before = rendered("a", 32);
    let mut cluster = observed(nodes);
    with_pointer(&mut cluster, "a", &before);
    with_config_map(&mut cluster, "a", &before);
    cluster.contents.extend([fetched(&before.source(&namespace()), &before.canonical, true)]);
    Scenario::of(desired, cluster, GATED)
}

/// Nodes that join later must not start with the configuration that all others have left.
#[test]
fn pool_that_returns_restores_it() {
    let before = rendered("a", 32);
    let nodes = ["n1", "n2", "n3"].map(|name| on(node(name, "a"), &before.source(&namespace())));
    for is_answered in [true, false] {
        let mut scenario = returning(nodes.clone());
        scenario.send(Input::Start);
        scenario.fires(&[]);
        scenario.converge("n1");
        assert_eq!(scenario.pointed(), [new_target()]);
        if is_answered {
            scenario.send(Input::PointerMoved(pool_a(), Ok(())));
        }
        close_gate(&mut scenario);
        if !is_answered {
            assert_eq!(scenario.pointed().len(), 1, "the first move is not answered yet");
            scenario.send(Input::PointerMoved(pool_a(), Ok(())));
        }
        assert_eq!(scenario.pointed(), [new_target(), before.config_map.clone()]);
        scenario.send(Input::PointerMoved(pool_a(), Ok(())));
        let restored = Progress::PointerMoved { config_map: Some(before.config_map.clone()) };
        assert!(scenario.reported(&restored));
    }
}

/// Fires the gate until the pool returns.
fn close_gate(scenario: &mut Scenario) {
    for _ in 0..=40 {
        scenario.fires(&["new"]);
        scenario.wait(15);
    }
    assert!(matches!(scenario.stopped(), Some(StopReason::GateClosed { .. })), "{:?}", scenario.stopped());
}

/// The answer to a failed request may be lost.
#[test]
fn pool_that_returns_restores_it_after_a_failed_move_and_retries() {
    let before = rendered("a", 32);
    let nodes = ["n1", "n2", "n3"].map(|name| on(node(name, "a"), &before.source(&namespace())));
    let mut scenario = returning(nodes);
    scenario.send(Input::Start);
    scenario.fires(&[]);
    scenario.converge("n1");
    let fail = |scenario: &mut Scenario| scenario.send(Input::PointerMoved(pool_a(), Err("timeout".to_owned())));
    fail(&mut scenario);
    close_gate(&mut scenario);
    let failures = |scenario: &Scenario| {
        scenario.progress().filter(|progress| matches!(progress, Progress::PointerNotMoved { .. })).count()
    };
    for attempt in 1..=3 {
        assert_eq!((scenario.pointed().len(), failures(&scenario)), (1 + attempt, 1));
        assert_eq!(scenario.pointed()[attempt], before.config_map);
        fail(&mut scenario);
    }
    assert_eq!((scenario.pointed().len(), failures(&scenario)), (4, 2));
}

/// A run that continues a rollout moves the pointer before its first assignment.
#[test]
fn pool_that_returns_restores_a_pointer_moved_at_once() {
    let before = rendered("a", 32);
    let on_old = |name| on(node(name, "a"), &before.source(&namespace()));
    let on_target = on(node("n1", "a"), &target());
    let mut scenario = returning([on_target, on_old("n2"), on_old("n3"), on_old("n4")]);
    scenario.send(Input::Start);
    scenario.fires(&[]);
    assert!(scenario.pointed().is_empty(), "it is moved before the start");
    scenario.converge("n2");
    close_gate(&mut scenario);
    assert_eq!(scenario.pointed(), [before.config_map]);
}

/// The node in transition cannot return, because its previous ConfigMap is missing. So nothing stops.
#[test]
fn abort_before_the_proof_leaves_it() {
    let before = rendered("a", 110);
    let mut cluster = observed([on(node("n1", "a"), &before.source(&namespace()))]);
    with_config_map(&mut cluster, "a", &before);
    let desired = Desired { pool_pointers: true, ..desired([pool("a", 64, policy(1))]) };
    let mut scenario = Scenario::of(desired, cluster, ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    scenario.send(Input::RollBackAll(crate::aborted()));
    scenario.see_on_target("n1");
    assert_eq!((scenario.end("n1"), scenario.rolled_back().len()), (End::Converged, 0));
    assert!(scenario.pointed().is_empty());
}

/// A canary that was not Ready before converges without being Ready, and opens the gate. The end of its domain waits
/// until it is Ready, and so does the pointer.
#[test]
fn waits_for_a_canary_that_is_watched_again() {
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::ZERO };
    let policy = RolloutPolicy { canary: canary(2, 0), order: Some(order), ..policy(1) };
    let zoned = |name, zone| in_zone(node(name, "a"), Some(zone));
    let down = |node: Node| Node { ready: Readiness::NotReady, ..node };
    let on_target = |name| on(zoned(name, "z1"), &target());
    let nodes = [zoned("n1", "z1"), zoned("n2", "z2"), zoned("n3", "z1")];
    let mut scenario = pointing(nodes, policy, Mode { concurrency: 1, ..ASSIGN });
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.see(down(zoned("n3", "z1")));
    assert_eq!(scenario.send(Input::Assigned(node_name("n1"))), ["assign n3"]);
    scenario.send(Input::Assigned(node_name("n3")));
    scenario.see(on_target("n1"));
    scenario.see(down(on_target("n3")));
    assert_eq!((scenario.end("n3"), scenario.pointed().len()), (End::InFlight, 0));
    scenario.see(on_target("n3"));
    assert_eq!(scenario.pointed(), [new_target()]);
}

#[test]
fn gate_and_stop_concern_the_soak_of_the_last_wave() {
    let soak = || RolloutPolicy { canary: canary(1, 60), ..gated(1, &[Moment::Soak]) };
    let started = || {
        let mut scenario = pointing([node("n1", "a")], soak(), GATED);
        scenario.send(Input::Start);
        assert_eq!(scenario.fires(&[]), ["assign n1"]);
        scenario.converge("n1");
        scenario.wait(50);
        scenario.unknown();
        scenario
    };
    let mut late = started();
    late.wait(10);
    late.fires(&[]);
    assert_eq!(late.pointed(), [new_target()]);
    let mut blocked = started();
    blocked.fires(&["new"]);
    assert!(blocked.is_finished() && blocked.pointed().is_empty());
    let mut stopped = started();
    stopped.send(Input::Stop(StopReason::Interrupted));
    assert!(stopped.is_finished() && stopped.pointed().is_empty());
    assert_eq!(stopped.stopped(), Some(StopReason::Interrupted));
}

#[test]
fn event_during_the_soak_of_the_last_wave_does_not_lose_its_end() {
    let mut scenario = pointing([node("n1", "a")], RolloutPolicy { canary: canary(1, 60), ..policy(1) }, ASSIGN);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.wait(30);
    scenario.see_on_target("n1");
    scenario.wait(30);
    assert_eq!(scenario.pointed(), [new_target()]);
}

/// A node that is being deleted does not come back, so that no canary waits for it.
#[test]
fn canary_that_is_being_deleted_delays_no_move() {
    let policy = RolloutPolicy { canary: canary(1, 0), ..policy(2) };
    let mut scenario = pointing([down("n1"), node("n2", "a")], policy, ASSIGN);
    scenario.see(Node { deleting: true, ..node("n2", "a") });
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.converge("n1");
    assert_eq!(scenario.pointed(), [new_target()]);
}
