//! Scenarios of results that arrive after spec has changed, and of ConfigMaps that another kubelet version refuses.

use super::scenarios::{VALIDATE, names, not_valid, recreate, sim_with_good_assigned};
use super::sim_harness::{SimHarness, at, node_config, source};
use super::{MachineState, step};
use crate::events::{ConfigCheck, Download, Effect, Event, Fetched};
use crate::ledger::Phase;
use nodecfg_contract::Placement;

/// Time of the next step, long after any delay of a retry.
const LATER: f64 = 10_000.0;

#[test]
fn download_for_an_earlier_spec_changes_nothing() {
    // Spec changes during the download, and while its checkpoint is being saved.
    for seconds in [0.02, 0.05] {
        let mut sim = sim_with_good_assigned();
        sim.assign(Some(source("new")));
        sim.run_for(seconds);
        sim.assign(Some(source("other")));
        sim.run_for(700.0);
        assert_eq!(names(&sim.activations), ["good", "other"], "{seconds}");
        assert_eq!(sim.reported(), ["other", "other", "other"], "{seconds}");
    }
}

/// A repeated download of the assignment does not postpone the next one.
#[test]
fn download_of_the_assignment_does_not_delay_a_new_spec() {
    let mut sim = sim_with_good_assigned();
    sim.kill(2);
    sim.run_for(0.02);
    sim.assign(Some(source("new")));
    sim.run_for(10.0);
    assert_eq!(names(&sim.activations), ["good", "new"]);
}

#[test]
fn comparison_for_an_earlier_spec_does_not_reset() {
    let mut sim = sim_with_good_assigned();
    sim.assign(None);
    sim.assign(Some(source("new")));
    sim.run_for(100.0);
    assert_eq!(names(&sim.activations), ["good", "new"]);
}

/// The kubelet runs the assignment that is being activated, whatever spec says by then.
#[test]
fn comparison_during_a_restart_does_not_reset() {
    let mut sim = sim_with_good_assigned();
    sim.faults.placement_fails = true;
    sim.assign(Some(source("new")));
    sim.run_for(5.0);
    assert!(matches!(sim.state.ledger.agent_state.phase, Phase::Activating { .. }));
    let read = Event::NodeConfigRead(Some(Box::new(node_config(99, None))));
    let (state, begun) = step(&sim.state, &read, at(LATER));
    assert!(begun.effects.contains(&Effect::CompareLocal), "{begun:?}");
    assert!(begun.effects.iter().any(|effect| matches!(effect, Effect::Activate { target: Some(_), .. })), "{begun:?}");
    let (state, _) = step(&state, &Event::LocalCompared(Ok(())), at(LATER));
    let (state, _) = step(&state, &Event::Activated(Ok(())), at(LATER));
    assert_eq!(names(&[state.ledger.assigned, state.ledger.agent_state.active]), ["new", "new"]);
}

/// As above: an assignment that is accepted during a restart would count as the one that runs.
#[test]
fn download_during_a_restart_is_not_accepted() {
    let mut sim = sim_with_good_assigned();
    sim.faults.placement_fails = true;
    sim.assign(Some(source("new")));
    sim.run_for(5.0);
    let fetched = |name: &str| {
        let mut source = source(name);
        let map = source.config_map_mut().unwrap();
        (map.uid, map.resource_version) = (Some("u".to_owned()), Some("1".to_owned()));
        let download = Download { source, ..Download::default() };
        Event::Fetched(Ok(Box::new(Fetched {
            download,
            placement: Placement::Replace,
            is_same_text: false,
            config_check: ConfigCheck::Accepted,
            node: None,
        })))
    };
    let read = Event::NodeConfigRead(Some(Box::new(node_config(99, Some(source("other"))))));
    let (fetching, begun) = step(&sim.state, &read, sim.now);
    assert!(begun.effects.iter().any(|effect| matches!(effect, Effect::Fetch(_))), "{begun:?}");
    let restart = |state: &MachineState| {
        let (state, begun) = step(state, &Event::Tick, at(LATER));
        assert!(begun.effects.iter().any(|effect| matches!(effect, Effect::Activate { .. })), "{begun:?}");
        state
    };
    // The restart begins before the download ends, or before its checkpoint is saved.
    let (state, begun) = step(&restart(&fetching), &fetched("other"), at(LATER));
    assert_eq!(begun.checkpoint, None);
    assert_eq!(names(&[state.ledger.assigned]), ["new"]);
    let (state, begun) = step(&fetching, &fetched("other"), sim.now);
    assert!(begun.checkpoint.is_some());
    let (state, _) = step(&restart(&state), &Event::Checkpointed(Ok(())), at(LATER));
    let (state, _) = step(&state, &Event::Activated(Ok(())), at(LATER));
    assert_eq!(names(&[state.ledger.assigned, state.ledger.agent_state.active]), ["new", "new"]);
}

