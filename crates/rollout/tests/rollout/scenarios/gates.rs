//! Scenario tests of gates: holds before the first node, waits between nodes, soaks, and rollbacks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::super::Machine;
use super::{ASSIGN, rollout, rollout_over, target, three};
use crate::scenario::Scenario;
use nodecfg_contract::names::GateName;
use nodecfg_contract::{ObjectId, ObjectRef};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_fleet::gates::{Baseline, Gate, GateCheck, Moment, PrometheusQuery, Question, Wanted};
use nodecfg_fleet::hold::{Hold, HoldReason};
use nodecfg_observed::{Node, Observed};
use nodecfg_plan::fixtures::{
    canary, desired, node, node_name, observed, on, options, policy, pool, pool_name, rendered, with_config_map,
};
use nodecfg_plan::make;
use nodecfg_rollout::instant::Now;
use nodecfg_rollout::judge::{Answer, Asked, Series};
use nodecfg_rollout::machine::{Command, Input, Mode};
use nodecfg_rollout::progress::Progress;
use nodecfg_rollout::{End, StopReason};

pub(super) const GATED: Mode = Mode { gates: Some(Duration::from_secs(15)), ..ASSIGN };

fn gate_name() -> GateName {
    GateName::new("errors").unwrap()
}

fn query() -> PrometheusQuery {
    PrometheusQuery { query: "errors > 1".to_owned(), present: "errors".to_owned() }
}

fn gate(at: &[Moment]) -> Gate {
    Gate {
        name: gate_name(),
        check: GateCheck::Prometheus { query: query(), baseline: Baseline::Use },
        at: at.iter().copied().collect(),
        patience: Duration::from_secs(600),
    }
}

pub(super) fn gated(budget: u32, at: &[Moment]) -> RolloutPolicy {
    RolloutPolicy { gates: vec![gate(at)], convergence_timeout: Duration::from_secs(300), ..policy(budget) }
}

impl Scenario {
    pub(super) fn gate(&mut self, answer: Answer) -> Vec<String> {
        let question = Question::Prometheus(query());
        self.send(Input::Gate(Box::new(Asked { question, answer, at: self.machine.now.instant })))
    }

    /// Answers with one series for each of these jobs.
    pub(super) fn fires(&mut self, jobs: &[&str]) -> Vec<String> {
        let series = |job: &&str| Series {
            labels: Arc::new([("job".to_owned(), (*job).to_owned())].into()),
            value: "5".to_owned(),
        };
        self.gate(Answer::Prometheus { firing: Ok(jobs.iter().map(series).collect()), present: Ok(1) })
    }

    pub(super) fn unknown(&mut self) -> Vec<String> {
        self.gate(Answer::Prometheus { firing: Err("no answer".to_owned()), present: Ok(1) })
    }

    fn held_by(&self) -> Option<String> {
        let outcome = self.machine.outcome();
        outcome.pools.get(&pool_name("a")).unwrap().held.as_ref().map(ToString::to_string)
    }

    /// Waits this long with a passing answer every 15 seconds. Returns the nodes that start.
    fn wait_passing(&mut self, seconds: i64) -> Vec<String> {
        let mut started = Vec::new();
        for _ in 0..seconds / 15 {
            started.extend(self.wait(15));
            started.extend(self.fires(&[]));
        }
        started
    }

    fn gate_events(&self) -> Vec<&'static str> {
        let word = |progress: &Progress| match progress {
            Progress::GateClosed { .. } => Some("closed"),
            Progress::GateOpened { .. } => Some("opened"),
            _ => None,
        };
        self.progress().filter_map(word).collect()
    }
}

#[test]
fn first_node_waits_for_the_first_answer() {
    let mut scenario = rollout(three(), gated(2, &Moment::ALL), GATED);
    assert!(scenario.send(Input::Start).is_empty());
    assert!(scenario.wait(5).is_empty());
    assert!(!scenario.is_finished());
    assert_eq!(scenario.fires(&[]), ["assign n1", "assign n2"]);
    assert_eq!(scenario.converge("n1"), ["assign n3"]);
    scenario.converge("n2");
    scenario.converge("n3");
    assert!(scenario.is_finished() && scenario.is_complete());
    assert_eq!(scenario.gate_events(), [""; 0]);
}

