//! Tests of nodes with agents against the embedded API server, with and without faults.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{ProxyResult, ServerProfile};
use crate::kubelets::Fault;
use crate::machines::Options;
use crate::nodes::NodeSpec;
use crate::{Embedded, EmbeddedOptions, SandboxError, agents};
use nodecfg_agent::settings::Settings;
use nodecfg_contract::ContentHash;
use nodecfg_contract::error_text;
use nodecfg_contract::names::NodeName;

/// Timeout for expected changes, generous for slow machines.
const LIMIT: Duration = Duration::from_secs(60);

struct TestCluster {
    embedded: Embedded,
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

impl TestCluster {
    async fn new(faults: &[&str]) -> Self {
        let specs = ["n1", "n2"].map(|node| NodeSpec::new(name(node), [].into(), "v1.36.2"));
        let options = EmbeddedOptions {
            profile: ServerProfile::V1_36,
            nodes: Options {
                speed: 40.0,
                faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(),
                ..Options::default()
            },
            agents: agents::Options {
                settings: Settings { trial_period: Duration::from_secs(40), ..Settings::default() },
                ..agents::Options::default()
            },
            ..EmbeddedOptions::default()
        };
        Self { embedded: Embedded::start(options, specs.to_vec()).await.unwrap() }
    }

