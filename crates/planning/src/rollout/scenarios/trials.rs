//! Trials of converged nodes: what the outcome reports of them, and the wait for their ends.

use super::*;
use crate::convergence::{KUBELET_TRIAL, Trial};
use crate::plan::fixtures::on_trial;

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
        self.show(on_trial(node(name, "a"), &Self::target()));
    }

    fn show(&mut self, node: Node) {
        self.send(Input::Observed(Box::new(node)));
    }

    fn pass_trial(&mut self, name: &str) {
        self.show(on(node(name, "a"), &Self::target()));
    }

    /// The node after its agent rolled it back.
    fn fail_trial(&mut self, name: &str) {
        let mut back = on_trial(node(name, "a"), &Self::target());
        (back.status.active, back.status.error) = (None, Some(format!("{}it died", error_text::TRIAL_PREFIX)));
        self.show(back);
    }

    fn tick_at(&mut self, until: u64) {
        self.now = at(until);
        self.send(Input::Tick);
    }

    fn trial_of(&self, name: &str) -> Option<Trial> {
        self.end_of(name).trial
    }

    fn end_of(&self, name: &str) -> crate::rollout::NodeOutcome {
        let outcome = self.machine.outcome();
        outcome.pools[&pool_name("a")].nodes.iter().find(|node| node.node == node_name(name)).unwrap().clone()
    }

    fn is_complete(&self) -> bool {
        self.machine.outcome().is_complete()
    }
}

