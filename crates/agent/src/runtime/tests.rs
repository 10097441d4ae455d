//! Tests of [`AgentRuntime`] with an in-memory disk: the kubelet's file, checkpoints, rollbacks and reported status.

use std::path::Path;

use super::harness::{
    Action, Behaviour, CONFIG, CONFIG_DIR, FOLDER, HEAD, RuntimeHarness, STATIC, Way, over, own, provisioned, settings,
    text,
};
use super::*;
use crate::disk::memory::{Fault, MemoryDisk};
use crate::ledger::FailureKind;
use crate::store::inspect;
use nodecfg_contract::ConfigStatus;
use nodecfg_contract::error_text::TRIAL_PREFIX;
use nodecfg_contract::nodeconfig::{
    ACTIVE, Condition, EFFECTIVE, KNOWN_GOOD, NodeConfigStatus, READY, RECONCILING, STALLED, SYNCED,
};

/// Seed of a power failure; decides which content that is not durable is lost.
const CRASH_SEED: u64 = 3;

fn reported_config(sim: &RuntimeHarness) -> ConfigStatus {
    sim.status().config.clone().expect("reported")
}

/// Name and version of a ConfigMap, or `local`.
fn name_and_version(source: Option<&ConfigSource>) -> String {
    source.and_then(|source| source.config_map.as_ref()).map_or_else(
        || "local".to_owned(),
        |map| format!("{} {}", map.name, map.resource_version.as_deref().unwrap_or_default()),
    )
}

/// Assigned, active, last known good and error of the status.
fn reported_sources(sim: &RuntimeHarness) -> (String, String, String, String) {
    let config = reported_config(sim);
    (
        name_and_version(config.assigned.as_ref()),
        name_and_version(config.active.as_ref()),
        name_and_version(config.last_known_good.as_ref()),
        config.error.unwrap_or_default(),
    )
}

fn assert_reported(sim: &RuntimeHarness, assigned: &str, active: &str, good: &str, error: &str) {
    let strings = [assigned, active, good, error].map(str::to_owned);
    let [assigned, active, good, error] = strings;
    assert_eq!(reported_sources(sim), (assigned, active, good, error));
}

#[test]
fn promotes_assignment_and_resets_to_local() {
    for way in Way::ALL {
        let mut sim = RuntimeHarness::new(
            way,
            &[(0, Action::Write("a", Behaviour::Good)), (10, Action::Assign("a")), (60, Action::Reset)],
        );
        sim.run(5);
        assert_eq!(reported_config(&sim), ConfigStatus::default());
        sim.run(8);
        assert_reported(&sim, "a 1", "a 1", "local", "");
        let text = text("a", 1, Behaviour::Good);
        assert_eq!(sim.running(), if way == Way::Overlay { over(&provisioned(), &text) } else { text });
        let placement = if way == Way::Replace { Placement::Replace } else { Placement::Overlay };
        assert_eq!(sim.status().placement, Some(placement));
        sim.run(40);
        assert_reported(&sim, "a 1", "a 1", "a 1", "");
        sim.run(60);
        assert_eq!(reported_config(&sim), ConfigStatus::default());
        assert_eq!(sim.running(), provisioned());
        let described = inspect(&sim.disk, Path::new(FOLDER));
        assert_eq!(described.problems, [""; 0]);
        assert_eq!(described.checkpoints, []);
        let placement = if way == Way::DropIn { Placement::Overlay } else { Placement::Replace };
        assert_eq!(sim.status().placement, Some(placement), "what the agent does without spec.placement");
    }
}

#[test]
fn rolls_back_to_last_known_good() {
    for (behaviour, error) in [
        (Behaviour::Silent, "failed trial: kubelet /healthz did not answer"),
        (Behaviour::Dies, "failed trial: kubelet /healthz did not answer"),
        (Behaviour::NoRestart, "failed to restart the kubelet"),
        (Behaviour::Refuses, "failed to validate config, see Kubelet log for details"),
    ] {
        let mut sim = RuntimeHarness::new(
            Way::Replace,
            &[
                (0, Action::Write("a", Behaviour::Good)),
                (0, Action::Write("b", behaviour)),
                (1, Action::Assign("a")),
                (60, Action::Assign("b")),
            ],
        );
        sim.run(120);
        assert_eq!(sim.running(), text("a", 1, Behaviour::Good), "{behaviour:?}");
        let (assigned, active, good, found) = reported_sources(&sim);
        assert_eq!((assigned.as_str(), active.as_str(), good.as_str()), ("b 1", "a 1", "a 1"), "{behaviour:?}");
        assert!(found.starts_with(error), "{behaviour:?}: {found}");
    }
}

