//! Property tests of drains: whatever nodes, pods and the API server do, drains keep the budget, evict pods only of
//! marked nodes, assign only drained nodes, and leave no mark that the outcome does not state. They always end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Machine, aborted, paused};
use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{ConfigSource, error_text};
use nodecfg_fleet::PoolTarget;
use nodecfg_fleet::drain::{DrainPolicy, OnTimeout};
use nodecfg_observed::{DrainMark, EvictionAnswer, Maintainer, Node, Observed, Pod, Readiness};
use nodecfg_plan::convergence::{Convergence, Target, WaitContext, evaluate};
use nodecfg_plan::drain::fixtures::{daemon, pod};
use nodecfg_plan::fixtures::{
    canary, desired, exclusion, fetched, namespace, node, observed, on, options, policy, pool, pool_name, refusing,
    rendered_of, with_config_map,
};
use nodecfg_plan::{decide_again, make};
use nodecfg_rollout::StopReason;
use nodecfg_rollout::evictions::PodChange;
use nodecfg_rollout::machine::{Command, Input, Mode};
use nodecfg_rollout::progress::Progress;

/// A simulated event, with the index of its node.
#[derive(Debug, Clone, Copy)]
enum SimEvent {
    /// Answers a request: 0 refused, 1 conflict, blocked or lost, otherwise applied.
    Answer(usize, u8),
    /// A pod that is being deleted ends.
    PodEnds(usize),
    /// Another pod starts on a node, in spite of the mark.
    PodStarts(usize),
    Converge(usize),
    Refuse(usize),
    Ready(usize, bool),
    Maintain(usize, bool),
    /// Another client removes the mark of a node.
    Unmark(usize),
    Vanish(usize),
    Heartbeat(usize),
    Wait(i64),
    /// The time of day steps.
    StepClock(i64),
    Interrupt,
    RollBackAll,
    Pause,
}

fn sim_events() -> impl Strategy<Value = SimEvent> {
    prop_oneof![
        30 => (0..100_usize, 0..20_u8).prop_map(|(index, how)| SimEvent::Answer(index, how)),
        12 => (0..100_usize).prop_map(SimEvent::PodEnds),
        1 => (0..100_usize).prop_map(SimEvent::PodStarts),
        10 => (0..100_usize).prop_map(SimEvent::Converge),
        1 => (0..100_usize).prop_map(SimEvent::Refuse),
        3 => (0..100_usize, prop::bool::weighted(0.7)).prop_map(|(index, ready)| SimEvent::Ready(index, ready)),
        1 => (0..100_usize, any::<bool>()).prop_map(|(index, on)| SimEvent::Maintain(index, on)),
        1 => (0..100_usize).prop_map(SimEvent::Unmark),
        1 => (0..100_usize).prop_map(SimEvent::Vanish),
        2 => (0..100_usize).prop_map(SimEvent::Heartbeat),
        6 => (1..90_i64).prop_map(SimEvent::Wait),
        1 => (-7200..7200_i64).prop_map(SimEvent::StepClock),
        1 => Just(SimEvent::Interrupt),
        1 => Just(SimEvent::RollBackAll),
        1 => Just(SimEvent::Pause),
    ]
}

struct SimHarness {
    /// True states of the nodes.
    nodes: BTreeMap<NodeName, Node>,
    /// True pods of the nodes, by uid.
    pods: BTreeMap<NodeName, BTreeMap<String, Pod>>,
    /// Nodes whose pods the machine watches.
    watched: BTreeSet<NodeName>,
    machine: Machine,
    requests: Vec<Command>,
    target: Target,
    old: ConfigSource,
    budget: usize,
    /// The longest time of a node with its drain, in seconds.
    node_time: i64,
    /// Start and end of each exclusion.
    exclusions: Vec<(Timestamp, Timestamp)>,
    started_pods: usize,
    /// Nodes that another client unmarked.
    unmarked: BTreeSet<NodeName>,
    /// Nodes that failed.
    failed: BTreeSet<NodeName>,
    /// Events so far, for the message of a failure.
    log: Vec<String>,
}

impl SimHarness {
    fn send(&mut self, input: Input) {
        self.log.push(format!("{:?} {input:?}", self.machine.now));
        for command in self.machine.step(input) {
            if !matches!(command, Command::Report(_)) {
                self.log.push(format!("    {command:?}"));
            }
            self.receive(command);
        }
    }

