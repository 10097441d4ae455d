//! Tests of a node's own file that other programs write: while the agent runs, in parts, or damaged.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::tests::{
    CONFIG, FIRST, FOLDER, OWN, SECOND, Way, file, kept, killed_everywhere, node, open, overlay, replace,
};
use super::*;
use crate::disk::memory::{Fault, MemoryDisk};

/// As `kubeadm upgrade` does.
#[test]
fn adopts_changed_own_file() {
    let newer = OWN.replace("maxPods: 110", "podPidsLimit: 9");
    for way in Way::all().into_iter().filter(|way| way.activation == file()) {
        let disk = node();
        let first = way.content(Some(FIRST));
        let placed = way.open(&disk).place(&disk, first, Some(None), false).unwrap();
        disk.put(Path::new(CONFIG), newer.as_bytes(), 0o600);
        let mut placer = way.open(&disk);
        assert!(!placer.is_in_place(&disk, first).unwrap());
        assert!(placer.is_in_place(&disk, None).unwrap());
        assert_eq!(kept(&disk).as_deref(), Some(OWN), "a comparison writes nothing");
        assert_eq!(placer.effective(&disk, None, None).unwrap(), newer);
        let is_same_text = placer.digest(&disk, first).unwrap() == placed;
        assert_eq!(is_same_text, way.placement == Placement::Replace);
        placer.place(&disk, first, Some(None), false).unwrap();
        assert_eq!(kept(&disk).as_ref(), Some(&newer));
        assert_eq!(way.read_by_kubelet(&disk), Some(way.text_over(&newer, FIRST)));
        placer.place(&disk, None, None, true).unwrap();
        assert_eq!(way.read_by_kubelet(&disk).as_ref(), Some(&newer));
        // A removed file is restored.
        disk.remove_file(Path::new(CONFIG)).unwrap();
        let mut placer = way.open(&disk);
        assert!(!placer.is_in_place(&disk, None).unwrap());
        placer.place(&disk, None, None, false).unwrap();
        assert_eq!(way.read_by_kubelet(&disk).as_ref(), Some(&newer));
        assert_eq!(disk.stat(Path::new(CONFIG)).unwrap().unwrap().mode, 0o600);
    }
}

/// The fallback was prepared over the file that another program has replaced since.
#[test]
fn rolls_back_over_a_changed_own_file() {
    let newer = OWN.replace("maxPods: 110", "podPidsLimit: 9");
    let disk = node();
    let mut placer = open(&disk, &file()).unwrap();
    placer.place(&disk, overlay(FIRST), Some(None), false).unwrap();
    placer.place(&disk, overlay(SECOND), Some(overlay(FIRST)), false).unwrap();
    disk.put(Path::new(CONFIG), newer.as_bytes(), 0o644);
    placer.place(&disk, overlay(FIRST), None, true).unwrap();
    let text = String::from_utf8(disk.content(Path::new(CONFIG)).unwrap().to_vec()).unwrap();
    assert_eq!(text, content::merged_text(&Underneath::file(newer.clone()), Some(FIRST), None).unwrap());
    assert_eq!(kept(&disk).as_ref(), Some(&newer));
}

/// What another program leaves in the kubelet's file, and whether a configuration can replace it.
#[test]
fn merges_over_no_damaged_file() {
    let large = format!("{OWN}staticPodPath: /{}\n", "x".repeat(5 << 20));
    let almost = format!("{OWN}staticPodPath: /{}\n", "x".repeat(2 << 20));
    let cut = "apiVersion: kubelet.config.k8s.io/v1beta1\nclusterDNS:\n- 10.96.0.10\n";
    for (own, error, replaceable) in [
        ("", "cannot be read as a KubeletConfiguration", true),
        ("maxPods: [1\nhunter2", "cannot be read as a KubeletConfiguration", true),
        (cut, "cannot be read as a KubeletConfiguration", true),
        (large.as_str(), "is larger than", false),
        (almost.as_str(), "cannot be read as a KubeletConfiguration", true),
    ] {
        let disk = node();
        disk.put(Path::new(CONFIG), own.as_bytes(), 0o644);
        let before = disk.files();
        let mut placer = Placer { activation: file(), folder: PathBuf::from(FOLDER), record: Record::default() };
        let text = "maxPods: 50\nkind: KubeletConfiguration\nstaticPodURL: http://localhost/0123456789\n";
        for found in [
            placer.place(&disk, overlay(text), Some(None), false).unwrap_err(),
            placer.place(&disk, None, Some(overlay(text)), false).unwrap_err(),
        ] {
            let found = found.to_string();
            assert!(found.contains(error) && !found.contains("hunter2"), "{found}");
        }
        assert_eq!(disk.files(), before);
        assert_eq!(placer.place(&disk, replace(text), Some(None), false).is_ok(), replaceable);
    }
    let disk = node();
    disk.put(Path::new(CONFIG), &[0xff, 0xfe], 0o644);
    let mut placer = open(&disk, &file()).unwrap();
    assert!(matches!(placer.place(&disk, overlay(FIRST), Some(None), false), Err(PlacementError::NotUtf8(_))));
}

/// Disk on which another program writes the kubelet's file after this number of reads by the agent.
struct ChangingDisk {
    disk: MemoryDisk,
    reads: AtomicUsize,
    written: String,
}