/// No trial watches a target on which the kubelet was not restarted.
#[test]
fn reboot_between_restarts_that_cannot_be_requested_starts_the_last_known_good() {
    for way in Way::ALL {
        for good in ["local", "a"] {
            let mut sim = RuntimeHarness::new(
                way,
                &[
                    (0, Action::Write("a", Behaviour::Good)),
                    (0, Action::Write("b", Behaviour::Silent)),
                    (1, if good == "a" { Action::Assign("a") } else { Action::Reset }),
                    (59, Action::CannotRestart(100)),
                    (60, Action::Assign("b")),
                    (66, Action::CannotRestart(0)),
                ],
            );
            sim.run(58);
            let before = sim.running().to_owned();
            assert_eq!(before.contains("a.1.Good"), good == "a", "{before}");
            sim.run(7);
            let (assigned, _, _, error) = reported_sources(&sim);
            assert_eq!(
                (assigned.as_str(), error.as_str()),
                ("b 1", "failed to restart the kubelet, see condition Active for details")
            );
            let blames = |condition: &Condition| condition.reason == "NotInPlace";
            assert!(!sim.status().conditions.iter().any(blames), "no other program has changed the file");
            // The agent does not start by itself.
            sim.disk.crash(CRASH_SEED);
            sim.start_kubelet();
            assert_eq!(sim.running(), before, "{way:?} {good}");
            // The configuration is not at fault until its trial.
            sim.run(120);
            assert!(reported_sources(&sim).3.starts_with(TRIAL_PREFIX), "{:?}", reported_sources(&sim));
            assert_eq!(sim.running(), before, "{way:?} {good}");
        }
    }
}

/// A rollback must not leave state files that the failed configuration wrote, since the kubelet would not start with
/// them. It must not lose those of the last known good, which hold the CPUs of running pods.
#[test]
fn rollback_restores_the_state_files_of_the_last_known_good() {
    for (behaviour, rollback) in [
        // The kubelet never started with the failed configuration: no pod depends on its state files.
        (Behaviour::Silent, "put back cpu_manager_state"),
        (Behaviour::NoRestart, "put back cpu_manager_state"),
        // Pods were started under it: neither state is true anymore.
        (Behaviour::Dies, "remove cpu_manager_state"),
    ] {
        for way in Way::ALL {
            let mut sim =
                RuntimeHarness::new(way, &[(0, Action::Write(STATIC, behaviour)), (1, Action::Assign(STATIC))]);
            sim.run(60);
            assert_eq!(sim.state_files, ["set aside cpu_manager_state", rollback], "{behaviour:?} {way:?}");
        }
    }
}

#[test]
fn assignment_and_reset_set_state_files_aside() {
    let mut sim = RuntimeHarness::new(
        Way::Replace,
        &[
            (0, Action::Write("a", Behaviour::Good)),
            (0, Action::Write(STATIC, Behaviour::Good)),
            (1, Action::Assign("a")),
            (60, Action::Assign(STATIC)),
            (120, Action::Reset),
        ],
    );
    sim.run(200);
    assert_eq!(sim.state_files, ["unchanged", "set aside cpu_manager_state", "set aside cpu_manager_state"]);
    // The change starts from what runs, not from the last known good.
    let mut sim = RuntimeHarness::new(
        Way::Replace,
        &[
            (0, Action::Write("a", Behaviour::Good)),
            (0, Action::Write(STATIC, Behaviour::Good)),
            (1, Action::Assign(STATIC)),
            (10, Action::Assign("a")),
        ],
    );
    sim.run(60);
    assert_eq!(sim.state_files, ["set aside cpu_manager_state"; 2]);
}

