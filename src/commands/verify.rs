//! `nodecfg verify`: waits until every node runs the configuration in the repository, and writes nothing.

use std::time::Duration;

use super::{CommandError, CommandResult, Terminal};
use crate::arguments::cluster::{BoundClusterArgs, label_keys, parse_duration, parse_timeout};
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::rollout::TrialArgs;
use crate::arguments::scope::ScopeArgs;
use crate::arguments::telemetry::MetricsArgs;
use crate::report::Format;
use crate::review::of_plan;
use crate::rollout::{Rollout, execute};
use crate::runs::comparison::side;
use crate::runs::drain_forecast::with_drained_pods;
use crate::runs::kubelet_samples::KubeletArgs;
use crate::runs::planning::{Allowances, Planned, plan, warn};
use crate::runs::run;
use crate::runs::run::{Purpose, Reporter, RunSubject};
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::{ClusterReader, lock};
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_plan::Options;
use nodecfg_rollout::machine::Mode;

/// Time in which the watch delivers what a sync wrote before it released its lock. A sync writes the assignments long
/// before its end.
const WATCH_DELAY: Duration = Duration::from_secs(5);

/// Wait until every node reports that it runs the configuration in the repository.
///
/// Changes nothing. Exits with code 5 if a node fails or does not converge in time, and at once if it is not assigned
/// and no sync runs. A node converges before the trial of its configuration ends, unless --wait-trial is given. Exits with
/// code 4 if another client changed the configuration that new nodes start with (spec.poolPointers).
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    /// Accept a repository without pools, and pools without nodes.
    #[arg(long)]
    allow_empty: bool,
    /// Wait this long, instead of the convergenceTimeout of each pool; 0 sets no limit.
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    timeout: Option<Duration>,
    /// Accept nodes that joined less than this ago and never had their pool's configuration. Without this option, they are
    /// waited for like all others.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    new_nodes_within: Option<Duration>,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    trial: TrialArgs,
    #[command(flatten)]
    kubelets: KubeletArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
}

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    run::create_reports(&args.reports)?;
    let loaded = args.repository.load(terminal).await?;
    loaded.record(terminal);
    let reader = args.bound.reader(args.scope.label_keys(label_keys(&loaded.desired))).await?;
    let namespace = args.bound.cluster.namespace(&loaded.desired, &reader)?;
    let header = run::header(&loaded, &namespace, reader.server());
    run::print_header(&header, format, Some(&args.reports), terminal)?;
    let mut stop = run::stop_on_signals(terminal.status_area.clone());
    let allowances = Allowances { take_over: false, allow_empty: args.allow_empty };
    let resolving = args.scope.resolve(&loaded.desired, &reader, &namespace);
    let scope = run::until_stopped(&mut stop, resolving).await?;
    // Before the nodes are read: they then have what an ended sync wrote.
    let was_free = is_free(&reader, &namespace, &loaded.desired.fleet).await;
    let no_sync = no_sync(&reader, namespace.clone(), &loaded.desired.fleet, was_free);
    let options = Options { scope, ..allowances.options(namespace, args.repository.gate()) };
    let planning = plan(&loaded, &reader, None, options, KubeletArgs::NEVER);
    let planned = run::until_stopped(&mut stop, planning).await?;
    let Planned { plan, observed, options } = &planned;
    terminal.record.planned(plan, observed);
    // New nodes start with what the pointers contain, which no watch of nodes shows.
    let problems = plan.changed_pointers();
    if !problems.is_empty() {
        return Err(CommandError::Problems { problems, snapshot: Box::new(loaded.snapshot.clone()) });
    }
    warn(plan, &loaded, format, verbose, terminal)?;
    let review = of_plan(side(&args.repository, &loaded), &loaded.desired, plan, nodecfg_clock::now());
    // Only reports have the details of a plan.
    let is_reported = args.reports.contains(Format::Html) || args.reports.contains(Format::Markdown);
    let review = if is_reported { with_drained_pods(review, plan, &reader).await } else { review };
    let mode = Mode {
        assign: false,
        timeout: args.timeout,
        concurrency: 1,
        wait_trial: args.trial.wait_trial,
        new_nodes_within: args.new_nodes_within,
        ..Mode::ASSIGN
    };
    let subject = RunSubject { purpose: Purpose::Verify, header: &header, plan, review, mode };
    let mut reporter = Reporter::start(subject, format, &args.reports, verbose, terminal)?;
    let rollout = Rollout {
        clock: &ScaledClock::real(),
        plan,
        desired: &loaded.desired,
        observed,
        options,
        mode,
        gates: None,
        allowed: None,
        ignored_windows: None,
    };
    let mut listen = |now, event: &_| reporter.event(now, event);
    let mut execution = execute::verify(rollout, &reader, no_sync, stop.clone(), &mut listen).await;
    args.kubelets.witness(&mut execution.outcome, &loaded.desired, observed, &reader, stop).await;
    Ok(reporter.finish(&execution, terminal))
}

/// Reports whether no client holds the lock of the fleet.
async fn is_free(reader: &ClusterReader, namespace: &NamespaceName, fleet: &FleetName) -> bool {
    let lease = lock::read(reader, namespace.as_str(), fleet).await;
    lease.is_ok_and(|lease| lease.is_none_or(|lease| lease.holder().is_none()))
}

/// Waits until no sync of the fleet runs. Never ends if that is unknown. `was_free`: none ran before the nodes were read.
async fn no_sync(reader: &ClusterReader, namespace: NamespaceName, fleet: &FleetName, was_free: bool) {
    if was_free && is_free(reader, &namespace, fleet).await {
        return;
    }
    match lock::wait_until_free(reader, namespace.as_str(), fleet).await {
        Ok(()) => tokio::time::sleep(WATCH_DELAY).await,
        Err(error) => {
            tracing::info!("whether a sync runs is unknown: {error}");
            std::future::pending().await
        }
    }
}

impl Args {
    /// Name of the command in metrics. A limited run has its own name, because it does not check all nodes.
    pub(super) fn name(&self) -> &'static str {
        if self.scope.is_limited() { "verify-limited" } else { "verify" }
    }
}
