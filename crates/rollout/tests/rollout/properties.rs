//! Property tests of invariant 4: whatever the nodes do, a rollout never makes more nodes of a pool unavailable than
//! its budget allows, starts no node that another program maintains or whose state is unknown, starts none whose time
//! limit an exclusion overlaps, and always ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use super::domain_oracle::DomainOracle;
use super::{Machine, aborted, paused};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{ConfigSource, UnreadableField, error_text};
use nodecfg_fleet::{Desired, NodeOrder};
use nodecfg_observed::{Maintainer, Node, NodeSupport, Observed, Pod, Readiness, Rejection};
use nodecfg_plan::convergence::{Convergence, Target, WaitContext, evaluate};
use nodecfg_plan::drain::fixtures::pod;
use nodecfg_plan::fixtures::{
    ZONE, canary, desired, exclusion, fetched, in_zone, node, observed, on, options, policy, pool as pool_of,
    pool_name, refusing, rendered, source, with_config_map,
};
use nodecfg_plan::state::State;
use nodecfg_plan::{Domain, Plan, WaveKind, decide_again, make};
use nodecfg_rollout::End;
use nodecfg_rollout::machine::{Command, Input, Mode};
use nodecfg_rollout::progress::{NodeCounts, Progress};

/// A simulated event, with the index of its node.
#[derive(Debug, Clone, Copy)]
enum SimEvent {
    /// Answers the oldest request: applied, conflicting, or refused.
    Answer(u8),
    /// A node accepts its assignment and runs it.
    Converge(usize),
    /// A node accepts its assignment and refuses the configuration.
    Refuse(usize),
    Ready(usize),
    NotReady(usize),
    /// A heartbeat without a change.
    Heartbeat(usize),
    /// A person cordons or uncordons a node.
    Cordon(usize, bool),
    /// Another program claims or releases a node.
    Maintain(usize, bool),
    /// The values of a node become unreadable or readable.
    Unreadable(usize, bool),
    /// A finalizer delays the deletion of a node.
    Delete(usize),
    Vanish(usize),
    Wait(i64),
    /// The time of day steps.
    StepClock(i64),
    Interrupt,
    /// An operator aborts the rollout with a rollback.
    RollBackAll,
    /// An operator pauses the pool.
    Pause,
}

fn sim_events() -> impl Strategy<Value = SimEvent> {
    prop_oneof![
        12 => (0..20_u8).prop_map(SimEvent::Answer),
        10 => (0..100_usize).prop_map(SimEvent::Converge),
        2 => (0..100_usize).prop_map(SimEvent::Refuse),
        2 => (0..100_usize).prop_map(SimEvent::NotReady),
        3 => (0..100_usize).prop_map(SimEvent::Ready),
        2 => (0..100_usize).prop_map(SimEvent::Heartbeat),
        2 => (0..100_usize, any::<bool>()).prop_map(|(index, on)| SimEvent::Cordon(index, on)),
        2 => (0..100_usize, any::<bool>()).prop_map(|(index, on)| SimEvent::Maintain(index, on)),
        2 => (0..100_usize, any::<bool>()).prop_map(|(index, on)| SimEvent::Unreadable(index, on)),
        1 => (0..100_usize).prop_map(SimEvent::Delete),
        1 => (0..100_usize).prop_map(SimEvent::Vanish),
        3 => (1..120_i64).prop_map(SimEvent::Wait),
        1 => (-7200..7200_i64).prop_map(SimEvent::StepClock),
        1 => Just(SimEvent::Interrupt),
        1 => Just(SimEvent::RollBackAll),
        1 => Just(SimEvent::Pause),
    ]
}

/// Nodes of the waves of a kind.
fn in_waves<C: FromIterator<NodeName>>(plan: &Plan, is_wanted: impl Fn(WaveKind) -> bool) -> C {
    let waves = plan.pools.iter().flat_map(|pool| &pool.waves).filter(|wave| is_wanted(wave.kind));
    waves.flat_map(|wave| wave.steps.iter().map(|step| step.node.clone())).collect()
}

struct SimHarness {
    /// True states of the nodes.
    nodes: BTreeMap<NodeName, Node>,
    /// Nodes of which the machine sees only the name.
    unreadable: BTreeSet<NodeName>,
    machine: Machine,
    requests: Vec<Command>,
    /// Nodes that the machine assigned, except those whose assignment was refused or conflicted.
    touched: BTreeMap<NodeName, bool>,
    target: Target,
    /// Previous source of the nodes.
    old: ConfigSource,
    budget: usize,
    steps: usize,
    /// Time limit of a node, in seconds.
    timeout: i64,
    /// Start and end of each exclusion.
    exclusions: Vec<(Timestamp, Timestamp)>,
    /// Counts of the latest event.
    counts: NodeCounts,
    order: Option<DomainOracle>,
    /// Canaries of the plan, except those that were held: another node may have replaced them.
    canaries: Vec<NodeName>,
    /// Nodes of the plan that start before the canaries, because they need no budget.
    unavailable: BTreeSet<NodeName>,
    has_canaries: bool,
    /// Whether the pointer was moved.
    pointed: bool,
}

