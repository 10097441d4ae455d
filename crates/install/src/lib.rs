//! What puts nodecfg on a cluster and its nodes: the objects for the API server, and the unit file for a node that runs
//! the agent as a service. Data in the order in which it is to be applied; nothing here talks to a server or writes files.
//!
//! docs/deploy.md says for each privilege why it is there. What changes here changes there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{Value, json};

use nodecfg_contract::installation::{AGENT_DAEMON_SET, COMMAND_LIMIT, NAMESPACE};
use nodecfg_contract::names::NamespaceName;
use nodecfg_contract::nodeconfig;

mod daemonset;
mod policy;
mod rbac;
pub mod rights;
#[cfg(test)]
mod tests;
mod unit;

pub use policy::own_status_only;
pub use unit::unit;

/// The agent's checkpoints and ledger on a node. Not for choice: an agent that looks elsewhere has forgotten everything.
const STORE: &str = "/var/lib/nodecfg";
/// Where the agent answers `/healthz` and `/metrics`, unless something else is said: for this node alone.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9348);
/// How long an agent and its `host-step` may take to end, in seconds: a restart that has begun is seen through, which is two
/// commands at most, and before it the time in which the agent tries to reach `host-step`.
const GRACE: u64 = 2 * COMMAND_LIMIT.as_secs() + 60;
/// The agent's ServiceAccount, DaemonSet and roles.
const AGENT: &str = AGENT_DAEMON_SET;
/// The agent's roles where it uses the kubelet's identity.
const AGENT_ON_HOST: &str = "nodecfg-agent-systemd";
/// The reconciler's ServiceAccount and roles.
const RECONCILER: &str = "nodecfg-reconciler";
/// The ServiceAccount and roles of those who only read.
const READER: &str = "nodecfg-reader";
/// The ServiceAccount and roles of those who delete what is no longer used.
const PRUNER: &str = "nodecfg-pruner";
/// The ServiceAccount and the role of those who ask kubelets what they run.
const CAPTURE: &str = "nodecfg-capture";

/// What is to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Where ConfigMaps and the Lease go.
    pub namespace: NamespaceName,
    /// How the agents run; `None` leaves them to somebody else.
    pub agent: Option<Agent>,
}

/// How the agents run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agent {
    /// As pods.
    DaemonSet(DaemonSet),
    /// As services of the nodes, with the kubelets' identities.
    Systemd,
}

/// Agents as pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSet {
    /// Their namespace.
    pub namespace: NamespaceName,
    /// The image of both containers.
    pub image: String,
    /// Where things are on the nodes.
    pub host: Host,
}

/// Where things are on a node. Absolute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The kubelet's `--config`.
    pub kubelet_config: String,
    /// The kubelet's `--config-dir`, when the agent is to put a file there instead of replacing the kubelet's.
    pub kubelet_config_dir: Option<String>,
    /// The kubelet's `--root-dir`, where its state files are.
    pub kubelet_root: String,
    /// Where the agent answers `/healthz` and `/metrics`, on the node's own network.
    pub listen: SocketAddr,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            kubelet_config: "/var/lib/kubelet/config.yaml".to_owned(),
            kubelet_config_dir: None,
            kubelet_root: "/var/lib/kubelet".to_owned(),
            listen: LISTEN,
        }
    }
}

impl Host {
    /// The folder that the agent changes a file in. The folder and not the file: a file is replaced by renaming.
    fn placement_folder(&self) -> &str {
        self.kubelet_config_dir.as_deref().unwrap_or_else(|| parent(&self.kubelet_config))
    }

    /// The folder that the agent only reads in: with drop-ins, that of the kubelet's file. The folder and not the file: a mount
    /// of a file goes on to show the one that was there first when another is renamed over it. `None` when it is mounted
    /// already.
    fn read_folder(&self) -> Option<&str> {
        let folder = parent(&self.kubelet_config);
        self.kubelet_config_dir.as_deref().filter(|placement| placement.trim_end_matches('/') != folder).map(|_| folder)
    }
}

/// The arguments of `nodecfg-agent` that say where things are, for pods and for services alike.
fn agent_arguments(host: &Host) -> Vec<String> {
    let mut arguments = vec![
        format!("--store-dir={STORE}"),
        format!("--listen={}", host.listen),
        format!("--kubelet-config={}", host.kubelet_config),
    ];
    if let Some(folder) = &host.kubelet_config_dir {
        arguments.extend(["--activation=drop-in".to_owned(), format!("--kubelet-config-dir={folder}")]);
    }
    arguments
}