#[test]
fn start_gate_that_does_not_pass_holds_the_pool() {
    for blocks in [true, false] {
        let mut gates = gated(2, &[Moment::Start]);
        gates.gates[0].check = GateCheck::Prometheus { query: query(), baseline: Baseline::Ignore };
        let mut scenario = rollout(three(), gates, GATED);
        scenario.send(Input::Start);
        let started = if blocks { scenario.fires(&["a"]) } else { scenario.unknown() };
        assert!(started.is_empty());
        assert!(scenario.is_finished() && scenario.is_complete());
        assert_eq!(scenario.end("n1"), End::Held);
        assert_eq!(scenario.stopped(), None);
        let why = if blocks { "{job=\"a\"} is 5" } else { "unknown: no answer" };
        assert_eq!(scenario.held_by().unwrap(), format!("gate errors does not pass: {why}"));
        let why = HoldReason::Gate { gate: gate_name(), reason: why.to_owned() };
        let held = Progress::PoolHeld { nodes: 3, hold: Hold { why, next: None } };
        assert_eq!(scenario.progress().collect::<Vec<_>>(), [&held]);
        // The hold is final for this run.
        assert!(scenario.fires(&[]).is_empty());
    }
}

#[test]
fn gates_without_answers_hold_the_pool_after_a_minute() {
    let mut scenario = rollout(three(), gated(2, &[Moment::Node]), GATED);
    scenario.send(Input::Start);
    scenario.wait(59);
    assert!(!scenario.is_finished());
    scenario.wait(1);
    assert!(scenario.is_finished());
    assert_eq!(scenario.held_by().unwrap(), "gate errors does not pass: unknown: no answer yet");
}

#[test]
fn series_before_the_first_node_are_the_baseline() {
    let mut scenario = rollout(three(), gated(1, &Moment::ALL), GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.fires(&["a"]), ["assign n1"]);
    scenario.assigned("n1");
    scenario.fires(&["a"]);
    assert_eq!(scenario.see_on_target("n1"), ["assign n2"]);
    scenario.assigned("n2");
    // The later answer adds a series, which is no baseline any more.
    scenario.fires(&["a", "b"]);
    scenario.fires(&["a", "b"]);
    assert!(scenario.see_on_target("n2").is_empty());
    assert_eq!(scenario.fires(&["a"]), ["assign n3"]);
    assert_eq!(scenario.gate_events(), ["closed", "opened"]);
}

#[test]
fn continued_rollout_has_no_baseline() {
    // n1 runs the target already, so the firing series may be its effect.
    let cluster = [on(node("n1", "a"), &target()), node("n2", "a"), node("n3", "a")];
    let mut scenario = rollout_over(with_target(cluster.clone()), gated(1, &Moment::ALL), GATED);
    scenario.send(Input::Start);
    assert!(scenario.fires(&["a"]).is_empty());
    assert_eq!(scenario.held_by().unwrap(), "gate errors does not pass: {job=\"a\"} is 5");
    // A node in transition counts as well. It is watched, whatever the gate says.
    let assigned = Node { source: Some(target()), ..node("n1", "a") };
    let mut scenario =
        rollout_over(with_target([assigned, cluster[1].clone(), cluster[2].clone()]), gated(1, &Moment::ALL), GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.end("n1"), End::InFlight);
    assert!(scenario.fires(&["a"]).is_empty());
    assert!(!scenario.is_finished(), "n1 is watched to its end");
    scenario.see_on_target("n1");
    assert!(scenario.is_finished());
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::Converged, End::Held]);
}

#[test]
fn no_node_starts_while_a_node_gate_does_not_pass() {
    let mut scenario = rollout(three(), gated(1, &Moment::ALL), GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.fires(&[]), ["assign n1"]);
    scenario.assigned("n1");
    scenario.fires(&["new"]);
    assert!(scenario.see_on_target("n1").is_empty());
    // The pool waits, and is not stalled by its budget.
    for _ in 0..39 {
        assert!(scenario.wait(15).is_empty());
        assert!(scenario.fires(&["new"]).is_empty());
    }
    assert_eq!(scenario.stopped(), None);
    assert_eq!(scenario.gate_events(), ["closed"]);
    scenario.wait(14);
    assert_eq!(scenario.stopped(), None);
    scenario.wait(1);
    let why = "{job=\"new\"} is 5".to_owned();
    let stop = StopReason::GateClosed { gate: gate_name(), why, canaries: false };
    assert_eq!(scenario.stopped(), Some(stop));
    assert!(scenario.is_finished() && !scenario.is_complete());
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::Converged, End::NotStarted]);
    assert_eq!(scenario.rolled_back(), [""; 0]);
}