    fn receive(&mut self, command: Command) {
        match &command {
            Command::Report(event) => {
                if let (Progress::Failed { failure }, Some(node)) = (&event.progress, &event.node) {
                    let log = self.log.join("\n");
                    assert!(self.failed.insert(node.clone()), "{node} failed twice: {failure}\n{log}");
                }
                return;
            }
            Command::WatchPods(name) => {
                assert!(self.is_marked(name), "pods of the unmarked {name} are watched");
                self.watched.insert(name.clone());
                let pods = self.pods.get(name).into_iter().flat_map(BTreeMap::values).cloned().collect();
                assert!(self.watched.len() <= self.budget, "{} watches of pods", self.watched.len());
                return self.send(Input::Pods(name.clone(), PodChange::Listed(pods)));
            }
            Command::UnwatchPods(name) => {
                self.watched.remove(name);
                return;
            }
            Command::Mark(name, ..) => {
                self.assert_budget(name);
                self.assert_open(name);
            }
            Command::Evict(name, pod) => {
                assert!(self.is_marked(name), "a pod of the unmarked {name} is evicted");
                assert_ne!(pod.controller.as_ref().unwrap().kind, "DaemonSet");
            }
            Command::Assign(name, _) => {
                let left = self.pods.get(name).into_iter().flat_map(BTreeMap::values);
                let left = left.filter(|pod| pod.controller.as_ref().unwrap().kind != "DaemonSet").count();
                assert_eq!(left, 0, "{name} is assigned with pods");
                assert!(self.is_marked(name) || self.unmarked.contains(name), "{name} is assigned without a mark");
            }
            _ => {}
        }
        self.requests.push(command);
    }

    fn is_marked(&self, name: &NodeName) -> bool {
        self.nodes.get(name).is_none_or(|node| node.drain_mark.is_some())
    }

    fn available(&self, node: &Node) -> bool {
        let requested = |command: &Command| matches!(command, Command::Mark(name, ..) if *name == node.name);
        let settled = evaluate(&Target::present(node), node, WaitContext::STATE_ONLY) == Convergence::Converged;
        node.ready == Readiness::Ready
            && settled
            && node.drain_mark.is_none()
            && node.maintainer.is_none()
            && !self.requests.iter().any(requested)
    }

    /// A node may be marked for its change only if no exclusion overlaps its drain and its time limits.
    fn assert_open(&self, name: &NodeName) {
        let goes_back = |node: &Node| self.target.is_named_by(node.source.as_ref());
        if self.nodes.get(name).is_some_and(goes_back) {
            return;
        }
        let ends = self.machine.now.after(self.node_time).time;
        let overlaps = |(from, to): &(Timestamp, Timestamp)| *from < ends && *to > self.machine.now.time;
        assert!(
            !self.exclusions.iter().any(overlaps),
            "{name} is marked at {} within an exclusion",
            self.machine.now.time
        );
    }

    /// An available node may be marked only if the unavailable nodes, including it, stay within the budget.
    fn assert_budget(&self, name: &NodeName) {
        let Some(node) = self.nodes.get(name) else { return };
        assert!(node.maintainer.is_none(), "{name} is maintained by another program");
        if self.available(node) {
            let unavailable = self.nodes.values().filter(|other| !self.available(other)).count() + 1;
            let log = self.log.join("\n");
            assert!(unavailable <= self.budget, "{name} is drained with {unavailable} of {}\n{log}", self.budget);
        }
    }

    fn nth(&self, index: usize) -> Option<NodeName> {
        self.nodes.keys().nth(index % self.nodes.len().max(1)).cloned()
    }

    fn change(&mut self, name: &NodeName, change: impl FnOnce(Node) -> Node) {
        if let Some(node) = self.nodes.remove(name) {
            let node = change(node);
            self.nodes.insert(name.clone(), node.clone());
            self.send(Input::Observed(Box::new(node)));
        }
    }

    fn pod_changed(&mut self, name: &NodeName, change: PodChange) {
        if self.watched.contains(name) {
            self.send(Input::Pods(name.clone(), change));
        }
    }

