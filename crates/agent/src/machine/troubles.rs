//! The same when the node, the disk or the API server give trouble.

use super::stories::{names, world};
use super::world::{Behaviour, World, at, source};
use crate::events::ConfigCheck;
use crate::state::Phase;
use nodecfg_contract::ConfigSource;

const STORAGE: &str = "failed to sync: internal failure, see Kubelet log for details";

#[test]
fn a_full_disk_ends_in_an_error_and_an_untouched_kubelet() {
    let mut world = world();
    world.faults.disk_full = true;
    for wanted in [Some(source("new")), None] {
        world.assign(wanted);
        world.run_for(100.0);
        assert_eq!((world.told(), world.error().as_str()), (["good"; 3].map(str::to_owned), STORAGE));
        assert!(world.conditions().starts_with("-StorageFailed +Active"), "{}", world.conditions());
        assert_eq!(names(&world.activations), ["good"]);
    }
    world.faults.disk_full = false;
    world.run_for(100.0);
    assert_eq!((world.told(), world.error().as_str()), (["local"; 3].map(str::to_owned), ""));
}

#[test]
fn a_disk_that_fills_up_meanwhile_keeps_neither_from_falling_back_nor_from_a_trial() {
    let mut world = world();
    world.behaviours.insert("new".to_owned(), Behaviour::Silent);
    world.assign(Some(source("new")));
    world.run_for(0.5);
    world.faults.disk_full = true;
    world.run_for(100.0);
    assert_eq!(names(&world.activations), ["good", "new", "good"]);
    world.faults.disk_full = false;
    world.run_for(100.0);
    assert_eq!(world.saved, world.state.ledger);
    assert_eq!(world.told(), ["new", "good", "good"]);

    world.assign(Some(source("other")));
    world.run_for(0.5);
    world.faults.disk_full = true;
    world.run_for(1_000.0);
    assert_eq!(world.told(), ["other", "other", "good"], "what cannot be saved is no last known good");
    assert!(world.conditions().ends_with("+Active -StorageFailed"), "{}", world.conditions());
    assert_eq!(world.error(), "");
    world.faults.disk_full = false;
    world.run_for(70.0);
    assert_eq!((world.told(), world.saved.clone()), (["other"; 3].map(str::to_owned), world.state.ledger.clone()));
}

