//! Test environment: a simulated host, its agent and an API server.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{NodeConfigResource, definition};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile, User};
use nodecfg_sandbox::nodes::{NodeSpec, node_object};
use nodecfg_sandbox::server::kubeconfig::Kubeconfig;
use nodecfg_sandbox::server::serve::{Identity, Options, Serving, serve};
use nodecfg_sandbox::server::wire::Wire;
use serde_json::{Value, json};

use crate::host::Host;
use crate::program::Running;
use crate::{LIMIT, TIMEOUT, until};

/// Name of the node.
pub const NODE: &str = "n1";
/// Namespace of the ConfigMaps.
pub const NAMESPACE: &str = "nodecfg-system";
/// Name of the pool pointer.
pub const POINTER: &str = "nodecfg-pool-prod-gpu";
const TOKEN: &str = "agent-token";

/// Runs a scenario in its own test environment.
pub fn run<F: Future<Output = ()>>(scenario: impl FnOnce(TestEnv) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let env = TestEnv::start().await;
        tokio::time::timeout(LIMIT * 4, scenario(env)).await.expect("the scenario takes too long");
    });
}

/// Summary of `status.config`.
fn summarize(status: &Value) -> String {
    let config = &status["config"];
    let name = |field: &str| config[field]["configMap"]["name"].as_str().unwrap_or("-").to_owned();
    let error = config["error"].as_str().map_or_else(String::new, |error| format!(" {error}"));
    if config.is_null() {
        return "nothing".to_owned();
    }
    format!("{}/{}/{}{error}", name("assigned"), name("active"), name("lastKnownGood"))
}

/// Cluster with one node.
pub struct TestEnv {
    pub host: Host,
    api: Api,
    wire: Wire,
    identity: Identity,
    port: u16,
    serving: Option<Serving>,
}

impl TestEnv {
    /// Starts a server 1.36 with the resource NodeConfig and one node. The server drops `configSource` of Nodes.
    async fn start() -> Self {
        let profile = ServerProfile::V1_36;
        let api = Api::new(ApiOptions {
            profile,
            tokens: BTreeMap::from([(TOKEN.to_owned(), User::admin("agent"))]),
            ..ApiOptions::default()
        });
        let (wire, identity) = (Wire::new(), Identity::generate().unwrap());
        let options = Options { port: None, identity: Some(identity.clone()) };
        let serving = serve(wire.wrap(api.router()), options).await.unwrap();
        let env = Self {
            host: Host::provisioned(),
            api,
            wire,
            identity,
            port: serving.address().port(),
            serving: Some(serving),
        };
        let spec = NodeSpec::new(NodeName::new(NODE).unwrap(), BTreeMap::new(), "v1.36.2");
        env.create("", "nodes", "", node_object(&spec, jiff::Timestamp::now(), 1));
        env.create(
            "",
            "namespaces",
            "",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        let kubeconfig = Kubeconfig {
            server: format!("https://127.0.0.1:{}", env.port),
            ca_pem: env.identity.ca_pem().to_owned(),
            token: TOKEN.to_owned(),
        };
        kubeconfig.save(&env.host.path("kubeconfig")).unwrap();
        env.add_resource();
        env
    }

    /// Adds the resource NodeConfig.
    pub fn add_resource(&self) {
        self.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition());
    }

    /// Removes the resource NodeConfig.
    pub async fn remove_resource(&self) {
        let definitions = kube::Api::<CustomResourceDefinition>::all(self.api.client());
        definitions.delete("nodeconfigs.nodecfg.dev", &Default::default()).await.unwrap();
    }

    fn create(&self, group: &str, resource: &str, namespace: &str, object: Value) {
        self.api.create(group, resource, namespace, object, "test").unwrap_or_else(|_| panic!("create {resource}"));
    }

    /// Creates an immutable ConfigMap with this configuration.
    pub fn create_immutable_config_map(&self, name: &str, text: &str) {
        self.create_config_map(name, text, true);
    }

