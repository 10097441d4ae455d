//! Driver of the agent: carries out the runtime's effects and returns the results. One task, one watch, and one timer
//! while the runtime requests it; the agent of a settled node mostly waits.
//!
//! Must not make decisions. A started restart of the kubelet is always awaited, because the ledger depends on its
//! result.

use std::iter;
use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::{RoundMode, Timestamp, TimestampRound, Unit};

use super::disk::Disk;
use super::events::{Announcement, Download, Effect, Event, FetchError, NodeHealth, Step};
use super::host::preflight::Unmet;
use super::host::problem::{HealthzError, RestartProblem};
use super::host::process::{KubeletProcess, ProcessProblem};
use super::host::{Host, RestartError, ServiceReport, StateFiles};
use super::ledger::Phase;
use super::metrics::Metrics;
use super::runtime::AgentRuntime;
use crate::api::AgentClient;
use kubelet_config::startup_error::LastError;
use kubelet_config::verdict::{HostCondition, HostNeed};
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::ClusterError;
use nodecfg_contract::nodeconfig::NodeConfigStatus;
use nodecfg_contract::{ConfigMapSource, KubeletVersion};

/// Shortest wait, so that a wake time in the past does not cause an endless loop.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Wait before a host is asked again whether it lacks something.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// Wait before the kubelet's process is looked up again after its restart.
const LOOK_FOR_RESTART: Duration = Duration::from_secs(1);
/// Number of such looks after which it counts as not restarted.
const LOOKS_FOR_RESTART: u32 = 10;

/// Options of the driver.
#[derive(Debug, Clone)]
pub struct Options {
    /// Clock of the agent.
    pub clock: ScaledClock,
    /// Metrics to update.
    pub metrics: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: ScaledClock::real(), metrics: Metrics::default() }
    }
}

/// Result of `once`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass {
    /// The kubelet runs the assignment, which passed its trial or needed none.
    Settled,
    /// The node has no NodeConfig that applies; it keeps its configuration.
    NoNodeConfig,
    /// There is no Node of this name.
    NoNode,
    /// The assignment was not accepted, failed, or cannot be activated.
    Failed {
        /// Value of `status.config.error`.
        error: String,
        /// Reason in full, if known.
        message: Option<String>,
    },
    /// The time limit ended before the trial or the final report.
    Unfinished,
}

/// Runs the agent until `stop` completes. A started restart is always finished.
///
/// # Errors
/// `Unauthorized`: the API server has refused the agent's credentials for so long that only new ones help. A new
/// agent process reads them.
pub async fn run<D: Disk, H: Host>(
    runtime: AgentRuntime<D>,
    client: AgentClient,
    host: &H,
    options: Options,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ClusterError> {
    let mut stop = pin!(stop);
    let mut driver = Driver::new(runtime, client, host, options);
    tokio::select! {
        () = &mut stop => return Ok(()),
        () = driver.start() => {}
    }
    driver.warn_without_node();
    let mut seen = pin!(driver.client.follow());
    let ended = loop {
        let timer = driver.timer();
        tokio::select! {
            // Checked first: a command that was ended together with the agent must not count as failed.
            biased;
            () = &mut stop => break Ok(()),
            Some(answer) = driver.under_way.next() => driver.handle_result(answer),
            // Never ends.
            Some(update) = seen.next() => match update {
                Ok(wanted) => driver.handle(Event::NodeConfigRead(wanted.map(Box::new))),
                Err(error) => break Err(error),
            },
            () = timer => driver.handle(Event::Tick),
        }
    };
    driver.end().await;
    ended
}

/// Applies the current assignment, waits for the end of its trial, and returns. For nodes that run the agent
/// periodically. `timeout` limits reading the NodeConfig, `limit` the whole pass; the next pass continues unfinished
/// work.
///
/// # Errors
/// The node's NodeConfig could not be read within `timeout`. Work in progress was continued.
pub async fn once<D: Disk, H: Host>(
    runtime: AgentRuntime<D>,
    client: AgentClient,
    host: &H,
    options: Options,
    timeout: Duration,
    limit: Duration,
) -> Result<Pass, ClusterError> {
    let mut driver = Driver::new(runtime, client, host, options);
    let mut deadline = pin!(driver.options.clock.sleep(limit));
    driver.start().await;
    let wanted = driver.client.node_config(timeout).await;
    let mut absent = None;
    match &wanted {
        Ok(wanted) => {
            if wanted.is_none() {
                absent = Some(if driver.client.lacks_node().await { Pass::NoNode } else { Pass::NoNodeConfig });
            }
            driver.handle(Event::NodeConfigRead(wanted.clone().map(Box::new)));
        }
        Err(error) => tracing::warn!("{error}; continuing with the previous assignment"),
    }
    while !driver.is_idle(wanted.is_ok()) {
        let timer = driver.timer();
        tokio::select! {
            () = &mut deadline => break,
            Some(answer) = driver.under_way.next() => driver.handle_result(answer),
            () = timer => driver.handle(Event::Tick),
        }
    }
    let pass = if driver.is_idle(wanted.is_ok()) { driver.pass(absent) } else { Pass::Unfinished };
    driver.end().await;
    wanted.map(|_| pass)
}

/// Result of an effect.
enum EffectResult {
    /// Result of a download and the running kubelet, before the host was asked whether it meets the conditions.
    Fetched(FetchResult, Result<KubeletProcess, ProcessProblem>),
    /// Result of a download, and the conditions that the host does not meet.
    Preflighted(FetchResult, Vec<(HostCondition, Unmet)>),
    /// Restart of the kubelet, and its last error if that failed.
    Restarted(Result<(), RestartError>, Option<LastError>),
    /// Probe of the kubelet, the node, and the service manager.
    Probed(Result<(), HealthzError>, Option<NodeHealth>, ServiceReport<LastError>),
    /// Report that the command line of the kubelet completes.
    Observed(Box<NodeConfigStatus>, Result<KubeletProcess, ProcessProblem>),
    /// Command line of the kubelet, for a comparison.
    Process(Result<KubeletProcess, ProcessProblem>),
    /// Result of a report or a request.
    Event(Event),
    /// Effect without a result.
    Nothing,
}

/// Result of a download.
struct FetchResult {
    result: Result<Download, FetchError>,
    node: Option<NodeHealth>,
    kubelet: Option<KubeletVersion>,
}

struct Driver<'a, D, H> {
    runtime: AgentRuntime<D>,
    client: AgentClient,
    host: &'a H,
    options: Options,
    under_way: FuturesUnordered<BoxFuture<'a, EffectResult>>,
    wake: Option<Timestamp>,
    /// Whether the kubelet is being restarted.
    restarting: bool,
    /// Whether the last report failed.
    report_failed: bool,
}

