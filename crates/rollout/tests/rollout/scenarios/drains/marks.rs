//! Scenarios of marks: refused, lost, left behind, or of an earlier run.

use super::*;
use nodecfg_observed::{DrainMark, Maintainer};
use nodecfg_plan::Why;

#[test]
fn refused_mark_fails_the_node() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    assert_eq!(scenario.send(Input::Marked(node_name("n1"), Err("forbidden".to_owned()))), [""; 0]);
    assert_eq!(scenario.drain_failure("n1"), DrainFailure::Request { error: "forbidden".to_owned() });
    assert!(scenario.is_finished() && !scenario.outcome("n1").marked);
}

#[test]
fn event_with_the_mark_may_arrive_before_the_response() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    let sent = scenario.observe("n1", |node| Node { drain_mark: Some(Box::new(mark("a"))), ..node });
    assert_eq!(sent, ["watch n1"]);
    assert_eq!(scenario.send(Input::Marked(node_name("n1"), Ok(()))), [""; 0]);
    assert_eq!(scenario.observe("n1", unmarked), ["unwatch n1"]);
    assert_eq!(scenario.drain_failure("n1"), DrainFailure::MarkLost);
    assert_eq!(scenario.shown, ["n1 Unmarked"]);
}

/// The node is left to the other program, and the next one has its turn.
#[test]
fn node_that_another_program_holds_is_left_alone() {
    let mut scenario = rollout(drains(1), &["n1", "n2"]);
    assert_eq!(scenario.send(Input::Start), ["mark n1"]);
    let by = Maintainer::Medik8sLease;
    assert_eq!(scenario.send(Input::Claimed(node_name("n1"), by)), ["mark n2"]);
    let why = Why::Maintained { by };
    assert_eq!(scenario.outcome("n1").end, End::LeftAlone { why: why.clone() });
    assert!(!scenario.outcome("n1").marked && scenario.shown.is_empty());
    assert!(scenario.progress().any(|progress| *progress == Progress::Held { why: why.clone() }));
    // Only an answer to a mark claims a node.
    scenario.marked("n2");
    assert_eq!(scenario.send(Input::Claimed(node_name("n2"), by)), [""; 0]);
    assert_eq!(scenario.pods("n2", [pod("a")]), ["evict n2 a"]);
}

#[test]
fn event_from_before_the_mark_is_no_loss() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    assert_eq!(scenario.send(Input::Marked(node_name("n1"), Ok(()))), ["watch n1"]);
    assert_eq!(scenario.observe("n1", |node| node), [""; 0]);
    assert_eq!(scenario.pods("n1", [pod("a")]), ["evict n1 a"]);
}

#[test]
fn mark_without_its_taint_is_lost() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    let annotated = DrainMark { tainted: false, ..mark("a") };
    let sent = scenario.observe("n1", |node| Node { drain_mark: Some(Box::new(annotated)), ..node });
    assert_eq!(sent, ["unwatch n1"]);
    assert_eq!(scenario.drain_failure("n1"), DrainFailure::MarkLost);
}

#[test]
fn mark_lost_after_the_drain_fails_the_node() {
    let lost = |mut scenario: Scenario| {
        assert_eq!(scenario.observe("n1", unmarked), [""; 0]);
        assert_eq!(scenario.drain_failure("n1"), DrainFailure::MarkLost);
        assert!(scenario.is_finished() && !scenario.outcome("n1").marked);
        // A late response changes nothing, and the node is not marked or released again.
        assert_eq!(scenario.send(Input::Assigned(node_name("n1"))), [""; 0]);
        assert_eq!(scenario.wait(600), [""; 0]);
        assert!(!scenario.is_complete());
    };
    let started = || {
        let mut scenario = rollout(drains(1), &["n1"]);
        scenario.send(Input::Start);
        scenario
    };
    let mut watched = started();
    watched.drain_and_assign("n1");
    lost(watched);
    let mut settling = started();
    settling.drain_and_assign("n1");
    settling.observe("n1", |node| on(node, &source(NEW)));
    lost(settling);
}

