//! Trials of converged nodes: what the outcome reports of them, and the wait for their ends.

use super::*;
use nodecfg_observed::NodeContent;
use nodecfg_plan::Why;
use nodecfg_plan::convergence::{KUBELET_TRIAL, Trial};
use nodecfg_plan::fixtures::{on_trial, replacing};

const WAIT: Mode = Mode { wait_trial: true, ..ASSIGN };
const VERIFY: Mode = Mode { assign: false, ..WAIT };

fn two() -> [Node; 2] {
    [node("n1", "a"), node("n2", "a")]
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap()
}

impl Scenario {
    /// Answers the assignment and lets the node converge on trial.
    fn begin_trial(&mut self, name: &str) {
        self.assigned(name);
        self.see(on_trial(node(name, "a"), &target()));
    }

    fn pass_trial(&mut self, name: &str) {
        self.see_on_target(name);
    }

    /// The node after its agent rolled it back.
    fn fail_trial(&mut self, name: &str) {
        let mut back = on_trial(node(name, "a"), &target());
        (back.status.active, back.status.error) = (None, Some(format!("{}it died", error_text::TRIAL_PREFIX)));
        self.see(back);
    }

    fn tick_at(&mut self, until: u64) {
        self.machine.now = Now::START.after(until.try_into().unwrap());
        self.send(Input::Tick);
    }

    fn trial_of(&self, name: &str) -> Option<Trial> {
        self.outcome(name).trial
    }

    /// Number of reported waits and of reported passed trials.
    fn trial_events(&self) -> (usize, usize) {
        let count = |of: fn(&Progress) -> bool| self.progress().filter(|progress| of(progress)).count();
        let awaiting = count(|progress| matches!(progress, Progress::AwaitingTrials { .. }));
        (awaiting, count(|progress| matches!(progress, Progress::TrialPassed)))
    }
}

