//! Revision history of a pool, for `history` and `rollback`.

use crate::arguments::repository::RepositoryArgs;
use crate::arguments::unknown_name::unknown_name;
use crate::history::{Content, Log, Revision};
use crate::repository::history::{WalkEnd, walk};
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Desired, Draft};

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
}

/// Error for an unknown pool.
pub(crate) fn unknown_pool(pool: &PoolName, desired: Option<&Desired>) -> CommandError {
    let known: Vec<&PoolName> = desired.iter().flat_map(|desired| desired.pools.keys()).collect();
    let help = if known.is_empty() { "name the folder that contains nodecfg.yaml or pools/" } else { "" };
    unknown_name("pool", pool, "in the repository", known, help)
}
