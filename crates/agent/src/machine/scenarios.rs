//! Scenarios of assignments in the simulation: activations and reports for each spec and kubelet behaviour.

use super::sim_harness::{SimHarness, node_config, source};
use super::sim_inputs::Behaviour;
use crate::events::ConfigCheck;
use crate::ledger::Phase;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::nodeconfig::Condition;

pub(super) const DOWNLOAD: &str = "failed to sync: failed to download config, see Kubelet log for details";
pub(super) const VALIDATE: &str = "failed to validate config, see Kubelet log for details";

pub(super) fn not_valid() -> ConfigCheck {
    ConfigCheck::NotValid { message: "maxPods must not be -5".to_owned(), kubelet: Some("v1.36.2".to_owned()) }
}

/// Node with the last known good `good`, and with the ConfigMaps `new` and `other` ready for assignment.
pub(super) fn sim_with_good_assigned() -> SimHarness {
    let mut sim = SimHarness::new(7);
    for name in ["good", "new", "other"] {
        sim.put_config_map(name, "1", ConfigCheck::Accepted);
    }
    sim.assign(Some(source("good")));
    sim.run_for(700.0);
    assert_eq!(sim.reported(), ["good", "good", "good"]);
    sim
}

impl SimHarness {
    /// Reason of each condition, with a sign for its status.
    pub(super) fn conditions(&self) -> String {
        let one = |condition: &Condition| {
            let sign = if condition.status == "True" { '+' } else { '-' };
            format!("{sign}{}", condition.reason)
        };
        self.status().conditions.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

/// Names of the ConfigMaps; `local` for the local configuration.
pub(super) fn names(list: &[Option<ConfigSource>]) -> Vec<String> {
    let name = |source: &Option<ConfigSource>| {
        source.as_ref().and_then(|source| source.config_map.as_ref()).map_or("local".to_owned(), |map| map.name.clone())
    };
    list.iter().map(name).collect()
}

#[test]
fn promotes_assignment_after_trial() {
    let mut sim = SimHarness::new(1);
    sim.put_config_map("a", "1", ConfigCheck::Accepted);
    sim.run_for(1.0);
    assert_eq!(
        (sim.reported(), sim.conditions().as_str()),
        (["local"; 3].map(str::to_owned), "+Synced +Active +Local")
    );
    sim.assign(Some(source("a")));
    sim.run_for(0.5);
    assert_eq!(names(&sim.activations), ["a"], "at once");
    assert_eq!(sim.reported(), ["local", "local", "local"], "while the kubelet restarts, the old status stays");
    assert_eq!(sim.conditions(), "+Synced -Activating -OnTrial");
    sim.run_for(4.0);
    assert_eq!(sim.reported(), ["a", "a", "local"]);
    assert_eq!(sim.conditions(), "+Synced +Active -OnTrial");
    assert_eq!(sim.status().observed_generation, Some(2));
    sim.run_for(590.0);
    assert_eq!(sim.conditions(), "+Synced +Active -OnTrial");
    sim.run_for(20.0);
    assert_eq!(
        (sim.reported(), sim.conditions().as_str()),
        (["a"; 3].map(str::to_owned), "+Synced +Active +KnownGood")
    );
    assert_eq!((sim.error().as_str(), sim.reports), ("", 4));
    assert_eq!((sim.state.ledger.agent_state.restarts, sim.state.ledger.agent_state.rollbacks), (1, 0));
    // A settled agent only polls the ConfigMap, compares the disk, and sends heartbeats.
    let steps = sim.steps;
    sim.run_for(3_600.0);
    assert!(sim.steps - steps < 2 * (61 + 12), "{} steps in an hour", sim.steps - steps);
}

#[test]
fn rolls_back_failed_trial() {
    for (behaviour, error, within) in [
        (Behaviour::Silent, "failed trial: kubelet /healthz did not answer within 60 s", 70.0),
        (Behaviour::Unready, "failed trial: Node was not Ready within 60 s", 70.0),
        (Behaviour::NoLease, "failed trial: Lease was not renewed within 60 s", 70.0),
        (Behaviour::Dies(100), "failed trial: kubelet /healthz did not answer for 60 s", 175.0),
        (Behaviour::Loops, "failed trial: kubelet stopped answering /healthz 3 times", 35.0),
        (Behaviour::NoRestart, "failed to restart the kubelet, see condition Active for details", 10.0),
    ] {
        let mut sim = sim_with_good_assigned();
        sim.behaviours.insert("new".to_owned(), behaviour);
        sim.assign(Some(source("new")));
        sim.run_for(within);
        assert_eq!(sim.reported(), ["new", "good", "good"], "{behaviour:?} {}", sim.error());
        assert_eq!(
            (sim.error().as_str(), &sim.state.ledger.agent_state.phase),
            (error, &Phase::Settled),
            "{behaviour:?}"
        );
        let reason = if behaviour == Behaviour::NoRestart { "RestartFailed" } else { "TrialFailed" };
        assert_eq!(sim.conditions(), format!("+Synced -{reason} -{reason}"));
        let last = sim.announcements.last().unwrap();
        assert!(last.warning && last.reason == "KubeletConfigRolledBack", "{last:?}");
        assert!(last.message.starts_with("Kubelet restarting to roll back from kube-system/new to kube-system/good: "));
        sim.run_for(7_200.0);
        assert_eq!(names(&sim.activations), ["good", "new", "good"], "no retry");
        assert_eq!(sim.state.ledger.agent_state.rollbacks, 1);
    }
}

#[test]
fn rolls_back_without_api_server() {
    for behaviour in [Behaviour::Silent, Behaviour::Loops, Behaviour::NoRestart] {
        let mut sim = sim_with_good_assigned();
        sim.behaviours.insert("new".to_owned(), behaviour);
        sim.assign(Some(source("new")));
        sim.run_for(0.5);
        sim.faults.api_down = true;
        sim.run_for(100.0);
        assert_eq!(names(std::slice::from_ref(&sim.running)), ["good"], "{behaviour:?}");
        assert_eq!(sim.reported(), ["good", "good", "good"], "no report arrived");
        sim.faults.api_down = false;
        sim.run_for(100.0);
        assert_eq!(sim.reported(), ["new", "good", "good"]);
    }
}

#[test]
fn retries_failed_source_only_after_change() {
    let failed = || {
        let mut sim = sim_with_good_assigned();
        sim.behaviours.insert("new".to_owned(), Behaviour::Silent);
        sim.assign(Some(source("new")));
        sim.run_for(100.0);
        assert_eq!(sim.reported(), ["new", "good", "good"]);
        sim.behaviours.clear();
        sim
    };
    // Neither a new generation nor a new agent process causes a retry.
    let mut sim = failed();
    sim.assign(Some(source("new")));
    sim.run_for(300.0);
    sim.kill(1);
    sim.run_for(300.0);
    assert_eq!(sim.reported(), ["new", "good", "good"]);
    // A new version of the ConfigMap does.
    sim.put_config_map("new", "2", ConfigCheck::Accepted);
    sim.run_for(100.0);
    assert_eq!((sim.reported(), sim.error()), (["new", "new", "good"].map(str::to_owned), String::new()));
    // So does another assignment in between.
    let mut sim = failed();
    sim.assign(Some(source("good")));
    sim.run_for(10.0);
    assert_eq!((sim.reported(), sim.error()), (["good"; 3].map(str::to_owned), String::new()));
    assert_eq!(names(&sim.activations), ["good", "new", "good"], "no restart needed");
    sim.assign(Some(source("new")));
    sim.run_for(10.0);
    assert_eq!(sim.reported(), ["new", "new", "good"]);
}

#[test]
fn never_activates_refused_configuration() {
    let mut sim = sim_with_good_assigned();
    sim.put_config_map("bad", "1", not_valid());
    sim.assign(Some(source("bad")));
    sim.run_for(10.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["bad", "good", "good"].map(str::to_owned), VALIDATE));
    assert_eq!(names(&sim.activations), ["good"]);
    let last = sim.announcements.last().unwrap();
    assert_eq!(last.reason, "KubeletConfigRefused", "no restart is announced");
    assert!(last.message.ends_with("bad: maxPods must not be -5"), "{last:?}");
    // During a trial, a refused assignment leads to the last known good, even if the running configuration is
    // healthy.
    sim.assign(Some(source("new")));
    sim.run_for(60.0);
    sim.assign(Some(source("bad")));
    sim.run_for(10.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["bad", "good", "good"].map(str::to_owned), VALIDATE));
    assert_eq!(names(&sim.activations), ["good", "new", "good"]);
    assert!(sim.status().conditions[1].message.starts_with("maxPods must not be -5; "), "{:?}", sim.status());
}

