//! Tests of both placement modes: kills, disk faults, and files from other programs.

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

/// Disk of a provisioned node.
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

/// Content that the agent placed, as the kubelet reads it. `None` is the provisioned configuration.
fn read_by_kubelet(disk: &MemoryDisk, placement: &Placement) -> Option<String> {
    let text = |path: &Path| disk.content(path).map(|content| String::from_utf8(content.to_vec()).unwrap());
    match placement {
        Placement::File { config } => text(config).filter(|text| text != PROVISIONED),
        Placement::DropIn { config_dir, .. } => text(&config_dir.join(DROP_IN_NAME)),
    }
}

#[test]
fn places_and_restores_configurations() {
    for mode in modes() {
        let disk = node();
        let mut placer = open(&disk, &mode).unwrap();
        assert!(placer.is_in_place(&disk, None).unwrap());
        placer.place(&disk, Some(FIRST), Some(None), false).unwrap();
        assert_eq!(read_by_kubelet(&disk, &mode).as_deref(), Some(FIRST));
        let mut placer = open(&disk, &mode).unwrap();
        assert!(placer.is_in_place(&disk, Some(FIRST)).unwrap() && !placer.is_in_place(&disk, None).unwrap());
        placer.place(&disk, Some(SECOND), Some(Some(FIRST)), false).unwrap();
        placer.place(&disk, Some(FIRST), None, true).unwrap();
        assert_eq!(read_by_kubelet(&disk, &mode).as_deref(), Some(FIRST));
        placer.place(&disk, None, None, false).unwrap();
        assert_eq!(read_by_kubelet(&disk, &mode), None);
        assert_eq!(disk.content(Path::new(CONFIG)).as_deref(), Some(PROVISIONED.as_bytes()));
        assert_eq!(disk.stat(Path::new(CONFIG)).unwrap().unwrap().mode, 0o640);
        let left: Vec<String> = disk.files().into_keys().filter(|path| path.contains("/.")).collect();
        assert_eq!(left, [""; 0], "{mode:?}");
    }
}

#[test]
fn returns_effective_configuration() {
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
fn rolls_back_on_full_or_unsynced_disk() {
    for mode in modes() {
        for good in [None, Some(FIRST)] {
            for fault in [Fault::Full, Fault::SyncFails, Fault::ShortWrite] {
                let disk = node();
                let mut placer = open(&disk, &mode).unwrap();
                placer.place(&disk, good, None, false).unwrap();
                placer.place(&disk, Some(SECOND), Some(good), false).unwrap();
                disk.inject(fault, 0..u64::MAX);
                open(&disk, &mode).unwrap().place(&disk, good, None, true).unwrap();
                assert_eq!(read_by_kubelet(&disk, &mode).as_deref(), good, "{mode:?} {fault:?}");
                // A second rollback, as after a kill.
                open(&disk, &mode).unwrap().place(&disk, good, None, true).unwrap();
                // No trial begins on such a disk.
                placer.place(&disk, Some("maxPods: 70\n"), Some(good), false).unwrap_err();
                assert_eq!(read_by_kubelet(&disk, &mode).as_deref(), good, "{mode:?} {fault:?}");
            }
        }
    }
}

#[test]
fn leaves_read_only_disk_unchanged() {
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
fn adopts_changed_provisioned_file() {
    let disk = node();
    let mut placer = open(&disk, &file_mode()).unwrap();
    placer.place(&disk, Some(FIRST), Some(None), false).unwrap();
    disk.put(Path::new(CONFIG), b"maxPods: 99\n", 0o600);
    let mut placer = open(&disk, &file_mode()).unwrap();
    assert!(!placer.is_in_place(&disk, Some(FIRST)).unwrap());
    assert!(placer.is_in_place(&disk, None).unwrap());
    placer.place(&disk, Some(FIRST), Some(None), false).unwrap();
    assert_eq!(read_by_kubelet(&disk, &file_mode()).as_deref(), Some(FIRST));
    placer.place(&disk, None, None, true).unwrap();
    assert_eq!(read_by_kubelet(&disk, &file_mode()).as_deref(), Some("maxPods: 99\n"));
    // A removed file is restored.
    disk.remove_file(Path::new(CONFIG)).unwrap();
    let mut placer = open(&disk, &file_mode()).unwrap();
    assert!(!placer.is_in_place(&disk, None).unwrap());
    placer.place(&disk, None, None, false).unwrap();
    assert_eq!(read_by_kubelet(&disk, &file_mode()).as_deref(), Some("maxPods: 99\n"));
    assert_eq!(disk.stat(Path::new(CONFIG)).unwrap().unwrap().mode, 0o600);
}

#[test]
fn keeps_local_file_beyond_record_limit() {
    let disk = node();
    let mut placer = open(&disk, &file_mode()).unwrap();
    for pods in 0..40 {
        placer.place(&disk, Some(&format!("maxPods: {pods}\n")), Some(None), false).unwrap();
    }
    assert!(open(&disk, &file_mode()).unwrap().is_in_place(&disk, Some("maxPods: 39\n")).unwrap());
    assert_eq!(disk.content(Path::new("/var/lib/nodecfg/local")).as_deref(), Some(PROVISIONED.as_bytes()));
}

#[test]
fn reports_placement_errors() {
    let disk = MemoryDisk::new();
    let open_error = |disk: &MemoryDisk, mode: &Placement| open(disk, mode).expect_err("is refused").to_string();
    insta::assert_snapshot!(open_error(&disk, &file_mode()), @"/var/lib/kubelet/config.yaml does not exist: name the file of the kubelet's --config, or use the mode drop-in");
    insta::assert_snapshot!(open_error(&disk, &drop_in_mode()), @"/etc/kubernetes/kubelet.conf.d is not a folder: create it and set it as the kubelet's --config-dir, or use the mode file");
    disk.put_link(Path::new(CONFIG));
    insta::assert_snapshot!(open_error(&disk, &file_mode()), @"/var/lib/kubelet/config.yaml is not a regular file, and nodecfg follows no links when it replaces the kubelet's configuration: name the file itself, or use the mode drop-in");
    disk.put_link(&Path::new(CONFIG_DIR).join(DROP_IN_NAME));
    insta::assert_snapshot!(open_error(&disk, &drop_in_mode()), @"/etc/kubernetes/kubelet.conf.d/90-nodecfg.conf is not a regular file, and nodecfg follows no links when it replaces the kubelet's configuration: name the file itself, or use the mode drop-in");
    // A file that becomes a link later is not replaced either.
    let disk = node();
    let mut placer = open(&disk, &file_mode()).unwrap();
    disk.put_link(Path::new(CONFIG));
    assert!(matches!(placer.place(&disk, Some(FIRST), Some(None), false), Err(PlacementError::NotRegular(_))));
    let disk = node();
    open(&disk, &file_mode()).unwrap().place(&disk, Some(FIRST), Some(None), false).unwrap();
    insta::assert_snapshot!(open_error(&disk, &drop_in_mode()), @"this agent ran before with the mode file for /var/lib/kubelet/config.yaml, and the kubelet still uses that configuration: run the agent with the mode file for /var/lib/kubelet/config.yaml again, remove spec.configSource, and switch once the node runs its local configuration");
    Placer::open(&disk, Path::new("/var/lib/nodecfg"), drop_in_mode(), true).unwrap();
    disk.put(Path::new("/var/lib/nodecfg/placement.json"), b"{\"format\": 2}", 0o600);
    assert!(matches!(open(&disk, &file_mode()), Err(PlacementError::Unreadable { .. })));
}

/// Kills `act` at each of its operations, with and without power loss, and calls `check` on every resulting disk.
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
            // During a rollback, steps after the replacement may fail.
            assert!(act(&mut placer, &disk) || kill < count);
            if crash == 0 {
                disk.clear_faults()
            } else {
                disk.crash(kill * 100 + crash)
            }
            check(&disk, &format!("{mode:?} killed at {kill} of {count}, crash {crash}"));
        }
    }
}

