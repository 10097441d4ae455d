//! The machines of a cluster: each Node has one, with a kubelet and a task.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use kube::core::Request;
use kube::core::params::GetParams;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::agents::SimHost;
use crate::api::{NodeProxy, ProxyResult};
use crate::kubelets::report::{KubeletWrite, NODES};
use crate::kubelets::{Fault, Faults};
use crate::watch::{self as watched, Change, Meta, Object, Part};
use nodecfg_clock::ScaledClock;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{ConfigMapSource, ConfigSource};

/// Parts of a Node that a machine reads.
pub(crate) type Node = Object<NodeSpec, NodeStatus>;

/// Spec of a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSpec {
    pub config_source: Option<ConfigSource>,
}

/// Status of a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatus {
    pub config: Option<Value>,
    pub node_info: NodeInfo,
}

/// Facts about a machine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeInfo {
    pub kubelet_version: String,
}

/// A ConfigMap with its text.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ConfigMap {
    pub metadata: Meta,
    #[serde(default)]
    pub data: BTreeMap<String, String>,
}

/// A changed ConfigMap, of which only the metadata is read.
pub(crate) type ConfigMapChange = Change<Object<NoPart, NoPart>>;

/// Spec or status that is not read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct NoPart {}

/// Options of the machines.
#[derive(Debug, Clone)]
pub struct Options {
    /// Speed of simulated time, above 0; 1 is real time.
    pub speed: f64,
    /// Seed of all random values. A node's values depend on the seed and its name only.
    pub seed: u64,
    /// Initial faults; they also apply to nodes that appear later.
    pub faults: Faults,
}

impl Default for Options {
    fn default() -> Self {
        Self { speed: 1.0, seed: 0, faults: Faults::default() }
    }
}

/// Error that prevents the start of machines.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The speed is invalid.
    #[error("simulated kubelets cannot run at speed {0}; use a number above 0, where 1 is real time")]
    Speed(f64),
    /// A first list request failed.
    #[error(
        "simulated kubelets could not list {what}; check that the API server runs and grants list and watch: {source}"
    )]
    List {
        /// The resource.
        what: &'static str,
        /// Error of the request.
        source: Box<kube::Error>,
    },
}

/// Error that prevents the injection of a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// This Node has no simulated kubelet.
    #[error("node {0} has no simulated kubelet; create the Node first, or check its name")]
    UnknownNode(NodeName),
    /// The fault needs an agent, and the node has none.
    #[error("node {0} has no agent, which this fault needs; use a sandbox of version 1.36")]
    WithoutAgent(NodeName),
}

/// Machine of a Node, shared by its task and the cluster.
pub(crate) trait Machine: Send + Sync + 'static {
    /// Sets or removes the fault.
    fn inject(&self, fault: Option<Fault>);
    /// Answers a GET request of the API server to the kubelet.
    fn answer(&self, path: &str) -> ProxyResult;
    /// Clock of the machine.
    fn clock(&self) -> &ScaledClock;
    /// Receiver that is notified of changes from outside.
    fn changes(&self) -> watch::Receiver<()>;
    /// Carries out the due work of the kubelet. Returns its writes and the time of the next work.
    fn advance(&self) -> (Vec<KubeletWrite>, Option<Timestamp>);
    /// Host of the agent. `None` without an agent.
    fn host(&self) -> Option<&SimHost> {
        None
    }
    /// Takes over a change of the Node.
    fn node_changed(&self, _node: &Node) {}
    /// Takes over a change of ConfigMaps.
    fn config_map_changed(&self, _change: &ConfigMapChange) {}
    /// ConfigMap to download.
    fn download(&self) -> Option<Arc<ConfigMapSource>> {
        None
    }
    /// Handles the result of the download. `None`: the ConfigMap is missing, or the API server is unreachable.
    fn downloaded(&self, _config_map: Option<ConfigMap>) {}
    /// Handles a lost write.
    fn lost(&self, _write: &KubeletWrite) {}
}

/// Attempts of a write that a busy API server refuses, and the pause after the first one.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);

