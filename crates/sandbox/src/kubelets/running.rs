//! Simulated kubelets as their user sees them: started, made to misbehave, stopped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::driver::{Command, Driver};
use super::fault::{Fault, Faults};
use super::watch::Collection;
use super::wire::{self, ConfigMapMeta, Node};
use crate::api::NodeProxy;
use crate::configz::OfNodes;
use nodecfg_contract::names::NodeName;

/// Changes that may wait to be taken.
const BACKLOG: usize = 256;

/// How to run the kubelets.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many times faster than real their time runs; above 0.
    pub speed: f64,
    /// Seed of all jitter. A node's jitter depends on the seed and its name alone.
    pub seed: u64,
    /// Which kubelets misbehave from the start, those of Nodes that appear later included.
    pub faults: Faults,
    /// Whether kubelets emit Events: two for each restart.
    pub events: bool,
    /// How often, in simulated time, a kubelet reports readiness that has not changed; `None` is never. Real ones do it
    /// every 5 minutes. With many nodes this is what an API server is busiest with.
    pub heartbeat: Option<Duration>,
    /// Requests at a time, at least 1.
    pub concurrency: usize,
    /// Label selector of the Nodes that have a simulated kubelet; `None` means all.
    pub selector: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            speed: 1.0,
            seed: 0,
            faults: Faults::default(),
            events: true,
            heartbeat: None,
            concurrency: 32,
            selector: None,
        }
    }
}

/// Why the kubelets did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The speed is no usable number.
    #[error("simulated kubelets cannot run at speed {0}; use a number above 0, 1 being real time")]
    Speed(f64),
    /// The API server did not answer the first list.
    #[error(
        "simulated kubelets could not list {what}; check that the API server is up and grants list and watch: {source}"
    )]
    List {
        /// The resource.
        what: &'static str,
        /// What went wrong.
        source: Box<kube::Error>,
    },
}

/// Why a fault was not injected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// No simulated kubelet runs for this Node.
    #[error("node {0} has no simulated kubelet; create the Node first, or check its name")]
    UnknownNode(NodeName),
    /// Nodes whose kubelets follow `configSource` themselves cannot misbehave like that.
    #[error("node {0} has no agent, which this fault is for; a sandbox of version 1.36 has agents")]
    WithoutAgent(NodeName),
    /// The kubelets were stopped.
    #[error("the simulated kubelets have stopped")]
    Stopped,
}

/// Running simulated kubelets. Dropping it stops them at once.
#[derive(Debug)]
pub struct Kubelets {
    commands: mpsc::UnboundedSender<Command>,
    driver: Option<JoinHandle<()>>,
    watches: [JoinHandle<()>; 2],
    /// Faults that were injected, and those from the start, for who asks for them from outside.
    injected: Arc<Mutex<HashMap<NodeName, Option<Fault>>>>,
    faults: Faults,
}

impl Kubelets {
    /// Starts a kubelet for every Node there is and every Node that appears later. Returns when the first have started.
    ///
    /// # Errors
    /// When the speed is unusable, or Nodes and ConfigMaps cannot be listed. Later trouble with the server is survived.
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        if !(options.speed.is_finite() && options.speed > 0.0) {
            return Err(StartError::Speed(options.speed));
        }
        let nodes = Collection { path: wire::NODES, labels: options.selector.clone(), only_changes: false };
        let config_maps = Collection { path: wire::CONFIG_MAPS, labels: None, only_changes: true };
        let failed = |what| move |source| StartError::List { what, source: Box::new(source) };
        let (_, config_map_version) = config_maps.list::<ConfigMapMeta>(&client).await.map_err(failed("ConfigMaps"))?;
        let (all, node_version) = nodes.list::<Node>(&client).await.map_err(failed("Nodes"))?;

        let (node_sender, node_changes) = mpsc::channel(BACKLOG);
        let (config_map_sender, config_map_changes) = mpsc::channel(BACKLOG);
        let watches = [
            tokio::spawn(nodes.follow(client.clone(), node_version, node_sender)),
            tokio::spawn(config_maps.follow(client.clone(), config_map_version, config_map_sender)),
        ];
        let (commands, received) = mpsc::unbounded_channel();
        let faults = options.faults.clone();
        let mut driver = Driver::new(client, options);
        driver.nodes_listed(all);
        let driver = Some(tokio::spawn(driver.run(node_changes, config_map_changes, received)));
        Ok(Self { commands, driver, watches, injected: Arc::default(), faults })
    }

    /// Makes the kubelet of a node misbehave from now on, or with `None` mends it.
    ///
    /// # Errors
    /// When no simulated kubelet runs for this node.
    pub async fn inject(&self, node: &NodeName, fault: Option<Fault>) -> Result<(), InjectError> {
        let (reply, replied) = oneshot::channel();
        let sent = self.commands.send(Command::Inject(node.clone(), fault, reply));
        match (sent, replied.await) {
            (Ok(()), Ok(true)) => {
                self.injected.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), fault);
                Ok(())
            }
            (Ok(()), Ok(false)) => Err(InjectError::UnknownNode(node.clone())),
            _ => Err(InjectError::Stopped),
        }
    }

    /// What answers for the kubelets when the API server passes a request on to one.
    #[must_use]
    pub fn proxy(&self) -> Arc<dyn NodeProxy> {
        let (injected, faults) = (Arc::clone(&self.injected), self.faults.clone());
        let fault = move |node: &str| {
            let node = NodeName::new(node).ok()?;
            let injected = injected.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied();
            injected.unwrap_or_else(|| faults.of(&node))
        };
        Arc::new(OfNodes { fault })
    }

    /// Stops all kubelets; requests that are under way are finished first.
    pub async fn stop(mut self) {
        // A driver that has ended already needs no telling.
        let _ = self.commands.send(Command::Stop);
        if let Some(driver) = self.driver.take()
            && let Err(error) = driver.await
        {
            tracing::warn!(%error, "the simulated kubelets ended badly");
        }
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        for task in self.watches.iter().chain(&self.driver) {
            task.abort();
        }
    }
}