    /// Creates a ConfigMap with this configuration.
    pub fn create_config_map(&self, name: &str, text: &str, immutable: bool) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE},
            "immutable": immutable, "data": {KUBELET_KEY: text},
        });
        self.create("", "configmaps", NAMESPACE, object);
    }

    /// Creates the pointer of the pool `gpu` of fleet `prod`, which names this content. Returns the name of the
    /// ConfigMap with the content.
    pub fn create_pointer(&self, kubelet: &str) -> String {
        let hash = ContentHash::of(kubelet.as_bytes());
        let config_map = format!("prod-gpu-{}", hash.short());
        let config = PoolConfig { config_map: config_map.clone(), hash, kubelet: kubelet.to_owned(), placement: None };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": POINTER, "namespace": NAMESPACE, "labels": {
                "app.kubernetes.io/managed-by": "nodecfg", "nodecfg.dev/fleet": "prod", "nodecfg.dev/pool": "gpu",
            }},
            "data": PoolPointer::to(Some(config), None).data(),
        });
        self.create("", "configmaps", NAMESPACE, object);
        config_map
    }

    /// Deletes the pool pointer and creates it with other content.
    pub async fn replace_pointer(&self, kubelet: &str) {
        let maps = kube::Api::<ConfigMap>::namespaced(self.api.client(), NAMESPACE);
        maps.delete(POINTER, &Default::default()).await.unwrap();
        self.create_pointer(kubelet);
    }

    /// Changes the content of a ConfigMap.
    pub async fn change_config_map(&self, name: &str, text: &str) {
        let maps = kube::Api::<ConfigMap>::namespaced(self.api.client(), NAMESPACE);
        let patch = Patch::Merge(json!({"data": {KUBELET_KEY: text}}));
        maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes a ConfigMap and creates it with other content.
    pub async fn replace_config_map(&self, name: &str, text: &str) {
        let maps = kube::Api::<ConfigMap>::namespaced(self.api.client(), NAMESPACE);
        maps.delete(name, &Default::default()).await.unwrap();
        self.create_immutable_config_map(name, text);
    }

    /// Assigns the present content of a ConfigMap to the node, whose pods may be disrupted. `None` assigns the local
    /// configuration.
    pub async fn assign(&self, config_map: Option<&str>) {
        let configs = kube::Api::<NodeConfigResource>::all(self.api.client());
        let source = config_map.map(|name| ConfigSource::config_map(NAMESPACE, name, KUBELET_KEY));
        if configs.get_opt(NODE).await.unwrap().is_none() {
            configs.create(&PostParams::default(), &NodeConfigResource::new(NODE, Default::default())).await.unwrap();
        }
        let reviewed = config_map.map(|name| {
            let found = self.api.get("", "configmaps", NAMESPACE, name);
            let text = found.and_then(|map| map["data"][KUBELET_KEY].as_str().map(str::to_owned));
            ContentHash::of(text.unwrap_or_else(|| self.host.configuration(50)).as_bytes())
        });
        self.patch_spec(json!({"configSource": source, "contentHash": reviewed, "maxDisruption": "replace"})).await;
    }

    /// Changes fields of the NodeConfig's spec.
    pub async fn patch_spec(&self, fields: Value) {
        let configs = kube::Api::<NodeConfigResource>::all(self.api.client());
        let patch = Patch::Merge(json!({"spec": fields}));
        configs.patch(NODE, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn delete_node_config(&self) {
        let configs = kube::Api::<NodeConfigResource>::all(self.api.client());
        configs.delete(NODE, &Default::default()).await.unwrap();
    }

    /// Waits until the agent has handled this generation of spec.
    pub async fn wait_for_observed_generation(&self, generation: i64) {
        until("the agent has handled spec", async || self.status()["observedGeneration"] == generation).await;
    }

    /// Creates the NodeConfig with this spec.
    pub fn create_node_config(&self, spec: Value) {
        let object = json!({
            "apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": NODE}, "spec": spec,
        });
        self.create("nodecfg.dev", "nodeconfigs", "", object);
    }

    /// `status` of the NodeConfig.
    pub fn status(&self) -> Value {
        self.api.get("nodecfg.dev", "nodeconfigs", "", NODE).map(|object| object["status"].clone()).unwrap_or_default()
    }

    /// `assigned/active/lastKnownGood error` by ConfigMap names, with `-` for the local configuration. `nothing`
    /// without a status.
    pub fn summary(&self) -> String {
        summarize(&self.status())
    }

    /// Summaries of the status from now on, in order. The NodeConfig must exist.
    pub async fn watch_status(&self) -> Arc<Mutex<Vec<String>>> {
        let configs =
            kube::Api::<DynamicObject>::all_with(self.api.client(), &ApiResource::erase::<NodeConfigResource>(&()));
        let now = configs.get(NODE).await.unwrap();
        let (summaries, all) = (Arc::default(), WatchParams::default().fields(&format!("metadata.name={NODE}")));
        let sink: Arc<Mutex<Vec<String>>> = Arc::clone(&summaries);
        tokio::spawn(async move {
            let mut changes = pin!(configs.watch(&all, &now.resource_version().unwrap()).await.unwrap());
            while let Some(WatchEvent::Modified(config)) = changes.try_next().await.unwrap() {
                sink.lock().unwrap().push(summarize(&config.data["status"]));
            }
        });
        summaries
    }

    /// Waits for a summary of the status. Only for a summary that lasts, since a short-lived one may be missed.
    pub async fn wait_for_status(&self, text: &str) {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        while self.summary() != text {
            let (summary, journal) = (self.summary(), self.host.journal());
            assert!(
                tokio::time::Instant::now() < deadline,
                "the status is {summary:?}, expected {text:?}; kubelet: {journal:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until this is the last event of the kubelet.
    pub async fn wait_for_kubelet(&self, last: &str) {
        until(&format!("the kubelet {last}"), async || self.host.last() == last).await;
    }

    /// Events on the Node, as `reason: message`, without uids and versions.
    pub async fn events(&self) -> Vec<String> {
        let events = kube::Api::<k8s_openapi::api::core::v1::Event>::namespaced(self.api.client(), "default");
        let listed = events.list(&Default::default()).await.unwrap();
        let mut texts: Vec<(Option<String>, String)> = listed
            .items
            .into_iter()
            .map(|event| {
                let message = event.message.unwrap_or_default();
                let message = message.split(", UID:").next().unwrap_or_default().to_owned();
                (event.metadata.resource_version, format!("{}: {message}", event.reason.unwrap_or_default()))
            })
            .collect();
        texts.sort_by_key(|(version, _)| version.as_ref().and_then(|version| version.parse::<u64>().ok()));
        texts.into_iter().map(|(_, text)| text).collect()
    }

    /// Status and reason of a condition.
    pub fn condition(&self, kind: &str) -> String {
        let status = self.status();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        found.map_or_else(String::new, |condition| {
            format!("{} {}", condition["status"].as_str().unwrap(), condition["reason"].as_str().unwrap())
        })
    }

    /// Starts the agent with these arguments and those that every test needs.
    pub fn start_agent_with(&self, arguments: &str) -> Running {
        self.start_agent_from("kubeconfig", arguments)
    }

    /// Starts the agent with this kubeconfig.
    pub fn start_agent_from(&self, kubeconfig: &str, arguments: &str) -> Running {
        self.start_program(&format!(
            "--node-name {NODE} --kubeconfig {kubeconfig} --store-dir store --kubelet-config {} --kubelet-config-dir {} \
             {arguments}",
            self.host.config().display(),
            self.host.path("kubelet.conf.d").display()
        ))
    }

    /// Arguments for an agent that restarts the kubelet itself.
    pub fn restart_args(&self) -> String {
        let path = |name: &str| self.host.path(name).display().to_string();
        format!(
            "--restart-command {} --stop-command {} --restarts-command {} --log-command {} --kubelet-root-dir {} \
             --kubelet-version v1.36.2",
            path("restart"),
            path("stop"),
            path("restarts"),
            path("log"),
            path("root")
        )
    }

    /// Starts the program in the host's folder.
    pub fn start_program(&self, arguments: &str) -> Running {
        Running::start(self.host.folder(), &arguments.split_whitespace().collect::<Vec<_>>())
    }

    /// Starts the agent with a short trial and a long health timeout, as most tests need.
    pub fn start_agent(&self) -> Running {
        self.start_agent_with(&format!("--trial-period 1s --health-timeout 1m {}", self.restart_args()))
    }

    /// Stops the API server and closes every connection.
    pub async fn stop_api(&mut self) {
        self.serving.take().unwrap().abort().await;
    }

    /// Restarts the API server on the same port with the same certificate.
    pub async fn restart_api(&mut self) {
        let options = Options { port: Some(self.port), identity: Some(self.identity.clone()) };
        self.serving = Some(serve(self.wire.wrap(self.api.router()), options).await.unwrap());
    }

    /// Number of requests of the agent.
    pub fn requests(&self, verb: &str, resource: &str) -> u64 {
        self.wire.log.count(verb, resource)
    }

    /// Pauses for 1.5 s to let the agent run.
    pub async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
}
