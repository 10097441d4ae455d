//! Tests of the driver against the sandbox's API server, with a disk in memory: exit, restarts and reports.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::api::AgentClientOptions;
use crate::disk::memory::MemoryDisk;
use crate::host::problem::RestartProblem;
use crate::host::{Healthz, StateFiles};
use crate::placement::Activation;
use crate::runtime::Paths;
use crate::settings::Settings;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::definition;
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

const CONFIG: &str = "/kubelet/config.yaml";
const LOCAL: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\n";

/// Healthy kubelet whose restart blocks until the test releases it.
#[derive(Default)]
struct BlockingKubelet {
    restart_requested: Notify,
    release: Notify,
    restarted: AtomicBool,
    /// Error of the restart.
    fails: Option<RestartError>,
    /// Number of restart requests to reject.
    unreachable_requests: AtomicUsize,
    /// Number of probes that find the kubelet healthy before others find it unhealthy. `None`: all of them.
    healthy_probes: Option<AtomicUsize>,
    /// Number of looks at which the host lacks what a configuration needs.
    lacking_looks: AtomicUsize,
    /// Times from which the kubelet's errors were requested.
    errors_since: Mutex<Vec<Timestamp>>,
    errors_requested: Notify,
}

/// Counts down to 0. Returns whether it was above.
fn counted_down(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

impl Host for BlockingKubelet {
    async fn version(&self) -> Option<KubeletVersion> {
        KubeletVersion::parse("v1.36.2")
    }

    async fn discard_state_files(&self) -> Result<(), RestartError> {
        Ok(())
    }

    async fn restart(&self, _: &StateFiles) -> Result<(), RestartError> {
        if counted_down(&self.unreachable_requests) {
            return Err(RestartError::NotRequested(RestartProblem::MaybeStopped.into()));
        }
        self.restarted.store(true, Ordering::Relaxed);
        self.restart_requested.notify_one();
        self.release.notified().await;
        self.fails.clone().map_or(Ok(()), Err)
    }

    async fn healthz(&self, _: &Healthz) -> Result<(), HealthzError> {
        if self.healthy_probes.as_ref().is_none_or(counted_down) { Ok(()) } else { Err(HealthzError::refused()) }
    }

    async fn unmet(&self, needs: &[HostNeed]) -> Vec<Option<Unmet>> {
        let lacks = counted_down(&self.lacking_looks);
        needs.iter().map(|_| lacks.then(|| Unmet::Missing("/ca.crt".to_owned()))).collect()
    }

    async fn service_report(&self, since: Timestamp) -> ServiceReport<LastError> {
        self.errors_since.lock().expect("no panic").push(since);
        self.errors_requested.notify_one();
        ServiceReport { restarts: None, last_error: LastError::in_log("Error: unknown scope: x") }
    }
}

/// Kubelet with a restart command that ends without an error. The number of looks at which its process is still the old one.
struct IdleCommand(AtomicUsize);

impl Host for IdleCommand {
    async fn version(&self) -> Option<KubeletVersion> {
        None
    }

    async fn discard_state_files(&self) -> Result<(), RestartError> {
        Ok(())
    }

    async fn restart(&self, _: &StateFiles) -> Result<(), RestartError> {
        Ok(())
    }

    async fn healthz(&self, _: &Healthz) -> Result<(), HealthzError> {
        Ok(())
    }

    async fn process(&self) -> Result<KubeletProcess, ProcessProblem> {
        let pid = if counted_down(&self.0) { 7 } else { 8 };
        Ok(KubeletProcess { pid, ..KubeletProcess::default() })
    }
}

/// The kubelet of before is healthy, and proves nothing about the configuration that it has not read.
#[tokio::test]
async fn command_that_restarts_nothing_is_a_failed_restart() {
    let restarted = async |looks: usize| {
        let host = IdleCommand(AtomicUsize::new(looks));
        restart(&host, &ScaledClock::simulated(1000.0), &StateFiles::default()).await
    };
    assert_eq!(restarted(1).await, Ok(()));
    assert_eq!(restarted(5).await, Ok(()), "a service manager may accept a request and restart later");
    assert_eq!(restarted(100).await, Err(RestartError::Failed(RestartProblem::SameProcess(7).into())));
}

/// Cluster that assigns this text to the node, and the agent's disk.
fn cluster_and_disk(text: &str) -> (Api, AgentClient, MemoryDisk) {
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    let create = |group: &str, resource: &str, namespace: &str, object| {
        api.create(group, resource, namespace, object, "test").unwrap_or_else(|_| panic!("{resource}"));
    };
    create("apiextensions.k8s.io", "customresourcedefinitions", "", definition());
    create(
        "",
        "configmaps",
        "default",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": {"name": "a", "namespace": "default"}, "data": {KUBELET_KEY: text}}),
    );
    create(
        "nodecfg.dev",
        "nodeconfigs",
        "",
        json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig",
        "metadata": {"name": "n1"}, "spec": {
            "configSource": ConfigSource::config_map("default", "a", KUBELET_KEY),
            "contentHash": ContentHash::of(text.as_bytes()),
            "maxDisruption": "drain",
        }}),
    );
    create(
        "",
        "nodes",
        "",
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    let name = NodeName::new("n1").expect("a name");
    let client = AgentClient::new(api.client(), "https://sandbox", name, AgentClientOptions::default());
    let disk = MemoryDisk::new();
    disk.put(Path::new(CONFIG), LOCAL.as_bytes(), 0o644);
    (api, client, disk)
}

