//! Scenarios with failures of the node, the disk or the API server.

use super::scenarios::{names, sim_with_good_assigned};
use super::sim_harness::{SimHarness, source};
use super::sim_inputs::Behaviour;
use crate::events::ConfigCheck;
use crate::ledger::Phase;
use nodecfg_contract::ConfigSource;

const STORAGE: &str = "failed to sync: internal failure, see Kubelet log for details";

#[test]
fn reports_full_disk_and_keeps_kubelet_running() {
    let mut sim = sim_with_good_assigned();
    sim.faults.disk_full = true;
    for wanted in [Some(source("new")), None] {
        sim.assign(wanted);
        sim.run_for(100.0);
        assert_eq!((sim.reported(), sim.error().as_str()), (["good"; 3].map(str::to_owned), STORAGE));
        assert!(sim.conditions().starts_with("-StorageFailed +Active"), "{}", sim.conditions());
        assert_eq!(names(&sim.activations), ["good"]);
    }
    sim.faults.disk_full = false;
    sim.run_for(100.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["local"; 3].map(str::to_owned), ""));
}

#[test]
fn rolls_back_on_full_disk_and_promotes_only_once_saved() {
    let mut sim = sim_with_good_assigned();
    sim.behaviours.insert("new".to_owned(), Behaviour::Silent);
    sim.assign(Some(source("new")));
    sim.run_for(0.5);
    sim.faults.disk_full = true;
    sim.run_for(100.0);
    assert_eq!(names(&sim.activations), ["good", "new", "good"]);
    sim.faults.disk_full = false;
    sim.run_for(100.0);
    assert_eq!(sim.saved, sim.state.ledger);
    assert_eq!(sim.reported(), ["new", "good", "good"]);

    sim.assign(Some(source("other")));
    sim.run_for(0.5);
    sim.faults.disk_full = true;
    sim.run_for(1_000.0);
    assert_eq!(sim.reported(), ["other", "other", "good"], "an unsaved promotion does not count");
    assert!(sim.conditions().ends_with("+Active -StorageFailed"), "{}", sim.conditions());
    assert_eq!(sim.error(), "");
    sim.faults.disk_full = false;
    sim.run_for(70.0);
    assert_eq!((sim.reported(), sim.saved.clone()), (["other"; 3].map(str::to_owned), sim.state.ledger.clone()));
}

#[test]
fn retries_placement() {
    let mut sim = sim_with_good_assigned();
    sim.faults.placement_fails = true;
    sim.assign(Some(source("new")));
    sim.run_for(100.0);
    let error = "internal failure, see Kubelet log for details";
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "good", "good"].map(str::to_owned), error));
    assert_eq!(
        (sim.conditions().as_str(), names(&sim.activations)),
        ("+Synced -StorageFailed -OnTrial", vec!["good".to_owned()])
    );
    sim.faults.placement_fails = false;
    sim.run_for(100.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
}

#[test]
fn retries_restart_on_last_known_good() {
    let mut sim = sim_with_good_assigned();
    sim.behaviours.insert("local".to_owned(), Behaviour::NoRestart);
    sim.assign(None);
    sim.run_for(100.0);
    assert_eq!(sim.error(), "failed to restart the kubelet, see condition Active for details");
    assert!(sim.activations.len() > 4);
    sim.behaviours.clear();
    sim.run_for(100.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["local"; 3].map(str::to_owned), ""));
}

#[test]
fn reports_unhealthy_last_known_good_without_restart() {
    let mut sim = sim_with_good_assigned();
    sim.behaviours.insert("local".to_owned(), Behaviour::Silent);
    sim.assign(None);
    sim.run_for(50.0);
    assert_eq!(
        (sim.reported(), sim.conditions().as_str()),
        (["good"; 3].map(str::to_owned), "+Synced -Activating +Local")
    );
    sim.run_for(50.0);
    assert_eq!(
        (sim.reported(), sim.conditions().as_str()),
        (["local"; 3].map(str::to_owned), "+Synced -Unhealthy +Local")
    );
    let steps = sim.steps;
    sim.run_for(1_000.0);
    assert!(sim.steps - steps <= 210, "{}", sim.steps - steps);
    assert_eq!(names(&sim.activations), ["good", "local"]);
    sim.behaviours.clear();
    sim.run_for(20.0);
    assert_eq!(sim.conditions(), "+Synced +Active +Local");
}

