//! A host, its agent and the API server that they belong to.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{NodeConfigResource, definition};
use nodecfg_contract::{ConfigSource, KUBELET_KEY};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile, User};
use nodecfg_sandbox::face::ServerFace;
use nodecfg_sandbox::face::kubeconfig::Kubeconfig;
use nodecfg_sandbox::face::serve::{Identity, Options, Serving, serve};
use nodecfg_sandbox::face::wire::Wire;
use nodecfg_sandbox::nodes::{NodeSpec, node_object};
use serde_json::{Value, json};

use crate::node::Host;
use crate::program::Running;
use crate::{LIMIT, PATIENCE, until};

/// The node.
pub const NODE: &str = "n1";
/// Where its ConfigMaps are.
const NAMESPACE: &str = "nodecfg-system";
const TOKEN: &str = "agent-token";

/// Runs a scenario on a site of its own.
pub fn run<F: Future<Output = ()>>(scenario: impl FnOnce(Site) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let site = Site::up().await;
        tokio::time::timeout(LIMIT * 4, scenario(site)).await.expect("the scenario takes too long");
    });
}

/// What a status says of the configuration.
fn said(status: &Value) -> String {
    let config = &status["config"];
    let name = |field: &str| config[field]["configMap"]["name"].as_str().unwrap_or("-").to_owned();
    let error = config["error"].as_str().map_or_else(String::new, |error| format!(" {error}"));
    if config.is_null() {
        return "nothing".to_owned();
    }
    format!("{}/{}/{}{error}", name("assigned"), name("active"), name("lastKnownGood"))
}

/// A node of a cluster.
pub struct Site {
    pub host: Host,
    api: Api,
    wire: Wire,
    identity: Identity,
    port: u16,
    serving: Option<Serving>,
}

impl Site {
    /// A cluster that drops `configSource`, has the resource NodeConfig, and this one node.
    async fn up() -> Self {
        let character = ServerProfile::V1_36;
        let api = Api::new(ApiOptions {
            character,
            tokens: BTreeMap::from([(TOKEN.to_owned(), User::admin("agent"))]),
            face: Some(Arc::new(ServerFace::new(character))),
            ..ApiOptions::default()
        });
        let (wire, identity) = (Wire::new(), Identity::generate().unwrap());
        let options = Options { port: None, identity: Some(identity.clone()) };
        let serving = serve(wire.wrap(api.router()), options).await.unwrap();
        let site = Self {
            host: Host::provisioned(),
            api,
            wire,
            identity,
            port: serving.address().port(),
            serving: Some(serving),
        };
        let spec = NodeSpec::new(NodeName::new(NODE).unwrap(), BTreeMap::new(), "v1.36.2");
        site.create("", "nodes", "", node_object(&spec, jiff::Timestamp::now(), 1));
        site.create(
            "",
            "namespaces",
            "",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        let kubeconfig = Kubeconfig {
            server: format!("https://127.0.0.1:{}", site.port),
            ca_pem: site.identity.ca_pem().to_owned(),
            token: TOKEN.to_owned(),
        };
        kubeconfig.save(&site.host.path("kubeconfig")).unwrap();
        site.add_resource();
        site
    }

    /// Adds the resource NodeConfig.
    pub fn add_resource(&self) {
        self.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition());
    }

    /// Removes it again.
    pub async fn remove_resource(&self) {
        let definitions = kube::Api::<CustomResourceDefinition>::all(self.api.client());
        definitions.delete("nodeconfigs.nodecfg.dev", &Default::default()).await.unwrap();
    }

    fn create(&self, group: &str, resource: &str, namespace: &str, object: Value) {
        self.api.create(group, resource, namespace, object, "test").unwrap_or_else(|_| panic!("create {resource}"));
    }

    /// Creates a ConfigMap with this configuration.
    pub fn config_map(&self, name: &str, text: &str) {
        self.any_config_map(name, text, true);
    }

