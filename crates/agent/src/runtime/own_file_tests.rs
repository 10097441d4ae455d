//! Tests of files of the node over which nothing can be merged: the node reports a clear error, and its kubelet is left
//! alone.

use std::path::Path;

use super::harness::{Action, Behaviour, CONFIG, CONFIG_DIR, HEAD, RuntimeHarness, Way, content_hash, over, own, text};
use super::*;
use crate::disk::memory::MemoryDisk;
use nodecfg_contract::nodeconfig::NodeConfig;

fn actions(assigned: u64) -> [(u64, Action); 2] {
    [(0, Action::Write("a", Behaviour::Good)), (assigned, Action::Assign("a"))]
}

fn error(sim: &RuntimeHarness) -> String {
    sim.status().config.clone().and_then(|config| config.error).unwrap_or_default()
}

/// What another program leaves as the kubelet's file, `None` for a link, and the error that the node reports.
fn bad_own_files() -> [(Option<String>, &'static str); 5] {
    let not_read = "the node's own configuration /var/lib/kubelet/config.yaml cannot be read as a KubeletConfiguration: \
                    correct the file";
    [
        (Some("clusterDomain: local.1.Good\nhunter2: [\n".to_owned()), not_read),
        (Some(String::new()), not_read),
        (Some(format!("{HEAD}# {}\n", "x".repeat(2 << 20))), not_read),
        (
            Some(format!("{HEAD}# {}\n", "x".repeat(10 << 20))),
            "cannot read /var/lib/kubelet/config.yaml: it is larger than",
        ),
        (None, "/var/lib/kubelet/config.yaml is not a regular file, and nodecfg follows no links"),
    ]
}

impl RuntimeHarness {
    fn spoil(&mut self, bad: Option<&str>) {
        let config = Path::new(CONFIG);
        self.disk.remove_file(config).unwrap();
        match bad {
            Some(bad) => {
                self.accept(bad);
                self.disk.put(config, bad.as_bytes(), 0o644);
            }
            None => self.disk.put_link(config),
        }
    }

    /// Asserts this error, this number of restarts, and that the agent has not written the file.
    fn assert_left_alone(&self, bad: Option<&str>, message: &str, restarts: usize) {
        let found = error(self);
        assert!(found.contains(message) && !found.contains("hunter2"), "{message}: {found:?}");
        assert_eq!(self.state_files.len(), restarts, "{message}");
        assert_eq!(self.disk.content(Path::new(CONFIG)).as_deref(), bad.map(str::as_bytes), "{message}");
    }

    /// Corrects the own file, and asserts that the overlay runs in the end.
    fn correct(&mut self) {
        self.spoil(Some(&own(2)));
        self.run(900);
        let merged = over(&own(2), &text("a", 1, Behaviour::Good));
        assert_eq!((self.running(), error(self).as_str()), (merged.as_str(), ""));
        assert_eq!(self.runtime().ledger().good(), self.runtime().ledger().assignment());
        assert_eq!(self.runtime().ledger().agent_state.phase, Phase::Settled);
    }
}

#[test]
fn refuses_to_merge_over_a_bad_own_file() {
    for (bad, message) in bad_own_files() {
        let mut sim = RuntimeHarness::new(Way::Overlay, &actions(10));
        sim.run(5);
        sim.spoil(bad.as_deref());
        sim.run(60);
        sim.assert_left_alone(bad.as_deref(), message, 0);
        sim.correct();
    }
}

/// During the trial, and after it. The kubelet still runs the overlay.
#[test]
fn leaves_a_kubelet_alone_whose_file_was_spoiled() {
    for (bad, message) in bad_own_files() {
        for spoiled in [9, 100] {
            let mut sim = RuntimeHarness::new(Way::Overlay, &actions(1));
            sim.run(spoiled);
            sim.spoil(bad.as_deref());
            sim.run(700);
            sim.assert_left_alone(bad.as_deref(), message, 1);
            sim.correct();
        }
    }
}

/// The kubelet would not start with its own file.
#[test]
fn restarts_no_kubelet_on_a_damaged_own_file() {
    let damaged = "hunter2: [\n";
    let mut actions = actions(1).to_vec();
    actions.push((110, Action::Reset));
    for way in [Way::Replace, Way::Overlay] {
        let mut sim = RuntimeHarness::new(way, &actions);
        sim.run(100);
        sim.spoil(Some(damaged));
        sim.run(100);
        assert_eq!(sim.state_files.len(), 1, "{way:?}");
        let active = sim.status().conditions.iter().find(|condition| condition.kind == "Active").cloned().unwrap();
        assert!(active.message.contains("cannot be read as a KubeletConfiguration"), "{way:?}: {}", active.message);
        sim.spoil(Some(&own(2)));
        sim.run(100);
        assert_eq!((sim.running(), sim.state_files.len()), (own(2).as_str(), 2), "{way:?}");
    }
}

/// The agent replaces the damaged file with the reviewed one, and must not lose the node's own configuration.
#[test]
fn damaged_file_does_not_replace_the_kept_own_one() {
    let mut actions = actions(1).to_vec();
    actions.push((900, Action::Reset));
    let mut sim = RuntimeHarness::new(Way::Replace, &actions);
    sim.run(100);
    sim.spoil(Some(""));
    sim.run(780);
    sim.run(300);
    assert_eq!(sim.disk.content(Path::new(CONFIG)).as_deref(), Some(own(1).as_bytes()));
    assert_eq!(sim.running(), own(1).as_str());
}

/// As a backup of the agent's file does. The kubelet stays healthy.
#[test]
fn restores_an_own_file_that_is_replaced_while_the_kubelet_starts() {
    let merged = over(&own(1), &text("a", 1, Behaviour::Good));
    let mut actions = actions(1).to_vec();
    actions.push((60, Action::Reset));
    let mut sim = RuntimeHarness::new(Way::Overlay, &actions);
    sim.run(60);
    assert!(matches!(sim.runtime().ledger().agent_state.phase, Phase::Activating { .. }));
    sim.disk.put(Path::new(CONFIG), merged.as_bytes(), 0o644);
    sim.run(60);
    assert!(matches!(sim.runtime().ledger().agent_state.phase, Phase::Trying(_)));
    sim.run(320);
    assert_eq!(sim.disk.content(Path::new(CONFIG)).as_deref(), Some(own(1).as_bytes()));
    assert_eq!(sim.runtime().ledger().agent_state.phase, Phase::Settled);
}

fn drop_in(name: &str) -> PathBuf {
    Path::new(CONFIG_DIR).join(name)
}

/// With these, the kubelet would not start, or would read other files than it seems.
#[test]
fn refuses_a_drop_in_beside_bad_ones() {
    let many =
        |disk: &MemoryDisk| (0..200).for_each(|number| disk.put(&drop_in(&format!("{number}.conf")), b"", 0o644));
    let put = |disk: &MemoryDisk, content: &[u8]| disk.put(&drop_in("20-image.conf"), content, 0o644);
    type Spoil<'a> = &'a dyn Fn(&MemoryDisk);
    let cases: [(Spoil<'_>, &str); 5] = [
        (&many, "files that the kubelet reads, and nodecfg reads at most 64"),
        (&|disk| put(disk, &[0xff]), "20-image.conf is not UTF-8 text: the kubelet does not start"),
        (
            &|disk| disk.put_link(&drop_in("20-image.conf")),
            "20-image.conf is a link to nothing: the kubelet does not start",
        ),
        (&|disk| put(disk, &vec![b'#'; 10 << 20]), "20-image.conf cannot be read: it is larger than"),
        (&|disk| put(disk, b"hunter2: ["), "the node's own configuration cannot be read"),
    ];
    for (spoil, message) in cases {
        let mut sim = RuntimeHarness::new(Way::DropIn, &actions(10));
        sim.run(5);
        spoil(&sim.disk);
        sim.run(60);
        let ledger = sim.runtime().ledger();
        let found = ledger.agent_state.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        assert!(found.contains(message) && !found.contains("hunter2"), "{message}: {found:?}");
        assert_ne!(error(&sim), "");
        assert_eq!((sim.state_files.len(), sim.disk.content(&drop_in("90-nodecfg.conf"))), (0, None), "{message}");
    }
}

/// Each side is valid alone.
#[test]
fn names_the_side_of_each_field_that_makes_an_overlay_invalid() {
    let sim = RuntimeHarness::new(Way::Overlay, &[]);
    let own = format!("{HEAD}imageGCHighThresholdPercent: 71\n");
    sim.disk.put(Path::new(CONFIG), own.as_bytes(), 0o644);
    let mut agent = sim.open_agent();
    let reviewed = format!("{HEAD}imageGCLowThresholdPercent: 75\n");
    let mut config = NodeConfig::default();
    config.spec.config_source = Some(ConfigSource::config_map("kube-system", "a", "kubelet"));
    config.spec.content_hash = Some(content_hash(&reviewed));
    config.spec.placement = Some(Placement::Overlay);
    let mut source = config.spec.config_source.clone().unwrap();
    let map = source.config_map_mut().unwrap();
    (map.uid, map.resource_version) = (Some("uid".to_owned()), Some("1".to_owned()));
    let payload = [("kubelet".to_owned(), reviewed)].into();
    let now = "2026-02-01T00:00:00Z".parse().unwrap();
    let kubelet = KubeletVersion::parse("v1.36.2");
    agent.start(kubelet, now);
    agent.handle(Event::NodeConfigRead(Some(Box::new(config))), now);
    agent.handle_fetch(Ok(Download { source, payload, ..Download::default() }), None, kubelet, &[], now);
    let message =
        agent.ledger().agent_state.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    let sides = "imageGCLowThresholdPercent is from the reviewed configuration, imageGCHighThresholdPercent from the \
                 node's own";
    assert!(message.contains(sides) && !message.contains("71"), "{message}");
    assert_eq!(sim.disk.content(Path::new(CONFIG)).as_deref(), Some(own.as_bytes()));
    assert_eq!(agent.ledger().agent_state.phase, Phase::Settled);
}
