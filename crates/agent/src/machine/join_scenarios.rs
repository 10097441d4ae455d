//! Scenarios of nodes that join: booted nodes, nodes with the startup taint, and the removal of that taint.

use super::scenarios::names;
use super::sim_harness::{SimHarness, node_config, settings, source};
use super::sim_inputs::{Behaviour, Faults};
use super::sim_join::{SimJoin, booted, hash, joining, tainted};
use crate::joining::{JoinAnswer, OwnNode};
use crate::ledger::{AssignmentFailure, FailureKind, Ledger, Phase};
use kubelet_config::risk::Class;

/// Booted node without `--fleet` and without the startup taint.
fn booted_sim(seed: u64) -> SimHarness {
    let node = OwnNode { uid: "node-1".to_owned(), pool: None, tainted: false };
    let join = SimJoin { node: Some(node), ..SimJoin::default() };
    let mut sim = SimHarness::without_node_config(seed, booted("a"), settings(), join);
    sim.put_proven("a");
    sim
}

fn reasons(sim: &SimHarness) -> Vec<&'static str> {
    sim.announcements.iter().map(|announcement| announcement.reason).collect()
}

#[test]
fn booted_node_creates_its_node_config_and_does_not_restart() {
    let mut sim = booted_sim(1);
    sim.run_for(3.0);
    let spec = sim.config.clone().expect("created").spec;
    assert_eq!(spec.config_source, Some(source("a")), "without uid and resourceVersion");
    assert_eq!((spec.content_hash, spec.max_disruption), (Some(hash("a").to_string()), Some(Class::Restart)));
    assert!(!sim.saved.agent_state.booted);
    sim.run_for(700.0);
    assert_eq!((sim.reported(), sim.activations.len()), (["a"; 3].map(str::to_owned), 0));
    let uid = sim.state.ledger.assigned.clone().and_then(|source| source.config_map?.uid.clone());
    assert_eq!(uid.as_deref(), Some("uid-a"), "of the ConfigMap instead of the pointer");
    assert_eq!((sim.join.created, sim.join.requests.as_slice()), (1, ["node", "create"].as_slice()));
    assert_eq!(reasons(&sim), ["NodeConfigCreated"]);
}

#[test]
fn booted_node_rolls_back_without_node_config_and_creates_none() {
    let mut sim = booted_sim(2);
    sim.join.create_refused = true;
    sim.behaviours.insert("a".to_owned(), Behaviour::Silent);
    sim.run_for(200.0);
    assert_eq!((names(&sim.activations), sim.state.ledger.agent_state.rollbacks), (vec!["local".to_owned()], 1));
    sim.join.create_refused = false;
    sim.kill(3);
    sim.run_for(8_000.0);
    assert_eq!((sim.join.created, sim.config.is_none()), (0, true), "the configuration failed");
}

#[test]
fn deleted_node_config_is_not_created_again() {
    for mut sim in [booted_sim(4), SimHarness::fresh(4)] {
        sim.run_for(20.0);
        assert_eq!(sim.join.created, 1);
        sim.config = None;
        sim.deliver_node_config();
        sim.run_for(100.0);
        sim.kill(5);
        sim.run_for(1_000.0);
        assert_eq!((sim.join.created, &sim.config), (1, &None));
        assert_eq!(names(&[sim.running.clone()]), ["a"]);
    }
}

#[test]
fn node_config_of_another_client_ends_joining() {
    let mut sim = booted_sim(6);
    // The watch shows it only after the agent has tried to create one.
    sim.config = Some(node_config(3, Some(source("a"))));
    sim.run_for(30.0);
    assert_eq!((sim.join.created, sim.join.requests.contains(&"create")), (0, true));
    sim.deliver_node_config();
    sim.run_for(5.0);
    assert!(!sim.saved.agent_state.booted);
    assert_eq!((sim.activations.len(), sim.join.created), (0, 0));
    let requests = sim.join.requests.len();
    sim.run_for(500.0);
    assert_eq!(sim.join.requests.len(), requests);
}

#[test]
fn lost_response_of_creation_leads_to_one_node_config() {
    let mut sim = booted_sim(7);
    sim.join.lose_response = true;
    sim.run_for(300.0);
    assert_eq!((sim.join.created, sim.saved.agent_state.booted), (1, false));
}