#[test]
fn outcome_has_the_latest_end_of_a_trial_that_the_run_saw_begin() {
    let mut scenario = rollout(two(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    scenario.machine.now = Now::START.after(30);
    scenario.begin_trial("n1");
    scenario.converge("n2");
    assert!(scenario.is_finished() && scenario.is_complete());
    // Kubelets report no end.
    let end = at(30 + KUBELET_TRIAL.as_secs());
    assert_eq!(scenario.trial_of("n1"), Some(Trial { ends_at: Some(end) }));
    assert_eq!(scenario.trial_of("n2"), None);
    assert_eq!(scenario.state().counts.on_trial, 1);
    scenario.pass_trial("n1");
    assert_eq!(scenario.trial_of("n1"), None);
    // A node without a trial passes none, and only a wait is announced.
    scenario.pass_trial("n2");
    assert_eq!(scenario.trial_events(), (0, 1));
}

#[test]
fn reported_end_of_a_trial_replaces_the_latest_possible_one() {
    let mut scenario = rollout(two(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    let reporting = |end| Node { trial_ends: end, ..on_trial(node("n1", "a"), &target()) };
    scenario.see(reporting(Some(at(120))));
    assert_eq!(scenario.trial_of("n1"), Some(Trial { ends_at: Some(at(120)) }));
    scenario.see(reporting(Some(at(150))));
    scenario.see(reporting(None));
    assert_eq!(scenario.trial_of("n1"), Some(Trial { ends_at: Some(at(150)) }));
}

#[test]
fn wait_ends_with_the_last_trial() {
    let mut scenario = rollout(two(), policy(2), WAIT);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    assert_eq!(scenario.state().trials_end, None, "the pool waits for another node");
    scenario.begin_trial("n2");
    let until = Some(at(KUBELET_TRIAL.as_secs()));
    let awaiting = Progress::AwaitingTrials { nodes: 2, until };
    assert_eq!(scenario.progress().last(), Some(&awaiting));
    assert_eq!(scenario.state().trials_end, until);
    // A heartbeat during the trial.
    scenario.see(on_trial(node("n1", "a"), &target()));
    scenario.pass_trial("n1");
    assert!(!scenario.is_finished());
    // A heartbeat after the trial.
    scenario.pass_trial("n1");
    scenario.pass_trial("n2");
    assert!(scenario.is_finished() && scenario.is_complete());
    assert_eq!(scenario.trial_events(), (1, 2));
}

#[test]
fn trials_take_no_budget_and_delay_no_other_node() {
    let policy = RolloutPolicy { canary: nodecfg_plan::fixtures::canary(1, 10), ..policy(1) };
    let mut scenario = rollout(two(), policy, WAIT);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.begin_trial("n1");
    scenario.machine.now = Now::START.after(10);
    assert_eq!(scenario.send(Input::Tick), ["assign n2"], "the soak time is not longer");
    scenario.begin_trial("n2");
    scenario.pass_trial("n1");
    scenario.pass_trial("n2");
    assert!(scenario.is_finished() && scenario.is_complete());
}

#[test]
fn failed_trial_fails_the_node_with_its_error() {
    for (mode, settled) in [(WAIT, false), (WAIT, true), (VERIFY, true)] {
        let mut cluster = observed(two());
        if settled {
            let node = on_trial(node("n1", "a"), &target());
            cluster.nodes.insert(node.name.clone(), node);
            with_config_map(&mut cluster, "a", &rendered("a", 64));
        }
        let mut scenario = rollout_over(cluster, policy(2), mode);
        if settled {
            scenario.see(on_trial(node("n1", "a"), &target()));
            scenario.send(Input::Start);
        } else {
            scenario.send(Input::Start);
            scenario.begin_trial("n1");
        }
        scenario.fail_trial("n1");
        let error = "failed trial: it died".to_owned();
        let failed = End::Failed { failure: ConvergenceFailure::Refused { error }, rolled_back: false };
        let end = scenario.outcome("n1");
        assert_eq!((end.end, end.trial), (failed, None));
        assert!(!scenario.is_complete());
    }
}

#[test]
fn settled_node_whose_trial_fails_during_the_run_is_a_failure_without_the_wait() {
    let settled = || on_trial(node("n1", "a"), &target());
    let mut cluster = observed([settled(), node("n2", "a")]);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    let mut scenario = rollout_over(cluster, policy(2), ASSIGN);
    scenario.see(settled());
    scenario.send(Input::Start);
    assert_eq!(scenario.trial_of("n1"), Some(Trial::default()), "this run did not see the trial begin");
    scenario.fail_trial("n1");
    assert!(matches!(scenario.outcome("n1").end, End::Failed { .. }));
}

#[test]
fn trial_that_does_not_end_times_out_and_is_not_rolled_back() {
    let mut scenario = rollout(two(), policy(2), Mode { rollback_on_failure: true, ..WAIT });
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.converge("n2");
    let limit = KUBELET_TRIAL.as_secs() + policy(2).convergence_timeout.as_secs();
    // A node that reports a later end again and again does not prolong the wait.
    let later = Node { trial_ends: Some(at(86_400)), ..on_trial(node("n1", "a"), &target()) };
    scenario.see(later);
    scenario.tick_at(limit - 1);
    assert!(!scenario.is_finished());
    scenario.tick_at(limit);
    assert!(scenario.is_finished());
    let failure = ConvergenceFailure::TimedOut { waiting: Waiting::OnTrial };
    assert_eq!(scenario.outcome("n1").end, End::Failed { failure, rolled_back: false });
    assert!(scenario.rolled_back().is_empty());
}

#[test]
fn node_that_is_not_ready_has_not_passed_its_trial() {
    let mut scenario = rollout(two(), policy(2), WAIT);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.converge("n2");
    scenario.see(Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target()) });
    assert!(!scenario.is_finished());
    scenario.tick_at(KUBELET_TRIAL.as_secs() + policy(2).convergence_timeout.as_secs());
    let failure = ConvergenceFailure::TimedOut { waiting: Waiting::NotReady };
    assert!(matches!(scenario.outcome("n1").end, End::Failed { failure: found, .. } if found == failure));
}

/// A run that waits for the trial of n1 and for nothing else.
fn waiting() -> Scenario {
    let mut scenario = rollout(two(), policy(2), WAIT);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.converge("n2");
    scenario
}

#[test]
fn each_stop_of_the_rollout_ends_the_wait_and_the_run_is_incomplete() {
    for reason in [
        StopReason::Interrupted,
        crate::aborted(),
        StopReason::LockLost,
        StopReason::ClusterFailed { error: "gone".to_owned() },
    ] {
        let mut scenario = waiting();
        scenario.send(Input::StopPool(pool_name("a"), crate::paused()));
        assert!(!scenario.is_finished(), "a pause concerns further nodes only");
        scenario.send(Input::Stop(reason.clone()));
        assert!(scenario.is_finished() && !scenario.is_complete(), "{reason}");
        assert_eq!(scenario.progress().last(), Some(&Progress::Stopped { reason: reason.clone() }));
        assert_eq!(scenario.stopped(), Some(reason));
        assert!(scenario.trial_of("n1").is_some());
        // The limit of the trial passes afterwards.
        scenario.tick_at(86_400);
        assert_eq!(scenario.end("n1"), End::Converged);
    }
}

#[test]
fn stop_during_the_last_transition_leaves_its_trial_unfinished() {
    for trial_before in [true, false] {
        let mut scenario = rollout(two(), policy(2), WAIT);
        scenario.send(Input::Start);
        if trial_before {
            scenario.begin_trial("n1")
        } else {
            drop(scenario.converge("n1"))
        };
        scenario.assigned("n2");
        scenario.send(Input::Stop(StopReason::Interrupted));
        assert!(!scenario.is_finished(), "the transition ends");
        scenario.see(on_trial(node("n2", "a"), &target()));
        assert!(scenario.is_finished() && !scenario.is_complete());
        assert_eq!(scenario.stopped(), Some(StopReason::Interrupted));
    }
}

#[test]
fn stop_that_leaves_no_awaited_trial_is_not_reported() {
    // Nothing was to be awaited.
    let mut scenario = rollout(two(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.send(Input::Stop(StopReason::Interrupted));
    scenario.begin_trial("n2");
    assert!(scenario.is_complete() && scenario.stopped().is_none());
    // All trials have ended.
    for reason in [StopReason::Interrupted, StopReason::LockLost] {
        let mut scenario = rollout(two(), policy(2), WAIT);
        scenario.send(Input::Start);
        scenario.begin_trial("n1");
        scenario.assigned("n2");
        scenario.send(Input::Stop(reason));
        scenario.pass_trial("n1");
        scenario.pass_trial("n2");
        assert!(scenario.is_complete() && scenario.stopped().is_none());
    }
    let mut scenario = rollout(two(), policy(2), WAIT);
    scenario.send(Input::Start);
    scenario.converge("n1");
    scenario.converge("n2");
    scenario.send(Input::Stop(StopReason::LockLost));
    assert!(scenario.is_complete());
    assert!(!scenario.progress().any(|progress| matches!(progress, Progress::Stopped { .. })));
}

#[test]
fn stop_during_the_wait_keeps_the_first_reason() {
    let mut scenario = rollout([two().to_vec(), vec![node("n3", "a")]].concat(), policy(2), WAIT);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.refuse("n2");
    let failed = StopReason::TooManyFailures { failures: 1, max_failures: 0 };
    scenario.send(Input::Withdrawn(node_name("n3")));
    assert_eq!(scenario.stopped().as_ref(), Some(&failed));
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert_eq!(scenario.stopped(), Some(failed));
}

#[test]
fn adopted_node_is_on_trial_of_its_own_config_map() {
    // Another name with the content of the target.
    let (other, text) = (source("handmade"), rendered("a", 64).canonical);
    let adopted = || on_trial(node("n1", "a"), &other);
    let cluster = || {
        let mut cluster = observed([adopted(), on(node("n2", "a"), &other)]);
        cluster.contents.extend([fetched(&other, &text, true)]);
        cluster
    };
    let start = |mode| {
        let mut scenario = rollout_over(cluster(), policy(2), mode);
        assert!(matches!(scenario.end("n1"), End::LeftAlone { why: Why::Adopted { .. } }));
        scenario.see(adopted());
        scenario.see(on(node("n2", "a"), &other));
        scenario.send(Input::Start);
        scenario
    };
    let mut scenario = start(WAIT);
    assert!(scenario.trial_of("n1").is_some() && !scenario.is_finished());
    let awaiting = Progress::AwaitingTrials { nodes: 1, until: None };
    assert_eq!(scenario.progress().collect::<Vec<_>>(), [&awaiting]);
    scenario.see(on(node("n1", "a"), &other));
    assert!(scenario.is_finished() && scenario.is_complete());

    let mut failed = adopted();
    (failed.status.active, failed.status.error) = (None, Some(format!("{}it died", error_text::TRIAL_PREFIX)));
    let mut scenario = start(WAIT);
    scenario.see(failed.clone());
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));
    // An error without a trial is no result of this run.
    scenario.see(Node { name: node_name("n2"), uid: "uid-n2".to_owned(), ..failed });
    assert!(matches!(scenario.end("n2"), End::LeftAlone { .. }));
}

#[test]
fn settled_nodes_are_announced_once_and_together() {
    let settled = |name| on_trial(node(name, "a"), &target());
    let mut cluster = observed([settled("n1"), settled("n2")]);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    let mut scenario = rollout_over(cluster, policy(2), VERIFY);
    scenario.see(settled("n1"));
    scenario.see(settled("n2"));
    scenario.send(Input::Start);
    let awaiting = Progress::AwaitingTrials { nodes: 2, until: None };
    assert_eq!(scenario.progress().collect::<Vec<_>>(), [&awaiting]);
}

#[test]
fn end_of_a_trial_is_unknown_if_an_agent_does_not_report_it() {
    let mut scenario = rollout(two(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    let active = Some(rendered("a", 64).hash);
    let content =
        Some(NodeContent { active, assigned: active, max_disruption: None, self_assigned: false, ..replacing() });
    scenario.see(Node { content, ..on_trial(node("n1", "a"), &target()) });
    assert_eq!(scenario.trial_of("n1"), Some(Trial { ends_at: None }));
}

#[test]
fn wait_is_announced_until_the_latest_end() {
    let mut scenario = rollout(two(), policy(2), WAIT);
    scenario.send(Input::Start);
    let ending = |name, end| Node { trial_ends: Some(at(end)), ..on_trial(node(name, "a"), &target()) };
    scenario.assigned("n1");
    scenario.see(ending("n1", 900));
    scenario.assigned("n2");
    scenario.see(ending("n2", 700));
    let awaiting = Progress::AwaitingTrials { nodes: 2, until: Some(at(900)) };
    assert_eq!(scenario.progress().last(), Some(&awaiting));
}

#[test]
fn limit_of_a_trial_counts_from_its_own_begin() {
    let timeout = policy(2).convergence_timeout.as_secs();
    let mut scenario = waiting();
    scenario.machine.now = Now::START.after(500);
    scenario.see(on_trial(node("n2", "a"), &target()));
    scenario.pass_trial("n1");
    // The ConfigMap was created again. The node reports an end that has passed.
    scenario.machine.now = Now::START.after(550);
    scenario.see(Node { trial_ends: Some(at(0)), ..on_trial(node("n1", "a"), &target()) });
    scenario.tick_at(550 + timeout - 1);
    assert_eq!(scenario.end("n1"), End::Converged);
    scenario.tick_at(550 + timeout);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));
    // A new trial has a new limit.
    let mut scenario = waiting();
    scenario.machine.now = Now::START.after(500);
    scenario.see(on_trial(node("n2", "a"), &target()));
    scenario.pass_trial("n1");
    scenario.machine.now = Now::START.after(550);
    scenario.see(on_trial(node("n1", "a"), &target()));
    let limit = KUBELET_TRIAL.as_secs() + timeout;
    scenario.tick_at(limit);
    assert_eq!(scenario.end("n1"), End::Converged, "the limit of the first trial");
    scenario.tick_at(550 + limit);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));
}