#[test]
fn reset_that_needs_a_drain_is_reported_and_repeated() {
    let mut sim = sim_with_good_assigned();
    sim.faults.needs_drain = true;
    sim.assign(None);
    sim.run_for(60.0);
    // The reconciler recognizes the refusal by this text.
    assert_eq!(sim.error(), "failed to sync: needs a drained node: maxPods");
    assert_eq!((sim.reported(), names(&sim.activations)), (["good"; 3].map(str::to_owned), vec!["good".to_owned()]));
    sim.faults.needs_drain = false;
    sim.run_for(700.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["local"; 3].map(str::to_owned), ""));
}

/// An adopted ConfigMap has no new trial, so only the check can refuse it.
#[test]
fn recreated_configmap_that_the_kubelet_now_refuses_is_not_adopted() {
    let mut sim = sim_with_good_assigned();
    sim.config_maps.get_mut("new").unwrap().hash = Some("sha256:1".to_owned());
    sim.assign(Some(source("new")));
    sim.run_for(100.0);
    recreate(&mut sim, "new", Some("sha256:1"));
    sim.config_maps.get_mut("new").unwrap().config_check = not_valid();
    sim.run_for(100.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "good", "good"].map(str::to_owned), VALIDATE));
    assert_eq!(names(&sim.activations), ["good", "new", "good"]);
}

#[test]
fn recreated_configmap_ends_an_earlier_refusal() {
    let mut sim = sim_with_good_assigned();
    sim.config_maps.get_mut("new").unwrap().hash = Some("sha256:1".to_owned());
    sim.assign(Some(source("new")));
    sim.run_for(700.0);
    // The new kubelet version refuses the last known good, and a later one accepts it again.
    sim.config_maps.get_mut("new").unwrap().config_check = not_valid();
    sim.kill(2);
    sim.run_for(10.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new"; 3].map(str::to_owned), VALIDATE));
    sim.config_maps.get_mut("new").unwrap().config_check = ConfigCheck::Accepted;
    recreate(&mut sim, "new", Some("sha256:1"));
    sim.run_for(4_400.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new"; 3].map(str::to_owned), ""));
}

/// The host may lack two things, and people have provided the first.
#[test]
fn reports_the_newest_reason_of_a_refusal() {
    let mut sim = sim_with_good_assigned();
    sim.put_config_map("new", "1", not_valid());
    sim.assign(Some(source("new")));
    sim.run_for(60.0);
    let reason = |sim: &SimHarness| sim.status().conditions.iter().map(|one| one.message.clone()).collect::<String>();
    assert!(reason(&sim).contains("maxPods must not be -5"), "{}", reason(&sim));
    let message = "/ca.key does not exist on this host".to_owned();
    sim.put_config_map("new", "1", ConfigCheck::NotValid { message, kubelet: None });
    sim.run_for(4_400.0);
    assert!(reason(&sim).contains("/ca.key does not exist"), "{}", reason(&sim));
    assert_eq!(names(&sim.activations), ["good"]);
}

/// Only a download compares the assignment with what the kubelet runs.
#[test]
fn assignment_that_passes_its_check_again_waits_for_the_api_server() {
    let mut sim = sim_with_good_assigned();
    sim.assign(Some(source("new")));
    sim.run_for(60.0);
    sim.put_config_map("new", "1", not_valid());
    sim.kill(2);
    sim.run_for(10.0);
    assert_eq!(names(&sim.activations), ["good", "new", "good"]);
    sim.put_config_map("new", "1", ConfigCheck::Accepted);
    sim.faults.api_down = true;
    sim.kill(3);
    sim.run_for(60.0);
    assert_eq!(names(&sim.activations), ["good", "new", "good"]);
    sim.faults.api_down = false;
    sim.deliver_node_config();
    sim.run_for(60.0);
    assert_eq!(names(&sim.activations), ["good", "new", "good", "new"]);
}
