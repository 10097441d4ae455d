//! `nodecfg sync`: the reconciler.

use std::path::PathBuf;

use super::against::side;
use super::cluster_args::{BindingArgs, ClusterArgs, label_keys};
use super::observe::{Allowances, warn};
use super::plan_file::{self, Fixed, LoadedPlan};
use super::reconcile::{PaceArgs, Reconciliation};
use super::reports::ReportArgs;
use super::repository_args::RepositoryArgs;
use super::run::{self, Purpose};
use super::sandbox::SandboxArgs;
use super::telemetry::MetricsArgs;
use super::{CommandResult, Terminal, diff};
use crate::report::Format;

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
    #[command(flatten)]
    pace: PaceArgs,
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

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    if !args.dry_run {
        run::require_stream_format(format)?;
        run::create_reports(&args.reports)?;
    } else {
        diff::create_reports(&args.reports)?;
    }
    let reviewed = args.plan.as_deref().map(LoadedPlan::read).transpose()?;
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
    let reconciliation = Reconciliation {
        purpose: Purpose::Sync,
        loaded: &loaded,
        side: side(&args.repository, &loaded),
        scene: &scene,
        reader: &reader,
        meeting: meeting.as_ref(),
        options,
        pause: None,
        pace: &args.pace,
        reports: &args.reports,
        format,
        verbose,
    };
    let exit =
        if args.dry_run { reconciliation.preview(terminal).await? } else { reconciliation.carry_out(terminal).await? };
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
}
