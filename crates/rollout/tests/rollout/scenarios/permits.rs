//! Scenario tests of gates that name the node: nodes start with the permit of their owners, and others go on.

use std::time::Duration;

use serde_json::json;

use super::gates::GATED;
use super::{ASSIGN, rollout};
use crate::scenario::Scenario;
use nodecfg_contract::names::GateName;
use nodecfg_contract::{ObjectId, ObjectRef};
use nodecfg_fleet::gates::{Gate, GateCheck, Moment, Wanted};
use nodecfg_fleet::{NodeOrder, RolloutPolicy};
use nodecfg_observed::{Node, Readiness};
use nodecfg_plan::fixtures::{ZONE, canary, in_zone, node, node_name, policy};
use nodecfg_rollout::End;
use nodecfg_rollout::judge::{Answer, Asked};
use nodecfg_rollout::machine::Input;
use nodecfg_rollout::progress::Progress;

fn storage() -> Gate {
    let (api_version, kind) = ("example.com/v1".to_owned(), "Volume".to_owned());
    let by = ObjectId::Name("{node}-storage".to_owned());
    let object = ObjectRef { api_version, kind, namespace: None, by };
    let wanted = Wanted::Condition { condition: "Idle".to_owned(), status: "True".to_owned() };
    Gate {
        name: GateName::new("storage").unwrap(),
        check: GateCheck::Object { object, wanted },
        at: Moment::ALL.into(),
        patience: Duration::from_secs(60),
    }
}

fn permitted(budget: u32) -> RolloutPolicy {
    RolloutPolicy { gates: vec![storage()], ..policy(budget) }
}

fn nodes(number: usize) -> Vec<Node> {
    (1..=number).map(|index| node(&format!("n{index}"), "a")).collect()
}

impl Scenario {
    fn permit(&mut self, name: &str, is_idle: bool) -> Vec<String> {
        let status = if is_idle { "True" } else { "False" };
        let found = json!({"status": {"conditions": [{"type": "Idle", "status": status}]}});
        let (question, at) = (storage().of_node(&node_name(name)).question(), self.machine.now.instant);
        let asked = Asked { question, answer: Answer::Object(Ok(found)), at };
        self.send(Input::PermitAnswered(node_name(name), vec![asked]))
    }
}

#[test]
fn node_starts_with_its_permit() {
    let mut scenario = rollout(nodes(3), permitted(1), GATED);
    assert_eq!(scenario.send(Input::Start), ["ask n1"]);
    assert_eq!(scenario.permit("n1", true), ["assign n1"]);
    assert!(scenario.permit("n2", true).is_empty(), "it was not asked");
    assert_eq!(scenario.converge("n1"), ["ask n2"]);
    assert_eq!(scenario.permit("n2", true), ["assign n2"]);
    assert_eq!(rollout(nodes(3), permitted(1), ASSIGN).send(Input::Start), ["assign n1"], "gates are ignored");
}

#[test]
fn refused_node_waits_and_others_go_on() {
    let mut scenario = rollout(nodes(3), permitted(1), GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.permit("n1", false), ["ask n2"]);
    let until = jiff::Timestamp::UNIX_EPOCH + Duration::from_secs(60);
    let refused =
        |progress: &Progress| matches!(progress, Progress::NotPermitted { until: ends, .. } if *ends == until);
    assert_eq!(scenario.progress().filter(|progress| refused(progress)).count(), 1);
    assert_eq!(scenario.permit("n2", true), ["assign n2"]);
    assert!(scenario.wait(20).is_empty(), "no budget is left for n1");
    assert_eq!(scenario.converge("n2"), ["ask n1"], "its interval is over");
    assert_eq!(scenario.permit("n1", false), ["ask n3"]);
    assert_eq!(scenario.permit("n3", true), ["assign n3"]);
    scenario.converge("n3");
    assert_eq!(scenario.wait(15), ["ask n1"]);
    assert_eq!(scenario.permit("n1", true), ["assign n1"]);
    assert!(scenario.reported(&Progress::Permitted));
    scenario.converge("n1");
    assert!(scenario.is_finished() && scenario.is_complete());
}

