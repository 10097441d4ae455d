//! `nodecfg history`: lists the revisions of a pool, and the nodes on each.

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::{BoundClusterArgs, label_keys_of};
use crate::arguments::fleet::FleetLocation;
use crate::arguments::output::Listing;
use crate::arguments::repository::RepositoryArgs;
use crate::history::{Subject, Whereabouts};
use crate::report;
use crate::report::history::History;
use crate::report::{Format, history as shown};
use crate::repository::history::known;
use crate::runs::pool_history::PoolHistory;
use nodecfg_cluster::reading::observe::{list, read_contents};
use nodecfg_contract::names::{CommitId, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_observed::ConfigMapKey;
use nodecfg_plan::PointerState;

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

pub(super) async fn run(args: &Args, listing: Listing, terminal: &mut Terminal) -> CommandResult {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let PoolHistory { mut revisions, end, draft, snapshot } =
        PoolHistory::read(&args.repository, &args.pool, limit, terminal).await?;
    let Some(desired) = draft.desired else {
        return Err(CommandError::Invalid { findings: draft.errors, snapshot: Box::new(snapshot) });
    };
    let here = Some(&desired).filter(|desired| desired.pools.contains_key(&args.pool));
    let mut whereabouts: Option<Whereabouts> = None;
    if !args.no_cluster {
        let FleetLocation { reader, fleet, namespace } = args.bound.locate(&desired, label_keys_of(here)).await?;
        let mut observed = list(&reader, Some(namespace.as_str())).await?;
        let name = PoolPointer::name(&fleet, &args.pool);
        let key = ConfigMapKey { namespace: namespace.to_string(), name: name.clone() };
        let pointer = (desired.pool_pointers || observed.pointers.contains_key(&key)).then_some(key);
        read_contents(&reader, namespace.as_str(), pointer, &mut observed).await?;
        if let PointerState::Changed(error) = PointerState::of(&fleet, &args.pool, &namespace, &observed) {
            tracing::warn!(
                "another client changed the pointer {namespace}/{name}, with which new nodes start: {error}"
            );
        }
        let commits = observed.config_maps.values().filter_map(|map| CommitId::new(map.commit.clone()?).ok());
        let known = known(&args.repository.history_options()?, commits)?;
        let subject = Subject { fleet: &fleet, pool: &args.pool, namespace: &namespace, desired: here };
        whereabouts = Some(subject.find(&mut revisions, &observed, &known));
    }
    let note = shown::note(end);
    let history =
        History { fleet: desired.fleet, pool: args.pool.clone(), revisions, whole: note.is_none(), note, whereabouts };
    match listing {
        Listing::Wide => shown::wide(&mut terminal.out, &history)?,
        Listing::Names => shown::names(&mut terminal.out, &history)?,
        Listing::Document(Format::Text) => shown::text(&mut terminal.out, &history, terminal.out_line)?,
        Listing::Document(Format::Markdown) => shown::markdown(&mut terminal.out, &history)?,
        Listing::Document(Format::Json) => report::json(&mut terminal.out, &shown::document(&history)?)?,
        Listing::Document(Format::Yaml) => report::yaml(&mut terminal.out, &shown::document(&history)?)?,
    }
    Ok(Exit::Done)
}
