//! Public handle of the simulated nodes with agents: options, start, fault injection, proxy, stop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::host::{HostOptions, SimHost};
use super::host_client::Connection;
use super::node::Agent;
use super::{host_client, node};
use crate::api::{Api, NodeProxy, ProxyResult};
use crate::kubelets::requests::Node;
use crate::kubelets::{Fault, Faults, HostSpec, InjectError, StartError, configz, requests, seed_of};
use crate::running::RunningCache;
use crate::watch::{self as collection, Change};
use nodecfg_agent::api::{AgentClient, AgentClientOptions, PointerPlace};
use nodecfg_agent::disk::memory::MemoryDisk;
use nodecfg_agent::settings::Settings;
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::connection::retry::RetryPolicy;
use nodecfg_contract::KubeletVersion;
use nodecfg_contract::names::NodeName;

/// Capacity of the channel of watched changes.
const BACKLOG: usize = 256;
/// Server name in errors of agents.
const SERVER: &str = "https://sandbox.invalid";
/// Real time that a request may take with its retries. Long, because a busy machine delays thousands of requests at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// First and longest delay between an agent's retries, in simulated time.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Options of the nodes.
#[derive(Debug, Clone)]
pub struct Options {
    /// Speed of simulated time, above 0; 1 is real time.
    pub speed: f64,
    /// Seed of all random values. A node's values depend on the seed and its name only.
    pub seed: u64,
    /// Initial faults; they also apply to nodes that appear later.
    pub faults: Faults,
    /// Emits Events of kubelets.
    pub events: bool,
    /// Interval of readiness heartbeats and Lease renewals in simulated time. `None` limits both to kubelet starts.
    /// Real kubelets renew every 10 s.
    pub heartbeat: Option<Duration>,
    /// Settings of the agents; durations are in simulated time.
    pub settings: Settings,
    /// Fleet that new nodes join, and the namespace of its pool pointers. `None`: agents run without `--fleet`.
    pub join: Option<PointerPlace>,
    /// Forwards the agents' log to this process's log. On real nodes, it is in the node's log.
    pub log: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            speed: 1.0,
            seed: 0,
            faults: Faults::default(),
            events: true,
            heartbeat: None,
            settings: Settings::default(),
            join: None,
            log: true,
        }
    }
}

/// State shared by the watch of Nodes, the proxy and the handle.
struct Fleet {
    connection: Connection,
    client: Client,
    options: Options,
    clock: ScaledClock,
    cache: RunningCache,
    nodes: Mutex<HashMap<NodeName, RunningNode>>,
    stop: watch::Sender<bool>,
}

/// A running node.
struct RunningNode {
    host: Arc<SimHost>,
    version: String,
    uid: String,
    task: JoinHandle<()>,
}

/// Running nodes with agents, which stop immediately when dropped.
pub struct Agents {
    fleet: Arc<Fleet>,
    tasks: [JoinHandle<()>; 2],
}

impl Agents {
    /// Starts an agent and a kubelet for every current and later Node.
    ///
    /// # Errors
    /// Fails for an invalid speed, or if Nodes cannot be listed. Later server errors are retried.
    pub async fn start(api: &Api, options: Options) -> Result<Self, StartError> {
        Self::start_with(Connection::sandbox(api.clone(), options.join.is_some()), api.client(), options).await
    }

    /// Does the same on an API server outside this process. `client` may do everything, and impersonates `agent`, the
    /// ServiceAccount of the agents as a user name.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_on(client: Client, agent: &str, options: Options) -> Result<Self, StartError> {
        let connection = Connection::Remote { client: client.clone(), agent: agent.to_owned() };
        Self::start_with(connection, client, options).await
    }

    async fn start_with(connection: Connection, client: Client, options: Options) -> Result<Self, StartError> {
        if !(options.speed.is_finite() && options.speed > 0.0) {
            return Err(StartError::Speed(options.speed));
        }
        let listed = collection::list::<Node>(&client, requests::NODES).await;
        let (all, version) = listed.map_err(|source| StartError::List { what: "Nodes", source: Box::new(source) })?;
        let fleet = Arc::new(Fleet {
            connection,
            client: client.clone(),
            clock: ScaledClock::simulated(options.speed),
            options,
            cache: RunningCache::default(),
            nodes: Mutex::default(),
            stop: watch::Sender::new(false),
        });
        fleet.nodes_listed(all);
        let (sender, changes) = mpsc::channel(BACKLOG);
        let tasks = [
            tokio::spawn(collection::follow(
                client,
                requests::NODES,
                version,
                sender,
                std::convert::identity::<Change<Node>>,
            )),
            tokio::spawn(Arc::clone(&fleet).follow(changes)),
        ];
        Ok(Self { fleet, tasks })
    }

    /// Sets the fault of a node; `None` removes the fault.
    ///
    /// # Errors
    /// Fails for an unknown node.
    pub fn inject(&self, node: &NodeName, fault: Option<Fault>) -> Result<(), InjectError> {
        match self.fleet.lock().get(node) {
            Some(running) => {
                running.host.inject(fault);
                Ok(())
            }
            None => Err(InjectError::UnknownNode(node.clone())),
        }
    }

    /// Disk of a node. `None` for an unknown node.
    #[must_use]
    pub fn disk(&self, node: &NodeName) -> Option<MemoryDisk> {
        self.fleet.lock().get(node).map(|running| running.host.disk.clone())
    }

    /// Number of restarts of the kubelet of a node, by its agent and by its service manager. `None` for an unknown node.
    #[must_use]
    pub fn kubelet_restarts(&self, node: &NodeName) -> Option<u64> {
        self.fleet.lock().get(node).map(|running| running.host.kubelet_restarts())
    }

    /// Sends a GET request for a path to the kubelet of a node.
    #[must_use]
    pub fn get_from_kubelet(&self, node: &NodeName, path: &str) -> ProxyResult {
        self.fleet.get_from_kubelet(node, path)
    }

    /// Clock of the nodes.
    #[must_use]
    pub fn clock(&self) -> &ScaledClock {
        &self.fleet.clock
    }

    /// Proxy through which the API server reaches the kubelets.
    #[must_use]
    pub fn proxy(&self) -> Arc<dyn NodeProxy> {
        Arc::new(HostProxy(Arc::downgrade(&self.fleet)))
    }

    /// Stops all nodes after open requests have finished.
    pub async fn stop(self) {
        for task in &self.tasks {
            task.abort();
        }
        self.fleet.stop.send_replace(true);
        let nodes = std::mem::take(&mut *self.fleet.lock());
        for (_, running) in nodes {
            // A failed agent has logged its error.
            let _ = running.task.await;
        }
    }
}