#[test]
fn rechecks_assignment_for_new_kubelet_version() {
    let mut sim = sim_with_good_assigned();
    sim.assign(Some(source("new")));
    sim.run_for(60.0);
    // The new kubelet version would refuse the assignment.
    sim.put_config_map("new", "1", not_valid());
    sim.kill(2);
    sim.run_for(10.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "good", "good"].map(str::to_owned), VALIDATE));
    sim.put_config_map("new", "1", ConfigCheck::Accepted);
    sim.kill(3);
    sim.run_for(10.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
    // If the new version refuses the last known good, no better configuration exists.
    sim.run_for(700.0);
    sim.put_config_map("new", "1", not_valid());
    sim.kill(4);
    sim.run_for(10.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["new", "new", "new"].map(str::to_owned), VALIDATE));
    assert_eq!(names(&sim.activations), ["good", "new", "good", "new"]);
}

#[test]
fn restores_replaced_kubelet_file() {
    let mut sim = sim_with_good_assigned();
    sim.file_source = None;
    sim.kill(2);
    sim.run_for(10.0);
    assert_eq!(names(&sim.activations), ["good", "good"]);
    assert_eq!(sim.state.ledger.agent_state.phase, Phase::Settled, "no trial of the last known good");
}

#[test]
fn retries_missing_configmap() {
    let mut sim = sim_with_good_assigned();
    sim.assign(Some(source("late")));
    sim.run_for(30.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["good"; 3].map(str::to_owned), DOWNLOAD));
    assert_eq!(sim.conditions(), "-DownloadFailed +Active +KnownGood");
    assert_eq!(sim.status().observed_generation, Some(3));
    let reports = sim.reports;
    sim.kill(5);
    sim.run_for(0.03);
    assert_eq!((sim.error().as_str(), sim.reports), (DOWNLOAD, reports), "a new agent process keeps the error");
    sim.put_config_map("late", "1", ConfigCheck::Accepted);
    sim.run_for(90.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["late", "late", "good"].map(str::to_owned), ""));
    // Deleting the ConfigMap in use does not affect the kubelet.
    sim.config_maps.remove("late");
    sim.run_for(100.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["late", "late", "good"].map(str::to_owned), DOWNLOAD));
    sim.run_for(700.0);
    assert_eq!((sim.reported(), sim.error().as_str()), (["late", "late", "late"].map(str::to_owned), DOWNLOAD));
}

