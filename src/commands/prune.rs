//! `nodecfg prune`: deletes unused ConfigMaps.

use std::io;

use super::{CommandResult, Terminal};
use crate::arguments::repository::{RepositoryArgs, optional};
use crate::report::pruning::Pruning;
use crate::report::{Format, pruning};
use crate::runs::emit::Shown;
use crate::runs::fleet_change::FleetChangeArgs;
use crate::runs::prune::Prune;
use crate::runs::write_review::layout;
use nodecfg_contract::names::PoolName;
use nodecfg_plan::KEEP;

/// Delete ConfigMaps of a fleet that no node uses.
///
/// Keeps the newest ConfigMaps of each pool, and those named in the spec or status of any Node or NodeConfig (assigned,
/// active, last known good). ConfigMaps that change during the command, or that may belong to others, are kept too.
/// A later sync creates deleted ConfigMaps again if the repository needs them. Asks for confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("dry_run", |dry_run| dry_run.help(
    "Print what would be deleted, and delete nothing (client, the default of --dry-run); none turns it off"
)))]
#[command(mut_arg("repository", |repository| optional(
    repository, "Also keep the ConfigMaps that this repository needs"
)))]
pub(super) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Keep the newest N ConfigMaps of each pool, even if unused.
    #[arg(long, value_name = "N", default_value_t = KEEP, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Prune only this pool. May be repeated.
    #[arg(long, value_name = "POOL")]
    pool: Vec<PoolName>,
    #[command(flatten)]
    change: FleetChangeArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg prune --dry-run     print what would be deleted; -v adds why the rest is kept
  nodecfg prune --keep 10     keep the newest ten of each pool
  nodecfg prune .             also keep what the repository needs
  nodecfg prune --yes         skip the confirmation, as in a job";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let (location, desired) = args.change.locate(&args.repository, format, terminal).await?;
    let dry_run = args.change.dry_run.is_requested();
    let prune = Prune::prepare(&location, desired, args.keep, &args.pool, dry_run).await?;
    let print = |prune: &Prune, terminal: &mut Terminal| write(&prune.report, format, verbose, terminal);
    args.change.carry_out(prune, &location, print, format, terminal).await
}

fn write(pruning: &Pruning, format: Format, verbose: u8, terminal: &mut Terminal) -> io::Result<()> {
    let shown = Shown {
        printed: layout(terminal.out_line, verbose > 0),
        ..Shown::of(pruning, pruning::report(pruning), terminal)
    };
    shown.write(&mut terminal.out, format)
}
