//! The driver of the agent: carries out what the runtime hands out, and hands back what came of it. One task, one watch, and a
//! timer only when the runtime asks for one; an agent whose node is settled sleeps.
//!
//! Decides nothing. A restart of the kubelet that has begun is waited for whatever else happens, since its answer is what
//! the ledger lives on.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;

use super::disk::Disk;
use super::events::{ActivationError, Announcement, Download, Effect, Event, FetchError, Health, NodeHealth, Step};
use super::host::{Host, RestartError};
use super::metrics::Metrics;
use super::runtime::AgentRuntime;
use super::state::Phase;
use crate::api::AgentClient;
use nodecfg_clock::Pace;
use nodecfg_cluster::ClusterError;
use nodecfg_contract::ConfigMapSource;
use nodecfg_contract::nodeconfig::NodeConfigStatus;
use nodecfg_contract::observed::KubeletVersion;

/// The shortest wait for a moment, so that a moment that has passed already is no endless loop.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// How the agent is driven.
#[derive(Debug, Clone)]
pub struct Options {
    /// How fast its time passes.
    pub pace: Pace,
    /// Where it shows what it does.
    pub metrics: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Self { pace: Pace::real(), metrics: Metrics::default() }
    }
}

/// How `once` ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass {
    /// The kubelet runs what is assigned, and that has passed its trial or needed none.
    Settled,
    /// There is no NodeConfig for this node, which is no instruction: it keeps what it has.
    NoNodeConfig,
    /// The assignment could not be taken, or failed: the text of `status.config.error`, and the reason in full.
    Failed {
        /// `status.config.error`.
        error: String,
        /// The reason, when the agent knows more.
        message: Option<String>,
    },
    /// There was no time left to see the trial through, or to tell the API server of its end.
    Unfinished,
}

/// Runs the agent until `stop` completes. A restart that has begun is seen through, however it ends.
///
/// # Errors
/// `Unauthorized`: the API server has refused the agent's credentials for so long that only new ones help, which are read
/// when an agent starts.
pub async fn run<D: Disk, H: Host>(
    runtime: AgentRuntime<D>,
    client: AgentClient,
    host: &H,
    options: Options,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ClusterError> {
    let mut stop = std::pin::pin!(stop);
    let mut driver = Driver::new(runtime, client, host, options);
    tokio::select! {
        () = &mut stop => return Ok(()),
        () = driver.start() => {}
    }
    let mut seen = std::pin::pin!(driver.client.follow());
    let ended = loop {
        let timer = driver.timer();
        tokio::select! {
            // First, so that a command that is ended together with the agent is not taken for one that failed.
            biased;
            () = &mut stop => break Ok(()),
            Some(answer) = driver.under_way.next() => driver.answered(answer),
            // Never ends.
            Some(told) = seen.next() => match told {
                Ok(wanted) => driver.take(Event::Seen(wanted.map(Box::new))),
                Err(error) => break Err(error),
            },
            () = timer => driver.take(Event::Tick),
        }
    };
    driver.end().await;
    ended
}

/// Brings the node to what is assigned now, sees it through its trial, and ends. For a node that is looked after by
/// something that runs now and then. Gives up when `limit` is over; what was begun then, the next run goes on with.
///
/// # Errors
/// When the node's NodeConfig cannot be read within `patience`. What was under way by then has been gone on with.
pub async fn once<D: Disk, H: Host>(
    runtime: AgentRuntime<D>,
    client: AgentClient,
    host: &H,
    options: Options,
    patience: Duration,
    limit: Duration,
) -> Result<Pass, ClusterError> {
    let mut driver = Driver::new(runtime, client, host, options);
    let deadline = nodecfg_clock::instant() + driver.options.pace.real_duration(limit);
    driver.start().await;
    let wanted = driver.client.node_config(patience).await;
    let mut absent = false;
    match &wanted {
        Ok(wanted) => {
            absent = wanted.is_none();
            driver.take(Event::Seen(wanted.clone().map(Box::new)));
        }
        Err(error) => tracing::warn!("{error}; going on with what was assigned before"),
    }
    while !driver.is_idle(wanted.is_ok()) {
        let timer = driver.timer();
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => break,
            Some(answer) = driver.under_way.next() => driver.answered(answer),
            () = timer => driver.take(Event::Tick),
        }
    }
    let pass = if driver.is_idle(wanted.is_ok()) { driver.pass(absent) } else { Pass::Unfinished };
    driver.end().await;
    wanted.map(|_| pass)
}