#[test]
fn booted_node_waits_for_api_server_and_rights() {
    let mut sim = booted_sim(8);
    sim.faults = Faults { api_down: true, ..Faults::default() };
    sim.kill(8);
    sim.run_for(300.0);
    assert_eq!(sim.join.requests, Vec::<&str>::new(), "unknown is not missing");
    sim.faults = Faults::default();
    sim.join.create_refused = true;
    sim.deliver_node_config();
    sim.run_for(3_000.0);
    assert_eq!(reasons(&sim), ["NodeConfigJoinFailed"], "once");
    let steps = sim.join.requests.len();
    assert!(steps <= 3, "{steps} requests without the right");
    sim.join.create_refused = false;
    sim.run_for(6_000.0);
    assert_eq!(sim.join.created, 1);
}

#[test]
fn tainted_node_joins_by_pointer_and_loses_its_taint() {
    let mut sim = SimHarness::fresh(9);
    sim.run_for(0.3);
    let spec = sim.config.clone().expect("created").spec;
    assert_eq!((spec.config_source, spec.max_disruption), (Some(source("a")), Some(Class::Drain)));
    assert!(sim.is_tainted());
    sim.run_for(10.0);
    assert_eq!((names(&sim.activations), sim.is_tainted()), (vec!["a".to_owned()], false));
    assert!(matches!(sim.state.ledger.agent_state.phase, Phase::Trying(_)), "during the trial");
    sim.run_for(700.0);
    assert_eq!(sim.reported(), ["a"; 3].map(str::to_owned));
    assert_eq!(sim.join.requests, ["node", "pointer", "create", "taint"]);
    assert_eq!(reasons(&sim), ["NodeConfigCreated", "KubeletConfigChanged"]);
}

#[test]
fn pointer_to_local_configuration_only_removes_the_taint() {
    let mut sim = SimHarness::fresh_with(10, |join| drop(join.pointers.insert("cpu".to_owned(), None)));
    sim.run_for(5.0);
    assert_eq!((sim.is_tainted(), sim.config.is_none(), sim.activations.len()), (false, true, 0));
    assert_eq!(sim.join.requests, ["node", "pointer", "taint"]);
    sim.run_for(5_000.0);
    assert_eq!(sim.join.requests.len(), 3);
}

#[test]
fn node_without_taint_never_follows_the_pointer() {
    let mut sim = SimHarness::fresh_with(11, |join| join.node.as_mut().unwrap().tainted = false);
    sim.run_for(5_000.0);
    assert_eq!((sim.join.requests.as_slice(), sim.config.is_none()), (["node"].as_slice(), true));
}

#[test]
fn agent_without_fleet_reads_nothing() {
    let mut join = tainted("cpu");
    join.pointers.insert("cpu".to_owned(), Some("a".to_owned()));
    let mut sim = SimHarness::without_node_config(12, Ledger::default(), settings(), join);
    sim.run_for(1_000.0);
    assert_eq!((sim.join.requests.len(), sim.is_tainted()), (0, true));
}

#[test]
fn node_waits_for_its_label_and_its_pointer() {
    let mut sim = SimHarness::fresh_with(13, |join| join.node.as_mut().unwrap().pool = None);
    let pointer = sim.join.pointers.remove("cpu").unwrap();
    sim.run_for(500.0);
    assert_eq!((sim.join.requests.contains(&"pointer"), reasons(&sim)), (false, vec!["NodeConfigJoinFailed"]));
    let reads = sim.join.requests.len();
    assert!((8..60).contains(&reads), "{reads} reads of the Node in 500 s");
    assert!(sim.announcements[0].message.contains("no label nodecfg.dev/pool"), "{:?}", sim.announcements);
    sim.join.node.as_mut().unwrap().pool = Some("cpu".to_owned());
    sim.run_for(500.0);
    assert_eq!((sim.join.created, reasons(&sim).len(), sim.is_tainted()), (0, 2, true));
    assert!(sim.announcements[1].message.contains("it does not exist"), "{:?}", sim.announcements);
    sim.join.pointers.insert("cpu".to_owned(), pointer);
    sim.run_for(100.0);
    assert_eq!((sim.join.created, sim.is_tainted()), (1, false));
}

