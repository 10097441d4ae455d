//! `nodecfg sync`: the reconciler.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tracing::Instrument as _;

use super::against::side;
use super::cluster_args::{BindingArgs, ClusterArgs, label_keys, parse_duration};
use super::observe::{Allowances, Planned, plan, warn, warn_of_plan};
use super::plan_file::{self, Fixed, Meeting, Reviewed};
use super::reports::ReportArgs;
use super::repository_args::{Loaded, RepositoryArgs};
use super::run::{self, Audience, Purpose, Subject};
use super::sandbox::SandboxArgs;
use super::telemetry::MetricsArgs;
use super::{Exit, Failure, Terminal, diff};
use crate::cluster::lease::{self, HeldLock, LockOptions};
use crate::cluster::{ClusterReader, ClusterWriter};
use crate::plan::Options;
use crate::report::Format;
use crate::report::progress::Scene;
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
    pub(super) repository: RepositoryArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    allowances: Allowances,
    /// Carry out a plan that `nodecfg diff --out FILE` saved: exactly that, or nothing when anything has changed since (exit code 7).
    #[arg(long, value_name = "FILE", value_parser = plan_file::parse_path, conflicts_with = "sandbox")]
    plan: Option<PathBuf>,
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
  nodecfg sync --plan plan.json                exactly what was reviewed (nodecfg diff --out plan.json)
  nodecfg sync -o json                         one JSON object per line, for a pipeline";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<Exit, Failure> {
    if !args.dry_run {
        run::require_stream_format(format)?;
        run::create_reports(&args.reports)?;
    } else {
        diff::create_reports(&args.reports)?;
    }
    let reviewed = args.plan.as_deref().map(Reviewed::read).transpose()?;
    let Fixed { repository, allowances, cluster, binding } = match &reviewed {
        Some(reviewed) => reviewed.fix(args.given())?,
        None => args.given(),
    };
    let loaded = repository.load(terminal).await?;
    warn(&loaded, verbose, terminal)?;
    let keys = label_keys(&loaded.desired);
    let sandbox = args.sandbox.fitted(&loaded, terminal).await?;
    let reader = match &sandbox {
        Some(sandbox) => cluster.reader_over(sandbox.client(), sandbox.in_process_server(), keys),
        None => cluster.reader(keys).await?,
    };
    let meeting = match reviewed {
        Some(reviewed) => Some(reviewed.meet(&reader, &loaded).await?),
        None => None,
    };
    let reader = binding.bind(reader).await?;
    let server = if sandbox.is_some() { "an embedded sandbox cluster" } else { reader.server() };
    let namespace = cluster.namespace(&loaded.desired, &reader)?;
    let scene = run::scene(&loaded, &namespace, server);
    run::open(&scene, format, (!args.dry_run).then_some(&args.reports), terminal)?;
    let options = allowances.options(namespace, repository.gate());
    if let Some(meeting) = &meeting {
        meeting.in_time(&loaded, &reader, &options).await?;
    }
    let exit = if args.dry_run {
        let planned = plan(&loaded, &reader, None, options).await?;
        if let Some(meeting) = &meeting {
            meeting.hold(&planned, &reader)?;
        }
        terminal.record.planned(&planned.plan);
        warn_of_plan(&planned.plan, &loaded, format, verbose, terminal)?;
        let review = of_plan(side(&args.repository, &loaded), &loaded.desired, &planned.plan);
        diff::write(&review, format, None, &args.reports, verbose, terminal)?;
        // What the plan says already; here is no more to say than how this would end.
        if planned.plan.refusals().is_empty() { Exit::Done } else { Exit::InvalidRepository }
    } else {
        let mut stop = run::stop_on_signals(terminal.foot.clone());
        let lock = run::unless_stopped(&mut stop, args.lock(&loaded, &reader, &options)).await?;
        let result = args
            .reconcile(&loaded, &scene, &reader, &lock, meeting.as_ref(), options, stop, format, verbose, terminal)
            .await;
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

    /// The arguments that a saved plan could fix, as they were given.
    fn given(&self) -> Fixed {
        Fixed {
            repository: self.repository.clone(),
            allowances: self.allowances,
            cluster: self.cluster.clone(),
            binding: self.binding,
        }
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
        scene: &Scene,
        reader: &ClusterReader,
        lock: &HeldLock,
        meeting: Option<&Meeting>,
        options: Options,
        mut stop: watch::Receiver<Stop>,
        format: Format,
        verbose: u8,
        terminal: &mut Terminal,
    ) -> Result<Exit, Failure> {
        let planning = plan(loaded, reader, Some(lock), options);
        let planned = run::unless_stopped(&mut stop, planning).await?;
        if let Some(meeting) = meeting {
            meeting.hold(&planned, reader)?;
        }
        terminal.record.planned(&planned.plan);
        let Planned { plan, observed, options } = planned;
        let refusals = plan.refusals();
        if !refusals.is_empty() {
            return Err(Failure::Problems { problems: refusals, snapshot: Box::new(loaded.snapshot.clone()) });
        }
        if plan.has_changes() {
            warn_of_plan(&plan, loaded, format, verbose, terminal)?;
        }
        let review = of_plan(side(&self.repository, loaded), &loaded.desired, &plan);
        let subject = Subject { purpose: Purpose::Sync, scene, plan: &plan, review: &review };
        let mut audience = Audience::gather(subject, format, &self.reports, verbose, terminal)?;
        let rollout = Rollout {
            plan: &plan,
            desired: &loaded.desired,
            observed: &observed,
            options: &options,
            mode: Mode {
                assign: true,
                as_reviewed: meeting.is_some(),
                rollback_on_failure: self.rollback_on_failure,
                concurrency: usize::from(self.concurrency),
                timeout: None,
            },
        };
        let writer = ClusterWriter::new(reader.clone(), lock);
        let mut listen = |now, progress: &_| audience.tell(now, progress);
        let execution = execute(rollout, reader, &writer, lock.lost(), lock.orders(), stop, &mut listen).await?;
        audience.dismiss(&execution, terminal)
    }
}
