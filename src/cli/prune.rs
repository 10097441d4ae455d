//! `nodecfg prune`: deletes ConfigMaps that nothing refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::watch;

use super::cluster_args::{BindingArgs, ClusterArgs};
use super::confirm::ConfirmArgs;
use super::fleet_args::FleetArgs;
use super::observe::warn;
use super::reconcile::LockArgs;
use super::repository_args::RepositoryArgs;
use super::unknown::unknown;
use super::{CommandError, CommandResult, Exit, Terminal, run};
use crate::report::pruning::{self, Pruning};
use crate::report::{self, Format, count, progress};
use nodecfg_cluster::lease::HeldLock;
use nodecfg_cluster::{ClusterError, ClusterReader, ClusterWriter, LabelKeys};
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_contract::observed::{Deletion, ManagedConfigMap};
use nodecfg_planning::desired::Desired;
use nodecfg_planning::plan::{KEEP, PruneOptions, PrunePlan, check_prune, prune};

/// How many ConfigMaps are deleted at a time.
const AT_A_TIME: usize = 8;

/// Delete the ConfigMaps of a fleet that nothing refers to any more.
///
/// Kept are those that the spec or the status of any Node or NodeConfig names (assigned, active, last known good), the newest of
/// each pool, and whatever is not clearly this fleet's. Asks before it deletes; what somebody changes meanwhile stays. Needs no
/// repository: what a repository asks for and no node is on may go, and a later sync makes it again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Keep what HEAD of this repository asks for, too, however old it is.
    #[arg(value_name = "REPO")]
    repo: Option<PathBuf>,
    /// How many ConfigMaps of each pool to keep, the newest, whether something refers to them or not.
    #[arg(long, value_name = "N", default_value_t = KEEP, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Only those of this pool. May be given several times.
    #[arg(long, value_name = "POOL")]
    pool: Vec<PoolName>,
    /// Show what would be deleted, and delete nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg prune --dry-run     what would be deleted, and why the rest is kept (-v)
  nodecfg prune --keep 10     the newest ten of each pool stay
  nodecfg prune .             and what the repository asks for stays, too
  nodecfg prune --yes         without being asked, as in a job";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    if !args.dry_run {
        args.confirm.possible()?;
    }
    let desired = match &args.repo {
        Some(path) => {
            let loaded = RepositoryArgs::of(path).load(terminal).await?;
            warn(&loaded, verbose, terminal)?;
            Some(loaded.desired)
        }
        None => None,
    };
    let reader = args.cluster.reader(LabelKeys::Only(BTreeSet::new())).await?;
    let reader = args.binding.bind(reader).await?;
    let (fleet, namespace) = args.fleet.find(&args.cluster, &reader).await?;
    let wanted = desired.map(|desired| wanted(&desired, &fleet)).transpose()?.unwrap_or_default();
    if matches!(format, Format::Text | Format::Markdown) {
        writeln!(terminal.aside(), "fleet {fleet} {}\n", progress::place(Some(&namespace), reader.server()))?;
    }
    let keep = usize::try_from(args.keep).unwrap_or(usize::MAX);
    let options = PruneOptions { fleet, namespace, keep, wanted, pools: args.pool.iter().cloned().collect() };
    let seen = look(&reader, &options).await?;
    args.know_pools(&seen.maps, &options)?;
    let shown = Pruning::of(&seen.plan, args.dry_run, options.fleet.clone(), options.namespace.clone(), keep);
    if args.dry_run || seen.plan.delete.is_empty() {
        write(&shown, format, verbose, terminal)?;
        return Ok(Exit::Done);
    }
    if matches!(format, Format::Text) {
        write(&shown, format, verbose, terminal)?;
    }
    let number = count(seen.plan.delete.len(), "ConfigMap");
    if !args.confirm.ask(&format!("Delete {number} of fleet {}?", options.fleet), terminal).await? {
        return Ok(Exit::Failed);
    }
    let mut stop = run::hold_signals("stopping: nothing more is deleted");
    let lock = tokio::select! {
        lock = args.lock.take(&reader, &options.namespace, &options.fleet) => lock?,
        Ok(_) = stop.wait_for(|stopped| *stopped) => return Err(CommandError::Interrupted),
    };
    let (ends, result) = delete(&reader, &lock, &seen.plan, &options, &stop).await;
    lock.release().await;
    let cut_short = *stop.borrow() && ends.len() < seen.plan.delete.len();
    let done = shown.done(&ends);
    if matches!(format, Format::Text) {
        writeln!(terminal.out)?;
    }
    // What was done before something failed is told all the same, unless the failure takes the place of the document.
    if result.is_ok() || matches!(format, Format::Text | Format::Markdown) {
        write(&done, format, verbose, terminal)?;
    }
    result.map(|()| if cut_short { Exit::NotConverged } else { Exit::Done })
}

