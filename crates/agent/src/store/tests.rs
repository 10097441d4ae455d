//! Tests of the store with kills and faults over a disk in memory, and with stores written by a kubelet 1.21.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::disk::memory::{Fault, MemoryDisk};
use crate::disk::real::RealDisk;
use crate::disk::{Entry, EntryKind};
use crate::events::NodeHealth;
use crate::ledger::{AgentState, Phase, Trial};

const DIR: &str = "/var/lib/nodecfg";

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn at(path: &str) -> PathBuf {
    dir().join(path)
}

fn source(version: u64) -> ConfigSource {
    let mut source = ConfigSource::config_map("kube-system", "prod-gpu", "kubelet");
    if let Some(map) = source.config_map_mut() {
        map.uid = Some("0cc3d1d6-7f0f".to_owned());
        map.resource_version = Some(version.to_string());
    }
    source
}

fn ledger(assigned: Option<u64>, good: Option<u64>, restarts: u64) -> Ledger {
    let active = assigned.map(source);
    let phase = match restarts % 3 {
        0 => Phase::Settled,
        1 => Phase::Activating { before: None },
        _ => Phase::Trying(Trial { interruptions: 1, ..Trial::default() }),
    };
    let agent_state = AgentState { active: active.clone(), restarts, phase, ..AgentState::default() };
    Ledger { assigned: active, last_known_good: good.map(source), agent_state }
}

fn download(version: u64, text: &str) -> Download {
    let payload = [("kubelet", text), ("other.key", "x"), ("..dots", "")];
    Download {
        source: source(version),
        payload: payload.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect(),
        ..Download::default()
    }
}

fn load(disk: &MemoryDisk) -> Result<Ledger, StoreError> {
    Store::new(dir()).load(disk)
}

fn file(disk: &MemoryDisk, path: &str) -> String {
    String::from_utf8(disk.content(&at(path)).unwrap_or_else(|| panic!("{path}")).to_vec()).unwrap()
}

#[test]
fn reading_an_empty_store_writes_nothing() {
    let disk = MemoryDisk::new();
    disk.inject(Fault::ReadOnly, 0..u64::MAX);
    assert_eq!(load(&disk).unwrap(), Ledger::default());
    assert_eq!(disk.files().len(), 0);
}

#[test]
fn loads_saved_ledger_and_writes_kubelet_format() {
    let disk = MemoryDisk::new();
    let mut store = Store::new(dir());
    for ledger in [ledger(None, None, 0), ledger(Some(2), None, 1), ledger(Some(3), Some(2), 2), ledger(None, None, 3)]
    {
        store.save(&disk, &ledger).unwrap();
        assert_eq!(load(&disk).unwrap(), ledger);
        let assigned = source::decode(file(&disk, "store/meta/assigned").as_bytes()).unwrap();
        assert_eq!(assigned, ledger.assigned);
    }
    assert_eq!(file(&disk, "store/meta/assigned"), "");
    assert_eq!(disk.list(&at("store")).unwrap(), ["checkpoints", "meta"]);
    assert_eq!(disk.list(&at("store/meta")).unwrap(), ["assigned", "last-known-good"]);
    let modes =
        ["", "store", "store/meta", "agent.json", "store/meta/assigned"].map(|path| disk.stat(&at(path)).unwrap());
    let (folder, file) = (Entry { kind: EntryKind::Folder, mode: 0o700 }, Entry { kind: EntryKind::File, mode: 0o600 });
    assert_eq!(modes.map(Option::unwrap), [folder, folder, folder, file, file]);
}

