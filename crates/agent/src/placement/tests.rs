//! Placing in both modes: kills, faults, a full disk, and other people's files.

use proptest::prelude::*;

use super::*;
use crate::disk::memory::{Fault, MemoryDisk};

const CONFIG: &str = "/var/lib/kubelet/config.yaml";
const CONFIG_DIR: &str = "/etc/kubernetes/kubelet.conf.d";
const PROVISIONED: &str = "maxPods: 110\n";
const FIRST: &str = "maxPods: 50\n";
const SECOND: &str = "maxPods: 60\nkind: KubeletConfiguration\n";

fn file_mode() -> Placement {
    Placement::File { config: PathBuf::from(CONFIG) }
}

fn drop_in_mode() -> Placement {
    Placement::DropIn { config_dir: PathBuf::from(CONFIG_DIR), config: Some(PathBuf::from(CONFIG)) }
}

fn modes() -> [Placement; 2] {
    [file_mode(), drop_in_mode()]
}

/// A node as it was provisioned.
fn node() -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.put(Path::new(CONFIG), PROVISIONED.as_bytes(), 0o640);
    disk.put(&Path::new(CONFIG_DIR).join("10-image.conf"), b"podPidsLimit: 5\n", 0o644);
    disk.put(&Path::new(CONFIG_DIR).join("99-late.conf"), b"podPidsLimit: 6\n", 0o644);
    disk
}

fn open(disk: &MemoryDisk, placement: &Placement) -> Result<Placer, PlacementError> {
    Placer::open(disk, Path::new("/var/lib/nodecfg"), placement.clone(), false)
}

/// What the kubelet would read of ours; `None` is the local configuration.
fn seen(disk: &MemoryDisk, placement: &Placement) -> Option<String> {
    let text = |path: &Path| disk.content(path).map(|content| String::from_utf8(content.to_vec()).unwrap());
    match placement {
        Placement::File { config } => text(config).filter(|text| text != PROVISIONED),
        Placement::DropIn { config_dir, .. } => text(&config_dir.join(DROP_IN_NAME)),
    }
}

#[test]
fn there_and_back_again() {
    for mode in modes() {
        let disk = node();
        let mut placer = open(&disk, &mode).unwrap();
        assert!(placer.is_in_place(&disk, None).unwrap());
        placer.place(&disk, Some(FIRST), Some(None), false).unwrap();
        assert_eq!(seen(&disk, &mode).as_deref(), Some(FIRST));
        let mut placer = open(&disk, &mode).unwrap();
        assert!(placer.is_in_place(&disk, Some(FIRST)).unwrap() && !placer.is_in_place(&disk, None).unwrap());
        placer.place(&disk, Some(SECOND), Some(Some(FIRST)), false).unwrap();
        placer.place(&disk, Some(FIRST), None, true).unwrap();
        assert_eq!(seen(&disk, &mode).as_deref(), Some(FIRST));
        placer.place(&disk, None, None, false).unwrap();
        assert_eq!(seen(&disk, &mode), None);
        assert_eq!(disk.content(Path::new(CONFIG)).as_deref(), Some(PROVISIONED.as_bytes()));
        assert_eq!(disk.look(Path::new(CONFIG)).unwrap().unwrap().mode, 0o640);
        let left: Vec<String> = disk.files().into_keys().filter(|path| path.contains("/.")).collect();
        assert_eq!(left, [""; 0], "{mode:?}");
    }
}

#[test]
fn what_the_kubelet_starts_with() {
    let disk = node();
    let placer = open(&disk, &drop_in_mode()).unwrap();
    assert_eq!(placer.underneath(&disk).unwrap(), [PROVISIONED, "podPidsLimit: 5\n"]);
    assert_eq!(placer.effective(&disk, Some(FIRST)).unwrap(), "maxPods: 50\npodPidsLimit: 5\n");
    assert_eq!(placer.effective(&disk, None).unwrap(), "maxPods: 110\npodPidsLimit: 5\n");
    let mut placer = open(&disk, &file_mode()).unwrap();
    assert_eq!(placer.effective(&disk, None).unwrap(), PROVISIONED);
    placer.place(&disk, Some(FIRST), Some(None), false).unwrap();
    assert_eq!(placer.effective(&disk, None).unwrap(), PROVISIONED);
    assert_eq!(placer.effective(&disk, Some(SECOND)).unwrap(), SECOND);
}

#[test]
fn a_fall_back_needs_no_room_and_no_proof_of_durability() {
    for mode in modes() {
        for good in [None, Some(FIRST)] {
            for fault in [Fault::Full, Fault::SyncFails, Fault::ShortWrite] {
                let disk = node();
                let mut placer = open(&disk, &mode).unwrap();
                placer.place(&disk, good, None, false).unwrap();
                placer.place(&disk, Some(SECOND), Some(good), false).unwrap();
                disk.inject(fault, 0..u64::MAX);
                open(&disk, &mode).unwrap().place(&disk, good, None, true).unwrap();
                assert_eq!(seen(&disk, &mode).as_deref(), good, "{mode:?} {fault:?}");
                // And again, as after a kill.
                open(&disk, &mode).unwrap().place(&disk, good, None, true).unwrap();
                // No trial begins on such a disk.
                placer.place(&disk, Some("maxPods: 70\n"), Some(good), false).unwrap_err();
                assert_eq!(seen(&disk, &mode).as_deref(), good, "{mode:?} {fault:?}");
            }
        }
    }
}

