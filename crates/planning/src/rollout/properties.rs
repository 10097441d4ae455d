//! Invariant 4, whatever the nodes do: a rollout never makes more of a pool's nodes unavailable than the budget leaves.
//! And: it always comes to an end.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::machine::{Command, Input, Machine, Mode};
use super::progress::NodeCounts;
use crate::judge::{Convergence, Target, WaitContext, judge};
use crate::plan::fixtures::{
    canary, desired, fetched, node, observed, on, options, policy, pool, pool_name, refusing, rendered, source,
    with_config_map,
};
use crate::plan::{make, redecide};
use crate::state::State;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{Node, Observed, Readiness};
use nodecfg_contract::{ConfigSource, error_text};

const TIMEOUT: i64 = 300;

/// What the world does next, to which node.
#[derive(Debug, Clone, Copy)]
enum Happening {
    /// The oldest request is answered: carried out, met a change, or was refused.
    Answer(u8),
    /// A node takes its assignment and runs it.
    Converge(usize),
    /// A node takes its assignment and refuses it.
    Refuse(usize),
    Ready(usize),
    NotReady(usize),
    /// A heartbeat: nothing changed.
    Heartbeat(usize),
    Vanish(usize),
    Wait(i64),
    Interrupt,
    /// Somebody aborts the rollout, and has nodes pointed back.
    TakeBack,
    /// Somebody pauses the pool.
    Pause,
}

fn happenings() -> impl Strategy<Value = Happening> {
    prop_oneof![
        12 => (0..20_u8).prop_map(Happening::Answer),
        10 => (0..100_usize).prop_map(Happening::Converge),
        2 => (0..100_usize).prop_map(Happening::Refuse),
        2 => (0..100_usize).prop_map(Happening::NotReady),
        3 => (0..100_usize).prop_map(Happening::Ready),
        2 => (0..100_usize).prop_map(Happening::Heartbeat),
        1 => (0..100_usize).prop_map(Happening::Vanish),
        3 => (1..120_i64).prop_map(Happening::Wait),
        1 => Just(Happening::Interrupt),
        1 => Just(Happening::TakeBack),
        1 => Just(Happening::Pause),
    ]
}

struct World {
    nodes: BTreeMap<NodeName, Node>,
    machine: Machine,
    requests: Vec<Command>,
    /// Nodes that the machine has asked to be assigned, and that have not ended since.
    touched: BTreeMap<NodeName, bool>,
    target: Target,
    /// What the nodes had before.
    old: ConfigSource,
    budget: usize,
    steps: usize,
    /// As the last event had them.
    counts: NodeCounts,
    now: Timestamp,
}

impl World {
    fn tell(&mut self, input: Input) {
        for command in self.machine.step(input, self.now) {
            match &command {
                Command::Assign(node, _) => {
                    if self.touched.insert(node.clone(), true).is_none() {
                        self.assert_budget(node);
                    }
                    self.requests.push(command);
                }
                Command::RollBack(..) => self.requests.push(command),
                Command::Tell(event) => {
                    self.counts = event.pool.as_ref().unwrap().counts;
                    assert_eq!(self.counts.total(), self.steps, "{event:?}");
                }
            }
        }
    }

    /// Counted from the world alone: a node that was available may only be started while, with it, no more nodes are
    /// unavailable than the budget.
    fn assert_budget(&self, started: &NodeName) {
        if !self.available(started, false) {
            return;
        }
        let unavailable = self.nodes.keys().filter(|name| !self.available(name, true)).count();
        assert!(unavailable <= self.budget, "{started} was started with {unavailable} unavailable of {}", self.budget);
    }

    fn available(&self, name: &NodeName, count_touched: bool) -> bool {
        let Some(node) = self.nodes.get(name) else { return true };
        let present = node.source.clone().map_or(Target::Local, Target::Source);
        let settled = judge(&present, node, WaitContext::STATE_ONLY) == Convergence::Converged;
        let moving = count_touched && self.touched.contains_key(name) && !self.target.is_named_by(node.source.as_ref());
        node.ready == Readiness::Ready && settled && !moving
    }

    fn nth(&self, index: usize) -> Option<NodeName> {
        self.nodes.keys().nth(index % self.nodes.len().max(1)).cloned()
    }

    fn change(&mut self, index: usize, change: impl FnOnce(Node) -> Node) {
        let Some(name) = self.nth(index) else { return };
        if let Some(node) = self.nodes.remove(&name) {
            let node = change(node);
            self.nodes.insert(name, node.clone());
            self.tell(Input::Observed(Box::new(node)));
        }
    }

