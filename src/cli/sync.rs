//! `nodecfg sync`: the reconciler.

use std::time::Duration;

use tokio::sync::watch;
use tracing::Instrument as _;

use super::against::side;
use super::cluster_args::{BindingArgs, ClusterArgs, label_keys, parse_duration};
use super::observe::{Allowances, Planned, plan, warn, warn_of_plan};
use super::repository_args::{Loaded, RepositoryArgs};
use super::run::{self, Audience, Purpose};
use super::sandbox::SandboxArgs;
use super::telemetry::MetricsArgs;
use super::{Exit, Failure, Terminal, diff};
use crate::cluster::lease::{self, HeldLock, LockOptions};
use crate::cluster::{ClusterReader, ClusterWriter};
use crate::plan::Options;
use crate::report::Format;
use crate::review::of_plan;
use crate::rollout::execute::{Rollout, Stop, execute};
use crate::rollout::machine::Mode;
use crate::telemetry::spans;

/// Make the cluster match the repository, a few nodes at a time.
///
/// Creates the ConfigMaps that are missing, points each node at its own within the budget of its pool (rollout.maxUnavailable),
/// and waits until the node proves that it runs it. Changes nothing when a pool's change does more to running pods than the pool
/// allows (rollout.allowDisruption). Stops when nodes fail. Ctrl-C lets the nodes in flight finish; run it again
/// to go on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    allowances: Allowances,
    /// Show the plan and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Point nodes that fail back at what they had before.
    #[arg(long)]
    rollback_on_failure: bool,
    /// How long to wait for another sync of the same fleet to end.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    lock_timeout: Duration,
    /// How many requests to send at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg sync examples/repo-layout --sandbox  try it, without a cluster
  nodecfg sync --dry-run                       the plan alone
  nodecfg sync --rev v1.4.0                    roll out, or back to, a revision
  nodecfg sync -o json                         one JSON object per line, for a pipeline";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<Exit, Failure> {
    if !args.dry_run {
        run::require_stream_format(format)?;
    }
    let loaded = args.repository.load(terminal).await?;
    warn(&loaded, verbose, terminal)?;
    let keys = label_keys(&loaded.desired);
    let sandbox = args.sandbox.fitted(&loaded, terminal).await?;
    let reader = match &sandbox {
        Some(sandbox) => args.cluster.reader_over(sandbox.client(), sandbox.in_process_server(), keys),
        None => args.cluster.reader(keys).await?,
    };
    let reader = args.binding.bind(reader).await?;
    let server = if sandbox.is_some() { "an embedded sandbox cluster" } else { reader.server() };
    let namespace = args.cluster.namespace(&loaded.desired, &reader)?;
    run::open(&run::scene(&loaded, &namespace, server), format, !args.dry_run, terminal)?;
    let options = args.allowances.options(namespace, args.repository.gate());
    let exit = if args.dry_run {
        let planned = plan(&loaded, &reader, options).await?;
        terminal.record.planned(&planned.plan);
        warn_of_plan(&planned.plan, &loaded, format, verbose, terminal)?;
        let review = of_plan(side(&args.repository, &loaded), &planned.plan);
        diff::write(&review, format, None, verbose, terminal)?;
        // What the plan says already; here is no more to say than how this would end.
        if planned.plan.refusals().is_empty() { Exit::Done } else { Exit::InvalidRepository }
    } else {
        let mut stop = run::stop_on_signals(terminal.foot.clone());
        let lock = run::unless_stopped(&mut stop, args.lock(&loaded, &reader, &options)).await?;
        let result = args.reconcile(&loaded, &reader, &lock, options, stop, format, verbose, terminal).await;
        lock.release().await;
        result?
    };
    if let Some(sandbox) = sandbox {
        sandbox.stop(None).await;
    }
    Ok(exit)
}

impl Args {
    /// What monitoring calls the command: a dry run proves nothing of nodes.
    pub(super) fn name(&self) -> &'static str {
        if self.dry_run { "dry-run" } else { "sync" }
    }

    async fn lock(&self, loaded: &Loaded, reader: &ClusterReader, options: &Options) -> Result<HeldLock, Failure> {
        let host =
            hostname::get().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".to_owned());
        let identity = lease::identity(&host, std::process::id(), fastrand::u64(..));
        let lock = LockOptions {
            timeout: self.lock_timeout,
            ..LockOptions::new(options.namespace.as_str(), loaded.desired.fleet.clone(), identity)
        };
        Ok(lease::acquire(reader, lock).instrument(spans::stage("lock")).await?)
    }

    #[expect(clippy::too_many_arguments, reason = "each is one thing that a run needs, and none belongs to another")]
    async fn reconcile(
        &self,
        loaded: &Loaded,
        reader: &ClusterReader,
        lock: &HeldLock,
        options: Options,
        mut stop: watch::Receiver<Stop>,
        format: Format,
        verbose: u8,
        terminal: &mut Terminal,
    ) -> Result<Exit, Failure> {
        let planning = plan(loaded, reader, options);
        let Planned { plan, observed, options } = run::unless_stopped(&mut stop, planning).await?;
        terminal.record.planned(&plan);
        let refusals = plan.refusals();
        if !refusals.is_empty() {
            return Err(Failure::Problems { problems: refusals, snapshot: Box::new(loaded.snapshot.clone()) });
        }
        if plan.has_changes() {
            warn_of_plan(&plan, loaded, format, verbose, terminal)?;
        }
        let review = of_plan(side(&self.repository, loaded), &plan);
        let mut audience = Audience::gather(&plan, &review, Purpose::Sync, format, verbose, terminal)?;
        let rollout = Rollout {
            plan: &plan,
            desired: &loaded.desired,
            observed: &observed,
            options: &options,
            mode: Mode {
                assign: true,
                rollback_on_failure: self.rollback_on_failure,
                concurrency: usize::from(self.concurrency),
                timeout: None,
            },
        };
        let writer = ClusterWriter::new(reader.clone(), lock);
        let mut listen = |now, progress: &_| audience.tell(now, progress);
        let execution = execute(rollout, reader, &writer, lock.lost(), stop, &mut listen).await?;
        audience.dismiss(&execution, terminal)
    }
}
