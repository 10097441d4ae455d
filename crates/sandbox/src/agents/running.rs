//! Simulated nodes with agents as their user sees them: started, made to misbehave, stopped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::cached_verdicts::CachedVerdicts;
use super::gate;
use super::host::{Making, Simulated};
use super::node::{self, Agent};
use crate::api::{Api, NodeProxy, Proxied, User};
use crate::configz;
use crate::kubelets::watch::{Change, Collection};
use crate::kubelets::wire::{self, Node};
use crate::kubelets::{Fault, Faults, InjectError, StartError, seed_of};
use nodecfg_agent::api::AgentClient;
use nodecfg_agent::api::AgentClientOptions;
use nodecfg_agent::state::Settings;
use nodecfg_clock::Pace;
use nodecfg_cluster::retry::RetryPolicy;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::KubeletVersion;

/// Changes that may wait to be taken.
const BACKLOG: usize = 256;
/// What errors of agents call the server.
const SERVER: &str = "https://sandbox.invalid";
/// The waits between an agent's attempts, in its own time.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// How to run the nodes.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many times faster than real their time runs; above 0.
    pub speed: f64,
    /// Seed of all that looks random. A node's depends on the seed and its name alone.
    pub seed: u64,
    /// Which nodes misbehave from the start, those that appear later included.
    pub faults: Faults,
    /// Whether kubelets emit Events.
    pub events: bool,
    /// How often, in simulated time, a kubelet reports readiness that has not changed and renews its Lease; `None` is only
    /// when it starts. Real ones renew every 10 s.
    pub heartbeat: Option<Duration>,
    /// How the agents behave, in their own time.
    pub settings: Settings,
    /// Whether what the agents log is logged here: on real nodes it is in the nodes' logs.
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
            log: true,
        }
    }
}

/// What is shared by whoever starts and whoever injects.
struct Fleet {
    api: Api,
    client: Client,
    user: User,
    options: Options,
    pace: Pace,
    cached_verdicts: CachedVerdicts,
    nodes: Mutex<HashMap<NodeName, Running>>,
    stop: watch::Sender<bool>,
}

/// A node that runs.
struct Running {
    host: Arc<Simulated>,
    version: String,
    uid: String,
    task: JoinHandle<()>,
}

/// Running nodes with agents. Dropping them stops them at once.
pub struct Agents {
    fleet: Arc<Fleet>,
    tasks: [JoinHandle<()>; 2],
}

impl Agents {
    /// Starts an agent and a kubelet for every Node there is and every Node that appears later.
    ///
    /// # Errors
    /// When the speed is unusable, or Nodes cannot be listed. Later trouble with the server is survived.
    pub async fn start(api: &Api, options: Options) -> Result<Self, StartError> {
        if !(options.speed.is_finite() && options.speed > 0.0) {
            return Err(StartError::Speed(options.speed));
        }
        let client = api.client();
        let nodes = Collection { path: wire::NODES, labels: None, only_changes: false };
        let listed = nodes.list::<Node>(&client).await;
        let (all, version) = listed.map_err(|source| StartError::List { what: "Nodes", source: Box::new(source) })?;
        let fleet = Arc::new(Fleet {
            api: api.clone(),
            client: client.clone(),
            user: gate::user(),
            pace: Pace::times(options.speed),
            options,
            cached_verdicts: CachedVerdicts::default(),
            nodes: Mutex::default(),
            stop: watch::Sender::new(false),
        });
        fleet.listed(all);
        let (sender, changes) = mpsc::channel(BACKLOG);
        let tasks =
            [tokio::spawn(nodes.follow(client, version, sender)), tokio::spawn(Arc::clone(&fleet).follow(changes))];
        Ok(Self { fleet, tasks })
    }