#[test]
fn killed_placement_keeps_old_or_new_content() {
    for mode in modes() {
        let ways: [(Content<'static>, Content<'static>, Option<Content<'static>>, bool); 5] = [
            (None, Some(FIRST), Some(None), false),
            (Some(FIRST), Some(SECOND), Some(None), false),
            (Some(FIRST), Some(SECOND), Some(Some(FIRST)), false),
            (Some(SECOND), Some(FIRST), None, true),
            (Some(FIRST), None, None, false),
        ];
        for (from, to, fallback, rollback) in ways {
            killed_everywhere(
                &mode,
                |placer, disk| placer.place(disk, from, Some(to), false).unwrap(),
                |placer, disk| placer.place(disk, to, fallback, rollback).is_ok(),
                |disk, when| {
                    let found = read_by_kubelet(disk, &mode);
                    assert!(found.as_deref() == from || found.as_deref() == to, "{when}: {found:?}");
                    let mut placer = open(disk, &mode).unwrap();
                    assert_eq!(placer.is_in_place(disk, to).unwrap(), found.as_deref() == to, "{when}");
                    placer.place(disk, to, fallback, rollback).unwrap();
                    disk.crash(1);
                    assert_eq!(read_by_kubelet(disk, &mode).as_deref(), to, "{when}");
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

    /// The kubelet's file is complete, and is the provisioned one or a requested one. It is the last requested one if
    /// that placement succeeded.
    #[test]
    fn never_writes_partial_content(
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
        for (content, fallback, crash) in asked {
            let (content, fallback) = (contents[content], contents[fallback]);
            match placer.place(&disk, content, Some(fallback), false) {
                Ok(()) => possible = vec![content],
                Err(_) => possible.push(content),
            }
            if let Some(seed) = crash {
                disk.crash(seed);
                placer = open(&disk, &mode).unwrap();
            }
            let found = read_by_kubelet(&disk, &mode);
            prop_assert!(possible.contains(&found.as_deref()), "{found:?} is none of {possible:?}");
            if !drop_in && found.is_some() {
                let local = disk.content(Path::new("/var/lib/nodecfg/local"));
                prop_assert_eq!(local.as_deref(), Some(PROVISIONED.as_bytes()));
            }
        }
    }
}
