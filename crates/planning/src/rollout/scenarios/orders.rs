//! Rollouts that people stop, pause or take back, told step by step.

use super::{ASSIGN, Mode, Story, three};
use crate::judge::Failure;
use crate::plan::fixtures::{
    canary, fetched, namespace, node, node_name, observed, on, policy, pool_name, refusing, rendered, with_config_map,
};
use crate::rollout::machine::Input;
use crate::rollout::progress::Progress;
use crate::rollout::{End, StopReason};
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{Node, Observed, Readiness};

fn aborted() -> StopReason {
    StopReason::Aborted { by: "ada".to_owned(), reason: Some("wrong branch".to_owned()) }
}

fn old() -> ConfigSource {
    rendered("a", 110).source(&namespace())
}

/// Three nodes on a ConfigMap of this fleet, to which they can return.
fn returnable() -> Observed {
    let mut cluster = observed(three().map(|node| on(node, &old())));
    with_config_map(&mut cluster, "a", &rendered("a", 110));
    cluster.contents.extend([fetched(&old(), &rendered("a", 110).canonical, true)]);
    cluster
}

fn assigned(story: &mut Story, name: &str) {
    story.tell(Input::Assigned(node_name(name)));
    let seen = Node { source: Some(Story::target()), ..on(node(name, "a"), &old()) };
    story.tell(Input::Observed(Box::new(seen)));
}

fn back(story: &mut Story, name: &str) {
    story.tell(Input::Observed(Box::new(on(node(name, "a"), &old()))));
}

fn returned(name: &str) -> Progress {
    Progress::RolledBack { pool: pool_name("a"), node: node_name(name), to: Some(old()) }
}

#[test]
fn an_abort_finishes_what_is_in_flight_and_starts_nothing() {
    let mut story = Story::new(three(), policy(1), ASSIGN);
    story.tell(Input::Start);
    story.tell(Input::Stop(aborted()));
    assert_eq!(story.stopped(), Some(aborted()));
    assert!(!story.machine.is_finished());
    assert!(story.converge("n1").is_empty());
    assert!(story.machine.is_finished() && story.rolled_back.is_empty());
    assert_eq!([story.end("n1"), story.end("n2")], [End::Converged, End::NotStarted]);
}

#[test]
fn an_abort_that_comes_when_nothing_is_left_to_start_stops_nothing() {
    let mut story = Story::new(three(), policy(3), ASSIGN);
    story.tell(Input::Start);
    for name in ["n1", "n2", "n3"] {
        story.assigned(name);
    }
    story.tell(Input::Stop(aborted()));
    for name in ["n1", "n2", "n3"] {
        story.converge(name);
    }
    assert!(story.machine.is_finished() && story.machine.outcome().is_complete());
}