    /// Makes a node misbehave from now on, or with `None` mends it.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn inject(&self, node: &NodeName, fault: Option<Fault>) -> Result<(), InjectError> {
        match self.fleet.lock().get(node) {
            Some(running) => {
                running.host.inject(fault);
                Ok(())
            }
            None => Err(InjectError::UnknownNode(node.clone())),
        }
    }

    /// What answers for the kubelets when the API server passes a request on to one.
    #[must_use]
    pub fn proxy(&self) -> Arc<dyn NodeProxy> {
        Arc::new(OfHosts(Arc::downgrade(&self.fleet)))
    }

    /// Stops all nodes; what is under way is finished first.
    pub async fn stop(self) {
        for task in &self.tasks {
            task.abort();
        }
        self.fleet.stop.send_replace(true);
        let nodes = std::mem::take(&mut *self.fleet.lock());
        for (_, running) in nodes {
            // An agent that ended badly has said so.
            let _ = running.task.await;
        }
    }
}

/// Weak, since the server that asks is kept by the fleet.
struct OfHosts(Weak<Fleet>);

impl NodeProxy for OfHosts {
    fn get(&self, _api: &Api, node: &str, path: &str) -> Proxied {
        let host = || {
            let (fleet, node) = (self.0.upgrade()?, NodeName::new(node).ok()?);
            let nodes = fleet.lock();
            nodes.get(&node).map(|running| Arc::clone(&running.host))
        };
        host().map_or_else(configz::unreachable, |host| host.proxied(path))
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
    fn lock(&self) -> MutexGuard<'_, HashMap<NodeName, Running>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow(self: Arc<Self>, mut changes: mpsc::Receiver<Change<Node>>) {
        while let Some(change) = changes.recv().await {
            match change {
                Change::All(all) => self.listed(all),
                Change::Set(node) => self.seen(&node),
                Change::Gone(node) => {
                    if let Ok(name) = NodeName::new(node.metadata.name) {
                        self.remove(&name);
                    }
                }
            }
        }
    }

    fn listed(&self, all: Vec<Node>) {
        let gone: Vec<NodeName> = {
            let names: std::collections::HashSet<&str> = all.iter().map(|node| node.metadata.name.as_str()).collect();
            self.lock().keys().filter(|name| !names.contains(name.as_str())).cloned().collect()
        };
        for name in gone {
            self.remove(&name);
        }
        for node in &all {
            self.seen(node);
        }
    }

    fn remove(&self, name: &NodeName) {
        if let Some(running) = self.lock().remove(name) {
            running.task.abort();
        }
    }

    fn seen(&self, node: &Node) {
        let Ok(name) = NodeName::new(node.metadata.name.clone()) else { return };
        let (version, uid) = (&node.status.node_info.kubelet_version, &node.metadata.uid);
        let known = self.lock().get(&name).is_some_and(|known| known.version == *version && known.uid == *uid);
        if known {
            return;
        }
        // New, or another machine of the same name.
        self.remove(&name);
        let seed = seed_of(self.options.seed, &name);
        let host = Arc::new(Simulated::new(Making {
            name: name.clone(),
            version: KubeletVersion::parse(version),
            fault: self.options.faults.of(&name),
            heartbeat: self.options.heartbeat,
            pace: self.pace,
            rng: fastrand::Rng::with_seed(seed),
            cached_verdicts: self.cached_verdicts.clone(),
        }));
        let retry = RetryPolicy {
            first_delay: self.pace.real_duration(RETRY.0),
            longest_delay: self.pace.real_duration(RETRY.1),
        };
        let client = gate::client(&self.api, self.user.clone(), Arc::clone(&host));
        let options = AgentClientOptions { retry, seed, ..AgentClientOptions::default() };
        let agent = Agent {
            client: AgentClient::new(client, SERVER, name.clone(), options),
            settings: self.options.settings,
            seed,
        };
        let (events, stop) = (self.options.events, self.stop.subscribe());
        let span = tracing::error_span!("node", name = %name);
        let task = node::run(Arc::clone(&host), agent, self.client.clone(), uid.clone(), events, stop).instrument(span);
        let task = match self.options.log {
            true => tokio::spawn(task),
            false => tokio::spawn(task.with_subscriber(NoSubscriber::default())),
        };
        let running = Running { host, version: version.clone(), uid: uid.clone(), task };
        self.lock().insert(name, running);
    }
}
