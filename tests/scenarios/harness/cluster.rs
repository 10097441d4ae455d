//! Cluster of a scenario: a common interface to the sandbox and to a real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::Request;
use kube::Client;
use kubelet_config::document::Document;
use nodecfg_agent::disk::memory::MemoryDisk;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::NodeName;
use nodecfg_sandbox::api::ServerProfile;
use nodecfg_sandbox::kubelets::{BootedConfig, Fault, HostSpec};
use nodecfg_sandbox::nodes::NodeSpec;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::command::{Run, Running};
use super::control_plane::{ControlPlane, Populated};
use super::history::History;
use super::repository::{AFTER, KUBELET, Repository};
use super::sandbox_server::{Place, SandboxServer};
use super::{ClusterKind, ClusterSetup, until};

/// A cluster with simulated kubelets and any API server.
pub struct Cluster {
    home: TempDir,
    client: Client,
    server: Server,
    assignment_resource: &'static str,
}

enum Server {
    Sandbox(Box<SandboxServer>),
    Real { populated: Box<Populated>, control_plane: ControlPlane },
}

/// Configuration state of a node, from its Node or its NodeConfig.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// ConfigMap in spec.
    pub source: Option<String>,
    /// Assigned ConfigMap in status.
    pub assigned: Option<String>,
    /// Active ConfigMap in status.
    pub active: Option<String>,
    /// Error in status.
    pub error: Option<String>,
    /// Readiness of the Node.
    pub ready: bool,
    /// Whether the Node has the taint or the annotation of a drain.
    pub marked: bool,
    /// resourceVersion of the latest change.
    pub revision: u64,
}

/// Key of the taint of a drain.
const DRAIN_TAINT: &str = "status-taint.cluster-autoscaler.kubernetes.io/nodecfg";
/// Annotation of a drain.
pub const DRAIN_REASON: &str = "nodecfg.dev/drain";

impl NodeRecord {
    pub(super) fn of(node: &Value) -> Self {
        let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
        Self {
            source: text("/spec/configSource/configMap/name"),
            assigned: text("/status/config/assigned/configMap/name"),
            active: text("/status/config/active/configMap/name"),
            error: text("/status/config/error"),
            ready: conditions
                .into_iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True"),
            marked: taints.any(|taint| taint["key"] == DRAIN_TAINT)
                || !node["metadata"]["annotations"][DRAIN_REASON].is_null(),
            revision: text("/metadata/resourceVersion").and_then(|version| version.parse().ok()).unwrap_or_default(),
        }
    }

    /// Combines a Node with its NodeConfig.
    pub(super) fn joined(node: &Value, node_config: &Value) -> Self {
        let (node, node_config) = (Self::of(node), Self::of(node_config));
        let revision = node.revision.max(node_config.revision);
        Self { ready: node.ready, marked: node.marked, revision, ..node_config }
    }

