//! `nodecfg release`: removes the marks of drains from nodes.

use std::io;

use super::{CommandError, CommandResult, Terminal};
use crate::arguments::repository::{RepositoryArgs, optional};
use crate::report::release::Release;
use crate::report::{Format, release};
use crate::runs::drain_marks::MarkRemoval;
use crate::runs::emit::Shown;
use crate::runs::fleet_change::FleetChangeArgs;
use nodecfg_contract::names::NodeName;

/// Remove the marks of drains from nodes.
///
/// Removes the taint and the annotations that a drain added, so that pods are scheduled on the nodes again. Cordons,
/// other taints and changed annotations stay. A sync releases its nodes itself: use this if no sync will follow. The
/// next sync marks a node again if its change still needs a drain, unless its pool is paused (nodecfg pause). Asks for
/// confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("dry_run", |dry_run| dry_run.help(
    "Print what would be released, and change nothing (client, the default of --dry-run); none turns it off"
)))]
#[command(mut_arg("repository", |repository| optional(
    repository, "Read the fleet and its namespace from this repository"
).long("repo").display_order(1).conflicts_with("fleet")))]
pub(super) struct Args {
    /// Release these nodes.
    #[arg(value_name = "NODE", conflicts_with = "all")]
    nodes: Vec<NodeName>,
    /// Release all nodes with a mark of the fleet.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    change: FleetChangeArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg release --all --dry-run   print the nodes with a mark of the fleet
  nodecfg release gpu-7             release one node, after a confirmation
  nodecfg release --all --yes       release every node, without a confirmation";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    if args.nodes.is_empty() && !args.all {
        return Err(CommandError::usage("no nodes are selected", "name the nodes to release, or pass --all"));
    }
    let (location, _) = args.change.locate(&args.repository, format, terminal).await?;
    let removal = MarkRemoval::prepare(&location, &args.nodes, args.change.dry_run.is_requested()).await?;
    let print = |removal: &MarkRemoval, terminal: &mut Terminal| write(&removal.report, format, terminal);
    args.change.carry_out(removal, &location, print, format, terminal).await
}

fn write(shown: &Release, format: Format, terminal: &mut Terminal) -> io::Result<()> {
    Shown::of(shown, release::report(shown), terminal).write(&mut terminal.out, format)
}
