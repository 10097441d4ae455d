//! Scenarios of placements, and of a kubelet's file that another program writes.

use super::scenarios::{names, sim_with_good_assigned};
use super::sim_harness::{SimHarness, settings, source};
use super::sim_inputs::Behaviour;
use super::sim_join::SimJoin;
use crate::events::ConfigCheck;
use crate::ledger::{AgentState, Ledger, Phase};
use nodecfg_contract::Placement::{self, Overlay, Replace};

impl SimHarness {
    fn assign_placed(&mut self, name: &str, placement: Placement) {
        self.config.as_mut().unwrap().spec.placement = Some(placement);
        self.assign(Some(source(name)));
    }

    /// Placements of assignment, active configuration and last known good in the ledger.
    fn placements(&self) -> [Option<Placement>; 3] {
        let AgentState { placement, active_placement, last_known_good_placement, .. } = self.state.ledger.agent_state;
        [placement, active_placement, last_known_good_placement]
    }
}

/// Node with the last known good `new` as a replacement, with a content hash.
fn sim_with_replacement() -> SimHarness {
    let mut sim = sim_with_good_assigned();
    sim.config_maps.get_mut("new").unwrap().hash = Some("sha256:1".to_owned());
    sim.assign_placed("new", Replace);
    sim.run_for(700.0);
    assert_eq!(names(&sim.activations), ["good", "new"]);
    sim
}

#[test]
fn placement_alone_is_a_change_with_a_trial() {
    let mut sim = sim_with_replacement();
    sim.assign_placed("new", Overlay);
    sim.run_for(10.0);
    assert_eq!(
        (names(&sim.activations), sim.placements()),
        (["good", "new", "new"].map(str::to_owned).to_vec(), [Some(Overlay), Some(Overlay), Some(Replace)])
    );
    assert_eq!((sim.conditions().as_str(), sim.status().placement), ("+Synced +Active -OnTrial", Some(Overlay)));
    sim.run_for(700.0);
    assert_eq!((sim.conditions().as_str(), sim.placements()), ("+Synced +Active +KnownGood", [Some(Overlay); 3]));
}

#[test]
fn placement_that_makes_the_same_text_restarts_nothing() {
    let mut sim = sim_with_replacement();
    sim.faults.same_text = true;
    sim.assign_placed("new", Overlay);
    sim.run_for(10.0);
    assert_eq!(
        (names(&sim.activations), sim.placements()),
        (["good", "new"].map(str::to_owned).to_vec(), [Some(Overlay); 3])
    );
    assert_eq!((sim.conditions().as_str(), sim.status().placement), ("+Synced +Active +KnownGood", Some(Overlay)));
    assert_eq!(sim.status().observed_generation, sim.config.as_ref().map(|config| config.metadata.generation));
    // Another configuration can have the same text, too, and is another assignment.
    sim.assign_placed("other", Overlay);
    sim.run_for(10.0);
    assert_eq!(names(&sim.activations), ["good", "new", "other"]);
}

#[test]
fn rollback_restores_the_placement() {
    let mut sim = sim_with_replacement();
    sim.assign_placed("new", Overlay);
    sim.run_for(10.0);
    sim.behaviours.insert("new".to_owned(), Behaviour::Dies(30));
    sim.run_for(200.0);
    assert_eq!(names(&sim.activations), ["good", "new", "new", "new"]);
    assert_eq!(sim.placements(), [Some(Overlay), Some(Replace), Some(Replace)]);
    assert!(sim.error().starts_with("failed trial: "), "{}", sim.error());
    assert_eq!(sim.status().placement, Some(Replace));
    // The failed placement is not tried again, and the earlier one needs no restart.
    let activations = sim.activations.len();
    sim.behaviours.clear();
    sim.assign_placed("new", Overlay);
    sim.run_for(100.0);
    sim.assign_placed("new", Replace);
    sim.run_for(100.0);
    assert_eq!((sim.activations.len(), sim.error().as_str()), (activations, ""));
}

/// As agents did before placements existed.
#[test]
fn unset_placement_has_the_default_of_the_activation() {
    let mut saved = sim_with_good_assigned().saved;
    let agent_state = &mut saved.agent_state;
    (agent_state.placement, agent_state.active_placement, agent_state.last_known_good_placement) = (None, None, None);
    for default in [Replace, Overlay] {
        let settings = super::Settings { default_placement: default, ..settings() };
        let config = sim_with_good_assigned().config;
        let mut sim = SimHarness::with(3, saved.clone(), settings, config, SimJoin::default());
        sim.put_config_map("good", "1", ConfigCheck::Accepted);
        sim.run_for(10.0);
        assert_eq!((sim.status().placement, sim.placements()), (Some(default), [Some(default); 3]));
        // What a sync writes next.
        sim.assign_placed("good", default);
        sim.run_for(100.0);
        assert_eq!(
            (names(&sim.activations), sim.conditions().as_str()),
            (Vec::<String>::new(), "+Synced +Active +KnownGood")
        );
        sim.assign(None);
        sim.run_for(100.0);
        assert_eq!((sim.status().placement, sim.placements()), (Some(default), [None; 3]));
        let AgentState { placed_text, last_known_good_text, .. } = &sim.state.ledger.agent_state;
        assert_eq!((placed_text, last_known_good_text), (&None, &None));
    }
    assert_eq!(Ledger::default().agent_state.placement, None);
}