fn runtime(disk: &MemoryDisk) -> AgentRuntime<MemoryDisk> {
    runtime_with(disk, Settings { trial_period: Duration::ZERO, ..Settings::default() })
}

fn runtime_with(disk: &MemoryDisk, settings: Settings) -> AgentRuntime<MemoryDisk> {
    let paths =
        Paths { folder: PathBuf::from("/agent"), activation: Activation::File { config: PathBuf::from(CONFIG) } };
    AgentRuntime::open(&paths, settings, disk.clone(), 1).expect("opens")
}

/// Asserts that the future is `Send`, as required for spawning.
fn assert_send<F: Future<Output = Result<(), ClusterError>> + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn finishes_started_restart_before_exit() {
    let (_api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "50"));
    let (host, stop) = (BlockingKubelet::default(), Arc::new(Notify::new()));
    let stop_requested = Arc::clone(&stop);
    let stopped = async move { stop_requested.notified().await };
    let mut run = std::pin::pin!(assert_send(run(runtime(&disk), client, &host, Options::default(), stopped)));
    tokio::select! {
        _ = &mut run => panic!("ended by itself"),
        () = host.restart_requested.notified() => {}
    }
    stop.notify_one();
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut run).await.is_err(), "the restart must finish first");
    host.release.notify_one();
    run.await.expect("ends on request");
    let ledger = runtime(&disk).ledger().clone();
    assert!(matches!(ledger.agent_state.phase, Phase::Trying(_)), "{:?}", ledger.agent_state.phase);
    assert_eq!((ledger.agent_state.restarts, ledger.agent_state.active == ledger.assigned), (1, true));
}

#[tokio::test]
async fn ignores_restart_failure_during_exit() {
    let (_api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "50"));
    let host = BlockingKubelet {
        fails: Some(RestartError::Failed(RestartProblem::MaybeStopped.into())),
        ..BlockingKubelet::default()
    };
    // The restart command fails and the agent is stopped at once, as when a service manager ends a process group.
    let stopped = async {
        host.restart_requested.notified().await;
        host.release.notify_one();
    };
    run(runtime(&disk), client, &host, Options::default(), stopped).await.expect("ends on request");
    let ledger = runtime(&disk).ledger().clone();
    assert!(matches!(ledger.agent_state.phase, Phase::Activating { .. }), "{:?}", ledger.agent_state.phase);
    assert_eq!(ledger.agent_state.failure, None);
}