#[test]
fn old_answers_are_unknown() {
    let mut scenario = rollout(three(), gated(1, &Moment::ALL), GATED);
    scenario.send(Input::Start);
    scenario.fires(&[]);
    scenario.assigned("n1");
    assert!(scenario.wait(30).is_empty());
    assert_eq!(scenario.gate_events(), [""; 0], "an answer counts for two intervals");
    scenario.wait(1);
    assert_eq!(scenario.gate_events(), ["closed"]);
    assert!(scenario.see_on_target("n1").is_empty());
    assert_eq!(scenario.fires(&[]), ["assign n2"]);
    assert_eq!(scenario.gate_events(), ["closed", "opened"]);
    // Without any event, the patience ends by a timer.
    scenario.converge("n2");
    scenario.assigned("n3");
    assert!(scenario.machine.next_tick().is_some());
}

#[test]
fn patience_begins_anew_after_each_pass() {
    let policy = RolloutPolicy { convergence_timeout: Duration::from_secs(3600), ..gated(1, &Moment::ALL) };
    let mut scenario = rollout(three(), policy, GATED);
    scenario.send(Input::Start);
    scenario.fires(&[]);
    scenario.assigned("n1");
    for _ in 0..3 {
        scenario.unknown();
        scenario.wait(400);
        scenario.fires(&[]);
    }
    assert_eq!(scenario.gate_events(), ["closed", "opened", "closed", "opened", "closed", "opened"]);
    assert_eq!(scenario.stopped(), None);
}

#[test]
fn unused_moments_do_not_delay() {
    // Only before the first node.
    let mut scenario = rollout(three(), gated(1, &[Moment::Start]), GATED);
    scenario.send(Input::Start);
    scenario.fires(&[]);
    scenario.assigned("n1");
    scenario.fires(&["new"]);
    assert_eq!(scenario.see_on_target("n1"), ["assign n2"]);
    // Only between nodes: the first one starts although the gate does not pass.
    let mut scenario = rollout(three(), gated(2, &[Moment::Node]), GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.unknown(), ["assign n1"], "the budget is two nodes");
    // Off.
    let mut scenario = rollout(three(), gated(2, &[]), GATED);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
    // A run that asks no gates, such as a rollback.
    let mut scenario = rollout(three(), gated(2, &Moment::ALL), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["assign n1", "assign n2"]);
}

fn soaking(at: &[Moment]) -> Scenario {
    let mut scenario = rollout(three(), RolloutPolicy { canary: canary(1, 60), ..gated(3, at) }, GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.fires(&[]), ["assign n1"]);
    assert!(scenario.converge("n1").is_empty());
    scenario
}

#[test]
fn blocking_gate_fails_the_soaking_canaries() {
    let mut scenario = soaking(&Moment::ALL);
    scenario.wait(20);
    assert!(scenario.fires(&["new"]).is_empty());
    let why = "{job=\"new\"} is 5".to_owned();
    assert_eq!(scenario.stopped(), Some(StopReason::GateClosed { gate: gate_name(), why, canaries: true }));
    assert!(scenario.is_finished());
    assert_eq!([scenario.end("n1"), scenario.end("n2")], [End::Converged, End::NotStarted]);
    // A gate without this step does not.
    let mut scenario = soaking(&[Moment::Start]);
    scenario.fires(&["new"]);
    assert_eq!(scenario.stopped(), None);
    assert_eq!(scenario.wait(60), ["assign n2", "assign n3"]);
}

#[test]
fn soak_ends_only_with_a_passing_gate() {
    let mut scenario = soaking(&[Moment::Soak]);
    assert!(scenario.wait_passing(45).is_empty());
    scenario.unknown();
    assert!(scenario.wait(15).is_empty());
    assert_eq!(scenario.stopped(), None);
    assert_eq!(scenario.fires(&[]), ["assign n2", "assign n3"]);
    assert_eq!(scenario.gate_events(), ["closed", "opened"]);

    let mut scenario = soaking(&[Moment::Soak]);
    assert_eq!(scenario.wait_passing(60), ["assign n2", "assign n3"]);
}

#[test]
fn patience_of_a_soak_begins_at_its_end() {
    let mut scenario = soaking(&[Moment::Soak]);
    scenario.unknown();
    scenario.wait(60);
    scenario.wait(599);
    assert_eq!(scenario.stopped(), None);
    scenario.wait(1);
    assert!(matches!(scenario.stopped(), Some(StopReason::GateClosed { canaries: true, .. })));
}