/// Reports whether a write can succeed later.
fn is_temporary(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

/// Runs the kubelet of a machine.
pub(crate) async fn run_kubelet(machine: &impl Machine, client: &Client, node: &NodeName, uid: &str) {
    let mut changes = machine.changes();
    loop {
        changes.borrow_and_update();
        let (writes, wake) = machine.advance();
        for write in &writes {
            let mut attempts = 0;
            while let Err(error) = write.send(client, node.as_str(), uid, machine.clock().now()).await {
                tracing::debug!(%node, ?write, %error, "a simulated kubelet could not write");
                attempts += 1;
                // The state machine repeats a lost status.
                if attempts == ATTEMPTS || matches!(write, KubeletWrite::Config(_)) || !is_temporary(&error) {
                    machine.lost(write);
                    break;
                }
                tokio::time::sleep(PAUSE * attempts).await;
            }
        }
        if let Some(source) = machine.download() {
            machine.downloaded(get_config_map(client, &source).await);
            continue;
        }
        let sleep = async {
            match wake {
                Some(wake) => machine.clock().sleep_until(wake).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = sleep => {}
        }
    }
}

async fn get_config_map(client: &Client, source: &ConfigMapSource) -> Option<ConfigMap> {
    let path = format!("/api/v1/namespaces/{}/configmaps", source.namespace);
    // A name that is invalid in a path matches no ConfigMap.
    let request = Request::new(path).get(&source.name, &GetParams::default()).ok()?;
    let answer = client.request(request).await;
    answer.inspect_err(|error| tracing::debug!(%error, "a simulated kubelet's download failed")).ok()
}

/// Creates the machine of a Node, and the work of its task.
type Create = dyn Fn(&NodeName, &Node) -> (Arc<dyn Machine>, BoxFuture<'static, ()>) + Send + Sync;

/// Running machines, which stop when dropped.
pub struct Machines {
    clock: ScaledClock,
    running: Arc<RunningMachines>,
    /// Watches of Nodes and other objects.
    tasks: JoinSet<()>,
}

/// Machines by Node.
pub(crate) struct RunningMachines {
    create: Box<Create>,
    by_node: Mutex<HashMap<NodeName, RunningMachine>>,
}

struct RunningMachine {
    machine: Arc<dyn Machine>,
    version: String,
    uid: String,
    /// Ends when dropped.
    task: JoinSet<()>,
}

/// Clock of machines at this speed.
pub(crate) fn clock(speed: f64) -> Result<ScaledClock, StartError> {
    match speed.is_finite() && speed > 0.0 {
        true => Ok(ScaledClock::simulated(speed)),
        false => Err(StartError::Speed(speed)),
    }
}

/// Seed of one node, independent of the order of nodes.
pub(crate) fn seed_of(seed: u64, name: &NodeName) -> u64 {
    let hash = blake3::hash(name.as_str().as_bytes());
    hash.as_bytes().iter().take(8).fold(seed, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte))
}

impl Machines {
    /// Starts a machine for every current and later Node.
    pub(crate) async fn start(client: Client, clock: ScaledClock, create: Box<Create>) -> Result<Self, StartError> {
        let listed = watched::list(&client, NODES).await;
        let (all, version) = listed.map_err(|source| StartError::List { what: "Nodes", source: Box::new(source) })?;
        let running = Arc::new(RunningMachines { create, by_node: Mutex::default() });
        running.take_over(Change::relist(all, &version));
        let mut machines = Self { clock, running, tasks: JoinSet::new() };
        machines.follow(client, NODES, version, RunningMachines::take_over);
        Ok(machines)
    }

    /// Follows a collection whose changes matter to machines.
    pub(crate) fn follow<S: Part, T: Part>(
        &mut self,
        client: Client,
        path: &'static str,
        version: String,
        take_over: fn(&RunningMachines, Change<Object<S, T>>),
    ) {
        let running = Arc::clone(&self.running);
        self.tasks.spawn(watched::follow(client, path, version, move |change| take_over(&running, change)));
    }

    /// Clock of the nodes.
    #[must_use]
    pub fn clock(&self) -> &ScaledClock {
        &self.clock
    }

    /// Machine of a Node.
    pub(crate) fn of(&self, node: &NodeName) -> Option<Arc<dyn Machine>> {
        self.running.of(node)
    }

    /// Sets the fault of a node; `None` removes the fault.
    ///
    /// # Errors
    /// Fails for an unknown node, and for a fault that needs an agent if the node has none.
    pub fn inject(&self, node: &NodeName, fault: Option<Fault>) -> Result<(), InjectError> {
        let machine = self.running.of(node).ok_or_else(|| InjectError::UnknownNode(node.clone()))?;
        if fault.as_ref().is_some_and(Fault::needs_agent) && machine.host().is_none() {
            return Err(InjectError::WithoutAgent(node.clone()));
        }
        machine.inject(fault);
        Ok(())
    }

    /// Proxy through which the API server reaches the kubelets.
    #[must_use]
    pub fn proxy(&self) -> NodeProxy {
        // A weak reference, because the machines hold the server that calls this proxy.
        let running = Arc::downgrade(&self.running);
        Arc::new(move |node, path| {
            let machine = running.upgrade().and_then(|running| running.of(&NodeName::new(node).ok()?));
            machine.map_or_else(unreachable, |machine| machine.answer(path))
        })
    }

    /// Stops all machines.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        let machines = std::mem::take(&mut *self.running.lock());
        for mut machine in machines.into_values() {
            machine.task.shutdown().await;
        }
    }
}

/// Error for a kubelet port without a listener.
pub(crate) fn unreachable() -> ProxyResult {
    ProxyResult::Unreachable("dial tcp 192.0.2.1:10250: connect: connection refused".to_owned())
}

impl RunningMachines {
    fn lock(&self) -> MutexGuard<'_, HashMap<NodeName, RunningMachine>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Machine of a Node.
    pub(crate) fn of(&self, node: &NodeName) -> Option<Arc<dyn Machine>> {
        self.lock().get(node).map(|running| Arc::clone(&running.machine))
    }

    /// All machines.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Machine>> {
        self.lock().values().map(|running| Arc::clone(&running.machine)).collect()
    }

    fn take_over(&self, change: Change<Node>) {
        match change {
            Change::Relist(all, _) => {
                let listed: HashSet<&str> = all.iter().map(|node| &*node.metadata.name).collect();
                self.lock().retain(|name, _| listed.contains(name.as_str()));
                all.iter().for_each(|node| self.node_seen(node));
            }
            Change::Applied(node) => self.node_seen(&node),
            Change::Deleted(node) => self.lock().retain(|name, _| name.as_str() != node.metadata.name),
        }
    }

    fn node_seen(&self, node: &Node) {
        let Ok(name) = NodeName::new(node.metadata.name.clone()) else { return };
        let (version, uid) = (&node.status.node_info.kubelet_version, &node.metadata.uid);
        let mut running = self.lock();
        // A Node with another version or uid is another machine with the same name.
        if let Some(known) = running.get(&name).filter(|known| known.version == *version && known.uid == *uid) {
            return known.machine.node_changed(node);
        }
        let (machine, work) = (self.create)(&name, node);
        machine.node_changed(node);
        let task = JoinSet::from_iter([work]);
        running.insert(name, RunningMachine { machine, version: version.clone(), uid: uid.clone(), task });
    }
}
