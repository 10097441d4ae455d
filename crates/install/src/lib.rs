//! Installation manifests: objects for the API server, and the unit file of an agent that runs as a systemd service.
//! The objects are in the order of their application. This crate must not contact a server or write files.
//!
//! docs/reference/agents.md states the reason for each privilege and must be kept in sync.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{Value, json};

use nodecfg_contract::installation::{AGENT_DAEMON_SET, COMMAND_LIMIT, NAMESPACE};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::nodeconfig;

#[cfg(test)]
mod admission;
mod daemonset;
mod identity;
mod policy;
mod rbac;
pub mod rights;
#[cfg(test)]
mod tests;
mod unit;

pub use policy::{
    config_map_writers, config_maps_of, former_config_maps_policy, own_node_only, own_status_only, protected_namespace,
    writers_of,
};
pub use unit::{boot_unit, unit};

/// Folder of the agent's checkpoints and ledger on a node. It is fixed, because an agent with another folder would
/// lose its state.
const STORE: &str = "/var/lib/nodecfg";
/// Default address of the agent's `/healthz` and `/metrics`, local to the node.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9348);
/// Time limit for the termination of an agent and its `host-step`, in seconds. A started restart of the kubelet is
/// completed, which takes up to two commands. The rest is time for the agent to reach `host-step`.
const GRACE: u64 = 2 * COMMAND_LIMIT.as_secs() + 60;
/// Name of the agent's ServiceAccount, DaemonSet and roles.
const AGENT: &str = AGENT_DAEMON_SET;
/// Name of the agent's roles with the identity of the kubelet.
const AGENT_ON_HOST: &str = "nodecfg-agent-systemd";
/// Role of agents as pods for the condition of their Nodes.
const NODE_CONDITION: &str = "nodecfg-agent-node-condition";
/// Name of the reconciler's ServiceAccount and roles.
const RECONCILER: &str = "nodecfg-reconciler";
/// Name of the ServiceAccount and roles for read-only commands.
const READER: &str = "nodecfg-reader";
/// Name of the ServiceAccount and roles for `prune`.
const PRUNER: &str = "nodecfg-pruner";
/// Name of the additional role of the reconciler for drains.
const DRAINER: &str = "nodecfg-drainer";
/// Name of the additional role of the reconciler for the conditions of drained nodes.
const DRAIN_CONDITIONS: &str = "nodecfg-drain-conditions";
/// Name of the additional role of the reconciler for the Leases of drained nodes.
const MEDIK8S_LEASE: &str = "nodecfg-medik8s-lease";
/// Name of the additional role of the reconciler for pool pointers.
const POOL_POINTERS: &str = "nodecfg-pool-pointers";
/// Name of the role for forecasts of drains.
const FORECASTER: &str = "nodecfg-forecaster";
/// Name of the role of nodes that have not registered yet.
const BOOT: &str = "nodecfg-boot";
/// Name of the ServiceAccount and role for reading the configuration of kubelets.
const CAPTURE: &str = "nodecfg-capture";

/// Options of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Namespace of the ConfigMaps and the Lease.
    pub namespace: NamespaceName,
    /// Users who may write the ConfigMaps, beside the ServiceAccounts of the reconciler and of `prune`.
    pub config_map_writers: Vec<String>,
    /// Kind of agents; `None` installs none.
    pub agent: Option<Agent>,
    /// Whether agents may create the NodeConfig of their node. Agents as pods may then also remove the startup taint
    /// from their node.
    pub joins: bool,
    /// Pools whose pointers nodes may read before their registration, by `nodecfg-agent boot`.
    pub boot: Vec<(FleetName, PoolName)>,
}

/// Kind of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agent {
    /// Agents as pods.
    DaemonSet(DaemonSet),
    /// Agents as systemd services with the identities of the kubelets.
    Systemd,
}

/// Options of agents as pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSet {
    /// Namespace of the pods.
    pub namespace: NamespaceName,
    /// Image of both containers.
    pub image: String,
    /// Paths and address on the nodes.
    pub host: Host,
}

/// Paths and address on a node. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The kubelet's `--config`.
    pub kubelet_config: String,
    /// The kubelet's `--config-dir`, if the agent writes a drop-in file there instead of replacing the kubelet's
    /// file.
    pub kubelet_config_dir: Option<String>,
    /// The kubelet's `--root-dir`, which contains its state files.
    pub kubelet_root: String,
    /// Address of the agent's `/healthz` and `/metrics` on the network of the node.
    pub listen: SocketAddr,
    /// Fleet that new nodes join.
    pub join: Option<Join>,
}