#[test]
fn other_questions_are_ignored_and_objects_are_judged() {
    let object = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: None,
        by: ObjectId::Name("p".to_owned()),
    };
    let wanted = Wanted::Condition { condition: "Ready".to_owned(), status: "True".to_owned() };
    let check = GateCheck::Object { object: object.clone(), wanted };
    let policy = RolloutPolicy { gates: vec![Gate { check, ..gate(&Moment::ALL) }], ..policy(1) };
    let mut scenario = rollout(three(), policy, GATED);
    scenario.send(Input::Start);
    assert!(scenario.fires(&[]).is_empty(), "another question");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let (question, at) = (Question::Object(object), scenario.machine.now.instant);
    let asked = Asked { question, answer: Answer::Object(Ok(ready)), at };
    assert_eq!(scenario.send(Input::Gate(Box::new(asked))), ["assign n1"]);
}

/// A rollout of five nodes with budget 2: n1, n2 and n3 have converged, n4 is in transition, and a new series fires.
fn failing(returns: bool) -> Scenario {
    let nodes: Vec<Node> = ["n1", "n2", "n3", "n4", "n5"].iter().map(|name| node(name, "a")).collect();
    let policy = RolloutPolicy {
        rollback_on_gate_failure: returns,
        convergence_timeout: Duration::from_secs(3600),
        ..gated(2, &Moment::ALL)
    };
    let mut scenario = rollout(nodes, policy, GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.fires(&[]), ["assign n1", "assign n2"]);
    assert_eq!(scenario.converge("n1"), ["assign n3"]);
    assert_eq!(scenario.converge("n2"), ["assign n4"]);
    scenario.assigned("n4");
    assert!(scenario.fires(&["new"]).is_empty());
    assert!(scenario.converge("n3").is_empty());
    for _ in 0..40 {
        scenario.wait(15);
        scenario.fires(&["new"]);
    }
    assert!(matches!(scenario.stopped(), Some(StopReason::GateClosed { canaries: false, .. })));
    scenario
}

impl Scenario {
    /// Answers the rollback of a node, which then runs its previous source again.
    fn back(&mut self, name: &str) {
        self.send(Input::RolledBack(node_name(name), Ok(())));
        self.see(node(name, "a"));
    }
}

#[test]
fn assigned_nodes_return_within_the_budget() {
    let mut scenario = failing(true);
    // n4 is unavailable already, so one converged node fits into the budget.
    assert_eq!(scenario.rolled_back(), ["n4", "n1"]);
    scenario.back("n1");
    assert_eq!(scenario.rolled_back(), ["n4", "n1", "n2"]);
    scenario.back("n4");
    assert_eq!(scenario.rolled_back(), ["n4", "n1", "n2", "n3"]);
    assert!(!scenario.is_finished());
    scenario.back("n3");
    scenario.back("n2");
    assert!(scenario.is_finished() && !scenario.is_complete());
    let ends = ["n1", "n2", "n3", "n4", "n5"].map(|name| scenario.end(name));
    assert_eq!(ends, [End::RolledBack, End::RolledBack, End::RolledBack, End::RolledBack, End::NotStarted]);
}

#[test]
fn assigned_nodes_stay_by_default() {
    let mut scenario = failing(false);
    assert_eq!(scenario.rolled_back(), [""; 0]);
    scenario.see_on_target("n4");
    assert!(scenario.is_finished());
    assert_eq!([scenario.end("n1"), scenario.end("n4")], [End::Converged, End::Converged]);
}

#[test]
fn return_ends_if_the_budget_stays_exhausted() {
    let mut scenario = failing(true);
    // The two nodes that were rolled back first never come back.
    for name in ["n4", "n1"] {
        scenario.send(Input::RolledBack(node_name(name), Ok(())));
    }
    scenario.wait(3600);
    scenario.wait(3600);
    assert!(scenario.is_finished(), "{:?}", scenario.machine.outcome());
    assert_eq!([scenario.end("n2"), scenario.end("n3")], [End::Converged, End::Converged]);
}

