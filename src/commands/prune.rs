//! `nodecfg prune`: deletes unused ConfigMaps.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::watch;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::dry_run::DryRunArgs;
use crate::arguments::fleet::FleetArgs;
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::unknown_name::unknown_name;
use crate::report;
use crate::report::pruning::Pruning;
use crate::report::{Format, count, progress, pruning};
use crate::runs::reconcile::LockArgs;
use crate::runs::run;
use crate::terminal::confirm::ConfirmArgs;
use nodecfg_cluster::lock::HeldLock;
use nodecfg_cluster::reading::observe::read_contents;
use nodecfg_cluster::{ClusterError, ClusterReader, ClusterWriter, LabelKeys};
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_fleet::Desired;
use nodecfg_observed::{ConfigMapKey, Deletion, ManagedConfigMap, Observed};
use nodecfg_plan::{KEEP, PruneOptions, PrunePlan, check_prune, prune};

/// Number of concurrent deletions.
const CONCURRENCY: usize = 8;

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
#[command(mut_arg("repository", |repository| repository.help(
    "Also keep the ConfigMaps that this repository needs: a folder in a git repository, or an address on a git server"
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
    dry_run: DryRunArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg prune --dry-run     print what would be deleted; -v adds why the rest is kept
  nodecfg prune --keep 10     keep the newest ten of each pool
  nodecfg prune .             also keep what the repository needs
  nodecfg prune --yes         skip the confirmation, as in a job";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    if !args.dry_run.is_requested() {
        args.confirm.require_terminal()?;
    }
    let desired = args.repository.load_named(terminal).await?.map(|loaded| loaded.desired);
    let reader = args.bound.reader(LabelKeys::Only(BTreeSet::new())).await?;
    let (fleet, namespace) = match &desired {
        // As diff and sync do, so that all of them agree on what is unused.
        Some(desired) if args.fleet.named().is_none() => {
            (desired.fleet.clone(), args.bound.cluster.namespace(desired, &reader)?)
        }
        _ => args.fleet.find(&args.bound.cluster, &reader).await?,
    };
    let wanted = desired.map(|desired| wanted(&desired, &fleet)).transpose()?.unwrap_or_default();
    if matches!(format, Format::Text | Format::Markdown) {
        writeln!(terminal.info(), "fleet {fleet} {}\n", progress::place(Some(&namespace), reader.server()))?;
    }
    let keep = usize::try_from(args.keep).unwrap_or(usize::MAX);
    let options = PruneOptions { fleet, namespace, keep, wanted, pools: args.pool.iter().cloned().collect() };
    let candidates = read_candidates(&reader, &options).await?;
    args.require_known_pools(&candidates.maps, &options)?;
    let shown = Pruning::of(
        &candidates.plan,
        args.dry_run.is_requested(),
        options.fleet.clone(),
        options.namespace.clone(),
        keep,
    );
    if args.dry_run.is_requested() || candidates.plan.delete.is_empty() {
        write(&shown, format, verbose, terminal)?;
        return Ok(Exit::Done);
    }
    if matches!(format, Format::Text) {
        write(&shown, format, verbose, terminal)?;
    }
    let number = count(candidates.plan.delete.len(), "ConfigMap");
    if !args.confirm.ask(&format!("Delete {number} of fleet {}?", options.fleet), terminal).await? {
        return Ok(Exit::Failed);
    }
    let mut stop = run::defer_signals("stopping: no further ConfigMap is deleted");
    let lock = tokio::select! {
        lock = args.lock.take(&reader, &options.namespace, &options.fleet) => lock?,
        Ok(_) = stop.wait_for(|stopped| *stopped) => return Err(CommandError::Interrupted),
    };
    let (results, result) = delete(&reader, &lock, &candidates.plan, &options, &stop).await;
    lock.release().await;
    let cut_short = *stop.borrow() && results.len() < candidates.plan.delete.len();
    let done = shown.done(&results);
    // Deletions before a failure are printed too, unless the failure replaces the document.
    let printed = match format {
        Format::Text => writeln!(terminal.out).and_then(|()| write(&done, format, verbose, terminal)),
        _ if result.is_ok() || format == Format::Markdown => write(&done, format, verbose, terminal),
        _ => Ok(()),
    };
    let exit = terminal.end(if cut_short { Exit::NotConverged } else { Exit::Done }, printed, &[]);
    result.map(|()| exit)
}