/// Fleet that new nodes join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The fleet.
    pub fleet: FleetName,
    /// Namespace of its ConfigMaps.
    pub namespace: NamespaceName,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            kubelet_config: "/var/lib/kubelet/config.yaml".to_owned(),
            kubelet_config_dir: None,
            kubelet_root: "/var/lib/kubelet".to_owned(),
            listen: LISTEN,
            join: None,
        }
    }
}

impl Host {
    /// Folder of the file that the agent changes. The folder is mounted, because a file is replaced by renaming.
    fn placement_folder(&self) -> &str {
        self.kubelet_config_dir.as_deref().unwrap_or_else(|| parent(&self.kubelet_config))
    }

    /// Folder that the agent only reads: with drop-ins, that of the kubelet's file. The folder is mounted, because
    /// the mount of a file keeps showing the old file after a rename. `None` if the folder is mounted already.
    fn read_folder(&self) -> Option<&str> {
        let folder = parent(&self.kubelet_config);
        self.kubelet_config_dir.as_deref().filter(|placement| placement.trim_end_matches('/') != folder).map(|_| folder)
    }
}

/// Arguments of `nodecfg-agent` for paths and address, used for pods and services.
fn agent_arguments(host: &Host) -> Vec<String> {
    let mut arguments = vec![format!("--store-dir={STORE}"), format!("--listen={}", host.listen)];
    arguments.extend(placement_arguments(host));
    if let Some(Join { fleet, namespace }) = &host.join {
        arguments.extend([format!("--fleet={fleet}"), format!("--namespace={namespace}")]);
    }
    arguments
}

/// Arguments of `nodecfg-agent` for the kubelet's configuration.
fn placement_arguments(host: &Host) -> Vec<String> {
    let mut arguments = vec![format!("--kubelet-config={}", host.kubelet_config)];
    if let Some(folder) = &host.kubelet_config_dir {
        arguments.extend(["--activation=drop-in".to_owned(), format!("--kubelet-config-dir={folder}")]);
    }
    arguments
}

/// Folder of an absolute path.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((folder, _)) if !folder.is_empty() => folder,
        _ => "/",
    }
}

/// Objects in the order of application: each object depends only on earlier ones.
#[must_use]
pub fn objects(installation: &Installation) -> Vec<Value> {
    let namespace = installation.namespace.as_str();
    let mut objects = Vec::new();
    let pods = match &installation.agent {
        Some(Agent::DaemonSet(pods)) => Some(pods),
        Some(Agent::Systemd) | None => None,
    };
    let agent_namespace = pods.map(|pods| pods.namespace.as_str());
    if agent_namespace != Some(namespace) {
        objects.extend(namespace_object(namespace, false));
    }
    if let Some(name) = agent_namespace {
        objects.extend(namespace_object(name, true));
    }
    objects.push(definition());
    // Before the roles, so that no right is wider for a moment.
    objects.extend(policies(installation));
    objects.extend(rbac::reconciler(namespace));
    objects.extend(rbac::saved_plans(namespace));
    objects.extend(match &installation.agent {
        None => Vec::new(),
        Some(Agent::Systemd) => rbac::agent_on_host(namespace, installation.joins),
        Some(Agent::DaemonSet(pods)) => rbac::agent(namespace, pods.namespace.as_str(), installation.joins),
    });
    objects.extend(rbac::boot(namespace, &installation.boot));
    objects.extend(pods.map(daemonset::daemon_set));
    objects
}

/// Reports whether an object is safe only beside the policies: a role that they restrict, which a cluster without them does
/// not need. Without the policy, an agent could rewrite the status of every Node.
#[must_use]
pub fn needs_policies(object: &Value) -> bool {
    object.pointer("/metadata/name").and_then(Value::as_str) == Some(NODE_CONDITION)
}

/// Admission policies, and then their bindings.
fn policies(installation: &Installation) -> Vec<Value> {
    let namespace = installation.namespace.as_str();
    let mut pairs = vec![config_maps_of(namespace, &installation.config_map_writers)];
    if installation.agent.is_some() {
        pairs.push(own_status_only(installation.joins));
    }
    if matches!(installation.agent, Some(Agent::DaemonSet(_))) {
        pairs.push(own_node_only());
    }
    let (policies, bindings): (Vec<Value>, Vec<Value>) =
        pairs.into_iter().map(|[policy, bound]| (policy, bound)).unzip();
    [policies, bindings].concat()
}

/// ServiceAccount and roles of the reconciler for NodeConfigs: part of [`objects`], and content of
/// `deploy/cron/rbac.yaml`.
#[must_use]
pub fn reconciler() -> Vec<Value> {
    rbac::reconciler(NAMESPACE)
}