#[test]
fn reports_source_without_configmap() {
    let mut sim = sim_with_good_assigned();
    sim.assign(Some(ConfigSource::default()));
    sim.run_for(10.0);
    let error = "failed to sync: invalid NodeConfigSource, exactly one subfield must be non-nil, but all were nil";
    assert_eq!((sim.reported(), sim.error().as_str()), (["good"; 3].map(str::to_owned), error));
    sim.assign(Some(source("good")));
    sim.run_for(10.0);
    assert_eq!((sim.error().as_str(), names(&sim.activations)), ("", vec!["good".to_owned()]));
}

#[test]
fn follows_mutable_configmap_only() {
    let mut sim = sim_with_good_assigned();
    sim.put_config_map("good", "2", ConfigCheck::Accepted);
    sim.run_for(80.0);
    assert_eq!(names(&sim.activations), ["good", "good"]);
    let good = sim.state.ledger.last_known_good.clone().unwrap().config_map.unwrap();
    assert_eq!(good.resource_version.as_deref(), Some("1"), "another version is on trial");
    sim.config_maps.get_mut("new").unwrap().immutable = true;
    sim.assign(Some(source("new")));
    sim.run_for(10.0);
    sim.config_maps.get_mut("new").unwrap().version = "9".to_owned();
    sim.run_for(8_000.0);
    assert_eq!(names(&sim.activations), ["good", "good", "new"]);
    // A ConfigMap that was deleted and created again is a different one.
    sim.config_maps.get_mut("new").unwrap().uid = "uid-newer".to_owned();
    sim.run_for(5_000.0);
    assert_eq!(names(&sim.activations), ["good", "good", "new", "new"]);
}

