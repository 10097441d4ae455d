//! Tests of both activations and placements: kills, disk faults, and files from other programs.

use proptest::prelude::*;

use super::*;
use crate::disk::memory::{Fault, MemoryDisk};

pub(super) const CONFIG: &str = "/var/lib/kubelet/config.yaml";
pub(super) const CONFIG_DIR: &str = "/etc/kubernetes/kubelet.conf.d";
pub(super) const FOLDER: &str = "/var/lib/nodecfg";
pub(super) const OWN: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\n";
pub(super) const FIRST: &str = "maxPods: 50\n";
pub(super) const SECOND: &str = "maxPods: 60\nkind: KubeletConfiguration\n";

pub(super) fn file() -> Activation {
    Activation::File { config: PathBuf::from(CONFIG) }
}

pub(super) fn drop_in() -> Activation {
    Activation::DropIn { config_dir: PathBuf::from(CONFIG_DIR), config: Some(PathBuf::from(CONFIG)) }
}

pub(super) fn replace(text: &str) -> Content<'_> {
    Some(Reviewed { text, placement: Placement::Replace })
}

pub(super) fn overlay(text: &str) -> Content<'_> {
    Some(Reviewed { text, placement: Placement::Overlay })
}

/// What an agent can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) activation: Activation,
    pub(super) placement: Placement,
}

impl Way {
    pub(super) fn all() -> [Self; 3] {
        [(file(), Placement::Replace), (file(), Placement::Overlay), (drop_in(), Placement::Overlay)]
            .map(|(activation, placement)| Self { activation, placement })
    }

    pub(super) fn content<'a>(&self, text: Option<&'a str>) -> Content<'a> {
        text.map(|text| Reviewed { text, placement: self.placement })
    }

    fn fallback<'a>(&self, text: Option<Option<&'a str>>) -> Option<Content<'a>> {
        text.map(|text| self.content(text))
    }

    /// Text that the kubelet gets of a reviewed one over this own configuration.
    pub(super) fn text_over(&self, own: &str, text: &str) -> String {
        match (&self.activation, self.placement) {
            (Activation::File { .. }, Placement::Overlay) => {
                content::merged_text(&Underneath::file(own.to_owned()), Some(text), None).unwrap()
            }
            _ => text.to_owned(),
        }
    }

    fn text(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.text_over(OWN, text))
    }

    pub(super) fn open(&self, disk: &MemoryDisk) -> Placer {
        open(disk, &self.activation).unwrap()
    }

    /// Text that the agent placed, as the kubelet reads it. `None` is the own configuration.
    pub(super) fn read_by_kubelet(&self, disk: &MemoryDisk) -> Option<String> {
        let text = |path: &Path| disk.content(path).map(|content| String::from_utf8(content.to_vec()).unwrap());
        match &self.activation {
            Activation::File { config } => text(config).filter(|text| text != OWN),
            Activation::DropIn { config_dir, .. } => text(&config_dir.join(DROP_IN_NAME)),
        }
    }
}

/// Disk of a provisioned node.
pub(super) fn node() -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.put(Path::new(CONFIG), OWN.as_bytes(), 0o640);
    disk.put(&Path::new(CONFIG_DIR).join("10-image.conf"), b"podPidsLimit: 5\n", 0o644);
    disk.put(&Path::new(CONFIG_DIR).join("99-late.conf"), b"podPidsLimit: 6\n", 0o644);
    disk
}

pub(super) fn open(disk: &MemoryDisk, activation: &Activation) -> Result<Placer, PlacementError> {
    Placer::open(disk, Path::new(FOLDER), activation.clone(), false)
}

pub(super) fn kept(disk: &MemoryDisk) -> Option<String> {
    let content = disk.content(&Path::new(FOLDER).join(LOCAL));
    content.map(|content| String::from_utf8(content.to_vec()).unwrap())
}