#[test]
fn failed_trial_fails_once() {
    let mut scenario = rollout(two(), RolloutPolicy { max_failures: 9, ..policy(2) }, WAIT);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.machine.now = Now::START.after(500);
    scenario.begin_trial("n2");
    scenario.fail_trial("n1");
    let failed = scenario.end("n1");
    scenario.tick_at(KUBELET_TRIAL.as_secs() + policy(2).convergence_timeout.as_secs());
    assert!(!scenario.is_finished());
    assert_eq!(scenario.end("n1"), failed, "the limit of a trial that ended has no effect");
}

#[test]
fn node_that_was_not_ready_passes_its_trial_without_it() {
    let down = |node| Node { ready: Readiness::NotReady, ..node };
    let mut scenario = rollout([down(node("n1", "a"))], policy(1), WAIT);
    scenario.send(Input::Start);
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.see(down(on_trial(node("n1", "a"), &target())));
    assert!(scenario.trial_of("n1").is_some());
    scenario.see(down(on(node("n1", "a"), &target())));
    assert!(scenario.is_finished() && scenario.is_complete());
}

#[test]
fn expected_end_of_a_trial_follows_the_speed_of_the_nodes() {
    let mut scenario = rollout(two(), policy(2), Mode { speed: 10.0, ..WAIT });
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    let end = KUBELET_TRIAL.as_secs() / 10;
    assert_eq!(scenario.trial_of("n1"), Some(Trial { ends_at: Some(at(end)) }));
    // The time limit of a node comes after the trial, and is shorter, too.
    let limit = policy(2).convergence_timeout.as_secs() / 10;
    scenario.tick_at(end + limit - 1);
    assert_eq!(scenario.end("n1"), End::Converged);
    scenario.tick_at(end + limit);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }), "{:?}", scenario.end("n1"));
}

#[test]
fn verify_knows_trials_as_a_rollout_does() {
    let settled = |node: Node| {
        let mut cluster = observed([node]);
        with_config_map(&mut cluster, "a", &rendered("a", 64));
        let mut scenario = rollout_over(cluster, policy(1), VERIFY);
        scenario.send(Input::Start);
        scenario
    };
    // An error without a trial came after the node had converged.
    let mut scenario = settled(on(node("n1", "a"), &target()));
    scenario.see(refusing(node("n1", "a"), &target(), error_text::VALIDATE));
    assert_eq!(scenario.end("n1"), End::LeftAlone { why: Why::Converged });
    // A node that is not Ready has not passed its trial.
    let mut scenario = settled(on_trial(node("n1", "a"), &target()));
    scenario.see(on_trial(node("n1", "a"), &target()));
    assert!(!scenario.is_finished());
    scenario.see(Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &target()) });
    assert!(!scenario.is_finished());
    scenario.pass_trial("n1");
    assert!(scenario.is_finished());
}