#[test]
fn node_waits_for_its_registration() {
    let mut sim = SimHarness::fresh_with(14, |join| join.node = None);
    sim.run_for(500.0);
    assert_eq!(sim.join.created, 0);
    sim.join.node = tainted("cpu").node;
    sim.run_for(100.0);
    assert_eq!((sim.join.created, sim.is_tainted()), (1, false));
}

#[test]
fn failed_trial_returns_to_local_configuration_and_keeps_the_taint() {
    let mut sim = SimHarness::fresh(15);
    sim.behaviours.insert("a".to_owned(), Behaviour::Silent);
    sim.run_for(300.0);
    assert_eq!(names(&sim.activations), ["a", "local"]);
    assert_eq!(sim.reported(), ["a", "local", "local"]);
    sim.kill(16);
    sim.run_for(2_000.0);
    assert_eq!((sim.is_tainted(), sim.activations.len(), sim.join.created), (true, 2, 1));
    // The next rollout assigns another configuration.
    sim.put_proven("b");
    sim.config.as_mut().unwrap().spec.content_hash = Some(hash("b").to_string());
    sim.assign(Some(source("b")));
    sim.run_for(30.0);
    assert_eq!((names(&[sim.running.clone()]), sim.is_tainted()), (vec!["b".to_owned()], false));
}

#[test]
fn taint_of_assigned_node_is_removed_after_restart_of_agent() {
    let mut sim = SimHarness::fresh(17);
    sim.run_until_killed(super::sim_harness::at(1.2), &[], 0);
    assert!(sim.is_tainted(), "the kubelet has not answered yet");
    sim.kill(18);
    sim.run_for(30.0);
    assert_eq!((sim.is_tainted(), sim.join.created), (false, 1));
}

#[test]
fn refused_removal_is_announced_once() {
    let mut sim = SimHarness::fresh(19);
    sim.join.taint_refused = true;
    for _ in 0..9 {
        sim.run_for(1_000.0);
        sim.deliver_node_config();
    }
    assert_eq!(sim.reported(), ["a"; 3].map(str::to_owned));
    assert!(sim.is_tainted());
    let failed = sim.announcements.iter().filter(|event| event.reason == "NodeConfigJoinFailed");
    assert_eq!(failed.map(|event| event.message.as_str()).collect::<Vec<_>>(), ["the startup taint stays: forbidden"]);
}

/// A NodeConfig that was deleted while no agent ran is no instruction, whatever is left in the ledger.
#[test]
fn node_with_a_past_does_not_join_by_pointer() {
    let changes: [fn(&mut Ledger); 4] = [
        |ledger| ledger.agent_state.booted = true,
        |ledger| ledger.assigned = Some(source("a")),
        |ledger| ledger.last_known_good = Some(source("a")),
        |ledger| ledger.agent_state.active = Some(source("a")),
    ];
    let mut sim = SimHarness::fresh(28);
    while !sim.state.may_join_by_pointer() {
        sim.run_for(0.001);
    }
    assert_eq!(sim.join.created, 0);
    for (number, change) in changes.into_iter().enumerate() {
        sim.state.ledger = Ledger::default();
        change(&mut sim.state.ledger);
        assert!(!sim.state.may_join_by_pointer(), "{number}");
    }
}

#[test]
fn configuration_is_in_place_if_the_kubelet_is_healthy_on_the_assignment() {
    let mut sim = SimHarness::fresh(29);
    sim.run_for(1_000.0);
    assert!(sim.state.is_in_place());
    let failure = AssignmentFailure {
        kind: FailureKind::Trial,
        was_healthy: true,
        error: String::new(),
        message: String::new(),
        kubelet: None,
    };
    let changes: [&dyn Fn(&mut Ledger); 5] = [
        &|ledger| ledger.agent_state.failure = Some(failure.clone()),
        &|ledger| ledger.agent_state.active = Some(source("b")),
        &|ledger| ledger.agent_state.content_hash = Some(hash("b").to_string()),
        &|ledger| (ledger.assigned, ledger.agent_state.active) = (Some(source("b")), Some(source("b"))),
        &|ledger| ledger.agent_state.phase = Phase::Activating { before: None },
    ];
    let ledger = sim.state.ledger.clone();
    for (number, change) in changes.into_iter().enumerate() {
        sim.state.ledger = ledger.clone();
        change(&mut sim.state.ledger);
        assert!(!sim.state.is_in_place(), "{number}");
    }
}

