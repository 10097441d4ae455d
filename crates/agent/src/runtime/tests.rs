//! Scenarios of the runtime over a disk in memory: the files, the effects and the reported status.

use std::path::Path;

use super::world::{Deed, FOLDER, Manner, World, provisioned, settings, text};
use super::*;
use crate::disk::memory::{Fault, MemoryDisk};
use crate::state::FailureKind;
use crate::store::inspect;
use nodecfg_contract::ConfigStatus;

fn config(world: &World) -> ConfigStatus {
    world.status().config.clone().expect("the agent has looked")
}

fn names(source: Option<&ConfigSource>) -> String {
    source.and_then(|source| source.config_map.as_ref()).map_or_else(
        || "local".to_owned(),
        |map| format!("{} {}", map.name, map.resource_version.as_deref().unwrap_or_default()),
    )
}

/// Assigned, active, last known good and error of the status.
fn told(world: &World) -> (String, String, String, String) {
    let config = config(world);
    (
        names(config.assigned.as_ref()),
        names(config.active.as_ref()),
        names(config.last_known_good.as_ref()),
        config.error.unwrap_or_default(),
    )
}

fn is(world: &World, assigned: &str, active: &str, good: &str, error: &str) {
    let strings = [assigned, active, good, error].map(str::to_owned);
    let [assigned, active, good, error] = strings;
    assert_eq!(told(world), (assigned, active, good, error));
}

#[test]
fn from_assigned_to_last_known_good_and_back_to_local() {
    for drop_in in [false, true] {
        let mut world =
            World::new(drop_in, &[(0, Deed::Write("a", Manner::Good)), (10, Deed::Assign("a")), (60, Deed::Reset)]);
        world.run(5);
        assert_eq!(config(&world), ConfigStatus::default());
        world.run(8);
        is(&world, "a 1", "a 1", "local", "");
        assert_eq!(world.running(), text("a", 1, Manner::Good));
        world.run(40);
        is(&world, "a 1", "a 1", "a 1", "");
        world.run(60);
        assert_eq!(config(&world), ConfigStatus::default());
        assert_eq!(world.running(), provisioned());
        let described = inspect(&world.disk, Path::new(FOLDER));
        assert_eq!(described.problems, [""; 0]);
        assert_eq!(described.checkpoints, []);
    }
}

#[test]
fn what_fails_is_left_for_the_last_known_good() {
    for (manner, error) in [
        (Manner::Silent, "the kubelet did not stay healthy"),
        (Manner::Dies, "the kubelet did not stay healthy"),
        (Manner::NoRestart, "the kubelet could not be restarted"),
        (Manner::Refuses, "failed to validate config, see Kubelet log for details"),
    ] {
        let mut world = World::new(
            false,
            &[
                (0, Deed::Write("a", Manner::Good)),
                (0, Deed::Write("b", manner)),
                (1, Deed::Assign("a")),
                (60, Deed::Assign("b")),
            ],
        );
        world.run(120);
        assert_eq!(world.running(), text("a", 1, Manner::Good), "{manner:?}");
        let (assigned, active, good, found) = told(&world);
        assert_eq!((assigned.as_str(), active.as_str(), good.as_str()), ("b 1", "a 1", "a 1"), "{manner:?}");
        assert!(!found.is_empty() && (manner != Manner::Refuses || found == error), "{manner:?}: {found}");
    }
}

#[test]
fn a_full_disk_is_told_and_the_kubelet_untouched_until_there_is_room() {
    for fault in [Fault::Full, Fault::ReadOnly, Fault::SyncFails] {
        let mut world = World::new(false, &[(0, Deed::Write("a", Manner::Good)), (5, Deed::Assign("a"))]);
        world.run(3);
        world.disk.inject(fault, 0..u64::MAX);
        world.run(60);
        is(&world, "local", "local", "local", "failed to sync: internal failure, see Kubelet log for details");
        assert_eq!(world.running(), provisioned());
        assert_eq!(world.runtime().ledger(), &Ledger::default());
        world.disk.heal();
        world.run(200);
        is(&world, "a 1", "a 1", "a 1", "");
    }
}

