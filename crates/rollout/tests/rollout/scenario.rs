//! A rollout or a verification, driven step by step: inputs in, commands and outcome out.

use std::collections::BTreeMap;

use super::{Machine, Runs};
use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{Assignment, ConfigSource, error_text};
use nodecfg_fleet::Desired;
use nodecfg_observed::{Node, Observed, Readiness};
use nodecfg_plan::fixtures::{node_name, on, options, pool_name, refusing};
use nodecfg_plan::{Decision, Plan, PoolPlan, belongs, check, decide_again, make};
use nodecfg_rollout::machine::{Command, Input, Mode};
use nodecfg_rollout::progress::{Event, PoolState, Progress};
use nodecfg_rollout::{End, NodeOutcome, PoolOutcome, StopReason};

pub(crate) struct Scenario {
    pub(crate) desired: Desired,
    pub(crate) cluster: Observed,
    pub(crate) plan: Plan,
    pub(crate) machine: Machine,
    /// The nodes, as the machine saw them last.
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) events: Vec<Event>,
    /// All commands, in short form.
    sent: Vec<String>,
    /// What other programs were shown: `n1 Drained`.
    pub(crate) shown: Vec<String>,
}

impl Scenario {
    pub(crate) fn of(desired: Desired, cluster: Observed, mode: Mode) -> Self {
        let plan = make(&desired, &cluster, &options()).unwrap();
        assert_eq!(check(&plan, &desired, &cluster, &options().scope), []);
        Self {
            machine: Machine::new(&plan, mode),
            nodes: cluster.nodes.iter().map(|(name, node)| (name.to_string(), node.clone())).collect(),
            desired,
            cluster,
            plan,
            events: Vec::new(),
            sent: Vec::new(),
            shown: Vec::new(),
        }
    }

    /// Sends an input and returns the commands in short form: `assign n1`, `assign n1 drain` if the change needs a
    /// drain, `evict n1 a`.
    pub(crate) fn send(&mut self, input: Input) -> Vec<String> {
        let commands = self.machine.step(input);
        let sent: Vec<String> = commands.into_iter().filter_map(|command| self.told(command)).collect();
        if let Runs::Rollout(machine) = &self.machine.runs {
            let budgets = self.plan.pools.iter().filter_map(|pool| machine.budget_of(&pool.name));
            assert_eq!(machine.unavailable(), budgets.map(|(unavailable, _)| unavailable).sum::<usize>());
        }
        self.sent.extend(sent.iter().cloned());
        sent
    }

    /// The short form of a command. An event is kept and has none.
    fn told(&mut self, command: Command) -> Option<String> {
        let change = |node: &NodeName, change: &Assignment| match change.max_disruption {
            Class::Drain => format!("{node} drain"),
            _ => node.to_string(),
        };
        Some(match command {
            Command::Report(event) => {
                self.events.push(*event);
                return None;
            }
            Command::Assign(node, to) => format!("assign {}", change(&node, &to)),
            Command::RollBack(node, back) => {
                // The rollback names the uid of the assigned Node, not a later Node of the same name.
                assert_eq!((&back.uid, &back.from), (&format!("uid-{node}"), &Some(self.target(node.as_str()))));
                format!("roll back {}", change(&node, &back))
            }
            Command::MovePointer(pool, pointer) => {
                let to = pointer.config_map().unwrap_or_else(|| "local".to_owned());
                format!("point {pool} {to}")
            }
            Command::Mark(node, uid, drain, _) => {
                assert_eq!((uid, drain.to), (format!("uid-{node}"), Some(self.target(node.as_str()))));
                format!("mark {node}")
            }
            Command::Release(node, uid) => {
                assert_eq!(uid, format!("uid-{node}"));
                format!("release {node}")
            }
            Command::Show(node, _, shown) => {
                self.shown.push(format!("{node} {shown:?}"));
                return None;
            }
            Command::ListPods(node) => format!("list {node}"),
            Command::AskPermit(node, _) => format!("ask {node}"),
            Command::WatchPods(node) => format!("watch {node}"),
            Command::UnwatchPods(node) => format!("unwatch {node}"),
            Command::Evict(node, pod) => format!("evict {node} {}", pod.name),
            Command::CountVolumes(node) => format!("volumes {node}"),
            Command::DeletePod(node, pod) => format!("delete {node} {}", pod.name),
        })
    }

    /// The target of a node of the plan.
    pub(crate) fn target(&self, name: &str) -> ConfigSource {
        let is_selected = |pool: &&PoolPlan| belongs(&self.desired, &pool.name, &self.nodes[name]);
        self.plan.pools.iter().find(is_selected).unwrap().targets.only().unwrap().source().unwrap().clone()
    }

