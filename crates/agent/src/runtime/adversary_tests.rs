//! Campaign against the proof: other programs of the node change the kubelet's folder of drop-ins, restart the kubelet with
//! flags, or pass for it. No moment calls a reviewed value effective that the kubelet does not run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::select;

use super::harness::{Action, Behaviour, CONFIG, CONFIG_DIR, HEAD, RuntimeHarness, Way};
use crate::disk::Disk as _;
use crate::host::process::{KubeletProcess, ProcessProblem};
use kubelet_config::Minor;
use kubelet_config::effective::{self, ConfigDir, ConfigFile, FolderEntry, Kubelet};
use nodecfg_contract::KubeletVersion;
use nodecfg_contract::nodeconfig::NodeConfigStatus;

/// A move of another program, or of time.
#[derive(Debug, Clone)]
enum Move {
    /// Writes a drop-in with this body.
    Write(&'static str, &'static str),
    /// Removes a drop-in.
    Remove(&'static str),
    /// Restarts the kubelet with this flag.
    Restart(&'static str),
    /// Starts another process of this name.
    Impostor,
    /// Starts the agent again.
    Agent,
    /// The agent compares.
    Look,
}

fn moves() -> impl Strategy<Value = Move> {
    let names = ["10-a.conf", "95-b.conf", "99/c.conf"];
    let bodies = [
        "maxPods: 50",
        "maxPods: 100",
        "clusterDomain: evil",
        "podPidsLimit: 7",
        "maxPods: 100\nclusterDomain: evil",
        "[",
    ];
    let flags = ["", "--max-pods=50", "--max-pods=100", "--cluster-domain=evil", "--node-ip=10.0.0.1"];
    prop_oneof![
        3 => (select(names.to_vec()), select(bodies.to_vec())).prop_map(|(name, body)| Move::Write(name, body)),
        2 => select(names.to_vec()).prop_map(Move::Remove),
        2 => select(flags.to_vec()).prop_map(Move::Restart),
        1 => Just(Move::Impostor),
        1 => Just(Move::Agent),
        4 => Just(Move::Look),
    ]
}

/// The values of the reviewed fields that a kubelet runs with the files of the disk. `None` if it does not start.
fn values(sim: &RuntimeHarness, arguments: &[String]) -> Option<BTreeMap<&'static str, serde_json::Value>> {
    let files = sim.disk.files();
    let mut entries = BTreeMap::new();
    for (path, content) in &files {
        let Some(below) = path.strip_prefix(&format!("{CONFIG_DIR}/")) else { continue };
        let file = FolderEntry::File(String::from_utf8_lossy(content).into_owned());
        match below.split_once('/') {
            None => drop(entries.insert(below.to_owned(), file)),
            Some((folder, name)) => {
                entries.insert(folder.to_owned(), FolderEntry::Folder([(name.to_owned(), file)].into()));
            }
        }
    }
    let folder = ConfigDir { path: CONFIG_DIR.to_owned(), root: Some(FolderEntry::Folder(entries)) };
    let config = String::from_utf8_lossy(files.get(CONFIG)?);
    let running = effective::effective(&Kubelet {
        minor: Minor(36),
        config: Some(ConfigFile { path: CONFIG, text: &config }),
        config_dir: Some(&folder),
        drop_in_alpha: false,
        flags: arguments,
    });
    let values = running.ok()?.values;
    Some(
        ["maxPods", "clusterDomain"]
            .into_iter()
            .filter_map(|field| Some((field, values.get(field)?.value.clone())))
            .collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn proves_only_what_the_kubelet_runs(
        way in select(vec![Way::DropIn, Way::Replace]),
        moves in prop::collection::vec(moves(), 20..80),
    ) {
        let mut sim =
            RuntimeHarness::new(way, &[(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))]);
        let folder = Path::new(CONFIG_DIR);
        sim.disk.put(&folder.join("20-site.conf"), format!("{HEAD}podPidsLimit: 9\n").as_bytes(), 0o644);
        sim.run(60);
        let open = |sim: &RuntimeHarness, now: Timestamp| {
            let mut agent = sim.open_agent();
            agent.start(KubeletVersion::parse("v1.36.2"), now);
            agent
        };
        let paths = [format!("--config={CONFIG}"), format!("--config-dir={CONFIG_DIR}")];
        let mut now = sim.now();
        let mut agent = open(&sim, now);
        let mut process = KubeletProcess { arguments: paths.to_vec(), started: now.as_second(), pid: 7 };
        let reviewed = values(&sim, &process.arguments).expect("it runs");
        let (mut running, mut impostors) = (Some(reviewed.clone()), 0);
        let (mut seen_since_start, mut hidden) = (false, false);
        let changed = |path: PathBuf, now: Timestamp| {
            sim.disk.touch(&path, now);
            for folder in path.ancestors().skip(1).filter(|path| path.starts_with(folder)) {
                sim.disk.touch(folder, now);
            }
        };
        for step in moves.iter().chain([&Move::Look]) {
            now += SignedDuration::from_secs(10);
            match step {
                Move::Write(name, body) => {
                    let path = folder.join(name);
                    sim.disk.put(&path, format!("{HEAD}{body}\n").as_bytes(), 0o644);
                    changed(path, now);
                }
                Move::Remove(name) => {
                    let path = folder.join(name);
                    if sim.disk.content(&path).is_some() {
                        sim.disk.remove_file(&path).unwrap();
                        changed(path, now);
                        // Documented: a file that was removed before the agent looked is unknown to it.
                        hidden |= !seen_since_start && way == Way::DropIn;
                    }
                }
                Move::Restart(flag) => {
                    let flags = [*flag].into_iter().filter(|flag| !flag.is_empty()).map(str::to_owned);
                    process = KubeletProcess { arguments: paths.iter().cloned().chain(flags).collect(), started: now.as_second(), pid: 7 };
                    running = values(&sim, &process.arguments);
                    (impostors, seen_since_start, hidden) = (0, false, false);
                }
                Move::Impostor => impostors += 1,
                Move::Agent => (agent, seen_since_start) = (open(&sim, now), false),
                Move::Look => {
                    let found = match (impostors, &running) {
                        (0, Some(_)) => Ok(process.clone()),
                        (0, None) => Err(ProcessProblem::NotRunning),
                        (more, _) => Err(ProcessProblem::Several(more + 1)),
                    };
                    seen_since_start |= found.is_ok();
                    let status = NodeConfigStatus { conditions: Vec::new(), ..sim.status().clone() };
                    let status = agent.complete(status, found, now);
                    let is_effective = status.conditions.iter().any(|found| found.reason == "Effective");
                    prop_assert!(!is_effective || hidden || running.as_ref() == Some(&reviewed), "{running:?} after {moves:#?}");
                }
            }
        }
    }
}