    fn answer(&mut self, index: usize, how: u8, decide: &dyn Fn(&Node) -> Option<nodecfg_plan::Decision>) {
        if self.requests.is_empty() {
            return;
        }
        let refused = || "forbidden".to_owned();
        match self.requests.remove(index % self.requests.len()) {
            Command::Mark(name, _, drain) => {
                if how == 0 || !self.nodes.contains_key(&name) {
                    return self.send(Input::Marked(name, Err(refused())));
                }
                let mark = DrainMark { tainted: true, drain: Some(drain) };
                // The answer is lost, of a request that was or was not applied.
                if how <= 2 {
                    if how == 1 {
                        self.nodes.get_mut(&name).unwrap().drain_mark = Some(Box::new(mark));
                    }
                    return self.send(Input::PerhapsMarked(name, refused()));
                }
                // The watch event may arrive before the response.
                if how.is_multiple_of(2) {
                    self.change(&name, |node| Node { drain_mark: Some(Box::new(mark)), ..node });
                    self.send(Input::Marked(name, Ok(())));
                } else {
                    let node = self.nodes.get_mut(&name).unwrap();
                    node.drain_mark = Some(Box::new(mark));
                    self.send(Input::Marked(name.clone(), Ok(())));
                    self.change(&name, |node| node);
                }
            }
            Command::Evict(name, pod) => {
                let here = self.pods.get(&name).is_some_and(|pods| pods.contains_key(&pod.uid));
                let answer = match how {
                    0 => Err(refused()),
                    1 => Ok(EvictionAnswer::Blocked { reason: "The disruption budget web needs 1".to_owned() }),
                    2 => Ok(EvictionAnswer::SeveralBudgets),
                    _ if here => Ok(EvictionAnswer::Evicted),
                    _ => Ok(EvictionAnswer::Gone),
                };
                if answer == Ok(EvictionAnswer::Evicted)
                    && let Some(found) = self.pods.get_mut(&name).and_then(|pods| pods.get_mut(&pod.uid))
                {
                    found.deleting = true;
                    let found = found.clone();
                    self.pod_changed(&name, PodChange::Present(Box::new(found)));
                }
                self.send(Input::Evicted(name, pod.uid, answer));
            }
            Command::ListPods(name) => {
                let pods = self.pods.get(&name).into_iter().flat_map(BTreeMap::values).cloned();
                let pods = match how {
                    0 => Err(refused()),
                    1 => Ok(pods.map(|pod| Pod { ready: false, ..pod }).collect()),
                    _ => Ok(pods.collect()),
                };
                self.send(Input::PodsListed(name, pods));
            }
            Command::CountVolumes(name) => self.send(Input::Volumes(name, Ok(usize::from(how == 1)))),
            Command::DeletePod(name, pod) => {
                let result = if how == 0 { Err(refused()) } else { Ok(()) };
                self.send(Input::PodDeleted(name, pod.uid, result));
            }
            Command::Release(name, _) => {
                if how == 0 {
                    return self.send(Input::Released(name, Err(refused())));
                }
                self.change(&name, |node| Node { drain_mark: None, ..node });
                self.send(Input::Released(name, Ok(())));
            }
            Command::Assign(name, _) => {
                let Some(node) = self.nodes.get(&name).cloned() else { return self.send(Input::Changed(name, None)) };
                match how {
                    0 => self.send(Input::Refused(name, refused())),
                    1 => {
                        let decision = decide(&node);
                        self.send(Input::Changed(name, Some(Box::new((node, decision)))));
                    }
                    _ => {
                        self.nodes.get_mut(&name).unwrap().source = self.target.source().cloned();
                        self.send(Input::Assigned(name.clone()));
                        self.change(&name, |node| node);
                    }
                }
            }
            Command::RollBack(name, _) => {
                if how == 0 {
                    return self.send(Input::RolledBack(name, Err(refused())));
                }
                let old = self.old.clone();
                self.change(&name, |node| Node { source: Some(old), ..node });
                self.send(Input::RolledBack(name, Ok(())));
            }
            other => panic!("not a request: {other:?}"),
        }
    }

    /// Ends a pod that is being deleted.
    fn end_pod(&mut self, name: &NodeName) {
        let ending = |pods: &BTreeMap<String, Pod>| pods.values().find(|pod| pod.deleting).map(|pod| pod.uid.clone());
        let Some(uid) = self.pods.get(name).and_then(ending) else { return };
        self.pods.get_mut(name).unwrap().remove(&uid);
        self.pod_changed(name, PodChange::Gone(uid));
    }