#[test]
fn reports_disk_fault_and_recovers() {
    for fault in [Fault::Full, Fault::ReadOnly, Fault::SyncFails] {
        let mut sim =
            RuntimeHarness::new(Way::Replace, &[(0, Action::Write("a", Behaviour::Good)), (5, Action::Assign("a"))]);
        sim.run(3);
        sim.disk.inject(fault, 0..u64::MAX);
        sim.run(60);
        assert_reported(
            &sim,
            "local",
            "local",
            "local",
            "failed to sync: internal failure, see Kubelet log for details",
        );
        assert_eq!(sim.running(), provisioned());
        assert_eq!(sim.runtime().ledger(), &Ledger::default());
        sim.disk.clear_faults();
        sim.run(200);
        assert_reported(&sim, "a 1", "a 1", "a 1", "");
    }
}

#[test]
fn rolls_back_on_failing_disk() {
    for way in Way::ALL {
        for fault in [Fault::Full, Fault::SyncFails, Fault::ShortWrite] {
            let mut sim = RuntimeHarness::new(
                way,
                &[
                    (0, Action::Write("a", Behaviour::Good)),
                    (0, Action::Write("b", Behaviour::Dies)),
                    (1, Action::Assign("a")),
                    (60, Action::Assign("b")),
                ],
            );
            sim.run(65);
            let text = |name: &str, behaviour: Behaviour| {
                let text = text(name, 1, behaviour);
                if way == Way::Overlay { over(&provisioned(), &text) } else { text }
            };
            assert_eq!(sim.running(), text("b", Behaviour::Dies));
            sim.disk.inject(fault, 0..u64::MAX);
            sim.run(60);
            assert_eq!(sim.running(), text("a", Behaviour::Good), "{fault:?}");
            // Without the fault, the agent saves its state, so that even a power failure does not change it.
            sim.disk.clear_faults();
            sim.run(60);
            let before = sim.final_state();
            sim.restart_agent(Some(CRASH_SEED));
            sim.run(60);
            assert_eq!(sim.final_state(), before, "{fault:?}");
        }
    }
}

#[test]
fn repairs_tampered_checkpoint() {
    let good = text("a", 1, Behaviour::Good);
    // The kubelet would accept the second one.
    for changed in ["maxPods: -5\n", &good.replace("100", "5")] {
        let mut sim =
            RuntimeHarness::new(Way::Replace, &[(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))]);
        sim.run(60);
        let path = Path::new(FOLDER).join("store/checkpoints/uid-of-a/1/kubelet");
        sim.disk.put(&path, changed.as_bytes(), 0o600);
        // The harness checks at every step that the changed content is never written to the kubelet's file.
        sim.restart_agent(None);
        assert_eq!(
            sim.runtime().ledger().agent_state.failure.as_ref().map(|failure| failure.kind),
            Some(FailureKind::Load)
        );
        sim.run(60);
        assert_reported(&sim, "a 1", "a 1", "a 1", "");
        assert_eq!(sim.disk.content(&path).as_deref(), Some(text("a", 1, Behaviour::Good).as_bytes()));
    }
}

