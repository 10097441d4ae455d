//! Steps of the time of day, which an administrator or NTP sets: durations pass as before, and only schedules follow.

use super::gates::{GATED, gated};
use super::*;
use nodecfg_fleet::gates::Moment;
use nodecfg_observed::Maintainer;
use nodecfg_plan::fixtures::{canary, on_trial};
use nodecfg_rollout::progress::StartGate;

const HOUR: i64 = 3600;

#[test]
fn time_limit_of_a_node_passes_as_before() {
    for step in [HOUR, -HOUR] {
        for mode in [ASSIGN, Mode { assign: false, ..ASSIGN }] {
            let policy = RolloutPolicy { convergence_timeout: Duration::from_secs(300), ..policy(1) };
            let mut scenario = rollout([node("n1", "a")], policy, mode);
            scenario.send(Input::Start);
            if mode.assign {
                scenario.assigned("n1");
            }
            scenario.step_clock(step);
            let source = mode.assign.then(target);
            scenario.see(Node { source, ..node("n1", "a") });
            scenario.wait(299);
            assert_eq!(scenario.end("n1"), End::InFlight, "{step}");
            scenario.wait(1);
            assert!(matches!(scenario.end("n1"), End::Failed { .. }), "{step}");
        }
    }
}

#[test]
fn soak_passes_as_before_and_shows_its_end_by_the_present_clock() {
    for step in [HOUR, -HOUR] {
        let policy = RolloutPolicy { canary: canary(1, 600), ..policy(1) };
        let mut scenario = rollout([node("n1", "a"), node("n2", "a")], policy, ASSIGN);
        assert_eq!(scenario.send(Input::Start), ["assign n1"]);
        assert!(scenario.converge("n1").is_empty());
        scenario.wait(100);
        scenario.step_clock(step);
        // The event reports the state of the pool.
        scenario.see(Node { maintainer: Some(Maintainer::Kured), ..node("n2", "a") });
        let until = Timestamp::from_second(step + 600).unwrap();
        assert_eq!(scenario.state().gate, StartGate::Soaking { until });
        scenario.see(node("n2", "a"));
        assert!(scenario.wait(499).is_empty());
        assert_eq!(scenario.wait(1), ["assign n2"]);
    }
}

#[test]
fn answer_of_a_gate_becomes_stale_as_before() {
    for step in [HOUR, -HOUR] {
        let mut scenario = rollout(three(), gated(1, &[Moment::Node]), GATED);
        scenario.send(Input::Start);
        assert_eq!(scenario.fires(&[]), ["assign n1"]);
        scenario.wait(10);
        scenario.step_clock(step);
        assert_eq!(scenario.converge("n1"), ["assign n2"], "the answer is ten seconds old");
        scenario.wait(21);
        assert!(scenario.converge("n2").is_empty(), "the answer is too old");
        // A newer answer counts, although its time of day is earlier.
        assert!(scenario.fires(&["a"]).is_empty());
        scenario.wait(15);
        assert!(scenario.unknown().is_empty());
        assert_eq!(scenario.fires(&[]), ["assign n3"]);
    }
}

#[test]
fn trial_is_awaited_for_the_time_that_was_left() {
    let wait = Mode { wait_trial: true, ..ASSIGN };
    let policy = RolloutPolicy { convergence_timeout: Duration::from_secs(300), ..policy(1) };
    let mut scenario = rollout([node("n1", "a")], policy, wait);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    scenario.see(on_trial(node("n1", "a"), &target()));
    scenario.step_clock(-HOUR);
    let limit = i64::try_from(nodecfg_plan::convergence::KUBELET_TRIAL.as_secs()).unwrap() + 300;
    scenario.wait(limit - 1);
    assert!(!scenario.is_finished());
    scenario.wait(1);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));
}