#[test]
fn node_is_asked_once_per_interval_and_held_after_its_patience() {
    let mut scenario = rollout(nodes(1), permitted(1), GATED);
    scenario.send(Input::Start);
    for _ in 0..4 {
        assert!(scenario.permit("n1", false).is_empty());
        assert!(scenario.wait(14).is_empty());
        assert_eq!(scenario.wait(1), ["ask n1"]);
    }
    assert!(!scenario.is_finished());
    scenario.permit("n1", false);
    assert!(scenario.is_finished() && scenario.is_complete() && scenario.stopped().is_none());
    let End::NotPermitted { gate, why } = scenario.end("n1") else { panic!("{:?}", scenario.end("n1")) };
    assert_eq!((gate.as_str(), why.as_str()), ("storage", "Volume n1-storage: Idle is False"));
    assert!(scenario.wait(1000).is_empty());
}

#[test]
fn old_permit_is_asked_for_again() {
    let mut scenario = rollout(nodes(3), permitted(2), GATED);
    scenario.send(Input::Start);
    assert_eq!(scenario.permit("n1", true), ["assign n1", "ask n3"]);
    scenario.observe("n3", |node| Node { ready: Readiness::NotReady, ..node });
    assert!(scenario.permit("n2", true).is_empty(), "n3 has used up the budget");
    scenario.wait(31);
    assert_eq!(scenario.observe("n3", |node| Node { ready: Readiness::Ready, ..node }), ["ask n2"]);
    assert_eq!(scenario.permit("n2", true), ["assign n2"]);
}

#[test]
fn refused_canary_is_replaced() {
    let policy = RolloutPolicy { canary: canary(1, 30), ..permitted(3) };
    let mut scenario = rollout(nodes(3), policy, GATED);
    assert_eq!(scenario.send(Input::Start), ["ask n1"]);
    assert_eq!(scenario.permit("n1", false), ["ask n2"]);
    assert_eq!(scenario.permit("n2", false), ["ask n3"]);
    assert_eq!(scenario.permit("n3", true), ["assign n3"]);
    scenario.converge("n3");
    assert_eq!(scenario.wait(30), ["ask n1", "ask n2"]);
}

#[test]
fn pool_does_not_stall_while_owners_refuse() {
    let gates = vec![Gate { patience: Duration::from_secs(3600), ..storage() }];
    // A node may take less time than lies between two questions.
    let policy = RolloutPolicy { gates, convergence_timeout: Duration::from_secs(5), ..policy(1) };
    let mut scenario = rollout(nodes(1), policy, GATED);
    scenario.send(Input::Start);
    for _ in 0..60 {
        scenario.permit("n1", false);
        assert_eq!(scenario.wait(15), ["ask n1"]);
    }
    assert_eq!(scenario.stopped(), None);
    assert_eq!(scenario.permit("n1", true), ["assign n1"]);
}

#[test]
fn domain_ends_without_its_held_nodes() {
    let order = NodeOrder { by: ZONE.to_owned(), soak: Duration::ZERO };
    let zones = [("n1", "a"), ("n2", "a"), ("n3", "b")].map(|(name, zone)| in_zone(node(name, "a"), Some(zone)));
    let gates = vec![Gate { patience: Duration::ZERO, ..storage() }];
    let mut scenario = rollout(zones, RolloutPolicy { order: Some(order), gates, ..policy(1) }, GATED);
    assert_eq!(scenario.send(Input::Start), ["ask n1"]);
    assert_eq!(scenario.permit("n1", false), ["ask n2"]);
    assert_eq!(scenario.permit("n2", true), ["assign n2"]);
    assert_eq!(scenario.converge("n2"), ["ask n3"]);
}

#[test]
fn missing_answer_permits_nothing() {
    let mut scenario = rollout(nodes(1), permitted(1), GATED);
    scenario.send(Input::Start);
    assert!(scenario.send(Input::PermitAnswered(node_name("n1"), Vec::new())).is_empty());
    let other = storage().of_node(&node_name("n2")).question();
    let answer = Answer::Object(Ok(json!({"status": {"conditions": [{"type": "Idle", "status": "True"}]}})));
    scenario.wait(15);
    let asked = Asked { question: other, answer, at: scenario.machine.now.instant };
    assert!(scenario.send(Input::PermitAnswered(node_name("n1"), vec![asked])).is_empty());
}

#[test]
fn few_nodes_are_asked_at_a_time() {
    let mut scenario = rollout(nodes(300), permitted(300), GATED);
    let mut asked = scenario.send(Input::Start);
    assert_eq!(asked.len(), GATED.concurrency);
    let mut answered = 0;
    while let Some(ask) = asked.get(answered).cloned() {
        let more = scenario.permit(ask.trim_start_matches("ask "), false);
        asked.extend(more);
        answered += 1;
    }
    assert_eq!(asked.len(), 100, "no more nodes wait for their permits");
    assert_eq!(scenario.wait(14).len(), 0);
}