#[test]
fn reads_store_of_kubelet() {
    let disk = MemoryDisk::new();
    let meta = source::encode(Some(&source(7))).unwrap();
    disk.put(&at("store/meta/assigned"), meta.as_bytes(), 0o600);
    disk.put(&at("store/meta/tmp_assigned734"), b"api", 0o600);
    disk.put(&at("store/meta/last-known-good"), b"", 0o644);
    disk.put(&at("store/checkpoints/0cc3d1d6-7f0f/7/kubelet"), b"maxPods: 5\n", 0o644);
    disk.put(&at("store/checkpoints/0cc3d1d6-7f0f/tmp_6123/kubelet"), b"max", 0o644);
    disk.put(&at("store/checkpoints/unused/3/kubelet"), b"", 0o644);
    let found = load(&disk).unwrap();
    assert_eq!((found.assigned.clone(), found.last_known_good.clone()), (Some(source(7)), None));
    assert_eq!(found.agent_state, AgentState { phase: Phase::Activating { before: None }, ..AgentState::default() });
    let store = Store::new(dir());
    assert_eq!(store.load_checkpoint(&disk, &source(7)).unwrap()["kubelet"], "maxPods: 5\n");
    assert!(matches!(store.load_checkpoint(&disk, &source(6)), Err(StoreError::Missing(_))));
    store.prune(&disk, &found).unwrap();
    assert_eq!(
        disk.files().into_keys().filter(|path| path.contains("checkpoints")).collect::<Vec<_>>(),
        ["/var/lib/nodecfg/store/checkpoints/0cc3d1d6-7f0f/7/kubelet"]
    );
    assert_eq!(disk.list(&at("store/checkpoints")).unwrap(), ["0cc3d1d6-7f0f"]);
}

#[test]
fn detects_other_writers_and_interrupted_saves() {
    let saved = |ledger: &Ledger| {
        let disk = MemoryDisk::new();
        let mut store = Store::new(dir());
        store.save(&disk, &self::ledger(Some(1), Some(1), 3)).unwrap();
        store.save(&disk, ledger).unwrap();
        disk
    };
    let ours = Ledger {
        agent_state: AgentState { rollbacks: 4, ..ledger(Some(2), Some(1), 5).agent_state },
        ..ledger(Some(2), Some(1), 5)
    };
    // The save was interrupted before the kubelet's file was replaced.
    let disk = saved(&ours);
    disk.put(&at("store/meta/assigned"), source::encode(Some(&source(1))).unwrap().as_bytes(), 0o600);
    assert_eq!(load(&disk).unwrap(), ours);
    // A kubelet wrote version 3.
    let disk = saved(&ours);
    disk.put(&at("store/meta/assigned"), source::encode(Some(&source(3))).unwrap().as_bytes(), 0o600);
    let found = load(&disk).unwrap();
    assert_eq!((found.assigned, found.last_known_good), (Some(source(3)), Some(source(1))));
    let agent_state = AgentState {
        phase: Phase::Activating { before: None },
        active: Some(source(2)),
        restarts: 5,
        rollbacks: 4,
        ..AgentState::default()
    };
    assert_eq!(found.agent_state, agent_state);
    // A kubelet was reset.
    let disk = saved(&ours);
    disk.put(&at("store/meta/assigned"), b"", 0o600);
    disk.put(&at("store/meta/last-known-good"), b"", 0o600);
    let found = load(&disk).unwrap();
    assert_eq!((found.assigned, found.last_known_good), (None, None));
    assert_eq!(found.agent_state.phase, Phase::Activating { before: None });
}

#[test]
fn reads_agent_file_of_other_release() {
    let text = |version: u64| serde_json::to_string(&source(version)).unwrap();
    let pair = |assigned: &str| format!(r#"{{"assigned": {assigned}, "lastKnownGood": {}}}"#, text(1));
    let rest = r#""started": "2026-01-01T00:00:00Z", "before": {"ready": true, "calm": 1}, "mood": "good""#;
    let saved = format!(
        r#"{{"format": 1, "now": {}, "before": {}, "since": 4, "beyond":
            {{"phase": {{"kind": "trying", {rest}}}, "active": {}, "contentHash": "h", "rollbacks": 3, "later": []}}}}"#,
        pair(&text(2)),
        pair("null"),
        text(2)
    );
    for assigned in [Some(source(2)), None] {
        let disk = MemoryDisk::new();
        for (path, source) in [("assigned", &assigned), ("last-known-good", &Some(source(1)))] {
            let meta = source::encode(source.as_ref()).unwrap();
            disk.put(&at("store/meta").join(path), meta.as_bytes(), 0o600);
        }
        disk.put(&at("agent.json"), saved.as_bytes(), 0o600);
        let before = Some(NodeHealth { ready: true, lease_renewed: None });
        let started = "2026-01-01T00:00:00Z".parse().unwrap();
        let agent_state = AgentState {
            phase: Phase::Trying(Trial { started, before, ..Trial::default() }),
            active: Some(source(2)),
            content_hash: Some("h".to_owned()),
            rollbacks: 3,
            ..AgentState::default()
        };
        let expected = Ledger { assigned: Some(source(2)), last_known_good: Some(source(1)), agent_state };
        assert_eq!(load(&disk).unwrap(), expected);
    }
}

