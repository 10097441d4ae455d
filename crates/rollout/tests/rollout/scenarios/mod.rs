//! Scenario tests of the state machine, without a cluster.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Machine;
use nodecfg_contract::error_text;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{ConfigMapKey, FetchedConfigMap, Node, Observed, Readiness};
use nodecfg_planning::convergence::{ConvergenceFailure, Waiting};
use nodecfg_planning::desired::{Desired, RolloutPolicy};
use nodecfg_planning::instant::Now;
use nodecfg_planning::plan::fixtures::{
    desired, namespace, node, node_name, observed, on, options, policy, pool, pool_name, refusing, rendered, source,
    with_config_map,
};
use nodecfg_planning::plan::{Plan, belongs, decide_again, make};
use nodecfg_rollout::machine::{Command, Input, Mode};
use nodecfg_rollout::progress::{PoolState, Progress};
use nodecfg_rollout::{End, StopReason};

mod bad_input;
mod canaries;
mod clock_steps;
mod conflicts;
mod counts;
mod domains;
mod gates;
mod held;
mod new_nodes;
mod orders;
mod placements;
mod pods;
mod pointers;
mod proof;
mod soaks;
mod trials;
mod windows;

const ASSIGN: Mode = Mode { concurrency: 16, ..Mode::ASSIGN };

/// A rollout of one pool, driven step by step.
struct Scenario {
    desired: Desired,
    cluster: Observed,
    machine: Machine,
    progress: Vec<Progress>,
    /// Node and state of the pool in the latest event.
    subject: Option<NodeName>,
    state: Option<PoolState>,
    rolled_back: Vec<NodeName>,
    /// Nodes whose pods are listed.
    lists: Vec<String>,
    /// ConfigMaps that the pointer is moved to; `local` for the local configuration.
    pointed: Vec<String>,
}

impl Scenario {
    fn new(nodes: impl IntoIterator<Item = Node>, policy: RolloutPolicy, mode: Mode) -> Self {
        Self::over(observed(nodes), policy, mode)
    }

    fn over(cluster: Observed, policy: RolloutPolicy, mode: Mode) -> Self {
        Self::of(desired([pool("a", 64, policy)]), cluster, mode)
    }

    fn of(desired: Desired, cluster: Observed, mode: Mode) -> Self {
        let plan: Plan = make(&desired, &cluster, &options()).unwrap();
        Self {
            machine: Machine::new(&plan, mode),
            desired,
            cluster,
            progress: Vec::new(),
            subject: None,
            state: None,
            rolled_back: Vec::new(),
            lists: Vec::new(),
            pointed: Vec::new(),
        }
    }

    /// Sends an input and returns the nodes that the machine assigns.
    fn send(&mut self, input: Input) -> Vec<String> {
        let mut assigned = Vec::new();
        for command in self.machine.step(input) {
            match command {
                Command::Assign(node, _) => assigned.push(node.to_string()),
                Command::RollBack(node, back) => {
                    // The rollback names the uid of the assigned Node, not a later Node of the same name.
                    assert_eq!((back.uid, back.from), (format!("uid-{node}"), Some(Self::target())));
                    self.rolled_back.push(node);
                }
                Command::MovePointer(_, pointer) => {
                    self.pointed.push(pointer.config.map_or_else(|| "local".to_owned(), |config| config.config_map));
                }
                Command::ListPods(node) => self.lists.push(node.to_string()),
                Command::Report(event) => {
                    self.progress.push(event.progress);
                    (self.subject, self.state) = (event.node, event.state);
                }
                other => panic!("no change needs a drain: {other:?}"),
            }
        }
        assigned
    }

    /// Delivers a state of a node. Returns the nodes that the machine assigns.
    fn see(&mut self, node: Node) -> Vec<String> {
        self.send(Input::Observed(Box::new(node)))
    }

    /// Delivers a node that is Ready on its target.
    fn see_on_target(&mut self, name: &str) -> Vec<String> {
        self.see(on(node(name, "a"), &Self::target()))
    }