    /// The same, immutable or not.
    pub fn any_config_map(&self, name: &str, text: &str, immutable: bool) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE},
            "immutable": immutable, "data": {KUBELET_KEY: text},
        });
        self.create("", "configmaps", NAMESPACE, object);
    }

    /// Changes the content of a ConfigMap.
    pub async fn change_config_map(&self, name: &str, text: &str) {
        let maps = kube::Api::<ConfigMap>::namespaced(self.api.client(), NAMESPACE);
        let patch = Patch::Merge(json!({"data": {KUBELET_KEY: text}}));
        maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Assigns a ConfigMap to the node, or with `None` its local configuration.
    pub async fn assign(&self, config_map: Option<&str>) {
        let configs = kube::Api::<NodeConfigResource>::all(self.api.client());
        let source = config_map.map(|name| ConfigSource::config_map(NAMESPACE, name, KUBELET_KEY));
        if configs.get_opt(NODE).await.unwrap().is_none() {
            configs.create(&PostParams::default(), &NodeConfigResource::new(NODE, Default::default())).await.unwrap();
        }
        let patch = Patch::Merge(json!({"spec": {"configSource": source}}));
        configs.patch(NODE, &PatchParams::default(), &patch).await.unwrap();
    }

    /// `status` of the NodeConfig.
    pub fn status(&self) -> Value {
        self.api.get("nodecfg.dev", "nodeconfigs", "", NODE).map(|object| object["status"].clone()).unwrap_or_default()
    }

    /// `assigned/active/lastKnownGood error`, by the names of ConfigMaps, `-` for none.
    pub fn says(&self) -> String {
        said(&self.status())
    }

    /// Everything that the status says from now on, in order. The NodeConfig must be there.
    pub async fn follow(&self) -> Arc<Mutex<Vec<String>>> {
        let configs =
            kube::Api::<DynamicObject>::all_with(self.api.client(), &ApiResource::erase::<NodeConfigResource>(&()));
        let now = configs.get(NODE).await.unwrap();
        let (heard, all) = (Arc::default(), WatchParams::default().fields(&format!("metadata.name={NODE}")));
        let sink: Arc<Mutex<Vec<String>>> = Arc::clone(&heard);
        tokio::spawn(async move {
            let mut changes = pin!(configs.watch(&all, &now.resource_version().unwrap()).await.unwrap());
            while let Some(WatchEvent::Modified(config)) = changes.try_next().await.unwrap() {
                sink.lock().unwrap().push(said(&config.data["status"]));
            }
        });
        heard
    }

    /// Waits until the status says so. It must say so from then on: what it says only for a while may be missed.
    pub async fn until_it_says(&self, text: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.says() != text {
            let (said, journal) = (self.says(), self.host.journal());
            assert!(
                tokio::time::Instant::now() < deadline,
                "the status says {said:?}, not {text:?}; kubelet: {journal:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until this is the last that happened to the kubelet.
    pub async fn until_kubelet(&self, last: &str) {
        until(&format!("the kubelet {last}"), async || self.host.last() == last).await;
    }

    /// The events on the Node, as `reason: message`, without uids and versions.
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

    /// A condition: its status and reason.
    pub fn condition(&self, kind: &str) -> String {
        let status = self.status();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        found.map_or_else(String::new, |condition| {
            format!("{} {}", condition["status"].as_str().unwrap(), condition["reason"].as_str().unwrap())
        })
    }

    /// Starts the agent, with what every test needs and these arguments.
    pub fn agent(&self, arguments: &str) -> Running {
        self.program(&format!(
            "--node-name {NODE} --kubeconfig kubeconfig --store-dir store --kubelet-config {} --kubelet-config-dir {} \
             {arguments}",
            self.host.config().display(),
            self.host.path("kubelet.conf.d").display()
        ))
    }

    /// The arguments with which it restarts the kubelet itself.
    pub fn own_hands(&self) -> String {
        let path = |name: &str| self.host.path(name).display().to_string();
        format!(
            "--restart-command {} --stop-command {} --kubelet-root-dir {} --kubelet-version v1.36.2",
            path("restart"),
            path("stop"),
            path("root")
        )
    }

    /// Starts the program in the host's folder.
    pub fn program(&self, arguments: &str) -> Running {
        Running::start(self.host.folder(), &arguments.split_whitespace().collect::<Vec<_>>())
    }

    /// The agent as most tests want it: patient with a kubelet that is slow to start, and quickly satisfied.
    pub fn usual_agent(&self) -> Running {
        self.agent(&format!("--trial-period 1s --health-timeout 1m {}", self.own_hands()))
    }

    /// Cuts every connection and serves no more.
    pub async fn crash(&mut self) {
        self.serving.take().unwrap().abort().await;
    }

    /// Serves again, on the same port with the same certificate.
    pub async fn recover(&mut self) {
        let options = Options { port: Some(self.port), identity: Some(self.identity.clone()) };
        self.serving = Some(serve(self.wire.wrap(self.api.router()), options).await.unwrap());
    }

    /// How often the agent has asked so.
    pub fn requests(&self, verb: &str, resource: &str) -> u64 {
        self.wire.log.count(verb, resource)
    }

    /// Lets the agent look and do nothing.
    pub async fn a_while(&self) {
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
}