    /// Delivers a state of a node.
    pub(crate) fn see(&mut self, node: Node) -> Vec<String> {
        self.nodes.insert(node.name.to_string(), node.clone());
        self.send(Input::Observed(Box::new(node)))
    }

    /// Changes a node and delivers it.
    pub(crate) fn observe(&mut self, name: &str, change: impl FnOnce(Node) -> Node) -> Vec<String> {
        let node = change(self.nodes[name].clone());
        self.see(node)
    }

    /// Delivers a node that is Ready on its target.
    pub(crate) fn see_on_target(&mut self, name: &str) -> Vec<String> {
        let target = self.target(name);
        self.observe(name, |node| on(Node { ready: Readiness::Ready, ..node }, &target))
    }

    /// Answers an assignment, which alone starts no node.
    pub(crate) fn assigned(&mut self, name: &str) {
        assert_eq!(self.send(Input::Assigned(node_name(name))), [""; 0]);
        let source = Some(self.target(name));
        self.observe(name, |node| Node { source, ..node });
    }

    /// Answers the assignment and lets the node converge.
    pub(crate) fn converge(&mut self, name: &str) -> Vec<String> {
        self.assigned(name);
        self.see_on_target(name)
    }

    /// Answers the assignment, and the node refuses the configuration.
    pub(crate) fn refuse(&mut self, name: &str) -> Vec<String> {
        self.assigned(name);
        let target = self.target(name);
        self.observe(name, |node| refusing(node, &target, error_text::VALIDATE))
    }

    /// What a plan of now would do with a node of the pool `a`.
    pub(crate) fn decide(&self, node: &Node) -> Option<Decision> {
        decide_again(&self.desired, &self.cluster, &options(), &pool_name("a"), node)
    }

    /// Answers the assignment with a conflict: the Node has changed.
    pub(crate) fn conflict(&mut self, node: Node) -> Vec<String> {
        let decision = self.decide(&node);
        self.send(Input::Changed(node.name.clone(), Some(Box::new((node, decision)))))
    }

    /// Time passes, with a tick whenever the machine asks for one.
    pub(crate) fn wait(&mut self, seconds: i64) -> Vec<String> {
        let end = self.machine.now.after(seconds);
        let mut sent = Vec::new();
        while self.machine.advance(end) {
            sent.extend(self.send(Input::Tick));
        }
        sent
    }

    /// The time of day steps, while no time passes.
    pub(crate) fn step_clock(&mut self, seconds: i64) {
        self.machine.now = self.machine.now.stepped(seconds);
    }

    /// What follows this word in each command so far.
    fn sent(&self, word: &str) -> Vec<&str> {
        self.sent.iter().filter_map(|sent| sent.strip_prefix(word)?.strip_prefix(' ')).collect()
    }

    /// Nodes that the machine rolled back.
    pub(crate) fn rolled_back(&self) -> Vec<&str> {
        self.sent("roll back").into_iter().filter_map(|node| node.split(' ').next()).collect()
    }

    /// Nodes whose pods the machine listed.
    pub(crate) fn lists(&self) -> Vec<&str> {
        self.sent("list")
    }

    /// ConfigMaps that the pointer of the pool `a` was moved to; `local` for the local configuration.
    pub(crate) fn pointed(&self) -> Vec<&str> {
        self.sent("point a")
    }

    pub(crate) fn progress(&self) -> impl DoubleEndedIterator<Item = &Progress> {
        self.events.iter().map(|event| &event.progress)
    }

    /// Reports whether an event says exactly this.
    pub(crate) fn reported(&self, progress: &Progress) -> bool {
        self.progress().any(|reported| reported == progress)
    }

    /// Waits that were reported, each with its node.
    pub(crate) fn waits(&self) -> Vec<String> {
        let waiting = |event: &Event| match &event.progress {
            Progress::Waiting { waiting } => Some(format!("{}: {waiting}", event.node.as_ref().unwrap())),
            _ => None,
        };
        self.events.iter().filter_map(waiting).collect()
    }

    /// State of the pool in the latest event.
    pub(crate) fn state(&self) -> &PoolState {
        self.events.last().unwrap().state.as_ref().unwrap()
    }

    pub(crate) fn pool(&self, name: &str) -> PoolOutcome {
        self.machine.outcome().pools[&pool_name(name)].clone()
    }

    pub(crate) fn outcome(&self, name: &str) -> NodeOutcome {
        let outcome = self.machine.outcome();
        let mut nodes = outcome.pools.values().flat_map(|pool| &pool.nodes);
        nodes.find(|node| node.node.as_str() == name).unwrap().clone()
    }

    pub(crate) fn end(&self, name: &str) -> End {
        self.outcome(name).end
    }

    /// Why the pool `a` stopped.
    pub(crate) fn stopped(&self) -> Option<StopReason> {
        self.pool("a").stopped
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.machine.outcome().is_complete()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }
}