/// No trial watches the assignment until the agent starts again.
#[tokio::test]
async fn last_known_good_returns_if_a_restart_is_not_requested_during_exit() {
    let (_api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "50"));
    let fails = Some(RestartError::NotRequested(RestartProblem::MaybeStopped.into()));
    let host = BlockingKubelet { fails, ..BlockingKubelet::default() };
    let stopped = async {
        host.restart_requested.notified().await;
        assert!(disk.content(Path::new(CONFIG)).is_some_and(|content| *content != *LOCAL.as_bytes()));
        host.release.notify_one();
    };
    run(runtime(&disk), client, &host, Options::default(), stopped).await.expect("ends on request");
    assert_eq!(disk.content(Path::new(CONFIG)).as_deref(), Some(LOCAL.as_bytes()));
}

#[tokio::test]
async fn retries_unrequested_restart() {
    let (api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "50"));
    let host = BlockingKubelet { unreachable_requests: AtomicUsize::new(2), ..BlockingKubelet::default() };
    host.release.notify_one();
    let limit = Duration::from_secs(60);
    let pass = once(runtime(&disk), client, &host, Options::default(), limit, limit).await.expect("an API server");
    assert_eq!(pass, Pass::Settled);
    let ledger = runtime(&disk).ledger().clone();
    assert_eq!((ledger.agent_state.failure, ledger.agent_state.restarts, ledger.agent_state.rollbacks), (None, 1, 0));
    let object = api.get("nodecfg.dev", "nodeconfigs", "", "n1").expect("exists");
    assert_eq!(object["status"]["config"]["active"]["configMap"]["name"], "a");
    assert_eq!(object["status"]["config"].get("error"), None);
}

/// A started restart is finished first; the next start continues from its result.
#[tokio::test]
async fn exits_on_refused_credentials_after_restart() {
    let (_api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "50"));
    let host = BlockingKubelet::default();
    let (limit, timeout) = (Duration::from_secs(60), Duration::from_millis(50));
    // An earlier agent ended during an activation.
    let stopped = host.restart_requested.notified();
    let first = once(runtime(&disk), client, &host, Options::default(), limit, limit);
    tokio::select! {
        _ = first => panic!("ended by itself"),
        () = stopped => {}
    }
    let refusing = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        http::Response::builder().status(401).body(kube::client::Body::empty())
    });
    let options = AgentClientOptions { refusal_timeout: Duration::ZERO, ..AgentClientOptions::default() };
    let name = NodeName::new("n1").expect("a name");
    let client = AgentClient::new(kube::Client::new(refusing, "default"), "https://refusing", name, options);
    let mut run = std::pin::pin!(run(runtime(&disk), client, &host, Options::default(), std::future::pending()));
    tokio::select! {
        _ = &mut run => panic!("ended before requesting the restart"),
        () = host.restart_requested.notified() => {}
    }
    assert!(tokio::time::timeout(timeout, &mut run).await.is_err(), "the restart must finish first");
    host.release.notify_one();
    let error = run.await.expect_err("the driver ends with an error");
    assert!(matches!(error, ClusterError::Unauthorized { .. }), "{error}");
    assert_eq!(runtime(&disk).ledger().agent_state.restarts, 1);
}

#[tokio::test]
async fn once_ends_after_final_report() {
    let (api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "50"));
    let host = BlockingKubelet::default();
    host.release.notify_one();
    let metrics = Metrics::default();
    let options = Options { metrics: metrics.clone(), ..Options::default() };
    let limit = Duration::from_secs(60);
    let pass = once(runtime(&disk), client, &host, options, limit, limit).await.expect("an API server");
    assert_eq!(pass, Pass::Settled);
    let object = api.get("nodecfg.dev", "nodeconfigs", "", "n1").expect("exists");
    assert_eq!(object["status"]["config"]["lastKnownGood"]["configMap"]["name"], "a");
    assert!(host.restarted.load(Ordering::Relaxed));
    assert!(metrics.text().contains("kubelet_node_config_error 0"));
}