/// ServiceAccount and roles of the reconciler for assignments in Nodes: content of `deploy/cron-node/rbac.yaml`.
/// ConfigMaps and the Lease are in kube-system by default.
#[must_use]
pub fn reconciler_of_nodes() -> Vec<Value> {
    rbac::reconciler_of_nodes(NAMESPACE, "kube-system")
}

/// Additional role of the reconciler for saved plans, with any binding: part of [`objects`], and content of
/// `deploy/saved-plans/rbac.yaml`.
#[must_use]
pub fn saved_plans() -> Vec<Value> {
    rbac::saved_plans(NAMESPACE)
}

/// Additional role of the reconciler for drains, with any binding: content of `deploy/drainer/rbac.yaml`.
#[must_use]
pub fn drainer() -> Vec<Value> {
    rbac::drainer(NAMESPACE)
}

/// Additional role of the reconciler for the conditions by which Nodes show a drain, with any binding: content of
/// `deploy/drain-conditions/rbac.yaml`.
#[must_use]
pub fn drain_conditions() -> Vec<Value> {
    rbac::drain_conditions(NAMESPACE)
}

/// Additional role of the reconciler for the Leases of Medik8s, with any binding: content of
/// `deploy/medik8s-lease/rbac.yaml`.
#[must_use]
pub fn medik8s_lease() -> Vec<Value> {
    rbac::medik8s_lease(NAMESPACE)
}

/// Additional role of the reconciler for fleets with pool pointers, with any binding: content of
/// `deploy/pool-pointers/rbac.yaml`.
#[must_use]
pub fn pool_pointers() -> Vec<Value> {
    rbac::pool_pointers(NAMESPACE, NAMESPACE)
}

/// Additional role of the reader for forecasts of drains, with any binding: content of `deploy/forecaster/rbac.yaml`.
#[must_use]
pub fn forecaster() -> Vec<Value> {
    rbac::forecaster(NAMESPACE)
}

/// ServiceAccount and roles for `diff`, `verify` and `status` with NodeConfigs: content of `deploy/reader/rbac.yaml`.
#[must_use]
pub fn reader() -> Vec<Value> {
    rbac::reader(NAMESPACE)
}

/// ServiceAccount and role for reading the configuration of kubelets: content of `deploy/capture/rbac.yaml`.
#[must_use]
pub fn capture() -> Vec<Value> {
    rbac::capture(NAMESPACE)
}

/// ServiceAccount and roles for `diff`, `verify` and `status` with assignments in Nodes: content of
/// `deploy/reader-node/rbac.yaml`.
#[must_use]
pub fn reader_of_nodes() -> Vec<Value> {
    rbac::reader_of_nodes(NAMESPACE, "kube-system")
}

/// ServiceAccount and roles for `prune` with NodeConfigs: content of `deploy/pruner/rbac.yaml`.
#[must_use]
pub fn pruner() -> Vec<Value> {
    rbac::pruner(NAMESPACE)
}

/// ServiceAccount and roles for `prune` with assignments in Nodes: content of `deploy/pruner-node/rbac.yaml`.
#[must_use]
pub fn pruner_of_nodes() -> Vec<Value> {
    rbac::pruner_of_nodes(NAMESPACE, "kube-system")
}

/// CustomResourceDefinition of NodeConfig.
fn definition() -> Value {
    let mut definition = nodeconfig::definition();
    if let Some(metadata) = definition.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), labels(None));
    }
    definition
}

/// A Namespace; `None` for the namespaces that Kubernetes creates, whose labels nodecfg must not change.
fn namespace_object(name: &str, privileged: bool) -> Option<Value> {
    if name == "default" || name.starts_with("kube-") {
        return None;
    }
    let mut labels = labels(None);
    if let (true, Some(labels)) = (privileged, labels.as_object_mut()) {
        // Pod Security Admission: the agent's pods use the host network and mount host folders, and one container of
        // each is privileged.
        for mode in ["audit", "enforce", "warn"] {
            labels.insert(format!("pod-security.kubernetes.io/{mode}"), "privileged".into());
        }
    }
    Some(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))
}

/// Labels of an installed object, with its component if it has one.
fn labels(component: Option<&str>) -> Value {
    let mut labels = serde_json::Map::new();
    if let Some(component) = component {
        labels.insert("app.kubernetes.io/component".to_owned(), component.into());
    }
    labels.insert("app.kubernetes.io/name".to_owned(), "nodecfg".into());
    Value::Object(labels)
}