/// Gates count from the turn of their pool, and the baseline is that of its first node.
#[test]
fn pool_that_waits_for_another_asks_at_its_turn() {
    let first = pool("a", 64, policy(1));
    let second = RolloutPolicy { after: [pool_name("a")].into(), ..gated(1, &Moment::ALL) };
    let desired = desired([first, pool("b", 64, second)]);
    let cluster = observed([node("a1", "a"), node("b1", "b"), node("b2", "b")]);
    for passes in [true, false] {
        let plan = make(&desired, &cluster, &options()).unwrap();
        let mut machine = Machine::new(&plan, GATED);
        let mut at = Now::START;
        let answer = |at: Now, firing: Result<Vec<Series>, String>| {
            let question = Question::Prometheus(query());
            let answer = Answer::Prometheus { firing, present: Ok(1) };
            Input::Gate(Box::new(Asked { question, answer, at: at.instant }))
        };
        let started = |commands: Vec<Command>| -> Vec<String> {
            let name = |command| match command {
                Command::Assign(node, _) => Some(node.to_string()),
                _ => None,
            };
            commands.into_iter().filter_map(name).collect()
        };
        assert_eq!(started(machine.step_at(Input::Start, at)), ["a1"]);
        machine.step_at(answer(at, Err("no answer".to_owned())), at);
        at = at.after(100);
        machine.step_at(Input::Tick, at);
        let held = |machine: &Machine| machine.outcome().pools[&pool_name("b")].held.is_some();
        assert!(!held(&machine), "it is not the turn of b");
        machine.step_at(answer(at, if passes { Ok(Vec::new()) } else { Err("no answer".to_owned()) }), at);
        machine.step_at(Input::Assigned(node_name("a1")), at);
        let converged = on(node("a1", "a"), &target());
        let next = started(machine.step_at(Input::Observed(Box::new(converged)), at));
        assert_eq!((next.len(), held(&machine)), if passes { (1, false) } else { (0, true) });
    }
}

/// A series that begins to fire after the first node of the run may be the effect of another pool.
#[test]
fn baseline_ends_with_the_first_node_of_the_run() {
    let first = pool("a", 64, policy(1));
    let second = RolloutPolicy { after: [pool_name("a")].into(), ..gated(1, &Moment::ALL) };
    let desired = desired([first, pool("b", 64, second)]);
    let cluster = observed([node("a1", "a"), node("b1", "b")]);
    for (jobs, starts) in [(&["old"][..], true), (&["old", "new"], false)] {
        let plan = make(&desired, &cluster, &options()).unwrap();
        let (mut machine, at) = (Machine::new(&plan, GATED), Now::START);
        let answer = |jobs: &[&str]| {
            let series = |job: &&str| Series {
                labels: Arc::new([("job".to_owned(), (*job).to_owned())].into()),
                value: "5".to_owned(),
            };
            let answer = Answer::Prometheus { firing: Ok(jobs.iter().map(series).collect()), present: Ok(1) };
            Input::Gate(Box::new(Asked { question: Question::Prometheus(query()), answer, at: at.instant }))
        };
        machine.step_at(Input::Start, at);
        // The first answer may arrive after the first node of another pool has started.
        machine.step_at(answer(&["old"]), at);
        machine.step_at(answer(jobs), at);
        machine.step_at(Input::Assigned(node_name("a1")), at);
        let commands = machine.step_at(Input::Observed(Box::new(on(node("a1", "a"), &target()))), at);
        assert_eq!(commands.iter().any(|command| matches!(command, Command::Assign(..))), starts, "{jobs:?}");
    }
}

/// A cluster with the ConfigMap of the target.
fn with_target(nodes: impl IntoIterator<Item = Node>) -> Observed {
    let mut cluster = observed(nodes);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    cluster
}

#[test]
fn cordoned_node_is_queued_once_while_its_pool_waits() {
    let mut scenario = rollout(three(), gated(2, &[Moment::Start]), GATED);
    scenario.send(Input::Start);
    for _ in 0..3 {
        assert!(scenario.see(Node { cordoned: true, ..node("n1", "a") }).is_empty());
    }
    assert_eq!(scenario.fires(&[]), ["assign n1", "assign n2"]);
}

/// A gate of the next node may close while the canaries soak.
#[test]
fn gate_that_stops_the_pool_at_the_end_of_a_soak_returns_nodes_at_once() {
    let impatient = Gate { patience: Duration::ZERO, ..gate(&[Moment::Node]) };
    let policy = RolloutPolicy { gates: vec![impatient], rollback_on_gate_failure: true, ..gated(2, &[]) };
    let policy = RolloutPolicy { canary: canary(1, 60), ..policy };
    let mut scenario = rollout(three(), policy, GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.fires(&[]), ["assign n1"]);
    assert!(scenario.converge("n1").is_empty());
    scenario.wait(55);
    scenario.fires(&["web"]);
    assert_eq!(scenario.wait(5), ["roll back n1"]);
    assert!(matches!(scenario.stopped(), Some(StopReason::GateClosed { canaries: false, .. })));
}
