//! Tests of what [`AgentRuntime`] requires of a download: the content that was reviewed, and no more disruption than
//! spec allows, compared with what the kubelet runs.

use std::collections::BTreeMap;
use std::path::Path;

use super::harness::{
    Action, Behaviour, CONFIG, CONFIG_DIR, FOLDER, HEAD, RuntimeHarness, STATIC, Way, content_hash, text,
};
use super::*;
use crate::disk::memory::MemoryDisk;
use crate::host::problem::{CommandError, RestartProblem};
use crate::ledger::{AssignmentFailure, FailureKind};
use nodecfg_contract::nodeconfig::NodeConfig;

fn now() -> Timestamp {
    "2026-02-01T00:00:00Z".parse().expect("a time")
}

fn source(name: &str) -> ConfigSource {
    ConfigSource::config_map("kube-system", name, "kubelet")
}

/// Download of a ConfigMap that was created again.
fn download(name: &str, text: &str) -> Download {
    let mut source = source(name);
    if let Some(map) = source.config_map_mut() {
        (map.uid, map.resource_version) = (Some("recreated".to_owned()), Some("9".to_owned()));
    }
    let payload = BTreeMap::from([("kubelet".to_owned(), text.to_owned())]);
    Download { source, payload, immutable: true, ..Download::default() }
}

/// Node whose ConfigMap has had this behaviour for a minute.
fn node_on(name: &'static str, behaviour: Behaviour) -> RuntimeHarness {
    let mut sim = RuntimeHarness::new(Way::Replace, &[(0, Action::Write(name, behaviour)), (1, Action::Assign(name))]);
    sim.run(60);
    sim
}

/// Reports whether an agent accepts this download for a spec that requires its content and allows this disruption.
fn accepts(sim: &RuntimeHarness, download: &Download, allowed: Option<Class>) -> bool {
    let mut agent = sim.open_agent();
    agent.start(None, now());
    let mut config = NodeConfig::default();
    config.metadata.generation = 99;
    config.spec.config_source = download.source.config_map.as_ref().map(|map| source(&map.name));
    config.spec.content_hash = Some(content_hash(&download.payload["kubelet"]));
    config.spec.max_disruption = allowed;
    agent.handle(Event::NodeConfigRead(Some(Box::new(config))), now());
    agent.handle_fetch(Ok(download.clone()), None, None, &[], now());
    agent.ledger().assigned.as_ref() == Some(&download.source)
}

#[test]
fn refuses_change_beyond_the_allowed_disruption() {
    let policy = text(STATIC, 1, Behaviour::Good);
    // The same applies to other content of the assigned name.
    for name in ["a", "b"] {
        let sim = node_on("a", Behaviour::Good);
        assert!(!accepts(&sim, &download(name, &policy), None), "{name}: a restart is allowed");
        assert!(!accepts(&sim, &download(name, &policy), Some(Class::Restart)), "{name}");
        assert!(accepts(&sim, &download(name, &policy), Some(Class::Drain)), "{name}");
        assert!(accepts(&sim, &download(name, &text("a", 1, Behaviour::Good)), Some(Class::Restart)), "{name}");
    }
}

/// The agent cannot know what a change from an unknown configuration does to running pods.
#[test]
fn change_from_unreadable_configuration_needs_a_drain() {
    let sim = node_on("a", Behaviour::Good);
    sim.disk.put(&Path::new(FOLDER).join("store/checkpoints/uid-of-a/1/kubelet"), b"[", 0o600);
    let other = text("b", 1, Behaviour::Good).replace("100", "120");
    assert!(!accepts(&sim, &download("b", &other), Some(Class::Restart)));
    assert!(accepts(&sim, &download("b", &other), Some(Class::Drain)));
}

/// The kubelet merges all of them, so a check of some of them would be wrong.
#[test]
fn refuses_a_node_with_too_many_drop_ins() {
    let put = |sim: &RuntimeHarness, number: usize| {
        let path = Path::new(CONFIG_DIR).join(format!("20-{number}.conf"));
        sim.disk.put(&path, HEAD.as_bytes(), 0o644);
    };
    let sim = RuntimeHarness::new(Way::DropIn, &[]);
    // One file exists already.
    (1..64).for_each(|number| put(&sim, number));
    let a = download("a", &text("a", 1, Behaviour::Good));
    assert_eq!(sim.open_agent().check_payload(&a.payload, "kubelet", Placement::Overlay), ConfigCheck::Accepted);
    put(&sim, 64);
    let ConfigCheck::NotPlaceable { message } =
        sim.open_agent().check_payload(&a.payload, "kubelet", Placement::Overlay)
    else {
        panic!("accepted")
    };
    assert!(message.contains(" has 65 files that the kubelet reads, and nodecfg reads at most 64"), "{message}");
}