/// Replaces a ConfigMap by one with a new uid and version.
pub(super) fn recreate(sim: &mut SimHarness, name: &str, hash: Option<&str>) {
    let map = sim.config_maps.get_mut(name).unwrap();
    (map.uid, map.version) = (format!("{}-again", map.uid), "77".to_owned());
    map.hash = hash.map(str::to_owned);
}

#[test]
fn adopts_recreated_configmap_with_same_content() {
    for immutable in [true, false] {
        let mut sim = sim_with_good_assigned();
        let map = sim.config_maps.get_mut("new").unwrap();
        (map.immutable, map.hash) = (immutable, Some("sha256:1".to_owned()));
        sim.assign(Some(source("new")));
        sim.run_for(100.0);
        let uids = |sim: &SimHarness| {
            let config = sim.status().config.unwrap();
            let uid = |source: Option<ConfigSource>| {
                source.and_then(|source| source.config_map?.uid.clone()).unwrap_or_default()
            };
            [config.assigned, config.active, config.last_known_good].map(uid)
        };
        // A trial in progress continues.
        recreate(&mut sim, "new", Some("sha256:1"));
        let started = sim.now;
        sim.assign(Some(source("new")));
        sim.deliver_node_config();
        sim.run_for(100.0);
        if !immutable {
            assert_eq!(uids(&sim), ["uid-new-again", "uid-new-again", "uid-good"]);
        }
        sim.run_until(started + jiff::SignedDuration::from_secs(530));
        assert_eq!(sim.state.ledger.agent_state.phase, Phase::Settled, "{immutable}");
        sim.run_for(4_400.0);
        assert_eq!(uids(&sim), ["uid-new-again"; 3]);
        // After the trial, the recreated ConfigMap becomes the last known good at once.
        recreate(&mut sim, "new", Some("sha256:1"));
        let announced = sim.announcements.len();
        sim.run_for(4_400.0);
        assert_eq!((uids(&sim), sim.error().as_str()), (["uid-new-again-again"; 3].map(str::to_owned), ""));
        assert_eq!(sim.conditions(), "+Synced +Active +KnownGood");
        assert_eq!(
            (names(&sim.activations), sim.announcements.len()),
            (vec!["good".to_owned(), "new".to_owned()], announced)
        );
        assert_eq!((&sim.saved, &sim.state.ledger.agent_state.phase), (&sim.state.ledger, &Phase::Settled));
        // A later rollback returns to the recreated ConfigMap.
        sim.behaviours.insert("other".to_owned(), Behaviour::Silent);
        sim.assign(Some(source("other")));
        sim.run_for(100.0);
        assert_eq!(uids(&sim), ["uid-other", "uid-new-again-again", "uid-new-again-again"]);
    }
}

#[test]
fn tries_recreated_configmap_with_other_content() {
    for (before, after) in [(Some("sha256:1"), Some("sha256:2")), (Some("sha256:1"), None), (None, None)] {
        let mut sim = sim_with_good_assigned();
        sim.config_maps.get_mut("new").unwrap().hash = before.map(str::to_owned);
        sim.assign(Some(source("new")));
        sim.run_for(700.0);
        recreate(&mut sim, "new", after);
        sim.run_for(100.0);
        assert_eq!(names(&sim.activations), ["good", "new", "new"], "{before:?} {after:?}");
        assert!(matches!(sim.state.ledger.agent_state.phase, Phase::Trying(_)));
    }
    // The same applies to a failed assignment.
    let mut sim = sim_with_good_assigned();
    sim.config_maps.get_mut("new").unwrap().hash = Some("sha256:1".to_owned());
    sim.behaviours.insert("new".to_owned(), Behaviour::Silent);
    sim.assign(Some(source("new")));
    sim.run_for(100.0);
    recreate(&mut sim, "new", Some("sha256:1"));
    sim.run_for(75.0);
    assert_eq!(names(&sim.activations)[..4], ["good", "new", "good", "new"]);
}