    /// Reports whether the node is Ready and runs its assignment.
    pub fn converged(&self) -> bool {
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

/// Path of the NodeConfigs.
pub(super) const NODE_CONFIGS: &str = "/apis/nodecfg.dev/v1alpha1/nodeconfigs";

/// Objects of a list by name.
pub(super) fn by_name(list: &Value) -> BTreeMap<String, Value> {
    let named = |object: &Value| (object["metadata"]["name"].as_str().unwrap().to_owned(), object.clone());
    list["items"].as_array().unwrap().iter().map(named).collect()
}

/// Reports whether Kubernetes itself creates a ConfigMap of this name in kube-system.
pub(super) fn is_of_kubernetes(name: &str) -> bool {
    name.starts_with("kube-") || name.starts_with("extension-apiserver-")
}

/// Path of the Leases of Medik8s.
pub const NODE_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases";

impl Cluster {
    pub(super) async fn start(start: ClusterSetup) -> Self {
        let home = TempDir::new().unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        let assignment_resource = start.assignment_resource();
        let ClusterSetup { kind, nodes, faults, later, large, workloads, joins, .. } = start;
        let faults = faults.into_iter().collect();
        let sandbox = async |profile, installed, nodes, faults| {
            let large = large && assignment_resource == "nodeconfigs";
            let place = Place { kubeconfig: &kubeconfig, joins: joins.clone() };
            let server = SandboxServer::start(profile, installed, large, nodes, faults, workloads.clone(), place).await;
            (server.api().client(), Server::Sandbox(Box::new(server)))
        };
        let (client, server) = match kind {
            ClusterKind::Kubelets => sandbox(ServerProfile::V1_21, true, nodes, faults).await,
            ClusterKind::Agents => sandbox(ServerProfile::V1_36, true, nodes, faults).await,
            ClusterKind::Dropping => sandbox(ServerProfile::V1_36, false, nodes, faults).await,
            ClusterKind::Real { assets, agents } => {
                let control_plane = ControlPlane::start(&assets, &kubeconfig).await;
                let populated = control_plane.populate(nodes, faults, agents, large, workloads).await;
                (populated.client(), Server::Real { populated: Box::new(populated), control_plane })
            }
        };
        let cluster = Self { home, client, server, assignment_resource };
        for (node, fault) in later {
            cluster.fault(&node, Some(fault)).await;
        }
        cluster
    }

    /// Stops the cluster.
    pub async fn down(self) {
        match self.server {
            Server::Sandbox(server) => server.stop().await,
            Server::Real { populated, control_plane } => {
                populated.stop().await;
                control_plane.stop();
            }
        }
    }

    /// Reports whether the cluster is a sandbox, whose requests can be counted.
    pub fn is_sandbox(&self) -> bool {
        matches!(self.server, Server::Sandbox(_))
    }

    /// Returns the sandbox; panics for a real API server.
    #[track_caller]
    pub fn sandbox(&self) -> &SandboxServer {
        match &self.server {
            Server::Sandbox(server) => server,
            Server::Real { .. } => panic!("this scenario must declare that it needs a sandbox"),
        }
    }

    /// Returns the sandbox mutably, to stop and restart its server.
    #[track_caller]
    pub fn sandbox_mut(&mut self) -> &mut SandboxServer {
        match &mut self.server {
            Server::Sandbox(server) => server,
            Server::Real { .. } => panic!("this scenario must declare that it needs a sandbox"),
        }
    }

    /// Resource that holds the assignments.
    pub fn assignment_resource(&self) -> &'static str {
        self.assignment_resource
    }

    /// Whether nodecfg lists nodes as a stream, as it does where the sandbox reproduces API server 1.36.
    pub fn streams_lists(&self) -> bool {
        self.has_agents()
    }

    pub fn has_agents(&self) -> bool {
        self.assignment_resource == "nodeconfigs"
    }

    /// Default namespace of ConfigMaps and the lock.
    pub fn namespace(&self) -> &'static str {
        if self.has_agents() { "nodecfg-system" } else { "kube-system" }
    }