/// A failed assignment does not run, so trying it again disrupts pods again.
#[test]
fn failed_assignment_is_compared_with_what_runs() {
    let sim = node_on(STATIC, Behaviour::Silent);
    assert!(sim.runtime().ledger().agent_state.failure.is_some());
    let again = download(STATIC, &text(STATIC, 1, Behaviour::Silent));
    assert!(!accepts(&sim, &again, Some(Class::Restart)));
    assert!(accepts(&sim, &again, Some(Class::Drain)));
}

/// Without `spec.contentHash`, the content of the present assignment proves nothing about another ConfigMap.
#[test]
fn accepted_content_counts_for_its_own_configmap_only() {
    let sim = node_on("a", Behaviour::Good);
    let agent = sim.open_agent();
    let same = text("a", 1, Behaviour::Good);
    assert!(agent.verify(&download("a", &same)).is_ok());
    assert!(matches!(agent.verify(&download("b", &same)), Err(FetchError::OtherContent(_))));
}

/// Agent whose only checkpoint is the assignment, the last known good and what runs. It has this field.
fn settled_on(field: &str) -> (AgentRuntime<MemoryDisk>, ConfigSource) {
    settled(&node_on("a", Behaviour::Good), field)
}

fn settled(sim: &RuntimeHarness, field: &str) -> (AgentRuntime<MemoryDisk>, ConfigSource) {
    let mut agent = sim.open_agent();
    let text = format!("{}{field}\n", text("x", 1, Behaviour::Good));
    let saved = download("x", &text);
    agent.store.save_checkpoint(&agent.disk, &saved).expect("saved");
    let source = Some(saved.source.clone());
    let Ledger { assigned, last_known_good, agent_state } = &mut agent.state.ledger;
    (*assigned, *last_known_good, agent_state.active) = (source.clone(), source.clone(), source);
    agent_state.content_hash = Some(content_hash(&text));
    agent_state.last_known_good_hash = agent_state.content_hash.clone();
    (agent, saved.source)
}

/// The last known good ran before, and no other configuration is left.
#[test]
fn rollback_places_even_what_the_kubelet_now_refuses() {
    let (mut agent, _) = settled_on("featureGates: {DynamicKubeletConfig: true}");
    agent.kubelet = KubeletVersion::parse("v1.36.2");
    let refused = agent.place().expect_err("is no rollback");
    assert!(refused.contains("the kubelet would refuse the checkpoint"), "{refused}");
    let failure = AssignmentFailure {
        kind: FailureKind::Trial,
        was_healthy: false,
        error: String::new(),
        message: String::new(),
        kubelet: None,
    };
    agent.state.ledger.agent_state.failure = Some(failure);
    agent.place().expect("is placed");
}

/// Readers of the status may read the ConfigMap, not the node's own files.
#[test]
fn explains_an_error_by_values_of_the_configmap_only() {
    let mut sim =
        RuntimeHarness::new(Way::DropIn, &[(0, Action::Write("a", Behaviour::Good)), (1, Action::Assign("a"))]);
    sim.run(60);
    let local = format!("{HEAD}tlsCertFile: /hunter2/t.crt\n");
    sim.disk.put(&Path::new(CONFIG_DIR).join("20-local.conf"), local.as_bytes(), 0o644);
    let (agent, source) = settled(&sim, "tlsPrivateKeyFile: /reviewed/t.key");
    let explain = |file: &str, source: Option<&ConfigSource>| {
        let source = source.map(|source| Configuration { source, placement: Some(Placement::Overlay) });
        let error = LastError::in_log(&format!("Error: open {file}: permission denied")).expect("an error");
        agent.explain(&error, source).to_string()
    };
    let reviewed = "tlsPrivateKeyFile: open /reviewed/t.key: permission denied";
    assert_eq!(explain("/reviewed/t.key", Some(&source)), reviewed);
    assert_eq!(explain("/hunter2/t.crt", Some(&source)), "tlsCertFile: open …: permission denied");
    assert_eq!(explain("/hunter2/t.crt", None), "tlsCertFile: open …: permission denied");
}