impl Args {
    /// Rejects a pool without ConfigMaps: probably a typing error.
    fn require_known_pools(&self, maps: &[ManagedConfigMap], options: &PruneOptions) -> Result<(), CommandError> {
        let ours = maps.iter().filter(|map| map.fleet.as_ref() == Some(&options.fleet));
        let known: BTreeSet<&PoolName> = ours.filter_map(|map| map.pool.as_ref()).collect();
        let Some(pool) = self.pool.iter().find(|pool| !known.contains(pool)) else { return Ok(()) };
        let place = format!("among the ConfigMaps of fleet {}", options.fleet);
        let known = known.into_iter().map(PoolName::as_str);
        Err(unknown_name("pool", pool.as_str(), &place, known, "omit --pool to prune all pools"))
    }
}

/// Names of the ConfigMaps that the repository needs.
fn wanted(desired: &Desired, fleet: &FleetName) -> Result<BTreeSet<String>, CommandError> {
    if desired.fleet != *fleet {
        return Err(CommandError::usage(
            format!("the repository belongs to fleet {}, the ConfigMaps to fleet {fleet}", desired.fleet),
            format!("name the repository of fleet {fleet}"),
        ));
    }
    Ok(desired.config_maps())
}

/// ConfigMaps in the cluster, and the plan to delete some.
struct Candidates {
    maps: Vec<ManagedConfigMap>,
    plan: PrunePlan,
}

/// Lists ConfigMaps before references, so that new references to a listed ConfigMap are seen. Reads the pool pointers, too:
/// another client may have changed their contents, which new nodes get, without the annotations in the list.
async fn read_candidates(reader: &ClusterReader, options: &PruneOptions) -> Result<Candidates, CommandError> {
    let namespace = options.namespace.as_str();
    let maps = reader.list_config_maps(namespace).await?;
    let mut references = reader.references().await?;
    let ours = maps.iter().filter(|map| map.is_pointer() && map.fleet.as_ref() == Some(&options.fleet));
    let keys = ours.map(|map| ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() });
    let mut pointers = Observed::default();
    read_contents(reader, namespace, keys, &mut pointers).await?;
    pointers.contents.values().flatten().for_each(|pointer| references.add_pointer(pointer));
    let plan = prune(&maps, &references, options);
    let violations = check_prune(&plan, &maps, &references, options);
    if violations.is_empty() { Ok(Candidates { maps, plan }) } else { Err(CommandError::Violations(violations)) }
}

/// Deletes the ConfigMaps that were shown and are still unused under the lock. Stops at the first error or signal.
async fn delete(
    reader: &ClusterReader,
    lock: &HeldLock,
    shown: &PrunePlan,
    options: &PruneOptions,
    stop: &watch::Receiver<bool>,
) -> (BTreeMap<String, Deletion>, Result<(), CommandError>) {
    let mut results = BTreeMap::new();
    let candidates = match read_candidates(reader, options).await {
        Ok(candidates) => candidates,
        Err(failure) => return (results, Err(failure)),
    };
    let (unused, changed): (Vec<_>, Vec<_>) =
        shown.delete.iter().partition(|map| candidates.plan.delete.iter().any(|still| still == *map));
    for map in changed {
        let exists = candidates.maps.iter().any(|other| other.name == map.name);
        results.insert(map.name.clone(), if exists { Deletion::Changed } else { Deletion::Gone });
    }
    let writer = ClusterWriter::new(reader.clone(), lock);
    let one = |map: &ManagedConfigMap| {
        let (writer, map) = (writer.clone(), map.clone());
        async move { writer.delete_config_map(&map).await.map(|end| (map.name, end)) }
    };
    let mut deletions =
        stream::iter(unused.into_iter().take_while(|_| !*stop.borrow()).map(one)).buffer_unordered(CONCURRENCY);
    let result: Result<(), ClusterError> = async {
        while let Some((name, end)) = deletions.try_next().await? {
            results.insert(name, end);
        }
        Ok(())
    }
    .await;
    (results, result.map_err(CommandError::from))
}

fn write(pruning: &Pruning, format: Format, verbose: u8, terminal: &mut Terminal) -> io::Result<()> {
    match format {
        Format::Text => pruning::text(&mut terminal.out, pruning, verbose > 0, terminal.out_line),
        Format::Markdown => pruning::markdown(&mut terminal.out, pruning),
        Format::Json => report::json(&mut terminal.out, &pruning::document(pruning)?),
        Format::Yaml => report::yaml(&mut terminal.out, &pruning::document(pruning)?),
    }
}