impl Disk for ChangingDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let found = self.disk.read(path, limit);
        if path == Path::new(CONFIG) && self.reads.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.disk.put(path, self.written.as_bytes(), 0o644);
        }
        found
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        self.disk.write(path, content, mode)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.disk.sync(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_folder(path)
    }

    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.disk.make_folder(path, mode)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn changed_at(&self, path: &Path) -> io::Result<Option<jiff::Timestamp>> {
        self.disk.changed_at(path)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Entry>> {
        self.disk.stat(path)
    }
}

/// Another program may write the kubelet's file in two parts, and the agent may read the first one.
#[test]
fn keeps_no_part_of_a_file_that_changes() {
    for (reads, kept_text) in [(1, None), (2, Some(OWN))] {
        let whole = OWN.replace("110", "120");
        let disk = node();
        let changing = ChangingDisk { disk: disk.clone(), reads: AtomicUsize::new(reads), written: whole.clone() };
        let mut placer = open(&disk, &file()).unwrap();
        let error = placer.place(&changing, overlay(FIRST), Some(None), false).unwrap_err();
        assert!(matches!(&error, PlacementError::Changing(_)), "{error}");
        assert_eq!(kept(&disk).as_deref(), kept_text);
        assert_eq!(disk.content(Path::new(CONFIG)).as_deref(), Some(whole.as_bytes()));
        placer.place(&changing, overlay(FIRST), Some(None), false).unwrap();
        assert_eq!(kept(&disk).as_ref(), Some(&whole));
    }
}

/// The own file that another program wrote is the kubelet's, or kept, at any moment.
#[test]
fn killed_placement_keeps_a_rewritten_own_file() {
    let newer = OWN.replace("maxPods: 110", "podPidsLimit: 9");
    for way in Way::all().into_iter().filter(|way| way.activation == file()) {
        let merged = way.text_over(&newer, SECOND);
        let second = way.content(Some(SECOND));
        killed_everywhere(
            &way,
            |placer, disk| {
                placer.place(disk, way.content(Some(FIRST)), Some(None), false).unwrap();
                disk.put(Path::new(CONFIG), newer.as_bytes(), 0o644);
            },
            |placer, disk| placer.place(disk, second, Some(None), false).is_ok(),
            |disk, when| {
                let found = way.read_by_kubelet(disk);
                let is_kept = kept(disk).as_ref() == Some(&newer);
                let is_there = found.as_ref() == Some(&newer);
                assert!(is_there || (is_kept && found.as_ref() == Some(&merged)), "{when}: {found:?}");
                way.open(disk).place(disk, second, Some(None), false).unwrap();
                disk.crash(1);
                assert_eq!(way.read_by_kubelet(disk).as_ref(), Some(&merged), "{when}");
                way.open(disk).place(disk, None, None, true).unwrap();
                assert_eq!(way.read_by_kubelet(disk).as_ref(), Some(&newer), "{when}");
            },
        );
    }
}

/// Files in the agent's folder.
fn files_kept(disk: &MemoryDisk) -> Vec<String> {
    disk.files().into_keys().filter(|path| path.starts_with(FOLDER)).collect()
}

#[test]
fn killed_removal_of_what_is_kept_can_be_repeated() {
    for way in Way::all().into_iter().filter(|way| way.activation == file()) {
        killed_everywhere(
            &way,
            |placer, disk| {
                placer.place(disk, way.content(Some(FIRST)), Some(None), false).unwrap();
                placer.place(disk, None, None, true).unwrap();
            },
            |placer, disk| placer.remove_kept(disk).is_ok(),
            |disk, when| {
                assert_eq!(disk.content(Path::new(CONFIG)).as_deref(), Some(OWN.as_bytes()), "{when}");
                let mut placer = way.open(disk);
                assert!(placer.is_in_place(disk, None).unwrap(), "{when}");
                placer.remove_kept(disk).unwrap();
                disk.crash(1);
                way.open(disk).remove_kept(disk).unwrap();
                assert_eq!(files_kept(disk), [""; 0], "{when}");
                // Nothing is from the agent now, not even a text that it has placed before.
                disk.put(Path::new(CONFIG), way.text_over(OWN, FIRST).as_bytes(), 0o644);
                way.open(disk).place(disk, way.content(Some(SECOND)), Some(None), false).unwrap();
                assert_eq!(kept(disk), Some(way.text_over(OWN, FIRST)), "{when}");
            },
        );
    }
}

/// The kept file may be the only copy.
#[test]
fn removes_nothing_that_is_not_durably_the_kubelets_file() {
    let (disk, config) = (node(), Path::new(CONFIG));
    let mut placer = open(&disk, &file()).unwrap();
    placer.place(&disk, replace(FIRST), Some(None), false).unwrap();
    let before = files_kept(&disk);
    assert_eq!(before.len(), 2);
    // The agent's text, a damaged one, and none.
    for text in [Some(FIRST), Some(""), None] {
        disk.remove_file(config).unwrap();
        text.iter().for_each(|text| disk.put(config, text.as_bytes(), 0o644));
        placer.remove_kept(&disk).unwrap();
        assert_eq!(files_kept(&disk), before, "{text:?}");
    }
    placer.place(&disk, None, None, false).unwrap();
    disk.inject(Fault::SyncFails, 0..u64::MAX);
    placer.remove_kept(&disk).unwrap_err();
    assert_eq!(files_kept(&disk), before);
    disk.clear_faults();
    placer.remove_kept(&disk).unwrap();
    assert_eq!(files_kept(&disk), [""; 0]);
}