    fn target() -> nodecfg_contract::ConfigSource {
        rendered("a", 64).source(&namespace())
    }

    /// Answers the assignment and lets the node converge.
    fn converge(&mut self, name: &str) -> Vec<String> {
        self.assigned(name);
        self.see_on_target(name)
    }

    fn assigned(&mut self, name: &str) {
        let more = self.send(Input::Assigned(node_name(name)));
        assert!(more.is_empty(), "an answer alone starts no node");
        self.see(Node { source: Some(Self::target()), ..node(name, "a") });
    }

    fn refuse(&mut self, name: &str) -> Vec<String> {
        self.assigned(name);
        self.see(refusing(node(name, "a"), &Self::target(), error_text::VALIDATE))
    }

    /// Time passes, with a tick whenever the machine asks for one. Returns the nodes that it assigns.
    fn wait(&mut self, seconds: i64) -> Vec<String> {
        let end = self.machine.now.after(seconds);
        let mut assigned = Vec::new();
        while self.machine.advance(end) {
            assigned.extend(self.send(Input::Tick));
        }
        assigned
    }

    /// The time of day steps, while no time passes.
    fn step_clock(&mut self, seconds: i64) {
        self.machine.now = self.machine.now.stepped(seconds);
    }

    fn end(&self, name: &str) -> End {
        let outcome = self.machine.outcome();
        let pool = outcome.pools.get(&pool_name("a")).unwrap();
        pool.nodes.iter().find(|node| node.node.as_str() == name).unwrap().end.clone()
    }

    fn stopped(&self) -> Option<StopReason> {
        self.machine.outcome().pools.get(&pool_name("a")).unwrap().stopped.clone()
    }
}

/// A node that is not Ready.
fn down(name: &str) -> Node {
    Node { ready: Readiness::NotReady, ..node(name, "a") }
}

fn three() -> [Node; 3] {
    ["n1", "n2", "n3"].map(|name| node(name, "a"))
}

#[test]
fn starts_next_node_when_one_converges() {
    let mut scenario = Scenario::new(three(), policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1", "n2"]);
    assert_eq!(scenario.converge("n2"), ["n3"]);
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.converge("n3").is_empty());
    assert!(scenario.machine.is_finished());
    assert!(scenario.machine.outcome().is_complete());
}