#[test]
fn a_configuration_that_cannot_be_put_in_place_is_tried_again() {
    let mut world = world();
    world.faults.no_place = true;
    world.assign(Some(source("new")));
    world.run_for(100.0);
    let error = "internal failure, see Kubelet log for details";
    assert_eq!((world.told(), world.error().as_str()), (["new", "good", "good"].map(str::to_owned), error));
    assert_eq!(
        (world.conditions().as_str(), names(&world.activations)),
        ("+Synced -StorageFailed -OnTrial", vec!["good".to_owned()])
    );
    world.faults.no_place = false;
    world.run_for(100.0);
    assert_eq!((world.told(), world.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
}

#[test]
fn a_restart_that_fails_on_the_last_resort_is_tried_again() {
    let mut world = world();
    world.behaviours.insert("local".to_owned(), Behaviour::NoRestart);
    world.assign(None);
    world.run_for(100.0);
    assert_eq!(world.error(), "failed to restart the kubelet, see condition Active for details");
    assert!(world.activations.len() > 4);
    world.behaviours.clear();
    world.run_for(100.0);
    assert_eq!((world.told(), world.error().as_str()), (["local"; 3].map(str::to_owned), ""));
}

#[test]
fn a_last_resort_that_is_not_healthy_is_said_and_left_alone() {
    let mut world = world();
    world.behaviours.insert("local".to_owned(), Behaviour::Silent);
    world.assign(None);
    world.run_for(50.0);
    assert_eq!(
        (world.told(), world.conditions().as_str()),
        (["good"; 3].map(str::to_owned), "+Synced -Activating +Local")
    );
    world.run_for(50.0);
    assert_eq!(
        (world.told(), world.conditions().as_str()),
        (["local"; 3].map(str::to_owned), "+Synced -Unhealthy +Local")
    );
    let steps = world.steps;
    world.run_for(1_000.0);
    assert!(world.steps - steps <= 210, "{}", world.steps - steps);
    assert_eq!(names(&world.activations), ["good", "local"]);
    world.behaviours.clear();
    world.run_for(20.0);
    assert_eq!(world.conditions(), "+Synced +Active +Local");
}

#[test]
fn the_trial_ends_when_the_api_server_has_confirmed_it() {
    let mut world = world();
    world.assign(Some(source("new")));
    world.run_for(100.0);
    world.faults.api_away = true;
    world.run_for(1_000.0);
    let asked = world.asked;
    world.run_for(1_000.0);
    assert!(world.asked - asked <= 101, "an API server that does not answer is left in peace: {}", world.asked - asked);
    assert_eq!(world.state.ledger.last_known_good, world.runs.clone().map(|_| good_of(&world)));
    world.faults.api_away = false;
    world.run_for(100.0);
    assert_eq!((world.told(), world.error().as_str()), (["new"; 3].map(str::to_owned), ""));
}

fn good_of(world: &World) -> ConfigSource {
    let mut good = source("good");
    let map = good.config_map.as_mut().unwrap();
    map.uid = Some(world.maps["good"].uid.clone());
    map.resource_version = Some("1".to_owned());
    good
}

#[test]
fn a_clock_that_is_set_does_not_shorten_a_trial_nor_end_it() {
    for jump in [-3_600_i64, -1, 3_600, 86_400] {
        let mut world = world();
        world.assign(Some(source("new")));
        world.run_for(300.0);
        let by = jiff::SignedDuration::from_secs(jump);
        world.set_clock(by);
        world.run_for(250.0);
        assert_eq!(world.told(), ["new", "new", "good"], "{jump}: still on trial");
        world.run_for(200.0);
        assert_eq!((world.told(), world.error().as_str()), (["new"; 3].map(str::to_owned), ""), "{jump}");
        // What waits for a moment is not put off by it.
        world.assign(Some(source("late")));
        world.run_for(10.0);
        world.set_clock(-by);
        world.map("late", "1", ConfigCheck::Accepted);
        world.run_for(120.0);
        assert_eq!(world.told(), ["late", "late", "new"], "{jump}");
    }
}

#[test]
fn a_reboot_in_the_trial_gives_the_kubelet_its_time_again() {
    let mut world = world();
    world.assign(Some(source("new")));
    world.run_for(1.5);
    assert!(matches!(world.state.ledger.beyond.phase, Phase::Trying(_)));
    world.reboot(180.0, 3);
    world.run_for(20.0);
    assert_eq!((world.told(), world.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
    // A kubelet that never comes up is left all the same.
    world.behaviours.insert("new".to_owned(), Behaviour::Silent);
    for _ in 0..40 {
        world.reboot(10.0, 4);
        world.run_for(30.0);
    }
    world.run_for(100.0);
    assert_eq!(world.told(), ["new", "good", "good"]);
}

#[test]
fn a_reboot_while_ailing_does_not_fail_the_trial_at_the_first_look() {
    let mut world = world();
    world.behaviours.insert("new".to_owned(), Behaviour::Dies(100));
    world.assign(Some(source("new")));
    world.run_for(130.0);
    assert!(matches!(&world.state.ledger.beyond.phase, Phase::Trying(trial) if trial.ailing_since.is_some()));
    world.behaviours.clear();
    world.reboot(180.0, 3);
    world.run_for(580.0);
    assert_eq!((world.told(), world.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
    world.run_for(40.0);
    assert_eq!(world.told(), ["new", "new", "new"]);
}

#[test]
fn a_trial_is_lived_through_under_the_eyes_of_the_agent() {
    type Happening = fn(&mut World);
    let happenings: [Happening; 3] = [
        |world| world.away(7_200.0, 3),
        |world| world.reboot(7_200.0, 3),
        |world| {
            world.set_clock(jiff::SignedDuration::from_secs(554));
            world.kill(3);
        },
    ];
    for (index, happening) in happenings.into_iter().enumerate() {
        let mut world = world();
        world.assign(Some(source("new")));
        world.run_for(60.0);
        happening(&mut world);
        world.run_for(580.0);
        assert_eq!(world.told(), ["new", "new", "good"], "{index}: still on trial");
        world.run_for(40.0);
        assert_eq!((world.told(), world.error().as_str()), (["new"; 3].map(str::to_owned), ""), "{index}");
    }
}

#[test]
fn a_report_that_is_refused_is_sent_again() {
    let mut world = world();
    world.faults.no_reports = true;
    world.assign(Some(source("new")));
    world.run_for(700.0);
    assert_eq!(world.told(), ["good", "good", "good"]);
    world.faults.no_reports = false;
    world.run_for(61.0);
    assert_eq!(world.told(), ["new", "new", "new"]);
    // What somebody else wrote is corrected.
    world.config.as_mut().unwrap().status.config = None;
    world.see();
    world.run_for(1.0);
    assert_eq!(world.told(), ["new", "new", "new"]);
}

#[test]
fn without_an_api_server_a_node_starts_from_its_checkpoint() {
    let mut world = world();
    world.assign(Some(source("new")));
    world.run_for(0.5);
    assert!(matches!(world.state.ledger.beyond.phase, Phase::Activating { .. }));
    world.faults.api_away = true;
    world.kill(9);
    world.run_for(30.0);
    assert_eq!(names(&world.activations), ["good", "new", "new"]);
    assert!(matches!(&world.state.ledger.beyond.phase, Phase::Trying(trial) if trial.healthy_since.is_some()));
    assert!(world.now > at(0.0));
}

/// Everything that a person sees of a node with each kind of trouble.
#[test]
fn what_people_see() {
    let mut text = String::new();
    let mut tell = |title: &str, world: &World| {
        let status = world.status();
        let error = world.error();
        text.push_str(&format!("{title}\n  {} {error}\n", world.told().join(" ")));
        for condition in status.conditions {
            let seen = [condition.kind, condition.status, condition.reason, condition.message].join(" ");
            text.push_str(&format!("  {seen}\n"));
        }
        if let Some(last) = world.announcements.last() {
            text.push_str(&format!("  {} {}\n", last.reason, last.message));
        }
    };
    let new = |behaviour: Behaviour, seconds: f64| {
        let mut world = world();
        world.behaviours.insert("new".to_owned(), behaviour);
        world.assign(Some(source("new")));
        world.run_for(seconds);
        world
    };
    tell("being restarted", &new(Behaviour::Good, 0.5));
    tell("on trial", &new(Behaviour::Good, 60.0));
    tell("ailing", &new(Behaviour::Dies(30), 60.0));
    tell("good", &new(Behaviour::Good, 700.0));
    tell("does not come up", &new(Behaviour::Silent, 100.0));
    tell("comes up not Ready", &new(Behaviour::Unready, 100.0));
    tell("in a crash loop", &new(Behaviour::Loops, 100.0));
    tell("dies", &new(Behaviour::Dies(60), 200.0));
    tell("cannot be restarted", &new(Behaviour::NoRestart, 100.0));
    let mut full = world();
    full.faults.disk_full = true;
    full.assign(Some(source("new")));
    full.run_for(60.0);
    tell("disk full", &full);
    let mut late = new(Behaviour::Good, 100.0);
    late.faults.disk_full = true;
    late.run_for(1_000.0);
    tell("disk full at the end of the trial", &late);
    let mut read_only = world();
    read_only.faults.no_place = true;
    read_only.assign(Some(source("new")));
    read_only.run_for(60.0);
    tell("cannot be put in place", &read_only);
    let mut gone = world();
    gone.maps.remove("good");
    gone.run_for(100.0);
    tell("the ConfigMap is gone", &gone);
    let mut refused = world();
    refused.map("bad", "1", super::stories::not_valid());
    refused.assign(Some(source("bad")));
    refused.run_for(10.0);
    tell("refused", &refused);
    let mut local = world();
    local.behaviours.insert("local".to_owned(), Behaviour::Silent);
    local.assign(None);
    local.run_for(100.0);
    tell("reset, and the local configuration does not come up", &local);
    insta::assert_snapshot!(text);
}
