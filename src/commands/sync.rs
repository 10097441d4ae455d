//! `nodecfg sync`: makes the cluster match the repository.

use std::path::PathBuf;

use super::sandbox::{Embedded, SANDBOX_EXAMPLE, START_CONFIGURATION, SandboxArgs};
use super::{CommandResult, Terminal};
use crate::arguments::cluster::{BoundClusterArgs, label_keys};
use crate::arguments::dry_run::DryRunArgs;
use crate::arguments::fleet::FleetLocation;
use crate::arguments::gates::RolloutGateArgs;
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::rollout::{ReasonArgs, RolloutArgs, TrialArgs};
use crate::arguments::scope::ScopeArgs;
use crate::arguments::telemetry::MetricsArgs;
use crate::report::Format;
use crate::report::progress::RunHeader;
use crate::runs::kubelet_samples::KubeletArgs;
use crate::runs::plan_file::PlanFile;
use crate::runs::planning::Allowances;
use crate::runs::reconcile::Reconciliation;
use crate::runs::run::Purpose;
use crate::runs::{plan_file, run, write_review};
use nodecfg_clock::ScaledClock;
use nodecfg_plan::Options;

/// Make the cluster match the repository, a few nodes at a time.
///
/// Creates missing ConfigMaps, assigns them to nodes within the budget of each pool (rollout.maxUnavailable), and
/// waits until each node reports that it runs its configuration. Changes nothing if a change disrupts pods more than
/// its pool allows (rollout.allowDisruption). Stops when nodes fail. Ctrl-C lets nodes in transition finish; run sync
/// again to continue.
#[derive(Debug, clap::Args)]
#[command(after_help = examples())]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    allowances: Allowances,
    /// Apply exactly the plan that `nodecfg diff --out FILE` saved, or fail. Exit with code 7 if anything changed. Repeat
    /// its --take-over, --allow-empty, --lenient, --namespace and --binding.
    #[arg(long, value_name = "FILE", value_parser = plan_file::parse_path)]
    #[arg(conflicts_with_all = ["sandbox", "pool", "selector"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    trial: TrialArgs,
    #[command(flatten)]
    kubelets: KubeletArgs,
    #[command(flatten)]
    rollout_args: RolloutArgs,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    gates: RolloutGateArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg sync --dry-run                       show the plan
  nodecfg sync --ignore-windows --reason TEXT  start nodes outside of the windows of their pools
  nodecfg sync --plan plan.json                apply a plan saved by `nodecfg diff --out plan.json`
  nodecfg sync -o json                         print one JSON object per line, for a pipeline";

fn examples() -> String {
    EXAMPLES.replacen("Examples:\n", &format!("Examples:\n{SANDBOX_EXAMPLE}"), 1)
}

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    if !args.dry_run.is_requested() {
        run::require_stream_format(format)?;
        run::create_reports(&args.reports)?;
    } else {
        write_review::create_reports(&args.reports)?;
    }
    let given = plan_file::given(args.allowances, &args.repository, &args.bound);
    let plan_file = args.plan.as_deref().map(|path| PlanFile::read(path, given)).transpose()?;
    let Args { repository, allowances, bound: BoundClusterArgs { cluster, binding }, .. } = args;
    let loaded = repository.load(terminal).await?;
    loaded.record(terminal);
    let keys = args.scope.label_keys(label_keys(&loaded.desired));
    let sandbox = args.sandbox.start(&loaded, terminal).await?;
    let reader = match &sandbox {
        Some(sandbox) => cluster.reader_over(sandbox.client(), sandbox.in_process_server(), keys),
        None => cluster.reader(keys).await?,
    };
    let saved_plan = match plan_file {
        Some(file) => Some(file.check(&reader, &loaded).await?),
        None => None,
    };
    let reader = binding.bind(reader).await?;
    let server = if sandbox.is_some() { args.sandbox.server() } else { reader.server().to_owned() };
    let namespace = cluster.namespace(&loaded.desired, &reader)?;
    let header = RunHeader { ignored_windows: args.reason.reason.clone(), ..run::header(&loaded, &namespace, &server) };
    if sandbox.is_some() && format.is_for_people() {
        writeln!(terminal.info(), "sandbox: {START_CONFIGURATION}")?;
    }
    run::print_header(&header, format, (!args.dry_run.is_requested()).then_some(&args.reports), terminal)?;
    let scope = args.scope.resolve(&loaded.desired, &reader, &namespace).await?;
    let options = Options { scope, ..allowances.options(namespace.clone(), repository.gate()) };
    if let Some(saved_plan) = &saved_plan {
        saved_plan.fail_if_stale(&loaded, &reader, &options).await?;
    }
    let gates = args.gates.options(reader.objects())?;
    let location = FleetLocation { reader, fleet: loaded.desired.fleet.clone(), namespace };
    let reconciliation = Reconciliation {
        purpose: Purpose::Sync,
        loaded: &loaded,
        header: &header,
        location: &location,
        saved_plan: saved_plan.as_ref(),
        options,
        pause: None,
        kubelets: args.kubelets,
        rollout_args: &args.rollout_args,
        wait_trial: args.trial.wait_trial,
        speed: args.sandbox.speed(),
        clock: sandbox.as_ref().map_or_else(ScaledClock::real, Embedded::limits_clock),
        gates: Some(gates),
        reports: &args.reports,
        format,
        verbose,
    };
    let exit = if args.dry_run.is_requested() {
        reconciliation.preview(terminal).await?
    } else {
        reconciliation.apply_plan(terminal).await?
    };
    if let Some(sandbox) = sandbox {
        sandbox.stop(None).await;
    }
    Ok(exit)
}

impl Args {
    /// Name of the command in metrics. A dry run has its own name, because it does not check nodes; so has a limited
    /// run, because it does not check all nodes.
    pub(super) fn name(&self) -> &'static str {
        match (self.dry_run.is_requested(), self.scope.is_limited()) {
            (true, _) => "dry-run",
            (false, true) => "sync-limited",
            (false, false) => "sync",
        }
    }
}
