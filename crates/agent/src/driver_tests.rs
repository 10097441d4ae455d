//! The driver by itself, in a process of its own making: how it ends, and what it tells.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::api::AgentClientOptions;
use crate::disk::memory::MemoryDisk;
use crate::host::Healthz;
use crate::placement::Placement;
use crate::runtime::Paths;
use crate::state::Settings;
use kubelet_config::risk::StateFile;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::definition;
use nodecfg_contract::{ConfigSource, KUBELET_KEY};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

const LOCAL: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\n";

/// A kubelet that is healthy, and whose restart takes until it is let go.
#[derive(Default)]
struct HeldKubelet {
    asked: Notify,
    go: Notify,
    asked_already: AtomicBool,
    fails: bool,
    /// How many times it cannot be asked for a restart.
    away: AtomicUsize,
}

impl Host for HeldKubelet {
    async fn version(&self) -> Option<KubeletVersion> {
        KubeletVersion::parse("v1.36.2")
    }

    async fn restart(&self, _: &[StateFile]) -> Result<(), RestartError> {
        if self.away.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |times| times.checked_sub(1)).is_ok() {
            return Err(RestartError::NotAsked("nobody there".to_owned()));
        }
        self.asked_already.store(true, Ordering::Relaxed);
        self.asked.notify_one();
        self.go.notified().await;
        if self.fails { Err(RestartError::Failed("killed".to_owned())) } else { Ok(()) }
    }

    async fn healthz(&self, _: &Healthz) -> Result<(), String> {
        Ok(())
    }
}

/// A cluster that assigns this text to the node, and an agent's disk.
fn world(text: &str) -> (Api, AgentClient, MemoryDisk) {
    let api = Api::new(ApiOptions { character: ServerProfile::V1_36, ..ApiOptions::default() });
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
        "metadata": {"name": "n1"}, "spec": {"configSource": ConfigSource::config_map("default", "a", KUBELET_KEY)}}),
    );
    create("", "nodes", "", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}));
    let name = NodeName::new("n1").expect("a name");
    let client = AgentClient::new(api.client(), "https://sandbox", name, AgentClientOptions::default());
    let disk = MemoryDisk::new();
    disk.put(Path::new("/kubelet/config.yaml"), LOCAL.as_bytes(), 0o644);
    (api, client, disk)
}

fn runtime(disk: &MemoryDisk) -> AgentRuntime<MemoryDisk> {
    let paths = Paths {
        folder: PathBuf::from("/agent"),
        placement: Placement::File { config: PathBuf::from("/kubelet/config.yaml") },
    };
    let settings = Settings { trial_period: Duration::ZERO, ..Settings::default() };
    AgentRuntime::open(&paths, settings, disk.clone(), 1).expect("opens")
}

/// What it may be spawned as.
fn sendable<F: Future<Output = Result<(), ClusterError>> + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn a_restart_that_has_begun_is_waited_for_and_remembered() {
    let (_api, client, disk) = world(&LOCAL.replace("110", "50"));
    let (host, stop) = (HeldKubelet::default(), Arc::new(Notify::new()));
    let told = Arc::clone(&stop);
    let stopped = async move { told.notified().await };
    let mut run = std::pin::pin!(sendable(run(runtime(&disk), client, &host, Options::default(), stopped)));
    tokio::select! {
        _ = &mut run => panic!("ended by itself"),
        () = host.asked.notified() => {}
    }
    stop.notify_one();
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut run).await.is_err(), "it has to be waited for");
    host.go.notify_one();
    run.await.expect("was asked to end");
    let ledger = runtime(&disk).ledger().clone();
    assert!(matches!(ledger.beyond.phase, Phase::Trying(_)), "{:?}", ledger.beyond.phase);
    assert_eq!((ledger.beyond.restarts, ledger.beyond.active == ledger.assigned), (1, true));
}

#[tokio::test]
async fn a_restart_that_ends_with_the_agent_says_nothing_of_the_configuration() {
    let (_api, client, disk) = world(&LOCAL.replace("110", "50"));
    let host = HeldKubelet { fails: true, ..HeldKubelet::default() };
    // Both at once, as when a service manager ends a whole group of processes.
    let stopped = async {
        host.asked.notified().await;
        host.go.notify_one();
    };
    run(runtime(&disk), client, &host, Options::default(), stopped).await.expect("was asked to end");
    let ledger = runtime(&disk).ledger().clone();
    assert!(matches!(ledger.beyond.phase, Phase::Activating { .. }), "{:?}", ledger.beyond.phase);
    assert_eq!(ledger.beyond.failure, None);
}