/// Starts an agent and assigns a ConfigMap `y` with this text. Returns the step of its download.
fn assign(agent: &mut AgentRuntime<MemoryDisk>, text: &str) -> Step {
    let mut config = NodeConfig::default();
    config.metadata.generation = 99;
    config.spec.config_source = Some(source("y"));
    config.spec.content_hash = Some(content_hash(text));
    config.spec.max_disruption = Some(Class::Drain);
    agent.start(KubeletVersion::parse("v1.36.2"), now());
    agent.handle(Event::NodeConfigRead(Some(Box::new(config))), now());
    // Checkpoints could not be removed so far, and are removed now.
    agent.prune_pending = true;
    agent.handle_fetch(Ok(download("y", text)), None, None, &[], now())
}

/// A rollback puts the state files back that the activation sets aside.
#[test]
fn keeps_state_files_until_the_configuration_is_settled() {
    let mut agent = node_on("a", Behaviour::Good).open_agent();
    let step = assign(&mut agent, &text(STATIC, 1, Behaviour::Good));
    let set_aside = |effect: &Effect| matches!(effect, Effect::Activate { state, .. } if !state.files.is_empty());
    assert!(step.effects.iter().any(set_aside) && !agent.prune_pending, "{step:?}");
    assert!(!step.effects.contains(&Effect::DiscardStateFiles), "{step:?}");
}

/// The kubelet was started with the target, which the node reports only after the restart.
#[test]
fn explains_a_failed_restart_by_the_configuration_that_was_placed() {
    let mut agent = node_on("a", Behaviour::Good).open_agent();
    let step = assign(&mut agent, &format!("{}resolvConf: /reviewed/file\n", text("y", 1, Behaviour::Good)));
    assert!(step.effects.iter().any(|effect| matches!(effect, Effect::Activate { .. })), "{step:?}");
    let error = LastError::in_log("Error: open /reviewed/file: permission denied").expect("an error");
    let failed = RestartError::Failed(RestartProblem::Restart(CommandError::exited(1)).into());
    agent.handle_restart(Err(failed), Some(&error), now());
    let failure = agent.ledger().agent_state.failure.as_ref().map(|failure| failure.error.clone());
    let error = "failed to restart the kubelet, see condition Active for details: resolvConf: open /reviewed/file: permission denied";
    assert_eq!(failure.as_deref(), Some(error));
}

/// The kubelet may be newer than the tables of this agent.
#[test]
fn unknown_kubelet_version_refuses_no_running_configuration() {
    for (kubelet, failure) in [(None, None), (Some("v1.36.2"), Some(FailureKind::Validate))] {
        let (mut agent, _) = settled_on("featureGates: {NotInventedYet: true}");
        agent.start(kubelet.and_then(KubeletVersion::parse), now());
        let found = agent.ledger().agent_state.failure.as_ref().map(|failure| failure.kind);
        assert_eq!(found, failure, "{kubelet:?}");
    }
}

#[test]
fn state_file_contradicts_another_default_set_of_cpus() {
    let fixed = "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n".to_owned();
    let strict = format!("{fixed}cpuManagerPolicyOptions: {{strict-cpu-reservation: \"true\"}}\n");
    for other in [strict, fixed.replace("0-1", "0-2")] {
        for (from, to) in [(&fixed, &other), (&other, &fixed)] {
            let files = content::state_files(from, to);
            assert_eq!(files, [kubelet_config::risk::StateFile::CpuManagerState], "{from} to {to}");
        }
    }
    assert_eq!(content::state_files(&fixed, &format!("{fixed}podPidsLimit: 4096\n")), []);
}

/// Needs of a download of this text, with a placement, on a node whose kubelet runs `a`.
fn needs(sim: &RuntimeHarness, text: &str) -> Vec<HostCondition> {
    let paths = [format!("--config={CONFIG}")];
    needs_with(sim, text, Ok(KubeletProcess { arguments: paths.to_vec(), started: i64::MAX, pid: 7 }))
}