#[test]
fn who_is_taken_back_points_at_what_it_had_and_who_converged_stays() {
    let mut story = Story::over(returnable(), policy(2), ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1", "n2"]);
    assert_eq!(story.converge("n1"), ["n3"]);
    assigned(&mut story, "n2");
    // The patch of n3 is on its way to the server.
    assert!(story.tell(Input::TakeBack(aborted())).is_empty());
    assert_eq!(story.rolled_back, [node_name("n2")]);
    assigned(&mut story, "n3");
    assert_eq!(story.rolled_back, [node_name("n2"), node_name("n3")], "as soon as it has arrived");
    assert!(!story.machine.is_finished());
    story.tell(Input::RolledBack(node_name("n2"), Ok(())));
    back(&mut story, "n2");
    story.tell(Input::RolledBack(node_name("n3"), Ok(())));
    assert!(!story.machine.is_finished(), "it points back, and does not run that yet");
    back(&mut story, "n3");
    assert_eq!(["n1", "n2", "n3"].map(|name| story.end(name)), [End::Converged, End::RolledBack, End::RolledBack]);
    assert_eq!(story.stopped(), Some(aborted()), "nothing was left to start, and yet it did not come to its end");
    assert!(story.machine.is_finished() && !story.machine.outcome().is_complete());
}

#[test]
fn a_watch_faster_than_the_answer_tells_once_that_a_node_is_back() {
    let mut story = Story::over(returnable(), policy(1), ASSIGN);
    story.tell(Input::Start);
    assigned(&mut story, "n1");
    story.tell(Input::TakeBack(aborted()));
    back(&mut story, "n1");
    assert_eq!(story.end("n1"), End::RolledBack);
    story.tell(Input::RolledBack(node_name("n1"), Ok(())));
    assert_eq!(story.told.iter().filter(|told| **told == returned("n1")).count(), 1);
    assert!(story.machine.is_finished());
}

#[test]
fn who_cannot_return_is_watched_to_the_end() {
    let mut cluster = returnable();
    let refusing = refusing(node("n1", "a"), &old(), nodecfg_contract::error_text::VALIDATE);
    cluster.nodes.insert(node_name("n1"), refusing);
    let mut story = Story::over(cluster, policy(1), ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1"]);
    story.assigned("n1");
    story.tell(Input::TakeBack(aborted()));
    assert_eq!(story.rolled_back, [] as [NodeName; 0], "it refuses what it had");
    assert!(!story.machine.is_finished());
    story.converge("n1");
    assert_eq!(story.end("n1"), End::Converged);
    assert!(story.machine.is_finished());
}

#[test]
fn who_failed_is_taken_back_with_the_others_and_has_failed_all_the_same() {
    let mut policy = policy(2);
    policy.max_failures = 5;
    let mut story = Story::over(returnable(), policy, ASSIGN);
    story.tell(Input::Start);
    story.refuse("n1");
    assert!(story.rolled_back.is_empty());
    story.tell(Input::TakeBack(aborted()));
    assert_eq!(story.rolled_back, [node_name("n1")]);
    story.tell(Input::RolledBack(node_name("n1"), Ok(())));
    back(&mut story, "n1");
    assert!(matches!(story.end("n1"), End::Failed { failure: Failure::Refused { .. }, rolled_back: true }));
}

#[test]
fn a_way_back_that_is_refused_leaves_the_node_on_its_way() {
    let mut story = Story::over(returnable(), policy(1), ASSIGN);
    story.tell(Input::Start);
    assigned(&mut story, "n1");
    story.tell(Input::TakeBack(aborted()));
    story.tell(Input::RolledBack(node_name("n1"), Err("no answer".to_owned())));
    assert_eq!(story.end("n1"), End::InFlight);
    // The patch had arrived after all.
    back(&mut story, "n1");
    assert_eq!(story.end("n1"), End::RolledBack);
    assert!(story.machine.is_finished());
}

#[test]
fn somebody_else_may_be_faster_than_the_way_back() {
    let theirs = crate::plan::fixtures::source("theirs");
    let mut story = Story::over(returnable(), policy(1), ASSIGN);
    story.tell(Input::Start);
    assigned(&mut story, "n1");
    story.tell(Input::TakeBack(aborted()));
    story.tell(Input::Observed(Box::new(on(node("n1", "a"), &theirs))));
    story.tell(Input::RolledBack(node_name("n1"), Err("another precondition".to_owned())));
    assert_eq!(story.end("n1"), End::Changed { to: Some(theirs) });
    assert!(story.machine.is_finished());
}

#[test]
fn an_abort_can_be_raised_to_take_nodes_back() {
    let mut story = Story::over(returnable(), policy(1), ASSIGN);
    story.tell(Input::Start);
    assigned(&mut story, "n1");
    story.tell(Input::Stop(aborted()));
    assert!(story.rolled_back.is_empty());
    story.tell(Input::TakeBack(StopReason::Aborted { by: "bob".to_owned(), reason: None }));
    assert_eq!(story.rolled_back, [node_name("n1")]);
    story.tell(Input::RolledBack(node_name("n1"), Ok(())));
    back(&mut story, "n1");
    assert!(story.machine.is_finished());
    let stops = story.told.iter().filter(|told| matches!(told, Progress::Stopped { .. }));
    assert_eq!(stops.count(), 1);
}

#[test]
fn a_pause_stops_one_pool_and_no_other() {
    let mut story = Story::new(three(), policy(1), ASSIGN);
    story.tell(Input::Start);
    let paused = || StopReason::Paused { by: "ada".to_owned(), reason: "disks".to_owned() };
    story.tell(Input::StopPool(pool_name("b"), paused()));
    assert_eq!(story.converge("n1"), ["n2"], "another pool's");
    story.tell(Input::StopPool(pool_name("a"), paused()));
    assert!(story.converge("n2").is_empty());
    assert_eq!((story.stopped(), story.end("n3")), (Some(paused()), End::NotStarted));
    assert!(story.machine.is_finished());
}

/// What has fewer pods than the target: going there restarts the kubelet, going back needs a drain.
fn smaller() -> ConfigSource {
    rendered("a", 30).source(&namespace())
}

/// Three nodes on it.
fn small() -> Observed {
    let mut cluster = observed(three().map(|node| on(node, &smaller())));
    with_config_map(&mut cluster, "a", &rendered("a", 30));
    cluster.contents.extend([fetched(&smaller(), &rendered("a", 30).canonical, true)]);
    cluster
}

fn not_pointed_back(name: &str) -> Progress {
    Progress::NotRolledBack { pool: pool_name("a"), node: node_name(name), needs: Class::Drain }
}

#[test]
fn nobody_is_taken_back_by_a_way_that_the_pool_does_not_allow() {
    let running = |name| Node { ready: Readiness::NotReady, ..on(node(name, "a"), &Story::target()) };
    for (allowed, back) in [(Class::Restart, false), (Class::Drain, true)] {
        let mut policy = policy(1);
        policy.allow_disruption = allowed;
        let mut story = Story::over(small(), policy, ASSIGN);
        story.tell(Input::Start);
        story.tell(Input::Assigned(node_name("n1")));
        // It runs the new configuration, and is not Ready yet.
        story.tell(Input::Observed(Box::new(running("n1"))));
        story.tell(Input::TakeBack(aborted()));
        assert_eq!(story.rolled_back.contains(&node_name("n1")), back);
        assert_eq!(story.told.contains(&not_pointed_back("n1")), !back, "{:?}", story.told);
    }
}

#[test]
fn who_does_not_run_the_target_yet_may_go_back_whatever_the_way_back_needs() {
    let mut story = Story::over(small(), policy(1), ASSIGN);
    story.tell(Input::Start);
    story.tell(Input::Assigned(node_name("n1")));
    story.tell(Input::TakeBack(aborted()));
    assert!(story.rolled_back.is_empty(), "nobody has seen what it runs");
    let waiting = Node { source: Some(Story::target()), ..on(node("n1", "a"), &smaller()) };
    story.tell(Input::Observed(Box::new(waiting)));
    assert_eq!(story.rolled_back, [node_name("n1")]);
    assert!(!story.told.contains(&not_pointed_back("n1")));
}

#[test]
fn who_failed_while_running_the_target_is_not_rolled_back_into_a_drain() {
    for (runs_it, expected) in [(true, 0), (false, 1)] {
        let mut story = Story::over(small(), policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
        story.tell(Input::Start);
        story.tell(Input::Assigned(node_name("n1")));
        let seen = if runs_it {
            Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &Story::target()) }
        } else {
            refusing(node("n1", "a"), &Story::target(), nodecfg_contract::error_text::VALIDATE)
        };
        story.tell(Input::Observed(Box::new(seen)));
        story.wait(300);
        assert!(matches!(story.end("n1"), End::Failed { .. }));
        assert_eq!(story.rolled_back.len(), expected);
    }
}

#[test]
fn a_node_is_back_when_it_runs_what_it_had_and_not_before() {
    let mut story = Story::over(returnable(), policy(1), ASSIGN);
    story.tell(Input::Start);
    story.tell(Input::Assigned(node_name("n1")));
    story.tell(Input::Observed(Box::new(Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &Story::target()) })));
    story.tell(Input::TakeBack(aborted()));
    story.tell(Input::RolledBack(node_name("n1"), Ok(())));
    let restarting = Node { source: Some(old()), ..on(node("n1", "a"), &Story::target()) };
    story.tell(Input::Observed(Box::new(restarting)));
    assert_eq!(story.end("n1"), End::InFlight);
    assert!(!story.told.contains(&returned("n1")) && !story.machine.is_finished());
    back(&mut story, "n1");
    assert_eq!(story.end("n1"), End::RolledBack);
    assert!(story.told.contains(&returned("n1")) && story.machine.is_finished());
}

