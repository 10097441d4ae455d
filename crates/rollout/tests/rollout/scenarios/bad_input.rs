//! Inputs that no well-behaved cluster sends: of unknown nodes, repeated, too early, late, and times that jump.

use super::*;
use nodecfg_observed::{EvictionAnswer, Pod};
use nodecfg_plan::drain::fixtures::pod;
use nodecfg_plan::fixtures::canary;
use nodecfg_rollout::evictions::PodChange;
use nodecfg_rollout::instant::Instant;

/// Every input about one node.
fn about(name: &str) -> Vec<Input> {
    let name = || node_name(name);
    let refused = || Err("forbidden".to_owned());
    let changed = Some(Box::new((node(name().as_str(), "a"), None)));
    vec![
        Input::Observed(Box::new(node(name().as_str(), "a"))),
        Input::Unselected(Box::new(node(name().as_str(), "b"))),
        Input::Assigned(name()),
        Input::Withdrawn(name()),
        Input::Refused(name(), "forbidden".to_owned()),
        Input::Changed(name(), changed),
        Input::Changed(name(), None),
        Input::Marked(name(), Ok(())),
        Input::Marked(name(), refused()),
        Input::PerhapsMarked(name(), "timeout".to_owned()),
        Input::PodsListed(name(), Ok(vec![pod("a")])),
        Input::Pods(name(), PodChange::Listed(vec![Pod { pending: true, ..pod("a") }])),
        Input::PodsUnknown(name(), "forbidden".to_owned()),
        Input::Evicted(name(), pod("a").uid, Ok(EvictionAnswer::Evicted)),
        Input::Volumes(name(), Ok(0)),
        Input::PodDeleted(name(), pod("a").uid, Ok(())),
        Input::Released(name(), Ok(())),
        Input::RolledBack(name(), Ok(())),
        Input::RolledBack(name(), refused()),
        Input::Gone(name()),
    ]
}

fn soaking() -> Scenario {
    rollout(three(), RolloutPolicy { canary: canary(1, 60), ..policy(1) }, ASSIGN)
}

#[test]
fn unknown_nodes_and_pools_change_nothing() {
    let mut scenario = soaking();
    scenario.send(Input::Start);
    let before = scenario.machine.outcome();
    let pool = pool_name("z");
    let others = [Input::StopPool(pool.clone(), StopReason::Interrupted), Input::PointerMoved(pool, Ok(()))];
    for input in about("n9").into_iter().chain(others) {
        assert!(scenario.send(input.clone()).is_empty(), "{input:?}");
        assert_eq!(scenario.machine.outcome(), before, "{input:?}");
    }
    assert_eq!(scenario.progress().count(), 0);
}

/// An answer counts once, and only to a request that is open. A node that has not started has none.
#[test]
fn answers_without_a_request_change_nothing() {
    let is_answer = |input: &Input| {
        !matches!(input, Input::Observed(_) | Input::Unselected(_) | Input::Gone(_) | Input::Changed(_, None))
    };
    let mut scenario = soaking();
    scenario.send(Input::Start);
    scenario.converge("n1");
    // `n1` has converged, and `n2` waits for the end of the soak.
    for name in ["n1", "n2"] {
        for input in about(name).into_iter().filter(is_answer) {
            let before = scenario.machine.outcome();
            assert!(scenario.send(input.clone()).is_empty(), "{input:?}");
            assert_eq!(scenario.machine.outcome(), before, "{input:?}");
        }
    }
    assert_eq!(scenario.wait(60), ["assign n2"]);
}

#[test]
fn inputs_before_the_start_start_nothing() {
    let mut scenario = soaking();
    for input in about("n2").into_iter().chain([Input::Tick]) {
        assert!(scenario.send(input.clone()).is_empty(), "{input:?}");
    }
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.converge("n1").is_empty());
    assert_eq!(scenario.wait(60), ["assign n3"], "n2 has left the cluster");
}

#[test]
fn second_start_starts_no_further_node() {
    let mut scenario = soaking();
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    assert!(scenario.send(Input::Start).is_empty());
    assert_eq!(scenario.machine.budget_of(&pool_name("a")), Some((1, 1)));
}

/// A node that left the cluster and came back under its name is another node: its answers are late.
#[test]
fn recreated_node_is_not_assigned_again() {
    let mut scenario = soaking();
    scenario.send(Input::Start);
    assert_eq!(scenario.send(Input::Gone(node_name("n1"))), ["assign n2"], "n2 is the canary now");
    scenario.see(node("n1", "a"));
    assert_eq!(scenario.end("n1"), End::Changed { to: None });
    for input in [Input::Assigned(node_name("n1")), Input::Gone(node_name("n1")), Input::Gone(node_name("n1"))] {
        assert!(scenario.send(input).is_empty());
    }
    assert_eq!(scenario.end("n1"), End::Gone);
    assert!(scenario.converge("n2").is_empty());
    assert_eq!(scenario.wait(60), ["assign n3"]);
}

/// A clock that goes back lengthens a wait, and ends none early.
#[test]
fn clock_of_limits_that_goes_back_ends_nothing_early() {
    let mut scenario = soaking();
    scenario.wait(100);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    scenario.machine.now = scenario.machine.now.at(Instant::START);
    scenario.send(Input::Tick);
    assert!(scenario.wait(399).is_empty());
    assert_eq!(scenario.end("n1"), End::InFlight);
    scenario.wait(1);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));
    assert!(matches!(scenario.stopped(), Some(StopReason::CanaryFailed { .. })));
}
