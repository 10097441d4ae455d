//! Public handle of the simulated kubelets: start, fault injection, configz proxy, stop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::configz::KubeletProxy;
use super::driver::{Command, Driver};
use super::fault::{Fault, Faults};
use super::options::Options;
use super::requests::{self, ConfigMapMeta, Node};
use crate::api::NodeProxy;
use crate::watch;
use nodecfg_contract::names::NodeName;

/// Capacity of each channel of watched changes.
const BACKLOG: usize = 256;

/// Error that prevents the start of the kubelets.
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
    /// The kubelets were stopped.
    #[error("the simulated kubelets have stopped")]
    Stopped,
}

/// Running simulated kubelets, which stop immediately when dropped.
#[derive(Debug)]
pub struct Kubelets {
    commands: mpsc::UnboundedSender<Command>,
    driver: Option<JoinHandle<()>>,
    watches: [JoinHandle<()>; 2],
    /// Faults injected since the start, for the proxy. They override the initial `faults`.
    injected: Arc<Mutex<HashMap<NodeName, Option<Fault>>>>,
    faults: Faults,
}

impl Kubelets {
    /// Starts a kubelet for every current and later Node that the selector matches. Returns once the first kubelets
    /// run.
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        if !(options.speed.is_finite() && options.speed > 0.0) {
            return Err(StartError::Speed(options.speed));
        }
        let failed = |what| move |source| StartError::List { what, source: Box::new(source) };
        let config_maps = watch::list::<ConfigMapMeta>(&client, requests::CONFIG_MAPS).await;
        let (_, config_map_version) = config_maps.map_err(failed("ConfigMaps"))?;
        let (all, node_version) = watch::list::<Node>(&client, requests::NODES).await.map_err(failed("Nodes"))?;

        let (node_sender, node_changes) = mpsc::channel(BACKLOG);
        let (config_map_sender, config_map_changes) = mpsc::channel(BACKLOG);
        let watches = [
            tokio::spawn(watch::follow(
                client.clone(),
                requests::NODES,
                node_version,
                node_sender,
                std::convert::identity::<crate::watch::Change<Node>>,
            )),
            tokio::spawn(watch::follow(
                client.clone(),
                requests::CONFIG_MAPS,
                config_map_version,
                config_map_sender,
                std::convert::identity::<crate::watch::Change<ConfigMapMeta>>,
            )),
        ];
        let (commands, received) = mpsc::unbounded_channel();
        let faults = options.faults.clone();
        let mut driver = Driver::new(client, options);
        driver.nodes_listed(all);
        let driver = Some(tokio::spawn(driver.run(node_changes, config_map_changes, received)));
        Ok(Self { commands, driver, watches, injected: Arc::default(), faults })
    }

    /// Fails if this node has no simulated kubelet, or if the kubelets have stopped.
    pub async fn inject(&self, node: &NodeName, fault: Option<Fault>) -> Result<(), InjectError> {
        let (reply, replied) = oneshot::channel();
        let sent = self.commands.send(Command::Inject(node.clone(), fault.clone(), reply));
        match (sent, replied.await) {
            (Ok(()), Ok(true)) => {
                self.injected.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), fault);
                Ok(())
            }
            (Ok(()), Ok(false)) => Err(InjectError::UnknownNode(node.clone())),
            _ => Err(InjectError::Stopped),
        }
    }

    /// Proxy through which the API server reaches the kubelets.
    #[must_use]
    pub fn proxy(&self) -> Arc<dyn NodeProxy> {
        let (injected, faults) = (Arc::clone(&self.injected), self.faults.clone());
        let fault = move |node: &str| {
            let node = NodeName::new(node).ok()?;
            let injected = injected.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned();
            injected.unwrap_or_else(|| faults.of(&node))
        };
        Arc::new(KubeletProxy { fault })
    }

    /// Stops all kubelets after open requests have finished.
    pub async fn stop(mut self) {
        // A finished driver needs no command.
        let _ = self.commands.send(Command::Stop);
        if let Some(driver) = self.driver.take()
            && let Err(error) = driver.await
        {
            tracing::warn!(%error, "the driver of the simulated kubelets failed");
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
