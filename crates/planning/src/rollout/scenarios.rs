//! Rollouts told step by step, without a cluster.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::machine::{Command, Input, Machine, Mode};
use super::progress::{PoolState, Progress};
use super::{End, StopReason};
use crate::desired::{Desired, RolloutPolicy};
use crate::judge::{Failure, Waiting};
use crate::plan::fixtures::{
    desired, namespace, node, node_name, observed, on, options, policy, pool, pool_name, refusing, rendered, source,
    with_config_map,
};
use crate::plan::{Plan, belongs, make, redecide};
use nodecfg_contract::error_text;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{ConfigMapKey, FetchedConfigMap, Node, Observed, Readiness};

mod canaries;
mod counts;
mod orders;

const ASSIGN: Mode =
    Mode { assign: true, as_reviewed: false, rollback_on_failure: false, concurrency: 16, timeout: None };

/// A rollout of one pool with a story to tell.
struct Story {
    desired: Desired,
    cluster: Observed,
    machine: Machine,
    now: Timestamp,
    told: Vec<Progress>,
    /// The pool's state, as the last event had it.
    state: Option<PoolState>,
    rolled_back: Vec<NodeName>,
}

impl Story {
    fn new(nodes: impl IntoIterator<Item = Node>, policy: RolloutPolicy, mode: Mode) -> Self {
        Self::over(observed(nodes), policy, mode)
    }

    fn over(cluster: Observed, policy: RolloutPolicy, mode: Mode) -> Self {
        let desired = desired([pool("a", 64, policy)]);
        let plan: Plan = make(&desired, &cluster, &options()).unwrap();
        Self {
            machine: Machine::new(&plan, mode),
            desired,
            cluster,
            now: Timestamp::UNIX_EPOCH,
            told: Vec::new(),
            state: None,
            rolled_back: Vec::new(),
        }
    }

    /// Tells the machine; answers with the nodes that it wants assigned.
    fn tell(&mut self, input: Input) -> Vec<String> {
        let mut assigned = Vec::new();
        for command in self.machine.step(input, self.now) {
            match command {
                Command::Assign(node, _) => assigned.push(node.to_string()),
                Command::RollBack(node, back) => {
                    // The Node that was assigned, and no later one of its name, is pointed away from the target.
                    assert_eq!((back.uid, back.from), (format!("uid-{node}"), Some(Self::target())));
                    self.rolled_back.push(node);
                }
                Command::Tell(event) => {
                    self.told.push(event.progress);
                    self.state = event.pool;
                }
            }
        }
        assigned
    }

    fn target() -> nodecfg_contract::ConfigSource {
        rendered("a", 64).source(&namespace())
    }

    /// The assignment is answered, and the node converges.
    fn converge(&mut self, name: &str) -> Vec<String> {
        self.assigned(name);
        self.tell(Input::Observed(Box::new(on(node(name, "a"), &Self::target()))))
    }

    fn assigned(&mut self, name: &str) {
        let more = self.tell(Input::Assigned(node_name(name)));
        assert!(more.is_empty(), "an answer alone starts nobody");
        self.tell(Input::Observed(Box::new(Node { source: Some(Self::target()), ..node(name, "a") })));
    }

    fn refuse(&mut self, name: &str) -> Vec<String> {
        self.assigned(name);
        self.tell(Input::Observed(Box::new(refusing(node(name, "a"), &Self::target(), error_text::VALIDATE))))
    }