    fn answer(&mut self, how: u8, decide: &dyn Fn(&Node) -> Option<crate::plan::Decision>) {
        if self.requests.is_empty() {
            return;
        }
        match self.requests.remove(0) {
            Command::Assign(name, _) => {
                let Some(mut node) = self.nodes.get(&name).cloned() else {
                    self.tell(Input::Changed(name, None));
                    return;
                };
                match how {
                    0 => {
                        self.touched.remove(&name);
                        self.tell(Input::Refused(name, "forbidden".to_owned()));
                    }
                    1 => {
                        node = on(node, &source("somebody-elses"));
                        self.nodes.insert(name.clone(), node.clone());
                        self.touched.remove(&name);
                        let decision = decide(&node).expect("the pool is there");
                        self.tell(Input::Changed(name, Some(Box::new((node, Some(decision))))));
                    }
                    _ => {
                        node.source = self.target.source().cloned();
                        self.nodes.insert(name.clone(), node.clone());
                        self.tell(Input::Assigned(name));
                        self.tell(Input::Observed(Box::new(node)));
                    }
                }
            }
            Command::RollBack(name, _) => {
                if how == 0 {
                    self.tell(Input::RolledBack(name, Err("forbidden".to_owned())));
                    return;
                }
                if let Some(mut node) = self.nodes.get(&name).cloned() {
                    node.source = Some(self.old.clone());
                    self.nodes.insert(name.clone(), node.clone());
                    // The watch may be faster than the answer.
                    if how == 1 {
                        self.tell(Input::Observed(Box::new(node)));
                    }
                }
                self.tell(Input::RolledBack(name, Ok(())));
            }
            Command::Tell(_) => {}
        }
    }

    fn happen(&mut self, happening: Happening, decide: &dyn Fn(&Node) -> Option<crate::plan::Decision>) {
        let follow = |node: Node, good: bool| match node.source.clone() {
            Some(source) if good => on(node, &source),
            Some(source) => refusing(node, &source, error_text::VALIDATE),
            None => node,
        };
        match happening {
            Happening::Answer(how) => self.answer(how, decide),
            Happening::Converge(index) => self.change(index, |node| follow(node, true)),
            Happening::Refuse(index) => self.change(index, |node| follow(node, false)),
            Happening::Ready(index) => self.change(index, |node| Node { ready: Readiness::Ready, ..node }),
            Happening::NotReady(index) => self.change(index, |node| Node { ready: Readiness::NotReady, ..node }),
            Happening::Heartbeat(index) => self.change(index, |node| node),
            Happening::Vanish(index) => {
                if let Some(name) = self.nth(index) {
                    self.nodes.remove(&name);
                    self.tell(Input::Gone(name));
                }
            }
            Happening::Wait(seconds) => self.wait(seconds),
            Happening::Interrupt => self.tell(Input::Stop(super::StopReason::Interrupted)),
            Happening::TakeBack => {
                self.tell(Input::TakeBack(super::StopReason::Aborted { by: "ada".to_owned(), reason: None }));
            }
            Happening::Pause => {
                let reason = super::StopReason::Paused { by: "ada".to_owned(), reason: "disks".to_owned() };
                self.tell(Input::StopPool(pool_name("a"), reason));
            }
        }
    }

    fn wait(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        self.tell(Input::Tick);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_budget_is_kept_and_the_end_is_reached(
        ready in vec(prop::bool::weighted(0.85), 1..14),
        budget in 1..5_u32,
        canaries in prop::option::of((1..3_u32, 0..60_u64)),
        max_failures in 0..3_u32,
        rollback_on_failure in any::<bool>(),
        concurrency in 1..6_usize,
        happenings in vec(happenings(), 0..160),
    ) {
        let mut policy = policy(budget);
        policy.canary = canaries.and_then(|(nodes, soak)| canary(nodes, soak));
        policy.max_failures = max_failures;
        policy.convergence_timeout = Duration::from_secs(TIMEOUT.unsigned_abs());
        let desired = desired([pool("a", 64, policy)]);
        let old = rendered("a", 110).source(&crate::plan::fixtures::namespace());
        let mut cluster: Observed = observed(ready.iter().enumerate().map(|(index, ready)| {
            let node = on(node(&format!("n{index:02}"), "a"), &old);
            Node { ready: if *ready { Readiness::Ready } else { Readiness::NotReady }, ..node }
        }));
        with_config_map(&mut cluster, "a", &rendered("a", 110));
        // What they point at can be had again.
        cluster.contents.extend([fetched(&old, &rendered("a", 110).canonical, true)]);
        let plan = make(&desired, &cluster, &options()).unwrap();
        let name = plan.pools[0].name.clone();
        let decide = |node: &Node| redecide(&desired, &cluster, &options(), &name, node);
        let mode = Mode { assign: true, as_reviewed: false, rollback_on_failure, concurrency, timeout: None };
        let mut world = World {
            nodes: cluster.nodes.clone(),
            machine: Machine::new(&plan, mode),
            requests: Vec::new(),
            touched: BTreeMap::new(),
            target: plan.pools[0].target.clone(),
            old: old.clone(),
            budget: plan.pools[0].budget,
            steps: plan.pools[0].steps().count(),
            counts: NodeCounts::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        world.tell(Input::Start);
        for happening in happenings {
            world.happen(happening, &decide);
            let (unavailable, _) = world.machine.budget_of(&name).unwrap();
            prop_assert!(unavailable <= world.nodes.len());
        }
        // From here on nobody does anything but answer: time alone must bring it to its end.
        for _ in 0..200 {
            while !world.requests.is_empty() {
                world.answer(9, &decide);
            }
            if world.machine.is_finished() {
                break;
            }
            world.wait(60);
        }
        let outcome = world.machine.outcome();
        prop_assert!(world.machine.is_finished(), "{outcome:?}");
        let ended = [State::Converged, State::Failed].map(|state| outcome.states().get(&state).copied().unwrap_or(0));
        prop_assert_eq!(ended, [world.counts.done, world.counts.failed]);
    }
}