    fn follow(&self, node: Node, good: bool) -> Node {
        match node.source.clone() {
            Some(source) if good => on(node, &source),
            Some(source) => refusing(node, &source, error_text::VALIDATE),
            None => node,
        }
    }

    fn apply(&mut self, event: SimEvent, decide: &dyn Fn(&Node) -> Option<nodecfg_plan::Decision>) {
        let named = match event {
            SimEvent::PodEnds(index)
            | SimEvent::PodStarts(index)
            | SimEvent::Converge(index)
            | SimEvent::Refuse(index)
            | SimEvent::Ready(index, _)
            | SimEvent::Maintain(index, _)
            | SimEvent::Unmark(index)
            | SimEvent::Vanish(index)
            | SimEvent::Heartbeat(index) => self.nth(index),
            _ => None,
        };
        match (event, named) {
            (SimEvent::Answer(index, how), _) => self.answer(index, how, decide),
            (SimEvent::PodEnds(_), Some(name)) => self.end_pod(&name),
            (SimEvent::PodStarts(_), Some(name)) => {
                // A pod that was bound before the mark.
                if self.watched.contains(&name) {
                    self.started_pods += 1;
                    let pod = pod(&format!("late-{}", self.started_pods));
                    self.pods.entry(name.clone()).or_default().insert(pod.uid.clone(), pod.clone());
                    self.pod_changed(&name, PodChange::Present(Box::new(pod)));
                }
            }
            (SimEvent::Converge(_), Some(name)) => {
                let followed = self.nodes.get(&name).cloned().map(|node| self.follow(node, true));
                self.change(&name, |_| followed.unwrap());
            }
            (SimEvent::Refuse(_), Some(name)) => {
                let followed = self.nodes.get(&name).cloned().map(|node| self.follow(node, false));
                self.change(&name, |_| followed.unwrap());
            }
            (SimEvent::Ready(_, ready), Some(name)) => {
                let ready = if ready { Readiness::Ready } else { Readiness::NotReady };
                self.change(&name, |node| Node { ready, ..node });
            }
            (SimEvent::Maintain(_, on), Some(name)) => {
                let maintainer = on.then_some(Maintainer::Kured);
                self.change(&name, |node| Node { maintainer, ..node });
            }
            (SimEvent::Unmark(_), Some(name)) => {
                if self.nodes.get(&name).is_some_and(|node| node.drain_mark.is_some()) {
                    self.unmarked.insert(name.clone());
                    self.change(&name, |node| Node { drain_mark: None, ..node });
                }
            }
            (SimEvent::Vanish(_), Some(name)) => {
                self.nodes.remove(&name);
                self.watched.remove(&name);
                self.send(Input::Gone(name));
            }
            (SimEvent::Heartbeat(_), Some(name)) => self.change(&name, |node| node),
            (SimEvent::Wait(seconds), _) => self.wait(seconds),
            (SimEvent::StepClock(seconds), _) => self.machine.now = self.machine.now.stepped(seconds),
            (SimEvent::Interrupt, _) => self.send(Input::Stop(StopReason::Interrupted)),
            (SimEvent::RollBackAll, _) => {
                self.send(Input::RollBackAll(aborted()));
            }
            (SimEvent::Pause, _) => {
                self.send(Input::StopPool(pool_name("a"), paused()));
            }
            (_, None) => {}
        }
    }

