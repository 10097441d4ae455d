//! `nodecfg rollback`: rolls a pool back to an earlier revision.

use std::collections::BTreeSet;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::dry_run::DryRunArgs;
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::rollout::{DisruptionArgs, RolloutArgs, TrialArgs, parse_reason};
use crate::report::Format;
use crate::report::progress::RunHeader;
use crate::runs::kubelet_samples::KubeletArgs;
use crate::runs::planning::Allowances;
use crate::runs::reconcile::Reconciliation;
use crate::runs::rollback_target::{RollbackHead, RollbackTarget};
use crate::runs::run;
use crate::runs::run::Purpose;
use crate::runs::write_review;
use kubelet_config::risk::Class;
use nodecfg_clock::ScaledClock;
use nodecfg_contract::names::PoolName;
use nodecfg_observed::{AllowedDisruption, Pause};
use nodecfg_plan::{Options, Scope};

/// Roll a pool back to the configuration of an earlier revision.
///
/// Runs a sync of this pool only, with the same checks, budget and lock. Takes the configuration from the earlier
/// revision, and the selector and policy from HEAD. Pauses the pool first, so that the next sync of HEAD keeps the
/// result. Revert the change in git, then run `nodecfg resume POOL`. Does not ask for confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Roll back this pool.
    #[arg(value_name = "POOL")]
    pool: PoolName,
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    /// Roll back to this revision, instead of the newest earlier one with another configuration that nodes have run. See
    /// `nodecfg history POOL`.
    #[arg(long, value_name = "REV")]
    to: Option<String>,
    /// Do not pause the pool, so that the next sync applies HEAD again.
    #[arg(long)]
    no_pause: bool,
    /// Record this reason for the pause, and for --allow-disruption and --ignore-windows, which require it.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    #[command(flatten)]
    disruption: DisruptionArgs,
    /// Also move nodes that point at ConfigMaps not managed by this fleet.
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    trial: TrialArgs,
    #[command(flatten)]
    rollout_args: RolloutArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg rollback gpu --dry-run     show the plan of a rollback to the previous revision
  nodecfg rollback gpu --to v1.4.0   roll back to this revision
  nodecfg rollback gpu --allow-disruption drain --reason 'incident 4711'
  nodecfg resume gpu                 resume rollouts after the change is reverted in git";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let allowed_class = args.allowed_class()?;
    if args.dry_run.is_requested() {
        write_review::create_reports(&args.reports)?;
    } else {
        run::require_stream_format(format)?;
        run::create_reports(&args.reports)?;
    }
    let head = RollbackHead::read(&args.repository, &args.pool, terminal).await?;
    let named = match &args.to {
        Some(revision) => Some(head.target(revision, args.disruption, terminal).await?),
        None => None,
    };
    let location = args.bound.locate(&head.desired, head.label_keys()).await?;
    let RollbackTarget { mut loaded, unchanged } = match named {
        Some(target) => target,
        None => {
            let revision = head.previous_revision(&location, terminal).await?;
            head.target(&revision, args.disruption, terminal).await?
        }
    };
    let revision = loaded.arguments.rev().unwrap_or_default();
    let text = format.is_for_people();
    if unchanged && text {
        let message =
            format!("Nothing to roll back: pool {} has the same configuration\nat {revision} as now.", args.pool);
        writeln!(terminal.info(), "{message}")?;
        if args.reports.is_empty() {
            return Ok(Exit::Done);
        }
    }
    head.complete(&mut loaded, &location, terminal).await?;
    let ignored_windows = args.reason.clone().filter(|_| args.rollout_args.ignore_windows);
    let header = RunHeader { ignored_windows, ..run::header(&loaded, &location.namespace, location.reader.server()) };
    run::print_header(&header, format, (!args.dry_run.is_requested()).then_some(&args.reports), terminal)?;
    let allowances = Allowances { take_over: args.take_over, allow_empty: false };
    let options = Options {
        // With an unchanged configuration nothing is changed, but the same documents and reports are written.
        scope: if unchanged { Scope::Nodes(BTreeSet::new()) } else { Scope::Pools([args.pool.clone()].into()) },
        despite_pause: [args.pool.clone()].into(),
        ..allowances.options(location.namespace.clone(), args.repository.gate())
    };
    let by = if args.dry_run.is_requested() || args.no_pause { String::new() } else { location.requester().await? };
    let at = nodecfg_clock::now();
    let short = loaded.desired.commit.as_ref().map_or(revision.as_str(), |commit| commit.short());
    let reason = args.reason.clone().unwrap_or_else(|| format!("rolled back to {short}"));
    let allowed = allowed_class.map(|class| AllowedDisruption { class, by: by.clone(), at, reason: reason.clone() });
    let pause = Pause { by, at, reason, whole_fleet: false, allowed };
    let reconciliation = Reconciliation {
        purpose: Purpose::RollBack,
        loaded: &loaded,
        header: &header,
        location: &location,
        saved_plan: None,
        options,
        pause: (!args.no_pause && !unchanged).then(|| (args.pool.clone(), pause)),
        kubelets: KubeletArgs::NEVER,
        rollout_args: &args.rollout_args,
        wait_trial: args.trial.wait_trial,
        speed: 1.0,
        clock: ScaledClock::real(),
        // For incidents: a gate must not delay the way back.
        gates: None,
        reports: &args.reports,
        format,
        verbose,
    };
    let is_dry_run = args.dry_run.is_requested();
    let exit = match is_dry_run {
        true => reconciliation.preview(terminal).await?,
        false => reconciliation.apply_plan(terminal).await?,
    };
    if text && !unchanged {
        let pool = &args.pool;
        match (is_dry_run, args.no_pause) {
            (true, true) => {}
            (true, false) => terminal.advise(format_args!("\nPool {pool} would be paused as well.")),
            (false, true) => terminal
                .advise(format_args!("\nThe next sync applies HEAD to pool {pool} again: revert the change in git.")),
            (false, false) => terminal.advise(format_args!(
                "\nPool {pool} is paused, so that no sync undoes the rollback.\n\
                 Revert the change in git, then run: nodecfg resume {pool}"
            )),
        }
    }
    Ok(exit)
}

impl Args {
    /// The class of --allow-disruption, which requires a reason.
    fn allowed_class(&self) -> Result<Option<Class>, CommandError> {
        if self.no_pause && self.reason.is_some() && !self.rollout_args.ignore_windows {
            return Err(CommandError::usage(
                "--reason is recorded with the pause, which --no-pause omits",
                "omit --reason or --no-pause",
            ));
        }
        match (self.disruption.allow_disruption, &self.reason) {
            (Some(class), None) => Err(CommandError::usage(
                "--allow-disruption requires a reason, which is recorded",
                format!("run `nodecfg rollback {} --allow-disruption {class} --reason TEXT`", self.pool),
            )),
            (class, _) => Ok(class),
        }
    }
}
