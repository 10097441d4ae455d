//! Property tests of gates: whatever is answered and whatever nodes do, no node starts and no soak ends while a gate of
//! that step does not pass, and nodes that return keep the budget.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::Machine;
use nodecfg_contract::names::{GateName, NodeName};
use nodecfg_fleet::gates::{Baseline, Gate, GateCheck, Moment, PrometheusQuery, Question};
use nodecfg_observed::Node;
use nodecfg_plan::convergence::Target;
use nodecfg_plan::fixtures::{canary, desired, node, observed, on, options, policy, pool, pool_name};
use nodecfg_plan::make;
use nodecfg_rollout::instant::Instant;
use nodecfg_rollout::judge::{Answer, Asked, Series};
use nodecfg_rollout::machine::{Command, Input, Mode};
use nodecfg_rollout::progress::Progress;

const INTERVAL: i64 = 15;

/// Kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Passes,
    Blocks,
    Unknown,
}

#[derive(Debug, Clone)]
enum SimEvent {
    Answer(Says),
    Wait(i64),
    /// The time of day steps.
    StepClock(i64),
    /// The request that waits longest is answered, and its node gets there.
    Finish,
}

fn sim_events() -> impl Strategy<Value = SimEvent> {
    let says = prop_oneof![4 => Just(Says::Passes), 1 => Just(Says::Blocks), 1 => Just(Says::Unknown)];
    prop_oneof![
        4 => says.prop_map(SimEvent::Answer),
        3 => (1..40_i64).prop_map(SimEvent::Wait),
        1 => (-7200..7200_i64).prop_map(SimEvent::StepClock),
        4 => Just(SimEvent::Finish),
    ]
}

struct SimHarness {
    machine: Machine,
    at: BTreeSet<Moment>,
    target: Target,
    /// The latest answer and its time.
    answer: Option<(Instant, Says)>,
    started: usize,
    returned: usize,
    /// Nodes in transition to their target, or back.
    moving: VecDeque<(NodeName, bool)>,
}

impl SimHarness {
    /// Whether the gate passes for this step, by a definition of its own.
    fn passes(&self, moment: Moment) -> bool {
        let fresh =
            |at: Instant| self.machine.now.instant.since(at) <= Duration::from_secs(2 * INTERVAL.unsigned_abs());
        !self.at.contains(&moment) || self.answer.is_some_and(|(at, says)| says == Says::Passes && fresh(at))
    }

    fn send(&mut self, input: Input) {
        for command in self.machine.step(input) {
            match command {
                Command::Assign(name, _) => {
                    let moment = if self.started == 0 { Moment::Start } else { Moment::Node };
                    assert!(self.passes(moment), "{name} starts although its gate is {:?}", self.answer);
                    // The first node also waits for an answer that it could be compared with.
                    assert!(self.at.is_empty() || self.answer.is_some(), "{name} starts before the first answer");
                    self.started += 1;
                    self.moving.push_back((name, false));
                }
                Command::RollBack(name, _) => {
                    self.returned += 1;
                    self.moving.retain(|(moving, _)| *moving != name);
                    self.moving.push_back((name, true));
                }
                Command::Report(event) => {
                    if matches!(event.progress, Progress::Soaked) {
                        assert!(self.passes(Moment::Soak), "the soak ends although its gate is {:?}", self.answer);
                    }
                }
                other => panic!("no change needs a drain: {other:?}"),
            }
            let (unavailable, budget) = self.machine.budget_of(&pool_name("a")).unwrap();
            assert!(unavailable <= budget, "{unavailable} unavailable of {budget}");
        }
    }

