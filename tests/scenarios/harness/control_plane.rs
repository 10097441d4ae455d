//! A cluster with a real API server. One pair of servers serves all scenarios of a process in turn; it is emptied between
//! scenarios and killed after the last.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use nodecfg_agent::settings::Settings;
use nodecfg_contract::installation::{AGENT_DAEMON_SET, NAMESPACE};
use nodecfg_sandbox::agents;
use nodecfg_sandbox::api::ProxyResult;
use nodecfg_sandbox::kubelets::{self, Faults};
use nodecfg_sandbox::machines::{Machines, Options};
use nodecfg_sandbox::nodes::{self, NodeSpec};
use nodecfg_sandbox::workloads::{WorkloadSpec, Workloads};
use serde_json::Value;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::real_servers::{ADMIN, Servers};
use super::{SPEED, real_objects};

/// Servers that currently run.
static RUNNING: Mutex<Weak<SharedServers>> = Mutex::const_new(Weak::new());

/// Servers of all scenarios.
struct SharedServers {
    servers: Servers,
    /// Held by the scenario that uses the servers.
    turn: Arc<Mutex<()>>,
}

/// Reports whether an API server keeps `Node.spec.configSource`, which versions up to 1.25 do.
pub(super) fn keeps_config_source(minor: u32) -> bool {
    minor <= 25
}

/// Simulated components of a cluster with a real API server.
pub struct Populated {
    client: Client,
    nodes: Machines,
    workloads: Option<Workloads>,
}

impl Populated {
    /// Client of the administrator.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(super) fn nodes(&self) -> &Machines {
        &self.nodes
    }

    /// Answer of a node's kubelet with its configuration.
    pub(super) fn configz(&self, node: &str) -> Value {
        let answer = self.nodes.proxy()(node, "/configz");
        let ProxyResult::Response { body, .. } = answer else { return Value::Null };
        serde_json::from_str(&body).unwrap_or_default()
    }

    pub(super) async fn stop(self) {
        if let Some(workloads) = self.workloads {
            workloads.stop().await;
        }
        self.nodes.stop().await;
    }
}

/// Settings of the agents. Requests take longer than in the sandbox, so that there are fewer.
fn settings(large: bool, speed: f64) -> Settings {
    Settings {
        health_timeout: Duration::from_secs_f64(10.0 * speed),
        trial_period: Duration::from_secs(if large { 600 } else { 60 }),
        resync_interval: Duration::from_secs(600),
        probe_interval: Duration::from_secs(5),
        ..Settings::default()
    }
}

/// Exclusive use of the real servers.
pub struct ControlPlane {
    shared: Arc<SharedServers>,
    _turn: OwnedMutexGuard<()>,
}

impl ControlPlane {
    /// Waits for exclusive use, starts the servers if necessary, and writes a kubeconfig.
    pub(super) async fn start(assets: &Path, kubeconfig: &Path) -> Self {
        let shared = {
            let mut running = RUNNING.lock().await;
            match running.upgrade() {
                Some(shared) => shared,
                None => {
                    let servers = Servers::start(assets).await;
                    let shared = Arc::new(SharedServers { servers, turn: Arc::default() });
                    *running = Arc::downgrade(&shared);
                    shared
                }
            }
        };
        let turn = Arc::clone(&shared.turn).lock_owned().await;
        shared.servers.kubeconfig.save(kubeconfig).unwrap();
        Self { shared, _turn: turn }
    }

    /// Deletes the objects of the previous scenario, then creates nodes with kubelets or agents, and pods.
    pub(super) async fn populate(
        &self,
        specs: Vec<NodeSpec>,
        faults: Faults,
        with_agents: bool,
        large: bool,
        workloads: Option<WorkloadSpec>,
    ) -> Populated {
        let client = self.shared.servers.client().await;
        real_objects::remove(&client).await;
        if with_agents {
            real_objects::install(&client, ADMIN).await;
        } else {
            real_objects::uninstall(&client).await;
        }
        let specs: Vec<NodeSpec> = specs.into_iter().map(|spec| spec.with_faults(&faults)).collect();
        nodes::create(&client, specs, Timestamp::now(), 2).await.unwrap();
        let nodes = if with_agents {
            let speed = if large { SPEED / 15.0 } else { SPEED / 5.0 };
            let options = Options { speed, faults, ..Options::default() };
            let of_agents = agents::Options { settings: settings(large, speed), ..agents::Options::default() };
            let user = format!("system:serviceaccount:{NAMESPACE}:{AGENT_DAEMON_SET}");
            agents::start_on(client.clone(), &user, options, of_agents).await.unwrap()
        } else {
            let options = Options { speed: SPEED, faults, ..Options::default() };
            kubelets::start(client.clone(), options).await.unwrap()
        };
        let workloads = match workloads {
            Some(spec) => Some(Workloads::start(client.clone(), &spec, SPEED).await.unwrap()),
            None => None,
        };
        Populated { client, nodes, workloads }
    }

    /// Ends the exclusive use; the servers stop with the last user.
    pub(super) fn stop(self) {}
}