impl Args {
    /// A pool that has no ConfigMaps is a typing error, or has been pruned; either way there is nothing to do that was asked for.
    fn know_pools(&self, maps: &[ManagedConfigMap], options: &PruneOptions) -> Result<(), CommandError> {
        let ours = maps.iter().filter(|map| map.fleet.as_ref() == Some(&options.fleet));
        let known: BTreeSet<&PoolName> = ours.filter_map(|map| map.pool.as_ref()).collect();
        let Some(pool) = self.pool.iter().find(|pool| !known.contains(pool)) else { return Ok(()) };
        let place = format!("among the ConfigMaps of fleet {}", options.fleet);
        let known = known.into_iter().map(PoolName::as_str);
        Err(unknown("pool", pool.as_str(), &place, known, "leave --pool out to prune those of all pools"))
    }
}

/// What a repository asks for: the names of the ConfigMaps of its pools.
fn wanted(desired: &Desired, fleet: &FleetName) -> Result<BTreeSet<String>, CommandError> {
    if desired.fleet != *fleet {
        return Err(CommandError::usage(
            format!("the repository is of fleet {}, and the ConfigMaps are of fleet {fleet}", desired.fleet),
            format!("name the repository of {fleet}, or the fleet with --fleet"),
        ));
    }
    Ok(desired.config_maps())
}

/// What there is, and what of it can go.
struct Seen {
    maps: Vec<ManagedConfigMap>,
    plan: PrunePlan,
}

/// Looks at the cluster: at ConfigMaps first, so that what comes to be referred to meanwhile is seen.
async fn look(reader: &ClusterReader, options: &PruneOptions) -> Result<Seen, CommandError> {
    let maps = reader.list_config_maps(options.namespace.as_str()).await?;
    let references = reader.references().await?;
    let plan = prune(&maps, &references, options);
    let violations = check_prune(&plan, &maps, &references, options);
    if violations.is_empty() { Ok(Seen { maps, plan }) } else { Err(CommandError::Violations(violations)) }
}

/// Deletes what was shown and, looked at again under the lock, can still go. Stops at the first error, and when told to.
async fn delete(
    reader: &ClusterReader,
    lock: &HeldLock,
    shown: &PrunePlan,
    options: &PruneOptions,
    stop: &watch::Receiver<bool>,
) -> (BTreeMap<String, Deletion>, Result<(), CommandError>) {
    let mut ends = BTreeMap::new();
    let seen = match look(reader, options).await {
        Ok(seen) => seen,
        Err(failure) => return (ends, Err(failure)),
    };
    let (doomed, changed): (Vec<_>, Vec<_>) =
        shown.delete.iter().partition(|map| seen.plan.delete.iter().any(|still| still == *map));
    for map in changed {
        let there = seen.maps.iter().any(|other| other.name == map.name);
        ends.insert(map.name.clone(), if there { Deletion::Changed } else { Deletion::Gone });
    }
    let writer = ClusterWriter::new(reader.clone(), lock);
    let one = |map: &ManagedConfigMap| {
        let (writer, map) = (writer.clone(), map.clone());
        async move { writer.delete_config_map(&map).await.map(|end| (map.name, end)) }
    };
    let mut deletions =
        stream::iter(doomed.into_iter().take_while(|_| !*stop.borrow()).map(one)).buffer_unordered(AT_A_TIME);
    let result: Result<(), ClusterError> = async {
        while let Some((name, end)) = deletions.try_next().await? {
            ends.insert(name, end);
        }
        Ok(())
    }
    .await;
    (ends, result.map_err(CommandError::from))
}

fn write(pruning: &Pruning, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<(), CommandError> {
    match format {
        Format::Text => pruning::text(&mut terminal.out, pruning, verbose > 0)?,
        Format::Markdown => pruning::markdown(&mut terminal.out, pruning)?,
        Format::Json => report::json(&mut terminal.out, &pruning::document(pruning)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &pruning::document(pruning)?)?,
    }
    Ok(())
}
