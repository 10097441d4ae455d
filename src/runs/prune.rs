//! Deletion of ConfigMaps of a fleet that no node uses.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::watch;

use crate::arguments::fleet::FleetLocation;
use crate::arguments::unknown_name::unknown_name;
use crate::report::count;
use crate::report::pruning::Pruning;
use crate::runs::fleet_change::FleetChange;
use crate::terminal::exit::Exit;
use crate::terminal::failure::CommandError;
use nodecfg_cluster::reading::observe::{list, read_contents};
use nodecfg_cluster::{ClusterReader, ClusterWriter};
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::Desired;
use nodecfg_observed::{ConfigMapKey, Deletion, ManagedConfigMap, Observed};
use nodecfg_plan::{PruneOptions, PrunePlan, check_prune, prune, wanted_config_maps};

/// Number of concurrent deletions.
const CONCURRENCY: usize = 8;

/// The plan of a prune, with its report.
pub(crate) struct Prune {
    options: PruneOptions,
    plan: PrunePlan,
    pub(crate) report: Pruning,
    /// Whether a signal came before the last deletion.
    is_cut_short: bool,
}

impl Prune {
    /// Reads the cluster. Keeps the newest ConfigMaps of each pool, and those that a repository needs. `pools`: only those
    /// of these pools are deleted, unless it is empty.
    ///
    /// # Errors
    /// A pool has no ConfigMaps, which is probably a typing error. Or a request fails.
    pub(crate) async fn prepare(
        location: &FleetLocation,
        desired: Option<Desired>,
        keep: u32,
        pools: &[PoolName],
        dry_run: bool,
    ) -> Result<Self, CommandError> {
        let (fleet, namespace) = (location.fleet.clone(), location.namespace.clone());
        let wanted = match desired {
            // What a pool needs follows from the sizes of its nodes.
            Some(desired) if desired.pools.values().any(|pool| pool.targets.sizes().is_some()) => {
                wanted_config_maps(&desired, &list(&location.reader, Some(namespace.as_str())).await?)
            }
            Some(desired) => wanted_config_maps(&desired, &Observed::default()),
            None => BTreeSet::new(),
        };
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let options = PruneOptions { fleet, namespace, keep, wanted, pools: pools.iter().cloned().collect() };
        let (maps, plan) = candidates(&location.reader, &options).await?;
        let known: BTreeSet<&PoolName> =
            maps.iter().filter(|map| location.owns(map)).filter_map(|map| map.pool.as_ref()).collect();
        if let Some(pool) = pools.iter().find(|pool| !known.contains(pool)) {
            let place = format!("among the ConfigMaps of fleet {}", options.fleet);
            return Err(unknown_name("pool", pool, &place, known, "omit --pool to prune all pools"));
        }
        let report = Pruning::of(&plan, dry_run, options.fleet.clone(), options.namespace.clone(), keep);
        Ok(Self { options, plan, report, is_cut_short: false })
    }

    /// Deletes the ConfigMaps of the plan that are still unused under the lock.
    async fn delete(
        &self,
        reader: &ClusterReader,
        writer: ClusterWriter,
        stop: &watch::Receiver<bool>,
        results: &mut BTreeMap<String, Deletion>,
    ) -> Result<(), CommandError> {
        let (maps, plan) = candidates(reader, &self.options).await?;
        let (unused, changed): (Vec<_>, Vec<_>) =
            self.plan.delete.iter().partition(|map| plan.delete.iter().any(|still| still == *map));
        for map in changed {
            let exists = maps.iter().any(|other| other.name == map.name);
            results.insert(map.name.clone(), if exists { Deletion::Changed } else { Deletion::Gone });
        }
        let one = |map: &ManagedConfigMap| {
            let (writer, map) = (writer.clone(), map.clone());
            async move { writer.delete_config_map(&map).await.map(|end| (map.name, end)) }
        };
        let mut deletions =
            stream::iter(unused.into_iter().take_while(|_| !*stop.borrow()).map(one)).buffer_unordered(CONCURRENCY);
        while let Some((name, end)) = deletions.try_next().await? {
            results.insert(name, end);
        }
        Ok(())
    }
}

impl FleetChange for Prune {
    const STOPPING: &'static str = "stopping: no further ConfigMap is deleted";

    fn question(&self) -> Option<String> {
        let number = Some(self.plan.delete.len()).filter(|number| *number > 0)?;
        Some(format!("Delete {} of fleet {}?", count(number, "ConfigMap"), self.options.fleet))
    }

    async fn make(
        &mut self,
        location: &FleetLocation,
        writer: ClusterWriter,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), CommandError> {
        let mut results = BTreeMap::new();
        let result = self.delete(&location.reader, writer, stop, &mut results).await;
        self.is_cut_short = *stop.borrow() && results.len() < self.plan.delete.len();
        self.report = self.report.clone().done(&results);
        result
    }

    fn exit(&self) -> Exit {
        if self.is_cut_short { Exit::NotConverged } else { Exit::Done }
    }
}

/// ConfigMaps in the cluster, and the plan to delete some.
///
/// Lists ConfigMaps before references, so that new references to a listed ConfigMap are seen. Reads the pool pointers, too:
/// another client may have changed their contents, which new nodes get, without the annotations in the list.
async fn candidates(
    reader: &ClusterReader,
    options: &PruneOptions,
) -> Result<(Vec<ManagedConfigMap>, PrunePlan), CommandError> {
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
    if violations.is_empty() { Ok((maps, plan)) } else { Err(CommandError::Violations(violations)) }
}
