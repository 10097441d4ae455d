//! Nodes with agents against the embedded API server: what becomes of an assignment, with each fault and without.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::ServerProfile;
use crate::kubelets::Fault;
use crate::nodes::NodeSpec;
use crate::{Embedded, EmbeddedOptions, SandboxError};
use nodecfg_agent::state::Settings;
use nodecfg_contract::error_text;
use nodecfg_contract::names::NodeName;

/// Long enough for anything that happens at all, on any machine.
const LIMIT: Duration = Duration::from_secs(60);

struct Bench {
    embedded: Embedded,
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

impl Bench {
    async fn new(faults: &[&str]) -> Self {
        let specs = ["n1", "n2"].map(|node| NodeSpec::new(name(node), [].into(), "v1.36.2"));
        let options = EmbeddedOptions {
            character: ServerProfile::V1_36,
            speed: 40.0,
            faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(),
            agents: Settings { trial_period: Duration::from_secs(40), ..Settings::default() },
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

    /// Points a node at a ConfigMap, as the reconciler does.
    async fn assign(&self, node: &str, config: Option<&str>) {
        let uid = self.embedded.api().get("", "nodes", "", node).unwrap()["metadata"]["uid"].clone();
        let source = config.map(
            |name| json!({"configMap": {"namespace": "nodecfg-system", "name": name, "kubeletConfigKey": "kubelet"}}),
        );
        let spec = source.map_or_else(|| json!({}), |source| json!({"configSource": source}));
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

    async fn inject(&self, fault: Option<Fault>) {
        self.embedded.nodes().inject(&name("n1"), fault).await.unwrap();
    }

    async fn active(&self, node: &str, config: &str) {
        self.until(config, |bench| {
            bench.named(node, "active").as_deref() == Some(config) && bench.error(node).is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn an_assignment_becomes_active_then_last_known_good_and_a_reset_ends_it() {
    let bench = Bench::new(&[]).await;
    bench.config("a", "maxPods: 50");
    bench.assign("n1", Some("a")).await;
    bench.assign("n2", None).await;
    bench.active("n1", "a").await;
    assert_eq!(bench.named("n1", "lastKnownGood"), None, "it is on trial");
    bench.until("known good", |bench| bench.named("n1", "lastKnownGood").as_deref() == Some("a")).await;
    bench.until("looked at", |bench| bench.status("n2")["config"] == json!({})).await;
    let uid = bench.status("n1")["config"]["active"]["configMap"]["uid"].clone();
    let config_map = bench.embedded.api().get("", "configmaps", "nodecfg-system", "a").unwrap();
    assert_eq!(uid, config_map["metadata"]["uid"]);
    bench.assign("n1", None).await;
    bench.until("reset", |bench| bench.status("n1")["config"] == json!({})).await;
    assert_eq!(bench.ready("n1"), "True");
    let lease = bench.embedded.api().get("coordination.k8s.io", "leases", "kube-node-lease", "n1").unwrap();
    assert!(lease["spec"]["renewTime"].as_str().unwrap().parse::<Timestamp>().is_ok());
    let events = bench.embedded.api();
    let started = "Starting kubelet.";
    let listed: Value = bench
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
    // The NodeConfig goes with its Node, and so does the agent.
    assert!(events.get("nodecfg.dev", "nodeconfigs", "", "n1").is_some());
    let request = kube::core::Request::new("/api/v1/nodes").delete("n1", &Default::default()).unwrap();
    bench.embedded.client().request_text(request).await.unwrap();
    assert!(events.get("nodecfg.dev", "nodeconfigs", "", "n1").is_none());
    bench.embedded.stop(None).await;
}

#[tokio::test]
async fn what_the_agent_refuses_has_the_kubelets_own_error() {
    let bench = Bench::new(&["n1=load-error", "n2=validate-error"]).await;
    bench.config("a", "maxPods: 50");
    for (node, error) in [("n1", error_text::LOAD), ("n2", error_text::VALIDATE)] {
        bench.assign(node, Some("a")).await;
        bench.until(error, |bench| bench.error(node) == error).await;
        assert_eq!((bench.named(node, "assigned").as_deref(), bench.named(node, "active")), (Some("a"), None));
        assert_eq!(bench.ready(node), "True", "the kubelet was not touched");
    }
    bench.embedded.stop(None).await;
}

#[tokio::test]
async fn a_kubelet_that_does_not_start_or_dies_or_is_not_ready_falls_back() {
    for fault in [Fault::NoStart, Fault::Dies, Fault::RestartFails, Fault::NotReady] {
        let bench = Bench::new(&[]).await;
        bench.config("a", "maxPods: 50");
        bench.config("b", "maxPods: 60");
        bench.assign("n1", Some("a")).await;
        bench.until("known good", |bench| bench.named("n1", "lastKnownGood").as_deref() == Some("a")).await;
        bench.inject(Some(fault)).await;
        bench.assign("n1", Some("b")).await;
        let fallen = |bench: &Bench| {
            let [assigned, active] = ["assigned", "active"].map(|field| bench.named("n1", field));
            assigned.as_deref() == Some("b") && active.as_deref() == Some("a") && !bench.error("n1").is_empty()
        };
        bench.until(&format!("back after {fault}"), fallen).await;
        bench.until("ready again", |bench| bench.ready("n1") == "True").await;
        bench.embedded.stop(None).await;
    }
}

#[tokio::test]
async fn what_is_on_the_way_is_retried_until_it_works() {
    for fault in [Fault::SyncError, Fault::DiskFull, Fault::ApiOutage(60.0)] {
        let bench = Bench::new(&[]).await;
        bench.config("a", "maxPods: 50");
        bench.assign("n1", None).await;
        bench.until("looked at", |bench| bench.status("n1")["config"] == json!({})).await;
        bench.inject(Some(fault)).await;
        bench.assign("n1", Some("a")).await;
        if fault == Fault::SyncError || fault == Fault::DiskFull {
            bench.until("a sync error", |bench| bench.error("n1").starts_with(error_text::SYNC_PREFIX)).await;
            assert_eq!(bench.ready("n1"), "True");
            bench.inject(None).await;
        }
        bench.active("n1", "a").await;
        bench.embedded.stop(None).await;
    }
}

#[tokio::test]
async fn a_host_that_goes_down_goes_on_where_it_was_when_it_is_back() {
    let bench = Bench::new(&["n1=crash", "n2=deaf"]).await;
    bench.config("a", "maxPods: 50");
    for node in ["n1", "n2"] {
        bench.assign(node, Some("a")).await;
        bench.until("unknown", |bench| bench.ready(node) == "Unknown").await;
        assert_eq!(bench.named(node, "active"), None);
        bench.embedded.nodes().inject(&name(node), None).await.unwrap();
        bench.active(node, "a").await;
        bench.until("ready", |bench| bench.ready(node) == "True").await;
    }
    bench.embedded.stop(None).await;
}

#[tokio::test]
async fn without_an_agent_nothing_is_acknowledged() {
    let bench = Bench::new(&["n1=never-acknowledges", "n2=flap"]).await;
    bench.config("a", "maxPods: 50");
    bench.assign("n1", Some("a")).await;
    bench.assign("n2", Some("a")).await;
    bench.active("n2", "a").await;
    bench.until("not ready", |bench| bench.ready("n2") == "False").await;
    bench.until("ready", |bench| bench.ready("n2") == "True").await;
    assert_eq!((bench.status("n1"), bench.ready("n1").as_str()), (Value::Null, "True"));
    bench.inject(None).await;
    bench.active("n1", "a").await;
    bench.embedded.stop(None).await;
}

#[tokio::test]
async fn faults_of_agents_are_refused_where_there_are_none() {
    for (character, installed) in [(ServerProfile::V1_21, true), (ServerProfile::V1_36, false)] {
        let faults = ["n1=disk-full".parse().unwrap()].into_iter().collect();
        let options = EmbeddedOptions { character, installed, faults, ..EmbeddedOptions::default() };
        let specs = vec![NodeSpec::new(name("n1"), [].into(), "v1.21.14")];
        assert!(matches!(Embedded::start(options, specs).await, Err(SandboxError::NeedsAgent(Fault::DiskFull))));
    }
}