#[test]
fn places_and_restores_configurations() {
    for way in Way::all() {
        let disk = node();
        let mut placer = way.open(&disk);
        let (first, second) = (way.content(Some(FIRST)), way.content(Some(SECOND)));
        assert!(placer.is_in_place(&disk, None).unwrap());
        let placed = placer.place(&disk, first, Some(None), false).unwrap();
        assert_eq!(way.read_by_kubelet(&disk), way.text(Some(FIRST)));
        assert_eq!(placed, placer.found_digest(&disk).unwrap());
        let mut placer = way.open(&disk);
        assert_eq!(placed, placer.digest(&disk, first).unwrap());
        assert!(placer.is_in_place(&disk, first).unwrap() && !placer.is_in_place(&disk, None).unwrap());
        placer.place(&disk, second, Some(first), false).unwrap();
        placer.place(&disk, first, None, true).unwrap();
        assert_eq!(way.read_by_kubelet(&disk), way.text(Some(FIRST)));
        placer.place(&disk, None, None, false).unwrap();
        assert_eq!(way.read_by_kubelet(&disk), None);
        assert_eq!(disk.content(Path::new(CONFIG)).as_deref(), Some(OWN.as_bytes()));
        assert_eq!(disk.stat(Path::new(CONFIG)).unwrap().unwrap().mode, 0o640);
        let left: Vec<String> = disk.files().into_keys().filter(|path| path.contains("/.")).collect();
        assert_eq!(left, [""; 0], "{way:?}");
    }
}

#[test]
fn returns_effective_configuration() {
    let disk = node();
    let placer = open(&disk, &drop_in()).unwrap();
    let under = placer.underneath(&disk, Placement::Overlay).unwrap();
    assert_eq!((under.config, under.drop_ins), (Some(OWN.to_owned()), vec!["podPidsLimit: 5\n".to_owned()]));
    let header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    assert_eq!(
        placer.effective(&disk, overlay(FIRST), None).unwrap(),
        format!("{header}maxPods: 50\npodPidsLimit: 5\n")
    );
    assert_eq!(placer.effective(&disk, None, None).unwrap(), format!("{header}maxPods: 110\npodPidsLimit: 5\n"));
    let mut placer = open(&disk, &file()).unwrap();
    assert_eq!(placer.effective(&disk, None, None).unwrap(), OWN);
    assert_eq!(placer.effective(&disk, overlay("podPidsLimit: 7\n"), None).unwrap(), format!("{OWN}podPidsLimit: 7\n"));
    placer.place(&disk, replace(FIRST), Some(None), false).unwrap();
    assert_eq!(placer.effective(&disk, None, None).unwrap(), OWN);
    assert_eq!(placer.effective(&disk, replace(SECOND), None).unwrap(), SECOND);
    assert_eq!(placer.effective(&disk, overlay("podPidsLimit: 7\n"), None).unwrap(), format!("{OWN}podPidsLimit: 7\n"));
    assert_eq!(placer.underneath(&disk, Placement::Overlay).unwrap(), Underneath::file(OWN.to_owned()));
    assert_eq!(placer.underneath(&disk, Placement::Replace).unwrap(), Underneath::default());
}

/// A rollback restores text and placement, whichever the failed one had.
#[test]
fn changes_the_placement() {
    let disk = node();
    let mut placer = open(&disk, &file()).unwrap();
    let text = |disk: &MemoryDisk| String::from_utf8(disk.content(Path::new(CONFIG)).unwrap().to_vec()).unwrap();
    placer.place(&disk, replace(FIRST), Some(None), false).unwrap();
    placer.place(&disk, overlay(FIRST), Some(replace(FIRST)), false).unwrap();
    assert_eq!(text(&disk), OWN.replace("110", "50"));
    assert!(placer.is_in_place(&disk, overlay(FIRST)).unwrap() && !placer.is_in_place(&disk, replace(FIRST)).unwrap());
    placer.place(&disk, replace(FIRST), None, true).unwrap();
    assert_eq!(text(&disk), FIRST);
    assert_eq!(kept(&disk).as_deref(), Some(OWN));
}

/// The kubelet would merge a drop-in over its other files.
#[test]
fn refuses_to_replace_by_a_drop_in() {
    let disk = node();
    let before = disk.files();
    let mut placer = open(&disk, &drop_in()).unwrap();
    insta::assert_snapshot!(placer.place(&disk, replace(FIRST), Some(None), false).unwrap_err(), @"placement replace needs an agent with --activation file, because the kubelet merges drop-ins over its other files");
    assert!(matches!(placer.place(&disk, None, Some(replace(FIRST)), false), Err(PlacementError::NeedsFile)));
    assert_eq!(disk.files(), before);
}