#[test]
fn reports_unreadable_files() {
    let disk = MemoryDisk::new();
    Store::new(dir()).save(&disk, &ledger(Some(2), Some(1), 1)).unwrap();
    let broken: [(&str, Option<&[u8]>, &str); 8] = [
        ("store/meta/assigned", Some(b"apiVersion: v1\n"), "expected \"kubelet.config.k8s.io/v1beta1\""),
        ("store/meta/last-known-good", Some(b"{"), "last-known-good cannot be read"),
        ("store/meta/assigned", None, "assigned cannot be read: it is missing although agent.json exists"),
        ("agent.json", Some(b""), "agent.json cannot be read"),
        ("agent.json", Some(b"{\"format\": 1, \"now\": {}"), "agent.json cannot be read"),
        ("agent.json", Some(b"{\"format\": 2}"), "has format 2; this nodecfg supports format 1"),
        ("agent.json", Some(b"{}"), "its format is unknown"),
        ("agent.json", Some(&[b' '; 300_000]), "it is larger than 262144 bytes"),
    ];
    for (path, content, expected) in broken {
        let before = disk.content(&at(path)).unwrap();
        match content {
            Some(content) => disk.put(&at(path), content, 0o600),
            None => disk.remove_file(&at(path)).unwrap(),
        }
        let error = load(&disk).expect_err(path).to_string();
        assert!(error.contains(expected), "{error}");
        let described = inspect(&disk, dir());
        assert!(described.problems.contains(&error), "{described:?}");
        disk.put(&at(path), &before, 0o600);
    }
    let escape = file(&disk, "agent.json").replace("0cc3d1d6-7f0f", "../../etc");
    disk.put(&at("agent.json"), escape.as_bytes(), 0o600);
    load(&disk).unwrap_err();
}

#[test]
fn rejects_names_outside_the_folder() {
    let disk = MemoryDisk::new();
    let store = Store::new(dir());
    for name in ["..", "../..", "a/b", "", "a\0b", &"x".repeat(254)] {
        for field in ["uid", "version", "key", "other key"] {
            let mut download = download(1, "a");
            match (field, download.source.config_map_mut()) {
                ("uid", Some(map)) => map.uid = Some(name.to_owned()),
                ("version", Some(map)) => map.resource_version = Some(name.to_owned()),
                ("key", Some(map)) => map.kubelet_config_key = name.to_owned(),
                _ => drop(download.payload.insert(name.to_owned(), String::new())),
            }
            store.save_checkpoint(&disk, &download).expect_err(name);
            if field != "other key" {
                store.load_checkpoint(&disk, &download.source).expect_err(name);
                let mut store = Store::new(dir());
                let ledger = Ledger { assigned: Some(download.source.clone()), ..Ledger::default() };
                store.save(&disk, &ledger).expect_err(name);
            }
        }
    }
    assert_eq!(disk.files().len(), 0);
}

#[test]
fn repairs_differing_checkpoint() {
    let disk = MemoryDisk::new();
    let store = Store::new(dir());
    let folder = at("store/checkpoints/0cc3d1d6-7f0f/1");
    disk.put(&folder.join("kubelet"), b"maxP", 0o644);
    disk.put(&folder.join("surplus"), b"", 0o644);
    store.save_checkpoint(&disk, &download(1, "maxPods: 5\n")).unwrap();
    assert_eq!(store.load_checkpoint(&disk, &source(1)).unwrap(), download(1, "maxPods: 5\n").payload);
    disk.put(&at("store/checkpoints/0cc3d1d6-7f0f/2"), b"a file", 0o644);
    assert!(matches!(store.save_checkpoint(&disk, &download(2, "a")), Err(StoreError::UnexpectedEntry(_))));
    assert_eq!(inspect(&disk, dir()).problems.len(), 1);
}

