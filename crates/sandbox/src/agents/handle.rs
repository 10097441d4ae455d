//! Start of the simulated nodes with agents.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::host::{AgentHost, SimHost};
use super::host_client::{self, Connection};
use crate::api::Api;
use crate::kubelets::HostSpec;
use crate::machines::{self, Machine, Machines, Node, StartError, run_kubelet, seed_of};
use crate::running::RunningCache;
use nodecfg_agent::api::{AgentClient, AgentClientOptions, PointerPlace};
use nodecfg_agent::disk::memory::MemoryDisk;
use nodecfg_agent::driver;
use nodecfg_agent::metrics::Metrics;
use nodecfg_agent::runtime::AgentRuntime;
use nodecfg_agent::settings::Settings;
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::connection::retry::RetryPolicy;
use nodecfg_contract::KubeletVersion;
use nodecfg_contract::names::NodeName;

/// Server name in errors of agents.
const SERVER: &str = "https://sandbox.invalid";
/// Real time that a request may take with its retries. Long, because a busy machine delays thousands of requests at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// First and longest delay between an agent's retries, in simulated time.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Delay after an agent that could not open its state, in simulated time.
const RESTART_DELAY: Duration = Duration::from_secs(10);

/// Options of the agents.
#[derive(Debug, Clone)]
pub struct Options {
    /// Settings of the agents; durations are in simulated time.
    pub settings: Settings,
    /// Fleet that new nodes join, and the namespace of its pool pointers. `None`: agents run without `--fleet`.
    pub join: Option<PointerPlace>,
    /// Forwards the agents' log to this process's log. On real nodes, it is in the node's log.
    pub log: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { settings: Settings::default(), join: None, log: true }
    }
}

/// Starts an agent and a kubelet for every current and later Node.
///
/// # Errors
/// Fails for an invalid speed, or if Nodes cannot be listed. Later server errors are retried.
pub async fn start(api: &Api, options: machines::Options, agents: Options) -> Result<Machines, StartError> {
    start_with(Connection::sandbox(api, agents.join.is_some()), api.client(), options, agents).await
}

/// Does the same on an API server outside this process. `client` may do everything, and impersonates `agent`, the
/// ServiceAccount of the agents as a user name.
///
/// # Errors
/// As [`start`].
pub async fn start_on(
    client: Client,
    agent: &str,
    options: machines::Options,
    agents: Options,
) -> Result<Machines, StartError> {
    start_with(Connection::remote(&client, agent), client, options, agents).await
}

async fn start_with(
    connection: Connection,
    client: Client,
    options: machines::Options,
    agents: Options,
) -> Result<Machines, StartError> {
    let clock = machines::clock(options.speed)?;
    let cluster = Cluster {
        connection,
        client: client.clone(),
        clock: clock.clone(),
        cache: RunningCache::default(),
        options,
        agents,
    };
    Machines::start(client, clock, Box::new(move |name, node| cluster.create(name, node))).await
}

impl Machines {
    /// Disk of the agent of a node. `None` for an unknown node, and without an agent.
    #[must_use]
    pub fn disk(&self, node: &NodeName) -> Option<MemoryDisk> {
        self.of(node)?.host().map(|host| host.disk.clone())
    }

    /// Number of restarts of the kubelet of a node, by its agent and by its service manager. `None` for an unknown node,
    /// and without an agent.
    #[must_use]
    pub fn kubelet_restarts(&self, node: &NodeName) -> Option<u64> {
        self.of(node)?.host().map(SimHost::kubelet_restarts)
    }
}

/// What the nodes share.
struct Cluster {
    connection: Connection,
    client: Client,
    clock: ScaledClock,
    cache: RunningCache,
    options: machines::Options,
    agents: Options,
}

impl Cluster {
    /// Creates a host, and the work of its agent and its kubelet.
    fn create(&self, name: &NodeName, node: &Node) -> (Arc<dyn Machine>, BoxFuture<'static, ()>) {
        let seed = seed_of(self.options.seed, name);
        let spec = HostSpec::of(&node.metadata.annotations);
        let version = KubeletVersion::parse(&node.status.node_info.kubelet_version);
        let fault = self.options.faults.of(name);
        let host = Arc::new(SimHost::new(name, spec, version, fault, &self.clock, &self.cache));
        let [first_delay, longest_delay] = [RETRY.0, RETRY.1].map(|delay| self.clock.real_duration(delay));
        let options = AgentClientOptions {
            request_timeout: REQUEST_TIMEOUT,
            retry_limit: REQUEST_TIMEOUT,
            retry: RetryPolicy { first_delay, longest_delay },
            seed,
            ..AgentClientOptions::default()
        };
        let client = host_client::client(self.connection.clone(), Arc::clone(&host));
        let agent = Agent {
            host: Arc::clone(&host),
            client: AgentClient::new(client, SERVER, name.clone(), options).with_pointers(self.agents.join.clone()),
            settings: Settings { joins: self.agents.join.is_some(), ..self.agents.settings },
            seed,
        };
        let (client, uid) = (self.client.clone(), node.metadata.uid.clone());
        let span = tracing::error_span!("node", %name);
        let work = async move {
            let host = Arc::clone(&agent.host);
            tokio::join!(agent.run(), run_kubelet(&*host, &client, &host.name, &uid));
        };
        let work = match self.agents.log {
            true => work.instrument(span).boxed(),
            false => work.with_subscriber(NoSubscriber::default()).boxed(),
        };
        (host, work)
    }
}

/// Agent of a host.
struct Agent {
    host: Arc<SimHost>,
    client: AgentClient,
    settings: Settings,
    seed: u64,
}

impl Agent {
    /// Runs the agent whenever its host is up.
    async fn run(self) {
        for boot in 1_u64.. {
            self.until_up(true).await;
            let seed = self.seed.rotate_left(17) ^ boot;
            tokio::select! {
                () = self.run_once(seed) => {}
                () = self.until_up(false) => {}
            }
            self.host.crash_disk_if_down(seed);
        }
    }

    /// Waits until the host is up or down.
    async fn until_up(&self, up: bool) {
        let mut changes = self.host.changes();
        while self.host.runs_agent() != up && changes.changed().await.is_ok() {}
    }

    /// Runs the agent until it fails.
    async fn run_once(&self, seed: u64) {
        let Self { host, client, settings, .. } = self;
        let runtime = match AgentRuntime::open(&host.paths, *settings, host.disk.clone(), seed) {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::warn!(node = %host.name, "the agent of a simulated node did not start: {error}");
                return host.clock.sleep(RESTART_DELAY).await;
            }
        };
        let options = driver::Options { clock: host.clock.clone(), metrics: Metrics::default() };
        let agent_host = AgentHost(Arc::clone(host));
        if let Err(error) = driver::run(runtime, client.clone(), &agent_host, options, std::future::pending()).await {
            tracing::warn!(node = %host.name, "the agent of a simulated node failed: {error}");
        }
    }
}