#[test]
fn rolls_back_on_full_or_unsynced_disk() {
    for way in Way::all() {
        for good in [None, Some(FIRST)] {
            for fault in [Fault::Full, Fault::SyncFails, Fault::ShortWrite] {
                let disk = node();
                let mut placer = way.open(&disk);
                let (content, good_text) = (way.content(good), way.text(good));
                placer.place(&disk, content, None, false).unwrap();
                placer.place(&disk, way.content(Some(SECOND)), Some(content), false).unwrap();
                disk.inject(fault, 0..u64::MAX);
                way.open(&disk).place(&disk, content, None, true).unwrap();
                assert_eq!(way.read_by_kubelet(&disk), good_text, "{way:?} {fault:?}");
                // A second rollback, as after a kill.
                way.open(&disk).place(&disk, content, None, true).unwrap();
                // No trial begins on such a disk.
                placer.place(&disk, way.content(Some("maxPods: 70\n")), Some(content), false).unwrap_err();
                assert_eq!(way.read_by_kubelet(&disk), good_text, "{way:?} {fault:?}");
            }
        }
    }
}

#[test]
fn leaves_read_only_disk_unchanged() {
    for way in Way::all() {
        let disk = node();
        let before = disk.files();
        disk.inject(Fault::ReadOnly, 0..u64::MAX);
        way.open(&disk).place(&disk, way.content(Some(FIRST)), Some(None), false).unwrap_err();
        assert_eq!(disk.files(), before);
    }
}

#[test]
fn keeps_own_file_beyond_record_limit() {
    for way in Way::all().into_iter().filter(|way| way.activation == file()) {
        let disk = node();
        let mut placer = way.open(&disk);
        for pods in 0..40 {
            placer.place(&disk, way.content(Some(&format!("maxPods: {pods}\n"))), Some(None), false).unwrap();
        }
        assert!(way.open(&disk).is_in_place(&disk, way.content(Some("maxPods: 39\n"))).unwrap());
        assert_eq!(kept(&disk).as_deref(), Some(OWN));
    }
}

#[test]
fn reports_placement_errors() {
    let disk = MemoryDisk::new();
    let open_error =
        |disk: &MemoryDisk, activation: &Activation| open(disk, activation).expect_err("is refused").to_string();
    insta::assert_snapshot!(open_error(&disk, &file()), @"/var/lib/kubelet/config.yaml does not exist: name the file of the kubelet's --config, or use --activation drop-in");
    insta::assert_snapshot!(open_error(&disk, &drop_in()), @"/etc/kubernetes/kubelet.conf.d is not a folder: create it and set it as the kubelet's --config-dir, or use --activation file");
    disk.put_link(Path::new(CONFIG));
    // An agent that stopped here could not report it.
    let linked = open(&disk, &file()).unwrap();
    assert!(matches!(linked.effective(&disk, None, None), Err(PlacementError::NotRegular(_))));
    disk.put_link(&Path::new(CONFIG_DIR).join(DROP_IN_NAME));
    insta::assert_snapshot!(open_error(&disk, &drop_in()), @"/etc/kubernetes/kubelet.conf.d/90-nodecfg.conf is not a regular file, and nodecfg follows no links when it replaces the kubelet's configuration: name the file itself, or use --activation drop-in");
    // A file that becomes a link later is not replaced either.
    let disk = node();
    let mut placer = open(&disk, &file()).unwrap();
    disk.put_link(Path::new(CONFIG));
    assert!(matches!(placer.place(&disk, replace(FIRST), Some(None), false), Err(PlacementError::NotRegular(_))));
    let disk = node();
    open(&disk, &file()).unwrap().place(&disk, replace(FIRST), Some(None), false).unwrap();
    insta::assert_snapshot!(open_error(&disk, &drop_in()), @"this agent ran before with --activation file for /var/lib/kubelet/config.yaml, and the kubelet still uses that configuration: run the agent with --activation file for /var/lib/kubelet/config.yaml again, remove spec.configSource, and switch once the node runs its local configuration");
    Placer::open(&disk, Path::new(FOLDER), drop_in(), true).unwrap();
    disk.put(&Path::new(FOLDER).join("placement.json"), b"{\"format\": 2}", 0o600);
    assert!(matches!(open(&disk, &file()), Err(PlacementError::Unreadable { .. })));
}

