//! `nodecfg history`: lists the revisions of a pool, and the nodes on each.

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::repository::RepositoryArgs;
use crate::report::Format;
use crate::report::history as shown;
use crate::report::history::History;
use crate::runs::emit::Shown;
use crate::runs::pool_history::PoolHistory;
use crate::status::Paused;
use nodecfg_contract::names::PoolName;

/// Show the revisions of a pool's configuration, and the number of nodes on each.
///
/// Lists commits along first parents that changed the configuration of the pool, newest first, with their ConfigMaps.
/// Invalid revisions are marked. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("worktree", |worktree| worktree.hide(true)))]
pub(super) struct Args {
    /// Show this pool.
    #[arg(value_name = "POOL")]
    pool: PoolName,
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    /// Show at most N revisions.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// List revisions without reading a cluster.
    #[arg(long)]
    no_cluster: bool,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg history gpu                list the revisions and their nodes
  nodecfg history gpu --no-cluster   list the revisions only
  nodecfg rollback gpu --dry-run     show what a rollback to the previous revision would do";

pub(super) async fn run(args: &Args, output: Format, terminal: &mut Terminal) -> CommandResult {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut found = PoolHistory::read(&args.repository, &args.pool, limit, terminal).await?;
    let Some(desired) = found.draft.desired.take() else {
        return Err(CommandError::Invalid { findings: found.draft.errors, snapshot: Box::new(found.snapshot) });
    };
    let (whereabouts, paused) = match args.no_cluster {
        true => (None, Paused::of(desired.paused, None)),
        false => {
            let (found, paused) = found.whereabouts(&args.repository, &args.pool, &desired, &args.bound).await?;
            (Some(found), paused)
        }
    };
    let PoolHistory { revisions, end, .. } = found;
    let note = shown::note(end);
    let history = History {
        fleet: desired.fleet,
        paused,
        pool: args.pool.clone(),
        revisions,
        whole: note.is_none(),
        note,
        whereabouts,
    };
    let report = shown::report(&history);
    Ok(Shown::of(history, report, terminal).print(output, Exit::Done, terminal))
}