#[test]
fn adopts_replaced_kubelet_file_as_local() {
    let mut sim = RuntimeHarness::new(
        Way::Replace,
        &[(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a")), (200, Action::Reset)],
    );
    sim.run(60);
    let newer = text("local", 2, Behaviour::Good);
    sim.accept(&newer);
    sim.disk.put(Path::new("/var/lib/kubelet/config.yaml"), newer.as_bytes(), 0o644);
    sim.restart_agent(None);
    sim.run(60);
    assert_eq!(sim.running(), text("a", 1, Behaviour::Good));
    sim.run(200);
    assert_eq!(sim.running(), newer);
}

#[test]
fn refuses_to_start_on_missing_or_unreadable_files() {
    let activation = Activation::File { config: PathBuf::from("/etc/kubelet.yaml") };
    let paths = Paths { folder: PathBuf::from(FOLDER), activation };
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
fn reads_healthz_port_of_merged_configuration() {
    let mut sim =
        RuntimeHarness::new(Way::DropIn, &[(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))]);
    sim.run(5);
    assert_eq!(sim.open_agent().healthz().port, 10248);
    sim.disk.put(Path::new("/etc/kubelet.d/20-port.conf"), b"healthzPort: 10999\n", 0o644);
    assert_eq!(sim.open_agent().healthz().port, 10999);
}

/// No other configuration is left to roll back to, so an endpoint that does not exist must not count as unhealthy.
#[test]
fn counts_a_local_kubelet_without_healthz_as_healthy() {
    let mut sim = RuntimeHarness::new(
        Way::Replace,
        &[(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a")), (60, Action::Reset)],
    );
    let local = format!("{}healthzPort: 0\n", text("local", 1, Behaviour::Silent));
    sim.accept(&local);
    sim.disk.put(Path::new("/var/lib/kubelet/config.yaml"), local.as_bytes(), 0o644);
    sim.run(90);
    assert_eq!((sim.running(), sim.open_agent().healthz().port), (local.as_str(), 0));
    assert_eq!(
        sim.runtime().ledger(),
        &Ledger { agent_state: sim.runtime().ledger().agent_state.clone(), ..Ledger::default() }
    );
    assert_eq!(sim.runtime().ledger().agent_state.phase, Phase::Settled);
    let of_kind = |condition: &Condition| (condition.kind.clone(), condition.status.clone());
    let conditions: Vec<(String, String)> = sim.status().conditions.iter().map(of_kind).collect();
    let expected = [
        (SYNCED, "True"),
        (ACTIVE, "True"),
        (KNOWN_GOOD, "True"),
        (READY, "True"),
        (RECONCILING, "False"),
        (STALLED, "False"),
    ];
    assert_eq!(conditions, expected.map(|(kind, status)| (kind.to_owned(), status.to_owned())));
}

/// As `kubeadm upgrade` does during a trial. The kubelet then runs the node's own configuration.
#[test]
fn promotes_no_overlay_over_an_own_file_that_is_gone() {
    let actions = [(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a")), (9, Action::Rewrite(2))];
    let mut sim = RuntimeHarness::new(Way::Overlay, &actions);
    sim.run(60);
    assert_reported(&sim, "a 1", "a 1", "local", "");
    assert_eq!((sim.running(), sim.state_files.len()), (own(2).as_str(), 1));
    sim.run(310);
    let merged = over(&own(2), &text("a", 1, Behaviour::Good));
    assert_eq!((sim.running(), sim.state_files.len()), (merged.as_str(), 2));
    sim.run(30);
    assert_reported(&sim, "a 1", "a 1", "a 1", "");
}

/// Restarts are as rare as comparisons.
#[test]
fn bounds_restarts_while_another_program_writes_the_file() {
    let mut actions = vec![(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))];
    actions.extend((1..300).map(|number| (number * 10, Action::Rewrite(number))));
    for way in [Way::Replace, Way::Overlay] {
        let mut sim = RuntimeHarness::new(way, &actions);
        sim.run(3_000);
        assert!((8..=11).contains(&sim.state_files.len()), "{way:?}: {}", sim.state_files.len());
    }
}

/// As `kubeadm upgrade` does, while the agent runs.
#[test]
fn merges_an_overlay_over_a_rewritten_own_file() {
    let actions = [(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a")), (100, Action::Rewrite(2))];
    let mut sim = RuntimeHarness::new(Way::Overlay, &actions);
    let text = text("a", 1, Behaviour::Good);
    let beneath = |sim: &RuntimeHarness| {
        let own = sim.status().effective.clone().expect("reported").beneath;
        own.into_iter().map(|own| format!("{} {}", own.field, own.value)).collect::<Vec<_>>()
    };
    sim.run(99);
    assert_eq!((sim.running(), sim.state_files.len()), (over(&provisioned(), &text).as_str(), 1));
    assert_eq!(beneath(&sim), ["clusterDomain \"local.1.Good\"", "maxPods 100"]);
    sim.run(10);
    assert_eq!(sim.running(), own(2));
    sim.run(265);
    assert_eq!((sim.running(), sim.state_files.len()), (over(&own(2), &text).as_str(), 2));
    sim.run(60);
    assert_reported(&sim, "a 1", "a 1", "a 1", "");
    assert_eq!(beneath(&sim), ["clusterDomain \"local.2.Good\"", "maxPods 100"]);
    sim.run(600);
    assert_eq!(sim.state_files.len(), 2, "no further restart");
}

/// A flag may come with a restart of the kubelet by another program.
#[test]
fn reports_a_flag_that_appears_later() {
    let actions = [(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))];
    let effective = |sim: &RuntimeHarness| {
        let conditions = &sim.status().conditions;
        let found = conditions.iter().find(|condition| condition.kind == "Effective").expect("a condition");
        (found.status.clone(), found.message.clone())
    };
    for way in Way::ALL {
        let mut sim = RuntimeHarness::new(way, &actions);
        sim.run(60);
        assert_eq!(effective(&sim).0, "True", "{way:?}");
        sim.flags = vec!["--max-pods=50".to_owned()];
        // The comparisons are about five minutes apart.
        sim.run(370);
        let (status, message) = effective(&sim);
        assert_eq!(
            (status.as_str(), message.as_str()),
            ("False", "maxPods is 50 by the flag --max-pods, reviewed is 100")
        );
        let since = sim.status().agent.clone().map(|agent| agent.heard_at);
        sim.run(1_000);
        assert_eq!(sim.status().agent.clone().map(|agent| agent.heard_at), since, "no report without a change");
        sim.flags.clear();
        sim.run(370);
        assert_eq!(effective(&sim).0, "True", "{way:?}");
        assert_eq!(sim.state_files.len(), 1, "{way:?}: the agent does not restart the kubelet for it");
    }
}

/// What a kubelet runs that does not read the agent's file is unknown.
#[test]
fn kubelet_with_other_paths_is_unproven() {
    let actions = [(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))];
    for (way, flag, path) in [
        (Way::Overlay, "--config=/etc/other.yaml", "--config /var/lib/kubelet/config.yaml"),
        (Way::DropIn, "--config-dir=/etc/other.d", "--config-dir /etc/kubelet.d"),
    ] {
        let mut sim = RuntimeHarness::new(way, &actions);
        sim.flags = vec![flag.to_owned()];
        sim.run(60);
        let status = sim.status();
        let found = status.conditions.iter().find(|condition| condition.kind == "Effective").expect("a condition");
        assert_eq!((found.status.as_str(), found.reason.as_str()), ("Unknown", "OtherPath"));
        assert!(found.message.contains(path), "{}", found.message);
        assert_eq!(status.effective.as_ref().and_then(|effective| effective.source.clone()), None);
        assert_reported(&sim, "a 1", "a 1", "a 1", "");
    }
}

/// Reasons of the conditions that a report gets from the comparison with this process.
fn completed_reasons(
    agent: &mut AgentRuntime<MemoryDisk>,
    sim: &RuntimeHarness,
    process: KubeletProcess,
) -> Vec<String> {
    let status = NodeConfigStatus { conditions: Vec::new(), ..sim.status().clone() };
    let status = agent.complete(status, Ok(process), sim.now());
    let is_effective = |condition: &Condition| condition.kind == EFFECTIVE;
    status.conditions.into_iter().filter(is_effective).map(|condition| condition.reason).collect()
}

/// Another program may write the file at any moment.
#[test]
fn changed_file_of_the_agent_proves_nothing() {
    let actions = [(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))];
    for (way, path) in
        [(Way::Replace, Path::new(CONFIG).to_owned()), (Way::DropIn, Path::new(CONFIG_DIR).join("90-nodecfg.conf"))]
    {
        let mut sim = RuntimeHarness::new(way, &actions);
        sim.run(60);
        let mut agent = sim.open_agent();
        agent.start(KubeletVersion::parse("v1.36.2"), sim.now());
        let mut reason = || completed_reasons(&mut agent, &sim, sim.process());
        assert_eq!(reason(), ["Effective"]);
        sim.disk.put(&path, text("other", 1, Behaviour::Good).as_bytes(), 0o644);
        assert_eq!(reason(), ["NotInPlace"]);
    }
}

/// A removed file has no time of change.
#[test]
fn file_that_was_removed_after_the_start_of_the_kubelet_proves_nothing() {
    let mut sim =
        RuntimeHarness::new(Way::DropIn, &[(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))]);
    let later = Path::new(CONFIG_DIR).join("95-later.conf");
    sim.disk.put(&later, HEAD.as_bytes(), 0o644);
    sim.run(60);
    let mut agent = sim.open_agent();
    agent.start(KubeletVersion::parse("v1.36.2"), sim.now());
    let mut reasons = |process: &KubeletProcess| completed_reasons(&mut agent, &sim, process.clone());
    let process = sim.process();
    assert_eq!(reasons(&process), ["Effective"]);
    sim.disk.remove_file(&later).unwrap();
    assert_eq!(reasons(&process), ["NotRestarted"]);
    assert_eq!(reasons(&process), ["NotRestarted"], "it stays so until the next start");
    let restarted = KubeletProcess { started: process.started + 1, ..process };
    assert_eq!(reasons(&restarted), ["Effective"]);
}