#[test]
fn ends_trial_after_api_server_confirms_health() {
    let mut sim = sim_with_good_assigned();
    sim.assign(Some(source("new")));
    sim.run_for(100.0);
    sim.faults.api_down = true;
    sim.run_for(1_000.0);
    let asked = sim.node_checks;
    sim.run_for(1_000.0);
    assert!(
        sim.node_checks - asked <= 101,
        "too many queries of an unreachable API server: {}",
        sim.node_checks - asked
    );
    assert_eq!(sim.state.ledger.last_known_good, sim.running.clone().map(|_| good_source(&sim)));
    sim.faults.api_down = false;
    sim.run_for(100.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new"; 3].map(str::to_owned), ""));
}

fn good_source(sim: &SimHarness) -> ConfigSource {
    let mut good = source("good");
    let map = good.config_map_mut().unwrap();
    map.uid = Some(sim.config_maps["good"].uid.clone());
    map.resource_version = Some("1".to_owned());
    good
}

#[test]
fn clock_changes_do_not_shorten_trial() {
    for jump in [-3_600_i64, -1, 3_600, 86_400] {
        let mut sim = sim_with_good_assigned();
        sim.assign(Some(source("new")));
        sim.run_for(300.0);
        let by = jiff::SignedDuration::from_secs(jump);
        sim.set_clock(by);
        sim.run_for(250.0);
        assert_eq!(sim.reported(), ["new", "new", "good"], "{jump}: still on trial");
        sim.run_for(200.0);
        assert_eq!((sim.reported(), sim.error().as_str()), (["new"; 3].map(str::to_owned), ""), "{jump}");
        // A clock change does not delay scheduled work.
        sim.assign(Some(source("late")));
        sim.run_for(10.0);
        sim.set_clock(-by);
        sim.put_config_map("late", "1", ConfigCheck::Accepted);
        sim.run_for(120.0);
        assert_eq!(sim.reported(), ["late", "late", "new"], "{jump}");
    }
}

#[test]
fn reboot_restarts_health_timeout() {
    let mut sim = sim_with_good_assigned();
    sim.assign(Some(source("new")));
    sim.run_for(1.5);
    assert!(matches!(sim.state.ledger.agent_state.phase, Phase::Trying(_)));
    sim.reboot(180.0, 3);
    sim.run_for(20.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
    // If the kubelet never becomes healthy, reboots do not prolong the trial forever.
    sim.behaviours.insert("new".to_owned(), Behaviour::Silent);
    for _ in 0..40 {
        sim.reboot(10.0, 4);
        sim.run_for(30.0);
    }
    sim.run_for(100.0);
    assert_eq!(sim.reported(), ["new", "good", "good"]);
}

#[test]
fn reboot_resets_unhealthy_period() {
    let mut sim = sim_with_good_assigned();
    sim.behaviours.insert("new".to_owned(), Behaviour::Dies(100));
    sim.assign(Some(source("new")));
    sim.run_for(130.0);
    assert!(matches!(&sim.state.ledger.agent_state.phase, Phase::Trying(trial) if trial.unhealthy_since.is_some()));
    sim.behaviours.clear();
    sim.reboot(180.0, 3);
    sim.run_for(580.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
    sim.run_for(40.0);
    assert_eq!(sim.reported(), ["new", "new", "new"]);
}

#[test]
fn downtime_does_not_count_toward_trial() {
    type Action = fn(&mut SimHarness);
    let actions: [Action; 3] = [
        |sim| sim.pause_agent(7_200.0, 3),
        |sim| sim.reboot(7_200.0, 3),
        |sim| {
            sim.set_clock(jiff::SignedDuration::from_secs(554));
            sim.kill(3);
        },
    ];
    for (index, action) in actions.into_iter().enumerate() {
        let mut sim = sim_with_good_assigned();
        sim.assign(Some(source("new")));
        sim.run_for(60.0);
        action(&mut sim);
        sim.run_for(580.0);
        assert_eq!(sim.reported(), ["new", "new", "good"], "{index}: still on trial");
        sim.run_for(40.0);
        assert_eq!((sim.reported(), sim.error().as_str()), (["new"; 3].map(str::to_owned), ""), "{index}");
    }
}

#[test]
fn retries_refused_report() {
    let mut sim = sim_with_good_assigned();
    sim.faults.reports_fail = true;
    sim.assign(Some(source("new")));
    sim.run_for(700.0);
    assert_eq!(sim.reported(), ["good", "good", "good"]);
    sim.faults.reports_fail = false;
    sim.run_for(61.0);
    assert_eq!(sim.reported(), ["new", "new", "new"]);
    // A status changed by another client is corrected.
    sim.config.as_mut().unwrap().status.config = None;
    sim.deliver_node_config();
    sim.run_for(1.0);
    assert_eq!(sim.reported(), ["new", "new", "new"]);
}

#[test]
fn repeats_activation_without_api_server() {
    let mut sim = sim_with_good_assigned();
    sim.assign(Some(source("new")));
    sim.run_for(0.5);
    assert!(matches!(sim.state.ledger.agent_state.phase, Phase::Activating { .. }));
    sim.faults.api_down = true;
    sim.kill(9);
    sim.run_for(30.0);
    assert_eq!(names(&sim.activations), ["good", "new", "new"]);
    assert!(matches!(&sim.state.ledger.agent_state.phase, Phase::Trying(trial) if trial.healthy_since.is_some()));
    // The trial ends once the API server answers.
    sim.run_for(700.0);
    assert_eq!(names(&[sim.saved.last_known_good.clone()]), ["good"]);
    sim.faults.api_down = false;
    sim.deliver_node_config();
    sim.run_for(100.0);
    assert_eq!(sim.reported(), ["new", "new", "new"]);
    assert_eq!(names(&sim.activations), ["good", "new", "new"], "no further restart");
}

#[test]
fn restarts_no_kubelet_again_that_fails_for_its_state_file() {
    for command_fails in [false, true] {
        let mut sim = sim_with_good_assigned();
        for configuration in ["new", "good"] {
            sim.behaviours.insert(configuration.to_owned(), Behaviour::StaleState { command_fails });
        }
        sim.assign(Some(source("new")));
        sim.run_for(1_000.0);
        assert_eq!(names(&sim.activations), ["good", "new", "good"], "{command_fails}");
        let too = "; the last known good fails, too: the cause is the state file cpu_manager_state";
        assert!(sim.error().ends_with(&format!("default cpuset cannot be empty{too}")), "{}", sim.error());
        let active = |sim: &SimHarness| sim.status().conditions.swap_remove(1).message;
        let fix =
            "the cause is the state file cpu_manager_state, and the agent does not restart the kubelet again: drain";
        assert!(active(&sim).contains(fix), "{}", active(&sim));
        // A new agent restarts nothing, either.
        sim.kill(3);
        sim.run_for(100.0);
        assert_eq!(names(&sim.activations), ["good", "new", "good"], "{command_fails}");
        // A person deletes the file, and the kubelet starts.
        sim.behaviours.clear();
        sim.run_for(40.0);
        assert!(sim.error().ends_with("default cpuset cannot be empty"), "{}", sim.error());
        assert!(active(&sim).ends_with("the kubelet runs kube-system/good"), "{}", active(&sim));
    }
}

#[test]
fn reports_a_state_file_of_the_assigned_last_known_good() {
    let mut sim = sim_with_good_assigned();
    sim.behaviours.insert("local".to_owned(), Behaviour::StaleState { command_fails: true });
    sim.assign(None);
    // The kubelet has not exited again.
    sim.run_for(5.0);
    let error = "failed trial: kubelet does not start: reservedSystemCPUs, cpuManagerPolicyOptions or cpuManagerPolicy: \
                 default cpuset cannot be empty";
    assert_eq!(sim.conditions(), "+Synced -Unhealthy +Local", "the error of the restart counts until another is found");
    sim.run_for(1_000.0);
    assert_eq!((names(&sim.activations), sim.error().as_str()), (vec!["good".to_owned(), "local".to_owned()], error));
    sim.behaviours.clear();
    sim.run_for(40.0);
    assert_eq!((sim.conditions().as_str(), sim.error().as_str()), ("+Synced +Active +Local", ""));
}

#[test]
fn rolls_back_after_three_exits() {
    let mut sim = sim_with_good_assigned();
    sim.behaviours.insert("new".to_owned(), Behaviour::Exits);
    sim.assign(Some(source("new")));
    // The count of the service manager continues over the restart of the agent, so its exits before do not count.
    sim.run_for(28.0);
    assert_eq!(names(&sim.activations), ["good", "new"]);
    sim.run_for(10.0);
    assert_eq!(names(&sim.activations), ["good", "new", "good"]);
    assert_eq!(
        sim.error(),
        "failed trial: kubelet exited 3 times: cgroupsPerQOS or cgroupRoot: cgroup-root was not specified"
    );
}

/// A kubelet that exits again and again does not recover by itself, so the report does not wait for the health timeout.
#[test]
fn reports_exits_on_the_last_known_good_before_the_health_timeout() {
    let mut sim = sim_with_good_assigned();
    sim.behaviours.insert("local".to_owned(), Behaviour::Exits);
    sim.assign(None);
    sim.run_for(28.0);
    assert_eq!(sim.conditions(), "+Synced -Activating +Local");
    sim.run_for(10.0);
    assert_eq!(
        (sim.conditions().as_str(), names(&sim.activations)),
        ("+Synced -Unhealthy +Local", vec!["good".to_owned(), "local".to_owned()])
    );
}

/// Status, conditions and events for each kind of failure.
#[test]
fn reports_each_failure() {
    let mut text = String::new();
    let mut describe = |title: &str, sim: &SimHarness| {
        let status = sim.status();
        let error = sim.error();
        text.push_str(&format!("{title}\n  {} {error}\n", sim.reported().join(" ")));
        for condition in status.conditions {
            let seen = [condition.kind, condition.status, condition.reason, condition.message].join(" ");
            text.push_str(&format!("  {seen}\n"));
        }
        if let Some(last) = sim.announcements.last() {
            text.push_str(&format!("  {} {}\n", last.reason, last.message));
        }
    };
    let new = |behaviour: Behaviour, seconds: f64| {
        let mut sim = sim_with_good_assigned();
        sim.behaviours.insert("new".to_owned(), behaviour);
        sim.assign(Some(source("new")));
        sim.run_for(seconds);
        sim
    };
    describe("being restarted", &new(Behaviour::Good, 0.5));
    describe("on trial", &new(Behaviour::Good, 60.0));
    describe("unhealthy", &new(Behaviour::Dies(30), 60.0));
    describe("good", &new(Behaviour::Good, 700.0));
    describe("never answers", &new(Behaviour::Silent, 100.0));
    describe("starts not Ready", &new(Behaviour::Unready, 100.0));
    describe("renews no Lease", &new(Behaviour::NoLease, 100.0));
    describe("in a crash loop", &new(Behaviour::Loops, 100.0));
    describe("exits", &new(Behaviour::Exits, 45.0));
    let mut stale = sim_with_good_assigned();
    for configuration in ["new", "good"] {
        stale.behaviours.insert(configuration.to_owned(), Behaviour::StaleState { command_fails: false });
    }
    stale.assign(Some(source("new")));
    stale.run_for(100.0);
    describe("exits with every configuration because of a state file", &stale);
    describe("stops answering", &new(Behaviour::Dies(60), 200.0));
    describe("cannot be restarted", &new(Behaviour::NoRestart, 100.0));
    let mut full = sim_with_good_assigned();
    full.faults.disk_full = true;
    full.assign(Some(source("new")));
    full.run_for(60.0);
    describe("disk full", &full);
    let mut late = new(Behaviour::Good, 100.0);
    late.faults.disk_full = true;
    late.run_for(1_000.0);
    describe("disk full at the end of the trial", &late);
    let mut read_only = sim_with_good_assigned();
    read_only.faults.placement_fails = true;
    read_only.assign(Some(source("new")));
    read_only.run_for(60.0);
    describe("cannot be placed", &read_only);
    let mut missing = sim_with_good_assigned();
    missing.config_maps.remove("good");
    missing.run_for(100.0);
    describe("the ConfigMap is missing", &missing);
    let mut refused = sim_with_good_assigned();
    refused.put_config_map("bad", "1", super::scenarios::not_valid());
    refused.assign(Some(source("bad")));
    refused.run_for(10.0);
    describe("refused", &refused);
    let mut local = sim_with_good_assigned();
    local.behaviours.insert("local".to_owned(), Behaviour::Silent);
    local.assign(None);
    local.run_for(100.0);
    describe("reset, and the local configuration never answers", &local);
    insta::assert_snapshot!(text);
}