/// Kills `act` at each of its operations, with and without power loss, and calls `check` on every resulting disk.
fn killed_everywhere(
    prepare: impl Fn(&MemoryDisk),
    act: impl Fn(&MemoryDisk) -> Result<(), StoreError>,
    check: impl Fn(&MemoryDisk, &str),
) {
    let fresh = || {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/var/lib/other"), b"", 0o600);
        prepare(&disk);
        disk
    };
    let whole = fresh();
    let begin = whole.operations();
    act(&whole).unwrap();
    let count = whole.operations() - begin;
    assert!(count > 3, "{count}");
    for kill in 0..=count {
        for crash in 0..6 {
            let disk = fresh();
            disk.kill_at(begin + kill);
            assert_eq!(act(&disk).is_ok(), kill == count);
            if crash == 0 {
                disk.clear_faults()
            } else {
                disk.crash(kill * 100 + crash)
            }
            check(&disk, &format!("killed at {kill} of {count}, crash {crash}"));
        }
    }
}

#[test]
fn killed_save_keeps_old_or_new_ledger() {
    let steps = [ledger(None, None, 0), ledger(Some(2), None, 1), ledger(Some(3), Some(2), 2), ledger(None, None, 3)];
    for pair in steps.windows(2) {
        let saved = |disk: &MemoryDisk| {
            let mut store = Store::new(dir());
            store.save(disk, &pair[0]).unwrap();
            store
        };
        killed_everywhere(
            |disk| drop(saved(disk)),
            |disk| Store::new(dir()).save(disk, &pair[1]),
            |disk, when| {
                let found = load(disk).unwrap_or_else(|error| panic!("{when}: {error}"));
                assert!(found == pair[0] || found == pair[1], "{when}: {found:?}");
                // A kubelet that takes over reads only its two files. It must not find a new assignment without the
                // last known good that belongs to it.
                let named = |path| source::decode(file(disk, path).as_bytes()).unwrap();
                if named("store/meta/assigned") != pair[0].assigned {
                    assert_eq!(named("store/meta/last-known-good"), pair[1].last_known_good, "{when}");
                }
                // The next agent can continue.
                Store::new(dir()).save(disk, &pair[1]).unwrap();
                disk.crash(1);
                assert_eq!(load(disk).unwrap(), pair[1]);
                assert_eq!(named("store/meta/assigned"), pair[1].assigned);
            },
        );
    }
    killed_everywhere(
        |_| {},
        |disk| Store::new(dir()).save(disk, &steps[1]),
        |disk, when| {
            let found = load(disk).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert!(found == Ledger::default() || found == steps[1], "{when}: {found:?}");
        },
    );
}

#[test]
fn killed_checkpoint_is_complete_or_missing() {
    let (old, new) = (download(1, "old"), download(1, "maxPods: 5\n"));
    for known in [false, true] {
        killed_everywhere(
            |disk| {
                if known {
                    Store::new(dir()).save_checkpoint(disk, &old).unwrap();
                }
            },
            |disk| Store::new(dir()).save_checkpoint(disk, &new),
            |disk, when| {
                let store = Store::new(dir());
                match store.load_checkpoint(disk, &new.source) {
                    Err(StoreError::Missing(_)) => assert!(!known, "{when}"),
                    Ok(found) => assert!(found == new.payload || known && found == old.payload, "{when}: {found:?}"),
                    Err(error) => panic!("{when}: {error}"),
                }
                store.save_checkpoint(disk, &new).unwrap();
                disk.crash(1);
                assert_eq!(store.load_checkpoint(disk, &new.source).unwrap(), new.payload);
            },
        );
    }
}