impl<'a, D: Disk, H: Host> Driver<'a, D, H> {
    fn new(runtime: AgentRuntime<D>, client: AgentClient, host: &'a H, options: Options) -> Self {
        let under_way = FuturesUnordered::new();
        Self { runtime, client, host, options, under_way, wake: None, restarting: false, report_failed: false }
    }

    async fn start(&mut self) {
        let kubelet = kubelet_version(self.host, &self.client).await;
        tracing::info!(
            node = %self.client.node_name(),
            kubelet = kubelet.map(|version| version.to_string()),
            "the agent starts"
        );
        let outcome = self.runtime.start(kubelet, self.options.clock.now());
        self.carry_out(outcome);
    }

    /// Warns if there is no Node of this name. A node that boots may not have joined yet.
    fn warn_without_node(&mut self) {
        let client = self.client.clone();
        self.under_way.push(Box::pin(async move {
            if client.lacks_node().await {
                tracing::warn!(
                    "there is no Node {} yet: if the node has joined under another name, set --node-name",
                    client.node_name()
                );
            }
            EffectResult::Nothing
        }));
    }

    fn handle(&mut self, event: Event) {
        let outcome = self.runtime.handle(event, self.options.clock.now());
        self.carry_out(outcome);
    }

    fn handle_result(&mut self, answer: EffectResult) {
        match answer {
            EffectResult::Fetched(fetch, process) => {
                let conditions = self.runtime.host_conditions(&fetch.result, fetch.kubelet, process);
                let clock = self.options.clock.clone();
                self.under_way.push(Box::pin(preflight(self.host, clock, fetch, conditions)));
            }
            EffectResult::Preflighted(FetchResult { result, node, kubelet }, unmet) => {
                let outcome = self.runtime.handle_fetch(result, node, kubelet, &unmet, self.options.clock.now());
                self.carry_out(outcome);
            }
            EffectResult::Restarted(result, last_error) => {
                self.restarting = false;
                let outcome = self.runtime.handle_restart(result, last_error.as_ref(), self.options.clock.now());
                self.carry_out(outcome);
            }
            EffectResult::Probed(kubelet, node, service) => {
                let outcome = self.runtime.handle_probe(kubelet, node, &service, self.options.clock.now());
                self.carry_out(outcome);
            }
            EffectResult::Observed(status, process) => {
                let status = self.runtime.complete(*status, process, self.options.clock.now());
                let status = self.with_wall_clock_time(status);
                self.under_way.push(Box::pin(report(self.client.clone(), status)));
            }
            EffectResult::Process(process) => {
                if let Some(outcome) = self.runtime.compare_again(process, self.options.clock.now()) {
                    self.carry_out(outcome);
                }
            }
            EffectResult::Event(event) => {
                if let Event::Reported(result) = &event {
                    self.report_failed = result.is_err();
                }
                self.handle(event);
            }
            EffectResult::Nothing => {}
        }
    }