impl SimHarness {
    fn send(&mut self, input: Input) {
        let commands = self.machine.step(input);
        if let Some(mut order) = self.order.take() {
            order.check(&commands, &self.machine.outcome(), self.machine.now.instant, |node| {
                self.available(node, false)
            });
            self.order = Some(order);
        }
        for command in commands {
            match &command {
                Command::Assign(node, _) => {
                    let ends = self.machine.now.after(self.timeout).time;
                    let overlaps = |(from, to): &(Timestamp, Timestamp)| *from < ends && *to > self.machine.now.time;
                    assert!(
                        !self.exclusions.iter().any(overlaps),
                        "{node} starts at {} within an exclusion",
                        self.machine.now.time
                    );
                    if self.touched.insert(node.clone(), true).is_none() {
                        self.assert_budget(node);
                    }
                    self.requests.push(command);
                }
                Command::RollBack(..) | Command::ListPods(_) => self.requests.push(command),
                Command::MovePointer(..) => {
                    self.assert_proven();
                    self.requests.push(command);
                }
                Command::Report(event) => {
                    self.counts = event.state.as_ref().unwrap().counts;
                    assert_eq!(self.counts.total(), self.steps, "{event:?}");
                    if let Progress::Held { .. } = &event.progress {
                        self.canaries.retain(|canary| Some(canary) != event.node.as_ref());
                    }
                }
                other => panic!("no change needs a drain: {other:?}"),
            }
        }
    }

    /// The pointer moves once, before a stop of the pool, to a target that a node proves and no canary has refused.
    fn assert_proven(&mut self) {
        assert!(!std::mem::replace(&mut self.pointed, true), "no gate returns the pool");
        let outcome = self.machine.outcome();
        let pool = &outcome.pools[&pool_name("a")];
        assert_eq!(pool.stopped, None);
        let ends = |wanted: &dyn Fn(&End) -> bool, node: &NodeName| {
            pool.nodes.iter().any(|ended| ended.node == *node && wanted(&ended.end))
        };
        assert!(pool.nodes.iter().any(|node| node.end == End::Converged), "{outcome:?}");
        let pending = |end: &End| matches!(end, End::NotStarted | End::InFlight | End::Held);
        let waiting: Vec<_> = self.canaries.iter().filter(|node| ends(&pending, node)).collect();
        assert!(waiting.is_empty(), "the pointer moves before canaries {waiting:?}");
        let mut others = pool.nodes.iter().filter(|node| !self.unavailable.contains(&node.node));
        let is_proven = others.clone().any(|node| node.end == End::Converged);
        let waits = others.any(|node| pending(&node.end));
        assert!(is_proven || !waits || !self.has_canaries, "the pointer moves without a canary: {outcome:?}");
    }

    /// Counts in the simulation only: an available node may start only if the unavailable nodes, including it, stay
    /// within the budget.
    fn assert_budget(&self, started: &NodeName) {
        let node = self.nodes.get(started);
        let claimed = node.is_some_and(|node| node.deleting || node.maintainer.is_some());
        assert!(!claimed && !self.unreadable.contains(started), "{started} must not start: {node:?}");
        if !self.available(started, false) {
            return;
        }
        let unavailable = self.nodes.keys().filter(|name| !self.available(name, true)).count();
        assert!(unavailable <= self.budget, "{started} was started with {unavailable} unavailable of {}", self.budget);
    }

    fn available(&self, name: &NodeName, count_touched: bool) -> bool {
        let Some(node) = self.nodes.get(name) else { return true };
        let present = Target::present(node);
        let settled = evaluate(&present, node, WaitContext::STATE_ONLY) == Convergence::Converged;
        let moving = count_touched && self.touched.contains_key(name) && !self.target.is_named_by(node.source.as_ref());
        let claimed = node.cordoned || node.deleting || node.maintainer.is_some() || self.unreadable.contains(name);
        node.ready == Readiness::Ready && settled && !moving && !claimed
    }

    fn nth(&self, index: usize) -> Option<NodeName> {
        self.nodes.keys().nth(index % self.nodes.len().max(1)).cloned()
    }

    fn change(&mut self, index: usize, change: impl FnOnce(Node) -> Node) {
        let Some(name) = self.nth(index) else { return };
        if let Some(node) = self.nodes.remove(&name) {
            let node = change(node);
            self.nodes.insert(name, node.clone());
            self.show(node);
        }
    }

