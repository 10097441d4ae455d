//! Simulation of a rollout: sends what happens in the simulated cluster to the machine, and checks each of its steps.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::checks::{Checks, Step};
use super::cluster::{SimCluster, followed, marked, node_of};
use super::events::{Says, SimEvent};
use crate::{Machine, aborted, paused};
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::Desired;
use nodecfg_fleet::gates::{PrometheusQuery, Question};
use nodecfg_observed::{DrainMark, EvictionAnswer, Maintainer, Node, Observed, Readiness};
use nodecfg_plan::drain::fixtures::pod;
use nodecfg_plan::fixtures::{on, options, pool_name, source};
use nodecfg_plan::{Plan, check, decide_again, make};
use nodecfg_rollout::StopReason;
use nodecfg_rollout::evictions::PodChange;
use nodecfg_rollout::instant::Now;
use nodecfg_rollout::judge::{Answer, Asked, Series};
use nodecfg_rollout::machine::{Command, Input, Mode};

/// Interval in which gates are asked, in seconds.
pub(super) const INTERVAL: u64 = 15;

/// The question of every gate.
pub(super) fn query() -> PrometheusQuery {
    PrometheusQuery { query: "errors".to_owned(), present: "up".to_owned() }
}

pub(super) struct Simulation {
    pub(super) machine: Machine,
    pub(super) cluster: SimCluster,
    pub(super) plan: Plan,
    desired: Desired,
    /// The cluster when the plan was made.
    start: Observed,
    mode: Mode,
    checks: Checks,
    /// Inputs so far, each with the commands that followed.
    log: Vec<(Now, Input, Vec<Command>)>,
}

impl Simulation {
    pub(super) fn new(desired: Desired, start: Observed, mode: Mode) -> Self {
        let plan = make(&desired, &start, &options()).unwrap();
        assert_eq!(check(&plan, &desired, &start, &options().scope), vec![]);
        let machine = Machine::new(&plan, mode);
        let cluster = SimCluster::new(&plan, &start);
        let checks = Checks::new(&plan, &start, &machine, &cluster);
        Self { machine, cluster, plan, desired, start, mode, checks, log: Vec::new() }
    }

    /// Starts the rollout and lets the events happen.
    pub(super) fn run(&mut self, events: impl IntoIterator<Item = SimEvent>) {
        self.send(Input::Start);
        self.happen(events);
    }

    pub(super) fn happen(&mut self, events: impl IntoIterator<Item = SimEvent>) {
        events.into_iter().for_each(|event| self.apply(event));
    }

    /// Answers requests, ends pods and lets time pass. The rollout must end within these seconds.
    pub(super) fn settle(&mut self, seconds: i64) {
        for _ in 0..seconds / 20 {
            while !self.cluster.requests.is_empty() {
                self.answer(0, 9);
            }
            for name in self.cluster.nodes.keys().cloned().collect::<Vec<_>>() {
                self.end_pod(&name);
            }
            if self.machine.is_finished() && self.cluster.requests.is_empty() {
                break;
            }
            self.wait(20);
        }
        self.assert_ended();
    }

    /// Checks the end of the rollout.
    pub(super) fn assert_ended(&mut self) {
        self.check(|checks, step| {
            assert!(step.machine.is_finished(), "{:?}\n{step}", step.machine.outcome());
            checks.end(step);
        });
    }

    /// Number of commands of a kind so far.
    pub(super) fn count(&self, is_counted: impl Fn(&Command) -> bool) -> usize {
        self.log.iter().flat_map(|(.., commands)| commands).filter(|command| is_counted(command)).count()
    }

    fn check(&mut self, check: impl FnOnce(&mut Checks, &Step)) {
        let Self { machine, cluster, plan, mode, checks, log, .. } = self;
        check(checks, &Step { plan, mode, cluster, machine, log });
    }

    fn send(&mut self, input: Input) {
        self.checks.before(&self.cluster);
        let commands = self.machine.step(input.clone());
        self.log.push((self.machine.now, input, commands.clone()));
        self.check(|checks, step| checks.all_commands(&commands, step));
        let mut watches = Vec::new();
        for command in commands {
            self.check(|checks, step| checks.command(&command, step));
            if let Command::WatchPods(name) = &command {
                watches.push(name.clone());
            }
            self.cluster.receive(command);
        }
        self.check(|checks, step| checks.after(step));
        for name in watches {
            let pods = self.cluster.pods_of(&name).cloned().collect();
            self.pod_changed(&name, PodChange::Listed(pods));
        }
    }

    /// Sends a watch event of a node.
    fn show(&mut self, name: &NodeName) {
        if let Some(node) = self.cluster.seen(name) {
            self.send(Input::Observed(Box::new(node)));
        }
    }

    fn change(&mut self, name: &NodeName, change: impl FnOnce(Node) -> Node) {
        self.cluster.change(name, change);
        self.show(name);
    }