/// Weak reference, because the fleet holds the server that calls this proxy.
struct HostProxy(Weak<Fleet>);

impl NodeProxy for HostProxy {
    fn get(&self, _api: &Api, node: &str, path: &str) -> ProxyResult {
        match (self.0.upgrade(), NodeName::new(node)) {
            (Some(fleet), Ok(node)) => fleet.get_from_kubelet(&node, path),
            _ => configz::unreachable(),
        }
    }
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agents").field("nodes", &self.fleet.lock().len()).finish_non_exhaustive()
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        for running in self.fleet.lock().values() {
            running.task.abort();
        }
    }
}

impl Fleet {
    fn lock(&self) -> MutexGuard<'_, HashMap<NodeName, RunningNode>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get_from_kubelet(&self, node: &NodeName, path: &str) -> ProxyResult {
        let host = self.lock().get(node).map(|running| Arc::clone(&running.host));
        host.map_or_else(configz::unreachable, |host| host.get_from_kubelet(path))
    }

    async fn follow(self: Arc<Self>, mut changes: mpsc::Receiver<Change<Node>>) {
        while let Some(change) = changes.recv().await {
            match change {
                Change::Relist(all) => self.nodes_listed(all),
                Change::Applied(node) => self.node_seen(&node),
                Change::Deleted(node) => {
                    if let Ok(name) = NodeName::new(node.metadata.name) {
                        self.remove(&name);
                    }
                }
            }
        }
    }

    fn nodes_listed(&self, all: Vec<Node>) {
        let removed: Vec<NodeName> = {
            let names: std::collections::HashSet<&str> = all.iter().map(|node| node.metadata.name.as_str()).collect();
            self.lock().keys().filter(|name| !names.contains(name.as_str())).cloned().collect()
        };
        for name in removed {
            self.remove(&name);
        }
        for node in &all {
            self.node_seen(node);
        }
    }

    fn remove(&self, name: &NodeName) {
        if let Some(running) = self.lock().remove(name) {
            running.task.abort();
        }
    }

    fn node_seen(&self, node: &Node) {
        let Ok(name) = NodeName::new(node.metadata.name.clone()) else { return };
        let (version, uid) = (&node.status.node_info.kubelet_version, &node.metadata.uid);
        let known = self.lock().get(&name).is_some_and(|known| known.version == *version && known.uid == *uid);
        if known {
            return;
        }
        // A new Node, or another machine with the same name.
        self.remove(&name);
        let seed = seed_of(self.options.seed, &name);
        let host = Arc::new(SimHost::new(HostOptions {
            spec: HostSpec::of(&node.metadata.annotations),
            name: name.clone(),
            version: KubeletVersion::parse(version),
            fault: self.options.faults.of(&name),
            heartbeat: self.options.heartbeat,
            clock: self.clock.clone(),
            rng: fastrand::Rng::with_seed(seed),
            cache: self.cache.clone(),
        }));
        let retry = RetryPolicy {
            first_delay: self.clock.real_duration(RETRY.0),
            longest_delay: self.clock.real_duration(RETRY.1),
        };
        let client = host_client::client(self.connection.clone(), Arc::clone(&host));
        let options = AgentClientOptions {
            request_timeout: REQUEST_TIMEOUT,
            retry_limit: REQUEST_TIMEOUT,
            retry,
            seed,
            ..AgentClientOptions::default()
        };
        let agent = Agent {
            client: AgentClient::new(client, SERVER, name.clone(), options).with_pointers(self.options.join.clone()),
            settings: Settings { joins: self.options.join.is_some(), ..self.options.settings },
            seed,
        };
        let (events, stop) = (self.options.events, self.stop.subscribe());
        let span = tracing::error_span!("node", name = %name);
        let task = node::run(Arc::clone(&host), agent, self.client.clone(), uid.clone(), events, stop).instrument(span);
        let task = match self.options.log {
            true => tokio::spawn(task),
            false => tokio::spawn(task.with_subscriber(NoSubscriber::default())),
        };
        let running = RunningNode { host, version: version.clone(), uid: uid.clone(), task };
        self.lock().insert(name, running);
    }
}