    /// A node as far as it is readable.
    fn seen(&self, node: Node) -> Node {
        if !self.unreadable.contains(&node.name) {
            return node;
        }
        let field = UnreadableField { field: "status".to_owned(), reason: "invalid".to_owned() };
        Node { support: NodeSupport::Unreadable(field), ..Node::named(node.name) }
    }

    /// Sends a watch event of a node.
    fn show(&mut self, node: Node) {
        let seen = self.seen(node);
        self.send(Input::Observed(Box::new(seen)));
    }

    fn answer(&mut self, how: u8, decide: &dyn Fn(&Node) -> Option<nodecfg_plan::Decision>) {
        if self.requests.is_empty() {
            return;
        }
        match self.requests.remove(0) {
            Command::Assign(name, _) => {
                let Some(mut node) = self.nodes.get(&name).cloned() else {
                    self.send(Input::Changed(name, None));
                    return;
                };
                match how {
                    0 => {
                        self.touched.remove(&name);
                        self.send(Input::Refused(name, "forbidden".to_owned()));
                    }
                    1 => {
                        node = on(node, &source("foreign"));
                        self.nodes.insert(name.clone(), node.clone());
                        self.touched.remove(&name);
                        let seen = self.seen(node);
                        let decision = decide(&seen);
                        self.send(Input::Changed(name, Some(Box::new((seen, decision)))));
                    }
                    _ => {
                        node.source = self.target.source().cloned();
                        self.nodes.insert(name.clone(), node.clone());
                        self.send(Input::Assigned(name));
                        self.show(node);
                    }
                }
            }
            Command::MovePointer(pool, _) => {
                let result = if how == 0 { Err("forbidden".to_owned()) } else { Ok(()) };
                self.send(Input::PointerMoved(pool, result));
            }
            Command::ListPods(name) => {
                let [ready, other] = ["a", "b"].map(pod);
                let pods = match how {
                    0 => Err("forbidden".to_owned()),
                    1 => Ok(vec![Pod { ready: false, ..ready }, other]),
                    2 => {
                        let rejection = Rejection { reason: "NodeAffinity".to_owned(), message: String::new() };
                        Ok(vec![ready, Pod { finished: true, rejection: Some(Box::new(rejection)), ..other }])
                    }
                    3 => Ok(vec![]),
                    _ => Ok(vec![ready, other]),
                };
                self.send(Input::PodsListed(name, pods));
            }
            Command::RollBack(name, _) => {
                if how == 0 {
                    self.send(Input::RolledBack(name, Err("forbidden".to_owned())));
                    return;
                }
                if let Some(mut node) = self.nodes.get(&name).cloned() {
                    node.source = Some(self.old.clone());
                    self.nodes.insert(name.clone(), node.clone());
                    // The watch event may arrive before the response.
                    if how == 1 {
                        self.show(node);
                    }
                }
                self.send(Input::RolledBack(name, Ok(())));
            }
            other => panic!("not a request: {other:?}"),
        }
    }

