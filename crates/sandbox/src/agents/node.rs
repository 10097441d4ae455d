//! One simulated node: its agent, as long as there is one, and what its kubelet writes to the API server.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use super::host::{AgentsHost, Simulated};
use super::process::Deed;
use crate::kubelets::sending;
use crate::kubelets::wire;
use nodecfg_agent::api::AgentClient;
use nodecfg_agent::driver;
use nodecfg_agent::metrics::Metrics;
use nodecfg_agent::runtime::AgentRuntime;
use nodecfg_agent::state::Settings;

/// How soon an agent whose store cannot be opened is started again, in its own time.
const RESTART: Duration = Duration::from_secs(10);

/// What a node's agent is started with.
#[derive(Clone)]
pub(super) struct Agent {
    pub(super) client: AgentClient,
    pub(super) settings: Settings,
    pub(super) seed: u64,
}

/// Runs a node until told to stop.
pub(super) async fn run(
    host: Arc<Simulated>,
    agent: Agent,
    client: Client,
    uid: String,
    events: bool,
    stop: watch::Receiver<bool>,
) {
    let kubelet = kubelet(&host, &client, &uid, events, stop.clone());
    tokio::join!(agents(Arc::clone(&host), agent, stop), kubelet);
}

/// The agent comes and goes with its host.
async fn agents(host: Arc<Simulated>, agent: Agent, stop: watch::Receiver<bool>) {
    let mut changes = host.changes();
    let mut boots = 0_u64;
    while !*stop.borrow() {
        if host.runs_agent() {
            boots += 1;
            let seed = agent.seed.rotate_left(17) ^ boots;
            let went_down = until_down(&host);
            tokio::select! {
                () = one(&host, &agent, seed, stop.clone()) => {}
                () = went_down => {}
            }
            host.lose_memory(seed);
            continue;
        }
        let mut stop = stop.clone();
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

async fn until_down(host: &Simulated) {
    let mut changes = host.changes();
    while host.runs_agent() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// One life of the agent.
async fn one(host: &Arc<Simulated>, agent: &Agent, seed: u64, mut stop: watch::Receiver<bool>) {
    let opened = AgentRuntime::open(&super::host::paths(), agent.settings, host.disk.clone(), seed);
    let runtime = match opened {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::warn!(node = %host.name, "the agent of a simulated node did not start: {error}");
            tokio::time::sleep(host.pace.real_duration(RESTART)).await;
            return;
        }
    };
    let options = driver::Options { pace: host.pace, metrics: Metrics::default() };
    let stopped = async move {
        // Whoever would tell is gone: that is the same.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    let agents_host = AgentsHost(Arc::clone(host));
    if let Err(error) = driver::run(runtime, agent.client.clone(), &agents_host, options, stopped).await {
        tracing::warn!(node = %host.name, "the agent of a simulated node ended: {error}");
    }
}

/// What the kubelet writes: readiness, its Lease, and that it has started.
async fn kubelet(host: &Simulated, client: &Client, uid: &str, events: bool, mut stop: watch::Receiver<bool>) {
    let mut changes = host.changes();
    while !*stop.borrow() {
        changes.borrow_and_update();
        let (deeds, wake) = host.advance();
        for deed in deeds {
            write(host, client, uid, events, deed).await;
        }
        let sleep = async {
            match wake {
                Some(wake) => tokio::time::sleep(host.pace.until(wake)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            changed = changes.changed() => if changed.is_err() { return },
            () = sleep => {}
        }
    }
}

async fn write(host: &Simulated, client: &Client, uid: &str, events: bool, deed: Deed) {
    let node = host.name.as_str();
    let now = nodecfg_clock::now();
    let request = match deed {
        Deed::Ready { ready, changed } => wire::patch_ready(node, ready, changed, now),
        // The agent compares it with its own time.
        Deed::Renew => wire::put_lease(node, uid, host.pace.now()),
        Deed::Started if events => wire::post_event(node, "Starting", "Starting kubelet.", now),
        Deed::Started => return,
    };
    let sent = match request {
        Ok(request) => sending::attempt(client, request, sending::ATTEMPTS).await,
        Err(error) => Err(kube::Error::BuildRequest(error)),
    };
    if let Err(error) = sent {
        tracing::debug!(node, ?deed, %error, "a simulated kubelet could not write");
    }
}