/// The patch may be applied, so that the node is in transition until the answer, and takes budget until it runs its target.
#[test]
fn mark_lost_before_the_answer_to_the_assignment_fails_the_node_after_it() {
    let mut scenario = rollout(RolloutPolicy { max_failures: 1, ..drains(1) }, &["n1", "n2"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    scenario.pods("n1", []);
    let sent = scenario.send(Input::Volumes(node_name("n1"), Ok(0)));
    assert_eq!(sent, ["unwatch n1", "assign n1 drain"]);
    assert_eq!(scenario.observe("n1", unmarked), [""; 0]);
    assert_eq!(scenario.end("n1"), End::InFlight);
    assert_eq!(scenario.send(Input::Assigned(node_name("n1"))), [""; 0]);
    assert_eq!(scenario.drain_failure("n1"), DrainFailure::MarkLost);
    assert_eq!(scenario.observe("n1", |node| Node { source: Some(source(NEW)), ..node }), [""; 0]);
    assert_eq!(scenario.see_on_target("n1"), ["mark n2"]);
}

#[test]
fn node_whose_release_is_refused_leaves_the_rollout_incomplete() {
    let mut scenario = settling(drains(1));
    assert_eq!(scenario.wait(30), ["release n1"]);
    assert_eq!(scenario.send(Input::Released(node_name("n1"), Err("forbidden".to_owned()))), [""; 0]);
    assert!(matches!(scenario.outcome("n1"), NodeOutcome { end: End::Converged, marked: true, .. }));
    assert!(scenario.is_finished() && !scenario.is_complete());
}

#[test]
fn rollout_ends_only_after_the_answers_to_its_marks_and_releases() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    assert_eq!(scenario.send(Input::Stop(StopReason::Interrupted)), [""; 0]);
    assert!(!scenario.is_finished(), "the mark is unanswered");
    assert_eq!(scenario.send(Input::Marked(node_name("n1"), Ok(()))), ["release n1"]);
    assert!(!scenario.is_finished(), "the release is unanswered");
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    assert!(scenario.is_finished());
}

#[test]
fn node_that_is_deleted_during_its_drain_leaves_no_mark() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    scenario.pods("n1", [pod("a")]);
    assert_eq!(scenario.send(Input::Gone(node_name("n1"))), ["unwatch n1"]);
    assert!(matches!(scenario.outcome("n1"), NodeOutcome { end: End::Gone, marked: false, .. }));
    assert!(scenario.is_finished() && scenario.is_complete());
}

#[test]
fn node_that_leaves_its_pool_is_released_and_not_assigned() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    scenario.pods("n1", [pod("a")]);
    let other = Box::new(scenario.nodes["n1"].clone());
    assert_eq!(scenario.send(Input::Unselected(other)), ["unwatch n1", "release n1"]);
    assert_eq!(scenario.evicted("n1", "a", EvictionAnswer::Gone), [""; 0]);
    assert!(matches!(scenario.outcome("n1").end, End::Changed { .. }));
}

#[test]
fn marks_of_an_earlier_run_stay_until_the_turn_of_their_nodes_or_the_stop() {
    let mut cluster = cluster(&["n1", "n2"]);
    cluster.nodes.values_mut().for_each(|node| node.drain_mark = Some(Box::new(mark("a"))));
    let mut scenario = rollout_over(&cluster, drains(1));
    assert_eq!(scenario.send(Input::Start), ["watch n1"]);
    let stopped = scenario.send(Input::Stop(StopReason::Interrupted));
    assert_eq!(stopped, ["unwatch n1", "release n1", "release n2"]);
}

#[test]
fn hold_concerns_overdue_drains_alone() {
    let started = || {
        let mut policy = drains(1);
        policy.drain.on_timeout = OnTimeout::Hold;
        policy.drain.timeout = Duration::from_secs(60);
        let mut scenario = rollout(policy, &["n1"]);
        scenario.send(Input::Start);
        scenario.marked("n1");
        scenario
    };
    let mut refused = started();
    let unmanaged = Pod { controller: None, ..pod("a") };
    assert_eq!(refused.pods("n1", [unmanaged]), ["unwatch n1", "release n1"]);
    let mut blocked = started();
    blocked.pods("n1", [pod("a")]);
    blocked.wait(55);
    blocked.evicted("n1", "a", EvictionAnswer::Blocked { reason: "web needs 1".to_owned() });
    assert_eq!(blocked.wait(5).last().map(String::as_str), Some("unwatch n1"));
    assert!(matches!(blocked.drain_failure("n1"), DrainFailure::Blocked { .. }));
    assert!(blocked.outcome("n1").marked && blocked.is_finished());
}