/// Kubelets may not change the taints of their Node.
#[test]
fn agent_without_fleet_leaves_the_taint() {
    let mut sim = SimHarness::without_node_config(27, booted("a"), settings(), tainted("cpu"));
    sim.put_proven("a");
    sim.run_for(60.0);
    assert_eq!((sim.join.created, sim.is_tainted()), (1, true));
    assert!(!sim.join.requests.contains(&"taint"));
}

/// A NodeConfig with another uid belongs to another Node of the same name, or was written by hand.
#[test]
fn replaced_node_config_makes_the_agent_read_its_node_again() {
    let mut sim = SimHarness::fresh(23);
    sim.run_for(30.0);
    assert!(!sim.is_tainted());
    sim.join.node.as_mut().unwrap().tainted = true;
    sim.deliver_node_config();
    sim.run_for(30.0);
    assert!(sim.is_tainted(), "the agent does not watch its Node");
    sim.config.as_mut().unwrap().metadata.uid = "uid-other".to_owned();
    sim.deliver_node_config();
    sim.run_for(30.0);
    assert_eq!((sim.is_tainted(), sim.join.created), (false, 1));
}

/// The answer to the creation is older than what the watch has delivered.
#[test]
fn late_answer_does_not_undo_a_later_assignment() {
    let mut sim = booted_sim(24);
    while sim.join.created == 0 {
        sim.run_for(0.01);
    }
    sim.put_proven("b");
    let late = JoinAnswer::Created(Ok(sim.config.clone().map(Box::new)));
    sim.config.as_mut().unwrap().spec.content_hash = Some(hash("b").to_string());
    sim.assign(Some(source("b")));
    sim.run_for(2.0);
    sim.state.record_join(&late, sim.now);
    let seen = sim.state.volatile.node_config.as_ref().unwrap();
    assert_eq!(seen.spec.config_source, Some(source("b")));
}

#[test]
fn node_that_has_joined_does_not_announce_that_it_cannot() {
    let mut sim = SimHarness::fresh(25);
    sim.run_for(30.0);
    sim.join.node_refused = true;
    let before = reasons(&sim).len();
    sim.kill(26);
    sim.run_for(8_000.0);
    assert_eq!(reasons(&sim)[before..], Vec::<&str>::new());
}

/// An administrator may grant the right later. The NodeConfig does not wait for that.
#[test]
fn refused_removal_is_tried_again_hourly() {
    let mut sim = SimHarness::without_node_config(22, booted("a"), joining(), tainted("cpu"));
    sim.put_proven("a");
    sim.join.taint_refused = true;
    sim.run_for(60.0);
    assert_eq!((sim.is_tainted(), sim.join.created), (true, 1));
    sim.join.taint_refused = false;
    sim.run_for(1_800.0);
    assert!(sim.is_tainted(), "a refusal is not retried at once");
    sim.run_for(2_000.0);
    assert!(!sim.is_tainted());
}

#[test]
fn booted_node_with_the_taint_loses_it_without_a_restart() {
    let mut sim = SimHarness::without_node_config(20, booted("a"), joining(), tainted("cpu"));
    sim.put_proven("a");
    sim.run_for(30.0);
    assert_eq!((sim.join.created, sim.is_tainted(), sim.activations.len()), (1, false, 0));
    assert!(!sim.join.requests.contains(&"pointer"));
}

/// A full disk delays the end of `booted` in the ledger. The same process creates nothing again.
#[test]
fn full_disk_does_not_lead_to_second_creation() {
    let mut sim = booted_sim(21);
    sim.faults = Faults { disk_full: true, ..Faults::default() };
    sim.run_for(100.0);
    assert_eq!((sim.join.created, sim.saved.agent_state.booted), (1, true));
    sim.config = None;
    sim.deliver_node_config();
    sim.run_for(300.0);
    assert_eq!(sim.join.created, 1);
    sim.faults = Faults::default();
    sim.run_for(120.0);
    assert!(!sim.saved.agent_state.booted);
}