#[test]
fn killed_prune_keeps_named_checkpoints_complete() {
    let ledger = ledger(Some(1), Some(2), 0);
    killed_everywhere(
        |disk| {
            let store = Store::new(dir());
            for version in 1..5 {
                store.save_checkpoint(disk, &download(version, "text")).unwrap();
            }
        },
        |disk| Store::new(dir()).prune(disk, &ledger),
        |disk, when| {
            let store = Store::new(dir());
            for version in 1..5 {
                match store.load_checkpoint(disk, &source(version)) {
                    Ok(found) => assert_eq!(found, download(version, "text").payload, "{when}"),
                    Err(StoreError::Missing(_)) => assert!(version > 2, "{when}: {version}"),
                    Err(error) => panic!("{when}: {error}"),
                }
            }
            store.prune(disk, &ledger).unwrap();
            assert_eq!(disk.list(&at("store/checkpoints/0cc3d1d6-7f0f")).unwrap(), ["1", "2"], "{when}");
        },
    );
}

#[test]
fn describes_store() {
    let disk = MemoryDisk::new();
    let mut store = Store::new(dir());
    for version in [1, 2, 3] {
        store.save_checkpoint(&disk, &download(version, "maxPods: 5\n")).unwrap();
    }
    store.save(&disk, &ledger(Some(3), Some(4), 7)).unwrap();
    disk.inject(Fault::ReadOnly, 0..u64::MAX);
    insta::assert_json_snapshot!(inspect(&disk, dir()));
}

#[test]
fn works_on_real_files() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("agent");
    let disk = RealDisk::open(&folder).unwrap();
    let mut store = Store::new(&folder);
    store.save_checkpoint(&disk, &download(1, "maxPods: 5\n")).unwrap();
    store.save_checkpoint(&disk, &download(1, "maxPods: 6\n")).unwrap();
    store.save_checkpoint(&disk, &download(2, "maxPods: 7\n")).unwrap();
    let ledger = ledger(Some(1), None, 1);
    store.save(&disk, &ledger).unwrap();
    store.prune(&disk, &ledger).unwrap();
    drop(disk);
    let disk = RealDisk::open(&folder).unwrap();
    let store = Store::new(&folder);
    assert_eq!(store.load(&disk).unwrap(), ledger);
    assert_eq!(store.load_checkpoint(&disk, &source(1)).unwrap()["kubelet"], "maxPods: 6\n");
    let described = inspect(&RealDisk::unlocked(), &folder);
    assert_eq!((described.checkpoints.len(), described.problems.len()), (1, 0));
    let meta = std::fs::read_to_string(folder.join("store/meta/assigned")).unwrap();
    assert_eq!(source::decode(meta.as_bytes()).unwrap(), Some(source(1)));
}

/// Fault within the first operations.
fn fault() -> impl Strategy<Value = (Fault, u64, u64)> {
    let kinds =
        [Fault::Full, Fault::ReadOnly, Fault::SyncFails, Fault::ShortWrite, Fault::RenameLost, Fault::RenameFails];
    (proptest::sample::select(kinds.to_vec()), 0..120_u64, 1..20_u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// The loaded ledger is the last one that was saved successfully, or a later one whose save failed.
    #[test]
    fn keeps_saved_ledger(
        faults in proptest::collection::vec(fault(), 0..6),
        saves in proptest::collection::vec((0..4_u64, 0..4_u64), 1..8),
        crash in proptest::option::of(any::<u64>()),
        kill in proptest::option::of(0..150_u64),
    ) {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/var/lib/other"), b"", 0o600);
        for (fault, from, length) in faults {
            disk.inject(fault, from..from + length);
        }
        kill.iter().for_each(|at| disk.kill_at(*at));
        let mut store = Store::new(dir());
        let (mut possible, mut agreed) = (vec![Ledger::default()], true);
        for (restarts, (assigned, good)) in (1..).zip(saves) {
            let next = ledger((assigned > 0).then_some(assigned), (good > 0).then_some(good), restarts);
            match store.save(&disk, &next) {
                Ok(()) => possible = vec![next],
                Err(_) => possible.push(next),
            }
            agreed = possible.len() == 1;
        }
        match crash { Some(seed) => disk.crash(seed), None => disk.clear_faults() }
        let found = load(&disk).unwrap();
        prop_assert!(possible.contains(&found), "{found:?} is none of {possible:?} ({agreed})");
        Store::new(dir()).save(&disk, &found).unwrap();
        disk.crash(0);
        prop_assert_eq!(load(&disk).unwrap(), found);
    }
}