    fn pod_changed(&mut self, name: &NodeName, change: PodChange) {
        if self.cluster.watched.contains(name) {
            self.send(Input::Pods(name.clone(), change));
        }
    }

    fn end_pod(&mut self, name: &NodeName) {
        if let Some(uid) = self.cluster.end_pod(name) {
            self.pod_changed(name, PodChange::Gone(uid));
        }
    }

    /// Changes a node by a request. The watch event may arrive before the response or after it.
    fn respond(&mut self, name: &NodeName, how: u8, change: impl FnOnce(Node) -> Node, response: Input) {
        self.cluster.change(name, change);
        if how.is_multiple_of(2) {
            self.show(name);
            self.send(response);
        } else {
            self.send(response);
            self.show(name);
        }
    }

    fn answer(&mut self, index: usize, how: u8) {
        if self.cluster.requests.is_empty() {
            return;
        }
        let error = || "forbidden".to_owned();
        let result = if how == 0 { Err(error()) } else { Ok(()) };
        match self.cluster.requests.remove(index % self.cluster.requests.len()) {
            Command::Assign(name, assignment) => {
                if !self.cluster.nodes.contains_key(&name) {
                    return self.send(Input::Changed(name, None));
                }
                match how {
                    0 => self.send(Input::Refused(name, error())),
                    1 | 2 => {
                        if how == 1 {
                            self.cluster.change(&name, |node| on(node, &source("foreign")));
                        }
                        let seen = self.cluster.seen(&name).unwrap();
                        let pool = self.cluster.pool(&name);
                        let decision = decide_again(&self.desired, &self.start, &options(), pool, &seen);
                        self.send(Input::Changed(name, Some(Box::new((seen, decision)))));
                    }
                    _ => {
                        let point = |node| Node { source: assignment.to, ..node };
                        self.respond(&name, how, point, Input::Assigned(name.clone()));
                    }
                }
            }
            Command::RollBack(name, assignment) => {
                if how > 0 {
                    self.cluster.change(&name, |node| Node { source: assignment.to, ..node });
                    // The watch event arrives before the response, or much later.
                    if how.is_multiple_of(2) {
                        self.show(&name);
                    }
                }
                self.send(Input::RolledBack(name, result));
            }
            Command::MovePointer(pool, _) => self.send(Input::PointerMoved(pool, result)),
            Command::ListPods(name) => {
                let pods = self.cluster.listed_pods(&name, how);
                self.send(Input::PodsListed(name, pods));
            }
            Command::Mark(name, _, drain, _) => {
                let mark = |node| marked(node, Some(DrainMark { tainted: true, drain: Some(drain) }));
                match how {
                    _ if !self.cluster.nodes.contains_key(&name) => self.send(Input::Marked(name, Err(error()))),
                    0 => self.send(Input::Marked(name, result)),
                    3 => self.send(Input::Claimed(name, Maintainer::Medik8sLease)),
                    // The response is lost, of a request that was or was not applied.
                    1 | 2 => {
                        if how == 1 {
                            self.cluster.change(&name, mark);
                        }
                        self.send(Input::PerhapsMarked(name, error()));
                    }
                    _ => self.respond(&name, how, mark, Input::Marked(name.clone(), result)),
                }
            }
            Command::Release(name, _) => match how {
                0 => self.send(Input::Released(name, result)),
                _ => self.respond(&name, how, |node| marked(node, None), Input::Released(name.clone(), result)),
            },
            Command::Evict(name, pod) => {
                let answer = match how {
                    0 => Err(error()),
                    1 => Ok(EvictionAnswer::Blocked { reason: "The disruption budget web needs 1".to_owned() }),
                    2 => Ok(EvictionAnswer::SeveralBudgets),
                    _ => match self.cluster.delete_pod(&name, &pod.uid) {
                        Some(deleting) => {
                            self.pod_changed(&name, PodChange::Present(Box::new(deleting)));
                            Ok(EvictionAnswer::Evicted)
                        }
                        None => Ok(EvictionAnswer::Gone),
                    },
                };
                self.send(Input::Evicted(name, pod.uid, answer));
            }
            Command::AskPermit(name, questions) => {
                // Refused, unknown, or granted. An answer that is lost is an empty one.
                let status = ["False", "False", "False", "Unknown"].get(usize::from(how)).copied().unwrap_or("True");
                let found = json!({"status": {"conditions": [{"type": "Idle", "status": status}]}});
                let at = self.machine.now.instant;
                let asked = |question| Asked { question, answer: Answer::Object(Ok(found.clone())), at };
                let answers: Vec<Asked> = questions.into_iter().map(asked).filter(|_| how != 2).collect();
                self.checks.permits.answered(&name, at, status == "True");
                self.send(Input::PermitAnswered(name, answers));
            }
            Command::CountVolumes(name) => self.send(Input::Volumes(name, Ok(usize::from(how == 1)))),
            Command::DeletePod(name, pod) => self.send(Input::PodDeleted(name, pod.uid, result)),
            other => panic!("not a request: {other:?}"),
        }
    }