#[test]
fn who_does_not_come_back_in_time_is_said_to_have_not() {
    let mut story = Story::over(returnable(), policy(1), ASSIGN);
    story.tell(Input::Start);
    assigned(&mut story, "n1");
    story.tell(Input::TakeBack(aborted()));
    story.tell(Input::RolledBack(node_name("n1"), Ok(())));
    story.tell(Input::Observed(Box::new(Node { source: Some(old()), ..on(node("n1", "a"), &Story::target()) })));
    story.wait(299);
    assert!(!story.machine.is_finished());
    story.wait(1);
    assert!(story.machine.is_finished());
    assert!(matches!(story.end("n1"), End::Failed { failure: Failure::TimedOut { .. }, rolled_back: true }));
    assert!(story.told.iter().any(|told| matches!(told, Progress::NotBack { .. })));
    assert_eq!(story.stopped(), Some(aborted()));
}

#[test]
fn a_canary_that_has_proven_nothing_yet_is_taken_back_as_well() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut story = Story::over(returnable(), policy, ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1"]);
    story.converge("n1");
    story.tell(Input::TakeBack(aborted()));
    assert_eq!(story.rolled_back, [node_name("n1")]);
    assert!(!story.machine.is_finished());
    story.tell(Input::RolledBack(node_name("n1"), Ok(())));
    back(&mut story, "n1");
    assert_eq!([story.end("n1"), story.end("n2")], [End::RolledBack, End::NotStarted]);
    assert!(story.machine.is_finished());
    story.wait(60);
    assert!(!story.told.iter().any(|told| matches!(told, Progress::Soaked { .. })), "nobody follows");
}

#[test]
fn a_canary_that_lost_its_readiness_is_taken_back_too() {
    let mut policy = policy(3);
    policy.canary = canary(1, 60);
    let mut story = Story::over(returnable(), policy, ASSIGN);
    story.tell(Input::Start);
    story.converge("n1");
    story.tell(Input::Observed(Box::new(Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &Story::target()) })));
    story.tell(Input::TakeBack(aborted()));
    assert_eq!(story.rolled_back, [node_name("n1")]);
}