/// The folder of an absolute path.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((folder, _)) if !folder.is_empty() => folder,
        _ => "/",
    }
}

/// The objects, in the order in which they are to be applied: each needs those before it.
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
    objects.extend(rbac::reconciler(namespace));
    objects.extend(rbac::saved_plans(namespace));
    match &installation.agent {
        None => {}
        Some(Agent::Systemd) => {
            objects.extend(rbac::agent_on_host(namespace));
            objects.extend(own_status_only());
        }
        Some(Agent::DaemonSet(pods)) => {
            objects.extend(rbac::agent(namespace, pods.namespace.as_str()));
            objects.extend(own_status_only());
            objects.push(daemonset::daemon_set(pods));
        }
    }
    objects
}

/// The reconciler's ServiceAccount and roles, where NodeConfigs carry the assignments: part of [`objects`], and what
/// `deploy/cron/rbac.yaml` is made of.
#[must_use]
pub fn reconciler() -> Vec<Value> {
    rbac::reconciler(NAMESPACE)
}

/// The same where Nodes do: what `deploy/cron-node/rbac.yaml` is made of. ConfigMaps and the Lease are in kube-system then,
/// unless something else is said.
#[must_use]
pub fn reconciler_of_nodes() -> Vec<Value> {
    rbac::reconciler_of_nodes(NAMESPACE, "kube-system")
}

/// What a reconciler needs besides to carry out saved plans, wherever the assignments are: part of [`objects`], and what
/// `deploy/saved-plans/rbac.yaml` is made of.
#[must_use]
pub fn saved_plans() -> Vec<Value> {
    rbac::saved_plans(NAMESPACE)
}

/// A ServiceAccount and roles for `diff`, `verify` and `status`, where NodeConfigs carry the assignments: what
/// `deploy/reader/rbac.yaml` is made of.
#[must_use]
pub fn reader() -> Vec<Value> {
    rbac::reader(NAMESPACE)
}

/// Who asks kubelets what they run: what `deploy/capture/rbac.yaml` is made of.
#[must_use]
pub fn capture() -> Vec<Value> {
    rbac::capture(NAMESPACE)
}

/// The same where Nodes do: what `deploy/reader-node/rbac.yaml` is made of.
#[must_use]
pub fn reader_of_nodes() -> Vec<Value> {
    rbac::reader_of_nodes(NAMESPACE, "kube-system")
}

/// A ServiceAccount and roles for `prune`, where NodeConfigs carry the assignments: what `deploy/pruner/rbac.yaml` is made of.
#[must_use]
pub fn pruner() -> Vec<Value> {
    rbac::pruner(NAMESPACE)
}

/// The same where Nodes do: what `deploy/pruner-node/rbac.yaml` is made of.
#[must_use]
pub fn pruner_of_nodes() -> Vec<Value> {
    rbac::pruner_of_nodes(NAMESPACE, "kube-system")
}

/// The CustomResourceDefinition of NodeConfig.
fn definition() -> Value {
    let mut definition = nodeconfig::definition();
    if let Some(metadata) = definition.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), labels(None));
    }
    definition
}

/// A Namespace; none for those that Kubernetes itself makes, whose labels are none of nodecfg's business.
fn namespace_object(name: &str, privileged: bool) -> Option<Value> {
    if name == "default" || name.starts_with("kube-") {
        return None;
    }
    let mut labels = labels(None);
    if let (true, Some(labels)) = (privileged, labels.as_object_mut()) {
        // Pod Security Admission: the agent's pods are on the host's network, mount its folders, and one container of each is
        // privileged.
        for mode in ["audit", "enforce", "warn"] {
            labels.insert(format!("pod-security.kubernetes.io/{mode}"), "privileged".into());
        }
    }
    Some(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))
}

/// The labels of what is installed.
fn labels(component: Option<&str>) -> Value {
    let mut labels = serde_json::Map::new();
    if let Some(component) = component {
        labels.insert("app.kubernetes.io/component".to_owned(), component.into());
    }
    labels.insert("app.kubernetes.io/name".to_owned(), "nodecfg".into());
    Value::Object(labels)
}
