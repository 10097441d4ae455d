//! The cluster of a scenario: one interface to the sandbox and to a real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::Request;
use kube::Client;
use nodecfg_contract::names::NodeName;
use nodecfg_sandbox::api::ServerProfile;
use nodecfg_sandbox::kubelets::{Fault, Kubelets};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::command::{Run, Running};
use super::control_plane::ControlPlane;
use super::history::History;
use super::repository::Repository;
use super::sandboxed::Powers;
use super::{Host, Start, until};

/// A cluster with simulated kubelets, whatever its API server.
pub struct Cluster {
    home: TempDir,
    client: Client,
    server: Server,
    carriers: &'static str,
}

enum Server {
    Sandbox(Box<Powers>),
    Real { kubelets: Kubelets, control_plane: ControlPlane },
}

/// What a Node says of its configuration, or the NodeConfig that stands for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// The ConfigMap that spec names.
    pub source: Option<String>,
    /// The ConfigMap that status calls assigned.
    pub assigned: Option<String>,
    /// The ConfigMap that status calls active.
    pub active: Option<String>,
    /// The error that status has.
    pub error: Option<String>,
    /// Whether the Node is Ready.
    pub ready: bool,
    /// The resourceVersion of the latest change.
    pub revision: u64,
}

impl NodeRecord {
    pub(super) fn of(node: &Value) -> Self {
        let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        Self {
            source: text("/spec/configSource/configMap/name"),
            assigned: text("/status/config/assigned/configMap/name"),
            active: text("/status/config/active/configMap/name"),
            error: text("/status/config/error"),
            ready: conditions
                .into_iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True"),
            revision: text("/metadata/resourceVersion").and_then(|version| version.parse().ok()).unwrap_or_default(),
        }
    }

    /// Of a Node and the NodeConfig that stands for it.
    pub(super) fn joined(node: &Value, carrier: &Value) -> Self {
        let (node, carrier) = (Self::of(node), Self::of(carrier));
        Self { ready: node.ready, revision: node.revision.max(carrier.revision), ..carrier }
    }

    /// Whether it runs what it points at, and is Ready.
    pub fn settled(&self) -> bool {
        self.ready && self.error.is_none() && self.source == self.assigned && self.source == self.active
    }
}

