//! Revision history of a pool, for `history` and `rollback`.

use crate::arguments::cluster::{BoundClusterArgs, label_keys_of};
use crate::arguments::fleet::FleetLocation;
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::unknown_name::unknown_name;
use crate::history::{Content, Log, Revision, Subject, Whereabouts};
use crate::repository::history::{WalkEnd, known, walk};
use crate::status::Paused;
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use nodecfg_cluster::reading::observe::{list, read_contents};
use nodecfg_contract::names::{CommitId, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Desired, Draft};
use nodecfg_observed::ConfigMapKey;
use nodecfg_plan::PointerState;

/// The revisions of one pool.
pub(crate) struct PoolHistory {
    pub(crate) revisions: Vec<Revision>,
    pub(crate) end: WalkEnd,
    /// Content of the requested revision, as far as it is valid.
    pub(crate) draft: Draft,
    pub(crate) snapshot: Snapshot,
}

impl PoolHistory {
    /// Reads at most `limit` revisions. Invalid revisions are included.
    pub(crate) async fn read(
        repository: &RepositoryArgs,
        pool: &PoolName,
        limit: usize,
        terminal: &mut Terminal,
    ) -> Result<Self, CommandError> {
        let options = repository.history_options()?;
        let (snapshot, draft) = repository.draft(repository.revision.signers.read()?, terminal).await?;
        let mut log = Log::new(pool.clone(), repository.gate(), limit);
        let end = walk(&options, |logged, snapshot| log.push(logged, snapshot))?;
        let revisions = log.end(end);
        if revisions.iter().all(|revision| revision.content == Content::Absent) {
            return Err(unknown_pool(pool, draft.desired.as_ref()));
        }
        Ok(Self { revisions, end, draft, snapshot })
    }

    /// Counts the nodes on each revision, and on other configurations, and reads the pause of the fleet. Warns if another
    /// client changed the pointer of the pool.
    pub(crate) async fn whereabouts(
        &mut self,
        repository: &RepositoryArgs,
        pool: &PoolName,
        desired: &Desired,
        bound: &BoundClusterArgs,
    ) -> Result<(Whereabouts, Option<Paused>), CommandError> {
        let here = Some(desired).filter(|desired| desired.pools.contains_key(pool));
        let location = bound.locate(desired, label_keys_of(here)).await?;
        let paused = location.paused(Some(desired)).await?;
        let FleetLocation { reader, fleet, namespace } = location;
        let mut observed = list(&reader, Some(namespace.as_str())).await?;
        let name = PoolPointer::name(&fleet, pool);
        let key = ConfigMapKey { namespace: namespace.to_string(), name: name.clone() };
        let pointer = (desired.pool_pointers || observed.pointers.contains_key(&key)).then_some(key);
        read_contents(&reader, namespace.as_str(), pointer, &mut observed).await?;
        if let PointerState::Changed(error) = PointerState::of(&fleet, pool, &namespace, &observed) {
            tracing::warn!(
                "another client changed the pointer {namespace}/{name}, with which new nodes start: {error}"
            );
        }
        let commits = observed.config_maps.values().filter_map(|map| CommitId::new(map.commit.clone()?).ok());
        let known = known(&repository.history_options()?, commits)?;
        let subject = Subject { fleet: &fleet, pool, namespace: &namespace, desired: here };
        Ok((subject.find(&mut self.revisions, &observed, &known), paused))
    }
}

/// Error for an unknown pool.
pub(crate) fn unknown_pool(pool: &PoolName, desired: Option<&Desired>) -> CommandError {
    let known: Vec<&PoolName> = desired.iter().flat_map(|desired| desired.pools.keys()).collect();
    let help = if known.is_empty() { "name the folder that contains nodecfg.yaml or pools/" } else { "" };
    unknown_name("pool", pool, "in the repository", known, help)
}