#[test]
fn reports_synced_only_after_accepting_recreated_nodeconfig() {
    let mut sim = sim_with_good_assigned();
    let generation = sim.config.as_ref().unwrap().metadata.generation;
    sim.config = None;
    sim.deliver_node_config();
    sim.run_for(1.0);
    sim.config = Some(node_config(generation, Some(source("new"))));
    sim.deliver_node_config();
    sim.run_for(0.04);
    let synced = |sim: &SimHarness| {
        let conditions = sim.status().conditions;
        conditions.iter().find(|condition| condition.kind == "Synced").map(|condition| condition.message.clone())
    };
    assert!(!synced(&sim).is_some_and(|message| message.contains("/new ")), "{:?}", synced(&sim));
    sim.run_for(1.0);
    assert_eq!(synced(&sim).unwrap(), "kube-system/new is assigned");
}

#[test]
fn keeps_configuration_after_nodeconfig_deletion() {
    let mut sim = sim_with_good_assigned();
    sim.config = None;
    sim.deliver_node_config();
    sim.run_for(4_000.0);
    assert_eq!(
        (names(std::slice::from_ref(&sim.running)), names(&sim.activations)),
        (vec!["good".to_owned()], vec!["good".to_owned()])
    );
    sim.assign(Some(source("good")));
    sim.run_for(10.0);
    assert_eq!((sim.reported(), names(&sim.activations)), (["good"; 3].map(str::to_owned), vec!["good".to_owned()]));
}

#[test]
fn reset_returns_to_local_configuration() {
    for seconds in [0.0, 0.03, 0.5, 2.0, 10.0, 1_000.0] {
        let mut sim = sim_with_good_assigned();
        sim.assign(Some(source("new")));
        sim.run_for(seconds);
        sim.assign(None);
        sim.run_for(10.0);
        assert_eq!((sim.reported(), sim.error().as_str()), (["local"; 3].map(str::to_owned), ""), "after {seconds}");
        assert_eq!(sim.conditions(), "+Synced +Active +Local");
        assert_eq!(sim.state.ledger.agent_state.phase, Phase::Settled);
        assert_eq!(sim.announcements.last().unwrap().message, "Kubelet restarting to use local config");
        assert_eq!(names(&sim.activations).last().unwrap(), "local");
    }
}

#[test]
fn applies_latest_assignment() {
    for seconds in [0.0, 0.03, 0.5, 2.0, 10.0] {
        let mut sim = sim_with_good_assigned();
        sim.behaviours.insert("new".to_owned(), Behaviour::Silent);
        sim.assign(Some(source("new")));
        sim.run_for(seconds);
        sim.assign(Some(source("other")));
        sim.run_for(20.0);
        assert_eq!(
            (sim.reported(), sim.error().as_str()),
            (["other", "other", "good"].map(str::to_owned), ""),
            "{seconds}"
        );
        sim.run_for(700.0);
        assert_eq!(sim.reported(), ["other", "other", "other"]);
    }
}

#[test]
fn requires_readiness_from_before_the_first_restart() {
    let mut sim = sim_with_good_assigned();
    sim.behaviours.insert("new".to_owned(), Behaviour::Unready);
    sim.behaviours.insert("other".to_owned(), Behaviour::Unready);
    sim.assign(Some(source("new")));
    sim.run_for(30.0);
    sim.assign(Some(source("other")));
    sim.run_for(100.0);
    assert_eq!(sim.error(), "failed trial: Node was not Ready within 60 s");
}