#[tokio::test]
async fn once_does_not_activate_refused_configuration() {
    let (_api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "-1"));
    let host = BlockingKubelet::default();
    let limit = Duration::from_secs(60);
    let pass = once(runtime(&disk), client, &host, Options::default(), limit, limit).await.expect("an API server");
    let Pass::Failed { error, message } = pass else { panic!("{pass:?}") };
    assert_eq!(error, "failed to validate config, see Kubelet log for details");
    assert!(message.is_some_and(|message| message.contains("maxPods")));
    assert!(!host.restarted.load(Ordering::Relaxed), "not restarted");
}

/// Another program may be replacing a file at the first look.
#[tokio::test]
async fn host_must_lack_something_twice() {
    let text = format!("{LOCAL}authentication: {{x509: {{clientCAFile: /ca.crt}}}}\n");
    for (looks, refuses) in [(1, false), (2, true)] {
        let (_api, client, disk) = cluster_and_disk(&text);
        let host = BlockingKubelet { lacking_looks: AtomicUsize::new(looks), ..BlockingKubelet::default() };
        host.release.notify_one();
        let limit = Duration::from_secs(60);
        let pass = once(runtime(&disk), client, &host, Options::default(), limit, limit).await.expect("an API server");
        assert_eq!(host.restarted.load(Ordering::Relaxed), !refuses, "{looks}");
        match pass {
            Pass::Failed { message, .. } if refuses => {
                let reason = "authentication.x509.clientCAFile: /ca.crt does not exist on this host";
                assert_eq!(message.as_deref(), Some(reason));
            }
            pass => assert!(pass == Pass::Settled && !refuses, "{pass:?}"),
        }
    }
}

/// The kubelet reports an error between the request of its restart and the failure of the command.
#[tokio::test]
async fn reads_errors_of_a_failed_restart_since_its_request() {
    let (_api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "50"));
    let host = BlockingKubelet {
        fails: Some(RestartError::Failed(RestartProblem::MaybeStopped.into())),
        ..BlockingKubelet::default()
    };
    let options = Options::default();
    let clock = options.clock.clone();
    let mut run = std::pin::pin!(run(runtime(&disk), client, &host, options, std::future::pending()));
    tokio::select! {
        _ = &mut run => panic!("ended by itself"),
        () = host.restart_requested.notified() => {}
    }
    let requested = clock.now();
    host.release.notify_one();
    // The rollback.
    tokio::select! {
        _ = &mut run => panic!("ended by itself"),
        () = host.restart_requested.notified() => {}
    }
    let since = host.errors_since.lock().expect("no panic").clone();
    assert!(matches!(since[..], [since] if since <= requested), "{since:?}, requested at {requested}");
    let failure = runtime(&disk).ledger().agent_state.failure.clone().expect("rolled back");
    assert!(failure.error.contains("unknown scope"), "{}", failure.error);
}

/// A Lease that is not renewed may have its reason in the log. An error before a healthy probe explains no later failure.
#[tokio::test]
async fn reads_errors_of_an_unhealthy_node_since_its_last_health() {
    let (api, client, disk) = cluster_and_disk(&LOCAL.replace("110", "50"));
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}});
    let host = BlockingKubelet { healthy_probes: Some(AtomicUsize::new(1)), ..BlockingKubelet::default() };
    let settings = Settings { probe_interval: Duration::from_millis(10), ..Settings::default() };
    let runtime = runtime_with(&disk, settings);
    let mut run = std::pin::pin!(run(runtime, client, &host, Options::default(), std::future::pending()));
    tokio::select! {
        _ = &mut run => panic!("ended by itself"),
        () = host.restart_requested.notified() => {}
    }
    // The node had no Lease before, so its trial requires none.
    api.create("coordination.k8s.io", "leases", "kube-node-lease", lease, "test").unwrap_or_else(|_| panic!("a Lease"));
    host.release.notify_one();
    for _ in 0..2 {
        tokio::select! {
            _ = &mut run => panic!("ended by itself"),
            () = host.errors_requested.notified() => {}
        }
    }
    let since = host.errors_since.lock().expect("no panic").clone();
    assert!(since[0] < since[1], "the restart, then the healthy probe: {since:?}");
}