    fn wait(&mut self, seconds: i64) -> Vec<String> {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        self.tell(Input::Tick)
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

fn three() -> [Node; 3] {
    ["n1", "n2", "n3"].map(|name| node(name, "a"))
}

#[test]
fn the_next_node_starts_the_moment_one_converges() {
    let mut story = Story::new(three(), policy(2), ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1", "n2"]);
    assert_eq!(story.converge("n2"), ["n3"]);
    assert!(story.converge("n1").is_empty());
    assert!(story.converge("n3").is_empty());
    assert!(story.machine.is_finished());
    assert!(story.machine.outcome().is_complete());
}

#[test]
fn a_watch_faster_than_the_answer_is_not_lost() {
    let mut story = Story::new([node("n1", "a")], policy(1), ASSIGN);
    story.tell(Input::Start);
    story.tell(Input::Observed(Box::new(on(node("n1", "a"), &Story::target()))));
    story.tell(Input::Assigned(node_name("n1")));
    assert_eq!(story.end("n1"), End::Converged);
    assert!(story.machine.is_finished());
}

#[test]
fn failures_beyond_the_limit_stop_the_pool_and_the_rest_finishes() {
    let mut policy = policy(2);
    policy.max_failures = 0;
    let mut story = Story::new(three(), policy, ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1", "n2"]);
    assert!(story.refuse("n1").is_empty());
    assert_eq!(story.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
    assert!(!story.machine.is_finished(), "n2 is in flight");
    assert!(story.converge("n2").is_empty());
    assert!(story.machine.is_finished());
    assert_eq!(
        story.end("n1"),
        End::Failed { failure: Failure::Refused { error: error_text::VALIDATE.to_owned() }, rolled_back: false }
    );
    assert_eq!(story.end("n3"), End::NotStarted);
}

#[test]
fn a_failed_node_goes_on_counting_against_the_budget() {
    let mut policy = policy(1);
    policy.max_failures = 1;
    let mut story = Story::new(three(), policy, ASSIGN);
    story.tell(Input::Start);
    assert!(story.refuse("n1").is_empty(), "the budget is used up by the failed node");
    assert!(matches!(story.stopped(), Some(StopReason::BudgetExhausted { budget: 1, unavailable: 1, .. })));
}

#[test]
fn rollback_points_a_failed_node_at_what_it_had() {
    let old = source("old");
    let mut cluster: Vec<Node> = three().to_vec();
    cluster[0] = on(cluster[0].clone(), &old);
    let mut story = Story::new(cluster, policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
    // n1 points at a foreign ConfigMap, so it is left alone; n2 is the one that fails.
    assert_eq!(story.tell(Input::Start), ["n2"]);
    story.refuse("n2");
    assert_eq!(story.rolled_back, [node_name("n2")]);
    assert!(!story.machine.is_finished(), "the answer is awaited");
    story.tell(Input::RolledBack(node_name("n2"), Ok(())));
    assert!(!story.machine.is_finished(), "it is watched until it is back");
    story.tell(Input::Observed(Box::new(node("n2", "a"))));
    assert!(matches!(story.end("n2"), End::Failed { rolled_back: true, .. }));
    assert!(story.machine.is_finished());
}

#[test]
fn a_silent_node_times_out_and_says_what_for() {
    let mut story = Story::new([node("n1", "a")], policy(1), ASSIGN);
    story.tell(Input::Start);
    story.assigned("n1");
    story.wait(299);
    assert_eq!(story.end("n1"), End::InFlight);
    story.wait(1);
    assert_eq!(
        story.end("n1"),
        End::Failed { failure: Failure::TimedOut { waiting: Waiting::NotAcknowledged }, rolled_back: false }
    );
}

#[test]
fn a_node_that_was_down_before_does_not_stop_the_others() {
    let mut nodes = three();
    nodes[0].ready = Readiness::Unknown;
    let mut story = Story::new(nodes, policy(2), ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1", "n2"], "n1 costs nothing, n2 takes what the budget leaves");
    story.tell(Input::Assigned(node_name("n1")));
    story.tell(Input::Observed(Box::new(Node {
        ready: Readiness::Unknown,
        source: Some(Story::target()),
        ..node("n1", "a")
    })));
    assert_eq!(story.converge("n2"), ["n3"]);
    story.wait(301);
    assert!(matches!(story.end("n1"), End::Failed { .. }));
    assert_eq!(story.stopped(), None, "it had not answered before either");
}

#[test]
fn nodes_that_are_down_leave_less_budget_and_may_leave_none() {
    let mut nodes = three();
    nodes[0].ready = Readiness::Unknown;
    let mut story = Story::new(nodes, policy(1), ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1"], "nothing is left for those that are Ready");
    story.tell(Input::Assigned(node_name("n1")));
    story.wait(300);
    assert!(matches!(story.stopped(), Some(StopReason::BudgetExhausted { .. })));
}

#[test]
fn a_node_that_mends_makes_room() {
    let mut nodes = three();
    nodes[0].ready = Readiness::NotReady;
    let mut story = Story::new(nodes, policy(1), ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1"]);
    assert_eq!(story.converge("n1"), ["n2"], "a good config mends what a bad one broke");
}

#[test]
fn somebody_elses_change_meanwhile_is_planned_anew_or_left() {
    let mut story = Story::new(three(), policy(1), ASSIGN);
    story.tell(Input::Start);
    // Somebody pointed n1 at a ConfigMap of their own just before our patch arrived.
    let theirs = on(node("n1", "a"), &source("theirs"));
    let decision = redecide(&story.desired, &story.cluster, &options(), &pool_name("a"), &theirs);
    assert_eq!(story.tell(Input::Changed(node_name("n1"), Some(Box::new((theirs, decision))))), ["n2"]);
    assert!(matches!(story.end("n1"), End::LeftAlone { why } if why.is_blocked()));

    // Our own patch arrived, and its answer was lost on the way.
    let ours = Node { source: Some(Story::target()), ..node("n2", "a") };
    let decision = redecide(&story.desired, &story.cluster, &options(), &pool_name("a"), &ours);
    story.tell(Input::Changed(node_name("n2"), Some(Box::new((ours, decision)))));
    assert_eq!(story.end("n2"), End::InFlight);
    assert_eq!(story.tell(Input::Observed(Box::new(on(node("n2", "a"), &Story::target())))), ["n3"]);

    // Somebody points n3 away after it was assigned.
    story.assigned("n3");
    story.tell(Input::Observed(Box::new(on(node("n3", "a"), &source("theirs")))));
    assert_eq!(story.end("n3"), End::Changed { to: Some(source("theirs")) });
    assert!(story.machine.is_finished());
    assert!(!story.machine.outcome().is_complete());
}

#[test]
fn a_node_that_changes_pool_before_its_turn_is_left_as_it_is() {
    let mut story = Story::new(three(), policy(1), ASSIGN);
    story.tell(Input::Start);
    let moved = |name| node(name, "b");
    assert!(!belongs(&story.desired, &pool_name("a"), &moved("n2")));
    assert!(story.tell(Input::Moved(Box::new(moved("n2")))).is_empty());
    assert_eq!(story.end("n2"), End::Changed { to: None });
    assert_eq!(story.converge("n1"), ["n3"]);
    // The patch of n3 met another change, and by then n3 had moved too.
    let decision = redecide(&story.desired, &story.cluster, &options(), &pool_name("a"), &moved("n3"));
    assert_eq!(decision, None);
    assert!(story.tell(Input::Changed(node_name("n3"), Some(Box::new((moved("n3"), decision))))).is_empty());
    assert_eq!(story.end("n3"), End::Changed { to: None });
    assert!(story.machine.is_finished() && !story.machine.outcome().is_complete());
}

#[test]
fn an_event_from_before_the_assignment_is_no_change_by_others() {
    let mut story = Story::new([node("n1", "a")], policy(1), ASSIGN);
    story.tell(Input::Start);
    story.tell(Input::Assigned(node_name("n1")));
    story.tell(Input::Observed(Box::new(node("n1", "a"))));
    assert_eq!(story.end("n1"), End::InFlight);
}

#[test]
fn an_interrupt_finishes_what_is_in_flight_and_starts_nothing() {
    let mut story = Story::new(three(), policy(1), ASSIGN);
    story.tell(Input::Start);
    story.tell(Input::Stop(StopReason::Interrupted));
    assert!(!story.machine.is_finished());
    assert!(story.converge("n1").is_empty());
    assert!(story.machine.is_finished());
    assert_eq!(story.stopped(), Some(StopReason::Interrupted));
    assert_eq!(story.end("n2"), End::NotStarted);
}

#[test]
fn an_assignment_that_was_not_sent_is_taken_back() {
    let mut story = Story::new(three(), policy(3), ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1", "n2", "n3"]);
    story.assigned("n1");
    story.tell(Input::Stop(StopReason::Interrupted));
    story.tell(Input::Withdrawn(node_name("n2")));
    story.tell(Input::Withdrawn(node_name("n3")));
    assert!(story.converge("n1").is_empty());
    assert!(story.machine.is_finished());
    assert_eq!((story.end("n2"), story.stopped()), (End::NotStarted, Some(StopReason::Interrupted)));
}

#[test]
fn a_configuration_that_failed_before_is_given_to_nobody_else() {
    let mut nodes = three();
    nodes[0] = refusing(nodes[0].clone(), &Story::target(), error_text::VALIDATE);
    let mut story = Story::new(nodes, policy(3), ASSIGN);
    assert!(story.tell(Input::Start).is_empty(), "the budget would allow two more");
    assert_eq!(story.stopped(), Some(StopReason::TooManyFailures { failures: 1, max_failures: 0 }));
    assert!(story.machine.is_finished());
}

#[test]
fn a_broken_node_that_mends_before_its_turn_costs_budget_again() {
    let mut nodes = three();
    for node in &mut nodes {
        node.ready = Readiness::Unknown;
    }
    let mut story = Story::new(nodes, policy(1), Mode { concurrency: 1, ..ASSIGN });
    assert_eq!(story.tell(Input::Start), ["n1"], "one request at a time");
    // The network is back: all are Ready again before the others' turn has come.
    for name in ["n2", "n3"] {
        assert!(story.tell(Input::Observed(Box::new(node(name, "a")))).is_empty());
    }
    assert!(story.tell(Input::Assigned(node_name("n1"))).is_empty(), "n1 uses the budget up");
}

#[test]
fn a_node_that_dies_before_its_turn_is_not_held_to_be_ready_and_stops_nobody() {
    let mut story = Story::new(three(), policy(2), ASSIGN);
    assert_eq!(story.tell(Input::Start), ["n1", "n2"]);
    let dead = Node { ready: Readiness::Unknown, ..node("n3", "a") };
    assert_eq!(story.tell(Input::Observed(Box::new(dead))), ["n3"], "it costs nothing");
    story.tell(Input::Assigned(node_name("n3")));
    story.converge("n1");
    story.converge("n2");
    story.wait(301);
    assert!(matches!(story.end("n3"), End::Failed { .. }));
    assert_eq!(story.stopped(), None);
}

#[test]
fn a_node_made_anew_under_its_name_is_not_called_done() {
    let mut story = Story::new(three(), policy(3), ASSIGN);
    story.tell(Input::Start);
    for name in ["n1", "n2", "n3"] {
        story.converge(name);
    }
    story.tell(Input::Gone(node_name("n1")));
    assert!(story.machine.outcome().is_complete());
    story.tell(Input::Observed(Box::new(node("n1", "a"))));
    assert_eq!(story.end("n1"), End::Changed { to: None });
    // So is one that somebody points away after it has converged.
    story.tell(Input::Observed(Box::new(on(node("n2", "a"), &source("theirs")))));
    assert_eq!(story.end("n2"), End::Changed { to: Some(source("theirs")) });
    assert!(!story.machine.outcome().is_complete());
}

#[test]
fn an_old_event_after_a_second_look_is_no_change_by_others() {
    let mut story = Story::new([node("n1", "a"), node("n2", "a")], policy(1), ASSIGN);
    story.tell(Input::Start);
    // The patch arrived, its answer and the watch were lost; the node was read again, then the watch starts over.
    let ours = Node { source: Some(Story::target()), ..node("n1", "a") };
    let decision = redecide(&story.desired, &story.cluster, &options(), &pool_name("a"), &ours);
    story.tell(Input::Changed(node_name("n1"), Some(Box::new((ours, decision)))));
    assert!(story.tell(Input::Observed(Box::new(node("n1", "a")))).is_empty(), "no other node starts");
    assert_eq!(story.end("n1"), End::InFlight);
}

#[test]
fn nobody_is_rolled_back_to_what_is_not_there() {
    let old = rendered("a", 110).source(&namespace());
    let mut cluster = observed([on(node("n1", "a"), &old)]);
    with_config_map(&mut cluster, "a", &rendered("a", 110));
    let key = ConfigMapKey::of(&old).unwrap();
    let rolled_back = |found: Option<FetchedConfigMap>| {
        let mut cluster = cluster.clone();
        cluster.contents.insert(key.clone(), found);
        let mut story = Story::over(cluster, policy(1), Mode { rollback_on_failure: true, ..ASSIGN });
        assert_eq!(story.tell(Input::Start), ["n1"]);
        story.refuse("n1");
        story.rolled_back.len()
    };
    let data = [("kubelet".to_owned(), rendered("a", 110).canonical)].into();
    assert_eq!(rolled_back(Some(FetchedConfigMap { data, ..FetchedConfigMap::default() })), 1);
    assert_eq!(rolled_back(None), 0);
}

#[test]
fn verifying_waits_without_assigning() {
    let mode = Mode {
        assign: false,
        as_reviewed: false,
        rollback_on_failure: false,
        concurrency: 1,
        timeout: Some(Duration::from_secs(30)),
    };
    let mut story = Story::new(three(), policy(1), mode);
    assert!(story.tell(Input::Start).is_empty());
    // Somebody else's sync moves them, all at once.
    for name in ["n1", "n2"] {
        assert!(story.tell(Input::Observed(Box::new(on(node(name, "a"), &Story::target())))).is_empty());
        assert_eq!(story.end(name), End::Converged);
    }
    story.wait(30);
    assert_eq!(
        story.end("n3"),
        End::Failed { failure: Failure::TimedOut { waiting: Waiting::NotAssigned }, rolled_back: false }
    );
    assert!(story.machine.is_finished());
}