    /// Time passes, with a tick whenever the machine asks for one.
    fn wait(&mut self, seconds: i64) {
        let end = self.machine.now.after(seconds);
        while self.machine.advance(end) {
            self.send(Input::Tick);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn drains_keep_the_budget_and_release_every_mark(
        ready in vec((prop::bool::weighted(0.85), prop::bool::weighted(0.15), 0..12_usize), 1..8),
        budget in 1..4_u32,
        canaries in prop::option::of((1..3_u32, 0..60_u64)),
        max_failures in 0..3_u32,
        rollback_on_failure in any::<bool>(),
        holds in any::<bool>(),
        (timeout, drain_timeout, settle) in (60..900_u64, 60..900_u64, 0..90_u64),
        excluded in vec((0..6000_i64, 1..3000_i64), 0..2),
        list_pods in any::<bool>(),
        sim_events in vec(sim_events(), 0..300),
    ) {
        let mut policy = policy(budget);
        policy.canary = canaries.and_then(|(nodes, soak)| canary(nodes, soak));
        policy.max_failures = max_failures;
        policy.convergence_timeout = Duration::from_secs(timeout);
        policy.allow_disruption = Class::Drain;
        policy.schedule.exclusions = excluded.iter().map(|(from, length)| exclusion(*from, *length)).collect();
        let exclusions = policy.schedule.exclusions.iter().map(|one| (one.from, one.to)).collect();
        let on_timeout = if holds { OnTimeout::Hold } else { OnTimeout::Release };
        policy.drain = DrainPolicy {
            on_timeout,
            timeout: Duration::from_secs(drain_timeout),
            settle: Duration::from_secs(settle),
            ..DrainPolicy::default()
        };
        let mut wanted = pool("a", 64, policy);
        wanted.target = PoolTarget::Config(Box::new(rendered_of("a", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")));
        let previous = rendered_of("a", "cpuManagerPolicy: none\n");
        let old = previous.source(&namespace());
        let desired = desired([wanted]);
        let marks = nodecfg_plan::drain::fixtures::mark("a");
        let mut cluster: Observed = observed(ready.iter().enumerate().map(|(index, (ready, marked, _))| {
            let node = on(node(&format!("n{index:02}"), "a"), &old);
            let drain_mark = marked.then(|| Box::new(marks.clone()));
            Node { ready: if *ready { Readiness::Ready } else { Readiness::NotReady }, drain_mark, ..node }
        }));
        with_config_map(&mut cluster, "a", &previous);
        cluster.contents.extend([fetched(&old, &previous.canonical, true)]);
        let plan = make(&desired, &cluster, &options()).unwrap();
        prop_assert_eq!(nodecfg_plan::check(&plan, &desired, &cluster, &options().scope), vec![]);
        prop_assert!(plan.pools[0].steps().all(|step| step.drain));
        let name = plan.pools[0].name.clone();
        let decide = |node: &Node| decide_again(&desired, &cluster, &options(), &name, node);
        let pods = ready.iter().enumerate().map(|(index, (.., pods))| {
            let own = (0..*pods).map(|number| Pod { priority: i32::from(number % 4 == 3), ..pod(&format!("p{index}-{number}")) });
            let daemon = Pod { exclusive_cpus: index % 2 == 0, uid: format!("daemon-{index}"), ..daemon("proxy") };
            let name = nodecfg_plan::fixtures::node_name(&format!("n{index:02}"));
            (name, own.chain([daemon]).map(|pod| (pod.uid.clone(), pod)).collect())
        });
        let mut sim = SimHarness {
            nodes: cluster.nodes.clone(),
            pods: pods.collect(),
            watched: BTreeSet::new(),
            machine: Machine::new(&plan, Mode { rollback_on_failure, list_pods, ..Mode::ASSIGN }),
            requests: Vec::new(),
            target: plan.pools[0].target.clone(),
            old: old.clone(),
            budget: plan.pools[0].budget,
            node_time: i64::try_from(timeout + drain_timeout + settle).unwrap(),
            exclusions,
            started_pods: 0,
            unmarked: BTreeSet::new(),
            failed: BTreeSet::new(),
            log: Vec::new(),
        };
        sim.send(Input::Start);
        for event in sim_events {
            sim.apply(event, &decide);
        }
        // From here on, requests are answered, pods end and time passes; the rollout must still end.
        for _ in 0..400 {
            while !sim.requests.is_empty() {
                sim.answer(0, 9, &decide);
            }
            for name in sim.nodes.keys().cloned().collect::<Vec<_>>() {
                sim.end_pod(&name);
            }
            if sim.machine.is_finished() && sim.requests.is_empty() {
                break;
            }
            sim.wait(20);
        }
        let outcome = sim.machine.outcome();
        let log = sim.log.join("\n");
        prop_assert!(sim.machine.is_finished(), "{outcome:?}\n{log}");
        prop_assert!(sim.watched.is_empty(), "{:?}\n{log}", sim.watched);
        for end in &outcome.pools[&name].nodes {
            let Some(node) = sim.nodes.get(&end.node) else { continue };
            let explained = end.marked || sim.unmarked.contains(&end.node);
            prop_assert!(node.drain_mark.is_none() || explained, "{end:?} {node:?}\n{log}");
            prop_assert!(!end.marked || !outcome.is_complete(), "{end:?}");
        }
    }
}