#[test]
fn restores_a_file_that_changes_while_the_agent_runs() {
    let mut sim = sim_with_good_assigned();
    sim.file_source = None;
    sim.run_for(370.0);
    assert_eq!(names(&sim.activations), ["good", "good"]);
    assert_eq!(sim.state.ledger.agent_state.phase, Phase::Settled, "the same text needs no trial");
    // Nothing is compared on a node without a configuration.
    sim.assign(None);
    sim.run_for(10.0);
    let steps = sim.steps;
    sim.run_for(3_000.0);
    assert!(sim.steps - steps <= 2, "{}", sim.steps - steps);
}

/// Another program writes the file after the last comparison of the schedule, and the kubelet stays healthy on it.
#[test]
fn promotes_no_assignment_that_is_not_in_place() {
    let mut sim = sim_with_good_assigned();
    sim.assign(Some(source("new")));
    sim.run_for(598.0);
    let restarts = sim.activations.len();
    sim.file_source = None;
    sim.run_for(20.0);
    assert_eq!(sim.reported(), ["new", "new", "good"], "the trial is not over");
    sim.run_for(360.0);
    assert_eq!(
        (names(&sim.activations).split_off(restarts), sim.reported()[2].as_str()),
        (vec!["new".to_owned()], "good")
    );
    sim.run_for(620.0);
    assert_eq!(
        (sim.reported(), sim.conditions().as_str(), sim.activations.len()),
        (["new"; 3].map(str::to_owned), "+Synced +Active +KnownGood", restarts + 1)
    );
}

/// During a trial, on a last known good, and on the own configuration.
#[test]
fn program_that_writes_all_the_time_causes_a_restart_per_scheduled_comparison() {
    for (assigned, good_changed) in [("good", false), ("good", true), ("new", false)] {
        let mut sim = sim_with_good_assigned();
        sim.faults.good_changed = good_changed;
        sim.assign(Some(source(assigned)));
        sim.run_for(10.0);
        let restarts = sim.activations.len();
        for _ in 0..3_000 {
            sim.file_source = None;
            sim.run_for(1.0);
        }
        let restarts = sim.activations.len() - restarts;
        assert!((8..=10).contains(&restarts), "{assigned}, {good_changed}: {restarts}");
        assert_eq!(sim.reported()[2], if good_changed { "local" } else { "good" });
    }
}

/// The overlay has another text over the new own configuration.
#[test]
fn overlay_over_another_own_configuration_is_tried() {
    let changed = || {
        let mut sim = sim_with_good_assigned();
        sim.file_source = None;
        sim.faults.good_changed = true;
        sim
    };
    let mut sim = changed();
    sim.run_for(370.0);
    sim.faults.good_changed = false;
    assert_eq!(names(&sim.activations), ["good", "good"]);
    assert_eq!(
        (sim.reported(), sim.conditions().as_str()),
        (["good", "good", "local"].map(str::to_owned), "+Synced +Active -OnTrial")
    );
    sim.run_for(700.0);
    assert_eq!(
        (sim.reported(), sim.conditions().as_str()),
        (["good"; 3].map(str::to_owned), "+Synced +Active +KnownGood")
    );
    // A failed trial ends on the own configuration.
    let mut sim = changed();
    sim.behaviours.insert("good".to_owned(), Behaviour::Silent);
    sim.kill(5);
    sim.faults.good_changed = false;
    sim.run_for(100.0);
    assert_eq!(names(&sim.activations), ["good", "good", "local"]);
    assert_eq!(sim.reported(), ["good", "local", "local"]);
    assert!(sim.error().starts_with("failed trial: "), "{}", sim.error());
}

#[test]
fn refuses_what_it_cannot_place() {
    let mut sim = sim_with_good_assigned();
    let message = "placement replace needs an agent with --activation file".to_owned();
    sim.put_config_map("new", "1", ConfigCheck::NotPlaceable { message });
    sim.assign(Some(source("new")));
    sim.run_for(10.0);
    let error = "failed to validate config: placement replace needs an agent with --activation file";
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "good", "good"].map(str::to_owned), error));
    assert_eq!(
        (names(&sim.activations), sim.conditions().as_str()),
        (vec!["good".to_owned()], "+Synced -ValidationFailed -ValidationFailed")
    );
    // The reason may end without a change of the assignment: it was in a file of the node.
    sim.put_config_map("new", "1", ConfigCheck::Accepted);
    sim.run_for(100.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
}

/// The server's definition may be older than the agent.
#[test]
fn dropped_placement_causes_no_further_reports() {
    let mut sim = sim_with_good_assigned();
    for _ in 0..3 {
        let config = sim.config.as_mut().unwrap();
        (config.status.placement, config.status.agent) = (None, None);
        sim.deliver_node_config();
        sim.run_for(5.0);
    }
    let reports = sim.reports;
    let config = sim.config.as_mut().unwrap();
    config.status.placement = Some(Overlay);
    sim.deliver_node_config();
    sim.run_for(5.0);
    assert_eq!(
        (sim.status().placement, sim.reports),
        (Some(Replace), reports + 1),
        "another client's value is corrected"
    );
}