#[test]
fn a_read_only_disk_is_untouched() {
    for mode in modes() {
        let disk = node();
        let before = disk.files();
        disk.inject(Fault::ReadOnly, 0..u64::MAX);
        let mut placer = open(&disk, &mode).unwrap();
        placer.place(&disk, Some(FIRST), Some(None), false).unwrap_err();
        assert_eq!(disk.files(), before);
    }
}

#[test]
fn a_provisioned_file_that_was_changed_is_the_local_one_from_then_on() {
    let disk = node();
    let mut placer = open(&disk, &file_mode()).unwrap();
    placer.place(&disk, Some(FIRST), Some(None), false).unwrap();
    disk.put(Path::new(CONFIG), b"maxPods: 99\n", 0o600);
    let mut placer = open(&disk, &file_mode()).unwrap();
    assert!(!placer.is_in_place(&disk, Some(FIRST)).unwrap());
    assert!(placer.is_in_place(&disk, None).unwrap());
    placer.place(&disk, Some(FIRST), Some(None), false).unwrap();
    assert_eq!(seen(&disk, &file_mode()).as_deref(), Some(FIRST));
    placer.place(&disk, None, None, true).unwrap();
    assert_eq!(seen(&disk, &file_mode()).as_deref(), Some("maxPods: 99\n"));
    // One that was removed is put back.
    disk.remove_file(Path::new(CONFIG)).unwrap();
    let mut placer = open(&disk, &file_mode()).unwrap();
    assert!(!placer.is_in_place(&disk, None).unwrap());
    placer.place(&disk, None, None, false).unwrap();
    assert_eq!(seen(&disk, &file_mode()).as_deref(), Some("maxPods: 99\n"));
    assert_eq!(disk.look(Path::new(CONFIG)).unwrap().unwrap().mode, 0o600);
}

#[test]
fn more_contents_than_are_remembered() {
    let disk = node();
    let mut placer = open(&disk, &file_mode()).unwrap();
    for pods in 0..40 {
        placer.place(&disk, Some(&format!("maxPods: {pods}\n")), Some(None), false).unwrap();
    }
    assert!(open(&disk, &file_mode()).unwrap().is_in_place(&disk, Some("maxPods: 39\n")).unwrap());
    assert_eq!(disk.content(Path::new("/var/lib/nodecfg/local")).as_deref(), Some(PROVISIONED.as_bytes()));
}

#[test]
fn what_stands_in_the_way_is_told() {
    let disk = MemoryDisk::new();
    let told = |disk: &MemoryDisk, mode: &Placement| open(disk, mode).expect_err("is refused").to_string();
    insta::assert_snapshot!(told(&disk, &file_mode()), @"/var/lib/kubelet/config.yaml does not exist: name the file of the kubelet's --config, or use the mode drop-in");
    insta::assert_snapshot!(told(&disk, &drop_in_mode()), @"/etc/kubernetes/kubelet.conf.d is no folder: make it and name it to the kubelet with --config-dir, or use the mode file");
    disk.put_link(Path::new(CONFIG));
    insta::assert_snapshot!(told(&disk, &file_mode()), @"/var/lib/kubelet/config.yaml is no regular file: nodecfg replaces the kubelet's configuration and follows no link; name the file itself, or use the mode drop-in");
    disk.put_link(&Path::new(CONFIG_DIR).join(DROP_IN_NAME));
    insta::assert_snapshot!(told(&disk, &drop_in_mode()), @"/etc/kubernetes/kubelet.conf.d/90-nodecfg.conf is no regular file: nodecfg replaces the kubelet's configuration and follows no link; name the file itself, or use the mode drop-in");
    // A file that becomes a link later is not replaced either.
    let disk = node();
    let mut placer = open(&disk, &file_mode()).unwrap();
    disk.put_link(Path::new(CONFIG));
    assert!(matches!(placer.place(&disk, Some(FIRST), Some(None), false), Err(PlacementError::NotRegular(_))));
    let disk = node();
    open(&disk, &file_mode()).unwrap().place(&disk, Some(FIRST), Some(None), false).unwrap();
    insta::assert_snapshot!(told(&disk, &drop_in_mode()), @"this agent was run before with the mode file for /var/lib/kubelet/config.yaml and the kubelet is still on what it placed there; run it so again, remove spec.configSource, and change over once the node is on its local configuration");
    Placer::open(&disk, Path::new("/var/lib/nodecfg"), drop_in_mode(), true).unwrap();
    disk.put(Path::new("/var/lib/nodecfg/placement.json"), b"{\"format\": 2}", 0o600);
    assert!(matches!(open(&disk, &file_mode()), Err(PlacementError::Unreadable { .. })));
}

