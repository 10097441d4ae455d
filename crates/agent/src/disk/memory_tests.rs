//! Tests of the disk in memory: which content a crash and each fault may lose.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::durable;
use super::memory::{Fault, MemoryDisk};
use super::{Disk, EntryKind};

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// Possible contents of a file after a crash, over many seeds.
fn after_crashes(prepare: impl Fn(&MemoryDisk), file: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..64)
        .map(|seed| {
            let disk = MemoryDisk::new();
            prepare(&disk);
            disk.crash(seed);
            disk.content(path(file)).map(|content| content.to_vec())
        })
        .collect()
}

fn held(texts: &[Option<&str>]) -> BTreeSet<Option<Vec<u8>>> {
    texts.iter().map(|text| text.map(|text| text.as_bytes().to_vec())).collect()
}

#[test]
fn loses_content_and_name_independently() {
    let written = after_crashes(
        |disk| {
            disk.put(path("/a/f"), b"old", 0o600);
            disk.write(path("/a/f"), b"new!", 0o600).unwrap();
        },
        "/a/f",
    );
    assert!(written.is_superset(&held(&[Some("old"), Some("new!"), Some(""), Some("ne")])), "{written:?}");
    assert!(!written.contains(&None));
    let unnamed = after_crashes(
        |disk| {
            disk.put(path("/a/other"), b"", 0o600);
            disk.write(path("/a/f"), b"new", 0o600).unwrap();
            disk.sync(path("/a/f")).unwrap();
        },
        "/a/f",
    );
    assert_eq!(unnamed, held(&[None, Some("new")]));
    let renamed = after_crashes(
        |disk| {
            disk.put(path("/a/f"), b"old", 0o600);
            durable::write_synced(disk, path("/a/t"), b"new", 0o600).unwrap();
            disk.rename(path("/a/t"), path("/a/f")).unwrap();
        },
        "/a/f",
    );
    assert_eq!(renamed, held(&[Some("old"), Some("new")]));
    let removed = after_crashes(
        |disk| {
            disk.put(path("/a/f"), b"old", 0o600);
            disk.remove_file(path("/a/f")).unwrap();
        },
        "/a/f",
    );
    assert_eq!(removed, held(&[None, Some("old")]));
}

#[test]
fn durable_replacement_survives_crash() {
    let replaced = after_crashes(
        |disk| {
            disk.put(path("/a/f"), b"old", 0o600);
            durable::replace(disk, path("/a/f"), b"new", 0o600).unwrap();
        },
        "/a/f",
    );
    assert_eq!(replaced, held(&[Some("new")]));
    let deep = after_crashes(
        |disk| {
            durable::folder(disk, path("/a/b/c")).unwrap();
            durable::replace(disk, path("/a/b/c/f"), b"new", 0o600).unwrap();
        },
        "/a/b/c/f",
    );
    assert_eq!(deep, held(&[Some("new")]));
}

/// A power failure may keep both names of a rename. The next replacement must then not write through the old name.
#[test]
fn replacement_after_crash_never_tears_published_file() {
    for (seed, kill) in (0..64).flat_map(|seed| (0..6).map(move |kill| (seed, kill))) {
        let disk = MemoryDisk::new();
        disk.put(path("/a/f"), b"old", 0o600);
        durable::write_synced(&disk, path("/a/tmp_f"), b"new", 0o600).unwrap();
        // An agent that was killed here leaves the name, and any sync of the folder makes it durable.
        disk.sync(path("/a")).unwrap();
        disk.rename(path("/a/tmp_f"), path("/a/f")).unwrap();
        disk.crash(seed);
        disk.kill_at(disk.operations() + kill);
        let _ = durable::replace(&disk, path("/a/f"), b"next", 0o600);
        let found = disk.content(path("/a/f")).unwrap();
        assert!(
            [b"old".as_slice(), b"new", b"next"].contains(&&*found),
            "seed {seed}, killed at {kill}: {:?}",
            String::from_utf8_lossy(&found)
        );
    }
}

#[test]
fn renames_folder_with_files() {
    let disk = MemoryDisk::new();
    disk.put(path("/a/tmp/f"), b"x", 0o600);
    disk.rename(path("/a/tmp"), path("/a/one")).unwrap();
    assert_eq!(disk.content(path("/a/one/f")).as_deref(), Some(b"x".as_slice()));
    assert_eq!(disk.list(path("/a")).unwrap(), ["one"]);
    disk.put(path("/a/tmp/g"), b"y", 0o600);
    assert_eq!(disk.rename(path("/a/tmp"), path("/a/one")).unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
    disk.remove_folder(path("/a/one")).unwrap_err();
    durable::remove_flat(&disk, path("/a/one")).unwrap();
    disk.rename(path("/a/tmp"), path("/a/one")).unwrap();
    assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), ["/a/one/g"]);
}

#[test]
fn faults_affect_their_operations_only() {
    let disk = MemoryDisk::new();
    disk.put(path("/f"), b"old", 0o644);
    disk.inject(Fault::Full, 0..1);
    disk.inject(Fault::ShortWrite, 1..2);
    disk.inject(Fault::SyncFails, 2..3);
    disk.inject(Fault::ReadOnly, 3..4);
    disk.inject(Fault::RenameLost, 4..5);
    assert_eq!(disk.write(path("/t"), b"text", 0o600).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.content(path("/t")), None);
    assert_eq!(disk.write(path("/t"), b"text", 0o600).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.content(path("/t")).as_deref(), Some(b"te".as_slice()));
    disk.sync(path("/t")).unwrap_err();
    assert_eq!(disk.stat(path("/t")).unwrap().unwrap().kind, EntryKind::File);
    assert_eq!(disk.remove_file(path("/t")).unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    let lost = durable::rename_verified(&disk, path("/t"), path("/f"), b"te").unwrap_err();
    assert!(lost.to_string().contains("cannot replace /f"), "{lost}");
    assert_eq!(disk.content(path("/f")).as_deref(), Some(b"old".as_slice()));
    disk.rename(path("/t"), path("/f")).unwrap();
    let next = disk.operations();
    disk.kill_at(next);
    disk.write(path("/f"), b"nobody", 0o600).unwrap_err();
    assert_eq!(disk.content(path("/f")).as_deref(), Some(b"nob".as_slice()));
    disk.write(path("/f"), b"nobody", 0o600).unwrap_err();
    disk.read(path("/f"), 9).unwrap_err();
    assert_eq!(disk.operations(), next + 2);
    disk.clear_faults();
    assert_eq!(disk.read(path("/f"), 9).unwrap(), Some(b"nob".to_vec()));
}

#[test]
fn reports_links_and_wrong_entry_kinds() {
    let disk = MemoryDisk::new();
    disk.put_link(path("/a/link"));
    assert_eq!(disk.stat(path("/a/link")).unwrap().unwrap().kind, EntryKind::Other);
    disk.write(path("/a/link"), b"", 0o600).unwrap_err();
    disk.put(path("/a/f"), b"", 0o600);
    disk.make_folder(path("/a/f/g"), 0o700).unwrap_err();
    durable::folder(&disk, path("/a/f")).unwrap_err();
    disk.read(path("/a"), 9).unwrap_err();
    assert_eq!(disk.list(path("/none")).unwrap(), [""; 0]);
    assert_eq!(disk.stat(path("/none")).unwrap(), None);
    disk.remove_file(path("/none")).unwrap();
    disk.remove_folder(path("/none")).unwrap();
}
