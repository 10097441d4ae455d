//! Tasks of one simulated node: its agent, and its kubelet's writes to the API server.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use super::host::{AgentHost, SimHost};
use super::process::KubeletWrite;
use crate::kubelets::attempts::{ATTEMPTS, attempt};
use crate::kubelets::report_aftermath::carry_out;
use crate::kubelets::requests;
use nodecfg_agent::api::AgentClient;
use nodecfg_agent::driver;
use nodecfg_agent::metrics::Metrics;
use nodecfg_agent::runtime::AgentRuntime;
use nodecfg_agent::settings::Settings;

/// Delay after an agent that could not open its state, in simulated time.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Parameters of a node's agent.
#[derive(Clone)]
pub(super) struct Agent {
    pub(super) client: AgentClient,
    pub(super) settings: Settings,
    pub(super) seed: u64,
}

/// Runs a node until the stop signal.
pub(super) async fn run(
    host: Arc<SimHost>,
    agent: Agent,
    client: Client,
    uid: String,
    events: bool,
    stop: watch::Receiver<bool>,
) {
    let kubelet = run_kubelet(&host, &client, &uid, events, stop.clone());
    tokio::join!(run_agent_while_up(Arc::clone(&host), agent, stop), kubelet);
}

/// Runs the agent whenever its host is up.
async fn run_agent_while_up(host: Arc<SimHost>, agent: Agent, stop: watch::Receiver<bool>) {
    let mut changes = host.changes();
    let mut boots = 0_u64;
    while !*stop.borrow() {
        if host.runs_agent() {
            boots += 1;
            let seed = agent.seed.rotate_left(17) ^ boots;
            let went_down = until_down(&host);
            tokio::select! {
                () = run_agent(&host, &agent, seed, stop.clone()) => {}
                () = went_down => {}
            }
            host.crash_disk_if_down(seed);
            continue;
        }
        let mut stop = stop.clone();
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

async fn until_down(host: &SimHost) {
    let mut changes = host.changes();
    while host.runs_agent() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Runs the agent until it fails or the stop signal arrives.
async fn run_agent(host: &Arc<SimHost>, agent: &Agent, seed: u64, mut stop: watch::Receiver<bool>) {
    let opened = AgentRuntime::open(&host.paths, agent.settings, host.disk.clone(), seed);
    let runtime = match opened {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::warn!(node = %host.name, "the agent of a simulated node did not start: {error}");
            host.clock.sleep(RETRY_DELAY).await;
            return;
        }
    };
    let options = driver::Options { clock: host.clock.clone(), metrics: Metrics::default() };
    let stopped = async move {
        // A dropped sender also means stop.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    let agent_host = AgentHost(Arc::clone(host));
    if let Err(error) = driver::run(runtime, agent.client.clone(), &agent_host, options, stopped).await {
        tracing::warn!(node = %host.name, "the agent of a simulated node failed: {error}");
    }
}

/// Writes the kubelet's readiness, Lease and start Events until the stop signal.
async fn run_kubelet(host: &SimHost, client: &Client, uid: &str, events: bool, mut stop: watch::Receiver<bool>) {
    let mut changes = host.changes();
    while !*stop.borrow() {
        changes.borrow_and_update();
        let (writes, wake) = host.advance();
        for write in writes {
            send_write(host, client, uid, events, write).await;
        }
        let sleep = async {
            match wake {
                Some(wake) => host.clock.sleep_until(wake).await,
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

async fn send_write(host: &SimHost, client: &Client, uid: &str, events: bool, write: KubeletWrite) {
    let node = host.name.as_str();
    let now = nodecfg_clock::now();
    let request = match write {
        KubeletWrite::Aftermath(aftermath) => {
            if let Err(error) = carry_out(client, node, aftermath).await {
                tracing::debug!(node, ?aftermath, %error, "a simulated kubelet could not write");
            }
            return;
        }
        KubeletWrite::Ready { ready, changed } => requests::patch_ready(node, ready, changed, now),
        // The agent compares the time with its simulated clock.
        KubeletWrite::Renew => requests::put_lease(node, uid, host.clock.now()),
        KubeletWrite::Started if events => requests::post_event(node, "Starting", "Starting kubelet.", now),
        KubeletWrite::Started => return,
    };
    let sent = match request {
        Ok(request) => attempt(client, request, ATTEMPTS).await,
        Err(error) => Err(kube::Error::BuildRequest(error)),
    };
    if let Err(error) = sent {
        tracing::debug!(node, ?write, %error, "a simulated kubelet could not write");
    }
}