/// As [`needs`], with this running kubelet.
fn needs_with(sim: &RuntimeHarness, text: &str, process: Result<KubeletProcess, ProcessProblem>) -> Vec<HostCondition> {
    let mut agent = sim.open_agent();
    let kubelet = KubeletVersion::parse("v1.36.2");
    agent.start(kubelet, now());
    let download = download("x", text);
    let mut config = NodeConfig::default();
    config.metadata.generation = 99;
    config.spec.config_source = Some(source("x"));
    config.spec.content_hash = Some(content_hash(text));
    config.spec.placement = Some(sim.way.placement());
    agent.handle(Event::NodeConfigRead(Some(Box::new(config))), now());
    agent.host_conditions(&Ok(download), kubelet, process)
}

fn fields(conditions: &[HostCondition]) -> Vec<&str> {
    conditions.iter().map(|condition| condition.field.as_str()).collect()
}

#[test]
fn asks_the_host_for_what_a_download_needs() {
    let sim = node_on("a", Behaviour::Good);
    let text =
        format!("{HEAD}failCgroupV1: false\ntlsCertFile: /t.crt\ntlsPrivateKeyFile: /t.key\nreadOnlyPort: 10255\n");
    assert_eq!(fields(&needs(&sim, &text)), ["tlsCertFile", "readOnlyPort"]);
    let arguments = [format!("--config={CONFIG}"), "--tls-cert-file=/flag.crt".to_owned()].to_vec();
    let process = Ok(KubeletProcess { arguments, started: i64::MAX, pid: 7 });
    assert_eq!(fields(&needs_with(&sim, &text, process)), ["readOnlyPort"], "a flag replaces the value of the file");
    // The agent sets the state file of the other policy aside while the kubelet is stopped.
    let policy = format!("{HEAD}failCgroupV1: false\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n");
    assert_eq!(fields(&needs(&sim, &policy)), ["reservedSystemCPUs"]);
    assert_eq!(fields(&needs(&sim, &policy.replace("static", "none"))), ["reservedSystemCPUs", "cpuManagerPolicy"]);
    // Another content than the one that was reviewed is refused without a look at the host.
    let unknown = Err(ProcessProblem::NotRunning);
    let mut agent = sim.open_agent();
    agent.start(KubeletVersion::parse("v1.36.2"), now());
    assert_eq!(agent.host_conditions(&Ok(download("x", &text)), KubeletVersion::parse("v1.36.2"), unknown), []);
}

#[test]
fn what_the_kubelet_runs_with_is_not_asked() {
    let own = format!("{HEAD}failCgroupV1: false\ncgroupDriver: systemd\nreadOnlyPort: 10255\npodLogsDir: /logs\n");
    let sim = RuntimeHarness::new(Way::Overlay, &[]);
    sim.disk.put(Path::new(CONFIG), own.as_bytes(), 0o644);
    let reviewed = format!("{HEAD}maxPods: 60\n");
    // A restart needs the folder, also if only the node's own file names it.
    assert_eq!(fields(&needs(&sim, &reviewed)), ["podLogsDir"]);
    let other = format!("{reviewed}readOnlyPort: 10256\n");
    assert_eq!(fields(&needs(&sim, &other)), ["podLogsDir", "readOnlyPort"]);
    // Without the command line, it is unknown which folder the kubelet has.
    assert_eq!(fields(&needs_with(&sim, &other, Err(ProcessProblem::NotRunning))), ["readOnlyPort"]);
}

#[test]
fn refusal_names_only_what_was_reviewed() {
    let kubelet = KubeletVersion::parse("v1.36.2").unwrap();
    let reviewed = format!(
        "{HEAD}failCgroupV1: false\nauthentication: {{x509: {{clientCAFile: /ca}}}}\nkubeReserved: {{memory: 1Gi}}\n"
    );
    let whole = format!("{reviewed}tlsCertFile: /hunter2\ntlsPrivateKeyFile: /key\nsystemReserved: {{memory: 7Gi}}\n");
    let conditions = content::host_conditions(&whole, kubelet);
    let unmet: Vec<_> =
        conditions.into_iter().map(|condition| (condition, Unmet::Missing("/hunter2".to_owned()))).collect();
    let message = content::unmet(&unmet, &reviewed, kubelet);
    assert_eq!(
        message,
        "authentication.x509.clientCAFile: /hunter2 does not exist on this host; \
         tlsCertFile: this host lacks what the value needs together with the node's own configuration; \
         kubeReserved: this host lacks what the value needs together with the node's own configuration",
        "the sum tells the node's own reservation"
    );
}