    /// Creates a ConfigMap.
    fn config(&self, name: &str, body: &str) {
        let text = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{body}\n");
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "immutable": true,
            "data": {"kubelet": text}});
        self.embedded.api().create("", "configmaps", "nodecfg-system", config_map, "test").unwrap();
    }

    /// Assigns a ConfigMap to a node, as the reconciler does.
    async fn assign(&self, node: &str, config: Option<&str>) {
        let uid = self.embedded.api().get("", "nodes", "", node).unwrap()["metadata"]["uid"].clone();
        let source = config.map(
            |name| json!({"configMap": {"namespace": "nodecfg-system", "name": name, "kubeletConfigKey": "kubelet"}}),
        );
        let reviewed = config.map(|name| {
            let map = self.embedded.api().get("", "configmaps", "nodecfg-system", name);
            let text = map.and_then(|map| map["data"]["kubelet"].as_str().map(str::to_owned)).unwrap_or_default();
            ContentHash::of(text.as_bytes())
        });
        let mut spec = json!({"maxDisruption": "replace"});
        if let (Some(source), Some(hash)) = (source, reviewed) {
            spec["configSource"] = source;
            spec["contentHash"] = json!(hash);
        }
        let object = json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": node,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]}, "spec": spec});
        let request = kube::core::Request::new("/apis/nodecfg.dev/v1alpha1/nodeconfigs");
        let parameters = kube::core::params::PatchParams::apply("test").force();
        let request = request.patch(node, &parameters, &kube::core::params::Patch::Apply(object)).unwrap();
        self.embedded.client().request::<Value>(request).await.unwrap();
    }

    fn status(&self, node: &str) -> Value {
        let object = self.embedded.api().get("nodecfg.dev", "nodeconfigs", "", node).unwrap_or_default();
        object["status"].clone()
    }

    fn named(&self, node: &str, field: &str) -> Option<String> {
        self.status(node)["config"][field]["configMap"]["name"].as_str().map(str::to_owned)
    }

    fn error(&self, node: &str) -> String {
        self.status(node)["config"]["error"].as_str().unwrap_or_default().to_owned()
    }

    /// Configuration that the kubelet of a node runs.
    fn runs(&self, node: &str) -> Value {
        match self.embedded.api().proxy_get(node, "/configz") {
            ProxyResult::Response { body, .. } => serde_json::from_str::<Value>(&body).unwrap()["kubeletconfig"].take(),
            ProxyResult::Unreachable(_) => Value::Null,
        }
    }

    fn ready(&self, node: &str) -> String {
        let node = self.embedded.api().get("", "nodes", "", node).unwrap();
        let conditions = node["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        ready["status"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let began = std::time::Instant::now();
            while !holds(self) {
                assert!(began.elapsed() < LIMIT, "{caller}: not {what}: {:#}", self.status("n1"));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    fn inject(&self, fault: Option<Fault>) {
        self.embedded.nodes().inject(&name("n1"), fault).unwrap();
    }

    async fn active(&self, node: &str, config: &str) {
        self.until(config, |cluster| {
            cluster.named(node, "active").as_deref() == Some(config) && cluster.error(node).is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn assignment_becomes_active_then_last_known_good_until_reset() {
    let cluster = TestCluster::new(&[]).await;
    cluster.config("a", "maxPods: 50");
    cluster.assign("n1", Some("a")).await;
    cluster.assign("n2", None).await;
    cluster.active("n1", "a").await;
    assert_eq!(cluster.named("n1", "lastKnownGood"), None, "the trial is running");
    cluster.until("known good", |cluster| cluster.named("n1", "lastKnownGood").as_deref() == Some("a")).await;
    cluster.until("observed", |cluster| cluster.status("n2")["config"] == json!({})).await;
    let uid = cluster.status("n1")["config"]["active"]["configMap"]["uid"].clone();
    let config_map = cluster.embedded.api().get("", "configmaps", "nodecfg-system", "a").unwrap();
    assert_eq!(uid, config_map["metadata"]["uid"]);
    cluster.assign("n1", None).await;
    cluster.until("reset", |cluster| cluster.status("n1")["config"] == json!({})).await;
    assert_eq!(cluster.ready("n1"), "True");
    let lease = cluster.embedded.api().get("coordination.k8s.io", "leases", "kube-node-lease", "n1").unwrap();
    assert!(lease["spec"]["renewTime"].as_str().unwrap().parse::<Timestamp>().is_ok());
    let events = cluster.embedded.api();
    let started = "Starting kubelet.";
    let listed: Value = cluster
        .embedded
        .client()
        .request(kube::core::Request::new("/api/v1/events").list(&Default::default()).unwrap())
        .await
        .unwrap();
    let messages: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|event| event["message"].as_str().unwrap()).collect();
    assert_eq!(messages.iter().filter(|message| **message == started).count(), 2, "{messages:?}");
    assert!(messages.iter().any(|message| {
        message.starts_with("Kubelet restarting to use /api/v1/namespaces/nodecfg-system/configmaps/a")
    }));
    // Deletion of the Node deletes its NodeConfig.
    assert!(events.get("nodecfg.dev", "nodeconfigs", "", "n1").is_some());
    let request = kube::core::Request::new("/api/v1/nodes").delete("n1", &Default::default()).unwrap();
    cluster.embedded.client().request_text(request).await.unwrap();
    assert!(events.get("nodecfg.dev", "nodeconfigs", "", "n1").is_none());
    cluster.embedded.stop(None).await;
}

#[tokio::test]
async fn refused_configuration_reports_kubelet_error() {
    let cluster = TestCluster::new(&["n1=load-error", "n2=validate-error"]).await;
    cluster.config("a", "maxPods: 50");
    for (node, error) in [("n1", error_text::LOAD), ("n2", error_text::VALIDATE)] {
        cluster.assign(node, Some("a")).await;
        cluster.until(error, |cluster| cluster.error(node) == error).await;
        assert_eq!((cluster.named(node, "assigned").as_deref(), cluster.named(node, "active")), (Some("a"), None));
        assert_eq!(cluster.ready(node), "True", "the kubelet was not restarted");
    }
    cluster.embedded.stop(None).await;
}

#[tokio::test]
async fn failing_kubelet_rolls_back() {
    for fault in [Fault::NoStart, Fault::Dies, Fault::RestartFails, Fault::NotReady] {
        let cluster = TestCluster::new(&[]).await;
        cluster.config("a", "maxPods: 50");
        cluster.config("b", "maxPods: 60");
        cluster.assign("n1", Some("a")).await;
        cluster.until("known good", |cluster| cluster.named("n1", "lastKnownGood").as_deref() == Some("a")).await;
        cluster.inject(Some(fault.clone()));
        cluster.assign("n1", Some("b")).await;
        let rolled_back = |cluster: &TestCluster| {
            let [assigned, active] = ["assigned", "active"].map(|field| cluster.named("n1", field));
            assigned.as_deref() == Some("b") && active.as_deref() == Some("a") && !cluster.error("n1").is_empty()
        };
        cluster.until(&format!("rolled back after {fault}"), rolled_back).await;
        cluster.until("ready again", |cluster| cluster.ready("n1") == "True").await;
        cluster.embedded.stop(None).await;
    }
}

#[tokio::test]
async fn transient_failures_are_retried() {
    for fault in [Fault::SyncError, Fault::DiskFull, Fault::ApiOutage(60.0)] {
        let cluster = TestCluster::new(&[]).await;
        cluster.config("a", "maxPods: 50");
        cluster.assign("n1", None).await;
        cluster.until("observed", |cluster| cluster.status("n1")["config"] == json!({})).await;
        cluster.inject(Some(fault.clone()));
        cluster.assign("n1", Some("a")).await;
        if fault == Fault::SyncError || fault == Fault::DiskFull {
            cluster.until("a sync error", |cluster| cluster.error("n1").starts_with(error_text::SYNC_PREFIX)).await;
            assert_eq!(cluster.ready("n1"), "True");
            cluster.inject(None);
        }
        cluster.active("n1", "a").await;
        cluster.embedded.stop(None).await;
    }
}

#[tokio::test]
async fn host_continues_after_downtime() {
    let cluster = TestCluster::new(&["n1=crash", "n2=deaf"]).await;
    cluster.config("a", "maxPods: 50");
    for node in ["n1", "n2"] {
        cluster.assign(node, Some("a")).await;
        cluster.until("unknown", |cluster| cluster.ready(node) == "Unknown").await;
        assert_eq!(cluster.named(node, "active"), None);
        cluster.embedded.nodes().inject(&name(node), None).unwrap();
        cluster.active(node, "a").await;
        cluster.until("ready", |cluster| cluster.ready(node) == "True").await;
    }
    cluster.embedded.stop(None).await;
}

#[tokio::test]
async fn node_without_agent_acknowledges_nothing() {
    let cluster = TestCluster::new(&["n1=never-acknowledges", "n2=flap"]).await;
    cluster.config("a", "maxPods: 50");
    cluster.assign("n1", Some("a")).await;
    cluster.assign("n2", Some("a")).await;
    cluster.active("n2", "a").await;
    cluster.until("not ready", |cluster| cluster.ready("n2") == "False").await;
    cluster.until("ready", |cluster| cluster.ready("n2") == "True").await;
    assert_eq!((cluster.status("n1"), cluster.ready("n1").as_str()), (Value::Null, "True"));
    cluster.inject(None);
    cluster.active("n1", "a").await;
    cluster.embedded.stop(None).await;
}

#[tokio::test]
async fn drop_ins_and_flags_override_what_the_agent_places() {
    let cluster = TestCluster::new(&["n1=later-drop-in", "n2=flag:registryPullQPS=7"]).await;
    cluster.config("a", "maxPods: 60\nregistryPullQPS: 9");
    for (node, max_pods, qps) in [("n1", 50, 9), ("n2", 60, 7)] {
        cluster.assign(node, Some("a")).await;
        cluster.active(node, "a").await;
        let runs = cluster.runs(node);
        assert_eq!((&runs["maxPods"], &runs["registryPullQPS"]), (&json!(max_pods), &json!(qps)), "{node}");
    }
    cluster.embedded.stop(None).await;
}

#[tokio::test]
async fn another_program_rewrites_the_file_of_a_new_configuration_once() {
    let cluster = TestCluster::new(&["n1=rewritten-file"]).await;
    cluster.config("a", "maxPods: 60");
    cluster.assign("n1", Some("a")).await;
    cluster.until("rewritten", |cluster| cluster.runs("n1")["containerLogMaxFiles"] == 4).await;
    let restarts = cluster.embedded.nodes().kubelet_restarts(&name("n1"));
    assert_eq!(restarts, Some(2), "by the agent, and by the other program");
    cluster.embedded.stop(None).await;
}

#[tokio::test]
async fn kubelet_with_a_refused_own_configuration_does_not_start() {
    for (profile, version) in [(ServerProfile::V1_36, "v1.36.2"), (ServerProfile::V1_21, "v1.21.14")] {
        let mut specs = ["n1", "n2", "n3"].map(|node| NodeSpec::new(name(node), [].into(), version));
        specs[0].host.flags = vec!["--max-pods=many".to_owned()];
        specs[1].host.file = Some("maxPods: [".to_owned());
        let options = EmbeddedOptions {
            profile,
            nodes: Options { speed: 40.0, ..Options::default() },
            ..EmbeddedOptions::default()
        };
        let cluster = TestCluster { embedded: Embedded::start(options, specs.to_vec()).await.unwrap() };
        for node in ["n1", "n2"] {
            cluster.until("unknown", |cluster| cluster.ready(node) == "Unknown").await;
        }
        assert_eq!(cluster.ready("n3"), "True");
        cluster.embedded.stop(None).await;
    }
}

#[tokio::test]
async fn agent_faults_are_refused_without_agents() {
    for (profile, installed) in [(ServerProfile::V1_21, true), (ServerProfile::V1_36, false)] {
        let faults = ["n1=disk-full".parse().unwrap()].into_iter().collect();
        let options = EmbeddedOptions {
            profile,
            installed,
            nodes: Options { faults, ..Options::default() },
            ..EmbeddedOptions::default()
        };
        let specs = vec![NodeSpec::new(name("n1"), [].into(), "v1.21.14")];
        assert!(matches!(Embedded::start(options, specs).await, Err(SandboxError::NeedsAgent(Fault::DiskFull))));
    }
}
