//! The state of a pool that each event carries.

use jiff::SignedDuration;

use super::{ASSIGN, Story, three};
use crate::desired::RolloutPolicy;
use crate::plan::fixtures::{canary, node, node_name, on, policy};
use crate::rollout::machine::Input;
use crate::rollout::progress::{Gate, NodeCounts};
use nodecfg_contract::observed::Node;

#[test]
fn events_carry_the_counts_of_their_pool() {
    let deleted = Node { deleting: true, ..node("n0", "a") };
    let policy = RolloutPolicy { canary: canary(1, 60), ..policy(2) };
    let mut story = Story::new(three().into_iter().chain([deleted]), policy, ASSIGN);
    let counts = |story: &Story| {
        let state = story.state.clone().unwrap();
        let NodeCounts { pending, in_flight, done, failed, left } = state.counts;
        ((pending, in_flight, done, failed, left), state.gate, state.canaries)
    };
    story.tell(Input::Start);
    story.assigned("n1");
    assert_eq!(counts(&story), ((2, 1, 0, 0, 0), Gate::Canaries, 1));
    story.tell(Input::Observed(Box::new(on(node("n1", "a"), &Story::target()))));
    let until = story.now.checked_add(SignedDuration::from_secs(60)).unwrap();
    assert_eq!(counts(&story), ((2, 0, 1, 0, 0), Gate::Soaking { until }, 0));
    story.wait(60);
    story.tell(Input::Gone(node_name("n0")));
    assert_eq!(counts(&story), ((2, 0, 1, 0, 0), Gate::Open, 0), "the plan leaves n0 alone");
    story.refuse("n2");
    assert_eq!(counts(&story), ((1, 0, 1, 1, 0), Gate::Open, 0));
    assert_eq!(story.state.as_ref().unwrap().last_failed, Some(node_name("n2")));
    story.tell(Input::Gone(node_name("n3")));
    assert_eq!(counts(&story), ((0, 0, 1, 1, 1), Gate::Open, 0));
}