#[test]
fn accepts_watch_event_before_the_response() {
    let mut scenario = Scenario::new([node("n1", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.see_on_target("n1");
    scenario.send(Input::Assigned(node_name("n1")));
    assert_eq!(scenario.end("n1"), End::Converged);
    assert!(scenario.machine.is_finished());
}

#[test]
fn stops_pool_after_max_failures_and_finishes_nodes_in_flight() {
    let mut policy = policy(2);
    policy.max_failures = 0;
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1", "n2"]);
    assert!(scenario.refuse("n1").is_empty());
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
    assert!(!scenario.machine.is_finished(), "n2 is in transition");
    assert!(scenario.converge("n2").is_empty());
    assert!(scenario.machine.is_finished());
    assert_eq!(
        scenario.end("n1"),
        End::Failed {
            failure: ConvergenceFailure::Refused { error: error_text::VALIDATE.to_owned() },
            rolled_back: false
        }
    );
    assert_eq!(scenario.end("n3"), End::NotStarted);
}

#[test]
fn counts_failed_nodes_against_the_budget() {
    let mut policy = policy(1);
    policy.max_failures = 1;
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    scenario.send(Input::Start);
    assert!(scenario.refuse("n1").is_empty(), "the failed node uses up the budget");
    assert!(matches!(scenario.stopped(), Some(StopReason::BudgetExhausted { budget: 1, unavailable: 1, .. })));
}

#[test]
fn rolls_back_failed_node_to_previous_source() {
    let old = source("old");
    let mut cluster: Vec<Node> = three().to_vec();
    cluster[0] = on(cluster[0].clone(), &old);
    let mut scenario = Scenario::new(cluster, policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
    // n1 points at a foreign ConfigMap, so the plan leaves n1 unchanged. n2 fails.
    assert_eq!(scenario.send(Input::Start), ["n2"]);
    scenario.refuse("n2");
    assert_eq!(scenario.rolled_back, [node_name("n2")]);
    assert!(!scenario.machine.is_finished(), "the answer is missing");
    scenario.send(Input::RolledBack(node_name("n2"), Ok(())));
    assert!(!scenario.machine.is_finished(), "the rollback is not complete");
    scenario.see(node("n2", "a"));
    assert!(matches!(scenario.end("n2"), End::Failed { rolled_back: true, .. }));
    assert!(scenario.machine.is_finished());
}

#[test]
fn times_out_silent_node_with_reason() {
    let mut scenario = Scenario::new([node("n1", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.assigned("n1");
    scenario.wait(299);
    assert_eq!(scenario.end("n1"), End::InFlight);
    scenario.wait(1);
    assert_eq!(
        scenario.end("n1"),
        End::Failed { failure: ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged }, rolled_back: false }
    );
}

#[test]
fn ignores_failure_of_node_that_was_down_before() {
    let mut nodes = three();
    nodes[0].ready = Readiness::Unknown;
    let mut scenario = Scenario::new(nodes, policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1", "n2"], "n1 needs no budget, n2 uses the rest");
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.see(Node { ready: Readiness::Unknown, source: Some(Scenario::target()), ..node("n1", "a") });
    assert_eq!(scenario.converge("n2"), ["n3"]);
    scenario.wait(301);
    assert!(matches!(scenario.end("n1"), End::Failed { .. }));
    assert_eq!(scenario.stopped(), None, "the node had not answered before either");
}

#[test]
fn stops_when_down_nodes_use_up_the_budget() {
    let mut nodes = three();
    nodes[0].ready = Readiness::Unknown;
    let mut scenario = Scenario::new(nodes, policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1"], "no budget is left for Ready nodes");
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.wait(300);
    assert!(matches!(scenario.stopped(), Some(StopReason::BudgetExhausted { .. })));
}

#[test]
fn frees_budget_when_node_recovers() {
    let mut nodes = three();
    nodes[0].ready = Readiness::NotReady;
    let mut scenario = Scenario::new(nodes, policy(1), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1"]);
    assert_eq!(scenario.converge("n1"), ["n2"], "a good configuration restores the node");
}

#[test]
fn decides_again_after_conflicting_change() {
    let mut scenario = Scenario::new(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    // Another client assigned its own ConfigMap to n1 just before our patch.
    let theirs = on(node("n1", "a"), &source("theirs"));
    let decision = decide_again(&scenario.desired, &scenario.cluster, &options(), &pool_name("a"), &theirs);
    assert_eq!(scenario.send(Input::Changed(node_name("n1"), Some(Box::new((theirs, decision))))), ["n2"]);
    assert!(matches!(scenario.end("n1"), End::LeftAlone { why } if why.is_blocked()));

    // The patch was applied, but its response was lost.
    let ours = Node { source: Some(Scenario::target()), ..node("n2", "a") };
    let decision = decide_again(&scenario.desired, &scenario.cluster, &options(), &pool_name("a"), &ours);
    scenario.send(Input::Changed(node_name("n2"), Some(Box::new((ours, decision)))));
    assert_eq!(scenario.end("n2"), End::InFlight);
    assert_eq!(scenario.see_on_target("n2"), ["n3"]);

    // Another client changes n3 after its assignment.
    scenario.assigned("n3");
    scenario.see(on(node("n3", "a"), &source("theirs")));
    assert_eq!(scenario.end("n3"), End::Changed { to: Some(source("theirs")) });
    assert!(scenario.machine.is_finished());
    assert!(!scenario.machine.outcome().is_complete());
}

#[test]
fn skips_pending_node_that_leaves_its_pool() {
    let mut scenario = Scenario::new(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    let moved = |name| node(name, "b");
    assert!(!belongs(&scenario.desired, &pool_name("a"), &moved("n2")));
    assert!(scenario.send(Input::Unselected(Box::new(moved("n2")))).is_empty());
    assert_eq!(scenario.end("n2"), End::Changed { to: None });
    assert_eq!(scenario.converge("n1"), ["n3"]);
    // The patch of n3 conflicted, and n3 left the pool before the conflict was read.
    let decision = decide_again(&scenario.desired, &scenario.cluster, &options(), &pool_name("a"), &moved("n3"));
    assert_eq!(decision, None);
    assert!(scenario.send(Input::Changed(node_name("n3"), Some(Box::new((moved("n3"), decision))))).is_empty());
    assert_eq!(scenario.end("n3"), End::Changed { to: None });
    assert!(scenario.machine.is_finished() && !scenario.machine.outcome().is_complete());
}

#[test]
fn ignores_event_from_before_the_assignment() {
    let mut scenario = Scenario::new([node("n1", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Assigned(node_name("n1")));
    scenario.see(node("n1", "a"));
    assert_eq!(scenario.end("n1"), End::InFlight);
}

#[test]
fn finishes_nodes_in_flight_after_interrupt() {
    let mut scenario = Scenario::new(three(), policy(1), ASSIGN);
    scenario.send(Input::Start);
    scenario.send(Input::Stop(StopReason::Interrupted));
    assert!(!scenario.machine.is_finished());
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.machine.is_finished());
    assert_eq!(scenario.stopped(), Some(StopReason::Interrupted));
    assert_eq!(scenario.end("n2"), End::NotStarted);
}

#[test]
fn resets_node_whose_assignment_was_not_sent() {
    let mut scenario = Scenario::new(three(), policy(3), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1", "n2", "n3"]);
    scenario.assigned("n1");
    scenario.send(Input::Stop(StopReason::Interrupted));
    scenario.send(Input::Withdrawn(node_name("n2")));
    scenario.send(Input::Withdrawn(node_name("n3")));
    assert!(scenario.converge("n1").is_empty());
    assert!(scenario.machine.is_finished());
    assert_eq!((scenario.end("n2"), scenario.stopped()), (End::NotStarted, Some(StopReason::Interrupted)));
}

#[test]
fn starts_no_node_on_target_that_failed_before() {
    let mut nodes = three();
    nodes[0] = refusing(nodes[0].clone(), &Scenario::target(), error_text::VALIDATE);
    let mut scenario = Scenario::new(nodes, policy(3), ASSIGN);
    assert!(scenario.send(Input::Start).is_empty(), "the budget would allow two more");
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
    assert!(scenario.machine.is_finished());
}

#[test]
fn charges_budget_for_node_that_recovers_before_its_start() {
    let mut nodes = three();
    for node in &mut nodes {
        node.ready = Readiness::Unknown;
    }
    let mut scenario = Scenario::new(nodes, policy(1), Mode { concurrency: 1, ..ASSIGN });
    assert_eq!(scenario.send(Input::Start), ["n1"], "one request at a time");
    // The network recovers: all nodes are Ready before n2 and n3 start.
    for name in ["n2", "n3"] {
        assert!(scenario.see(node(name, "a")).is_empty());
    }
    assert!(scenario.send(Input::Assigned(node_name("n1"))).is_empty(), "n1 uses up the budget");
}

#[test]
fn starts_node_that_goes_down_before_its_start_without_readiness() {
    let mut scenario = Scenario::new(three(), policy(2), ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1", "n2"]);
    let dead = Node { ready: Readiness::Unknown, ..node("n3", "a") };
    assert_eq!(scenario.see(dead), ["n3"], "it needs no budget");
    scenario.send(Input::Assigned(node_name("n3")));
    scenario.converge("n1");
    scenario.converge("n2");
    scenario.wait(301);
    assert!(matches!(scenario.end("n3"), End::Failed { .. }));
    assert_eq!(scenario.stopped(), None);
}

#[test]
fn reports_recreated_node_as_changed() {
    let mut scenario = Scenario::new(three(), policy(3), ASSIGN);
    scenario.send(Input::Start);
    for name in ["n1", "n2", "n3"] {
        scenario.converge(name);
    }
    scenario.send(Input::Gone(node_name("n1")));
    assert!(scenario.machine.outcome().is_complete());
    scenario.see(node("n1", "a"));
    assert_eq!(scenario.end("n1"), End::Changed { to: None });
    // The same holds for a converged node that another client changes.
    scenario.see(on(node("n2", "a"), &source("theirs")));
    assert_eq!(scenario.end("n2"), End::Changed { to: Some(source("theirs")) });
    assert!(!scenario.machine.outcome().is_complete());
}

#[test]
fn ignores_old_event_after_node_was_read_again() {
    let mut scenario = Scenario::new([node("n1", "a"), node("n2", "a")], policy(1), ASSIGN);
    scenario.send(Input::Start);
    // The patch was applied, its response and the watch were lost; the node was read again, then the watch restarts.
    let ours = Node { source: Some(Scenario::target()), ..node("n1", "a") };
    let decision = decide_again(&scenario.desired, &scenario.cluster, &options(), &pool_name("a"), &ours);
    scenario.send(Input::Changed(node_name("n1"), Some(Box::new((ours, decision)))));
    assert!(scenario.see(node("n1", "a")).is_empty(), "no other node starts");
    assert_eq!(scenario.end("n1"), End::InFlight);
}

#[test]
fn keeps_failed_node_when_previous_config_map_is_missing() {
    let old = rendered("a", 110).source(&namespace());
    let mut cluster = observed([on(node("n1", "a"), &old)]);
    with_config_map(&mut cluster, "a", &rendered("a", 110));
    let key = ConfigMapKey::of(&old).unwrap();
    let rolled_back = |found: Option<FetchedConfigMap>| {
        let mut cluster = cluster.clone();
        cluster.contents.insert(key.clone(), found);
        let mut scenario = Scenario::over(cluster, policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
        assert_eq!(scenario.send(Input::Start), ["n1"]);
        scenario.refuse("n1");
        scenario.rolled_back.len()
    };
    let data = [("kubelet".to_owned(), rendered("a", 110).canonical)].into();
    assert_eq!(rolled_back(Some(FetchedConfigMap { data, ..FetchedConfigMap::default() })), 1);
    assert_eq!(rolled_back(None), 0);
}

#[test]
fn verify_waits_without_assigning() {
    let mode = Mode { assign: false, concurrency: 1, timeout: Some(Duration::from_secs(30)), ..ASSIGN };
    let mut scenario = Scenario::new(three(), policy(1), mode);
    assert!(scenario.send(Input::Start).is_empty());
    // A sync by another client moves both nodes at once.
    for name in ["n1", "n2"] {
        assert!(scenario.see_on_target(name).is_empty());
        assert_eq!(scenario.end(name), End::Converged);
    }
    scenario.wait(30);
    assert_eq!(
        scenario.end("n3"),
        End::Failed { failure: ConvergenceFailure::TimedOut { waiting: Waiting::NotAssigned }, rolled_back: false }
    );
    assert!(scenario.machine.is_finished());
}

/// The pool looks at itself once after all time limits of a tick.
#[test]
fn nodes_that_time_out_together_stop_the_pool_before_another_starts() {
    let policy = RolloutPolicy { max_failures: 1, ..policy(2) };
    let mut scenario = Scenario::new(three(), policy, ASSIGN);
    assert_eq!(scenario.send(Input::Start), ["n1", "n2"]);
    scenario.assigned("n1");
    scenario.assigned("n2");
    assert!(scenario.wait(300).is_empty(), "one failure would be allowed");
    let failed = |progress: &&Progress| matches!(progress, Progress::Failed { .. });
    assert_eq!(scenario.progress.iter().filter(failed).count(), 2);
    assert_eq!(scenario.stopped(), Some(StopReason::TooManyFailures { failures: 2, max_failures: 1 }));
}