/// What came of something that was handed out.
enum Answer {
    /// A download, and what was found out beside it.
    Fetched(Result<Download, FetchError>, Option<NodeHealth>, Option<KubeletVersion>),
    /// A restart of the kubelet.
    Restarted(Result<(), RestartError>),
    /// A report, or a look at the kubelet.
    Event(Event),
    /// Nobody waits for it.
    Nothing,
}

struct Driver<'a, D, H> {
    runtime: AgentRuntime<D>,
    client: AgentClient,
    host: &'a H,
    options: Options,
    under_way: FuturesUnordered<BoxFuture<'a, Answer>>,
    wake: Option<Timestamp>,
    /// Whether the kubelet is being restarted.
    restarting: bool,
    /// Whether the last report did not arrive.
    untold: bool,
}

impl<'a, D: Disk, H: Host> Driver<'a, D, H> {
    fn new(runtime: AgentRuntime<D>, client: AgentClient, host: &'a H, options: Options) -> Self {
        let under_way = FuturesUnordered::new();
        Self { runtime, client, host, options, under_way, wake: None, restarting: false, untold: false }
    }

    async fn start(&mut self) {
        let kubelet = version(self.host, &self.client).await;
        tracing::info!(
            node = %self.client.node_name(),
            kubelet = kubelet.map(|version| version.to_string()),
            "the agent starts"
        );
        let outcome = self.runtime.start(kubelet, self.options.pace.now());
        self.carry_out(outcome);
    }

    fn take(&mut self, event: Event) {
        let outcome = self.runtime.take(event, self.options.pace.now());
        self.carry_out(outcome);
    }

    fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Fetched(result, node, kubelet) => {
                let outcome = self.runtime.fetched(result, node, kubelet, self.options.pace.now());
                self.carry_out(outcome);
            }
            Answer::Restarted(result) => {
                self.restarting = false;
                self.take(Event::Activated(result.map_err(|error| match error {
                    // The kubelet still runs what it ran, and what was to come is not to blame.
                    RestartError::NotAsked(reason) => ActivationError::NotAsked(reason),
                    RestartError::Failed(reason) => ActivationError::NotRestarted(reason),
                })));
            }
            Answer::Event(event) => {
                if let Event::Reported(result) = &event {
                    self.untold = result.is_err();
                }
                self.take(event);
            }
            Answer::Nothing => {}
        }
    }

    fn carry_out(&mut self, step: Step) {
        self.wake = step.wake;
        self.options.metrics.show(self.runtime.ledger(), self.runtime.state().error().is_some());
        for effect in step.effects {
            let answer = self.answer(effect);
            self.under_way.push(answer);
        }
    }

    /// What is to be done, as a future that gives its answer.
    fn answer(&mut self, effect: Effect) -> BoxFuture<'a, Answer> {
        let (host, client) = (self.host, self.client.clone());
        match effect {
            Effect::Fetch(source) => Box::pin(fetch(host, client, source)),
            Effect::Activate { remove, .. } => {
                self.restarting = true;
                Box::pin(async move {
                    let files: Vec<&str> = remove.iter().map(|file| file.as_str()).collect();
                    tracing::info!(remove = files.join(","), "restarting the kubelet");
                    let result = host.restart(&remove).await;
                    match &result {
                        Ok(()) => tracing::info!("the kubelet was restarted"),
                        Err(reason) => tracing::error!("the kubelet was not restarted: {reason}"),
                    }
                    Answer::Restarted(result)
                })
            }
            Effect::Probe { node } => {
                let healthz = self.runtime.healthz();
                Box::pin(async move {
                    let kubelet = host.healthz(&healthz).await;
                    let node = if node && kubelet.is_ok() { client.node_health().await } else { None };
                    tracing::debug!(
                        healthy = kubelet.is_ok(),
                        ready = node.map(|node| node.ready),
                        "looked at the kubelet"
                    );
                    Answer::Event(Event::Probed(Health { kubelet, node }))
                })
            }
            Effect::Report(status) => {
                let status = self.as_seen_outside(*status);
                Box::pin(async move {
                    let result = client.report(&status).await.map_err(|error| error.to_string());
                    match &result {
                        Ok(()) => tracing::debug!("the status was written"),
                        Err(error) => tracing::warn!("the status was not written: {error}"),
                    }
                    Answer::Event(Event::Reported(result))
                })
            }
            Effect::Announce(announcement) => {
                let Announcement { reason, message, warning } = &announcement;
                if *warning {
                    tracing::warn!(reason, "{message}");
                } else {
                    tracing::info!(reason, "{message}");
                }
                let at = self.options.pace.outside(self.options.pace.now());
                Box::pin(async move {
                    client.announce(&announcement, at).await;
                    Answer::Nothing
                })
            }
        }
    }

    /// A status with the moment that clocks outside show: at another pace the agent's own would be one to come.
    fn as_seen_outside(&self, mut status: NodeConfigStatus) -> NodeConfigStatus {
        if let Some(agent) = &mut status.agent
            && let Ok(heard) = agent.heard_at.parse::<Timestamp>()
        {
            agent.heard_at = format!("{:.0}", self.options.pace.outside(heard));
        }
        status
    }

    /// Completes when the runtime wants to be woken.
    fn timer(&self) -> impl Future<Output = ()> + Send + use<D, H> {
        let wait = self.wake.map(|moment| self.options.pace.until(moment).max(SHORTEST_WAIT));
        async move {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Whether nothing is under way, as far as the agent can tell. An API server that is away need not hear of it.
    fn is_idle(&self, can_tell: bool) -> bool {
        let settled = self.runtime.ledger().beyond.phase == Phase::Settled;
        self.under_way.is_empty() && settled && !(self.untold && can_tell)
    }

    fn pass(&self, absent: bool) -> Pass {
        let message = self.runtime.ledger().beyond.failure.as_ref().map(|failure| failure.message.clone());
        match self.runtime.state().error() {
            Some(error) => Pass::Failed { error, message },
            None if absent => Pass::NoNodeConfig,
            None => Pass::Settled,
        }
    }

    /// Waits for a restart that has begun, and remembers that it was done. One that failed now is no judgement: whatever ends
    /// the agent may have ended its commands as well. It is done again with the next start.
    async fn end(mut self) {
        while self.restarting
            && let Some(answer) = self.under_way.next().await
        {
            match answer {
                // What follows from it is for the next start too.
                Answer::Restarted(Ok(())) => self.answered(answer),
                Answer::Restarted(Err(_)) => break,
                _ => {}
            }
        }
        tracing::info!("the agent ends");
    }
}

/// The version of the kubelet: as its binary says, else as its Node does.
async fn version<H: Host>(host: &H, client: &AgentClient) -> Option<KubeletVersion> {
    match host.version().await {
        Some(version) => Some(version),
        None => client.node().await?.kubelet_version,
    }
}

async fn fetch<H: Host>(host: &H, client: AgentClient, source: ConfigMapSource) -> Answer {
    let (result, node, kubelet) =
        tokio::join!(client.config_map(&source), client.node_health(), version(host, &client));
    let name = format!("{}/{}", source.namespace, source.name);
    match &result {
        Ok(_) => tracing::debug!(configmap = name, "downloaded"),
        Err(error) => tracing::warn!(configmap = name, "not downloaded: {}", reason(error)),
    }
    Answer::Fetched(result, node, kubelet)
}

fn reason(error: &FetchError) -> &str {
    match error {
        FetchError::Missing(text)
        | FetchError::Forbidden(text)
        | FetchError::Unreachable(text)
        | FetchError::HashDiffers(text) => text,
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