    fn apply(&mut self, event: SimEvent, decide: &dyn Fn(&Node) -> Option<nodecfg_plan::Decision>) {
        let follow = |node: Node, good: bool| match node.source.clone() {
            Some(source) if good => on(node, &source),
            Some(source) => refusing(node, &source, error_text::VALIDATE),
            None => node,
        };
        match event {
            SimEvent::Answer(how) => self.answer(how, decide),
            SimEvent::Converge(index) => self.change(index, |node| follow(node, true)),
            SimEvent::Refuse(index) => self.change(index, |node| follow(node, false)),
            SimEvent::Ready(index) => self.change(index, |node| Node { ready: Readiness::Ready, ..node }),
            SimEvent::NotReady(index) => self.change(index, |node| Node { ready: Readiness::NotReady, ..node }),
            SimEvent::Cordon(index, cordoned) => self.change(index, |node| Node { cordoned, ..node }),
            SimEvent::Maintain(index, on) => {
                let maintainer = on.then_some(Maintainer::Kured);
                self.change(index, |node| Node { maintainer, ..node });
            }
            SimEvent::Unreadable(index, on) => {
                if let Some(name) = self.nth(index) {
                    if on {
                        self.unreadable.insert(name)
                    } else {
                        self.unreadable.remove(&name)
                    };
                    self.change(index, |node| node);
                }
            }
            SimEvent::Delete(index) => self.change(index, |node| Node { deleting: true, ..node }),
            SimEvent::Heartbeat(index) => self.change(index, |node| node),
            SimEvent::Vanish(index) => {
                if let Some(name) = self.nth(index) {
                    self.nodes.remove(&name);
                    self.send(Input::Gone(name));
                }
            }
            SimEvent::Wait(seconds) => self.wait(seconds),
            SimEvent::StepClock(seconds) => self.machine.now = self.machine.now.stepped(seconds),
            SimEvent::Interrupt => self.send(Input::Stop(nodecfg_rollout::StopReason::Interrupted)),
            SimEvent::RollBackAll => {
                self.send(Input::RollBackAll(aborted()));
            }
            SimEvent::Pause => {
                self.send(Input::StopPool(pool_name("a"), paused()));
            }
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
    fn keeps_budget_and_terminates(
        ready in vec((prop::bool::weighted(0.85), prop::bool::weighted(0.1), prop::bool::weighted(0.1), 0..4_u8), 1..14),
        order_soak in prop::option::of(0..90_u32),
        budget in 1..5_u32,
        canaries in prop::option::of((1..3_u32, 0..60_u64)),
        max_failures in 0..3_u32,
        rollback_on_failure in any::<bool>(),
        list_pods in any::<bool>(),
        concurrency in 1..6_usize,
        timeout in 1..900_i64,
        excluded in vec((0..6000_i64, 1..2000_i64), 0..3),
        sim_events in vec(sim_events(), 0..160),
    ) {
        let mut policy = policy(budget);
        policy.canary = canaries.and_then(|(nodes, soak)| canary(nodes, soak));
        policy.max_failures = max_failures;
        policy.convergence_timeout = Duration::from_secs(timeout.unsigned_abs());
        policy.schedule.exclusions = excluded.iter().map(|(from, length)| exclusion(*from, *length)).collect();
        let order = |soak: u32| NodeOrder { by: ZONE.to_owned(), soak: Duration::from_secs(soak.into()) };
        policy.order = order_soak.map(order);
        let has_canaries = policy.canary.is_some();
        let exclusions = policy.schedule.exclusions.iter().map(|one| (one.from, one.to)).collect();
        let desired = Desired { pool_pointers: true, ..desired([pool_of("a", 64, policy)]) };
        let old = rendered("a", 110).source(&nodecfg_plan::fixtures::namespace());
        let mut cluster: Observed = observed(ready.iter().enumerate().map(|(index, (ready, cordoned, maintained, zone))| {
            let value = ["z0", "z1", "z2"].get(usize::from(*zone)).copied();
            let node = on(in_zone(node(&format!("n{index:02}"), "a"), value), &old);
            let node = Node { cordoned: *cordoned, maintainer: maintained.then_some(Maintainer::Karpenter), ..node };
            Node { ready: if *ready { Readiness::Ready } else { Readiness::NotReady }, ..node }
        }));
        with_config_map(&mut cluster, "a", &rendered("a", 110));
        // The previous ConfigMap still exists.
        cluster.contents.extend([fetched(&old, &rendered("a", 110).canonical, true)]);
        let plan = make(&desired, &cluster, &options()).unwrap();
        let name = plan.pools[0].name.clone();
        let decide = |node: &Node| decide_again(&desired, &cluster, &options(), &name, node);
        let mode = Mode { rollback_on_failure, concurrency, list_pods, ..Mode::ASSIGN };
        let mut sim = SimHarness {
            nodes: cluster.nodes.clone(),
            unreadable: BTreeSet::new(),
            machine: Machine::new(&plan, mode),
            requests: Vec::new(),
            touched: BTreeMap::new(),
            target: plan.pools[0].target.clone(),
            old: old.clone(),
            budget: plan.pools[0].budget,
            steps: plan.pools[0].steps().count(),
            timeout,
            exclusions,
            counts: NodeCounts::default(),
            canaries: in_waves(&plan, |kind| matches!(kind, WaveKind::Canary { .. })),
            unavailable: in_waves(&plan, |kind| kind == WaveKind::Unavailable),
            has_canaries,
            pointed: false,
            order: order_soak.map(|soak| {
                let domain = |node: &Node| (node.name.clone(), Domain::of(ZONE, &node.labels));
                DomainOracle::new(cluster.nodes.values().map(domain).collect(), Duration::from_secs(soak.into()), has_canaries)
            }),
        };
        sim.send(Input::Start);
        for event in sim_events {
            sim.apply(event, &decide);
            let (unavailable, _) = sim.machine.budget_of(&name).unwrap();
            prop_assert!(unavailable <= sim.nodes.len());
        }
        // From here on, only responses arrive and time passes; the rollout must still end.
        for _ in 0..200 {
            while !sim.requests.is_empty() {
                sim.answer(9, &decide);
            }
            if sim.machine.is_finished() {
                break;
            }
            sim.wait(60);
        }
        let outcome = sim.machine.outcome();
        prop_assert!(sim.machine.is_finished(), "{outcome:?}");
        let held = outcome.pools[&name].nodes.iter().any(|node| node.end == End::Held);
        prop_assert_eq!(held, outcome.pools[&name].held.is_some());
        let ended = [State::Converged, State::Failed].map(|state| outcome.states().get(&state).copied().unwrap_or(0));
        prop_assert_eq!(ended, [sim.counts.done, sim.counts.failed]);
    }
}