    fn apply(&mut self, event: SimEvent) {
        match event {
            SimEvent::Answer(index, how) => self.answer(index, how),
            SimEvent::Finish(index, good) => self.finish(index, good),
            SimEvent::Gate(says) => self.answer_gate(says),
            SimEvent::Wait(seconds) => self.wait(seconds),
            SimEvent::StepClock(seconds) => self.machine.now = self.machine.now.stepped(seconds),
            SimEvent::Interrupt => self.send(Input::Stop(StopReason::Interrupted)),
            SimEvent::RollBackAll => self.send(Input::RollBackAll(aborted())),
            SimEvent::Pause => self.send(Input::StopPool(pool_name("a"), paused())),
            SimEvent::Follow(index, _)
            | SimEvent::Ready(index, _)
            | SimEvent::Heartbeat(index)
            | SimEvent::Cordon(index, _)
            | SimEvent::Maintain(index, _)
            | SimEvent::Unreadable(index, _)
            | SimEvent::Delete(index)
            | SimEvent::Vanish(index)
            | SimEvent::Unmark(index)
            | SimEvent::PodEnds(index)
            | SimEvent::PodStarts(index) => {
                let nodes = &self.cluster.nodes;
                if let Some(name) = nodes.keys().nth(index % nodes.len().max(1)).cloned() {
                    self.apply_to(&name, event);
                }
            }
        }
    }

    /// Applies an event of one node.
    fn apply_to(&mut self, name: &NodeName, event: SimEvent) {
        match event {
            SimEvent::Follow(_, good) => self.change(name, |node| followed(node, good)),
            SimEvent::Ready(_, ready) => {
                let ready = if ready { Readiness::Ready } else { Readiness::NotReady };
                self.change(name, |node| Node { ready, ..node });
            }
            SimEvent::Cordon(_, cordoned) => self.change(name, |node| Node { cordoned, ..node }),
            SimEvent::Maintain(_, on) => {
                let maintainer = on.then_some(Maintainer::Kured);
                self.change(name, |node| Node { maintainer, ..node });
            }
            SimEvent::Unreadable(_, on) => {
                match on {
                    true => self.cluster.unreadable.insert(name.clone()),
                    false => self.cluster.unreadable.remove(name),
                };
                self.show(name);
            }
            SimEvent::Delete(_) => self.change(name, |node| Node { deleting: true, ..node }),
            SimEvent::Vanish(_) => {
                self.cluster.nodes.remove(name);
                self.cluster.watched.remove(name);
                self.send(Input::Gone(name.clone()));
            }
            SimEvent::Unmark(_) if self.cluster.nodes[name].drain_mark.is_some() => {
                self.cluster.unmarked.insert(name.clone());
                self.change(name, |node| marked(node, None));
            }
            SimEvent::PodEnds(_) => self.end_pod(name),
            SimEvent::PodStarts(_) if self.cluster.watched.contains(name) => {
                let pod = pod(&format!("late-{}", self.log.len()));
                self.cluster.pods.entry(name.clone()).or_default().insert(pod.uid.clone(), pod.clone());
                self.pod_changed(name, PodChange::Present(Box::new(pod)));
            }
            SimEvent::Heartbeat(_) => self.show(name),
            _ => {}
        }
    }

    /// Applies a request. Its node then runs its configuration or refuses it, unless the machine requests another
    /// change.
    fn finish(&mut self, index: usize, good: bool) {
        let requests = &self.cluster.requests;
        let Some(name) = requests.get(index % requests.len().max(1)).and_then(node_of).cloned() else { return };
        self.answer(index, 9);
        if !self.cluster.requests.iter().any(|request| node_of(request) == Some(&name)) {
            self.change(&name, |node| followed(node, good));
        }
    }

    fn answer_gate(&mut self, says: Says) {
        let series = || Series { labels: Arc::new([("a".to_owned(), "b".to_owned())].into()), value: "1".to_owned() };
        let firing = match says {
            Says::Passes => Ok(Vec::new()),
            Says::Blocks => Ok(vec![series()]),
            Says::Unknown => Err("no answer".to_owned()),
        };
        let (answer, at) = (Answer::Prometheus { firing, present: Ok(1) }, self.machine.now.instant);
        self.checks.gates.answered(at, says);
        self.send(Input::Gate(Box::new(Asked { question: Question::Prometheus(query()), answer, at })));
    }

    /// Time passes, with a tick whenever the machine asks for one.
    fn wait(&mut self, seconds: i64) {
        let end = self.machine.now.after(seconds);
        while self.machine.advance(end) {
            self.send(Input::Tick);
        }
    }
}

/// The mode of a rollout that asks gates.
pub(super) fn asking_gates() -> Mode {
    Mode { gates: Some(Duration::from_secs(INTERVAL)), ..Mode::ASSIGN }
}
