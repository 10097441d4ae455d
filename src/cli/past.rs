//! The earlier revisions of a pool in a repository: what `history` lists and `rollback` goes back to.

use super::repository_args::RepositoryArgs;
use super::unknown::unknown;
use super::{CommandError, Terminal};
use crate::history::{Content, Log, Revision};
use crate::repository::history::{WalkEnd, walk};
use nodecfg_contract::names::PoolName;
use nodecfg_planning::desired::{Desired, Draft, draft};
use nodecfg_planning::snapshot::Snapshot;

/// The revisions of one pool.
pub(super) struct Past {
    pub(super) revisions: Vec<Revision>,
    pub(super) end: WalkEnd,
    /// What the revision that is asked about says, as far as it can be read.
    pub(super) draft: Draft,
    pub(super) snapshot: Snapshot,
}

impl Past {
    /// Reads it, at most `limit` revisions. That one is invalid is no failure.
    pub(super) async fn read(
        repository: &RepositoryArgs,
        pool: &PoolName,
        limit: usize,
        terminal: &mut Terminal,
    ) -> Result<Self, CommandError> {
        let options = repository.history_options()?;
        let snapshot = match repository.load(terminal).await {
            Ok(loaded) => loaded.snapshot,
            Err(CommandError::Invalid { snapshot, .. }) => *snapshot,
            Err(failure) => return Err(failure),
        };
        let draft = draft(&snapshot, repository.gate());
        let mut log = Log::new(pool.clone(), repository.gate(), limit);
        let end = walk(&options, |logged, snapshot| log.take(logged, snapshot))
            .map_err(|error| CommandError::Repository(Box::new(error)))?;
        let revisions = log.end(end);
        if revisions.iter().all(|revision| revision.content == Content::Absent) {
            return Err(unknown_pool(pool, draft.desired.as_ref()));
        }
        Ok(Self { revisions, end, draft, snapshot })
    }
}

/// No such pool.
pub(super) fn unknown_pool(pool: &PoolName, desired: Option<&Desired>) -> CommandError {
    let known: Vec<&str> = desired.iter().flat_map(|desired| desired.pools.keys()).map(PoolName::as_str).collect();
    let way_out = if known.is_empty() { "name the folder that holds nodecfg.yaml or pools/" } else { "" };
    unknown("pool", pool.as_str(), "in the repository", known, way_out)
}
