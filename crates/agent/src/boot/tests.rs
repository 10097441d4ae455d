//! Tests of first boots: every crash, refusals, reboots, and the trial that follows.

use std::path::Path;
use std::sync::Arc;

use jiff::SignedDuration;

use super::*;
use crate::disk::memory::{Fault, MemoryDisk};
use crate::events::{Effect, Event, Health, Step};
use crate::host::ServiceReport;
use crate::host::problem::HealthzError;
use crate::ledger::{AssignmentFailure, FailureKind};
use crate::placement::{Activation, DROP_IN_NAME};
use crate::runtime::AgentRuntime;
use crate::settings::Settings;
use nodecfg_contract::nodeconfig::NodeConfig;

const FOLDER: &str = "/var/lib/nodecfg";
pub(super) const CONFIG: &str = "/var/lib/kubelet/config.yaml";
pub(super) const CONFIG_DIR: &str = "/etc/kubernetes/kubelet.conf.d";
const LOCAL: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\n";

pub(super) fn modes() -> [Boot; 2] {
    let config = PathBuf::from(CONFIG);
    let drop_in = Activation::DropIn { config_dir: PathBuf::from(CONFIG_DIR), config: Some(config.clone()) };
    [Activation::File { config }, drop_in].map(|activation| Boot {
        paths: Paths { folder: PathBuf::from(FOLDER), activation },
        root: PathBuf::from("/var/lib/kubelet"),
    })
}

/// Disk of a node that has never started.
pub(super) fn node() -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.put(Path::new(CONFIG), LOCAL.as_bytes(), 0o644);
    disk.put(&Path::new(CONFIG_DIR).join("10-image.conf"), LOCAL.replace("maxPods: 110", "port: 1").as_bytes(), 0o644);
    disk
}

pub(super) fn text(body: &str) -> String {
    LOCAL.replace("maxPods: 110", body)
}

fn offer(kubelet: &str) -> Offer {
    let mut source = ConfigSource::config_map("nodecfg-system", "prod-gpu-x5c2x5c2x5", KUBELET_KEY);
    if let Some(map) = source.config_map_mut() {
        (map.uid, map.resource_version) = (Some("uid-of-pointer".to_owned()), Some("4711".to_owned()));
    }
    Offer { source, hash: ContentHash::of(kubelet.as_bytes()), kubelet: kubelet.to_owned(), placement: None }
}

pub(super) fn now() -> Timestamp {
    "2026-02-01T00:00:00Z".parse().unwrap()
}

fn install(boot: &Boot, disk: &MemoryDisk, kubelet: &str) -> Result<(), BootError> {
    let version = KubeletVersion::parse("v1.36.2");
    boot.install(disk, &offer(kubelet), &PoolName::new("gpu").unwrap(), version, now())
}

/// Boots the node as the program does.
fn start(boot: &Boot, disk: &MemoryDisk, kubelet: &str) -> Result<(), BootError> {
    match boot.survey(disk)? {
        Situation::Owned { .. } | Situation::HasPods => Ok(()),
        Situation::Interrupted(ledger) => boot.complete(disk, &ledger),
        Situation::New => install(boot, disk, kubelet),
    }
}

/// Content of the file that a boot changes. `None`: no drop-in.
pub(super) fn in_place(boot: &Boot, disk: &MemoryDisk) -> Option<String> {
    let content = match &boot.paths.activation {
        Activation::File { config } => disk.content(config),
        Activation::DropIn { config_dir, .. } => disk.content(&config_dir.join(DROP_IN_NAME)),
    };
    content.map(|content| String::from_utf8(content.to_vec()).unwrap())
}

/// Reports whether the kubelet reads the local configuration.
fn is_local(boot: &Boot, disk: &MemoryDisk) -> bool {
    match (&boot.paths.activation, in_place(boot, disk)) {
        (Activation::File { .. }, found) => found.as_deref() == Some(LOCAL),
        (Activation::DropIn { .. }, found) => found.is_none(),
    }
}

