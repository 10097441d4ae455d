//! `nodecfg reset`: returns nodes to their local configuration.

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::dry_run::DryRunArgs;
use crate::arguments::fleet::FleetArgs;
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::{RepositoryArgs, optional};
use crate::arguments::rollout::{ReasonArgs, RolloutArgs};
use crate::arguments::selector::parse_selector;
use crate::report::progress::RunHeader;
use crate::report::{Format, count, progress};
use crate::runs::kubelet_samples::KubeletArgs;
use crate::runs::planning::Allowances;
use crate::runs::reconcile::Reconciliation;
use crate::runs::reset_target::{ResetLimits, ResetTarget};
use crate::runs::run;
use crate::runs::run::Purpose;
use crate::terminal::confirm::ConfirmArgs;
use kubelet_config::finding::Strictness;
use nodecfg_clock::ScaledClock;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::{NodeSelection, Options, Scope};

/// Return nodes to their local configuration.
///
/// Removes the assignments of the nodes, within the budget of their pools, and waits until each node runs its local
/// configuration. Without --repo, a node belongs to the pool of its ConfigMap, and each pool resets one node at a
/// time. The next sync assigns the nodes again unless their pools are paused (nodecfg pause) or local in git
/// (spec.kubelet.local: true). Asks for confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("repository", |repository| optional(
    repository, "Read the pools and their budgets from this repository"
).long("repo").display_order(3).conflicts_with("fleet")))]
pub(super) struct Args {
    /// Reset these nodes.
    #[arg(value_name = "NODE")]
    nodes: Vec<NodeName>,
    /// Reset the nodes of this pool. May be repeated.
    #[arg(long, value_name = "POOL")]
    pool: Vec<PoolName>,
    /// Reset nodes that match this label selector, in the syntax of kubectl: `zone=a,!gpu`.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector)]
    selector: Option<LabelSelector>,
    /// Reset the nodes of all pools of the fleet.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    limits: ResetLimits,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    rollout_args: RolloutArgs,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg reset node-7 --dry-run      show the plan
  nodecfg reset --pool gpu            reset one node at a time, after a confirmation
  nodecfg reset --all --repo . --yes  use the budgets of the repository, without a confirmation";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let selection = args.selection()?;
    if !args.dry_run.is_requested() {
        run::require_stream_format(format)?;
        args.confirm.require_terminal()?;
    }
    let repository = args.repository.load_named(terminal).await?;
    let gate = repository.as_ref().map_or(Strictness::Lenient, |loaded| loaded.arguments.gate());
    let target = ResetTarget::read(repository, &args.fleet, args.selector.as_ref(), args.limits).await?;
    let ResetTarget { loaded, location, .. } = &target;
    let (namespace, server) = (&location.namespace, location.reader.server());
    let text = format.is_for_people();
    let header = RunHeader { ignored_windows: args.reason.reason.clone(), ..run::header(loaded, namespace, server) };
    if text {
        let place = progress::place(Some(namespace), server);
        writeln!(terminal.info(), "reset of fleet {} to local configuration {place}\n", loaded.desired.fleet)?;
    } else {
        run::print_header(&header, format, (!args.dry_run.is_requested()).then_some(&ReportArgs::default()), terminal)?;
    }
    let nodes = target.select(&selection)?;
    if text && !target.any_assigned(&nodes) {
        writeln!(
            terminal.info(),
            "Nothing to reset: the selected nodes run their local configuration,\n\
             or ConfigMaps not managed by this fleet."
        )?;
        return Ok(Exit::Done);
    }
    let options = Options {
        scope: Scope::Nodes(nodes),
        despite_pause: loaded.desired.pools.keys().cloned().collect(),
        ..Allowances { take_over: args.limits.take_over, allow_empty: true }.options(namespace.clone(), gate)
    };
    let reconciliation = Reconciliation {
        purpose: Purpose::Reset,
        loaded,
        header: &header,
        location,
        saved_plan: None,
        options,
        pause: None,
        kubelets: KubeletArgs::NEVER,
        rollout_args: &args.rollout_args,
        // The local configuration has no trial.
        wait_trial: false,
        speed: 1.0,
        clock: ScaledClock::real(),
        // For incidents: a gate must not delay the way back.
        gates: None,
        reports: &ReportArgs::default(),
        format,
        verbose,
    };
    if args.dry_run.is_requested() {
        return reconciliation.preview(terminal).await;
    }
    if !args.confirm.is_given() {
        let (plan, printed) = reconciliation.print_plan(text, terminal).await?;
        let number = plan.counts().assign;
        if number == 0 || printed != Exit::Done {
            return Ok(printed);
        }
        let question = format!("Reset {} to local configuration?", count(number, "node"));
        if !args.confirm.ask(&question, terminal).await? {
            return Ok(Exit::Failed);
        }
    }
    let exit = reconciliation.apply_plan(terminal).await?;
    if text {
        terminal.advise(format_args!(
            "\nThe next sync points these nodes back, unless their pools are paused\n\
             (`nodecfg pause POOL --reason TEXT`) or local in git (spec.kubelet.local: true)."
        ));
    }
    Ok(exit)
}

impl Args {
    fn selection(&self) -> Result<NodeSelection, CommandError> {
        let selection = NodeSelection {
            nodes: self.nodes.iter().cloned().collect(),
            pools: self.pool.iter().cloned().collect(),
            selector: self.selector.clone(),
            all: self.all,
        };
        if selection == NodeSelection::default() {
            return Err(CommandError::usage("no nodes are selected", "name the nodes to reset"));
        }
        Ok(selection)
    }
}