/// The release could remove the new mark.
#[test]
fn node_is_marked_again_only_after_its_release() {
    for healthy in [true, false] {
        let mut scenario = rollout(drains(1), &["n1"]);
        if !healthy {
            scenario.observe("n1", |node| Node { ready: Readiness::NotReady, ..node });
        }
        scenario.send(Input::Start);
        scenario.marked("n1");
        let maintained = |node| Node { maintainer: Some(Maintainer::Kured), ..node };
        assert!(scenario.observe("n1", maintained).contains(&"release n1".to_owned()));
        assert_eq!(scenario.observe("n1", |node| Node { maintainer: None, ..node }), [""; 0]);
        assert_eq!(scenario.observe("n1", unmarked), [""; 0]);
        assert_eq!(scenario.send(Input::Released(node_name("n1"), Ok(()))), ["mark n1"]);
    }
}

#[test]
fn mark_whose_answer_was_lost_is_released() {
    let lost = || Input::PerhapsMarked(node_name("n1"), "no response in time".to_owned());
    for released in [Ok(()), Err("no response in time".to_owned())] {
        let mut scenario = rollout(drains(1), &["n1"]);
        scenario.send(Input::Start);
        assert_eq!(scenario.send(lost()), ["release n1"]);
        assert_eq!(scenario.drain_failure("n1"), DrainFailure::Request { error: "no response in time".to_owned() });
        assert!(scenario.outcome("n1").marked && !scenario.is_finished());
        let stays = released.is_err();
        assert_eq!(scenario.send(Input::Released(node_name("n1"), released)), [""; 0]);
        assert_eq!((scenario.outcome("n1").marked, scenario.is_finished()), (stays, true));
    }
    // The watch has shown the mark.
    let mut seen = rollout(drains(1), &["n1"]);
    seen.send(Input::Start);
    seen.observe("n1", |node| Node { drain_mark: Some(Box::new(mark("a"))), ..node });
    assert_eq!(seen.send(lost()), [""; 0]);
    assert_eq!(seen.pods("n1", [pod("a")]), ["evict n1 a"]);
    // Another program claimed the node for a moment.
    let mut held = rollout(drains(1), &["n1"]);
    held.send(Input::Start);
    for maintainer in [Some(Maintainer::Kured), None] {
        assert_eq!(held.observe("n1", |node| Node { maintainer, ..node }), [""; 0]);
    }
    assert_eq!(held.send(lost()), ["release n1"]);
    assert_eq!(held.send(Input::Released(node_name("n1"), Ok(()))), ["mark n1"]);
}

/// The node keeps the mark whose release was refused, whatever a second request for a mark meets.
#[test]
fn refused_second_mark_leaves_the_first() {
    let refused = || Err("forbidden".to_owned());
    let by = Maintainer::Medik8sLease;
    for answer in [Input::Marked(node_name("n1"), refused()), Input::Claimed(node_name("n1"), by)] {
        let mut scenario = rollout(drains(1), &["n1", "n2"]);
        scenario.send(Input::Start);
        scenario.drain_and_assign("n1");
        scenario.wait(300);
        scenario.send(Input::Released(node_name("n1"), refused()));
        assert!(scenario.outcome("n1").marked);
        scenario.observe("n1", |node| on(node, &source(NEW)));
        assert_eq!(scenario.send(Input::RollBackAll(crate::aborted())), ["mark n1"]);
        scenario.send(answer);
        assert!(scenario.outcome("n1").marked);
    }
}

/// A node that is released has not converged before the answer: new pods do not start on it yet.
#[test]
fn node_converges_with_the_answer_to_its_release() {
    let mut scenario = settling(drains(1));
    assert_eq!(scenario.wait(30), ["release n1"]);
    scenario.observe("n1", unmarked);
    assert_eq!(scenario.outcome("n1").end, End::InFlight);
    scenario.send(Input::Released(node_name("n1"), Ok(())));
    assert_eq!(scenario.outcome("n1").end, End::Converged);
}