    /// Binding of the cluster, as `--binding` names it.
    pub fn binding(&self) -> &'static str {
        if self.has_agents() { "nodeconfig" } else { "node" }
    }

    fn config_maps_path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace())
    }

    /// Temporary folder of the cluster.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Path of the cluster's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    // --- the binary ---

    /// Runs `nodecfg <arguments> --kubeconfig …` to its end.
    pub async fn call(&self, arguments: &[&str]) -> Run {
        let kubeconfig = self.kubeconfig();
        Running::start(self.home(), &[arguments, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat()).end().await
    }

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

    /// Runs a command to its end.
    pub async fn run(&self, command: &str, repository: &Repository, more: &[&str]) -> Run {
        self.start_run(command, repository, more).end().await
    }

    /// Runs a command without a repository to its end.
    pub async fn command(&self, arguments: &[&str]) -> Run {
        let kubeconfig = self.kubeconfig();
        let arguments = [arguments, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat();
        Running::start(self.home(), &arguments).end().await
    }

    /// Runs `nodecfg sync`.
    pub async fn sync(&self, repository: &Repository, more: &[&str]) -> Run {
        self.run("sync", repository, more).await
    }

    // --- the cluster's objects ---

    /// Returns an object, or `Null` if it is missing.
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

    /// Returns the configuration that the kubelet of a node runs, from its own port. A real API server does not reach
    /// the simulated kubelets. `Null` while the kubelet is down.
    pub async fn running(&self, node: &str) -> Value {
        if let Server::Real { populated, .. } = &self.server {
            return populated.configz(node)["kubeletconfig"].clone();
        }
        let path = format!("/api/v1/nodes/{node}/proxy/configz");
        match self.client.request::<Value>(Request::get(&path).body(Vec::new()).unwrap()).await {
            Ok(answer) => answer["kubeletconfig"].clone(),
            Err(kube::Error::Api(status)) if status.code == 503 => Value::Null,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    /// Returns the configuration state of a node.
    pub async fn state(&self, node: &str) -> NodeRecord {
        let object = self.get(&format!("/api/v1/nodes/{node}")).await;
        if !self.has_agents() {
            return NodeRecord::of(&object);
        }
        NodeRecord::joined(&object, &self.assignment_object(node).await)
    }

    /// Returns the object with a node's assignment.
    pub async fn assignment_object(&self, node: &str) -> Value {
        let nodes = if self.has_agents() { NODE_CONFIGS } else { "/api/v1/nodes" };
        self.get(&format!("{nodes}/{node}")).await
    }

    /// Returns the assigned ConfigMap of a node.
    pub async fn source(&self, node: &str) -> Option<String> {
        self.state(node).await.source
    }

    /// Returns the state of every node by name.
    pub async fn states(&self) -> BTreeMap<String, NodeRecord> {
        let nodes = by_name(&list(&self.client, "/api/v1/nodes").await);
        if !self.has_agents() {
            return nodes.into_iter().map(|(name, node)| (name, NodeRecord::of(&node))).collect();
        }
        let node_configs = by_name(&list(&self.client, NODE_CONFIGS).await);
        let joined = |(name, node): (String, Value)| {
            let state = NodeRecord::joined(&node, node_configs.get(&name).unwrap_or(&Value::Null));
            (name, state)
        };
        nodes.into_iter().map(joined).collect()
    }

    /// Waits until the state of a node satisfies a condition.
    pub async fn until_node(&self, node: &str, what: &str, mut holds: impl FnMut(&NodeRecord) -> bool) {
        until(&format!("{node} {what}"), async || holds(&self.state(node).await)).await;
    }

    /// Assigns the first configuration of pool a. Commits a rollout policy, and a change that needs drained nodes.
    pub async fn prepare_drain(&self, repository: &Repository, rollout: &str) {
        self.sync(repository, &[]).await.exits(0);
        repository.fleet("test", rollout);
        repository.change("a", AFTER);
    }

    /// Asserts that no node has the mark of a drain.
    pub async fn assert_no_marks(&self) {
        for (name, state) in self.states().await {
            assert!(!state.marked, "{name}: {state:?}");
            assert_eq!(self.shown_drain(&name).await, (Vec::new(), None), "{name}");
        }
    }

    /// What other programs see of the drain of a node: the conditions that nodecfg set to True, and the holder of its Lease.
    pub async fn shown_drain(&self, node: &str) -> (Vec<String>, Option<String>) {
        let status = self.get(&format!("/api/v1/nodes/{node}")).await["status"].clone();
        let is_own = |found: &&Value| found["reason"] == "KubeletConfigurationChange" && found["status"] == "True";
        let own = status["conditions"].as_array().into_iter().flatten().filter(is_own);
        let own = own.map(|found| found["type"].as_str().unwrap().to_owned()).collect();
        let lease = self.get(&format!("{NODE_LEASES}/node-{node}")).await;
        (own, lease["spec"]["holderIdentity"].as_str().map(str::to_owned))
    }

    /// Returns all pods.
    pub async fn pods(&self) -> Vec<Value> {
        self.get("/api/v1/pods").await["items"].as_array().unwrap().clone()
    }

    /// Returns all Nodes.
    pub async fn nodes(&self) -> Vec<Value> {
        self.get("/api/v1/nodes").await["items"].as_array().unwrap().clone()
    }

    /// Registers nodes of pools: with the configuration that they have booted with, or with the startup taint.
    pub async fn join(&self, nodes: Vec<(String, &str, Option<BootedConfig>)>) {
        let spec = |(name, pool, booted): (String, &str, Option<BootedConfig>)| {
            let labels = [("nodecfg.dev/pool".to_owned(), pool.to_owned())].into();
            let spec = NodeSpec::new(NodeName::new(name).unwrap(), labels, "v1.36.2");
            let startup_taint = booted.is_none();
            let host = HostSpec { file: Some(KUBELET.to_owned()), booted, ..HostSpec::default() };
            NodeSpec { startup_taint, host, ..spec }
        };
        self.sandbox().embedded().join(nodes.into_iter().map(spec).collect()).await.unwrap();
    }

    /// Assigns a ConfigMap to a node as another client.
    pub async fn assign_by_hand(&self, node: &str, config_map: &str) {
        let source =
            json!({"configMap": {"namespace": self.namespace(), "name": config_map, "kubeletConfigKey": "kubelet"}});
        if !self.has_agents() {
            self.patch(&format!("/api/v1/nodes/{node}"), json!({"spec": {"configSource": source}})).await;
            return;
        }
        let found = self.get(&format!("{}/{config_map}", self.config_maps_path())).await;
        let text = found["data"]["kubelet"].as_str().unwrap_or_default();
        let canonical = Document::parse("kubelet", text).document.map(|document| document.canonical());
        let content = ContentHash::of(canonical.as_deref().unwrap_or(text).as_bytes());
        let mut spec = json!({"configSource": source, "contentHash": content, "maxDisruption": "replace"});
        let path = format!("{NODE_CONFIGS}/{node}");
        if self.get(&path).await.is_null() {
            spec["placement"] = json!("replace");
            let metadata = json!({"name": node});
            let kind =
                json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": metadata, "spec": spec});
            self.create(NODE_CONFIGS, kind).await;
        } else {
            self.patch(&path, json!({"spec": spec})).await;
        }
    }

    /// Creates a ConfigMap as another client, optionally immutable or with the labels of a fleet.
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

    /// Returns the ConfigMaps in the cluster's namespace by name, without those that Kubernetes creates.
    pub async fn config_maps(&self) -> BTreeMap<String, Value> {
        let mut maps = by_name(&list(&self.client, &self.config_maps_path()).await);
        maps.retain(|name, _| !is_of_kubernetes(name));
        maps
    }

    /// Returns the name of the only ConfigMap.
    pub async fn only_config_map(&self) -> String {
        let names: Vec<String> = self.config_maps().await.into_keys().collect();
        let [name] = names.as_slice() else { panic!("{names:?}") };
        name.clone()
    }

    /// Returns reason and message of nodecfg's Events about a Node, oldest first.
    pub async fn events(&self, node: &str) -> Vec<(String, String)> {
        let events = list(&self.client, "/api/v1/namespaces/default/events").await;
        let mut events: Vec<&Value> = events["items"].as_array().unwrap().iter().collect();
        events.retain(|event| event["involvedObject"]["name"] == node && event["source"]["component"] == "nodecfg");
        events.sort_by_key(|event| event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
    }

    /// Returns everything that nodecfg could have written, for comparisons: specs, labels and annotations of nodes,
    /// and all ConfigMaps. Kubelets' writes are excluded.
    pub async fn written(&self) -> Value {
        let nodes = list(&self.client, "/api/v1/nodes").await;
        let written = |node: &Value| {
            let metadata = &node["metadata"];
            json!([metadata["name"], metadata["uid"], metadata["labels"], metadata["annotations"], node["spec"]])
        };
        let mut nodes: Vec<Value> = nodes["items"].as_array().unwrap().iter().map(written).collect();
        if self.has_agents() {
            let node_configs = by_name(&list(&self.client, NODE_CONFIGS).await);
            nodes.extend(node_configs.into_values().map(|object| json!([object["metadata"]["uid"], object["spec"]])));
        }
        json!({"nodes": nodes, "configMaps": self.config_maps().await})
    }

    /// Sets the fault of a node's kubelet; `None` removes the fault.
    pub async fn fault(&self, node: &str, fault: Option<Fault>) {
        let node = NodeName::new(node).unwrap();
        let injected = match &self.server {
            Server::Sandbox(server) => server.embedded().nodes().inject(&node, fault),
            Server::Real { populated, .. } => populated.nodes().inject(&node, fault),
        };
        injected.unwrap();
    }

    /// Sends a request. An error has the code and the message.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Value, (u16, String)> {
        match self.client.request(request).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) => Err((status.code, status.message)),
            Err(error) => panic!("{error}"),
        }
    }

    /// Number of restarts of the kubelet of a node with an agent in the sandbox.
    #[track_caller]
    pub fn kubelet_restarts(&self, node: &str) -> u64 {
        self.sandbox().embedded().nodes().kubelet_restarts(&NodeName::new(node).unwrap()).unwrap()
    }

    /// Disk of a node with an agent in the sandbox.
    #[track_caller]
    pub fn disk(&self, node: &str) -> MemoryDisk {
        self.sandbox().embedded().nodes().disk(&NodeName::new(node).unwrap()).unwrap()
    }

    /// Starts recording all changes of nodes.
    pub async fn history(&self) -> History {
        History::begin(self.client.clone(), self.has_agents()).await
    }
}