#[test]
fn outcome_has_the_latest_end_of_a_trial_that_the_run_saw_begin() {
    let mut scenario = Scenario::new(two(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    scenario.now = at(30);
    scenario.begin_trial("n1");
    scenario.converge("n2");
    assert!(scenario.machine.is_finished() && scenario.is_complete());
    // Kubelets report no end.
    let end = at(30 + KUBELET_TRIAL.as_secs());
    assert_eq!(scenario.trial_of("n1"), Some(Trial { ends_at: Some(end) }));
    assert_eq!(scenario.trial_of("n2"), None);
    assert_eq!(scenario.state.as_ref().unwrap().counts.on_trial, 1);
    scenario.pass_trial("n1");
    assert_eq!(scenario.trial_of("n1"), None);
}

#[test]
fn reported_end_of_a_trial_replaces_the_latest_possible_one() {
    let mut scenario = Scenario::new(two(), policy(2), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    let reporting = |end| Node { trial_ends: end, ..on_trial(node("n1", "a"), &Scenario::target()) };
    scenario.show(reporting(Some(at(120))));
    assert_eq!(scenario.trial_of("n1"), Some(Trial { ends_at: Some(at(120)) }));
    scenario.show(reporting(Some(at(150))));
    scenario.show(reporting(None));
    assert_eq!(scenario.trial_of("n1"), Some(Trial { ends_at: Some(at(150)) }));
}

#[test]
fn wait_ends_with_the_last_trial() {
    let mut scenario = Scenario::new(two(), policy(2), WAIT);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.begin_trial("n2");
    let until = Some(at(KUBELET_TRIAL.as_secs()));
    let awaiting = Progress::AwaitingTrials { pool: pool_name("a"), nodes: 2, until };
    assert_eq!(scenario.progress.last(), Some(&awaiting));
    assert_eq!(scenario.state.as_ref().unwrap().trials_end, until);
    scenario.pass_trial("n1");
    assert!(!scenario.machine.is_finished());
    scenario.pass_trial("n2");
    assert!(scenario.machine.is_finished() && scenario.is_complete());
    let passed = scenario.progress.iter().filter(|progress| matches!(progress, Progress::TrialPassed { .. })).count();
    assert_eq!(passed, 2);
}

#[test]
fn trials_take_no_budget_and_delay_no_other_node() {
    let policy = RolloutPolicy { canary: crate::plan::fixtures::canary(1, 10), ..policy(1) };
    let mut scenario = Scenario::new(two(), policy, WAIT);
    assert_eq!(scenario.send(Input::Start), ["n1"]);
    scenario.begin_trial("n1");
    scenario.now = at(10);
    assert_eq!(scenario.send(Input::Tick), ["n2"], "the soak time is not longer");
    scenario.begin_trial("n2");
    scenario.pass_trial("n1");
    scenario.pass_trial("n2");
    assert!(scenario.machine.is_finished() && scenario.is_complete());
}

#[test]
fn failed_trial_fails_the_node_with_its_error() {
    for (mode, settled) in [(WAIT, false), (WAIT, true), (VERIFY, true)] {
        let mut cluster = observed(two());
        if settled {
            let node = on_trial(node("n1", "a"), &Scenario::target());
            cluster.nodes.insert(node.name.clone(), node);
            with_config_map(&mut cluster, "a", &rendered("a", 64));
        }
        let mut scenario = Scenario::over(cluster, policy(2), mode);
        if settled {
            scenario.show(on_trial(node("n1", "a"), &Scenario::target()));
            scenario.send(Input::Start);
        } else {
            scenario.send(Input::Start);
            scenario.begin_trial("n1");
        }
        scenario.fail_trial("n1");
        let error = "failed trial: it died".to_owned();
        let failed = End::Failed { failure: ConvergenceFailure::Refused { error }, rolled_back: false };
        let end = scenario.end_of("n1");
        assert_eq!((end.end, end.trial), (failed, None));
        assert!(!scenario.is_complete());
    }
}

#[test]
fn settled_node_whose_trial_fails_during_the_run_is_a_failure_without_the_wait() {
    let settled = || on_trial(node("n1", "a"), &Scenario::target());
    let mut cluster = observed([settled(), node("n2", "a")]);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    let mut scenario = Scenario::over(cluster, policy(2), ASSIGN);
    scenario.show(settled());
    scenario.send(Input::Start);
    assert_eq!(scenario.trial_of("n1"), Some(Trial::default()), "this run did not see the trial begin");
    scenario.fail_trial("n1");
    assert!(matches!(scenario.end_of("n1").end, End::Failed { .. }));
}

#[test]
fn trial_that_does_not_end_times_out_and_is_not_rolled_back() {
    let mut scenario = Scenario::new(two(), policy(2), Mode { rollback_on_failure: true, ..WAIT });
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.converge("n2");
    let limit = KUBELET_TRIAL.as_secs() + policy(2).convergence_timeout.as_secs();
    // A node that reports a later end again and again does not prolong the wait.
    let later = Node { trial_ends: Some(at(86_400)), ..on_trial(node("n1", "a"), &Scenario::target()) };
    scenario.show(later);
    scenario.tick_at(limit - 1);
    assert!(!scenario.machine.is_finished());
    scenario.tick_at(limit);
    assert!(scenario.machine.is_finished());
    let failure = ConvergenceFailure::TimedOut { waiting: Waiting::OnTrial };
    assert_eq!(scenario.end_of("n1").end, End::Failed { failure, rolled_back: false });
    assert!(scenario.rolled_back.is_empty());
}

#[test]
fn node_that_is_not_ready_has_not_passed_its_trial() {
    let mut scenario = Scenario::new(two(), policy(2), WAIT);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.converge("n2");
    scenario.show(Node { ready: Readiness::NotReady, ..on(node("n1", "a"), &Scenario::target()) });
    assert!(!scenario.machine.is_finished());
    scenario.tick_at(KUBELET_TRIAL.as_secs() + policy(2).convergence_timeout.as_secs());
    let failure = ConvergenceFailure::TimedOut { waiting: Waiting::NotReady };
    assert!(matches!(scenario.end_of("n1").end, End::Failed { failure: found, .. } if found == failure));
}

#[test]
fn interrupt_ends_the_wait_and_the_run_is_incomplete() {
    let mut scenario = Scenario::new(two(), policy(2), WAIT);
    scenario.send(Input::Start);
    scenario.begin_trial("n1");
    scenario.converge("n2");
    let paused = StopReason::Paused { by: "ada".to_owned(), reason: "disks".to_owned() };
    scenario.send(Input::StopPool(pool_name("a"), paused));
    assert!(!scenario.machine.is_finished(), "a pause concerns further nodes only");
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert!(scenario.machine.is_finished() && !scenario.is_complete());
    assert_eq!(scenario.machine.outcome().pools[&pool_name("a")].stopped, Some(StopReason::Interrupted));
    assert!(scenario.trial_of("n1").is_some());
}