#[tokio::test]
async fn a_restart_that_nobody_could_be_asked_for_is_asked_for_again() {
    let (api, client, disk) = world(&LOCAL.replace("110", "50"));
    let host = HeldKubelet { away: AtomicUsize::new(2), ..HeldKubelet::default() };
    host.go.notify_one();
    let limit = Duration::from_secs(60);
    let pass = once(runtime(&disk), client, &host, Options::default(), limit, limit).await.expect("an API server");
    assert_eq!(pass, Pass::Settled);
    let ledger = runtime(&disk).ledger().clone();
    assert_eq!((ledger.beyond.failure, ledger.beyond.restarts, ledger.beyond.rollbacks), (None, 1, 0));
    let object = api.get("nodecfg.dev", "nodeconfigs", "", "n1").expect("is there");
    assert_eq!(object["status"]["config"]["active"]["configMap"]["name"], "a");
    assert_eq!(object["status"]["config"].get("error"), None);
}

/// It ends in order: a restart that has begun is seen through, and goes on from where it was with the next start.
#[tokio::test]
async fn an_agent_whose_credentials_are_refused_ends_once_the_kubelet_is_restarted() {
    let (_api, client, disk) = world(&LOCAL.replace("110", "50"));
    let host = HeldKubelet::default();
    let (limit, patience) = (Duration::from_secs(60), Duration::from_millis(50));
    // An agent that was ended in the midst of an activation.
    let stopped = host.asked.notified();
    let first = once(runtime(&disk), client, &host, Options::default(), limit, limit);
    tokio::select! {
        _ = first => panic!("ended by itself"),
        () = stopped => {}
    }
    let refusing = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        http::Response::builder().status(401).body(kube::client::Body::empty())
    });
    let options = AgentClientOptions { refusal_patience: Duration::ZERO, ..AgentClientOptions::default() };
    let name = NodeName::new("n1").expect("a name");
    let client = AgentClient::new(kube::Client::new(refusing, "default"), "https://refusing", name, options);
    let mut run = std::pin::pin!(run(runtime(&disk), client, &host, Options::default(), std::future::pending()));
    tokio::select! {
        _ = &mut run => panic!("ended before it had asked"),
        () = host.asked.notified() => {}
    }
    assert!(tokio::time::timeout(patience, &mut run).await.is_err(), "it has to be waited for");
    host.go.notify_one();
    let error = run.await.expect_err("says why it ended");
    assert!(matches!(error, ClusterError::Unauthorized { .. }), "{error}");
    assert_eq!(runtime(&disk).ledger().beyond.restarts, 1);
}

#[tokio::test]
async fn once_ends_when_everything_is_told() {
    let (api, client, disk) = world(&LOCAL.replace("110", "50"));
    let host = HeldKubelet::default();
    host.go.notify_one();
    let metrics = Metrics::default();
    let options = Options { metrics: metrics.clone(), ..Options::default() };
    let limit = Duration::from_secs(60);
    let pass = once(runtime(&disk), client, &host, options, limit, limit).await.expect("an API server");
    assert_eq!(pass, Pass::Settled);
    let object = api.get("nodecfg.dev", "nodeconfigs", "", "n1").expect("is there");
    assert_eq!(object["status"]["config"]["lastKnownGood"]["configMap"]["name"], "a");
    assert!(host.asked_already.load(Ordering::Relaxed));
    assert!(metrics.text().contains("kubelet_node_config_error 0"));
}

#[tokio::test]
async fn once_on_a_refused_configuration_touches_nothing() {
    let (_api, client, disk) = world(&LOCAL.replace("110", "-1"));
    let host = HeldKubelet::default();
    let limit = Duration::from_secs(60);
    let pass = once(runtime(&disk), client, &host, Options::default(), limit, limit).await.expect("an API server");
    let Pass::Failed { error, message } = pass else { panic!("{pass:?}") };
    assert_eq!(error, "failed to validate config, see Kubelet log for details");
    assert!(message.is_some_and(|message| message.contains("maxPods")));
    assert!(!host.asked_already.load(Ordering::Relaxed), "not restarted");
}