/// Kills `act` at each of its operations, with and without power loss, and calls `check` on every resulting disk.
pub(super) fn killed_everywhere(
    way: &Way,
    prepare: impl Fn(&mut Placer, &MemoryDisk),
    act: impl Fn(&mut Placer, &MemoryDisk) -> bool,
    check: impl Fn(&MemoryDisk, &str),
) {
    let fresh = || {
        let disk = node();
        prepare(&mut way.open(&disk), &disk);
        disk
    };
    let whole = fresh();
    let mut placer = way.open(&whole);
    let begin = whole.operations();
    assert!(act(&mut placer, &whole));
    let count = whole.operations() - begin;
    for kill in 0..=count {
        for crash in 0..6 {
            let disk = fresh();
            let mut placer = way.open(&disk);
            disk.kill_at(disk.operations() + kill);
            // During a rollback, steps after the replacement may fail.
            assert!(act(&mut placer, &disk) || kill < count);
            if crash == 0 {
                disk.clear_faults()
            } else {
                disk.crash(kill * 100 + crash)
            }
            check(&disk, &format!("{way:?} killed at {kill} of {count}, crash {crash}"));
        }
    }
}

#[test]
fn killed_placement_keeps_old_or_new_content() {
    type Case = (Option<&'static str>, Option<&'static str>, Option<Option<&'static str>>, bool);
    for way in Way::all() {
        let cases: [Case; 5] = [
            (None, Some(FIRST), Some(None), false),
            (Some(FIRST), Some(SECOND), Some(None), false),
            (Some(FIRST), Some(SECOND), Some(Some(FIRST)), false),
            (Some(SECOND), Some(FIRST), None, true),
            (Some(FIRST), None, None, false),
        ];
        for (from, to, fallback, rollback) in cases {
            let (from_text, to_text) = (way.text(from), way.text(to));
            let (from, to, fallback) = (way.content(from), way.content(to), way.fallback(fallback));
            killed_everywhere(
                &way,
                |placer, disk| drop(placer.place(disk, from, Some(to), false).unwrap()),
                |placer, disk| placer.place(disk, to, fallback, rollback).is_ok(),
                |disk, when| {
                    let found = way.read_by_kubelet(disk);
                    assert!(found == from_text || found == to_text, "{when}: {found:?}");
                    let mut placer = way.open(disk);
                    assert_eq!(placer.is_in_place(disk, to).unwrap(), found == to_text, "{when}");
                    placer.place(disk, to, fallback, rollback).unwrap();
                    disk.crash(1);
                    assert_eq!(way.read_by_kubelet(disk), to_text, "{when}");
                    placer.place(disk, None, None, false).unwrap();
                    assert_eq!(disk.content(Path::new(CONFIG)).as_deref(), Some(OWN.as_bytes()), "{when}");
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

    /// The kubelet's file is complete, and is the own one or a requested one. It is the last requested one if that
    /// placement succeeded.
    #[test]
    fn never_writes_partial_content(
        way in 0..3_usize,
        faults in proptest::collection::vec(fault(), 0..6),
        asked in proptest::collection::vec((0..4_usize, 0..4_usize, proptest::option::of(any::<u64>())), 1..8),
    ) {
        let contents = [None, Some(FIRST), Some(SECOND), Some("maxPods: 70\n")];
        let [one, two, three] = Way::all();
        let way = [one, two, three][way].clone();
        let disk = node();
        for (fault, from, length) in faults {
            disk.inject(fault, from..from + length);
        }
        let mut possible = vec![None];
        let mut placer = way.open(&disk);
        for (content, fallback, crash) in asked {
            let (content, fallback) = (contents[content], contents[fallback]);
            match placer.place(&disk, way.content(content), Some(way.content(fallback)), false) {
                Ok(_) => possible = vec![way.text(content)],
                Err(_) => possible.push(way.text(content)),
            }
            if let Some(seed) = crash {
                disk.crash(seed);
                placer = way.open(&disk);
            }
            let found = way.read_by_kubelet(&disk);
            prop_assert!(possible.contains(&found), "{found:?} is none of {possible:?}");
            if way.activation == file() && found.is_some() {
                let kept = kept(&disk);
                prop_assert_eq!(kept.as_deref(), Some(OWN));
            }
        }
    }
}
