//! What becomes of assignments, told from the outside: what spec said, what went wrong, what the agent did and reported.

use super::world::{Behaviour, World, source, wanting};
use crate::events::ConfigCheck;
use crate::state::Phase;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::nodeconfig::Condition;

pub(super) const DOWNLOAD: &str = "failed to sync: failed to download config, see Kubelet log for details";
pub(super) const VALIDATE: &str = "failed to validate config, see Kubelet log for details";

pub(super) fn not_valid() -> ConfigCheck {
    ConfigCheck::NotValid { message: "maxPods must not be -5".to_owned(), kubelet: Some("v1.36.2".to_owned()) }
}

/// A node on which `good` is the last known good, and `new` is there to be assigned.
pub(super) fn world() -> World {
    let mut world = World::new(7);
    for name in ["good", "new", "other"] {
        world.map(name, "1", ConfigCheck::Accepted);
    }
    world.assign(Some(source("good")));
    world.run_for(700.0);
    assert_eq!(world.told(), ["good", "good", "good"]);
    world
}

impl World {
    /// The reason of each condition with a sign for its status.
    pub(super) fn conditions(&self) -> String {
        let one = |condition: &Condition| {
            let sign = if condition.status == "True" { '+' } else { '-' };
            format!("{sign}{}", condition.reason)
        };
        self.status().conditions.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn names(list: &[Option<ConfigSource>]) -> Vec<String> {
    let name = |source: &Option<ConfigSource>| {
        source.as_ref().and_then(|source| source.config_map.clone()).map_or("local".to_owned(), |map| map.name)
    };
    list.iter().map(name).collect()
}

#[test]
fn an_assignment_is_tried_and_becomes_the_last_known_good() {
    let mut world = World::new(1);
    world.map("a", "1", ConfigCheck::Accepted);
    world.run_for(1.0);
    assert_eq!(
        (world.told(), world.conditions().as_str()),
        (["local"; 3].map(str::to_owned), "+Synced +Active +Local")
    );
    world.assign(Some(source("a")));
    world.run_for(0.5);
    assert_eq!(names(&world.activations), ["a"], "at once");
    assert_eq!(world.told(), ["local", "local", "local"], "while the kubelet restarts, the old status stays");
    assert_eq!(world.conditions(), "+Synced -Activating -OnTrial");
    world.run_for(4.0);
    assert_eq!(world.told(), ["a", "a", "local"]);
    assert_eq!(world.conditions(), "+Synced +Active -OnTrial");
    assert_eq!(world.status().observed_generation, Some(2));
    world.run_for(590.0);
    assert_eq!(world.conditions(), "+Synced +Active -OnTrial");
    world.run_for(20.0);
    assert_eq!(
        (world.told(), world.conditions().as_str()),
        (["a"; 3].map(str::to_owned), "+Synced +Active +KnownGood")
    );
    assert_eq!((world.error().as_str(), world.reports), ("", 4));
    assert_eq!((world.state.ledger.beyond.restarts, world.state.ledger.beyond.rollbacks), (1, 0));
    // Settled, it is quiet but for the look at the ConfigMap.
    let steps = world.steps;
    world.run_for(3_600.0);
    assert!(world.steps - steps < 2 * 61, "{} steps in an hour", world.steps - steps);
}

#[test]
fn what_fails_its_trial_is_left_for_the_last_known_good() {
    for (behaviour, error, within) in [
        (Behaviour::Silent, "failed trial: kubelet /healthz did not answer within 60 s", 70.0),
        (Behaviour::Unready, "failed trial: Node was not Ready within 60 s", 70.0),
        (Behaviour::Dies(100), "failed trial: kubelet /healthz did not answer for 60 s", 175.0),
        (Behaviour::Loops, "failed trial: kubelet stopped answering /healthz 3 times", 35.0),
        (Behaviour::NoRestart, "failed to restart the kubelet, see condition Active for details", 10.0),
    ] {
        let mut world = world();
        world.behaviours.insert("new".to_owned(), behaviour);
        world.assign(Some(source("new")));
        world.run_for(within);
        assert_eq!(world.told(), ["new", "good", "good"], "{behaviour:?} {}", world.error());
        assert_eq!(
            (world.error().as_str(), &world.state.ledger.beyond.phase),
            (error, &Phase::Settled),
            "{behaviour:?}"
        );
        let reason = if behaviour == Behaviour::NoRestart { "RestartFailed" } else { "TrialFailed" };
        assert_eq!(world.conditions(), format!("+Synced -{reason} -{reason}"));
        let last = world.announcements.last().unwrap();
        assert!(last.warning && last.reason == "KubeletConfigRolledBack", "{last:?}");
        assert!(last.message.starts_with("Kubelet restarting to go back from kube-system/new to kube-system/good: "));
        world.run_for(7_200.0);
        assert_eq!(names(&world.activations), ["good", "new", "good"], "it is not tried again");
        assert_eq!(world.state.ledger.beyond.rollbacks, 1);
    }
}

#[test]
fn a_crash_loop_needs_no_api_server_to_fall_back() {
    for behaviour in [Behaviour::Silent, Behaviour::Loops, Behaviour::NoRestart] {
        let mut world = world();
        world.behaviours.insert("new".to_owned(), behaviour);
        world.assign(Some(source("new")));
        world.run_for(0.5);
        world.faults.api_away = true;
        world.run_for(100.0);
        assert_eq!(names(std::slice::from_ref(&world.runs)), ["good"], "{behaviour:?}");
        assert_eq!(world.told(), ["good", "good", "good"], "nobody was told");
        world.faults.api_away = false;
        world.run_for(100.0);
        assert_eq!(world.told(), ["new", "good", "good"]);
    }
}

#[test]
fn what_failed_is_tried_again_when_it_is_told_anew() {
    let failed = || {
        let mut world = world();
        world.behaviours.insert("new".to_owned(), Behaviour::Silent);
        world.assign(Some(source("new")));
        world.run_for(100.0);
        assert_eq!(world.told(), ["new", "good", "good"]);
        world.behaviours.clear();
        world
    };
    // Neither another generation nor another agent is news.
    let mut world = failed();
    world.assign(Some(source("new")));
    world.run_for(300.0);
    world.kill(1);
    world.run_for(300.0);
    assert_eq!(world.told(), ["new", "good", "good"]);
    // Another version of the ConfigMap is.
    world.map("new", "2", ConfigCheck::Accepted);
    world.run_for(100.0);
    assert_eq!((world.told(), world.error()), (["new", "new", "good"].map(str::to_owned), String::new()));
    // So is another assignment in between.
    let mut world = failed();
    world.assign(Some(source("good")));
    world.run_for(10.0);
    assert_eq!((world.told(), world.error()), (["good"; 3].map(str::to_owned), String::new()));
    assert_eq!(names(&world.activations), ["good", "new", "good"], "it ran already");
    world.assign(Some(source("new")));
    world.run_for(10.0);
    assert_eq!(world.told(), ["new", "new", "good"]);
}

#[test]
fn a_refused_configuration_is_assigned_and_never_activated() {
    let mut world = world();
    world.map("bad", "1", not_valid());
    world.assign(Some(source("bad")));
    world.run_for(10.0);
    assert_eq!((world.told(), world.error().as_str()), (["bad", "good", "good"].map(str::to_owned), VALIDATE));
    assert_eq!(names(&world.activations), ["good"]);
    assert!(world.announcements.last().unwrap().message.contains("configmaps/bad, UID: uid-bad"), "as the kubelet did");
    // From a trial it goes to the last known good, even if nothing was wrong with what ran.
    world.assign(Some(source("new")));
    world.run_for(60.0);
    world.assign(Some(source("bad")));
    world.run_for(10.0);
    assert_eq!((world.told(), world.error().as_str()), (["bad", "good", "good"].map(str::to_owned), VALIDATE));
    assert_eq!(names(&world.activations), ["good", "new", "good"]);
    assert!(world.status().conditions[1].message.starts_with("maxPods must not be -5; "), "{:?}", world.status());
}

#[test]
fn another_kubelet_judges_again() {
    let mut world = world();
    world.assign(Some(source("new")));
    world.run_for(60.0);
    // Its successor would refuse it.
    world.map("new", "1", not_valid());
    world.kill(2);
    world.run_for(10.0);
    assert_eq!((world.told(), world.error().as_str()), (["new", "good", "good"].map(str::to_owned), VALIDATE));
    world.map("new", "1", ConfigCheck::Accepted);
    world.kill(3);
    world.run_for(10.0);
    assert_eq!((world.told(), world.error().as_str()), (["new", "new", "good"].map(str::to_owned), ""));
    // It may refuse what is the last known good: then there is nothing better to go to.
    world.run_for(700.0);
    world.map("new", "1", not_valid());
    world.kill(4);
    world.run_for(10.0);
    assert_eq!((world.told(), world.error().as_str()), (["new", "new", "new"].map(str::to_owned), VALIDATE));
    assert_eq!(names(&world.activations), ["good", "new", "good", "new"]);
}

#[test]
fn a_file_that_somebody_replaced_is_put_back() {
    let mut world = world();
    world.placed = None;
    world.kill(2);
    world.run_for(10.0);
    assert_eq!(names(&world.activations), ["good", "good"]);
    assert_eq!(world.state.ledger.beyond.phase, Phase::Settled, "no trial for what is known to be good");
}

#[test]
fn a_configmap_that_is_missing_is_asked_for_until_it_is_there() {
    let mut world = world();
    world.assign(Some(source("late")));
    world.run_for(30.0);
    assert_eq!((world.told(), world.error().as_str()), (["good"; 3].map(str::to_owned), DOWNLOAD));
    assert_eq!(world.conditions(), "-DownloadFailed +Active +KnownGood");
    assert_eq!(world.status().observed_generation, Some(3));
    let reports = world.reports;
    world.kill(5);
    world.run_for(0.03);
    assert_eq!((world.error().as_str(), world.reports), (DOWNLOAD, reports), "another agent does not forget it");
    world.map("late", "1", ConfigCheck::Accepted);
    world.run_for(90.0);
    assert_eq!((world.told(), world.error().as_str()), (["late", "late", "good"].map(str::to_owned), ""));
    // In use and deleted, the kubelet goes on.
    world.maps.remove("late");
    world.run_for(100.0);
    assert_eq!((world.told(), world.error().as_str()), (["late", "late", "good"].map(str::to_owned), DOWNLOAD));
    world.run_for(700.0);
    assert_eq!((world.told(), world.error().as_str()), (["late", "late", "late"].map(str::to_owned), DOWNLOAD));
}

#[test]
fn a_source_that_names_nothing_is_an_error() {
    let mut world = world();
    world.assign(Some(ConfigSource::default()));
    world.run_for(10.0);
    let error = "failed to sync: invalid NodeConfigSource, exactly one subfield must be non-nil, but all were nil";
    assert_eq!((world.told(), world.error().as_str()), (["good"; 3].map(str::to_owned), error));
    world.assign(Some(source("good")));
    world.run_for(10.0);
    assert_eq!((world.error().as_str(), names(&world.activations)), ("", vec!["good".to_owned()]));
}

#[test]
fn a_mutable_configmap_is_followed_and_labels_of_an_immutable_one_are_not() {
    let mut world = world();
    world.map("good", "2", ConfigCheck::Accepted);
    world.run_for(80.0);
    assert_eq!(names(&world.activations), ["good", "good"]);
    let good = world.state.ledger.last_known_good.clone().unwrap().config_map.unwrap();
    assert_eq!(good.resource_version.as_deref(), Some("1"), "another version is on trial");
    world.maps.get_mut("new").unwrap().immutable = true;
    world.assign(Some(source("new")));
    world.run_for(10.0);
    world.maps.get_mut("new").unwrap().version = "9".to_owned();
    world.run_for(8_000.0);
    assert_eq!(names(&world.activations), ["good", "good", "new"]);
    // One that was deleted and made anew is another one.
    world.maps.get_mut("new").unwrap().uid = "uid-newer".to_owned();
    world.run_for(5_000.0);
    assert_eq!(names(&world.activations), ["good", "good", "new", "new"]);
}

/// A ConfigMap that was deleted and made again.
fn make_again(world: &mut World, name: &str, hash: Option<&str>) {
    let map = world.maps.get_mut(name).unwrap();
    (map.uid, map.version) = (format!("{}-again", map.uid), "77".to_owned());
    map.hash = hash.map(str::to_owned);
}

#[test]
fn the_same_content_made_again_is_adopted_without_a_restart() {
    for immutable in [true, false] {
        let mut world = world();
        let map = world.maps.get_mut("new").unwrap();
        (map.immutable, map.hash) = (immutable, Some("sha256:1".to_owned()));
        world.assign(Some(source("new")));
        world.run_for(100.0);
        let uids = |world: &World| {
            let config = world.status().config.unwrap();
            let uid =
                |source: Option<ConfigSource>| source.and_then(|source| source.config_map?.uid).unwrap_or_default();
            [config.assigned, config.active, config.last_known_good].map(uid)
        };
        // On trial, the trial goes on.
        make_again(&mut world, "new", Some("sha256:1"));
        let started = world.now;
        world.assign(Some(source("new")));
        world.see();
        world.run_for(100.0);
        if !immutable {
            assert_eq!(uids(&world), ["uid-new-again", "uid-new-again", "uid-good"]);
        }
        world.run_until(started + jiff::SignedDuration::from_secs(530));
        assert_eq!(world.state.ledger.beyond.phase, Phase::Settled, "{immutable}");
        world.run_for(4_400.0);
        assert_eq!(uids(&world), ["uid-new-again"; 3]);
        // Afterwards it is the last known good at once.
        make_again(&mut world, "new", Some("sha256:1"));
        let announced = world.announcements.len();
        world.run_for(4_400.0);
        assert_eq!((uids(&world), world.error().as_str()), (["uid-new-again-again"; 3].map(str::to_owned), ""));
        assert_eq!(world.conditions(), "+Synced +Active +KnownGood");
        assert_eq!(
            (names(&world.activations), world.announcements.len()),
            (vec!["good".to_owned(), "new".to_owned()], announced)
        );
        assert_eq!((&world.saved, &world.state.ledger.beyond.phase), (&world.state.ledger, &Phase::Settled));
        // It is what a later one falls back to.
        world.behaviours.insert("other".to_owned(), Behaviour::Silent);
        world.assign(Some(source("other")));
        world.run_for(100.0);
        assert_eq!(uids(&world), ["uid-other", "uid-new-again-again", "uid-new-again-again"]);
    }
}

#[test]
fn what_is_made_again_is_tried_when_its_content_differs_or_is_not_known() {
    for (before, after) in [(Some("sha256:1"), Some("sha256:2")), (Some("sha256:1"), None), (None, None)] {
        let mut world = world();
        world.maps.get_mut("new").unwrap().hash = before.map(str::to_owned);
        world.assign(Some(source("new")));
        world.run_for(700.0);
        make_again(&mut world, "new", after);
        world.run_for(100.0);
        assert_eq!(names(&world.activations), ["good", "new", "new"], "{before:?} {after:?}");
        assert!(matches!(world.state.ledger.beyond.phase, Phase::Trying(_)));
    }
    // So is what failed.
    let mut world = world();
    world.maps.get_mut("new").unwrap().hash = Some("sha256:1".to_owned());
    world.behaviours.insert("new".to_owned(), Behaviour::Silent);
    world.assign(Some(source("new")));
    world.run_for(100.0);
    make_again(&mut world, "new", Some("sha256:1"));
    world.run_for(75.0);
    assert_eq!(names(&world.activations)[..4], ["good", "new", "good", "new"]);
}

#[test]
fn a_nodeconfig_that_was_made_again_is_not_synced_before_it_is_taken() {
    let mut world = world();
    let generation = world.config.as_ref().unwrap().metadata.generation;
    world.config = None;
    world.see();
    world.run_for(1.0);
    world.config = Some(wanting(generation, Some(source("new"))));
    world.see();
    world.run_for(0.04);
    let synced = |world: &World| {
        let conditions = world.status().conditions;
        conditions.iter().find(|condition| condition.kind == "Synced").map(|condition| condition.message.clone())
    };
    assert!(!synced(&world).is_some_and(|message| message.contains("/new ")), "{:?}", synced(&world));
    world.run_for(1.0);
    assert_eq!(synced(&world).unwrap(), "kube-system/new is assigned");
}

#[test]
fn a_nodeconfig_that_is_gone_is_no_instruction() {
    let mut world = world();
    world.config = None;
    world.see();
    world.run_for(4_000.0);
    assert_eq!(
        (names(std::slice::from_ref(&world.runs)), names(&world.activations)),
        (vec!["good".to_owned()], vec!["good".to_owned()])
    );
    world.assign(Some(source("good")));
    world.run_for(10.0);
    assert_eq!((world.told(), names(&world.activations)), (["good"; 3].map(str::to_owned), vec!["good".to_owned()]));
}

#[test]
fn a_reset_goes_to_local_from_wherever_it_comes() {
    for seconds in [0.0, 0.03, 0.5, 2.0, 10.0, 1_000.0] {
        let mut world = world();
        world.assign(Some(source("new")));
        world.run_for(seconds);
        world.assign(None);
        world.run_for(10.0);
        assert_eq!((world.told(), world.error().as_str()), (["local"; 3].map(str::to_owned), ""), "after {seconds}");
        assert_eq!(world.conditions(), "+Synced +Active +Local");
        assert_eq!(world.state.ledger.beyond.phase, Phase::Settled);
        assert_eq!(world.announcements.last().unwrap().message, "Kubelet restarting to use local config");
        assert_eq!(names(&world.activations).last().unwrap(), "local");
    }
}

#[test]
fn the_last_of_several_assignments_is_what_counts() {
    for seconds in [0.0, 0.03, 0.5, 2.0, 10.0] {
        let mut world = world();
        world.behaviours.insert("new".to_owned(), Behaviour::Silent);
        world.assign(Some(source("new")));
        world.run_for(seconds);
        world.assign(Some(source("other")));
        world.run_for(20.0);
        assert_eq!(
            (world.told(), world.error().as_str()),
            (["other", "other", "good"].map(str::to_owned), ""),
            "{seconds}"
        );
        world.run_for(700.0);
        assert_eq!(world.told(), ["other", "other", "other"]);
    }
}

#[test]
fn a_node_that_was_ready_before_a_bad_configuration_must_be_so_after_the_next() {
    let mut world = world();
    world.behaviours.insert("new".to_owned(), Behaviour::Unready);
    world.behaviours.insert("other".to_owned(), Behaviour::Unready);
    world.assign(Some(source("new")));
    world.run_for(30.0);
    world.assign(Some(source("other")));
    world.run_for(100.0);
    assert_eq!(world.error(), "failed trial: Node was not Ready within 60 s");
}