#[test]
fn a_disk_that_fills_up_during_a_trial_does_not_keep_the_kubelet_there() {
    for drop_in in [false, true] {
        for fault in [Fault::Full, Fault::SyncFails, Fault::ShortWrite] {
            let mut world = World::new(
                drop_in,
                &[
                    (0, Deed::Write("a", Manner::Good)),
                    (0, Deed::Write("b", Manner::Dies)),
                    (1, Deed::Assign("a")),
                    (60, Deed::Assign("b")),
                ],
            );
            world.run(65);
            assert_eq!(world.running(), text("b", 1, Manner::Dies));
            world.disk.inject(fault, 0..u64::MAX);
            world.run(60);
            assert_eq!(world.running(), text("a", 1, Manner::Good), "{fault:?}");
            // Once there is room, what the agent knows is saved, and what it starts with the next time.
            world.disk.heal();
            world.run(60);
            let before = world.end();
            world.reopen(Some(3));
            world.run(60);
            assert_eq!(world.end(), before, "{fault:?}");
        }
    }
}

#[test]
fn a_checkpoint_that_was_tampered_with_is_not_placed_but_mended() {
    let mut world = World::new(false, &[(0, Deed::Write("a", Manner::Good)), (1, Deed::Assign("a"))]);
    world.run(60);
    let path = Path::new(FOLDER).join("store/checkpoints/uid-of-a/1/kubelet");
    world.disk.put(&path, b"maxPods: -5\n", 0o600);
    // That it is never in place, the world holds at every step.
    world.reopen(None);
    assert_eq!(world.runtime().ledger().beyond.failure.as_ref().map(|failure| failure.kind), Some(FailureKind::Load));
    world.run(60);
    is(&world, "a 1", "a 1", "a 1", "");
    assert_eq!(world.disk.content(&path).as_deref(), Some(text("a", 1, Manner::Good).as_bytes()));
}

#[test]
fn somebody_who_replaces_the_kubelets_file_is_taken_for_the_provisioner() {
    let mut world =
        World::new(false, &[(0, Deed::Write("a", Manner::Good)), (1, Deed::Assign("a")), (200, Deed::Reset)]);
    world.run(60);
    let newer = text("local", 2, Manner::Good);
    world.accept(&newer);
    world.disk.put(Path::new("/var/lib/kubelet/config.yaml"), newer.as_bytes(), 0o644);
    world.reopen(None);
    world.run(60);
    assert_eq!(world.running(), text("a", 1, Manner::Good));
    world.run(200);
    assert_eq!(world.running(), newer);
}

#[test]
fn what_cannot_be_read_stops_the_agent_before_it_does_anything() {
    let placement = Placement::File { config: PathBuf::from("/etc/kubelet.yaml") };
    let paths = Paths { folder: PathBuf::from(FOLDER), placement };
    let open = |disk: &MemoryDisk| {
        AgentRuntime::open(&paths, settings(), disk.clone(), 1).expect_err("is refused").to_string()
    };
    let disk = MemoryDisk::new();
    assert!(open(&disk).contains("/etc/kubelet.yaml does not exist"));
    disk.put(Path::new("/etc/kubelet.yaml"), b"maxPods: 5\n", 0o644);
    disk.put(&Path::new(FOLDER).join("agent.json"), b"{\"format\": 9}", 0o600);
    assert!(open(&disk).contains("has format 9"));
    disk.put(&Path::new(FOLDER).join("agent.json"), b"", 0o600);
    assert!(open(&disk).contains("agent.json cannot be read"));
}

#[test]
fn the_kubelet_is_asked_where_its_configuration_says() {
    let mut world = World::new(true, &[(0, Deed::Write("a", Manner::Good)), (1, Deed::Assign("a"))]);
    world.run(5);
    assert_eq!(world.another().healthz().port, 10248);
    world.disk.put(Path::new("/etc/kubelet.d/20-port.conf"), b"healthzPort: 10999\n", 0o644);
    assert_eq!(world.another().healthz().port, 10999);
}