/// Kills an act at each of its operations, with and without a loss of power, and hands on every disk that comes of it.
fn killed_everywhere(
    mode: &Placement,
    prepare: impl Fn(&mut Placer, &MemoryDisk),
    act: impl Fn(&mut Placer, &MemoryDisk) -> bool,
    check: impl Fn(&MemoryDisk, &str),
) {
    let fresh = || {
        let disk = node();
        prepare(&mut open(&disk, mode).unwrap(), &disk);
        disk
    };
    let whole = fresh();
    let mut placer = open(&whole, mode).unwrap();
    let begin = whole.operations();
    assert!(act(&mut placer, &whole));
    let count = whole.operations() - begin;
    for kill in 0..=count {
        for crash in 0..6 {
            let disk = fresh();
            let mut placer = open(&disk, mode).unwrap();
            disk.kill_at(disk.operations() + kill);
            // In a hurry, what comes after the file is in place may fail.
            assert!(act(&mut placer, &disk) || kill < count);
            if crash == 0 {
                disk.heal()
            } else {
                disk.crash(kill * 100 + crash)
            }
            check(&disk, &format!("{mode:?} killed at {kill} of {count}, crash {crash}"));
        }
    }
}

#[test]
fn a_kill_leaves_one_content_or_the_other_and_the_local_one_kept() {
    for mode in modes() {
        let ways: [(Content<'static>, Content<'static>, Option<Content<'static>>, bool); 5] = [
            (None, Some(FIRST), Some(None), false),
            (Some(FIRST), Some(SECOND), Some(None), false),
            (Some(FIRST), Some(SECOND), Some(Some(FIRST)), false),
            (Some(SECOND), Some(FIRST), None, true),
            (Some(FIRST), None, None, false),
        ];
        for (from, to, ready, hurry) in ways {
            killed_everywhere(
                &mode,
                |placer, disk| placer.place(disk, from, Some(to), false).unwrap(),
                |placer, disk| placer.place(disk, to, ready, hurry).is_ok(),
                |disk, when| {
                    let found = seen(disk, &mode);
                    assert!(found.as_deref() == from || found.as_deref() == to, "{when}: {found:?}");
                    let mut placer = open(disk, &mode).unwrap();
                    assert_eq!(placer.is_in_place(disk, to).unwrap(), found.as_deref() == to, "{when}");
                    placer.place(disk, to, ready, hurry).unwrap();
                    disk.crash(1);
                    assert_eq!(seen(disk, &mode).as_deref(), to, "{when}");
                    placer.place(disk, None, None, false).unwrap();
                    assert_eq!(disk.content(Path::new(CONFIG)).as_deref(), Some(PROVISIONED.as_bytes()), "{when}");
                },
            );
        }
    }
}

fn fault() -> impl Strategy<Value = (Fault, u64, u64)> {
    let kinds =
        [Fault::Full, Fault::ReadOnly, Fault::SyncFails, Fault::ShortWrite, Fault::RenameLost, Fault::RenameFails];
    (proptest::sample::select(kinds.to_vec()), 0..100_u64, 1..30_u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Whatever goes wrong: the kubelet's file is one that was asked for or the provisioned one, whole, and it is the last one
    /// asked for if that was said to be so and power did not fail in a hurry.
    #[test]
    fn never_torn(
        drop_in in any::<bool>(),
        faults in proptest::collection::vec(fault(), 0..6),
        asked in proptest::collection::vec((0..4_usize, 0..4_usize, proptest::option::of(any::<u64>())), 1..8),
    ) {
        let contents = [None, Some(FIRST), Some(SECOND), Some("maxPods: 70\n")];
        let mode = if drop_in { drop_in_mode() } else { file_mode() };
        let disk = node();
        for (fault, from, length) in faults {
            disk.inject(fault, from..from + length);
        }
        let mut possible = vec![None];
        let mut placer = open(&disk, &mode).unwrap();
        for (content, ready, crash) in asked {
            let (content, ready) = (contents[content], contents[ready]);
            match placer.place(&disk, content, Some(ready), false) {
                Ok(()) => possible = vec![content],
                Err(_) => possible.push(content),
            }
            if let Some(seed) = crash {
                disk.crash(seed);
                placer = open(&disk, &mode).unwrap();
            }
            let found = seen(&disk, &mode);
            prop_assert!(possible.contains(&found.as_deref()), "{found:?} is none of {possible:?}");
            if !drop_in && found.is_some() {
                let local = disk.content(Path::new("/var/lib/nodecfg/local"));
                prop_assert_eq!(local.as_deref(), Some(PROVISIONED.as_bytes()));
            }
        }
    }
}