fn agent(boot: &Boot, disk: &MemoryDisk) -> (AgentRuntime<MemoryDisk>, Step) {
    let mut agent = AgentRuntime::open(&boot.paths, Settings::default(), disk.clone(), 1).unwrap();
    let step = agent.start(KubeletVersion::parse("v1.36.2"), now());
    (agent, step)
}

fn restarts(step: &Step) -> bool {
    step.effects.iter().any(|effect| matches!(effect, Effect::Activate { .. }))
}

#[test]
fn agent_continues_with_trial() {
    for boot in modes() {
        let disk = node();
        assert_eq!(boot.survey(&disk).unwrap(), Situation::New);
        install(&boot, &disk, &text("maxPods: 64")).unwrap();
        assert_eq!(in_place(&boot, &disk), Some(text("maxPods: 64")));
        let (agent, step) = agent(&boot, &disk);
        assert!(!restarts(&step), "{step:?}");
        let ledger = agent.ledger();
        let source = Some(offer("").source);
        assert_eq!((&ledger.assigned, &ledger.agent_state.active, &ledger.last_known_good), (&source, &source, &None));
        assert!(ledger.agent_state.booted && matches!(ledger.agent_state.phase, Phase::Trying(_)), "{ledger:?}");
        assert_eq!(ledger.agent_state.pool.as_deref(), Some("gpu"));
    }
}

#[test]
fn agent_rolls_back_kubelet_that_does_not_start() {
    for boot in modes() {
        let disk = node();
        install(&boot, &disk, &text("maxPods: 64")).unwrap();
        let (mut agent, _) = agent(&boot, &disk);
        let mut moment = now();
        let mut restarted = false;
        for _ in 0..100 {
            moment += SignedDuration::from_secs(1);
            let down = Health { kubelet: Err(HealthzError::Disabled), node: None, service: ServiceReport::default() };
            let mut step = agent.handle(Event::Probed(down), moment);
            restarted |= restarts(&step);
            step = agent.handle(Event::Tick, moment);
            restarted |= restarts(&step);
        }
        assert!(restarted && is_local(&boot, &disk), "{:?}", in_place(&boot, &disk));
    }
}

/// The reconciler assigns the ConfigMap that the pointer named. It has another uid than the pointer.
#[test]
fn first_assignment_does_not_restart_the_kubelet() {
    for boot in modes() {
        let disk = node();
        let content = text("maxPods: 64");
        install(&boot, &disk, &content).unwrap();
        let (mut agent, _) = agent(&boot, &disk);
        let source = ConfigSource::config_map("nodecfg-system", "prod-gpu-x5c2x5c2x5", KUBELET_KEY);
        let mut config = NodeConfig::default();
        config.spec.config_source = Some(source.clone());
        config.spec.content_hash = Some(ContentHash::of(content.as_bytes()).to_string());
        agent.handle(Event::NodeConfigRead(Some(Box::new(config))), now());
        let mut found = source;
        if let Some(map) = found.config_map_mut() {
            (map.uid, map.resource_version) = (Some("uid-of-map".to_owned()), Some("12".to_owned()));
        }
        let payload = BTreeMap::from([(KUBELET_KEY.to_owned(), content)]);
        let download = Download { source: found.clone(), payload, immutable: true, ..Download::default() };
        let step = agent.handle_fetch(Ok(download), None, None, &[], now());
        assert!(!restarts(&step), "{step:?}");
        let ledger = agent.ledger();
        assert_eq!((&ledger.assigned, &ledger.agent_state.active), (&Some(found.clone()), &Some(found)));
        assert!(matches!(ledger.agent_state.phase, Phase::Trying(_)), "{ledger:?}");
    }
}