pub(super) async fn list(client: &Client, path: &str) -> Value {
    send(client, "GET", path, &Value::Null).await
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Value {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("Content-Type", content).body(body).unwrap();
    client.request(request).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// Where NodeConfigs are.
pub(super) const NODE_CONFIGS: &str = "/apis/nodecfg.dev/v1alpha1/nodeconfigs";

/// The objects of a list, by name.
pub(super) fn by_name(list: &Value) -> BTreeMap<String, Value> {
    let named = |object: &Value| (object["metadata"]["name"].as_str().unwrap().to_owned(), object.clone());
    list["items"].as_array().unwrap().iter().map(named).collect()
}

/// Whether Kubernetes itself makes a ConfigMap of this name in kube-system.
pub(super) fn is_of_kubernetes(name: &str) -> bool {
    name.starts_with("kube-") || name.starts_with("extension-apiserver-")
}

impl Cluster {
    pub(super) async fn start(start: Start) -> Self {
        let home = TempDir::new().unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        let Start { host, nodes, faults, later, large } = start;
        let faults = faults.into_iter().collect();
        let carriers = if matches!(host, Host::Agents) { "nodeconfigs" } else { "nodes" };
        let sandbox = async |character, installed, nodes, faults| {
            let large = large && carriers == "nodeconfigs";
            let powers = Powers::start(character, installed, large, nodes, faults, &kubeconfig).await;
            (powers.api().client(), Server::Sandbox(Box::new(powers)))
        };
        let (client, server) = match host {
            Host::Kubelets => sandbox(ServerProfile::V1_21, true, nodes, faults).await,
            Host::Agents => sandbox(ServerProfile::V1_36, true, nodes, faults).await,
            Host::Dropping => sandbox(ServerProfile::V1_36, false, nodes, faults).await,
            Host::Real(assets) => {
                let control_plane = ControlPlane::start(&assets, &kubeconfig).await;
                let (client, kubelets) = control_plane.populate(nodes, faults).await;
                (client, Server::Real { kubelets, control_plane })
            }
        };
        let cluster = Self { home, client, server, carriers };
        for (node, fault) in later {
            cluster.fault(&node, Some(fault)).await;
        }
        cluster
    }

    /// Ends it.
    pub async fn down(self) {
        match self.server {
            Server::Sandbox(powers) => powers.stop().await,
            Server::Real { kubelets, control_plane } => {
                kubelets.stop().await;
                control_plane.stop();
            }
        }
    }

    /// What only a sandbox can do.
    #[track_caller]
    pub fn sandbox(&self) -> &Powers {
        match &self.server {
            Server::Sandbox(powers) => powers,
            Server::Real { .. } => panic!("this scenario needs a sandbox and does not say so"),
        }
    }

    /// The same, to stop and start serving.
    #[track_caller]
    pub fn sandbox_mut(&mut self) -> &mut Powers {
        match &mut self.server {
            Server::Sandbox(powers) => powers,
            Server::Real { .. } => panic!("this scenario needs a sandbox and does not say so"),
        }
    }

    /// The resource that carries the assignments.
    pub fn carriers(&self) -> &'static str {
        self.carriers
    }

    fn has_agents(&self) -> bool {
        self.carriers == "nodeconfigs"
    }

    /// Where ConfigMaps and the lock are, unless something else is said.
    pub fn namespace(&self) -> &'static str {
        if self.has_agents() { "nodecfg-system" } else { "kube-system" }
    }

    fn config_maps_path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace())
    }

    /// A folder of its own.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The kubeconfig that leads to it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    // --- the binary ---

    /// Starts `nodecfg <command> <repository> --kubeconfig … <more>`.
    pub fn start_run(&self, command: &str, repository: &Repository, more: &[&str]) -> Running {
        let kubeconfig = self.kubeconfig();
        let mut arguments = vec![command, repository.path().to_str().unwrap()];
        if !more.contains(&"--kubeconfig") {
            arguments.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
        }
        arguments.extend(more);
        Running::start(self.home(), &arguments)
    }

    /// Runs it to its end.
    pub async fn run(&self, command: &str, repository: &Repository, more: &[&str]) -> Run {
        self.start_run(command, repository, more).end().await
    }

    /// `nodecfg sync`.
    pub async fn sync(&self, repository: &Repository, more: &[&str]) -> Run {
        self.run("sync", repository, more).await
    }

    // --- the cluster's objects ---

    /// An object; `Null` when it is not there.
    pub async fn get(&self, path: &str) -> Value {
        let request = Request::get(path).body(Vec::new()).unwrap();
        match self.client.request::<Value>(request).await {
            Ok(object) => object,
            Err(kube::Error::Api(status)) if status.code == 404 => Value::Null,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    /// Creates an object.
    pub async fn create(&self, path: &str, object: Value) -> Value {
        send(&self.client, "POST", path, &object).await
    }

    /// Changes an object with a merge patch.
    pub async fn patch(&self, path: &str, patch: Value) -> Value {
        send(&self.client, "PATCH", path, &patch).await
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) {
        send(&self.client, "DELETE", path, &Value::Null).await;
    }

    /// What a Node says of its configuration.
    pub async fn state(&self, node: &str) -> NodeRecord {
        let object = self.get(&format!("/api/v1/nodes/{node}")).await;
        if !self.has_agents() {
            return NodeRecord::of(&object);
        }
        NodeRecord::joined(&object, &self.carrier(node).await)
    }

    /// The object that carries a Node's assignment.
    pub async fn carrier(&self, node: &str) -> Value {
        let nodes = if self.has_agents() { NODE_CONFIGS } else { "/api/v1/nodes" };
        self.get(&format!("{nodes}/{node}")).await
    }

    /// The ConfigMap that a Node points at.
    pub async fn source(&self, node: &str) -> Option<String> {
        self.state(node).await.source
    }

    /// What every Node says, by name.
    pub async fn states(&self) -> BTreeMap<String, NodeRecord> {
        let nodes = by_name(&list(&self.client, "/api/v1/nodes").await);
        if !self.has_agents() {
            return nodes.into_iter().map(|(name, node)| (name, NodeRecord::of(&node))).collect();
        }
        let carriers = by_name(&list(&self.client, NODE_CONFIGS).await);
        let joined = |(name, node): (String, Value)| {
            let state = NodeRecord::joined(&node, carriers.get(&name).unwrap_or(&Value::Null));
            (name, state)
        };
        nodes.into_iter().map(joined).collect()
    }

    /// Waits until a Node is as wanted.
    pub async fn until_node(&self, node: &str, what: &str, mut holds: impl FnMut(&NodeRecord) -> bool) {
        until(&format!("{node} {what}"), async || holds(&self.state(node).await)).await;
    }

    /// Points a Node at a ConfigMap by hand.
    pub async fn assign_by_hand(&self, node: &str, config_map: &str) {
        let source =
            json!({"configMap": {"namespace": self.namespace(), "name": config_map, "kubeletConfigKey": "kubelet"}});
        let spec = json!({"configSource": source});
        if !self.has_agents() {
            self.patch(&format!("/api/v1/nodes/{node}"), json!({"spec": spec})).await;
            return;
        }
        let path = format!("{NODE_CONFIGS}/{node}");
        if self.get(&path).await.is_null() {
            let metadata = json!({"name": node});
            let kind =
                json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": metadata, "spec": spec});
            self.create(NODE_CONFIGS, kind).await;
        } else {
            self.patch(&path, json!({"spec": spec})).await;
        }
    }

    /// Creates a ConfigMap by hand, immutable or not, with or without the labels of a fleet.
    pub async fn create_config_map(&self, name: &str, text: &str, immutable: bool, fleet: Option<(&str, &str)>) {
        let labels = fleet.map_or(json!({}), |(fleet, pool)| {
            json!({"app.kubernetes.io/managed-by": "nodecfg", "nodecfg.dev/fleet": fleet, "nodecfg.dev/pool": pool})
        });
        let metadata = json!({"name": name, "namespace": self.namespace(), "labels": labels});
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"kubelet": text}});
        if immutable {
            object["immutable"] = json!(true);
        }
        self.create(&self.config_maps_path(), object).await;
    }

    /// The ConfigMaps of its namespace but those that Kubernetes makes, by name.
    pub async fn config_maps(&self) -> BTreeMap<String, Value> {
        let mut maps = by_name(&list(&self.client, &self.config_maps_path()).await);
        maps.retain(|name, _| !is_of_kubernetes(name));
        maps
    }

    /// The only ConfigMap there is.
    pub async fn only_config_map(&self) -> String {
        let names: Vec<String> = self.config_maps().await.into_keys().collect();
        let [name] = names.as_slice() else { panic!("{names:?}") };
        name.clone()
    }

    /// The events that nodecfg wrote about a Node: reason and message, the oldest first.
    pub async fn events(&self, node: &str) -> Vec<(String, String)> {
        let events = list(&self.client, "/api/v1/namespaces/default/events").await;
        let mut events: Vec<&Value> = events["items"].as_array().unwrap().iter().collect();
        events.retain(|event| event["involvedObject"]["name"] == node && event["source"]["component"] == "nodecfg");
        events.sort_by_key(|event| event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
    }

    /// Everything that nodecfg could have written, to be compared later: what Nodes are told, labelled and annotated, and
    /// all ConfigMaps. What kubelets write is left out.
    pub async fn written(&self) -> Value {
        let nodes = list(&self.client, "/api/v1/nodes").await;
        let told = |node: &Value| {
            let metadata = &node["metadata"];
            json!([metadata["name"], metadata["uid"], metadata["labels"], metadata["annotations"], node["spec"]])
        };
        let mut told: Vec<Value> = nodes["items"].as_array().unwrap().iter().map(told).collect();
        if self.has_agents() {
            let carriers = by_name(&list(&self.client, NODE_CONFIGS).await);
            told.extend(carriers.into_values().map(|carrier| json!([carrier["metadata"]["uid"], carrier["spec"]])));
        }
        json!({"nodes": told, "configMaps": self.config_maps().await})
    }

    /// Makes the kubelet of a Node misbehave, or with `None` mends it.
    pub async fn fault(&self, node: &str, fault: Option<Fault>) {
        let node = NodeName::new(node).unwrap();
        let injected = match &self.server {
            Server::Sandbox(powers) => powers.embedded().nodes().inject(&node, fault).await,
            Server::Real { kubelets, .. } => kubelets.inject(&node, fault).await,
        };
        injected.unwrap();
    }

    /// Follows all Nodes from now on.
    pub async fn history(&self) -> History {
        History::begin(self.client.clone(), self.has_agents()).await
    }
}