    fn handle(&mut self, event: &SimEvent) {
        match event {
            SimEvent::Answer(says) => {
                self.answer = Some((self.machine.now.instant, *says));
                let series =
                    Series { labels: Arc::new([("a".to_owned(), "b".to_owned())].into()), value: "1".to_owned() };
                let firing = match says {
                    Says::Passes => Ok(Vec::new()),
                    Says::Blocks => Ok(vec![series]),
                    Says::Unknown => Err("no answer".to_owned()),
                };
                let answer = Answer::Prometheus { firing, present: Ok(1) };
                let question = Question::Prometheus(query());
                self.send(Input::Gate(Box::new(Asked { question, answer, at: self.machine.now.instant })));
            }
            SimEvent::Wait(seconds) => {
                let end = self.machine.now.after(*seconds);
                while self.machine.advance(end) {
                    self.send(Input::Tick);
                }
            }
            SimEvent::StepClock(seconds) => self.machine.now = self.machine.now.stepped(*seconds),
            SimEvent::Finish => {
                let Some((name, back)) = self.moving.pop_front() else { return };
                let old = node(name.as_str(), "a");
                if back {
                    self.send(Input::RolledBack(name, Ok(())));
                    self.send(Input::Observed(Box::new(old)));
                } else {
                    self.send(Input::Assigned(name.clone()));
                    let source = self.target.source().cloned();
                    self.send(Input::Observed(Box::new(Node { source, ..old.clone() })));
                    // The pool may roll the node back as soon as it is assigned.
                    if !self.moving.iter().any(|(moving, _)| *moving == name) {
                        let source = self.target.source().unwrap();
                        self.send(Input::Observed(Box::new(on(old, source))));
                    }
                }
            }
        }
    }
}

fn query() -> PrometheusQuery {
    PrometheusQuery { query: "errors".to_owned(), present: "up".to_owned() }
}

proptest! {
    #[test]
    fn no_step_passes_a_closed_gate(
        nodes in 1..8_usize,
        budget in 1..4_u32,
        soak in 0..100_u64,
        canaries in 0..3_u32,
        at in vec(0..3_usize, 0..4),
        patience in 0..120_u64,
        returns in any::<bool>(),
        events in vec(sim_events(), 0..120),
    ) {
        let at: BTreeSet<Moment> = at.into_iter().map(|index| Moment::ALL[index]).collect();
        let mut policy = policy(budget);
        policy.canary = if canaries > 0 { canary(canaries, soak) } else { None };
        policy.convergence_timeout = Duration::from_secs(1_000_000);
        policy.rollback_on_gate_failure = returns;
        policy.gates = vec![Gate {
            name: GateName::new("errors").unwrap(),
            check: GateCheck::Prometheus { query: query(), baseline: Baseline::Ignore },
            at: at.clone(),
            patience: Duration::from_secs(patience),
        }];
        let cluster = observed((0..nodes).map(|index| node(&format!("n{index}"), "a")));
        let desired = desired([pool("a", 64, policy)]);
        let plan = make(&desired, &cluster, &options()).unwrap();
        let mode = Mode { gates: Some(Duration::from_secs(INTERVAL.unsigned_abs())), ..Mode::ASSIGN };
        let mut sim = SimHarness {
            machine: Machine::new(&plan, mode),
            at,
            target: plan.pools[0].target.clone(),
            answer: None,
            started: 0,
            returned: 0,
            moving: VecDeque::new(),
        };
        sim.send(Input::Start);
        for event in &events {
            sim.handle(event);
        }
        // Then everything goes well.
        for _ in 0..200 {
            for event in [SimEvent::Answer(Says::Passes), SimEvent::Finish, SimEvent::Wait(INTERVAL)] {
                sim.handle(&event);
            }
        }
        prop_assert!(sim.machine.is_finished(), "{:?}", sim.machine.outcome());
        let outcome = sim.machine.outcome();
        let ended = &outcome.pools[&pool_name("a")];
        if ended.stopped.is_none() && ended.held.is_none() {
            prop_assert_eq!(sim.started, nodes);
        }
        if ended.stopped.is_some() && returns {
            prop_assert_eq!(sim.returned, sim.started, "every node of the run goes back");
        } else {
            prop_assert_eq!(sim.returned, 0);
        }
    }
}