/// Kills a boot at every disk operation, with and without a loss of power. Then the next boot completes the boot or
/// starts again. If the kubelet has run pods meanwhile, neither a boot nor the agent changes its configuration.
#[test]
fn survives_every_crash() {
    let content = text("cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"");
    for boot in modes() {
        let disk = node();
        install(&boot, &disk, &content).unwrap();
        let operations = disk.operations();
        assert!(operations > 20, "{operations}");
        for (operation, loss) in (0..=operations).flat_map(|operation| (0..5).map(move |seed| (operation, seed))) {
            let crashed = || {
                let disk = node();
                disk.put(Path::new("/var/lib/kubelet/cpu_manager_state"), b"{}", 0o600);
                disk.kill_at(operation);
                let _ = start(&boot, &disk, &content);
                if loss == 0 {
                    disk.clear_faults()
                } else {
                    disk.crash(loss)
                };
                disk
            };
            let place = format!("{:?}, operation {operation}, loss {loss}", boot.paths.activation);

            let disk = crashed();
            assert!(is_local(&boot, &disk) || in_place(&boot, &disk).as_ref() == Some(&content), "{place}");
            start(&boot, &disk, &content).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(in_place(&boot, &disk).as_ref(), Some(&content), "{place}");
            assert!(disk.content(Path::new("/var/lib/kubelet/cpu_manager_state")).is_none(), "{place}");
            let (agent, step) = agent(&boot, &disk);
            assert!(!restarts(&step) && agent.ledger().agent_state.booted, "{place}: {step:?}");

            let disk = crashed();
            disk.put(Path::new("/var/lib/kubelet/pods/0cc3d1d6/etc-hosts"), b"", 0o644);
            let started_with = in_place(&boot, &disk);
            start(&boot, &disk, &content).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(in_place(&boot, &disk), started_with, "{place}: pods run");
            let (agent, step) = self::agent(&boot, &disk);
            assert!(!restarts(&step) && in_place(&boot, &disk) == started_with, "{place}: {step:?}");
            let is_booted = agent.ledger().assigned.is_some();
            assert_eq!((is_booted, agent.ledger().agent_state.booted), (!is_local(&boot, &disk), is_booted), "{place}");
        }
    }
}

#[test]
fn disk_faults_keep_local_configuration_or_ledger() {
    let content = text("maxPods: 64");
    for (boot, fault) in modes().into_iter().flat_map(|boot| {
        [Fault::Full, Fault::ReadOnly, Fault::SyncFails, Fault::ShortWrite, Fault::RenameLost, Fault::RenameFails]
            .map(|fault| (boot.clone(), fault))
    }) {
        let disk = node();
        disk.inject(fault, 0..u64::MAX);
        install(&boot, &disk, &content).unwrap_err();
        assert!(is_local(&boot, &disk), "{fault:?}");
        disk.clear_faults();
        start(&boot, &disk, &content).unwrap();
        assert_eq!(in_place(&boot, &disk), Some(content.clone()), "{fault:?}");
    }
}

/// Every file with its content.
pub(super) fn files(disk: &MemoryDisk) -> BTreeMap<String, Arc<[u8]>> {
    disk.files()
}

#[test]
fn refused_configuration_changes_nothing() {
    let huge = format!("maxPods: 64\n# {}", "x".repeat(3 << 20));
    for (boot, body) in modes().into_iter().flat_map(|boot| {
        ["maxPods: -5", "maxPods: [", "maxPods: many", "healthzPort: 0", "featureGates: {NodeSwap: false}", &huge]
            .map(|body| (boot.clone(), body.to_owned()))
    }) {
        let disk = node();
        let before = files(&disk);
        let error = install(&boot, &disk, &text(&body)).unwrap_err();
        assert!(matches!(error, BootError::Refused(_)), "{error}");
        assert_eq!(files(&disk), before, "{error}");
    }
}

/// A name from the API server must not lead out of the agent's folder.
#[test]
fn refuses_unsafe_names() {
    for boot in modes() {
        let disk = node();
        let before = files(&disk);
        let mut offer = offer(&text("maxPods: 64"));
        if let Some(map) = offer.source.config_map_mut() {
            map.uid = Some("../../etc".to_owned());
        }
        let error = boot.install(&disk, &offer, &PoolName::new("gpu").unwrap(), None, now()).unwrap_err();
        assert!(error.to_string().contains("the uid"), "{error}");
        assert_eq!(files(&disk), before);
    }
}

#[test]
fn reboot_changes_nothing() {
    for boot in modes() {
        let disk = node();
        start(&boot, &disk, &text("maxPods: 64")).unwrap();
        let before = (files(&disk), disk.operations());
        // The pointer has moved meanwhile.
        start(&boot, &disk, &text("maxPods: 65")).unwrap();
        assert_eq!((files(&disk), disk.operations()), before);
        assert_eq!(boot.survey(&disk).unwrap(), Situation::Owned { assigned: true });
    }
}

#[test]
fn leaves_nodes_of_agents_and_nodes_with_pods() {
    for boot in modes() {
        let disk = node();
        let (_agent, _) = agent(&boot, &disk);
        assert_eq!(boot.survey(&disk).unwrap(), Situation::Owned { assigned: false });

        let disk = node();
        disk.put(Path::new("/var/lib/kubelet/pods/0cc3d1d6/etc-hosts"), b"", 0o644);
        assert_eq!(boot.survey(&disk).unwrap(), Situation::HasPods);

        let disk = node();
        disk.put(&Path::new(FOLDER).join("agent.json"), b"{}", 0o600);
        boot.survey(&disk).unwrap_err();

        // The folder of a kubelet 1.21 has assignments without the file of an agent.
        let disk = node();
        install(&boot, &disk, &text("maxPods: 64")).unwrap();
        disk.remove_file(&Path::new(FOLDER).join("agent.json")).unwrap();
        assert_eq!(boot.survey(&disk).unwrap(), Situation::Owned { assigned: true });
    }
}

/// An agent discards a seeded ledger, so no other may look like it: its configuration would be lost.
#[test]
fn ledger_is_seeded_until_the_first_change() {
    let [boot, _] = modes();
    let disk = node();
    install(&boot, &disk, &text("maxPods: 64")).unwrap();
    let seeded = boot.store().load(&disk).unwrap();
    assert!(seeded.is_seeded());
    let failure = AssignmentFailure {
        kind: FailureKind::Restart,
        was_healthy: false,
        error: String::new(),
        message: String::new(),
        kubelet: None,
    };
    let trial = Trial { started: now(), healthy_since: Some(now()), ..Trial::default() };
    let changes: [&dyn Fn(&mut Ledger); 7] = [
        &|ledger| ledger.agent_state.booted = false,
        &|ledger| (ledger.assigned, ledger.agent_state.active) = (None, None),
        &|ledger| ledger.agent_state.active = None,
        &|ledger| ledger.last_known_good.clone_from(&ledger.assigned),
        &|ledger| ledger.agent_state.failure = Some(failure.clone()),
        &|ledger| ledger.agent_state.phase = Phase::Trying(trial.clone()),
        &|ledger| ledger.agent_state.phase = Phase::Activating { before: None },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut ledger = seeded.clone();
        change(&mut ledger);
        assert!(!ledger.is_seeded(), "{number}: {ledger:?}");
    }
}

/// A rollback of the agent is final, even if its content is not in place yet.
#[test]
fn leaves_failed_trial_to_the_agent() {
    let [boot, _] = modes();
    let disk = node();
    install(&boot, &disk, &text("maxPods: 64")).unwrap();
    let mut store = boot.store();
    let mut ledger = store.load(&disk).unwrap();
    ledger.agent_state.phase = Phase::Activating { before: None };
    store.save(&disk, &ledger).unwrap();
    disk.put(Path::new(CONFIG), LOCAL.as_bytes(), 0o644);
    assert_eq!(boot.survey(&disk).unwrap(), Situation::Owned { assigned: true });
}

#[test]
fn requires_the_kubelets_file_or_folder() {
    for boot in modes() {
        boot.survey(&MemoryDisk::new()).unwrap_err();
    }
}