    fn carry_out(&mut self, step: Step) {
        self.wake = step.wake;
        self.options.metrics.update(self.runtime.ledger(), self.runtime.state().error().is_some());
        for effect in step.effects {
            let answer = self.run_effect(effect);
            self.under_way.push(answer);
        }
    }

    /// Returns a future that carries out an effect.
    fn run_effect(&mut self, effect: Effect) -> BoxFuture<'a, EffectResult> {
        let (host, client) = (self.host, self.client.clone());
        match effect {
            Effect::Fetch(source) => Box::pin(fetch(host, client, source)),
            Effect::Prove => Box::pin(async move { EffectResult::Process(host.process().await) }),
            // The runtime answers it.
            Effect::CompareLocal | Effect::CheckDisk => Box::pin(async { EffectResult::Nothing }),
            Effect::DiscardStateFiles => Box::pin(async move {
                if let Err(reason) = host.discard_state_files().await {
                    tracing::warn!("state files that were set aside remain: {reason}");
                }
                EffectResult::Nothing
            }),
            Effect::Activate { state, .. } => {
                self.restarting = true;
                let (clock, since) = (self.options.clock.clone(), self.options.clock.now());
                Box::pin(async move {
                    tracing::info!(state = %state, "restarting the kubelet");
                    let result = restart(host, &clock, &state).await;
                    match &result {
                        Ok(()) => tracing::info!("the kubelet was restarted"),
                        Err(reason) => tracing::error!("the kubelet was not restarted: {reason}"),
                    }
                    let last_error = match &result {
                        Err(RestartError::Failed(_)) => host.service_report(since).await.last_error,
                        // Without a request, the kubelet still runs its previous configuration.
                        Ok(()) | Err(RestartError::NotRequested(_)) => None,
                    };
                    EffectResult::Restarted(result, last_error)
                })
            }
            Effect::Probe { node, since, errors_since } => {
                let healthz = self.runtime.healthz();
                Box::pin(async move {
                    let kubelet = host.healthz(&healthz).await;
                    let node = if node && kubelet.is_ok() { client.node_health().await } else { None };
                    let is_unhealthy = kubelet.is_err() || node.is_some_and(|node| !node.is_healthy_after(since));
                    let service =
                        if is_unhealthy { host.service_report(errors_since).await } else { ServiceReport::default() };
                    tracing::debug!(
                        healthy = kubelet.is_ok(),
                        ready = node.map(|node| node.ready),
                        "probed the kubelet"
                    );
                    EffectResult::Probed(kubelet, node, service)
                })
            }
            Effect::Report(status) => Box::pin(async move { EffectResult::Observed(status, host.process().await) }),
            Effect::Join(request) => {
                Box::pin(async move { EffectResult::Event(Event::Joined(Box::new(client.join(&request).await))) })
            }
            Effect::Announce(announcement) => {
                let Announcement { reason, message, warning } = &announcement;
                if *warning {
                    tracing::warn!(reason, "{message}");
                } else {
                    tracing::info!(reason, "{message}");
                }
                let at = self.options.clock.to_real_time(self.options.clock.now());
                Box::pin(async move {
                    client.announce(&announcement, at).await;
                    EffectResult::Nothing
                })
            }
        }
    }

    /// Converts the heartbeat and the end of the trial to wall-clock time. The agent's own clock may be simulated. The
    /// end is rounded up: a reader must not expect the result before.
    fn with_wall_clock_time(&self, mut status: NodeConfigStatus) -> NodeConfigStatus {
        let Some(agent) = &mut status.agent else { return status };
        let times = iter::once((&mut agent.heard_at, RoundMode::Trunc));
        for (time, mode) in times.chain(agent.trial_ends_at.as_mut().map(|time| (time, RoundMode::Ceil))) {
            let moment = time.parse::<Timestamp>().map(|moment| self.options.clock.to_real_time(moment));
            let rounding = TimestampRound::new().smallest(Unit::Second).mode(mode);
            if let Ok(moment) = moment.and_then(|moment| moment.round(rounding)) {
                *time = moment.to_string();
            }
        }
        status
    }

    /// Completes at the wake time of the runtime.
    fn timer(&self) -> impl Future<Output = ()> + Send + use<D, H> {
        let clock = &self.options.clock;
        let wait = self.wake.map(|moment| clock.sleep_until(moment.max(clock.now() + SHORTEST_WAIT)));
        async move {
            match wait {
                Some(wait) => wait.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Reports whether no work is left. A failed report counts as work only if the API server answered before.
    fn is_idle(&self, api_reachable: bool) -> bool {
        let settled = self.runtime.ledger().agent_state.phase == Phase::Settled;
        self.under_way.is_empty() && settled && !(self.report_failed && api_reachable)
    }

    /// The result. `absent`: that of a node without NodeConfig.
    fn pass(&self, absent: Option<Pass>) -> Pass {
        let message = self.runtime.ledger().agent_state.failure.as_ref().map(|failure| failure.message.clone());
        match self.runtime.state().error() {
            Some(error) => Pass::Failed { error, message },
            None => absent.unwrap_or(Pass::Settled),
        }
    }

    /// Waits for a started restart and records its success, or that it was not requested: then the last known good returns
    /// to the disk. A failure does not count, since the signal that ends the agent may also end its commands. The next start
    /// repeats the restart.
    async fn end(mut self) {
        while self.restarting
            && let Some(answer) = self.under_way.next().await
        {
            match answer {
                // The next start handles the consequences.
                EffectResult::Restarted(Ok(()) | Err(RestartError::NotRequested(_)), _) => self.handle_result(answer),
                EffectResult::Restarted(Err(_), _) => break,
                _ => {}
            }
        }
        tracing::info!("the agent ends");
    }
}

/// Version of the kubelet, from its binary or else from its Node.
async fn kubelet_version<H: Host>(host: &H, client: &AgentClient) -> Option<KubeletVersion> {
    match host.version().await {
        Some(version) => Some(version),
        None => client.node().await?.kubelet_version,
    }
}

/// Restarts the kubelet. A command that ends without an error, and leaves the process of before, has restarted nothing: the
/// trial of that kubelet would prove a configuration that none has read.
async fn restart<H: Host>(host: &H, clock: &ScaledClock, state: &StateFiles) -> Result<(), RestartError> {
    let before = host.process().await;
    host.restart(state).await?;
    let Ok(before) = before else { return Ok(()) };
    for _ in 0..LOOKS_FOR_RESTART {
        if host.process().await.map(|process| process.pid) != Ok(before.pid) {
            return Ok(());
        }
        // A service manager may only have accepted the request.
        clock.sleep(LOOK_FOR_RESTART).await;
    }
    Err(RestartError::Failed(RestartProblem::SameProcess(before.pid).into()))
}

async fn fetch<H: Host>(host: &H, client: AgentClient, source: ConfigMapSource) -> EffectResult {
    let (result, node, kubelet, process) =
        tokio::join!(client.config_map(&source), client.node_health(), kubelet_version(host, &client), host.process());
    let name = format!("{}/{}", source.namespace, source.name);
    match &result {
        Ok(_) => tracing::debug!(configmap = name, "downloaded"),
        Err(error) => tracing::warn!(configmap = name, "not downloaded: {}", fetch_error_text(error)),
    }
    EffectResult::Fetched(FetchResult { result, node, kubelet }, process)
}

/// Asks the host whether it meets the conditions of a download, which all have a need. What it lacks, it must lack twice:
/// another program may be replacing a file or restarting.
async fn preflight<H: Host>(
    host: &H,
    clock: ScaledClock,
    fetch: FetchResult,
    conditions: Vec<HostCondition>,
) -> EffectResult {
    let needs: Vec<HostNeed> = conditions.iter().filter_map(|condition| condition.need.clone()).collect();
    let mut answers = if needs.is_empty() { Vec::new() } else { host.unmet(&needs).await };
    if answers.iter().any(Option::is_some) {
        clock.sleep(SECOND_LOOK).await;
        let again = host.unmet(&needs).await;
        answers = answers.into_iter().zip(again).map(|(first, again)| first.and(again)).collect();
    }
    let unmet =
        conditions.into_iter().zip(answers).filter_map(|(condition, unmet)| Some((condition, unmet?))).collect();
    EffectResult::Preflighted(fetch, unmet)
}

async fn report(client: AgentClient, status: NodeConfigStatus) -> EffectResult {
    let result = client.report(&status).await.map_err(|error| error.to_string());
    match &result {
        Ok(()) => tracing::debug!("the status was written"),
        Err(error) => tracing::warn!("the status was not written: {error}"),
    }
    EffectResult::Event(Event::Reported(result))
}

fn fetch_error_text(error: &FetchError) -> &str {
    match error {
        FetchError::Missing(text)
        | FetchError::Forbidden(text)
        | FetchError::Unreachable(text)
        | FetchError::OtherContent(text) => text,
        FetchError::NeedsDrain(refusal) => &refusal.message,
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
